/* The layers that are not matrix products, as plain loops. The loops are written once, in kernels_body.h, and compiled for each
 * kind of processor; kernels_pick() returns the best ones that this machine can run. */
#ifndef L3A_KERNELS_H
#define L3A_KERNELS_H

#include "net/cpu/products.h"

struct kernel_call {
    const struct net_layer *layer;
    const struct products *products;
    struct layout from, to, beside; /* of input, output and added: those of bf16 point to numbers of that type */
    const float *input, *added;
    float *output;
};

/* Runs tasks [first, last) of a layer. Different tasks write to different places. */
typedef void kernel_function(const struct kernel_call *call, size_t first, size_t last);

struct kernels {
    const char *name;
    kernel_function *run[LAYER_KINDS]; /* NULL for matrix products, and for what fuse.c leaves nowhere */
    /* Adds the bias (may be NULL) to output [rows x width], and applies the activation. For products that cannot do it themselves.
     */
    void (*finish)(enum activation activation, float slope, const float *bias, size_t rows, size_t width, float *output);
    /* Rounds numbers [first, last) to bf16. */
    void (*round)(const float *from, size_t first, size_t last, uint16_t *to);
};

/* Whether a kernel can read and write bf16; a norm that is wider than this cannot. */
enum { NORM_CHANNELS = 8192 };
bool kernel_reads_bfloat16(const struct net_layer *layer);
bool kernel_writes_bfloat16(const struct net_layer *layer);
/* Whether its output must have the type of its input, and of what it adds. */
bool kernel_keeps_type(const struct net_layer *layer);

/* The number of tasks of a layer for `batch` pictures. */
size_t kernel_tasks(const struct kernel_call *call, size_t batch);
const struct kernels *kernels_pick(void);

extern const struct kernels kernels_plain;
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

#endif
