/* UTF-8: the examples of RFC 3629, every character there and back, and what is invalid. */
#include "support.h"

#include "common/utf8.h"

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

static void characters_that_nobody_sees_are_found(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t code;
    } cases[] = {{"", 0},
                 {"black cat", 0},
                 {"\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", 0}, /* Persian, with a joiner */
                 {"\U0001f468\u200d\U0001f469\u200d\U0001f467", 0},             /* a family in one emoji */
                 {"\u2764\ufe0f", 0},
                 {"\u0915\u094d\u200d\u0937", 0},
                 {"caf\u00e9\u00a0noir", 0},
                 {"a\tb", 9},
                 {"\xC2\x85", 0x85},
                 {"co\u00adoperate", 0xAD},
                 {"\ufeffcat", 0xFEFF},
                 {"cat\u200b", 0x200B},
                 {"cat\u2028dog", 0x2028},
                 {"cat\u2029", 0x2029},
                 {"\u202etac", 0x202E},
                 {"\u2066cat\u2069", 0x2066},
                 {"\u200fcat", 0x200F},
                 {"\u061c", 0x61C},
                 {"c\u2060at", 0x2060},
                 {"\xFF\u202e", 0x202E}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(utf8_find_hidden(cases[i].text), cases[i].code);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_the_bytes_of_the_standard),
        cmocka_unit_test(every_character_reads_back_and_surrogates_do_not),
        cmocka_unit_test(invalid_bytes_are_refused),
        cmocka_unit_test(characters_that_nobody_sees_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
