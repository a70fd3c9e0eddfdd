/* What is special about a CUDA device: the same layer bit by bit, sums that agree with the processor's in mixed precision, the same
 * numbers each time, contexts that share objects, and a clear text when it cannot go on. */
#include "support.h"

#include "algebra/algebra.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 48, DIM = 700, ROWS = 1000, COLUMNS = 5 };

static l3a_context *context_on(const char *device) {
    const l3a_context_options options = {.size = sizeof options, .threads = 2, .device = device};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

static double value(uint64_t seed, size_t i) {
    return 2 * random_uniform(seed, i) - 1;
}

/* Expanding ±1 in one column at a time gives the entries of B, and nothing is rounded. */
static void layers_are_the_same_bit_by_bit(void **state) {
    (void)state;
    static float z[2 * WIDTH * WIDTH], entries[WIDTH * DIM], x[2 * WIDTH * DIM];
    l3a_context *context = context_on("cuda");
    const struct layer_shape shape = {.kind = LAYER_RELU, .width = WIDTH, .dim = DIM, .seed = 0xfedcba9876543210};
    struct layer layer;
    struct block rows = {.context = context, .layer = &layer, .capacity = 2 * WIDTH};
    assert_ok(context, layer_create(context, &shape, &layer));
    assert_ok(context, block_create(&rows));
    for (size_t i = 0; i < WIDTH; i++) {
        z[2 * i * WIDTH + i] = 1;
        z[(2 * i + 1) * WIDTH + i] = -1;
    }
    layer_entries(1, &shape, entries);
    assert_ok(context, block_expand(&rows, z, 2 * WIDTH));
    assert_ok(context, block_read(&rows, x));
    for (size_t i = 0; i < WIDTH * DIM; i++) {
        assert_true(x[2 * (i / DIM) * DIM + i % DIM] - x[(2 * (i / DIM) + 1) * DIM + i % DIM] == entries[i]);
    }
    block_free(&rows);
    layer_free(&layer);
    l3a_context_free(context);
}

/* Wide features are expanded on tensor cores, from split numbers. */
static void wide_rows_have_the_accuracy_of_float32(void **state) {
    (void)state;
    enum { WIDE = 2048, OUTPUTS = 130, COUNT = 70 };
    static const size_t widths[] = {768, 769, 1000, WIDE};
    static float z[COUNT * WIDE], entries[WIDE * OUTPUTS], x[COUNT * OUTPUTS];
    l3a_context *context = context_on("cuda");
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        const size_t k = widths[w];
        const struct layer_shape shape = {.kind = LAYER_RELU, .type = REAL_SINGLE, .width = k, .dim = OUTPUTS, .seed = w};
        struct layer layer;
        struct block rows = {.context = context, .layer = &layer, .capacity = COUNT};
        double gap = 0, size = 0, lean = 0;
        assert_ok(context, layer_create(context, &shape, &layer));
        assert_ok(context, block_create(&rows));
        for (size_t i = 0; i < COUNT * k; i++) {
            z[i] = (float)value(w, i);
        }
        layer_entries(1, &shape, entries);
        assert_ok(context, block_expand(&rows, z, COUNT));
        assert_ok(context, block_read(&rows, x));
        for (size_t i = 0; i < COUNT * OUTPUTS; i++) {
            double sum = 0;
            for (size_t j = 0; j < k; j++) {
                sum += (double)z[i / OUTPUTS * k + j] * (double)entries[j * OUTPUTS + i % OUTPUTS];
            }
            const double error = (double)x[i] - (sum > 0 ? sum : 0);
            gap += error * error;
            size += sum > 0 ? sum * sum : 0;
            lean += error;
        }
        lean /= sqrt(size * COUNT * OUTPUTS);
        print_message("width %zu: rows differ by %.1e, and lean by %.1e\n", k, sqrt(gap / size), lean);
        assert_true(sqrt(gap / size) < 6e-7);
        block_free(&rows);
        layer_free(&layer);
    }
    l3a_context_free(context);
}

/* A [DIM rows of the triangle] and C of random rows, in single precision, from blocks of a third of them. */
static void learn_sums(const char *device, double *a, double *c) {
    static float z[ROWS * WIDTH];
    static double weight[ROWS], targets[ROWS * COLUMNS];
    l3a_context *context = context_on(device);
    const struct layer_shape shape = {.kind = LAYER_RELU, .type = REAL_SINGLE, .width = WIDTH, .dim = DIM, .seed = 7};
    struct layer layer;
    struct sums sums;
    struct block rows = {.context = context, .layer = &layer, .capacity = 334, .columns = COLUMNS};
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        z[i] = (float)value(1, i);
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        targets[i] = value(2, i);
        weight[i / COLUMNS] = random_uniform(3, i / COLUMNS);
    }
    assert_ok(context, layer_create(context, &shape, &layer));
    assert_ok(context, block_create(&rows));
    assert_ok(context, sums_create(context, DIM, &sums));
    assert_ok(context, sums_begin(&sums, COLUMNS));
    for (size_t first = 0; first < ROWS; first += 334) {
        assert_ok(context, block_expand(&rows, z + first * WIDTH, ROWS - first < 334 ? ROWS - first : 334));
        assert_ok(context, sums_add(&sums, &rows, 1, weight + first, targets + first * COLUMNS));
    }
    assert_ok(context, sums_keep(&sums, 1));
    memset(c, 0, DIM * COLUMNS * sizeof *c);
    assert_ok(context, sums_cross(&sums, 1, c));
    assert_ok(context, sums_read(&sums, KEPT, 0, DIM, a));
    sums_free(&sums);
    block_free(&rows);
    layer_free(&layer);
    l3a_context_free(context);
}

