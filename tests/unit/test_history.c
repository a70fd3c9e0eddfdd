/* The history of a model: what it keeps, undo, corrections, merging, other widths, models that something else has changed, damaged
 * files, and a process that ends between any two operations on files. All of it without views, with views, and with unlabelled
 * images. */
#include "support.h"

#include "base/file.h"
#include "base/memory.h"
#include "learn/model.h"
#include "memory_probe.h"
#include "tag/history.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WIDTH = 6, ROWS = 7, DIM = 12, PROBES = 5, MOST = 8, LARGEST_IMAGE = 6 * WIDTH };

static size_t views = 1;
static bool unlabelled; /* new models have unlabelled images */

static char *folder, *model_path, *history_path, *copy_path;

static int make_folder_for_test(void **state) {
    (void)state;
    folder = make_temporary_folder();
    model_path = path_in(folder, "pets.l3a");
    history_path = path_in(folder, "pets.l3a.history");
    copy_path = path_in(folder, "copy");
    return 0;
}

static int remove_folder_of_test(void **state) {
    (void)state;
    free(model_path);
    free(history_path);
    free(copy_path);
    remove_folder(folder);
    return 0;
}

/* ---- Models and entries ---- */

/* Numbers of an image. */
static size_t image(void) {
    return view_rows(views) * WIDTH;
}

static l3a_features *wrap(l3a_context *context, const float *features, const int8_t *labels, size_t rows,
                          const char *const *classes, size_t count) {
    l3a_features *table = NULL;
    assert_ok(context, l3a_features_wrap(context, features, labels, rows, views, WIDTH, classes, count, &table));
    return table;
}

/* The unlabelled images: some of those that lessons 1 to 5 teach, and others. Those of lessons whose bit is set were judged. */
static void give_unlabelled(l3a_context *context, l3a_model *model, unsigned lessons) {
    enum { SEEDS = 6, EACH = 2, COUNT = SEEDS * EACH, NUMBERS = 15 * WIDTH };
    float features[ROWS * NUMBERS], chosen[COUNT * NUMBERS];
    int8_t labels[ROWS];
    uint64_t checksums[COUNT];
    size_t count = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (lessons >> (seed - 1) & 1) {
            continue;
        }
        random_table(seed, ROWS, image(), 1, 1, features, labels);
        for (size_t i = 1; i < 2 * EACH; i += 2) {
            memcpy(chosen + count * image(), features + i * image(), image() * sizeof *chosen);
            checksums[count++] = seed * 1000 + i;
        }
    }
    const l3a_unlabelled_options options = {.size = sizeof options, .checksums = checksums};
    l3a_features *table = wrap(context, chosen, NULL, count, NULL, 0);
    assert_ok(context, l3a_model_set_unlabelled(model, table, &options));
    l3a_features_free(table);
}

/* lessons: those that are to be taught without a history, a bit for each. */
static l3a_model *new_model_for(l3a_context *context, size_t dim, unsigned lessons) {
    l3a_options options;
    l3a_model *model = NULL;
    options_default(&options);
    options.model.dim = dim;
    options.model.views = views;
    options.model.gamma = 0.7;
    options.model.alpha = 0.3;
    options.model.lift = 0.1;
    options.model.pseudo = L3A_PSEUDO_OFF;
    options.model.weights = L3A_WEIGHTS_NONE;
    options.model.precision = L3A_PRECISION_DOUBLE;
    options.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    options.model.privacy_limit = 0;
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    if (unlabelled) {
        give_unlabelled(context, model, lessons);
    }
    return model;
}

static l3a_model *new_model(l3a_context *context, size_t dim) {
    return new_model_for(context, dim, 0);
}

/* ROWS rows of numbers that depend on the seed, judged for all classes of the list. Row i shows the classes of bit i in `shows`. */
static struct entry *lesson(l3a_context *context, uint64_t seed, const char *const *classes, size_t count, size_t new_classes) {
    struct entry *entry = NULL;
    assert_ok(context, entry_create(context, ENTRY_TEACH, &entry));
    for (size_t k = 0; k < count; k++) {
        assert_ok(context, text_list_add(context, &entry->classes, classes[k], strlen(classes[k])));
    }
    entry->new_classes = new_classes;
    entry->row_count = entry->pictures = ROWS;
    entry->width = image();
    assert_ok(context, allocate_zeroed(context, ROWS, sizeof *entry->rows, &entry->rows));
    assert_ok(context, allocate(context, ROWS, count, &entry->labels));
    assert_ok(context, allocate(context, ROWS * image(), sizeof *entry->features, &entry->features));
    random_table(seed, ROWS, image(), count, 3, entry->features, entry->labels);
    for (size_t i = 0; i < ROWS; i++) {
        char path[64];
        snprintf(path, sizeof path, "/photos/ü %llu/%zu.jpg", (unsigned long long)seed, i);
        assert_ok(context, copy_text(context, path, strlen(path), &entry->rows[i].path));
        assert_ok(context, copy_text(context, "", 0, &entry->rows[i].relative));
        entry->rows[i].checksum = seed * 1000 + i;
    }
    return entry;
}

static void teach(l3a_history *history, struct entry *entry, bool keep) {
    l3a_teach_report report = {.size = sizeof report};
    assert_ok(history->context, history_apply(history, entry, keep, &report));
}

/* Scores of the same few images, class by class in the order of names, so that the order of classes does not matter. */
static void probe_scores(l3a_context *context, l3a_model *model, const char *const *classes, size_t count, double *scores) {
    float features[PROBES * LARGEST_IMAGE], own[PROBES * MOST];
    int8_t labels[PROBES];
    random_table(99, PROBES, image(), 1, 1, features, labels);
    assert_int_equal(l3a_model_class_count(model), count);
    if (!count) {
        return;
    }
    assert_ok(context, l3a_model_score(model, features, PROBES, own));
    for (size_t k = 0; k < count; k++) {
        const size_t class = text_list_find(&model->classes, classes[k]);
        assert_true(class < count);
        for (size_t i = 0; i < PROBES; i++) {
            scores[i * count + k] = (double)own[i * count + class];
        }
    }
}

static void assert_same_scores(l3a_context *context, l3a_model *left, l3a_model *right, const char *const *classes, size_t count) {
    double a[PROBES * MOST], b[PROBES * MOST], thresholds[2][MOST];
    l3a_model_thresholds(left, thresholds[0]);
    l3a_model_thresholds(right, thresholds[1]);
    probe_scores(context, left, classes, count, a);
    probe_scores(context, right, classes, count, b);
    for (size_t i = 0; i < PROBES * count; i++) {
        assert_true(fabs(a[i] - b[i]) < 1e-6); /* float32 scores */
    }
    for (size_t k = 0; k < count; k++) { /* and the coefficients, closely */
        const size_t l = text_list_find(&left->classes, classes[k]), r = text_list_find(&right->classes, classes[k]);
        for (size_t i = 0; i < l3a_model_inputs(left); i++) {
            assert_true(fabs(left->coefficients[i * count + l] - right->coefficients[i * count + r]) < 1e-9);
        }
        assert_int_equal(l3a_model_class_images(left, l), l3a_model_class_images(right, r));
        assert_true(fabs(thresholds[0][l] - thresholds[1][r]) < 1e-9);
    }
}

static const char *const three[] = {"cat", "dog", "bus"};

/* A model with three lessons: cat, cat and dog, all three. Freed by the caller; nothing is saved. */
static l3a_history *three_lessons(l3a_context *context, l3a_model **model) {
    l3a_history *history = NULL;
    *model = new_model(context, DIM);
    assert_ok(context, history_begin(context, model_path, model, &history));
    teach(history, lesson(context, 1, three, 1, 1), true);
    teach(history, lesson(context, 2, three, 2, 1), true);
    teach(history, lesson(context, 3, three, 3, 1), true);
    return history;
}

/* The model that has learned the first lessons, by itself. */
static l3a_model *model_of(l3a_context *context, size_t lessons, size_t dim) {
    l3a_model *model = new_model_for(context, dim, (1u << lessons) - 1);
    for (size_t i = 1; i <= lessons; i++) {
        struct entry *entry = lesson(context, i, three, i, 1);
        l3a_features *table = wrap(context, entry->features, entry->labels, ROWS, three, i);
        l3a_teach_report report = {.size = sizeof report};
        assert_ok(context, l3a_model_teach(model, table, &report));
        l3a_features_free(table);
        entry_free(context, entry);
    }
    return model;
}

/* ---- What it keeps ---- */

