/* The JSON parser: what it reads, what it refuses, and the position that its errors give. Expected values follow RFC 8259. */
#include "support.h"

#include "base/memory.h"
#include "common/number.h"
#include "common/json_tree.h"
#include "format/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static l3a_context *context;

static int set_up(void **state) {
    (void)state;
    context = make_context(1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    l3a_context_free(context);
    return 0;
}

static struct json begin(const char *text) {
    struct json json;
    json_begin(&json, context, "sample", text, strlen(text));
    return json;
}

/* In memory of exactly that size, so that a sanitizer detects reading one byte too many. */
static l3a_status skip_all(const char *text, size_t length) {
    char *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    struct json json;
    json_begin(&json, context, "sample", copy, length);
    l3a_status status = json_skip(&json);
    if (status == L3A_OK) {
        status = json_end(&json);
    }
    free(copy);
    return status;
}

static l3a_status decode(const char *quoted, char **text) {
    struct json json = begin(quoted);
    json_text raw;
    l3a_status status = json_string(&json, &raw);
    if (status == L3A_OK) {
        status = json_text_copy(&json, raw, text);
    }
    return status;
}

static void assert_decodes(const char *quoted, const char *expected) {
    char *text = NULL;
    assert_ok(context, decode(quoted, &text));
    assert_string_equal(text, expected);
    release(context, text);
}

static void assert_key(struct json *json, const char *expected) {
    json_text key;
    bool more = false;
    assert_ok(context, json_next_key(json, &key, &more));
    assert_true(more);
    assert_true(json_text_is(key, expected));
}

static void assert_object_ends(struct json *json) {
    json_text key;
    bool more = true;
    assert_ok(context, json_next_key(json, &key, &more));
    assert_false(more);
}

static void each_kind_of_value_is_read(void **state) {
    (void)state;
    struct json json = begin(" {\"n\": -12.5e1, \"w\": 42, \"t\": true,\"f\":false , \"s\": \"text\", \"z\": null} \n");
    double number = 0;
    uint64_t whole = 0;
    bool yes = false, no = true;
    json_text text;
    assert_ok(context, json_object(&json));
    assert_key(&json, "n");
    assert_ok(context, json_number(&json, &number));
    assert_key(&json, "w");
    assert_ok(context, json_integer(&json, &whole));
    assert_key(&json, "t");
    assert_ok(context, json_boolean(&json, &yes));
    assert_key(&json, "f");
    assert_ok(context, json_boolean(&json, &no));
    assert_key(&json, "s");
    assert_ok(context, json_string(&json, &text));
    assert_key(&json, "z");
    assert_int_equal(json_peek(&json), JSON_NULL);
    assert_ok(context, json_skip(&json));
    assert_object_ends(&json);
    assert_ok(context, json_end(&json));
    assert_true(number == -125 && whole == 42 && yes && !no && json_text_is(text, "text"));
}

static void the_kind_of_the_next_value_is_known_before_it_is_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        json_kind kind;
    } cases[] = {{" {", JSON_OBJECT},  {"\n[", JSON_ARRAY}, {"\t\"", JSON_STRING}, {"-1", JSON_NUMBER}, {"0", JSON_NUMBER},
                 {"9", JSON_NUMBER},   {"t", JSON_BOOLEAN}, {"f", JSON_BOOLEAN},   {"null", JSON_NULL}, {"", JSON_NOTHING},
                 {"+1", JSON_NOTHING}, {"]", JSON_NOTHING}, {"'", JSON_NOTHING}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json json = begin(cases[i].text);
        assert_int_equal(json_peek(&json), cases[i].kind);
    }
}

static void items_of_an_array_come_in_order(void **state) {
    (void)state;
    struct json json = begin("[10, 20,30]");
    uint64_t value = 0;
    bool more = false;
    assert_ok(context, json_array(&json));
    for (uint64_t expected = 10; expected <= 30; expected += 10) {
        assert_ok(context, json_next_item(&json, &more));
        assert_true(more);
        assert_ok(context, json_integer(&json, &value));
        assert_int_equal(value, expected);
    }
    assert_ok(context, json_next_item(&json, &more));
    assert_false(more);
    assert_ok(context, json_end(&json));
}

