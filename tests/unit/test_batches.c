/* Batches of pictures for training: the same bytes with any number of threads and after a pass was resumed, each row once, and
 * without changes what extraction's loader delivers; pictures that cannot be read, and memory. */
#include "support.h"

#include "data/dataset.h"
#include "fixture.h"
#include "memory_probe.h"
#include "train/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 23, SIDE = 16, NUMBERS = 3 * SIDE * SIDE, BATCH = 5, BATCHES = 5, BAD = 9 };

static const struct augmentation everything = {.least = 0.3, .most = 1, .ratio = 4.0 / 3, .flip = true, .cutout = 0.5};

/* What a pass has delivered. */
struct pass {
    size_t count, batches;
    size_t rows[ROWS];
    float planes[ROWS][NUMBERS];
};

static size_t all_rows[ROWS];

static void write_picture(size_t row) {
    char name[64];
    snprintf(name, sizeof name, "set/%s/%02zu.jpg", row < ROWS / 2 ? "a" : "b", row);
    put(name, "");
    char *path = path_in(folder, name);
    write_small_picture(path, row);
    free(path);
}

/* 23 pictures of 40 x 30 pixels, in order. */
static int set_up(void **state) {
    open_fixture(state);
    for (size_t i = 0; i < ROWS; i++) {
        write_picture(i);
        all_rows[i] = i;
    }
    return 0;
}

static l3a_dataset *open_set(l3a_context *user) {
    char name[600];
    l3a_dataset *dataset = NULL;
    snprintf(name, sizeof name, "folders:%s/set", folder);
    assert_ok(user, l3a_dataset_open(user, name, NULL, NULL, &dataset));
    assert_int_equal(l3a_dataset_rows(dataset), ROWS);
    return dataset;
}

static l3a_loader_options loading(void) {
    l3a_loader_options options = {.size = sizeof options, .width = SIDE, .height = SIDE};
    options.mean[0] = 0.5f;
    options.deviation[1] = 0.25f;
    return options;
}

static l3a_status open_batches(l3a_context *user, const l3a_dataset *dataset, struct augmentation augmentation, bool shuffled,
                               struct batches **batches) {
    const l3a_loader_options loader = loading();
    const struct batches_options options = {&loader, augmentation, 77, BATCH, shuffled};
    return batches_open(user, dataset, all_rows, ROWS, &options, batches);
}

static l3a_status run_pass(struct batches *batches, uint64_t epoch, size_t first, struct pass *pass) {
    l3a_status status = L3A_OK;
    struct picture_batch batch;
    *pass = (struct pass){.count = 0};
    TRY(batches_begin(batches, epoch, first));
    do {
        TRY(batches_next(batches, &batch));
        assert_true(pass->count + batch.count <= ROWS && batch.count <= BATCH);
        pass->batches += batch.count > 0;
        if (batch.count) {
            memcpy(pass->rows + pass->count, batch.rows, batch.count * sizeof *batch.rows);
            memcpy(pass->planes + pass->count, batch.planes, batch.count * sizeof *pass->planes);
        }
        pass->count += batch.count;
    } while (batch.count);
done:
    return status;
}

static struct pass *make_pass(void) {
    struct pass *pass = calloc(1, sizeof *pass);
    assert_non_null(pass);
    return pass;
}

static void assert_same(const struct pass *found, const struct pass *expected, size_t from) {
    assert_int_equal(found->count, expected->count - from);
    assert_memory_equal(found->rows, expected->rows + from, found->count * sizeof *found->rows);
    assert_memory_equal(found->planes, expected->planes + from, found->count * sizeof *found->planes);
}

static void threads_and_resuming_change_nothing(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    struct pass *expected[] = {make_pass(), make_pass()}, *found = make_pass();
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        l3a_context *user = make_context(threads[i]);
        l3a_dataset *dataset = open_set(user);
        struct batches *batches = NULL;
        assert_ok(user, open_batches(user, dataset, everything, true, &batches));
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            assert_ok(user, run_pass(batches, epoch, 0, i ? found : expected[epoch]));
            assert_same(i ? found : expected[epoch], expected[epoch], 0);
            assert_int_equal(expected[epoch]->batches, BATCHES);
            for (size_t first = 1; first <= BATCHES; first++) {
                assert_ok(user, run_pass(batches, epoch, first, found));
                assert_same(found, expected[epoch], first < BATCHES ? first * BATCH : ROWS);
            }
        }
        batches_free(batches);
        l3a_dataset_free(dataset);
        l3a_context_free(user);
    }
    assert_memory_not_equal(expected[0]->rows, expected[1]->rows, sizeof expected[0]->rows);
    free(expected[0]);
    free(expected[1]);
    free(found);
}

