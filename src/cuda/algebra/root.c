/* Roots of stored sums, by Cholesky's method with pivots: algebra/cpu/root.c has the mathematics, and algebra/pivots.h the part
 * that the processor does here as well. For each block of pivots, the diagonal [d] and the block [PIVOTS x PIVOTS] cross the
 * boundary; everything else stays on the device. */
#include "cuda/algebra/algebra.h"

#include "algebra/pivots.h"

#include <math.h>

struct search {
    struct device *device;
    const struct scatter *scatter;
    size_t dim, most, count; /* rows of R: the most, and so far */
    double tolerance;
    size_t pivots[PIVOTS], pivot_count;
    double block[PIVOTS * PIVOTS];
    double *diagonal; /* of S, on the processor */
    /* On the device: */
    double *held;             /* the scatter's root; NULL: it is a triangle */
    const double *subtracted; /* X [subtracted_rows x dim]; A = the scatter's - XᵀX */
    size_t subtracted_rows;
    double *root;    /* R [most x dim] */
    double *left;    /* the diagonal of S */
    double *rows;    /* of S, for the pivots [PIVOTS x dim] */
    double *columns; /* of a term, those of the pivots */
    double *factor;  /* of the block */
    size_t *indices; /* the pivots */
};

static l3a_status open_search(struct search *search) {
    struct device *device = search->device;
    const size_t d = search->dim, n = search->scatter->is_root ? search->scatter->rows : 0;
    const size_t longest = n > search->most ? n : search->most, more = search->subtracted_rows;
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(device->context, d, sizeof(double), &search->diagonal));
    TRY(cuda_root_widened(device, search->scatter, &search->held));
    TRY(device_allocate(device, search->most, d * sizeof(double), &search->root));
    TRY(device_allocate_zeroed(device, d, sizeof(double), &search->left));
    TRY(device_allocate(device, PIVOTS, d * sizeof(double), &search->rows));
    TRY(device_allocate(device, longest > more ? longest : more, PIVOTS * sizeof(double), &search->columns));
    TRY(device_allocate(device, PIVOTS, PIVOTS * sizeof(double), &search->factor));
    TRY(device_allocate(device, PIVOTS, sizeof *search->indices, &search->indices));
done:
    return status;
}

static void close_search(struct search *search) {
    struct device *device = search->device;
    device->host->release(device->context, search->diagonal);
    device_release(device, search->held);
    device_release(device, search->root);
    device_release(device, search->left);
    device_release(device, search->rows);
    device_release(device, search->columns);
    device_release(device, search->factor);
    device_release(device, search->indices);
}

/* The diagonal of A. *largest: the largest element that the scatter's has, or infinity if one is not finite. */
static l3a_status make_diagonal(struct search *search, double *largest) {
    struct device *device = search->device;
    const struct scatter *scatter = search->scatter;
    const size_t d = search->dim;
    l3a_status status = L3A_OK;
    if (search->held) {
        TRY_CUDA(device, kernel_root_diagonal(device->stream, REAL_DOUBLE, scatter->rows, d, 1, search->held, search->left));
    } else if (!scatter->is_root) {
        TRY_CUDA(device, kernel_triangle_diagonal(device->stream, scatter->type, d, 1, scatter->held, search->left));
    }
    TRY(device_get(device, search->diagonal, search->left, d * sizeof(double)));
    *largest = 0;
    for (size_t i = 0; i < d; i++) {
        const double number = search->diagonal[i];
        *largest = number <= *largest ? *largest : isfinite(number) ? number : INFINITY;
    }
    TRY_CUDA(device,
             kernel_root_diagonal(device->stream, REAL_DOUBLE, search->subtracted_rows, d, -1, search->subtracted, search->left));
    TRY(device_get(device, search->diagonal, search->left, d * sizeof(double)));
done:
    return status;
}

/* rows += sign · the pivots' rows of XᵀX */
static l3a_status add_term(const struct search *search, const double *x, size_t count, double sign) {
    struct device *device = search->device;
    const size_t d = search->dim, n = search->pivot_count;
    l3a_status status = L3A_OK;
    if (x && count) {
        TRY_CUDA(device, kernel_pivot_columns(device->stream, count, d, x, search->indices, n, search->columns));
        TRY(device_multiply(device, REAL_DOUBLE, true, false, n, d, count, sign, search->columns, n, x, d, 1, search->rows, d));
    }
done:
    return status;
}

/* The pivots' rows of S, and of these the columns of the pivots. */
static l3a_status make_rows(struct search *search) {
    struct device *device = search->device;
    const struct scatter *scatter = search->scatter;
    const size_t d = search->dim, n = search->pivot_count;
    l3a_status status = L3A_OK;
    TRY(device_put(device, search->indices, search->pivots, n * sizeof *search->pivots));
    if (scatter->is_root) {
        TRY_CUDA(device, cudaMemsetAsync(search->rows, 0, n * d * sizeof(double), device->stream));
    } else {
        TRY_CUDA(device, kernel_pivot_rows(device->stream, scatter->type, d, scatter->held, search->indices, n, search->rows));
    }
    TRY(add_term(search, search->held, scatter->rows, 1));
    TRY(add_term(search, search->subtracted, search->subtracted_rows, -1));
    TRY(add_term(search, search->root, search->count, -1));
    TRY_CUDA(device, kernel_pivot_columns(device->stream, n, d, search->rows, search->indices, n, search->factor));
    TRY(device_get(device, search->block, search->factor, n * n * sizeof(double)));
    for (size_t i = n; i-- > 0;) { /* from rows of n numbers to rows of PIVOTS */
        for (size_t j = n; j-- > 0;) {
            search->block[i * PIVOTS + j] = search->block[i * n + j];
        }
    }
done:
    return status;
}

