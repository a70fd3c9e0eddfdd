/* The settings: every field gets its default, every range has its ends, and what is mistyped is answered with a suggestion.
 * Defaults and ranges stand here a second time, so that a change of either is a change of both on purpose. */
#include "support.h"

#include "common/closest.h"
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static l3a_options defaults(void) {
    l3a_options options;
    options_default(&options);
    return options;
}

static const struct {
    const char *name, *value;
} default_texts[] = {{"dim", "8192"},
                     {"seed", "2025"},
                     {"gamma", "1000"},
                     {"weights", "sqrt"},
                     {"scaling", "normalised"},
                     {"pseudo", "fixed"},
                     {"eta", "0.7"},
                     {"tau", "2.9"},
                     {"total-classes", "0"},
                     {"theta", "0.525"},
                     {"precision", "mixed"},
                     {"solver", "auto"},
                     {"store", "float64"},
                     {"block", "4096"},
                     {"alpha", "1"},
                     {"lift", "0"},
                     {"skip-features", "off"},
                     {"thresholds", "fixed"},
                     {"keep-phases", "0"},
                     {"gamma-from", "images"},
                     {"views", "1"},
                     {"score-views", "0"},
                     {"pseudo-from", "mean"},
                     {"beta", "auto"},
                     {"privacy-limit", "64"},
                     {"ratio", "1"},
                     {"kernel-width", "0.5"},
                     {"shrinkage", "1e-4"},
                     {"loss", "asl"},
                     {"epochs", "0"},
                     {"batch", "0"},
                     {"first-rate", "0"},
                     {"rate", "0"},
                     {"lambda", "0"},
                     {"memory", "0"},
                     {"memory-per", "method"},
                     {"head-input", "features"},
                     {"head-theta", "0.8"},
                     {"train-backbone", "off"},
                     {"backbone-rate", "0"},
                     {"krt-width", "0"},
                     {"krt-leak", "off"},
                     {"csc-form", "paper"}};
enum { SETTINGS = sizeof default_texts / sizeof default_texts[0], MODEL_SETTINGS = 25 };

static bool is_for_comparison(const char *name) {
    static const char *const names[] = {"ratio",      "kernel-width",   "shrinkage",     "loss",      "epochs",     "batch",
                                        "first-rate", "rate",           "lambda",        "memory",    "memory-per", "head-input",
                                        "head-theta", "train-backbone", "backbone-rate", "krt-width", "krt-leak",   "csc-form"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || strcmp(names[i], name) == 0;
    }
    return found;
}

static void every_field_gets_its_default(void **state) {
    (void)state;
    l3a_options options;
    memset(&options, 0xA5, sizeof options);
    options_default(&options);
    assert_int_equal(options.model.dim, 8192);
    assert_int_equal(options.model.seed, 2025);
    assert_true(options.model.gamma == 1000);
    assert_int_equal(options.model.weights, L3A_WEIGHTS_SQRT);
    assert_int_equal(options.model.scaling, L3A_SCALING_NORMALISED);
    assert_int_equal(options.model.pseudo, L3A_PSEUDO_FIXED);
    assert_true(options.model.eta == 0.7);
    assert_true(options.model.tau == 2.9);
    assert_int_equal(options.model.total_classes, 0);
    assert_true(options.model.theta == 0.525);
    assert_int_equal(options.model.precision, L3A_PRECISION_MIXED);
    assert_int_equal(options.model.solver, L3A_SOLVER_AUTO);
    assert_int_equal(options.model.store, L3A_STORE_FLOAT64);
    assert_int_equal(options.model.block, 4096);
    assert_true(options.model.alpha == 1);
    assert_true(options.model.lift == 0);
    assert_int_equal(options.model.skip_features, L3A_SKIP_OFF);
    assert_int_equal(options.model.thresholds, L3A_THRESHOLDS_FIXED);
    assert_int_equal(options.model.keep_phases, 0);
    assert_int_equal(options.model.views, 1);
    assert_int_equal(options.model.score_views, 0);
    assert_int_equal(options.model.pseudo_from, L3A_PSEUDO_FROM_MEAN);
    assert_true(options.model.beta == 0);
    assert_int_equal(options.model.privacy_limit, 64);
    assert_true(options.method.ratio == 1);
    assert_true(options.method.kernel_width == 0.5);
    assert_true(options.method.shrinkage == 1e-4);
    assert_int_equal(options.method.loss, L3A_LOSS_ASYMMETRIC);
    assert_int_equal(options.method.epochs, 0);
    assert_int_equal(options.method.batch, 0);
    assert_true(options.method.first_rate == 0);
    assert_true(options.method.rate == 0);
    assert_true(options.method.lambda == 0);
    assert_int_equal(options.method.memory, 0);
    assert_int_equal(options.method.memory_per, L3A_MEMORY_PER_METHOD);
    assert_int_equal(options.method.head_input, L3A_HEAD_INPUT_FEATURES);
    assert_true(options.method.head_theta == 0.8);
}

