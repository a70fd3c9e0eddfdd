/* safetensors: what is written is read back, a changed bit is always detected, and files that contradict themselves are refused.
 * Foreign files are written by hand here, following the description of the format. */
#include "support.h"

#include "base/write_behind.h"
#include "fixture.h"
#include "format/safetensors.h"

#include <xxhash.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *path;

static int set_up(void **state) {
    open_fixture(state);
    path = path_in(folder, "sample.safetensors");
    return 0;
}

static int tear_down(void **state) {
    free(path);
    return close_fixture(state);
}

static l3a_status open_and_verify(void) {
    safetensors file;
    l3a_status status = safetensors_open(context, path, &file);
    if (status == L3A_OK) {
        status = safetensors_verify(&file);
        safetensors_close(&file);
    }
    return status;
}

static uint64_t little_endian(const char *bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) {
        value = value << 8 | (unsigned char)bytes[i];
    }
    return value;
}

/* A file as another program would write it. */
static void write_foreign(const char *header, const void *data, size_t data_size) {
    const size_t length = strlen(header);
    char *bytes = malloc(8 + length + data_size);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (char)((uint64_t)length >> 8 * i);
    }
    memcpy(bytes + 8, header, length);
    memcpy(bytes + 8 + length, data, data_size);
    write_bytes(path, bytes, 8 + length + data_size);
    free(bytes);
}

static const uint16_t halves[4] = {0x3C00, 0xC000, 0x3555, 0x7BFF}, brains[4] = {0x3F80, 0xC000, 0x3EAB, 0x4780};
static const float floats[4] = {1.5F, -2, 0x1p-149F, 3e38F};
static const double doubles[4] = {1.5, -2, 0x1p-1074, 1e300};
static const int8_t bytes_signed[4] = {1, -2, 127, -128};
static const uint8_t bytes_unsigned[4] = {1, 2, 127, 255};
static const int32_t integers[4] = {1, -2, INT32_MAX, INT32_MIN};
static const int64_t long_integers[4] = {1, -2, INT64_C(1) << 53, INT64_MIN};

static const struct {
    const char *name, *type_name;
    tensor_type type;
    size_t size;
    const void *data;
    double expected[4];
} all_types[] = {
    {"half", "F16", TENSOR_F16, 2, halves, {1, -2, 0x1.554p-2, 65504}},
    {"brain", "BF16", TENSOR_BF16, 2, brains, {1, -2, 0x1.56p-2, 65536}},
    {"float", "F32", TENSOR_F32, 4, floats, {1.5, -2, 0x1p-149, (double)3e38F}},
    {"double", "F64", TENSOR_F64, 8, doubles, {1.5, -2, 0x1p-1074, 1e300}},
    {"signed", "I8", TENSOR_I8, 1, bytes_signed, {1, -2, 127, -128}},
    {"unsigned", "U8", TENSOR_U8, 1, bytes_unsigned, {1, 2, 127, 255}},
    {"integer", "I32", TENSOR_I32, 4, integers, {1, -2, 2147483647, -2147483648.0}},
    {"long", "I64", TENSOR_I64, 8, long_integers, {1, -2, 9007199254740992.0, -9223372036854775808.0}},
};
enum { ALL_TYPES = sizeof all_types / sizeof all_types[0] };

static tensor_source source_of(const char *name, tensor_type type, const void *data, uint64_t rows, uint64_t columns) {
    void *argument;
    memcpy(&argument, &data, sizeof argument);
    return (tensor_source){name, type, 2, {rows, columns}, fill_from_memory, argument};
}

static void write_all_types(const text_list *keys, const text_list *values) {
    tensor_source sources[ALL_TYPES];
    for (size_t i = 0; i < ALL_TYPES; i++) {
        sources[i] = source_of(all_types[i].name, all_types[i].type, all_types[i].data, 2, 2);
    }
    assert_ok(context, safetensors_write(context, path, keys, values, sources, ALL_TYPES));
}

static void write_without_records(void) {
    const text_list none = {0};
    write_all_types(&none, &none);
}

