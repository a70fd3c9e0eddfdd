/* The evaluation loop against the same steps by hand: which rows, in which blocks, and what is measured. */
#include "support.h"

#include "measure/evaluate.h"
#include "measure/metrics.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 2500, WIDTH = 4, CLASSES = 5, SEEN = 3, CLASSIFIERS = 2 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel"};
static const size_t columns[SEEN] = {3, 0, 4};

static struct {
    float values[ROWS * WIDTH], scores[CLASSIFIERS][ROWS * SEEN];
    int8_t labels[ROWS * CLASSES], shown[ROWS * SEEN];
    size_t rows[ROWS], count;
} table;

/* What classifier i gives a row. */
static float score_of(size_t classifier, const float *row, size_t k) {
    return classifier ? row[k] * row[k + 1] : row[k] - row[WIDTH - 1];
}

struct seen {
    size_t calls, rows;
};

static l3a_status score(void *state, const float *features, size_t rows, float *const *scores) {
    struct seen *seen = state;
    seen->calls++;
    seen->rows += rows;
    for (size_t i = 0; i < rows * CLASSIFIERS * SEEN; i++) {
        const size_t row = i / (CLASSIFIERS * SEEN), classifier = i / SEEN % CLASSIFIERS, k = i % SEEN;
        scores[classifier][row * SEEN + k] = score_of(classifier, features + row * WIDTH, k);
    }
    return L3A_OK;
}

static l3a_features *make_table(l3a_context *context) {
    l3a_features *features = NULL;
    random_table(8, ROWS, WIDTH, CLASSES, 6, table.values, table.labels);
    table.count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        int8_t shown[SEEN];
        for (size_t k = 0; k < SEEN; k++) {
            shown[k] = table.labels[i * CLASSES + columns[k]];
        }
        if (memchr(shown, 1, SEEN)) {
            memcpy(table.shown + table.count * SEEN, shown, SEEN);
            for (size_t j = 0; j < CLASSIFIERS * SEEN; j++) {
                table.scores[j / SEEN][table.count * SEEN + j % SEEN] = score_of(j / SEEN, table.values + i * WIDTH, j % SEEN);
            }
            table.rows[table.count++] = i;
        }
    }
    assert_true(table.count > 1024 && table.count < ROWS);
    assert_ok(context, l3a_features_wrap(context, table.values, table.labels, ROWS, 1, WIDTH, names, CLASSES, &features));
    return features;
}

static void classifiers_share_the_rows(void **state) {
    (void)state;
    const double thresholds[SEEN] = {-0.2, 0, 0.3};
    l3a_context *context = make_context(2);
    l3a_features *features = make_table(context);
    struct evaluation evaluation;
    struct seen seen = {0};
    assert_ok(context, evaluation_begin(features, columns, SEEN, &evaluation));
    assert_int_equal(evaluation.count, table.count);
    assert_memory_equal(evaluation.rows.rows, table.rows, table.count * sizeof *table.rows);
    assert_memory_equal(evaluation.labels, table.shown, table.count * SEEN);
    assert_ok(context, evaluation_score(&evaluation, CLASSIFIERS, 1, score, &seen));
    assert_true(seen.rows == table.count && seen.calls > 1);
    for (size_t i = 0; i < CLASSIFIERS; i++) {
        l3a_metrics metrics, expected;
        double precisions[SEEN], expected_precisions[SEEN], among = -1, expected_among = -2;
        assert_memory_equal(evaluation_scores(&evaluation, i), table.scores[i], table.count * SEEN * sizeof(float));
        assert_ok(context, evaluation_measure(&evaluation, i, thresholds, &metrics, precisions));
        assert_ok(context,
                  measure(context, table.scores[i], table.shown, table.count, SEEN, thresholds, &expected, expected_precisions));
        assert_memory_equal(&metrics, &expected, sizeof metrics);
        assert_memory_equal(precisions, expected_precisions, sizeof precisions);
        assert_ok(context, evaluation_among(&evaluation, i, 1, SEEN, &among));
        assert_ok(context, measure_among(context, table.scores[i], table.shown, table.count, SEEN, 1, SEEN, &expected_among));
        assert_true(among == expected_among && among > 0);
    }
    evaluation_free(&evaluation);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void blocks_can_be_scored_together(void **state) {
    (void)state;
    l3a_context *context = make_context(2);
    l3a_features *features = make_table(context);
    struct evaluation evaluation;
    struct seen seen = {0};
    assert_ok(context, evaluation_begin(features, columns, SEEN, &evaluation));
    assert_ok(context, evaluation_score(&evaluation, CLASSIFIERS, 2, score, &seen));
    assert_true(seen.rows == table.count && seen.calls == (table.count + 2047) / 2048);
    for (size_t i = 0; i < CLASSIFIERS; i++) {
        assert_memory_equal(evaluation_scores(&evaluation, i), table.scores[i], table.count * SEEN * sizeof(float));
    }
    evaluation_free(&evaluation);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void there_may_be_nothing_to_measure(void **state) {
    (void)state;
    static const int8_t labels[2 * CLASSES] = {0, 1, 0, 0, 0, 0, 0, 1, 0, 0};
    l3a_context *context = make_context(1);
    l3a_features *features = NULL;
    struct evaluation evaluation;
    assert_ok(context, l3a_features_wrap(context, table.values, labels, 2, 1, WIDTH, names, CLASSES, &features));
    assert_ok(context, evaluation_begin(features, columns, SEEN, &evaluation));
    assert_int_equal(evaluation.count, 0);
    evaluation_free(&evaluation);
    l3a_features_free(features);
    l3a_context_free(context);
}

static l3a_status refuse(void *state, const float *features, size_t rows, float *const *scores) {
    (void)state;
    (void)features;
    (void)rows;
    (void)scores;
    return L3A_ERROR_NUMERIC;
}

static void a_failure_of_a_classifier_ends_the_loop(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    struct evaluation evaluation;
    assert_ok(context, evaluation_begin(features, columns, SEEN, &evaluation));
    assert_int_equal(evaluation_score(&evaluation, 1, 1, refuse, NULL), L3A_ERROR_NUMERIC);
    evaluation_free(&evaluation);
    l3a_features_free(features);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classifiers_share_the_rows),
        cmocka_unit_test(blocks_can_be_scored_together),
        cmocka_unit_test(there_may_be_nothing_to_measure),
        cmocka_unit_test(a_failure_of_a_classifier_ends_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
