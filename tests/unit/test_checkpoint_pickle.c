/* The pickle interpreter: what each operation makes, what is refused and where, and that nothing is ever run. */
#include "support.h"

#include "base/file.h"
#include "format/pickle.h"
#include "memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Pickles in memory ---- */

struct machine {
    l3a_context *context;
    input_file input;
    struct pickle pickle;
};

static l3a_status run(struct machine *machine, const char *bytes, size_t count) {
    memset(machine, 0, sizeof *machine);
    machine->context = make_context(1);
    hold_file(machine->context, bytes, count);
    assert_ok(machine->context, input_open(machine->context, "test.pkl", &machine->input));
    return pickle_read(&machine->input, 0, count, &machine->pickle);
}

static void finish(struct machine *machine) {
    pickle_free(&machine->pickle);
    input_close(&machine->input);
    l3a_context_free(machine->context);
}

static const struct pickle_value *root(const struct machine *machine) {
    return pickle_at(&machine->pickle, machine->pickle.root);
}

#define PICKLE(text) text, sizeof(text) - 1
#define RUN(machine, text)                                                                                                         \
    do {                                                                                                                           \
        const l3a_status run_status = run(machine, PICKLE(text));                                                                  \
        assert_ok((machine)->context, run_status);                                                                                 \
    } while (0)
#define REFUSED(text, expected, contains)                                                                                          \
    do {                                                                                                                           \
        struct machine refused;                                                                                                    \
        const l3a_status status = run(&refused, PICKLE(text));                                                                     \
        assert_fails(refused.context, status, expected, contains);                                                                 \
        finish(&refused);                                                                                                          \
    } while (0)

/* ---- Values ---- */

static void expect_integer(const char *bytes, size_t count, int64_t expected) {
    struct machine machine;
    const l3a_status status = run(&machine, bytes, count);
    assert_ok(machine.context, status);
    assert_int_equal(root(&machine)->kind, PICKLE_INTEGER);
    assert_true(root(&machine)->as.integer == expected);
    finish(&machine);
}

