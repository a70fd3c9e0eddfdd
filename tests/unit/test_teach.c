/* A lesson that does not come to its end leaves the model as it was; and lessons to many classes and judged sets, which are solved
 * in other ways than those to few. test_teach.py compares lessons with NumPy. */
#include "support.h"

#include "data/features.h"
#include "learn/model.h"

#include <math.h>
#include <stdio.h>
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
    assert_ok(context, l3a_features_wrap(context, features + first * WIDTH, labels + first * CLASSES, count, 1, WIDTH, names,
                                         CLASSES, &table));
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

/* ---- Many classes ---- */

enum { MANY = 120, SIDE = 8, MANY_DIM = 48, LESSONS = 30, ALL = 2 * MANY + LESSONS };

struct crowd {
    char texts[MANY][16];
    const char *names[MANY];
    float features[ALL * SIDE];
    int8_t labels[ALL * MANY];
    size_t rows;
};

/* Adds an image of a class that was judged for the classes [first, last). */
static void add_image(struct crowd *crowd, size_t class, size_t first, size_t last) {
    float *to = crowd->features + crowd->rows * SIDE;
    int8_t unused;
    random_table(1000 + crowd->rows, 1, SIDE, 1, 1, to, &unused);
    for (size_t i = 0; i < SIDE; i++) {
        to[i] += 1 + (class >> i % 7 & 1 ? 1.f : 0.f);
    }
    for (size_t k = 0; k < MANY; k++) {
        crowd->labels[crowd->rows * MANY + k] = k == class ? 1 : k >= first && k < last ? 0 : -1;
    }
    crowd->rows++;
}

static l3a_model *make_crowd_model(l3a_context *context, const char *precision) {
    struct model_options options;
    l3a_model *model = NULL;
    model_options_default(&options);
    options.dim = MANY_DIM;
    options.gamma = 20;
    options.alpha = 0.3;
    options.lift = 0;
    options.pseudo = L3A_PSEUDO_OFF;
    options.weights = L3A_WEIGHTS_NONE;
    assert_ok(context, model_options_set(context, &options, "precision", precision));
    assert_ok(context, model_options_set(context, &options, "privacy-limit", "0"));
    assert_ok(context, model_create(context, SIDE, &options, &model));
    return model;
}

static void teach_crowd(l3a_context *context, l3a_model *model, const struct crowd *crowd, size_t first, size_t rows) {
    l3a_features *table = NULL;
    l3a_teach_report report = {.size = sizeof report};
    assert_ok(context, l3a_features_wrap(context, crowd->features + first * SIDE, crowd->labels + first * MANY, rows, 1, SIDE,
                                         crowd->names, MANY, &table));
    assert_ok(context, l3a_model_teach(model, table, &report));
    l3a_features_free(table);
}

/* The difference of the coefficients of each class, in the norm of its system: ‖δ‖² = Σ ω (x·δ)² + γ δ·δ, with ω = 1 for images
 * that were judged for the class, and 0.3 for others. In double precision, every system is factored. */
static void compare_crowds(l3a_context *context, l3a_model *fast, l3a_model *exact, const struct crowd *crowd) {
    static float found[ALL * MANY], expected[ALL * MANY];
    const double *w = l3a_model_coefficients(fast), *v = l3a_model_coefficients(exact);
    assert_ok(context, l3a_model_score(fast, crowd->features, crowd->rows, found));
    assert_ok(context, l3a_model_score(exact, crowd->features, crowd->rows, expected));
    for (size_t k = 0; k < MANY; k++) {
        double off = 0, length = 0;
        for (size_t i = 0; i < crowd->rows; i++) {
            const double weight = crowd->labels[i * MANY + k] == -1 ? 0.3 : 1;
            const double a = (double)found[i * MANY + k], b = (double)expected[i * MANY + k];
            off += weight * (a - b) * (a - b);
            length += weight * b * b;
        }
        for (size_t j = 0; j < l3a_model_inputs(fast); j++) {
            off += 20 * (w[j * MANY + k] - v[j * MANY + k]) * (w[j * MANY + k] - v[j * MANY + k]);
            length += 20 * v[j * MANY + k] * v[j * MANY + k];
        }
        assert_true(sqrt(off) <= 1e-3 * sqrt(length)); /* part_solve.c: tolerance_of_lessons */
    }
}

/* Two images of each class in so many judged sets, nested or apart, and then lessons of one image. */
static void teach_many(size_t sets, bool nested) {
    l3a_context *context = make_context(1);
    struct crowd *crowd = calloc(1, sizeof *crowd);
    l3a_model *fast = make_crowd_model(context, "mixed"), *exact = make_crowd_model(context, "double");
    for (size_t k = 0; k < MANY; k++) {
        snprintf(crowd->texts[k], sizeof crowd->texts[k], "class %zu", k);
        crowd->names[k] = crowd->texts[k];
    }
    for (size_t i = 0; i < 2 * MANY; i++) {
        const size_t class = i / 2, set = class * sets / MANY;
        add_image(crowd, class, nested ? 0 : (set * MANY + sets - 1) / sets, ((set + 1) * MANY + sets - 1) / sets);
    }
    teach_crowd(context, fast, crowd, 0, crowd->rows);
    teach_crowd(context, exact, crowd, 0, crowd->rows);
    assert_int_equal(l3a_model_part_count(fast), sets);
    for (size_t n = 0; n < LESSONS; n++) {
        const size_t class = n * 37 % MANY;
        add_image(crowd, class, n % 3 ? 0 : class, n % 3 == 1 ? MANY : class + 1); /* all classes, some, or one */
        teach_crowd(context, fast, crowd, crowd->rows - 1, 1);
        teach_crowd(context, exact, crowd, crowd->rows - 1, 1);
        if (n % 5 == 4) {
            compare_crowds(context, fast, exact, crowd);
        }
    }
    free(crowd);
    l3a_model_free(fast);
    l3a_model_free(exact);
    l3a_context_free(context);
}

static void lessons_to_many_classes_are_solved(void **state) {
    (void)state;
    teach_many(1, true);
    teach_many(3, true);
    teach_many(3, false);
    teach_many(MANY, true);
    teach_many(MANY, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lesson_that_is_cancelled_changes_nothing),
                                       cmocka_unit_test(lessons_to_many_classes_are_solved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
