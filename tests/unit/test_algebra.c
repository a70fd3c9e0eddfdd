/* The operations of algebra/algebra.h, by each back end: the processor's, a naive one that no other file of the library knows, and
 * that of a CUDA device if there is one.
 * Expected values are computed here from the formulas. Models learn the same on both. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/features.h"
#include "learn/model.h"
#include "naive_algebra.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 5, MOST = 70, ROWS = 23, COLUMNS = 3 };

enum { MOST_BACK_ENDS = 3 };
static const struct algebra *back_ends[MOST_BACK_ENDS] = {&cpu_algebra, &naive_algebra};
static size_t back_end_count = 2;

static double value(uint64_t seed, size_t i) {
    return 2 * random_uniform(seed, i) - 1;
}

static l3a_context *context_with(const struct algebra *algebra) {
    const l3a_context_options options = {.size = sizeof options, .threads = 2, .device = device_of_back_end(algebra)};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    context->algebra = algebra;
    return context;
}

/* A block of random rows with weights and targets, and the expanded rows as they were read back. */
struct world {
    l3a_context *context;
    struct layer layer;
    struct block rows;
    struct sums sums;
    size_t d;
    double tolerance;
    float z[ROWS * WIDTH];
    double x[ROWS * MOST], weight[ROWS], targets[ROWS * COLUMNS];
};

static void read_expanded(struct world *w, double *x) {
    double raw[ROWS * MOST];
    assert_ok(w->context, block_read(&w->rows, raw));
    for (size_t i = 0; i < ROWS * w->d; i++) {
        x[i] = real_get(w->layer.shape.type, raw, i);
    }
}

static void open_world(struct world *w, const struct algebra *algebra, struct layer_shape shape, bool recursive) {
    memset(w, 0, sizeof *w);
    shape.width = WIDTH;
    w->context = context_with(algebra);
    w->d = layer_columns(&shape);
    w->tolerance = shape.type == REAL_SINGLE ? 1e-5 : 1e-11;
    assert_ok(w->context, layer_create(w->context, &shape, &w->layer));
    w->rows = (struct block){
        .context = w->context, .layer = &w->layer, .capacity = ROWS, .columns = COLUMNS, .recursive = recursive, .reused = true};
    assert_ok(w->context, block_create(&w->rows));
    assert_ok(w->context, sums_create(w->context, w->d, &w->sums));
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        w->z[i] = (float)value(1, i);
    }
    for (size_t i = 0; i < ROWS; i++) {
        w->weight[i] = i % 7 ? random_uniform(2, i) : 0;
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        w->targets[i] = value(3, i);
    }
    assert_ok(w->context, block_expand(&w->rows, w->z, ROWS));
    read_expanded(w, w->x);
}

static void close_world(struct world *w) {
    sums_free(&w->sums);
    block_free(&w->rows);
    layer_free(&w->layer);
    l3a_context_free(w->context);
}

/* Runs a check for each back end and both types, on layers of several widths. */
static void each(void (*check)(struct world *), bool recursive) {
    static const size_t dims[] = {1, 7, 64};
    for (size_t n = 0; n < back_end_count * 2 * 3; n++) {
        struct world w;
        const struct layer_shape shape = {.type = n / back_end_count % 2 ? REAL_SINGLE : REAL_DOUBLE,
                                          .dim = dims[n / back_end_count / 2],
                                          .skip = n / back_end_count / 2 == 1,
                                          .seed = 9};
        open_world(&w, back_ends[n % back_end_count], shape, recursive);
        check(&w);
        close_world(&w);
    }
}

/* ---- Layers ---- */

static void check_layer(const struct algebra *algebra, enum layer_kind kind, bool skip, real type) {
    static float centres[8 * WIDTH];
    struct world w;
    float entries[8 * WIDTH];
    const struct layer_shape made = {.type = REAL_SINGLE, .width = WIDTH, .dim = 8, .seed = 9};
    for (size_t i = 0; i < 8 * WIDTH; i++) {
        centres[i] = (float)value(4, i);
    }
    layer_entries(1, &made, entries);
    open_world(&w, algebra,
               (struct layer_shape){.kind = kind,
                                    .type = type,
                                    .dim = kind == LAYER_NONE ? WIDTH : 8,
                                    .skip = skip,
                                    .seed = 9,
                                    .centres = centres,
                                    .rate = 0.7},
               false);
    for (size_t i = 0; i < ROWS; i++) {
        const float *z = w.z + i * WIDTH;
        for (size_t j = 0; j < w.d; j++) {
            double sum = 0, square = 0, expected;
            for (size_t n = 0; j < 8 && n < WIDTH; n++) {
                const double gap = (double)z[n] - (double)centres[j * WIDTH + n];
                sum += (double)z[n] * (double)entries[n * 8 + j];
                square += gap * gap;
            }
            expected = kind == LAYER_RELU ? fmax(sum, 0) : kind == LAYER_TANH ? tanh(sum) : exp(-0.7 * square);
            expected = j >= w.layer.shape.dim ? (double)z[j - w.layer.shape.dim] : kind == LAYER_NONE ? (double)z[j] : expected;
            assert_near(w.x[i * w.d + j], expected, type == REAL_SINGLE ? 1e-6 : 1e-14);
        }
    }
    close_world(&w);
}

static void layers_are_their_formulas(void **state) {
    (void)state;
    for (size_t b = 0; b < back_end_count; b++) {
        for (int kind = LAYER_RELU; kind <= LAYER_NONE; kind++) {
            check_layer(back_ends[b], (enum layer_kind)kind, false, REAL_SINGLE);
            check_layer(back_ends[b], (enum layer_kind)kind, false, REAL_DOUBLE);
        }
        check_layer(back_ends[b], LAYER_RELU, true, REAL_SINGLE);
        check_layer(back_ends[b], LAYER_TANH, true, REAL_DOUBLE);
    }
}

/* ---- Sums ---- */

static double expected_sum(const struct world *w, size_t i, size_t j) {
    double sum = 0;
    for (size_t n = 0; n < ROWS; n++) {
        sum += w->weight[n] * w->x[n * w->d + i] * w->x[n * w->d + j];
    }
    return sum;
}

static void compare_half(struct world *w, enum half half, double share) {
    for (size_t i = 0; i < w->d; i++) {
        double row[MOST];
        assert_ok(w->context, sums_read(&w->sums, half, i, 1, row));
        for (size_t j = 0; j <= i; j++) {
            assert_near(row[j], share * expected_sum(w, i, j), w->tolerance);
        }
    }
}

