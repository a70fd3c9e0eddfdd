/* The plug-in for CUDA devices where there is no device: its own files with the CUDA of fake_cuda.c. Each call fails in turn: for
 * want of memory, because a kernel failed, or because the device is lost and everything after it fails, too. The error says what
 * has failed, nothing leaks, and the next attempt succeeds. Numbers mean nothing here; test_cuda.c has those. */
#include "support.h"

#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 12, WIDE = 768, CLASSES = 2, PHASES = 2, ROWS = 40, MOST_TEXT = 128 };

static struct fake_cuda *fake;
static char *folder;

static void reset(void) {
    const long objects = fake->objects;
    *fake = (struct fake_cuda){.driver = 13000, .devices = 1, .major = 9, .objects = objects};
}

/* ---- What fails ---- */

/* What a setting makes the device do. */
struct work {
    const char *what;
    size_t width, rows;
    const char *names[3], *values[3];
    bool lessons; /* instead of phases */
};

static const struct work works[] = {
    {"sums", WIDTH, ROWS, {"dim"}, {"16"}, false},
    {"sums in double precision", WIDTH, ROWS, {"dim", "precision"}, {"16", "double"}, false},
    {"split products", WIDE, ROWS, {"dim"}, {"16"}, false},
    {"the recursion", WIDTH, ROWS, {"dim", "solver"}, {"16", "recursive"}, false},
    {"phases apart", WIDTH, ROWS, {"dim", "alpha", "pseudo"}, {"16", "0.3", "off"}, false},
    {"roots", WIDTH, 3, {"dim", "alpha", "pseudo"}, {"16", "0.3", "off"}, true},
    {"roots that become triangles", WIDTH, 6, {"dim", "alpha", "pseudo"}, {"16", "0.3", "off"}, true},
};

enum { WORKS = sizeof works / sizeof works[0] };

static l3a_status learn_phase(l3a_model *model, const char *const *names, const float *z, const int8_t *labels, size_t rows) {
    l3a_status status = l3a_phase_begin(model, names, CLASSES);
    status = status == L3A_OK ? l3a_phase_count(model, labels, rows) : status;
    status = status == L3A_OK ? l3a_phase_learn(model, z, labels, rows) : status;
    return status == L3A_OK ? l3a_phase_end(model) : status;
}

/* The same rows twice: the second time they join those that are there. */
static l3a_status teach(l3a_context *context, l3a_model *model, const char *const *names, const float *z, const int8_t *labels,
                        size_t rows) {
    l3a_teach_report report = {.size = sizeof report};
    l3a_features *table = NULL;
    l3a_status status = l3a_features_wrap(context, z, labels, rows, 1, WIDTH, names, CLASSES, &table);
    status = status == L3A_OK ? l3a_model_teach(model, table, &report) : status;
    status = status == L3A_OK ? l3a_model_teach(model, table, &report) : status;
    l3a_features_free(table);
    return status;
}

static l3a_status learn(l3a_context *context, const struct work *work, const l3a_options *options, l3a_model **model) {
    static float z[ROWS * WIDE], scores[ROWS * CLASSES * PHASES];
    static int8_t labels[ROWS * CLASSES];
    static const char *const names[PHASES][CLASSES] = {{"ant", "bee"}, {"cat", "dog"}};
    l3a_status status = l3a_model_create(context, work->width, options, model);
    random_table(5, work->rows, work->width, CLASSES, 2, z, labels);
    for (size_t t = 0; status == L3A_OK && t < PHASES; t++) {
        status = work->lessons ? teach(context, *model, names[t], z, labels, work->rows)
                               : learn_phase(*model, names[t], z, labels, work->rows);
    }
    return status == L3A_OK ? l3a_model_score(*model, z, work->rows, scores) : status;
}

