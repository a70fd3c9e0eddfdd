/* Phases kept apart: weights of each phase from its own M_j, by elimination in long double over full matrices. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "learn/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, PARTS = 3 };

struct world {
    l3a_context *context;
    struct analytic analytic;
    struct part parts[PARTS];
    size_t dim, count, columns;
    double *cross, *weights;
};

/* Each part is the sum over `rows` random rows; each class has a column of cross with values of that size. */
static void make_world(struct world *w, size_t dim, size_t count, size_t rows, real type, double gamma) {
    static const size_t classes[PARTS] = {2, 1, 3};
    *w = (struct world){.context = make_context(2), .dim = dim, .count = count};
    assert_ok(w->context, analytic_create(w->context, dim, gamma, type, &w->analytic));
    for (size_t p = 0; p < count; p++) {
        struct part *part = &w->parts[p];
        *part = (struct part){.first = w->columns, .last = w->columns + classes[p], .phases = 1};
        w->columns += classes[p];
        assert_ok(w->context, packed_create(w->context, dim, type, &part->sums));
        analytic_clear(&w->analytic);
        for (size_t n = 0; n < rows; n++) {
            for (size_t i = 0; i < dim; i++) {
                for (size_t j = 0; j <= i; j++) {
                    analytic_row(&w->analytic, i)[j] += random_uniform(p, n * dim + i) * random_uniform(p, n * dim + j);
                }
            }
        }
        analytic_pack(&w->analytic, &part->sums);
    }
    w->cross = calloc(dim * w->columns, sizeof *w->cross);
    w->weights = calloc(dim * w->columns, sizeof *w->weights);
    for (size_t i = 0; i < dim * w->columns; i++) {
        w->cross[i] = (double)rows * random_uniform(9, i);
    }
}

static void free_world(struct world *w) {
    for (size_t p = 0; p < w->count; p++) {
        release(w->context, w->parts[p].sums.rows);
    }
    analytic_free(&w->analytic);
    l3a_context_free(w->context);
    free(w->cross);
    free(w->weights);
}

static long double element(const struct part *part, size_t i, size_t j) {
    const size_t at = i > j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
    return part->sums.type == REAL_SINGLE ? (long double)((const float *)part->sums.rows)[at]
                                          : (long double)((const double *)part->sums.rows)[at];
}

/* M_j w = c for column k of part j, by elimination; M_j is positive definite, so no pivoting. */
static void eliminate(const struct world *w, size_t j, size_t k, double alpha, long double *solution) {
    static long double m[MOST][MOST + 1];
    const size_t d = w->dim;
    for (size_t r = 0; r < d; r++) {
        for (size_t c = 0; c < d; c++) {
            m[r][c] = r == c ? (long double)w->analytic.gamma : 0;
            for (size_t p = 0; p < w->count; p++) {
                m[r][c] += (p == j ? 1 : (long double)alpha) * element(&w->parts[p], r, c);
            }
        }
        m[r][d] = (long double)w->cross[r * w->columns + k];
    }
    for (size_t p = 0; p < d; p++) {
        for (size_t r = 0; r < d; r++) {
            const long double factor = r == p ? 0 : m[r][p] / m[p][p];
            for (size_t c = p; r != p && c <= d; c++) {
                m[r][c] -= factor * m[p][c];
            }
        }
    }
    for (size_t r = 0; r < d; r++) {
        solution[r] = m[r][d] / m[r][r];
    }
}

/* limit: of the error of all weights, as a share of their size. */
static void compare(const struct world *w, double alpha, double lift, double limit) {
    static long double expected[2 * PARTS][MOST];
    const long double share = (long double)lift * (long double)(w->count - 1) / (long double)(w->count + 8);
    long double off = 0, size = 0;
    for (size_t j = 0; j < w->count; j++) {
        for (size_t k = w->parts[j].first; k < w->parts[j].last; k++) {
            eliminate(w, j, k, alpha, expected[k]);
        }
    }
    for (size_t i = 0; i < w->dim; i++) {
        long double sum = 0;
        for (size_t k = 0; k < w->columns; k++) {
            sum += expected[k][i];
        }
        for (size_t k = 0; k < w->columns; k++) {
            const long double value = expected[k][i] + share * sum, gap = value - (long double)w->weights[i * w->columns + k];
            off += gap * gap;
            size += value * value;
        }
    }
    assert_true(sqrtl(off) <= (long double)limit * sqrtl(size));
}

