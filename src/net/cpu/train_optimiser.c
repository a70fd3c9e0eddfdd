#include "net/cpu/train_optimiser.h"

#include <math.h>

struct step_numbers step_numbers_of(const struct network_step *step, const struct parameter_use *use) {
    const double number = (double)step->number;
    return (struct step_numbers){.optimiser = step->optimiser,
                                 .rate = (float)(step->rate * (double)use->rate),
                                 .momentum = (float)step->momentum,
                                 .momentum_rest = (float)(1 - step->momentum),
                                 .square_rest = (float)(1 - step->square),
                                 .epsilon = (float)step->epsilon,
                                 .decay = use->decay,
                                 .scale = (float)step->scale,
                                 .mean_share = (float)(1 / (1 - pow(step->momentum, number))),
                                 .square_share = (float)(1 / sqrt(1 - pow(step->square, number)))};
}

void optimiser_step(const struct network_step *step, const struct parameter_use *use, size_t count, const float *gradient,
                    float *moment, float *square, float *values) {
    const struct step_numbers numbers = step_numbers_of(step, use);
    train_kernels_pick()->step(&numbers, gradient, values, moment, square, 0, count);
}