static double distance(const double *one, const double *other, size_t count) {
    double gap = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        gap += (one[i] - other[i]) * (one[i] - other[i]);
        size += other[i] * other[i];
    }
    return sqrt(gap / size);
}

static void sums_are_those_of_the_processor(void **state) {
    (void)state;
    const size_t numbers = (size_t)triangle_numbers(0, DIM), crosses = DIM * COLUMNS;
    double *a[3], *c[3];
    for (size_t i = 0; i < 3; i++) {
        a[i] = malloc(numbers * sizeof **a);
        c[i] = malloc(crosses * sizeof **c);
        learn_sums(i ? "cuda" : "cpu", a[i], c[i]);
    }
    print_message("mixed precision: A differs by %.1e of the processor's, C by %.1e\n", distance(a[1], a[0], numbers),
                  distance(c[1], c[0], crosses));
    assert_true(distance(a[1], a[0], numbers) < 1e-6);
    assert_true(distance(c[1], c[0], crosses) < 1e-6);
    assert_memory_equal(a[1], a[2], numbers * sizeof **a); /* each time the same */
    assert_memory_equal(c[1], c[2], crosses * sizeof **c);
    for (size_t i = 0; i < 3; i++) {
        free(a[i]);
        free(c[i]);
    }
}

/* A layer, a solution and sums of one context are used by the work of another. */
static void contexts_share_objects(void **state) {
    (void)state;
    static float z[ROWS * WIDTH], scores[2][ROWS * COLUMNS];
    static double coefficients[DIM * COLUMNS], weight[ROWS], a[2][DIM];
    l3a_context *context = context_on("cuda"), *other = NULL;
    const struct layer_shape shape = {.kind = LAYER_RELU, .type = REAL_SINGLE, .width = WIDTH, .dim = DIM, .seed = 7};
    struct layer layer;
    struct solution solution;
    struct sums sums;
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        z[i] = (float)value(1, i);
        weight[i / WIDTH] = 1;
    }
    for (size_t i = 0; i < DIM * COLUMNS; i++) {
        coefficients[i] = value(2, i);
    }
    assert_ok(context, context_fork(context, 1, &other));
    assert_true(other->device && other->device != context->device && other->algebra == context->algebra);
    assert_ok(context, layer_create(context, &shape, &layer));
    assert_ok(context, solution_create(context, DIM, COLUMNS, REAL_SINGLE, &solution));
    assert_ok(context, solution_set(&solution, coefficients));
    assert_ok(context, sums_create(context, DIM, &sums));
    for (size_t i = 0; i < 2; i++) {
        struct block rows = {.context = i ? other : context, .layer = &layer, .capacity = ROWS, .columns = COLUMNS};
        assert_ok(rows.context, block_create(&rows));
        assert_ok(rows.context, block_expand(&rows, z, ROWS));
        assert_ok(rows.context, block_score(&rows, &solution, scores[i]));
        assert_ok(context, sums_begin(&sums, COLUMNS));
        assert_ok(context, sums_add(&sums, &rows, 1, weight, NULL));
        assert_ok(context, sums_read(&sums, ADDED, DIM - 1, 1, a[i]));
        block_free(&rows);
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    sums_free(&sums);
    solution_free(&solution);
    layer_free(&layer);
    l3a_context_free(other);
    l3a_context_free(context);
}

/* More than the pinned memory holds at a time, there and back. */
static void large_copies_arrive_whole(void **state) {
    (void)state;
    enum { LARGE = 4300 };
    const size_t numbers = (size_t)triangle_numbers(0, LARGE);
    double *values = malloc(numbers * sizeof *values), *back = malloc(numbers * sizeof *back), trace, sum = 0;
    l3a_context *context = context_on("cuda");
    struct sums sums;
    for (size_t i = 0; i < numbers; i++) {
        values[i] = value(8, i);
    }
    for (size_t i = 0; i < LARGE; i++) {
        sum += values[triangle_numbers(0, i) + i];
    }
    assert_ok(context, sums_create(context, LARGE, &sums));
    assert_ok(context, sums_write(&sums, ADDED, 0, LARGE, values));
    assert_ok(context, sums_copy(&sums, KEPT));
    assert_ok(context, sums_read(&sums, KEPT, 0, LARGE, back));
    assert_memory_equal(values, back, numbers * sizeof *values);
    assert_ok(context, sums_trace(&sums, &trace));
    assert_true(trace == sum);
    sums_free(&sums);
    l3a_context_free(context);
    free(values);
    free(back);
}

static void too_large_sums_are_told(void **state) {
    (void)state;
    l3a_context *context = context_on("cuda");
    struct sums sums;
    assert_fails(context, sums_create(context, (size_t)1 << 20, &sums), L3A_ERROR_MEMORY, "GiB are free");
    assert_fails(context, sums_create(context, SIZE_MAX / 4, &sums), L3A_ERROR_MEMORY, "GiB are free");
    assert_ok(context, sums_create(context, 10, &sums)); /* and it goes on */
    sums_free(&sums);
    l3a_context_free(context);
}

static void devices_are_described(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char text[200];
    assert_ok(context, l3a_device_describe(context, "cuda:0", text, sizeof text));
    print_message("cuda:0: %s\n", text);
    assert_non_null(strstr(text, "GiB"));
    assert_fails(context, l3a_device_describe(context, "cuda:999", text, sizeof text), L3A_ERROR_DEVICE, "cuda:999: there ");
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_the_same_bit_by_bit),
        cmocka_unit_test(sums_are_those_of_the_processor),
        cmocka_unit_test(contexts_share_objects),
        cmocka_unit_test(large_copies_arrive_whole),
        cmocka_unit_test(too_large_sums_are_told),
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(wide_rows_have_the_accuracy_of_float32),
    };
    return find_cuda() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