static void empty_containers_have_no_value(void **state) {
    (void)state;
    struct json object = begin("{ }"), array = begin("[\n]");
    bool more = true;
    assert_ok(context, json_object(&object));
    assert_object_ends(&object);
    assert_ok(context, json_array(&array));
    assert_ok(context, json_next_item(&array, &more));
    assert_false(more);
}

static void skipping_passes_a_nested_value_and_nothing_else(void **state) {
    (void)state;
    struct json json = begin("{\"skipped\": {\"a\": [1, {\"b\": \"]}\\\"\"}, [], {}], \"c\": null}, \"kept\": 7}");
    uint64_t kept = 0;
    assert_ok(context, json_object(&json));
    assert_key(&json, "skipped");
    assert_ok(context, json_skip(&json));
    assert_key(&json, "kept");
    assert_ok(context, json_integer(&json, &kept));
    assert_int_equal(kept, 7);
    assert_object_ends(&json);
    assert_ok(context, json_end(&json));
}

static void a_key_is_found_at_its_own_level(void **state) {
    (void)state;
    static const char text[] = "{\"a\": {\"b\": 1}, \"b\": 2, \"b\": 3}";
    struct json json = begin(text);
    uint64_t value;
    bool found = false;
    assert_ok(context, json_find(&json, "b", &found));
    assert_true(found);
    assert_ok(context, json_integer(&json, &value));
    assert_int_equal(value, 2);
    json = begin(text);
    assert_ok(context, json_find(&json, "c", &found));
    assert_false(found);
    assert_ok(context, json_end(&json));
    json = begin("[1]");
    assert_int_equal(json_find(&json, "b", &found), L3A_ERROR_FORMAT);
    json = begin("{\"a\": [1, ");
    assert_int_equal(json_find(&json, "b", &found), L3A_ERROR_TRUNCATED);
}

static void escapes_are_decoded(void **state) {
    (void)state;
    assert_decodes("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    assert_decodes("\"a\\u0041\\u00e9\\u00E9\\u4e2d\"", "aA\xC3\xA9\xC3\xA9\xE4\xB8\xAD");
    assert_decodes("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"", "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF");
    assert_decodes("\"\"", "");
}

static void surrogate_pairs_become_one_character(void **state) {
    (void)state;
    assert_decodes("\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80");
    assert_decodes("\"<\\ud800\\udc00>\"", "<\xF0\x90\x80\x80>");
    assert_decodes("\"\\udbff\\udfff\"", "\xF4\x8F\xBF\xBF");
}

static void text_that_is_not_ascii_is_kept_as_it_stands(void **state) {
    (void)state;
    assert_decodes("\"Z\xC3\xBCrich \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80\"",
                   "Z\xC3\xBCrich \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80");
}

static void escapes_that_mean_nothing_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"\"\\x41\"",         "\"\\u12\"",          "\"\\u12g4\"",        "\"\\ud83d\"",
                                      "\"\\ud83dx\"",      "\"\\ud83d\\n....\"", "\"\\ud83d\\ud83d\"", "\"\\ud83d\\u0041\"",
                                      "\"\\ude00\"",       "\"\\u0000\"",        "\"\\U0041\"",        "\"\\ud83d\\ude0\"",
                                      "\"\\ud83d\\ue000\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *text = NULL;
        assert_fails(context, decode(bad[i], &text), L3A_ERROR_FORMAT, "escape");
        assert_null(text);
    }
}

static void an_escaped_key_is_not_taken_for_a_known_one(void **state) {
    (void)state;
    const json_text plain = {"shape", 5, false}, longer = {"shapes", 6, false}, escaped = {"shap\\u0065", 10, true};
    assert_true(json_text_is(plain, "shape"));
    assert_false(json_text_is(longer, "shape"));
    assert_false(json_text_is(plain, "shapes"));
    assert_false(json_text_is(escaped, "shap\\u0065"));
}

