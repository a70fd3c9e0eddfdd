/* The state of a method: what is put is read back, bit for bit; a file that is damaged, foreign or written by hand is refused. */
#include "support.h"

#include "base/write_behind.h"
#include "fixture.h"
#include "format/safetensors.h"
#include "method/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *path;
static struct state_owner owner;

static int set_up(void **state) {
    open_fixture(state);
    path = path_in(folder, "state.safetensors");
    assert_ok(context, state_owner_set(context, &owner, "method", "er"));
    assert_ok(context, state_owner_set(context, &owner, "classes", "ant\n\"bee\""));
    return 0;
}

static int tear_down(void **state) {
    state_owner_free(context, &owner);
    free(path);
    return close_fixture(state);
}

static const float floats[2][3] = {{1.5F, -0.0F, 0x1p-149F}, {3e38F, 2, 3}};
static const double doubles[2] = {0x1p-1074, -1e300};
static const int8_t bytes[3] = {-128, 0, 127};
static const uint8_t counts[1] = {255};
static const int64_t integers[1] = {INT64_MIN};

static const struct {
    const char *name;
    l3a_number type;
    size_t rank;
    uint64_t shape[3];
    size_t size;
    const void *data;
} arrays[] = {{"w", L3A_NUMBER_FLOAT32, 2, {2, 3}, sizeof floats, floats},
              {"header", L3A_NUMBER_FLOAT64, 1, {2}, sizeof doubles, doubles}, /* a file has a checksum of that name */
              {"__metadata__", L3A_NUMBER_INT8, 3, {3, 1, 1}, sizeof bytes, bytes},
              {"u/8.x-y_z", L3A_NUMBER_UINT8, 1, {1}, sizeof counts, counts},
              {"one", L3A_NUMBER_INT64, 0, {0}, sizeof integers, integers},
              {"none", L3A_NUMBER_FLOAT32, 2, {0, 7}, 0, NULL}};
enum { ARRAYS = sizeof arrays / sizeof arrays[0] };

static void save(size_t phases) {
    l3a_state *state = NULL;
    assert_ok(context, state_create(context, &state));
    for (size_t i = 0; i < ARRAYS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", arrays[i].name);
        assert_ok(context, l3a_state_put(state, name, arrays[i].type, arrays[i].shape, arrays[i].rank, arrays[i].data));
        memset(name, 'x', sizeof name - 1); /* it was copied */
    }
    assert_ok(context, state_write(state, path, &owner, phases));
    state_free(state);
}

static l3a_status load(void) {
    l3a_state *state = NULL;
    size_t phases;
    const l3a_status status = state_read(context, path, &owner, &phases, &state);
    state_free(state);
    return status;
}

static void what_is_put_is_read_back(void **unused) {
    (void)unused;
    l3a_state *state = NULL;
    size_t phases = 0;
    save(7);
    assert_ok(context, state_read(context, path, &owner, &phases, &state));
    assert_int_equal(phases, 7);
    for (size_t i = 0; i < ARRAYS; i++) {
        const l3a_state_array *array = l3a_state_at(state, i);
        uint64_t shape[8];
        const void *data = NULL;
        assert_non_null(array);
        assert_string_equal(array->name, arrays[i].name);
        assert_int_equal(array->type, arrays[i].type);
        assert_int_equal(array->rank, arrays[i].rank);
        assert_ok(context, l3a_state_get(state, arrays[i].name, arrays[i].type, arrays[i].rank, shape, &data));
        assert_ptr_equal(data, array->data);
        if (arrays[i].rank) {
            assert_memory_equal(shape, arrays[i].shape, arrays[i].rank * sizeof shape[0]);
            assert_memory_equal(array->shape, arrays[i].shape, arrays[i].rank * sizeof shape[0]);
        }
        if (arrays[i].size) {
            assert_memory_equal(data, arrays[i].data, arrays[i].size);
        }
    }
    assert_null(l3a_state_at(state, ARRAYS));
    assert_null(l3a_state_at(NULL, 0));
    state_free(state);
}