static void each_row_comes_once(void **state) {
    (void)state;
    struct pass *pass = make_pass(), *listed = make_pass();
    l3a_dataset *dataset = open_set(context);
    struct batches *batches = NULL;
    assert_ok(context, open_batches(context, dataset, everything, false, &batches));
    assert_ok(context, run_pass(batches, 3, 0, listed));
    assert_memory_equal(listed->rows, all_rows, sizeof all_rows);
    batches_free(batches);
    assert_ok(context, open_batches(context, dataset, everything, true, &batches));
    for (uint64_t epoch = 0; epoch < 40; epoch++) {
        bool seen[ROWS] = {false};
        assert_ok(context, run_pass(batches, epoch, 0, pass));
        for (size_t i = 0; i < ROWS; i++) {
            assert_false(seen[pass->rows[i]]);
            seen[pass->rows[i]] = true;
            if (epoch == 3) { /* the order is no part of what happens to a picture */
                assert_memory_equal(pass->planes[i], listed->planes[pass->rows[i]], sizeof *pass->planes);
            }
        }
        assert_int_equal(pass->count, ROWS);
    }
    batches_free(batches);
    l3a_dataset_free(dataset);
    free(listed);
    free(pass);
}

/* Some rows, one of them twice: what happens to a picture is the same, whatever the others are. */
static void a_list_of_rows_is_delivered(void **state) {
    (void)state;
    const size_t rows[] = {21, 4, 4, 0, 13, 7};
    enum { COUNT = sizeof rows / sizeof rows[0] };
    const l3a_loader_options loader = loading();
    const struct batches_options options = {&loader, everything, 77, BATCH, false};
    struct pass *all = make_pass(), *some = make_pass();
    l3a_dataset *dataset = open_set(context);
    struct batches *batches = NULL;
    assert_ok(context, open_batches(context, dataset, everything, false, &batches));
    assert_ok(context, run_pass(batches, 1, 0, all));
    batches_free(batches);
    assert_ok(context, batches_open(context, dataset, rows, COUNT, &options, &batches));
    assert_ok(context, run_pass(batches, 1, 0, some));
    assert_int_equal(some->count, COUNT);
    assert_int_equal(some->batches, 2);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(some->rows[i], rows[i]);
        assert_memory_equal(some->planes[i], all->planes[rows[i]], sizeof *all->planes);
    }
    batches_free(batches);
    assert_ok(context, batches_open(context, dataset, NULL, 0, &options, &batches));
    assert_ok(context, run_pass(batches, 1, 0, some));
    assert_int_equal(some->count, 0);
    batches_free(batches);
    l3a_dataset_free(dataset);
    free(some);
    free(all);
}

static void without_changes_they_are_what_is_extracted(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const char *paths[ROWS];
        l3a_loader_options loader = loading();
        loader.crop = kind ? 0.875 : 0;
        const struct batches_options options = {.loader = &loader, .seed = 1, .batch = BATCH};
        struct pass *pass = make_pass();
        l3a_dataset *dataset = open_set(context);
        l3a_loader *extraction = NULL;
        struct batches *batches = NULL;
        float planes[NUMBERS];
        size_t index;
        for (size_t i = 0; i < ROWS; i++) {
            paths[i] = l3a_dataset_path(dataset, i);
        }
        assert_ok(context, batches_open(context, dataset, all_rows, ROWS, &options, &batches));
        assert_ok(context, run_pass(batches, 0, 0, pass));
        assert_ok(context, l3a_loader_create(context, paths, ROWS, &loader, &extraction));
        for (size_t i = 0; i < ROWS; i++) {
            assert_ok(context, l3a_loader_next(extraction, &index, planes));
            assert_memory_equal(planes, pass->planes[i], sizeof planes);
        }
        l3a_loader_free(extraction);
        batches_free(batches);
        l3a_dataset_free(dataset);
        free(pass);
    }
}

