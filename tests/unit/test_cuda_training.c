/* Training on a CUDA device: what every back end must do (training_checks.h), in float32 and in bf16; that the memory is what was
 * planned; and whatever fails. Where there is no device, the plug-in's kernels run on the processor (fake_cuda.h, emulate_cuda.h).
 * With L3A_TEST_DEVICE=cuda, a real one is used. An argument is a pattern of the tests that are wanted. */
#include "training_checks.h"

#include "base/plugin.h"
#include "fake_device.h"
#include "layer_cases.h"
#include "net/backbone.h"
#include "small_networks.h"
#include "training_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3 };

static struct fake_cuda *fake; /* NULL: the device is real */

/* ---- A network that is trained a little ---- */

static void make_shallow_vit(struct memory_tensors *tensors) {
    make_small_vit_of(tensors, 1);
}

static void make_narrow_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 4);
}

static const struct training_case {
    const char *name;
    void (*make)(struct memory_tensors *tensors);
    size_t side;
} cases[] = {{"a vit", make_shallow_vit, 12}, {"a resnet", make_narrow_resnet, 32}, {"a tresnet", make_small_tresnet, 32}};

enum { CASES = sizeof cases / sizeof *cases };

struct work {
    l3a_context *context; /* of the description */
    const char *name;
    struct reading reading;
    float *pictures, *outputs[NETWORK_OUTPUTS];
};

static void work_open(struct work *work, const struct training_case *test) {
    static struct memory_tensors tensors;
    const l3a_backbone_options options = {.size = sizeof options, .side = test->side};
    *work = (struct work){.context = make_context(1), .name = test->name};
    test->make(&tensors);
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true; /* mean and deviation make no difference here */
    assert_ok(work->context, backbone_read(work->context, &source, &options, &work->reading));
    const size_t picture = 3 * test->side * test->side;
    work->pictures = malloc(COUNT * picture * sizeof(float));
    assert_non_null(work->pictures);
    for (size_t i = 0; i < COUNT * picture; i++) {
        work->pictures[i] = layer_case_number("picture", i);
    }
    for (size_t i = 0; i < work->reading.network.output_count; i++) {
        const struct shape shape = work->reading.network.shapes[work->reading.network.outputs[i].value];
        work->outputs[i] = calloc(COUNT * shape.channels * shape.height * shape.width, sizeof(float));
        assert_non_null(work->outputs[i]);
    }
}

static void work_close(struct work *work) {
    for (size_t i = 0; i < work->reading.network.output_count; i++) {
        free(work->outputs[i]);
    }
    free(work->pictures);
    network_free(&work->reading.network);
    l3a_context_free(work->context);
}

static l3a_status device_context(l3a_context **context) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .device = "cuda"};
    return l3a_context_create(&options, context);
}

/* A step, with the gradients that the outputs are, and a run. */
static l3a_status step_once(struct work *work, const struct network_back_end *back_end, void *state) {
    static const struct network_step step = {
        .optimiser = OPTIMISER_ADAMW, .rate = 1e-3, .momentum = 0.9, .square = 0.999, .epsilon = 1e-8, .scale = 1, .number = 1};
    size_t layer = 0;
    double square = 0;
    while (!work->reading.network.layers[layer].parameters[FACTORS].values) {
        layer++;
    }
    float *values = malloc(work->reading.network.layers[layer].parameters[FACTORS].count * sizeof *values);
    assert_non_null(values);
    l3a_status status = back_end->forward(state, work->pictures, COUNT, work->outputs);
    status = status == L3A_OK ? back_end->backward(state, (const float *const *)work->outputs) : status;
    status = status == L3A_OK ? back_end->gradient_square(state, &square) : status;
    status = status == L3A_OK ? back_end->step(state, &step) : status;
    status = status == L3A_OK ? back_end->read(state, layer, FACTORS, PARAMETER_VALUE, values) : status;
    status = status == L3A_OK ? back_end->write(state, layer, FACTORS, PARAMETER_VALUE, values) : status;
    status = status == L3A_OK ? back_end->run(state, work->pictures, COUNT, work->outputs) : status;
    free(values);
    return status;
}

/* memory: the limit; 0: none */
static l3a_status train_a_little(struct work *work, l3a_context *context, uint64_t memory) {
    const struct network_back_end *back_end = network_back_end_of_device(context);
    const struct network_use use = {.training = true, .pictures = COUNT, .memory = memory};
    struct network net = work->reading.network;
    void *state = NULL;
    net.context = context;
    l3a_status status = back_end->open(&net, &use, &state);
    if (status == L3A_OK) {
        status = step_once(work, back_end, state);
        back_end->close(state);
    }
    return status;
}

