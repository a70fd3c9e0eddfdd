/* What oneDNN and BLAS each provide to a network on the processor: the layers that amount to matrix products, and the memory layout
 * that they prefer. All other layers are plain loops (kernels.h) that work with any layout. */
#ifndef L3A_PRODUCTS_H
#define L3A_PRODUCTS_H

#include "net/back_end.h"
#include "net/layout.h"

/* A convolution or a linear layer, to be prepared for `batch` pictures. */
struct product {
    const struct net_layer *layer; /* without factors; lives longer than the operation */
    const float *factors;          /* only while it is prepared */
    size_t batch;
    struct layout from; /* its type is that of the packed factors, too */
    struct layout to;   /* before: the shape and the type, or the layout of the value to add to, which is kept; after: the layout */
    size_t scratch;     /* after: the floats that run() needs */
};

struct products {
    l3a_status (*open)(l3a_context *context, void **state);
    void (*close)(void *state);
    /* The block size for a value that a kernel produces and a convolution reads. */
    size_t (*block)(const void *state, size_t channels);
    /* Prepares a layer and packs its factors. twin: the same layer prepared for another number of pictures, or NULL; its packed
     * factors may be shared, so it must be released after this one. */
    l3a_status (*prepare)(void *state, struct product *product, const void *twin, void **operation);
    /* For a layer that adds, `output` holds the value to add to. */
    l3a_status (*run)(void *operation, const void *input, void *output, float *scratch);
    void (*release)(void *operation);
    /* c (m x n) = scale · a op(b), row-major, on the calling thread only; op transposes b if transpose_b is set. */
    void (*multiply)(bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a, size_t a_stride,
                     const float *b, size_t b_stride, float *c, size_t c_stride);
};

#endif