static void entries_survive_saving(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history_entry entry = {.size = sizeof entry};
    l3a_history *history = three_lessons(context, &model), *again = NULL;
    struct stat about;
    size_t pictures;
    (void)state;
    assert_ok(context, l3a_history_rename(history, "bus", "coach", &(int){0}));
    assert_ok(context, l3a_history_save(history));
    assert_ok(context, l3a_history_open(context, model_path, &again));
    assert_int_equal(l3a_history_count(again), 4);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(context, l3a_history_entry_at(again, i, &entry));
        assert_int_equal(entry.number, i + 1);
        assert_string_equal(entry.kind, "teach");
        assert_int_equal(entry.pictures, ROWS);
        assert_int_equal(entry.new_classes, 1);
        assert_int_equal(entry.can_undo, 1);
        assert_true(entry.id == history->entries[i]->id && entry.id);
        assert_true(entry.seconds > 1700000000);
        assert_null(entry.old_name);
    }
    assert_ok(context, l3a_history_entry_at(again, 3, &entry));
    assert_string_equal(entry.kind, "rename");
    assert_string_equal(entry.old_name, "bus");
    assert_string_equal(entry.new_name, "coach");
    assert_fails(context, l3a_history_entry_at(again, 4, &entry), L3A_ERROR_ARGUMENT, "entry 4 of 4");
    assert_string_equal(l3a_history_picture(again, 2, 6), "/photos/ü 3/6.jpg");
    assert_null(l3a_history_picture(again, 2, 7));
    assert_string_equal(l3a_history_class(again, 0, 0, &pictures), "cat");
    assert_null(l3a_history_class(again, 0, 1, &pictures));
    assert_string_equal(l3a_history_gap(again), "");
    assert_string_equal(l3a_history_path(again), history_path);
    assert_int_equal(stat(history_path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(l3a_history_bytes(again), about.st_size);
    l3a_history_free(again);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

/* The clock goes back, or is far off: lessons keep their order, and what it said. */
static void clocks_that_jump(void **state) {
    static const int64_t seconds[] = {INT64_MAX, INT64_MIN, -5};
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history_entry entry = {.size = sizeof entry};
    l3a_history *history = three_lessons(context, &model);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        history->entries[i]->seconds = seconds[i];
    }
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    for (size_t i = 0; i < 3; i++) {
        assert_ok(context, l3a_history_entry_at(history, i, &entry));
        assert_true(entry.number == i + 1 && entry.seconds == seconds[i] && entry.can_undo);
    }
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_int_equal(l3a_history_count(history), 2);
    l3a_history_free(history);
    l3a_context_free(context);
}

/* "cat; dog" for what is shown; "not cat" if nothing is. */
static void tags_of_pictures(void **state) {
    l3a_context *context = make_context(1);
    struct entry *entry = lesson(context, 5, three, 3, 3);
    (void)state;
    memcpy(entry->labels, (int8_t[]){1, 0, 1, 0, -1, 0, -1, -1, 1}, 9);
    assert_string_equal(entry_tags(context, entry, 0), "cat; bus");
    assert_string_equal(entry_tags(context, entry, 1), "not cat; not bus");
    assert_string_equal(entry_tags(context, entry, 2), "bus");
    entry_free(context, entry);
    l3a_context_free(context);
}

/* ---- Undo ---- */

static void undo_goes_back_to_the_beginning(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    (void)state;
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    for (size_t left = 3; left-- > 0;) {
        l3a_teach_report report = {.size = sizeof report};
        l3a_model *expected = model_of(context, left, DIM);
        assert_ok(context, l3a_history_open(context, model_path, &history));
        assert_ok(context, l3a_history_undo(history, &report));
        assert_int_equal(report.images, ROWS);
        assert_ok(context, l3a_history_save(history));
        assert_int_equal(l3a_history_count(history), left);
        l3a_history_free(history);
        assert_ok(context, l3a_history_open(context, model_path, &history));
        assert_int_equal(l3a_history_count(history), left);
        assert_same_scores(context, *history->model, expected, three, left);
        l3a_history_free(history);
        l3a_model_free(expected);
    }
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_fails(context, l3a_history_undo(history, NULL), L3A_ERROR_STATE, "there is nothing to undo");
    assert_int_not_equal(access(history_path, F_OK), 0);   /* nothing of the pictures is left */
    teach(history, lesson(context, 1, three, 1, 1), true); /* and from there it goes on */
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 1);
    assert_string_equal(l3a_history_gap(history), "");
    l3a_history_free(history);
    l3a_context_free(context);
}

/* Several changes between two saves, some of which undo what is in the file. */
static void changes_between_saves(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL, *expected = model_of(context, 2, DIM);
    l3a_history *history = three_lessons(context, &model);
    char *bytes;
    size_t size;
    (void)state;
    assert_ok(context, l3a_history_save(history));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_undo(history, NULL));
    teach(history, lesson(context, 2, three, 2, 1), true);
    teach(history, lesson(context, 4, three, 2, 0), true);
    assert_ok(context, l3a_history_save(history));
    assert_ok(context, l3a_history_save(history)); /* again, with nothing new */
    assert_ok(context, l3a_history_undo(history, NULL));
    l3a_history_free(history); /* not saved */
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 3);
    assert_int_equal(history->journal.count, 3); /* the two that were undone are not even in the file */
    bytes = read_bytes(history_path, &size);
    assert_null(memmem(bytes, size, "/photos/ü 3/", strlen("/photos/ü 3/")));
    free(bytes);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_same_scores(context, *history->model, expected, three, 2);
    l3a_history_free(history);
    l3a_model_free(expected);
    l3a_context_free(context);
}

static void a_lesson_that_is_not_kept(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM);
    l3a_history *history = NULL;
    l3a_history_entry entry = {.size = sizeof entry};
    (void)state;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    teach(history, lesson(context, 1, three, 1, 1), false);
    assert_ok(context, l3a_history_save(history));
    assert_int_not_equal(access(history_path, F_OK), 0);
    assert_fails(context, l3a_history_undo(history, NULL), L3A_ERROR_STATE, "no history of what was taught before");
    teach(history, lesson(context, 2, three, 2, 1), true);
    teach(history, lesson(context, 3, three, 3, 1), false);
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 2);
    assert_ok(context, l3a_history_entry_at(history, 0, &entry));
    assert_int_equal(entry.number, 2);
    assert_int_equal(entry.can_undo, 0);
    assert_ok(context, l3a_history_entry_at(history, 1, &entry));
    assert_string_equal(entry.kind, "not kept");
    assert_int_equal(entry.pictures, ROWS);
    assert_fails(context, l3a_history_undo(history, NULL), L3A_ERROR_STATE, "lesson 3 cannot be undone");
    assert_fails(context, l3a_history_widen(history, 20), L3A_ERROR_STATE, "the history does not have them all");
    l3a_history_free(history);
    l3a_context_free(context);
}

/* ---- Corrections ---- */

/* An entry that takes row 1 of lesson 1 back and teaches it with other labels. */
static struct entry *correction(l3a_context *context, const l3a_history *history) {
    const struct entry *first = history->entries[0];
    struct entry *entry = lesson(context, 1, three, 1, 0);
    entry->row_count = 2;
    for (size_t i = 2; i < ROWS; i++) {
        release(context, entry->rows[i].path);
        release(context, entry->rows[i].relative);
    }
    entry->back_count = entry->pictures = 1;
    entry->rows[0].lesson = first->number;
    entry->rows[0].row = 1;
    for (size_t i = 0; i < 2; i++) {
        entry->rows[i].checksum = first->rows[1].checksum;
        memcpy(entry->features + i * image(), first->features + image(), image() * sizeof(float));
        entry->labels[i] = (int8_t)(i ? !first->labels[1] : first->labels[1]);
    }
    return entry;
}

static void a_correction_is_one_step(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM), *before = model_of(context, 1, DIM);
    l3a_history *history = NULL;
    l3a_history_entry entry = {.size = sizeof entry};
    struct known *known = NULL;
    size_t count;
    (void)state;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    teach(history, lesson(context, 1, three, 1, 1), true);
    teach(history, correction(context, history), true);
    assert_ok(context, history_known(history, &known, &count));
    assert_int_equal(count, ROWS);
    assert_ptr_equal(known[ROWS - 1].entry, history->entries[1]);
    assert_int_equal(known[1].row, 2); /* row 1 was taken back */
    assert_ok(context, l3a_history_entry_at(history, 1, &entry));
    assert_string_equal(entry.kind, "instead");
    assert_int_equal(entry.pictures, 1);
    assert_int_equal(entry.taken_back, 1);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_same_scores(context, model, before, three, 1);
    release(context, known);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_model_free(before);
    l3a_context_free(context);
}

