/* What the kernels of a back end know of networks. They may be written in C++. */
#ifndef L3A_NET_TYPES_H
#define L3A_NET_TYPES_H

#include <stddef.h>

/* The numbers that matrix products multiply. Sums are float32 in any case. */
enum number_type { NUMBER_FLOAT32, NUMBER_BFLOAT16, NUMBER_FLOAT16 };

enum activation { LINEAR_ACTIVATION, RELU, LEAKY_RELU, GELU, QUICK_GELU, TANH_GELU };

enum optimiser { OPTIMISER_SGD, OPTIMISER_ADAM, OPTIMISER_ADAMW };

/* The numbers of a step of an optimiser, whose formulas are in back_end.h. */
struct step_numbers {
    enum optimiser optimiser;
    float rate, momentum, momentum_rest, square_rest, epsilon, decay, scale; /* rest: 1 − it, rounded once */
    float mean_share, square_share;                                          /* 1 / (1 − momentum^t), 1 / √(1 − square^t) */
};

/* channels x height x width of one picture. For tokens, height is their number and width is 1. */
struct shape {
    size_t channels, height, width;
};

#endif
