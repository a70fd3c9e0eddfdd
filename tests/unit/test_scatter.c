/* Scatters as roots and as triangles, by each back end: whatever they are kept as, they are the A of the formula, which is computed
 * here in plain loops. */
#include "support.h"

#include "algebra/algebra.h"
#include "base/random.h"
#include "memory_probe.h"
#include "naive_algebra.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, ROWS = 200, COLUMNS = 3 };

enum { MOST_BACK_ENDS = 3 };
static const struct algebra *back_ends[MOST_BACK_ENDS] = {&cpu_algebra, &naive_algebra};
static size_t back_end_count = 2;

static struct memory_probe memory;

static double value(uint64_t seed, size_t i) {
    return 2 * random_uniform(seed, i) - 1;
}

/* Expanded rows with weights, of which every seventh is 0, and a scatter with the A that it should be. */
struct world {
    l3a_context *context;
    struct layer layer;
    struct block all, some;
    struct sums sums;
    size_t d;
    real type;
    double tolerance;
    double *x, weight[ROWS], targets[ROWS * COLUMNS];
    struct scatter scatter;
    double *a;   /* [d x d] */
    double size; /* the largest element that it had */
};

static void open_world(struct world *w, const struct algebra *algebra, real type, size_t d, int threads) {
    static float z[ROWS * WIDTH];
    static double raw[ROWS * 512];
    l3a_context_options options = {.size = sizeof options};
    const struct layer_shape shape = {.kind = LAYER_RELU, .type = type, .width = WIDTH, .dim = d, .seed = 9};
    memset(w, 0, sizeof *w);
    memset(&memory, 0, sizeof memory);
    use_probe(&options, &memory);
    options.threads = threads;
    options.device = device_of_back_end(algebra);
    assert_int_equal(l3a_context_create(&options, &w->context), L3A_OK);
    w->context->algebra = algebra;
    w->d = d;
    w->type = type;
    w->tolerance = type == REAL_SINGLE ? 4e-6 : 1e-12;
    assert_ok(w->context, layer_create(w->context, &shape, &w->layer));
    w->all = w->some = (struct block){.context = w->context, .layer = &w->layer, .capacity = ROWS, .columns = COLUMNS};
    assert_ok(w->context, block_create(&w->all));
    assert_ok(w->context, block_create(&w->some));
    assert_ok(w->context, sums_create(w->context, d, &w->sums));
    assert_ok(w->context, scatter_create(w->context, d, type, &w->scatter));
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        z[i] = (float)value(1, i);
    }
    assert_ok(w->context, block_expand(&w->all, z, ROWS));
    assert_ok(w->context, block_read(&w->all, raw));
    w->x = malloc(ROWS * d * sizeof *w->x);
    w->a = calloc(d * d, sizeof *w->a);
    for (size_t i = 0; i < ROWS * d; i++) {
        w->x[i] = real_get(type, raw, i);
    }
    for (size_t i = 0; i < ROWS; i++) {
        w->weight[i] = i % 7 ? 0.1 + random_uniform(2, i) : 0;
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        w->targets[i] = value(3, i);
    }
}

static void close_world(struct world *w) {
    scatter_free(&w->scatter);
    sums_free(&w->sums);
    block_free(&w->some);
    block_free(&w->all);
    layer_free(&w->layer);
    l3a_context_free(w->context);
    free(w->x);
    free(w->a);
    assert_int_equal(memory.now, 0);
}

/* Runs a check for each back end and both types. Panels, strips and blocks of pivots have 32 to 128 rows. */
static void each(void (*check)(struct world *)) {
    static const size_t dims[] = {1, 2, 12, 64, 150, 301};
    for (size_t n = 0; n < back_end_count * 2 * 6; n++) {
        struct world w;
        if (back_ends[n % back_end_count] == &naive_algebra && dims[n / back_end_count / 2] > 150) {
            continue; /* it is slow, and has no blocks */
        }
        open_world(&w, back_ends[n % back_end_count], n / back_end_count % 2 ? REAL_SINGLE : REAL_DOUBLE,
                   dims[n / back_end_count / 2], 1 + (int)(n / back_end_count % 3));
        check(&w);
        close_world(&w);
    }
}

