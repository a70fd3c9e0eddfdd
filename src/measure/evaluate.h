/* The evaluation loop: chooses the images to measure on, scores them in blocks, and measures. Several classifiers can share the
 * loop, so that rows are read, and perhaps expanded, once for all of them. */
#ifndef L3A_EVALUATE_H
#define L3A_EVALUATE_H

#include "base/memory.h"

/* Scores rows, which are images, for every classifier: scores[i] is [rows x classes] of classifier i. */
typedef l3a_status score_rows(void *state, const float *features, size_t rows, float *const *scores);

struct evaluation {
    l3a_features *features;
    const size_t *columns; /* of the classes, in the table */
    size_t classes;
    size_t *rows, count; /* of the images: all, or those that show at least one of the classes */
    int8_t *labels;      /* [count x classes] */
    float *scores;       /* [classifiers x count x classes] */
};

/* Chooses the images that show at least one of the classes, of which there may be none. The columns must outlive the evaluation,
 * which evaluation_free() ends in any case. */
l3a_status evaluation_begin(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation);
/* The same with all images. */
l3a_status evaluation_begin_all(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation);
/* blocks: how many blocks of rows are read and passed to `score` at a time. More than one help a classifier that works on the next
 * while the scores of the last are on their way. */
l3a_status evaluation_score(struct evaluation *evaluation, size_t classifiers, size_t blocks, score_rows *score, void *state);
/* The scores of a classifier. */
const float *evaluation_scores(const struct evaluation *evaluation, size_t classifier);
/* The metrics of a classifier, as in measure(). */
l3a_status evaluation_measure(const struct evaluation *evaluation, size_t classifier, const double *thresholds,
                              l3a_metrics *metrics, double *average_precision);
/* The mAP of some of the classes alone, as in measure_among(). */
l3a_status evaluation_among(const struct evaluation *evaluation, size_t classifier, size_t first, size_t last, double *mean_ap);
void evaluation_free(struct evaluation *evaluation);

#endif
