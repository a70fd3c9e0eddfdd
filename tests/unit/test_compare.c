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

static bool is_joint(const char *method) {
    return strncmp(method, "joint", 5) == 0;
}

static void add(const char *method, size_t order, uint64_t seed, size_t phase, double map) {
    double precision[4] = {map, map, map, map};
    const size_t last = is_joint(method) ? 4 : 2 * phase;
    const l3a_result row = {.method = method, .seed = seed, .phase = phase, .first = 0, .last = last, .metrics.mean_ap = map};
    const struct class_details details = {.average_precision = precision, .order = order};
    assert_ok(context, results_add(results, &row, &details));
}

/* A method's last mAP with each seed; those of the first phase do not matter. */
static void add_method(const char *method, const double *maps, size_t seeds) {
    for (size_t i = 0; i < seeds; i++) {
        if (!is_joint(method)) {
            add(method, 0, i + 1, 1, 99);
        }
        add(method, 0, i + 1, is_joint(method) ? 1 : 2, maps[i]);
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
    assert_verdict("l3a ends 40.0 mAP above finetune; one run of each cannot tell whether that is chance (it takes five).");
    add_method("l3a+", (double[]){62.1}, 1);
    assert_verdict("l3a+ ends 2.1 mAP above l3a; one run of each cannot tell whether that is chance (it takes five).");
    add_method("joint", (double[]){62.2}, 1);
    assert_verdict(
        "l3a+ ends 2.1 mAP above l3a and 0.1 below joint; one run of each cannot tell whether that is chance (it takes five).");
}

static void a_small_difference_has_two_decimals_and_an_equal_one_is_level(void **state) {
    (void)state;
    add_method("l3a", (double[]){60.0}, 1);
    add_method("acil", (double[]){60.04}, 1);
    assert_verdict("acil ends 0.04 mAP above l3a; one run of each cannot tell whether that is chance (it takes five).");
    add_method("l3a+", (double[]){60.041}, 1);
    add_method("joint", (double[]){50.0}, 1);
    assert_verdict(
        "acil ends level with l3a+ and 10.0 mAP above joint; one run of each cannot tell whether that is chance (it takes five).");
}

/* The table shows 60.01 and 60.00. */
static void numbers_that_look_different_do_not_differ_by_nothing(void **state) {
    (void)state;
    add_method("l3a", (double[]){60.0049}, 1);
    add_method("acil", (double[]){60.0051}, 1);
    assert_verdict("acil ends 0.01 mAP above l3a; one run of each cannot tell whether that is chance (it takes five).");
    add_method("joint", (double[]){60.0151}, 1); /* 60.02 */
    assert_verdict(
        "acil ends 0.01 mAP above l3a and 0.01 below joint; one run of each cannot tell whether that is chance (it takes five).");
}

/* Below five pairs nothing can be told, however clear it looks. */
static void few_pairs_cannot_tell(void **state) {
    (void)state;
    add_method("l3a", (double[]){60, 65, 55, 61}, 4);
    add_method("l3a+", (double[]){70, 75, 65, 71}, 4);
    assert_verdict("l3a+ ends 10.0 mAP above l3a; 4 paired runs cannot tell whether that is chance (it takes five).");
}

/* Each seed is compared with itself: about 0.5 in every seed is no chance, whatever the seeds differ by. Intervals by hand, with
 * t = 2.776445: the differences from l3a are 0.5, 0.6, 0.4, 0.5, 0.5 (mean 0.5, deviation 0.070711, so ± 0.0878), those from joint
 * -1.5, 7.6, -5.6, 0.1, 0.9 (mean 0.3, deviation 4.7891, so ± 5.946). */
static void a_difference_is_compared_with_its_own_spread(void **state) {
    (void)state;
    add_method("l3a", (double[]){60, 65, 55, 61, 62}, 5);
    add_method("l3a+", (double[]){60.5, 65.6, 55.4, 61.5, 62.5}, 5);
    assert_verdict("l3a+ ends 0.5 mAP above l3a (95 % interval 0.4 to 0.6).");
    add_method("joint", (double[]){62, 58, 61, 61.4, 61.6}, 5);
    assert_verdict("l3a+ ends 0.5 mAP above l3a (95 % interval 0.4 to 0.6) and 0.3 above joint (-5.6 to 6.2; may be chance).");
}

/* An interval looks the way the sentence does: what is below is positive too. */
static void below_has_an_interval_of_its_own(void **state) {
    (void)state;
    add_method("l3a", (double[]){60, 62, 61, 63, 62}, 5);
    add_method("joint", (double[]){70, 72.2, 71, 73, 71.8}, 5); /* 10, 10.2, 10, 10, 9.8: deviation 0.141421, so ± 0.1756 */
    assert_verdict("l3a ends 10.0 mAP below joint (95 % interval 9.8 to 10.2).");
}

static void joint_plus_is_the_bound_where_l3a_plus_is(void **state) {
    (void)state;
    add_method("l3a", (double[]){60}, 1);
    add_method("joint", (double[]){61}, 1);
    add_method("joint+", (double[]){63}, 1);
    assert_verdict("l3a ends 1.0 mAP below joint; one run of each cannot tell whether that is chance (it takes five).");
    add_method("l3a+", (double[]){62}, 1);
    assert_verdict(
        "l3a+ ends 2.0 mAP above l3a and 1.0 below joint+; one run of each cannot tell whether that is chance (it takes five).");
}

/* Pairs are orders and seeds that both have. */
static void pairs_can_be_orders(void **state) {
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
    assert_verdict("l3a+ ends 0.2 mAP above l3a; 2 paired runs cannot tell whether that is chance (it takes five).");
    for (size_t phase = 1; phase < 3; phase++) {
        add("l3a", 0, 6, phase, 60);
        add("l3a+", 0, 6, phase, 60.2);
        add("l3a", 1, 7, phase, 60); /* l3a+ has no such trial, so it does not count: 1, -0.5 and 0.2 have the mean 0.23 */
    }
    assert_verdict("l3a+ ends 0.2 mAP above l3a; 3 paired runs cannot tell whether that is chance (it takes five).");
    l3a_summary summary = {.size = sizeof summary};
    assert_ok(context, l3a_results_summary(context, results, "l3a", &summary));
    assert_int_equal(summary.seeds, 4);
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
        TEST(few_pairs_cannot_tell),
        TEST(below_has_an_interval_of_its_own),
        TEST(joint_plus_is_the_bound_where_l3a_plus_is),
        TEST(pairs_can_be_orders),
        TEST(a_verdict_is_cut_to_its_room),
        TEST(thresholds_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
