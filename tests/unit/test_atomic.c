/* Every call that changes a tagger is made as a whole or not at all: the N-th allocation or file operation fails, N = 1, 2, 3 …,
 * once or from then on. After each failure the model and its history are as they were before the call, or as they are after it, and
 * the next lesson works: the call itself, tried again, and every third time another one. All of it with and without commits, for
 * models with parts and for models without. */
#include "support.h"

#include "base/file.h"
#include "base/memory.h"
#include "learn/model.h"
#include "memory_folder.h"
#include "tag/history.h"
#include "tag/tagger.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 8, WIDTH = 64, DIM = 24, MOST_NUMBERS = 1 << 15, MOST_TEXT = 1 << 14, MOST_CALLS = 5000, PROBED = 3, STRIDE = 5 };

/* The model that calls change is in memory. */
static const char model_path[] = MEMORY_FOLDER "/model.l3a", history_path[] = MEMORY_FOLDER "/model.l3a.history";
static char *folder, *backbone, *base_model, *base_history, *pictures[PICTURES];
static float features[PICTURES][WIDTH];

/* ---- Faults ---- */

enum target { NOTHING, MEMORY, FILES };

/* File operations have no argument of their own, so this is global. */
static struct {
    enum target target;
    size_t number, seen;
    bool lasting, met;
    long blocks;
    size_t warnings;
} fault;

static bool strikes(enum target target) {
    if (fault.target != target) {
        return false;
    }
    fault.seen++;
    const bool strike = fault.lasting ? fault.seen >= fault.number : fault.seen == fault.number;
    fault.met = fault.met || strike;
    errno = strike ? EIO : errno;
    return strike;
}

static void *faulty_allocate(void *user, size_t bytes) {
    (void)user;
    void *memory = strikes(MEMORY) ? NULL : malloc(bytes);
    fault.blocks += memory != NULL;
    return memory;
}

static void faulty_release(void *user, void *memory) {
    (void)user;
    free(memory);
    fault.blocks--;
}

static int faulty_open(const char *path, int flags, mode_t mode) {
    return strikes(FILES) ? -1 : memory_folder.open(path, flags, mode);
}

static ssize_t faulty_read(int file, void *bytes, size_t count, off_t offset) {
    return strikes(FILES) ? -1 : memory_folder.read(file, bytes, count, offset);
}

static ssize_t faulty_write(int file, const void *bytes, size_t count, off_t offset) {
    return strikes(FILES) ? -1 : memory_folder.write(file, bytes, count, offset);
}

static int faulty_truncate(int file, off_t bytes) {
    return strikes(FILES) ? -1 : memory_folder.truncate(file, bytes);
}

static int faulty_sync(int file) {
    return strikes(FILES) ? -1 : memory_folder.sync(file);
}

static int faulty_rename(const char *from, const char *to) {
    return strikes(FILES) ? -1 : memory_folder.rename(from, to);
}

static int faulty_remove(const char *path) {
    return strikes(FILES) ? -1 : memory_folder.remove(path);
}

static int faulty_describe(const char *path, file_description *description) {
    return strikes(FILES) ? -1 : memory_folder.describe(path, description);
}

static ssize_t faulty_random(void *bytes, size_t count, unsigned flags) {
    return strikes(FILES) ? -1 : memory_folder.random(bytes, count, flags);
}

static int count_warnings(const l3a_event *event, void *user) {
    (void)user;
    fault.warnings += event->kind == L3A_EVENT_WARNING;
    return 0;
}

static file_operations faulty_files;

static l3a_context *faulty_context(void) {
    const l3a_context_options options = {
        .size = sizeof options, .threads = 1, .allocate = faulty_allocate, .release = faulty_release, .on_event = count_warnings};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    faulty_files = memory_folder;
    faulty_files.open = faulty_open;
    faulty_files.read = faulty_read;
    faulty_files.write = faulty_write;
    faulty_files.truncate = faulty_truncate;
    faulty_files.sync = faulty_sync;
    faulty_files.rename = faulty_rename;
    faulty_files.remove = faulty_remove;
    faulty_files.describe = faulty_describe;
    faulty_files.random = faulty_random;
    context->files = &faulty_files;
    return context;
}

/* ---- What a tagger knows ---- */

struct state {
    char text[MOST_TEXT]; /* names, counts, judged sets, records and entries */
    double numbers[MOST_NUMBERS];
    size_t count;
};

