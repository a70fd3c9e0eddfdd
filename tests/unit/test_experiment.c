/* Experiments through the public interface: defaults, sizes of structs, what is refused, the phases, and runs against grids. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 240, WIDTH = 8, CLASSES = 6, MANY = 1100 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

static struct {
    float values[ROWS * WIDTH];
    int8_t labels[ROWS * CLASSES];
} table;

static l3a_features *make_table(l3a_context *context) {
    l3a_features *features = NULL;
    random_table(3, ROWS, WIDTH, CLASSES, 4, table.values, table.labels);
    assert_ok(context, l3a_features_wrap(context, table.values, table.labels, ROWS, 1, WIDTH, names, CLASSES, &features));
    return features;
}

/* The smallest experiment: everything else is the default, except a narrow layer. */
static l3a_experiment_options small(l3a_features *features, l3a_options *settings) {
    l3a_experiment_options options = {.size = sizeof options};
    options_default(settings);
    settings->model.dim = 16;
    options.train = options.test = features;
    options.settings = settings;
    return options;
}

static l3a_experiment *run(l3a_context *context, const l3a_experiment_options *options) {
    l3a_experiment *experiment = NULL;
    assert_ok(context, l3a_experiment_create(context, options, &experiment));
    assert_null(l3a_experiment_results(experiment, 0));
    assert_ok(context, l3a_experiment_run(experiment));
    return experiment;
}

/* The metrics of both agree to the last bit. */
static void assert_same_rows(const l3a_results *one, const l3a_results *other, const char *method) {
    size_t found = 0;
    for (size_t i = 0; i < l3a_results_count(one); i++) {
        const l3a_result *row = l3a_results_at(one, i);
        if (strcmp(row->method, method) != 0) {
            continue;
        }
        const l3a_result *twin = l3a_results_at(other, found);
        assert_non_null(twin);
        assert_memory_equal(&row->metrics, &twin->metrics, sizeof row->metrics);
        assert_true(row->seed == twin->seed && row->phase == twin->phase && row->first == twin->first && row->last == twin->last);
        assert_true(row->train_images == twin->train_images && row->pseudo_labels == twin->pseudo_labels);
        assert_true(row->base_map == twin->base_map && row->new_map == twin->new_map);
        assert_memory_equal(l3a_results_average_precision(one, i), l3a_results_average_precision(other, found),
                            row->last * sizeof(double));
        found++;
    }
    assert_true(found > 0 && found == l3a_results_count(other));
}

static void what_is_left_out_has_a_default(void **state) {
    (void)state;
    static const char *const methods[] = {"l3a"};
    static const uint64_t seeds[] = {2025};
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options options = small(features, &settings);
    l3a_experiment *left_out = run(context, &options);
    options.protocol = "B0-C10";
    options.class_order = "lexicographic";
    options.methods = methods;
    options.seeds = seeds;
    options.method_count = options.seed_count = 1;
    l3a_experiment *given = run(context, &options);
    assert_int_equal(l3a_experiment_points(left_out), 1);
    assert_string_equal(l3a_experiment_label(left_out, 0), "l3a");
    assert_same_rows(l3a_experiment_results(left_out, 0), l3a_experiment_results(given, 0), "l3a");
    l3a_experiment_free(left_out);
    l3a_experiment_free(given);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void a_run_has_the_results_of_a_grid(void **state) {
    (void)state;
    static const char *const methods[] = {"slda", "acil", "joint-masked"};
    static const uint64_t seeds[] = {4, 3};
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options options = small(features, &settings);
    options.protocol = "B2-C2";
    options.methods = methods;
    options.method_count = 3;
    options.seeds = seeds;
    options.seed_count = 2;
    l3a_experiment *one = run(context, &options);
    options.grid = 1;
    l3a_experiment *grid = run(context, &options);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(l3a_experiment_method(one, i), methods[i]);
        assert_ptr_equal(l3a_experiment_results(one, i), l3a_experiment_results(one, 0));
        assert_same_rows(l3a_experiment_results(one, 0), l3a_experiment_results(grid, i), methods[i]);
    }
    assert_non_null(l3a_results_tally(l3a_experiment_results(one, 0), 0, 0));
    assert_null(l3a_results_tally(l3a_experiment_results(grid, 0), 0, 0));
    assert_fails(context, l3a_experiment_run(one), L3A_ERROR_STATE, "run already");
    l3a_experiment_free(one);
    l3a_experiment_free(grid);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void points_are_methods_with_values(void **state) {
    (void)state;
    static const char *const methods[] = {"l3a", "slda"}, *const gammas[] = {"1", "1e1"}, *const etas[] = {"dynamic", "0.6"};
    static const l3a_axis axes[] = {{"gamma", gammas, 2}, {"eta", etas, 2}};
    static const char *const labels[] = {"l3a gamma=1 eta=dynamic", "l3a gamma=1 eta=0.6", "l3a gamma=10 eta=dynamic",
                                         "l3a gamma=10 eta=0.6", "slda gamma=- eta=-"};
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options options = small(features, &settings);
    l3a_experiment *experiment = NULL;
    l3a_workload plan = {.size = sizeof plan};
    options.methods = methods;
    options.method_count = 2;
    options.axes = axes;
    options.axis_count = 2;
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    assert_int_equal(l3a_experiment_points(experiment), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(l3a_experiment_label(experiment, i), labels[i]);
    }
    assert_string_equal(l3a_experiment_value(experiment, 2, 0), "10");
    assert_string_equal(l3a_experiment_value(experiment, 4, 1), "-");
    assert_null(l3a_experiment_value(experiment, 4, 2));
    assert_null(l3a_experiment_label(experiment, 5));
    assert_ok(context, l3a_experiment_plan(experiment, &plan));
    assert_true(plan.points == 5 && plan.seeds == 1 && plan.phases == 1 && plan.classes == CLASSES);
    assert_int_equal(plan.passes, 2); /* the four points of l3a share one */
    assert_true(plan.flops > 0 && plan.memory > 0 && plan.file == 0);
    l3a_experiment_free(experiment);
    l3a_features_free(features);
    l3a_context_free(context);
}

/* Rows of the table with a label of the classes [first, last), counted one by one. */
static uint64_t rows_with(size_t first, size_t last) {
    uint64_t count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        count += memchr(table.labels + i * CLASSES + first, 1, last - first) != NULL;
    }
    return count;
}

