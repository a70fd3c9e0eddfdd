/* Factors in the second half, what is solved with them, and the recursion on the first. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { TILE = 64 };

/* M = scale · A + share · Σ scatters goes to the second half, in either type. */
struct blend {
    const struct sums *sums;
    real type;
    double scale, share;
    const struct scatter *const *scatters;
    size_t count;
    const struct scatter *root; /* that is being added */
};

static size_t factor_stride(const struct sums *sums, real type) {
    return type == REAL_SINGLE ? 2 * stride_of(sums) + 1 : stride_of(sums);
}

static void blend_rows(void *argument, size_t first, size_t last) {
    const struct blend *blend = argument;
    const size_t step = factor_stride(blend->sums, blend->type);
    void *factor = second_row(blend->sums, 0);
    for (size_t tile = 0; tile < last; tile += TILE) {
        for (size_t i = first > tile ? first : tile; i < last; i++) {
            const size_t count = i + 1 - tile < TILE ? i + 1 - tile : TILE;
            const double *row = first_row(blend->sums, i) + tile;
            double values[TILE] = {0};
            for (size_t j = 0; blend->scale != 0 && j < count; j++) {
                values[j] = blend->scale * row[j];
            }
            for (size_t t = 0; t < blend->count; t++) {
                cpu_scatter_get(blend->scatters[t], i * (i + 1) / 2 + tile, count, blend->share, values);
            }
            for (size_t j = 0; j < count; j++) {
                real_put(blend->type, factor, (tile + j) * step + i, values[j]);
            }
        }
    }
}

static void add_to_factor(const void *to, size_t i, size_t first, size_t count, const void *numbers) {
    const struct blend *blend = to;
    const real type = blend->type, from = blend->root->type;
    const size_t at = i * factor_stride(blend->sums, type) + first;
    void *factor = second_row(blend->sums, 0);
    for (size_t j = 0; j < count; j++) {
        real_put(type, factor, at + j, real_get(type, factor, at + j) + blend->share * real_get(from, numbers, j));
    }
}

/* Adds the roots to what blend_rows() has made of the rest. */
static void blend_roots(struct blend *blend, struct rank_product *product) {
    for (size_t t = 0; t < blend->count; t++) {
        blend->root = blend->scatters[t];
        if (blend->root->is_root) {
            product->type = blend->root->type;
            product->rows = blend->root->rows;
            product->x = blend->root->held;
            cpu_add_product(product);
        }
    }
}

/* The trace of M in double precision. If it is finite, so is all of M, since no element of a sum is larger than the larger of its
 * two diagonal elements. */
static double trace_of(const struct blend *blend) {
    double sum = 0;
    for (size_t i = 0; i < blend->sums->dim; i++) {
        double value = blend->scale * first_row(blend->sums, i)[i];
        for (size_t t = 0; t < blend->count; t++) {
            cpu_scatter_get(blend->scatters[t], i * (i + 1) / 2 + i, 1, blend->share, &value);
        }
        sum += value;
    }
    for (size_t t = 0; t < blend->count; t++) {
        const struct scatter *root = blend->scatters[t];
        for (size_t i = 0; root->is_root && i < root->rows * root->dim; i++) {
            const double number = real_get(root->type, root->held, i);
            sum += blend->share * number * number;
        }
    }
    return sum;
}

l3a_status cpu_sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                           double share, double shift, double *trace, bool *definite) {
    struct cpu_sums *held = sums->held;
    l3a_status status = L3A_OK;
    const size_t step = factor_stride(sums, type);
    struct blend blend = {sums, type, scale, share, scatters, count, NULL};
    struct rank_product product = {.type = REAL_DOUBLE, .upper = true, .dim = sums->dim, .add = add_to_factor, .to = &blend};
    void *factor = second_row(sums, 0);
    if (has_root(scatters, count)) {
        TRY(cpu_panel_create(sums->context, &product));
    }
    *trace = trace_of(&blend);
    *definite = isfinite(*trace);
    if (!(held->mirrored && type == REAL_DOUBLE && scale == 1 && !count)) {
        parallel_for(sums->context->threads, sums->dim, TILE, blend_rows, &blend);
        blend_roots(&blend, &product);
    }
    held->mirrored = false;
    for (size_t i = 0; i < sums->dim; i++) {
        const double value = real_get(type, factor, i * step + i) + (type == REAL_SINGLE ? (double)(float)shift : shift);
        real_put(type, factor, i * step + i, value);
        *definite = *definite && isfinite(real_get(type, factor, i * step + i));
    }
    /* Factoring infinities can succeed and give a solution of zeros. */
    *definite = *definite && matrix_factor(sums->context->threads, type, sums->dim, factor, step);
done:
    release(sums->context, product.panel);
    return status;
}

