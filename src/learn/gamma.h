/* Chooses γ from the images of a phase (the setting `gamma` auto), without holding any of them out. For ridge regression on the
 * rows of a sample, X̃ = Ω^½ X and Ỹ = Ω^½ Ŷ, the error of each row when it alone is left out is known in closed form:
 *
 *   E(γ) = Σ_i ‖ (H Ỹ)_i / H_ii ‖²     H = (X̃X̃ᵀ + γI)⁻¹
 *
 * This takes 4n³/3 operations for n rows and each γ. γ is the ratio of noise to signal and changes little with n, so a sample is
 * enough. The search starts at a third of the mean of the gram's diagonal and follows E downhill by factors of √10, at the lowest
 * to a hundredth of that mean. A parabola in log γ through the last three values gives the minimum, which is rounded to two
 * digits. If E says nothing, because there are fewer than 100 rows or all rows show the same classes, γ is a tenth of that mean. */
#ifndef L3A_GAMMA_H
#define L3A_GAMMA_H

#include "base/context.h"
#include "base/matrix.h"

enum { GAMMA_ROWS = 2048 };

struct gamma_sample {
    real type;
    size_t dim, classes, capacity, count;
    void *rows;      /* X̃ [capacity x dim] */
    double *targets; /* Ỹ, transposed: [classes x capacity] */
};

l3a_status gamma_sample_create(l3a_context *context, real type, size_t dim, size_t classes, size_t rows,
                               struct gamma_sample *sample);
void gamma_sample_free(l3a_context *context, struct gamma_sample *sample);
/* Whether row `index` of `rows` rows belongs to the sample, which is spread evenly over them. */
bool gamma_sample_wants(const struct gamma_sample *sample, uint64_t index, uint64_t rows);
/* Adds a row and its targets, both scaled by √ω and in the sample's type. */
void gamma_sample_add(struct gamma_sample *sample, const void *row, const void *targets);
l3a_status choose_gamma(l3a_context *context, const struct gamma_sample *sample, double *gamma);

#endif