static void phases_have_their_classes_and_images(void **state) {
    (void)state;
    static const size_t bounds[] = {0, 3, 5, 6};
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options options = small(features, &settings);
    l3a_experiment *experiment = NULL;
    l3a_protocol_phase phase = {.size = sizeof phase};
    options.protocol = "B3-C2";
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    for (size_t t = 0; t < 3; t++) {
        assert_ok(context, l3a_experiment_phase(experiment, t, &phase));
        assert_true(phase.first == bounds[t] && phase.last == bounds[t + 1]);
        assert_int_equal(phase.train_images, rows_with(phase.first, phase.last));
        assert_int_equal(phase.test_images, rows_with(0, phase.last));
        assert_int_equal(phase.unlabelled_images, 0);
    }
    assert_fails(context, l3a_experiment_phase(experiment, 3, &phase), L3A_ERROR_ARGUMENT, "only 3 phases");
    l3a_experiment_free(experiment);
    l3a_features_free(features);
    l3a_context_free(context);
}

/* As many phases as there are classes, each with its one row. */
static void there_may_be_many_phases(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = NULL;
    l3a_experiment *experiment = NULL;
    l3a_options settings;
    float *values = calloc(MANY, sizeof *values);
    int8_t *labels = calloc(MANY, MANY);
    const char *many[MANY];
    char(*texts)[8] = calloc(MANY, sizeof *texts);
    for (size_t i = 0; i < MANY; i++) {
        labels[i * MANY + i] = 1;
        snprintf(texts[i], sizeof texts[i], "%04zu", i);
        many[i] = texts[i];
    }
    assert_ok(context, l3a_features_wrap(context, values, labels, MANY, 1, 1, many, MANY, &features));
    l3a_experiment_options options = small(features, &settings);
    options.protocol = "B0-C1";
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    l3a_protocol_phase phase = {.size = sizeof phase};
    assert_ok(context, l3a_experiment_phase(experiment, MANY - 1, &phase));
    assert_true(phase.first == MANY - 1 && phase.train_images == 1 && phase.test_images == MANY);
    l3a_experiment_free(experiment);
    l3a_features_free(features);
    l3a_context_free(context);
    free(values);
    free(labels);
    free(texts);
}

