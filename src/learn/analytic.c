#include "learn/analytic.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "base/threads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TILE = 64, PROBES = 4, STEPS = 5 };

/* Limits of ‖E‖, in units of max(γ, λ - ‖E‖). */
static const double doubtful = 0.5, hopeless = 10;
/* Limits of the distance between R C and W, as a share of W. */
static const double recursion_doubtful = 1e-3, recursion_hopeless = 0.05;

/* An odd number of whole cache lines, so that the elements of a column do not fall into the same few cache sets. */
size_t analytic_stride(size_t dim) {
    const size_t lines = (dim + 1 + 7) / 8;
    return 8 * (lines | 1);
}

l3a_status analytic_create(l3a_context *context, size_t dim, double gamma, real precision, struct analytic *analytic) {
    *analytic =
        (struct analytic){.context = context, .dim = dim, .stride = analytic_stride(dim), .gamma = gamma, .precision = precision};
    return allocate_zeroed(context, dim, analytic->stride * sizeof(double), &analytic->square);
}

void analytic_free(struct analytic *analytic) {
    if (analytic->context) {
        release(analytic->context, analytic->square);
    }
    memset(analytic, 0, sizeof *analytic);
}

void analytic_clear(const struct analytic *analytic) {
    for (size_t i = 0; i < analytic->dim; i++) {
        memset(analytic_row(analytic, i), 0, (i + 1) * sizeof(double));
    }
}

double *analytic_row(const struct analytic *analytic, size_t i) {
    return analytic->square + i * analytic->stride;
}

double *analytic_second(const struct analytic *analytic) {
    return analytic->square + 1;
}

struct mirror {
    const struct analytic *analytic;
    bool back;                     /* from the second triangle to the first */
    const struct analytic *before; /* its second triangle is added to the second one; may be NULL */
};

/* Works in tiles, so that both the row read and the column written stay in the cache. */
static void mirror_rows(void *argument, size_t first, size_t last) {
    const struct mirror *mirror = argument;
    const size_t step = mirror->analytic->stride;
    double *lower = mirror->analytic->square, *upper = analytic_second(mirror->analytic);
    const double *before = mirror->before ? analytic_second(mirror->before) : NULL;
    for (size_t tile = 0; tile < last; tile += TILE) {
        for (size_t i = first; i < last; i++) {
            const size_t end = tile + TILE < i + 1 ? tile + TILE : i + 1;
            for (size_t j = tile; j < end; j++) {
                if (mirror->back) {
                    lower[i * step + j] = upper[j * step + i];
                } else {
                    upper[j * step + i] = lower[i * step + j] + (before ? before[j * step + i] : 0);
                }
            }
        }
    }
}

static void mirror_triangle(const struct analytic *analytic, bool back, const struct analytic *before) {
    struct mirror mirror = {analytic, back, before};
    parallel_for(analytic->context->threads, analytic->dim, TILE, mirror_rows, &mirror);
}

static void add_to_diagonal(double *triangle, size_t step, size_t dim, double value) {
    for (size_t i = 0; i < dim; i++) {
        triangle[i * step + i] += value;
    }
}

/* The trace of the second triangle. If it is finite, so are all of the sums, since no element is larger than the larger of its two
 * diagonal elements. */
static double trace(const struct analytic *analytic) {
    double sum = 0;
    for (size_t i = 0; i < analytic->dim; i++) {
        sum += analytic_second(analytic)[i * analytic->stride + i];
    }
    return sum;
}

static double rounding(real precision, double trace) {
    return precision == REAL_SINGLE ? 0x1p-24 * trace / 4 : 0x1p-53 * trace;
}

double analytic_rounding(const struct analytic *analytic, double trace) {
    return rounding(analytic->precision, trace);
}

bool analytic_is_safe(const struct analytic *analytic, double trace) {
    return analytic_rounding(analytic, trace) <= doubtful * analytic->gamma;
}

/* [PROBES x count] random signs, always the same. */
static void draw_signs(double *signs, size_t count) {
    for (size_t i = 0; i < PROBES * count; i++) {
        signs[i] = random_uniform(2025, i) < 0.5 ? -1 : 1;
    }
}

