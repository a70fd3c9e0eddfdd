/* Networks on a CUDA device: every kind of layer (layer_cases.h) and whole networks against the naive back end, in each type of
 * number; however many pictures go in at once; from several threads; when the device runs out of memory, and when any call fails.
 * Where there is no device, the plug-in's kernels run on the processor (fake_cuda.h, emulate_cuda.h). With L3A_TEST_DEVICE=cuda, a
 * real one is used. An argument is a pattern of the tests that are wanted. */
#include "support.h"

#include "base/plugin.h"
#include "base/random.h"
#include "fake_device.h"
#include "layer_cases.h"
#include "net/backbone.h"
#include "net/fuse.h"
#include "small_networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5, MANY = 77, TYPES = 3 };

/* Of the rounding of a layer's inputs and results; the naive numbers are not rounded. Relative to the largest number. */
static const struct {
    enum number_type type;
    const char *name;
    double tolerance;
} types[TYPES] = {{NUMBER_FLOAT32, "float32", 4e-6}, {NUMBER_FLOAT16, "float16", 4e-3}, {NUMBER_BFLOAT16, "bf16", 3e-2}};

static struct fake_cuda *fake; /* NULL: the device is real */

static l3a_context *context_with_device(void) {
    const l3a_context_options options = {.size = sizeof options, .threads = 2, .device = "cuda"};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

static const struct network_back_end *back_end_of(const l3a_context *context) {
    assert_non_null(context->plugin->network);
    return context->plugin->network;
}

static float *numbers_of(size_t count, const char *name) {
    float *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = layer_case_number(name, i);
    }
    return numbers;
}

/* ---- Layers ---- */

static float *output_of(l3a_context *context, const struct network_back_end *back_end, const struct network *net,
                        enum number_type type, const float *pictures) {
    const struct shape to = net->shapes[net->outputs[0].value];
    float *output = malloc(COUNT * to.channels * to.height * to.width * sizeof *output);
    void *state = NULL;
    assert_non_null(output);
    assert_ok(context, back_end->open(net, &(struct network_use){.numbers = type}, &state));
    assert_ok(context, back_end->run(state, pictures, COUNT, &output));
    back_end->close(state);
    return output;
}

/* The largest difference, relative to the largest number. */
static double difference(const float *expected, const float *found, size_t count) {
    double largest = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)expected[i]));
        apart = fmax(apart, fabs((double)expected[i] - (double)found[i]));
        apart = isfinite((double)found[i]) ? apart : INFINITY;
    }
    return apart / largest;
}

static void check(const char *what, size_t type, const float *expected, const float *found, size_t count) {
    const double apart = difference(expected, found, count);
    if (!(apart <= types[type].tolerance)) {
        print_error("%s in %s: differs by %g\n", what, types[type].name, apart);
    }
    assert_true(apart <= types[type].tolerance);
}

/* The naive back end runs the description, the device what fuse.c makes of it. */
static void run_case(l3a_context *context, const struct layer_case *test) {
    static struct memory_tensors tensors;
    struct parameters parameters;
    struct network net;
    float *pictures = numbers_of(COUNT * 3 * test->side * test->side, "picture");
    layer_case_open(context, test, &tensors, &parameters, &net);
    const struct shape to = net.shapes[net.outputs[0].value];
    float *naive = output_of(context, &naive_back_end, &net, NUMBER_FLOAT32, pictures);
    assert_ok(context, network_fuse(&net, 1));
    for (size_t i = 0; i < TYPES; i++) {
        float *found = output_of(context, back_end_of(context), &net, types[i].type, pictures);
        check(test->name, i, naive, found, COUNT * to.channels * to.height * to.width);
        free(found);
    }
    network_free(&net);
    parameters_close(&parameters);
    free(naive);
    free(pictures);
}

static void layers_equal_the_naive_ones(void **unused) {
    (void)unused;
    l3a_context *context = context_with_device();
    for (size_t i = 0; i < layer_case_count; i++) {
        if (!layer_case_is_for_prompts(&layer_cases[i])) {
            run_case(context, &layer_cases[i]);
        }
    }
    l3a_context_free(context);
}