/* C = share · Σ ω x yᵀ + plain · Σ x yᵀ */
static void compare_cross(struct world *w, double share, double plain) {
    double cross[MOST * COLUMNS] = {0};
    assert_ok(w->context, sums_cross(&w->sums, 1, cross));
    for (size_t i = 0; i < w->d; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            double sum = 0;
            for (size_t n = 0; n < ROWS; n++) {
                sum += (share * w->weight[n] + plain) * w->x[n * w->d + i] * w->targets[n * COLUMNS + k];
            }
            assert_near(cross[i * COLUMNS + k], sum, w->tolerance);
        }
    }
}

static void check_adding(struct world *w) {
    double after[ROWS * MOST];
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    read_expanded(w, after);
    assert_memory_equal(after, w->x, ROWS * w->d * sizeof *after); /* reused */
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    compare_half(w, ADDED, 2);
    compare_half(w, KEPT, 0);
    assert_ok(w->context, sums_keep(&w->sums, 1));
    compare_half(w, KEPT, 2);
    compare_cross(w, 2, 0);
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    compare_half(w, ADDED, 0);
    assert_ok(w->context, sums_add_cross(&w->sums, &w->rows, w->targets));
    compare_half(w, ADDED, 0);
    assert_ok(w->context, sums_add(&w->sums, &w->rows, -1, w->weight, w->targets));
    compare_half(w, ADDED, -1);
    assert_ok(w->context, sums_keep(&w->sums, 1));
    compare_half(w, KEPT, 1);
    compare_cross(w, -1, 1);
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, sums_keep(&w->sums, -1));
    compare_half(w, KEPT, 0);
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, NULL));
    compare_half(w, ADDED, 1);
    compare_cross(w, 0, 0);
}

static void sums_are_added_and_kept(void **state) {
    (void)state;
    each(check_adding, false);
}

/* Chosen rows in a block of their own, which borrows its work space. */
static void check_borrowing(struct world *w) {
    static const size_t chosen[] = {3, 0, 22, 3};
    struct block some = {.context = w->context, .layer = &w->layer, .capacity = 7, .columns = COLUMNS, .work = &w->rows};
    double raw[7 * MOST], half[MOST];
    assert_ok(w->context, block_create(&some));
    assert_ok(w->context, block_append(&some, &w->rows, chosen, 4));
    assert_ok(w->context, block_append(&some, &w->rows, NULL, 3));
    assert_int_equal(some.count, 7);
    assert_ok(w->context, block_read(&some, raw));
    for (size_t i = 0; i < 7 * w->d; i++) {
        const size_t row = i / w->d < 4 ? chosen[i / w->d] : i / w->d - 4;
        assert_true(real_get(w->layer.shape.type, raw, i) == w->x[row * w->d + i % w->d]);
    }
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &some, 1, w->weight, w->targets));
    for (size_t i = 0; i < w->d; i++) {
        assert_ok(w->context, sums_read(&w->sums, ADDED, i, 1, half));
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t n = 0; n < 7; n++) {
                const size_t row = n < 4 ? chosen[n] : n - 4;
                sum += w->weight[n] * w->x[row * w->d + i] * w->x[row * w->d + j];
            }
            assert_near(half[j], sum, w->tolerance);
        }
    }
    block_free(&some);
}

static void blocks_lend_work_space(void **state) {
    (void)state;
    each(check_borrowing, false);
}

static void check_joining(struct world *w) {
    struct sums other;
    struct scatter scatter, copy;
    double number[2];
    assert_ok(w->context, sums_create(w->context, w->d, &other));
    assert_ok(w->context, sums_begin(&other, COLUMNS));
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&other, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, sums_join(&w->sums, &other));
    compare_half(w, ADDED, 2);
    assert_ok(w->context, scatter_create(w->context, w->d, w->layer.shape.type, &scatter));
    assert_ok(w->context, scatter_create(w->context, w->d, w->layer.shape.type, &copy));
    assert_ok(w->context, scatter_add_sums(&scatter, &w->sums, 1));
    assert_ok(w->context, scatter_add_sums(&scatter, &w->sums, -0.5));
    assert_ok(w->context, scatter_add(&copy, &scatter));
    for (size_t i = 0; i < w->d; i++) {
        for (size_t j = 0; j <= i; j++) {
            assert_ok(w->context, scatter_read(&copy, triangle_numbers(0, i) + j, 1, number));
            assert_near(real_get(w->layer.shape.type, number, 0), expected_sum(w, i, j), 2 * w->tolerance);
        }
    }
    const struct scatter *const both[] = {&scatter, &copy};
    assert_ok(w->context, sums_total(&w->sums, both, 2));
    compare_half(w, KEPT, 2);
    compare_cross(w, 2, 0);
    scatter_free(&scatter);
    scatter_free(&copy);
    sums_free(&other);
}

static void sums_and_scatters_add_up(void **state) {
    (void)state;
    each(check_joining, false);
}

static void check_halves(struct world *w) {
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, sums_keep(&w->sums, 1));
    assert_ok(w->context, sums_copy(&w->sums, ADDED));
    compare_half(w, ADDED, 1);
    for (size_t i = 0; i < w->d; i++) {
        double row[MOST];
        assert_ok(w->context, sums_read(&w->sums, KEPT, i, 1, row));
        for (size_t j = 0; j <= i; j++) {
            row[j] *= 3;
        }
        assert_ok(w->context, sums_write(&w->sums, KEPT, i, 1, row));
    }
    compare_half(w, KEPT, 3);
    compare_half(w, ADDED, 1);
    assert_ok(w->context, sums_copy(&w->sums, KEPT));
    compare_half(w, KEPT, 1);
}

static void halves_are_read_written_and_copied(void **state) {
    (void)state;
    each(check_halves, false);
}

/* ---- Solving ---- */

static void check_solving(struct world *w) {
    struct scatter scatter;
    const struct scatter *const scatters[] = {&scatter};
    double b[2 * MOST], back[2 * MOST], trace;
    bool good = false;
    assert_ok(w->context, scatter_create(w->context, w->d, w->layer.shape.type, &scatter));
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, scatter_add_sums(&scatter, &w->sums, 1));
    assert_ok(w->context, sums_keep(&w->sums, 1));
    for (size_t n = 0; n < 3; n++) {
        const double scale = n ? 0.3 : 1, share = n == 2 ? 0.7 : 0;
        double sum = 0;
        for (size_t i = 0; i < 2 * w->d; i++) {
            b[i] = value(6, i);
        }
        assert_ok(w->context, sums_factor(&w->sums, REAL_DOUBLE, scale, scatters, n == 2, share, 0.5, &trace, &good));
        assert_true(good);
        for (size_t i = 0; i < w->d; i++) {
            sum += (scale + share) * expected_sum(w, i, i);
        }
        assert_near(trace, sum, w->tolerance * (double)w->d);
        assert_ok(w->context, sums_solve(&w->sums, REAL_DOUBLE, 2, b));
        assert_ok(w->context, sums_multiply(&w->sums, scale, scatters, n == 2, share, b, 2, back));
        for (size_t i = 0; i < 2 * w->d; i++) {
            assert_near(back[i] + 0.5 * b[i], value(6, i), 1e-9);
        }
    }
    scatter_free(&scatter);
}

