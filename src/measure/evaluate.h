/* The evaluation loop: chooses the images to measure on, scores them in blocks, and measures. Several classifiers can share the
 * loop, so that rows are read, and perhaps expanded, once for all of them. Processes that divide the rows score a part of the
 * images each, and process 0 measures. */
#ifndef L3A_EVALUATE_H
#define L3A_EVALUATE_H

#include "base/memory.h"
#include "data/features.h"

/* Scores rows, which are images, for every classifier: scores[i] is [rows x classes] of classifier i. */
typedef l3a_status score_rows(void *state, const float *features, size_t rows, float *const *scores);

struct evaluation {
    l3a_features *features;
    const size_t *columns; /* of the classes, in the table */
    size_t classes;
    size_t count;             /* of the images: all, or those that show at least one of the classes */
    struct own_rows rows;     /* this process's part of them */
    struct row_choice choice; /* those that show one */
    int8_t *labels;           /* [count x classes]; of processes that divide the images, only process 0 has them, and the scores */
    float *scores;            /* [classifiers x count x classes] */
};

/* Chooses the images that show at least one of the classes, of which there may be none. The columns must outlive the evaluation,
 * which evaluation_free() ends in any case. */
l3a_status evaluation_begin(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation);
/* The same with all images. */
l3a_status evaluation_begin_all(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation);
/* blocks: how many blocks of rows are read and passed to `score` at a time. More than one help a classifier that works on the next
 * while the scores of the last are on their way. */
l3a_status evaluation_score(struct evaluation *evaluation, size_t classifiers, size_t blocks, score_rows *score, void *state);
/* The number of an image in the table. */
l3a_status evaluation_row(const struct evaluation *evaluation, size_t image, size_t *row);
/* What an evaluation of one classifier takes, at most. */
uint64_t evaluation_bytes(const l3a_context *context, uint64_t images, uint64_t classes);
/* The scores of a classifier. */
const float *evaluation_scores(const struct evaluation *evaluation, size_t classifier);
/* The metrics of a classifier, as in measure(). Process 0 measures, and the others take over what it finds. */
l3a_status evaluation_measure(const struct evaluation *evaluation, size_t classifier, const double *thresholds,
                              l3a_metrics *metrics, double *average_precision);
/* The mAP of some of the classes alone, as in measure_among(). */
l3a_status evaluation_among(const struct evaluation *evaluation, size_t classifier, size_t first, size_t last, double *mean_ap);
/* The curves of the first classifier, as in measure_curves(). */
l3a_status evaluation_curves(const struct evaluation *evaluation, float *curves);
void evaluation_free(struct evaluation *evaluation);

#endif
