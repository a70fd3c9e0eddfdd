/* The library as a guest in somebody's program: silent, the same in every locale and with any errno, and leaving the host's
 * threads as they were. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

enum { WIDTH = 5, CLASSES = 4, STEP = 2, ROWS = 60, DIM = 24 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog"};

static l3a_options small_options(l3a_context *context) {
    l3a_options options;
    options_default(&options);
    assert_ok(context, l3a_options_set(context, &options, "dim", "24"));
    assert_ok(context, l3a_options_set(context, &options, "gamma", "0.125"));
    assert_ok(context, l3a_options_set(context, &options, "eta", "0.55"));
    return options;
}

static l3a_features *make_table(l3a_context *context) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_features *table = NULL;
    random_table(9, ROWS, WIDTH, CLASSES, 3, values, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, 1, WIDTH, class_names, CLASSES, &table));
    return table;
}

/* Learns two phases, saves, loads, evaluates, and returns the bytes of the model file. */
static char *learn_save_load(l3a_context *context, size_t *size) {
    const l3a_options options = small_options(context);
    l3a_model *model = NULL, *loaded = NULL;
    l3a_metrics metrics = {.size = sizeof metrics};
    l3a_features *table = make_table(context);
    char *folder = make_temporary_folder(), *path = path_in(folder, "model.safetensors");
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    for (size_t first = 0; first < CLASSES; first += STEP) {
        assert_ok(context, l3a_model_learn(model, table, class_names + first, STEP));
    }
    assert_ok(context, l3a_model_save(model, path));
    assert_ok(context, l3a_model_load(context, path, &loaded));
    assert_memory_equal(l3a_model_coefficients(model), l3a_model_coefficients(loaded), DIM * CLASSES * sizeof(double));
    assert_ok(context, l3a_model_evaluate(loaded, table, NULL, &metrics, NULL));
    char *bytes = read_bytes(path, size);
    l3a_model_free(model);
    l3a_model_free(loaded);
    l3a_features_free(table);
    free(path);
    remove_folder(folder);
    return bytes;
}

static void assert_same_model(l3a_context *context, const char *expected, size_t expected_size) {
    size_t size;
    char *bytes = learn_save_load(context, &size);
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
}

/* ---- Silence ---- */

static void fail_on_purpose(l3a_context *context) {
    l3a_model *model = NULL;
    assert_fails(context, l3a_model_load(context, "/nowhere/at/all", &model), L3A_ERROR_NOT_FOUND, "/nowhere/at/all");
    assert_null(model);
}

static void test_silence(void **state) {
    (void)state;
    size_t size;
    l3a_context *context = make_context(0);
    char *folder = make_temporary_folder(), *path = path_in(folder, "printed");
    fflush(NULL);
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO), file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(out >= 0 && error >= 0 && file >= 0);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    free(learn_save_load(context, &size));
    fail_on_purpose(context);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    close(out);
    close(error);
    close(file);
    char *printed = read_bytes(path, &size);
    assert_string_equal(printed, "");
    free(printed);
    l3a_context_free(context);
    free(path);
    remove_folder(folder);
}

/* ---- Locale ---- */

/* Locales with a decimal point of one byte, and of two. */
static const struct { const char *name, *point; } locales[] = {{"de_DE", ","}, {"ps_AF", "\u066b"}};
enum { LOCALES = sizeof locales / sizeof locales[0] };

static bool find_locale(size_t index) {
    static const char *const endings[] = {".UTF-8", ".utf8", ""};
    char name[32];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(name, sizeof name, "%s%s", locales[index].name, endings[i]);
        if (setlocale(LC_ALL, name) && strcmp(localeconv()->decimal_point, locales[index].point) == 0) {
            return true;
        }
    }
    setlocale(LC_ALL, "C");
    return false;
}

/* One that is installed, or else one made from the system's sources in the folder. */
static bool enter_locale(size_t index, const char *folder) {
    const char *name = locales[index].name;
    char command[1024];
    if (find_locale(index)) {
        return true;
    }
    snprintf(command, sizeof command, "localedef -i %s -f UTF-8 '%s/%s.UTF-8' > '%s/log' 2>&1", name, folder, name, folder);
    setenv("LOCPATH", folder, 1);
    const bool entered = system(command) == 0 && find_locale(index);
    unsetenv("LOCPATH");
    return entered;
}

