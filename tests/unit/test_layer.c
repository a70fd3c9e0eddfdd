/* The random layer: its numbers are fixed for ever, because a model file holds only their seed. */
#include "support.h"

#include "base/random.h"
#include "algebra/algebra.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* splitmix64 as it is published: a state that walks on. */
static uint64_t next_output(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static float expected_entry(uint64_t *state, size_t width) {
    const double u = (double)(next_output(state) >> 40) / 16777216.0;
    return (float)((2 * u - 1) / sqrt((double)width));
}

static void random_stream_has_the_published_values(void **state) {
    (void)state;
    static const uint64_t published[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                         UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                         UINT64_C(16408922859458223821)};
    for (uint64_t i = 0; i < 5; i++) {
        assert_true(random_bits(1234567, i) == published[i]);
        assert_true(l3a_uniform(1234567, i) == (double)(published[i] >> 40) / 16777216.0);
    }
}

static void random_stream_can_be_entered_anywhere(void **state) {
    (void)state;
    uint64_t walk = UINT64_MAX - 5;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(random_bits(UINT64_MAX - 5, i) == next_output(&walk));
    }
}

typedef struct layer_case {
    size_t width, dim;
    uint64_t seed;
} layer_case;

static const layer_case layers[] = {{1, 1, 0}, {3, 5, 2025}, {5, 3, 2025}, {17, 64, 7}, {64, 33, UINT64_MAX}};

enum { LAYERS = sizeof layers / sizeof layers[0], LARGEST = 64 * 64 };

static struct layer_shape shape_of(const layer_case *layer, real type) {
    return (struct layer_shape){.type = type, .width = layer->width, .dim = layer->dim, .seed = layer->seed};
}

static void check_entries(const layer_case *layer, real type) {
    static double entries[LARGEST];
    const struct layer_shape shape = shape_of(layer, type);
    uint64_t walk = layer->seed;
    layer_entries(1, &shape, entries);
    for (size_t i = 0; i < layer->width * layer->dim; i++) {
        const double expected = (double)expected_entry(&walk, layer->width), entry = real_get(type, entries, i);
        assert_true(entry == expected);
        assert_true(fabs(entry) <= 1 / sqrt((double)layer->width));
    }
}

static void layer_entries_follow_the_formula(void **state) {
    (void)state;
    for (size_t i = 0; i < LAYERS; i++) {
        check_entries(&layers[i], REAL_SINGLE);
        check_entries(&layers[i], REAL_DOUBLE);
    }
}

static void layer_does_not_depend_on_threads(void **state) {
    (void)state;
    static float left[LARGEST], right[LARGEST];
    for (size_t i = 0; i < LAYERS; i++) {
        const struct layer_shape shape = shape_of(&layers[i], REAL_SINGLE);
        layer_entries(1, &shape, left);
        layer_entries(2, &shape, right);
        assert_memory_equal(left, right, layers[i].width * layers[i].dim * sizeof(float));
    }
}

enum { ROWS = 9 };

static void check_expansion(l3a_context *context, const layer_case *layer, real type, double tolerance) {
    float features[ROWS * 64];
    int8_t labels[ROWS];
    double expanded[ROWS * LARGEST / 64];
    float entries[LARGEST];
    const struct layer_shape shape = shape_of(layer, type);
    struct layer made;
    uint64_t walk = layer->seed;
    random_table(31, ROWS, layer->width, 1, 2, features, labels);
    for (size_t i = 0; i < layer->width * layer->dim; i++) {
        entries[i] = expected_entry(&walk, layer->width);
    }
    assert_ok(context, layer_create(context, &shape, &made));
    struct block rows = {.context = context, .layer = &made, .capacity = ROWS};
    assert_ok(context, block_create(&rows));
    assert_ok(context, block_expand(&rows, features, ROWS));
    assert_ok(context, block_read(&rows, expanded));
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < layer->dim; j++) {
            long double sum = 0;
            for (size_t n = 0; n < layer->width; n++) {
                sum += (long double)features[i * layer->width + n] * (long double)entries[n * layer->dim + j];
            }
            const double expected = sum > 0 ? (double)sum : 0;
            const size_t at = i * layer->dim + j;
            const double got = type == REAL_SINGLE ? (double)((float *)(void *)expanded)[at] : expanded[at];
            assert_true(got >= 0 && fabs(got - expected) <= tolerance);
        }
    }
    block_free(&rows);
    layer_free(&made);
}

static void expansion_is_the_rectified_product(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        l3a_context *context = make_context(threads);
        for (size_t i = 0; i < LAYERS; i++) {
            check_expansion(context, &layers[i], REAL_SINGLE, 1e-6);
            check_expansion(context, &layers[i], REAL_DOUBLE, 1e-15);
        }
        l3a_context_free(context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_stream_has_the_published_values), cmocka_unit_test(random_stream_can_be_entered_anywhere),
        cmocka_unit_test(layer_entries_follow_the_formula),       cmocka_unit_test(layer_does_not_depend_on_threads),
        cmocka_unit_test(expansion_is_the_rectified_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
