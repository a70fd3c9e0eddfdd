/* Protocols and class orders: which classes come in which phase. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

typedef struct protocol_case {
    const char *text;
    size_t classes, phases;
    size_t bounds[12];
} protocol_case;

static const protocol_case protocols[] = {
    {"B0-C10", 80, 8, {0, 10, 20, 30, 40, 50, 60, 70, 80}},
    {"B40-C10", 80, 5, {0, 40, 50, 60, 70, 80}},
    {"B0-C4", 20, 5, {0, 4, 8, 12, 16, 20}},
    {"B10-C2", 20, 6, {0, 10, 12, 14, 16, 18, 20}},
    {"B0-C7", 20, 3, {0, 7, 14, 20}},
    {"B5-C6", 20, 4, {0, 5, 11, 17, 20}},
    {"B19-C4", 20, 2, {0, 19, 20}},
    {"B20-C4", 20, 1, {0, 20}},
    {"B0-C20", 20, 1, {0, 20}},
    {"B0-C99", 20, 1, {0, 20}},
    {"B1-C1", 3, 3, {0, 1, 2, 3}},
    {"B1-C18446744073709551615", 3, 2, {0, 1, 3}},
    {"B0-C1", 1, 1, {0, 1}},
};

static void protocols_cut_the_classes_into_phases(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++) {
        const protocol_case *p = &protocols[i];
        size_t bounds[81], phases = 0;
        assert_ok(context, l3a_protocol_parse(context, p->text, p->classes, bounds, &phases));
        assert_int_equal(phases, p->phases);
        assert_memory_equal(bounds, p->bounds, (phases + 1) * sizeof *bounds);
    }
    l3a_context_free(context);
}

static void texts_that_are_no_protocol_are_refused_and_nothing_is_written(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "B",
                                      "B0",
                                      "B0-",
                                      "B0-C",
                                      "B-C10",
                                      "B0-C0",
                                      "b0-c4",
                                      "B0-C4 ",
                                      " B0-C4",
                                      "B0C4",
                                      "B0-C-4",
                                      "B+0-C4",
                                      "B0-C4x",
                                      "C4-B0",
                                      "B0--C4",
                                      "B0-C4-C4",
                                      "B1.5-C4",
                                      "B0x1-C4",
                                      "10-2",
                                      "B0-C99999999999999999999",
                                      "B18446744073709551616-C1"};
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t bounds[21] = {77}, phases = 66;
        assert_fails(context, l3a_protocol_parse(context, bad[i], 20, bounds, &phases), L3A_ERROR_OPTION, bad[i]);
        assert_int_equal(bounds[0], 77);
        assert_int_equal(phases, 66);
    }
    l3a_context_free(context);
}

static void a_base_larger_than_the_data_is_refused(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    size_t bounds[21], phases;
    assert_fails(context, l3a_protocol_parse(context, "B21-C2", 20, bounds, &phases), L3A_ERROR_OPTION, "21 classes");
    l3a_context_free(context);
}

enum { NAMES = 7 };

/* Bytes, not letters: capitals before small ones, and everything outside ASCII after both. */
static const char *const names[NAMES] = {"zebra", "cat", "\xc3\xa9l\xc3\xa9phant", "Zoo", "cat ", "apple", "ca"};
static const size_t by_bytes[NAMES] = {3, 5, 6, 1, 4, 0, 2};

static void lexicographic_order_is_by_bytes(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    size_t order[NAMES];
    assert_ok(context, l3a_class_order(context, names, NAMES, "lexicographic", order));
    assert_memory_equal(order, by_bytes, sizeof order);
    l3a_context_free(context);
}

enum { MANY = 40 };

static void many_names(char texts[MANY][8], const char *list[MANY], size_t turn) {
    for (size_t i = 0; i < MANY; i++) {
        const size_t number = (i * 7 + turn) % MANY;
        texts[i][0] = 'n';
        texts[i][1] = (char)('0' + number / 10);
        texts[i][2] = (char)('0' + number % 10);
        texts[i][3] = '\0';
        list[i] = texts[i];
    }
}

static void shuffled(l3a_context *context, size_t turn, const char *how, char out[MANY][8]) {
    char texts[MANY][8];
    const char *list[MANY];
    size_t order[MANY];
    many_names(texts, list, turn);
    assert_ok(context, l3a_class_order(context, list, MANY, how, order));
    for (size_t i = 0; i < MANY; i++) {
        assert_true(order[i] < MANY);
        memcpy(out[i], list[order[i]], 8);
    }
}

static int compare_texts(const void *left, const void *right) {
    return strcmp(left, right);
}