static double norm(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
    }
    return sqrt(sum);
}

/* Estimates, from above, the smallest eigenvalue of the matrix whose factor is the second triangle. */
static l3a_status smallest_eigenvalue(const struct analytic *analytic, double *smallest) {
    l3a_context *context = analytic->context;
    l3a_status status = L3A_OK;
    const size_t d = analytic->dim;
    double *rows = NULL;
    TRY(allocate(context, PROBES, d * sizeof *rows, &rows));
    draw_signs(rows, d);
    *smallest = INFINITY;
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < PROBES; i++) {
            const double length = norm(rows + i * d, d);
            *smallest = step && 1 / length < *smallest ? 1 / length : *smallest;
            for (size_t j = 0; j < d; j++) {
                rows[i * d + j] /= length;
            }
        }
        context->matrix->solve_rows(context->threads, REAL_DOUBLE, d, PROBES, analytic_second(analytic), analytic->stride, rows, d);
    }
done:
    release(context, rows);
    return status;
}

/* Checks that a matrix with this error has a usable solution. The second triangle is its factor, and no eigenvalue is below
 * `least`. */
static l3a_status check_rounding(const struct analytic *analytic, double error, double least, double gamma_asked) {
    l3a_context *context = analytic->context;
    l3a_status status = L3A_OK;
    double smallest = least;
    char gamma[NUMBER_TEXT];
    const char *precision = analytic->precision == REAL_SINGLE ? "float32" : "double";
    const char *hint = analytic->precision == REAL_SINGLE ? "use a larger gamma, or learn from the start with precision double"
                                                          : "use a larger gamma, or scale the features down";
    if (error <= doubtful * least) {
        return L3A_OK;
    }
    TRY(smallest_eigenvalue(analytic, &smallest));
    const double ratio = error / fmax(least, smallest - error);
    number_format(gamma_asked, gamma);
    FAIL_IF(!(ratio <= hopeless), context, L3A_ERROR_NUMERIC, hint,
            "gamma = %s is too small for these features: the sums were computed in %s and are off by about %.1g", gamma, precision,
            error);
    if (ratio > doubtful) {
        report_warning(context,
                       "gamma = %s is close to the rounding error of the sums, about %.1g in %s: scores may be inexact; %s", gamma,
                       error, precision, hint);
    }
done:
    return status;
}

void analytic_total(const struct analytic *analytic, const struct analytic *before) {
    mirror_triangle(analytic, false, before);
}

/* Factors the second triangle + shift·I in place. */
static l3a_status factor_total(const struct analytic *analytic, double shift, double gamma_asked) {
    l3a_context *context = analytic->context;
    l3a_status status = L3A_OK;
    const double sum = trace(analytic), error = rounding(analytic->inverse ? REAL_DOUBLE : analytic->precision, sum);
    char gamma[NUMBER_TEXT];
    /* Factoring infinities can succeed and give a solution of zeros. */
    FAIL_IF(!isfinite(sum), context, L3A_ERROR_NUMERIC, "scale the features down, or use precision double",
            "the sums are not finite: these features are too large");
    add_to_diagonal(analytic_second(analytic), analytic->stride, analytic->dim, shift);
    FAIL_IF(!context->matrix->factor(context->threads, REAL_DOUBLE, analytic->dim, analytic_second(analytic), analytic->stride),
            context, L3A_ERROR_NUMERIC,
            "use a larger gamma, or learn from the start with precision double, or scale the features down",
            "the sums with gamma = %s on the diagonal are not positive definite: gamma is too small for these features",
            number_format(gamma_asked, gamma));
    TRY(check_rounding(analytic, error, shift, gamma_asked));
done:
    return status;
}

/* Sets the second triangle to the factor of the first + shift·I. */
static l3a_status factor(const struct analytic *analytic, double shift) {
    analytic_total(analytic, NULL);
    return factor_total(analytic, shift, analytic->gamma);
}

l3a_status analytic_factor_second(const struct analytic *analytic, double shift) {
    return factor_total(analytic, shift, shift);
}

