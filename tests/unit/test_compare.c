/* Places in a table, and the sentence about who ends where. */
#include "support.h"

#include "common/rank.h"
#include "measure/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static l3a_context *context;
static l3a_results *results;

static int set_up(void **state) {
    (void)state;
    context = make_context(1);
    return results_create(context, &results) != L3A_OK;
}

static int tear_down(void **state) {
    (void)state;
    l3a_results_free(results);
    l3a_context_free(context);
    return 0;
}

/* ---- Places ---- */

static void numbers_that_look_the_same_share_a_place(void **state) {
    (void)state;
    const double values[] = {61.234, 70.001, 61.2301, 69.996, NAN, 12, 70.004, -0.001, 0.001};
    static const size_t highest[] = {2, 1, 2, 1, 0, 3, 1, 4, 4}, lowest[] = {3, 4, 3, 4, 0, 2, 4, 1, 1};
    size_t places[9];
    struct ranked scratch[9];
    rank_numbers(values, 9, 2, 0, scratch, places);
    assert_memory_equal(places, highest, sizeof highest);
    rank_numbers(values, 9, 2, 1, scratch, places);
    assert_memory_equal(places, lowest, sizeof lowest);
    rank_numbers(values, 0, 2, 0, scratch, places);
}

/* Against the definition: one more than the number of different better values. */
static void places_count_the_better_values(void **state) {
    (void)state;
    enum { COUNT = 60 };
    double values[COUNT];
    size_t places[COUNT];
    struct ranked scratch[COUNT];
    uint64_t bits = 1;
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            bits = bits * 6364136223846793005U + 1442695040888963407U;
            values[i] = (double)(bits >> 58) / 4; /* many of them are equal */
        }
        rank_numbers(values, COUNT, 2, round % 2, scratch, places);
        for (size_t i = 0; i < COUNT; i++) {
            size_t better = 0;
            for (int k = 0; k < 64; k++) {
                bool found = false;
                for (size_t j = 0; j < COUNT; j++) {
                    found = found || values[j] == (double)k / 4;
                }
                better += found && (round % 2 ? (double)k / 4 < values[i] : (double)k / 4 > values[i]);
            }
            assert_int_equal(places[i], better + 1);
        }
    }
}

/* ---- The verdict ---- */

static void add(const char *method, size_t order, uint64_t seed, size_t phase, double map) {
    double precision[4] = {map, map, map, map};
    const size_t last = strcmp(method, "joint") == 0 ? 4 : 2 * phase;
    const l3a_result row = {.method = method, .seed = seed, .phase = phase, .first = 0, .last = last, .metrics.mean_ap = map};
    const struct class_details details = {.average_precision = precision, .order = order};
    assert_ok(context, results_add(results, &row, &details));
}

/* A method's last mAP with each seed; those of the first phase do not matter. */
static void add_method(const char *method, const double *maps, size_t seeds) {
    for (size_t i = 0; i < seeds; i++) {
        if (strcmp(method, "joint") != 0) {
            add(method, 0, i + 1, 1, 99);
        }
        add(method, 0, i + 1, strcmp(method, "joint") == 0 ? 1 : 2, maps[i]);
    }
}

static void assert_verdict(const char *expected) {
    char text[256];
    assert_ok(context, l3a_results_verdict(context, results, text, sizeof text));
    assert_string_equal(text, expected);
}

static void the_best_is_compared_with_the_next_and_with_joint(void **state) {
    (void)state;
    assert_verdict("");
    add_method("l3a", (double[]){60.0}, 1);
    assert_verdict("l3a ends at 60.00 mAP over 0 classes.");
    add_method("finetune", (double[]){20.0}, 1);
    assert_verdict("l3a ends 40.0 mAP above finetune, with one seed.");
    add_method("l3a+", (double[]){62.1}, 1);
    assert_verdict("l3a+ ends 2.1 mAP above l3a, with one seed.");
    add_method("joint", (double[]){62.2}, 1);
    assert_verdict("l3a+ ends 2.1 mAP above l3a and 0.1 below joint, with one seed.");
}

static void a_small_difference_has_two_decimals_and_an_equal_one_is_level(void **state) {
    (void)state;
    add_method("l3a", (double[]){60.0}, 1);
    add_method("acil", (double[]){60.04}, 1);
    assert_verdict("acil ends 0.04 mAP above l3a, with one seed.");
    add_method("l3a+", (double[]){60.041}, 1);
    add_method("joint", (double[]){50.0}, 1);
    assert_verdict("acil ends level with l3a+ and 10.0 mAP above joint, with one seed.");
}

