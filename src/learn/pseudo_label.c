#include "learn/pseudo_label.h"

#include "base/threads.h"
#include "base/threshold.h"

#include <math.h>

static double grid(size_t index) {
    return 0.005 * (double)(index + 1);
}

enum { STEPS_OF_SEARCH = 1 << 7 }; /* the highest power of 2 that is at most THRESHOLDS */

struct surveying {
    threshold_survey *survey;
    real type;
    const void *scores;
    double thresholds[2 * STEPS_OF_SEARCH]; /* those after the grid are never reached */
};

/* Counts scores; the order in which the parts are added does not matter. */
static void survey_part(void *argument, size_t first, size_t last) {
    const struct surveying *s = argument;
    uint32_t above[THRESHOLDS + 1] = {0};
    for (size_t n = first; n < last; n++) {
        const double score = real_get(s->type, s->scores, n);
        size_t low = 0;
        for (size_t step = STEPS_OF_SEARCH; step; step /= 2) {
            low += score > s->thresholds[low + step - 1] ? step : 0;
        }
        above[low]++;
    }
    for (size_t i = 0; i <= THRESHOLDS; i++) {
        __atomic_fetch_add(&s->survey->above[i], above[i], __ATOMIC_RELAXED);
    }
}

void survey_add(int threads, threshold_survey *survey, real type, const void *scores, size_t rows, size_t classes) {
    enum { PART = 1 << 14 };
    struct surveying surveying = {.survey = survey, .type = type, .scores = scores};
    for (size_t i = 0; i < 2 * STEPS_OF_SEARCH; i++) {
        surveying.thresholds[i] = i < THRESHOLDS ? logit(grid(i)) : INFINITY;
    }
    parallel_for(threads, rows * classes, PART, survey_part, &surveying);
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
            const bool above = real_get(type, scores, i * classes + k) > threshold;
            labels[i * label_stride + k] = above;
            made += above;
        }
    }
    return made;
}
