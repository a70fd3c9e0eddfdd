/* What goes wrong in a phase: the error names it, and the model is as good as it was or says that it is not. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 6, DIM = 20, CLASSES = 4, STEP = 2, ROWS = 48 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog"};

typedef struct world {
    l3a_context *context;
    l3a_model *model;
    float features[ROWS * WIDTH];
    int8_t labels[ROWS * STEP];
    char *folder, *path;
    const char *cancel_stage; /* progress of this stage is answered with "stop" */
    uint64_t cancel_from;
} world;

static int answer_event(const l3a_event *event, void *user) {
    const world *w = user;
    return event->kind == L3A_EVENT_PROGRESS && w->cancel_stage && strcmp(event->stage, w->cancel_stage) == 0 &&
           event->done >= w->cancel_from;
}

static l3a_options small_options(void) {
    l3a_options options;
    options_default(&options);
    options.model.dim = DIM;
    options.model.gamma = 2;
    options.model.precision = L3A_PRECISION_DOUBLE;
    options.model.solver = L3A_SOLVER_SUMS;
    options.model.block = 16;
    return options;
}

static void make_model(world *w, const l3a_options *options) {
    l3a_model_free(w->model);
    w->model = NULL;
    assert_ok(w->context, l3a_model_create(w->context, WIDTH, options, &w->model));
}

static int set_up(void **state) {
    world *w = calloc(1, sizeof *w);
    const l3a_options options = small_options();
    l3a_context_options context_options = {.size = sizeof context_options};
    context_options.threads = 1;
    context_options.on_event = answer_event;
    context_options.event_user = w;
    assert_int_equal(l3a_context_create(&context_options, &w->context), L3A_OK);
    make_model(w, &options);
    random_table(4, ROWS, WIDTH, STEP, 3, w->features, w->labels);
    w->folder = make_temporary_folder();
    w->path = path_in(w->folder, "model.l3a");
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    l3a_model_free(w->model);
    l3a_context_free(w->context);
    free(w->path);
    remove_folder(w->folder);
    free(w);
    return 0;
}

static void begin(world *w, size_t phase) {
    assert_ok(w->context, l3a_phase_begin(w->model, class_names + phase * STEP, STEP));
}

static void begin_and_count(world *w, size_t phase, size_t rows) {
    begin(w, phase);
    assert_ok(w->context, l3a_phase_count(w->model, w->labels, rows));
}

static l3a_status learn_rows(world *w, size_t first, size_t rows) {
    return l3a_phase_learn(w->model, w->features + first * WIDTH, w->labels + first * STEP, rows);
}

static void learn_phase(world *w, size_t phase) {
    begin_and_count(w, phase, ROWS);
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    assert_ok(w->context, l3a_phase_end(w->model));
}

static float *copy_scores(world *w) {
    float *scores = calloc(ROWS * CLASSES, sizeof *scores);
    assert_ok(w->context, l3a_model_score(w->model, w->features, ROWS, scores));
    return scores;
}

static void assert_scores_as(world *w, float *before) {
    float *now = copy_scores(w);
    assert_memory_equal(now, before, ROWS * CLASSES * sizeof *now);
    free(now);
    free(before);
}

/* The coefficients after both phases when nothing goes wrong. */
static void expected_coefficients(const l3a_options *options, double *coefficients) {
    world *w = NULL;
    set_up((void **)&w);
    make_model(w, options);
    learn_phase(w, 0);
    learn_phase(w, 1);
    memcpy(coefficients, l3a_model_coefficients(w->model), DIM * CLASSES * sizeof *coefficients);
    tear_down((void **)&w);
}

static void assert_learned_as_if_nothing_had_happened(world *w) {
    double coefficients[DIM * CLASSES];
    const l3a_options options = options_of(w->model);
    expected_coefficients(&options, coefficients);
    assert_int_equal(l3a_model_class_count(w->model), CLASSES);
    assert_memory_equal(l3a_model_coefficients(w->model), coefficients, sizeof coefficients);
    assert_ok(w->context, l3a_model_save(w->model, w->path));
}

