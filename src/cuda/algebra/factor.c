/* Factors in the second half, and the recursion on the first half. */
#include "cuda/algebra/algebra.h"

#include <math.h>

/* Sums of the diagonal of a square on the device, and whether every element is finite. */
static l3a_status read_diagonal(struct device *device, real type, size_t d, const void *square, double *sum, bool *finite) {
    double *diagonal = NULL, *given = NULL;
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(device->context, d, sizeof *given, &given));
    TRY(device_allocate_zeroed(device, d, sizeof *diagonal, &diagonal));
    TRY_CUDA(device, kernel_diagonal(device->stream, type, d, 1, square, diagonal));
    TRY(device_get(device, given, diagonal, d * sizeof *given));
    *sum = 0;
    *finite = true;
    for (size_t i = 0; i < d; i++) {
        *sum += given[i];
        *finite = *finite && isfinite(given[i]);
    }
done:
    device_release(device, diagonal);
    device->host->release(device->context, given);
    return status;
}

/* square = scale · A + share · Σ scatters */
static l3a_status blend(struct device *device, const struct sums *sums, double scale, const struct scatter *const *scatters,
                        size_t count, double share, double *square) {
    const struct cuda_sums *held = sums->held;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, kernel_add_square(device->stream, sums->dim, 0, square, scale, held->halves[KEPT]));
    for (size_t i = 0; i < count; i++) {
        TRY(cuda_scatter_add_to(device, scatters[i], share, square));
    }
done:
    return status;
}

/* M is made in double precision, in work space if the factor is to be single. */
l3a_status cuda_sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                            double share, double shift, double *trace, bool *definite) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    const size_t d = sums->dim;
    double *work = NULL, *factor = held->halves[ADDED], sum = 0;
    bool finite = true;
    l3a_status status = L3A_OK;
    *definite = false;
    if (type == REAL_SINGLE) {
        TRY(device_allocate(device, d, d * sizeof *work, &work));
    }
    double *square = work ? work : factor;
    TRY(blend(device, sums, scale, scatters, count, share, square));
    TRY(read_diagonal(device, REAL_DOUBLE, d, square, trace, &finite));
    if (work) {
        TRY_CUDA(device, kernel_narrow(device->stream, d, work, (float *)factor));
    }
    TRY_CUDA(device, kernel_shift_diagonal(device->stream, type, d, shift, factor));
    finite = finite && isfinite(*trace);
    if (finite) { /* in the factor's type as well; factoring infinities can succeed and give a solution of zeros */
        TRY(read_diagonal(device, type, d, factor, &sum, &finite));
    }
    if (finite) {
        TRY(device_factor(device, type, d, factor, definite));
    }
    if (*definite) {
        TRY(read_diagonal(device, type, d, factor, &sum, definite));
    }
    if (*definite && type == REAL_SINGLE) {
        TRY(device_invert_blocks(device, d, solve_block(sums), (const float *)factor, factor_inverses(sums)));
    }
done:
    device_release(device, work);
    return status;
}

l3a_status cuda_sums_invert(struct sums *sums, double shift, bool *regular) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    l3a_status status = L3A_OK;
    TRY(device_invert(device, sums->dim, held->halves[ADDED], regular));
    if (*regular) {
        TRY(cuda_sums_copy(sums, KEPT));
        TRY_CUDA(device, kernel_shift_diagonal(device->stream, REAL_DOUBLE, sums->dim, shift, held->halves[KEPT]));
    }
done:
    return status;
}

/* ---- The recursion ---- */

/* All on the device, in double precision: in float32, two copies of an image with different weights would round to different
 * directions, and a tiny γ would tell them apart. */
struct recursion {
    size_t d, columns;
    double *inverse;             /* R */
    double *cross, *coefficient; /* [d x columns] */
    double *rows, *error;        /* X̃ [n x d], and Ỹ, which becomes L⁻¹(Ỹ - X̃ W) */
    double *gain, *system;       /* G, and I + X̃ R X̃ᵀ */
};

static l3a_status recurse(struct device *device, const struct recursion *r, size_t n, bool *definite) {
    const size_t d = r->d, columns = r->columns;
    l3a_status status = L3A_OK;
    TRY(device_multiply_symmetric(device, n, d, 1, r->rows, r->inverse, 0, r->gain));
    TRY(device_multiply(device, REAL_DOUBLE, false, true, n, n, d, 1, r->rows, d, r->gain, d, 0, r->system, n));
    TRY_CUDA(device, kernel_shift_diagonal(device->stream, REAL_DOUBLE, n, 1, r->system));
    TRY(device_factor(device, REAL_DOUBLE, n, r->system, definite));
    if (!*definite) {
        goto done;
    }
    TRY(device_multiply(device, REAL_DOUBLE, true, false, d, columns, n, 1, r->rows, d, r->error, columns, 1, r->cross, columns));
    TRY(device_multiply(device, REAL_DOUBLE, false, false, n, columns, d, -1, r->rows, d, r->coefficient, columns, 1, r->error,
                        columns));
    TRY(device_solve_columns(device, n, d, r->system, r->gain));
    TRY(device_solve_columns(device, n, columns, r->system, r->error));
    TRY(device_rank_update(device, d, n, -1, r->gain, 1, r->inverse));
    TRY(device_multiply(device, REAL_DOUBLE, true, false, d, columns, n, 1, r->gain, d, r->error, columns, 1, r->coefficient,
                        columns));
done:
    return status;
}

/* Some rows at a time. */
static l3a_status recurse_rows(struct device *device, struct recursion *r, const struct block *rows, const double *weight,
                               const double *targets, bool *definite) {
    l3a_status status = L3A_OK;
    for (size_t first = 0; *definite && first < rows->count; first += UPDATE_ROWS) {
        const size_t n = rows->count - first < UPDATE_ROWS ? rows->count - first : UPDATE_ROWS;
        device_release(device, r->rows);
        device_release(device, r->error);
        r->rows = r->error = NULL;
        TRY(cuda_block_scaled(device, rows, first, n, weight + first, &r->rows));
        TRY(cuda_targets_scaled(device, targets + first * r->columns, n, r->columns, weight + first, &r->error));
        TRY(recurse(device, r, n, definite));
    }
done:
    return status;
}

l3a_status cuda_sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                            double *coefficients, bool *definite) {
    struct device *device = device_of(sums->context);
    const size_t d = sums->dim, n = rows->count < UPDATE_ROWS ? rows->count : UPDATE_ROWS;
    const size_t bytes = d * rows->columns * sizeof(double);
    struct recursion r = {.d = d, .columns = rows->columns, .inverse = ((const struct cuda_sums *)sums->held)->halves[KEPT]};
    l3a_status status = L3A_OK;
    *definite = true;
    TRY(device_follow(device, rows->context));
    TRY(device_copy_of(device, cross, bytes, &r.cross));
    TRY(device_copy_of(device, coefficients, bytes, &r.coefficient));
    TRY(device_allocate(device, n, d * sizeof(double), &r.gain));
    TRY(device_allocate(device, n, n * sizeof(double), &r.system));
    TRY(recurse_rows(device, &r, rows, weight, targets, definite));
    TRY(device_get(device, cross, r.cross, bytes));
    TRY(device_get(device, coefficients, r.coefficient, bytes));
done:
    device_release(device, r.cross);
    device_release(device, r.coefficient);
    device_release(device, r.rows);
    device_release(device, r.error);
    device_release(device, r.gain);
    device_release(device, r.system);
    return status;
}