/* Adds the rows of R that the pivots give. The diagonal of S that is left is exact for the pivots. */
static l3a_status add_to_root(struct search *search) {
    struct device *device = search->device;
    const size_t d = search->dim, n = search->pivot_count;
    double *root = search->root + search->count * d, factor[PIVOTS * PIVOTS] = {0};
    size_t order[PIVOTS];
    l3a_status status = L3A_OK;
    const size_t added = pivots_factor(search->block, n, search->most - search->count, search->tolerance, order);
    for (size_t i = 0; i < added; i++) {
        for (size_t j = i; j < added; j++) {
            factor[i * added + j] = search->block[i * PIVOTS + j];
        }
    }
    TRY(device_put(device, search->factor, factor, added * added * sizeof *factor));
    TRY(device_put(device, search->indices, order, added * sizeof *order));
    TRY_CUDA(device, kernel_take(device->stream, added, d, REAL_DOUBLE, search->rows, search->indices, NULL, REAL_DOUBLE, root));
    TRY(device_solve_columns(device, added, d, search->factor, root));
    TRY_CUDA(device, kernel_root_diagonal(device->stream, REAL_DOUBLE, added, d, -1, root, search->left));
    TRY(device_get(device, search->diagonal, search->left, d * sizeof(double)));
    for (size_t i = 0; i < n; i++) {
        search->diagonal[search->pivots[order[i]]] = i < added ? 0 : search->block[i * PIVOTS + i];
    }
    TRY(device_put(device, search->left, search->diagonal, d * sizeof(double)));
    search->count += added;
done:
    return status;
}

static void choose_pivots(struct search *search) {
    search->pivot_count = pivots_choose(search->diagonal, search->dim, search->tolerance, search->pivots);
}

/* Replaces the scatter by R. */
static l3a_status replace(struct scatter *scatter, const struct search *search) {
    struct device *device = search->device;
    l3a_status status = L3A_OK;
    TRY(device_wait(device)); /* nothing that has failed may replace it */
    TRY(cuda_scatter_make_root(scatter, search->count));
    TRY_CUDA(device, kernel_take(device->stream, search->count, search->dim, REAL_DOUBLE, search->root, NULL, NULL, scatter->type,
                                 scatter->held));
done:
    return status;
}

/* Turns A into a root of at most `most` rows. tolerance: a share of the largest element of the diagonal. If there is no such root,
 * nothing has changed. */
static l3a_status find_root(struct scatter *scatter, const double *subtracted, size_t subtracted_rows, size_t most,
                            double tolerance, bool *found) {
    struct search search = {.device = device_of(scatter->context),
                            .scatter = scatter,
                            .subtracted = subtracted,
                            .subtracted_rows = subtracted_rows,
                            .dim = scatter->dim,
                            .most = most};
    l3a_status status = L3A_OK;
    double largest = 0;
    TRY(open_search(&search));
    TRY(make_diagonal(&search, &largest));
    search.tolerance = tolerance * largest;
    for (choose_pivots(&search); search.pivot_count && search.count < most; choose_pivots(&search)) {
        TRY(make_rows(&search));
        TRY(add_to_root(&search));
    }
    *found = isfinite(search.tolerance) && pivots_complete(search.diagonal, search.dim, search.tolerance);
    if (*found) {
        TRY(replace(scatter, &search));
    }
done:
    close_search(&search);
    return status;
}

/* The rounding error of numbers that were computed in double precision, and of stored ones. */
static double computed(const struct scatter *scatter) {
    return (double)scatter->dim * 0x1p-52;
}

static double stored(const struct scatter *scatter) {
    return scatter->type == REAL_SINGLE ? 0x1p-20 : computed(scatter);
}

l3a_status cuda_root_subtract(struct scatter *scatter, const struct block *rows, double scale, const double *weight, size_t count,
                              bool *found) {
    struct device *device = device_of(scatter->context);
    const size_t d = scatter->dim;
    l3a_status status = L3A_OK;
    void *rounded = NULL; /* as they were when they were added */
    double *x = NULL;
    TRY(device_allocate(device, count, d * real_size(scatter->type), &rounded));
    TRY(device_allocate(device, count, d * sizeof *x, &x));
    TRY(cuda_block_take(device, rows, weight, scale, count, scatter->type, rounded));
    TRY_CUDA(device, kernel_take(device->stream, count, d, scatter->type, rounded, NULL, NULL, REAL_DOUBLE, x));
    TRY(find_root(scatter, x, count, scatter->rows, stored(scatter), found));
done:
    device_release(device, rounded);
    device_release(device, x);
    return status;
}

l3a_status cuda_scatter_tidy(struct scatter *scatter, uint64_t rows) {
    l3a_status status = L3A_OK;
    bool found;
    if (!rows) {
        TRY(cuda_scatter_make_root(scatter, 0));
    } else if (scatter->is_root && !scatter->tidy) {
        TRY(find_root(scatter, NULL, 0, scatter->rows, computed(scatter), &found));
        if (!found) {
            TRY(cuda_scatter_expand(scatter));
        }
    } else if (!scatter->is_root && rows <= scatter->dim / 2) {
        TRY(find_root(scatter, NULL, 0, (size_t)rows, stored(scatter), &found));
    }
done:
    return status;
}