static void an_array_that_is_not_there_is_an_error(void **unused) {
    (void)unused;
    l3a_state *state = NULL;
    size_t phases;
    uint64_t shape[3] = {0};
    const void *data;
    save(1);
    assert_ok(context, state_read(context, path, &owner, &phases, &state));
    assert_fails(context, l3a_state_get(state, "v", L3A_NUMBER_FLOAT32, 2, shape, &data), L3A_ERROR_FORMAT,
                 "state.safetensors: an array 'v' of type F32 with 2 dimensions is missing");
    assert_fails(context, l3a_state_get(state, "w", L3A_NUMBER_FLOAT64, 2, shape, &data), L3A_ERROR_FORMAT, "it is another");
    assert_fails(context, l3a_state_get(state, "w", L3A_NUMBER_FLOAT32, 3, shape, &data), L3A_ERROR_FORMAT, "it is another");
    assert_fails(context, l3a_state_get(state, "w", L3A_NUMBER_FLOAT32, 2, NULL, &data), L3A_ERROR_ARGUMENT, "'w'");
    assert_fails(context, l3a_state_get(state, "w", (l3a_number)5, 2, shape, &data), L3A_ERROR_ARGUMENT, "'w'");
    assert_ok(context, state_expect(state, "w", L3A_NUMBER_FLOAT32, 2, (const uint64_t[]){2, 3}, &data));
    assert_fails(context, state_expect(state, "w", L3A_NUMBER_FLOAT32, 2, (const uint64_t[]){2, 4}, &data), L3A_ERROR_FORMAT,
                 "array 'w' has 3 numbers in dimension 2 instead of 4");
    state_free(state);
}

static void what_cannot_be_put_is_an_error(void **unused) {
    (void)unused;
    l3a_state *state = NULL;
    static const uint64_t one[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, huge[2] = {UINT64_MAX, 2};
    char longest[102];
    memset(longest, 'a', 101);
    longest[101] = '\0';
    assert_ok(context, state_create(context, &state));
    const char *const names[] = {"", "a b", "a\"", "a\\", "a\n", "\303\244", longest};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_fails(context, l3a_state_put(state, names[i], L3A_NUMBER_UINT8, one, 1, counts), L3A_ERROR_ARGUMENT,
                     "cannot be the name");
    }
    longest[100] = '\0';
    assert_ok(context, l3a_state_put(state, longest, L3A_NUMBER_UINT8, one, 1, counts));
    assert_fails(context, l3a_state_put(state, longest, L3A_NUMBER_UINT8, one, 1, counts), L3A_ERROR_ARGUMENT, "two arrays");
    assert_fails(context, l3a_state_put(state, "a", (l3a_number)5, one, 1, counts), L3A_ERROR_ARGUMENT, "type 5");
    assert_fails(context, l3a_state_put(state, "a", L3A_NUMBER_UINT8, one, 9, counts), L3A_ERROR_ARGUMENT, "9 dimensions");
    assert_fails(context, l3a_state_put(state, "a", L3A_NUMBER_UINT8, NULL, 1, counts), L3A_ERROR_ARGUMENT, "shape");
    assert_fails(context, l3a_state_put(state, "a", L3A_NUMBER_UINT8, one, 1, NULL), L3A_ERROR_ARGUMENT, "NULL");
    assert_fails(context, l3a_state_put(state, "a", L3A_NUMBER_UINT8, huge, 2, counts), L3A_ERROR_ARGUMENT, "larger");
    state_free(state);
}

static void the_state_of_another_job_is_refused(void **unused) {
    (void)unused;
    save(1);
    assert_ok(context, load());
    assert_ok(context, state_owner_set(context, &owner, "classes", "ant\nbee"));
    assert_fails(context, load(), L3A_ERROR_MISMATCH, "state.safetensors: the state of another run: its classes differs");
    assert_ok(context, state_owner_set(context, &owner, "classes", "ant\n\"bee\""));
    assert_ok(context, load());
    assert_ok(context, state_owner_set(context, &owner, "seed", "1"));
    assert_fails(context, load(), L3A_ERROR_MISMATCH, "its seed differs");
}

/* Enough for several strips, and for several chunks of the file. */
enum { DIM = 1500 };

static double number_of(size_t row, size_t column) {
    return (double)(row * DIM + column) / 3;
}

