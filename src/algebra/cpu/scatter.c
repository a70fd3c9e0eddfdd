/* Scatter matrices: the rows of a lower triangle, one after another. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <string.h>

enum { TILE = 64, GRAIN = 16 };

uint64_t cpu_scatter_bytes(size_t dim, real type) {
    uint64_t bytes;
    return dim <= UINT32_MAX && multiply_sizes(triangle_numbers(0, dim), real_size(type), &bytes) ? bytes : UINT64_MAX;
}

l3a_status cpu_scatter_create(struct scatter *scatter) {
    return allocate_zeroed(scatter->context, triangle_numbers(0, scatter->dim), real_size(scatter->type), &scatter->held);
}

void cpu_scatter_free(struct scatter *scatter) {
    release(scatter->context, scatter->held);
}

void cpu_scatter_get(const struct scatter *scatter, size_t first, size_t count, double scale, double *values) {
    for (size_t i = 0; i < count; i++) {
        values[i] += scale * real_get(scatter->type, scatter->held, first + i);
    }
}

static void put(const struct scatter *scatter, size_t first, size_t count, const double *values) {
    for (size_t i = 0; i < count; i++) {
        real_put(scatter->type, scatter->held, first + i, values[i]);
    }
}

l3a_status cpu_scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values) {
    const size_t size = real_size(scatter->type);
    memcpy(values, (const char *)scatter->held + first * size, count * size);
    return L3A_OK;
}

l3a_status cpu_scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values) {
    const size_t size = real_size(scatter->type);
    memcpy((char *)scatter->held + first * size, values, count * size);
    return L3A_OK;
}

l3a_status cpu_scatter_add(struct scatter *scatter, const struct scatter *from) {
    const size_t numbers = (size_t)triangle_numbers(0, scatter->dim);
    for (size_t first = 0; first < numbers; first += TILE) {
        const size_t count = numbers - first < TILE ? numbers - first : TILE;
        double values[TILE] = {0};
        cpu_scatter_get(scatter, first, count, 1, values);
        cpu_scatter_get(from, first, count, 1, values);
        put(scatter, first, count, values);
    }
    return L3A_OK;
}

struct addition {
    const struct scatter *scatter;
    const struct sums *sums;
    double sign;
};

/* Works in tiles, because the second half is an upper triangle. */
static void add_rows(void *argument, size_t first, size_t last) {
    const struct addition *addition = argument;
    const size_t step = stride_of(addition->sums);
    const double *upper = second_row(addition->sums, 0);
    for (size_t tile = 0; tile < last; tile += TILE) {
        for (size_t i = first > tile ? first : tile; i < last; i++) {
            const size_t count = i + 1 - tile < TILE ? i + 1 - tile : TILE, at = i * (i + 1) / 2 + tile;
            double values[TILE] = {0};
            cpu_scatter_get(addition->scatter, at, count, 1, values);
            for (size_t j = 0; j < count; j++) {
                values[j] += addition->sign * upper[(tile + j) * step + i];
            }
            put(addition->scatter, at, count, values);
        }
    }
}

l3a_status cpu_scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign) {
    struct addition addition = {scatter, sums, sign};
    parallel_for(scatter->context->threads, scatter->dim, TILE, add_rows, &addition);
    return L3A_OK;
}

struct total {
    const struct sums *sums;
    const struct scatter *const *scatters;
    size_t count;
};

static void total_rows(void *argument, size_t first, size_t last) {
    const struct total *total = argument;
    for (size_t i = first; i < last; i++) {
        double *row = first_row(total->sums, i);
        memset(row, 0, (i + 1) * sizeof *row);
        for (size_t j = 0; j < total->count; j++) {
            cpu_scatter_get(total->scatters[j], i * (i + 1) / 2, i + 1, 1, row);
        }
    }
}

l3a_status cpu_sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    struct total total = {sums, scatters, count};
    ((struct cpu_sums *)sums->held)->mirrored = false;
    parallel_for(sums->context->threads, sums->dim, GRAIN, total_rows, &total);
    return L3A_OK;
}