/* ---- Whole networks ---- */

static const struct network_case {
    const char *name;
    void (*make)(struct memory_tensors *tensors);
    size_t side;
} cases[] = {{"a vit", make_small_vit, 12}, {"a resnet", make_small_resnet, 40}, {"a tresnet", make_small_tresnet, 40}};

enum { CASES = sizeof cases / sizeof *cases };

/* naive: on the naive back end */
static l3a_status try_case(l3a_context *context, const struct network_case *test, l3a_network_precision precision, bool naive,
                           l3a_backbone **backbone) {
    static struct memory_tensors tensors;
    l3a_backbone_options options = {.size = sizeof options, .side = test->side, .precision = precision};
    for (size_t i = 0; i < 3; i++) {
        options.mean[i] = options.deviation[i] = 0.5F;
    }
    test->make(&tensors);
    const struct parameter_source source = tensors_source(&tensors, read_small);
    return backbone_open_from(context, &source, naive ? &naive_back_end : back_end_of(context), &options, backbone);
}

static l3a_backbone *open_case(l3a_context *context, const struct network_case *test, l3a_network_precision precision, bool naive) {
    l3a_backbone *backbone = NULL;
    assert_ok(context, try_case(context, test, precision, naive, &backbone));
    return backbone;
}

static float *features_of(l3a_context *context, l3a_backbone *backbone, const float *pictures, size_t count) {
    float *features = malloc(count * l3a_backbone_describe(backbone)->width * sizeof *features);
    assert_non_null(features);
    assert_ok(context, l3a_backbone_run(backbone, pictures, count, features));
    return features;
}

static void networks_equal_the_naive_ones(void **unused) {
    static const l3a_network_precision precisions[TYPES] = {L3A_NETWORK_FLOAT32, L3A_NETWORK_FLOAT16, L3A_NETWORK_BF16};
    (void)unused;
    l3a_context *context = context_with_device();
    for (size_t i = 0; i < TYPES * CASES; i++) {
        const struct network_case *test = &cases[i / TYPES];
        float *pictures = numbers_of(COUNT * 3 * test->side * test->side, "picture");
        l3a_backbone *naive = open_case(context, test, L3A_NETWORK_FLOAT32, true);
        l3a_backbone *backbone = open_case(context, test, precisions[i % TYPES], false);
        const size_t width = l3a_backbone_describe(backbone)->width;
        assert_int_equal(l3a_backbone_describe(backbone)->computed, precisions[i % TYPES]);
        float *expected = features_of(context, naive, pictures, COUNT);
        float *features = features_of(context, backbone, pictures, COUNT), *again = features_of(context, backbone, pictures, COUNT);
        check(test->name, i % TYPES, expected, features, COUNT * width);
        assert_memory_equal(features, again, COUNT * width * sizeof *features);
        l3a_backbone_free(naive);
        l3a_backbone_free(backbone);
        free(expected);
        free(features);
        free(again);
        free(pictures);
    }
    l3a_context_free(context);
}

/* Several batches, the last of which is not full; one picture at a time; and as many at once as fill programs of several sizes. */
static void features_do_not_depend_on_the_batch(void **unused) {
    (void)unused;
    static const size_t counts[] = {1, 2, 8, 9, 64, 65, MANY};
    l3a_context *context = context_with_device();
    const struct network_case *test = &cases[0];
    const size_t picture = 3 * test->side * test->side;
    float *pictures = numbers_of(MANY * picture, "picture");
    l3a_backbone *backbone = open_case(context, test, L3A_NETWORK_FLOAT32, false);
    const size_t width = l3a_backbone_describe(backbone)->width;
    float *expected = malloc(MANY * width * sizeof *expected);
    for (size_t i = 0; i < MANY; i++) {
        assert_ok(context, l3a_backbone_run(backbone, pictures + i * picture, 1, expected + i * width));
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *features = features_of(context, backbone, pictures, counts[i]);
        check("pictures together", 0, expected, features, counts[i] * width);
        free(features);
    }
    assert_ok(context, l3a_backbone_run(backbone, pictures, 0, expected));
    l3a_backbone_free(backbone);
    free(expected);
    free(pictures);
    l3a_context_free(context);
}