static void assert_refuses_to_learn_and_save(world *w) {
    assert_fails(w->context, l3a_phase_begin(w->model, class_names + STEP, STEP), L3A_ERROR_STATE, "halfway");
    assert_fails(w->context, l3a_phase_count(w->model, w->labels, 1), L3A_ERROR_STATE, "halfway");
    assert_fails(w->context, learn_rows(w, 0, 1), L3A_ERROR_STATE, "halfway");
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "halfway");
    assert_fails(w->context, l3a_model_save(w->model, w->path), L3A_ERROR_STATE, "cannot be saved");
    assert_int_not_equal(access(w->path, F_OK), 0);
}

/* ---- Bad features and labels ---- */

static void check_bad_feature(world *w, float value, const char *says) {
    enum { BAD_ROW = 5, BAD_COLUMN = 3 };
    static float bad[ROWS * WIDTH];
    memcpy(bad, w->features, sizeof bad);
    bad[BAD_ROW * WIDTH + BAD_COLUMN] = value;
    learn_phase(w, 0);
    begin_and_count(w, 1, ROWS);
    assert_fails(w->context, l3a_phase_learn(w->model, bad, w->labels, 10), L3A_ERROR_DATA, says);
    assert_ok(w->context, learn_rows(w, 0, 20));
    assert_fails(w->context, l3a_phase_learn(w->model, bad, w->labels, 10), L3A_ERROR_DATA, says);
    assert_ok(w->context, learn_rows(w, 20, ROWS - 20));
    assert_ok(w->context, l3a_phase_end(w->model));
    assert_learned_as_if_nothing_had_happened(w);
}

static void a_block_with_a_nan_is_not_taken(void **state) {
    check_bad_feature(*state, NAN, "row 5, column 3: the feature is not a number (NaN)");
}

static void a_block_with_an_infinity_is_not_taken(void **state) {
    check_bad_feature(*state, -INFINITY, "row 5, column 3: the feature is infinite");
}

static void a_block_with_a_feature_that_drowns_all_others_is_not_taken(void **state) {
    check_bad_feature(*state, 1e12f, "column 3: the feature is 1e+12");
}

static void a_nan_cannot_be_surveyed_or_scored(void **state) {
    world *w = *state;
    float scores[CLASSES], bad[WIDTH] = {0, 0, NAN, 0, 0, 0};
    l3a_options options = small_options();
    options.model.pseudo = L3A_PSEUDO_DYNAMIC;
    make_model(w, &options);
    learn_phase(w, 0);
    assert_fails(w->context, l3a_model_score(w->model, bad, 1, scores), L3A_ERROR_DATA, "row 0, column 2");
    begin_and_count(w, 1, ROWS);
    assert_fails(w->context, l3a_phase_survey(w->model, bad, 1), L3A_ERROR_DATA, "row 0, column 2");
    assert_ok(w->context, l3a_phase_survey(w->model, w->features, ROWS));
    assert_ok(w->context, learn_rows(w, 0, ROWS));
}

