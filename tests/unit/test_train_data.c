/* What training looks at, keeps and refuses: labels and pictures of listed classes alone, the best epoch, numbers that are not
 * finite, plans and limits. */
#include "support.h"

#include "data/dataset.h"
#include "fixture.h"
#include "memory_probe.h"
#include "small_networks.h"
#include "small_training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 8, CLASSES = 3 };

static const char *const labels[PICTURES] = {"a", "b", "ab", "c", "", "ac", "bc", "c"};
static char *network, *path, *state_path;

static void small_vit(struct memory_tensors *tensors) {
    make_small_vit_of(tensors, 1);
}

static int open_all(void **state) {
    open_fixture(state);
    network = write_small_network(context, folder, "from.safetensors", small_vit);
    path = path_in(folder, "to.safetensors");
    state_path = path_in(folder, "to.safetensors.training");
    return 0;
}

static int close_all(void **state) {
    free_paths((char *const[]){network, path, state_path}, 3);
    return close_fixture(state);
}

static l3a_train_options usual_options(void) {
    return (l3a_train_options){
        .size = sizeof(l3a_train_options), .epochs = 2, .batch = 3, .seed = 4, .validation_share = -1, .rate = 1e-2};
}

/* Trains on a set and, if it is not NULL, validates on another. */
static l3a_status train(const char *const *shown, const char *const *held, const l3a_train_options *options,
                        l3a_train_report *report) {
    char *name = write_small_set(folder, "list.csv", shown, PICTURES), *other = NULL;
    l3a_dataset *dataset = open_small_set(context, name), *validation = NULL;
    if (held) {
        other = write_small_set(folder, "held.csv", held, PICTURES);
        validation = open_small_set(context, other);
    }
    const l3a_status status = train_with(context, &rounded_back_end, network, dataset, validation, options, path, report);
    l3a_dataset_free(dataset);
    l3a_dataset_free(validation);
    free(name);
    free(other);
    return status;
}

static void assert_same(const char *one, size_t count, const char *other, size_t other_count, bool same) {
    assert_true((count == other_count && memcmp(one, other, count) == 0) == same);
}

/* ---- What is looked at ---- */

/* Opens the set, then removes or spoils every picture that must not be looked at. */
static char *train_on(const char *const *shown, const char *const *held, const size_t *spoiled, size_t spoiled_count,
                      size_t *count) {
    static const char *const chosen[] = {"b", "a"};
    l3a_train_options options = usual_options();
    char *name = write_small_set(folder, "list.csv", shown, PICTURES), *other = write_small_set(folder, "held.csv", held, PICTURES);
    l3a_dataset *dataset = open_small_set(context, name), *validation = open_small_set(context, other);
    l3a_train_report report;
    options.classes = chosen;
    options.class_count = 2;
    for (size_t i = 0; i < spoiled_count; i++) {
        char picture[32];
        snprintf(picture, sizeof picture, "%zu.jpg", spoiled[i]);
        char *at = path_in(folder, picture);
        unlink(at);
        free(at);
    }
    assert_ok(context, train_with(context, &rounded_back_end, network, dataset, validation, &options, path, &report));
    l3a_dataset_free(dataset);
    l3a_dataset_free(validation);
    free(name);
    free(other);
    return read_bytes(path, count);
}

/* With `classes`, a training is the same, byte by byte, if all other labels are others, and if there are no other pictures. */
static void other_labels_and_pictures_are_never_looked_at(void **state) {
    (void)state;
    static const char *const others[PICTURES] = {"ac", "b", "abc", "", "c", "a", "b", ""};
    static const char *const wrong[PICTURES] = {"a", "b", "a", "c", "", "ac", "bc", "c"};
    static const size_t rest[] = {3, 4, 7};
    size_t first_count, second_count, third_count;
    char *first = train_on(labels, labels, NULL, 0, &first_count);
    char *second = train_on(others, others, rest, 3, &second_count);
    assert_same(first, first_count, second, second_count, true);
    char *third = train_on(wrong, labels, NULL, 0, &third_count); /* one label of the classes is another one */
    assert_same(first, first_count, third, third_count, false);
    free(first);
    free(second);
    free(third);
}

/* ---- What is kept ---- */

