/* What a mistyped word was probably meant to be. */
#include "common/closest.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t smallest(size_t a, size_t b, size_t c) {
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein distance, where swapping two adjacent letters counts as one edit. */
static size_t edit_distance(const char *left, const char *right) {
    enum { LONGEST = 63 };
    size_t before[LONGEST + 1], last[LONGEST + 1], now[LONGEST + 1];
    const size_t m = strlen(left), n = strlen(right);
    if (m > LONGEST || n > LONGEST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= n; j++) {
        last[j] = j;
        before[j] = j;
    }
    for (size_t i = 1; i <= m; i++) {
        now[0] = i;
        for (size_t j = 1; j <= n; j++) {
            now[j] = smallest(last[j] + 1, now[j - 1] + 1, last[j - 1] + (left[i - 1] != right[j - 1]));
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] && before[j - 2] + 1 < now[j]) {
                now[j] = before[j - 2] + 1;
            }
        }
        memcpy(before, last, sizeof before);
        memcpy(last, now, sizeof last);
    }
    return last[n];
}

const char *closest_name(const char *mistyped, const char *const *candidates, size_t count) {
    const char *best = NULL;
    size_t least = mistyped ? strlen(mistyped) / 3 + 2 : 0;
    for (size_t i = 0; i < count && mistyped && candidates; i++) {
        const size_t distance = candidates[i] ? edit_distance(mistyped, candidates[i]) : least;
        if (distance < least) {
            least = distance;
            best = candidates[i];
        }
    }
    return best;
}

const char *suggest_closest(char *hint, size_t capacity, const char *mistyped, const char *const *names, size_t count,
                            const char *otherwise) {
    const char *close = closest_name(mistyped, names, count);
    snprintf(hint, capacity, close ? "did you mean '%s'?" : "%s", close ? close : otherwise);
    return hint;
}