static void a_nan_in_a_table_leaves_the_model_scoring(void **state) {
    world *w = *state;
    l3a_features *table = NULL;
    learn_phase(w, 0);
    float *before = copy_scores(w), bad[ROWS * WIDTH];
    memcpy(bad, w->features, sizeof bad);
    bad[7 * WIDTH + 1] = NAN;
    assert_ok(w->context, l3a_features_wrap(w->context, bad, w->labels, ROWS, 1, WIDTH, class_names + STEP, STEP, &table));
    assert_fails(w->context, l3a_model_learn(w->model, table, class_names + STEP, STEP), L3A_ERROR_DATA, "row 7, column 1");
    assert_scores_as(w, before);
    l3a_features_free(table);
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void a_label_of_two_is_refused_in_both_passes(void **state) {
    world *w = *state;
    int8_t bad[ROWS * STEP];
    memcpy(bad, w->labels, sizeof bad);
    bad[9 * STEP + 1] = 2;
    learn_phase(w, 0);
    begin(w, 1);
    assert_fails(w->context, l3a_phase_count(w->model, bad, ROWS), L3A_ERROR_DATA, "row 9, class 'dog': label 2");
    assert_ok(w->context, l3a_phase_count(w->model, w->labels, ROWS));
    assert_fails(w->context, l3a_phase_learn(w->model, w->features, bad, ROWS), L3A_ERROR_DATA, "row 9, class 'dog': label 2");
    bad[9 * STEP + 1] = -2;
    assert_fails(w->context, l3a_phase_learn(w->model, w->features, bad, ROWS), L3A_ERROR_DATA, "label -2");
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    assert_ok(w->context, l3a_phase_end(w->model));
    assert_learned_as_if_nothing_had_happened(w);
}

/* ---- Classes ---- */

static void classes_must_be_new_named_and_different(void **state) {
    world *w = *state;
    static const char *const twice[] = {"eel", "eel"}, *const again[] = {"eel", "bee"}, *const empty[] = {"eel", ""},
                             *const lines[] = {"eel\nfox"}, *const missing[] = {"eel", NULL};
    learn_phase(w, 0);
    assert_fails(w->context, l3a_phase_begin(w->model, twice, 2), L3A_ERROR_CLASS, "'eel' is listed twice");
    assert_fails(w->context, l3a_phase_begin(w->model, again, 2), L3A_ERROR_CLASS, "'bee' has already been learned");
    assert_fails(w->context, l3a_phase_begin(w->model, empty, 2), L3A_ERROR_CLASS, "class 1");
    assert_fails(w->context, l3a_phase_begin(w->model, lines, 1), L3A_ERROR_CLASS, "class 0");
    assert_fails(w->context, l3a_phase_begin(w->model, missing, 2), L3A_ERROR_CLASS, "class 1");
    assert_fails(w->context, l3a_phase_begin(w->model, twice, 0), L3A_ERROR_ARGUMENT, "no classes");
    assert_fails(w->context, l3a_phase_begin(w->model, NULL, 2), L3A_ERROR_ARGUMENT, "classes");
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void a_table_must_know_the_classes_and_show_them(void **state) {
    world *w = *state;
    l3a_features *table = NULL, *narrow = NULL;
    static const char *const unknown[] = {"ante"};
    int8_t none[ROWS * STEP] = {0};
    assert_ok(w->context, l3a_features_wrap(w->context, w->features, none, ROWS, 1, WIDTH, class_names, STEP, &table));
    assert_ok(w->context, l3a_features_wrap(w->context, w->features, w->labels, ROWS, 1, WIDTH - 1, class_names, STEP, &narrow));
    assert_fails(w->context, l3a_model_learn(w->model, table, unknown, 1), L3A_ERROR_CLASS, "'ante'");
    assert_non_null(strstr(l3a_error_hint(w->context), "'ant'"));
    assert_fails(w->context, l3a_model_learn(w->model, table, class_names, STEP), L3A_ERROR_DATA, "no image");
    assert_fails(w->context, l3a_model_learn(w->model, narrow, class_names, STEP), L3A_ERROR_MISMATCH, "5 wide");
    l3a_features_free(table);
    l3a_features_free(narrow);
    learn_phase(w, 0);
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

/* ---- Order of calls ---- */

static void nothing_is_done_outside_a_phase(void **state) {
    world *w = *state;
    float scores[CLASSES];
    assert_fails(w->context, l3a_phase_count(w->model, w->labels, ROWS), L3A_ERROR_STATE, "no phase");
    assert_fails(w->context, l3a_phase_survey(w->model, w->features, ROWS), L3A_ERROR_STATE, "no phase");
    assert_fails(w->context, learn_rows(w, 0, ROWS), L3A_ERROR_STATE, "no phase");
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "no phase");
    assert_fails(w->context, l3a_model_score(w->model, w->features, 1, scores), L3A_ERROR_STATE, "no class");
    l3a_phase_abandon(w->model);
    learn_phase(w, 0);
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void a_phase_is_not_begun_inside_another(void **state) {
    world *w = *state;
    begin(w, 0);
    assert_fails(w->context, l3a_phase_begin(w->model, class_names + STEP, STEP), L3A_ERROR_STATE, "in progress");
    assert_ok(w->context, l3a_phase_count(w->model, w->labels, ROWS));
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    assert_fails(w->context, l3a_phase_begin(w->model, class_names + STEP, STEP), L3A_ERROR_STATE, "in progress");
    assert_ok(w->context, l3a_phase_end(w->model));
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void an_empty_phase_is_refused(void **state) {
    world *w = *state;
    begin(w, 0);
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_DATA, "no image");
    assert_ok(w->context, l3a_phase_count(w->model, w->labels, 0));
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_DATA, "no image");
}

static void a_phase_in_which_no_image_has_a_label_is_refused(void **state) {
    world *w = *state;
    const int8_t none[ROWS * STEP] = {0};
    begin(w, 0);
    assert_ok(w->context, l3a_phase_count(w->model, none, ROWS));
    assert_ok(w->context, l3a_phase_learn(w->model, w->features, none, ROWS));
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_DATA, "none of the 48 images");
    assert_int_equal(l3a_model_class_count(w->model), 0);
}

static void rows_are_learned_only_after_they_were_counted(void **state) {
    world *w = *state;
    begin(w, 0);
    assert_fails(w->context, learn_rows(w, 0, ROWS), L3A_ERROR_DATA, "no image");
    assert_ok(w->context, l3a_phase_count(w->model, w->labels, ROWS));
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    assert_ok(w->context, l3a_phase_end(w->model));
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void labels_are_not_counted_once_learning_has_begun(void **state) {
    world *w = *state;
    begin_and_count(w, 0, ROWS);
    assert_ok(w->context, learn_rows(w, 0, 1));
    assert_fails(w->context, l3a_phase_count(w->model, w->labels, ROWS), L3A_ERROR_STATE, "before the first row");
    assert_fails(w->context, l3a_phase_survey(w->model, w->features, ROWS), L3A_ERROR_STATE, "before the first row");
    assert_ok(w->context, learn_rows(w, 1, ROWS - 1));
    assert_ok(w->context, l3a_phase_end(w->model));
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void more_rows_than_counted_are_not_taken(void **state) {
    world *w = *state;
    begin_and_count(w, 0, ROWS);
    assert_ok(w->context, learn_rows(w, 0, 40));
    assert_fails(w->context, learn_rows(w, 0, 9), L3A_ERROR_STATE, "48 rows were counted");
    assert_ok(w->context, learn_rows(w, 40, 8));
    assert_fails(w->context, learn_rows(w, 0, 1), L3A_ERROR_STATE, "48 rows were counted");
    assert_ok(w->context, l3a_phase_end(w->model));
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void a_phase_does_not_end_before_all_rows_are_learned(void **state) {
    world *w = *state;
    begin_and_count(w, 0, ROWS);
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "48 rows were counted, but 0 were learned");
    assert_ok(w->context, learn_rows(w, 0, 47));
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "48 rows were counted, but 47 were learned");
    assert_ok(w->context, learn_rows(w, 47, 1));
    assert_ok(w->context, l3a_phase_end(w->model));
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void labels_that_differ_between_the_passes_are_noticed(void **state) {
    world *w = *state;
    int8_t other[ROWS * STEP];
    memcpy(other, w->labels, sizeof other);
    other[3 * STEP + 1] = !other[3 * STEP + 1];
    learn_phase(w, 0);
    float *before = copy_scores(w);
    begin_and_count(w, 1, ROWS);
    assert_ok(w->context, l3a_phase_learn(w->model, w->features, other, ROWS));
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "class 'dog'");
    assert_scores_as(w, before);
    l3a_phase_abandon(w->model);
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

static void a_dynamic_threshold_needs_a_survey_of_every_row(void **state) {
    world *w = *state;
    l3a_options options = small_options();
    options.model.pseudo = L3A_PSEUDO_DYNAMIC;
    make_model(w, &options);
    learn_phase(w, 0);
    begin_and_count(w, 1, ROWS);
    assert_fails(w->context, learn_rows(w, 0, ROWS), L3A_ERROR_STATE, "needs a survey of 48 rows, but 0");
    assert_ok(w->context, l3a_phase_survey(w->model, w->features, 40));
    assert_fails(w->context, learn_rows(w, 0, ROWS), L3A_ERROR_STATE, "needs a survey of 48 rows, but 40");
    assert_ok(w->context, l3a_phase_survey(w->model, w->features + 40 * WIDTH, 8));
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    assert_ok(w->context, l3a_phase_end(w->model));
}

static void a_model_is_not_saved_in_a_phase(void **state) {
    world *w = *state;
    begin_and_count(w, 0, ROWS);
    assert_fails(w->context, l3a_model_save(w->model, w->path), L3A_ERROR_STATE, "middle of a phase");
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    assert_fails(w->context, l3a_model_save(w->model, w->path), L3A_ERROR_STATE, "middle of a phase");
    assert_ok(w->context, l3a_phase_end(w->model));
    assert_ok(w->context, l3a_model_save(w->model, w->path));
}

/* ---- Leaving a phase ---- */

static void a_phase_left_before_any_row_leaves_the_model_good(void **state) {
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        world *w = *state;
        l3a_options options = small_options();
        options.model.solver = (l3a_solver)solver;
        make_model(w, &options);
        begin(w, 0);
        l3a_phase_abandon(w->model);
        learn_phase(w, 0);
        float *before = copy_scores(w);
        begin_and_count(w, 1, ROWS);
        l3a_phase_abandon(w->model);
        assert_scores_as(w, before);
        learn_phase(w, 1);
        assert_learned_as_if_nothing_had_happened(w);
    }
}

static void a_phase_left_before_its_first_full_block_leaves_the_model_good(void **state) {
    world *w = *state;
    learn_phase(w, 0);
    begin_and_count(w, 1, ROWS);
    assert_ok(w->context, learn_rows(w, 0, 15));
    l3a_phase_abandon(w->model);
    learn_phase(w, 1);
    assert_learned_as_if_nothing_had_happened(w);
}

/* The rows of a phase are in sums of its own until it ends; the recursion keeps a copy of what it changes. */
static void a_phase_left_after_a_block_leaves_the_model_good(void **state) {
    static const l3a_solver solvers[] = {L3A_SOLVER_SUMS, L3A_SOLVER_RECURSIVE};
    static const double alphas[] = {1, 1, 0.3};
    world *w = *state;
    for (size_t i = 0; i < 3; i++) {
        l3a_options options = small_options();
        options.model.solver = solvers[i % 2];
        options.model.alpha = alphas[i];
        options.model.pseudo = alphas[i] < 1 ? L3A_PSEUDO_OFF : options.model.pseudo;
        make_model(w, &options);
        learn_phase(w, 0);
        float *before = copy_scores(w);
        begin_and_count(w, 1, ROWS);
        assert_ok(w->context, learn_rows(w, 0, 33));
        l3a_phase_abandon(w->model);
        assert_scores_as(w, before);
        l3a_phase_abandon(w->model);
        assert_int_equal(l3a_model_class_count(w->model), STEP);
        learn_phase(w, 1);
        assert_learned_as_if_nothing_had_happened(w);
    }
}

static void an_open_phase_does_not_change_the_scores(void **state) {
    world *w = *state;
    learn_phase(w, 0);
    float *before = copy_scores(w);
    begin_and_count(w, 1, ROWS);
    assert_ok(w->context, learn_rows(w, 0, 40));
    assert_scores_as(w, before);
    assert_ok(w->context, learn_rows(w, 40, 8));
    assert_ok(w->context, l3a_phase_end(w->model));
    assert_learned_as_if_nothing_had_happened(w);
}

/* ---- Settings and sizes ---- */

static void check_setting(world *w, const l3a_options *options, const char *name) {
    l3a_model *none = NULL;
    assert_fails(w->context, l3a_model_create(w->context, WIDTH, options, &none), L3A_ERROR_OPTION, name);
    assert_null(none);
}

static void settings_out_of_range_make_no_model(void **state) {
    static const double bad_gamma[] = {-1, NAN, INFINITY}, bad_eta[] = {0, 1, -0.1, 1.5, NAN};
    static const uint64_t bad_dim[] = {0, (1 << 20) + 1, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        l3a_options options = small_options();
        options.model.gamma = bad_gamma[i];
        check_setting(*state, &options, "gamma");
    }
    for (size_t i = 0; i < 5; i++) {
        l3a_options options = small_options();
        options.model.eta = bad_eta[i];
        check_setting(*state, &options, "eta");
    }
    for (size_t i = 0; i < 3; i++) {
        l3a_options options = small_options();
        options.model.dim = bad_dim[i];
        check_setting(*state, &options, "dim");
    }
    l3a_options options = small_options();
    options.model.block = 0;
    check_setting(*state, &options, "block");
    options = small_options();
    options.model.weights = (l3a_weighting)9;
    check_setting(*state, &options, "weights");
}

static void features_of_no_width_make_no_model(void **state) {
    world *w = *state;
    const l3a_options options = small_options();
    l3a_model *none = NULL;
    assert_fails(w->context, l3a_model_create(w->context, 0, &options, &none), L3A_ERROR_ARGUMENT, "0 wide");
    assert_fails(w->context, l3a_model_create(w->context, SIZE_MAX, &options, &none), L3A_ERROR_ARGUMENT, "wide");
    assert_null(none);
}

static l3a_context *make_limited_context(uint64_t bytes) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    options.threads = 1;
    options.memory_limit = bytes;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

static void a_model_larger_than_memory_is_not_begun(void **state) {
    (void)state;
    l3a_context *context = make_limited_context(UINT64_C(1) << 30);
    l3a_options options = small_options();
    l3a_model *none = NULL;
    options.model.dim = 12000;
    assert_fails(context, l3a_model_create(context, WIDTH, &options, &none), L3A_ERROR_MEMORY, "dim 12000");
    assert_non_null(strstr(l3a_error_hint(context), "smaller dim"));
    options.model.dim = 1 << 20;
    assert_fails(context, l3a_model_create(context, WIDTH, &options, &none), L3A_ERROR_MEMORY, "dim 1048576");
    assert_null(none);
    l3a_context_free(context);
}

static void a_phase_with_more_classes_than_memory_is_not_begun(void **state) {
    (void)state;
    enum { MANY = 500 };
    static char texts[MANY][8];
    const char *names[MANY];
    const l3a_options options = small_options();
    l3a_context *context = make_limited_context(0);
    l3a_plan plan = {.size = sizeof plan};
    l3a_model *model = NULL;
    assert_ok(context, l3a_model_plan(context, &options, WIDTH, MANY / 2, &plan));
    context->options.memory_limit = plan.memory;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "c%zu", i);
        names[i] = texts[i];
    }
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_fails(context, l3a_phase_begin(model, names, MANY), L3A_ERROR_MEMORY, "GiB");
    assert_ok(context, l3a_phase_begin(model, names, MANY / 2));
    l3a_model_free(model);
    l3a_context_free(context);
}

