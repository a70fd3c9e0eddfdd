/* Structs that begin with their size: what a caller and a library of other versions have in common is passed, and nothing else is
 * touched. */
#include "support.h"

#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* One struct in three versions. */
struct old {
    size_t size;
    uint64_t first;
};
struct now {
    size_t size;
    uint64_t first, second;
};
struct later {
    size_t size;
    uint64_t first, second, third;
};

static void a_struct_is_read_as_far_as_both_know_it(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    const struct old from_old[2] = {{.size = sizeof(struct old), .first = 5}, {.size = 77, .first = 77}};
    const struct now same = {.size = sizeof same, .first = 6, .second = 7};
    const struct later from_later = {.size = sizeof from_later, .first = 8, .second = 9};
    struct now own;
    assert_ok(context, READ_SIZED(context, &from_old[0], own));
    assert_true(own.size == sizeof own && own.first == 5 && own.second == 0);
    assert_ok(context, READ_SIZED(context, &same, own));
    assert_memory_equal(&own, &same, sizeof own);
    assert_ok(context, READ_SIZED(context, &from_later, own));
    assert_true(own.size == sizeof own && own.first == 8 && own.second == 9);
    const struct now *none = NULL;
    assert_ok(context, READ_SIZED(context, none, own));
    assert_true(own.size == sizeof own && own.first == 0 && own.second == 0);
    l3a_context_free(context);
}

static void a_field_of_a_later_version_is_refused_unless_it_is_0(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    const struct later from_later = {.size = sizeof from_later, .third = UINT64_C(1) << 63};
    struct now own;
    assert_fails(context, READ_SIZED(context, &from_later, own), L3A_ERROR_ARGUMENT, "a newer version");
    l3a_context_free(context);
}

static void a_struct_is_filled_as_far_as_both_know_it(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    const struct now own = {.size = sizeof own, .first = 1, .second = 2};
    struct old to_old[2] = {{.size = sizeof(struct old)}, {.size = 77, .first = 77}};
    struct later to_later = {.size = sizeof to_later, .third = 3};
    assert_ok(context, WRITE_SIZED(context, &to_old[0], own));
    assert_true(to_old[0].size == sizeof(struct old) && to_old[0].first == 1);
    assert_true(to_old[1].size == 77 && to_old[1].first == 77);
    assert_ok(context, WRITE_SIZED(context, &to_later, own));
    assert_true(to_later.size == sizeof to_later && to_later.first == 1 && to_later.second == 2 && to_later.third == 0);
    l3a_context_free(context);
}

static void a_size_that_was_not_set_is_refused_and_nothing_is_touched(void **state) {
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, 65537, SIZE_MAX};
    l3a_context *context = make_context(1);
    const struct now own = {.size = sizeof own, .first = 1, .second = 2};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct now given = {.size = wrong[i], .first = 4}, copy;
        assert_fails(context, READ_SIZED(context, &given, copy), L3A_ERROR_ARGUMENT, "has the size");
        assert_fails(context, CHECK_SIZED(context, &given), L3A_ERROR_ARGUMENT, __func__);
        assert_fails(context, WRITE_SIZED(context, &given, own), L3A_ERROR_ARGUMENT, "has the size");
        assert_non_null(strstr(l3a_error_hint(context), ".size = sizeof"));
        assert_true(given.size == wrong[i] && given.first == 4 && given.second == 0);
    }
    l3a_context_free(context);
}

static void a_missing_argument_is_named(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = NULL;
    assert_fails(context, l3a_features_open(context, NULL, &features), L3A_ERROR_ARGUMENT, "l3a_features_open: path is NULL");
    assert_fails(context, l3a_features_open(context, "file", NULL), L3A_ERROR_ARGUMENT, "l3a_features_open: features is NULL");
    assert_int_equal(l3a_features_open(NULL, "file", &features), L3A_ERROR_ARGUMENT);
    assert_null(features);
    l3a_context_free(context);
}

static void the_version_is_told_as_text_and_as_a_number(void **state) {
    (void)state;
    int major, minor, patch;
    assert_string_equal(l3a_version(), L3A_VERSION);
    assert_int_equal(sscanf(L3A_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(L3A_VERSION_NUMBER, major * 10000 + minor * 100 + patch);
    assert_int_equal(l3a_version_number(), L3A_VERSION_NUMBER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_is_read_as_far_as_both_know_it),
        cmocka_unit_test(a_field_of_a_later_version_is_refused_unless_it_is_0),
        cmocka_unit_test(a_struct_is_filled_as_far_as_both_know_it),
        cmocka_unit_test(a_size_that_was_not_set_is_refused_and_nothing_is_touched),
        cmocka_unit_test(a_missing_argument_is_named),
        cmocka_unit_test(the_version_is_told_as_text_and_as_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