/* A second backbone with the parameters of the first, on a context of its own. */
static void shared_parameters_give_the_same_features(void **unused) {
    (void)unused;
    l3a_context *context = context_with_device(), *other = NULL;
    const struct network_case *test = &cases[1];
    float *pictures = numbers_of(COUNT * 3 * test->side * test->side, "picture");
    l3a_backbone *first = open_case(context, test, L3A_NETWORK_FLOAT32, false), *second = NULL;
    const size_t width = l3a_backbone_describe(first)->width;
    assert_ok(context, context_fork(context, 1, true, &other));
    assert_ok(other, backbone_share(other, first, &second));
    float *one = features_of(context, first, pictures, COUNT), *two = features_of(other, second, pictures, COUNT);
    assert_memory_equal(one, two, COUNT * width * sizeof *one);
    l3a_backbone_free(second);
    l3a_context_free(other);
    l3a_backbone_free(first);
    l3a_context_free(context);
    free(one);
    free(two);
    free(pictures);
}

/* ---- Memory that runs out ---- */

/* Whether the back end says that it has room for so many pictures alone. */
static bool says_room(const l3a_backbone *backbone, size_t count) {
    char text[256], wanted[64];
    backbone->back_end->describe(backbone->state, MANY, text, sizeof text);
    snprintf(wanted, sizeof wanted, ", room for %zu pictures at a time", count);
    return strstr(text, count ? wanted : "room for") != NULL;
}

/* The N-th allocation of the device fails: opening says so, and running goes on with fewer pictures at a time, which is known from
 * then on. */
static void less_memory_means_smaller_batches(void **unused) {
    (void)unused;
    const struct network_case *test = &cases[0];
    float *pictures = numbers_of(MANY * 3 * test->side * test->side, "picture"), *expected = NULL;
    size_t failed_openings = 0, smaller = 0, number = 0;
    for (bool met = true; met; number++) { /* 0: nothing fails */
        l3a_context *context = context_with_device();
        l3a_backbone *backbone = NULL;
        context->failing_allocation = number;
        const l3a_status status = try_case(context, test, L3A_NETWORK_FLOAT32, false, &backbone);
        if (status == L3A_OK) {
            float *features = features_of(context, backbone, pictures, MANY);
            met = !context->failing_allocation;
            smaller += met && number;
            check("fewer at a time", 0, expected ? expected : features, features, MANY * 64);
            assert_true(met && number ? says_room(backbone, 64) || says_room(backbone, 8) || says_room(backbone, 1)
                                      : !says_room(backbone, 0));
            free(number ? features : NULL);
            expected = number ? expected : features;
        } else {
            assert_int_equal(status, L3A_ERROR_MEMORY);
            failed_openings++;
        }
        l3a_backbone_free(backbone);
        l3a_context_free(context);
    }
    assert_true(failed_openings > 0 && smaller > 0);
    free(expected);
    free(pictures);
}

/* Nothing is left beside what plans of learning need, so pictures are computed one at a time. */
static void learning_comes_first(void **unused) {
    (void)unused;
    float *pictures = numbers_of(MANY * 3 * cases[0].side * cases[0].side, "picture"), *features[2];
    for (int i = 0; i < 2; i++) {
        l3a_context *context = context_with_device();
        context->device_work = i ? UINT64_MAX / 2 : 0;
        l3a_backbone *backbone = open_case(context, &cases[0], L3A_NETWORK_FLOAT32, false);
        features[i] = features_of(context, backbone, pictures, MANY);
        assert_true(i ? says_room(backbone, 1) : !says_room(backbone, 0));
        l3a_backbone_free(backbone);
        l3a_context_free(context);
    }
    check("one at a time", 0, features[0], features[1], MANY * 64);
    free(features[0]);
    free(features[1]);
    free(pictures);
}

