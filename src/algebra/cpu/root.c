/* Roots of stored sums, by Cholesky's method with pivots: R [n x d] with RᵀR = A, for an A of rank n. Beginning with S = A,
 *
 *   r = S[p, :] / √S[p, p]     S ← S - rᵀr
 *
 * gives one row of R after another. The pivot p is a large diagonal element of what is left, S, and when none is above the rounding
 * error, R is complete. S is never formed: only its diagonal is kept, and the rows of a block of pivots are computed when they are
 * needed, from A and from the rows of R so far. So it takes n d numbers of memory, and about n² d operations, or three times that
 * if A is a root itself, almost all of them in matrix products.
 *
 * Each row of R depends on A alone. A root of the rows of images therefore says no more about them than A does, once it has gone
 * through this. The R of a QR factorisation without pivots would not do: if no image has a number in the first column, as happens
 * behind a ReLU, its first row is that of the first image.
 *
 * A may also be a root minus some rows. What cancels then leaves rounding errors of the size of A before, so the tolerance is a
 * share of the largest diagonal element before. */
#include "algebra/cpu/cpu.h"

#include "algebra/pivots.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { STRIP = 256, ARRAYS = 6 };

/* X [rows x dim] in some type */
struct term {
    real type;
    size_t rows;
    const void *x;
};

struct search {
    const struct scatter *scatter;
    struct term subtracted;  /* A = the scatter's - XᵀX */
    size_t dim, most, count; /* rows of R: the most, and so far */
    double tolerance;
    size_t pivots[PIVOTS], pivot_count;
    double *root;     /* R [most x dim] */
    double *diagonal; /* of S */
    double *rows;     /* of S, for the pivots [PIVOTS x dim] */
    double *block;    /* of these, the columns of the pivots [PIVOTS x PIVOTS] */
    double *strip;    /* of a term [STRIP x dim] */
    double *columns;  /* of that, those of the pivots [STRIP x PIVOTS] */
};

static void list_search(struct search *search, struct array *list) {
    const size_t d = search->dim * sizeof(double);
    list[0] = (struct array){&search->root, search->most, d, false};
    list[1] = (struct array){&search->diagonal, 1, d, true};
    list[2] = (struct array){&search->rows, PIVOTS, d, false};
    list[3] = (struct array){&search->block, PIVOTS, PIVOTS * sizeof(double), false};
    list[4] = (struct array){&search->strip, STRIP, d, false};
    list[5] = (struct array){&search->columns, STRIP, PIVOTS * sizeof(double), false};
}

static struct term stored_root(const struct scatter *scatter) {
    return (struct term){scatter->type, scatter->is_root ? scatter->rows : 0, scatter->held};
}

/* diagonal += sign · that of XᵀX */
static void add_diagonal(const struct search *search, const struct term *term, double sign) {
    const size_t d = search->dim;
    for (size_t i = 0; i < term->rows; i++) {
        for (size_t j = 0; j < d; j++) {
            const double number = real_get(term->type, term->x, i * d + j);
            search->diagonal[j] += sign * number * number;
        }
    }
}

/* The diagonal of A. Returns the largest element that the scatter's has, or infinity if one is not finite. */
static double make_diagonal(const struct search *search) {
    const struct term root = stored_root(search->scatter);
    double largest = 0;
    for (size_t i = 0; i < search->dim; i++) {
        cpu_scatter_get(search->scatter, i * (i + 1) / 2 + i, 1, 1, &search->diagonal[i]);
    }
    add_diagonal(search, &root, 1);
    for (size_t i = 0; i < search->dim; i++) {
        const double number = search->diagonal[i];
        largest = number <= largest ? largest : isfinite(number) ? number : INFINITY;
    }
    add_diagonal(search, &search->subtracted, -1);
    return largest;
}

static void choose_pivots(struct search *search) {
    search->pivot_count = pivots_choose(search->diagonal, search->dim, search->tolerance, search->pivots);
}

/* rows += sign · the pivots' rows of XᵀX */
static void add_strip(const struct search *search, const double *x, size_t count, double sign) {
    const size_t d = search->dim, n = search->pivot_count;
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < n; p++) {
            search->columns[i * PIVOTS + p] = x[i * d + search->pivots[p]];
        }
    }
    matrix_multiply(search->scatter->context->threads, REAL_DOUBLE, true, false, n, d, count, sign, search->columns, PIVOTS, x, d,
                    1, search->rows, d);
}

static void add_term(const struct search *search, const struct term *term, double sign) {
    const size_t d = search->dim;
    for (size_t first = 0; first < term->rows; first += STRIP) {
        const size_t count = term->rows - first < STRIP ? term->rows - first : STRIP;
        for (size_t i = 0; term->type == REAL_SINGLE && i < count * d; i++) {
            search->strip[i] = (double)((const float *)term->x)[first * d + i];
        }
        add_strip(search, term->type == REAL_SINGLE ? search->strip : (const double *)term->x + first * d, count, sign);
    }
}

