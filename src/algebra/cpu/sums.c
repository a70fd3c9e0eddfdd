/* The two halves of the sums: adding rows to the second, and the second to the first. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { TILE = 64 };

/* An odd number of whole cache lines, so that the elements of a column do not fall into the same few cache sets. */
static size_t choose_stride(size_t dim) {
    const size_t lines = (dim + 1 + 7) / 8;
    return 8 * (lines | 1);
}

uint64_t cpu_sums_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    uint64_t bytes;
    (void)context;
    return place != PROCESSOR                                                             ? 0
           : multiply_sizes(dim, (choose_stride(dim) + columns) * sizeof(double), &bytes) ? bytes
                                                                                          : UINT64_MAX;
}

l3a_status cpu_sums_create(struct sums *sums) {
    l3a_status status = L3A_OK;
    struct cpu_sums *held;
    TRY(allocate_zeroed(sums->context, 1, sizeof *held, &sums->held));
    held = sums->held;
    held->stride = choose_stride(sums->dim);
    TRY(allocate_zeroed(sums->context, sums->dim, held->stride * sizeof *held->square, &held->square));
done:
    return status;
}

void cpu_sums_free(struct sums *sums) {
    struct cpu_sums *held = sums->held;
    release(sums->context, held->square);
    release(sums->context, held->cross);
    release(sums->context, held);
}

l3a_status cpu_sums_begin(struct sums *sums, size_t columns) {
    struct cpu_sums *held = sums->held;
    l3a_status status = L3A_OK;
    release(sums->context, held->cross);
    held->cross = NULL;
    held->columns = columns;
    held->mirrored = false;
    for (size_t i = 0; i < sums->dim; i++) {
        memset(second_row(sums, i) + i, 0, (sums->dim - i) * sizeof(double));
    }
    TRY(allocate_zeroed(sums->context, sums->dim, columns * sizeof *held->cross, &held->cross));
done:
    return status;
}

struct addition {
    const struct sums *sums;
    double sign;
};

static void add_to_second(const void *to, size_t i, size_t first, size_t count, const void *numbers) {
    const struct addition *addition = to;
    const float *from = numbers;
    double *row = second_row(addition->sums, i) + first;
    if (addition->sign > 0) {
        for (size_t j = 0; j < count; j++) {
            row[j] += (double)from[j];
        }
    } else {
        for (size_t j = 0; j < count; j++) {
            row[j] -= (double)from[j];
        }
    }
}

static void add_single(const struct sums *sums, const struct block *rows, const float *x, double sign) {
    const struct addition addition = {sums, sign};
    const struct rank_product product = {.type = REAL_SINGLE,
                                         .upper = true,
                                         .dim = sums->dim,
                                         .rows = rows->count,
                                         .x = x,
                                         .add = add_to_second,
                                         .to = &addition,
                                         .threads = rows->context->threads,
                                         .panel_rows = PANEL_ROWS,
                                         .panel = work_of(rows)->panel};
    cpu_add_product(&product);
}

/* C += scale · XᵀT, with the targets in the layer's type */
static void add_cross(const struct sums *sums, const struct block *rows, const void *x, double scale) {
    const struct cpu_sums *held = sums->held;
    const struct cpu_block *work = work_of(rows);
    const size_t d = sums->dim, columns = held->columns;
    const real type = rows->layer->shape.type;
    const bool single = type == REAL_SINGLE;
    matrix_multiply(rows->context->threads, type, true, false, d, columns, rows->count, scale, x, d, work->targets, columns,
                    single ? 0 : 1, single ? (void *)work->cross_block : held->cross, columns);
    for (size_t i = 0; single && i < d * columns; i++) {
        held->cross[i] += (double)work->cross_block[i];
    }
}

l3a_status cpu_sums_add_cross(struct sums *sums, struct block *rows, const double *targets) {
    const struct cpu_block *held = rows->held;
    const size_t columns = ((const struct cpu_sums *)sums->held)->columns;
    for (size_t i = 0; i < rows->count * columns; i++) {
        real_put(rows->layer->shape.type, work_of(rows)->targets, i, targets[i]);
    }
    add_cross(sums, rows, held->expanded, 1);
    return L3A_OK;
}

static bool has_weight(const struct block *rows, const double *weight) {
    size_t i = 0;
    while (i < rows->count && weight[i] == 0) {
        i++;
    }
    return i < rows->count;
}

