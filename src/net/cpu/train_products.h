/* What a matrix library provides to training on the processor. All values have layouts (products.h) that the caller chose; an
 * operation that wants another one converts them in its scratch. */
#ifndef L3A_TRAIN_PRODUCTS_H
#define L3A_TRAIN_PRODUCTS_H

#include "net/cpu/products.h"

/* A convolution, to be prepared for `pictures` pictures. */
struct convolution {
    const struct net_layer *layer; /* lives longer than the operation */
    size_t pictures;
    struct layout from, to;
    bool in_gradient, gradients; /* wanted: that of the input, and those of the parameters */
    size_t scratch;              /* after: the floats that each call needs */
};

struct train_products {
    const struct products *running; /* for loops that are those of networks that only run */
    l3a_status (*open)(l3a_context *context, void **state);
    void (*close)(void *state);
    size_t (*block)(const void *state, size_t channels);
    l3a_status (*prepare)(void *state, struct convolution *what, void **operation);
    void (*release)(void *operation);
    /* Factors and their gradients are as in the checkpoint. bias may be NULL. */
    l3a_status (*forward)(void *operation, const float *input, const float *factors, const float *bias, float *output,
                          float *scratch);
    l3a_status (*in_gradient)(void *operation, const float *out_gradient, const float *factors, float *in_gradient, float *scratch);
    /* bias_gradient is not NULL if the layer has a bias. */
    l3a_status (*gradients)(void *operation, const float *input, const float *out_gradient, float *factor_gradient,
                            float *bias_gradient, float *scratch);
    /* c (m x n) = scale · op(a) op(b) + keep · c, row-major. On all threads if it is called outside of a parallel loop. false:
     * there was no memory for it. */
    bool (*multiply)(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a,
                     size_t a_stride, const float *b, size_t b_stride, float keep, float *c, size_t c_stride);
};

#endif
