#include "algebra/ridge.h"

#include "base/memory.h"
#include "common/number.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

enum { TILE = 64, PROBES = 4, STEPS = 5 };

/* Limits of ‖E‖, in units of max(γ, λ - ‖E‖). */
static const double doubtful = 0.5, hopeless = 10;
/* A row may come again, as that of an image with classes of two phases. Its expansion then differs by rounding, δ, which depends on
 * the place in the block and on the processor. If its targets differ, the recursion learns the difference from δ, and W is off by
 * |δ|/2γ in that direction. Limits of |δ| ‖x‖/2γ. */
static const double again_doubtful = 0.1, again_hopeless = 1;
/* Limits of the distance between R C and W, as a share of W. */
static const double update_doubtful = 1e-3, update_hopeless = 0.05;

l3a_status ridge_create(l3a_context *context, size_t dim, double gamma, real precision, bool shared, struct ridge *ridge) {
    *ridge = (struct ridge){.gamma = gamma, .precision = precision};
    return shared ? sums_create_shared(context, dim, &ridge->sums) : sums_create(context, dim, &ridge->sums);
}

void ridge_free(struct ridge *ridge) {
    sums_free(&ridge->sums);
    memset(ridge, 0, sizeof *ridge);
}

static double rounding(real precision, double trace) {
    return precision == REAL_SINGLE ? 0x1p-24 * trace / 4 : 0x1p-53 * trace;
}

bool ridge_is_safe(const struct ridge *ridge, double trace) {
    return rounding(ridge->precision, trace) <= doubtful * ridge->gamma;
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

/* Estimates, from above, the smallest eigenvalue of the matrix whose factor is the second half. */
static l3a_status smallest_eigenvalue(const struct ridge *ridge, double *smallest) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    const size_t d = ridge->sums.dim;
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
        TRY(sums_solve(&ridge->sums, REAL_DOUBLE, PROBES, rows));
    }
done:
    release(context, rows);
    return status;
}

/* Checks that a matrix with this error has a usable solution. Its factor is the second half, and no eigenvalue is below `least`. */
static l3a_status check_rounding(const struct ridge *ridge, double error, double least) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    double smallest = least;
    char gamma[NUMBER_TEXT];
    const char *precision = ridge->precision == REAL_SINGLE ? "float32" : "double";
    const char *hint = ridge->precision == REAL_SINGLE ? "use a larger gamma, or learn from the start with precision double"
                                                       : "use a larger gamma, or scale the features down";
    if (error <= doubtful * least) {
        return L3A_OK;
    }
    TRY(smallest_eigenvalue(ridge, &smallest));
    const double ratio = error / fmax(least, smallest - error);
    number_format(ridge->gamma, gamma);
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

static l3a_status factor(struct ridge *ridge, double scale, const struct scatter *const *scatters, size_t count, double share,
                         double shift) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    char gamma[NUMBER_TEXT];
    double trace;
    bool definite;
    TRY(sums_factor(&ridge->sums, REAL_DOUBLE, scale, scatters, count, share, shift, &trace, &definite));
    FAIL_IF(!isfinite(trace), context, L3A_ERROR_NUMERIC, "scale the features down, or use precision double",
            "the sums are not finite: these features are too large");
    FAIL_IF(!definite, context, L3A_ERROR_NUMERIC,
            "use a larger gamma, or learn from the start with precision double, or scale the features down",
            "the sums with gamma = %s on the diagonal are not positive definite: gamma is too small for these features",
            number_format(ridge->gamma, gamma));
    TRY(check_rounding(ridge, rounding(ridge->inverse ? REAL_DOUBLE : ridge->precision, trace), shift));
done:
    return status;
}

l3a_status ridge_factor(struct ridge *ridge, double scale, const struct scatter *const *scatters, size_t count, double share) {
    return factor(ridge, scale, scatters, count, share, ridge->gamma);
}

/* If A is 0 or R is I/γ, writes the other and sets *empty. */
static l3a_status turn_empty(struct ridge *ridge, bool *empty) {
    l3a_status status = L3A_OK;
    const size_t d = ridge->sums.dim;
    const double one = ridge->inverse ? 1 / ridge->gamma : 0, other = ridge->inverse ? 0 : 1 / ridge->gamma;
    double *row = NULL;
    *empty = true;
    TRY(allocate(ridge->sums.context, d, sizeof *row, &row));
    for (size_t i = 0; *empty && i < d; i++) {
        TRY(sums_read(&ridge->sums, KEPT, i, 1, row));
        for (size_t j = 0; *empty && j <= i; j++) {
            *empty = row[j] == (i == j ? one : 0);
        }
    }
    memset(row, 0, d * sizeof *row);
    for (size_t i = 0; *empty && i < d; i++) {
        row[i] = other;
        TRY(sums_write(&ridge->sums, KEPT, i, 1, row));
        row[i] = 0;
    }
done:
    release(ridge->sums.context, row);
    return status;
}

