/* Training that is interrupted: after any step, by a cancelled call, a full disk, or want of memory. It goes on from its state to
 * the same bytes, and only if it is the same training. */
#include "support.h"

#include "base/file.h"
#include "fixture.h"
#include "memory_probe.h"
#include "small_networks.h"
#include "small_training.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 7, EPOCHS = 2, STEPS = 3 };

static const char *const labels[PICTURES] = {"a", "b", "ab", "c", "", "ac", "bc"};

/* What all trainings here begin with. */
static char *network, *other_network, *set, *other_set, *path, *state_path;
static l3a_dataset *dataset, *other_dataset;
static char *expected; /* the bytes of a training that nothing disturbs */
static size_t expected_count;

static void small_vit(struct memory_tensors *tensors) {
    make_small_vit_of(tensors, 1);
}

static void small_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 4);
}

static l3a_train_options usual_options(void) {
    return (l3a_train_options){.size = sizeof(l3a_train_options),
                               .trained = "all",
                               .epochs = EPOCHS,
                               .batch = 3,
                               .seed = 4,
                               .command = "l3a train",
                               .save_seconds = 1e-9};
}

/* What trains. */
static const struct network_back_end *back_end = &rounded_back_end;

static l3a_status train(l3a_context *with, const l3a_train_options *options) {
    l3a_train_report report;
    const l3a_status status = train_with(with, back_end, network, dataset, dataset, options, path, &report);
    assert_true(status != L3A_OK ||
                (report.epochs == options->epochs &&
                 report.steps == options->epochs * ((l3a_dataset_rows(dataset) + options->batch - 1) / options->batch)));
    return status;
}

static bool is_there(const char *at) {
    return access(at, F_OK) == 0;
}

static void assert_expected(void) {
    size_t count;
    char *bytes = read_bytes(path, &count);
    assert_int_equal(count, expected_count);
    assert_memory_equal(bytes, expected, count);
    assert_false(is_there(state_path));
    free(bytes);
    unlink(path);
}

static void train_undisturbed(const l3a_train_options *options) {
    free(expected);
    expected = NULL;
    assert_ok(context, train(context, options));
    expected = read_bytes(path, &expected_count);
    unlink(path);
}

static int open_all(void **state) {
    open_fixture(state);
    network = write_small_network(context, folder, "from.safetensors", small_vit);
    other_network = write_small_network(context, folder, "other.safetensors", make_small_vit);
    set = write_small_set(folder, "list.csv", labels, PICTURES);
    other_set = write_small_set(folder, "other.csv", (const char *const[]){"a", "b", "ab", "c", "", "ac", "b"}, PICTURES);
    dataset = open_small_set(context, set);
    other_dataset = open_small_set(context, other_set);
    path = path_in(folder, "to.safetensors");
    state_path = path_in(folder, "to.safetensors.training");
    return 0;
}

static int close_all(void **state) {
    l3a_dataset_free(dataset);
    l3a_dataset_free(other_dataset);
    free_paths((char *const[]){network, other_network, set, other_set, path, state_path, expected}, 7);
    return close_fixture(state);
}

/* ---- Cancelled ---- */

struct patience_of {
    size_t left, epochs, resumed;
    bool noted;
};

static int count_down(const l3a_event *event, void *user) {
    struct patience_of *patience = user;
    patience->noted = patience->noted || event->kind == L3A_EVENT_NOTE;
    return event->kind == L3A_EVENT_PROGRESS && patience->left-- == 0;
}

static l3a_context *impatient_context(struct patience_of *patience, int threads) {
    const l3a_context_options options = {
        .size = sizeof options, .threads = threads, .on_event = count_down, .event_user = patience};
    l3a_context *made = NULL;
    assert_int_equal(l3a_context_create(&options, &made), L3A_OK);
    return made;
}

static void count_epoch(const l3a_train_epoch *epoch, void *user) {
    struct patience_of *patience = user;
    assert_int_equal(epoch->epoch, ++patience->epochs);
    patience->resumed += epoch->resumed != 0;
}

