/* .npy files: every version, order and type that NumPy writes is read, and damaged or foreign files are refused with a helpful
 * message. The bytes follow NumPy's description of the format; the two complete files come from NumPy 1.24. */
#include "support.h"

#include "fixture.h"
#include "format/npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *path, *labels_path, *names_path;

static int set_up(void **state) {
    open_fixture(state);
    path = path_in(folder, "features.npy");
    labels_path = path_in(folder, "labels.npy");
    names_path = path_in(folder, "names.txt");
    return 0;
}

static int tear_down(void **state) {
    free(path);
    free(labels_path);
    free(names_path);
    return close_fixture(state);
}

static void write_array(const char *to, unsigned char version, const char *header, const void *data, size_t size) {
    const size_t length = strlen(header), before = version == 1 ? 10 : 12;
    char *bytes = calloc(1, before + length + size);
    assert_non_null(bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (char)version;
    bytes[8] = (char)(length & 255);
    bytes[9] = (char)(length >> 8);
    memcpy(bytes + before, header, length);
    memcpy(bytes + before + length, data, size);
    write_bytes(to, bytes, before + length + size);
    free(bytes);
}

static void write_typed(const char *to, const char *type, const char *shape, bool fortran, const void *data, size_t size) {
    char header[160];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }   \n", type, fortran ? "True" : "False",
             shape);
    write_array(to, 1, header, data, size);
}

static const float six[6] = {1, -2.5F, 3, 4, 5, 6}, six_by_columns[6] = {1, 4, -2.5F, 5, 3, 6};

static void write_six(void) {
    write_typed(path, "<f4", "(2, 3)", false, six, sizeof six);
}

static l3a_status describe(struct tensor *tensor) {
    input_file input;
    const l3a_status status = npy_open(context, path, &input, tensor);
    if (status == L3A_OK) {
        input_close(&input);
    }
    return status;
}

static l3a_status open_table(bool labels, bool names, l3a_features **features) {
    return l3a_features_open_npy(context, path, labels ? labels_path : NULL, names ? names_path : NULL, features);
}

static void assert_table_holds_six(void) {
    l3a_features *features = NULL;
    float values[6];
    assert_ok(context, open_table(false, false, &features));
    assert_int_equal(l3a_features_rows(features), 2);
    assert_int_equal(l3a_features_width(features), 3);
    assert_ok(context, l3a_features_read(features, NULL, 0, 2, values));
    assert_memory_equal(values, six, sizeof six);
    l3a_features_free(features);
}

