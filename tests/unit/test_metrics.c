/* The metrics, against a second implementation that counts, for every image, the images ranked before it. */
#include "support.h"

#include "base/random.h"
#include "measure/metrics.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 150, CLASSES = 8 };

typedef struct table {
    size_t rows, classes;
    float scores[ROWS * CLASSES];
    int8_t labels[ROWS * CLASSES];
} table;

static float score_of(const table *t, size_t row, size_t k) {
    return t->scores[row * t->classes + k];
}

static int8_t label_of(const table *t, size_t row, size_t k) {
    return t->labels[row * t->classes + k];
}

static int not_after(const table *t, size_t k, size_t left, size_t right) {
    const float a = score_of(t, left, k), b = score_of(t, right, k);
    return a > b || (a == b && left <= right);
}

static double naive_precision_at(const table *t, size_t k, size_t row) {
    size_t rank = 0, positives = 0;
    for (size_t i = 0; i < t->rows; i++) {
        const int counts = label_of(t, i, k) >= 0 && not_after(t, k, i, row);
        rank += (size_t)counts;
        positives += counts && label_of(t, i, k) == 1;
    }
    return (double)positives / (double)rank;
}

static double naive_average_precision(const table *t, size_t k) {
    double sum = 0;
    size_t positives = 0;
    for (size_t i = 0; i < t->rows; i++) {
        if (label_of(t, i, k) == 1) {
            sum += naive_precision_at(t, k, i);
            positives++;
        }
    }
    return positives ? 100 * sum / (double)positives : 0;
}

typedef struct tally {
    double hits, predicted, present;
} tally;

static double ratio(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static tally naive_tally(const table *t, size_t k, double theta) {
    tally c = {0, 0, 0};
    for (size_t i = 0; i < t->rows; i++) {
        const int predicted = 1 / (1 + expl(-(long double)score_of(t, i, k))) > (long double)theta;
        if (label_of(t, i, k) >= 0) {
            c.hits += predicted && label_of(t, i, k) == 1;
            c.predicted += predicted;
            c.present += label_of(t, i, k) == 1;
        }
    }
    return c;
}

static void naive_metrics(const table *t, double theta, l3a_metrics *m) {
    tally all = {0, 0, 0};
    *m = (l3a_metrics){.images = t->rows};
    for (size_t k = 0; k < t->classes; k++) {
        const tally c = naive_tally(t, k, theta);
        m->mean_ap += naive_average_precision(t, k);
        m->class_precision += ratio(c.hits, c.predicted);
        m->class_recall += ratio(c.hits, c.present);
        m->class_f1 += ratio(2 * c.hits, c.predicted + c.present);
        all = (tally){all.hits + c.hits, all.predicted + c.predicted, all.present + c.present};
    }
    m->mean_ap /= (double)t->classes;
    m->class_precision /= (double)t->classes;
    m->class_recall /= (double)t->classes;
    m->class_f1 /= (double)t->classes;
    m->overall_precision = ratio(all.hits, all.predicted);
    m->overall_recall = ratio(all.hits, all.present);
    m->overall_f1 = ratio(2 * all.hits, all.predicted + all.present);
}

static void assert_percent(double actual, double expected) {
    if (!(fabs(actual - expected) <= 1e-11)) {
        print_error("%.15g, expected %.15g\n", actual, expected);
    }
    assert_true(fabs(actual - expected) <= 1e-11);
}

/* The precision at the first of the positives, in their order, with which the recall is at least `wanted` of all. */
static double naive_curve_at(const table *t, size_t k, size_t wanted, size_t of) {
    double best = 0;
    size_t least = ROWS + 1, positives = 0;
    for (size_t i = 0; i < t->rows; i++) {
        positives += label_of(t, i, k) == 1;
    }
    for (size_t i = 0; i < t->rows; i++) {
        size_t found = 0;
        for (size_t j = 0; j < t->rows; j++) {
            found += label_of(t, j, k) == 1 && not_after(t, k, j, i);
        }
        if (label_of(t, i, k) == 1 && found * of >= wanted * positives && found < least) {
            least = found;
            best = 100 * naive_precision_at(t, k, i);
        }
    }
    return best;
}

static void check_curves(l3a_context *context, const table *t) {
    float curves[CLASSES * CURVE_POINTS];
    assert_ok(context, measure_curves(context, t->scores, t->labels, t->rows, t->classes, curves));
    for (size_t i = 0; i < t->classes * CURVE_POINTS; i++) {
        assert_true(fabs((double)curves[i] - naive_curve_at(t, i / CURVE_POINTS, i % CURVE_POINTS, CURVE_POINTS - 1)) < 1e-4);
    }
}

/* The score that theta stands for, for each class; valid until the next call. */
static const double *thresholds_of(double theta) {
    static double thresholds[CLASSES];
    for (size_t k = 0; k < CLASSES; k++) {
        thresholds[k] = log(theta / (1 - theta));
    }
    return thresholds;
}

static void check(l3a_context *context, const table *t, double theta) {
    l3a_metrics expected, metrics = {.size = sizeof metrics};
    double ap[CLASSES];
    check_curves(context, t);
    naive_metrics(t, theta, &expected);
    assert_ok(context, l3a_measure(context, t->scores, t->labels, t->rows, t->classes, thresholds_of(theta), &metrics, ap));
    for (size_t k = 0; k < t->classes; k++) {
        assert_percent(ap[k], naive_average_precision(t, k));
    }
    assert_percent(metrics.mean_ap, expected.mean_ap);
    assert_percent(metrics.class_precision, expected.class_precision);
    assert_percent(metrics.class_recall, expected.class_recall);
    assert_percent(metrics.class_f1, expected.class_f1);
    assert_percent(metrics.overall_precision, expected.overall_precision);
    assert_percent(metrics.overall_recall, expected.overall_recall);
    assert_percent(metrics.overall_f1, expected.overall_f1);
    assert_int_equal(metrics.images, t->rows);
}

/* Scores that are multiples of 1/levels in [-2, 2): few levels, many ties. */
static void make_table(table *t, uint64_t seed, double levels, int unknown) {
    t->rows = ROWS;
    t->classes = CLASSES;
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        t->scores[i] = (float)(floor((4 * random_uniform(seed, i) - 2) * levels) / levels);
        t->scores[i] = t->scores[i] == 0 && random_bits(seed + 1, i) % 2 ? -0.0F : t->scores[i];
        t->labels[i] = random_bits(seed + 2, i) % 3 == 0;
        t->labels[i] = unknown && random_bits(seed + 3, i) % 5 == 0 ? -1 : t->labels[i];
    }
}

