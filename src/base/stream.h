/* A sequence of random numbers (base/random.h). Draw once per expression: C does not fix the order of calls within one. */
#ifndef L3A_STREAM_H
#define L3A_STREAM_H

#include "base/random.h"

#include <stddef.h>

struct stream {
    uint64_t seed, next;
};

static inline double stream_uniform(struct stream *stream) {
    return random_uniform(stream->seed, stream->next++);
}

/* One of 0 … count − 1. */
static inline size_t stream_below(struct stream *stream, uint64_t count) {
    return (size_t)(random_bits(stream->seed, stream->next++) % count);
}

/* order becomes a permutation of 0 … count − 1 (Fisher and Yates). */
static inline void stream_shuffle(struct stream *stream, size_t *order, size_t count) {
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (size_t i = count; i > 1; i--) {
        const size_t j = stream_below(stream, i), moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
}

#endif