/* Cancels at the N-th progress event, N = 0, 1, 2 … and goes on. */
static void cancel_everywhere(l3a_train_options options, size_t stride) {
    size_t cancelled = 0;
    stride *= getenv("L3A_QUICK") ? 3 : 1; /* one job of CI meets all of them */
    train_undisturbed(&options);
    for (size_t n = 0;; n += stride) {
        struct patience_of patience = {.left = n};
        l3a_context *with = impatient_context(&patience, 1);
        const l3a_status status = train(with, &options);
        l3a_context_free(with);
        if (status == L3A_OK) {
            break;
        }
        assert_int_equal(status, L3A_ERROR_CANCELLED);
        assert_false(is_there(path));
        assert_true(is_there(state_path) == (n > 0));
        cancelled++;
        options.resume = 1;
        patience = (struct patience_of){.left = SIZE_MAX};
        options.on_epoch = count_epoch;
        options.epoch_user = &patience;
        with = impatient_context(&patience, 1);
        assert_ok(with, train(with, &options));
        l3a_context_free(with);
        assert_int_equal(patience.epochs, EPOCHS);
        assert_int_equal(patience.resumed, n / ((STEPS + 1) + (STEPS + 1)));
        assert_expected();
        options.resume = 0;
        options.on_epoch = NULL;
    }
    assert_int_equal(cancelled, (EPOCHS * 2 * (STEPS + 1) + stride - 1) / stride); /* before each step and after the last; so for
                                                                                    * validation */
    assert_expected();
}

static void a_cancelled_training_goes_on_to_the_same_bytes(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    cancel_everywhere(options, 1);
    options.save_seconds = -1;
    options.trained = "norms";
    options.keep_last = 1;
    cancel_everywhere(options, 3);
    options.optimiser = "sgd";
    options.rate = options.head_rate = 1e-3;
    options.command = NULL;
    cancel_everywhere(options, 3);
    options.trained = "head";
    options.keep_last = 0;
    cancel_everywhere(options, 3);
}

static void statistics_of_batch_norms_go_on_as_well(void **state) {
    (void)state;
    char *vit = network;
    const l3a_backbone_options backbone = {.size = sizeof backbone, .side = 64};
    l3a_train_options options = usual_options();
    options.backbone = &backbone;
    network = write_small_network(context, folder, "resnet.safetensors", small_resnet);
    cancel_everywhere(options, 5);
    free(network);
    network = vit;
}

static void so_do_the_back_ends_of_the_processor(void **state) {
    (void)state;
    const l3a_backbone_options backbone = {.size = sizeof backbone, .side = 64};
    char *vit = network;
    for (size_t i = 0; network_back_end_at(i); i++) {
        back_end = network_back_end_at(i);
        if (back_end->available() && back_end->forward) {
            l3a_train_options options = usual_options();
            cancel_everywhere(options, 1);
            network = write_small_network(context, folder, "resnet.safetensors", small_resnet);
            options.backbone = &backbone;
            cancel_everywhere(options, 1);
            free(network);
            network = vit;
        }
    }
    back_end = &rounded_back_end;
}

/* One step a call. The command of the first call is recorded. */
static void a_training_can_be_interrupted_after_each_step(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    l3a_status status = L3A_ERROR_CANCELLED;
    size_t calls = 0;
    train_undisturbed(&options);
    while (status != L3A_OK) {
        struct patience_of patience = {.left = 1};
        l3a_context *with = impatient_context(&patience, 1);
        status = train(with, &options);
        assert_true(status == L3A_OK || status == L3A_ERROR_CANCELLED);
        l3a_context_free(with);
        options.resume = 1;
        options.command = "l3a train --resume";
        if (++calls > 4 * EPOCHS * STEPS) { /* a validation that is always cancelled ends nothing */
            break;
        }
        if (calls % 5 == 0 && status != L3A_OK) {
            status = train(context, &options);
        }
    }
    assert_int_equal(status, L3A_OK);
    assert_expected();
}