static void a_shuffle_is_a_permutation(void **state) {
    (void)state;
    static const char *const seeds[] = {"shuffle:0", "shuffle:1", "shuffle:2025", "shuffle:18446744073709551615"};
    l3a_context *context = make_context(1);
    char sorted[MANY][8] = {{0}}, out[MANY][8] = {{0}};
    shuffled(context, 0, "lexicographic", sorted);
    for (size_t i = 0; i < 4; i++) {
        shuffled(context, 0, seeds[i], out);
        assert_memory_not_equal(out, sorted, sizeof out);
        qsort(out, MANY, sizeof out[0], compare_texts);
        for (size_t j = 0; j < MANY; j++) {
            assert_string_equal(out[j], sorted[j]);
        }
    }
    l3a_context_free(context);
}

static void a_shuffle_depends_on_its_seed_only(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char first[MANY][8], again[MANY][8], other[MANY][8];
    shuffled(context, 0, "shuffle:3", first);
    shuffled(context, 5, "shuffle:3", again);
    shuffled(context, 0, "shuffle:4", other);
    int different = 0;
    for (size_t i = 0; i < MANY; i++) {
        assert_string_equal(first[i], again[i]);
        different += strcmp(first[i], other[i]) != 0;
    }
    assert_true(different > MANY / 2);
    l3a_context_free(context);
}

static void a_shuffle_needs_a_whole_number(void **state) {
    (void)state;
    static const char *const bad[] = {"shuffle:", "shuffle:x", "shuffle:-1", "shuffle:1.5", "shuffle:18446744073709551616"};
    l3a_context *context = make_context(1);
    size_t order[NAMES];
    for (size_t i = 0; i < 5; i++) {
        assert_fails(context, l3a_class_order(context, names, NAMES, bad[i], order), L3A_ERROR_OPTION, bad[i]);
    }
    l3a_context_free(context);
}

typedef struct order_file {
    l3a_context *context;
    char *folder, *path;
} order_file;

static int set_up(void **state) {
    order_file *f = calloc(1, sizeof *f);
    f->context = make_context(1);
    f->folder = make_temporary_folder();
    f->path = path_in(f->folder, "order.txt");
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    order_file *f = *state;
    l3a_context_free(f->context);
    free(f->path);
    remove_folder(f->folder);
    free(f);
    return 0;
}

static const char *const pets[] = {"cat", "dog", "eel"};

static void check_good_file(order_file *f, const char *text) {
    size_t order[3];
    write_bytes(f->path, text, strlen(text));
    assert_ok(f->context, l3a_class_order(f->context, pets, 3, f->path, order));
    assert_memory_equal(order, ((const size_t[]){2, 0, 1}), sizeof order);
}

static void a_file_orders_the_classes_as_its_lines(void **state) {
    check_good_file(*state, "eel\ncat\ndog\n");
    check_good_file(*state, "eel\ncat\ndog");
    check_good_file(*state, "eel\r\ncat\r\ndog\r\n");
}

static void check_bad_file(order_file *f, const char *text, const char *says) {
    size_t order[3] = {7, 7, 7};
    write_bytes(f->path, text, strlen(text));
    assert_fails(f->context, l3a_class_order(f->context, pets, 3, f->path, order), L3A_ERROR_CLASS, says);
    assert_memory_equal(order, ((const size_t[]){7, 7, 7}), sizeof order);
}

static void a_file_must_name_every_class_once(void **state) {
    check_bad_file(*state, "eel\ncat\n", "class 'dog' is missing");
    check_bad_file(*state, "", "class 'cat' is missing");
    check_bad_file(*state, "eel\ncow\ndog\n", "line 2: no class 'cow'");
    check_bad_file(*state, "eel\nCat\ndog\n", "line 2: no class 'Cat'");
    check_bad_file(*state, "eel\ncat\neel\n", "line 3: class 'eel' is listed twice");
    check_bad_file(*state, "eel\ncat\ndog\ncat\n", "line 4: class 'cat' is listed twice");
}

static void a_file_that_is_not_there_is_named(void **state) {
    order_file *f = *state;
    size_t order[3];
    assert_fails(f->context, l3a_class_order(f->context, pets, 3, f->path, order), L3A_ERROR_NOT_FOUND, "order.txt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protocols_cut_the_classes_into_phases),
        cmocka_unit_test(texts_that_are_no_protocol_are_refused_and_nothing_is_written),
        cmocka_unit_test(a_base_larger_than_the_data_is_refused),
        cmocka_unit_test(lexicographic_order_is_by_bytes),
        cmocka_unit_test(a_shuffle_is_a_permutation),
        cmocka_unit_test(a_shuffle_depends_on_its_seed_only),
        cmocka_unit_test(a_shuffle_needs_a_whole_number),
        cmocka_unit_test_setup_teardown(a_file_orders_the_classes_as_its_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_must_name_every_class_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_not_there_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
