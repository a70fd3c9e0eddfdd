/* Skipping lists of numbers many bytes at a time must accept, refuse and stop exactly where a reader that takes one number after
 * the other does. */
#include "support.h"

#include "base/random.h"
#include "fixture.h"
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The obvious way: one item at a time. */
static l3a_status read_numbers(struct json *json) {
    l3a_status status = L3A_OK;
    bool more = true;
    double value;
    TRY(json_array(json));
    for (;;) {
        TRY(json_next_item(json, &more));
        if (!more) {
            break;
        }
        TRY(json_peek(json) == JSON_NUMBER ? json_number(json, &value) : json_skip(json));
    }
done:
    return status;
}

/* In memory of exactly that size, so that a sanitizer detects reading one byte too many. */
static void assert_same(const char *text, size_t length) {
    char *copy = malloc(length), skipped[1024] = "", reading[1024] = "";
    struct json fast, slow;
    assert_non_null(copy);
    memcpy(copy, text, length);
    json_begin(&fast, context, "list", copy, length);
    json_begin(&slow, context, "list", copy, length);
    const l3a_status fast_status = json_skip(&fast);
    snprintf(skipped, sizeof skipped, "%s", fast_status == L3A_OK ? "" : l3a_error_text(context));
    const l3a_status slow_status = read_numbers(&slow);
    snprintf(reading, sizeof reading, "%s", slow_status == L3A_OK ? "" : l3a_error_text(context));
    if (fast_status != slow_status || fast.at != slow.at || strcmp(skipped, reading) != 0) {
        print_error("%.*s\n  skipped: %s\n  read: %s\n", (int)length, text, skipped, reading);
    }
    assert_int_equal(fast_status, slow_status);
    assert_ptr_equal(fast.at, slow.at);
    assert_string_equal(skipped, reading);
    free(copy);
}

static size_t make_list(uint64_t seed, char *text, size_t capacity) {
    size_t length = 1;
    text[0] = '[';
    const uint64_t count = random_bits(seed, 0) % 80;
    for (uint64_t i = 0; i < count && length + 64 < capacity; i++) {
        const uint64_t bits = random_bits(seed, i + 1);
        const double value = (double)(bits % 1000000) / 100 - 500;
        const char *separator = !i ? "" : bits >> 60 == 0 ? " ,\n " : bits >> 61 == 1 ? ", " : ",";
        length += (size_t)snprintf(text + length, capacity - length,
                                   bits >> 58 == 3 ? "%s%g"
                                   : bits >> 63    ? "%s%.2f"
                                                   : "%s%.0f",
                                   separator, value);
    }
    text[length++] = ']';
    return length;
}

static void lists_of_numbers_are_skipped_to_their_end(void **state) {
    (void)state;
    char text[8192];
    for (uint64_t seed = 0; seed < 2000; seed++) {
        assert_same(text, make_list(seed, text, sizeof text));
    }
}

static void one_wrong_byte_is_found_where_it_stands(void **state) {
    (void)state;
    static const char bytes[] = "0123456789.,-+eE []{}\"x\n";
    char text[8192];
    for (uint64_t seed = 0; seed < 40000; seed++) {
        const size_t length = make_list(seed % 500, text, sizeof text);
        const uint64_t bits = random_bits(seed, 1000);
        text[1 + bits % (length - 1)] = bytes[(bits >> 32) % (sizeof bytes - 1)];
        assert_same(text, length);
    }
}

static void a_list_cut_anywhere_is_refused(void **state) {
    (void)state;
    char text[8192];
    const size_t length = make_list(3, text, sizeof text);
    for (size_t cut = 1; cut < length; cut++) {
        assert_same(text, cut);
    }
}

static void every_short_list_of_few_bytes_is_judged_alike(void **state) {
    (void)state;
    enum { SHORT = 5 };
    static const char bytes[] = "12.,- ";
    const char *const tail = ",34.5,67,-8.25,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]";
    size_t combinations = 1;
    for (int i = 0; i < SHORT; i++) {
        combinations *= sizeof bytes - 1;
    }
    for (size_t number = 0; number < combinations; number++) {
        char text[128] = "[";
        size_t rest = number;
        for (int i = 0; i < SHORT; i++) {
            text[1 + i] = bytes[rest % (sizeof bytes - 1)];
            rest /= sizeof bytes - 1;
        }
        strcpy(text + 1 + SHORT, tail);
        assert_same(text, strlen(text));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_numbers_are_skipped_to_their_end),
        cmocka_unit_test(one_wrong_byte_is_found_where_it_stands),
        cmocka_unit_test(a_list_cut_anywhere_is_refused),
        cmocka_unit_test(every_short_list_of_few_bytes_is_judged_alike),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