static bool is_empty(const struct analytic *analytic) {
    const double expected = analytic->inverse ? 1 / analytic->gamma : 0;
    bool empty = true;
    for (size_t i = 0; empty && i < analytic->dim; i++) {
        const double *row = analytic_row(analytic, i);
        empty = row[i] == expected;
        for (size_t j = 0; empty && j < i; j++) {
            empty = row[j] == 0;
        }
    }
    return empty;
}

l3a_status analytic_use_inverse(struct analytic *analytic, bool inverse) {
    l3a_status status = L3A_OK;
    const l3a_context *context = analytic->context;
    const size_t d = analytic->dim, step = analytic->stride;
    if (analytic->inverse == inverse) {
        return L3A_OK;
    }
    if (is_empty(analytic)) {
        for (size_t i = 0; i < d; i++) {
            analytic_row(analytic, i)[i] = inverse ? 1 / analytic->gamma : 0;
        }
    } else {
        TRY(factor(analytic, inverse ? analytic->gamma : 0));
        FAIL_IF(!context->matrix->invert(context->threads, d, analytic_second(analytic), step), analytic->context,
                L3A_ERROR_NUMERIC, "use a larger gamma", "the matrix cannot be inverted: gamma is too small for these features");
        mirror_triangle(analytic, true, NULL);
        if (!inverse) {
            add_to_diagonal(analytic->square, step, d, -analytic->gamma);
        }
    }
    analytic->inverse = inverse;
done:
    return status;
}

typedef struct panel_sum {
    const struct analytic *analytic;
    const float *panel;
    size_t first, width; /* its first row in A, and the floats in one of its rows */
} panel_sum;

static void add_panel_rows(void *argument, size_t first, size_t last) {
    const panel_sum *sum = argument;
    for (size_t i = first; i < last; i++) {
        double *to = analytic_row(sum->analytic, sum->first + i);
        const float *from = sum->panel + i * sum->width;
        for (size_t j = 0; j <= sum->first + i; j++) {
            to[j] += (double)from[j];
        }
    }
}

/* Works on one panel of rows of the triangle at a time: a product for what lies left of the diagonal block, and a rank update for
 * the block. Both are added to the doubles while they are in the cache. */
static void add_mixed(const struct analytic *analytic, const float *rows, size_t count, const float *less, size_t less_count,
                      float *panel) {
    const l3a_context *context = analytic->context;
    const matrix_operations *matrix = context->matrix;
    const size_t d = analytic->dim;
    for (size_t first = 0; first < d; first += ANALYTIC_PANEL) {
        const size_t size = d - first < ANALYTIC_PANEL ? d - first : ANALYTIC_PANEL, width = first + size;
        matrix->multiply(context->threads, REAL_SINGLE, true, false, size, first, count, 1, rows + first, d, rows, d, 0, panel,
                         width);
        matrix->rank_update(context->threads, REAL_SINGLE, size, count, 1, rows + first, d, 0, panel + first, width);
        if (less_count) {
            matrix->multiply(context->threads, REAL_SINGLE, true, false, size, first, less_count, -1, less + first, d, less, d, 1,
                             panel, width);
            matrix->rank_update(context->threads, REAL_SINGLE, size, less_count, -1, less + first, d, 1, panel + first, width);
        }
        panel_sum sum = {analytic, panel, first, width};
        parallel_for(context->threads, size, 16, add_panel_rows, &sum);
    }
}

void analytic_add_difference(const struct analytic *analytic, real type, const void *more, size_t more_count, const void *less,
                             size_t less_count, float *panel) {
    const l3a_context *context = analytic->context;
    const size_t d = analytic->dim;
    if (type == REAL_SINGLE) {
        add_mixed(analytic, more, more_count, less, less_count, panel);
        return;
    }
    if (more_count) {
        context->matrix->rank_update(context->threads, REAL_DOUBLE, d, more_count, 1, more, d, 1, analytic->square,
                                     analytic->stride);
    }
    if (less_count) {
        context->matrix->rank_update(context->threads, REAL_DOUBLE, d, less_count, -1, less, d, 1, analytic->square,
                                     analytic->stride);
    }
}

