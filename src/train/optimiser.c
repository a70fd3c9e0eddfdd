/* Adam (Kingma and Ba 2015, algorithm 1), with their β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸: for the t-th step, from 1,
 *   m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  w ← w − rate · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε).
 *
 * One cycle (Smith and Topin 2018, in PyTorch's form): half a cosine up from highest/25 during the first fifth of the steps, and
 * half a cosine down to highest/250000 over the rest. The momentum mirrors it. */
#include "train/optimiser.h"

#include <math.h>

static double half_cosine(double from, double to, double part) {
    return to + (from - to) * (1 + cos(3.14159265358979323846 * part)) / 2;
}

/* Half a cosine from `first` to `top` during the first fifth of the steps, and another one to `last`. */
static double cycle(size_t step, size_t steps, double first, double top, double last) {
    const double turn = 0.2 * (double)steps - 1, end = (double)steps - 1, at = (double)step;
    if (turn > 0 && at <= turn) {
        return half_cosine(first, top, at / turn);
    }
    const double from = turn > 0 ? turn : 0;
    return half_cosine(top, last, end > from ? (at - from) / (end - from) : 0);
}

double one_cycle(size_t step, size_t steps, double highest) {
    const double first = highest / 25, last = first / 1e4;
    return cycle(step, steps, first, highest, last);
}

double schedule_rate(enum schedule schedule, size_t step, size_t steps, double highest) {
    switch (schedule) {
    case SCHEDULE_ONE_CYCLE: return one_cycle(step, steps, highest);
    case SCHEDULE_COSINE: return half_cosine(highest, 0, (double)step / (double)steps);
    case SCHEDULE_QUARTER_COSINE:
        return highest * cos(0.495 * 3.14159265358979323846 * (double)step / (double)(steps > 1 ? steps - 1 : 1));
    default: return highest;
    }
}

double schedule_momentum(enum schedule schedule, size_t step, size_t steps) {
    return schedule == SCHEDULE_ONE_CYCLE ? cycle(step, steps, 0.95, 0.85, 0.95) : 0.9;
}

void adam_step(struct adam *adam, size_t count, double rate, const float *gradient, float *coefficients) {
    const float keep = 0.9F, keep_square = 0.999F, small = 1e-8F;
    adam->steps++;
    const double steps = (double)adam->steps;
    const float step = (float)(rate / (1 - pow(0.9, steps))), correction = (float)(1 / (1 - pow(0.999, steps)));
    const float *restrict g = gradient;
    float *restrict m = adam->mean, *restrict v = adam->square, *restrict w = coefficients;
    for (size_t i = 0; i < count; i++) {
        m[i] = keep * m[i] + (1.0F - keep) * g[i];
        v[i] = keep_square * v[i] + (1.0F - keep_square) * g[i] * g[i];
        w[i] -= step * m[i] / (sqrtf(v[i] * correction) + small);
    }
}