static double curve[8];
static size_t best;

static void keep_curve(const l3a_train_epoch *epoch, void *user) {
    (void)user;
    curve[epoch->epoch - 1] = epoch->mean_ap;
    best = epoch->best ? epoch->epoch : best;
}

/* mAP of the checkpoint as anybody can compute it: features by the library, the classifier as it is in the file. */
static double measure_file(const char *const *held) {
    char *name = write_small_set(folder, "held.csv", held, PICTURES);
    l3a_dataset *dataset = open_small_set(context, name);
    l3a_backbone *backbone = NULL;
    l3a_loader *loader = NULL;
    size_t count;
    assert_ok(context, l3a_backbone_open(context, path, NULL, &backbone));
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    const size_t size = 3 * info->size * info->size, width = info->width;
    l3a_loader_options options = {.size = sizeof options, .width = info->size, .height = info->size, .filter = info->filter};
    memcpy(options.mean, info->mean, sizeof options.mean);
    memcpy(options.deviation, info->deviation, sizeof options.deviation);
    const char *paths[PICTURES];
    for (size_t i = 0; i < PICTURES; i++) {
        paths[i] = l3a_dataset_path(dataset, i);
    }
    float *planes = malloc(PICTURES * size * sizeof *planes), *features = malloc(PICTURES * width * sizeof *features);
    assert_ok(context, l3a_loader_create(context, paths, PICTURES, &options, &loader));
    for (size_t i = 0, index; i < PICTURES; i++) {
        assert_ok(context, l3a_loader_next(loader, &index, planes + i * size));
    }
    assert_ok(context, l3a_backbone_run(backbone, planes, PICTURES, features));
    float *factors = read_tensor(context, path, "head.weight", &count), scores[PICTURES * CLASSES];
    assert_int_equal(count, CLASSES * width);
    float *bias = read_tensor(context, path, "head.bias", &count);
    assert_int_equal(count, CLASSES);
    for (size_t i = 0; i < PICTURES * CLASSES; i++) {
        double sum = (double)bias[i % CLASSES];
        for (size_t j = 0; j < width; j++) {
            sum += (double)features[i / CLASSES * width + j] * (double)factors[i % CLASSES * width + j];
        }
        scores[i] = (float)sum;
    }
    const double thresholds[CLASSES] = {0};
    l3a_metrics metrics = {.size = sizeof metrics};
    assert_ok(context, l3a_measure(context, scores, l3a_dataset_labels(dataset), PICTURES, CLASSES, thresholds, &metrics, NULL));
    l3a_loader_free(loader);
    l3a_backbone_free(backbone);
    l3a_dataset_free(dataset);
    free(planes);
    free(features);
    free(factors);
    free(bias);
    free(name);
    return metrics.mean_ap;
}

static void the_best_epoch_is_written(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    l3a_train_report report;
    size_t early[2] = {0}; /* with a network that is trained, and without */
    options.epochs = 6;
    options.schedule = "constant";
    options.optimiser = "sgd";
    options.on_epoch = keep_curve;
    for (uint64_t seed = 0; seed < 12; seed++) {
        const bool alone = seed % 3 == 2;
        options.seed = seed;
        options.trained = alone ? "head" : "norms";
        options.rate = options.head_rate = seed % 2 ? 3e-3 : 3e-2;
        options.keep_last = 0;
        options.epochs = 6;
        assert_ok(context, train(labels, labels, &options, &report));
        size_t expected = 1;
        for (size_t i = 1; i < options.epochs; i++) {
            expected = curve[i] > curve[expected - 1] ? i + 1 : expected;
        }
        assert_true(report.kept == expected && best == expected && report.mean_ap == curve[expected - 1]);
        assert_near(measure_file(labels), report.mean_ap, 1e-9);
        early[alone] += expected > 1 && expected < options.epochs;
        options.keep_last = 1; /* with a constant rate, its first epochs are those of a shorter training */
        options.epochs = expected;
        const char *const names[] = {"blocks.0.norm1.weight", "head.weight"};
        const size_t counts[] = {64, CLASSES * 64};
        float *kept[2];
        for (size_t i = 0; i < 2; i++) {
            kept[i] = read_tensor(context, path, names[i], &(size_t){0});
        }
        assert_ok(context, train(labels, labels, &options, &report));
        assert_true(report.kept == expected);
        for (size_t i = 0; i < 2; i++) {
            float *last = read_tensor(context, path, names[i], &(size_t){0});
            assert_memory_equal(kept[i], last, counts[i] * sizeof *last);
            free(kept[i]);
            free(last);
        }
    }
    assert_true(early[0] > 0 && early[1] > 0);
}

