/* A lesson that does not come to its end leaves the model as it was. test_teach.py compares lessons with NumPy. */
#include "support.h"

#include "data/features.h"
#include "learn/model.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 6, DIM = 20, CLASSES = 4, ROWS = 30, FIRST = 20 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog"};

static float features[ROWS * WIDTH];
static int8_t labels[ROWS * CLASSES];

/* Counts progress events, and cancels at one of them. */
struct events {
    size_t seen, cancel;
};

static int count_events(const l3a_event *event, void *user) {
    struct events *events = user;
    return event->kind == L3A_EVENT_PROGRESS && ++events->seen == events->cancel;
}

static l3a_model *make_model(l3a_context *context, const char *solver, const char *alpha) {
    struct model_options options;
    l3a_model *model = NULL;
    model_options_default(&options);
    assert_ok(context, model_options_set(context, &options, "dim", "20"));
    assert_ok(context, model_options_set(context, &options, "gamma", "2"));
    assert_ok(context, model_options_set(context, &options, "precision", "double"));
    assert_ok(context, model_options_set(context, &options, "weights", "none"));
    assert_ok(context, model_options_set(context, &options, "pseudo", "off"));
    assert_ok(context, model_options_set(context, &options, "privacy-limit", "0"));
    assert_ok(context, model_options_set(context, &options, "solver", solver));
    assert_ok(context, model_options_set(context, &options, "alpha", alpha));
    assert_ok(context, model_create(context, WIDTH, &options, &model));
    return model;
}

static l3a_status teach(l3a_context *context, l3a_model *model, size_t first, size_t count) {
    l3a_features *table = NULL;
    l3a_teach_report report = {.size = sizeof report};
    assert_ok(context,
              l3a_features_wrap(context, features + first * WIDTH, labels + first * CLASSES, count, WIDTH, names, CLASSES, &table));
    const l3a_status status = l3a_model_teach(model, table, &report);
    l3a_features_free(table);
    return status;
}

/* The matrix, C and W, one after the other. */
enum { NUMBERS = DIM * DIM + 2 * DIM * CLASSES };

static void copy_numbers(l3a_context *context, const l3a_model *model, double numbers[NUMBERS]) {
    assert_ok(context, l3a_model_matrix(model, 0, DIM, numbers));
    memcpy(numbers + DIM * DIM, l3a_model_cross(model), DIM * CLASSES * sizeof *numbers);
    memcpy(numbers + DIM * DIM + DIM * CLASSES, l3a_model_coefficients(model), DIM * CLASSES * sizeof *numbers);
}

/* Cancels a second lesson at each progress event before it becomes part of the model, and then teaches it after all. */
static void cancel_everywhere(const char *solver, const char *alpha) {
    struct events events = {0};
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = count_events, .event_user = &events};
    double before[NUMBERS], expected[NUMBERS], after[NUMBERS];
    l3a_context *context = NULL;
    size_t cancelled = 0;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    random_table(9, ROWS, WIDTH, CLASSES, 3, features, labels);
    l3a_model *model = make_model(context, solver, alpha);
    assert_ok(context, teach(context, model, 0, FIRST));
    copy_numbers(context, model, before);
    assert_ok(context, teach(context, model, FIRST, ROWS - FIRST));
    copy_numbers(context, model, expected);
    l3a_model_free(model);
    for (size_t at = 1;; at++) {
        model = make_model(context, solver, alpha);
        assert_ok(context, teach(context, model, 0, FIRST));
        events = (struct events){.cancel = at};
        const l3a_status status = teach(context, model, FIRST, ROWS - FIRST);
        events = (struct events){0};
        if (status == L3A_OK || model->state != MODEL_READY) { /* it came to its end, or to solving */
            l3a_model_free(model);
            break;
        }
        assert_int_equal(status, L3A_ERROR_CANCELLED);
        copy_numbers(context, model, after);
        assert_memory_equal(after, before, sizeof before);
        assert_ok(context, teach(context, model, FIRST, ROWS - FIRST));
        copy_numbers(context, model, after);
        assert_memory_equal(after, expected, sizeof expected);
        l3a_model_free(model);
        cancelled++;
    }
    assert_true(cancelled >= 2); /* before the rows are read, and after */
    l3a_context_free(context);
}

static void a_lesson_that_is_cancelled_changes_nothing(void **state) {
    (void)state;
    cancel_everywhere("sums", "1");
    cancel_everywhere("recursive", "1");
    cancel_everywhere("sums", "0.3");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lesson_that_is_cancelled_changes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