l3a_status cpu_vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count) {
    const real type = vectors->type;
    char *rows = (char *)vectors->held + first * sums->dim * real_size(type);
    matrix_solve_rows(sums->context->threads, type, sums->dim, count, second_row(sums, 0), factor_stride(sums, type), rows,
                      sums->dim);
    return L3A_OK;
}

l3a_status cpu_sums_invert(struct sums *sums, double shift, bool *regular) {
    l3a_status status = L3A_OK;
    const size_t step = stride_of(sums);
    *regular = matrix_invert(sums->context->threads, sums->dim, second_row(sums, 0), step);
    if (*regular) {
        TRY(cpu_sums_copy(sums, KEPT));
        for (size_t i = 0; i < sums->dim; i++) {
            first_row(sums, i)[i] += shift;
        }
        ((struct cpu_sums *)sums->held)->mirrored = false;
    }
done:
    return status;
}

/* Scales rows of `width` numbers, from row `first` on, in double precision. In float32, two copies of an image with different
 * weights would round to different directions, and a tiny γ would tell them apart. */
static void widen(real type, const void *from, size_t first, size_t count, size_t width, const double *weight, double *to) {
    for (size_t i = 0; i < count; i++) {
        const double root = sqrt(weight[first + i]);
        for (size_t j = 0; j < width; j++) {
            to[i * width + j] = root * real_get(type, from, (first + i) * width + j);
        }
    }
}

static bool recurse(struct sums *sums, const struct block *rows, size_t n, double *cross, double *coefficients) {
    const struct cpu_block *work = rows->held;
    const int threads = sums->context->threads;
    const size_t d = sums->dim, step = stride_of(sums), columns = rows->columns;
    double *inverse = first_row(sums, 0);
    matrix_multiply_symmetric(threads, n, d, work->update, d, inverse, step, work->gain, d);
    matrix_multiply(threads, REAL_DOUBLE, false, true, n, n, d, 1, work->update, d, work->gain, d, 0, work->system, n);
    for (size_t i = 0; i < n; i++) {
        work->system[i * n + i] += 1;
    }
    if (!matrix_factor(threads, REAL_DOUBLE, n, work->system, n)) {
        return false;
    }
    matrix_multiply(threads, REAL_DOUBLE, true, false, d, columns, n, 1, work->update, d, work->error, columns, 1, cross, columns);
    matrix_multiply(threads, REAL_DOUBLE, false, false, n, columns, d, -1, work->update, d, coefficients, columns, 1, work->error,
                    columns);
    matrix_solve_transposed(threads, n, d, work->system, n, work->gain, d);
    matrix_solve_transposed(threads, n, columns, work->system, n, work->error, columns);
    matrix_rank_update(threads, REAL_DOUBLE, false, d, n, -1, work->gain, d, 1, inverse, step);
    matrix_multiply(threads, REAL_DOUBLE, true, false, d, columns, n, 1, work->gain, d, work->error, columns, 1, coefficients,
                    columns);
    return true;
}

l3a_status cpu_sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                           double *coefficients, bool *definite) {
    const struct cpu_block *work = rows->held;
    ((struct cpu_sums *)sums->held)->mirrored = false;
    *definite = true;
    for (size_t first = 0; *definite && first < rows->count; first += UPDATE_ROWS) {
        const size_t n = rows->count - first < UPDATE_ROWS ? rows->count - first : UPDATE_ROWS;
        widen(rows->layer->shape.type, work->expanded, first, n, sums->dim, weight, work->update);
        widen(REAL_DOUBLE, targets, first, n, rows->columns, weight, work->error);
        *definite = recurse(sums, rows, n, cross, coefficients);
    }
    return L3A_OK;
}