static void set_class(table *t, size_t k, int8_t label) {
    for (size_t i = 0; i < t->rows; i++) {
        t->labels[i * t->classes + k] = label;
    }
}

static void metrics_equal_the_naive_ones(void **state) {
    (void)state;
    static const double levels[] = {1e6, 100, 4, 1, 0.5}, thetas[] = {0.525, 0.5, 0.8, 0.2};
    static table t;
    for (int threads = 1; threads <= 3; threads += 2) {
        l3a_context *context = make_context(threads);
        for (size_t i = 0; i < 5 * 4 * 2; i++) {
            make_table(&t, i, levels[i % 5], i / 20 == 1);
            check(context, &t, thetas[i / 5 % 4]);
        }
        l3a_context_free(context);
    }
}

static void classes_with_no_or_only_positives_equal_the_naive_ones(void **state) {
    (void)state;
    static table t;
    l3a_context *context = make_context(1);
    double ap[CLASSES];
    l3a_metrics metrics = {.size = sizeof metrics};
    make_table(&t, 9, 10, 1);
    set_class(&t, 0, 0);
    set_class(&t, 3, 1);
    set_class(&t, 5, -1);
    check(context, &t, 0.525);
    assert_ok(context, l3a_measure(context, t.scores, t.labels, t.rows, t.classes, thresholds_of(0.525), &metrics, ap));
    assert_true(ap[0] == 0 && ap[3] == 100 && ap[5] == 0);
    l3a_context_free(context);
}

static void one_image_and_one_class_are_enough(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    table t = {.rows = 1, .classes = 1, .scores = {2}, .labels = {1}};
    check(context, &t, 0.525);
    t.labels[0] = 0;
    check(context, &t, 0.525);
    t.scores[0] = -2;
    check(context, &t, 0.525);
    l3a_context_free(context);
}

