/* The places of numbers in a table. */
#ifndef L3A_RANK_H
#define L3A_RANK_H

#include <stdbool.h>
#include <stddef.h>

/* A number as a table shows it; two that look the same there are equal. */
double as_printed(double value, int decimals);

struct ranked {
    double value;
    size_t index;
};

/* The places from 1 for the highest number or, if `less`, the lowest. Numbers that look the same when printed with this many
 * decimals share a place, and the next number has the next place. NaN has place 0. scratch has room for `count`. */
void rank_numbers(const double *values, size_t count, int decimals, bool less, struct ranked *scratch, size_t *places);

#endif
