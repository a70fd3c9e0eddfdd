/* Losses of one score s and its target y, with p = σ(s) = 1 / (1 + e^−s).
 *
 * Binary cross-entropy: −y log p − (1 − y) log(1 − p); its derivative with respect to s is p − y, for a soft target as well.
 * Asymmetric loss (Ridnik et al. 2021, equations 4 to 7) with γ+ = 0, γ− = 4 and a margin of 0.05:
 *   y = 1: −log p,              by s: p − 1
 *   y = 0: −q⁴ log(1 − q),      by s: p (1 − p) (q⁴ / (1 − q) − 4 q³ log(1 − q)),      q = max(p − 0.05, 0).
 * Easy negatives, with p below the margin, contribute nothing. The derivative includes that of the focusing factor q⁴. */
#include "train/loss.h"

#include "base/vector_math.h"

#include <math.h>
#include <stdbool.h>

static const float MARGIN = 0.05F;

INLINE float asymmetric(float score, float target) {
    const float p = sigmoid(score), above = p - MARGIN, q = above > 0 ? above : 0;
    const float q3 = q * q * q, rest = 1.0F - q;
    const float negative = p * (1.0F - p) * q3 * (q / rest - 4.0F * logarithm(rest));
    return target * (p - 1.0F) + (1.0F - target) * negative;
}

void loss_gradient(l3a_loss loss, size_t rows, size_t classes, const float *scores, const float *targets, const float *scale,
                   float *gradient) {
    for (size_t i = 0; i < rows; i++) {
        const float *restrict s = scores + i * classes, *restrict y = targets + i * classes;
        float *restrict g = gradient + i * classes;
        const float factor = scale[i];
        if (loss == L3A_LOSS_ASYMMETRIC) {
            for (size_t k = 0; k < classes; k++) {
                g[k] = factor * asymmetric(s[k], y[k]);
            }
        } else {
            for (size_t k = 0; k < classes; k++) {
                g[k] = factor * (sigmoid(s[k]) - y[k]);
            }
        }
    }
}

void distil_gradient(size_t rows, size_t classes, size_t old_classes, const float *scores, const float *old, float scale,
                     float *gradient) {
    for (size_t i = 0; i < rows; i++) {
        const float *restrict s = scores + i * classes, *restrict t = old + i * old_classes;
        float *restrict g = gradient + i * classes;
        for (size_t k = 0; k < old_classes; k++) {
            g[k] += scale * (sigmoid(s[k]) - sigmoid(t[k]));
        }
    }
}

/* log(1 + e^x) */
static double soft_plus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double loss_of_label(l3a_loss loss, double s, bool shown, float *gradient) {
    const double p = 1 / (1 + exp(-s));
    if (shown || loss == L3A_LOSS_BINARY) {
        *gradient = (float)(p - shown);
        return shown ? soft_plus(-s) : soft_plus(s);
    }
    const double q = p - (double)MARGIN, focus = q * q * q * q;
    if (q <= 0) {
        *gradient = 0;
        return 0;
    }
    *gradient = (float)(focus * p * (1 - p) / (1 - q));
    return -focus * log1p(-q); /* a score that is not a number comes here, and stays one */
}

double loss_of_labels(l3a_loss loss, size_t rows, size_t classes, const float *scores, const int8_t *labels, float *gradient) {
    double sum = 0;
    for (size_t i = 0; i < rows * classes; i++) {
        gradient[i] = 0;
        if (labels[i] >= 0) {
            sum += loss_of_label(loss, (double)scores[i], labels[i] == 1, &gradient[i]);
        }
    }
    return sum;
}

double loss_of_targets(l3a_loss loss, size_t rows, size_t classes, const float *scores, const float *targets, const float *scale,
                       float *gradient) {
    double sum = 0;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = i * classes; j < (i + 1) * classes; j++) {
            sum += (double)scale[i] * loss_of_label(loss, (double)scores[j], targets[j] > 0.5F, &gradient[j]);
            gradient[j] *= scale[i];
        }
    }
    return sum;
}
