/* Runs the steps of training, forward and backward. */
#ifndef L3A_TRAIN_RUN_H
#define L3A_TRAIN_RUN_H

#include "net/cpu/train_store.h"
#include "net/train_program.h"

/* The numbers that a run works on. */
struct train_numbers {
    const struct train_products *products;
    const struct train_store *store;
    float *arena, *statistics;
};

/* The room for gradients of a convolution's factors and bias that are not wanted. */
size_t train_unwanted_floats(const struct train_step *step);
/* Forward. training: batch norms measure these pictures. */
l3a_status train_forward(const struct train_program *program, const struct train_numbers *numbers, bool training,
                         const float *pictures, float *const *outputs);
l3a_status train_backward(const struct train_program *program, const struct train_numbers *numbers, const float *const *gradients);

#endif