/* a += sign · Σ ω x xᵀ */
static void add_expected(struct world *w, double *a, const size_t *chosen, size_t count, double sign) {
    for (size_t i = 0; i < w->d; i++) {
        for (size_t n = 0; n < count; n++) {
            const double *x = w->x + chosen[n] * w->d, scaled = sign * w->weight[chosen[n]] * x[i];
            for (size_t j = 0; j < w->d; j++) {
                a[i * w->d + j] += scaled * x[j];
            }
        }
        w->size = fmax(w->size, fabs(a[i * w->d + i]));
    }
}

static void pick(struct world *w, const size_t *chosen, size_t count, double *weight) {
    w->some.count = 0;
    assert_ok(w->context, block_append(&w->some, &w->all, chosen, count));
    for (size_t i = 0; i < count; i++) {
        weight[i] = w->weight[chosen[i]];
    }
}

static void add_rows(struct world *w, struct scatter *scatter, double *a, const size_t *chosen, size_t count, double sign) {
    double weight[ROWS];
    pick(w, chosen, count, weight);
    assert_ok(w->context, scatter_add_rows(scatter, &w->some, sign, weight));
    add_expected(w, a, chosen, count, sign);
}

static void add_range(struct world *w, struct scatter *scatter, double *a, size_t first, size_t count, double sign) {
    size_t chosen[ROWS] = {0};
    for (size_t i = 0; i < count; i++) {
        chosen[i] = first + i;
    }
    add_rows(w, scatter, a, chosen, count, sign);
}

/* The same by way of sums, which makes a triangle. */
static void add_by_sums(struct world *w, struct scatter *scatter, double *a, size_t first, size_t count) {
    size_t chosen[ROWS] = {0};
    double weight[ROWS];
    for (size_t i = 0; i < count; i++) {
        chosen[i] = first + i;
    }
    pick(w, chosen, count, weight);
    assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
    assert_ok(w->context, sums_add(&w->sums, &w->some, 1, weight, NULL));
    assert_ok(w->context, scatter_add_sums(scatter, &w->sums, 1));
    add_expected(w, a, chosen, count, 1);
}

static void compare(struct world *w, const struct scatter *scatter, const double *a) {
    const size_t numbers = (size_t)triangle_numbers(0, w->d);
    double *values = malloc(numbers * sizeof *values), part[5];
    assert_ok(w->context, scatter_read(scatter, 0, numbers, values));
    for (size_t i = 0; i < w->d; i++) {
        for (size_t j = 0; j <= i; j++) {
            assert_near(real_get(w->type, values, i * (i + 1) / 2 + j), a[i * w->d + j], w->tolerance * w->size);
        }
    }
    for (size_t first = 0; first + 5 <= numbers; first += 1 + numbers / 17) {
        assert_ok(w->context, scatter_read(scatter, first, 5, part));
        assert_memory_equal(part, (char *)values + first * real_size(w->type), 5 * real_size(w->type));
    }
    free(values);
}

static size_t count_weights(const struct world *w, size_t first, size_t count) {
    size_t n = 0;
    for (size_t i = first; i < first + count; i++) {
        n += w->weight[i] > 0;
    }
    return n;
}

/* ---- Adding and subtracting ---- */

static void check_growing(struct world *w) {
    assert_true(w->scatter.is_root && w->scatter.rows == 0 && !w->scatter.held);
    compare(w, &w->scatter, w->a);
    for (size_t first = 0; first < ROWS; first += 23) {
        const size_t count = ROWS - first < 23 ? ROWS - first : 23, rows = count_weights(w, 0, first + count);
        double before[512] = {0}, after[512];
        pick(w, (const size_t[]){first}, 1, before);
        assert_ok(w->context, block_read(&w->some, before));
        add_range(w, &w->scatter, w->a, first, count, 1);
        w->some.count = 1;
        assert_ok(w->context, block_read(&w->some, after));
        assert_memory_equal(before, after, w->d * real_size(w->type)); /* rows are never scaled */
        assert_int_equal(w->scatter.is_root, rows <= w->d / 2);
        assert_int_equal(w->scatter.rows, rows <= w->d / 2 ? rows : 0);
        compare(w, &w->scatter, w->a);
    }
}

static void rows_are_appended_up_to_half_the_width(void **state) {
    (void)state;
    each(check_growing);
}