static double ap_of_two(l3a_context *context, float first, float second, int8_t first_label) {
    const float scores[] = {first, second};
    const int8_t labels[] = {first_label, !first_label};
    l3a_metrics metrics = {.size = sizeof metrics};
    assert_ok(context, l3a_measure(context, scores, labels, 2, 1, thresholds_of(0.5), &metrics, NULL));
    return metrics.mean_ap;
}

static void equal_scores_stand_in_image_order_and_both_zeros_are_equal(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    assert_true(ap_of_two(context, 0.0F, -0.0F, 1) == 100);
    assert_true(ap_of_two(context, -0.0F, 0.0F, 1) == 100);
    assert_true(ap_of_two(context, 0.0F, -0.0F, 0) == 50);
    assert_true(ap_of_two(context, -0.0F, 0.0F, 0) == 50);
    assert_true(ap_of_two(context, -7, -7, 1) == 100);
    assert_true(ap_of_two(context, -7, -7, 0) == 50);
    l3a_context_free(context);
}

static void scores_of_every_size_are_ranked_right(void **state) {
    (void)state;
    static const float rising[] = {-INFINITY, -FLT_MAX, -2, -1, -FLT_MIN, -1e-45F, 0, 1e-45F, FLT_MIN, 1, 2, FLT_MAX, INFINITY};
    enum { COUNT = sizeof rising / sizeof rising[0] };
    l3a_context *context = make_context(1);
    for (size_t i = 0; i + 1 < COUNT; i++) {
        assert_true(ap_of_two(context, rising[i], rising[i + 1], 1) == 50);
        assert_true(ap_of_two(context, rising[i], rising[i + 1], 0) == 100);
    }
    l3a_context_free(context);
}

static double recall_of_one(l3a_context *context, float score, double theta) {
    const int8_t label = 1;
    l3a_metrics metrics = {.size = sizeof metrics};
    assert_ok(context, l3a_measure(context, &score, &label, 1, 1, thresholds_of(theta), &metrics, NULL));
    return metrics.overall_recall;
}

static void a_class_is_predicted_only_above_theta(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    assert_true(recall_of_one(context, 0.0F, 0.5) == 0);
    assert_true(recall_of_one(context, -0.0F, 0.5) == 0);
    assert_true(recall_of_one(context, 1e-30F, 0.5) == 100);
    assert_true(recall_of_one(context, -1e-30F, 0.5) == 0);
    assert_true(recall_of_one(context, 0.1000F, 0.525) == 0);
    assert_true(recall_of_one(context, 0.1002F, 0.525) == 100);
    assert_true(recall_of_one(context, -20, 1e-9) == 100);
    assert_true(recall_of_one(context, -21, 1e-9) == 0);
    assert_true(recall_of_one(context, 13.8F, 0.999999) == 0);
    assert_true(recall_of_one(context, 13.9F, 0.999999) == 100);
    l3a_context_free(context);
}

static void what_cannot_be_measured_is_refused_and_nothing_is_written(void **state) {
    (void)state;
    const double bad = NAN;
    const float score = 1;
    const int8_t label = 1;
    l3a_context *context = make_context(1);
    l3a_metrics metrics, untouched;
    double ap = 7;
    memset(&metrics, 0x5a, sizeof metrics);
    metrics.size = sizeof metrics;
    untouched = metrics;
    assert_fails(context, l3a_measure(context, &score, &label, 1, 1, &bad, &metrics, &ap), L3A_ERROR_DATA, "threshold of class 0");
    assert_fails(context, l3a_measure(context, &score, &label, 0, 1, thresholds_of(0.5), &metrics, &ap), L3A_ERROR_DATA,
                 "0 images");
    assert_fails(context, l3a_measure(context, &score, &label, 1, 0, thresholds_of(0.5), &metrics, &ap), L3A_ERROR_DATA,
                 "0 classes");
    assert_memory_equal(&metrics, &untouched, sizeof metrics);
    assert_true(ap == 7);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_equal_the_naive_ones),
        cmocka_unit_test(classes_with_no_or_only_positives_equal_the_naive_ones),
        cmocka_unit_test(one_image_and_one_class_are_enough),
        cmocka_unit_test(equal_scores_stand_in_image_order_and_both_zeros_are_equal),
        cmocka_unit_test(scores_of_every_size_are_ranked_right),
        cmocka_unit_test(a_class_is_predicted_only_above_theta),
        cmocka_unit_test(what_cannot_be_measured_is_refused_and_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