static void no_byte_of_garbage_outlives_the_defaults(void **state) {
    (void)state;
    l3a_options left, right;
    memset(&left, 0xA5, sizeof left);
    memset(&right, 0x5A, sizeof right);
    options_default(&left);
    options_default(&right);
    assert_memory_equal(&left, &right, sizeof left);
    assert_ok(context, l3a_options_check(context, &left));
}

static void the_table_lists_every_setting_with_its_default(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        const l3a_option_info *info = l3a_option_at(i);
        assert_non_null(info);
        assert_string_equal(info->name, default_texts[i].name);
        assert_string_equal(info->fallback, default_texts[i].value);
        assert_true(strlen(info->help) > 0);
        assert_string_equal(info->group, is_for_comparison(info->name) ? "comparison" : "model");
        assert_int_equal(info->choices != NULL, info->type == L3A_OPTION_CHOICE);
    }
    assert_null(l3a_option_at(SETTINGS));
    assert_null(l3a_option_at(SIZE_MAX));
}

static l3a_status set(const char *name, const char *value) {
    l3a_options options = defaults();
    const l3a_options before = options;
    const l3a_status status = l3a_options_set(context, &options, name, value);
    if (status == L3A_OK) {
        assert_ok(context, l3a_options_check(context, &options));
    } else {
        assert_memory_equal(&options, &before, sizeof options);
    }
    return status;
}