static void solutions_are_those_of_each_phase_s_own_system(void **state) {
    (void)state;
    static const size_t dims[] = {1, 2, 17, MOST};
    static const double alphas[] = {0.3, 0.05, 1};
    for (size_t n = 0; n < sizeof dims / sizeof dims[0] * 3 * 2 * PARTS; n++) {
        const size_t dim = dims[n % 4], count = 1 + n / 4 % PARTS;
        const double alpha = alphas[n / 12 % 3];
        const bool single = n / 36;
        struct world w;
        make_world(&w, dim, count, 60, single ? REAL_SINGLE : REAL_DOUBLE, 0.5);
        assert_ok(w.context, parts_solve(&w.analytic, w.parts, count, alpha, 0.1, w.columns, w.cross, w.weights));
        compare(&w, alpha, 0.1, single ? 2e-3 : 1e-9); /* the search of single precision stops at 5e-4 in the norm of M */
        /* and once more, from where it arrived */
        assert_ok(w.context, parts_solve(&w.analytic, w.parts, count, alpha, 0.1, w.columns, w.cross, w.weights));
        compare(&w, alpha, 0.1, single ? 2e-3 : 1e-9);
        free_world(&w);
    }
}

static void the_sum_of_parts_is_theirs(void **state) {
    (void)state;
    struct world w;
    make_world(&w, 17, 3, 5, REAL_SINGLE, 1);
    parts_sum(&w.analytic, w.parts, 3);
    for (size_t i = 0; i < 17; i++) {
        for (size_t j = 0; j <= i; j++) {
            const long double sum = element(&w.parts[0], i, j) + element(&w.parts[1], i, j) + element(&w.parts[2], i, j);
            assert_true(fabsl(sum - (long double)analytic_row(&w.analytic, i)[j]) <= 1e-13L);
        }
    }
    parts_sum(&w.analytic, w.parts, 0);
    assert_true(analytic_row(&w.analytic, 16)[3] == 0);
    free_world(&w);
}

/* Folding adds triangles; the folded part solves like one phase with both. */
static void folded_parts_add_up(void **state) {
    (void)state;
    struct world w;
    make_world(&w, 17, 3, 30, REAL_DOUBLE, 0.5);
    const long double before = element(&w.parts[0], 16, 5) + element(&w.parts[1], 16, 5);
    packed_add(17, &w.parts[1].sums, &w.parts[0].sums);
    assert_true(fabsl(element(&w.parts[1], 16, 5) - before) <= 1e-12L);
    release(w.context, w.parts[0].sums.rows);
    w.parts[1].first = 0;
    w.parts[0] = w.parts[1];
    w.parts[1] = w.parts[2];
    w.count = 2;
    assert_ok(w.context, parts_solve(&w.analytic, w.parts, 2, 0.3, 0, w.columns, w.cross, w.weights));
    compare(&w, 0.3, 0, 1e-9);
    free_world(&w);
}

static void the_lift_grows_from_zero(void **state) {
    (void)state;
    assert_true(parts_lift(0.1, 0) == 0 && parts_lift(0.1, 1) == 0);
    assert_true(fabs(parts_lift(0.1, 2) - 0.01) < 1e-15 && fabs(parts_lift(0.1, 10) - 0.05) < 1e-15);
}

/* A few rows, and a gamma far below the rounding of float32 sums, or sums from which more was taken than they held. */
static void hopeless_systems_are_refused(void **state) {
    (void)state;
    struct world w;
    make_world(&w, MOST, 2, 5, REAL_SINGLE, 1e-12);
    assert_fails(w.context, parts_solve(&w.analytic, w.parts, 2, 0.3, 0, w.columns, w.cross, w.weights), L3A_ERROR_NUMERIC,
                 "gamma");
    free_world(&w);
    make_world(&w, 5, 2, 20, REAL_DOUBLE, 1);
    for (size_t i = 0; i < packed_size(5); i++) {
        ((double *)w.parts[1].sums.rows)[i] *= -3;
    }
    assert_fails(w.context, parts_solve(&w.analytic, w.parts, 2, 0.3, 0, w.columns, w.cross, w.weights), L3A_ERROR_NUMERIC,
                 "positive definite");
    free_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_are_those_of_each_phase_s_own_system),
        cmocka_unit_test(the_sum_of_parts_is_theirs),
        cmocka_unit_test(folded_parts_add_up),
        cmocka_unit_test(the_lift_grows_from_zero),
        cmocka_unit_test(hopeless_systems_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
