/* Student's distribution, and which methods are compared with which. tests/oracle/test_significance.py compares the numbers of
 * whole tables with SciPy. */
#include "support.h"

#include "measure/significance.h"
#include "measure/student.h"

#include <math.h>
#include <string.h>

static l3a_context *context;
static l3a_results *results;
static l3a_significance *found;

static int set_up(void **state) {
    (void)state;
    context = make_context(1);
    found = NULL;
    return results_create(context, &results) != L3A_OK;
}

static int tear_down(void **state) {
    (void)state;
    l3a_significance_free(found);
    l3a_results_free(results);
    l3a_context_free(context);
    return 0;
}

/* ---- Student's distribution ---- */

/* P(|T| < t) as the finite series in the angle θ = atan(t/√ν), which whole ν have: no beta function is in it. */
static double within(double t, size_t degrees) {
    const double angle = atan(t / sqrt((double)degrees)), square = cos(angle) * cos(angle);
    double term = degrees % 2 ? cos(angle) : 1, sum = 0;
    for (size_t k = degrees % 2 ? 3 : 2; k <= degrees; k += 2) {
        sum += term;
        term *= square * (double)(k - 1) / (double)k;
    }
    return degrees % 2 ? 2 / acos(-1) * (angle + sin(angle) * sum) : sin(angle) * sum;
}

static void tails_are_those_of_the_finite_series(void **state) {
    (void)state;
    static const double ts[] = {0, 1e-9, 1e-3, 0.1, 0.5, 1, 1.5, 2, 3, 5, 10, 100};
    for (size_t degrees = 1; degrees <= 300; degrees++) {
        for (size_t i = 0; i < sizeof ts / sizeof ts[0]; i++) {
            assert_true(fabs(student_tail(ts[i], degrees) + within(ts[i], degrees) - 1) < 1e-12);
            assert_true(student_tail(-ts[i], degrees) == student_tail(ts[i], degrees));
        }
    }
    assert_true(student_tail(INFINITY, 3) == 0 && isnan(student_tail(NAN, 3)));
    /* far out, where 1 - P has no digits left: one degree is 2/π · atan(1/t), two are 1 - t/√(2 + t²) = 1/t² - 3/(2 t⁴) + … */
    assert_true(fabs(student_tail(1e8, 1) / (2 / acos(-1) * atan(1e-8)) - 1) < 1e-12);
    assert_true(fabs(student_tail(1e8, 2) / 1e-16 - 1) < 1e-12);
}

static void quantiles_have_the_tail_they_were_asked_for(void **state) {
    (void)state;
    static const double tails[] = {0.999, 0.5, 0.1, 0.05, 0.01, 1e-4};
    for (size_t degrees = 1; degrees <= 100; degrees += 3) {
        for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
            assert_true(fabs(1 - within(student_quantile(tails[i], degrees), degrees) - tails[i]) < 1e-12);
        }
    }
    assert_true(fabs(student_quantile(0.05, 1) - tan(0.475 * acos(-1))) < 1e-9);          /* Cauchy */
    assert_true(fabs(student_quantile(0.05, 2) - 0.95 * sqrt(2 / (1 - 0.9025))) < 1e-12); /* solved by hand */
}

/* ---- Who is compared ---- */

static void add(const char *method, uint64_t seed, size_t phase, double map, double f1) {
    double precision[4] = {map, map, map, map};
    const size_t last = strncmp(method, "joint", 5) == 0 ? 4 : 2 * phase;
    const l3a_result row = {.method = method,
                            .seed = seed,
                            .phase = phase,
                            .first = 0,
                            .last = last,
                            .metrics = {.mean_ap = map, .class_f1 = f1, .overall_f1 = f1}};
    const struct class_details details = {.average_precision = precision};
    assert_ok(context, results_add(results, &row, &details));
}

static void add_trials(const char *method, size_t seeds, double map, double step, double f1) {
    for (size_t i = 0; i < seeds; i++) {
        const double own = map + (double)i + step * (double)(i % 3);
        if (strncmp(method, "joint", 5) != 0) {
            add(method, i, 1, own + 5, f1);
        }
        add(method, i, strncmp(method, "joint", 5) == 0 ? 1 : 2, own, f1 + step * (double)(i % 2));
    }
}

static const l3a_difference *difference(const char *metric, size_t reference, size_t index) {
    const l3a_results *const all[] = {results};
    l3a_significance_free(found);
    found = NULL;
    assert_ok(context, l3a_results_significance(context, all, 1, metric, reference, &found));
    return l3a_significance_at(found, index);
}

