/* Class weights, sample weights, pseudo-labels and the dynamic threshold. */
#include "support.h"

#include "base/random.h"
#include "learn/pseudo_label.h"
#include "learn/weights.h"

#include <math.h>
#include <string.h>

enum { COUNTS = 4 };

typedef struct weight_case {
    l3a_weighting weighting;
    l3a_scaling scaling;
    double expected[COUNTS];
} weight_case;

/* For 4, 100, 0 and 1 images, worked out by hand. */
static const weight_case weight_cases[] = {
    {L3A_WEIGHTS_SQRT, L3A_SCALING_LITERAL, {0.5, 0.1, 0, 1}},
    {L3A_WEIGHTS_SQRT, L3A_SCALING_NORMALISED, {1.25, 0.25, 0, 2.5}},
    {L3A_WEIGHTS_INV, L3A_SCALING_LITERAL, {0.25, 0.01, 0, 1}},
    {L3A_WEIGHTS_INV, L3A_SCALING_NORMALISED, {0.7936507936507936, 0.031746031746031744, 0, 3.1746031746031744}},
    {L3A_WEIGHTS_LOG, L3A_SCALING_LITERAL, {0.41905978419640516, 0.1784067150181842, 0, 1}},
    {L3A_WEIGHTS_LOG, L3A_SCALING_NORMALISED, {1.0493109793599806, 0.446724147532107, 0, 2.503964873107912}},
    {L3A_WEIGHTS_NONE, L3A_SCALING_LITERAL, {1, 1, 1, 1}},
    {L3A_WEIGHTS_NONE, L3A_SCALING_NORMALISED, {1, 1, 1, 1}},
};

static void class_weights_have_the_values_worked_out_by_hand(void **state) {
    (void)state;
    static const uint64_t counts[COUNTS] = {4, 100, 0, 1};
    for (size_t i = 0; i < sizeof weight_cases / sizeof weight_cases[0]; i++) {
        double weights[COUNTS];
        class_weights(counts, COUNTS, weight_cases[i].weighting, weight_cases[i].scaling, weights);
        for (size_t k = 0; k < COUNTS; k++) {
            assert_true(fabs(weights[k] - weight_cases[i].expected[k]) <= 1e-15 * (1 + weights[k]));
        }
    }
}

static void class_weights_are_zero_when_no_class_has_an_image(void **state) {
    (void)state;
    static const uint64_t counts[COUNTS] = {0, 0, 0, 0};
    static const l3a_weighting counted[] = {L3A_WEIGHTS_SQRT, L3A_WEIGHTS_INV, L3A_WEIGHTS_LOG};
    for (size_t i = 0; i < 3; i++) {
        for (int scaling = L3A_SCALING_NORMALISED; scaling <= L3A_SCALING_LITERAL; scaling++) {
            double weights[COUNTS] = {9, 9, 9, 9};
            class_weights(counts, COUNTS, counted[i], (l3a_scaling)scaling, weights);
            for (size_t k = 0; k < COUNTS; k++) {
                assert_true(weights[k] == 0);
            }
        }
    }
}

static void sample_weight_is_the_mean_over_labels_present(void **state) {
    (void)state;
    static const double weights[COUNTS] = {1.25, 0.25, 0, 2.5};
    static const int8_t one[] = {0, 1, 0, 0}, three[] = {1, 0, 1, 1}, unknown[] = {-1, 1, -1, 1}, none[] = {0, -1, 0, 0};
    assert_true(sample_weight(one, weights, COUNTS) == 0.25);
    assert_true(sample_weight(three, weights, COUNTS) == 1.25);
    assert_true(sample_weight(unknown, weights, COUNTS) == 1.375);
    assert_true(sample_weight(none, weights, COUNTS) == 0);
}

enum { IMAGES = 300, CLASSES = 12, PAIRS = IMAGES * CLASSES };

static void random_scores(uint64_t seed, double shift, double spread, double *scores) {
    for (size_t i = 0; i < PAIRS; i++) {
        const double u = random_uniform(seed, 2 * i), v = random_uniform(seed, 2 * i + 1);
        scores[i] = shift + spread * (u + v - 1);
    }
}

static double labels_per_image(const double *scores, double eta) {
    size_t count = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        count += 1 / (1 + exp(-scores[i])) > eta;
    }
    return (double)count / IMAGES;
}

/* The rule as it reads: in two-hundredths, from 160, at most 100 steps, never leaving (0, 1). */
static double walk_to_threshold(const double *scores, double target) {
    int at = 160, best = 160;
    double best_gap = INFINITY;
    for (int steps = 0; steps <= 100; steps++) {
        const double gap = labels_per_image(scores, at / 200.0) - target;
        if (fabs(gap) < best_gap) {
            best_gap = fabs(gap);
            best = at;
        }
        const int next = gap > 0 ? at + 1 : at - 1;
        if (fabs(gap) <= 0.1 || next <= 0 || next >= 200) {
            break;
        }
        at = next;
    }
    return best / 200.0;
}