/* With X̃ = Ω^½ X and Ỹ = Ω^½ Y: A += X̃ᵀX̃ and C += X̃ᵀỸ */
l3a_status cpu_sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets) {
    const struct cpu_block *held = rows->held;
    const real type = rows->layer->shape.type;
    const size_t columns = ((const struct cpu_sums *)sums->held)->columns;
    if (!has_weight(rows, weight)) {
        return L3A_OK;
    }
    cpu_block_scale(rows, weight);
    const void *x = held->scaled ? held->scaled : held->expanded;
    for (size_t i = 0; targets && i < rows->count * columns; i++) {
        real_put(type, work_of(rows)->targets, i, sqrt(weight[i / columns]) * targets[i]);
    }
    if (targets) {
        add_cross(sums, rows, x, sign);
    }
    if (type == REAL_SINGLE) {
        add_single(sums, rows, x, sign);
    } else {
        matrix_rank_update(rows->context->threads, REAL_DOUBLE, true, sums->dim, rows->count, sign, x, sums->dim, 1,
                           second_row(sums, 0), stride_of(sums));
    }
    return L3A_OK;
}

l3a_status cpu_sums_join(struct sums *sums, const struct sums *from) {
    struct cpu_sums *held = sums->held;
    const struct cpu_sums *others = from->held;
    for (size_t i = 0; i < sums->dim; i++) {
        double *to = second_row(sums, i);
        const double *added = second_row(from, i);
        for (size_t j = i; j < sums->dim; j++) {
            to[j] += added[j];
        }
    }
    for (size_t i = 0; i < sums->dim * held->columns; i++) {
        held->cross[i] += others->cross[i];
    }
    return L3A_OK;
}

/* Both halves get keep · first half + add · second half. */
struct blend {
    const struct sums *sums;
    double keep, add;
};

/* Works in tiles, so that both the row and the column stay in the cache. */
static void blend_rows(void *argument, size_t first, size_t last) {
    const struct blend *blend = argument;
    const size_t step = stride_of(blend->sums);
    double *lower = first_row(blend->sums, 0), *upper = second_row(blend->sums, 0);
    for (size_t tile = 0; tile < last; tile += TILE) {
        for (size_t i = first; i < last; i++) {
            const size_t end = tile + TILE < i + 1 ? tile + TILE : i + 1;
            for (size_t j = tile; j < end; j++) {
                double *one = &lower[i * step + j], *other = &upper[j * step + i];
                const double kept = blend->keep == 0 ? 0 : *one, added = blend->add == 0 ? 0 : blend->add * *other;
                *one = *other = kept + added;
            }
        }
    }
}

static void blend_halves(struct sums *sums, double keep, double add) {
    struct blend blend = {sums, keep, add};
    parallel_for(sums->context->threads, sums->dim, TILE, blend_rows, &blend);
    ((struct cpu_sums *)sums->held)->mirrored = true;
}

l3a_status cpu_sums_keep(struct sums *sums, double sign) {
    blend_halves(sums, 1, sign);
    return L3A_OK;
}

l3a_status cpu_sums_trace(const struct sums *sums, double *trace) {
    *trace = 0;
    for (size_t i = 0; i < sums->dim; i++) {
        *trace += first_row(sums, i)[i];
    }
    return L3A_OK;
}

l3a_status cpu_sums_copy(struct sums *sums, enum half to) {
    blend_halves(sums, to == ADDED, to == KEPT);
    return L3A_OK;
}

l3a_status cpu_sums_cross(struct sums *sums, double sign, double *cross) {
    struct cpu_sums *held = sums->held;
    for (size_t i = 0; i < sums->dim * held->columns; i++) {
        cross[i] += sign * held->cross[i];
    }
    release(sums->context, held->cross);
    held->cross = NULL;
    return L3A_OK;
}

static double *element(const struct sums *sums, enum half half, size_t i, size_t j) {
    return half == KEPT ? first_row(sums, i) + j : second_row(sums, j) + i;
}

l3a_status cpu_sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values) {
    for (size_t i = first; i < first + count; i++) {
        for (size_t j = 0; j <= i; j++) {
            *values++ = *element(sums, half, i, j);
        }
    }
    return L3A_OK;
}

l3a_status cpu_sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values) {
    ((struct cpu_sums *)sums->held)->mirrored = false;
    for (size_t i = first; i < first + count; i++) {
        for (size_t j = 0; j <= i; j++) {
            *element(sums, half, i, j) = *values++;
        }
    }
    return L3A_OK;
}