static void every_type_is_read_back_as_it_was_written(void **state) {
    (void)state;
    safetensors file;
    write_without_records();
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_verify(&file));
    assert_int_equal(file.count, ALL_TYPES);
    for (size_t i = 0; i < ALL_TYPES; i++) {
        const struct tensor *tensor = safetensors_find(&file, all_types[i].name);
        char data[32];
        double numbers[4];
        assert_non_null(tensor);
        assert_int_equal(tensor->type, all_types[i].type);
        assert_int_equal(tensor->bytes, 4 * all_types[i].size);
        assert_true(tensor->rank == 2 && tensor->shape[0] == 2 && tensor->shape[1] == 2);
        assert_true(safetensors_is_summed(&file, tensor));
        assert_ok(context, input_read(&file.input, tensor->offset, data, (size_t)tensor->bytes));
        assert_memory_equal(data, all_types[i].data, tensor->bytes);
        tensor_to_double(tensor->type, data, numbers, 4);
        assert_memory_equal(numbers, all_types[i].expected, sizeof numbers);
    }
    safetensors_close(&file);
}

static void rows_of_every_type_are_read_as_float(void **state) {
    (void)state;
    safetensors file;
    write_without_records();
    assert_ok(context, safetensors_open(context, path, &file));
    for (size_t i = 0; i < ALL_TYPES; i++) {
        float row[2];
        assert_ok(context, tensor_read(&file.input, safetensors_find(&file, all_types[i].name), 2, 2, row));
        assert_true(row[0] == (float)all_types[i].expected[2] && row[1] == (float)all_types[i].expected[3]);
    }
    safetensors_close(&file);
}

static void types_are_known_by_their_names_in_the_format(void **state) {
    (void)state;
    for (size_t i = 0; i < ALL_TYPES; i++) {
        assert_string_equal(tensor_type_name(all_types[i].type), all_types[i].type_name);
        assert_int_equal(tensor_type_size(all_types[i].type), all_types[i].size);
        assert_int_equal(tensor_type_find(all_types[i].type_name, strlen(all_types[i].type_name)), all_types[i].type);
    }
    assert_int_equal(tensor_type_find("F8", 2), TENSOR_TYPES);
    assert_int_equal(tensor_type_find("F32X", 4), TENSOR_TYPES);
}

static void tensors_begin_at_a_multiple_of_64(void **state) {
    (void)state;
    text_list keys = {0}, values = {0};
    for (size_t length = 0; length < 70; length += 7) {
        char text[80] = "";
        memset(text, 'x', length);
        assert_ok(context, text_record_set(context, &keys, &values, "padding", text));
        write_all_types(&keys, &values);
        size_t count = 0;
        char *bytes = read_bytes(path, &count);
        assert_int_equal((8 + little_endian(bytes)) % 64, 0);
        free(bytes);
    }
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
}

static char *find_sum(char *header, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"xxh3.%s\":\"", name);
    char *found = strstr(header, key);
    assert_non_null(found);
    return found + strlen(key);
}

static void assert_sum(const char *digits, uint64_t expected) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, expected);
    assert_memory_equal(digits, text, 16);
}

static void checksums_are_those_that_the_format_describes(void **state) {
    (void)state;
    write_without_records();
    size_t count = 0;
    char *bytes = read_bytes(path, &count), stored[17] = "", *header = bytes + 8;
    const size_t length = (size_t)little_endian(bytes);
    for (size_t i = 0; i < ALL_TYPES; i++) {
        assert_sum(find_sum(header, all_types[i].name), XXH3_64bits(all_types[i].data, 4 * all_types[i].size));
    }
    char *sum = find_sum(header, "header");
    memcpy(stored, sum, 16);
    memset(sum, '0', 16);
    assert_sum(stored, XXH3_64bits(header, length));
    free(bytes);
}

/* One float and one record: small enough to damage each of its bits. */
static char *write_small(size_t *count) {
    text_list keys = {0}, values = {0};
    const tensor_source source = source_of("w", TENSOR_F32, floats, 1, 2);
    assert_ok(context, text_record_set(context, &keys, &values, "note", "kept \"here\""));
    assert_ok(context, safetensors_write(context, path, &keys, &values, &source, 1));
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    return read_bytes(path, count);
}

static bool is_about_the_bytes(l3a_status status) {
    return status == L3A_ERROR_CHECKSUM || status == L3A_ERROR_FORMAT || status == L3A_ERROR_TRUNCATED;
}