void analytic_add(const struct analytic *analytic, real type, const void *rows, size_t count, float *panel) {
    analytic_add_difference(analytic, type, rows, count, NULL, 0, panel);
}

l3a_status check_weights(const struct analytic *analytic, const double *weights, size_t columns) {
    char gamma[NUMBER_TEXT];
    for (size_t i = 0; i < analytic->dim * columns; i++) {
        if (!isfinite(weights[i])) {
            return fail(analytic->context, L3A_ERROR_NUMERIC, "use a larger gamma, or scale the features down",
                        "the solution is not finite with gamma = %s", number_format(analytic->gamma, gamma));
        }
    }
    return L3A_OK;
}

void transpose(const double *from, size_t rows, size_t columns, double *to) {
    for (size_t first = 0; first < rows; first += TILE) {
        const size_t last = first + TILE < rows ? first + TILE : rows;
        for (size_t j = 0; j < columns; j++) {
            for (size_t i = first; i < last; i++) {
                to[j * rows + i] = from[i * columns + j];
            }
        }
    }
}

/* Transposing lets the triangular solves run along contiguous rows. */
l3a_status analytic_solve_total(const struct analytic *analytic, double gamma, size_t columns, const double *cross,
                                double *weights) {
    l3a_status status = L3A_OK;
    const l3a_context *context = analytic->context;
    const size_t d = analytic->dim;
    double *rows = NULL;
    TRY(allocate(analytic->context, columns, d * sizeof *rows, &rows));
    TRY(factor_total(analytic, gamma, gamma));
    transpose(cross, d, columns, rows);
    context->matrix->solve_rows(context->threads, REAL_DOUBLE, d, columns, analytic_second(analytic), analytic->stride, rows, d);
    transpose(rows, columns, d, weights);
    TRY(check_weights(analytic, weights, columns));
done:
    release(analytic->context, rows);
    return status;
}

l3a_status analytic_solve(const struct analytic *analytic, size_t columns, const double *cross, double *weights) {
    analytic_total(analytic, NULL);
    return analytic_solve_total(analytic, analytic->gamma, columns, cross, weights);
}

l3a_status recursion_create(l3a_context *context, size_t dim, size_t columns, size_t count, struct recursion *recursion) {
    const size_t rows = count < RECURSION_ROWS ? count : RECURSION_ROWS;
    l3a_status status = L3A_OK;
    TRY(allocate(context, rows, dim * sizeof(double), &recursion->rows));
    TRY(allocate(context, rows, dim * sizeof(double), &recursion->gain));
    TRY(allocate(context, rows, rows * sizeof(double), &recursion->system));
    TRY(allocate(context, rows, columns * sizeof(double), &recursion->error));
done:
    return status;
}

void recursion_free(l3a_context *context, struct recursion *recursion) {
    release(context, recursion->rows);
    release(context, recursion->gain);
    release(context, recursion->system);
    release(context, recursion->error);
    memset(recursion, 0, sizeof *recursion);
}

/* Scales rows of `width` numbers, from row `first` on, in double precision. In float32, two copies of an image with different
 * weights would round to different directions, and a tiny γ would tell them apart. */
static void widen(real type, const void *from, size_t first, size_t count, size_t width, const double *scale, double *to) {
    for (size_t i = 0; i < count; i++) {
        const size_t at = (first + i) * width;
        for (size_t j = 0; j < width; j++) {
            to[i * width + j] =
                scale[first + i] * (type == REAL_SINGLE ? (double)((const float *)from)[at + j] : ((const double *)from)[at + j]);
        }
    }
}