static void check_options_text(l3a_context *context) {
    l3a_options options = small_options(context);
    char text[32];
    assert_true(options.model.gamma == 0.125);
    assert_int_equal(l3a_options_get(&options, "gamma", text, sizeof text), 5);
    assert_string_equal(text, "0.125");
    assert_int_equal(l3a_options_set(context, &options, "gamma", "0,5"), L3A_ERROR_OPTION);
    assert_non_null(strstr(l3a_error_text(context), "0,5"));
}

/* The tables of a run have points, and are read again. */
static void check_run_tables(l3a_context *context) {
    const l3a_options settings = small_options(context);
    l3a_experiment_options options = {.size = sizeof options};
    l3a_experiment *experiment = NULL;
    l3a_results *loaded = NULL;
    char *folder = make_temporary_folder(), *run = path_in(folder, "run"), *path = path_in(run, "per_class.csv");
    options.train = options.test = make_table(context);
    options.protocol = "B0-C2";
    options.settings = &settings;
    options.folder = run;
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    assert_ok(context, l3a_experiment_run(experiment));
    const l3a_results *results = l3a_experiment_results(experiment, 0);
    assert_ok(context, l3a_results_load(context, run, &loaded));
    assert_int_equal(l3a_results_count(loaded), 2);
    assert_true(l3a_results_at(loaded, 1)->metrics.mean_ap == l3a_results_at(results, 1)->metrics.mean_ap);
    size_t size;
    char *text = read_bytes(path, &size), verdict[256], expected[256];
    assert_non_null(strstr(text, "\nl3a,2025,2,dog,"));
    const unsigned hundredths = (unsigned)(100 * l3a_results_at(loaded, 1)->metrics.mean_ap + 0.5);
    snprintf(expected, sizeof expected, "l3a ends at %u.%02u mAP over 4 classes.", hundredths / 100, hundredths % 100);
    assert_ok(context, l3a_results_verdict(context, loaded, verdict, sizeof verdict));
    assert_string_equal(verdict, expected);
    l3a_experiment_free(experiment);
    l3a_results_free(loaded);
    l3a_features_free(options.train);
    free(text);
    free(path);
    free(run);
    remove_folder(folder);
}

/* What a model records of its backbone is read again in other places. */
static void check_backbone_text(l3a_context *context) {
    const char *source = getenv("L3A_SOURCE");
    char path[1024];
    const l3a_backbone_options options = {
        .size = sizeof options, .mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.25F, 0.25F, 0.25F}};
    l3a_backbone *backbone = NULL;
    snprintf(path, sizeof path, "%s/models/demo_backbone.safetensors", source ? source : ".");
    assert_ok(context, l3a_backbone_open(context, path, &options, &backbone));
    assert_non_null(strstr(l3a_backbone_describe(backbone)->preprocess, " mean 0.485,0.456,0.406 std 0.25"));
    l3a_backbone_free(backbone);
}

static void test_locale(void **state) {
    (void)state;
    size_t size;
    l3a_context *context = make_context(1);
    char *expected = learn_save_load(context, &size), *folder = make_temporary_folder();
    size_t entered = 0;
    check_backbone_text(context);
    for (size_t i = 0; i < LOCALES; i++) {
        if (enter_locale(i, folder)) {
            check_options_text(context);
            check_run_tables(context);
            check_backbone_text(context);
            assert_same_model(context, expected, size);
            assert_string_equal(localeconv()->decimal_point, locales[i].point);
            setlocale(LC_ALL, "C");
            entered++;
        }
    }
    free(expected);
    remove_folder(folder);
    l3a_context_free(context);
    if (entered < LOCALES) {
        print_error("de_DE and ps_AF are not installed and cannot be made by localedef: install the package `locales`\n");
    }
    assert_int_equal(entered, LOCALES);
}

/* ---- errno, threads, contexts ---- */

static void test_errno(void **state) {
    (void)state;
    static const int codes[] = {EINTR, ENOENT, EWOULDBLOCK, ERANGE};
    size_t size;
    l3a_context *context = make_context(1);
    errno = 0;
    char *expected = learn_save_load(context, &size);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        errno = codes[i];
        assert_same_model(context, expected, size);
    }
    free(expected);
    l3a_context_free(context);
}