static void a_change_of_any_bit_is_found(void **state) {
    (void)state;
    size_t count = 0;
    char *bytes = write_small(&count);
    assert_ok(context, open_and_verify());
    for (size_t bit = 0; bit < 8 * count; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        write_bytes(path, bytes, count);
        const l3a_status status = open_and_verify();
        if (!is_about_the_bytes(status)) {
            print_error("bit %zu of byte %zu: %s\n", bit % 8, bit / 8, l3a_status_name(status));
        }
        assert_true(is_about_the_bytes(status));
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    free(bytes);
}

static void a_change_in_a_tensor_names_the_tensor(void **state) {
    (void)state;
    write_without_records();
    size_t count = 0;
    char *bytes = read_bytes(path, &count);
    bytes[count - 1] = (char)(bytes[count - 1] ^ 1);
    write_bytes(path, bytes, count);
    assert_fails(context, open_and_verify(), L3A_ERROR_CHECKSUM, "tensor 'long'");
    free(bytes);
}

static void a_file_cut_at_any_length_is_refused(void **state) {
    (void)state;
    size_t count = 0;
    char *bytes = write_small(&count);
    for (size_t length = 0; length < count; length++) {
        write_bytes(path, bytes, length);
        assert_true(is_about_the_bytes(open_and_verify()));
    }
    write_bytes(path, bytes, count - 1);
    assert_fails(context, open_and_verify(), L3A_ERROR_TRUNCATED, "tensor 'w' ends at byte");
    write_bytes(path, bytes, 100);
    assert_fails(context, open_and_verify(), L3A_ERROR_TRUNCATED, "the header needs");
    free(bytes);
}

static void a_byte_after_the_end_is_refused(void **state) {
    (void)state;
    size_t count = 0;
    char *bytes = write_small(&count);
    bytes[count] = 'x';
    write_bytes(path, bytes, count + 1);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "1 bytes after the last tensor");
    write_foreign("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", "abc", 3);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "1 bytes after the last tensor");
    free(bytes);
}

static void a_foreign_file_without_checksums_is_read(void **state) {
    (void)state;
    static const unsigned char data[] = {0x00, 0x00, 0x80, 0x3F, 0x00, 0x00, 0x20, 0xC0, 7};
    safetensors file;
    write_foreign("{ \"second\" : {\"data_offsets\":[8,9],\"extra\":[{}],\"shape\":[],\"dtype\":\"U8\"},\n"
                  "\"first\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},\"__metadata__\":{\"by\":\"hand\"}}  ",
                  data, sizeof data);
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_verify(&file));
    const struct tensor *first = safetensors_find(&file, "first"), *second = safetensors_find(&file, "second");
    assert_non_null(first);
    assert_non_null(second);
    assert_false(safetensors_is_summed(&file, first));
    assert_true(second->rank == 0 && second->bytes == 1 && second->offset == file.input.size - 1);
    assert_string_equal(safetensors_metadata(&file, "by"), "hand");
    assert_null(safetensors_metadata(&file, "with"));
    assert_null(safetensors_find(&file, "third"));
    float values[2];
    assert_ok(context, tensor_read(&file.input, first, 0, 2, values));
    assert_true(values[0] == 1 && values[1] == -2.5F);
    safetensors_close(&file);
}

static void a_file_without_tensors_is_read(void **state) {
    (void)state;
    write_foreign("{}", "", 0);
    assert_ok(context, open_and_verify());
}

/* A header with `tensors` empty tensors, `sums` checksums and `keys` other metadata keys. */
static char *many_names(size_t tensors, size_t sums, size_t keys) {
    text_builder header = {.context = context};
    text_builder_print(&header, "{\"__metadata__\":{\"xxh3.header\":\"0000000000000000\"");
    for (size_t i = 0; i < sums; i++) {
        text_builder_print(&header, ",\"xxh3.tensor %zu\":\"2d06800538d394c2\"", i);
    }
    for (size_t i = 0; i < keys; i++) {
        text_builder_print(&header, ",\"key %zu\":\"value %zu\"", i, i);
    }
    text_builder_print(&header, "}");
    for (size_t i = 0; i < tensors; i++) {
        text_builder_print(&header, ",\"tensor %zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i);
    }
    text_builder_print(&header, "}");
    assert_int_equal(header.status, L3A_OK);
    char digits[17], *sum = strstr(header.text, "0000000000000000");
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)XXH3_64bits(header.text, header.length));
    memcpy(sum, digits, 16);
    return header.text;
}