/* ---- Numbers that cannot be solved ---- */

/* The first phase is harmless; the second has features so large that gamma is lost in rounding. */
static void learn_huge_features(world *w, float scale, size_t rows) {
    static float huge[ROWS * WIDTH];
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        huge[i] = w->features[i] * scale;
    }
    begin_and_count(w, 1, rows);
    assert_ok(w->context, l3a_phase_learn(w->model, huge, w->labels, rows));
}

static void check_unsolvable(world *w, l3a_precision precision, float scale, const char *says) {
    l3a_options options = small_options();
    options.model.precision = precision;
    options.model.gamma = 0.125;
    make_model(w, &options);
    learn_phase(w, 0);
    float *before = copy_scores(w);
    learn_huge_features(w, scale, 5);
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_NUMERIC, says);
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_NUMERIC, says);
    assert_fails(w->context, l3a_model_save(w->model, w->path), L3A_ERROR_STATE, "middle of a phase");
    assert_int_equal(l3a_model_class_count(w->model), STEP);
    l3a_phase_abandon(w->model);
    assert_scores_as(w, before);
    assert_refuses_to_learn_and_save(w);
}

static void sums_that_cannot_be_solved_name_gamma(void **state) {
    check_unsolvable(*state, L3A_PRECISION_DOUBLE, 1e15F, "gamma = 0.125");
    check_unsolvable(*state, L3A_PRECISION_DOUBLE, 1e37F, "gamma = 0.125");
    check_unsolvable(*state, L3A_PRECISION_MIXED, 1e8F, "gamma = 0.125");
}

