/* Devices that cannot be used say why, whether or not this machine has one. */
#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A context cannot be created, and a description fails in the same way, with the text. */
static void check_refused(const char *device, l3a_status status, const char *contains) {
    const l3a_context_options options = {.size = sizeof options, .device = device};
    l3a_context *context = make_context(1), *made = NULL;
    char text[200];
    assert_int_equal(l3a_context_create(&options, &made), status);
    assert_null(made);
    assert_fails(context, l3a_device_describe(context, device, text, sizeof text), status, contains);
    assert_true(*l3a_error_hint(context));
    l3a_context_free(context);
}

static void the_processor_needs_no_plugin(void **state) {
    (void)state;
    static const char *const names[] = {NULL, "auto", "cpu"}; /* auto: there is no plug-in */
    l3a_context *context = make_context(1);
    char text[200];
    assert_int_equal(setenv("L3A_PLUGIN_PATH", "/nowhere", 1), 0);
    for (size_t i = 0; i < 3; i++) {
        const l3a_context_options options = {.size = sizeof options, .device = names[i]};
        l3a_context *made = NULL;
        assert_int_equal(l3a_context_create(&options, &made), L3A_OK);
        assert_null(made->algebra);
        assert_string_equal(l3a_context_device(made), "cpu");
        assert_ok(context, l3a_device_describe(context, names[i], text, sizeof text));
        assert_non_null(strstr(text, "processor"));
        l3a_context_free(made);
    }
    l3a_context_free(context);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"",       "gpu",     "cud",     "cudax",   "CUDA",      "cuda:",
                                        "cuda:x", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:9999", "cuda:99999999999999999"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_refused(names[i], L3A_ERROR_OPTION, "device: ");
    }
    check_refused("cuda, or whatever else you have that is fast", L3A_ERROR_OPTION, "device: ");
}

static void a_check_says_what_to_install(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    assert_int_equal(setenv("L3A_PLUGIN_PATH", "/nowhere", 1), 0);
    assert_fails(context, l3a_plugin_check(context, "mpi"), L3A_ERROR_NOT_FOUND, "/nowhere/libl3a-mpi.so");
    assert_non_null(strstr(l3a_error_hint(context), "l3a-backend-mpi"));
    assert_fails(context, l3a_plugin_check(context, "figure"), L3A_ERROR_NOT_FOUND, "/nowhere/libl3a-figure.so");
    assert_non_null(strstr(l3a_error_hint(context), "l3a-figures"));
    assert_fails(context, l3a_plugin_check(context, "../mpi"), L3A_ERROR_OPTION, "there is no plug-in '../mpi'");
    l3a_context_free(context);
}

static void plugins_are_found_by_full_path_alone(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *path = path_in(folder, "libl3a-cuda.so");
    assert_int_equal(setenv("L3A_PLUGIN_PATH", folder, 1), 0);
    check_refused("cuda", L3A_ERROR_NOT_FOUND, "cannot load the plug-in");
    write_bytes(path, "no library", 10);
    check_refused("cuda", L3A_ERROR_NOT_FOUND, path);
    assert_int_equal(setenv("L3A_PLUGIN_PATH", ".", 1), 0);
    check_refused("cuda", L3A_ERROR_OPTION, "not an absolute path");
    assert_int_equal(setenv("L3A_PLUGIN_PATH", "", 1), 0);
    check_refused("cuda", L3A_ERROR_OPTION, "not an absolute path");
    assert_int_equal(unsetenv("L3A_PLUGIN_PATH"), 0); /* next to this program, not in the current folder */
    assert_int_equal(chdir(folder), 0);
    check_refused("cuda", L3A_ERROR_NOT_FOUND, "tests/libl3a-cuda.so");
    assert_int_equal(chdir("/"), 0);
    free(path);
    remove_folder(folder);
}

static void plugins_of_another_version_are_refused(void **state) {
    (void)state;
    const char *folder = getenv("L3A_TEST_PLUGINS");
    if (!folder) {
        skip();
    }
    char *other = path_in(folder, "other_version"), *none = path_in(folder, "no_entry");
    assert_int_equal(setenv("L3A_PLUGIN_PATH", other, 1), 0);
    check_refused("cuda:1", L3A_ERROR_VERSION, "another version; the library is version " L3A_VERSION);
    assert_int_equal(setenv("L3A_PLUGIN_PATH", none, 1), 0);
    check_refused("cuda", L3A_ERROR_FORMAT, "it has no l3a_plugin_cuda()");
    free(other);
    free(none);
}

/* Before the plug-in's libraries are loaded. */
static void without_a_driver_no_plugin_is_loaded(void **state) {
    (void)state;
    const char *folder = getenv("L3A_TEST_PLUGINS");
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!folder || driver) {
        print_message("skipped: there is a driver\n");
        skip();
    }
    char *none = path_in(folder, "no_entry"), *fake = path_in(folder, "driver/libcuda.so.1");
    assert_int_equal(setenv("L3A_PLUGIN_PATH", none, 1), 0);
    check_refused("cuda", L3A_ERROR_DEVICE, "device cuda: there is no NVIDIA driver: libcuda.so.1");
    assert_non_null(dlopen(fake, RTLD_NOW | RTLD_NODELETE));
    free(none);
    free(fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processor_needs_no_plugin),          cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(without_a_driver_no_plugin_is_loaded), /* from here on there seems to be one */
        cmocka_unit_test(a_check_says_what_to_install),           cmocka_unit_test(plugins_are_found_by_full_path_alone),
        cmocka_unit_test(plugins_of_another_version_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