static void say(struct state *state, const char *format, ...) {
    const size_t length = strlen(state->text);
    va_list arguments;
    va_start(arguments, format);
    const int added = vsnprintf(state->text + length, sizeof state->text - length, format, arguments);
    va_end(arguments);
    assert_true(added >= 0 && (size_t)added < sizeof state->text - length);
}

static void note_numbers(struct state *state, const double *numbers, size_t count) {
    assert_true(state->count + count <= MOST_NUMBERS);
    if (count) {
        memcpy(state->numbers + state->count, numbers, count * sizeof *numbers);
    }
    state->count += count;
}

/* The sums: of each part, or A. */
static void note_sums(l3a_context *context, struct state *state, l3a_model *model) {
    const struct evidence *evidence = model->evidence;
    const size_t d = model_dim(model);
    double row[4 * DIM + 64 + 64];
    assert_true(d <= sizeof row / sizeof row[0]);
    for (size_t i = 0; i < evidence->part_count; i++) {
        say(state, "part of %llu images:", (unsigned long long)evidence->parts[i].images);
        for (size_t k = 0; k < evidence->parts[i].judged_count; k++) {
            say(state, " %zu", evidence->parts[i].judged[k]);
        }
        say(state, "\n");
        for (size_t j = 0; j < d; j++) {
            assert_ok(context, scatter_read(&evidence->parts[i].sums, triangle_numbers(0, j), j + 1, row));
            note_numbers(state, row, j + 1);
        }
    }
    const struct unlabelled *unlabelled = &evidence->unlabelled;
    say(state, "%llu of %llu unlabelled\n", (unsigned long long)unlabelled->images, (unsigned long long)unlabelled->drawn_from);
    for (size_t i = 0; i < unlabelled->sample_count; i++) {
        say(state, " %llu %d", (unsigned long long)unlabelled->sample[i].checksum, unlabelled->sample[i].judged);
    }
    for (size_t j = 0; unlabelled->total && j < d; j++) {
        assert_ok(context, scatter_read(&unlabelled->sums, triangle_numbers(0, j), j + 1, row));
        note_numbers(state, row, j + 1);
        note_numbers(state, &unlabelled->total[j], 1);
    }
    if (!evidence->part_count) {
        for (size_t j = 0; j < d; j++) {
            assert_ok(context, sums_read(&evidence->ridge.sums, KEPT, j, 1, row));
            note_numbers(state, row, j + 1);
        }
    }
}

static void note_history(struct state *state, const l3a_history *history) {
    for (size_t i = 0; i < l3a_history_count(history); i++) {
        l3a_history_entry entry = {.size = sizeof entry};
        assert_int_equal(l3a_history_entry_at(history, i, &entry), L3A_OK);
        say(state, "%llu %s %zu -%zu %s %s %d\n", (unsigned long long)entry.number, entry.kind, entry.pictures, entry.taken_back,
            entry.old_name ? entry.old_name : "", entry.new_name ? entry.new_name : "", entry.can_undo);
    }
    say(state, "gap: %s\n", l3a_history_gap(history));
}

static void note_state(l3a_context *context, l3a_tagger *tagger, struct state *state) {
    const l3a_history *history = NULL;
    memset(state, 0, sizeof *state);
    assert_ok(context, l3a_tagger_history(tagger, &history));
    l3a_model *model = tagger->model;
    const size_t classes = model->classes.count;
    assert_int_equal(model->state, MODEL_READY);
    assert_ok(context, ridge_use_inverse(&model->evidence->ridge, false)); /* A or R, they say the same */
    say(state, "gamma %.9g, dim %llu, %zu phases\n", model->options.gamma, (unsigned long long)model->options.dim,
        model->phase_count);
    for (size_t k = 0; k < classes; k++) {
        say(state, "%s %llu\n", model->classes.items[k], (unsigned long long)model->counts[k]);
    }
    note_numbers(state, model->label_weight, classes);
    note_numbers(state, model->class_weight, classes);
    note_numbers(state, model->evidence->cross, classes * model_dim(model));
    note_numbers(state, model->coefficients, classes * model_dim(model));
    note_sums(context, state, model);
    note_history(state, history);
    /* Readers see the same classes. */
    struct scorer *edition = tagger_borrow(tagger);
    assert_int_equal(edition->classes.count, classes);
    for (size_t k = 0; k < classes; k++) {
        assert_string_equal(edition->classes.items[k], model->classes.items[k]);
    }
    scorer_free(edition);
}

static bool same_state(const struct state *left, const struct state *right) {
    bool same = strcmp(left->text, right->text) == 0 && left->count == right->count;
    for (size_t i = 0; same && i < left->count; i++) {
        same = fabs(left->numbers[i] - right->numbers[i]) <= 1e-9 * (1 + fabs(right->numbers[i]));
    }
    return same;
}

