/* What a back end must do for networks: the layers that are matrix products in disguise, and where it wants channels to lie. All
 * other layers are loops over numbers (kernels.h) that work with any back end's layout. onednn.c and blas.c fill a table each;
 * nothing else knows the names of those libraries. */
#ifndef L3A_ENGINE_H
#define L3A_ENGINE_H

#include "net/network.h"

/* How a value lies in memory: channels in blocks, and within a block, pixel after pixel, `block` channels each. So block = 1 is
 * planes (NCHW), block = channels is NHWC and rows of tokens, 16 is oneDNN's nChw16c. Channels beyond the real ones are zero. */
struct layout {
    size_t channels, padded, height, width, block;
};

/* Of one picture. */
static inline size_t layout_size(const struct layout *layout) {
    return layout->padded * layout->height * layout->width;
}

struct engine {
    const char *name;
    l3a_status (*open)(l3a_context *context, void **state);
    void (*close)(void *state);
    /* The block of a value that a kernel makes for a convolution to read. */
    size_t (*block)(const void *state, size_t channels);
    /* Makes ready a convolution or a linear layer for so many pictures, with its weights packed. `to` comes with its shape and
     * leaves with its layout; a layer that adds has the layout of what it adds to. twin: the same layer prepared for another number
     * of pictures, or NULL; what it packed may be shared, so it must be released later. scratch: floats that run() needs. */
    l3a_status (*prepare)(void *state, const struct layer *layer, size_t batch, const struct layout *from, const void *twin,
                          struct layout *to, size_t *scratch, void **operation);
    /* A layer that adds finds in output what it is added to. */
    l3a_status (*run)(void *operation, const float *input, float *output, float *scratch);
    void (*release)(void *operation);
    /* c (m x n) = scale · a op(b), row-major, on the calling thread alone; op transposes where asked. */
    void (*multiply)(bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a, size_t a_stride,
                     const float *b, size_t b_stride, float *c, size_t c_stride);
};

extern const struct engine blas_engine;
#ifdef L3A_HAVE_ONEDNN
extern const struct engine onednn_engine;
#endif
/* The fastest engine of this build. */
const struct engine *engine_best(void);

#endif