static void sums_that_overflow_are_not_solved_as_zero(void **state) {
    check_unsolvable(*state, L3A_PRECISION_MIXED, 1e20F, "not finite");
    check_unsolvable(*state, L3A_PRECISION_MIXED, 1e37F, "not finite");
}

static void a_recursion_that_breaks_down_takes_no_more_rows(void **state) {
    world *w = *state;
    l3a_options options = small_options();
    options.model.solver = L3A_SOLVER_RECURSIVE;
    options.model.gamma = 1e-300;
    options.model.block = 8;
    make_model(w, &options);
    begin_and_count(w, 0, ROWS);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        w->features[i] *= 1e37F;
    }
    assert_fails(w->context, learn_rows(w, 0, 8), L3A_ERROR_NUMERIC, "gamma");
    for (size_t first = 8; first < ROWS; first += 8) {
        assert_fails(w->context, learn_rows(w, first, 8), L3A_ERROR_STATE, "cannot continue");
    }
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "cannot continue");
    assert_int_equal(l3a_model_class_count(w->model), 0);
    l3a_phase_abandon(w->model);
    begin(w, 0);
}

static void a_recursion_that_breaks_down_at_the_end_is_not_tried_again(void **state) {
    world *w = *state;
    l3a_options options = small_options();
    options.model.solver = L3A_SOLVER_RECURSIVE;
    options.model.gamma = 1e-300;
    make_model(w, &options);
    begin_and_count(w, 0, 20);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        w->features[i] *= i < 16 * WIDTH ? 0 : 1e37F;
    }
    assert_ok(w->context, learn_rows(w, 0, 20));
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_NUMERIC, "gamma");
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_STATE, "cannot continue");
    assert_int_equal(l3a_model_class_count(w->model), 0);
}