/* ---- Calls ---- */

/* from_file: the picture is read; otherwise it comes with its features, which takes less time. */
static l3a_status teach_from(l3a_tagger *tagger, size_t picture, const char *tag, bool instead, bool no_history, bool from_file) {
    const char *const tags[] = {tag};
    const l3a_judgement judgement = {.size = sizeof judgement, .tags = tags, .tag_count = 1};
    const l3a_lesson_options options = {.size = sizeof options, .strict = 1, .instead = instead, .no_history = no_history};
    l3a_lesson *lesson = NULL;
    l3a_status status = L3A_OK;
    TRY(l3a_lesson_create(tagger->context, &lesson));
    TRY(from_file ? l3a_lesson_add(lesson, pictures[picture], &judgement)
                  : l3a_lesson_add_features(lesson, pictures[picture], picture + 1, features[picture], WIDTH, &judgement));
    TRY(l3a_tagger_teach(tagger, lesson, &options, NULL));
done:
    l3a_lesson_free(lesson);
    return status;
}

static l3a_status teach(l3a_tagger *tagger, size_t picture, const char *tag, bool instead, bool no_history) {
    return teach_from(tagger, picture, tag, instead, no_history, false);
}

static l3a_status call_teach_file(l3a_tagger *tagger) {
    return teach_from(tagger, 5, "dog", false, false, true);
}

static l3a_status call_nothing(l3a_tagger *tagger) {
    (void)tagger;
    return L3A_OK;
}

static l3a_status call_teach_new(l3a_tagger *tagger) {
    return teach(tagger, 5, "bird", false, false);
}

static l3a_status call_teach_known(l3a_tagger *tagger) {
    return teach(tagger, 7, "cat", false, false);
}

static l3a_status call_teach_unkept(l3a_tagger *tagger) {
    return teach(tagger, 5, "dog", false, true);
}

static l3a_status call_instead(l3a_tagger *tagger) {
    return teach(tagger, 0, "dog", true, false);
}

/* The only picture of a class: the class goes. */
static l3a_status call_instead_of_last(l3a_tagger *tagger) {
    return teach(tagger, 4, "cat", true, false);
}

static l3a_status call_rename(l3a_tagger *tagger) {
    int exact;
    return l3a_tagger_rename(tagger, "dog", "hound", &exact);
}

static l3a_status call_merge(l3a_tagger *tagger) {
    int exact;
    return l3a_tagger_rename(tagger, "dog", "cat", &exact);
}

static l3a_status call_undo(l3a_tagger *tagger) {
    return l3a_tagger_undo(tagger, NULL);
}

static l3a_status call_widen(l3a_tagger *tagger) {
    return l3a_tagger_widen(tagger, DIM + 8);
}

static l3a_status call_save(l3a_tagger *tagger) {
    return l3a_tagger_save(tagger);
}

/* The pictures from number `first` on, whose checksums are those of lessons. */
static l3a_status set_unlabelled(l3a_tagger *tagger, size_t first) {
    uint64_t checksums[PICTURES];
    l3a_features *table = NULL;
    l3a_status status = L3A_OK;
    for (size_t i = first; i < PICTURES; i++) {
        checksums[i - first] = i + 1;
    }
    const l3a_unlabelled_options options = {.size = sizeof options, .checksums = checksums};
    TRY(l3a_features_wrap(tagger->context, features[first], NULL, PICTURES - first, 1, WIDTH, NULL, 0, &table));
    TRY(l3a_tagger_set_unlabelled(tagger, NULL, table, &options));
done:
    l3a_features_free(table);
    return status;
}

/* A model that has one sum for everything can have none. */
static bool takes_unlabelled(l3a_tagger *tagger) {
    return l3a_tagger_model(tagger) && keeps_phases(&tagger->model->options);
}

static l3a_status call_unlabelled(l3a_tagger *tagger) {
    return takes_unlabelled(tagger) ? set_unlabelled(tagger, 1) : call_nothing(tagger);
}

static l3a_status call_no_unlabelled(l3a_tagger *tagger) {
    return takes_unlabelled(tagger) ? l3a_tagger_set_unlabelled(tagger, NULL, NULL, NULL) : call_nothing(tagger);
}

static l3a_status call_undo_and_teach(l3a_tagger *tagger) {
    l3a_status status = L3A_OK;
    TRY(call_undo(tagger));
    TRY(call_teach_new(tagger));
done:
    return status;
}

