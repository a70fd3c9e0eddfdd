/* How a value is stored in memory: channels are divided into blocks, and within a block each pixel has `block` channels. So block =
 * 1 means planes (NCHW), block = channels means NHWC and rows of tokens, and 16 means oneDNN's nChw16c. Padding channels are zero.
 */
#ifndef L3A_NET_LAYOUT_H
#define L3A_NET_LAYOUT_H

#include "net/types.h"

struct layout {
    size_t channels, padded, height, width, block;
    enum number_type type;
};

/* How many numbers one picture has. */
static inline size_t layout_size(const struct layout *layout) {
    return layout->padded * layout->height * layout->width;
}

#endif