static void errors_name_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text;
        l3a_status status;
        const char *place;
    } cases[] = {{"{\n  \"a\": 1,\n  b: 2}", L3A_ERROR_FORMAT, "sample: line 3, column 3: '\"' is expected"},
                 {"?", L3A_ERROR_FORMAT, "line 1, column 1: a value is expected"},
                 {"[1 2]", L3A_ERROR_FORMAT, "line 1, column 4: ',' is expected"},
                 {"[1,\n\n 2,]", L3A_ERROR_FORMAT, "line 3, column 4: a value is expected"},
                 {"{\"a\" 1}", L3A_ERROR_FORMAT, "line 1, column 6: ':' is expected"},
                 {"[\n1.2.3]", L3A_ERROR_FORMAT, "line 2, column 1: not a number"},
                 {"  1e999", L3A_ERROR_FORMAT, "line 1, column 3: not a number"},
                 {"\"tab\there\"", L3A_ERROR_FORMAT, "line 1, column 5: a control character"},
                 {"[nul]", L3A_ERROR_FORMAT, "line 1, column 2: null is expected"},
                 {"[trve]", L3A_ERROR_FORMAT, "line 1, column 2: true or false is expected"},
                 {"{}\n{}", L3A_ERROR_FORMAT, "line 2, column 1: unexpected text after the end"},
                 {"[1,\n2", L3A_ERROR_TRUNCATED, "line 2, column 2: the text ends where ',' is expected"},
                 {"\"abc", L3A_ERROR_TRUNCATED, "line 1, column 5: a string is not closed"},
                 {"", L3A_ERROR_TRUNCATED, "line 1, column 1: the text ends"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(context, skip_all(cases[i].text, strlen(cases[i].text)), cases[i].status, cases[i].place);
    }
}

static void a_bad_escape_is_named_where_it_stands(void **state) {
    (void)state;
    char *text = NULL;
    assert_fails(context, decode("\n \"good \\n bad \\q\"", &text), L3A_ERROR_FORMAT, "line 2, column 15:");
}

static void a_value_of_another_kind_is_refused(void **state) {
    (void)state;
    struct json json = begin("\"text\"");
    double number;
    uint64_t whole;
    bool boolean;
    assert_fails(context, json_number(&json, &number), L3A_ERROR_FORMAT, "a number is expected");
    assert_fails(context, json_integer(&json, &whole), L3A_ERROR_FORMAT, "a number is expected");
    assert_fails(context, json_boolean(&json, &boolean), L3A_ERROR_FORMAT, "true or false is expected");
    assert_fails(context, json_object(&json), L3A_ERROR_FORMAT, "'{' is expected");
    assert_fails(context, json_array(&json), L3A_ERROR_FORMAT, "'[' is expected");
}

static l3a_status skip_brackets(size_t depth) {
    char text[400];
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return skip_all(text, 2 * depth);
}

static void a_hundred_and_twenty_eight_levels_are_read_and_one_more_is_refused(void **state) {
    (void)state;
    assert_ok(context, skip_brackets(128));
    assert_fails(context, skip_brackets(129), L3A_ERROR_FORMAT, "line 1, column 129: nested more than 128 levels deep");
}

static void levels_that_were_left_do_not_count(void **state) {
    (void)state;
    char text[2 + 3 * 200] = "[";
    for (size_t i = 0; i < 200; i++) {
        strcat(text, i ? ",[]" : "[]");
    }
    strcat(text, "]");
    assert_ok(context, skip_all(text, strlen(text)));
}

static void a_text_cut_at_any_byte_is_refused(void **state) {
    (void)state;
    static const char sample[] =
        "{\"key\\u00e9\": [1.5e+3, -2, true, false, null, \"\\ud83d\\ude00 \xC3\xA9\"], \"o\": {\"p\": {}}}";
    assert_ok(context, skip_all(sample, sizeof sample - 1));
    for (size_t length = 0; length < sizeof sample - 1; length++) {
        const l3a_status status = skip_all(sample, length);
        assert_true(status == L3A_ERROR_TRUNCATED || status == L3A_ERROR_FORMAT);
    }
}

