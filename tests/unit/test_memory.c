/* What grows: arrays, lists and pools of texts, and texts under construction. Contents survive growth, growth is rare, and a failed
 * allocation changes nothing. */
#include "support.h"

#include "base/memory.h"
#include "memory_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static l3a_context *context;
static struct memory_probe probe;

static int set_up(void **state) {
    (void)state;
    probe = (struct memory_probe){0};
    context = make_probed_context(&probe, 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    l3a_context_free(context);
    assert_int_equal(probe.blocks, 0);
    return 0;
}

static void an_array_keeps_its_items_and_seldom_moves(void **state) {
    (void)state;
    enum { ITEMS = 100000 };
    uint64_t *items = NULL;
    size_t capacity = 0;
    probe_restart(&probe, 0, false);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_ok(context, grow_array(context, &items, &capacity, i + 1, sizeof *items));
        items[i] = i * i;
    }
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(items[i], i * i);
    }
    assert_in_range(probe.seen, 1, 17); /* log2(100000) is 16.6 */
    assert_in_range(capacity, ITEMS, 2 * ITEMS);
    release(context, items);
}

static void an_array_gets_all_the_room_that_is_needed_at_once(void **state) {
    (void)state;
    char *items = NULL;
    size_t capacity = 0;
    assert_ok(context, grow_array(context, &items, &capacity, 1000, 1));
    assert_true(capacity >= 1000);
    const size_t before = capacity;
    const char *const place = items;
    assert_ok(context, grow_array(context, &items, &capacity, before, 1));
    assert_ptr_equal(items, place);
    assert_int_equal(capacity, before);
    release(context, items);
}

static void a_failed_growth_changes_nothing(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t capacity = 0;
    assert_ok(context, grow_array(context, &items, &capacity, 3, sizeof *items));
    items[2] = 7;
    uint32_t *const place = items;
    const size_t before = capacity;
    probe_restart(&probe, 1, true);
    assert_fails(context, grow_array(context, &items, &capacity, before + 1, sizeof *items), L3A_ERROR_MEMORY, "out of memory");
    probe_restart(&probe, 0, false);
    assert_fails(context, grow_array(context, &items, &capacity, SIZE_MAX / 2, sizeof *items), L3A_ERROR_MEMORY, "out of memory");
    assert_ptr_equal(items, place);
    assert_int_equal(capacity, before);
    assert_int_equal(items[2], 7);
    release(context, items);
}

static void an_array_is_extended_with_zeros(void **state) {
    (void)state;
    size_t *items = NULL;
    assert_ok(context, extend_array(context, &items, 0, 2, sizeof *items));
    assert_true(items[0] == 0 && items[1] == 0);
    items[0] = 7;
    items[1] = 8;
    assert_ok(context, extend_array(context, &items, 2, 5, sizeof *items));
    assert_true(items[0] == 7 && items[1] == 8 && items[2] == 0 && items[3] == 0 && items[4] == 0);
    probe_restart(&probe, 1, true);
    assert_fails(context, extend_array(context, &items, 5, 6, sizeof *items), L3A_ERROR_MEMORY, "out of memory");
    assert_true(items[0] == 7 && items[4] == 0);
    probe_restart(&probe, 0, false);
    assert_ok(context, extend_array(context, &items, 0, 2, sizeof *items));
    assert_true(items[0] == 0 && items[1] == 0);
    release(context, items);
}

static void a_pool_and_a_list_hold_the_same_texts(void **state) {
    (void)state;
    enum { TEXTS = 3000 };
    text_pool pool = {0};
    text_list list = {0};
    char text[64];
    for (size_t i = 0; i < TEXTS; i++) {
        const int length = snprintf(text, sizeof text, "%.*s%zu", (int)(i % 40), "----------------------------------------", i);
        const size_t taken = i % 7 ? (size_t)length : 0; /* some are empty, and none needs a zero byte of its own */
        assert_ok(context, text_pool_add(context, &pool, text, taken));
        assert_ok(context, text_list_add(context, &list, text, taken));
        text[taken] = '\0';
        assert_string_equal(text_pool_at(&pool, i), text);
    }
    assert_int_equal(pool.count, TEXTS);
    assert_int_equal(list.count, TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_string_equal(text_pool_at(&pool, i), list.items[i]);
    }
    assert_null(text_pool_at(&pool, TEXTS));
    text_pool_clear(context, &pool);
    text_list_clear(context, &list);
    assert_null(text_pool_at(&pool, 0));
}

static void a_text_of_any_length_is_built(void **state) {
    (void)state;
    enum { LONGEST = 5000 };
    static char expected[LONGEST * (LONGEST + 1) / 2 / 7 + 3 * LONGEST], word[LONGEST + 1];
    text_builder built = {.context = context};
    size_t length = 0;
    memset(word, 'x', LONGEST);
    for (size_t i = 0; i < LONGEST; i += 7) {
        text_builder_print(&built, "%.*s,", (int)i, word);
        text_builder_append(&built, "yz", 2);
        memset(expected + length, 'x', i);
        memcpy(expected + length + i, ",yz", 3);
        length += i + 3;
        assert_int_equal(built.length, length);
        assert_int_equal(built.text[length], '\0');
    }
    assert_ok(context, built.status);
    assert_memory_equal(built.text, expected, length);
    text_builder_free(&built);
}

static void a_text_remembers_that_memory_was_short(void **state) {
    (void)state;
    text_builder built = {.context = context};
    text_builder_append(&built, "kept", 4);
    probe_restart(&probe, 1, true);
    text_builder_print(&built, "%100s", "");
    probe_restart(&probe, 0, false);
    text_builder_append(&built, "later", 5);
    assert_int_equal(built.status, L3A_ERROR_MEMORY);
    assert_string_equal(built.text, "kept");
    text_builder_free(&built);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_array_keeps_its_items_and_seldom_moves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_array_gets_all_the_room_that_is_needed_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_growth_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_array_is_extended_with_zeros, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pool_and_a_list_hold_the_same_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_of_any_length_is_built, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_remembers_that_memory_was_short, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
