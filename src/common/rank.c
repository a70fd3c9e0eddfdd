#include "common/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double as_printed(double value, int decimals) {
    char text[400];
    if (!isfinite(value)) {
        return value;
    }
    snprintf(text, sizeof text, "%.*f", decimals < 0 ? 0 : decimals > 20 ? 20 : decimals, value);
    return strtod(text, NULL);
}

/* The highest first, and NaN last. */
static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    return isnan(a->value) || isnan(b->value) ? isnan(a->value) - isnan(b->value) : (a->value < b->value) - (a->value > b->value);
}

void rank_numbers(const double *values, size_t count, int decimals, bool less, struct ranked *scratch, size_t *places) {
    for (size_t i = 0; i < count; i++) {
        const double shown = as_printed(values[i], decimals);
        scratch[i] = (struct ranked){less ? -shown : shown, i};
    }
    qsort(scratch, count, sizeof *scratch, compare_ranked);
    for (size_t i = 0, place = 0; i < count; i++) {
        place += i == 0 || scratch[i].value != scratch[i - 1].value;
        places[scratch[i].index] = isnan(scratch[i].value) ? 0 : place;
    }
}