/* ---- Cancelling ---- */

static l3a_features *many_rows(world *w, size_t rows, float **features, int8_t **labels) {
    l3a_features *table = NULL;
    *features = malloc(rows * WIDTH * sizeof **features);
    *labels = malloc(rows * STEP);
    random_table(9, rows, WIDTH, STEP, 3, *features, *labels);
    assert_ok(w->context, l3a_features_wrap(w->context, *features, *labels, rows, 1, WIDTH, class_names + STEP, STEP, &table));
    return table;
}

static void check_cancel(world *w, const char *stage, uint64_t from) {
    float *features;
    int8_t *labels;
    l3a_options options = small_options();
    options.model.pseudo = strcmp(stage, "survey") ? L3A_PSEUDO_FIXED : L3A_PSEUDO_DYNAMIC;
    make_model(w, &options);
    learn_phase(w, 0);
    float *before = copy_scores(w);
    l3a_features *table = many_rows(w, 1200, &features, &labels);
    w->cancel_stage = stage;
    w->cancel_from = from;
    assert_fails(w->context, l3a_model_learn(w->model, table, class_names + STEP, STEP), L3A_ERROR_CANCELLED, stage);
    w->cancel_stage = NULL;
    assert_int_equal(l3a_model_class_count(w->model), STEP);
    assert_scores_as(w, before);
    assert_ok(w->context, l3a_model_learn(w->model, table, class_names + STEP, STEP));
    l3a_features_free(table);
    free(features);
    free(labels);
}