static const struct {
    const char *name;
    l3a_status (*prepare)(l3a_tagger *tagger), (*call)(l3a_tagger *tagger);
} calls[] = {
    {"teach a new class", call_nothing, call_teach_new},
    {"teach a picture in a file", call_nothing, call_teach_file},
    {"teach a class that is known", call_teach_known, call_teach_new},
    {"teach without history", call_nothing, call_teach_unkept},
    {"teach instead", call_nothing, call_instead},
    {"teach the last picture of a class instead", call_teach_known, call_instead_of_last},
    {"undo", call_teach_new, call_undo},
    {"undo what was saved", call_nothing, call_undo},
    {"undo instead", call_instead, call_undo},
    {"undo instead of the last", call_instead_of_last, call_undo},
    {"undo a rename", call_rename, call_undo},
    {"undo a merge", call_merge, call_undo},
    {"rename", call_teach_new, call_rename},
    {"merge", call_teach_new, call_merge},
    {"widen", call_teach_new, call_widen},
    {"set unlabelled images", call_teach_new, call_unlabelled},
    {"remove unlabelled images", call_nothing, call_no_unlabelled},
    {"save", call_undo_and_teach, call_save},
    {"reload", call_nothing, l3a_tagger_reload},
};

enum { CALLS = sizeof calls / sizeof calls[0] };

/* ---- The loop ---- */

static void bring_file(const char *from, const char *to) {
    size_t size;
    char *bytes = read_bytes(from, &size);
    memory_folder_put(to, bytes, size);
    free(bytes);
}

static int make_inputs(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    folder = make_temporary_folder();
    backbone = path_in(folder, "backbone.safetensors");
    base_model = path_in(folder, "base.l3a");
    base_history = path_in(folder, "base.l3a.history");
    write_small_backbone(context, backbone, 1);
    write_small_pictures(folder, "", pictures, PICTURES);
    int8_t labels[PICTURES];
    random_table(7, PICTURES, WIDTH, 1, 1, &features[0][0], labels);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    char *const paths[] = {backbone, base_model, base_history};
    (void)state;
    free_paths(paths, sizeof paths / sizeof paths[0]);
    free_paths(pictures, PICTURES);
    memory_folder_clear(true);
    remove_folder(folder);
    return 0;
}

/* A model that was taught some lessons, and saved. */
static void make_base(bool parts) {
    static const char *const tags[] = {"cat", "cat", "dog", "dog", "cow"};
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone};
    l3a_context *context = make_context(1);
    l3a_options *settings = NULL;
    l3a_tagger *tagger = NULL;
    const char *const own[][2] = {{"dim", "24"},        {"precision", "double"}, {"gamma", "0.5"}, {"skip-features", "off"},
                                  {"keep-phases", "0"}, {"alpha", "1"},          {"lift", "0"},    {"gamma-from", "images"}};
    unlink(base_model);
    unlink(base_history);
    assert_ok(context, l3a_options_create(context, &settings));
    for (size_t i = 0; i < (parts ? 4 : sizeof own / sizeof own[0]); i++) {
        assert_ok(context, l3a_options_set(context, settings, own[i][0], own[i][1]));
    }
    assert_ok(context, l3a_lesson_settings(context, settings));
    assert_ok(context, l3a_tagger_create(context, base_model, settings, &options, &tagger));
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        assert_ok(context, teach(tagger, i, tags[i], false, false));
    }
    assert_int_equal(tagger->model->evidence->part_count > 0, parts);
    if (parts) {
        assert_ok(context, set_unlabelled(tagger, 2));
    }
    assert_ok(context, l3a_tagger_save(tagger));
    l3a_tagger_free(tagger);
    l3a_options_free(settings);
    l3a_context_free(context);
    memory_folder_clear(true);
    bring_file(base_model, model_path);
    bring_file(base_history, history_path);
    memory_folder_keep();
}

static l3a_tagger *open_prepared(l3a_context *context, size_t call, bool commit) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone, .commit = commit};
    const l3a_history *history;
    l3a_tagger *tagger = NULL;
    memory_folder_restore();
    assert_ok(context, l3a_tagger_open(context, model_path, &options, &tagger));
    assert_ok(context, l3a_tagger_history(tagger, &history));
    assert_ok(context, calls[call].prepare(tagger));
    return tagger;
}

static struct state before, after, now;