static void systems_are_solved(void **state) {
    (void)state;
    each(check_solving, false);
}

static void check_single_factor(struct world *w) {
    float b[MOST];
    double wide[MOST], back[MOST], trace;
    bool good = false;
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, sums_keep(&w->sums, 1));
    assert_ok(w->context, sums_factor(&w->sums, REAL_SINGLE, 0.3, NULL, 0, 0, 0.5, &trace, &good));
    assert_true(good);
    for (size_t i = 0; i < w->d; i++) {
        b[i] = (float)value(6, i);
    }
    assert_ok(w->context, sums_solve(&w->sums, REAL_SINGLE, 1, b));
    for (size_t i = 0; i < w->d; i++) {
        wide[i] = (double)b[i];
    }
    assert_ok(w->context, sums_multiply(&w->sums, 0.3, NULL, 0, 0, wide, 1, back));
    for (size_t i = 0; i < w->d; i++) {
        assert_near(back[i] + 0.5 * wide[i], value(6, i), 1e-4);
    }
    assert_ok(w->context, sums_factor(&w->sums, REAL_DOUBLE, -1, NULL, 0, 0, 1e-9, &trace, &good));
    assert_false(good); /* a negative matrix has no factor */
}

static void single_factors_and_bad_matrices_are_told(void **state) {
    (void)state;
    each(check_single_factor, false);
}

static void check_inverse(struct world *w) {
    double row[MOST], unit[MOST] = {0}, back[MOST], trace;
    bool good = false;
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->rows, 1, w->weight, w->targets));
    assert_ok(w->context, sums_keep(&w->sums, 1));
    assert_ok(w->context, sums_factor(&w->sums, REAL_DOUBLE, 1, NULL, 0, 0, 0.5, &trace, &good));
    assert_ok(w->context, sums_invert(&w->sums, 0, &good));
    assert_true(good);
    for (size_t i = 0; i < w->d; i++) { /* row i of A + I/2, times the inverse */
        for (size_t j = 0; j < w->d; j++) {
            row[j] = expected_sum(w, i, j) + (i == j ? 0.5 : 0);
        }
        assert_ok(w->context, sums_multiply(&w->sums, 1, NULL, 0, 0, row, 1, back));
        unit[i] = 1;
        for (size_t j = 0; j < w->d; j++) {
            assert_near(back[j], unit[j], 100 * w->tolerance);
        }
        unit[i] = 0;
    }
}

static void inverses_are_inverses(void **state) {
    (void)state;
    each(check_inverse, false);
}

/* ---- Vectors ---- */

enum { LONGEST = 300, VECTORS = 6, MIXED = 28 };
static const size_t lengths[] = {1, 7, 33, LONGEST};

/* Fills vectors with numbers of a seed, as their type rounds them. */
static void fill_vectors(struct vectors *vectors, uint64_t seed, double *numbers) {
    double *raw = calloc(vectors->count * vectors->dim + 1, sizeof *raw);
    for (size_t i = 0; i < vectors->count * vectors->dim; i++) {
        real_put(vectors->type, raw, i, value(seed, i));
        numbers[i] = real_get(vectors->type, raw, i);
    }
    assert_ok(vectors->context, vectors_put(vectors, 0, vectors->count, raw));
    free(raw);
}

static void compare_vectors(const struct vectors *vectors, const double *expected) {
    double *raw = calloc(vectors->count * vectors->dim + 1, sizeof *raw);
    assert_ok(vectors->context, vectors_get(vectors, 0, vectors->count, raw));
    for (size_t i = 0; i < vectors->count * vectors->dim; i++) {
        assert_near(real_get(vectors->type, raw, i), expected[i], vectors->type == REAL_SINGLE ? 1e-6 : 1e-14);
    }
    free(raw);
}

static void spoil_row(struct vectors *vectors, size_t row) {
    double nan[LONGEST] = {0};
    for (size_t j = 0; j < vectors->dim; j++) {
        real_put(vectors->type, nan, j, NAN);
    }
    assert_ok(vectors->context, vectors_put(vectors, row, 1, nan));
}

/* Combinations of lists that leave out rows, repeat them and put them in another order. A number that is not read may be anything.
 */
static void check_combinations(struct vectors *to, struct vectors *from, double *a, double *b) {
    static const size_t to_rows[] = {4, 0, 2, 5}, from_rows[] = {1, 1, 3, 2};
    static const double keep[] = {0.5, 0, -1, 0}, scale[] = {2, -3, 0, 0};
    l3a_context *context = to->context;
    const size_t d = to->dim;
    spoil_row(to, 0);
    spoil_row(to, 5);
    spoil_row(from, 2);
    spoil_row(from, 3);
    assert_ok(context, vectors_combine(to, to_rows, keep, from, from_rows, scale, 4));
    for (size_t j = 0; j < d; j++) {
        a[4 * d + j] = 0.5 * a[4 * d + j] + 2 * b[d + j];
        a[j] = -3 * b[d + j];
        a[2 * d + j] *= -1;
        a[5 * d + j] = 0;
    }
    compare_vectors(to, a);
    fill_vectors(from, 12, b);
    assert_ok(context, vectors_combine(to, NULL, NULL, from, NULL, NULL, 2)); /* a copy */
    memcpy(a, b, 2 * d * sizeof *a);
    compare_vectors(to, a);
    assert_ok(context, vectors_combine(to, to_rows, NULL, to, to_rows, scale, 2)); /* each with itself */
    for (size_t j = 0; j < d; j++) {
        a[4 * d + j] *= 2;
        a[j] *= -3;
    }
    compare_vectors(to, a);
    assert_ok(context, vectors_combine(to, to_rows, keep, from, from_rows, scale, 0));
    compare_vectors(to, a);
}