static void sums_are_read_back(void **unused) {
    (void)unused;
    l3a_state *state = NULL;
    struct sums saved = {0}, loaded = {0}, other = {0};
    double row[DIM];
    size_t phases;
    assert_true(triangle_numbers(0, DIM) > 4 * STRIP_NUMBERS && triangle_numbers(0, DIM) * sizeof(double) > 2 * WRITE_CHUNK);
    assert_ok(context, sums_create(context, DIM, &saved));
    assert_ok(context, sums_create(context, DIM, &loaded));
    assert_ok(context, sums_create(context, DIM - 1, &other));
    for (size_t i = 0; i < DIM; i++) {
        for (size_t j = 0; j <= i; j++) {
            row[j] = number_of(i, j);
        }
        assert_ok(context, sums_write(&saved, KEPT, i, 1, row));
    }
    assert_ok(context, state_create(context, &state));
    assert_ok(context, l3a_state_put(state, "a", L3A_NUMBER_UINT8, NULL, 0, counts));
    assert_ok(context, state_put_sums(state, "first", &saved));
    assert_ok(context, state_put_sums(state, "second", &saved));
    assert_ok(context, state_write(state, path, &owner, 1));
    state_free(state);
    assert_ok(context, state_read(context, path, &owner, &phases, &state));
    assert_null(l3a_state_at(state, 1)); /* they are no arrays */
    assert_ok(context, state_get_sums(state, "second", &loaded));
    for (size_t i = 0; i < DIM; i++) {
        assert_ok(context, sums_read(&loaded, KEPT, i, 1, row));
        for (size_t j = 0; j <= i; j++) {
            assert_true(row[j] == number_of(i, j));
        }
    }
    assert_fails(context, state_get_sums(state, "third", &loaded), L3A_ERROR_FORMAT, "'sums.third' [1125750] is missing");
    assert_fails(context, state_get_sums(state, "first", &other), L3A_ERROR_FORMAT, "instead of [1124250]");
    state_free(state);
    sums_free(&saved);
    sums_free(&loaded);
    sums_free(&other);
}

static void a_changed_bit_in_any_byte_is_noticed(void **unused) {
    (void)unused;
    size_t size = 0;
    save(1);
    char *whole = read_bytes(path, &size);
    for (size_t i = 0; i < size; i++) {
        whole[i] ^= (char)(1 << i % 8);
        write_bytes(path, whole, size);
        assert_int_not_equal(load(), L3A_OK);
        whole[i] ^= (char)(1 << i % 8);
    }
    for (size_t i = 0; i < size; i += 7) {
        write_bytes(path, whole, i);
        assert_int_not_equal(load(), L3A_OK);
    }
    free(whole);
}

/* A safetensors file with good checksums and these metadata, and one tensor. */
static void write_other(const char *format, const char *version, const char *phases, const char *name, tensor_type type) {
    const char *const records[][2] = {
        {"format", format}, {"version", version}, {"phases", phases}, {"job.method", "er"}, {"job.classes", "ant\n\"bee\""}};
    text_list keys = {0}, values = {0};
    int64_t number = 1;
    const tensor_source source = {
        .name = name, .type = type, .rank = 1, .shape = {1}, .fill = fill_from_memory, .argument = &number};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (records[i][1]) {
            assert_ok(context, text_record_set(context, &keys, &values, records[i][0], records[i][1]));
        }
    }
    assert_ok(context, safetensors_write(context, path, &keys, &values, &source, 1));
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
}

static void a_file_that_is_no_state_is_refused(void **unused) {
    (void)unused;
    write_other("l3a-state", "1", "2", "state.a", TENSOR_I64);
    assert_ok(context, load());
    write_other("l3a-model", "1", "2", "state.a", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "not the state of a method");
    write_other("l3a-state", NULL, "2", "state.a", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "not the state of a method");
    write_other("l3a-state", "2", "2", "state.a", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_VERSION, "version 2");
    write_other("l3a-state", "1", NULL, "state.a", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "phases is missing");
    write_other("l3a-state", "1", "-1", "state.a", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "phases is missing");
    write_other("l3a-state", "1", "2", "a", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "tensor 'a' is not an array");
    write_other("l3a-state", "1", "2", "sums.a", TENSOR_I64);
    assert_ok(context, load()); /* as long as nobody asks for them */
    write_other("l3a-state", "1", "2", "state.", TENSOR_I64);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "tensor 'state.' is not an array");
    write_other("l3a-state", "1", "2", "state.a", TENSOR_F16);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "tensor 'state.a' is not an array");
}

/* Without checksums nothing would notice a changed bit. */
static void a_state_without_checksums_is_refused(void **unused) {
    (void)unused;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"l3a-state\",\"version\":\"1\",\"phases\":\"1\",\"job.method\":\"er\","
        "\"job.classes\":\"ant\\n\\\"bee\\\"\"},\"state.a\":{\"dtype\":\"U8\",\"shape\":[1],"
        "\"data_offsets\":[0,1]}}";
    char whole[8 + sizeof header] = {(char)(sizeof header - 1), (char)((sizeof header - 1) >> 8)};
    memcpy(whole + 8, header, sizeof header - 1);
    write_bytes(path, whole, sizeof whole);
    assert_fails(context, load(), L3A_ERROR_FORMAT, "tensor 'state.a' is not an array");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_put_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sums_are_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_array_that_is_not_there_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_put_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_state_of_another_job_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_bit_in_any_byte_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_state_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_state_without_checksums_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
