/* Settings give thresholds as probabilities; rows have scores. A class counts as predicted if σ(score) > probability, that is, if
 * score > log(probability / (1 - probability)). */
#ifndef L3A_THRESHOLD_H
#define L3A_THRESHOLD_H

#include <stddef.h>

/* The score s with sigma(s) = probability. */
double logit(double probability);
/* Sets all thresholds to the score with sigma(score) = theta. */
void same_thresholds(double theta, size_t classes, double *thresholds);

#endif
