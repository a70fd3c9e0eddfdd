/* Gradients of losses on the scores of a logistic head. */
#ifndef L3A_LOSS_H
#define L3A_LOSS_H

#include <stddef.h>

typedef enum l3a_loss { L3A_LOSS_ASYMMETRIC, L3A_LOSS_BINARY } l3a_loss;

/* gradient[i, k] = scale[i] · ∂loss/∂score[i, k] for targets of 0 and 1; all of them [rows x classes]. */
void loss_gradient(l3a_loss loss, size_t rows, size_t classes, const float *scores, const float *targets, const float *scale,
                   float *gradient);
/* gradient[i, k] += scale · ∂/∂score[i, k] of the binary cross-entropy against the probability of old[i, k], for the first
 * old_classes of each row's classes; old is [rows x old_classes]. */
void distil_gradient(size_t rows, size_t classes, size_t old_classes, const float *scores, const float *old, float scale,
                     float *gradient);

#endif
