/* Phases kept apart: coefficients of each phase from its own M_j, by elimination in long double over full matrices. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "learn/part_solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, PARTS = 3 };

struct world {
    l3a_context *context;
    struct ridge ridge;
    struct part parts[PARTS];
    size_t dim, count, columns;
    double *cross, *coefficients;
};

/* Each part is the sum over `rows` random rows; each class has a column of cross with values of that size. */
static void make_world(struct world *w, size_t dim, size_t count, size_t rows, real type, double gamma) {
    static const size_t classes[PARTS] = {2, 1, 3};
    *w = (struct world){.context = make_context(2), .dim = dim, .count = count};
    assert_ok(w->context, ridge_create(w->context, dim, gamma, type, false, &w->ridge));
    for (size_t p = 0; p < count; p++) {
        struct part *part = &w->parts[p];
        assert_ok(w->context, part_create(w->context, dim, type, w->columns, w->columns + classes[p], part));
        w->columns += classes[p];
        for (size_t i = 0; i < dim; i++) {
            for (size_t j = 0; j <= i; j++) {
                double sum = 0, number[1];
                for (size_t n = 0; n < rows; n++) {
                    sum += random_uniform(p, n * dim + i) * random_uniform(p, n * dim + j);
                }
                real_put(type, number, 0, sum);
                assert_ok(w->context, scatter_write(&part->sums, i * (i + 1) / 2 + j, 1, number));
            }
        }
    }
    w->cross = calloc(dim * w->columns, sizeof *w->cross);
    w->coefficients = calloc(dim * w->columns, sizeof *w->coefficients);
    for (size_t i = 0; i < dim * w->columns; i++) {
        w->cross[i] = (double)rows * random_uniform(9, i);
    }
}

static void free_world(struct world *w) {
    for (size_t p = 0; p < w->count; p++) {
        part_free(&w->parts[p]);
    }
    ridge_free(&w->ridge);
    l3a_context_free(w->context);
    free(w->cross);
    free(w->coefficients);
}

static long double element(const struct part *part, size_t i, size_t j) {
    const size_t at = i > j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
    double number[1];
    assert_int_equal(scatter_read(&part->sums, at, 1, number), L3A_OK);
    return (long double)real_get(part->sums.type, number, 0);
}

static l3a_status sum_and_solve(struct world *w, size_t count, double alpha, double lift) {
    const l3a_status status = parts_sum(&w->ridge.sums, w->parts, count);
    return status == L3A_OK ? parts_solve(&w->ridge, w->parts, count, alpha, lift, w->columns, w->cross, w->coefficients, NULL)
                            : status;
}

static bool judges(const struct part *part, size_t k) {
    bool found = false;
    for (size_t i = 0; i < part->judged_count; i++) {
        found = found || part->judged[i] == k;
    }
    return found;
}

