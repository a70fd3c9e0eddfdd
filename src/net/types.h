/* What the kernels of a back end know of networks. They may be written in C++. */
#ifndef L3A_NET_TYPES_H
#define L3A_NET_TYPES_H

#include <stddef.h>

/* The numbers that matrix products multiply. Sums are float32 in any case. */
enum number_type { NUMBER_FLOAT32, NUMBER_BFLOAT16, NUMBER_FLOAT16 };

enum activation { LINEAR_ACTIVATION, RELU, LEAKY_RELU, GELU, QUICK_GELU, TANH_GELU };

/* channels x height x width of one picture. For tokens, height is their number and width is 1. */
struct shape {
    size_t channels, height, width;
};

#endif
