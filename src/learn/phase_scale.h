/* How large the features of a phase are, and which row is the largest. One that is far larger than all others would leave nothing
 * of them in the sums. */
#ifndef L3A_PHASE_SCALE_H
#define L3A_PHASE_SCALE_H

#include "base/context.h"

struct feature_scale {
    double sum; /* of ‖z‖² over all rows */
    uint64_t rows;
    double largest; /* ‖z‖² of the largest row */
    uint64_t row;
    size_t column; /* of the largest number in that row */
    float value;
};

/* Reads the features of images once: checks that they are finite, and adds them to the scale. */
l3a_status measure_features(const l3a_model *model, const float *features, size_t images, struct feature_scale *scale);
/* ‖x‖² of the largest row, about. */
double largest_square(const l3a_model *model, const struct feature_scale *scale);
/* Fails if a row of the model's phase is too large. */
l3a_status check_scale(const l3a_model *model, const struct feature_scale *scale);

#endif
