#ifndef L3A_METRICS_H
#define L3A_METRICS_H

#include "base/context.h"

/* l3a_measure(), with the score above which each class counts as predicted. */
l3a_status measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                   const double *thresholds, l3a_metrics *metrics, double *average_precision);

/* mAP in percent of the classes [first, last) alone, on the rows that show at least one of them; 0 if none does. */
l3a_status measure_among(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes, size_t first,
                         size_t last, double *mean_ap);

/* Precision in percent when recall first reaches 0, 2, 4 … 100 percent (for 0, at the first positive); 0 for a class with no
 * positive. curves [classes x CURVE_POINTS] */
enum { CURVE_POINTS = 51 };
l3a_status measure_curves(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                          float *curves);

#endif