/* ---- Any lesson ---- */

/* A model that has learned some of the lessons 1 to 3, a bit for each, by itself. Of lesson 3, only what it says of its first
 * classes: so many. */
static l3a_model *model_of_chosen(l3a_context *context, unsigned lessons, size_t last_classes) {
    l3a_model *model = new_model_for(context, DIM, lessons);
    for (size_t i = 1; i <= 3; i++) {
        const size_t count = i < 3 ? i : last_classes;
        struct entry *entry = lesson(context, i, three, i, 1);
        int8_t labels[ROWS * MOST];
        l3a_teach_report report = {.size = sizeof report};
        for (size_t j = 0; j < ROWS * count; j++) {
            labels[j] = entry->labels[j / count * i + j % count];
        }
        if (lessons >> (i - 1) & 1) {
            l3a_features *table = wrap(context, entry->features, labels, ROWS, three, count);
            assert_ok(context, l3a_model_teach(model, table, &report));
            l3a_features_free(table);
        }
        entry_free(context, entry);
    }
    return model;
}

static uint64_t id_of(const l3a_history *history, size_t entry) {
    return history->entries[entry]->id;
}

static void any_lesson_can_be_taken_back(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    for (size_t which = 0; which < 3; which++) {
        l3a_model *model = NULL, *all = model_of_chosen(context, 7, 3), *without = model_of_chosen(context, 7u & ~(1u << which), 3);
        l3a_history *history = three_lessons(context, &model), *again = NULL;
        l3a_teach_report report = {.size = sizeof report};
        const uint64_t id = id_of(history, which);
        const size_t classes = which < 2 ? 3 : 2;
        struct known *known = NULL;
        size_t count;
        assert_ok(context, l3a_history_revert(history, id, &report));
        assert_int_equal(report.images, ROWS);
        assert_same_scores(context, model, without, three, classes);
        assert_int_equal(l3a_history_count(history), which < 2 ? 4 : 2); /* the last one is undone */
        assert_ok(context, history_known(history, &known, &count));
        assert_int_equal(count, 2 * ROWS);
        release(context, known);
        assert_int_equal(l3a_history_revert(history, id, NULL), which < 2 ? L3A_ERROR_STATE : L3A_ERROR_NOT_FOUND);
        assert_same_scores(context, model, without, three, classes);
        assert_ok(context, l3a_history_save(history));
        assert_ok(context, l3a_history_open(context, model_path, &again));
        assert_same_scores(context, *again->model, without, three, classes);
        if (which < 2) { /* and that can be undone */
            assert_ok(context, l3a_history_undo(again, NULL));
            assert_same_scores(context, *again->model, all, three, 3);
            assert_ok(context, l3a_history_revert(again, id, NULL));
            assert_same_scores(context, *again->model, without, three, classes);
        }
        l3a_history_free(again);
        l3a_history_free(history);
        l3a_model_free(model);
        l3a_model_free(all);
        l3a_model_free(without);
        unlink(model_path);
        unlink(history_path);
    }
    l3a_context_free(context);
}

/* What a lesson had replaced is taught again; what a later one replaced stays. */
static void a_correction_is_taken_back(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM), *first = model_of(context, 1, DIM), *both = model_of(context, 2, DIM);
    l3a_history *history = NULL;
    l3a_teach_report report = {.size = sizeof report};
    (void)state;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    teach(history, lesson(context, 1, three, 1, 1), true);
    teach(history, correction(context, history), true);
    teach(history, lesson(context, 2, three, 2, 1), true);
    assert_ok(context, l3a_history_revert(history, id_of(history, 1), &report));
    assert_int_equal(report.images, 1);
    assert_same_scores(context, model, both, three, 2);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_revert(history, id_of(history, 0), &report)); /* all but the picture that was corrected */
    assert_int_equal(report.images, ROWS - 1);
    assert_ok(context, l3a_history_revert(history, id_of(history, 1), &report)); /* which is as it was before the correction */
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_same_scores(context, model, first, three, 1);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_model_free(first);
    l3a_model_free(both);
    l3a_context_free(context);
}

/* Lesson 2 of three was taken back, and the pictures of lesson 3, and perhaps of lesson 1, were judged again without its class.
 * They are those of lesson 3 still, which can be taken back, and given back. */
static void others_can_still_be_taken_back(l3a_context *context, l3a_history *history, l3a_model *first) {
    const uint64_t third = id_of(history, 2), last = id_of(history, 3);
    l3a_history_entry entry = {.size = sizeof entry};
    l3a_teach_report report = {.size = sizeof report};
    assert_ok(context, l3a_history_entry_at(history, 3, &entry));
    assert_string_equal(entry.kind, "take back");
    assert_int_equal(entry.taken_back - entry.pictures, ROWS);
    assert_int_equal(l3a_history_held(history, 0), ROWS);
    assert_int_equal(l3a_history_held(history, 1), 0);
    assert_int_equal(l3a_history_held(history, 2), ROWS);
    assert_ok(context, l3a_history_revert(history, third, &report));
    assert_int_equal(report.images, ROWS);
    assert_same_scores(context, *history->model, first, three, 1);
    assert_int_equal(l3a_history_held(history, 0), ROWS);
    assert_int_equal(l3a_history_held(history, 2), 0);
    assert_int_equal(l3a_history_revert(history, third, NULL), L3A_ERROR_STATE);
    assert_int_equal(l3a_history_revert(history, last, NULL), L3A_ERROR_STATE);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_int_equal(l3a_history_held(history, 2), ROWS);
}

/* Nothing shows the class any more that the lesson brought, so that others, which were judged not to show it, are no longer. */
static void a_class_that_nothing_shows_is_forgotten(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM), *without = NULL, *first = model_of(context, 1, DIM);
    l3a_history *history = NULL;
    struct entry *third = lesson(context, 3, three, 2, 0);
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        third->labels[2 * i + 1] = 0;
    }
    assert_ok(context, history_begin(context, model_path, &model, &history));
    teach(history, lesson(context, 1, three, 1, 1), true);
    teach(history, lesson(context, 2, three, 2, 1), true);
    without = new_model_for(context, DIM, 5);
    for (size_t i = 1; i <= 3; i += 2) {
        struct entry *entry = i == 1 ? lesson(context, 1, three, 1, 1) : third;
        int8_t labels[ROWS];
        l3a_teach_report report = {.size = sizeof report};
        for (size_t j = 0; j < ROWS; j++) {
            labels[j] = entry->labels[j * entry->classes.count];
        }
        l3a_features *table = wrap(context, entry->features, labels, ROWS, three, 1);
        assert_ok(context, l3a_model_teach(without, table, &report));
        l3a_features_free(table);
        if (i == 1) {
            entry_free(context, entry);
        }
    }
    teach(history, third, true);
    assert_ok(context, l3a_history_revert(history, id_of(history, 1), NULL));
    assert_same_scores(context, model, without, three, 1);
    others_can_still_be_taken_back(context, history, first);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_int_equal(l3a_model_class_count(model), 2);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_model_free(first);
    l3a_model_free(without);
    l3a_context_free(context);
}

static void a_name_is_taken_back(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL, *without = model_of_chosen(context, 7, 3);
    l3a_history *history = three_lessons(context, &model);
    int exact;
    (void)state;
    assert_ok(context, l3a_history_rename(history, "cat", "feline", &exact));
    const uint64_t id = id_of(history, 3);
    teach(history, lesson(context, 4, (const char *const[]){"feline", "dog", "bus"}, 3, 0), true);
    assert_ok(context, l3a_history_revert(history, id, NULL));
    assert_int_equal(text_list_find(&model->classes, "cat"), 0);
    assert_int_equal(l3a_history_revert(history, id, NULL), L3A_ERROR_STATE);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_revert(history, id, NULL));
    assert_same_scores(context, model, without, three, 3);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_model_free(without);
    l3a_context_free(context);
}

/* ---- Names ---- */

/* A model taught with one class instead of two: shown if either was. */
static l3a_model *merged_model(l3a_context *context) {
    static const char *const two[] = {"cat", "bus"};
    l3a_model *model = new_model_for(context, DIM, 7);
    for (size_t i = 1; i <= 3; i++) {
        struct entry *entry = lesson(context, i, three, i, 1);
        int8_t labels[ROWS * 2];
        l3a_teach_report report = {.size = sizeof report};
        for (size_t j = 0; j < ROWS; j++) {
            const int8_t *own = entry->labels + j * i;
            labels[2 * j] = (int8_t)(own[0] == 1 || (i > 1 && own[1] == 1));
            labels[2 * j + 1] = (int8_t)(i > 2 ? own[2] : -1);
        }
        l3a_features *table = wrap(context, entry->features, labels, ROWS, two, 2);
        assert_ok(context, l3a_model_teach(model, table, &report));
        l3a_features_free(table);
        entry_free(context, entry);
    }
    return model;
}