static void the_checkpoint_tells_how_it_was_trained(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    l3a_train_report report;
    struct checkpoint *checkpoint = NULL;
    options.command = "l3a train --epochs 2";
    assert_ok(context, train(labels, NULL, &options, &report));
    assert_true(isnan(report.mean_ap));
    assert_ok(context, checkpoint_open(context, path, &checkpoint));
    assert_string_equal(checkpoint_metadata(checkpoint, "l3a.training.recipe"), "norms");
    assert_string_equal(checkpoint_metadata(checkpoint, "l3a.training.epochs"), "2");
    assert_string_equal(checkpoint_metadata(checkpoint, "l3a.training.rate"), "0.01");
    assert_string_equal(checkpoint_metadata(checkpoint, "l3a.training.command"), "l3a train --epochs 2");
    assert_string_equal(checkpoint_metadata(checkpoint, "l3a.training.pictures"), "8");
    assert_non_null(strchr(checkpoint_metadata(checkpoint, "l3a.training.curve"), ';'));
    checkpoint_free(checkpoint);
}

/* ---- What goes wrong ---- */

static void numbers_that_are_not_finite_stop_with_step_and_pictures(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    l3a_train_report report;
    unlink(path);
    options.optimiser = "sgd";
    options.schedule = "constant";
    options.rate = 1e6;
    options.head_rate = 1e6;
    options.trained = "all";
    options.decay = 1e6;
    options.epochs = 50;
    options.save_seconds = -1;
    assert_int_equal(train(labels, NULL, &options, &report), L3A_ERROR_NUMERIC);
    assert_non_null(strstr(l3a_error_text(context), " of 150: the "));
    assert_non_null(strstr(l3a_error_text(context), " is not finite; its pictures are "));
    assert_non_null(strstr(l3a_error_text(context), ".jpg, "));
    assert_non_null(strstr(l3a_error_hint(context), "lower the rate, for example to 100000"));
    assert_int_not_equal(access(path, F_OK), 0);
    unlink(state_path);
}

static void a_picture_that_cannot_be_read_ends_the_training(void **state) {
    (void)state;
    char *name = write_small_set(folder, "list.csv", labels, PICTURES), *bad = path_in(folder, "5.jpg");
    l3a_dataset *dataset = open_small_set(context, name);
    l3a_train_options options = usual_options();
    l3a_train_report report;
    write_bytes(bad, "no picture", 10);
    assert_int_not_equal(train_with(context, &rounded_back_end, network, dataset, NULL, &options, path, &report), L3A_OK);
    assert_non_null(strstr(l3a_error_text(context), "5.jpg"));
    unlink(state_path);
    l3a_dataset_free(dataset);
    free(name);
    free(bad);
}

static void data_without_what_is_learned_are_refused(void **state) {
    (void)state;
    static const char *const cow[] = {"cow"};
    static const char *const nothing[PICTURES] = {"a", "a", "a", "a", "a", "a", "a", "a"};
    l3a_train_options options = usual_options();
    l3a_train_report report;
    options.classes = cow;
    options.class_count = 1;
    assert_fails(context, train(labels, NULL, &options, &report), L3A_ERROR_CLASS, "no class 'cow'");
    options.class_count = 0;
    assert_fails(context, train(labels, nothing, &options, &report), L3A_ERROR_CLASS, "no class 'b'");
}