/* The table shows 60.01 and 60.00. */
static void numbers_that_look_different_do_not_differ_by_nothing(void **state) {
    (void)state;
    add_method("l3a", (double[]){60.0049}, 1);
    add_method("acil", (double[]){60.0051}, 1);
    assert_verdict("acil ends 0.01 mAP above l3a, with one seed.");
    add_method("joint", (double[]){60.0151}, 1); /* 60.02 */
    assert_verdict("acil ends 0.01 mAP above l3a and 0.01 below joint, with one seed.");
}

/* Each seed is compared with itself: 0.5 in every seed is no chance, whatever the seeds differ by. */
static void a_difference_is_compared_with_its_own_spread(void **state) {
    (void)state;
    add_method("l3a", (double[]){60, 65, 55}, 3);
    add_method("l3a+", (double[]){60.5, 65.6, 55.4}, 3);
    assert_verdict("l3a+ ends 0.5 mAP above l3a.");
    add_method("joint", (double[]){62, 58, 61}, 3); /* l3a+: -1.5, 7.6, -5.6; mean 0.17, deviation 6.76 */
    assert_verdict("l3a+ ends 0.5 mAP above l3a and 0.2 above joint, within the spread of the seeds.");
}

static void both_can_be_within_the_spread(void **state) {
    (void)state;
    add_method("l3a", (double[]){60, 62}, 2);
    add_method("l3a+", (double[]){61, 61.5}, 2); /* 1, -0.5: mean 0.25, deviation 1.06 */
    assert_verdict("l3a+ ends 0.2 mAP above l3a, within the spread of the seeds.");
    add_method("joint", (double[]){60, 63}, 2); /* 1, -1.5: mean -0.25 */
    assert_verdict("l3a+ ends 0.2 mAP above l3a and 0.2 below joint, both within the spread of the seeds.");
}

static void only_the_rival_can_be_within_the_spread(void **state) {
    (void)state;
    add_method("l3a", (double[]){60, 62}, 2);
    add_method("l3a+", (double[]){61, 61.5}, 2);
    add_method("joint", (double[]){71, 71.5}, 2);
    assert_verdict("l3a+ ends 0.2 mAP above l3a, within the spread of the seeds, and 10.0 below joint.");
}

static void the_spread_can_be_that_of_orders(void **state) {
    (void)state;
    static const char *const names[] = {"shuffle:1", "shuffle:2"};
    const size_t positions[] = {0, 0};
    assert_ok(context, text_list_add(context, &results->classes, "cat", 3));
    assert_ok(context, results_set_orders(results, names, 2, positions));
    for (size_t order = 0; order < 2; order++) {
        for (size_t phase = 1; phase < 3; phase++) {
            add("l3a", order, 5, phase, order ? 62 : 60);
            add("l3a+", order, 5, phase, order ? 61.5 : 61);
        }
    }
    assert_verdict("l3a+ ends 0.2 mAP above l3a, within the spread of the class orders.");
    for (size_t phase = 1; phase < 3; phase++) {
        add("l3a", 0, 6, phase, 60);
        add("l3a+", 0, 6, phase, 60.2);
    }
    assert_verdict("l3a+ ends 0.2 mAP above l3a, within the spread of the seeds and class orders.");
    l3a_summary summary = {.size = sizeof summary};
    assert_ok(context, l3a_results_summary(context, results, "l3a", &summary));
    assert_int_equal(summary.seeds, 3);
    assert_int_equal(summary.orders, 2);
}

static void a_verdict_is_cut_to_its_room(void **state) {
    (void)state;
    char text[8];
    add_method("l3a", (double[]){60.0}, 1);
    assert_ok(context, l3a_results_verdict(context, results, text, sizeof text));
    assert_string_equal(text, "l3a end");
}

/* ---- Thresholds ---- */

static void thresholds_are_described(void **state) {
    (void)state;
    static const char *const cases[][3] = {{"fixed", "0.525", "σ > 0.525"},
                                           {"", "0.5", "σ > 0.5"},
                                           {"fixed", "", "σ > ?"},
                                           {"global", "0.5", "fitted, one for all"},
                                           {"per-class", "0.5", "fitted per class"},
                                           {"taught", "0.5", "fitted as when taught"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[THRESHOLD_TEXT];
        threshold_describe(cases[i][0], cases[i][1], text);
        assert_string_equal(text, cases[i][2]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(numbers_that_look_the_same_share_a_place),
        TEST(places_count_the_better_values),
        TEST(the_best_is_compared_with_the_next_and_with_joint),
        TEST(a_small_difference_has_two_decimals_and_an_equal_one_is_level),
        TEST(numbers_that_look_different_do_not_differ_by_nothing),
        TEST(a_difference_is_compared_with_its_own_spread),
        TEST(both_can_be_within_the_spread),
        TEST(only_the_rival_can_be_within_the_spread),
        TEST(the_spread_can_be_that_of_orders),
        TEST(a_verdict_is_cut_to_its_room),
        TEST(thresholds_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