static void check_no_weight(struct world *w) {
    add_rows(w, &w->scatter, w->a, (const size_t[]){0, 7, 14}, 3, 1);
    add_rows(w, &w->scatter, w->a, (const size_t[]){0, 7, 14}, 3, -1);
    assert_true(w->scatter.is_root && w->scatter.rows == 0 && !w->scatter.held);
}

static void rows_without_weight_add_nothing(void **state) {
    (void)state;
    each(check_no_weight);
}

/* Rows of which some are there twice are taken away again, in two steps, tidied in between or not. */
static void check_subtracting(struct world *w) {
    const size_t count = w->d / 2 < 90 ? w->d / 2 : 90;
    size_t chosen[ROWS] = {0};
    for (size_t i = 0; i < count; i++) {
        chosen[i] = i % 4 ? i : i + 1;
    }
    for (int tidy = 0; tidy < 2 && count; tidy++) {
        add_rows(w, &w->scatter, w->a, chosen, count, 1);
        if (tidy) {
            assert_ok(w->context, scatter_tidy(&w->scatter, count));
        }
        assert_true(w->scatter.is_root);
        add_rows(w, &w->scatter, w->a, chosen, count / 3, -1);
        assert_true(w->scatter.is_root && w->scatter.rows <= count);
        compare(w, &w->scatter, w->a);
        if (tidy) {
            assert_ok(w->context, scatter_tidy(&w->scatter, count - count / 3));
        }
        add_rows(w, &w->scatter, w->a, chosen + count / 3, count - count / 3, -1);
        assert_true(w->scatter.is_root && w->scatter.rows == 0 && !w->scatter.held);
        memset(w->a, 0, w->d * w->d * sizeof *w->a);
        compare(w, &w->scatter, w->a);
    }
}

static void rows_can_be_taken_away(void **state) {
    (void)state;
    each(check_subtracting);
}

/* Rows that were not added leave what the formula says, as a triangle. */
static void check_strangers(struct world *w) {
    add_rows(w, &w->scatter, w->a, (const size_t[]){1, 2, 3, 4}, w->d < 8 ? 0 : 4, 1);
    add_rows(w, &w->scatter, w->a, (const size_t[]){2, 5}, 2, -1);
    assert_false(w->scatter.is_root && w->d > 2);
    compare(w, &w->scatter, w->a);
    add_rows(w, &w->scatter, w->a, (const size_t[]){1, 6}, 2, -1); /* from a triangle */
    compare(w, &w->scatter, w->a);
}

static void taking_away_what_was_never_added_is_not_hidden(void **state) {
    (void)state;
    each(check_strangers);
}

/* Every pair of an empty root, a small and a large one, and a triangle. */
static void check_pairs(struct world *w) {
    for (size_t n = 0; n < 16; n++) {
        struct scatter pair[2];
        memset(w->a, 0, w->d * w->d * sizeof *w->a);
        for (size_t i = 0; i < 2; i++) {
            const size_t kind = i ? n / 4 : n % 4, few = w->d < 12 ? 0 : 5, many = w->d < 12 ? 0 : w->d < 150 ? 6 : 50;
            assert_ok(w->context, scatter_create(w->context, w->d, w->type, &pair[i]));
            if (kind == 3) {
                add_by_sums(w, &pair[i], w->a, 20 * i, 20);
            } else {
                add_range(w, &pair[i], w->a, 60 * i, kind == 0 ? 0 : kind == 1 ? few : many, 1);
            }
            assert_int_equal(pair[i].is_root, kind < 3);
        }
        const size_t rows = pair[0].rows + pair[1].rows;
        const bool is_root = pair[0].is_root && pair[1].is_root && rows <= w->d / 2;
        assert_ok(w->context, scatter_add(&pair[0], &pair[1]));
        assert_int_equal(pair[0].is_root, is_root);
        assert_int_equal(pair[0].rows, is_root ? rows : 0);
        compare(w, &pair[0], w->a);
        scatter_free(&pair[0]);
        scatter_free(&pair[1]);
    }
}

static void roots_and_triangles_add_up(void **state) {
    (void)state;
    each(check_pairs);
}

/* ---- Tidying ---- */

/* |cos| of the angle between two rows. */
static double likeness(const double *one, const double *other, size_t count) {
    double product = 0, first = 0, second = 0;
    for (size_t i = 0; i < count; i++) {
        product += one[i] * other[i];
        first += one[i] * one[i];
        second += other[i] * other[i];
    }
    return fabs(product) / sqrt(first * second);
}