static void check_dots(const struct vectors *one, const struct vectors *other, const double *a, const double *b) {
    static const size_t rows[] = {5, 0, 5, 3};
    const struct dots dots[] = {{one, rows, other, NULL}, {other, rows, other, rows}, {one, NULL, one, NULL}};
    double results[13] = {[12] = 42}, again[8];
    const size_t d = one->dim;
    assert_ok(one->context, vectors_dot(dots, 3, 4, results));
    for (size_t n = 0; n < 12; n++) {
        const double *left = n < 4 ? a + rows[n] * d : n < 8 ? b + rows[n - 4] * d : a + (n - 8) * d;
        const double *right = n < 4 ? b + n * d : left;
        double sum = 0;
        for (size_t j = 0; j < d; j++) {
            sum += left[j] * right[j];
        }
        assert_near(results[n], sum, one->type == REAL_SINGLE ? 1e-4 : 1e-11);
    }
    assert_ok(one->context, vectors_dot(dots + 1, 1, 4, again)); /* the same whatever else is in the call */
    assert_memory_equal(again, results + 4, 4 * sizeof *again);
    assert_ok(one->context, vectors_dot(dots, 3, 0, results + 12));
    assert_true(results[12] == 42);
}

/* More rows than a device takes at once, in the opposite order. */
static void check_many_rows(l3a_context *context) {
    enum { MANY = 300, SHORT = 3 };
    static size_t rows[MANY];
    static double numbers[MANY * SHORT], factors[MANY], results[MANY], reversed[MANY * SHORT];
    struct vectors from, to;
    assert_ok(context, vectors_create(context, SHORT, MANY, REAL_DOUBLE, &from));
    assert_ok(context, vectors_create(context, SHORT, MANY, REAL_DOUBLE, &to));
    fill_vectors(&from, 15, numbers);
    for (size_t i = 0; i < MANY; i++) {
        rows[i] = MANY - 1 - i;
        factors[i] = (double)i;
        for (size_t j = 0; j < SHORT; j++) {
            reversed[rows[i] * SHORT + j] = (double)i * numbers[i * SHORT + j];
        }
    }
    const struct dots dots = {&from, rows, &from, NULL};
    assert_ok(context, vectors_combine(&to, rows, NULL, &from, NULL, factors, MANY));
    compare_vectors(&to, reversed);
    assert_ok(context, vectors_dot(&dots, 1, MANY, results));
    for (size_t i = 0; i < MANY; i++) {
        double sum = 0;
        for (size_t j = 0; j < SHORT; j++) {
            sum += numbers[rows[i] * SHORT + j] * numbers[i * SHORT + j];
        }
        assert_near(results[i], sum, 1e-14);
    }
    vectors_free(&from);
    vectors_free(&to);
}

static void vectors_are_combined_and_compared(void **state) {
    (void)state;
    static double a[VECTORS * LONGEST], b[VECTORS * LONGEST];
    for (size_t n = 0; n < back_end_count * 16; n++) {
        l3a_context *context = context_with(back_ends[n / 16]);
        const real types[] = {n % 2 ? REAL_SINGLE : REAL_DOUBLE, n / 2 % 2 ? REAL_SINGLE : REAL_DOUBLE};
        struct vectors to, from;
        assert_ok(context, vectors_create(context, lengths[n / 4 % 4], VECTORS, types[0], &to));
        assert_ok(context, vectors_create(context, lengths[n / 4 % 4], VECTORS, types[1], &from));
        fill_vectors(&to, 10, a);
        fill_vectors(&from, 11, b);
        check_combinations(&to, &from, a, b);
        fill_vectors(&to, 13, a);
        check_dots(&to, &from, a, b);
        check_many_rows(context);
        vectors_free(&to);
        vectors_free(&from);
        l3a_context_free(context);
    }
}

/* Vectors in memory of the caller, wherever the back end keeps them. */
static void vectors_may_borrow_memory(void **state) {
    (void)state;
    static const double factors[] = {2, 2};
    for (size_t n = 0; n < back_end_count; n++) {
        l3a_context *context = context_with(back_ends[n]);
        double numbers[] = {1, 2, 3, 4, 5, 6, 42};
        struct vectors vectors;
        assert_ok(context, vectors_wrap(context, 3, 2, REAL_DOUBLE, numbers, &vectors));
        assert_ok(context, vectors_combine(&vectors, NULL, factors, &vectors, NULL, factors, 2));
        assert_ok(context, vectors_get(&vectors, 0, 2, numbers));
        vectors_free(&vectors);
        for (size_t i = 0; i < 6; i++) {
            assert_true(numbers[i] == 4 * (double)(i + 1));
        }
        assert_true(numbers[6] == 42);
        l3a_context_free(context);
    }
}

/* Sums, two triangles and a root, and their full matrices. */
struct products {
    l3a_context *context;
    size_t d;
    struct sums sums;
    struct scatter scatters[3];
    double full[4][LONGEST * LONGEST];
};

static void open_products(struct products *p, const struct algebra *algebra, size_t d, real type) {
    const size_t rows = d / 2 < 5 ? d / 2 : 5;
    p->context = context_with(algebra);
    p->d = d;
    assert_ok(p->context, sums_create(p->context, d, &p->sums));
    for (size_t m = 0; m < 3; m++) {
        assert_ok(p->context, scatter_create(p->context, d, type, &p->scatters[m]));
    }
    for (size_t i = 0; i < d; i++) {
        double row[LONGEST], raw[LONGEST];
        for (size_t m = 0; m < 3; m++) {
            for (size_t j = 0; j <= i; j++) {
                row[j] = value(20 + m, i * (i + 1) / 2 + j) + (i == j ? (double)d : 0);
                real_put(type, raw, j, row[j]);
                p->full[m][i * d + j] = p->full[m][j * d + i] = m ? real_get(type, raw, j) : row[j];
            }
            assert_ok(p->context, m ? scatter_write(&p->scatters[m - 1], triangle_numbers(0, i), i + 1, raw)
                                    : sums_write(&p->sums, KEPT, i, 1, row));
        }
    }
    memset(p->full[3], 0, sizeof p->full[3]);
    assert_ok(p->context, scatter_make_root(&p->scatters[2], rows));
    for (size_t r = 0; r < rows; r++) {
        double raw[LONGEST];
        for (size_t j = 0; j < d; j++) {
            real_put(type, raw, j, value(24, r * d + j));
        }
        assert_ok(p->context, scatter_write_root(&p->scatters[2], r, 1, raw));
        for (size_t i = 0; i < d * d; i++) {
            p->full[3][i] += real_get(type, raw, i / d) * real_get(type, raw, i % d);
        }
    }
}

static void close_products(struct products *p) {
    for (size_t m = 0; m < 3; m++) {
        scatter_free(&p->scatters[m]);
    }
    sums_free(&p->sums);
    l3a_context_free(p->context);
}

