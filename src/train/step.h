/* Steps of numbers that the host has, such as those of a head, as back ends of networks make them. */
#ifndef L3A_STEP_H
#define L3A_STEP_H

#include "net/back_end.h"

/* square: SGD has none, and it may be NULL. */
void optimiser_step(const struct network_step *step, const struct parameter_use *use, size_t count, const float *gradient,
                    float *moment, float *square, float *values);

#endif