static l3a_status read_integer(const char *text, uint64_t *value) {
    struct json json = begin(text);
    return json_integer(&json, value);
}

static void whole_numbers_reach_the_largest_and_never_wrap_around(void **state) {
    (void)state;
    uint64_t value = 5;
    assert_ok(context, read_integer("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    value = 5;
    static const char *const bad[] = {
        "18446744073709551616", "18446744073709551620", "99999999999999999999999", "-1", "1.0", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(context, read_integer(bad[i], &value), L3A_ERROR_FORMAT,
                     "line 1, column 1: a whole number is expected, 0 or larger");
        assert_int_equal(value, 5);
    }
}

static void assert_number(const char *text, double expected) {
    struct json json = begin(text);
    double value = -1;
    assert_ok(context, json_number(&json, &value));
    assert_true(value == expected && signbit(value) == signbit(expected));
}

static void numbers_are_rounded_correctly(void **state) {
    (void)state;
    assert_number("0", 0.0);
    assert_number("-0", -0.0);
    assert_number("0.1", 0x1.999999999999ap-4);
    assert_number("2.2250738585072014e-308", 0x1p-1022);
    assert_number("5e-324", 0x1p-1074);
    assert_number("1.7976931348623157e308", 0x1.fffffffffffffp1023);
    assert_number("9007199254740993", 0x1p53);
    assert_number("-1.5E+2", -150.0);
}

static void texts_that_are_no_number_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"-", "1e", "1e+", "1-2", "--1", "1.2.3", "1e5e5", "1e2.5", "-e5", "1e309", "-.", "1+"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct json json = begin(bad[i]);
        double value = 5;
        assert_fails(context, json_number(&json, &value), L3A_ERROR_FORMAT, "not a number");
        assert_true(value == 5);
    }
}

static void a_number_as_text_is_short_and_reads_back(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {-2.5, "-2.5"},
                 {0.525, "0.525"},
                 {1000, "1000"},
                 {0x1p-1074, "4.94065645841247e-324"},
                 {1.0 / 3, "0.3333333333333333"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[NUMBER_TEXT];
        double again = 0;
        assert_string_equal(number_format(cases[i].value, text), cases[i].text);
        assert_true(number_parse(text, strlen(text), &again) && again == cases[i].value);
    }
}

/* A locale with a comma: an installed one, or one made in the folder. */
static bool use_comma_locale(const char *folder) {
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "de_DE")) {
        return true;
    }
    char command[600];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", folder);
    if (system(command) != 0) {
        return false;
    }
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

static void numbers_have_a_point_in_a_locale_with_a_comma(void **state) {
    (void)state;
    char *folder = make_temporary_folder();
    const bool comma = use_comma_locale(folder);
    char with_comma[8], text[NUMBER_TEXT];
    snprintf(with_comma, sizeof with_comma, "%.1f", 0.5);
    struct json json = begin("-12.25");
    double value = 0;
    const l3a_status status = json_number(&json, &value);
    number_format(0.525, text);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    remove_folder(folder);
    if (!comma) {
        print_message("skipped: there is no locale de_DE, and localedef cannot make one\n");
        skip();
    }
    assert_string_equal(with_comma, "0,5");
    assert_ok(context, status);
    assert_true(value == -12.25);
    assert_string_equal(text, "0.525");
}

/* ---- Trees ---- */

