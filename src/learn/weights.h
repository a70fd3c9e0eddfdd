/* The weights of the weighted analytic classifier (SPEC §3, step 3).
 *
 *   v_k = f_k^(-1/2), or 1/f_k, or 1/(log f_k + 1), each 0 if f_k = 0; or 1
 *   normalised: v scaled so that its mean over all classes seen so far is 1
 *   ω_i = mean of v_k over the labels of image i, true and pseudo; 0 for an image without any */
#ifndef L3A_WEIGHTS_H
#define L3A_WEIGHTS_H

#include "learn/model_options.h"

/* Computes v from the counts f. */
void class_weights(const uint64_t *counts, size_t classes, l3a_weighting weighting, l3a_scaling scaling, double *weights);
/* ω of one image from its labels, where 1 means present. */
double sample_weight(const int8_t *labels, const double *weights, size_t classes);

#endif
