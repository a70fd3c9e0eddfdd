#include "algebra/pivots.h"

#include <math.h>

/* A pivot is at least this share of the largest that its block began with. Smaller ones wait for a later block, because rounding
 * errors grow with the root of this number. */
static const double least_share = 1.0 / 16;
/* What may be left of the diagonal, in units of the tolerance, when R is complete. */
static const double most_left = 64;

size_t pivots_choose(const double *diagonal, size_t dim, double tolerance, size_t *pivots) {
    size_t count = 0;
    for (size_t i = 0; i < dim; i++) {
        const double number = diagonal[i];
        size_t at = count;
        if (!(number > tolerance) || (count == PIVOTS && number <= diagonal[pivots[PIVOTS - 1]])) {
            continue;
        }
        count += count < PIVOTS;
        at = at < count ? at : count - 1;
        for (; at && number > diagonal[pivots[at - 1]]; at--) {
            pivots[at] = pivots[at - 1];
        }
        pivots[at] = i;
    }
    return count;
}

static void swap(double *one, double *other) {
    const double number = *one;
    *one = *other;
    *other = number;
}

size_t pivots_factor(double *block, size_t count, size_t most, double tolerance, size_t *order) {
    const size_t n = count;
    double least = tolerance;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (; k < n && k < most; k++) {
        size_t next = k;
        for (size_t i = k + 1; i < n; i++) {
            next = block[i * PIVOTS + i] > block[next * PIVOTS + next] ? i : next;
        }
        const double pivot = block[next * PIVOTS + next];
        least = k ? least : fmax(least, least_share * pivot);
        if (!(pivot > least)) {
            break;
        }
        for (size_t i = 0; i < n; i++) {
            swap(&block[i * PIVOTS + k], &block[i * PIVOTS + next]);
        }
        for (size_t j = 0; j < n; j++) {
            swap(&block[k * PIVOTS + j], &block[next * PIVOTS + j]);
        }
        const size_t moved = order[k];
        order[k] = order[next];
        order[next] = moved;
        for (size_t j = k; j < n; j++) {
            block[k * PIVOTS + j] /= sqrt(pivot);
        }
        for (size_t i = k + 1; i < n; i++) {
            for (size_t j = k + 1; j < n; j++) {
                block[i * PIVOTS + j] -= block[k * PIVOTS + i] * block[k * PIVOTS + j];
            }
        }
    }
    return k;
}

bool pivots_complete(const double *diagonal, size_t dim, double tolerance) {
    size_t i = 0;
    while (i < dim && fabs(diagonal[i]) <= most_left * tolerance) {
        i++;
    }
    return i == dim;
}