static void what_cannot_be_read_ends_the_pass(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        l3a_context *user = make_context(threads);
        l3a_dataset *dataset = open_set(user);
        struct batches *batches = NULL;
        struct picture_batch batch;
        struct pass *pass = make_pass();
        put("set/a/09.jpg", "\xFF\xD8\xFF\xE0 cut short");
        assert_ok(user, open_batches(user, dataset, everything, false, &batches));
        assert_ok(user, batches_begin(batches, 0, 0));
        assert_ok(user, batches_next(batches, &batch));
        assert_int_equal(batch.count, BATCH);
        assert_fails(user, batches_next(batches, &batch), L3A_ERROR_TRUNCATED, "set/a/09.jpg: the JPEG file ends");
        assert_int_equal(batch.count, 0);
        assert_non_null(strstr(l3a_error_hint(user), "copy or download the picture again"));
        assert_non_null(strstr(l3a_error_hint(user), "could not be repeated"));
        assert_fails(user, batches_next(batches, &batch), L3A_ERROR_ARGUMENT, "no pass");
        assert_ok(user, run_pass(batches, 0, BAD / BATCH + 1, pass));
        assert_int_equal(pass->count, ROWS - (BAD / BATCH + 1) * BATCH);
        char *path = path_in(folder, "set/a/09.jpg");
        assert_int_equal(remove(path), 0);
        free(path);
        assert_fails(user, run_pass(batches, 0, 1, pass), L3A_ERROR_NOT_FOUND, "set/a/09.jpg");
        write_picture(BAD);
        assert_ok(user, run_pass(batches, 0, 0, pass));
        assert_int_equal(pass->count, ROWS);
        free(pass);
        batches_free(batches);
        l3a_dataset_free(dataset);
        l3a_context_free(user);
    }
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    l3a_loader_options loader = loading();
    struct batches_options options = {&loader, everything, 1, BATCH, true};
    const size_t rows[] = {3, ROWS};
    l3a_dataset *dataset = open_set(context);
    struct batches *batches = NULL;
    struct picture_batch batch;
    assert_fails(context, batches_open(context, dataset, rows, 2, &options, &batches), L3A_ERROR_ARGUMENT, "no row 23");
    options.batch = 0;
    assert_fails(context, batches_open(context, dataset, rows, 1, &options, &batches), L3A_ERROR_ARGUMENT, "0 pictures");
    options.batch = BATCH;
    options.augmentation.ratio = 0.5;
    assert_fails(context, batches_open(context, dataset, rows, 1, &options, &batches), L3A_ERROR_ARGUMENT, "ratios up to 0.5");
    options.augmentation = everything;
    loader.views = 5;
    assert_fails(context, batches_open(context, dataset, rows, 1, &options, &batches), L3A_ERROR_ARGUMENT, "5 views");
    options.augmentation = (struct augmentation){.most = 0};
    assert_ok(context, batches_open(context, dataset, rows, 1, &options, &batches));
    assert_fails(context, batches_next(batches, &batch), L3A_ERROR_ARGUMENT, "no pass");
    assert_fails(context, batches_begin(batches, 0, 2), L3A_ERROR_ARGUMENT, "1 pictures has 1 batches");
    batches_free(batches);
    loader.views = 1;
    loader.deviation[0] = -1;
    assert_fails(context, batches_open(context, dataset, rows, 1, &options, &batches), L3A_ERROR_ARGUMENT, "deviation -1");
    options.loader = NULL;
    options.batch = SIZE_MAX;
    assert_ok(context, batches_open(context, dataset, rows, 1, &options, &batches));
    assert_ok(context, batches_begin(batches, 0, 0));
    assert_ok(context, batches_next(batches, &batch));
    assert_int_equal(batch.count, 1);
    batches_free(batches);
    batches_free(NULL);
    l3a_dataset_free(dataset);
}