static void read_root(struct world *w, const struct scatter *scatter, double *rows) {
    static double raw[ROWS * 512];
    assert_true(scatter->is_root);
    assert_ok(w->context, scatter_read_root(scatter, 0, scatter->rows, raw));
    for (size_t i = 0; i < scatter->rows * w->d; i++) {
        rows[i] = real_get(w->type, raw, i);
    }
}

/* Images with nothing in the first column: a QR factorisation without pivots would keep the first one as it is. */
static void check_hiding(struct world *w) {
    static double rows[ROWS * 512], others[ROWS * 512];
    const size_t most = w->d / 2 < 80 ? w->d / 2 : 80;
    size_t chosen[ROWS] = {0}, backwards[ROWS] = {0}, count = 0;
    struct scatter other;
    double *a = calloc(w->d * w->d, sizeof *a);
    for (size_t i = 0; i < ROWS && count < most; i++) {
        chosen[count] = i;
        count += w->weight[i] > 0 && w->x[i * w->d] == 0;
    }
    for (size_t i = 0; i < count; i++) {
        backwards[i] = chosen[count - 1 - i];
    }
    add_rows(w, &w->scatter, w->a, chosen, count, 1);
    read_root(w, &w->scatter, rows);
    for (size_t i = 0; i < count * w->d; i++) {
        assert_near(rows[i], sqrt(w->weight[chosen[i / w->d]]) * w->x[chosen[i / w->d] * w->d + i % w->d], w->tolerance);
    }
    assert_ok(w->context, scatter_tidy(&w->scatter, count));
    assert_true(w->scatter.is_root && w->scatter.rows <= count && w->scatter.capacity == w->scatter.rows);
    compare(w, &w->scatter, w->a);
    read_root(w, &w->scatter, rows);
    for (size_t i = 0; w->d > 12 && i < w->scatter.rows; i++) { /* with fewer columns, some are of one image alone */
        for (size_t n = 0; n < count; n++) {
            assert_true(likeness(rows + i * w->d, w->x + chosen[n] * w->d, w->d) < 0.999);
        }
    }
    assert_ok(w->context, scatter_create(w->context, w->d, w->type, &other));
    for (size_t i = 0; i < count; i++) {
        add_rows(w, &other, a, backwards + i, 1, 1);
    }
    assert_ok(w->context, scatter_tidy(&other, count));
    assert_int_equal(other.rows, w->scatter.rows);
    read_root(w, &other, others);
    for (size_t i = 0; w->type == REAL_DOUBLE && i < other.rows * w->d; i++) {
        assert_near(rows[i], others[i], 1e-9); /* whatever the order */
    }
    assert_ok(w->context, scatter_tidy(&other, count));
    read_root(w, &other, rows);
    assert_memory_equal(rows, others, other.rows * w->d * sizeof *rows);
    scatter_free(&other);
    free(a);
}

static void tidy_roots_hide_the_rows(void **state) {
    (void)state;
    each(check_hiding);
}

static void check_lowering(struct world *w) {
    const size_t count = w->d / 2 < 70 ? w->d / 2 : 70, rows = count_weights(w, 0, count);
    add_by_sums(w, &w->scatter, w->a, 0, count);
    assert_false(w->scatter.is_root);
    assert_ok(w->context, scatter_tidy(&w->scatter, w->d / 2 + 1));
    assert_false(w->scatter.is_root);
    if (rows > 1) {
        assert_ok(w->context, scatter_tidy(&w->scatter, rows - 1)); /* too few */
        assert_false(w->scatter.is_root);
    }
    compare(w, &w->scatter, w->a);
    assert_ok(w->context, scatter_tidy(&w->scatter, rows));
    assert_true(w->scatter.is_root && w->scatter.rows <= rows);
    compare(w, &w->scatter, w->a);
    assert_ok(w->context, scatter_tidy(&w->scatter, SIZE_MAX));
    assert_true(w->scatter.is_root);
    compare(w, &w->scatter, w->a);
    assert_ok(w->context, scatter_tidy(&w->scatter, 0));
    assert_true(w->scatter.is_root && w->scatter.rows == 0);
    add_by_sums(w, &w->scatter, w->a, 0, 3);
    assert_ok(w->context, scatter_tidy(&w->scatter, 0));
    assert_true(w->scatter.is_root && w->scatter.rows == 0);
}

