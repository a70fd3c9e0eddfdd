/* Methods of the program's own, as callbacks: what they are given, what their failures do, and running out of memory. */
#include "support.h"

#include "memory_probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 120, WIDTH = 5, CLASSES = 6, PHASES = 3 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

static struct {
    float values[ROWS * WIDTH];
    int8_t labels[ROWS * CLASSES];
} table;

/* Where a callback fails, and what the callbacks were given. */
enum step { NEVER, IN_CREATE, IN_LEARN, IN_SCORE, IN_THRESHOLDS, IN_ROOM, NAN_SCORE, NAN_THRESHOLD };

struct trial {
    enum step fails;
    size_t at;            /* the phase in which it fails */
    size_t phase;         /* the last one that was begun */
    size_t images, calls; /* of this phase so far */
    long living;          /* learners */
    double sum;           /* of all features */
    float *room;
};

static int fails(const struct trial *trial, enum step step) {
    return trial->fails == step && trial->phase == trial->at;
}

static int create(void *user, uint64_t seed, size_t width, void **learner) {
    struct trial *trial = user;
    assert_true(seed == 2025 && width == WIDTH);
    *learner = trial;
    trial->phase = 0;
    trial->living += trial->fails != IN_CREATE;
    return trial->fails == IN_CREATE;
}

static void free_learner(void *learner) {
    struct trial *trial = learner;
    trial->living--;
}

static void take(struct trial *trial, const l3a_method_phase *phase, const float *features, const int8_t *labels, size_t images) {
    const size_t classes = phase->last - phase->first;
    assert_true(phase->size == sizeof *phase && phase->phases == PHASES && phase->rows == 1 && phase->width == WIDTH);
    assert_true(phase->first == (phase->phase - 1) * 2 && classes == 2);
    assert_string_equal(phase->classes[phase->last - 1], names[phase->last - 1]);
    if (trial->phase != phase->phase) {
        assert_int_equal(phase->phase, trial->phase + 1);
        trial->phase = phase->phase;
        trial->images = trial->calls = 0;
    }
    for (size_t i = 0; i < images * WIDTH; i++) {
        trial->sum += (double)features[i];
    }
    for (size_t i = 0; i < images; i++) {
        assert_true(labels[2 * i] == 1 || labels[2 * i + 1] == 1); /* an image of the phase shows one of its classes */
    }
    trial->images += images;
    trial->calls++;
    assert_true(trial->images <= phase->images);
}

static int learn(void *learner, const l3a_method_phase *phase, const float *features, const int8_t *labels, size_t images) {
    struct trial *trial = learner;
    take(trial, phase, features, labels, images);
    assert_true(images == phase->images && (!trial->room || features == trial->room));
    return fails(trial, IN_LEARN);
}

static int learn_block(void *learner, const l3a_method_phase *phase, const float *features, const int8_t *labels, size_t images) {
    struct trial *trial = learner;
    assert_true(images <= 16 && (images || (!features && !labels)));
    take(trial, phase, features, labels, images);
    assert_true(images || trial->images == phase->images);
    return !images && fails(trial, IN_LEARN);
}

static int make_room(void *learner, const l3a_method_phase *phase, float **features) {
    struct trial *trial = learner;
    *features = trial->room;
    assert_true(phase->images * WIDTH <= ROWS * WIDTH);
    return trial->fails == IN_ROOM && phase->phase == trial->at;
}

/* The first number of an image, the same for every class. */
static int score(void *learner, const float *features, size_t images, float *scores) {
    const struct trial *trial = learner;
    for (size_t i = 0; i < images * 2 * trial->phase; i++) {
        scores[i] = features[i / (2 * trial->phase) * WIDTH];
    }
    scores[images - 1] = fails(trial, NAN_SCORE) ? NAN : scores[images - 1];
    return fails(trial, IN_SCORE);
}

static int thresholds(void *learner, double *values) {
    const struct trial *trial = learner;
    for (size_t k = 0; k < 2 * trial->phase; k++) {
        values[k] = fails(trial, NAN_THRESHOLD) ? (double)NAN : -INFINITY;
    }
    return fails(trial, IN_THRESHOLDS);
}

static void explain(void *user, char *text, size_t capacity) {
    const struct trial *trial = user;
    snprintf(text, capacity, "it is step %d", trial->fails);
}

static l3a_method make_method(struct trial *trial) {
    return (l3a_method){.size = sizeof(l3a_method),
                        .name = "mine",
                        .user = trial,
                        .create = create,
                        .learn = learn,
                        .score = score,
                        .thresholds = thresholds,
                        .free = free_learner,
                        .explain = explain};
}

static l3a_features *make_table(l3a_context *context) {
    l3a_features *features = NULL;
    random_table(3, ROWS, WIDTH, CLASSES, 4, table.values, table.labels);
    assert_int_equal(l3a_features_wrap(context, table.values, table.labels, ROWS, 1, WIDTH, names, CLASSES, &features), L3A_OK);
    return features;
}

/* Creates an experiment of mine and of acil, in this order. */
static l3a_status begin(l3a_context *context, l3a_features *features, const l3a_method *method, const char *folder,
                        l3a_experiment **experiment) {
    static const char *const both[] = {"mine", "acil"};
    const l3a_method *const own[] = {method};
    l3a_options settings;
    options_default(&settings);
    settings.model.dim = 16;
    settings.model.block = 16;
    const l3a_experiment_options options = {.size = sizeof options,
                                            .train = features,
                                            .test = features,
                                            .protocol = "B0-C2",
                                            .methods = both,
                                            .method_count = 2,
                                            .own_methods = own,
                                            .own_method_count = 1,
                                            .settings = &settings,
                                            .folder = folder,
                                            .no_report = 1};
    return l3a_experiment_create(context, &options, experiment);
}