static void a_tree(void **state) {
    static const char text[] = " {\"a\": [1, -2.5e1, true, null, []], \"b\": {\"c\": \"\\u00e9\\n\", \"a\": false}, \"a\": 7} ";
    struct json_problem problem;
    struct json_tree *json = NULL;
    size_t length = 9;
    (void)state;
    assert_int_equal(L3A_OK, json_tree_read("sample", text, strlen(text), 20, &json, &problem));
    const struct json_value *root = json_tree_root(json), *a = json_value_get(root, "a"), *b = json_value_get(root, "b");
    assert_int_equal(json_value_kind(root), JSON_OBJECT);
    assert_ptr_equal(json_value_first(root), a);
    assert_ptr_equal(json_value_next(a), b);
    assert_string_equal(json_value_key(b), "b");
    assert_null(json_value_get(root, "d"));
    assert_null(json_value_next(json_value_next(b)));
    const json_kind kinds[] = {JSON_NUMBER, JSON_NUMBER, JSON_BOOLEAN, JSON_NULL, JSON_ARRAY};
    const double numbers[] = {1, -25, 1, 0, 0};
    const struct json_value *item = json_value_first(a);
    for (size_t i = 0; i < 5; i++, item = json_value_next(item)) {
        assert_int_equal(json_value_kind(item), kinds[i]);
        assert_true(json_value_number(item) == numbers[i]);
        assert_null(json_value_key(item));
        assert_null(json_value_first(item));
    }
    assert_null(item);
    assert_string_equal(json_value_text(json_value_get(b, "c"), &length), "\xc3\xa9\n");
    assert_int_equal(length, 3);
    assert_null(json_value_text(a, &length));
    assert_int_equal(length, 0);
    json_tree_free(json);
}

static void trees_that_are_refused(void **state) {
    static const char *const texts[] = {"",    "{",     "[1,]",       "{\"a\"}", "[] []", "\"\xff\"", "{\"\xff\": 1}",
                                        "nul", "[1 2]", "\"\\u0000\""};
    struct json_problem problem;
    struct json_tree *json = NULL;
    char deep[1000];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const l3a_status status = json_tree_read("sample", texts[i], strlen(texts[i]), 100, &json, &problem);
        assert_true(status == L3A_ERROR_FORMAT || status == L3A_ERROR_TRUNCATED);
        assert_non_null(strstr(problem.text, "sample"));
    }
    memset(deep, '[', sizeof deep);
    assert_true(json_tree_read("sample", deep, sizeof deep, 10000, &json, &problem) != L3A_OK);
    assert_int_equal(json_tree_read("sample", "[1, 2, 3]", 9, 3, &json, &problem), L3A_ERROR_MEMORY);
    assert_int_equal(L3A_OK, json_tree_read("sample", "[1, 2, 3]", 9, 4, &json, &problem));
    json_tree_free(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_value_is_read),
        cmocka_unit_test(the_kind_of_the_next_value_is_known_before_it_is_read),
        cmocka_unit_test(items_of_an_array_come_in_order),
        cmocka_unit_test(empty_containers_have_no_value),
        cmocka_unit_test(skipping_passes_a_nested_value_and_nothing_else),
        cmocka_unit_test(a_key_is_found_at_its_own_level),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(surrogate_pairs_become_one_character),
        cmocka_unit_test(text_that_is_not_ascii_is_kept_as_it_stands),
        cmocka_unit_test(escapes_that_mean_nothing_are_refused),
        cmocka_unit_test(an_escaped_key_is_not_taken_for_a_known_one),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(a_bad_escape_is_named_where_it_stands),
        cmocka_unit_test(a_value_of_another_kind_is_refused),
        cmocka_unit_test(a_hundred_and_twenty_eight_levels_are_read_and_one_more_is_refused),
        cmocka_unit_test(levels_that_were_left_do_not_count),
        cmocka_unit_test(a_text_cut_at_any_byte_is_refused),
        cmocka_unit_test(whole_numbers_reach_the_largest_and_never_wrap_around),
        cmocka_unit_test(numbers_are_rounded_correctly),
        cmocka_unit_test(a_tree),
        cmocka_unit_test(trees_that_are_refused),
        cmocka_unit_test(texts_that_are_no_number_are_refused),
        cmocka_unit_test(a_number_as_text_is_short_and_reads_back),
        cmocka_unit_test(numbers_have_a_point_in_a_locale_with_a_comma),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