static void too_few_pairs_mark_nothing(void **state) {
    (void)state;
    add_trials("l3a", 4, 50, 0.1, 40);
    add_trials("acil", 4, 40, 0.2, 30);
    const l3a_difference *own = difference(NULL, SIZE_MAX, 1);
    assert_int_equal(own->pairs, 4);
    assert_int_equal(own->significant, -1);
    assert_true(own->p < 1e-4); /* and yet */
    assert_false(own->best || l3a_significance_at(found, 0)->best);
    add("l3a", 4, 1, 60, 40), add("l3a", 4, 2, 54, 40);
    add("acil", 4, 1, 50, 30), add("acil", 4, 2, 44.1, 30);
    own = difference(NULL, SIZE_MAX, 1);
    assert_int_equal(own->pairs, 5);
    assert_int_equal(own->significant, 1);
    assert_true(l3a_significance_at(found, 0)->best && !own->best);
    assert_string_equal(own->test, "paired t");
    assert_string_equal(own->interval, "t");
}

/* One rival without enough pairs could be better than it looks, so nothing is bold. */
static void every_rival_needs_enough_pairs(void **state) {
    (void)state;
    add_trials("l3a", 6, 50, 0.1, 40);
    add_trials("acil", 6, 40, 0.2, 30);
    assert_true(difference(NULL, SIZE_MAX, 0)->best);
    add_trials("slda", 3, 30, 0.3, 30);
    assert_false(difference(NULL, SIZE_MAX, 0)->best);
    assert_int_equal(l3a_significance_at(found, 2)->pairs, 3);
    assert_int_equal(l3a_significance_at(found, 1)->significant, 1);
}

static void what_may_be_as_good_is_marked_too(void **state) {
    (void)state;
    static const double near[] = {0.3, -0.2, 0.1, -0.4, 0.1, -0.1};
    add_trials("l3a", 6, 50, 0, 40);
    for (size_t i = 0; i < 6; i++) {
        add("acil", i, 1, 50, 40);
        add("acil", i, 2, 50 + (double)i + near[i], 40);
    }
    add_trials("slda", 6, 20, 0.1, 40);
    add_trials("joint", 6, 80, 0.1, 40);
    assert_true(difference("last_mAP", SIZE_MAX, 0)->best && l3a_significance_at(found, 1)->best);
    assert_false(l3a_significance_at(found, 2)->best || l3a_significance_at(found, 3)->best); /* a bound is not ranked */
    assert_int_equal(l3a_significance_at(found, 3)->significant, 1);
    assert_string_equal(l3a_significance_at(found, 3)->reference, "l3a");
    /* with the worst as the reference, nothing is best */
    assert_false(difference("last_mAP", 2, 0)->best || l3a_significance_at(found, 2)->best);
    assert_string_equal(l3a_significance_at(found, 0)->reference, "slda");
}

static void f1_is_compared_at_the_same_threshold(void **state) {
    (void)state;
    add_trials("l3a", 5, 50, 0.1, 40);
    add_trials("acil", 5, 40, 0.2, 30);
    add_trials("l3a+", 5, 55, 0.1, 70);
    add_trials("joint+", 5, 60, 0.1, 80);
    assert_string_equal(difference("CF1", SIZE_MAX, 0)->reference, "l3a+"); /* thresholds are unknown */
    assert_ok(context, results_set_threshold(results, "l3a+", "fitted per class"));
    assert_ok(context, results_set_threshold(results, "joint+", "fitted per class"));
    assert_ok(context, results_set_threshold(results, "acil", "σ > 0.5"));
    assert_ok(context, results_set_threshold(results, "l3a", "σ > 0.5"));
    assert_string_equal(difference("CF1", SIZE_MAX, 1)->reference, "l3a");
    assert_string_equal(l3a_significance_at(found, 0)->reference, "l3a");
    assert_true(l3a_significance_at(found, 0)->best);
    assert_string_equal(l3a_significance_at(found, 3)->reference, "l3a+");
    assert_false(l3a_significance_at(found, 2)->best); /* it has no rival */
    assert_null(difference("OF1", 0, 2)->reference);
    assert_int_equal(l3a_significance_at(found, 2)->pairs, 0);
    assert_true(isnan(l3a_significance_at(found, 2)->difference));
    assert_string_equal(difference("last_mAP", SIZE_MAX, 1)->reference, "l3a+");
}

static void what_is_about_phases_leaves_bounds_out(void **state) {
    (void)state;
    add_trials("l3a", 5, 50, 0.1, 40);
    add_trials("acil", 5, 40, 0.2, 30);
    add_trials("joint", 5, 60, 0.1, 40);
    assert_null(difference("avg_mAP", SIZE_MAX, 2)->reference);
    assert_null(difference("forgetting", SIZE_MAX, 2)->reference);
    assert_string_equal(l3a_significance_at(found, 1)->reference, "l3a");
}