static void merging_is_exact_and_can_be_undone(void **state) {
    static const char *const two[] = {"cat", "bus"};
    l3a_context *context = make_context(1);
    l3a_model *model = NULL, *expected = merged_model(context), *before = model_of(context, 3, DIM);
    l3a_history *history = three_lessons(context, &model);
    double precision[MOST], recall[MOST];
    uint64_t shown[MOST], judged[MOST];
    int exact = 0;
    (void)state;
    assert_ok(context, l3a_history_rename(history, "dog", "cat", &exact));
    assert_int_equal(exact, 1);
    assert_same_scores(context, model, expected, two, 2);
    assert_ok(context, l3a_history_foresee(history, &(const double){0.5}, 1, precision, recall, shown, judged, NULL));
    assert_int_equal(shown[0], l3a_model_class_images(expected, 0));
    assert_int_equal(judged[0], 3 * ROWS);
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_same_scores(context, *history->model, before, three, 3);
    l3a_history_free(history);
    l3a_model_free(expected);
    l3a_model_free(before);
    l3a_context_free(context);
}

/* All pictures show both classes. */
static void merging_what_is_always_together(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM);
    l3a_history *history = NULL;
    struct entry *entry = lesson(context, 1, three, 2, 2);
    int exact;
    (void)state;
    memset(entry->labels, 1, 2 * ROWS);
    assert_ok(context, history_begin(context, model_path, &model, &history));
    teach(history, entry, true);
    assert_ok(context, l3a_history_rename(history, "dog", "cat", &exact));
    assert_int_equal(exact, 1);
    assert_int_equal(l3a_model_class_count(model), 1);
    assert_int_equal(l3a_model_class_images(model, 0), ROWS);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_int_equal(l3a_model_class_count(model), 2);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

static void names_that_cannot_be_given(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    int exact;
    (void)state;
    assert_fails(context, l3a_history_rename(history, "dgo", "hound", &exact), L3A_ERROR_CLASS, "no class 'dgo'");
    assert_string_equal(l3a_error_hint(context), "did you mean 'dog'?");
    assert_fails(context, l3a_history_rename(history, "dog", "", &exact), L3A_ERROR_CLASS, "is empty");
    assert_fails(context, l3a_history_rename(history, "dog", "a;b", &exact), L3A_ERROR_CLASS, "contains ';'");
    assert_fails(context, l3a_history_rename(history, "dog", "a\nb", &exact), L3A_ERROR_CLASS, "line break");
    assert_fails(context, l3a_history_rename(history, "dog", "dog", &exact), L3A_ERROR_CLASS, "has this name already");
    assert_fails(context, l3a_history_rename(history, "dog", "\u202egod", &exact), L3A_ERROR_CLASS, "contains U+202E");
    assert_fails(context, l3a_history_rename(history, "dog", "dog\ufeff", &exact), L3A_ERROR_CLASS, "contains U+FEFF");
    assert_int_equal(l3a_history_count(history), 3);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

static void another_width(void **state) {
    l3a_context *context = make_context(1);
    const bool had = unlabelled;
    l3a_model *model = NULL;
    unlabelled = false; /* they are lost on the way */
    l3a_model *expected = model_of(context, 3, 20), *before = model_of(context, 2, 20);
    unlabelled = had;
    l3a_history *history = three_lessons(context, &model);
    (void)state;
    assert_ok(context, l3a_model_set_record(model, "backbone", "some network"));
    assert_ok(context, l3a_history_widen(history, 20));
    assert_int_equal(l3a_model_inputs(model), l3a_model_inputs(expected));
    assert_string_equal(l3a_model_record(model, "backbone"), "some network");
    assert_same_scores(context, model, expected, three, 3);
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_ok(context, l3a_history_undo(history, NULL)); /* undo works across it */
    assert_same_scores(context, *history->model, before, three, 2);
    assert_fails(context, l3a_history_widen(history, 0), L3A_ERROR_OPTION, "dim");
    l3a_history_free(history);
    l3a_model_free(expected);
    l3a_model_free(before);
    l3a_context_free(context);
}

/* ---- Models that something else has changed ---- */

static void a_change_by_another_command(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    int exact;
    (void)state;
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    assert_ok(context, l3a_model_forget_classes(model, three, 1, &exact));
    assert_ok(context, l3a_model_save(model, model_path));
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 0);
    assert_fails(context, l3a_history_undo(history, NULL), L3A_ERROR_STATE, "another command has changed the model");
    teach(history, lesson(context, 5, three, 3, 1), true);
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 1);
    assert_int_equal(history->entries[0]->number, 4);
    assert_string_not_equal(l3a_history_gap(history), "");
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_fails(context, l3a_history_undo(history, NULL), L3A_ERROR_STATE, "nothing that can be undone");
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_context_free(context);
}

/* A model and its history that were copied at different times. */
static void an_older_copy_of_the_model(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    (void)state;
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_save(history));
    copy_file(model_path, copy_path);
    teach(history, lesson(context, 6, three, 3, 1), true);
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    copy_file(copy_path, model_path);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 2);
    assert_int_equal(history->journal.count, 3);
    teach(history, lesson(context, 7, three, 2, 0), true);
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 3);
    assert_int_equal(history->journal.count, 3);
    assert_string_equal(l3a_history_picture(history, 2, 0), "/photos/ü 7/0.jpg");
    l3a_history_free(history);
    l3a_context_free(context);
}

static void a_model_without_its_history(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    (void)state;
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    assert_int_equal(unlink(history_path), 0);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_fails(context, l3a_history_undo(history, NULL), L3A_ERROR_STATE, "no history of what was taught before");
    assert_fails(context, l3a_history_widen(history, 20), L3A_ERROR_STATE, "the history does not have them all");
    teach(history, lesson(context, 8, three, 3, 0), true);
    assert_int_equal(history->entries[0]->number, 4);
    assert_ok(context, l3a_history_undo(history, NULL));
    l3a_history_free(history);
    l3a_context_free(context);
}

static void a_file_that_was_replaced_meanwhile(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL, *second = new_model(context, DIM);
    l3a_history *history = three_lessons(context, &model), *other = NULL;
    (void)state;
    assert_ok(context, l3a_history_save(history));
    assert_ok(context, l3a_history_open(context, model_path, &other));
    assert_ok(context, l3a_history_undo(other, NULL));
    assert_ok(context, l3a_history_save(other));
    assert_fails(context, l3a_history_save(history), L3A_ERROR_STATE, "has been replaced since the model was loaded");
    l3a_history_free(other);
    assert_int_equal(unlink(model_path), 0);
    assert_ok(context, history_begin(context, model_path, &second, &other));
    write_bytes(model_path, "?", 1);
    assert_fails(context, l3a_history_save(other), L3A_ERROR_EXISTS, "appeared while the model was made");
    l3a_history_free(other);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_model_free(second);
    l3a_context_free(context);
}

/* ---- Damaged files ---- */

/* The file cut off at every byte, and with every byte changed, has some of the entries or is refused. */
static void damaged_histories(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model), *opened;
    size_t size, refused = 0;
    (void)state;
    assert_ok(context, l3a_history_save(history));
    char *bytes = read_bytes(history_path, &size);
    for (size_t i = 0; i < 2 * size; i++) {
        const size_t at = i / 2;
        char *changed = malloc(size);
        memcpy(changed, bytes, size);
        changed[at] ^= (char)(1 << at % 8);
        write_bytes(history_path, changed, i % 2 ? size : at);
        free(changed);
        opened = NULL;
        const l3a_status status = history_begin(context, model_path, &model, &opened);
        refused += status != L3A_OK;
        if (status == L3A_OK) {
            assert_int_equal(l3a_history_count(opened), 0);
            l3a_history_free(opened);
        } else {
            assert_true(status == L3A_ERROR_CHECKSUM || status == L3A_ERROR_FORMAT || status == L3A_ERROR_VERSION);
            assert_non_null(strstr(l3a_error_text(context), "pets.l3a.history"));
        }
    }
    assert_true(refused > size); /* all but those that look empty */
    write_bytes(history_path, bytes, size);
    assert_ok(context, history_begin(context, model_path, &model, &opened));
    assert_int_equal(l3a_history_count(opened), 3);
    l3a_history_free(opened);
    free(bytes);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