/* ---- Memory ---- */

static struct network_plan plan_of(struct work *work, l3a_context *context, uint64_t memory) {
    struct network net = work->reading.network;
    struct network_plan plan = {0};
    net.context = context;
    assert_ok(context, network_back_end_of_device(context)->plan(
                           &net, &(struct network_use){.training = true, .pictures = COUNT, .memory = memory}, &plan));
    return plan;
}

/* What is taken is what was planned, with and without recomputation. */
static void the_memory_is_what_was_planned(void **unused) {
    enum { SLACK = 8192 };
    (void)unused;
    if (!fake) {
        print_message("skipped: memory that is counted: the device is real\n");
        return;
    }
    for (size_t i = 0; i < CASES; i++) {
        struct work work;
        l3a_context *context = NULL;
        work_open(&work, &cases[i]);
        assert_int_equal(device_context(&context), L3A_OK);
        const struct network_plan plan = plan_of(&work, context, 0), less = plan_of(&work, context, plan.bytes - 1);
        assert_true(less.bytes < plan.bytes && less.recomputes);
        for (int j = 0; j < 2; j++) {
            const uint64_t planned = j ? less.bytes : plan.bytes;
            const size_t before = fake->most_bytes = fake->bytes;
            assert_ok(context, train_a_little(&work, context, planned));
            assert_true(fake->most_bytes - before <= planned);
            assert_true(fake->most_bytes - before + SLACK >= planned);
            assert_int_equal(fake->bytes, before);
        }
        l3a_context_free(context);
        work_close(&work);
    }
}

/* The calls that a forward and a backward pass make, if only the last layers are trained. */
static void check_frozen(struct work *work, l3a_context *context, const struct network_use *use) {
    const struct network_back_end *back_end = network_back_end_of_device(context);
    const float *gradients[NETWORK_OUTPUTS] = {work->outputs[0]};
    struct network net = work->reading.network;
    struct network_plan plan = {0};
    void *state = NULL;
    net.context = context;
    assert_ok(context, back_end->plan(&net, use, &plan));
    assert_true(plan.bytes < plan_of(work, context, 0).bytes && !plan.recomputes);
    assert_ok(context, back_end->open(&net, use, &state));
    const size_t opened = fake ? fake->calls : 0;
    assert_ok(context, back_end->forward(state, work->pictures, COUNT, work->outputs));
    const size_t forward = fake ? fake->calls : 0;
    assert_ok(context, back_end->backward(state, gradients));
    assert_true(!fake || fake->calls - forward < (forward - opened) / 2);
    back_end->close(state);
}

/* Below the first layer that is trained, no values are kept, and nothing runs backward. */
static void a_frozen_prefix_takes_nothing(void **unused) {
    enum { LAYERS = 256, LAST = 3 };
    (void)unused;
    for (size_t i = 0; i < CASES; i++) {
        struct parameter_use uses[LAYERS][PARAMETER_KINDS] = {{{.trained = false}}};
        const struct network_use use = {
            .training = true, .pictures = COUNT, .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])uses};
        struct work work;
        l3a_context *context = NULL;
        work_open(&work, &cases[i]);
        assert_int_equal(device_context(&context), L3A_OK);
        const size_t layers = work.reading.network.layer_count;
        assert_true(layers <= LAYERS);
        for (size_t j = (layers - LAST) * PARAMETER_KINDS; j < layers * PARAMETER_KINDS; j++) {
            uses[j / PARAMETER_KINDS][j % PARAMETER_KINDS] = (struct parameter_use){.trained = true, .rate = 1};
        }
        check_frozen(&work, context, &use);
        l3a_context_free(context);
        work_close(&work);
    }
}

/* The context's limit holds for training, too. */
static void the_limit_of_the_device_counts(void **unused) {
    struct work work;
    l3a_context *context = NULL;
    (void)unused;
    work_open(&work, &cases[0]);
    assert_int_equal(device_context(&context), L3A_OK);
    const struct network_plan plan = plan_of(&work, context, 0);
    l3a_context_free(context);
    for (int i = 0; i < 2; i++) {
        const l3a_context_options options = {
            .size = sizeof options, .threads = 1, .device = "cuda", .device_memory_limit = i ? 1 << 20 : plan.bytes - 1};
        assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
        if (i) {
            assert_fails(context, train_a_little(&work, context, 0), L3A_ERROR_MEMORY, "training takes at least");
        } else {
            assert_true(plan_of(&work, context, 0).recomputes);
        }
        l3a_context_free(context);
    }
    work_close(&work);
}

