/* l3a_train() on a CUDA device: the same bytes again, and after an interruption or the loss of the device. Where there is no
 * device, the plug-in's kernels run on the processor (fake_cuda.h, emulate_cuda.h). */
#include "support.h"

#include "fake_device.h"
#include "fixture.h"
#include "format/safetensors.h"
#include "small_networks.h"
#include "small_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 7, EPOCHS = 2, BATCH = 3 };

static const char *const labels[PICTURES] = {"a", "b", "ab", "c", "", "ac", "bc"};

static struct fake_cuda *fake; /* NULL: the device is real */
static char *network, *set, *path, *state_path;
static l3a_dataset *dataset;
static l3a_network_precision precision = L3A_NETWORK_USUAL;

static void shallow_vit(struct memory_tensors *tensors) {
    make_small_vit_of(tensors, 1);
}

static int open_all(void **state) {
    open_fixture(state);
    network = write_small_network(context, folder, "from.safetensors", shallow_vit);
    set = write_small_set(folder, "list.csv", labels, PICTURES);
    dataset = open_small_set(context, set);
    path = path_in(folder, "to.safetensors");
    state_path = path_in(folder, "to.safetensors.training");
    return 0;
}

static int close_all(void **state) {
    l3a_dataset_free(dataset);
    free_paths((char *const[]){network, set, path, state_path}, 4);
    return close_fixture(state);
}

static bool is_there(const char *at) {
    return access(at, F_OK) == 0;
}

struct bytes {
    char *all;
    size_t count;
};

static struct bytes take_result(void) {
    struct bytes made;
    made.all = read_bytes(path, &made.count);
    assert_false(is_there(state_path));
    unlink(path);
    return made;
}

static void assert_same_result(const struct bytes *expected) {
    const struct bytes found = take_result();
    assert_int_equal(found.count, expected->count);
    assert_memory_equal(found.all, expected->all, found.count);
    free(found.all);
}

/* ---- Training ---- */

static size_t patience; /* progress events until it is cancelled */

static int count_down(const l3a_event *event, void *user) {
    (void)user;
    return event->kind == L3A_EVENT_PROGRESS && patience-- == 0;
}

/* text: room for that of the error; NULL: there must be none */
static l3a_status train(bool resume, char *text, size_t capacity) {
    const l3a_context_options chosen = {.size = sizeof chosen, .threads = 1, .device = "cuda", .on_event = count_down};
    const l3a_backbone_options backbone = {.size = sizeof backbone, .precision = precision};
    const l3a_train_options options = {.size = sizeof options,
                                       .backbone = &backbone,
                                       .trained = "all",
                                       .epochs = EPOCHS,
                                       .batch = BATCH,
                                       .seed = 4,
                                       .command = "l3a train",
                                       .save_seconds = 1e-9,
                                       .resume = resume};
    l3a_context *with = NULL;
    l3a_train_report report = {.size = sizeof report};
    l3a_status status = l3a_context_create(&chosen, &with);
    status = status == L3A_OK ? l3a_train(with, network, dataset, dataset, &options, path, &report) : status;
    if (text) {
        snprintf(text, capacity, "%s", l3a_error_text(with));
    } else {
        assert_ok(with, status);
        assert_int_equal(report.epochs, EPOCHS);
    }
    l3a_context_free(with);
    return status;
}

static struct bytes train_undisturbed(void) {
    patience = SIZE_MAX;
    train(false, NULL, 0);
    return take_result();
}

/* What the result says of itself. */
static void assert_recorded(const char *key, const char *expected) {
    safetensors file;
    assert_ok(context, safetensors_open(context, path, &file));
    const char *found = safetensors_metadata(&file, key);
    assert_non_null(found);
    assert_string_equal(found, expected);
    safetensors_close(&file);
}

static void two_runs_give_the_same_bytes(void **unused) {
    static const struct {
        l3a_network_precision precision;
        const char *recorded;
    } all[] = {{L3A_NETWORK_USUAL, "bf16"}, {L3A_NETWORK_FLOAT32, "float32"}};
    (void)unused;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        precision = all[i].precision;
        const struct bytes expected = train_undisturbed();
        train(false, NULL, 0);
        assert_recorded("l3a.training.engine", "cuda");
        assert_recorded("l3a.training.numbers", all[i].recorded);
        assert_same_result(&expected);
        free(expected.all);
    }
    precision = L3A_NETWORK_USUAL;
}