static const char numpy_header_c[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
                                     "                                                          \n";
static const char numpy_header_fortran[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"
                                           "                                                           \n";
static const char numpy_data_c[] = "\x00\x00\x80?\x00\x00 \xC0\x00\x00@@\x00\x00\x80@\x00\x00\xA0@\x00\x00\xC0@";
static const char numpy_data_fortran[] = "\x00\x00\x80?\x00\x00\x80@\x00\x00 \xC0\x00\x00\xA0@\x00\x00@@\x00\x00\xC0@";

static void write_numpy_file(const char *header, const char *data) {
    char bytes[128 + 24];
    memcpy(bytes, header, 128);
    memcpy(bytes + 128, data, 24);
    write_bytes(path, bytes, sizeof bytes);
}

static void files_that_numpy_wrote_are_read(void **state) {
    (void)state;
    assert_int_equal(sizeof numpy_header_c, 129);
    assert_int_equal(sizeof numpy_header_fortran, 129);
    write_numpy_file(numpy_header_c, numpy_data_c);
    assert_table_holds_six();
    write_numpy_file(numpy_header_fortran, numpy_data_fortran);
    assert_table_holds_six();
}

static void versions_one_to_three_are_read_in_both_orders(void **state) {
    (void)state;
    static const char c_order[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
                      fortran[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";
    for (unsigned char version = 1; version <= 3; version++) {
        write_array(path, version, c_order, six, sizeof six);
        assert_table_holds_six();
        write_array(path, version, fortran, six_by_columns, sizeof six_by_columns);
        assert_table_holds_six();
    }
}

static void headers_in_other_spellings_are_read(void **state) {
    (void)state;
    static const char *const headers[] = {"{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
                                          "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3,), }",
                                          "{ 'descr' : '<f4' , 'fortran_order' : False ,\n 'shape' : ( 2 , 3 ) }     "};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        write_array(path, 1, headers[i], six, sizeof six);
        assert_table_holds_six();
    }
}

static const uint16_t halves[4] = {0x3C00, 0xC100, 0x0001, 0x7BFF};
static const float singles[4] = {1, -2.5F, 0x1p-149F, 3e38F};
static const double doubles[4] = {1, -2.5, 0.1, 1e30};
static const int8_t small_integers[4] = {1, -2, 127, -128};
static const uint8_t small_naturals[4] = {1, 2, 127, 255}, booleans[4] = {1, 0, 1, 0};
static const int32_t integers[4] = {1, -2, 16777216, INT32_MIN};
static const int64_t long_integers[4] = {1, -2, INT64_C(1) << 40, INT64_MIN};

static const struct {
    const char *descr;
    tensor_type type;
    size_t size;
    const void *data;
    float expected[4];
} all_types[] = {
    {"<f2", TENSOR_F16, 2, halves, {1, -2.5F, 0x1p-24F, 65504}},
    {"<f4", TENSOR_F32, 4, singles, {1, -2.5F, 0x1p-149F, 3e38F}},
    {"<f8", TENSOR_F64, 8, doubles, {1, -2.5F, 0.1F, 1e30F}},
    {"|i1", TENSOR_I8, 1, small_integers, {1, -2, 127, -128}},
    {"|u1", TENSOR_U8, 1, small_naturals, {1, 2, 127, 255}},
    {"|b1", TENSOR_U8, 1, booleans, {1, 0, 1, 0}},
    {"<i4", TENSOR_I32, 4, integers, {1, -2, 16777216, -2147483648.0F}},
    {"<i8", TENSOR_I64, 8, long_integers, {1, -2, 1099511627776.0F, -9223372036854775808.0F}},
};

static void every_type_is_read_in_both_orders(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof all_types / sizeof all_types[0]; i++) {
        for (int fortran = 0; fortran <= 1; fortran++) {
            l3a_features *features = NULL;
            struct tensor tensor;
            float values[4];
            write_typed(path, all_types[i].descr, "(2, 2)", fortran, all_types[i].data, 4 * all_types[i].size);
            assert_ok(context, describe(&tensor));
            assert_int_equal(tensor.type, all_types[i].type);
            assert_true(tensor.fortran == (fortran == 1) && tensor.bytes == 4 * all_types[i].size);
            assert_ok(context, open_table(false, false, &features));
            assert_ok(context, l3a_features_read(features, NULL, 0, 2, values));
            const float expected[4] = {all_types[i].expected[0], all_types[i].expected[fortran ? 2 : 1],
                                       all_types[i].expected[fortran ? 1 : 2], all_types[i].expected[3]};
            assert_memory_equal(values, expected, sizeof expected);
            l3a_features_free(features);
        }
    }
}

static void arrays_of_any_rank_up_to_eight_are_described(void **state) {
    (void)state;
    struct tensor tensor;
    write_typed(path, "<f4", "()", false, six, 4);
    assert_ok(context, describe(&tensor));
    assert_true(tensor.rank == 0 && tensor.bytes == 4);
    write_typed(path, "<f4", "(6,)", false, six, sizeof six);
    assert_ok(context, describe(&tensor));
    assert_true(tensor.rank == 1 && tensor.shape[0] == 6);
    write_typed(path, "<f4", "(1, 1, 1, 1, 1, 1, 2, 3)", false, six, sizeof six);
    assert_ok(context, describe(&tensor));
    assert_true(tensor.rank == 8 && tensor.shape[6] == 2 && tensor.shape[7] == 3);
    write_typed(path, "<f4", "(1, 1, 1, 1, 1, 1, 1, 2, 3)", false, six, sizeof six);
    assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "cannot be parsed");
}

static void big_endian_arrays_are_refused_by_that_name(void **state) {
    (void)state;
    struct tensor tensor;
    write_typed(path, ">f4", "(2, 3)", false, six, sizeof six);
    assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "big-endian arrays of type '>f4'");
    assert_non_null(strstr(l3a_error_hint(context), "newbyteorder"));
}

