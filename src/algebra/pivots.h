/* Blocks of pivots for Cholesky's method with pivots, which every back end uses to find roots: algebra/cpu/root.c has the
 * mathematics. This is the part that is small and always done by the processor. */
#ifndef L3A_PIVOTS_H
#define L3A_PIVOTS_H

#include <stdbool.h>
#include <stddef.h>

enum { PIVOTS = 64 };

/* Chooses the largest elements of the diagonal above the tolerance, in descending order. Returns how many, at most PIVOTS. */
size_t pivots_choose(const double *diagonal, size_t dim, double tolerance, size_t *pivots);
/* The factor of a block [count x PIVOTS] of at most `most` rows, with pivots: order, which this initialises, tells which of its
 * rows each row of U is. Returns how many rows there are. */
size_t pivots_factor(double *block, size_t count, size_t most, double tolerance, size_t *order);
/* Whether what is left of the diagonal is rounding error. */
bool pivots_complete(const double *diagonal, size_t dim, double tolerance);

#endif
