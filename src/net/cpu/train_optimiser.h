/* Steps of optimisers (net/back_end.h) on the processor, by the loops of training. */
#ifndef L3A_TRAIN_OPTIMISER_H
#define L3A_TRAIN_OPTIMISER_H

#include "net/cpu/train_kernels.h"

/* Changes `count` numbers that are not a network's, such as those of a head. square: SGD has none, and it may be NULL. */
void optimiser_step(const struct network_step *step, const struct parameter_use *use, size_t count, const float *gradient,
                    float *moment, float *square, float *values);

#endif
