/* What is special about a CUDA device: the same layer bit by bit, sums that agree with the processor's in mixed precision, the same
 * numbers each time, contexts that share objects, and a clear text when it cannot go on. */
#include "support.h"

#include "algebra/algebra.h"
#include "base/plugin.h"
#include "base/random.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
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
    assert_ok(context, context_fork(context, 1, true, &other));
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

/* ---- Memory ---- */

enum { MODEL_CLASSES = 4, MODEL_PHASES = 4 };
static const uint64_t LIMIT = (uint64_t)4 << 30, SLACK = (uint64_t)8 << 20; /* pools round sizes up */

struct setting {
    const char *what;
    const char *names[4], *values[4];
};

static const struct setting settings[] = {
    {"l3a", {"dim"}, {"1500"}},
    {"double precision", {"dim", "precision"}, {"1500", "double"}},
    {"gamma auto", {"dim", "gamma"}, {"1500", "auto"}},
    {"the recursion", {"dim", "solver"}, {"1500", "recursive"}},
    {"l3a+", {"dim", "alpha", "pseudo"}, {"1500", "0.3", "off"}},
    {"l3a+ in double precision", {"dim", "alpha", "pseudo", "precision"}, {"1500", "0.3", "off", "double"}},
};

static void fill_options(l3a_context *context, const struct setting *setting, const char *dim, l3a_options *options) {
    options_default(options);
    for (size_t i = 0; i < 4 && setting->names[i]; i++) {
        assert_ok(context, l3a_options_set(context, options, setting->names[i], setting->values[i]));
    }
    assert_ok(context, l3a_options_set(context, options, "dim", dim));
}

/* Learns phases of random rows and scores them. */
static l3a_status learn_model(l3a_context *context, const l3a_options *options, size_t rows, l3a_model **model, float *scores) {
    static float z[3000 * WIDTH];
    static int8_t labels[3000 * MODEL_CLASSES];
    l3a_status status = l3a_model_create(context, WIDTH, options, model);
    random_table(5, rows, WIDTH, MODEL_CLASSES, 3, z, labels);
    for (size_t t = 0; status == L3A_OK && t < MODEL_PHASES; t++) {
        char texts[MODEL_CLASSES][16];
        const char *names[MODEL_CLASSES];
        for (size_t k = 0; k < MODEL_CLASSES; k++) {
            snprintf(texts[k], sizeof texts[k], "c%zu-%zu", t, k);
            names[k] = texts[k];
        }
        status = l3a_phase_begin(*model, names, MODEL_CLASSES);
        status = status == L3A_OK ? l3a_phase_count(*model, labels, rows) : status;
        status = status == L3A_OK ? l3a_phase_learn(*model, z, labels, rows) : status;
        status = status == L3A_OK ? l3a_phase_end(*model) : status;
    }
    return status == L3A_OK ? l3a_model_score(*model, z, rows, scores) : status;
}

static uint64_t memory_left(l3a_context *context) {
    uint64_t available = 0;
    assert_ok(context, device_memory(context, &available));
    return available;
}

/* With no more than the plan, everything works; the plan is thus not too small. */
static void models_learn_within_the_plan(void **state) {
    (void)state;
    static float scores[3000 * MODEL_CLASSES * MODEL_PHASES];
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        l3a_context *context = context_on("cuda");
        l3a_plan plan = {.size = sizeof plan};
        l3a_options options;
        l3a_model *model = NULL;
        fill_options(context, &settings[s], "1500", &options);
        assert_ok(context, l3a_model_plan(context, &options, WIDTH, MODEL_CLASSES * MODEL_PHASES, &plan));
        context->options.device_memory_limit = plan.device_memory + MODEL_PHASES * plan.phase + SLACK;
        print_message("%s: %.1f MiB\n", settings[s].what, (double)context->options.device_memory_limit * 0x1p-20);
        assert_ok(context, learn_model(context, &options, 3000, &model, scores));
        l3a_model_free(model);
        context->options.device_memory_limit = plan.device_memory / 2;
        model = NULL;
        assert_fails(context, l3a_model_create(context, WIDTH, &options, &model), L3A_ERROR_MEMORY, "of the memory of cuda:0");
        l3a_context_free(context);
    }
}

/* Room for one part and a half: the others are in pinned memory, and all numbers are the same. */
static void parts_without_room_go_to_the_processor(void **state) {
    (void)state;
    static float scores[2][3000 * MODEL_CLASSES * MODEL_PHASES];
    uint64_t left[2];
    l3a_plan plan = {.size = sizeof plan};
    for (size_t i = 0; i < 2; i++) {
        l3a_context *context = context_on("cuda");
        l3a_options options;
        l3a_model *model = NULL;
        fill_options(context, &settings[4], "1500", &options);
        assert_ok(context, l3a_model_plan(context, &options, WIDTH, MODEL_CLASSES * MODEL_PHASES, &plan));
        context->options.device_memory_limit = LIMIT;
        context->device_work = i ? LIMIT - plan.phase * 3 / 2 : 0;
        assert_ok(context, learn_model(context, &options, 3000, &model, scores[i]));
        left[i] = memory_left(context);
        int exact = 0;
        assert_ok(context, l3a_model_forget_phase(model, 1, &exact)); /* frees one, and adds up the others */
        l3a_model_free(model);
        l3a_context_free(context);
    }
    assert_true(left[1] >= left[0] + 3 * plan.phase - SLACK && left[1] <= left[0] + 3 * plan.phase + SLACK);
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
}

