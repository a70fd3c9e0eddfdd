/* Adam, and the rate of its steps. */
#ifndef L3A_OPTIMISER_H
#define L3A_OPTIMISER_H

#include <stddef.h>

/* The rate of step `step`, counted from 0, of `steps` steps: one cycle up to `highest` and down again. */
double one_cycle(size_t step, size_t steps, double highest);

struct adam {
    size_t steps; /* made so far */
    float *mean, *square;
};

void adam_step(struct adam *adam, size_t count, double rate, const float *gradient, float *coefficients);

#endif