static void a_plan_counts_the_memory_of_the_device(void **unused) {
    const l3a_context_options chosen = {.size = sizeof chosen, .threads = 1, .device = "cuda"};
    l3a_context *with = NULL;
    l3a_train_plan plan = {.size = sizeof plan}, less = {.size = sizeof less};
    l3a_train_options options = {.size = sizeof options, .trained = "all", .batch = BATCH};
    (void)unused;
    assert_int_equal(l3a_context_create(&chosen, &with), L3A_OK);
    assert_ok(with, l3a_train_prepare(with, network, dataset, dataset, &options, &plan));
    assert_true(plan.memory > 0 && !plan.recomputes);
    options.memory = plan.memory - 1;
    assert_ok(with, l3a_train_prepare(with, network, dataset, dataset, &options, &less));
    assert_true(less.memory < plan.memory && less.recomputes);
    options.memory = 1;
    assert_fails(with, l3a_train_prepare(with, network, dataset, dataset, &options, &less), L3A_ERROR_MEMORY, "training takes");
    l3a_context_free(with);
}

/* With the device "auto", the processor trains if there is no room. */
static void without_room_the_processor_trains(void **unused) {
    l3a_train_options options = {.size = sizeof options, .trained = "all", .batch = BATCH};
    (void)unused;
    for (int i = 0; i < 2; i++) {
        const l3a_context_options chosen = {
            .size = sizeof chosen, .threads = 1, .device = "auto", .device_memory_limit = i ? 1 << 20 : 0};
        l3a_context *with = NULL;
        l3a_train_plan plan = {.size = sizeof plan};
        assert_int_equal(l3a_context_create(&chosen, &with), L3A_OK);
        const l3a_status status = l3a_train_prepare(with, network, dataset, dataset, &options, &plan);
        if (status == L3A_ERROR_STATE && strstr(l3a_error_text(with), "cannot train networks")) {
            print_message("skipped: the processor cannot train networks in this build (it has no oneDNN)\n");
        } else {
            assert_ok(with, status);
        }
        assert_string_equal(l3a_context_device(with), i ? "cpu" : "cuda:0");
        l3a_context_free(with);
    }
}

/* ---- Interruptions ---- */

static void a_cancelled_training_goes_on_to_the_same_bytes(void **unused) {
    const struct bytes expected = train_undisturbed();
    size_t cancelled = 0;
    char text[200];
    (void)unused;
    for (size_t n = 0;; n++) {
        patience = n;
        const l3a_status status = train(false, text, sizeof text);
        if (status == L3A_OK) {
            break;
        }
        assert_int_equal(status, L3A_ERROR_CANCELLED);
        cancelled++;
        patience = SIZE_MAX;
        train(true, NULL, 0);
        assert_same_result(&expected);
    }
    assert_true(cancelled > EPOCHS * PICTURES / BATCH);
    assert_same_result(&expected);
    free(expected.all);
}

/* Whenever that happens, the state that was saved last is still there, and the training goes on from it. */
static void a_lost_device_leaves_the_last_state(void **unused) {
    enum { PARTS = 12 };
    char text[200];
    size_t states = 0;
    (void)unused;
    if (!fake) {
        print_message("skipped: a device that is lost: the device is real\n");
        return;
    }
    fake_device_reset(fake);
    const struct bytes expected = train_undisturbed();
    const size_t calls = fake->calls;
    for (size_t part = 1; part < PARTS; part++) {
        fake_device_reset(fake);
        fake->failing = calls * part / PARTS;
        fake->failure = DEVICE_LOST;
        assert_int_equal(train(false, text, sizeof text), L3A_ERROR_DEVICE);
        assert_non_null(strstr(text, "cuda:0: the device failed"));
        assert_false(is_there(path));
        assert_int_equal(fake->objects, 0);
        states += is_there(state_path);
        fake_device_reset(fake);
        train(is_there(state_path), NULL, 0);
        assert_same_result(&expected);
    }
    assert_true(states > PARTS / 2);
    free(expected.all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_give_the_same_bytes),        cmocka_unit_test(a_plan_counts_the_memory_of_the_device),
        cmocka_unit_test(without_room_the_processor_trains),   cmocka_unit_test(a_cancelled_training_goes_on_to_the_same_bytes),
        cmocka_unit_test(a_lost_device_leaves_the_last_state),
    };
    if (!fake_device_load(&fake)) {
        return 77;
    }
    const int code = cmocka_run_group_tests(tests, open_all, close_all);
    if (fake && (fake->objects || fake->misuses)) {
        print_error("%ld objects leak, %zu misuses\n", fake->objects, fake->misuses);
        return 1;
    }
    return code;
}