/* With a linear search for each name, this would take minutes; 2d06800538d394c2 is the XXH3-64 of nothing. */
static void many_tensors_and_keys_are_found_by_their_names(void **state) {
    (void)state;
    enum { MANY = 60000 };
    char *header = many_names(MANY, MANY, MANY), name[32];
    safetensors file;
    write_foreign(header, "", 0);
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_verify(&file));
    assert_int_equal(file.name_index.count, MANY);
    assert_int_equal(file.key_index.count, 2 * MANY + 1);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "tensor %zu", i);
        assert_ptr_equal(safetensors_find(&file, name), &file.tensors[i]);
        assert_true(safetensors_is_summed(&file, &file.tensors[i]));
        snprintf(name, sizeof name, "key %zu", i);
        assert_int_equal(strcmp(safetensors_metadata(&file, name) + 6, name + 4), 0);
    }
    assert_null(safetensors_find(&file, "tensor"));
    assert_null(safetensors_metadata(&file, "xxh3.tensor 60000"));
    safetensors_close(&file);
    release(context, header);
}

static void more_tensors_or_keys_than_any_checkpoint_has_are_refused(void **state) {
    (void)state;
    char *tensors = many_names(100001, 0, 0), *keys = many_names(0, 0, 200000), *most = many_names(100000, 100000, 99999);
    write_foreign(tensors, "", 0);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "more than 100000 tensors");
    write_foreign(keys, "", 0);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "more than 200000 metadata keys");
    write_foreign(most, "", 0);
    assert_ok(context, open_and_verify());
    release(context, tensors);
    release(context, keys);
    release(context, most);
}

static void names_that_are_listed_twice_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,"
         "2]},"
         "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
         "tensor 'a' is listed twice"},
        {"{\"__metadata__\":{\"x\":\"1\",\"y\":\"2\",\"x\":\"1\"}}", "metadata key 'x' is listed twice"},
        {"{\"__metadata__\":{\"x\":\"1\"},\"__metadata__\":{\"y\":\"1\"}}", "__metadata__ is listed twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_foreign(cases[i][0], "abc", i ? 0 : 3);
        assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, cases[i][1]);
    }
}

static void headers_that_lie_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        l3a_status status;
        const char *text;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":["
         "4,12]}}",
         L3A_ERROR_FORMAT, "tensor 'b' begins"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":"
         "[0,12]}}",
         L3A_ERROR_FORMAT, "overlap or leave a gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", L3A_ERROR_FORMAT, "overlap or leave a gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", L3A_ERROR_TRUNCATED, "tensor 'a' ends at byte"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", L3A_ERROR_FORMAT, "do not match its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,0]}}", L3A_ERROR_FORMAT, "do not match its shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[18446744073709551608,4]}}", L3A_ERROR_FORMAT,
         "do not match its shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[18446744073709551603,18446744073709551615]}}",
         L3A_ERROR_TRUNCATED, "tensor 'a' ends at byte"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", L3A_ERROR_FORMAT,
         "do not match its shape"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", L3A_ERROR_FORMAT,
         "do not match its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,12]}}", L3A_ERROR_FORMAT,
         "a whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-3],\"data_offsets\":[0,12]}}", L3A_ERROR_FORMAT, "a whole number"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,12],\"data_offsets\":[0,12]}}", L3A_ERROR_FORMAT, "dimensions"},
        {"{\"a\":{\"shape\":[3],\"data_offsets\":[0,12]}}", L3A_ERROR_FORMAT, "'a' lacks dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,12]}}", L3A_ERROR_FORMAT, "'a' lacks dtype, shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3]}}", L3A_ERROR_FORMAT, "'a' lacks dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"C64\",\"shape\":[3],\"data_offsets\":[0,12]}}", L3A_ERROR_FORMAT, "type C64"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0]}}", L3A_ERROR_FORMAT, "two offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12,24]}}", L3A_ERROR_FORMAT, "two offsets"},
        {"{\"__metadata__\":{\"number\":3}}", L3A_ERROR_FORMAT, "line 1, column 27"},
        {"{\"a\":3}", L3A_ERROR_FORMAT, "line 1, column 6"},
        {"{} x", L3A_ERROR_FORMAT, "text after the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_foreign(cases[i].header, "0123456789ab", 12);
        assert_fails(context, open_and_verify(), cases[i].status, cases[i].text);
    }
}

