/* Choosing a device, planning its memory, and losing it, with a plug-in that makes a device of the processor. */
#include "support.h"

#include "base/plugin.h"
#include "learn/model.h"
#include "learn/model_plan.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, CLASSES = 3, PHASES = 4, ROWS = 400 };

static float features[ROWS * WIDTH];
static int8_t labels[ROWS * CLASSES];

/* The last note, and how many there were. */
static struct {
    char text[1024];
    int count;
} notes;

static int keep_notes(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_NOTE) {
        snprintf(notes.text, sizeof notes.text, "%s", event->text);
        notes.count++;
    }
    return 0;
}

static void set_number(const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    assert_int_equal(setenv(name, text, 1), 0);
}

static l3a_context *open_device(const char *device, uint64_t limit) {
    const l3a_context_options options = {
        .size = sizeof options, .threads = 1, .on_event = keep_notes, .device = device, .device_memory_limit = limit};
    l3a_context *context = NULL;
    memset(&notes, 0, sizeof notes);
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

static void fill(l3a_context *context, l3a_options *options, const char *alpha) {
    options_default(options);
    assert_ok(context, l3a_options_set(context, options, "dim", "256"));
    assert_ok(context, l3a_options_set(context, options, "alpha", alpha));
    options->model.pseudo = options->model.alpha < 1 ? L3A_PSEUDO_OFF : options->model.pseudo;
}

static void auto_uses_a_device_and_says_so(void **state) {
    (void)state;
    l3a_context *context = open_device("auto", 0), *other = NULL;
    assert_string_equal(l3a_context_device(context), "cuda:0");
    assert_string_equal(context->algebra->name, "fake");
    assert_string_equal(notes.text, "using cuda:0: Fake 0");
    assert_int_equal(notes.count, 1);
    assert_ok(context, context_fork(context, 1, true, &other));
    assert_string_equal(l3a_context_device(other), "cuda:0");
    l3a_context_free(other);
    assert_ok(context, context_fork(context, 1, false, &other)); /* for work without matrices */
    assert_string_equal(l3a_context_device(other), "cpu");
    assert_null(other->algebra);
    l3a_context_free(other);
    assert_int_equal(notes.count, 1);
    l3a_context_free(context);
    context = open_device("cuda", 0); /* chosen, not found: nothing to say */
    assert_string_equal(l3a_context_device(context), "cuda:0");
    assert_int_equal(notes.count, 0);
    l3a_context_free(context);
    assert_string_equal(l3a_context_device(NULL), "");
}

static void auto_goes_on_without_a_device(void **state) {
    (void)state;
    char text[100];
    assert_int_equal(setenv("FAKE_REFUSAL", "it is on strike", 1), 0);
    l3a_context *context = open_device("auto", 0);
    assert_string_equal(l3a_context_device(context), "cpu");
    assert_null(context->algebra);
    assert_string_equal(notes.text, "no GPU is used: cuda:0: it is on strike");
    assert_int_equal(notes.count, 1);
    assert_string_equal(l3a_error_text(context), "");
    assert_ok(context, l3a_device_describe(context, "auto", text, sizeof text));
    assert_non_null(strstr(text, "processor"));
    l3a_context_free(context);
    assert_int_equal(unsetenv("FAKE_REFUSAL"), 0);
    context = make_context(1);
    assert_ok(context, l3a_device_describe(context, "auto", text, sizeof text));
    assert_string_equal(text, "Fake 0");
    assert_fails(context, l3a_device_describe(context, "cuda:1", text, sizeof text), L3A_ERROR_DEVICE, "there is 1 CUDA device");
    l3a_context_free(context);
}

/* Too little for the first model: the processor. Too little for the second: an error, because the first is on the device. */
static void auto_leaves_a_device_that_is_too_small_until_something_is_on_it(void **state) {
    (void)state;
    l3a_options options;
    l3a_model *model = NULL, *second = NULL;
    l3a_plan plan = {.size = sizeof plan}, processor = {.size = sizeof processor};
    l3a_context *plain = make_context(1), *context = open_device("auto", 100000);
    fill(plain, &options, "1");
    assert_ok(plain, l3a_model_plan(plain, &options, WIDTH, CLASSES, &processor));
    assert_ok(context, l3a_model_plan(context, &options, WIDTH, CLASSES, &plan));
    assert_string_equal(l3a_context_device(context), "cpu");
    assert_non_null(strstr(notes.text, "no GPU is used: cuda:0 is too small: dim 256 and features 16 wide need "));
    assert_int_equal(notes.count, 2);
    assert_memory_equal(&plan, &processor, sizeof plan); /* the plan is the processor's */
    assert_int_equal(plan.device_memory, 0);
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    l3a_model_free(model);
    l3a_context_free(context);

    context = open_device("auto", 0);
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_string_equal(l3a_context_device(context), "cuda:0");
    set_number("FAKE_MEMORY", 100000);
    assert_fails(context, l3a_model_create(context, WIDTH, &options, &second), L3A_ERROR_MEMORY,
                 "of the memory of cuda:0, but 0.00 GiB");
    assert_string_equal(l3a_context_device(context), "cuda:0");
    assert_int_equal(unsetenv("FAKE_MEMORY"), 0);
    l3a_model_free(model);
    l3a_context_free(context);
    l3a_context_free(plain);
}

static void a_device_that_was_asked_for_is_not_left(void **state) {
    (void)state;
    l3a_options options;
    l3a_model *model = NULL;
    l3a_context *context = open_device("cuda", 100000);
    fill(context, &options, "1");
    assert_fails(context, l3a_model_create(context, WIDTH, &options, &model), L3A_ERROR_MEMORY, "of the memory of cuda:0");
    assert_string_equal(l3a_error_hint(context), "use a smaller dim, a smaller block, or the processor");
    assert_null(model);
    l3a_context_free(context);
}

/* What the processor takes alone, it takes with the device together; a part is on one or the other. */
static void the_two_places_add_up(void **state) {
    (void)state;
    static const char *const alphas[] = {"1", "0.3"};
    l3a_context *plain = make_context(1), *context = open_device("cuda", 0);
    for (size_t i = 0; i < 2; i++) {
        l3a_plan one = {.size = sizeof one}, two = {.size = sizeof two};
        l3a_options options;
        fill(plain, &options, alphas[i]);
        assert_ok(plain, l3a_model_plan(plain, &options, WIDTH, CLASSES, &one));
        assert_ok(context, l3a_model_plan(context, &options, WIDTH, CLASSES, &two));
        assert_int_equal(one.device_memory, 0);
        assert_true(two.device_memory > 256 * 256 * sizeof(double) && two.memory > 0);
        assert_true(two.memory + two.device_memory >= one.memory); /* each has a peak of its own */
        assert_true(two.memory + two.device_memory < one.memory + one.memory / 4);
        assert_int_equal(one.phase, i ? 256 * 257 / 2 * sizeof(float) : 0);
        assert_int_equal(two.phase, one.phase);
        assert_int_equal(two.file, one.file);
    }
    l3a_context_free(context);
    l3a_context_free(plain);
}

static void parts_that_do_not_fit_are_planned_for_the_processor(void **state) {
    (void)state;
    l3a_context *context = open_device("cuda", 0);
    const struct footprint none = {{0}}, needed = {{[PROCESSOR] = 1000, [DEVICE] = 500, [EITHER] = 700}};
    static const struct {
        uint64_t memory, spilled, processor, device;
        bool fits;
    } cases[] = {{1200, 0, 1000, 1200, true}, {1199, 1, 1100, 1100, true}, {1100, 1, 1100, 1100, true},
                 {850, 4, 1400, 800, true},   {500, 7, 1700, 500, true},   {499, 7, 1700, 500, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct placement placed;
        set_number("FAKE_MEMORY", cases[i].memory);
        assert_ok(context, place_parts(context, &needed, &none, 100, &placed));
        assert_int_equal(placed.spilled, cases[i].spilled);
        assert_int_equal(placed.parts, 7);
        assert_int_equal(placed.processor, cases[i].processor);
        assert_int_equal(placed.device, cases[i].device);
        assert_int_equal(placed.fits, cases[i].fits);
    }
    struct placement placed; /* what is there already needs no room */
    set_number("FAKE_MEMORY", 150);
    const struct footprint held = {{[PROCESSOR] = 10, [DEVICE] = 400, [EITHER] = 500}};
    assert_ok(context, place_parts(context, &needed, &held, 100, &placed));
    assert_true(placed.fits && placed.spilled == 2 && placed.processor == 1200 && placed.device == 1000);
    assert_int_equal(unsetenv("FAKE_MEMORY"), 0);
    l3a_context_free(context);
}

static l3a_status learn_phase(l3a_model *model, size_t t) {
    char texts[CLASSES][8];
    const char *names[CLASSES];
    l3a_status status;
    for (size_t k = 0; k < CLASSES; k++) {
        snprintf(texts[k], sizeof texts[k], "c%zu-%zu", t, k);
        names[k] = texts[k];
    }
    status = l3a_phase_begin(model, names, CLASSES);
    status = status == L3A_OK ? l3a_phase_count(model, labels, ROWS) : status;
    status = status == L3A_OK ? l3a_phase_learn(model, features, labels, ROWS) : status;
    return status == L3A_OK ? l3a_phase_end(model) : status;
}

static void learn(l3a_context *context, const char *alpha, float *scores) {
    l3a_options options;
    l3a_model *model = NULL;
    fill(context, &options, alpha);
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    for (size_t t = 0; t < PHASES; t++) {
        assert_ok(context, learn_phase(model, t));
    }
    assert_ok(context, l3a_model_score(model, features, ROWS, scores));
    l3a_model_free(model);
}

static void models_learn_on_the_device(void **state) {
    (void)state;
    static float one[ROWS * CLASSES * PHASES], two[ROWS * CLASSES * PHASES];
    static const char *const alphas[] = {"1", "0.3"};
    for (size_t i = 0; i < 2; i++) {
        l3a_context *plain = make_context(1), *context = open_device("cuda", 0);
        learn(plain, alphas[i], one);
        learn(context, alphas[i], two);
        assert_memory_equal(one, two, sizeof one);
        assert_true(context->device_work > 0);
        l3a_context_free(context);
        l3a_context_free(plain);
    }
}

/* Each call in turn is the last that the device answers: the error says so, and nothing leaks. */
static void a_lost_device_is_an_error_wherever_it_happens(void **state) {
    (void)state;
    size_t n = 0;
    bool failed = true;
    while (failed) {
        l3a_context *context = open_device("cuda", 0);
        l3a_options options;
        l3a_model *model = NULL;
        l3a_status status;
        static float scores[ROWS * CLASSES * PHASES];
        set_number("FAKE_LOST", ++n);
        fill(context, &options, "0.3");
        assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
        status = learn_phase(model, 0);
        status = status == L3A_OK ? learn_phase(model, 1) : status;
        status = status == L3A_OK ? l3a_model_score(model, features, ROWS, scores) : status;
        failed = status != L3A_OK;
        if (failed) {
            assert_fails(context, status, L3A_ERROR_DEVICE, "the device failed");
        }
        l3a_model_free(model);
        l3a_context_free(context);
    }
    assert_int_equal(unsetenv("FAKE_LOST"), 0);
    print_message("%zu calls\n", n - 1);
    assert_true(n > 7);
}

static int load_fake(void **state) {
    (void)state;
    const char *folder = getenv("L3A_TEST_PLUGINS");
    assert_non_null(folder);
    char *driver = path_in(folder, "driver/libcuda.so.1"), *plugins = path_in(folder, "fake");
    assert_non_null(dlopen(driver, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE));
    assert_int_equal(setenv("L3A_PLUGIN_PATH", plugins, 1), 0);
    free(driver);
    free(plugins);
    random_table(3, ROWS, WIDTH, CLASSES, 4, features, labels);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_uses_a_device_and_says_so),
        cmocka_unit_test(auto_goes_on_without_a_device),
        cmocka_unit_test(auto_leaves_a_device_that_is_too_small_until_something_is_on_it),
        cmocka_unit_test(a_device_that_was_asked_for_is_not_left),
        cmocka_unit_test(the_two_places_add_up),
        cmocka_unit_test(parts_that_do_not_fit_are_planned_for_the_processor),
        cmocka_unit_test(models_learn_on_the_device),
        cmocka_unit_test(a_lost_device_is_an_error_wherever_it_happens),
    };
    return cmocka_run_group_tests(tests, load_fake, NULL);
}
