/* What the folder of a run or a sweep records about how it was started. */
#include "support.h"

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_record(const char *name, const char *text) {
    char *path = path_in(folder, name);
    write_bytes(path, text, strlen(text));
    free(path);
}

static void the_texts_of_a_run_and_a_sweep_are_read(void **state) {
    (void)state;
    static const char *const names[] = {"sweep.json", "run.json"}; /* a run.json goes first where both are there */
    for (size_t i = 0; i < 2; i++) {
        char text[64], expected[64], record[256];
        snprintf(record, sizeof record,
                 "{\"run\": {\"command\": \"inner\"}, \"command\": \"l3a %s 'a \\\"b\\\"'\", \"directory\": \"/é\"}", names[i]);
        write_record(names[i], record);
        assert_ok(context, l3a_folder_record(context, folder, "command", text, sizeof text));
        snprintf(expected, sizeof expected, "l3a %s 'a \"b\"'", names[i]);
        assert_string_equal(text, expected);
        assert_ok(context, l3a_folder_record(context, folder, "directory", text, sizeof text));
        assert_string_equal(text, "/\xc3\xa9");
        assert_ok(context, l3a_folder_record(context, folder, "no such key", text, sizeof text));
        assert_string_equal(text, "");
    }
}

static void a_text_that_does_not_fit_is_an_error(void **state) {
    (void)state;
    char text[8] = "before";
    write_record("run.json", "{\"command\": \"1234567\"}");
    assert_ok(context, l3a_folder_record(context, folder, "command", text, 8));
    assert_string_equal(text, "1234567");
    assert_fails(context, l3a_folder_record(context, folder, "command", text, 7), L3A_ERROR_FORMAT, "7 bytes");
    assert_string_equal(text, "1234567");
}

static void what_is_no_record_is_an_error(void **state) {
    (void)state;
    char text[64];
    char *nowhere = path_in(folder, "nowhere");
    assert_fails(context, l3a_folder_record(context, nowhere, "command", text, sizeof text), L3A_ERROR_NOT_FOUND,
                 "run.json or sweep.json");
    free(nowhere);
    static const struct {
        const char *text;
        l3a_status status;
    } records[] = {
        {"", L3A_ERROR_TRUNCATED},
        {"{", L3A_ERROR_TRUNCATED},
        {"[]", L3A_ERROR_FORMAT},
        {"{\"command\": 5}", L3A_ERROR_FORMAT},
        {"{\"command\": \"open", L3A_ERROR_TRUNCATED},
        {"{\"command\": [\"l3a\"]}", L3A_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        write_record("run.json", records[i].text);
        assert_fails(context, l3a_folder_record(context, folder, "command", text, sizeof text), records[i].status, "run.json");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_texts_of_a_run_and_a_sweep_are_read),
        cmocka_unit_test(a_text_that_does_not_fit_is_an_error),
        cmocka_unit_test(what_is_no_record_is_an_error),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