/* Mixtures of every kind, some of more rows than are multiplied at once, and an empty one. */
static void check_mixtures(struct products *p, double scale) {
    static const size_t rows[] = {3, 0, 17, 5, 2, 1}, uses[] = {0, 1, 1, 4, 6, 0}; /* bits: which scatters */
    static double x[(MIXED + 1) * LONGEST], y[(MIXED + 1) * LONGEST];
    const struct scatter *lists[6][3];
    struct mixture mixtures[6];
    struct vectors from, to;
    for (size_t m = 0; m < 6; m++) {
        mixtures[m] = (struct mixture){.rows = rows[m], .scatters = lists[m]};
        for (size_t i = 0; i < 3; i++) {
            if (uses[m] >> i & 1) {
                lists[m][mixtures[m].count++] = &p->scatters[i];
            }
        }
    }
    assert_ok(p->context, vectors_create(p->context, p->d, MIXED + 1, REAL_DOUBLE, &from));
    assert_ok(p->context, vectors_create(p->context, p->d, MIXED + 1, REAL_DOUBLE, &to));
    fill_vectors(&from, 25, x);
    fill_vectors(&to, 26, y); /* the last row stays as it is */
    assert_ok(p->context, vectors_multiply(&p->sums, scale, 0.7, mixtures, 6, &from, &to));
    for (size_t m = 0, row = 0; m < 6; m++) {
        for (size_t n = 0; n < rows[m]; n++, row++) {
            for (size_t i = 0; i < p->d; i++) {
                y[row * p->d + i] = 0;
                for (size_t j = 0; j < p->d; j++) {
                    double element = scale * p->full[0][i * p->d + j];
                    for (size_t s = 0; s < 3; s++) {
                        element += uses[m] >> s & 1 ? 0.7 * p->full[1 + s][i * p->d + j] : 0;
                    }
                    y[row * p->d + i] += element * x[row * p->d + j];
                }
            }
        }
    }
    double *found = calloc((MIXED + 1) * p->d, sizeof *found);
    assert_ok(p->context, vectors_get(&to, 0, MIXED + 1, found));
    for (size_t i = 0; i < (MIXED + 1) * p->d; i++) {
        assert_near(found[i], y[i], i < MIXED * p->d ? 1e-13 * (double)(p->d * p->d + 10) : 0);
    }
    free(found);
    vectors_free(&from);
    vectors_free(&to);
}

/* Two of three vectors. */
static void check_solutions(struct products *p, real type) {
    const struct scatter *const scatters[] = {&p->scatters[0], &p->scatters[2]};
    static double b[3 * LONGEST], x[3 * LONGEST];
    double raw[LONGEST], trace;
    struct vectors vectors;
    bool good = false;
    assert_ok(p->context, sums_factor(&p->sums, type, 0.3, scatters, 2, 0.7, 2, &trace, &good));
    assert_true(good);
    assert_ok(p->context, vectors_create(p->context, p->d, 3, type, &vectors));
    fill_vectors(&vectors, 27, b);
    assert_ok(p->context, vectors_solve(&p->sums, &vectors, 1, 2));
    for (size_t r = 0; r < 3; r++) {
        assert_ok(p->context, vectors_get(&vectors, r, 1, raw));
        for (size_t j = 0; j < p->d; j++) {
            x[r * p->d + j] = real_get(type, raw, j);
        }
    }
    assert_memory_equal(x, b, p->d * sizeof *x);
    for (size_t n = p->d; n < 3 * p->d; n++) {
        const size_t i = n % p->d;
        double sum = 2 * x[n];
        for (size_t j = 0; j < p->d; j++) {
            sum += (0.3 * p->full[0][i * p->d + j] + 0.7 * (p->full[1][i * p->d + j] + p->full[3][i * p->d + j])) * x[n - i + j];
        }
        assert_near(sum, b[n],
                    type == REAL_SINGLE                  ? 1e-4
                    : p->scatters[2].type == REAL_SINGLE ? 1e-6
                                                         : 1e-11); /* RᵀR may be in its type */
    }
    vectors_free(&vectors);
}

static void vectors_are_multiplied_and_solved(void **state) {
    (void)state;
    static struct products p;
    for (size_t n = 0; n < back_end_count * 8; n++) {
        open_products(&p, back_ends[n / 8], lengths[n / 2 % 4], n % 2 ? REAL_SINGLE : REAL_DOUBLE);
        check_mixtures(&p, 0.3);
        check_mixtures(&p, 0);
        check_solutions(&p, REAL_DOUBLE);
        check_solutions(&p, REAL_SINGLE);
        close_products(&p);
    }
}

/* A factor in single precision that a device cuts into several blocks. */
static void large_systems_are_solved(void **state) {
    (void)state;
    enum { LARGE = 1100 };
    static double matrix[LARGE * LARGE], b[2 * LARGE], row[LARGE];
    for (size_t n = 0; n < back_end_count; n++) {
        l3a_context *context = context_with(back_ends[n]);
        struct sums sums;
        struct vectors vectors;
        float x[2 * LARGE];
        double trace;
        bool good = false;
        assert_ok(context, sums_create(context, LARGE, &sums));
        for (size_t i = 0; i < LARGE; i++) {
            for (size_t j = 0; j <= i; j++) {
                row[j] = value(30, i * LARGE + j) + (i == j ? 100 : 0);
                matrix[i * LARGE + j] = matrix[j * LARGE + i] = row[j];
            }
            assert_ok(context, sums_write(&sums, KEPT, i, 1, row));
        }
        assert_ok(context, sums_factor(&sums, REAL_SINGLE, 1, NULL, 0, 0, 5, &trace, &good));
        assert_true(good);
        assert_ok(context, vectors_create(context, LARGE, 2, REAL_SINGLE, &vectors));
        fill_vectors(&vectors, 31, b);
        assert_ok(context, vectors_solve(&sums, &vectors, 0, 2));
        assert_ok(context, vectors_get(&vectors, 0, 2, x));
        for (size_t i = 0; i < 2 * LARGE; i++) {
            double sum = 5 * (double)x[i];
            for (size_t j = 0; j < LARGE; j++) {
                sum += matrix[i % LARGE * LARGE + j] * (double)x[i / LARGE * LARGE + j];
            }
            assert_near(sum, b[i], 1e-4);
        }
        vectors_free(&vectors);
        sums_free(&sums);
        l3a_context_free(context);
    }
}

/* ---- Searching ---- */

enum { PARTS = 3, JUDGED = 2, SOUGHT = PARTS * JUDGED, SEARCH_DIM = 150 };