static l3a_status recurse(const struct analytic *analytic, struct recursion *work, size_t n, size_t columns, double *cross,
                          double *weights) {
    l3a_status status = L3A_OK;
    const l3a_context *context = analytic->context;
    const matrix_operations *matrix = context->matrix;
    const int threads = context->threads;
    const size_t d = analytic->dim, step = analytic->stride;
    matrix->multiply_symmetric(threads, n, d, work->rows, d, analytic->square, step, work->gain, d);
    matrix->multiply(threads, REAL_DOUBLE, false, true, n, n, d, 1, work->rows, d, work->gain, d, 0, work->system, n);
    add_to_diagonal(work->system, n, n, 1);
    FAIL_IF(!matrix->factor(threads, REAL_DOUBLE, n, work->system, n), analytic->context, L3A_ERROR_NUMERIC,
            "use a larger gamma, or solver sums",
            "the matrix of the recursion is not positive definite any more: gamma is too small");
    matrix->multiply(threads, REAL_DOUBLE, true, false, d, columns, n, 1, work->rows, d, work->error, columns, 1, cross, columns);
    matrix->multiply(threads, REAL_DOUBLE, false, false, n, columns, d, -1, work->rows, d, weights, columns, 1, work->error,
                     columns);
    matrix->solve_transposed(threads, n, d, work->system, n, work->gain, d);
    matrix->solve_transposed(threads, n, columns, work->system, n, work->error, columns);
    matrix->rank_update(threads, REAL_DOUBLE, d, n, -1, work->gain, d, 1, analytic->square, step);
    matrix->multiply(threads, REAL_DOUBLE, true, false, d, columns, n, 1, work->gain, d, work->error, columns, 1, weights, columns);
    TRY(check_weights(analytic, weights, columns));
done:
    return status;
}

l3a_status recursion_add(const struct analytic *analytic, struct recursion *recursion, real type, const void *rows,
                         const void *targets, const double *scale, size_t count, size_t columns, double *cross, double *weights) {
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < count; first += RECURSION_ROWS) {
        const size_t n = count - first < RECURSION_ROWS ? count - first : RECURSION_ROWS;
        widen(type, rows, first, n, analytic->dim, scale, recursion->rows);
        widen(type, targets, first, n, columns, scale, recursion->error);
        TRY(recurse(analytic, recursion, n, columns, cross, weights));
    }
done:
    return status;
}

/* to [PROBES x d] = combinations of the columns of from [d x columns] */
static void combine(const double *from, size_t d, size_t columns, const double *signs, double *to) {
    for (size_t i = 0; i < PROBES; i++) {
        for (size_t j = 0; j < d; j++) {
            double sum = 0;
            for (size_t k = 0; k < columns; k++) {
                sum += signs[i * columns + k] * from[j * columns + k];
            }
            to[i * d + j] = sum;
        }
    }
}

l3a_status recursion_check(const struct analytic *analytic, size_t columns, const double *cross, const double *weights) {
    l3a_context *context = analytic->context;
    l3a_status status = L3A_OK;
    const size_t d = analytic->dim, size = PROBES * d;
    double *signs = NULL, *sums = NULL, *expected = NULL, *found = NULL, off = 0;
    char gamma[NUMBER_TEXT];
    TRY(allocate(context, PROBES, columns * sizeof *signs, &signs));
    TRY(allocate(context, size, sizeof *sums, &sums));
    TRY(allocate(context, size, sizeof *expected, &expected));
    TRY(allocate(context, size, sizeof *found, &found));
    draw_signs(signs, columns);
    combine(cross, d, columns, signs, sums);
    combine(weights, d, columns, signs, expected);
    context->matrix->multiply_symmetric(context->threads, PROBES, d, sums, d, analytic->square, analytic->stride, found, d);
    const double length = norm(expected, size);
    for (size_t i = 0; i < size; i++) {
        found[i] -= expected[i];
    }
    off = length > 0 ? norm(found, size) / length : 0;
    number_format(analytic->gamma, gamma);
    FAIL_IF(!(off <= recursion_hopeless), context, L3A_ERROR_NUMERIC, "use a larger gamma, or solver sums",
            "gamma = %s is too small for the recursion: its weights are off by %.1g of their size", gamma, off);
    if (off > recursion_doubtful) {
        report_warning(
            context,
            "gamma = %s is small for the recursion, whose weights are off by %.1g of their size: scores may be inexact; use "
            "a larger gamma, or solver sums",
            gamma, off);
    }
done:
    release(context, signs);
    release(context, sums);
    release(context, expected);
    release(context, found);
    return status;
}
