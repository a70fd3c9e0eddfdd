#include "net/cpu/train_optimiser.h"
#include "net/train_parameters.h"

void optimiser_step(const struct network_step *step, const struct parameter_use *use, size_t count, const float *gradient,
                    float *moment, float *square, float *values) {
    const struct step_numbers numbers = step_numbers_of(step, use);
    train_kernels_pick()->step(&numbers, gradient, values, moment, square, 0, count);
}