/* Parts of a triangle, a root and a triangle, with their full matrices. Each judges two classes. */
static void make_parts(l3a_context *context, struct part *parts, double full[PARTS][SEARCH_DIM * SEARCH_DIM]) {
    static const size_t rows[PARTS] = {100, 20, 90};
    for (size_t p = 0; p < PARTS; p++) {
        struct scatter *scatter = &parts[p].sums;
        float row[SEARCH_DIM];
        assert_ok(context, part_create(context, SEARCH_DIM, REAL_SINGLE, p * JUDGED, (p + 1) * JUDGED, &parts[p]));
        memset(full[p], 0, sizeof full[p]);
        if (p == 1) {
            assert_ok(context, scatter_make_root(scatter, rows[p]));
        }
        for (size_t n = 0; n < rows[p]; n++) {
            for (size_t i = 0; i < SEARCH_DIM; i++) {
                row[i] = (float)fmax(value(40 + p, n * SEARCH_DIM + i), 0);
            }
            for (size_t i = 0; i < SEARCH_DIM * SEARCH_DIM; i++) {
                full[p][i] += (double)row[i / SEARCH_DIM] * (double)row[i % SEARCH_DIM];
            }
            if (p == 1) {
                assert_ok(context, scatter_write_root(scatter, n, 1, row));
            }
        }
        for (size_t i = 0; p != 1 && i < SEARCH_DIM; i++) {
            for (size_t j = 0; j <= i; j++) {
                row[j] = (float)full[p][i * SEARCH_DIM + j];
            }
            assert_ok(context, scatter_write(scatter, triangle_numbers(0, i), i + 1, row));
        }
    }
}

/* M_k w_k is near c_k for each class, with α = 0.3 and γ = 20. */
static void check_found(double full[PARTS][SEARCH_DIM * SEARCH_DIM], const double *cross, const double *coefficients) {
    for (size_t k = 0; k < SOUGHT; k++) {
        double gap = 0, size = 0;
        for (size_t i = 0; i < SEARCH_DIM; i++) {
            double sum = 20 * coefficients[i * SOUGHT + k];
            for (size_t j = 0; j < SEARCH_DIM; j++) {
                for (size_t p = 0; p < PARTS; p++) {
                    sum += (p == k / JUDGED ? 1 : 0.3) * full[p][i * SEARCH_DIM + j] * coefficients[j * SOUGHT + k];
                }
            }
            gap += (sum - cross[i * SOUGHT + k]) * (sum - cross[i * SOUGHT + k]);
            size += cross[i * SOUGHT + k] * cross[i * SOUGHT + k];
        }
        assert_true(sqrt(gap) <= 5e-3 * sqrt(size));
    }
}

/* Conjugate gradients from 0, from the solution before, and from where they ended. */
static void searches_find_the_solution(void **state) {
    (void)state;
    static double full[PARTS][SEARCH_DIM * SEARCH_DIM], cross[SEARCH_DIM * SOUGHT], first[SEARCH_DIM * SOUGHT];
    for (size_t n = 0; n < back_end_count; n++) {
        l3a_context *context = context_with(back_ends[n]);
        double coefficients[SEARCH_DIM * SOUGHT] = {0};
        struct part parts[PARTS];
        struct ridge ridge;
        struct search_end end = {.kept = true};
        make_parts(context, parts, full);
        assert_ok(context, ridge_create(context, SEARCH_DIM, 20, REAL_SINGLE, false, &ridge));
        assert_ok(context, parts_sum(&ridge.sums, parts, PARTS));
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < SEARCH_DIM * SOUGHT; i++) {
                const double before = round ? cross[i] : 0;
                cross[i] = (round < 2 ? 1 + 0.2 * round : 1.21) * value(50, i) + (round ? 0.1 * value(51, i) : 0);
                if (round == 2) {
                    end.residual[i % SOUGHT * SEARCH_DIM + i / SOUGHT] += cross[i] - before;
                }
            }
            end.known = round == 2;
            assert_ok(context, parts_solve(&ridge, parts, PARTS, 0.3, 0, SOUGHT, cross, coefficients, &end));
            assert_true(end.known && ridge.sums.factored && ridge.sums.factor_type == REAL_SINGLE); /* it was found by searching */
            check_found(full, cross, coefficients);
        }
        for (size_t i = 0; i < SEARCH_DIM * SOUGHT; i++) {
            assert_near(coefficients[i], n ? first[i] : coefficients[i], 1e-4);
        }
        if (!n) {
            memcpy(first, coefficients, sizeof first);
        }
        search_end_free(context, &end);
        for (size_t p = 0; p < PARTS; p++) {
            part_free(&parts[p]);
        }
        ridge_free(&ridge);
        l3a_context_free(context);
    }
}

/* The recursion from I/γ, in two steps, against the solution of the sums. */
static void check_update(struct world *w) {
    double cross[MOST * COLUMNS] = {0}, coefficients[MOST * COLUMNS] = {0}, row[MOST] = {0};
    bool good = false;
    for (size_t i = 0; i < w->d; i++) {
        row[i] = 2;
        assert_ok(w->context, sums_write(&w->sums, KEPT, i, 1, row));
        row[i] = 0;
    }
    for (size_t first = 0; first < ROWS; first += 12) {
        const size_t n = ROWS - first < 12 ? ROWS - first : 12;
        assert_ok(w->context, block_expand(&w->rows, w->z + first * WIDTH, n));
        assert_ok(w->context,
                  sums_update(&w->sums, &w->rows, w->weight + first, w->targets + first * COLUMNS, cross, coefficients, &good));
        assert_true(good);
    }
    for (size_t k = 0; k < COLUMNS; k++) {
        for (size_t i = 0; i < w->d; i++) { /* (A + I/2) w = c */
            double left = 0.5 * coefficients[i * COLUMNS + k], right = 0;
            for (size_t j = 0; j < w->d; j++) {
                left += expected_sum(w, i, j) * coefficients[j * COLUMNS + k];
            }
            for (size_t n = 0; n < ROWS; n++) {
                right += w->weight[n] * w->x[n * w->d + i] * w->targets[n * COLUMNS + k];
            }
            assert_near(left, right, 100 * w->tolerance);
            assert_near(cross[i * COLUMNS + k], right, 10 * w->tolerance);
        }
    }
}

static void the_recursion_is_the_solution(void **state) {
    (void)state;
    each(check_update, true);
}

