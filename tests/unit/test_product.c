/* Y = x (scale A + share P) from two scatters, against plain loops over the full matrix. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "algebra/algebra.h"

#include <math.h>
#include <stdlib.h>

static double value(uint64_t seed, size_t i) {
    return 2 * random_uniform(seed, i) - 1;
}

static void fill(l3a_context *context, struct sums *sums, struct scatter *scatter) {
    for (size_t i = 0; i < sums->dim; i++) {
        const size_t at = i * (i + 1) / 2;
        double row[1100], numbers[1100];
        for (size_t j = 0; j <= i; j++) {
            row[j] = value(1, at + j);
            real_put(scatter->type, numbers, j, value(2, at + j));
        }
        assert_ok(context, sums_write(sums, KEPT, i, 1, row));
        assert_ok(context, scatter_write(scatter, at, i + 1, numbers));
    }
}

/* Element (i, j) of the full matrix. */
static double element(real type, size_t i, size_t j, double scale, double share) {
    const size_t row = i > j ? i : j, column = i > j ? j : i, at = row * (row + 1) / 2 + column;
    return scale * value(1, at) + share * (type == REAL_SINGLE ? (double)(float)value(2, at) : value(2, at));
}

static void check_type(real type, int threads, size_t dim, size_t count, double scale, double share) {
    l3a_context *context = make_context(threads);
    struct sums sums;
    struct scatter scatter;
    const struct scatter *const scatters[] = {&scatter};
    double *x = calloc(count * dim + 1, sizeof *x), *y = calloc(count * dim + 1, sizeof *y);
    assert_ok(context, sums_create(context, dim, &sums));
    assert_ok(context, scatter_create(context, dim, type, &scatter));
    fill(context, &sums, &scatter);
    for (size_t i = 0; i < count * dim; i++) {
        x[i] = value(3, i);
    }
    y[count * dim] = 42; /* one past the end stays */
    assert_ok(context, sums_multiply(&sums, scale, scatters, 1, share, x, count, y));
    for (size_t c = 0; c < count; c++) {
        for (size_t i = 0; i < dim; i++) {
            double expected = 0, size = 0;
            for (size_t j = 0; j < dim; j++) {
                const double term = element(type, i, j, scale, share) * x[c * dim + j];
                expected += term;
                size += fabs(term);
            }
            assert_true(fabs(y[c * dim + i] - expected) <= 1e-14 * (size + 1));
        }
    }
    assert_true(y[count * dim] == 42);
    scatter_free(&scatter);
    sums_free(&sums);
    l3a_context_free(context);
    free(x);
    free(y);
}

static void check(int threads, size_t dim, size_t count, double scale, double share) {
    check_type(REAL_SINGLE, threads, dim, count, scale, share);
    check_type(REAL_DOUBLE, threads, dim, count, scale, share);
}

/* Rows come in fours, columns in sixteens, elements in tiles of 1024, threads in slices: each edge from both sides. */
static void sizes_around_every_block_agree(void **state) {
    (void)state;
    static const size_t dims[] = {1, 2, 3, 4, 5, 7, 8, 63, 130}, counts[] = {1, 2, 15, 16, 17, 33};
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (int threads = 1; threads <= 3; threads++) {
                check(threads, dims[d], counts[c], 0.3, 0.7);
            }
        }
    }
    check(2, 1023, 1, 0.3, 0.7);
    check(2, 1030, 2, 0.3, 0.7);
}

static void shares_of_zero_one_and_below_zero_agree(void **state) {
    (void)state;
    check(2, 37, 5, 1, 0);
    check(2, 37, 5, 0, 1);
    check(2, 37, 5, 1, -1);
    check(2, 37, 5, 0, 0);
}

static void no_column_writes_nothing(void **state) {
    (void)state;
    check(2, 9, 0, 0.3, 0.7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_around_every_block_agree),
        cmocka_unit_test(shares_of_zero_one_and_below_zero_agree),
        cmocka_unit_test(no_column_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