static void test_integers_of_every_form(void **state) {
    (void)state;
    expect_integer(PICKLE("K\xff."), 255);
    expect_integer(PICKLE("M\x01\x02."), 513);
    expect_integer(PICKLE("J\xfe\xff\xff\xff."), -2);
    expect_integer(PICKLE("\x8a\x00."), 0);
    expect_integer(PICKLE("\x8a\x01\xff."), -1);
    expect_integer(PICKLE("\x8a\x02\xff\x00."), 255);
    expect_integer(PICKLE("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), INT64_MIN);
    expect_integer(PICKLE("\x8b\x03\x00\x00\x00\x00\x00\x01."), 65536);
    expect_integer(PICKLE("I-17\n."), -17);
    expect_integer(PICKLE("L42L\n."), 42);
}

static void expect_kind(const char *bytes, size_t count, enum pickle_kind kind) {
    struct machine machine;
    const l3a_status status = run(&machine, bytes, count);
    assert_ok(machine.context, status);
    assert_int_equal(root(&machine)->kind, kind);
    finish(&machine);
}

static void test_kinds(void **state) {
    (void)state;
    expect_kind(PICKLE("N."), PICKLE_NONE);
    expect_kind(PICKLE("I01\n."), PICKLE_BOOLEAN);
    expect_kind(PICKLE("\x88."), PICKLE_BOOLEAN);
    expect_kind(PICKLE("F1.5\n."), PICKLE_NUMBER);
    expect_kind(PICKLE("G\x3f\xf8\0\0\0\0\0\0."), PICKLE_NUMBER);
    expect_kind(PICKLE("(K\1K\2l."), PICKLE_LIST);
    expect_kind(PICKLE("(K\1K\2t."), PICKLE_TUPLE);
    expect_kind(PICKLE("(K\1K\2d."), PICKLE_DICT);
    expect_kind(PICKLE("\x8f(K\1\x90."), PICKLE_SET);
    expect_kind(PICKLE("(K\1\x91."), PICKLE_SET);
    expect_kind(PICKLE("c__builtin__\nset\n](K\1K\2e\x85R."), PICKLE_SET);
    expect_kind(PICKLE("L999999999999999999999999L\n."), PICKLE_OPAQUE);
    expect_kind(PICKLE("\x8a\x09zzzzzzzzz."), PICKLE_OPAQUE);
    expect_kind(PICKLE("C\3abc."), PICKLE_OPAQUE);
    expect_kind(PICKLE("B\3\0\0\0abc."), PICKLE_OPAQUE);
    expect_kind(PICKLE("\x8e\3\0\0\0\0\0\0\0abc."), PICKLE_OPAQUE);
    expect_kind(PICKLE("\x96\3\0\0\0\0\0\0\0abc."), PICKLE_OPAQUE);
    expect_kind(PICKLE("Pan id\n."), PICKLE_OPAQUE);
    expect_kind(PICKLE("NQ."), PICKLE_OPAQUE);
}

static void test_texts_of_every_form(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
    } texts[] = {{PICKLE("S'abc'\n.")},  {PICKLE("S\"abc\"\n.")},
                 {PICKLE("Vabc\n.")},    {PICKLE("T\3\0\0\0abc.")},
                 {PICKLE("U\3abc.")},    {PICKLE("X\3\0\0\0abc.")},
                 {PICKLE("\x8c\3abc.")}, {PICKLE("\x80\4\x95\x0d\0\0\0\0\0\0\0\x8d\3\0\0\0\0\0\0\0abc.")}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct machine machine;
        const l3a_status status = run(&machine, texts[i].bytes, texts[i].count);
        assert_ok(machine.context, status);
        assert_true(pickle_is_text(&machine.pickle, machine.pickle.root, "abc"));
        finish(&machine);
    }
}

static void test_stack_and_memo(void **state) {
    (void)state;
    struct machine machine;
    uint32_t items[8];
    RUN(&machine, "](K\1q\0K\2p1\n0h\0g1\n2K\3r\4\0\0\0j\4\0\0\0e.");
    assert_int_equal(pickle_items(&machine.pickle, machine.pickle.root, items, 8), 6);
    static const int64_t expected[6] = {1, 1, 2, 2, 3, 3};
    for (size_t i = 0; i < 6; i++) {
        assert_true(pickle_at(&machine.pickle, items[i])->as.integer == expected[i]);
    }
    finish(&machine);
    expect_integer(PICKLE("K\5(K\6K\x07"
                          "1."),
                   5);
    expect_integer(PICKLE("K\5(0."), 5);
    expect_integer(PICKLE("K\5\x94K\6\x94"
                          "00h\0."),
                   5);
}

static void test_dicts_find_the_last_of_a_key(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "}(U\1aK\1U\1bK\2uU\1aK\3s.");
    assert_true(pickle_at(&machine.pickle, pickle_find(&machine.pickle, machine.pickle.root, "a"))->as.integer == 3);
    assert_true(pickle_at(&machine.pickle, pickle_find(&machine.pickle, machine.pickle.root, "b"))->as.integer == 2);
    assert_int_equal(pickle_find(&machine.pickle, machine.pickle.root, "c"), 0);
    finish(&machine);
}

static void test_the_ordered_dict_of_python_2(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "ccollections\nOrderedDict\n](](U\1aK\7e](U\1bK\x08"
                  "ee\x85R.");
    assert_int_equal(root(&machine)->kind, PICKLE_DICT);
    assert_true(pickle_at(&machine.pickle, pickle_find(&machine.pickle, machine.pickle.root, "b"))->as.integer == 8);
    finish(&machine);
}

#define STORAGE                                                                                                                    \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                                                         \
    "0U\3cpuK\6tQ"

static void test_a_tensor_and_its_parameter(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "ctorch._utils\n_rebuild_parameter\n(ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE
                  "K\1K\2K\2\x86K\1K\2\x86\x89NtR\x88NtR.");
    assert_int_equal(root(&machine)->kind, PICKLE_TENSOR);
    const struct pickle_tensor *tensor = &machine.pickle.tensors.items[root(&machine)->as.index];
    assert_int_equal(tensor->type, TENSOR_F32);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->first, 1);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->stride[1], 2);
    assert_int_equal(machine.pickle.storages.items[tensor->storage].elements, 6);
    finish(&machine);
}

static void test_a_tensor_of_untyped_bytes_has_the_type_it_says(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "ctorch._utils\n_rebuild_tensor_v3\n((U\7storagectorch.storage\nUntypedStorage\nU\1"
                  "0U\3cpuK\6tQ"
                  "K\0K\3\x85K\1\x85\x89Nctorch\nbfloat16\ntR.");
    assert_int_equal(root(&machine)->kind, PICKLE_TENSOR);
    assert_int_equal(machine.pickle.tensors.items[root(&machine)->as.index].type, TENSOR_BF16);
    finish(&machine);
}

