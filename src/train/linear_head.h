/* A linear head on the features of a network, on the host: scores = features Wᵀ + b. */
#ifndef L3A_LINEAR_HEAD_H
#define L3A_LINEAR_HEAD_H

#include "base/memory.h"
#include "net/back_end.h"

struct linear_head {
    size_t classes, width;
    size_t numbers;                             /* of W [classes x width] and, after it, b [classes] */
    float *values, *gradient, *moment, *square; /* of so many */
};

/* W is drawn from N(0, 0.01²) by the seed, and b is 0. */
l3a_status linear_head_make(l3a_context *context, size_t classes, size_t width, uint64_t seed, struct linear_head *head);
void linear_head_free(l3a_context *context, struct linear_head *head);
/* `values` are the head's, or others of the same size. */
void linear_head_score(l3a_context *context, const struct linear_head *head, const float *values, const float *features,
                       size_t rows, float *scores);
/* From the gradient by the scores, sets that of the head and that by the features. */
void linear_head_backward(l3a_context *context, struct linear_head *head, const float *features, const float *by_scores,
                          size_t rows, float *by_features);
double linear_head_square(const struct linear_head *head);
/* Only W decays. */
void linear_head_step(struct linear_head *head, const struct network_step *step, double decay);

/* Steps rows of coefficients of which the last is a bias, which does not decay. */
void linear_rows_step(const struct network_step *step, double decay, size_t rows, size_t columns, const float *gradient,
                      float *moment, float *square, float *values);

#endif
