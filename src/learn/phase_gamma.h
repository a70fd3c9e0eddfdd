/* Chooses γ from the images of a phase (the setting `gamma` auto), without holding any of them out. For ridge regression on the
 * rows of a sample, X̃ = Ω^½ X and Ỹ = Ω^½ Ŷ, the error of each row when it alone is left out is known in closed form:
 *
 *   E(γ) = Σ_i ‖ (H Ỹ)_i / H_ii ‖²     H = (X̃X̃ᵀ + γI)⁻¹
 *
 * This takes 4n³/3 operations for n rows and each γ. γ is the ratio of noise to signal and changes little with n, so a sample is
 * enough. The search starts at a third of the mean of the gram's diagonal and follows E downhill by factors of √10, at the lowest
 * to a hundredth of that mean. A parabola in log γ through the last three values gives the minimum, which is rounded to two
 * digits. If E says nothing, because there are fewer than 100 rows or all rows show the same classes, γ is that mean: with few
 * images it is near the best, and a tenth of it is far too small (docs/beyond.md).
 *
 * With views, the rows are those of whole pictures: the best γ is the same with and without crops, and an image is one row, so that
 * many images fit into the sample. Leaving out all rows of fewer images finds a worse γ (docs/views.md).
 *
 * The sample keeps features, not expanded rows, so it is small, and processes that share a phase can add up theirs. */
#ifndef L3A_PHASE_GAMMA_H
#define L3A_PHASE_GAMMA_H

#include "algebra/algebra.h"

enum { GAMMA_ROWS = 2048 };

struct gamma_sample {
    size_t width, classes, capacity;
    double *values;  /* one array: features [capacity x width], ω [capacity], then Ỹ transposed, [classes x capacity] */
    uint64_t images; /* that the sample is spread over */
};

/* Fills it with zeros. `images` are to come. */
l3a_status gamma_sample_create(l3a_context *context, size_t width, size_t classes, uint64_t images, struct gamma_sample *sample);
void gamma_sample_free(l3a_context *context, struct gamma_sample *sample);
uint64_t gamma_sample_bytes(size_t width, size_t classes, uint64_t images);
/* Adds an image, whose number is `index`, if it belongs to the sample. labels: 1 if present. */
void gamma_sample_offer(const struct gamma_sample *sample, uint64_t index, const float *features, double weight,
                        const int8_t *labels);
/* The numbers of the sample, for adding up the samples of several processes. */
size_t gamma_sample_numbers(const struct gamma_sample *sample);
/* rows: room for the whole sample, of the layer that expands it. */
l3a_status choose_gamma(struct block *rows, const struct gamma_sample *sample, double *gamma);
/* Bytes that this takes. */
uint64_t choose_gamma_bytes(size_t width, size_t classes, uint64_t images, real type);

#endif