static void values_in_range_are_accepted_up_to_the_ends(void **state) {
    (void)state;
    static const char *const good[][2] = {{"dim", "1"},
                                          {"dim", "1048576"},
                                          {"seed", "0"},
                                          {"seed", "9007199254740992"},
                                          {"gamma", "5e-324"},
                                          {"gamma", "1.7976931348623157e308"},
                                          {"beta", "auto"},
                                          {"beta", "1e6"},
                                          {"eta", "5e-324"},
                                          {"eta", "0.9999999999999999"},
                                          {"tau", "1e-9"},
                                          {"tau", "1e6"},
                                          {"tau", "1000000"},
                                          {"total-classes", "0"},
                                          {"total-classes", "1048576"},
                                          {"theta", "1e-300"},
                                          {"theta", "0.9999999999999999"},
                                          {"block", "1"},
                                          {"block", "1048576"},
                                          {"weights", "sqrt"},
                                          {"weights", "inv"},
                                          {"weights", "log"},
                                          {"weights", "none"},
                                          {"scaling", "normalised"},
                                          {"scaling", "literal"},
                                          {"pseudo", "fixed"},
                                          {"pseudo", "dynamic"},
                                          {"pseudo", "off"},
                                          {"pseudo-from", "whole"},
                                          {"pseudo-from", "mean"},
                                          {"pseudo-from", "combined"},
                                          {"precision", "mixed"},
                                          {"precision", "double"},
                                          {"solver", "auto"},
                                          {"solver", "sums"},
                                          {"solver", "recursive"},
                                          {"solver", "scalapack"},
                                          {"store", "float64"},
                                          {"store", "float32"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(context, set(good[i][0], good[i][1]));
    }
}

static void values_out_of_range_are_refused_and_change_nothing(void **state) {
    (void)state;
    static const char *const bad[][2] = {{"dim", "0"},
                                         {"dim", "1048577"},
                                         {"dim", "-1"},
                                         {"dim", "8192.0"},
                                         {"dim", "8e3"},
                                         {"dim", ""},
                                         {"dim", " 5"},
                                         {"dim", "5 "},
                                         {"seed", "9007199254740993"},
                                         {"seed", "18446744073709551615"},
                                         {"seed", "18446744073709551616"},
                                         {"gamma", "0"},
                                         {"gamma", "-0.0"},
                                         {"gamma", "-1"},
                                         {"gamma", "1e309"},
                                         {"gamma", "inf"},
                                         {"gamma", "nan"},
                                         {"gamma", "0x10"},
                                         {"gamma", "1,5"},
                                         {"gamma", ""},
                                         {"beta", "0"},
                                         {"beta", "1e7"},
                                         {"beta", "automatic"},
                                         {"eta", "0"},
                                         {"eta", "1"},
                                         {"tau", "0"},
                                         {"tau", "1000000.1"},
                                         {"total-classes", "1048577"},
                                         {"theta", "0"},
                                         {"theta", "1"},
                                         {"ratio", "-1"},
                                         {"kernel-width", "0"},
                                         {"shrinkage", "0"},
                                         {"shrinkage", "1.1"},
                                         {"loss", "hinge"},
                                         {"epochs", "-1"},
                                         {"batch", "1.5"},
                                         {"first-rate", "-1"},
                                         {"rate", "1e7"},
                                         {"lambda", "-1"},
                                         {"memory", "1048577"},
                                         {"memory-per", "phase"},
                                         {"head-input", "random"},
                                         {"head-theta", "1"},
                                         {"train-backbone", "on"},
                                         {"backbone-rate", "-1"},
                                         {"csc-form", "authors"},
                                         {"block", "0"},
                                         {"block", "1048577"},
                                         {"weights", "sqr"},
                                         {"weights", "sqrt|inv"},
                                         {"weights", "SQRT"},
                                         {"scaling", ""},
                                         {"pseudo", "on"},
                                         {"pseudo-from", "crops"},
                                         {"precision", "single"},
                                         {"solver", "0"},
                                         {"store", "float"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[80];
        snprintf(text, sizeof text, "%s: '%s' is not allowed", bad[i][0], bad[i][1]);
        assert_fails(context, set(bad[i][0], bad[i][1]), L3A_ERROR_OPTION, text);
    }
}

static void a_refused_value_is_answered_with_what_is_allowed(void **state) {
    (void)state;
    assert_int_equal(set("eta", "1"), L3A_ERROR_OPTION);
    assert_string_equal(l3a_error_hint(context), "eta must be a number in (0, 1); the default is 0.7");
    assert_int_equal(set("gamma", "0"), L3A_ERROR_OPTION);
    assert_string_equal(l3a_error_hint(context), "gamma must be auto or a number above 0; the default is 1000");
    assert_int_equal(set("weights", "square"), L3A_ERROR_OPTION);
    assert_string_equal(l3a_error_hint(context), "choose one of sqrt|inv|log|none");
}

static void an_unknown_setting_is_answered_with_the_closest_one(void **state) {
    (void)state;
    static const char *const mistyped[][2] = {{"gama", "gamma"},         {"wieghts", "weights"}, {"total_classes", "total-classes"},
                                              {"precison", "precision"}, {"dmi", "dim"},         {"Theta", "theta"}};
    for (size_t i = 0; i < sizeof mistyped / sizeof mistyped[0]; i++) {
        char hint[64];
        snprintf(hint, sizeof hint, "did you mean '%s'?", mistyped[i][1]);
        assert_fails(context, set(mistyped[i][0], "1"), L3A_ERROR_OPTION, mistyped[i][0]);
        assert_string_equal(l3a_error_hint(context), hint);
    }
    assert_fails(context, set("learning-rate", "1"), L3A_ERROR_OPTION, "there is no setting 'learning-rate'");
    assert_string_equal(l3a_error_hint(context), "");
}

static void the_closest_name_is_found_or_none(void **state) {
    (void)state;
    static const char *const names[] = {"person", "bicycle", "car", "cat", "dining table"};
    assert_string_equal(closest_name("bycicle", names, 5), "bicycle");
    assert_string_equal(closest_name("diningtable", names, 5), "dining table");
    assert_string_equal(closest_name("act", names, 5), "cat");
    assert_string_equal(closest_name("car", names, 5), "car");
    assert_null(closest_name("zebra", names, 5));
    char hint[64];
    assert_string_equal(suggest_closest(hint, sizeof hint, "act", names, 5, "use one of them"), "did you mean 'cat'?");
    assert_string_equal(suggest_closest(hint, sizeof hint, "zebra", names, 5, "use 100 % of them"), "use 100 % of them");
    assert_string_equal(suggest_closest(hint, 8, "zebra", names, 5, "use one of them"), "use one");
    assert_null(closest_name("", names, 5));
    assert_null(closest_name("person", names, 0));
}

static void two_letters_that_changed_places_are_one_mistake(void **state) {
    (void)state;
    static const char *const names[] = {"arts", "cat"};
    assert_string_equal(closest_name("act", names, 2), "cat");
}

static void a_name_longer_than_any_has_no_closest_one(void **state) {
    (void)state;
    static const char *const names[] = {"gamma", "dim"};
    char name[501];
    memset(name, 'x', 500);
    for (size_t length = 20; length <= 500; length += 20) {
        name[length] = '\0';
        assert_null(closest_name(name, names, 2));
        name[length] = 'x';
    }
}

static void assert_round_trip(const char *name, const char *value) {
    l3a_options options = defaults(), again = defaults();
    char text[64];
    assert_ok(context, l3a_options_set(context, &options, name, value));
    const size_t length = l3a_options_get(&options, name, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_ok(context, l3a_options_set(context, &again, name, text));
    assert_memory_equal(&again, &options, sizeof options);
}

static void what_was_set_can_be_got_and_set_again(void **state) {
    (void)state;
    static const char *const values[][2] = {{"dim", "12345"},
                                            {"seed", "9007199254740991"},
                                            {"gamma", "0.1"},
                                            {"gamma", "123456.789"},
                                            {"eta", "0.30000000000000004"},
                                            {"tau", "1e-300"},
                                            {"total-classes", "80"},
                                            {"theta", "0.3333333333333333"},
                                            {"weights", "log"},
                                            {"scaling", "literal"},
                                            {"pseudo", "off"},
                                            {"precision", "double"},
                                            {"solver", "recursive"},
                                            {"store", "float32"},
                                            {"block", "7"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_round_trip(values[i][0], values[i][1]);
    }
}

static void setting_by_name_sets_the_field_of_that_name(void **state) {
    (void)state;
    l3a_options options, expected;
    options_default(&options);
    options_default(&expected);
    static const char *const values[][2] = {{"dim", "3"},
                                            {"seed", "4"},
                                            {"gamma", "5.5"},
                                            {"weights", "inv"},
                                            {"scaling", "literal"},
                                            {"pseudo", "dynamic"},
                                            {"eta", "0.25"},
                                            {"tau", "1.5"},
                                            {"total-classes", "6"},
                                            {"theta", "0.75"},
                                            {"precision", "double"},
                                            {"solver", "sums"},
                                            {"store", "float32"},
                                            {"block", "8"},
                                            {"alpha", "0.5"},
                                            {"lift", "0.0625"},
                                            {"skip-features", "auto"},
                                            {"thresholds", "per-class"},
                                            {"keep-phases", "7"},
                                            {"gamma-from", "sums"},
                                            {"views", "13"},
                                            {"score-views", "15"},
                                            {"pseudo-from", "whole"},
                                            {"beta", "2.5"},
                                            {"privacy-limit", "65"},
                                            {"ratio", "2"},
                                            {"kernel-width", "0.125"},
                                            {"shrinkage", "0.5"},
                                            {"loss", "bce"},
                                            {"epochs", "9"},
                                            {"batch", "10"},
                                            {"first-rate", "0.25"},
                                            {"rate", "0.75"},
                                            {"lambda", "11.5"},
                                            {"memory", "12"},
                                            {"memory-per", "run"},
                                            {"head-input", "layer"},
                                            {"head-theta", "0.5"},
                                            {"train-backbone", "norms"},
                                            {"backbone-rate", "0.125"},
                                            {"krt-width", "24"},
                                            {"krt-leak", "on"},
                                            {"csc-form", "code"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_ok(context, l3a_options_set(context, &options, values[i][0], values[i][1]));
    }
    expected.model.dim = 3;
    expected.model.seed = 4;
    expected.model.gamma = 5.5;
    expected.model.weights = L3A_WEIGHTS_INV;
    expected.model.scaling = L3A_SCALING_LITERAL;
    expected.model.pseudo = L3A_PSEUDO_DYNAMIC;
    expected.model.eta = 0.25;
    expected.model.tau = 1.5;
    expected.model.total_classes = 6;
    expected.model.theta = 0.75;
    expected.model.precision = L3A_PRECISION_DOUBLE;
    expected.model.solver = L3A_SOLVER_SUMS;
    expected.model.store = L3A_STORE_FLOAT32;
    expected.model.block = 8;
    expected.model.alpha = 0.5;
    expected.model.lift = 0.0625;
    expected.model.skip_features = L3A_SKIP_AUTO;
    expected.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    expected.model.keep_phases = 7;
    expected.model.gamma_from = L3A_GAMMA_FROM_SUMS;
    expected.model.views = 13;
    expected.model.score_views = 15;
    expected.model.pseudo_from = L3A_PSEUDO_FROM_WHOLE;
    expected.model.beta = 2.5;
    expected.model.privacy_limit = 65;
    expected.method.ratio = 2;
    expected.method.kernel_width = 0.125;
    expected.method.shrinkage = 0.5;
    expected.method.loss = L3A_LOSS_BINARY;
    expected.method.epochs = 9;
    expected.method.batch = 10;
    expected.method.first_rate = 0.25;
    expected.method.rate = 0.75;
    expected.method.lambda = 11.5;
    expected.method.memory = 12;
    expected.method.memory_per = L3A_MEMORY_PER_RUN;
    expected.method.head_input = L3A_HEAD_INPUT_LAYER;
    expected.method.head_theta = 0.5;
    expected.method.train_backbone = L3A_TRAIN_BACKBONE_NORMS;
    expected.method.backbone_rate = 0.125;
    expected.method.krt_width = 24;
    expected.method.krt_leak = L3A_KRT_LEAK_ON;
    expected.method.csc_form = L3A_CSC_FORM_CODE;
    expected.model.given = (UINT64_C(1) << MODEL_SETTINGS) - 1;
    expected.method.given = (UINT64_C(1) << (SETTINGS - MODEL_SETTINGS)) - 1;
    assert_memory_equal(&options, &expected, sizeof options);
}

static void a_text_that_is_too_long_is_cut_and_its_length_told(void **state) {
    (void)state;
    const l3a_options options = defaults();
    char text[8] = "unused";
    assert_int_equal(l3a_options_get(&options, "scaling", text, 5), strlen("normalised"));
    assert_string_equal(text, "norm");
    assert_int_equal(l3a_options_get(&options, "scaling", NULL, 0), strlen("normalised"));
    assert_int_equal(l3a_options_get(&options, "nothing", text, sizeof text), 0);
}

static void a_struct_of_garbage_is_refused(void **state) {
    (void)state;
    static const int garbage[] = {0x00, 0x5A, 0xA5, 0xFF};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        l3a_options options;
        memset(&options, garbage[i], sizeof options);
        assert_int_equal(l3a_options_check(context, &options), L3A_ERROR_OPTION);
    }
}

static void a_model_takes_no_setting_of_other_methods(void **state) {
    (void)state;
    l3a_options options = defaults();
    l3a_model *model = NULL;
    options.model.dim = 4;
    assert_ok(context, l3a_model_create(context, 2, &options, &model));
    assert_ok(context, l3a_model_set_option(model, "eta", "0.5"));
    assert_fails(context, l3a_model_set_option(model, "ratio", "2"), L3A_ERROR_OPTION, "a model has no setting 'ratio'");
    l3a_model_free(model);
}

/* Sets one field to garbage and expects an error that names the setting. */
#define ASSERT_CHECKED(field, garbage, name)                                                                                       \
    do {                                                                                                                           \
        l3a_options options = defaults();                                                                                          \
        options.field = (garbage);                                                                                                 \
        assert_fails(context, l3a_options_check(context, &options), L3A_ERROR_OPTION, name ": '");                                 \
    } while (0)

static void garbage_in_any_one_field_is_refused(void **state) {
    (void)state;
    ASSERT_CHECKED(model.dim, 0, "dim");
    ASSERT_CHECKED(model.dim, UINT64_MAX, "dim");
    ASSERT_CHECKED(model.seed, UINT64_MAX, "seed");
    ASSERT_CHECKED(model.gamma, (double)NAN, "gamma");
    ASSERT_CHECKED(model.gamma, (double)INFINITY, "gamma");
    ASSERT_CHECKED(model.gamma, -1, "gamma");
    ASSERT_CHECKED(model.weights, (l3a_weighting)4, "weights");
    ASSERT_CHECKED(model.scaling, (l3a_scaling)2, "scaling");
    ASSERT_CHECKED(model.pseudo, (l3a_pseudo)3, "pseudo");
    ASSERT_CHECKED(model.pseudo_from, (l3a_pseudo_from)3, "pseudo-from");
    ASSERT_CHECKED(model.eta, 1, "eta");
    ASSERT_CHECKED(model.eta, (double)NAN, "eta");
    ASSERT_CHECKED(model.tau, 0, "tau");
    ASSERT_CHECKED(model.tau, -(double)NAN, "tau");
    ASSERT_CHECKED(model.total_classes, UINT64_MAX, "total-classes");
    ASSERT_CHECKED(model.theta, -0.5, "theta");
    ASSERT_CHECKED(model.precision, (l3a_precision)2, "precision");
    ASSERT_CHECKED(model.solver, (l3a_solver)4, "solver");
    ASSERT_CHECKED(model.store, (l3a_store)2, "store");
    ASSERT_CHECKED(model.block, 0, "block");
    ASSERT_CHECKED(method.ratio, -1, "ratio");
    ASSERT_CHECKED(method.kernel_width, 0, "kernel-width");
    ASSERT_CHECKED(method.shrinkage, 2, "shrinkage");
    ASSERT_CHECKED(method.loss, (l3a_loss)2, "loss");
    ASSERT_CHECKED(method.epochs, UINT64_MAX, "epochs");
    ASSERT_CHECKED(method.batch, UINT64_MAX, "batch");
    ASSERT_CHECKED(method.first_rate, -1, "first-rate");
    ASSERT_CHECKED(method.rate, -1, "rate");
    ASSERT_CHECKED(method.lambda, -1, "lambda");
    ASSERT_CHECKED(method.memory, UINT64_MAX, "memory");
    ASSERT_CHECKED(method.memory_per, (l3a_memory_per)3, "memory-per");
    ASSERT_CHECKED(method.head_input, (l3a_head_input)2, "head-input");
    ASSERT_CHECKED(method.head_theta, 0, "head-theta");
    ASSERT_CHECKED(method.train_backbone, (l3a_train_backbone)3, "train-backbone");
    ASSERT_CHECKED(method.backbone_rate, -1, "backbone-rate");
    ASSERT_CHECKED(method.csc_form, (l3a_csc_form)2, "csc-form");
}

/* Every setting that has a condition, where it does not hold and where it does. */
static void a_setting_without_effect_says_what_it_needs(void **state) {
    (void)state;
    static const struct {
        const char *name, *needs, *setting, *idle, *used;
    } cases[] = {
        {"eta", "pseudo fixed", "pseudo", "off", "fixed"},       {"eta", "pseudo fixed", "pseudo", "dynamic", "fixed"},
        {"tau", "pseudo dynamic", "pseudo", "fixed", "dynamic"}, {"total-classes", "pseudo dynamic", "pseudo", "off", "dynamic"},
        {"scaling", "(weights)", "weights", "none", "log"},      {"lift", "keep-phases", "keep-phases", "0", "2"},
        {"lift", "alpha below 1", "alpha", "1", "0.5"},          {"theta", "thresholds fixed", "thresholds", "per-class", "fixed"},
        {"pseudo-from", "views (views)", "views", "1", "5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        l3a_options options;
        options_default(&options);
        assert_ok(context, l3a_options_set(context, &options, cases[i].setting, cases[i].idle));
        const char *needs = l3a_option_needs(&options, cases[i].name);
        assert_non_null(needs);
        assert_non_null(strstr(needs, cases[i].needs));
        assert_ok(context, l3a_options_set(context, &options, cases[i].setting, cases[i].used));
        assert_null(l3a_option_needs(&options, cases[i].name));
    }
    l3a_options options;
    options_default(&options);
    assert_null(l3a_option_needs(&options, "gamma"));
    assert_null(l3a_option_needs(&options, "no such setting"));
}

static void options_are_created_copied_and_set_by_type(void **state) {
    (void)state;
    l3a_options *options = NULL, *copy = NULL;
    char text[32];
    assert_ok(context, l3a_options_create(context, &options));
    assert_ok(context, l3a_options_set_integer(context, options, "dim", 64));
    assert_ok(context, l3a_options_set_number(context, options, "gamma", 0.25));
    assert_ok(context, l3a_options_set_number(context, options, "epochs", 3));
    assert_ok(context, l3a_options_set_integer(context, options, "tau", 2));
    assert_ok(context, l3a_options_copy(context, options, &copy));
    assert_ok(context, l3a_options_set_number(context, options, "gamma", 0)); /* auto */
    l3a_options_get(options, "gamma", text, sizeof text);
    assert_string_equal(text, "auto");
    assert_true(l3a_options_number(options, "gamma") == 0 && l3a_options_number(copy, "gamma") == 0.25);
    assert_int_equal(l3a_options_integer(copy, "dim"), 64);
    assert_true(l3a_options_number(copy, "dim") == 64 && l3a_options_number(copy, "tau") == 2);
    assert_int_equal(l3a_options_integer(copy, "epochs"), 3);
    assert_int_equal(l3a_options_integer(copy, "gamma"), 0);
    assert_true(l3a_options_number(copy, "weights") == 0 && l3a_options_number(copy, "nothing") == 0);
    l3a_options_free(copy);
    l3a_options_free(options);
    l3a_options_free(NULL);
}

static void a_number_out_of_range_or_of_another_type_is_refused(void **state) {
    (void)state;
    l3a_options options = defaults();
    const l3a_options before = options;
    static const struct {
        const char *name;
        double value;
    } bad[] = {{"dim", 0},    {"dim", 2.5}, {"dim", -1}, {"dim", 1e300}, {"dim", (double)NAN},        {"seed", 9007199254740994.0},
               {"gamma", -1}, {"eta", 0},   {"eta", 1},  {"weights", 1}, {"gamma", (double)INFINITY}, {"eta", (double)NAN}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(context, l3a_options_set_number(context, &options, bad[i].name, bad[i].value), L3A_ERROR_OPTION, bad[i].name);
    }
    assert_fails(context, l3a_options_set_integer(context, &options, "dim", UINT64_MAX), L3A_ERROR_OPTION, "dim");
    assert_fails(context, l3a_options_set_integer(context, &options, "weights", 1), L3A_ERROR_OPTION, "weights");
    assert_fails(context, l3a_options_set_number(context, &options, "gama", 1), L3A_ERROR_OPTION, "no setting 'gama'");
    assert_string_equal(l3a_error_hint(context), "did you mean 'gamma'?");
    assert_memory_equal(&options, &before, sizeof options);
}

static void a_setting_is_given_once_it_is_set(void **state) {
    (void)state;
    l3a_options options = defaults();
    for (size_t i = 0; l3a_option_at(i); i++) {
        const l3a_option_info *info = l3a_option_at(i);
        assert_false(l3a_options_given(&options, info->name));
        assert_ok(context, l3a_options_set(context, &options, info->name, info->fallback));
        assert_true(l3a_options_given(&options, info->name));
    }
    assert_false(l3a_options_given(&options, "nothing"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_created_copied_and_set_by_type),
        cmocka_unit_test(a_number_out_of_range_or_of_another_type_is_refused),
        cmocka_unit_test(a_setting_is_given_once_it_is_set),
        cmocka_unit_test(every_field_gets_its_default),
        cmocka_unit_test(no_byte_of_garbage_outlives_the_defaults),
        cmocka_unit_test(the_table_lists_every_setting_with_its_default),
        cmocka_unit_test(values_in_range_are_accepted_up_to_the_ends),
        cmocka_unit_test(values_out_of_range_are_refused_and_change_nothing),
        cmocka_unit_test(a_refused_value_is_answered_with_what_is_allowed),
        cmocka_unit_test(an_unknown_setting_is_answered_with_the_closest_one),
        cmocka_unit_test(the_closest_name_is_found_or_none),
        cmocka_unit_test(two_letters_that_changed_places_are_one_mistake),
        cmocka_unit_test(a_name_longer_than_any_has_no_closest_one),
        cmocka_unit_test(what_was_set_can_be_got_and_set_again),
        cmocka_unit_test(setting_by_name_sets_the_field_of_that_name),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_and_its_length_told),
        cmocka_unit_test(a_model_takes_no_setting_of_other_methods),
        cmocka_unit_test(a_struct_of_garbage_is_refused),
        cmocka_unit_test(garbage_in_any_one_field_is_refused),
        cmocka_unit_test(a_setting_without_effect_says_what_it_needs),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
