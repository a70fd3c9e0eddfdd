/* Pseudo-labels (SPEC §3, step 1; the paper's pseudo-label module): an old class k becomes a label of a new image if σ(x·w_k) > η.
 * Since σ is increasing, this is x·w_k > log(η / (1 - η)).
 *
 * The dynamic threshold, after KRT: η moves from 0.8 in steps of 0.005 until the mean number of pseudo-labels per image is within
 * 0.1 of τ · (old classes / all classes). After 100 steps the best η so far is taken. All thresholds that can be reached lie on
 * one grid, so a survey counts the scores above each of them, and no score is kept. */
#ifndef L3A_PSEUDO_LABEL_H
#define L3A_PSEUDO_LABEL_H

#include "base/matrix.h"

#include <stdint.h>

enum { THRESHOLDS = 199 }; /* 0.005, 0.010, …, 0.995 */

typedef struct threshold_survey {
    uint64_t images;
    uint64_t above[THRESHOLDS + 1]; /* [i]: scores above exactly i thresholds of the grid */
} threshold_survey;

void survey_add(int threads, threshold_survey *survey, real type, const void *scores, size_t rows, size_t classes);
/* The η that this rule finds. */
double survey_threshold(const threshold_survey *survey, double target);
/* Sets labels [rows x label_stride], columns [0, classes), to 1 if the score is above η, and otherwise to 0. Returns the number of
 * ones. */
uint64_t pseudo_label(real type, const void *scores, size_t rows, size_t classes, double eta, int8_t *labels, size_t label_stride);

#endif
