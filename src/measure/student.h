/* Student's t distribution. */
#ifndef L3A_STUDENT_H
#define L3A_STUDENT_H

#include <stddef.h>

/* The probability that |T| ≥ |t|, with at least one degree of freedom; NaN if t is. */
double student_tail(double t, size_t degrees);
/* The t ≥ 0 with this tail probability, between 0 and 1 without them. */
double student_quantile(double tail, size_t degrees);

#endif