/* The history of a model with other views. */
static void features_of_another_width(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL, *other = NULL;
    l3a_history *history = three_lessons(context, &model), *opened = NULL;
    const size_t own = views;
    char text[64];
    (void)state;
    assert_ok(context, l3a_history_save(history));
    views = 14;
    other = new_model(context, DIM);
    views = own;
    assert_ok(context, l3a_model_set_record(other, "lesson", l3a_model_record(model, "lesson")));
    snprintf(text, sizeof text, "lesson 1 has %zu numbers for each picture, but the model takes %d", image(), 15 * WIDTH);
    /* Whatever the record says, the fingerprint is another one. */
    assert_ok(context, history_begin(context, model_path, &other, &opened));
    assert_int_equal(l3a_history_count(opened), 0);
    l3a_history_free(opened);
    model->options.views = 14; /* as if the file had been made to look right */
    assert_fails(context, history_begin(context, model_path, &model, &opened), L3A_ERROR_MISMATCH, text);
    model->options.views = own;
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_model_free(other);
    l3a_context_free(context);
}

static void files_that_are_no_history(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM);
    l3a_history *history = NULL;
    (void)state;
    write_bytes(history_path, "what I did in May", 17);
    assert_fails(context, history_begin(context, model_path, &model, &history), L3A_ERROR_FORMAT, "this is not a history of l3a");
    write_bytes(history_path, "l3a history 7\n\0\0", 16);
    assert_fails(context, history_begin(context, model_path, &model, &history), L3A_ERROR_VERSION, "version '7'");
    assert_int_equal(unlink(history_path), 0);
    assert_int_equal(symlink(copy_path, history_path), 0);
    assert_ok(context, history_begin(context, model_path, &model, &history));
    teach(history, lesson(context, 1, three, 1, 1), true);
    assert_fails(context, l3a_history_save(history), L3A_ERROR_IO, "symbolic link");
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

/* ---- A process that ends at any moment ---- */

/* After this many operations that change files, every operation fails, as if the process had ended. */
static size_t operations_left;

static bool ended(void) {
    if (!operations_left) {
        errno = EIO;
        return true;
    }
    operations_left--;
    return false;
}

static ssize_t mortal_write(int file, const void *bytes, size_t count, off_t offset) {
    if (!operations_left && count > 1) { /* half of it is written */
        posix_files.write(file, bytes, count / 2, offset);
    }
    return ended() ? -1 : posix_files.write(file, bytes, count, offset);
}

static int mortal_truncate(int file, off_t bytes) {
    return ended() ? -1 : posix_files.truncate(file, bytes);
}

static int mortal_sync(int file) {
    return ended() ? -1 : posix_files.sync(file);
}

static int mortal_no_sync(int file) {
    (void)file;
    return ended() ? -1 : 0;
}

static int mortal_rename(const char *from, const char *to) {
    return ended() ? -1 : posix_files.rename(from, to);
}

static int mortal_remove(const char *path) {
    return ended() ? -1 : posix_files.remove(path);
}

static int mortal_open(const char *path, int flags, mode_t mode) {
    return flags & O_CREAT && ended() ? -1 : posix_files.open(path, flags, mode);
}

/* Does something to the saved model, and ends after some operations. Returns whether it got to the end. */
static bool attempt(void (*change)(l3a_history *history), size_t operations) {
    file_operations files = posix_files;
    files.write = mortal_write;
    files.truncate = mortal_truncate;
    files.sync = mortal_sync;
    files.rename = mortal_rename;
    files.remove = mortal_remove;
    files.open = mortal_open;
    l3a_context *context = make_context(1);
    l3a_history *history = NULL;
    assert_ok(context, l3a_history_open(context, model_path, &history));
    change(history);
    context->files = &files;
    operations_left = operations;
    const bool finished = l3a_history_save(history) == L3A_OK && operations_left;
    l3a_history_free(history);
    context->files = &posix_files;
    l3a_context_free(context);
    return finished;
}

static void change_teach(l3a_history *history) {
    teach(history, lesson(history->context, 3, three, 3, 1), true);
}

static void change_undo(l3a_history *history) {
    assert_ok(history->context, l3a_history_undo(history, NULL));
}

static void change_undo_and_teach(l3a_history *history) {
    change_undo(history);
    teach(history, lesson(history->context, 2, three, 2, 1), true);
    change_teach(history);
}

/* The model has learned two lessons; the change leads to `after`. Whatever happens, it is one of the two, and can be undone to the
 * beginning. */
static void end_at_any_moment(void (*change)(l3a_history *history), size_t after) {
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    size_t seen[4] = {0};
    bool finished = false;
    for (size_t operations = 0; !finished; operations++) {
        l3a_history *history = three_lessons(context, &model);
        unlink(model_path);
        unlink(history_path);
        history->exists = false;
        assert_ok(context, l3a_history_undo(history, NULL));
        assert_ok(context, l3a_history_save(history));
        l3a_history_free(history);
        l3a_model_free(model);
        finished = attempt(change, operations);
        assert_ok(context, l3a_history_open(context, model_path, &history));
        const size_t lessons = l3a_history_count(history);
        assert_true(lessons == 2 || lessons == after);
        seen[lessons]++;
        for (size_t left = lessons; left-- > 0;) {
            l3a_model *expected = model_of(context, left, DIM);
            assert_ok(context, l3a_history_undo(history, NULL));
            assert_same_scores(context, *history->model, expected, three, left);
            l3a_model_free(expected);
        }
        teach(history, lesson(context, 9, three, 1, 1), true); /* what was left behind is no obstacle */
        assert_ok(context, l3a_history_save(history));
        assert_int_equal(history->journal.count, 1);
        l3a_history_free(history);
    }
    assert_true(seen[2] > 5 && seen[after] > 1);
    l3a_context_free(context);
}

static void a_process_that_ends_while_it_teaches(void **state) {
    (void)state;
    end_at_any_moment(change_teach, 3);
}

static void a_process_that_ends_while_it_undoes(void **state) {
    (void)state;
    end_at_any_moment(change_undo, 1);
}

static void a_process_that_ends_while_it_does_both(void **state) {
    (void)state;
    end_at_any_moment(change_undo_and_teach, 3);
}

/* A save that fails can be repeated. */
static void a_full_disk(void **state) {
    file_operations files = posix_files;
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    (void)state;
    files.write = mortal_write;
    size_t failures = 0;
    for (bool saved = false; !saved; failures += !saved) {
        context->files = &files;
        operations_left = failures;
        const l3a_status status = l3a_history_save(history);
        saved = status == L3A_OK;
        assert_true(saved || (status == L3A_ERROR_IO && strstr(l3a_error_text(context), "pets.l3a")));
        context->files = &posix_files;
    }
    assert_true(failures > 5);
    l3a_history_free(history);
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 3);
    assert_ok(context, l3a_history_undo(history, NULL));
    l3a_history_free(history);
    l3a_context_free(context);
}

/* ---- Committing ---- */

/* A history in a file, whose model knows nothing. Freed by the caller. */
static l3a_history *empty_history(l3a_context *context) {
    l3a_model *model = new_model(context, DIM);
    l3a_history *history = NULL;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    return history;
}

/* Teaches the next of the three lessons, or undoes the last one. */
static l3a_status step_forward(l3a_history *history) {
    const size_t next = l3a_history_count(history) + 1;
    l3a_teach_report report = {.size = sizeof report};
    const l3a_status status = history_apply(history, lesson(history->context, next, three, next, 1), true, &report);
    return status == L3A_OK ? history_commit(history) : status;
}

static l3a_status step_back(l3a_history *history) {
    const l3a_status status = l3a_history_undo(history, NULL);
    return status == L3A_OK ? history_commit(history) : status;
}

static void assert_lessons(l3a_history *history, size_t lessons) {
    l3a_model *expected = model_of(history->context, lessons, DIM);
    assert_int_equal(l3a_history_count(history), lessons);
    assert_same_scores(history->context, *history->model, expected, three, lessons);
    l3a_model_free(expected);
}

static l3a_history *open_again(l3a_history *history) {
    l3a_context *context = history->context;
    l3a_history_free(history);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    return history;
}