static void a_pass_can_be_left(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        struct memory_probe probe = {0};
        l3a_context *user = make_probed_context(&probe, threads);
        l3a_dataset *dataset = open_set(user);
        struct batches *batches = NULL;
        struct picture_batch batch;
        assert_ok(user, open_batches(user, dataset, everything, true, &batches));
        for (uint64_t epoch = 0; epoch < 6; epoch++) {
            assert_ok(user, batches_begin(batches, epoch, epoch % 3));
            for (size_t i = 0; i < (size_t)epoch % 4; i++) {
                assert_ok(user, batches_next(batches, &batch));
            }
        }
        batches_free(batches);
        l3a_dataset_free(dataset);
        l3a_context_free(user);
        assert_int_equal(probe.blocks, 0);
    }
}

struct scarce {
    const l3a_dataset *dataset;
    const struct pass *expected;
    struct pass *pass;
};

static l3a_status train_twice(l3a_context *poor, void *argument) {
    const struct scarce *scarce = argument;
    struct batches *batches = NULL;
    l3a_status status = L3A_OK;
    TRY(open_batches(poor, scarce->dataset, everything, true, &batches));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        TRY(run_pass(batches, epoch, 0, scarce->pass));
        if (!epoch) {
            assert_same(scarce->pass, scarce->expected, 0);
        }
    }
done:
    batches_free(batches);
    return status;
}

static void an_allocation_that_fails_loses_nothing(void **state) {
    (void)state;
    struct pass *expected = make_pass(), *pass = make_pass();
    l3a_dataset *dataset = open_set(context);
    struct batches *batches = NULL;
    struct scarce scarce = {dataset, expected, pass};
    assert_ok(context, open_batches(context, dataset, everything, true, &batches));
    assert_ok(context, run_pass(batches, 0, 0, expected));
    batches_free(batches);
    assert_true(fail_each_allocation(train_twice, &scarce) > 100);
    for (size_t failing = 1; failing < 300; failing++) { /* just one, with several threads */
        struct memory_probe probe = {0};
        l3a_context *poor = make_probed_context(&probe, 3);
        probe_restart(&probe, failing, false);
        const l3a_status status = train_twice(poor, &scarce);
        assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
        l3a_context_free(poor);
        assert_int_equal(probe.blocks, 0);
    }
    l3a_dataset_free(dataset);
    free(pass);
    free(expected);
}

/* The rows a hundred times over need no more memory than that of their lists. */
static void memory_does_not_grow_with_the_pictures(void **state) {
    (void)state;
    enum { MANY = 100 * ROWS };
    size_t most[2], *rows = malloc(MANY * sizeof *rows);
    const l3a_loader_options loader = loading();
    const struct batches_options options = {&loader, everything, 77, BATCH, true};
    l3a_dataset *dataset = open_set(context);
    assert_non_null(rows);
    for (size_t i = 0; i < MANY; i++) {
        rows[i] = i % ROWS;
    }
    for (size_t i = 0; i < 2; i++) {
        struct memory_probe probe = {0};
        l3a_context *user = make_probed_context(&probe, 1);
        struct batches *batches = NULL;
        struct picture_batch batch;
        assert_ok(user, batches_open(user, dataset, rows, i ? MANY : ROWS, &options, &batches));
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            assert_ok(user, batches_begin(batches, epoch, 0));
            do {
                assert_ok(user, batches_next(batches, &batch));
            } while (batch.count);
        }
        batches_free(batches);
        l3a_context_free(user);
        most[i] = probe.most;
    }
    const size_t lists = (MANY - ROWS) * (2 * sizeof(size_t) + sizeof(struct picture_source));
    assert_true(most[1] <= most[0] + lists + (64 << 10));
    l3a_dataset_free(dataset);
    free(rows);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, close_fixture)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(threads_and_resuming_change_nothing),
        TEST(each_row_comes_once),
        TEST(a_list_of_rows_is_delivered),
        TEST(without_changes_they_are_what_is_extracted),
        TEST(what_cannot_be_read_ends_the_pass),
        TEST(wrong_arguments_are_refused),
        TEST(a_pass_can_be_left),
        TEST(an_allocation_that_fails_loses_nothing),
        TEST(memory_does_not_grow_with_the_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
