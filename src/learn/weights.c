#include "learn/weights.h"

#include <math.h>

static double raw_weight(double count, l3a_weighting weighting) {
    switch (weighting) {
    case L3A_WEIGHTS_SQRT: return 1 / sqrt(count);
    case L3A_WEIGHTS_INV: return 1 / count;
    case L3A_WEIGHTS_LOG: return 1 / (log(count) + 1);
    case L3A_WEIGHTS_NONE: break;
    }
    return 1;
}

void class_weights(const uint64_t *counts, size_t classes, l3a_weighting weighting, l3a_scaling scaling, double *weights) {
    double sum = 0;
    for (size_t k = 0; k < classes; k++) {
        const bool counted = weighting == L3A_WEIGHTS_NONE || counts[k] > 0;
        weights[k] = counted ? raw_weight((double)counts[k], weighting) : 0;
        sum += weights[k];
    }
    if (scaling == L3A_SCALING_NORMALISED && weighting != L3A_WEIGHTS_NONE && sum > 0) {
        for (size_t k = 0; k < classes; k++) {
            weights[k] *= (double)classes / sum;
        }
    }
}

double sample_weight(const int8_t *labels, const double *weights, size_t classes) {
    double sum = 0;
    size_t present = 0;
    for (size_t k = 0; k < classes; k++) {
        if (labels[k] == 1) {
            sum += weights[k];
            present++;
        }
    }
    return present ? sum / (double)present : 0;
}
