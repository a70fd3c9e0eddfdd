#ifndef L3A_METRICS_H
#define L3A_METRICS_H

#include "base/context.h"

/* l3a_measure with the score above which each class counts as predicted. */
l3a_status measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                   const double *edges, l3a_metrics *metrics, double *average_precision);

#endif
