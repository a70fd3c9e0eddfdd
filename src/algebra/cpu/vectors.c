/* Vectors in the processor's memory. Every row is computed by one thread, in the order of its numbers, so results do not depend on
 * the number of threads. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <string.h>

enum { NUMBERS = 1 << 14 };

l3a_status cpu_vectors_create(struct vectors *vectors, void *memory) {
    vectors->borrowed = memory != NULL;
    vectors->held = memory;
    return memory ? L3A_OK : allocate(vectors->context, vectors->count, vectors->dim * real_size(vectors->type), &vectors->held);
}

void cpu_vectors_free(struct vectors *vectors) {
    release(vectors->context, vectors->held);
}

uint64_t cpu_vectors_bytes(enum place place, size_t dim, size_t count, real type) {
    return place == PROCESSOR ? (uint64_t)dim * count * real_size(type) : 0;
}

/* Rows that one thread takes at a time: for fewer numbers it is not worth waking another. */
static size_t grain_of(const struct vectors *vectors) {
    return 1 + NUMBERS / (vectors->dim + 1);
}

static char *row_of(const struct vectors *vectors, const size_t *rows, size_t i) {
    return (char *)vectors->held + (rows ? rows[i] : i) * vectors->dim * real_size(vectors->type);
}

l3a_status cpu_vectors_put(struct vectors *vectors, size_t first, size_t count, const void *values) {
    memcpy(row_of(vectors, NULL, first), values, count * vectors->dim * real_size(vectors->type));
    return L3A_OK;
}

l3a_status cpu_vectors_get(const struct vectors *vectors, size_t first, size_t count, void *values) {
    const char *from = row_of(vectors, NULL, first);
    if (from != values) { /* borrowed memory is read in its place */
        memcpy(values, from, count * vectors->dim * real_size(vectors->type));
    }
    return L3A_OK;
}

struct combination {
    const struct vectors *to, *from;
    const size_t *to_rows, *from_rows;
    const double *keep, *scale;
};

/* Inlined, so that there is a loop for each pair of types. */
__attribute__((always_inline)) static inline void combine(size_t dim, real type, void *to, double keep, real from_type,
                                                          const void *from, double scale) {
    if (scale == 0) {
        for (size_t j = 0; j < dim; j++) {
            real_put(type, to, j, keep == 0 ? 0 : keep * real_get(type, to, j));
        }
    } else if (keep == 0) {
        for (size_t j = 0; j < dim; j++) {
            real_put(type, to, j, scale * real_get(from_type, from, j));
        }
    } else {
        for (size_t j = 0; j < dim; j++) {
            real_put(type, to, j, keep * real_get(type, to, j) + scale * real_get(from_type, from, j));
        }
    }
}

static void combine_rows(void *argument, size_t first, size_t last) {
    const struct combination *c = argument;
    const size_t dim = c->to->dim;
    for (size_t i = first; i < last; i++) {
        char *to = row_of(c->to, c->to_rows, i);
        const char *from = row_of(c->from, c->from_rows, i);
        const double keep = c->keep ? c->keep[i] : 0, scale = c->scale ? c->scale[i] : 1;
        if (c->to->type == REAL_DOUBLE && c->from->type == REAL_DOUBLE) {
            combine(dim, REAL_DOUBLE, to, keep, REAL_DOUBLE, from, scale);
        } else if (c->to->type == REAL_DOUBLE) {
            combine(dim, REAL_DOUBLE, to, keep, REAL_SINGLE, from, scale);
        } else if (c->from->type == REAL_DOUBLE) {
            combine(dim, REAL_SINGLE, to, keep, REAL_DOUBLE, from, scale);
        } else {
            combine(dim, REAL_SINGLE, to, keep, REAL_SINGLE, from, scale);
        }
    }
}

l3a_status cpu_vectors_combine(struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
                               const size_t *from_rows, const double *scale, size_t count) {
    struct combination combination = {to, from, to_rows, from_rows, keep, scale};
    parallel_for(to->context->threads, count, grain_of(to), combine_rows, &combination);
    return L3A_OK;
}

struct dotting {
    const struct dots *dots;
    size_t count;
    double *results;
};

__attribute__((always_inline)) static inline double dot(size_t dim, real left_type, const void *left, real right_type,
                                                        const void *right) {
    double sum = 0;
    for (size_t j = 0; j < dim; j++) {
        sum += real_get(left_type, left, j) * real_get(right_type, right, j);
    }
    return sum;
}

static void dot_rows(void *argument, size_t first, size_t last) {
    const struct dotting *d = argument;
    for (size_t n = first; n < last; n++) {
        const struct dots *dots = &d->dots[n / d->count];
        const size_t i = n % d->count, dim = dots->left->dim;
        const char *left = row_of(dots->left, dots->left_rows, i), *right = row_of(dots->right, dots->right_rows, i);
        if (dots->left->type == REAL_DOUBLE && dots->right->type == REAL_DOUBLE) {
            d->results[n] = dot(dim, REAL_DOUBLE, left, REAL_DOUBLE, right);
        } else {
            d->results[n] = dot(dim, dots->left->type, left, dots->right->type, right);
        }
    }
}

l3a_status cpu_vectors_dot(const struct dots *dots, size_t kinds, size_t count, double *results) {
    struct dotting dotting = {dots, count, results};
    parallel_for(dots->left->context->threads, kinds * count, grain_of(dots->left), dot_rows, &dotting);
    return L3A_OK;
}