static void the_number_of_threads_stays(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    struct patience_of patience = {.left = 3};
    train_undisturbed(&options);
    l3a_context *one = impatient_context(&patience, 1);
    assert_int_equal(train(one, &options), L3A_ERROR_CANCELLED);
    l3a_context_free(one);
    patience = (struct patience_of){.left = SIZE_MAX};
    l3a_context *two = impatient_context(&patience, 2);
    options.resume = 1;
    assert_ok(two, train(two, &options));
    assert_true(patience.noted);
    assert_int_equal(l3a_context_threads(two), 2);
    l3a_context_free(two);
    assert_expected();
}

/* ---- The disk ---- */

static size_t writes_left;
static file_operations full_disk;

static ssize_t write_until_full(int file, const void *bytes, size_t count, off_t offset) {
    if (!writes_left) {
        errno = ENOSPC;
        return -1;
    }
    writes_left--;
    return posix_files.write(file, bytes, count, offset);
}

static void a_full_disk_leaves_the_last_state(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    size_t failed = 0, resumed = 0;
    train_undisturbed(&options);
    full_disk = posix_files;
    full_disk.write = write_until_full;
    for (size_t n = 0;; n += 1 + n / 4) {
        l3a_context *with = make_context(1);
        with->files = &full_disk;
        writes_left = n;
        const l3a_status status = train(with, &options);
        l3a_context_free(with);
        if (status == L3A_OK) {
            break;
        }
        assert_int_equal(status, L3A_ERROR_FULL);
        assert_false(is_there(path));
        failed++;
        resumed += is_there(state_path);
        options.resume = 1;
        assert_ok(context, train(context, &options));
        assert_expected();
        options.resume = 0;
    }
    assert_expected();
    assert_true(failed > 12 && resumed > failed / 3);
}

/* ---- Memory ---- */

static l3a_status train_once(l3a_context *with, void *argument) {
    const l3a_status status = train(with, argument);
    unlink(path);
    unlink(state_path);
    return status;
}

static l3a_status resume_once(l3a_context *with, void *argument) {
    char *kept = path_in(folder, "kept.training");
    copy_file(kept, state_path);
    const l3a_status status = train_once(with, argument);
    free(kept);
    return status;
}

static void want_of_memory_is_an_error(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    struct patience_of patience = {.left = 2};
    char *kept = path_in(folder, "kept.training"), *few = write_small_set(folder, "few.csv", labels + 2, 2);
    l3a_dataset *all = dataset;
    dataset = open_small_set(context, few);
    options.epochs = 1;
    options.batch = 2;
    options.trained = "norms";
    options.save_seconds = -1;
    assert_true(getenv("L3A_QUICK") || fail_each_allocation(train_once, &options) > 100);
    l3a_context *with = impatient_context(&patience, 1);
    assert_int_equal(train(with, &options), L3A_ERROR_CANCELLED);
    l3a_context_free(with);
    copy_file(state_path, kept);
    options.resume = 1;
    assert_true(fail_each_allocation(resume_once, &options) > 100);
    unlink(kept);
    l3a_dataset_free(dataset);
    dataset = all;
    free(few);
    free(kept);
}

/* ---- Another training ---- */

static void interrupt(const l3a_train_options *options) {
    struct patience_of patience = {.left = 2};
    l3a_context *with = impatient_context(&patience, 1);
    assert_int_equal(train(with, options), L3A_ERROR_CANCELLED);
    l3a_context_free(with);
}

