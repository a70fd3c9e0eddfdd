/* Parts that judge other classes than those of phases: in files of version 4, and in what they say when a file is damaged. */
#include "support.h"

#include "data/features.h"
#include "format/safetensors.h"
#include "learn/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 6, DIM = 20, CLASSES = 6, STEP = 2, ROWS = 60 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

struct world {
    l3a_context *context;
    l3a_model *model;
    char *folder, *path;
};

static int set_up(void **state) {
    static float features[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    struct world *w = calloc(1, sizeof *w);
    struct model_options options;
    l3a_features *table = NULL;
    w->context = make_context(1);
    w->folder = make_temporary_folder();
    w->path = path_in(w->folder, "model");
    random_table(8, ROWS, WIDTH, CLASSES, 4, features, labels);
    assert_ok(w->context, l3a_features_wrap(w->context, features, labels, ROWS, WIDTH, names, CLASSES, &table));
    model_options_default(&options);
    options.dim = DIM;
    options.alpha = 0.3;
    options.pseudo = L3A_PSEUDO_OFF;
    assert_ok(w->context, model_create(w->context, WIDTH, &options, &w->model));
    for (size_t first = 0; first < CLASSES; first += STEP) {
        assert_ok(w->context, l3a_model_learn(w->model, table, names + first, STEP));
    }
    l3a_features_free(table);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;
    l3a_model_free(w->model);
    l3a_context_free(w->context);
    free(w->path);
    remove_folder(w->folder);
    free(w);
    return 0;
}

static void judge(struct world *w, size_t index, const size_t *classes, size_t count) {
    struct part *part = &w->model->evidence->parts[index];
    release(w->context, part->judged);
    assert_ok(w->context, allocate(w->context, count, sizeof *part->judged, &part->judged));
    memcpy(part->judged, classes, count * sizeof *classes);
    part->judged_count = count;
}

static void expect_metadata(const struct world *w, const char *key, const char *expected) {
    safetensors file = {0};
    assert_ok(w->context, safetensors_open(w->context, w->path, &file));
    assert_string_equal(safetensors_metadata(&file, key), expected);
    safetensors_close(&file);
}

static void phases_alone_are_written_as_before(void **state) {
    struct world *w = *state;
    assert_ok(w->context, l3a_model_save(w->model, w->path));
    expect_metadata(w, "version", "3");
    expect_metadata(w, "parts", "1\n1\n1");
}

static void judged_sets_survive_a_file(void **state) {
    static const size_t first[] = {0, 1, 2, 4}, second[] = {3}, third[] = {0, 2, 3, 5};
    struct world *w = *state;
    l3a_model *loaded = NULL;
    judge(w, 0, first, 4);
    judge(w, 1, second, 1);
    judge(w, 2, third, 4);
    w->model->evidence->parts[1].phases = 2;
    w->model->evidence->parts[2].phases = 0;
    w->model->evidence->parts[0].images = 17;
    w->model->evidence->parts[1].images = 250;
    w->model->evidence->parts[2].images = 3;
    assert_ok(w->context, l3a_model_save(w->model, w->path));
    expect_metadata(w, "version", "4");
    expect_metadata(w, "parts", "1 17 0-2,4\n2 250 3\n0 3 0,2-3,5");
    assert_ok(w->context, l3a_model_load(w->context, w->path, &loaded));
    const struct evidence *mine = w->model->evidence, *theirs = loaded->evidence;
    assert_int_equal(theirs->part_count, 3);
    for (size_t p = 0; p < 3; p++) {
        assert_int_equal(theirs->parts[p].phases, mine->parts[p].phases);
        assert_int_equal(theirs->parts[p].images, mine->parts[p].images);
        assert_int_equal(theirs->parts[p].judged_count, mine->parts[p].judged_count);
        assert_memory_equal(theirs->parts[p].judged, mine->parts[p].judged, mine->parts[p].judged_count * sizeof(size_t));
    }
    assert_memory_equal(l3a_model_coefficients(loaded), l3a_model_coefficients(w->model), DIM * CLASSES * sizeof(double));
    assert_ok(w->context, l3a_model_save(loaded, w->path));
    expect_metadata(w, "parts", "1 17 0-2,4\n2 250 3\n0 3 0,2-3,5");
    l3a_model_free(loaded);
}

/* Written by a model whose judged sets were made wrong. */
static void judged_sets_that_make_no_sense_are_refused(void **state) {
    static const size_t bad[][3] = {{0, 1, 6}, {2, 1, 3}, {1, 1, 2}, {3, 2, 1}, {0, 1, 99999}};
    struct world *w = *state;
    l3a_model *loaded = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        judge(w, 1, bad[i], 3);
        assert_ok(w->context, l3a_model_save(w->model, w->path));
        assert_fails(w->context, l3a_model_load(w->context, w->path, &loaded), L3A_ERROR_FORMAT, "phases kept apart");
    }
    static const size_t good[] = {1, 2, 3};
    judge(w, 1, good, 3);
    w->model->evidence->parts[2].phases = 9;
    assert_ok(w->context, l3a_model_save(w->model, w->path));
    assert_fails(w->context, l3a_model_load(w->context, w->path, &loaded), L3A_ERROR_FORMAT, "phases kept apart");
    assert_null(loaded);
}

/* Forgetting a class takes it out of every judged set, and the numbers of the others follow. */
static void forgetting_renumbers_judged_sets(void **state) {
    static const size_t first[] = {0, 1, 4}, third[] = {2, 4, 5};
    struct world *w = *state;
    const char *const gone[] = {"cat"};
    int exact;
    judge(w, 0, first, 3);
    judge(w, 2, third, 3);
    assert_ok(w->context, l3a_model_forget_classes(w->model, gone, 1, &exact));
    const struct part *parts = w->model->evidence->parts;
    assert_true(parts[0].judged_count == 3 && parts[0].judged[0] == 0 && parts[0].judged[1] == 1 && parts[0].judged[2] == 3);
    assert_true(parts[1].judged_count == 1 && parts[1].judged[0] == 2);
    assert_true(parts[2].judged_count == 2 && parts[2].judged[0] == 3 && parts[2].judged[1] == 4);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(phases_alone_are_written_as_before),
        CASE(judged_sets_survive_a_file),
        CASE(judged_sets_that_make_no_sense_are_refused),
        CASE(forgetting_renumbers_judged_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
