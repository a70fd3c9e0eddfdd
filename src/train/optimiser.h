/* Steps of gradient descent, and their rate. */
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

/* A cosine goes from the highest rate to 0 after the last step; a quarter of one, nearly to 0 with the last step. */
enum schedule { SCHEDULE_ONE_CYCLE, SCHEDULE_COSINE, SCHEDULE_CONSTANT, SCHEDULE_QUARTER_COSINE };

/* The rate of step `step`, counted from 0, of `steps`. */
double schedule_rate(enum schedule schedule, size_t step, size_t steps, double highest);
/* The momentum that goes with it: one cycle goes from 0.95 down to 0.85 and up again; the others have 0.9. */
double schedule_momentum(enum schedule schedule, size_t step, size_t steps);

#endif