l3a_status ridge_use_inverse(struct ridge *ridge, bool inverse) {
    l3a_status status = L3A_OK;
    bool empty, regular = true;
    if (ridge->inverse == inverse) {
        return L3A_OK;
    }
    TRY(turn_empty(ridge, &empty));
    if (!empty) {
        TRY(factor(ridge, 1, NULL, 0, 0, inverse ? ridge->gamma : 0));
        TRY(sums_invert(&ridge->sums, inverse ? 0 : -ridge->gamma, &regular));
        FAIL_IF(!regular, ridge->sums.context, L3A_ERROR_NUMERIC, "use a larger gamma",
                "the matrix cannot be inverted: gamma is too small for these features");
    }
    ridge->inverse = inverse;
done:
    return status;
}

l3a_status ridge_check_finite(const struct ridge *ridge, const double *coefficients, size_t columns) {
    char gamma[NUMBER_TEXT];
    for (size_t i = 0; i < ridge->sums.dim * columns; i++) {
        if (!isfinite(coefficients[i])) {
            return fail(ridge->sums.context, L3A_ERROR_NUMERIC, "use a larger gamma, or scale the features down",
                        "the solution is not finite with gamma = %s", number_format(ridge->gamma, gamma));
        }
    }
    return L3A_OK;
}

/* to [columns x rows] = the transpose of from [rows x columns] */
static void transpose(const double *from, size_t rows, size_t columns, double *to) {
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
l3a_status ridge_solve(struct ridge *ridge, size_t columns, const double *cross, double *coefficients) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    const size_t d = ridge->sums.dim;
    double *rows = NULL;
    TRY(allocate(context, columns, d * sizeof *rows, &rows));
    TRY(ridge_factor(ridge, 1, NULL, 0, 0));
    transpose(cross, d, columns, rows);
    TRY(sums_solve(&ridge->sums, REAL_DOUBLE, columns, rows));
    transpose(rows, columns, d, coefficients);
    TRY(ridge_check_finite(ridge, coefficients, columns));
done:
    release(context, rows);
    return status;
}

l3a_status ridge_update(struct ridge *ridge, struct block *rows, const double *weight, const double *targets, double *cross,
                        double *coefficients) {
    l3a_status status = L3A_OK;
    bool definite;
    TRY(sums_update(&ridge->sums, rows, weight, targets, cross, coefficients, &definite));
    FAIL_IF(!definite, ridge->sums.context, L3A_ERROR_NUMERIC, "use a larger gamma, or solver sums",
            "the matrix of the recursion is not positive definite any more: gamma is too small");
    TRY(ridge_check_finite(ridge, coefficients, rows->columns));
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

static l3a_status check_rows_again(const struct ridge *ridge, double square) {
    l3a_context *context = ridge->sums.context;
    const double off = (ridge->precision == REAL_SINGLE ? 0x1p-24 : 0x1p-53) * square / (2 * ridge->gamma);
    char gamma[NUMBER_TEXT];
    l3a_status status = L3A_OK;
    number_format(ridge->gamma, gamma);
    FAIL_IF(!(off <= again_hopeless), context, L3A_ERROR_NUMERIC, "use a larger gamma, or precision double",
            "gamma = %s is too small for the recursion: it would learn from the rounding of the features", gamma);
    if (off > again_doubtful) {
        report_warning(
            context,
            "gamma = %s is small for the recursion, which may learn from the rounding of the features: scores may be inexact; "
            "use a larger gamma, or precision double",
            gamma);
    }
done:
    return status;
}

l3a_status ridge_check_update(const struct ridge *ridge, double square, size_t columns, const double *cross,
                              const double *coefficients) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    const size_t size = PROBES * ridge->sums.dim;
    double *signs = NULL, *sums = NULL, *expected = NULL, *found = NULL;
    const struct array arrays[] = {{&signs, PROBES, columns * sizeof *signs, false},
                                   {&sums, size, sizeof *sums, false},
                                   {&expected, size, sizeof *sums, false},
                                   {&found, size, sizeof *sums, false}};
    char gamma[NUMBER_TEXT];
    TRY(check_rows_again(ridge, square));
    TRY(arrays_allocate(context, arrays, 4));
    draw_signs(signs, columns);
    combine(cross, ridge->sums.dim, columns, signs, sums);
    combine(coefficients, ridge->sums.dim, columns, signs, expected);
    TRY(sums_multiply(&ridge->sums, 1, NULL, 0, 0, sums, PROBES, found));
    const double length = norm(expected, size);
    for (size_t i = 0; i < size; i++) {
        found[i] -= expected[i];
    }
    const double off = length > 0 ? norm(found, size) / length : 0;
    number_format(ridge->gamma, gamma);
    FAIL_IF(!(off <= update_hopeless), context, L3A_ERROR_NUMERIC, "use a larger gamma, or solver sums",
            "gamma = %s is too small for the recursion: its coefficients are off by %.1g of their size", gamma, off);
    if (off > update_doubtful) {
        report_warning(
            context,
            "gamma = %s is small for the recursion, whose coefficients are off by %.1g of their size: scores may be inexact; use "
            "a larger gamma, or solver sums",
            gamma, off);
    }
done:
    arrays_release(context, arrays, 4);
    return status;
}