static void test_a_tensor_of_a_class_of_its_own_is_still_a_tensor(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\ncmy\nTensor\n(" STORAGE
                  "K\0K\6\x85K\1\x85\x89Nt}tR.");
    assert_int_equal(root(&machine)->kind, PICKLE_TENSOR);
    assert_int_equal(machine.pickle.tensors.items[root(&machine)->as.index].shape[0], 6);
    finish(&machine);
}

static void test_a_storage_that_is_a_view_of_another(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "(U\7storagectorch.cuda\nHalfStorage\nU\1"
                  "0U\3cpuK\6(U\1vK\2K\3ttQ.");
    assert_int_equal(root(&machine)->kind, PICKLE_STORAGE);
    assert_int_equal(machine.pickle.storages.items[0].first, 2);
    assert_int_equal(machine.pickle.storages.items[0].type, TENSOR_F16);
    finish(&machine);
}

static void test_an_object_of_torchscript_is_its_attributes(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "c__torch__.torch.nn\nLinear\n)\x81}U\1aK\7sb.");
    assert_int_equal(root(&machine)->kind, PICKLE_OBJECT);
    const uint32_t seven = pickle_find(&machine.pickle, root(&machine)->as.index, "a");
    assert_int_equal(pickle_at(&machine.pickle, seven)->as.integer, 7);
    finish(&machine);
    RUN(&machine, "c__torch__\nEmpty\n)\x81K\1\x85"
                  "b.");
    assert_int_equal(root(&machine)->kind, PICKLE_OBJECT);
    assert_int_equal(root(&machine)->as.index, 0);
    finish(&machine);
    expect_kind(PICKLE("c__torch__x\nLinear\n)\x81}U\1aK\7sb."), PICKLE_OPAQUE);
    expect_kind(PICKLE("c__torch\nLinear\n)\x81}U\1aK\7sb."), PICKLE_OPAQUE);
    REFUSED("c__torch__\nNet\n)\x81U\1aK\7s.", L3A_ERROR_FORMAT, "not a container");
}

static void test_values_that_contain_themselves(void **state) {
    (void)state;
    struct machine machine;
    RUN(&machine, "]q\0h\0a.");
    assert_int_equal(root(&machine)->as.items.count, 1);
    finish(&machine);
    RUN(&machine, "}q\0U\5modelh\0s.");
    assert_int_equal(pickle_find(&machine.pickle, machine.pickle.root, "model"), machine.pickle.root);
    finish(&machine);
    RUN(&machine, "ccollections\nOrderedDict\n]q\0(h\0h\0e\x85R.");
    finish(&machine);
}

/* ---- Refusals ---- */

static void test_refusals_name_the_byte(void **state) {
    (void)state;
    REFUSED("K\1\xff.", L3A_ERROR_FORMAT, "test.pkl: byte 2: ff is not a pickle operation");
    REFUSED("K\1\x97.", L3A_ERROR_FORMAT, "byte 2");
    REFUSED("\x80\6N.", L3A_ERROR_VERSION, "protocol 6");
    REFUSED("N", L3A_ERROR_TRUNCATED, "byte 1");
    REFUSED("X\xff\xff\xff\xff"
            "abc.",
            L3A_ERROR_TRUNCATED, "byte 0");
    REFUSED("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "abc.",
            L3A_ERROR_TRUNCATED, "byte 0");
    REFUSED("\x95\xff\xff\xff\xff\xff\xff\xff\xff.", L3A_ERROR_TRUNCATED, "byte 0");
    REFUSED("Vabc", L3A_ERROR_TRUNCATED, "byte 0");
    REFUSED("I1x\n.", L3A_ERROR_FORMAT, "not a digit");
    REFUSED("Sabc\n.", L3A_ERROR_FORMAT, "quotes");
    REFUSED(".", L3A_ERROR_FORMAT, "too few values");
    REFUSED("0.", L3A_ERROR_FORMAT, "too few values");
    REFUSED("K\1(\x85.", L3A_ERROR_FORMAT, "too few values");
    REFUSED("t.", L3A_ERROR_FORMAT, "no mark");
    REFUSED("(e.", L3A_ERROR_FORMAT, "without a container");
    REFUSED("K\1K\2a.", L3A_ERROR_FORMAT, "not a container");
    REFUSED("]K\1K\2s.", L3A_ERROR_FORMAT, "not a container");
    REFUSED("}(K\1u.", L3A_ERROR_FORMAT, "key without a value");
    REFUSED("(K\1d.", L3A_ERROR_FORMAT, "key without a value");
    REFUSED("h\7.", L3A_ERROR_FORMAT, "memo 7");
    REFUSED("Nr\xff\xff\xff\x7f.", L3A_ERROR_FORMAT, "byte 1: memo 2147483647");
    REFUSED("NN\x93.", L3A_ERROR_FORMAT, "not text");
    REFUSED("ccollections\nOrderedDict\n](K\1e\x85R.", L3A_ERROR_FORMAT, "pairs");
    REFUSED("ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\0K\2\x85)tR.", L3A_ERROR_FORMAT, "of a tensor cannot be parsed");
    REFUSED("ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "J\xff\xff\xff\xff))tR.", L3A_ERROR_FORMAT,
            "of a tensor cannot be parsed");
    REFUSED("ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\0(K\1K\1K\1K\1K\1K\1K\1K\1K\1tq\0h\0tR.", L3A_ERROR_FORMAT,
            "of a tensor cannot be parsed");
    REFUSED("(U\7storagectorch\nFloatStorage\nK\0U\3cpuK\6tQ.", L3A_ERROR_FORMAT, "of a storage cannot be parsed");
}