/* Opens the device, learns and scores. `text` is that of the error; without a context there is none. */
static l3a_status attempt(const struct work *work, char *text) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .device = "cuda"};
    l3a_context *context = NULL;
    l3a_model *model = NULL;
    l3a_status status = l3a_context_create(&options, &context);
    *text = '\0';
    if (status == L3A_OK) {
        l3a_options settings;
        options_default(&settings);
        for (size_t i = 0; i < 3 && work->names[i]; i++) {
            assert_ok(context, l3a_options_set(context, &settings, work->names[i], work->values[i]));
        }
        status = learn(context, work, &settings, &model);
        snprintf(text, MOST_TEXT, "%s", l3a_error_text(context));
    }
    l3a_model_free(model);
    l3a_context_free(context);
    return status;
}

/* Calls whose failure changes nothing that was asked for: what they free is no longer needed, the call after them fails as well if
 * the device has, or there is another way. Memory is asked for twice. */
static bool may_be_ignored(const char *call) {
    static const char *const calls[] = {
        "cudaSetDevice",          "cudaMemPoolGetAttribute", "cudaPointerGetAttributes", "cudaFreeAsync", "cudaFreeHost",
        "cudaMemPoolDestroy",     "cudaStreamDestroy",       "cudaEventDestroy",         "cublasDestroy", "cusolverDnDestroy",
        "cudaDeviceGetAttribute", "cudaStreamSynchronize",   "cudaEventSynchronize",     "cudaMemGetInfo"};
    bool found = fake->failure == NO_MEMORY && strcmp(call, "cudaMallocFromPoolAsync") == 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        found = found || strcmp(call, calls[i]) == 0;
    }
    return found;
}

static void check_failure(const struct work *work, l3a_status status, const char *text) {
    const char *call = fake->failed;
    bool right = status == L3A_OK && may_be_ignored(call);
    if (status != L3A_OK) {
        const bool memory =
            fake->failure == NO_MEMORY && strcmp(call, "cudaGetDeviceCount") && strcmp(call, "cudaGetDeviceProperties");
        right = status == (memory ? L3A_ERROR_MEMORY : L3A_ERROR_DEVICE);
        right = right &&
                (!*text || strncmp(text, memory ? "cuda:0: out of memory" : "cuda:0: the device failed: ", memory ? 21 : 27) == 0);
    }
    if (!right) {
        print_error("%s: call %zu, %s, has failed: %s: %s\n", work->what, fake->failing, call, l3a_status_name(status), text);
    }
    assert_true(right);
}

static void every_call_may_fail(void **state) {
    char text[MOST_TEXT];
    const enum fake_failure failure = *(const enum fake_failure *)*state;
    for (size_t w = 0; w < WORKS; w++) {
        reset();
        const l3a_status undisturbed = attempt(&works[w], text);
        if (undisturbed != L3A_OK) {
            print_error("%s: %s\n", works[w].what, text);
        }
        assert_int_equal(undisturbed, L3A_OK);
        assert_int_equal(fake->objects, 0);
        const size_t calls = fake->calls;
        assert_true(calls > 50);
        for (size_t number = 1; number <= calls; number++) {
            reset();
            fake->failing = number;
            fake->failure = failure;
            const l3a_status status = attempt(&works[w], text);
            assert_non_null(fake->failed);
            check_failure(&works[w], status, text);
            assert_int_equal(fake->misuses, 0);
            if (fake->objects) {
                print_error("%s: call %zu, %s, has failed: %ld objects leak\n", works[w].what, number, fake->failed, fake->objects);
            }
            assert_int_equal(fake->objects, 0);
        }
        reset();
        assert_int_equal(attempt(&works[w], text), L3A_OK);
        print_message("%s: %zu calls\n", works[w].what, calls);
    }
}

/* ---- Devices that cannot be used ---- */

static void check_refused(const char *contains) {
    l3a_context *context = make_context(1), *made = NULL;
    const l3a_context_options options = {.size = sizeof options, .device = "cuda"};
    char text[200];
    assert_fails(context, l3a_device_describe(context, "cuda", text, sizeof text), L3A_ERROR_DEVICE, contains);
    assert_true(*l3a_error_hint(context));
    assert_int_equal(l3a_context_create(&options, &made), L3A_ERROR_DEVICE);
    assert_null(made);
    assert_int_equal(fake->objects, 0);
    l3a_context_free(context);
}

