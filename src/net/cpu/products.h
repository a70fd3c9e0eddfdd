/* What a back end must provide: the layers that amount to matrix products, and the memory layout that it prefers. All other layers
 * are plain loops (kernels.h) that work with any layout. onednn.c and blas.c each fill in one table; nothing else depends on those
 * libraries. */
#ifndef L3A_ENGINE_H
#define L3A_ENGINE_H

#include "net/network.h"

/* How a value is stored in memory: channels are divided into blocks, and within a block each pixel has `block` channels. So block =
 * 1 means planes (NCHW), block = channels means NHWC and rows of tokens, and 16 means oneDNN's nChw16c. Padding channels are zero.
 */
struct layout {
    size_t channels, padded, height, width, block;
};

/* The number of floats for one picture. */
static inline size_t layout_size(const struct layout *layout) {
    return layout->padded * layout->height * layout->width;
}

struct engine {
    const char *name;
    l3a_status (*open)(l3a_context *context, void **state);
    void (*close)(void *state);
    /* The block size for a value that a kernel produces and a convolution reads. */
    size_t (*block)(const void *state, size_t channels);
    /* Prepares a convolution or a linear layer for `batch` pictures, and packs its weights. On entry `to` has its shape, on return
     * its layout; a layer that adds keeps the layout of the value it adds to. twin: the same layer prepared for another number of
     * pictures, or NULL; its packed weights may be shared, so it must be released after this one. scratch: floats that run()
     * needs. */
    l3a_status (*prepare)(void *state, const struct layer *layer, size_t batch, const struct layout *from, const void *twin,
                          struct layout *to, size_t *scratch, void **operation);
    /* For a layer that adds, `output` holds the value to add to. */
    l3a_status (*run)(void *operation, const float *input, float *output, float *scratch);
    void (*release)(void *operation);
    /* c (m x n) = scale · a op(b), row-major, on the calling thread only; op transposes b if transpose_b is set. */
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