/* Each allocation on the device fails in turn. Nothing is left behind, and the next attempt succeeds. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    static const size_t chosen[] = {0, 3, 4}, rows[] = {300, 300, 60}; /* the last has roots */
    static float scores[2][300 * MODEL_CLASSES * MODEL_PHASES];
    for (size_t s = 0; s < 3; s++) {
        l3a_context *context = context_on("cuda");
        l3a_options options;
        l3a_model *model = NULL;
        fill_options(context, &settings[chosen[s]], "200", &options);
        context->options.device_memory_limit = LIMIT;
        assert_ok(context, learn_model(context, &options, rows[s], &model, scores[0]));
        l3a_model_free(model);
        const uint64_t left = memory_left(context);
        size_t n = 0;
        bool reached = true;
        while (reached) {
            model = NULL;
            context->failing_allocation = ++n;
            const l3a_status status = learn_model(context, &options, rows[s], &model, scores[1]);
            reached = !context->failing_allocation;
            context->failing_allocation = 0;
            if (status != L3A_OK) { /* a part can go to pinned memory instead */
                assert_fails(context, status, L3A_ERROR_MEMORY, "cuda:0: out of memory");
            } else {
                assert_memory_equal(scores[0], scores[1], rows[s] * MODEL_CLASSES * MODEL_PHASES * sizeof(float));
            }
            l3a_model_free(model);
            assert_int_equal(memory_left(context), left);
        }
        print_message("%s: %zu allocations\n", settings[chosen[s]].what, n - 1);
        assert_true(n > 20);
        model = NULL;
        assert_ok(context, learn_model(context, &options, rows[s], &model, scores[1]));
        assert_memory_equal(scores[0], scores[1], rows[s] * MODEL_CLASSES * MODEL_PHASES * sizeof(float));
        l3a_model_free(model);
        l3a_context_free(context);
    }
}

typedef int register_memory(void *memory, size_t bytes, unsigned flags);
typedef int unregister_memory(void *memory);

/* CUDA copies pinned memory later than it is told to. Here the copy has to wait for the block before last, which is large. */
static void pinned_rows_may_change_when_the_call_returns(void **state) {
    (void)state;
    enum { LARGE = 20000, FEW = 100, WIDE = 64, OUTPUTS = 8192 };
    l3a_context *context = context_on("cuda");
    const struct layer_shape shape = {.kind = LAYER_RELU, .type = REAL_SINGLE, .width = WIDE, .dim = OUTPUTS, .seed = 3};
    struct layer layer;
    struct block rows = {.context = context, .layer = &layer, .capacity = LARGE};
    float *large = calloc(LARGE * WIDE, sizeof *large), *few = aligned_alloc(4096, FEW * WIDE * sizeof *few);
    float *expected = malloc(FEW * OUTPUTS * sizeof *expected), *found = malloc(FEW * OUTPUTS * sizeof *found);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(driver);
    register_memory *pin;
    unregister_memory *unpin;
    *(void **)&pin = dlsym(driver, "cuMemHostRegister_v2");
    *(void **)&unpin = dlsym(driver, "cuMemHostUnregister");
    assert_true(large && few && expected && found && pin && unpin);
    assert_ok(context, layer_create(context, &shape, &layer));
    assert_ok(context, block_create(&rows));
    for (int pinned = 0; pinned < 2; pinned++) {
        float *to = pinned ? found : expected;
        for (size_t i = 0; i < FEW * WIDE; i++) {
            few[i] = (float)value(4, i);
        }
        assert_true(!pinned || pin(few, FEW * WIDE * sizeof *few, 0) == 0);
        assert_ok(context, block_expand(&rows, large, LARGE));
        assert_ok(context, block_expand(&rows, large, LARGE));
        assert_ok(context, block_expand(&rows, few, FEW));
        memset(few, 0, FEW * WIDE * sizeof *few);
        assert_ok(context, block_read(&rows, to));
    }
    assert_memory_equal(expected, found, FEW * OUTPUTS * sizeof *found);
    assert_int_equal(unpin(few), 0);
    block_free(&rows);
    layer_free(&layer);
    dlclose(driver);
    free(large);
    free(few);
    free(expected);
    free(found);
    l3a_context_free(context);
}

static void reduced_precision_is_refused(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char text[200];
    assert_int_equal(setenv("NVIDIA_TF32_OVERRIDE", "1", 1), 0);
    assert_fails(context, l3a_device_describe(context, "cuda", text, sizeof text), L3A_ERROR_DEVICE,
                 "NVIDIA_TF32_OVERRIDE is set to '1'");
    assert_int_equal(setenv("NVIDIA_TF32_OVERRIDE", "0", 1), 0);
    assert_ok(context, l3a_device_describe(context, "cuda", text, sizeof text));
    assert_int_equal(unsetenv("NVIDIA_TF32_OVERRIDE"), 0);
    l3a_context_free(context);
}

static void the_speed_is_measured(void **state) {
    (void)state;
    l3a_context *context = context_on("cuda");
    double single = 0, exact = 0;
    assert_ok(context, l3a_device_speed(context, &single, &exact));
    print_message("%.0f GFLOP/s in single precision, %.0f in double\n", single * 1e-9, exact * 1e-9);
    assert_true(single > 1e9 && exact > 1e9 && single < 1e16 && exact < 1e16);
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
        cmocka_unit_test(models_learn_within_the_plan),
        cmocka_unit_test(parts_without_room_go_to_the_processor),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(reduced_precision_is_refused),
        cmocka_unit_test(the_speed_is_measured),
        cmocka_unit_test(wide_rows_have_the_accuracy_of_float32),
        cmocka_unit_test(pinned_rows_may_change_when_the_call_returns),
    };
    return find_cuda() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