static size_t rows_of(const l3a_experiment *experiment, const char *method) {
    const l3a_results *results = l3a_experiment_results(experiment, 0);
    size_t count = 0;
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        count += strcmp(l3a_results_at(results, i)->method, method) == 0;
    }
    return count;
}

static void test_given(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    float room[ROWS * WIDTH];
    double sums[3];
    for (size_t way = 0; way < 3; way++) { /* in memory of the library's, of the program's, and in blocks */
        struct trial trial = {.fails = NEVER, .room = way == 1 ? room : NULL};
        l3a_method method = make_method(&trial);
        l3a_experiment *experiment = NULL;
        method.learn = way == 2 ? NULL : learn;
        method.learn_block = way == 2 ? learn_block : NULL;
        method.room = way == 1 ? make_room : NULL;
        assert_ok(context, begin(context, features, &method, NULL, &experiment));
        assert_ok(context, l3a_experiment_run(experiment));
        assert_null(l3a_experiment_failure(experiment, 0));
        assert_int_equal(rows_of(experiment, "mine"), PHASES);
        assert_int_equal(rows_of(experiment, "acil"), PHASES);
        assert_string_equal(l3a_experiment_threshold(experiment, 0), "its own");
        assert_true(trial.phase == PHASES && trial.living == 0 && (way == 2 ? trial.calls > 2 : trial.calls == 1));
        sums[way] = trial.sum;
        l3a_experiment_free(experiment);
    }
    assert_true(sums[0] == sums[1] && sums[0] == sums[2]);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void test_failures(void **state) {
    (void)state;
    static const struct {
        enum step step;
        const char *says;
    } cases[] = {{IN_CREATE, "phase 1 of 3: create: it is step 1"},
                 {IN_LEARN, "phase 2 of 3: learn: it is step 2"},
                 {IN_SCORE, "phase 2 of 3: score: it is step 3"},
                 {IN_THRESHOLDS, "phase 2 of 3: thresholds: it is step 4"},
                 {IN_ROOM, "phase 2 of 3: room: it is step 5"},
                 {NAN_SCORE, "phase 2 of 3: score: a score of class "},
                 {NAN_THRESHOLD, "phase 2 of 3: thresholds: that of class 0 is NaN"}};
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    float room[ROWS * WIDTH];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trial trial = {.fails = cases[i].step, .at = 2, .room = cases[i].step == IN_ROOM ? room : NULL};
        l3a_method method = make_method(&trial);
        l3a_experiment *experiment = NULL;
        method.room = cases[i].step == IN_ROOM ? make_room : NULL;
        assert_ok(context, begin(context, features, &method, NULL, &experiment));
        assert_ok(context, l3a_experiment_run(experiment));
        const char *failure = l3a_experiment_failure(experiment, 0);
        assert_non_null(failure);
        assert_non_null(strstr(failure, "method 'mine', seed 2025, "));
        assert_non_null(strstr(failure, cases[i].says));
        assert_null(l3a_experiment_failure(experiment, 1));
        assert_int_equal(rows_of(experiment, "mine"), cases[i].step == IN_CREATE ? 0 : 1);
        assert_int_equal(rows_of(experiment, "acil"), PHASES);
        assert_int_equal(trial.living, 0);
        l3a_experiment_free(experiment);
    }
    l3a_features_free(features);
    l3a_context_free(context);
}

static void test_refused(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    struct trial trial = {0};
    const l3a_method good = make_method(&trial);
    l3a_method bad[9];
    static const char *const says[] = {"needs name, create and score",
                                       "needs name, create and score",
                                       "cannot be the name",
                                       "there is a method 'l3a' already",
                                       "learn or learn_block",
                                       "learn or learn_block",
                                       "save or load without",
                                       "is not asked for",
                                       "size"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bad[i] = good;
    }
    bad[0].name = NULL;
    bad[1].score = NULL;
    bad[2].name = "two words";
    bad[3].name = "l3a";
    bad[4].learn = NULL;
    bad[5].learn_block = learn_block;
    bad[6].save = (l3a_method_save *)thresholds; /* never called */
    bad[7].name = "other";
    bad[8].size = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        l3a_experiment *experiment = NULL;
        const l3a_status status = begin(context, features, &bad[i], NULL, &experiment);
        assert_true(status == L3A_ERROR_ARGUMENT || status == L3A_ERROR_OPTION);
        assert_non_null(strstr(l3a_error_text(context), says[i]));
        assert_null(experiment);
    }
    l3a_features_free(features);
    l3a_context_free(context);
}

static l3a_status run_scarcely(l3a_context *context, void *argument) {
    l3a_status status;
    l3a_features *features = NULL;
    l3a_experiment *experiment = NULL;
    struct trial *trial = argument;
    const l3a_method method = make_method(trial);
    status = l3a_features_wrap(context, table.values, table.labels, ROWS, 1, WIDTH, names, CLASSES, &features);
    status = status == L3A_OK ? begin(context, features, &method, NULL, &experiment) : status;
    status = status == L3A_OK ? l3a_experiment_run(experiment) : status;
    l3a_experiment_free(experiment);
    l3a_features_free(features);
    assert_int_equal(trial->living, 0);
    return status;
}

static void test_scarce_memory(void **state) {
    (void)state;
    struct trial trial = {.fails = NEVER};
    assert_true(fail_each_allocation(run_scarcely, &trial) > 50);
    trial = (struct trial){.fails = IN_LEARN, .at = 2}; /* and while a failure is noted */
    assert_true(fail_each_allocation(run_scarcely, &trial) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_given), cmocka_unit_test(test_failures),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_scarce_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