static void sums_without_a_sum_of_the_header_are_refused(void **state) {
    (void)state;
    write_foreign("{\"__metadata__\":{\"xxh3.a\":\"0000000000000000\"}}", "", 0);
    assert_fails(context, open_and_verify(), L3A_ERROR_CHECKSUM, "the header's checksum is missing");
}

static void a_header_longer_than_the_format_allows_is_refused(void **state) {
    (void)state;
    static const char start[] = "\x01\x00\x40\x06\x00\x00\x00\x00{}", largest[] = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}";
    write_bytes(path, start, sizeof start - 1);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "not a safetensors file");
    write_bytes(path, largest, sizeof largest - 1);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "not a safetensors file");
}

static void other_files_are_not_taken_for_safetensors(void **state) {
    (void)state;
    static const char text[] = "a text file, which is none of ours";
    write_bytes(path, text, sizeof text - 1);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "not a safetensors file");
    write_bytes(path, "", 0);
    assert_fails(context, open_and_verify(), L3A_ERROR_FORMAT, "0 bytes are too few");
    assert_int_equal(remove(path), 0);
    assert_fails(context, open_and_verify(), L3A_ERROR_NOT_FOUND, "cannot open");
}

static void records_survive_whatever_they_hold(void **state) {
    (void)state;
    static const char *const texts[] = {"plain",
                                        "\"quoted\" \\ and / back",
                                        "two\nlines\r\n\tand a tab",
                                        "Z\xC3\xBCrich \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80",
                                        "\x01\x1F\x7F",
                                        "",
                                        "\"xxh3.header\":\"0123456789abcdef\"}",
                                        "%s %d %n"};
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    text_list keys = {0}, values = {0};
    safetensors file;
    for (size_t i = 0; i < TEXTS; i++) {
        char key[64];
        snprintf(key, sizeof key, "key %zu %s", i, texts[i]);
        assert_ok(context, text_record_set(context, &keys, &values, key, texts[i]));
    }
    write_all_types(&keys, &values);
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_verify(&file));
    for (size_t i = 0; i < TEXTS; i++) {
        const char *value = safetensors_metadata(&file, keys.items[i]);
        assert_non_null(value);
        assert_string_equal(value, texts[i]);
    }
    safetensors_close(&file);
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
}

static void a_tensor_of_another_shape_is_named_with_both_shapes(void **state) {
    (void)state;
    static const uint64_t any[2] = {0, 2}, other[2] = {0, 3};
    const struct tensor *tensor = NULL;
    safetensors file;
    write_without_records();
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_expect(&file, "float", 2, any, &tensor));
    assert_ptr_equal(tensor, safetensors_find(&file, "float"));
    assert_fails(context, safetensors_expect(&file, "float", 2, other, &tensor), L3A_ERROR_FORMAT,
                 "'float' has shape [2, 2] instead of [");
    assert_fails(context, safetensors_expect(&file, "float", 1, any, &tensor), L3A_ERROR_FORMAT, "'float' has shape [2, 2]");
    assert_fails(context, safetensors_expect(&file, "nothing", 2, any, &tensor), L3A_ERROR_FORMAT, "'nothing'");
    safetensors_close(&file);
}

static void a_tensor_larger_than_a_chunk_is_written_whole(void **state) {
    (void)state;
    enum { SIZE = WRITE_CHUNK + 12345 };
    const text_list none = {0};
    uint8_t *data = malloc(SIZE);
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    const tensor_source source = source_of("large", TENSOR_U8, data, 1, SIZE);
    assert_ok(context, safetensors_write(context, path, &none, &none, &source, 1));
    assert_ok(context, open_and_verify());
    size_t count = 0;
    char *bytes = read_bytes(path, &count);
    assert_memory_equal(bytes + count - SIZE, data, SIZE);
    free(bytes);
    free(data);
}