static void devices_that_cannot_be_used_say_why(void **state) {
    enum { INSUFFICIENT_DRIVER = 35, NO_DEVICE = 100, NOT_PERMITTED = 800 }; /* cudaError_t */
    (void)state;
    reset();
    fake->driver = 0;
    check_refused("cuda:0: there is no NVIDIA driver");
    reset();
    fake->driver = 11040;
    fake->count_code = INSUFFICIENT_DRIVER;
    check_refused("cuda:0: the driver is too old: it is for CUDA 11.4, and the plug-in needs ");
    reset();
    fake->devices = 0;
    fake->count_code = NO_DEVICE;
    check_refused("cuda:0: there are 0 CUDA devices");
    reset();
    fake->count_code = NOT_PERMITTED;
    check_refused("cuda:0: the device is gone");
    reset();
    fake->major = 7;
    check_refused("cuda:0: a fake is too old: it has compute capability 7.0, and the plug-in needs 8.0");
}

/* Here without cuDNN, without which convolutions are slower. */
static void a_device_is_described_with_its_libraries(void **state) {
    char text[256];
    (void)state;
    reset();
    l3a_context *context = make_context(1);
    assert_ok(context, l3a_device_describe(context, "cuda", text, sizeof text));
    assert_non_null(strstr(text, "a fake, "));
    assert_non_null(strstr(text, "compute capability 9."));
    assert_non_null(strstr(text, ", convolutions are slower without cuDNN 9: there is no cuDNN"));
    l3a_context_free(context);
}

/* A plug-in whose CUDA libraries lack a function is not loaded: every function is looked for when it is. */
static void missing_functions_are_named(void **state) {
    (void)state;
    char *broken = path_in(folder, "missing"), *path = path_in(broken, "libl3a-cuda.so");
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(setenv("L3A_PLUGIN_PATH", broken, 1), 0);
    l3a_context *context = make_context(1);
    char text[200];
    assert_fails(context, l3a_device_describe(context, "cuda", text, sizeof text), L3A_ERROR_NOT_FOUND, "undefined symbol");
    l3a_context_free(context);
    free(path);
    free(broken);
}

/* The plug-in is loaded once and stays. */
static int load(void **state) {
    char *fakes = path_in(folder, "fake_cuda"), *path = path_in(fakes, "libl3a-cuda.so");
    char *driver = path_in(folder, "driver/libcuda.so.1");
    (void)state;
    assert_non_null(dlopen(driver, RTLD_NOW)); /* which the library looks for first */
    free(driver);
    assert_int_equal(setenv("L3A_PLUGIN_PATH", fakes, 1), 0);
    void *plugin = dlopen(path, RTLD_NOW);
    assert_non_null(plugin);
    *(void **)&fake = dlsym(plugin, "l3a_fake_cuda");
    assert_non_null(fake);
    free(path);
    free(fakes);
    return 0;
}

int main(void) {
    static enum fake_failure failures[] = {NO_MEMORY, LAUNCH_FAILURE, DEVICE_LOST};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_that_cannot_be_used_say_why),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[NO_MEMORY]),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[LAUNCH_FAILURE]),
        cmocka_unit_test_prestate(every_call_may_fail, &failures[DEVICE_LOST]),
        cmocka_unit_test(a_device_is_described_with_its_libraries),
        cmocka_unit_test(missing_functions_are_named),
    };
    const char *plugins = getenv("L3A_TEST_PLUGINS");
    folder = strdup(plugins ? plugins : ".");
    char *path = path_in(folder, "fake_cuda/libl3a-cuda.so");
    const bool made = access(path, R_OK) == 0;
    free(path);
    if (!made) {
        print_message(
            "skipped: this build has no plug-in for CUDA, because the CUDA toolkit is not installed or L3A_CUDA is off\n");
        free(folder);
        return 77;
    }
    const int code = cmocka_run_group_tests(tests, load, NULL);
    free(folder);
    return code;
}