static void what_is_committed_is_there_once(void **state) {
    l3a_context *context = make_context(1);
    l3a_history *history = empty_history(context);
    (void)state;
    for (size_t i = 1; i <= 3; i++) {
        assert_ok(context, step_forward(history));
        assert_int_equal(l3a_history_ahead(history), i);
    }
    history = open_again(history);
    assert_int_equal(l3a_history_ahead(history), 3);
    assert_lessons(history, 3);
    assert_string_equal(l3a_history_gap(history), "");
    assert_ok(context, step_back(history));
    assert_ok(context, step_back(history));
    history = open_again(history);
    assert_int_equal(l3a_history_ahead(history), 5);
    assert_lessons(history, 1);
    assert_ok(context, step_forward(history));
    assert_ok(context, l3a_history_save(history));
    assert_int_equal(l3a_history_ahead(history), 0);
    assert_int_equal(history->journal.count, 2);
    history = open_again(history);
    assert_int_equal(l3a_history_ahead(history), 0);
    assert_lessons(history, 2);
    assert_ok(context, step_back(history)); /* of a lesson that the file of the model has */
    assert_ok(context, l3a_history_undo(history, NULL));
    history = open_again(history); /* the second one was not committed */
    assert_lessons(history, 1);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_save(history));
    history = open_again(history);
    assert_lessons(history, 0);
    l3a_history_free(history);
    l3a_context_free(context);
}

/* What a server does, step by step: +: a lesson, -: an undo, s: a save. */
static const char story[] = "++-+s+-s-+";

/* The lessons after the first steps of the story. */
static size_t lessons_after(size_t steps) {
    size_t lessons = 0;
    for (size_t i = 0; i < steps; i++) {
        lessons = lessons + (story[i] == '+') - (story[i] == '-');
    }
    return lessons;
}

/* Lives through the story, and ends after some operations on files. Returns the steps that were answered. */
static size_t live_through(size_t operations) {
    file_operations files = posix_files;
    files.write = mortal_write;
    files.truncate = mortal_truncate;
    files.sync = mortal_no_sync; /* which only takes time: no power fails here */
    files.rename = mortal_rename;
    files.remove = mortal_remove;
    files.open = mortal_open;
    l3a_context *context = make_context(1);
    l3a_history *history = empty_history(context);
    size_t steps = 0;
    bool good = true;
    context->files = &files;
    operations_left = operations;
    while (good && story[steps]) {
        const char step = story[steps];
        good = (step == '+' ? step_forward(history) : step == '-' ? step_back(history) : l3a_history_save(history)) == L3A_OK;
        steps += good;
    }
    l3a_history_free(history);
    context->files = &posix_files;
    l3a_context_free(context);
    return steps;
}

static void a_process_that_ends_while_it_commits(void **state) {
    l3a_context *context = make_context(1);
    size_t steps = 0, operations = 0;
    (void)state;
    for (; story[steps]; operations++) {
        l3a_history *history = NULL;
        unlink(model_path);
        unlink(history_path);
        steps = live_through(operations);
        assert_ok(context, l3a_history_open(context, model_path, &history));
        const size_t lessons = l3a_history_count(history), before = lessons_after(steps);
        assert_true(lessons == before || (story[steps] && lessons == lessons_after(steps + 1)));
        assert_lessons(history, lessons);
        assert_ok(context, lessons < 3 ? step_forward(history) : step_back(history)); /* what was left behind is no obstacle */
        history = open_again(history);
        assert_lessons(history, lessons < 3 ? lessons + 1 : 2);
        l3a_history_free(history);
    }
    assert_true(operations > 40);
    l3a_context_free(context);
}

static size_t warnings_of_damage;

static int count_damage(const l3a_event *event, void *user) {
    (void)user;
    warnings_of_damage += event->kind == L3A_EVENT_WARNING && strstr(event->text, "damaged") != NULL;
    return 0;
}

/* A history with three lessons that are not in the model. offsets: where each record begins, and the end. */
static char *three_commits(l3a_context *context, size_t *size, uint64_t offsets[4]) {
    l3a_history *history = empty_history(context);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(context, step_forward(history));
        offsets[i] = history->journal.entries[i]->offset;
    }
    offsets[3] = history->journal.end;
    l3a_history_free(history);
    return read_bytes(history_path, size);
}

/* Every bit counts. Damage in the last record was never answered, and costs nothing else; a file that is cut short has lost what
 * was cut off. */
static void damaged_commits(void **state) {
    l3a_context *context = make_context(1);
    l3a_history *history = NULL;
    uint64_t offsets[4];
    size_t size, known = 0;
    char *bytes = three_commits(context, &size, offsets);
    (void)state;
    for (size_t at = 0; at < size; at++) {
        history = NULL;
        bytes[at] ^= (char)(1 << at % 8);
        write_bytes(history_path, bytes, size);
        bytes[at] ^= (char)(1 << at % 8);
        const l3a_status status = l3a_history_open(context, model_path, &history);
        if (at >= offsets[2]) {
            assert_ok(context, status);
            assert_lessons(history, 2);
            l3a_history_free(history);
            continue;
        }
        assert_true(status == L3A_ERROR_CHECKSUM || status == L3A_ERROR_FORMAT || status == L3A_ERROR_VERSION ||
                    (at < 16 && status == L3A_ERROR_STATE));
        assert_non_null(strstr(l3a_error_text(context), "pets.l3a.history"));
    }
    for (size_t at = 0; at <= size; at += at > 16 ? 4 : 1) {
        write_bytes(history_path, bytes, at);
        assert_ok(context, l3a_history_open(context, model_path, &history));
        assert_true(l3a_history_count(history) >= known);
        known = l3a_history_count(history);
        assert_lessons(history, known);
        l3a_history_free(history);
    }
    free(bytes);
    l3a_context_free(context);
}

static void assert_bytes(const char *path, const char *expected, size_t count) {
    size_t size;
    char *bytes = read_bytes(path, &size);
    assert_int_equal(size, count);
    assert_memory_equal(bytes, expected, count);
    free(bytes);
}

/* What a power cut can leave at the end: the last record zeroed in part or whole, zeros or anything else after it. Whoever opens
 * the history has the lessons before, and changes nothing; the next lesson replaces the rest, of which a copy stays. */
static void a_damaged_end(void **state) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = count_damage};
    l3a_context *context = NULL;
    uint64_t offsets[4];
    size_t size;
    char *copies[2] = {path_in(folder, "pets.l3a.history.damaged-1"), path_in(folder, "pets.l3a.history.damaged-2")};
    (void)state;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    free(three_commits(context, &size, offsets));
    const struct {
        uint64_t from, to, size; /* zeros between the first two */
        char with;
        size_t lessons;
    } cases[] = {
        {offsets[2], size, size, 0, 2},                 /* the last record */
        {offsets[2] + 60, size, size, 0, 2},            /* all but its head */
        {size, size + 4096, size + 4096, 0, 3},         /* a page after it */
        {size, size + 100, size + 100, '?', 3},         /* anything after it */
        {offsets[1], size + 4096, size + 4096, '?', 1}, /* two records, as far as anybody can tell */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        l3a_history *history = NULL;
        unlink(model_path);
        unlink(history_path);
        char *good = three_commits(context, &size, offsets), *bytes = calloc(cases[i].size, 1);
        memcpy(bytes, good, size);
        free(good);
        memset(bytes + cases[i].from, cases[i].with, (size_t)(cases[i].to - cases[i].from));
        const size_t end = (size_t)(offsets[cases[i].lessons]);
        write_bytes(history_path, bytes, (size_t)cases[i].size);
        warnings_of_damage = 0;
        assert_ok(context, l3a_history_open(context, model_path, &history));
        assert_int_equal(warnings_of_damage, 1);
        assert_lessons(history, cases[i].lessons);
        assert_bytes(history_path, bytes, (size_t)cases[i].size); /* a reader changes nothing */
        assert_ok(context, cases[i].lessons < 3 ? step_forward(history) : step_back(history));
        assert_int_equal(warnings_of_damage, 2);
        assert_bytes(copies[0], bytes + end, (size_t)cases[i].size - end);
        history = open_again(history);
        assert_int_equal(warnings_of_damage, 2);
        assert_lessons(history, cases[i].lessons < 3 ? cases[i].lessons + 1 : 2);
        l3a_history_free(history);
        /* Saving cuts it off as well, and the first copy stays. */
        write_bytes(history_path, bytes, (size_t)cases[i].size);
        assert_ok(context, l3a_history_open(context, model_path, &history));
        assert_ok(context, l3a_history_save(history));
        assert_bytes(copies[0], bytes + end, (size_t)cases[i].size - end);
        assert_bytes(copies[1], bytes + end, (size_t)cases[i].size - end);
        history = open_again(history);
        assert_lessons(history, cases[i].lessons);
        l3a_history_free(history);
        free(bytes);
        unlink(copies[0]);
        unlink(copies[1]);
    }
    free(copies[0]);
    free(copies[1]);
    l3a_context_free(context);
}