/* From the definition of the format: a sign, an exponent, a fraction. */
static double number_of_parts(unsigned bits, int exponent_bits, int fraction_bits) {
    const unsigned exponent = bits >> fraction_bits & ((1U << exponent_bits) - 1), fraction = bits & ((1U << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    double value;
    if (exponent == (1U << exponent_bits) - 1) {
        value = fraction ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - bias - fraction_bits);
    } else {
        value = ldexp((double)(fraction + (1U << fraction_bits)), (int)exponent - bias - fraction_bits);
    }
    return bits >> (exponent_bits + fraction_bits) ? -value : value;
}

static void assert_same_number(double value, double expected, unsigned bits) {
    const bool same = isnan(expected) ? isnan(value) : value == expected && signbit(value) == signbit(expected);
    if (!same) {
        print_error("bits %04x are %a instead of %a\n", bits, value, expected);
    }
    assert_true(same);
}

static void assert_converts(tensor_type type, int exponent_bits, int fraction_bits) {
    for (unsigned bits = 0; bits < 65536; bits++) {
        const unsigned char stored[3] = {0, (unsigned char)bits, (unsigned char)(bits >> 8)};
        const double expected = number_of_parts(bits, exponent_bits, fraction_bits);
        float single = 0;
        double number = 0;
        tensor_to_float(type, stored + 1, &single, 1);
        tensor_to_double(type, stored + 1, &number, 1);
        assert_same_number((double)single, expected, bits);
        assert_same_number(number, expected, bits);
    }
}

static void every_half_and_every_brain_float_is_converted_exactly(void **state) {
    (void)state;
    assert_converts(TENSOR_F16, 5, 10);
    assert_converts(TENSOR_BF16, 8, 7);
}

static void the_kind_of_a_file_is_told_from_what_it_holds(void **state) {
    (void)state;
    l3a_file *file = NULL;
    l3a_tensor_info info = {.size = sizeof info};
    const char *key, *value;
    write_foreign("{\"__metadata__\":{\"by\":\"hand\"},\"features\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}",
                  "\0\0\0\0", 4);
    assert_ok(context, l3a_file_open(context, path, &file));
    assert_string_equal(l3a_file_kind(file), "features");
    l3a_file_record(file, 0, &key, &value);
    assert_string_equal(key, "by");
    assert_string_equal(value, "hand");
    l3a_file_record(file, 1, &key, &value);
    assert_null(key);
    assert_null(value);
    assert_int_equal(l3a_file_tensor(file, 0, &info), 1);
    assert_string_equal(info.name, "features");
    assert_string_equal(info.type, "BF16");
    assert_true(info.rank == 2 && info.shape[0] == 1 && info.shape[1] == 2 && info.bytes == 4 && !info.verified);
    assert_int_equal(l3a_file_tensor(file, 1, &info), 0);
    l3a_file_free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read_back_as_it_was_written),
        cmocka_unit_test(rows_of_every_type_are_read_as_float),
        cmocka_unit_test(types_are_known_by_their_names_in_the_format),
        cmocka_unit_test(tensors_begin_at_a_multiple_of_64),
        cmocka_unit_test(checksums_are_those_that_the_format_describes),
        cmocka_unit_test(a_change_of_any_bit_is_found),
        cmocka_unit_test(a_change_in_a_tensor_names_the_tensor),
        cmocka_unit_test(a_file_cut_at_any_length_is_refused),
        cmocka_unit_test(a_byte_after_the_end_is_refused),
        cmocka_unit_test(a_foreign_file_without_checksums_is_read),
        cmocka_unit_test(a_file_without_tensors_is_read),
        cmocka_unit_test(many_tensors_and_keys_are_found_by_their_names),
        cmocka_unit_test(more_tensors_or_keys_than_any_checkpoint_has_are_refused),
        cmocka_unit_test(names_that_are_listed_twice_are_refused),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(sums_without_a_sum_of_the_header_are_refused),
        cmocka_unit_test(a_header_longer_than_the_format_allows_is_refused),
        cmocka_unit_test(other_files_are_not_taken_for_safetensors),
        cmocka_unit_test(records_survive_whatever_they_hold),
        cmocka_unit_test(a_tensor_of_another_shape_is_named_with_both_shapes),
        cmocka_unit_test(a_tensor_larger_than_a_chunk_is_written_whole),
        cmocka_unit_test(every_half_and_every_brain_float_is_converted_exactly),
        cmocka_unit_test(the_kind_of_a_file_is_told_from_what_it_holds),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