static void test_too_much_of_anything_is_refused(void **state) {
    (void)state;
    enum { COUNT = 9 << 20 };
    static const struct {
        char operation;
        const char *says;
    } bombs[] = {{'(', "marks"}, {'N', "on the stack"}};
    char *bytes = malloc(COUNT);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
        struct machine machine;
        memset(bytes, bombs[i].operation, COUNT);
        const l3a_status status = run(&machine, bytes, COUNT);
        assert_fails(machine.context, status, L3A_ERROR_FORMAT, bombs[i].says);
        finish(&machine);
    }
    for (size_t i = 0; i < COUNT; i++) {
        bytes[i] = "N0"[i % 2];
    }
    struct machine machine;
    const l3a_status status = run(&machine, bytes, COUNT);
    assert_int_equal(status, L3A_ERROR_TRUNCATED);
    finish(&machine);
    free(bytes);
}

/* ---- Nothing is run ---- */

static void test_commands_are_not_run(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *made = path_in(folder, "made"), bytes[600];
    static const char *const attacks[] = {
        "cos\nsystem\n(X%c%c%c%c%s"
        "tR.",
        "cposix\nsystem\n(X%c%c%c%c%s"
        "tR.",
        "\x80\4U\2osU\6system\x93(X%c%c%c%c%s"
        "tR.",
        "(X%c%c%c%c%s"
        "ios\nsystem\n.",
        "(cos\nsystem\nX%c%c%c%c%s"
        "o.",
        "cos\nsystem\n(X%c%c%c%c%s"
        "t\x81.",
        "cos\nsystem\n(X%c%c%c%c%s"
        "t}\x92.",
        "}U\1wcos\nsystem\n(X%c%c%c%c%s"
        "tRs.",
        "cbuiltins\neval\n(X%c%c%c%c%s"
        "tR.",
        "ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nN(X%c%c%c%c%s"
        "tNtR.",
        "\x82\1(X%c%c%c%c%s"
        "tR.",
        "ccollections\nOrderedDict\n)R}U\x08__setstate__cos\nsystem\nsX%c%c%c%c%s"
        "\x85"
        "b.",
    };
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        char command[256];
        struct machine machine;
        const int length = snprintf(command, sizeof command, "touch %s", made);
        const int count = snprintf(bytes, sizeof bytes, attacks[i], length, 1, 1, 1, command);
        char *zeros = memchr(bytes, 'X', (size_t)count);
        zeros[2] = zeros[3] = zeros[4] = 0;
        (void)run(&machine, bytes, (size_t)count);
        finish(&machine);
        assert_int_not_equal(access(made, F_OK), 0);
    }
    free(made);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_of_every_form),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_texts_of_every_form),
        cmocka_unit_test(test_stack_and_memo),
        cmocka_unit_test(test_dicts_find_the_last_of_a_key),
        cmocka_unit_test(test_the_ordered_dict_of_python_2),
        cmocka_unit_test(test_a_tensor_and_its_parameter),
        cmocka_unit_test(test_a_tensor_of_untyped_bytes_has_the_type_it_says),
        cmocka_unit_test(test_a_tensor_of_a_class_of_its_own_is_still_a_tensor),
        cmocka_unit_test(test_a_storage_that_is_a_view_of_another),
        cmocka_unit_test(test_an_object_of_torchscript_is_its_attributes),
        cmocka_unit_test(test_values_that_contain_themselves),
        cmocka_unit_test(test_refusals_name_the_byte),
        cmocka_unit_test(test_too_much_of_anything_is_refused),
        cmocka_unit_test(test_commands_are_not_run),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    release_file();
    return failed;
}
