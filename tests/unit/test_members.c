/* Feature files that say to which classes' phases an image belongs: reading, saving again, and learning from them. */
#include "support.h"

#include "data/features.h"
#include "memory_probe.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, WIDTH = 5, CLASSES = 3 };

static const char *const names[CLASSES] = {"ant", "bee", "cat"};

struct table {
    float values[ROWS * WIDTH];
    int8_t labels[ROWS * CLASSES], members[ROWS * CLASSES];
};

/* Row 3 is in the phase of `ant` through a crowd alone, row 4 in that of `cat`, and row 5 has nothing. */
static void fill_table(struct table *table) {
    random_table(11, ROWS, WIDTH, CLASSES, 2, table->values, table->labels);
    memset(table->labels + 3 * CLASSES, 0, 3 * CLASSES);
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        table->members[i] = table->labels[i] == 1;
    }
    table->members[3 * CLASSES] = table->members[4 * CLASSES + 2] = 1;
}

static void write_table(l3a_context *context, struct table *table, const char *path) {
    text_list keys = {0}, values = {0};
    const tensor_source sources[] = {{"features", TENSOR_F32, 2, {ROWS, WIDTH}, fill_from_memory, table->values},
                                     {"labels", TENSOR_I8, 2, {ROWS, CLASSES}, fill_from_memory, table->labels},
                                     {"members", TENSOR_I8, 2, {ROWS, CLASSES}, fill_from_memory, table->members}};
    assert_ok(context, text_record_set(context, &keys, &values, "classes", "ant\nbee\ncat"));
    assert_ok(context, text_record_set(context, &keys, &values, "difficult", "ignore"));
    assert_ok(context, safetensors_write(context, path, &keys, &values, sources, 3));
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
}

static void a_table_keeps_its_members_when_it_is_saved(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *path = path_in(folder, "a"), *copy = path_in(folder, "b");
    struct table table;
    l3a_features *first = NULL, *second = NULL, *wrapped = NULL;
    fill_table(&table);
    write_table(context, &table, path);
    assert_ok(context, l3a_features_open(context, path, &first));
    assert_ok(context, l3a_features_save(first, NULL, copy));
    assert_ok(context, l3a_features_open(context, copy, &second));
    assert_memory_equal(l3a_features_members(first), table.members, sizeof table.members);
    assert_memory_equal(l3a_features_members(second), table.members, sizeof table.members);
    assert_string_equal(l3a_features_record(second, "difficult"), "ignore");
    assert_ok(context, l3a_features_wrap(context, table.values, table.labels, ROWS, 1, WIDTH, names, CLASSES, &wrapped));
    assert_null(l3a_features_members(wrapped));
    l3a_features_free(first);
    l3a_features_free(second);
    l3a_features_free(wrapped);
    free(path);
    free(copy);
    remove_folder(folder);
    l3a_context_free(context);
}

/* The same rows by hand, without those that a crowd alone puts there: the coefficients are the same, bit for bit. */
static void an_image_in_a_phase_through_a_crowd_alone_is_counted_and_teaches_nothing(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *path = path_in(folder, "a");
    struct table table;
    l3a_features *features = NULL, *wrapped = NULL;
    l3a_model *with = NULL, *without = NULL;
    l3a_options options;
    uint64_t labelled = 0;
    fill_table(&table);
    write_table(context, &table, path);
    for (size_t i = 0; i < ROWS; i++) {
        labelled += table.labels[i * CLASSES] == 1 || table.labels[i * CLASSES + 1] == 1;
    }
    options_default(&options);
    options.model.dim = 16;
    options.model.gamma = 1;
    assert_ok(context, l3a_features_open(context, path, &features));
    assert_ok(context, l3a_features_wrap(context, table.values, table.labels, ROWS, 1, WIDTH, names, CLASSES, &wrapped));
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &with));
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &without));
    assert_ok(context, l3a_model_learn(with, features, names, 2));
    assert_ok(context, l3a_model_learn(without, wrapped, names, 2));
    assert_int_equal(l3a_model_phase(with, 0)->images, labelled);
    assert_int_equal(l3a_model_phase(with, 0)->skipped, 1);
    assert_int_equal(l3a_model_phase(without, 0)->images, labelled);
    assert_int_equal(l3a_model_phase(without, 0)->skipped, 0);
    assert_memory_equal(l3a_model_coefficients(with), l3a_model_coefficients(without), 16 * 2 * sizeof(double));
    l3a_model_free(with);
    l3a_model_free(without);
    l3a_features_free(features);
    l3a_features_free(wrapped);
    free(path);
    remove_folder(folder);
    l3a_context_free(context);
}

static void members_that_contradict_the_labels_are_refused(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *path = path_in(folder, "a");
    struct table table;
    l3a_features *features = NULL;
    fill_table(&table);
    table.labels[7 * CLASSES + 1] = 1;
    table.members[7 * CLASSES + 1] = 0;
    write_table(context, &table, path);
    assert_fails(context, l3a_features_open(context, path, &features), L3A_ERROR_DATA, "row 7, column 1: member 0 and label 1");
    fill_table(&table);
    table.members[5 * CLASSES] = -1;
    write_table(context, &table, path);
    assert_fails(context, l3a_features_open(context, path, &features), L3A_ERROR_DATA, "row 5, column 0: member -1 and label 0");
    assert_null(features);
    free(path);
    remove_folder(folder);
    l3a_context_free(context);
}

static l3a_status use_members(l3a_context *context, void *argument) {
    const char *const *paths = argument;
    l3a_features *features = NULL;
    l3a_model *model = NULL;
    l3a_options options;
    options_default(&options);
    options.model.dim = 16;
    options.model.gamma = 1;
    l3a_status status = l3a_features_open(context, paths[0], &features);
    status = status == L3A_OK ? l3a_features_save(features, NULL, paths[1]) : status;
    status = status == L3A_OK ? l3a_model_create(context, WIDTH, &options, &model) : status;
    status = status == L3A_OK ? l3a_model_learn(model, features, names, 2) : status;
    status = status == L3A_OK ? l3a_model_learn(model, features, names + 2, 1) : status;
    l3a_model_free(model);
    l3a_features_free(features);
    return status;
}

static void every_failing_allocation_is_an_error_without_a_leak(void **state) {
    (void)state;
    l3a_context *plain = make_context(1);
    char *folder = make_temporary_folder(), *paths[] = {path_in(folder, "a"), path_in(folder, "b")};
    struct table table;
    fill_table(&table);
    write_table(plain, &table, paths[0]);
    assert_true(fail_each_allocation(use_members, paths) > 50);
    free(paths[0]);
    free(paths[1]);
    remove_folder(folder);
    l3a_context_free(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_keeps_its_members_when_it_is_saved),
        cmocka_unit_test(an_image_in_a_phase_through_a_crowd_alone_is_counted_and_teaches_nothing),
        cmocka_unit_test(members_that_contradict_the_labels_are_refused),
        cmocka_unit_test(every_failing_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
