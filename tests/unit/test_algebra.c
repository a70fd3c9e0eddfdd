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

static void near(double one, double other, double tolerance) {
    if (!(fabs(one - other) <= tolerance)) {
        print_error("%.17g and %.17g differ by more than %g\n", one, other, tolerance);
    }
    assert_true(fabs(one - other) <= tolerance);
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
            near(w.x[i * w.d + j], expected, type == REAL_SINGLE ? 1e-6 : 1e-14);
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
            near(row[j], share * expected_sum(w, i, j), w->tolerance);
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
            near(cross[i * COLUMNS + k], sum, w->tolerance);
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
            near(half[j], sum, w->tolerance);
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
            near(real_get(w->layer.shape.type, number, 0), expected_sum(w, i, j), 2 * w->tolerance);
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
        near(trace, sum, w->tolerance * (double)w->d);
        assert_ok(w->context, sums_solve(&w->sums, REAL_DOUBLE, 2, b));
        assert_ok(w->context, sums_multiply(&w->sums, scale, scatters, n == 2, share, b, 2, back));
        for (size_t i = 0; i < 2 * w->d; i++) {
            near(back[i] + 0.5 * b[i], value(6, i), 1e-9);
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
        near(back[i] + 0.5 * wide[i], value(6, i), 1e-4);
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
            near(back[j], unit[j], 100 * w->tolerance);
        }
        unit[i] = 0;
    }
}

static void inverses_are_inverses(void **state) {
    (void)state;
    each(check_inverse, false);
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
            near(left, right, 100 * w->tolerance);
            near(cross[i * COLUMNS + k], right, 10 * w->tolerance);
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
        near(real_get(type, first, i), real_get(type, expected, i), w->tolerance);
    }
    assert_ok(w->context, block_score_end(&other));
    for (size_t i = 0; i < (ROWS - 3) * COLUMNS; i++) {
        near(real_get(type, second, i), real_get(type, expected, i + 3 * COLUMNS), w->tolerance);
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
            near(real_get(w->layer.shape.type, raw, i * COLUMNS + k), sum, w->tolerance);
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
            near(gram[a * ROWS + b], sqrt(w->weight[a] * w->weight[b]) * sum, w->tolerance);
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
        near(l3a_model_coefficients(one)[i], l3a_model_coefficients(other)[i], 1e-9 * size);
        near(l3a_model_cross(one)[i], l3a_model_cross(other)[i], 1e-9);
    }
    for (size_t i = 0; i < inputs; i++) {
        assert_int_equal(l3a_model_matrix(one, i, 1, row), L3A_OK);
        assert_int_equal(l3a_model_matrix(other, i, 1, others), L3A_OK);
        for (size_t j = 0; j < inputs; j++) {
            near(row[j], others[j], 1e-9);
        }
    }
    l3a_model_thresholds(one, mine);
    l3a_model_thresholds(other, theirs);
    for (size_t k = 0; k < classes; k++) {
        near(mine[k], theirs[k], 1e-9);
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
            assert_ok(contexts[b], l3a_features_wrap(contexts[b], features, labels, IMAGES, WIDTH, names, CLASSES, &tables[b]));
            assert_ok(contexts[b], l3a_features_wrap(contexts[b], features, labels, 9, WIDTH, names, CLASSES, &few));
            models[b] = learn(contexts[b], tables[b], &settings[s]);
            assert_ok(contexts[b], l3a_model_save(models[b], path));
            assert_ok(contexts[b], l3a_model_load(contexts[b], path, &loaded));
            compare_models(models[b], loaded);
            if (loaded->options.pseudo == L3A_PSEUDO_OFF) {
                assert_ok(contexts[b], l3a_model_forget_images(loaded, few, &images, &exact));
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
        assert_ok(context, l3a_features_wrap(context, features, labels, IMAGES, WIDTH, names, CLASSES, &table));
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