static void types_that_are_not_numbers_are_refused_by_name(void **state) {
    (void)state;
    static const char *const types[] = {"<c8", "|O", "<U3", "|S4", "<i2", "<u8", "f4", "", "<f44"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct tensor tensor;
        char expected[32];
        snprintf(expected, sizeof expected, "type '%s'", types[i]);
        write_typed(path, types[i], "(2, 3)", false, six, sizeof six);
        assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, expected);
    }
}

static void files_of_another_kind_are_refused(void **state) {
    (void)state;
    struct tensor tensor;
    write_bytes(path, "\x93NUMPX\x01\x00v\x00{'descr'", 18);
    assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "not a .npy file");
    write_bytes(path, "", 0);
    assert_fails(context, describe(&tensor), L3A_ERROR_TRUNCATED, "0 bytes are too few");
    assert_int_equal(remove(path), 0);
    assert_fails(context, describe(&tensor), L3A_ERROR_NOT_FOUND, "features.npy");
}

static void unknown_versions_are_refused(void **state) {
    (void)state;
    struct tensor tensor;
    write_array(path, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", six, sizeof six);
    assert_fails(context, describe(&tensor), L3A_ERROR_VERSION, "version 0");
    write_array(path, 4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", six, sizeof six);
    assert_fails(context, describe(&tensor), L3A_ERROR_VERSION, "version 4");
}

static void headers_that_cannot_be_understood_are_refused(void **state) {
    (void)state;
    static const char *const headers[] = {"",
                                          "{}",
                                          "'descr'",
                                          "{'descr': '<f4', 'fortran_order': False}",
                                          "{'descr': '<f4', 'shape': (2, 3)}",
                                          "{'fortran_order': False, 'shape': (2, 3)}",
                                          "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3)}",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616, 3)}",
                                          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
                                          "{'descr: 3}",
                                          "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,)}"};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct tensor tensor;
        write_array(path, 1, headers[i], six, sizeof six);
        assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "cannot be parsed at byte");
    }
}

static void shapes_larger_than_any_memory_are_refused(void **state) {
    (void)state;
    struct tensor tensor;
    write_typed(path, "<f4", "(4294967296, 4294967296)", false, six, sizeof six);
    assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "larger than any memory");
    write_typed(path, "<f8", "(2305843009213693952,)", false, six, sizeof six);
    assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "larger than any memory");
}

static void a_header_longer_than_the_limit_is_refused(void **state) {
    (void)state;
    struct tensor tensor;
    write_bytes(path, "\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{'descr'", 20);
    assert_fails(context, describe(&tensor), L3A_ERROR_FORMAT, "4294967295 bytes, which is too long");
}

static void a_file_cut_at_any_length_is_refused(void **state) {
    (void)state;
    struct tensor tensor;
    write_six();
    size_t count = 0;
    char *bytes = read_bytes(path, &count);
    for (size_t length = 0; length < count; length++) {
        write_bytes(path, bytes, length);
        assert_int_equal(describe(&tensor), L3A_ERROR_TRUNCATED);
    }
    write_bytes(path, bytes, count - 1);
    assert_fails(context, describe(&tensor), L3A_ERROR_TRUNCATED, "promises 24 bytes of numbers, but there are 23");
    free(bytes);
}