/* M w = c for class k, by elimination; M is positive definite, so no pivoting. */
static void eliminate(const struct world *w, size_t k, double alpha, long double *solution) {
    static long double m[MOST][MOST + 1];
    const size_t d = w->dim;
    for (size_t r = 0; r < d; r++) {
        for (size_t c = 0; c < d; c++) {
            m[r][c] = r == c ? (long double)w->ridge.gamma : 0;
            for (size_t p = 0; p < w->count; p++) {
                m[r][c] += (judges(&w->parts[p], k) ? 1 : (long double)alpha) * element(&w->parts[p], r, c);
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

/* limit: of the error of all coefficients, as a share of their size. */
static void compare_lifted(const struct world *w, double alpha, double lift, double t, double limit) {
    static long double expected[2 * PARTS][MOST];
    const long double share = (long double)lift * ((long double)t - 1) / ((long double)t + 8);
    long double off = 0, size = 0;
    for (size_t k = 0; k < w->columns; k++) {
        eliminate(w, k, alpha, expected[k]);
    }
    for (size_t i = 0; i < w->dim; i++) {
        long double sum = 0;
        for (size_t k = 0; k < w->columns; k++) {
            sum += expected[k][i];
        }
        for (size_t k = 0; k < w->columns; k++) {
            const long double value = expected[k][i] + share * sum, gap = value - (long double)w->coefficients[i * w->columns + k];
            off += gap * gap;
            size += value * value;
        }
    }
    assert_true(sqrtl(off) <= (long double)limit * sqrtl(size));
}

static void compare(const struct world *w, double alpha, double lift, double limit) {
    compare_lifted(w, alpha, lift, (double)w->count, limit);
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
        assert_ok(w.context, sum_and_solve(&w, count, alpha, 0.1));
        compare(&w, alpha, 0.1, single ? 2e-3 : 1e-9); /* the search of single precision stops at 5e-4 in the norm of M */
        /* and once more, from where it arrived */
        assert_ok(w.context, sum_and_solve(&w, count, alpha, 0.1));
        compare(&w, alpha, 0.1, single ? 2e-3 : 1e-9);
        free_world(&w);
    }
}

static void the_sum_of_parts_is_theirs(void **state) {
    (void)state;
    struct world w;
    make_world(&w, 17, 3, 5, REAL_SINGLE, 1);
    assert_ok(w.context, parts_sum(&w.ridge.sums, w.parts, 3));
    for (size_t i = 0; i < 17; i++) {
        double row[17];
        assert_ok(w.context, sums_read(&w.ridge.sums, KEPT, i, 1, row));
        for (size_t j = 0; j <= i; j++) {
            const long double sum = element(&w.parts[0], i, j) + element(&w.parts[1], i, j) + element(&w.parts[2], i, j);
            assert_true(fabsl(sum - (long double)row[j]) <= 1e-13L);
        }
    }
    assert_ok(w.context, parts_sum(&w.ridge.sums, w.parts, 0));
    double row[17];
    assert_ok(w.context, sums_read(&w.ridge.sums, KEPT, 16, 1, row));
    assert_true(row[3] == 0);
    free_world(&w);
}

/* Folding adds scatters; the folded part solves like one phase with both. */
static void folded_parts_add_up(void **state) {
    (void)state;
    struct world w;
    make_world(&w, 17, 3, 30, REAL_DOUBLE, 0.5);
    const long double before = element(&w.parts[0], 16, 5) + element(&w.parts[1], 16, 5);
    assert_ok(w.context, part_fold(&w.parts[1], &w.parts[0]));
    assert_true(fabsl(element(&w.parts[1], 16, 5) - before) <= 1e-12L);
    assert_int_equal(w.parts[1].phases, 2);
    assert_int_equal(w.parts[1].judged_count, 3);
    part_free(&w.parts[0]);
    w.parts[0] = w.parts[1];
    w.parts[1] = w.parts[2];
    w.count = 2;
    assert_ok(w.context, sum_and_solve(&w, 2, 0.3, 0));
    compare(&w, 0.3, 0, 1e-9);
    free_world(&w);
}

/* Judged sets that overlap and are not next to each other: {0, 3}, {0, 1, 3} and {2, 4, 5}. Classes 0 and 3 share a system. The
 * second part contains the first, so two count for the lift. */
static void any_judged_sets_are_solved(void **state) {
    (void)state;
    static const size_t judged[PARTS][3] = {{0, 3}, {0, 1, 3}, {2, 4, 5}};
    for (size_t n = 0; n < 6; n++) {
        static const double alphas[] = {0.3, 0.05, 1};
        const bool single = n / 3;
        struct world w;
        make_world(&w, 17, PARTS, 60, single ? REAL_SINGLE : REAL_DOUBLE, 0.5);
        for (size_t p = 0; p < PARTS; p++) {
            release(w.context, w.parts[p].judged);
            w.parts[p].judged_count = p ? 3 : 2;
            assert_ok(w.context, allocate(w.context, 3, sizeof(size_t), &w.parts[p].judged));
            memcpy(w.parts[p].judged, judged[p], sizeof judged[p]);
        }
        assert_true(fabs(parts_lift(0.1, w.parts, PARTS) - 0.01) < 1e-15);
        for (int again = 0; again < 2; again++) {
            assert_ok(w.context, sum_and_solve(&w, PARTS, alphas[n % 3], 0.1));
            compare_lifted(&w, alphas[n % 3], 0.1, 2, single ? 2e-3 : 1e-9);
        }
        free_world(&w);
    }
}

/* Phases judge classes of their own. */
static void the_lift_grows_from_zero(void **state) {
    (void)state;
    size_t classes[10];
    struct part parts[10] = {{0}};
    for (size_t i = 0; i < 10; i++) {
        classes[i] = i;
        parts[i] = (struct part){.judged = &classes[i], .judged_count = 1};
    }
    assert_true(parts_lift(0.1, parts, 0) == 0 && parts_lift(0.1, parts, 1) == 0);
    assert_true(fabs(parts_lift(0.1, parts, 2) - 0.01) < 1e-15 && fabs(parts_lift(0.1, parts, 10) - 0.05) < 1e-15);
}

/* A few rows, and a gamma far below the rounding of float32 sums, or sums from which more was taken than they held. */
static void hopeless_systems_are_refused(void **state) {
    (void)state;
    struct world w;
    make_world(&w, MOST, 2, 5, REAL_SINGLE, 1e-12);
    assert_fails(w.context, sum_and_solve(&w, 2, 0.3, 0), L3A_ERROR_NUMERIC, "gamma");
    free_world(&w);
    make_world(&w, 5, 2, 20, REAL_DOUBLE, 1);
    for (uint64_t i = 0; i < triangle_numbers(0, 5); i++) {
        double number;
        assert_ok(w.context, scatter_read(&w.parts[1].sums, i, 1, &number));
        number *= -3;
        assert_ok(w.context, scatter_write(&w.parts[1].sums, i, 1, &number));
    }
    assert_fails(w.context, sum_and_solve(&w, 2, 0.3, 0), L3A_ERROR_NUMERIC, "positive definite");
    free_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_are_those_of_each_phase_s_own_system),
        cmocka_unit_test(the_sum_of_parts_is_theirs),
        cmocka_unit_test(folded_parts_add_up),
        cmocka_unit_test(any_judged_sets_are_solved),
        cmocka_unit_test(the_lift_grows_from_zero),
        cmocka_unit_test(hopeless_systems_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
