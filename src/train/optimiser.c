/* Adam (Kingma and Ba 2015, algorithm 1), with their β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸: for the t-th step, from 1,
 *   m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  w ← w − rate · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε).
 *
 * One cycle (Smith and Topin 2018, in PyTorch's form): half a cosine up from highest/25 during the first fifth of the steps, and
 * half a cosine down to highest/250000 over the rest. */
#include "train/optimiser.h"

#include <math.h>

static double half_cosine(double from, double to, double part) {
    return to + (from - to) * (1 + cos(3.14159265358979323846 * part)) / 2;
}

double one_cycle(size_t step, size_t steps, double highest) {
    const double top = 0.2 * (double)steps - 1, end = (double)steps - 1, at = (double)step;
    const double first = highest / 25, last = first / 1e4;
    if (top > 0 && at <= top) {
        return half_cosine(first, highest, at / top);
    }
    const double from = top > 0 ? top : 0;
    return half_cosine(highest, last, end > from ? (at - from) / (end - from) : 0);
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