static const int8_t labels[4] = {1, 0, -1, 1};

static void write_labels(const char *shape, const int8_t *values, size_t count) {
    write_typed(labels_path, "|i1", shape, false, values, count);
}

static void features_come_with_labels_and_names(void **state) {
    (void)state;
    static const char names[] = "cat\r\nZ\xC3\xBCrich dog\n";
    l3a_features *features = NULL;
    write_six();
    write_labels("(2, 2)", labels, 4);
    write_bytes(names_path, names, sizeof names - 1);
    assert_ok(context, open_table(true, true, &features));
    assert_int_equal(l3a_features_class_count(features), 2);
    assert_string_equal(l3a_features_class(features, 0), "cat");
    assert_string_equal(l3a_features_class(features, 1), "Z\xC3\xBCrich dog");
    assert_memory_equal(l3a_features_labels(features), labels, sizeof labels);
    assert_null(l3a_features_id(features, 0));
    l3a_features_free(features);
}

static void classes_without_names_are_numbered(void **state) {
    (void)state;
    l3a_features *features = NULL;
    write_six();
    write_labels("(2, 2)", labels, 4);
    assert_ok(context, open_table(true, false, &features));
    assert_string_equal(l3a_features_class(features, 0), "class 0");
    assert_string_equal(l3a_features_class(features, 1), "class 1");
    assert_null(l3a_features_class(features, 2));
    l3a_features_free(features);
}

static void labels_of_every_type_and_order_are_read(void **state) {
    (void)state;
    static const double as_double[4] = {1, -1, 0, 1};
    l3a_features *features = NULL;
    write_six();
    write_typed(labels_path, "<f8", "(2, 2)", true, as_double, sizeof as_double);
    assert_ok(context, open_table(true, false, &features));
    assert_memory_equal(l3a_features_labels(features), labels, sizeof labels);
    l3a_features_free(features);
}

static void a_label_other_than_the_three_is_named_by_row_and_column(void **state) {
    (void)state;
    static const int8_t wrong[4] = {1, 0, 2, 1};
    static const float half[4] = {1, 0, 1, 0.5F}, none[4] = {1, NAN, 1, 0};
    l3a_features *features = NULL;
    write_six();
    write_labels("(2, 2)", wrong, 4);
    assert_fails(context, open_table(true, false, &features), L3A_ERROR_DATA, "row 1, column 0: label 2");
    write_typed(labels_path, "<f4", "(2, 2)", false, half, sizeof half);
    assert_fails(context, open_table(true, false, &features), L3A_ERROR_DATA, "row 1, column 1: label 0.5");
    write_typed(labels_path, "<f4", "(2, 2)", true, none, sizeof none);
    assert_fails(context, open_table(true, false, &features), L3A_ERROR_DATA, "row 1, column 0: label");
    assert_null(features);
}

static void tables_of_different_lengths_are_refused(void **state) {
    (void)state;
    static const int8_t three[3] = {1, 0, 1};
    l3a_features *features = NULL;
    write_six();
    write_labels("(3, 1)", three, 3);
    assert_fails(context, open_table(true, false, &features), L3A_ERROR_MISMATCH, "3 rows of labels for 2 rows of features");
    write_labels("(2, 2)", labels, 4);
    write_bytes(names_path, "a\nb\nc\n", 6);
    assert_fails(context, open_table(true, true, &features), L3A_ERROR_MISMATCH, "2 columns of labels for 3 class names");
    write_bytes(names_path, "a\na\n", 4);
    assert_fails(context, open_table(true, true, &features), L3A_ERROR_CLASS, "class 'a' is listed twice");
    assert_null(features);
}

