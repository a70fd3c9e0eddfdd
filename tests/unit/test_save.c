/* Tables saved with options: as float16, and with names of pictures. */
#include "support.h"

#include "data/features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, WIDTH = 3, CLASSES = 2 };
static const char *const names[] = {"ant", "bee"};
static const char *const ids[] = {"a.jpg", "b/c.jpg", "", "é.png", ""};
static const int8_t labels[ROWS * CLASSES] = {1, 0, 0, 1, 1, 1, -1, 0, 0, 1};

/* Numbers that float16 has, and some that it has not: half-way to even, subnormal, the largest. */
static const float values[ROWS * WIDTH] = {0, 1, -2.5F, 1.00048828125F, 1.00146484375F, 65504, 6e-8F, -6e-5F, 1.0F / 3, 100, 2, 3,
                                           4, 5, 6};
static const float halves[ROWS * WIDTH] = {0, 1, -2.5F, 1, 1.001953125F, 65504, 5.9604645e-8F, -6.0021877e-5F, 0.33325195F, 100, 2,
                                           3, 4, 5,     6};

struct saved {
    l3a_context *context;
    char *folder, *path;
    l3a_features *table, *again;
};

static struct saved wrap(const float *numbers) {
    struct saved saved = {.context = make_context(2), .folder = make_temporary_folder()};
    saved.path = path_in(saved.folder, "table");
    assert_ok(saved.context, l3a_features_wrap(saved.context, numbers, labels, ROWS, 1, WIDTH, names, CLASSES, &saved.table));
    return saved;
}

static void done_with(struct saved *saved) {
    l3a_features_free(saved->table);
    l3a_features_free(saved->again);
    free(saved->path);
    remove_folder(saved->folder);
    l3a_context_free(saved->context);
}

static void a_table_saved_as_float16_has_the_nearest_numbers(void **state) {
    (void)state;
    struct saved saved = wrap(values);
    const l3a_save_options options = {.size = sizeof options, .half = 1};
    float read[ROWS * WIDTH];
    assert_ok(saved.context, l3a_features_save(saved.table, &options, saved.path));
    assert_ok(saved.context, l3a_features_open(saved.context, saved.path, &saved.again));
    assert_int_equal(saved.again->features.type, TENSOR_F16);
    assert_ok(saved.context, l3a_features_read(saved.again, NULL, 0, ROWS, read));
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        assert_true(fabsf(read[i] - halves[i]) <= 1e-7F * fabsf(halves[i]));
    }
    assert_memory_equal(l3a_features_labels(saved.again), labels, sizeof labels);
    done_with(&saved);
}

static void without_options_a_table_is_saved_as_it_is(void **state) {
    (void)state;
    struct saved saved = wrap(values);
    float read[ROWS * WIDTH];
    assert_ok(saved.context, l3a_features_save(saved.table, NULL, saved.path));
    assert_ok(saved.context, l3a_features_open(saved.context, saved.path, &saved.again));
    assert_ok(saved.context, l3a_features_read(saved.again, NULL, 0, ROWS, read));
    assert_memory_equal(read, values, sizeof values);
    assert_null(l3a_features_id(saved.again, 0));
    done_with(&saved);
}

static void a_number_too_large_for_float16_is_an_error_that_names_it(void **state) {
    (void)state;
    float large[ROWS * WIDTH] = {0};
    large[2 * WIDTH + 1] = -65520;
    struct saved saved = wrap(large);
    const l3a_save_options options = {.size = sizeof options, .half = 1};
    assert_int_equal(l3a_features_save(saved.table, &options, saved.path), L3A_ERROR_DATA);
    assert_non_null(strstr(l3a_error_text(saved.context), "row 2, column 1: -65520 is too large for float16"));
    assert_int_equal(l3a_features_open(saved.context, saved.path, &saved.again), L3A_ERROR_NOT_FOUND);
    done_with(&saved);
}

static void names_of_pictures_are_saved(void **state) {
    (void)state;
    struct saved saved = wrap(values);
    assert_ok(saved.context, l3a_features_set_ids(saved.table, ids, ROWS));
    assert_ok(saved.context, l3a_features_set_ids(saved.table, ids, ROWS)); /* they replace those before */
    assert_string_equal(l3a_features_id(saved.table, 1), "b/c.jpg");
    assert_ok(saved.context, l3a_features_save(saved.table, NULL, saved.path));
    assert_ok(saved.context, l3a_features_open(saved.context, saved.path, &saved.again));
    for (size_t i = 0; i < ROWS; i++) {
        assert_string_equal(l3a_features_id(saved.again, i), ids[i]);
    }
    done_with(&saved);
}

static void names_that_do_not_fit_are_refused_and_change_nothing(void **state) {
    (void)state;
    struct saved saved = wrap(values);
    const char *const broken[] = {"a", "b", "two\nlines", "d", "e"}, *const missing[] = {"a", "b", NULL, "d", "e"};
    assert_ok(saved.context, l3a_features_set_ids(saved.table, ids, ROWS));
    assert_int_equal(l3a_features_set_ids(saved.table, ids, ROWS - 1), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_features_set_ids(saved.table, missing, ROWS), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_features_set_ids(saved.table, broken, ROWS), L3A_ERROR_DATA);
    assert_non_null(strstr(l3a_error_text(saved.context), "row 2"));
    assert_string_equal(l3a_features_id(saved.table, 0), "a.jpg");
    done_with(&saved);
}

static const char *const voc[] = {"aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",      "car",
                                  "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",    "motorbike",
                                  "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};

static void the_papers_rows_are_those_of_the_data_and_the_protocol(void **state) {
    (void)state;
    size_t count = 0;
    const l3a_published *row, *last = NULL;
    for (; (row = l3a_published_at("B10-C2", voc, 20, count)); count++) {
        assert_string_equal(row->data, "VOC");
        assert_string_equal(row->protocol, "B10-C2");
        assert_int_equal(row->table, 3);
        last = row;
    }
    assert_int_equal(count, 14);
    assert_string_equal(last->method, "L3A");
    assert_true(last->average_map == 95.6 && last->last_map == 94.0 && isnan(last->last_class_f1));
    assert_null(l3a_published_at("B0-C5", voc, 20, 0));
    assert_null(l3a_published_at("B10-C2", voc, 19, 0));
    assert_null(l3a_published_at(NULL, voc, 20, 0));
    assert_null(l3a_published_at("B10-C2", NULL, 20, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_saved_as_float16_has_the_nearest_numbers),
        cmocka_unit_test(without_options_a_table_is_saved_as_it_is),
        cmocka_unit_test(a_number_too_large_for_float16_is_an_error_that_names_it),
        cmocka_unit_test(names_of_pictures_are_saved),
        cmocka_unit_test(names_that_do_not_fit_are_refused_and_change_nothing),
        cmocka_unit_test(the_papers_rows_are_those_of_the_data_and_the_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
