#include "learn/pseudo_label.h"

#include "measure/metrics.h"

#include <math.h>

static double score_at(real type, const void *scores, size_t index) {
    return type == REAL_SINGLE ? (double)((const float *)scores)[index] : ((const double *)scores)[index];
}

static double grid(size_t index) {
    return 0.005 * (double)(index + 1);
}

void survey_add(threshold_survey *survey, real type, const void *scores, size_t rows, size_t classes) {
    double thresholds[THRESHOLDS];
    for (size_t i = 0; i < THRESHOLDS; i++) {
        thresholds[i] = logit(grid(i));
    }
    for (size_t n = 0; n < rows * classes; n++) {
        const double score = score_at(type, scores, n);
        size_t low = 0, high = THRESHOLDS;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (score > thresholds[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        survey->above[low]++;
    }
    survey->images += rows;
}

double survey_threshold(const threshold_survey *survey, double target) {
    enum { START = 159, STEPS = 100 };
    double mean[THRESHOLDS];
    uint64_t count = 0;
    for (size_t i = THRESHOLDS; i-- > 0;) {
        count += survey->above[i + 1];
        mean[i] = survey->images ? (double)count / (double)survey->images : 0;
    }
    size_t at = START, best = START;
    for (int steps = 0; steps <= STEPS; steps++) {
        const double gap = mean[at] - target;
        if (fabs(gap) < fabs(mean[best] - target)) {
            best = at;
        }
        const bool stuck = gap > 0 ? at == THRESHOLDS - 1 : at == 0;
        if (fabs(gap) <= 0.1 || stuck) {
            break;
        }
        at = gap > 0 ? at + 1 : at - 1;
    }
    return grid(best);
}

uint64_t pseudo_label(real type, const void *scores, size_t rows, size_t classes, double eta, int8_t *labels, size_t label_stride) {
    const double threshold = logit(eta);
    uint64_t made = 0;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < classes; k++) {
            const bool above = score_at(type, scores, i * classes + k) > threshold;
            labels[i * label_stride + k] = above;
            made += above;
        }
    }
    return made;
}