static void triangles_of_few_rows_become_roots(void **state) {
    (void)state;
    each(check_lowering);
}

/* Numbers that are not finite stay so, for the solver to find. */
static void check_infinite(struct world *w) {
    const float large[WIDTH] = {3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F};
    const double one = 1;
    double number[1];
    bool finite = true;
    assert_ok(w->context, block_expand(&w->some, large, 1));
    assert_ok(w->context, scatter_add_rows(&w->scatter, &w->some, 1, &one));
    assert_ok(w->context, scatter_add_rows(&w->scatter, &w->some, 1, &one));
    assert_ok(w->context, scatter_tidy(&w->scatter, 2));
    for (size_t i = 0; i < triangle_numbers(0, w->d); i++) {
        assert_ok(w->context, scatter_read(&w->scatter, i, 1, number));
        finite = finite && isfinite(real_get(w->type, number, 0));
    }
    assert_true(!finite || w->type == REAL_DOUBLE || w->d < 12 || w->context->algebra == &naive_algebra);
}

static void tidying_survives_infinities(void **state) {
    (void)state;
    each(check_infinite);
}

/* ---- Files ---- */

static void check_root_numbers(struct world *w) {
    const size_t rows = w->d / 2 < 9 ? w->d / 2 : 9;
    double row[512], back[512], number[1];
    add_range(w, &w->scatter, w->a, 1, 6, 1);
    memset(w->a, 0, w->d * w->d * sizeof *w->a);
    assert_ok(w->context, scatter_make_root(&w->scatter, rows));
    compare(w, &w->scatter, w->a);
    for (size_t n = 0; n < rows; n++) {
        for (size_t i = 0; i < w->d; i++) {
            real_put(w->type, row, i, value(5, n * w->d + i));
        }
        assert_ok(w->context, scatter_write_root(&w->scatter, n, 1, row));
        assert_ok(w->context, scatter_read_root(&w->scatter, n, 1, back));
        assert_memory_equal(row, back, w->d * real_size(w->type));
        for (size_t i = 0; i < w->d * w->d; i++) {
            w->a[i] += real_get(w->type, row, i / w->d) * real_get(w->type, row, i % w->d);
        }
        w->size = fmax(w->size, 9);
    }
    compare(w, &w->scatter, w->a);
    real_put(w->type, number, 0, 2.5);
    assert_ok(w->context, scatter_write(&w->scatter, triangle_numbers(0, w->d) - 1, 1, number));
    assert_false(w->scatter.is_root);
    w->a[w->d * w->d - 1] = 2.5;
    compare(w, &w->scatter, w->a);
    assert_ok(w->context, scatter_make_root(&w->scatter, 0));
    assert_true(w->scatter.is_root && !w->scatter.held);
}

static void roots_are_read_and_written(void **state) {
    (void)state;
    each(check_root_numbers);
}

/* ---- Sums ---- */

enum { PARTS = 4 };

static void check_half(struct world *w, const double *a, double share, double tolerance) {
    double row[512];
    for (size_t i = 0; i < w->d; i++) {
        assert_ok(w->context, sums_read(&w->sums, KEPT, i, 1, row));
        for (size_t j = 0; j <= i; j++) {
            assert_near(row[j], share * a[i * w->d + j], tolerance);
        }
    }
}