/* The pivots' rows of S. */
static void make_rows(const struct search *search) {
    const struct term root = stored_root(search->scatter), found = {REAL_DOUBLE, search->count, search->root};
    const size_t d = search->dim;
    memset(search->rows, 0, search->pivot_count * d * sizeof *search->rows);
    for (size_t i = 0; i < d; i++) {
        for (size_t n = 0; n < search->pivot_count; n++) {
            const size_t p = search->pivots[n], row = i > p ? i : p, column = i > p ? p : i;
            cpu_scatter_get(search->scatter, row * (row + 1) / 2 + column, 1, 1, &search->rows[n * d + i]);
        }
    }
    add_term(search, &root, 1);
    add_term(search, &search->subtracted, -1);
    add_term(search, &found, -1);
}

/* Adds the rows of R that the pivots give. The diagonal of S that is left is exact for the pivots. */
static void add_to_root(struct search *search) {
    const size_t d = search->dim, n = search->pivot_count;
    double *root = search->root + search->count * d;
    size_t order[PIVOTS];
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            search->block[i * PIVOTS + j] = search->rows[i * d + search->pivots[j]];
        }
    }
    const size_t added = pivots_factor(search->block, n, search->most - search->count, search->tolerance, order);
    for (size_t i = 0; i < added; i++) {
        memcpy(root + i * d, search->rows + order[i] * d, d * sizeof *root);
    }
    matrix_solve_transposed(search->scatter->context->threads, added, d, search->block, PIVOTS, root, d);
    for (size_t i = 0; i < added * d; i++) {
        search->diagonal[i % d] -= root[i] * root[i];
    }
    for (size_t i = 0; i < n; i++) {
        search->diagonal[search->pivots[order[i]]] = i < added ? 0 : search->block[i * PIVOTS + i];
    }
    search->count += added;
}

/* Replaces the scatter by R. */
static l3a_status replace(struct scatter *scatter, const struct search *search) {
    l3a_status status = L3A_OK;
    TRY(cpu_scatter_make_root(scatter, search->count));
    for (size_t i = 0; i < search->count * search->dim; i++) {
        real_put(scatter->type, scatter->held, i, search->root[i]);
    }
done:
    return status;
}

/* Turns A into a root of at most `most` rows. tolerance: a share of the largest element of the diagonal. If there is no such root,
 * nothing has changed. */
static l3a_status find_root(struct scatter *scatter, struct term subtracted, size_t most, double tolerance, bool *found) {
    l3a_status status = L3A_OK;
    struct search search = {.scatter = scatter, .subtracted = subtracted, .dim = scatter->dim, .most = most};
    struct array list[ARRAYS];
    list_search(&search, list);
    TRY(arrays_allocate(scatter->context, list, ARRAYS));
    search.tolerance = tolerance * make_diagonal(&search);
    for (choose_pivots(&search); search.pivot_count && search.count < most; choose_pivots(&search)) {
        make_rows(&search);
        add_to_root(&search);
    }
    *found = isfinite(search.tolerance) && pivots_complete(search.diagonal, search.dim, search.tolerance);
    if (*found) {
        TRY(replace(scatter, &search));
    }
done:
    arrays_release(scatter->context, list, ARRAYS);
    return status;
}

/* The rounding error of numbers that were computed in double precision, and of stored ones. */
static double computed(const struct scatter *scatter) {
    return (double)scatter->dim * 0x1p-52;
}

static double stored(const struct scatter *scatter) {
    return scatter->type == REAL_SINGLE ? 0x1p-20 : computed(scatter);
}

l3a_status cpu_root_subtract(struct scatter *scatter, const struct block *rows, double scale, const double *weight, size_t count,
                             bool *found) {
    l3a_status status = L3A_OK;
    size_t next = 0;
    void *x = NULL;
    TRY(allocate(scatter->context, count, scatter->dim * real_size(scatter->type), &x));
    cpu_block_take(rows, weight, scale, &next, count, scatter->type, x);
    TRY(find_root(scatter, (struct term){scatter->type, count, x}, scatter->rows, stored(scatter), found));
done:
    release(scatter->context, x);
    return status;
}

l3a_status cpu_scatter_tidy(struct scatter *scatter, uint64_t rows) {
    const struct term none = {.rows = 0};
    l3a_status status = L3A_OK;
    bool found;
    if (!rows) {
        TRY(cpu_scatter_make_root(scatter, 0));
    } else if (scatter->is_root && !scatter->tidy) {
        TRY(find_root(scatter, none, scatter->rows, computed(scatter), &found));
        if (!found) {
            TRY(cpu_scatter_expand(scatter));
        }
    } else if (!scatter->is_root && rows <= scatter->dim / 2) {
        TRY(find_root(scatter, none, (size_t)rows, stored(scatter), &found));
    }
done:
    return status;
}
