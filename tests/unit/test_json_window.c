/* JSON read from a file through a window: whatever the size of the window, the values and errors are those of a parser with the
 * whole text in memory. A file that ends while it is read is an error. */
#include "support.h"

#include "base/memory.h"
#include "fixture.h"
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char document[] =
    "{\"name\": \"b\\u00e4r \\\"12\\\"\", \"list\" : [1, -2.5e1,  {\"deep\": [true,false , null, {}, []]}],\n"
    "\"outline\": [[10.5,20,30.25,-40,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]],\n"
    "\"empty\": \"\",\t\"last\":12345678901234567}\n";

static char *path;

static int set_up(void **state) {
    open_fixture(state);
    path = path_in(folder, "sample.json");
    return 0;
}

static int tear_down(void **state) {
    free(path);
    return close_fixture(state);
}

static l3a_status tell_text(struct json *json, json_text text, text_builder *told) {
    char *copy = NULL;
    const l3a_status status = json_text_copy(json, text, &copy);
    text_builder_print(told, "'%s' ", copy ? copy : "");
    release(context, copy);
    return status;
}

static l3a_status tell_value(struct json *json, text_builder *told);

static l3a_status tell_object(struct json *json, text_builder *told) {
    l3a_status status = L3A_OK;
    json_text key;
    TRY(json_object(json));
    for (bool more = true; more;) {
        TRY(json_next_key(json, &key, &more));
        if (more) {
            TRY(tell_text(json, key, told));
            TRY(tell_value(json, told));
        }
    }
done:
    return status;
}

static l3a_status tell_array(struct json *json, text_builder *told) {
    l3a_status status = L3A_OK;
    TRY(json_array(json));
    for (bool more = true; more;) {
        TRY(json_next_item(json, &more));
        if (more) {
            TRY(tell_value(json, told));
        }
    }
done:
    return status;
}

/* Each value and where it ends. */
static l3a_status tell_value(struct json *json, text_builder *told) {
    l3a_status status = L3A_OK;
    json_text text;
    double number;
    switch (json_peek(json)) {
    case JSON_OBJECT: TRY(tell_object(json, told)); break;
    case JSON_ARRAY: TRY(tell_array(json, told)); break;
    case JSON_STRING:
        TRY(json_string(json, &text));
        TRY(tell_text(json, text, told));
        break;
    case JSON_NUMBER:
        TRY(json_number(json, &number));
        text_builder_print(told, "%.17g ", number);
        break;
    default: TRY(json_skip(json));
    }
    text_builder_print(told, "@%llu\n", (unsigned long long)json_position(json));
done:
    return status;
}

/* What a parser reads and how it ends, value by value or, with `skipping`, only skipping. */
static char *tell(struct json *json, bool skipping) {
    text_builder told = {.context = context};
    l3a_status status = skipping ? json_skip(json) : tell_value(json, &told);
    status = status == L3A_OK ? json_end(json) : status;
    text_builder_print(&told, "%s: %s", l3a_status_name(status), status == L3A_OK ? "" : l3a_error_text(context));
    assert_int_equal(told.status, L3A_OK);
    return told.text;
}

static char *tell_memory(const char *text, size_t length, bool skipping) {
    struct json json;
    json_begin(&json, context, path, text, length);
    return tell(&json, skipping);
}

static char *tell_file(size_t window, bool skipping) {
    struct json json;
    assert_ok(context, json_open(&json, context, path, 1 << 20, window));
    char *told = tell(&json, skipping);
    json_close(&json);
    return told;
}

static void assert_alike(const char *text, size_t length, size_t window) {
    for (int skipping = 0; skipping < 2; skipping++) {
        char *expected = tell_memory(text, length, skipping), *found = tell_file(window, skipping);
        if (strcmp(expected, found) != 0) {
            print_error("window %zu of %zu bytes\n", window, length);
        }
        assert_string_equal(expected, found);
        release(context, expected);
        release(context, found);
    }
}

static void a_window_of_any_size_reads_the_same(void **state) {
    (void)state;
    const size_t length = sizeof document - 1;
    write_bytes(path, document, length);
    for (size_t window = 24; window <= length + 1; window++) {
        assert_alike(document, length, window);
    }
    assert_alike(document, length, 0);
}

static void a_text_cut_anywhere_is_refused_in_the_same_words(void **state) {
    (void)state;
    for (size_t cut = 0; cut < sizeof document - 2; cut++) {
        write_bytes(path, document, cut);
        assert_alike(document, cut, 24);
        assert_alike(document, cut, 100);
    }
}

static void a_wrong_byte_is_found_at_the_same_place(void **state) {
    (void)state;
    char wrong[sizeof document];
    for (size_t i = 0; i + 1 < sizeof document; i++) {
        memcpy(wrong, document, sizeof document);
        wrong[i] = '\x01';
        write_bytes(path, wrong, sizeof document - 1);
        assert_alike(wrong, sizeof document - 1, 32);
    }
}

static void strings_must_fit_unless_they_are_skipped(void **state) {
    (void)state;
    enum { LONG = 500 };
    char text[LONG + 64] = "{\"a\": \"";
    struct json json;
    json_text key, value;
    bool more;
    memset(text + 7, 'x', LONG);
    strcpy(text + 7 + LONG, "\", \"b\": 1}");
    write_bytes(path, text, strlen(text));
    char *skipped = tell_file(64, true);
    assert_string_equal(skipped, "L3A_OK: ");
    release(context, skipped);
    assert_ok(context, json_open(&json, context, path, 1 << 20, 64));
    assert_ok(context, json_object(&json));
    assert_ok(context, json_next_key(&json, &key, &more));
    assert_fails(context, json_string(&json, &value), L3A_ERROR_FORMAT, "a string or number is longer than 64 bytes");
    json_close(&json);
}

static void a_file_above_its_limit_is_refused(void **state) {
    (void)state;
    struct json json;
    write_bytes(path, document, sizeof document - 1);
    assert_fails(context, json_open(&json, context, path, 100, 0), L3A_ERROR_FORMAT, "at most 100 are expected");
    json_close(&json);
}

/* What another process leaves of a file after it was opened. */
static size_t left;

static ssize_t read_what_is_left(int file, void *bytes, size_t count, off_t offset) {
    const size_t there = (size_t)offset < left ? left - (size_t)offset : 0;
    return posix_files.read(file, bytes, count < there ? count : there, offset);
}

static void a_file_that_shrinks_while_it_is_read_is_truncated(void **state) {
    (void)state;
    const size_t length = sizeof document - 1;
    file_operations shrinking = *context->files;
    shrinking.read = read_what_is_left;
    write_bytes(path, document, length);
    context->files = &shrinking;
    for (left = 0; left < length; left++) {
        char *told = tell_file(64, left % 2), expected[64];
        snprintf(expected, sizeof expected, "ends at byte %zu,", left);
        assert_non_null(strstr(told, "L3A_ERROR_TRUNCATED: "));
        assert_non_null(strstr(told, expected));
        release(context, told);
    }
    context->files = &posix_files;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_of_any_size_reads_the_same),
        cmocka_unit_test(a_text_cut_anywhere_is_refused_in_the_same_words),
        cmocka_unit_test(a_wrong_byte_is_found_at_the_same_place),
        cmocka_unit_test(strings_must_fit_unless_they_are_skipped),
        cmocka_unit_test(a_file_above_its_limit_is_refused),
        cmocka_unit_test(a_file_that_shrinks_while_it_is_read_is_truncated),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
