/* Parts that judge other classes than those of phases: in files of version 4, and in what they say when a file is damaged. */
#include "support.h"

#include "data/features.h"
#include "format/safetensors.h"
#include "learn/model_change.h"

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
    assert_ok(w->context, l3a_features_wrap(w->context, features, labels, ROWS, 1, WIDTH, names, CLASSES, &table));
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
    expect_metadata(w, "version", "5");
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
    w->model->evidence->parts[2].phases = (1 << 24) + 1;
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

/* The random table has ROWS images; those of a phase show one of its classes. */
static void a_phase_makes_a_part_that_judges_its_classes(void **state) {
    const struct world *w = *state;
    assert_int_equal(l3a_model_part_count(w->model), CLASSES / STEP);
    for (size_t p = 0; p < CLASSES / STEP; p++) {
        l3a_part_info info = {.size = sizeof info};
        assert_ok(w->context, l3a_model_part(w->model, p, &info));
        assert_int_equal(info.images, l3a_model_phase(w->model, p)->images);
        assert_true(info.images > 0 && info.images <= ROWS);
        assert_int_equal(info.phases, 1);
        assert_int_equal(info.judged, STEP);
        for (size_t k = 0; k < CLASSES + 2; k++) {
            assert_int_equal(l3a_model_part_judges(w->model, p, k), k >= p * STEP && k < (p + 1) * STEP);
        }
    }
    assert_int_equal(l3a_model_part_judges(w->model, CLASSES / STEP, 0), 0);
}

static void a_part_past_the_last_is_refused(void **state) {
    const struct world *w = *state;
    l3a_part_info info = {.size = sizeof info, .images = 5}, unset = {0};
    assert_fails(w->context, l3a_model_part(w->model, CLASSES / STEP, &info), L3A_ERROR_ARGUMENT, "part 3 of a model that has 3");
    assert_int_equal(info.images, 5);
    assert_fails(w->context, l3a_model_part(w->model, 0, &unset), L3A_ERROR_ARGUMENT, "size");
    assert_fails(w->context, l3a_model_part(w->model, 0, NULL), L3A_ERROR_ARGUMENT, "info is NULL");
    assert_int_equal(l3a_model_part(NULL, 0, &info), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_model_part_count(NULL), 0);
    assert_int_equal(l3a_model_part_judges(NULL, 0, 0), 0);
}

static void folded_phases_are_one_part(void **state) {
    struct world *w = *state;
    l3a_part_info info = {.size = sizeof info};
    const uint64_t images = l3a_model_phase(w->model, 0)->images + l3a_model_phase(w->model, 1)->images;
    w->model->options.keep_phases = 2;
    assert_ok(w->context, model_fold(w->model));
    assert_int_equal(l3a_model_part_count(w->model), 2);
    assert_ok(w->context, l3a_model_part(w->model, 0, &info));
    assert_true(info.images == images && info.phases == 2 && info.judged == 2 * STEP);
    for (size_t k = 0; k < CLASSES; k++) {
        assert_int_equal(l3a_model_part_judges(w->model, 0, k), k < 2 * STEP);
        assert_int_equal(l3a_model_part_judges(w->model, 1, k), k >= 2 * STEP);
    }
}

static void one_sum_has_no_parts(void **state) {
    static const float features[2 * WIDTH] = {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1};
    static const int8_t labels[2] = {1, 1};
    struct world *w = *state;
    struct model_options options;
    l3a_model *model = NULL;
    l3a_part_info info = {.size = sizeof info};
    model_options_default(&options);
    options.dim = DIM;
    assert_ok(w->context, model_create(w->context, WIDTH, &options, &model));
    assert_ok(w->context, l3a_phase_begin(model, names, 1));
    assert_ok(w->context, l3a_phase_count(model, labels, 2));
    assert_ok(w->context, l3a_phase_learn(model, features, labels, 2));
    assert_ok(w->context, l3a_phase_end(model));
    assert_int_equal(l3a_model_phase_count(model), 1);
    assert_int_equal(l3a_model_part_count(model), 0);
    assert_fails(w->context, l3a_model_part(model, 0, &info), L3A_ERROR_ARGUMENT, "has 0");
    assert_int_equal(l3a_model_part_judges(model, 0, 0), 0);
    l3a_model_free(model);
}

static l3a_status fail_to_add(struct scatter *scatter, const struct sums *sums, double sign) {
    (void)sums;
    (void)sign;
    return (fail)(scatter->context, L3A_ERROR_MEMORY, NULL, "the device is lost");
}

/* A back end that cannot add the sums of the phase to a new part leaves the model without that part. */
static void a_part_that_was_not_made_leaves_the_model_usable(void **state) {
    static const float features[WIDTH] = {1, 2, 3, 4, 5, 6};
    static const int8_t labels[1] = {1};
    static const char *const more[] = {"gnu"};
    struct world *w = *state;
    struct algebra broken = cpu_algebra;
    broken.scatter_add_sums = fail_to_add;
    for (int good = 0; good < 2; good++) {
        w->context->algebra = good ? NULL : &broken;
        assert_ok(w->context, l3a_phase_begin(w->model, more, 1));
        assert_ok(w->context, l3a_phase_count(w->model, labels, 1));
        assert_ok(w->context, l3a_phase_learn(w->model, features, labels, 1));
        if (good) {
            assert_ok(w->context, l3a_phase_end(w->model));
        } else {
            assert_fails(w->context, l3a_phase_end(w->model), L3A_ERROR_MEMORY, "lost");
            l3a_phase_abandon(w->model);
        }
        assert_int_equal(l3a_model_part_count(w->model), CLASSES / STEP + (size_t)good);
        assert_ok(w->context, l3a_model_save(w->model, w->path));
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(phases_alone_are_written_as_before),
        CASE(judged_sets_survive_a_file),
        CASE(judged_sets_that_make_no_sense_are_refused),
        CASE(forgetting_renumbers_judged_sets),
        CASE(a_phase_makes_a_part_that_judges_its_classes),
        CASE(a_part_past_the_last_is_refused),
        CASE(folded_phases_are_one_part),
        CASE(one_sum_has_no_parts),
        CASE(a_part_that_was_not_made_leaves_the_model_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