/* Products and factors, in either precision, of sums S and scatters with the sum A. */
static void check_systems(struct world *w, const struct scatter *const *scatters, const double *s, const double *a) {
    static double x[COLUMNS * 512], y[COLUMNS * 512];
    const size_t d = w->d;
    for (size_t i = 0; i < COLUMNS * d; i++) {
        x[i] = value(6, i);
    }
    assert_ok(w->context, sums_multiply(&w->sums, 0.3, scatters, PARTS, 0.7, x, COLUMNS, y));
    for (size_t n = 0; n < COLUMNS * d; n++) {
        double sum = 0;
        for (size_t j = 0; j < d; j++) {
            sum += (0.3 * s[n % d * d + j] + 0.7 * a[n % d * d + j]) * x[n / d * d + j];
        }
        assert_near(y[n], sum, w->tolerance * w->size * (double)d);
    }
    for (int single = 0; single < 2; single++) {
        double trace, sum = 0, raw[512], solved[512];
        bool definite;
        assert_ok(w->context,
                  sums_factor(&w->sums, single ? REAL_SINGLE : REAL_DOUBLE, 0.3, scatters, PARTS, 0.7, w->size, &trace, &definite));
        assert_true(definite);
        for (size_t i = 0; i < d; i++) {
            sum += 0.3 * s[i * d + i] + 0.7 * a[i * d + i];
            real_put(single ? REAL_SINGLE : REAL_DOUBLE, raw, i, value(6, i));
        }
        assert_near(trace, sum, w->tolerance * w->size * (double)d);
        assert_ok(w->context, sums_solve(&w->sums, single ? REAL_SINGLE : REAL_DOUBLE, 1, raw));
        for (size_t i = 0; i < d; i++) {
            solved[i] = real_get(single ? REAL_SINGLE : REAL_DOUBLE, raw, i);
        }
        assert_ok(w->context, sums_multiply(&w->sums, 0.3, scatters, PARTS, 0.7, solved, 1, y));
        for (size_t i = 0; i < d; i++) {
            assert_near(y[i] + w->size * solved[i], value(6, i), (single ? 1e-4 : 10 * w->tolerance) * (double)d);
        }
    }
}

static void check_mixture(struct world *w) {
    static const size_t counts[PARTS][2] = {{0, 3}, {10, 40}, {60, 0}, {80, 110}};
    struct scatter parts[PARTS];
    const struct scatter *scatters[PARTS];
    double *a = calloc(w->d * w->d, sizeof *a), before[512], after[512];
    for (size_t seed = 0; seed < 5; seed++) {
        memset(a, 0, w->d * w->d * sizeof *a);
        memset(w->a, 0, w->d * w->d * sizeof *w->a);
        scatter_free(&w->scatter);
        assert_ok(w->context, scatter_create(w->context, w->d, w->type, &w->scatter));
        for (size_t p = 0; p < PARTS; p++) {
            scatters[p] = &parts[p];
            assert_ok(w->context, scatter_create(w->context, w->d, w->type, &parts[p]));
            if (random_uniform(seed, p) < 0.3) {
                add_by_sums(w, &parts[p], a, counts[p][0], counts[p][1]);
            } else {
                add_range(w, &parts[p], a, counts[p][0], counts[p][1], 1);
            }
        }
        assert_ok(w->context, sums_begin(&w->sums, COLUMNS));
        for (size_t i = 0; i < w->d; i++) {
            before[i] = value(8, i);
        }
        assert_ok(w->context, sums_write(&w->sums, ADDED, w->d - 1, 1, before));
        assert_ok(w->context, sums_total(&w->sums, scatters, PARTS));
        check_half(w, a, 1, w->tolerance * w->size);
        add_range(w, &w->scatter, w->a, 150, seed % 2 ? 50 : 4, 1);
        assert_ok(w->context, sums_add_scatter(&w->sums, -1, &w->scatter));
        assert_ok(w->context, sums_add_scatter(&w->sums, 3, &w->scatter));
        for (size_t i = 0; i < w->d * w->d; i++) {
            w->a[i] = a[i] + 2 * w->a[i];
            w->size = fmax(w->size, w->a[i]);
        }
        check_half(w, w->a, 1, w->tolerance * w->size);
        assert_ok(w->context, sums_read(&w->sums, ADDED, w->d - 1, 1, after));
        assert_memory_equal(before, after, w->d * sizeof *before);
        check_systems(w, scatters, w->a, a);
        for (size_t p = 0; p < PARTS; p++) {
            scatter_free(&parts[p]);
        }
    }
    free(a);
}

static void sums_take_any_mixture(void **state) {
    (void)state;
    each(check_mixture);
}

