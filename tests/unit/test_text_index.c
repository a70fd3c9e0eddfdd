/* Texts by name: the same as a search from the first text on, for lists with and without repeated texts. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/text_index.h"
#include "fixture.h"

#include <stdio.h>
#include <string.h>

/* The obvious way. */
static size_t first_repeated(const text_list *texts, size_t *first) {
    for (size_t i = 0; i < texts->count; i++) {
        *first = text_list_find(texts, texts->items[i]);
        if (*first < i) {
            return i;
        }
    }
    return texts->count;
}

/* The same texts in a pool are found at the same places. */
static void assert_same_in_a_pool(const text_list *texts) {
    text_pool pool = {0};
    text_index index;
    for (size_t i = 0; i < texts->count; i++) {
        assert_ok(context, text_pool_add(context, &pool, texts->items[i], strlen(texts->items[i])));
    }
    assert_ok(context, text_index_make_pool(context, &pool, &index));
    for (size_t i = 0; i < texts->count; i++) {
        assert_int_equal(text_index_find(&index, texts->items[i]), text_list_find(texts, texts->items[i]));
    }
    text_index_free(context, &index);
    text_pool_clear(context, &pool);
}

static void assert_as_obvious(const text_list *texts, size_t kinds) {
    text_index index;
    size_t first = 0, expected = 0;
    char name[16];
    assert_ok(context, text_index_make(context, texts->items, texts->count, &index));
    for (size_t i = 0; i <= kinds; i++) {
        snprintf(name, sizeof name, "%zu", i);
        assert_int_equal(text_index_find(&index, name), text_list_find(texts, name));
    }
    assert_int_equal(text_index_find(&index, ""), text_list_find(texts, ""));
    assert_same_in_a_pool(texts);
    const size_t repeated = first_repeated(texts, &expected);
    assert_int_equal(text_index_repeated(&index, &first), repeated);
    if (repeated < texts->count) {
        assert_int_equal(first, expected);
    }
    size_t order[64];
    text_index_order(&index, order);
    for (size_t i = 1; i < texts->count; i++) {
        const int side = strcmp(texts->items[order[i - 1]], texts->items[order[i]]);
        assert_true(side < 0 || (side == 0 && order[i - 1] < order[i]));
    }
    text_index_free(context, &index);
}

static void texts_are_found_as_by_a_search_through_all(void **state) {
    (void)state;
    for (size_t round = 0; round < 300; round++) {
        const size_t count = random_bits(1, round) % 40, kinds = 1 + random_bits(2, round) % 60;
        text_list texts = {0};
        char name[16];
        for (size_t i = 0; i < count; i++) {
            const int length = snprintf(name, sizeof name, "%zu", (size_t)(random_bits(3 + round, i) % kinds));
            assert_ok(context, text_list_add(context, &texts, name, (size_t)length));
        }
        assert_as_obvious(&texts, kinds);
        text_list_clear(context, &texts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_found_as_by_a_search_through_all)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
