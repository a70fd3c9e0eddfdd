/* UTF-8: the examples of RFC 3629, every character there and back, and what is invalid. */
#include "support.h"

#include "base/utf8.h"

#include <string.h>

static void characters_have_the_bytes_of_the_standard(void **state) {
    (void)state;
    static const struct {
        uint32_t code;
        const char *bytes;
    } known[] = {{'A', "A"},
                 {0x7F, "\x7F"},
                 {0x80, "\xC2\x80"},
                 {0x391, "\xCE\x91"},
                 {0x7FF, "\xDF\xBF"},
                 {0x800, "\xE0\xA0\x80"},
                 {0x2262, "\xE2\x89\xA2"},
                 {0xD55C, "\xED\x95\x9C"},
                 {0xFFFF, "\xEF\xBF\xBF"},
                 {0x10000, "\xF0\x90\x80\x80"},
                 {0x233B4, "\xF0\xA3\x8E\xB4"},
                 {0x10FFFF, "\xF4\x8F\xBF\xBF"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[5] = "";
        uint32_t code;
        assert_int_equal(utf8_encode(known[i].code, text), strlen(known[i].bytes));
        assert_string_equal(text, known[i].bytes);
        assert_int_equal(utf8_decode(known[i].bytes, &code), strlen(known[i].bytes));
        assert_int_equal(code, known[i].code);
    }
}

static void every_character_reads_back_and_surrogates_do_not(void **state) {
    (void)state;
    for (uint32_t code = 1; code < 0x110000; code++) {
        char text[5] = "";
        uint32_t read;
        const size_t length = utf8_encode(code, text);
        const bool surrogate = code >= 0xD800 && code < 0xE000;
        assert_int_equal(utf8_decode(text, &read), surrogate ? 0 : length);
        assert_true(surrogate || read == code);
    }
}

static void invalid_bytes_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"\x80",         "\xBF",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
                                      "\xF0\x8F\xBF", "\xF8\x88\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",
                                      "\xC3",         "\xE2\x89",     "\xF0\xA3\x8E",     "\xE2\x89z"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t code;
        assert_int_equal(utf8_decode(bad[i], &code), 0);
        assert_false(is_utf8(bad[i]));
    }
    assert_true(is_utf8(""));
    assert_true(is_utf8("A\xE2\x89\xA2\xCE\x91."));
    assert_false(is_utf8("A\xE2\x89\xA2\xCE."));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_the_bytes_of_the_standard),
        cmocka_unit_test(every_character_reads_back_and_surrogates_do_not),
        cmocka_unit_test(invalid_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