/* ---- Calls that fail ---- */

enum { FEW = 3 };

/* Opens the device and a network, and runs it. */
static l3a_status attempt(const struct network_case *test, const float *pictures, float *features) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .device = "cuda"};
    l3a_context *context = NULL;
    l3a_backbone *backbone = NULL;
    l3a_status status = l3a_context_create(&options, &context);
    status = status == L3A_OK ? try_case(context, test, L3A_NETWORK_FLOAT32, false, &backbone) : status;
    status = status == L3A_OK ? l3a_backbone_run(backbone, pictures, FEW, features) : status;
    if (status != L3A_OK && context) {
        const char *text = l3a_error_text(context);
        const bool memory = status == L3A_ERROR_MEMORY;
        const char *begins = memory ? "cuda:0: out of memory" : "cuda:0: the device failed: ";
        if (strncmp(text, begins, strlen(begins)) != 0) {
            print_error("%s: %s has failed: %s\n", test->name, fake->failed, text);
        }
        assert_int_equal(strncmp(text, begins, strlen(begins)), 0);
        assert_true(*l3a_error_hint(context));
    }
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    return status;
}

/* Whichever call fails, either the features are right, because nothing that was asked for depends on it, or the error says what has
 * failed; nothing leaks, and the next attempt succeeds. */
static void every_call_may_fail(void **state) {
    const enum fake_failure failure = *(const enum fake_failure *)*state;
    if (!fake) {
        print_message("skipped: calls that fail: the device is real\n");
        return;
    }
    for (size_t i = 0; i < (failure == LAUNCH_FAILURE ? CASES : 1); i++) {
        const size_t numbers = FEW * 512;
        float *pictures = numbers_of(FEW * 3 * cases[i].side * cases[i].side, "picture");
        float *expected = calloc(numbers, sizeof *expected), *features = calloc(numbers, sizeof *features);
        size_t failures = 0;
        fake_device_reset(fake);
        assert_int_equal(attempt(&cases[i], pictures, expected), L3A_OK);
        const size_t calls = fake->calls;
        assert_true(calls > 100);
        for (size_t number = 1; number <= calls; number++) {
            fake_device_reset(fake);
            fake->failing = number;
            fake->failure = failure;
            const l3a_status status = attempt(&cases[i], pictures, features);
            assert_non_null(fake->failed);
            if (status == L3A_OK) {
                check(fake->failed, 0, expected, features, numbers);
            }
            failures += status != L3A_OK;
            assert_int_equal(fake->misuses, 0);
            assert_int_equal(fake->objects, 0);
        }
        assert_true(failures > 50);
        fake_device_reset(fake);
        assert_int_equal(attempt(&cases[i], pictures, features), L3A_OK);
        print_message("%s: %zu calls, %zu failures\n", cases[i].name, calls, failures);
        free(pictures);
        free(expected);
        free(features);
    }
    fake_device_reset(fake);
}

int main(int count, char **arguments) {
    static enum fake_failure failures[] = {NO_MEMORY, LAUNCH_FAILURE, DEVICE_LOST};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_equal_the_naive_ones),
        cmocka_unit_test(networks_equal_the_naive_ones),
        cmocka_unit_test(features_do_not_depend_on_the_batch),
        cmocka_unit_test(shared_parameters_give_the_same_features),
        cmocka_unit_test(less_memory_means_smaller_batches),
        cmocka_unit_test(learning_comes_first),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[NO_MEMORY]),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[LAUNCH_FAILURE]),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[DEVICE_LOST]),
    };
    if (!fake_device_load(&fake)) {
        return 77;
    }
    cmocka_set_test_filter(count > 1 ? arguments[1] : NULL);
    const int code = cmocka_run_group_tests(tests, NULL, NULL);
    if (fake && (fake->objects || fake->misuses)) {
        print_error("%ld objects leak, %zu misuses\n", fake->objects, fake->misuses);
        return 1;
    }
    return code;
}
