/* The layers that are not matrix products, as plain loops. The loops are written once, in kernels_body.h, and compiled for each
 * kind of processor; kernels_pick() returns the best ones that this machine can run. */
#ifndef L3A_KERNELS_H
#define L3A_KERNELS_H

#include "net/cpu/products.h"

struct kernel_call {
    const struct net_layer *layer;
    const struct products *products;
    struct layout from, to, beside; /* of input, output and added */
    const float *input, *added;
    float *output;
};

/* Runs tasks [first, last) of a layer. Different tasks write to different places. */
typedef void kernel_function(const struct kernel_call *call, size_t first, size_t last);

struct kernels {
    const char *name;
    kernel_function *run[LAYER_JOIN + 1]; /* NULL for matrix products */
    /* Adds the bias (may be NULL) to output [rows x width], and applies the activation. For products that cannot do it themselves.
     */
    void (*finish)(enum activation activation, float slope, const float *bias, size_t rows, size_t width, float *output);
};

/* The number of tasks of a layer for `batch` pictures. */
size_t kernel_tasks(const struct kernel_call *call, size_t batch);
const struct kernels *kernels_pick(void);

extern const struct kernels kernels_plain;
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

#endif
