/* Adam, and the rate it steps at. */
#ifndef L3A_OPTIMISER_H
#define L3A_OPTIMISER_H

#include <stddef.h>

/* The rate of a step, from 0, of so many: one cycle up to `highest` and down again. */
double one_cycle(size_t step, size_t steps, double highest);

struct adam {
    size_t steps; /* that were made */
    float *mean, *square;
};

void adam_step(struct adam *adam, size_t count, double rate, const float *gradient, float *weights);

#endif