static void cancelling_before_any_row_leaves_the_model_good(void **state) {
    check_cancel(*state, "learn", 0);
}

static void cancelling_a_survey_leaves_the_model_good(void **state) {
    check_cancel(*state, "survey", 512);
}

static void cancelling_halfway_leaves_the_model_good(void **state) {
    check_cancel(*state, "learn", 512);
}

static void cancelling_the_solution_leaves_the_model_good(void **state) {
    check_cancel(*state, "solve", 0);
}

static void a_cancelled_solution_can_be_asked_for_again(void **state) {
    world *w = *state;
    learn_phase(w, 0);
    begin_and_count(w, 1, ROWS);
    assert_ok(w->context, learn_rows(w, 0, ROWS));
    w->cancel_stage = "solve";
    assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_CANCELLED, "solve");
    w->cancel_stage = NULL;
    assert_ok(w->context, l3a_phase_end(w->model));
    assert_learned_as_if_nothing_had_happened(w);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_block_with_a_nan_is_not_taken),
        CASE(a_block_with_an_infinity_is_not_taken),
        CASE(a_block_with_a_feature_that_drowns_all_others_is_not_taken),
        CASE(a_nan_cannot_be_surveyed_or_scored),
        CASE(a_nan_in_a_table_leaves_the_model_scoring),
        CASE(a_label_of_two_is_refused_in_both_passes),
        CASE(classes_must_be_new_named_and_different),
        CASE(a_table_must_know_the_classes_and_show_them),
        CASE(nothing_is_done_outside_a_phase),
        CASE(a_phase_is_not_begun_inside_another),
        CASE(an_empty_phase_is_refused),
        CASE(a_phase_in_which_no_image_has_a_label_is_refused),
        CASE(rows_are_learned_only_after_they_were_counted),
        CASE(labels_are_not_counted_once_learning_has_begun),
        CASE(more_rows_than_counted_are_not_taken),
        CASE(a_phase_does_not_end_before_all_rows_are_learned),
        CASE(labels_that_differ_between_the_passes_are_noticed),
        CASE(a_dynamic_threshold_needs_a_survey_of_every_row),
        CASE(a_model_is_not_saved_in_a_phase),
        CASE(a_phase_left_before_any_row_leaves_the_model_good),
        CASE(a_phase_left_before_its_first_full_block_leaves_the_model_good),
        CASE(a_phase_left_after_a_block_leaves_the_model_good),
        CASE(an_open_phase_does_not_change_the_scores),
        CASE(settings_out_of_range_make_no_model),
        CASE(features_of_no_width_make_no_model),
        CASE(a_model_larger_than_memory_is_not_begun),
        CASE(a_phase_with_more_classes_than_memory_is_not_begun),
        CASE(sums_that_cannot_be_solved_name_gamma),
        CASE(sums_that_overflow_are_not_solved_as_zero),
        CASE(a_recursion_that_breaks_down_takes_no_more_rows),
        CASE(a_recursion_that_breaks_down_at_the_end_is_not_tried_again),
        CASE(cancelling_before_any_row_leaves_the_model_good),
        CASE(cancelling_a_survey_leaves_the_model_good),
        CASE(cancelling_halfway_leaves_the_model_good),
        CASE(cancelling_the_solution_leaves_the_model_good),
        CASE(a_cancelled_solution_can_be_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
