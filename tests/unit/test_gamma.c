/* The choice of gamma: the error with each row left out, by really leaving it out and solving again. */
#include "support.h"

#include "base/random.h"
#include "learn/phase_gamma.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 6, CLASSES = 2, ROWS = 120 };

struct table {
    size_t rows;
    double x[ROWS * DIM], y[ROWS * CLASSES];
};

/* Labels that depend on the rows, and noise: the more noise, the larger the best gamma. */
static void make_table(size_t rows, double noise, struct table *table) {
    table->rows = rows;
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < DIM; j++) {
            table->x[i * DIM + j] = 2 * random_uniform(1, i * DIM + j) - 1;
            sum += table->x[i * DIM + j] * (j % 2 ? 1 : -0.5);
        }
        for (size_t k = 0; k < CLASSES; k++) {
            table->y[i * CLASSES + k] = (k ? -sum : sum) + noise * (2 * random_uniform(2, i * CLASSES + k) - 1) > 0.1;
        }
    }
}

/* Solves (XᵀX + γI) w = Xᵀy without row `left`, by elimination, and returns the squared error on that row. */
static double left_out(const struct table *t, size_t left, size_t k, double gamma) {
    double a[DIM][DIM + 1] = {{0}};
    for (size_t i = 0; i < DIM; i++) {
        a[i][i] = gamma;
    }
    for (size_t n = 0; n < t->rows; n++) {
        for (size_t i = 0; n != left && i < DIM; i++) {
            for (size_t j = 0; j < DIM; j++) {
                a[i][j] += t->x[n * DIM + i] * t->x[n * DIM + j];
            }
            a[i][DIM] += t->x[n * DIM + i] * t->y[n * CLASSES + k];
        }
    }
    for (size_t p = 0; p < DIM; p++) {
        for (size_t i = 0; i < DIM; i++) {
            const double factor = i == p ? 0 : a[i][p] / a[p][p];
            for (size_t j = p; j <= DIM && i != p; j++) {
                a[i][j] -= factor * a[p][j];
            }
        }
    }
    double score = 0;
    for (size_t i = 0; i < DIM; i++) {
        score += t->x[left * DIM + i] * a[i][DIM] / a[i][i];
    }
    return (score - t->y[left * CLASSES + k]) * (score - t->y[left * CLASSES + k]);
}

static double error_at(const struct table *table, double gamma) {
    double sum = 0;
    for (size_t i = 0; i < table->rows; i++) {
        for (size_t k = 0; k < CLASSES; k++) {
            sum += left_out(table, i, k, gamma);
        }
    }
    return sum;
}

static l3a_status choose(l3a_context *context, real type, const struct table *table, double *gamma) {
    const struct layer_shape shape = {.kind = LAYER_NONE, .type = type, .width = DIM, .dim = DIM};
    struct gamma_sample sample;
    struct layer layer;
    assert_ok(context, layer_create(context, &shape, &layer));
    struct block rows = {.context = context, .layer = &layer, .capacity = table->rows};
    assert_ok(context, block_create(&rows));
    assert_ok(context, gamma_sample_create(context, DIM, CLASSES, table->rows, &sample));
    for (size_t i = 0; i < table->rows; i++) {
        float x[DIM];
        int8_t y[CLASSES];
        for (size_t j = 0; j < DIM; j++) {
            x[j] = (float)table->x[i * DIM + j];
        }
        for (size_t k = 0; k < CLASSES; k++) {
            y[k] = (int8_t)table->y[i * CLASSES + k];
        }
        gamma_sample_offer(&sample, i, x, 1, y);
    }
    const l3a_status status = choose_gamma(&rows, &sample, gamma);
    gamma_sample_free(context, &sample);
    block_free(&rows);
    layer_free(&layer);
    return status;
}

/* A fine grid over what may be chosen, from a hundredth of the mean of ‖x‖² on; E is flat near its minimum. */
static void the_error_of_the_choice_is_the_least(void **state) {
    (void)state;
    static struct table table;
    l3a_context *context = make_context(1);
    for (int n = 0; n < 3; n++) {
        double gamma = 0, level = 0, best = INFINITY, largest = 0;
        make_table(ROWS, n * 2.0, &table);
        for (size_t i = 0; i < ROWS * DIM; i++) {
            level += table.x[i] * table.x[i] / ROWS;
        }
        for (double at = log10(level) - 2; at < log10(level) + 4; at += 0.05) {
            const double error = error_at(&table, pow(10, at));
            best = error < best ? error : best;
            largest = error > largest ? error : largest;
        }
        for (int type = 0; type < 2; type++) {
            assert_ok(context, choose(context, type ? REAL_DOUBLE : REAL_SINGLE, &table, &gamma));
            assert_true(error_at(&table, gamma) - best <= 0.02 * (largest - best));
        }
    }
    l3a_context_free(context);
}

/* Where nothing can be compared, the mean of ‖x‖², in two digits. */
static void few_rows_and_rows_alike_get_the_mean(void **state) {
    (void)state;
    static struct table table;
    l3a_context *context = make_context(1);
    static const size_t sizes[] = {1, 2, 99, ROWS};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        double gamma = 0, level = 0;
        make_table(sizes[s], 1, &table);
        for (size_t i = 0; i < sizes[s] * DIM; i++) {
            level += table.x[i] * table.x[i] / (double)sizes[s];
        }
        for (size_t i = 0; sizes[s] == ROWS && i < ROWS * CLASSES; i++) {
            table.y[i] = i % CLASSES == 0; /* all rows show the same class */
        }
        assert_ok(context, choose(context, REAL_DOUBLE, &table, &gamma));
        assert_true(fabs(gamma - level) <= 0.05 * level + 1e-12);
    }
    l3a_context_free(context);
}

static void a_sample_is_spread_evenly_and_never_too_large(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 7, GAMMA_ROWS - 1, GAMMA_ROWS, GAMMA_ROWS + 1, 3 * GAMMA_ROWS + 5};
    l3a_context *context = make_context(1);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const uint64_t rows = sizes[s], expected = rows < GAMMA_ROWS ? rows : GAMMA_ROWS;
        struct gamma_sample sample;
        assert_ok(context, gamma_sample_create(context, 1, 1, rows, &sample));
        assert_int_equal(sample.capacity, expected);
        for (uint64_t i = 0; i < rows; i++) {
            const float number = (float)(i + 1);
            const int8_t label = 1;
            gamma_sample_offer(&sample, i, &number, 1, &label);
        }
        for (uint64_t i = 0; i < expected; i++) { /* the numbers of the rows, from 1 */
            const double step = sample.values[i] - (i ? sample.values[i - 1] : 0);
            assert_true(step >= 1 && step <= (double)(rows / expected) + 1);
        }
        gamma_sample_free(context, &sample);
    }
    l3a_context_free(context);
}

static void rows_of_zeros_are_refused(void **state) {
    (void)state;
    static struct table table;
    l3a_context *context = make_context(1);
    double gamma = -1;
    make_table(5, 0, &table);
    memset(table.x, 0, sizeof table.x);
    assert_fails(context, choose(context, REAL_DOUBLE, &table, &gamma), L3A_ERROR_NUMERIC, "no gamma can be chosen");
    assert_true(gamma == -1);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_of_the_choice_is_the_least),
        cmocka_unit_test(few_rows_and_rows_alike_get_the_mean),
        cmocka_unit_test(a_sample_is_spread_evenly_and_never_too_large),
        cmocka_unit_test(rows_of_zeros_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