/* Fails the call in every place. Returns how many failures were met. */
static size_t fail_everywhere(l3a_context *context, size_t call, bool commit, enum target target, bool lasting) {
    l3a_tagger *tagger = open_prepared(context, call, commit);
    size_t failures = 0;
    note_state(context, tagger, &before);
    assert_ok(context, calls[call].call(tagger));
    note_state(context, tagger, &after);
    bool fresh = false, met = true;
    for (size_t number = 1; met; number += lasting || getenv("L3A_QUICK") ? STRIDE : 1) { /* one job of CI meets all of them */
        if (!fresh) {
            l3a_tagger_free(tagger);
            tagger = open_prepared(context, call, commit);
        }
        fault.target = target;
        fault.number = number;
        fault.lasting = lasting;
        fault.seen = fault.warnings = 0;
        fault.met = false;
        const l3a_status status = calls[call].call(tagger);
        met = fault.met;
        fault.target = NOTHING;
        failures += status != L3A_OK;
        note_state(context, tagger, &now);
        const bool is_before = same_state(&now, &before), is_after = same_state(&now, &after);
        if (!(status == L3A_OK ? is_after : is_before || is_after) || (target == MEMORY && status && status != L3A_ERROR_MEMORY)) {
            print_error("%s, %s, %s %zu%s: %s; %s\nbefore:\n%snow:\n%s", calls[call].name, commit ? "committed" : "not committed",
                        target == MEMORY ? "allocation" : "file operation", number, lasting ? " and all that follow" : "",
                        l3a_status_name(status), l3a_error_text(context), before.text, now.text);
            assert_true(false);
        }
        fresh = is_before && !is_after && status != L3A_OK;
        if ((lasting || number % PROBED == 1) && (teach(tagger, 6, "cat", false, false) || l3a_tagger_undo(tagger, NULL))) {
            print_error("%s, file operation or allocation %zu: %s, and the next lesson: %s\n", calls[call].name, number,
                        l3a_status_name(status), l3a_error_text(context));
            assert_true(false);
        }
        assert_true(number < MOST_CALLS);
    }
    l3a_tagger_free(tagger);
    return failures;
}

static void fail_all(bool parts, bool commit, enum target target) {
    l3a_context *context = faulty_context();
    const long blocks = fault.blocks;
    size_t failures = 0;
    make_base(parts);
    for (size_t call = 0; call < CALLS; call++) {
        for (int lasting = 0; lasting < 2; lasting++) {
            failures += fail_everywhere(context, call, commit, target, lasting);
            assert_int_equal(fault.blocks, blocks);
        }
    }
    print_message("%zu failures\n", failures);
    assert_true(failures > (target == MEMORY ? 100 : 4) * CALLS / (getenv("L3A_QUICK") ? STRIDE : 1));
    l3a_context_free(context);
}

static void memory_with_parts(void **state) {
    (void)state;
    fail_all(true, false, MEMORY);
}

static void memory_with_parts_committed(void **state) {
    (void)state;
    fail_all(true, true, MEMORY);
}

static void memory_without_parts(void **state) {
    (void)state;
    fail_all(false, false, MEMORY);
}

static void memory_without_parts_committed(void **state) {
    (void)state;
    fail_all(false, true, MEMORY);
}

static void files_with_parts(void **state) {
    (void)state;
    fail_all(true, false, FILES);
}

static void files_with_parts_committed(void **state) {
    (void)state;
    fail_all(true, true, FILES);
}

/* A lesson that is in the journal is not refused because readers cannot see it yet; they see it later. */
static void a_change_that_cannot_be_shown(void **state) {
    l3a_context *context = faulty_context();
    size_t shown_late = 0;
    (void)state;
    make_base(true);
    for (size_t number = 1, met = 1; met; number++) {
        l3a_tagger *tagger = open_prepared(context, 0, true);
        fault.target = MEMORY;
        fault.number = number;
        fault.lasting = true;
        fault.seen = fault.warnings = 0;
        fault.met = false;
        const l3a_status status = call_teach_new(tagger);
        met = fault.met;
        fault.target = NOTHING;
        if (status == L3A_OK && met) {
            shown_late++;
            assert_int_equal(fault.warnings, 1);
            assert_int_equal(tagger->current->classes.count, 3);
            assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 4);
            assert_int_equal(tagger->current->classes.count, 4);
        }
        l3a_tagger_free(tagger);
    }
    assert_true(shown_late > 0);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_with_parts),
        cmocka_unit_test(files_with_parts_committed),
        cmocka_unit_test(a_change_that_cannot_be_shown),
        cmocka_unit_test(memory_with_parts),
        cmocka_unit_test(memory_with_parts_committed),
        cmocka_unit_test(memory_without_parts),
        cmocka_unit_test(memory_without_parts_committed),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