static void plans_say_what_training_does(void **state) {
    (void)state;
    char *name = write_small_set(folder, "list.csv", labels, PICTURES);
    l3a_dataset *dataset = open_small_set(context, name);
    l3a_train_options options = usual_options();
    l3a_train_report report;
    l3a_train_plan plan;
    options.trained = "norms";
    assert_ok(context, train_prepare(context, &rounded_back_end, network, dataset, dataset, &options, &plan));
    assert_true(plan.pictures == PICTURES && plan.held == PICTURES && plan.classes == CLASSES);
    assert_true(plan.steps == 6 && plan.shown == 2 * 2 * PICTURES && plan.memory > 1000 && !plan.recomputes);
    assert_int_equal(plan.trained, 64 + 4 * 64 + 192 + 64 + 128 + 64 + 2 * 64);
    assert_true(plan.parameters > 30000);
    options.memory = plan.memory - 1;
    assert_fails(context, train_prepare(context, &rounded_back_end, network, dataset, dataset, &options, &plan), L3A_ERROR_MEMORY,
                 "on 3 pictures at a time");
    assert_fails(context, train_with(context, &rounded_back_end, network, dataset, dataset, &options, path, &report),
                 L3A_ERROR_MEMORY, "on 3 pictures at a time");
    l3a_dataset_free(dataset);
    free(name);
}

/* However long it lasts, a training takes as much memory as its first epoch. */
static void memory_does_not_grow(void **state) {
    (void)state;
    char *name = write_small_set(folder, "list.csv", labels, PICTURES);
    l3a_dataset *dataset = open_small_set(context, name);
    l3a_train_options options = usual_options();
    size_t most[2];
    for (size_t i = 0; i < 2; i++) {
        struct memory_probe probe = {0};
        l3a_context *with = make_probed_context(&probe, 1);
        l3a_train_report report;
        options.epochs = i ? 12 : 2;
        assert_ok(with, train_with(with, &rounded_back_end, network, dataset, dataset, &options, path, &report));
        l3a_context_free(with);
        assert_int_equal(probe.blocks, 0);
        most[i] = probe.most;
    }
    assert_true(most[0] > 10000 && most[1] < most[0] + 10 * (sizeof(struct epoch_result) + 256)); /* the curve, and its texts */
    l3a_dataset_free(dataset);
    free(name);
}

static void the_public_call_checks_what_it_is_given(void **state) {
    (void)state;
    char *name = write_small_set(folder, "list.csv", labels, PICTURES);
    l3a_dataset *dataset = open_small_set(context, name);
    l3a_train_options options = usual_options();
    l3a_train_report report = {.size = sizeof report};
    l3a_train_plan plan = {.size = sizeof plan};
    assert_fails(context, l3a_train(context, NULL, dataset, NULL, NULL, path, NULL), L3A_ERROR_ARGUMENT, "checkpoint is NULL");
    assert_fails(context, l3a_train(context, network, dataset, NULL, NULL, NULL, NULL), L3A_ERROR_ARGUMENT, "path is NULL");
    assert_fails(context, l3a_train_prepare(context, network, dataset, NULL, NULL, NULL), L3A_ERROR_ARGUMENT, "plan is NULL");
    options.rate = -1;
    assert_fails(context, l3a_train(context, network, dataset, NULL, &options, path, &report), L3A_ERROR_OPTION, "rate");
    options.rate = 1e-3;
    if (network_back_end_best()->forward) {
        assert_ok(context, l3a_train_prepare(context, network, dataset, NULL, NULL, &plan));
        assert_true(plan.pictures == PICTURES && plan.held == 0);
        assert_ok(context, l3a_train(context, network, dataset, NULL, &options, path, &report));
        assert_true(report.steps == 6 && report.epochs == 2 && report.kept == 2);
        assert_ok(context, l3a_train(context, network, dataset, dataset, NULL, path, NULL));
    } else {
        printf("skipped: no back end of this build trains\n");
    }
    l3a_dataset_free(dataset);
    free(name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_labels_and_pictures_are_never_looked_at),
        cmocka_unit_test(the_best_epoch_is_written),
        cmocka_unit_test(the_checkpoint_tells_how_it_was_trained),
        cmocka_unit_test(numbers_that_are_not_finite_stop_with_step_and_pictures),
        cmocka_unit_test(a_picture_that_cannot_be_read_ends_the_training),
        cmocka_unit_test(data_without_what_is_learned_are_refused),
        cmocka_unit_test(plans_say_what_training_does),
        cmocka_unit_test(memory_does_not_grow),
        cmocka_unit_test(the_public_call_checks_what_it_is_given),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
