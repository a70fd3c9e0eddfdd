/* Which groups of tokens LAYER_PICK takes: the layer's kernels and what looks at their choice have one rule. */
#ifndef L3A_PICK_H
#define L3A_PICK_H

#include "net/network.h"

/* The highest numbers, highest first; of equal ones the first. */
static inline void pick_highest(const float *numbers, size_t count, size_t picks, size_t *picked) {
    bool taken[PICK_GROUPS] = {false};
    for (size_t i = 0; i < picks; i++) {
        size_t best = count;
        for (size_t j = 0; j < count; j++) {
            if (!taken[j] && (best == count || numbers[j] > numbers[best])) {
                best = j;
            }
        }
        taken[best] = true;
        picked[i] = best;
    }
}

/* Those that are among the highest of the most pictures; scores are [pictures x count]. */
static inline void pick_together(const float *scores, size_t pictures, size_t count, size_t picks, size_t *picked) {
    float votes[PICK_GROUPS] = {0};
    for (size_t i = 0; i < pictures; i++) {
        pick_highest(scores + i * count, count, picks, picked);
        for (size_t j = 0; j < picks; j++) {
            votes[picked[j]]++;
        }
    }
    pick_highest(votes, count, picks, picked);
}

#endif