static void arrays_that_are_no_table_are_refused(void **state) {
    (void)state;
    l3a_features *features = NULL;
    write_typed(path, "<f4", "(6,)", false, six, sizeof six);
    assert_fails(context, open_table(false, false, &features), L3A_ERROR_FORMAT, "1 dimensions instead of 2");
    write_typed(path, "<f4", "(0, 3)", false, six, 0);
    assert_fails(context, open_table(false, false, &features), L3A_ERROR_DATA, "no features");
    write_typed(path, "<f4", "(2, 0)", false, six, 0);
    assert_fails(context, open_table(false, false, &features), L3A_ERROR_DATA, "no features");
    write_six();
    write_labels("(4,)", labels, 4);
    assert_fails(context, open_table(true, false, &features), L3A_ERROR_FORMAT, "the labels have 1 dimensions");
    assert_null(features);
}

static void a_feature_that_is_not_finite_is_named_by_row_and_column(void **state) {
    (void)state;
    const float not_a_number[6] = {1, 2, 3, 4, NAN, 6};
    const double too_large[6] = {1, 2, 3, 4, 5, 1e300};
    l3a_features *features = NULL;
    float values[6];
    write_typed(path, "<f4", "(2, 3)", false, not_a_number, sizeof not_a_number);
    assert_ok(context, open_table(false, false, &features));
    assert_ok(context, l3a_features_read(features, NULL, 0, 1, values));
    assert_fails(context, l3a_features_read(features, NULL, 0, 2, values), L3A_ERROR_DATA, "row 1, column 1: the feature is not a");
    l3a_features_free(features);
    write_typed(path, "<f8", "(2, 3)", false, too_large, sizeof too_large);
    assert_ok(context, open_table(false, false, &features));
    const size_t rows[] = {1};
    assert_fails(context, l3a_features_read(features, rows, 0, 1, values), L3A_ERROR_DATA,
                 "row 1, column 2: the feature is infinite");
    l3a_features_free(features);
}

static void rows_come_in_the_order_asked_for(void **state) {
    (void)state;
    static const size_t rows[] = {1, 0, 1};
    static const float expected[9] = {4, 5, 6, 1, -2.5F, 3, 4, 5, 6};
    l3a_features *features = NULL;
    float values[9];
    write_six();
    assert_ok(context, open_table(false, false, &features));
    assert_ok(context, l3a_features_read(features, rows, 0, 3, values));
    assert_memory_equal(values, expected, sizeof expected);
    assert_fails(context, l3a_features_read(features, NULL, 1, 2, values), L3A_ERROR_ARGUMENT, "row 2 is out of range");
    l3a_features_free(features);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_numpy_wrote_are_read),
        cmocka_unit_test(versions_one_to_three_are_read_in_both_orders),
        cmocka_unit_test(headers_in_other_spellings_are_read),
        cmocka_unit_test(every_type_is_read_in_both_orders),
        cmocka_unit_test(arrays_of_any_rank_up_to_eight_are_described),
        cmocka_unit_test(big_endian_arrays_are_refused_by_that_name),
        cmocka_unit_test(types_that_are_not_numbers_are_refused_by_name),
        cmocka_unit_test(files_of_another_kind_are_refused),
        cmocka_unit_test(unknown_versions_are_refused),
        cmocka_unit_test(headers_that_cannot_be_understood_are_refused),
        cmocka_unit_test(shapes_larger_than_any_memory_are_refused),
        cmocka_unit_test(a_header_longer_than_the_limit_is_refused),
        cmocka_unit_test(a_file_cut_at_any_length_is_refused),
        cmocka_unit_test(features_come_with_labels_and_names),
        cmocka_unit_test(classes_without_names_are_numbered),
        cmocka_unit_test(labels_of_every_type_and_order_are_read),
        cmocka_unit_test(a_label_other_than_the_three_is_named_by_row_and_column),
        cmocka_unit_test(tables_of_different_lengths_are_refused),
        cmocka_unit_test(arrays_that_are_no_table_are_refused),
        cmocka_unit_test(a_feature_that_is_not_finite_is_named_by_row_and_column),
        cmocka_unit_test(rows_come_in_the_order_asked_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