/* A program may know fewer fields than the library, or more. */
static void structs_may_have_other_sizes(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options options = small(features, &settings);
    l3a_experiment *experiment = NULL;
    struct {
        l3a_workload plan;
        uint64_t later[2];
    } longer = {.plan = {.size = sizeof longer}, .later = {7, 7}};
    l3a_protocol_phase shorter = {.size = offsetof(l3a_protocol_phase, train_images), .train_images = 77};
    options.size = offsetof(l3a_experiment_options, axes);
    options.axes = (const l3a_axis *)1; /* beyond the end: not looked at */
    options.axis_count = 9;
    options.folder = "/nowhere/at/all";
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    assert_ok(context, l3a_experiment_plan(experiment, &longer.plan));
    assert_true(longer.plan.points == 1 && longer.later[0] == 0 && longer.later[1] == 0);
    assert_ok(context, l3a_experiment_phase(experiment, 0, &shorter));
    assert_true(shorter.last == CLASSES && shorter.train_images == 77);
    assert_ok(context, l3a_experiment_run(experiment));
    l3a_experiment_free(experiment);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void what_is_missing_is_refused(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options options = small(features, &settings), unsized = options, empty = {.size = sizeof empty};
    l3a_experiment *experiment = NULL;
    l3a_workload plan = {.size = sizeof plan}, unsized_plan = {0};
    unsized.size = 0;
    assert_int_equal(l3a_experiment_create(NULL, &options, &experiment), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_experiment_create(context, &options, NULL), L3A_ERROR_ARGUMENT);
    assert_fails(context, l3a_experiment_create(context, NULL, &experiment), L3A_ERROR_ARGUMENT, "options");
    assert_fails(context, l3a_experiment_create(context, &unsized, &experiment), L3A_ERROR_ARGUMENT, "size");
    assert_fails(context, l3a_experiment_create(context, &empty, &experiment), L3A_ERROR_ARGUMENT, "table");
    assert_null(experiment);
    assert_int_equal(l3a_experiment_plan(NULL, &plan), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_experiment_phase(NULL, 0, NULL), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_experiment_run(NULL), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_experiment_points(NULL), 0);
    assert_null(l3a_experiment_method(NULL, 0));
    assert_null(l3a_experiment_label(NULL, 0));
    assert_null(l3a_experiment_value(NULL, 0, 0));
    assert_null(l3a_experiment_results(NULL, 0));
    l3a_experiment_free(NULL);
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    assert_fails(context, l3a_experiment_plan(experiment, NULL), L3A_ERROR_ARGUMENT, "plan is NULL");
    assert_fails(context, l3a_experiment_plan(experiment, &unsized_plan), L3A_ERROR_ARGUMENT, "size");
    assert_fails(context, l3a_experiment_phase(experiment, 0, NULL), L3A_ERROR_ARGUMENT, "phase is NULL");
    l3a_experiment_free(experiment);
    l3a_features_free(features);
    l3a_context_free(context);
}

/* Counts without what they count, and NULLs in arrays. */
static void missing_arrays_are_refused(void **state) {
    (void)state;
    static const char *const none[] = {"l3a", NULL};
    const l3a_axis nameless = {NULL, none, 1}, empty = {"gamma", NULL, 1}, incomplete = {"gamma", none, 2};
    l3a_context *context = make_context(1);
    l3a_features *features = make_table(context);
    l3a_options settings;
    l3a_experiment_options good = small(features, &settings), options = good;
    l3a_experiment *experiment = NULL;
    options.methods = NULL;
    options.method_count = 1;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "methods is NULL");
    options.methods = none;
    options.method_count = 2;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "methods[1] is NULL");
    options = good;
    options.seeds = NULL;
    options.seed_count = 1;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "seeds is NULL");
    options = good;
    options.axis_count = 1;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "axes is NULL");
    options.axes = &nameless;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "the name of an axis is NULL");
    options.axes = &empty;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "gamma is NULL");
    options.axes = &incomplete;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_ARGUMENT, "gamma[1] is NULL");
    assert_null(experiment);
    l3a_features_free(features);
    l3a_context_free(context);
}

static void the_views_are_those_of_both_tables(void **state) {
    (void)state;
    enum { IMAGES = ROWS / 3 };
    static const char *const values[] = {"1", "2"}, *const methods[] = {"slda", "finetune"};
    const l3a_axis axis = {"views", values, 2};
    l3a_context *context = make_context(1);
    l3a_features *whole = make_table(context), *crops = NULL;
    l3a_options settings;
    l3a_experiment_options options = small(whole, &settings);
    l3a_experiment *experiment = NULL;
    l3a_workload plan = {.size = sizeof plan}, plain = plan;
    settings.model.block = 3; /* rows: one image of three, or three of one */
    assert_ok(context, l3a_features_wrap(context, table.values, table.labels, IMAGES, 2, WIDTH, names, CLASSES, &crops));
    options.test = crops;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_MISMATCH, "1 view of each image, but");
    options.train = crops;
    assert_ok(context, l3a_options_set(context, &settings, "views", "3"));
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_MISMATCH, "views is 3, but");
    assert_ok(context, l3a_options_set(context, &settings, "views", "2"));
    options.axes = &axis;
    options.axis_count = 1;
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_OPTION, "views cannot be an axis");
    options.axis_count = 0;
    options.methods = methods;
    options.method_count = 2;
    experiment = run(context, &options);
    assert_ok(context, l3a_experiment_plan(experiment, &plan));
    assert_true(l3a_results_at(l3a_experiment_results(experiment, 0), 0)->train_images <= IMAGES);
    l3a_experiment_free(experiment);
    experiment = NULL;
    assert_ok(context, l3a_features_use_views(crops, 1));
    assert_fails(context, l3a_experiment_create(context, &options, &experiment), L3A_ERROR_MISMATCH, "views is 2, but");
    assert_ok(context, l3a_options_set(context, &settings, "views", "1"));
    assert_ok(context, l3a_experiment_create(context, &options, &experiment));
    assert_ok(context, l3a_experiment_plan(experiment, &plain));
    assert_true(plan.memory > plain.memory); /* a head holds all views */
    l3a_experiment_free(experiment);
    l3a_features_free(whole);
    l3a_features_free(crops);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_has_a_default),     cmocka_unit_test(a_run_has_the_results_of_a_grid),
        cmocka_unit_test(points_are_methods_with_values),     cmocka_unit_test(phases_have_their_classes_and_images),
        cmocka_unit_test(there_may_be_many_phases),           cmocka_unit_test(structs_may_have_other_sizes),
        cmocka_unit_test(what_is_missing_is_refused),         cmocka_unit_test(missing_arrays_are_refused),
        cmocka_unit_test(the_views_are_those_of_both_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