static char lost_lessons[256];

static int note_lost(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_WARNING && strncmp(event->text, "lost: ", 6) == 0) {
        const size_t length = strlen(lost_lessons);
        snprintf(lost_lessons + length, sizeof lost_lessons - length, "%.*s|", (int)strcspn(event->text, ","), event->text);
    }
    return 0;
}

/* The model that has learned some of the three lessons: bit i for lesson i + 1. */
static l3a_model *model_of_some(l3a_context *context, unsigned lessons) {
    l3a_model *model = new_model_for(context, DIM, lessons);
    for (size_t i = 1; i <= 3; i++) {
        struct entry *entry = lesson(context, i, three, i, 1);
        if (lessons >> (i - 1) & 1) {
            l3a_features *table = wrap(context, entry->features, entry->labels, ROWS, three, i);
            l3a_teach_report report = {.size = sizeof report};
            assert_ok(context, l3a_model_teach(model, table, &report));
            l3a_features_free(table);
        }
        entry_free(context, entry);
    }
    return model;
}

/* Damage in the middle is an error that says what each way out loses. A repair keeps what can be read. */
static void a_damaged_middle(void **state) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = note_lost};
    l3a_context *context = NULL;
    l3a_history *history = NULL;
    l3a_repair_report report = {.size = sizeof report};
    uint64_t offsets[4];
    size_t size;
    char *copy = path_in(folder, "pets.l3a.history.damaged-1");
    (void)state;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    char *bytes = three_commits(context, &size, offsets);
    memset(bytes + offsets[1] + 20, 0, 100);
    write_bytes(history_path, bytes, size);
    assert_fails(context, l3a_history_open(context, model_path, &history), L3A_ERROR_CHECKSUM, "damaged at byte");
    assert_non_null(strstr(l3a_error_hint(context), "--repair', which loses 1 of the 3 lessons"));
    assert_non_null(strstr(l3a_error_hint(context), "move it away, which loses 3"));
    assert_bytes(history_path, bytes, size);
    lost_lessons[0] = '\0';
    assert_ok(context, l3a_history_repair(context, model_path, &report));
    assert_int_equal(report.bytes, offsets[2] - offsets[1]);
    assert_int_equal(report.applied, 2);
    assert_int_equal(report.lost, 1);
    assert_string_equal(lost_lessons, "lost: lesson 2|");
    assert_bytes(copy, bytes, size);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_int_equal(l3a_history_count(history), 2);
    assert_int_equal(l3a_history_ahead(history), 0);
    l3a_model *expected = model_of_some(context, 5);
    assert_same_scores(context, *history->model, expected, three, 3);
    l3a_model_free(expected);
    assert_ok(context, l3a_history_undo(history, NULL)); /* and all of it can be undone */
    assert_lessons(history, 1);
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_lessons(history, 0);
    l3a_history_free(history);
    assert_ok(context, l3a_history_repair(context, model_path, &report));
    assert_int_equal(report.bytes, 0);
    free(bytes);
    free(copy);
    l3a_context_free(context);
}

/* A rename needs the lesson before it, and the undo of a lesson that is lost needs nothing. */
static void a_repair_that_loses_more(void **state) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = note_lost};
    l3a_context *context = NULL;
    l3a_repair_report report = {.size = sizeof report};
    size_t size;
    int exact;
    (void)state;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    l3a_history *history = empty_history(context);
    assert_ok(context, step_forward(history));
    assert_ok(context, step_forward(history));
    assert_ok(context, step_back(history));
    assert_ok(context, step_forward(history));
    const uint64_t undone = history->journal.entries[1]->offset, second = history->journal.entries[3]->offset;
    assert_ok(context, l3a_history_rename(history, "dog", "hound", &exact));
    assert_ok(context, history_commit(history));
    l3a_history_free(history);
    char *bytes = read_bytes(history_path, &size);
    bytes[undone + 100] ^= 1; /* it was undone afterwards, so nothing is lost */
    write_bytes(history_path, bytes, size);
    assert_int_equal(l3a_history_open(context, model_path, &history), L3A_ERROR_CHECKSUM);
    assert_non_null(strstr(l3a_error_hint(context), "which loses 0 of the 3 lessons"));
    bytes[second + 100] ^= 1;
    write_bytes(history_path, bytes, size);
    assert_int_equal(l3a_history_open(context, model_path, &history), L3A_ERROR_CHECKSUM);
    assert_non_null(strstr(l3a_error_hint(context), "which loses 2 of the 3 lessons"));
    lost_lessons[0] = '\0';
    assert_ok(context, l3a_history_repair(context, model_path, &report));
    assert_int_equal(report.lost, 2);
    assert_string_equal(lost_lessons, "lost: lesson 2|lost: lesson 3|");
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_lessons(history, 1);
    l3a_history_free(history);
    free(bytes);
    l3a_context_free(context);
}

/* Lessons must not get lost because the model is another one. */
static void commits_of_another_model(void **state) {
    l3a_context *context = make_context(1);
    l3a_history *history = empty_history(context);
    (void)state;
    assert_ok(context, step_forward(history));
    assert_ok(context, l3a_history_save(history));
    copy_file(model_path, copy_path);
    assert_ok(context, step_forward(history));
    assert_ok(context, step_forward(history));
    l3a_history_free(history);
    l3a_model *other = model_of(context, 2, DIM);
    assert_ok(context, l3a_model_save(other, model_path));
    assert_int_equal(l3a_history_open(context, model_path, &history), L3A_ERROR_STATE);
    copy_file(copy_path, model_path);
    assert_ok(context, l3a_history_open(context, model_path, &history));
    assert_lessons(history, 3);
    l3a_history_free(history);
    l3a_model_free(other);
    l3a_context_free(context);
}

/* ---- Memory that runs out ---- */

/* Teaches, merges, undoes and saves. The test's own lesson takes memory that does not count. */
static l3a_status live(l3a_context *context, struct memory_probe *probe) {
    l3a_history *history = NULL;
    l3a_teach_report report = {.size = sizeof report};
    double precision[MOST], recall[MOST];
    uint64_t shown[MOST], judged[MOST];
    int exact;
    l3a_status status = L3A_OK;
    TRY(l3a_history_open(context, model_path, &history));
    TRY(l3a_history_load(history));
    const size_t left = probe->fails_at - probe->seen;
    probe_restart(probe, 0, false);
    struct entry *entry = lesson(context, 4, three, 3, 0);
    probe_restart(probe, left, true);
    TRY(history_apply(history, entry, true, &report));
    TRY(l3a_history_rename(history, "dog", "cat", &exact));
    TRY(l3a_history_foresee(history, &(const double){0.5}, 1, precision, recall, shown, judged, NULL));
    TRY(l3a_history_undo(history, &report));
    TRY(l3a_history_save(history));
done:
    l3a_history_free(history);
    return status;
}

static void memory_that_runs_out(void **state) {
    struct memory_probe probe = {0};
    l3a_context *context = make_context(1), *scarce = make_probed_context(&probe, 1);
    l3a_model *model = NULL;
    l3a_history *history = three_lessons(context, &model);
    l3a_status status = L3A_ERROR_MEMORY;
    (void)state;
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    const long before = probe.blocks;
    for (size_t number = 1; status == L3A_ERROR_MEMORY; number++) {
        probe_restart(&probe, number, true);
        status = live(scarce, &probe);
        assert_int_equal(probe.blocks, before);
        if (status == L3A_ERROR_MEMORY) { /* what is on disk is what was, or all that was to come */
            assert_ok(context, l3a_history_open(context, model_path, &history));
            assert_true(l3a_history_count(history) == 3 || l3a_history_count(history) == 4);
            const bool changed = l3a_history_count(history) == 4;
            if (changed) {
                assert_ok(context, l3a_history_undo(history, NULL));
                assert_ok(context, l3a_history_save(history));
            }
            l3a_history_free(history);
        }
    }
    assert_int_equal(status, L3A_OK);
    l3a_context_free(scarce);
    l3a_context_free(context);
}

/* ---- What to expect ---- */

/* A model that was taught all rows of an entry but one. */
static l3a_model *model_without(l3a_context *context, const struct entry *entry, size_t row) {
    const size_t classes = entry->classes.count;
    l3a_model *model = new_model(context, DIM);
    l3a_teach_report report = {.size = sizeof report};
    float features[ROWS * LARGEST_IMAGE];
    int8_t labels[ROWS * MOST];
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (i != row) {
            memcpy(features + count * image(), entry->features + i * image(), image() * sizeof(float));
            memcpy(labels + count++ * classes, entry->labels + i * classes, classes);
        }
    }
    l3a_features *table = wrap(context, features, labels, count, (const char *const *)entry->classes.items, classes);
    assert_ok(context, l3a_model_teach(model, table, &report));
    l3a_features_free(table);
    return model;
}