/* The N-th allocation of the device fails. */
static void less_memory_of_the_device_is_an_error(void **unused) {
    struct work work;
    size_t failures = 0;
    (void)unused;
    work_open(&work, &cases[0]);
    for (bool met = true; met; failures += met) {
        l3a_context *context = NULL;
        assert_int_equal(device_context(&context), L3A_OK);
        context->failing_allocation = failures + 1;
        const l3a_status status = train_a_little(&work, context, 0);
        met = !context->failing_allocation;
        assert_int_equal(status, met ? L3A_ERROR_MEMORY : L3A_OK);
        l3a_context_free(context);
    }
    assert_true(failures > 5);
    work_close(&work);
}

/* ---- Calls that fail ---- */

static l3a_status attempt(struct work *work) {
    l3a_context *context = NULL;
    l3a_status status = device_context(&context);
    status = status == L3A_OK ? train_a_little(work, context, 0) : status;
    if (status != L3A_OK && context) {
        const char *text = l3a_error_text(context);
        const char *begins = status == L3A_ERROR_MEMORY ? "cuda:0: out of memory" : "cuda:0: the device failed: ";
        if (strncmp(text, begins, strlen(begins)) != 0) {
            print_error("%s: %s has failed: %s\n", work->name, fake->failed, text);
        }
        assert_int_equal(strncmp(text, begins, strlen(begins)), 0);
        assert_true(*l3a_error_hint(context));
    }
    l3a_context_free(context);
    return status;
}

/* The features of the first picture after the step. */
static void copy_features(const struct work *work, float *features, size_t count) {
    memcpy(features, work->outputs[0], count * sizeof *features);
}

/* Whichever call fails, either the result is right, because nothing that was asked for depends on it, or the error says what has
 * failed; nothing leaks, and the next attempt succeeds. */
static void every_call_may_fail(void **state) {
    enum { FEATURES = 8 };
    const enum fake_failure failure = *(const enum fake_failure *)*state;
    if (!fake) {
        print_message("skipped: calls that fail: the device is real\n");
        return;
    }
    for (size_t i = 0; i < (failure == LAUNCH_FAILURE ? CASES : 1); i++) {
        float expected[FEATURES], features[FEATURES];
        struct work work;
        size_t failures = 0;
        work_open(&work, &cases[i]);
        fake_device_reset(fake);
        assert_int_equal(attempt(&work), L3A_OK);
        copy_features(&work, expected, FEATURES);
        const size_t calls = fake->calls, step = i ? 7 : getenv("L3A_QUICK") ? 5 : 1; /* one job of CI meets all of them */
        assert_true(calls > 100);
        for (size_t number = 1; number <= calls; number += step) {
            fake_device_reset(fake);
            fake->failing = number;
            fake->failure = failure;
            const l3a_status status = attempt(&work);
            assert_non_null(fake->failed);
            if (status == L3A_OK) {
                copy_features(&work, features, FEATURES);
                assert_memory_equal(features, expected, sizeof features);
            }
            failures += status != L3A_OK;
            assert_int_equal(fake->misuses, 0);
            assert_int_equal(fake->objects, 0);
        }
        assert_true(failures > 50);
        fake_device_reset(fake);
        assert_int_equal(attempt(&work), L3A_OK);
        print_message("%s: %zu calls, %zu failures\n", cases[i].name, calls, failures);
        work_close(&work);
    }
}

static int run_checks(enum number_type numbers, const char *name) {
    training_device = "cuda";
    training_numbers = numbers;
    return _cmocka_run_group_tests(name, training_checks, training_check_count, NULL, NULL);
}

int main(int count, char **arguments) {
    static enum fake_failure failures[] = {NO_MEMORY, LAUNCH_FAILURE, DEVICE_LOST};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_memory_is_what_was_planned),
        cmocka_unit_test(a_frozen_prefix_takes_nothing),
        cmocka_unit_test(the_limit_of_the_device_counts),
        cmocka_unit_test(less_memory_of_the_device_is_an_error),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[NO_MEMORY]),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[LAUNCH_FAILURE]),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[DEVICE_LOST]),
    };
    if (!fake_device_load(&fake)) {
        return 77;
    }
    cmocka_set_test_filter(count > 1 ? arguments[1] : NULL);
    int code = run_checks(NUMBER_FLOAT32, "training on a device");
    code += run_checks(NUMBER_BFLOAT16, "training on a device in bf16");
    code += cmocka_run_group_tests_name("what only a device has", tests, NULL, NULL);
    if (fake && (fake->objects || fake->misuses)) {
        print_error("%ld objects leak, %zu misuses\n", fake->objects, fake->misuses);
        return 1;
    }
    return code;
}