static void a_state_belongs_to_one_training(void **state) {
    (void)state;
    const l3a_backbone_options mean = {.size = sizeof mean, .pool = L3A_POOL_MEAN};
    const l3a_picture_options oriented = {.size = sizeof oriented, .orient = 1};
    const char *const two[] = {"a", "b"};
    l3a_train_report report;
    const struct {
        l3a_train_options other;
        const char *text;
    } cases[] = {{{.rate = 0.5}, ": rate: 0.001 then, 0.5 now"},
                 {{.epochs = 3}, ": epochs: 2 then, 3 now"},
                 {{.seed = 5}, "seed"},
                 {{.clip = 1}, "clip"},
                 {{.trained = "head"}, "trained"},
                 {{.loss = "bce"}, "loss"},
                 {{.flip = -1}, "flip"},
                 {{.backbone = &mean}, "pool"},
                 {{.picture = &oriented}, "decoding"},
                 {{.classes = two, .class_count = 2}, "pictures"}};
    const l3a_train_options options = usual_options();
    interrupt(&options);
    assert_fails(context, train(context, &options), L3A_ERROR_EXISTS, "the state of an interrupted training");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const l3a_train_options *other = &cases[i].other;
        l3a_train_options changed = options;
        changed.resume = 1;
        changed.rate = other->rate;
        changed.epochs = other->epochs ? other->epochs : options.epochs;
        changed.seed = other->seed ? other->seed : options.seed;
        changed.clip = other->clip;
        changed.trained = other->trained ? other->trained : options.trained;
        changed.loss = other->loss;
        changed.flip = other->flip;
        changed.backbone = other->backbone;
        changed.picture = other->picture;
        changed.classes = other->classes;
        changed.class_count = other->class_count;
        assert_fails(context, train(context, &changed), L3A_ERROR_MISMATCH, cases[i].text);
    }
    l3a_train_options again = options;
    again.resume = 1;
    assert_fails(context, train_with(context, back_end, other_network, dataset, dataset, &again, path, &report), L3A_ERROR_MISMATCH,
                 "network");
    assert_fails(context, train_with(context, back_end, network, other_dataset, dataset, &again, path, &report), L3A_ERROR_MISMATCH,
                 "pictures");
    assert_fails(context, train_with(context, back_end, network, dataset, other_dataset, &again, path, &report), L3A_ERROR_MISMATCH,
                 "validation pictures");
    train_undisturbed(&again);
}

static void a_damaged_state_is_refused(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    size_t count;
    interrupt(&options);
    options.resume = 1;
    char *bytes = read_bytes(state_path, &count);
    for (size_t i = 0; i < 40; i++) {
        const size_t at = i < 20 ? i * 97 : count - 1 - (i - 20) * (count / 21);
        bytes[at] ^= 4;
        write_bytes(state_path, bytes, count);
        bytes[at] ^= 4;
        const l3a_status status = train(context, &options);
        assert_true(status == L3A_ERROR_CHECKSUM || status == L3A_ERROR_FORMAT || status == L3A_ERROR_TRUNCATED);
        assert_true(is_there(state_path));
    }
    write_bytes(state_path, "no state", 8);
    assert_int_not_equal(train(context, &options), L3A_OK);
    free(bytes);
    copy_file(network, state_path);
    assert_fails(context, train(context, &options), L3A_ERROR_FORMAT, "not the state of a training");
    unlink(state_path);
}

static void paths_must_differ(void **state) {
    (void)state;
    l3a_train_options options = usual_options();
    l3a_train_report report;
    assert_fails(context, train_with(context, back_end, network, dataset, dataset, &options, network, &report), L3A_ERROR_ARGUMENT,
                 "is the checkpoint that is to be trained");
    options.state = network;
    assert_fails(context, train(context, &options), L3A_ERROR_ARGUMENT, "is the checkpoint that is to be trained");
    options.state = path;
    assert_fails(context, train(context, &options), L3A_ERROR_ARGUMENT, "cannot be both");
    options.state = state_path;
    assert_ok(context, train(context, &options));
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_training_goes_on_to_the_same_bytes),
        cmocka_unit_test(statistics_of_batch_norms_go_on_as_well),
        cmocka_unit_test(so_do_the_back_ends_of_the_processor),
        cmocka_unit_test(a_training_can_be_interrupted_after_each_step),
        cmocka_unit_test(the_number_of_threads_stays),
        cmocka_unit_test(a_full_disk_leaves_the_last_state),
        cmocka_unit_test(want_of_memory_is_an_error),
        cmocka_unit_test(a_state_belongs_to_one_training),
        cmocka_unit_test(a_damaged_state_is_refused),
        cmocka_unit_test(paths_must_differ),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
