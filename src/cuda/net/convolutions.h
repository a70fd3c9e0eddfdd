/* Convolutions that cuDNN computes. */
#ifndef L3A_CUDA_NET_CONVOLUTIONS_H
#define L3A_CUDA_NET_CONVOLUTIONS_H

#include "cuda/device.h"
#include "cuda/net/cudnn.h"
#include "cuda/net/kernels.h"

enum { PRODUCT_BYTES = 32 << 20 }; /* of work space for a product or a convolution */

/* What layers must have in common to share a plan. It is compared byte by byte, so unused bytes must be zero. */
struct convolution_shape {
    struct windows windows;
    size_t batch, groups;
    enum number_type type;
    enum activation activation; /* none, RELU or LEAKY_RELU */
    float slope;
    int biased, added;
};

struct convolution;

/* Those of a network. */
struct convolutions {
    const struct cudnn_functions *cudnn; /* NULL: none, and everything is unfolded */
    cudnnHandle_t handle;
    struct convolution **made;
    size_t count, capacity;
};

void convolutions_open(struct device *device, struct convolutions *all);
void convolutions_close(struct device *device, struct convolutions *all);
/* *found is NULL if cuDNN cannot compute it. */
l3a_status convolution_find(struct device *device, struct convolutions *all, const struct convolution_shape *shape,
                            const struct convolution **found);
/* work: PRODUCT_BYTES. `to` holds what is added. */
l3a_status convolution_run(struct device *device, const struct convolutions *all, const struct convolution *what, const void *from,
                           const void *factors, const void *bias, void *to, void *work);

#endif