/* A factor in the second half outlives changes of the first. */
static void check_kept_factor(struct world *w) {
    double trace, row[512], again[512];
    bool definite;
    add_by_sums(w, &w->scatter, w->a, 0, 10);
    assert_ok(w->context, sums_keep(&w->sums, 1));
    assert_ok(w->context, sums_factor(&w->sums, REAL_DOUBLE, 1, NULL, 0, 0, 1, &trace, &definite));
    for (size_t i = 0; i < w->d; i++) {
        row[i] = again[i] = value(6, i);
    }
    assert_ok(w->context, sums_solve(&w->sums, REAL_DOUBLE, 1, row));
    for (int kind = 0; kind < 2; kind++) {
        scatter_free(&w->scatter);
        assert_ok(w->context, scatter_create(w->context, w->d, w->type, &w->scatter));
        add_range(w, &w->scatter, w->a, 20, kind ? 4 : 60, 1);
        assert_ok(w->context, sums_add_scatter(&w->sums, 1, &w->scatter));
    }
    check_half(w, w->a, 1, w->tolerance * w->size);
    assert_ok(w->context, sums_solve(&w->sums, REAL_DOUBLE, 1, again));
    assert_memory_equal(row, again, w->d * sizeof *row);
}

static void a_factor_stays_when_scatters_are_added(void **state) {
    (void)state;
    each(check_kept_factor);
}

static void check_cross(struct world *w) {
    double *cross = malloc(w->d * COLUMNS * sizeof *cross), after[512];
    for (size_t i = 0; i < w->d * COLUMNS; i++) {
        cross[i] = value(7, i);
    }
    assert_ok(w->context, block_cross(&w->all, w->weight, w->targets, COLUMNS, 1, cross));
    assert_ok(w->context, block_cross(&w->all, w->weight, w->targets, COLUMNS, -3, cross));
    for (size_t i = 0; i < w->d; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            double sum = value(7, i * COLUMNS + k);
            for (size_t n = 0; n < ROWS; n++) {
                sum -= 2 * w->weight[n] * w->x[n * w->d + i] * w->targets[n * COLUMNS + k];
            }
            assert_near(cross[i * COLUMNS + k], sum, 100 * w->tolerance);
        }
    }
    pick(w, (const size_t[]){3}, 1, cross);
    assert_ok(w->context, block_read(&w->some, after));
    for (size_t i = 0; i < w->d; i++) {
        assert_true(real_get(w->type, after, i) == w->x[3 * w->d + i]);
    }
    free(cross);
}

static void targets_are_added_without_sums(void **state) {
    (void)state;
    each(check_cross);
}

/* ---- Memory ---- */

enum { CLASSES = 50, IMAGES = 15, DIM = 301 };

static void fifty_small_parts_take_memory_for_their_rows(void **state) {
    (void)state;
    struct scatter parts[CLASSES];
    struct world w;
    open_world(&w, &cpu_algebra, REAL_SINGLE, DIM, 2);
    const size_t before = memory.now;
    for (size_t p = 0; p < CLASSES; p++) {
        assert_ok(w.context, scatter_create(w.context, DIM, REAL_SINGLE, &parts[p]));
    }
    assert_int_equal(memory.now, before);
    for (size_t p = 0; p < CLASSES; p++) {
        add_range(&w, &parts[p], w.a, p, IMAGES / 3, 1);
        add_range(&w, &parts[p], w.a, p, IMAGES, 1);
        assert_ok(w.context, scatter_tidy(&parts[p], IMAGES + IMAGES / 3));
        assert_int_equal(cpu_algebra.scatter_bytes(PROCESSOR, DIM, REAL_SINGLE, parts[p].rows),
                         parts[p].rows * DIM * sizeof(float));
    }
    assert_true(memory.now - before <= CLASSES * (IMAGES + IMAGES / 3) * DIM * sizeof(float));
    assert_int_equal(cpu_algebra.scatter_bytes(PROCESSOR, DIM, REAL_DOUBLE, DIM / 2 + 1),
                     triangle_numbers(0, DIM) * sizeof(double));
    assert_int_equal(cpu_algebra.scatter_bytes(PROCESSOR, UINT32_MAX, REAL_DOUBLE, UINT64_MAX), UINT64_MAX);
    for (size_t p = 0; p < CLASSES; p++) {
        scatter_free(&parts[p]);
    }
    close_world(&w);
}

enum operation {
    APPEND,
    CROSS,
    SUBTRACT,
    STRANGERS,
    JOIN_ROOT,
    JOIN_TRIANGLE,
    JOIN_SUMS,
    WRITE,
    MAKE,
    TIDY,
    LOWER,
    TOTAL,
    FACTOR,
    OPERATIONS
};