/* Two blocks are being scored at once; the second has the first's rows from 3 on. */
static void check_scores_of_two(struct world *w, const struct solution *solution, const double *expected) {
    const real type = w->layer.shape.type;
    double first[ROWS * COLUMNS], second[ROWS * COLUMNS];
    struct block other = {.context = w->context, .layer = &w->layer, .capacity = ROWS};
    assert_ok(w->context, block_create(&other));
    assert_ok(w->context, block_score_begin(&w->rows, solution, first));
    assert_ok(w->context, block_expand(&other, w->z + 3 * WIDTH, ROWS - 3));
    assert_ok(w->context, block_score_begin(&other, solution, second));
    assert_ok(w->context, block_score_end(&w->rows));
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        assert_near(real_get(type, first, i), real_get(type, expected, i), w->tolerance);
    }
    assert_ok(w->context, block_score_end(&other));
    for (size_t i = 0; i < (ROWS - 3) * COLUMNS; i++) {
        assert_near(real_get(type, second, i), real_get(type, expected, i + 3 * COLUMNS), w->tolerance);
    }
    assert_ok(w->context, block_score_begin(&other, solution, second)); /* and nobody waits for it */
    block_free(&other);
}

static void check_scores(struct world *w) {
    struct solution solution;
    double coefficients[MOST * COLUMNS], raw[ROWS * COLUMNS], gram[ROWS * ROWS];
    for (size_t i = 0; i < w->d * COLUMNS; i++) {
        coefficients[i] = value(7, i);
    }
    assert_ok(w->context, solution_create(w->context, w->d, COLUMNS, w->layer.shape.type, &solution));
    assert_ok(w->context, solution_set(&solution, coefficients));
    assert_ok(w->context, block_score(&w->rows, &solution, raw));
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            double sum = 0;
            for (size_t j = 0; j < w->d; j++) {
                sum += w->x[i * w->d + j] * coefficients[j * COLUMNS + k];
            }
            assert_near(real_get(w->layer.shape.type, raw, i * COLUMNS + k), sum, w->tolerance);
        }
    }
    check_scores_of_two(w, &solution, raw);
    assert_ok(w->context, block_gram(&w->rows, w->weight, gram));
    for (size_t a = 0; a < ROWS; a++) {
        for (size_t b = 0; b < ROWS; b++) {
            double sum = 0;
            for (size_t j = 0; j < w->d; j++) {
                sum += w->x[a * w->d + j] * w->x[b * w->d + j];
            }
            assert_near(gram[a * ROWS + b], sqrt(w->weight[a] * w->weight[b]) * sum, w->tolerance);
        }
    }
    solution_free(&solution);
}

static void rows_are_scored_and_compared(void **state) {
    (void)state;
    each(check_scores, false);
}

/* ---- Models ---- */

enum { IMAGES = 120, CLASSES = 6, STEP = 2, DIM = 30 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

struct setting {
    const char *names[6], *values[6];
};

static const struct setting settings[] = {
    {{"solver"}, {"sums"}},
    {{"solver"}, {"recursive"}},
    {{"pseudo", "block"}, {"dynamic", "16"}},
    {{"weights", "pseudo"}, {"none", "off"}},
    {{"alpha", "pseudo", "lift", "thresholds"}, {"0.3", "off", "0.1", "per-class"}},
    {{"alpha", "pseudo", "gamma", "skip-features"}, {"0.3", "off", "auto", "on"}},
    {{"alpha", "pseudo", "keep-phases"}, {"0.3", "off", "2"}},
};

static l3a_model *learn(l3a_context *context, l3a_features *table, const struct setting *setting) {
    struct model_options options;
    l3a_model *model = NULL;
    model_options_default(&options);
    options.dim = DIM;
    options.gamma = 0.5;
    options.precision = L3A_PRECISION_DOUBLE;
    for (size_t i = 0; i < 6 && setting->names[i]; i++) {
        assert_ok(context, model_options_set(context, &options, setting->names[i], setting->values[i]));
    }
    assert_ok(context, model_create(context, WIDTH, &options, &model));
    for (size_t first = 0; first < CLASSES; first += STEP) {
        assert_ok(context, l3a_model_learn(model, table, names + first, STEP));
    }
    return model;
}

static void compare_models(const l3a_model *one, const l3a_model *other) {
    const size_t inputs = l3a_model_inputs(one), classes = l3a_model_class_count(one);
    double row[MOST], others[MOST], mine[CLASSES], theirs[CLASSES], size = 0;
    assert_int_equal(l3a_model_class_count(other), classes);
    for (size_t i = 0; i < inputs * classes; i++) {
        size = fmax(size, fabs(l3a_model_coefficients(one)[i]));
    }
    for (size_t i = 0; i < inputs * classes; i++) {
        assert_near(l3a_model_coefficients(one)[i], l3a_model_coefficients(other)[i], 1e-9 * size);
        assert_near(l3a_model_cross(one)[i], l3a_model_cross(other)[i], 1e-9);
    }
    for (size_t i = 0; i < inputs; i++) {
        assert_int_equal(l3a_model_matrix(one, i, 1, row), L3A_OK);
        assert_int_equal(l3a_model_matrix(other, i, 1, others), L3A_OK);
        for (size_t j = 0; j < inputs; j++) {
            assert_near(row[j], others[j], 1e-9);
        }
    }
    l3a_model_thresholds(one, mine);
    l3a_model_thresholds(other, theirs);
    for (size_t k = 0; k < classes; k++) {
        assert_near(mine[k], theirs[k], 1e-9);
    }
}

/* Learned, saved and loaded, forgotten and merged: the same model whichever back end holds the sums. */
static void models_are_the_same_on_either_back_end(void **state) {
    (void)state;
    static float features[IMAGES * WIDTH];
    static int8_t labels[IMAGES * CLASSES];
    char *folder = make_temporary_folder(), *path = path_in(folder, "model");
    random_table(5, IMAGES, WIDTH, CLASSES, 4, features, labels);
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        l3a_context *contexts[MOST_BACK_ENDS];
        l3a_model *models[MOST_BACK_ENDS];
        l3a_features *tables[MOST_BACK_ENDS];
        for (size_t b = 0; b < back_end_count; b++) {
            l3a_features *few = NULL;
            l3a_model *loaded = NULL;
            uint64_t images;
            int exact;
            contexts[b] = context_with(back_ends[b]);
            assert_ok(contexts[b], l3a_features_wrap(contexts[b], features, labels, IMAGES, 1, WIDTH, names, CLASSES, &tables[b]));
            assert_ok(contexts[b], l3a_features_wrap(contexts[b], features, labels, 9, 1, WIDTH, names, CLASSES, &few));
            models[b] = learn(contexts[b], tables[b], &settings[s]);
            assert_ok(contexts[b], l3a_model_save(models[b], path));
            assert_ok(contexts[b], l3a_model_load(contexts[b], path, &loaded));
            compare_models(models[b], loaded);
            if (loaded->options.pseudo == L3A_PSEUDO_OFF) {
                assert_ok(contexts[b], l3a_model_forget_images(loaded, few, &images, &exact));
                assert_ok(contexts[b], l3a_model_set_record(loaded, "holds", "")); /* it is to count twice */
                assert_ok(contexts[b], l3a_model_merge(models[b], loaded, &exact));
            }
            l3a_model_free(loaded);
            l3a_features_free(few);
        }
        for (size_t b = 1; b < back_end_count; b++) {
            compare_models(models[0], models[b]);
        }
        for (size_t b = 0; b < back_end_count; b++) {
            l3a_model_free(models[b]);
            l3a_features_free(tables[b]);
            l3a_context_free(contexts[b]);
        }
    }
    free(path);
    remove_folder(folder);
}

