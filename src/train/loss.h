/* Gradients of losses on the scores of a logistic head. */
#ifndef L3A_LOSS_H
#define L3A_LOSS_H

#include <stddef.h>
#include <stdint.h>

typedef enum l3a_loss { L3A_LOSS_ASYMMETRIC, L3A_LOSS_BINARY } l3a_loss;

/* gradient[i, k] = scale[i] · ∂loss/∂score[i, k] for targets of 0 and 1; all of them [rows x classes]. */
void loss_gradient(l3a_loss loss, size_t rows, size_t classes, const float *scores, const float *targets, const float *scale,
                   float *gradient);
/* gradient[i, k] += scale · ∂/∂score[i, k] of the binary cross-entropy against the probability of old[i, k], for the first
 * old_classes of each row's classes; old is [rows x old_classes]. */
void distil_gradient(size_t rows, size_t classes, size_t old_classes, const float *scores, const float *old, float scale,
                     float *gradient);
/* The loss of a batch, summed over rows and classes, and its gradient by the scores, as the training of networks has it: a label is
 * 1, 0 or, if it is unknown, -1, which counts nothing; and the focusing factor q⁴ of the asymmetric loss is a constant in the
 * gradient, as in its authors' program. All of them [rows x classes]. */
double loss_of_labels(l3a_loss loss, size_t rows, size_t classes, const float *scores, const int8_t *labels, float *gradient);

/* The same with targets of 0 and 1, where each row counts `scale` times. */
double loss_of_targets(l3a_loss loss, size_t rows, size_t classes, const float *scores, const float *targets, const float *scale,
                       float *gradient);

#endif