static l3a_status operate(struct world *w, enum operation operation, const struct scatter *other) {
    const struct scatter *const scatters[] = {&w->scatter, other};
    static const double numbers[2] = {0};
    double trace;
    bool definite;
    switch (operation) {
    case APPEND:
    case CROSS: return scatter_add_rows(&w->scatter, &w->some, 1, w->weight);
    case SUBTRACT:
    case STRANGERS: return scatter_add_rows(&w->scatter, &w->some, -1, w->weight);
    case JOIN_ROOT:
    case JOIN_TRIANGLE: return scatter_add(&w->scatter, other);
    case JOIN_SUMS: return scatter_add_sums(&w->scatter, &w->sums, 1);
    case WRITE: return scatter_write(&w->scatter, 0, 1, numbers);
    case MAKE: return scatter_make_root(&w->scatter, 3);
    case TIDY:
    case LOWER: return scatter_tidy(&w->scatter, 12);
    case TOTAL: return sums_total(&w->sums, scatters, 2);
    case FACTOR: return sums_factor(&w->sums, REAL_DOUBLE, 1, scatters, 2, 1, 1, &trace, &definite);
    case OPERATIONS: break;
    }
    return L3A_OK;
}

/* The N-th allocation of each operation fails; the scatter is as it was, and the operation then succeeds. */
static void scatters_survive_every_failure(void **state) {
    (void)state;
    for (int operation = 0; operation < OPERATIONS; operation++) {
        size_t number = 1;
        for (bool met = true; met; number++) {
            struct world w;
            struct scatter other, before;
            double numbers[40 * 41 / 2], after[40 * 41 / 2];
            open_world(&w, &cpu_algebra, REAL_DOUBLE, 40, 2);
            assert_ok(w.context, scatter_create(w.context, w.d, w.type, &other));
            if (operation == JOIN_TRIANGLE) {
                add_by_sums(&w, &other, w.a, 0, 30);
            } else {
                add_range(&w, &other, w.a, 0, 16, 1);
            }
            if (operation == LOWER) {
                add_by_sums(&w, &w.scatter, w.a, 0, 10);
            } else {
                add_range(&w, &w.scatter, w.a, 0, 10, 1);
            }
            w.some.count = 0;
            assert_ok(w.context, block_append(&w.some, &w.all, NULL, operation == CROSS ? 30 : operation == STRANGERS ? 20 : 5));
            before = w.scatter;
            assert_ok(w.context, scatter_read(&w.scatter, 0, 40 * 41 / 2, numbers));
            probe_restart(&memory, number, false);
            const l3a_status result = operate(&w, (enum operation)operation, &other);
            met = memory.seen >= number;
            probe_restart(&memory, 0, false);
            assert_int_equal(result, met ? L3A_ERROR_MEMORY : L3A_OK);
            if (met) {
                assert_ok(w.context, scatter_read(&w.scatter, 0, 40 * 41 / 2, after));
                assert_memory_equal(numbers, after, sizeof numbers);
                assert_int_equal(before.is_root, w.scatter.is_root);
                assert_int_equal(before.rows, w.scatter.rows);
                assert_int_equal(before.tidy, w.scatter.tidy);
                assert_ok(w.context, operate(&w, (enum operation)operation, &other));
            }
            scatter_free(&other);
            close_world(&w);
        }
        assert_true(number > 2); /* each allocates something */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_appended_up_to_half_the_width),
        cmocka_unit_test(rows_without_weight_add_nothing),
        cmocka_unit_test(rows_can_be_taken_away),
        cmocka_unit_test(taking_away_what_was_never_added_is_not_hidden),
        cmocka_unit_test(roots_and_triangles_add_up),
        cmocka_unit_test(tidy_roots_hide_the_rows),
        cmocka_unit_test(triangles_of_few_rows_become_roots),
        cmocka_unit_test(tidying_survives_infinities),
        cmocka_unit_test(roots_are_read_and_written),
        cmocka_unit_test(sums_take_any_mixture),
        cmocka_unit_test(a_factor_stays_when_scatters_are_added),
        cmocka_unit_test(targets_are_added_without_sums),
        cmocka_unit_test(fifty_small_parts_take_memory_for_their_rows),
        cmocka_unit_test(scatters_survive_every_failure),
    };
    back_ends[back_end_count] = find_cuda();
    back_end_count += back_ends[back_end_count] != NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