/* ---- Strips ---- */

/* `levels` different scores, of both signs; some zeros are negative. */
static void check_ranks(l3a_context *context, size_t rows, size_t classes, double levels) {
    float *scores = malloc(rows * classes * sizeof *scores);
    uint32_t *order = malloc(rows * classes * sizeof *order);
    unsigned char *seen = malloc(rows);
    for (size_t i = 0; i < rows * classes; i++) {
        scores[i] = (float)(floor(value(31, i) * levels) / levels);
        scores[i] = scores[i] == 0 && i % 2 ? -0.0F : scores[i];
    }
    if (rows > 10) {
        scores[3] = INFINITY;
        scores[5] = -INFINITY;
        scores[7] = 1e-45F;
    }
    assert_ok(context, rank_images(context, scores, rows, classes, order));
    for (size_t k = 0; k < classes; k++) {
        const float *own = scores + k * rows;
        memset(seen, 0, rows);
        for (size_t n = 0; n < rows; n++) {
            const uint32_t image = order[k * rows + n], before = order[k * rows + (n ? n - 1 : 0)];
            if (image < rows) {
                seen[image]++;
            }
            assert_true(!n || own[before] > own[image] || (own[before] == own[image] && before < image));
        }
        for (size_t i = 0; i < rows; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
    free(scores);
    free(order);
    free(seen);
}

/* The last table is more than a device sorts at a time. */
static void images_are_ranked(void **state) {
    (void)state;
    for (size_t i = 0; i < back_end_count; i++) {
        l3a_context *context = context_with(back_ends[i]);
        assert_ok(context, rank_images(context, NULL, 0, 3, NULL));
        assert_ok(context, rank_images(context, NULL, 3, 0, NULL));
        check_ranks(context, 1, 1, 10);
        check_ranks(context, 1, 7, 10);
        check_ranks(context, 2, 3, 1);
        check_ranks(context, 1000, 5, 1e6);
        check_ranks(context, 5000, 9, 20);
        check_ranks(context, 900001, 5, 1e4);
        l3a_context_free(context);
    }
}

static void strips_cover_a_triangle(void **state) {
    (void)state;
    static const size_t dims[] = {1, 2, 511, 512, 513, 4000, STRIP_NUMBERS, STRIP_NUMBERS + 3};
    for (size_t n = 0; n < sizeof dims / sizeof dims[0]; n++) {
        uint64_t numbers = 0;
        size_t row = 0;
        for (size_t count; row < dims[n]; row += count) {
            count = strip_rows(dims[n], row);
            assert_true(triangle_numbers(row, count) <= strip_numbers(dims[n]));
            numbers += triangle_numbers(row, count);
        }
        assert_int_equal(row, dims[n]);
        assert_int_equal(numbers, triangle_numbers(0, dims[n]));
    }
}

/* A model whose sums take several strips is loaded as it was saved, in either type. */
static void large_sums_are_saved_and_loaded(void **state) {
    (void)state;
    static const struct setting large[] = {{{"dim", "store"}, {"700", "float64"}}, {{"dim", "store"}, {"700", "float32"}}};
    static float features[IMAGES * WIDTH];
    static int8_t labels[IMAGES * CLASSES];
    static double row[700], again[700];
    char *folder = make_temporary_folder(), *path = path_in(folder, "model");
    random_table(5, IMAGES, WIDTH, CLASSES, 4, features, labels);
    for (size_t n = 0; n < 2 * back_end_count; n++) {
        l3a_context *context = context_with(back_ends[n / 2]);
        l3a_features *table = NULL;
        l3a_model *loaded = NULL;
        assert_ok(context, l3a_features_wrap(context, features, labels, IMAGES, 1, WIDTH, names, CLASSES, &table));
        l3a_model *model = back_ends[n / 2] == &naive_algebra ? NULL : learn(context, table, &large[n % 2]);
        if (model) { /* the naive one is slow */
            assert_ok(context, l3a_model_save(model, path));
            assert_ok(context, l3a_model_load(context, path, &loaded));
        }
        for (size_t i = 0; model && i < 700; i++) {
            assert_ok(context, l3a_model_matrix(model, i, 1, row));
            assert_ok(context, l3a_model_matrix(loaded, i, 1, again));
            for (size_t j = 0; j < 700; j++) {
                assert_true(again[j] == (n % 2 ? (double)(float)row[j] : row[j]));
            }
        }
        l3a_model_free(loaded);
        l3a_model_free(model);
        l3a_features_free(table);
        l3a_context_free(context);
    }
    free(path);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_their_formulas),
        cmocka_unit_test(sums_are_added_and_kept),
        cmocka_unit_test(blocks_lend_work_space),
        cmocka_unit_test(sums_and_scatters_add_up),
        cmocka_unit_test(halves_are_read_written_and_copied),
        cmocka_unit_test(systems_are_solved),
        cmocka_unit_test(single_factors_and_bad_matrices_are_told),
        cmocka_unit_test(inverses_are_inverses),
        cmocka_unit_test(vectors_are_combined_and_compared),
        cmocka_unit_test(vectors_may_borrow_memory),
        cmocka_unit_test(vectors_are_multiplied_and_solved),
        cmocka_unit_test(large_systems_are_solved),
        cmocka_unit_test(searches_find_the_solution),
        cmocka_unit_test(the_recursion_is_the_solution),
        cmocka_unit_test(rows_are_scored_and_compared),
        cmocka_unit_test(images_are_ranked),
        cmocka_unit_test(models_are_the_same_on_either_back_end),
        cmocka_unit_test(strips_cover_a_triangle),
        cmocka_unit_test(large_sums_are_saved_and_loaded),
    };
    back_ends[back_end_count] = find_cuda();
    back_end_count += back_ends[back_end_count] != NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