static void equal_differences_have_no_spread(void **state) {
    (void)state;
    add_trials("l3a", 5, 50, 0.5, 40);
    add_trials("acil", 5, 48, 0.5, 40);
    const l3a_difference *own = difference(NULL, SIZE_MAX, 1);
    assert_true(own->difference == -2 && own->low == -2 && own->high == -2 && own->p == 0 && own->significant == 1);
    own = difference("CF1", SIZE_MAX, 1);
    assert_true(own->difference == 0 && own->low == 0 && own->high == 0 && own->p == 1 && own->significant == 0 && own->best);
    for (uint64_t seed = 5; seed < 12; seed++) {
        add("l3a", seed, 1, 1, 1), add("l3a", seed, 2, 50, 40);
        add("acil", seed, 1, 1, 1), add("acil", seed, 2, 48, 40);
    }
    own = difference(NULL, SIZE_MAX, 1); /* from ten on: 2 of the 2¹² ways to choose signs reach as far */
    assert_int_equal(own->pairs, 12);
    assert_true(own->difference == -2 && own->low == -2 && own->high == -2 && own->p == 2.0 / 4096);
    assert_string_equal(own->test, "sign flips");
    assert_string_equal(own->interval, "bootstrap");
}

static void what_is_unknown_is_not_compared(void **state) {
    (void)state;
    add_trials("l3a", 5, 50, 0.5, NAN);
    add_trials("acil", 5, 48, 0.2, 40);
    add_trials("slda", 5, 47, 0.2, 30);
    assert_null(difference("CF1", SIZE_MAX, 0)->reference);
    assert_false(l3a_significance_at(found, 0)->best);
    assert_string_equal(l3a_significance_at(found, 2)->reference, "acil");
    assert_true(l3a_significance_at(found, 1)->best);
    assert_string_equal(difference("last_mAP", SIZE_MAX, 1)->reference, "l3a");
}

/* A trial that has learned fewer classes is no pair. */
static void unfinished_trials_are_left_out(void **state) {
    (void)state;
    add_trials("l3a", 3, 50, 0.5, 40);
    add_trials("acil", 2, 48, 0.2, 40);
    add("acil", 2, 1, 90, 40);
    assert_int_equal(difference(NULL, 0, 1)->pairs, 2);
    add("acil", 2, 2, 49, 40);
    assert_int_equal(difference(NULL, 0, 1)->pairs, 3);
}

static void one_method_has_nothing_to_compare_with(void **state) {
    (void)state;
    assert_null(difference(NULL, SIZE_MAX, 0));
    assert_int_equal(l3a_significance_count(found), 0);
    add_trials("l3a", 6, 50, 0.5, 40);
    const l3a_difference *own = difference(NULL, SIZE_MAX, 0);
    assert_string_equal(own->reference, "l3a");
    assert_int_equal(own->pairs, 0);
    assert_int_equal(own->reference_index, 0);
    assert_false(own->best);
    assert_null(l3a_significance_at(found, 1));
}

static void what_does_not_exist_is_an_error(void **state) {
    (void)state;
    const l3a_results *const all[] = {results};
    add_trials("l3a", 2, 50, 0.5, 40);
    assert_int_equal(l3a_results_significance(context, all, 1, "last_map", SIZE_MAX, &found), L3A_ERROR_ARGUMENT);
    assert_non_null(strstr(l3a_error_hint(context), "last_mAP"));
    assert_int_equal(l3a_results_significance(context, all, 1, NULL, 1, &found), L3A_ERROR_ARGUMENT);
    assert_null(found);
    assert_int_equal(l3a_significance_count(NULL), 0);
    assert_null(l3a_significance_at(NULL, 0));
    l3a_significance_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(tails_are_those_of_the_finite_series),
        TEST(quantiles_have_the_tail_they_were_asked_for),
        TEST(too_few_pairs_mark_nothing),
        TEST(every_rival_needs_enough_pairs),
        TEST(what_may_be_as_good_is_marked_too),
        TEST(f1_is_compared_at_the_same_threshold),
        TEST(what_is_about_phases_leaves_bounds_out),
        TEST(equal_differences_have_no_spread),
        TEST(what_is_unknown_is_not_compared),
        TEST(unfinished_trials_are_left_out),
        TEST(one_method_has_nothing_to_compare_with),
        TEST(what_does_not_exist_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