static void test_threads_of_the_host(void **state) {
    (void)state;
    size_t size;
    const int before = omp_get_max_threads();
    for (int threads = 0; threads <= 2; threads++) {
        l3a_context *context = make_context(threads);
        double speeds[2];
        omp_set_num_threads(3);
        free(learn_save_load(context, &size));
        assert_int_equal(omp_get_max_threads(), 3);
        assert_ok(context, l3a_machine_speed(context, &speeds[0], &speeds[1]));
        assert_int_equal(omp_get_max_threads(), 3);
        l3a_context_free(context);
    }
    omp_set_num_threads(before);
}

static void test_errors_of_two_contexts(void **state) {
    (void)state;
    l3a_context *first = make_context(1), *second = make_context(1);
    l3a_options options;
    options_default(&options);
    assert_string_equal(l3a_error_text(first), "");
    assert_string_equal(l3a_error_hint(first), "");
    fail_on_purpose(first);
    assert_string_equal(l3a_error_text(second), "");
    assert_fails(second, l3a_options_set(second, &options, "gama", "1"), L3A_ERROR_OPTION, "gama");
    assert_string_equal(l3a_error_hint(second), "did you mean 'gamma'?");
    assert_non_null(strstr(l3a_error_text(first), "/nowhere/at/all"));
    assert_ok(first, l3a_options_set(first, &options, "gamma", "1"));
    assert_non_null(strstr(l3a_error_text(first), "/nowhere/at/all"));
    l3a_context_free(first);
    l3a_context_free(second);
    assert_string_equal(l3a_error_text(NULL), "");
    assert_string_equal(l3a_error_hint(NULL), "");
}

static void test_freeing_nothing(void **state) {
    (void)state;
    l3a_context_free(NULL);
    l3a_features_free(NULL);
    l3a_model_free(NULL);
    l3a_results_free(NULL);
    l3a_file_free(NULL);
}

static void test_status_names(void **state) {
    (void)state;
    static const char *const names[] = {
        [L3A_OK] = "L3A_OK",
        [L3A_ERROR_ARGUMENT] = "L3A_ERROR_ARGUMENT",
        [L3A_ERROR_OPTION] = "L3A_ERROR_OPTION",
        [L3A_ERROR_MEMORY] = "L3A_ERROR_MEMORY",
        [L3A_ERROR_NOT_FOUND] = "L3A_ERROR_NOT_FOUND",
        [L3A_ERROR_IO] = "L3A_ERROR_IO",
        [L3A_ERROR_FORMAT] = "L3A_ERROR_FORMAT",
        [L3A_ERROR_TRUNCATED] = "L3A_ERROR_TRUNCATED",
        [L3A_ERROR_CHECKSUM] = "L3A_ERROR_CHECKSUM",
        [L3A_ERROR_VERSION] = "L3A_ERROR_VERSION",
        [L3A_ERROR_DATA] = "L3A_ERROR_DATA",
        [L3A_ERROR_CLASS] = "L3A_ERROR_CLASS",
        [L3A_ERROR_MISMATCH] = "L3A_ERROR_MISMATCH",
        [L3A_ERROR_NUMERIC] = "L3A_ERROR_NUMERIC",
        [L3A_ERROR_STATE] = "L3A_ERROR_STATE",
        [L3A_ERROR_CANCELLED] = "L3A_ERROR_CANCELLED",
        [L3A_ERROR_EXISTS] = "L3A_ERROR_EXISTS",
        [L3A_ERROR_DEVICE] = "L3A_ERROR_DEVICE",
        [L3A_ERROR_FULL] = "L3A_ERROR_FULL",
        [L3A_ERROR_METHOD] = "L3A_ERROR_METHOD",
    };
    assert_int_equal(sizeof names / sizeof names[0], 20);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_equal(l3a_status_name((l3a_status)i), names[i]);
    }
    assert_string_equal(l3a_status_name((l3a_status)20), "unknown status");
    assert_string_equal(l3a_version(), L3A_VERSION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_locale),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_threads_of_the_host),
        cmocka_unit_test(test_errors_of_two_contexts),
        cmocka_unit_test(test_freeing_nothing),
        cmocka_unit_test(test_status_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