struct by_hand {
    double thresholds[MOST];
    float scores[ROWS * MOST]; /* by models that were taught all rows but one */
};

static void make_by_hand(l3a_context *context, const l3a_model *model, const struct entry *entry, struct by_hand *made) {
    l3a_model_thresholds(model, made->thresholds);
    for (size_t i = 0; i < ROWS; i++) {
        l3a_model *other = model_without(context, entry, i);
        assert_ok(context, l3a_model_score(other, entry->features + i * image(), 1, made->scores + i * entry->classes.count));
        l3a_model_free(other);
    }
}

struct expected {
    double precision[MOST], recall[MOST];
    uint64_t shown[MOST], judged[MOST], confusions[MOST * MOST];
};

/* The rule of docs/teaching.md, for half background and two classes, so that none can be left out. */
static void assert_expected(const struct entry *entry, const struct by_hand *made, const struct expected *found) {
    for (size_t k = 0; k < 2; k++) {
        double shown = 0, right = 0, all = 0, others = 0, alarms = 0, near = 0, none = 0, hits = 0;
        uint64_t confused[2] = {0};
        for (size_t i = 0; i < ROWS; i++) {
            shown += entry->labels[2 * i + k];
        }
        for (size_t i = 0; i < ROWS; i++) {
            const bool own = entry->labels[2 * i + k], other = entry->labels[2 * i + 1 - k];
            const double level = (double)made->scores[2 * i + k] / made->thresholds[k];
            all += own || other;
            right += own && level > (shown - 1) / shown;
            others += !own && other;
            alarms += !own && other && level > 1;
            near += !own && other && level > 0.75;
            none += !own && !other;
            hits += !own && !other && level > 1;
            confused[1 - k] += own && !other && (double)made->scores[2 * i + 1 - k] > made->thresholds[1 - k];
        }
        const double guess = (near / others + 0.25 / 2) / 2, g = (20 * guess + hits) / (20 + none);
        assert_true(others > 0 && none > 0);
        assert_int_equal(found->shown[k], shown);
        assert_int_equal(found->judged[k], ROWS);
        assert_true(fabs(found->recall[k] - 100 * right / shown) < 1e-9);
        assert_true(right + alarms + hits > 0 ? fabs(found->precision[k] - 100 * right / (right + alarms + g * all)) < 1e-9
                                              : isnan(found->precision[k]));
        for (size_t l = 0; l < 2; l++) {
            assert_int_equal(found->confusions[k * 2 + l], confused[l]);
        }
    }
}

static void review(l3a_context *context, const l3a_history *history, struct expected *found) {
    memset(found, 0xFF, sizeof *found);
    assert_ok(context, l3a_history_foresee(history, &(const double){0.5}, 1, found->precision, found->recall, found->shown,
                                           found->judged, found->confusions));
}

static void what_to_expect(void **state) {
    static const double background[] = {0.5, 0, 0.8, 1};
    l3a_context *context = make_context(1), *other = make_context(1);
    l3a_model *model = new_model(context, DIM);
    l3a_history *history = NULL, *copy = NULL;
    struct expected found;
    struct by_hand made;
    double precision[3 * MOST], recall[MOST];
    uint64_t shown[MOST], judged[MOST];
    (void)state;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    struct entry *entry = lesson(context, 11, three, 2, 2);
    for (size_t i = 0; i < ROWS; i++) { /* all kinds of pictures, and features that tell something */
        entry->labels[2 * i] = i % 5 < 2 || i % 5 == 4;
        entry->labels[2 * i + 1] = i % 5 == 2 || i % 5 == 4;
        for (size_t view = 0; view < view_rows(views); view++) {
            entry->features[i * image() + view * WIDTH] = entry->labels[2 * i] ? 2 : -2;
            entry->features[i * image() + view * WIDTH + 1] = entry->labels[2 * i + 1] ? 2 : -2;
        }
    }
    teach(history, entry, true);
    make_by_hand(context, model, entry, &made);
    review(context, history, &found);
    assert_expected(entry, &made, &found);
    assert_true(found.recall[0] > 50);
    assert_ok(context, l3a_history_foresee(history, background, 3, precision, recall, shown, judged, NULL));
    assert_true(precision[0] == found.precision[0] && precision[2] > precision[0] && precision[0] > precision[4]);
    assert_true(fabs(1 / precision[4] - 1 / precision[2] - 4 * (1 / precision[0] - 1 / precision[2])) <
                1e-9); /* linear in b/(1 - b) */
    assert_int_equal(l3a_history_foresee(history, background + 3, 1, precision, recall, shown, judged, NULL), L3A_ERROR_ARGUMENT);
    assert_ok(context, l3a_history_foresee(history, &(const double){0.5}, 1, precision, recall, shown, judged, NULL));
    assert_memory_equal(precision, found.precision, 2 * sizeof *precision);
    assert_memory_equal(recall, found.recall, 2 * sizeof *recall);
    assert_memory_equal(shown, found.shown, 2 * sizeof *shown);
    /* A copy in memory is as the files were, whatever becomes of them. */
    assert_ok(context, l3a_history_save(history));
    assert_ok(other, l3a_history_open(other, model_path, &copy));
    assert_ok(other, l3a_history_load(copy));
    assert_ok(context, l3a_history_undo(history, NULL));
    assert_ok(context, l3a_history_save(history));
    assert_int_not_equal(access(history_path, F_OK), 0);
    review(other, copy, &found);
    assert_expected(copy->entries[0], &made, &found);
    l3a_history_free(copy);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(other);
    l3a_context_free(context);
}

/* With one class and no picture without it, nothing can be said. */
static void nothing_to_expect(void **state) {
    l3a_context *context = make_context(1);
    l3a_model *model = new_model(context, DIM);
    l3a_history *history = NULL;
    double precision, recall;
    uint64_t shown, judged;
    (void)state;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    struct entry *entry = lesson(context, 12, three, 1, 1);
    memset(entry->labels, 1, ROWS);
    teach(history, entry, true);
    assert_ok(context, l3a_history_foresee(history, &(const double){0.5}, 1, &precision, &recall, &shown, &judged, NULL));
    assert_true(isnan(precision) && isnan(recall));
    assert_int_equal(shown, ROWS);
    assert_int_equal(judged, ROWS);
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_for_test, remove_folder_of_test)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(entries_survive_saving),
        TEST(clocks_that_jump),
        TEST(tags_of_pictures),
        TEST(undo_goes_back_to_the_beginning),
        TEST(changes_between_saves),
        TEST(a_lesson_that_is_not_kept),
        TEST(a_correction_is_one_step),
        TEST(any_lesson_can_be_taken_back),
        TEST(a_correction_is_taken_back),
        TEST(a_class_that_nothing_shows_is_forgotten),
        TEST(a_name_is_taken_back),
        TEST(merging_is_exact_and_can_be_undone),
        TEST(merging_what_is_always_together),
        TEST(names_that_cannot_be_given),
        TEST(another_width),
        TEST(a_change_by_another_command),
        TEST(an_older_copy_of_the_model),
        TEST(a_model_without_its_history),
        TEST(a_file_that_was_replaced_meanwhile),
        TEST(damaged_histories),
        TEST(features_of_another_width),
        TEST(files_that_are_no_history),
        TEST(a_process_that_ends_while_it_teaches),
        TEST(a_process_that_ends_while_it_undoes),
        TEST(a_process_that_ends_while_it_does_both),
        TEST(a_full_disk),
        TEST(what_is_committed_is_there_once),
        TEST(a_process_that_ends_while_it_commits),
        TEST(damaged_commits),
        TEST(a_damaged_end),
        TEST(a_damaged_middle),
        TEST(a_repair_that_loses_more),
        TEST(commits_of_another_model),
        TEST(memory_that_runs_out),
        TEST(what_to_expect),
        TEST(nothing_to_expect),
    };
    const int failed = cmocka_run_group_tests_name("without views", tests, NULL, NULL);
    views = 5;
    const int with_views = cmocka_run_group_tests_name("with views", tests, NULL, NULL);
    views = 1;
    unlabelled = true;
    return failed + with_views + cmocka_run_group_tests_name("with unlabelled images", tests, NULL, NULL);
}