static double surveyed_threshold(const double *scores, size_t block, double target) {
    threshold_survey survey = {0};
    for (size_t first = 0; first < IMAGES; first += block) {
        const size_t rows = IMAGES - first < block ? IMAGES - first : block;
        survey_add(3, &survey, REAL_DOUBLE, scores + first * CLASSES, rows, CLASSES);
    }
    assert_int_equal(survey.images, IMAGES);
    return survey_threshold(&survey, target);
}

static void dynamic_threshold_is_where_the_literal_walk_ends(void **state) {
    (void)state;
    static const double targets[] = {0, 0.05, 0.33, 0.77, 1.45, 2.175, 2.9, 5.13, 8.2, 11.95, 12, 40};
    static const double shifts[] = {-6, -2, -0.8, 0, 1.3, 4, 9}, spreads[] = {0.3, 1.7, 5};
    static double scores[PAIRS];
    for (size_t i = 0; i < 7 * 3; i++) {
        random_scores(i, shifts[i % 7], spreads[i / 7], scores);
        for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
            const double expected = walk_to_threshold(scores, targets[t]);
            assert_true(fabs(surveyed_threshold(scores, IMAGES, targets[t]) - expected) < 1e-12);
            assert_true(fabs(surveyed_threshold(scores, 7, targets[t]) - expected) < 1e-12);
        }
    }
}

static void dynamic_threshold_goes_a_hundred_steps_down_and_no_further(void **state) {
    (void)state;
    static double scores[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        scores[i] = i % 2 ? log(0.3025 / 0.6975) : log(0.2975 / 0.7025);
    }
    assert_true(fabs(surveyed_threshold(scores, IMAGES, 12) - 0.3) < 1e-12);
    assert_true(labels_per_image(scores, 0.3) == 6);
}

static void dynamic_threshold_stays_below_one(void **state) {
    (void)state;
    static double scores[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        scores[i] = i % 3 ? 50 : 5.25;
    }
    assert_true(fabs(surveyed_threshold(scores, IMAGES, 0.2) - 0.995) < 1e-12);
}

static void survey_of_single_precision_counts_the_same(void **state) {
    (void)state;
    static double scores[PAIRS];
    static float narrow[PAIRS];
    threshold_survey wide_survey = {0}, narrow_survey = {0};
    random_scores(3, 0, 4, scores);
    for (size_t i = 0; i < PAIRS; i++) {
        narrow[i] = (float)scores[i];
        scores[i] = (double)narrow[i];
    }
    survey_add(3, &wide_survey, REAL_DOUBLE, scores, IMAGES, CLASSES);
    survey_add(3, &narrow_survey, REAL_SINGLE, narrow, IMAGES, CLASSES);
    assert_memory_equal(&wide_survey, &narrow_survey, sizeof wide_survey);
}

static void pseudo_labels_are_the_probabilities_above_eta(void **state) {
    (void)state;
    enum { STRIDE = CLASSES + 3 };
    static double scores[PAIRS];
    static int8_t labels[IMAGES * STRIDE];
    random_scores(5, 0.5, 3, scores);
    memset(labels, 7, sizeof labels);
    const uint64_t made = pseudo_label(REAL_DOUBLE, scores, IMAGES, CLASSES, 0.7, labels, STRIDE);
    assert_true((double)made == IMAGES * labels_per_image(scores, 0.7));
    for (size_t i = 0; i < IMAGES * STRIDE; i++) {
        const size_t column = i % STRIDE;
        const double p = column < CLASSES ? 1 / (1 + exp(-scores[i / STRIDE * CLASSES + column])) : 0;
        assert_int_equal(labels[i], column < CLASSES ? p > 0.7 : 7);
    }
}

static void a_probability_of_exactly_eta_makes_no_pseudo_label(void **state) {
    (void)state;
    static const double scores[] = {0, -0.0, 1e-300, -1e-300};
    int8_t labels[4];
    assert_int_equal(pseudo_label(REAL_DOUBLE, scores, 1, 4, 0.5, labels, 4), 1);
    assert_int_equal(labels[2], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_weights_have_the_values_worked_out_by_hand),
        cmocka_unit_test(class_weights_are_zero_when_no_class_has_an_image),
        cmocka_unit_test(sample_weight_is_the_mean_over_labels_present),
        cmocka_unit_test(dynamic_threshold_is_where_the_literal_walk_ends),
        cmocka_unit_test(dynamic_threshold_goes_a_hundred_steps_down_and_no_further),
        cmocka_unit_test(dynamic_threshold_stays_below_one),
        cmocka_unit_test(survey_of_single_precision_counts_the_same),
        cmocka_unit_test(pseudo_labels_are_the_probabilities_above_eta),
        cmocka_unit_test(a_probability_of_exactly_eta_makes_no_pseudo_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
