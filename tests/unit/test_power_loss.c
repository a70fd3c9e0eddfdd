/* Power loss, as SQLite tests it: the power goes after the first, second, third … operation on files, and what was not synced is
 * lost, kept, torn or out of order (power_loss.h). After that: the old or the new, never neither; what was answered is there; and
 * what is done again, or resumed, ends with the same bytes. */
#include "support.h"

#include "power_loss.h"

#include "base/memory.h"
#include "data/features.h"
#include "learn/model.h"
#include "run/experiment.h"
#include "tag/history.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 6, CLASSES = 4, ROWS = 40, DIM = 16, PICTURES = 37, BATCH = 16, VIEWS = 5, PROMISES = 64, COURSES = 6 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog"};
static char *folder; /* that loses power */
static char *apart;  /* what is read, and is never lost */

/* ---- The loop ---- */

static struct {
    const char *scenario;
    size_t cut;
    unsigned loss;
    size_t promises[PROMISES]; /* the operations that were done when each was given */
    size_t promised;           /* all in all */
    struct seen {
        uint64_t sum;
        size_t promised;
    } * seen;
    size_t seen_count, seen_capacity;
} probe;

static void require(bool condition, const char *what, l3a_context *context) {
    if (!condition) {
        print_error("%s, after %zu operations, loss %u: %s\n%s\n", probe.scenario, probe.cut, probe.loss, what,
                    context ? l3a_error_text(context) : "");
        assert_true(condition);
    }
}

#define works(context, call) require((call) == L3A_OK, #call, context)

/* From here on, what was done so far must be there. */
static void promise(void) {
    assert_true(probe.promised < PROMISES);
    probe.promises[probe.promised++] = disk_operations();
}

static void begin(const char *scenario) {
    free(probe.seen);
    memset(&probe, 0, sizeof probe);
    probe.scenario = scenario;
    disk_begin(folder);
}

/* The same bytes with the same promises need no second look. */
static bool is_new(uint64_t sum, size_t promised) {
    for (size_t i = 0; i < probe.seen_count; i++) {
        if (probe.seen[i].sum == sum && probe.seen[i].promised == promised) {
            return false;
        }
    }
    if (probe.seen_count == probe.seen_capacity) {
        probe.seen_capacity = 2 * probe.seen_capacity + 256;
        probe.seen = realloc(probe.seen, probe.seen_capacity * sizeof *probe.seen);
        assert_non_null(probe.seen);
    }
    probe.seen[probe.seen_count++] = (struct seen){sum, promised};
    return true;
}

/* Cuts the power after each of the operations from `first` on. */
static void cut_from(size_t first, void (*check)(size_t promised)) {
    const size_t stride = getenv("L3A_QUICK") ? 5 : 1; /* one job of CI meets all of them */
    const size_t count = disk_operations();
    for (size_t cut = first;; cut = cut + stride < count ? cut + stride : count) {
        size_t promised = 0;
        while (promised < probe.promised && probe.promises[promised] <= cut) {
            promised++;
        }
        for (unsigned loss = 0; loss < SOME + COURSES; loss++) {
            probe.cut = cut;
            probe.loss = loss;
            if (is_new(disk_cut(cut, loss), promised)) {
                check(promised);
            }
        }
        if (cut == count) {
            break;
        }
    }
    disk_forget();
}

static void cut_everywhere(void (*check)(size_t promised)) {
    cut_from(0, check);
}

static int no_sync(int file) {
    (void)file;
    return 0;
}

static file_operations quick_files; /* of what comes after the power has come back */

static l3a_context *recording_context(void) {
    l3a_context *context = make_context(1);
    context->files = &recorded_files;
    return context;
}

static l3a_context *quick_context(void) {
    l3a_context *context = make_context(1);
    quick_files = posix_files;
    quick_files.sync = no_sync;
    context->files = &quick_files;
    return context;
}

static int make_folders(void **state) {
    (void)state;
    folder = make_temporary_folder();
    return 0;
}

static int remove_folders(void **state) {
    (void)state;
    remove_folder(folder);
    free(probe.seen);
    probe.seen = NULL;
    return 0;
}

/* ---- One file that replaces another ---- */

static l3a_options small_options(void) {
    l3a_options options;
    options_default(&options);
    options.model.dim = DIM;
    options.model.gamma = 1;
    options.model.block = 8;
    return options;
}

static l3a_features *small_table(l3a_context *context, uint64_t seed) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_features *table = NULL;
    random_table(seed, ROWS, WIDTH, CLASSES, 2, values, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, 1, WIDTH, class_names, CLASSES, &table));
    return table;
}

static void write_text(l3a_context *context, const char *path, uint64_t seed) {
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + (seed + i) % 26);
    }
    assert_ok(context, l3a_file_write(context, path, text, sizeof text - seed));
}

static void write_pieces(l3a_context *context, const char *path, uint64_t seed) {
    l3a_output *output = NULL;
    assert_ok(context, l3a_output_open(context, path, &output));
    for (uint64_t i = 0; i < 40 + seed; i++) {
        char piece[64];
        assert_ok(context,
                  l3a_output_write(output, piece, (size_t)snprintf(piece, sizeof piece, "%" PRIu64 " of %" PRIu64 "\n", i, seed)));
    }
    assert_ok(context, l3a_output_commit(output));
    l3a_output_free(output);
}

static void write_table(l3a_context *context, const char *path, uint64_t seed) {
    l3a_features *table = small_table(context, seed);
    assert_ok(context, l3a_features_save(table, NULL, path));
    l3a_features_free(table);
}

static void write_model(l3a_context *context, const char *path, uint64_t seed) {
    const l3a_options options = small_options();
    l3a_features *table = small_table(context, seed);
    l3a_model *model = NULL;
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, CLASSES));
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
    l3a_features_free(table);
}

static void write_packed(l3a_context *context, const char *path, uint64_t seed) {
    char *model = path_in(apart, "to-pack");
    write_model(context, model, seed);
    assert_ok(context, l3a_pack_write(context, model, NULL, path, NULL));
    free(model);
}

static void write_sidecar(l3a_context *context, const char *path, uint64_t seed) {
    assert_ok(context, l3a_sidecar_write(context, path, class_names, (size_t)seed, NULL, NULL));
}

static const struct writer {
    const char *name, *file;
    void (*write)(l3a_context *context, const char *path, uint64_t seed);
} writers[] = {{"a text", "out", write_text},   {"a text in pieces", "out", write_pieces}, {"a feature file", "out", write_table},
               {"a model", "out", write_model}, {"a packed model", "out", write_packed},   {"a sidecar", "out.xmp", write_sidecar}};

static struct {
    const struct writer *writer;
    char *path, *file; /* what is written, and where that ends up */
    char *bytes[3];    /* of nothing, the old file and the new one */
    size_t sizes[3];
} replacing;

/* Nothing was there, then an old file, then a new one: two promises. */
static void check_replaced(size_t promised) {
    l3a_context *context = quick_context();
    size_t found = 0;
    if (access(replacing.file, F_OK) == 0) {
        size_t size;
        char *bytes = read_bytes(replacing.file, &size);
        for (found = 2; found && (size != replacing.sizes[found] || memcmp(bytes, replacing.bytes[found], size) != 0); found--) {
        }
        free(bytes);
        require(found > 0, "neither the old nor the new file", NULL);
    }
    require(found == promised || found == promised + 1, "not the file that was promised", NULL);
    replacing.writer->write(context, replacing.path, 2); /* what was left behind is no obstacle */
    size_t size;
    char *bytes = read_bytes(replacing.file, &size);
    require(size == replacing.sizes[2] && memcmp(bytes, replacing.bytes[2], size) == 0, "writing again", NULL);
    free(bytes);
    l3a_context_free(context);
}

static void a_file_is_the_old_or_the_new_one(void **state) {
    const struct writer *writer = *state;
    l3a_context *context = recording_context();
    replacing.writer = writer;
    replacing.path = path_in(folder, "out");
    replacing.file = path_in(folder, writer->file);
    begin(writer->name);
    for (uint64_t i = 1; i <= 2; i++) {
        writer->write(context, replacing.path, i);
        promise();
        replacing.bytes[i] = read_bytes(replacing.file, &replacing.sizes[i]);
    }
    l3a_context_free(context);
    cut_everywhere(check_replaced);
    free(replacing.bytes[1]);
    free(replacing.bytes[2]);
    free(replacing.path);
    free(replacing.file);
}

/* ---- Lessons ---- */

enum { LESSON = 70 /* rows, which fill several sectors */, LESSONS = 4 };

static char *model_path;

static l3a_model *new_model(l3a_context *context) {
    l3a_options options = small_options();
    l3a_model *model = NULL;
    options.model.alpha = 0.3;
    options.model.lift = 0.1;
    options.model.pseudo = L3A_PSEUDO_OFF;
    options.model.weights = L3A_WEIGHTS_NONE;
    options.model.precision = L3A_PRECISION_DOUBLE;
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    return model;
}

/* Lesson n has n classes, of which the last is new. */
static struct entry *lesson(l3a_context *context, size_t number) {
    struct entry *entry = NULL;
    assert_ok(context, entry_create(context, ENTRY_TEACH, &entry));
    for (size_t k = 0; k < number; k++) {
        assert_ok(context, text_list_add(context, &entry->classes, class_names[k], strlen(class_names[k])));
    }
    entry->new_classes = 1;
    entry->row_count = entry->pictures = LESSON;
    entry->width = WIDTH;
    assert_ok(context, allocate_zeroed(context, LESSON, sizeof *entry->rows, &entry->rows));
    assert_ok(context, allocate(context, LESSON, number, &entry->labels));
    assert_ok(context, allocate(context, LESSON * WIDTH, sizeof *entry->features, &entry->features));
    random_table(number, LESSON, WIDTH, number, 3, entry->features, entry->labels);
    for (size_t i = 0; i < LESSON; i++) {
        char path[64];
        snprintf(path, sizeof path, "/photos/%zu/%zu.jpg", number, i);
        assert_ok(context, copy_text(context, path, strlen(path), &entry->rows[i].path));
        assert_ok(context, copy_text(context, "", 0, &entry->rows[i].relative));
        entry->rows[i].checksum = number * 1000 + i;
    }
    return entry;
}

/* The models that have learned the first lessons, without any history. */
static l3a_model *expected[LESSONS + 1];

static void make_expected(l3a_context *context) {
    for (size_t lessons = 0; lessons <= LESSONS; lessons++) {
        expected[lessons] = new_model(context);
        for (size_t i = 1; i <= lessons; i++) {
            struct entry *entry = lesson(context, i);
            l3a_features *table = NULL;
            l3a_teach_report report = {.size = sizeof report};
            assert_ok(context,
                      l3a_features_wrap(context, entry->features, entry->labels, LESSON, 1, WIDTH, class_names, i, &table));
            assert_ok(context, l3a_model_teach(expected[lessons], table, &report));
            l3a_features_free(table);
            entry_free(context, entry);
        }
    }
}

static void free_expected(void) {
    for (size_t i = 0; i <= LESSONS; i++) {
        l3a_model_free(expected[i]);
    }
    free(model_path);
    model_path = NULL;
}

static void require_lessons(l3a_history *history, size_t lessons) {
    const l3a_model *model = *history->model, *other = expected[lessons];
    require(l3a_history_count(history) == lessons, "the number of lessons", NULL);
    require(l3a_history_gap(history)[0] == '\0', "what was taught before cannot be undone", NULL);
    require(l3a_model_class_count(model) == lessons, "the number of classes", NULL);
    for (size_t i = 0; i < l3a_model_inputs(model) * lessons; i++) {
        const double apart_by = l3a_model_coefficients(model)[i] - l3a_model_coefficients(other)[i];
        require(apart_by < 1e-9 && apart_by > -1e-9, "the coefficients", NULL);
    }
}

/* What a server or commands do, step by step. +: a lesson that is committed, -: a committed undo, t and u: the same without a
 * commit, s: a save, o: the end of the process, and another one that opens the model. */
static const char *story;

static size_t lessons_after(size_t steps) {
    size_t lessons = 0;
    for (size_t i = 0; i < steps; i++) {
        lessons += story[i] == '+' || story[i] == 't';
        lessons -= story[i] == '-' || story[i] == 'u';
    }
    return lessons;
}

static bool is_durable(char step) {
    return step == '+' || step == '-' || step == 's';
}

static l3a_status take_step(l3a_history **history, char step) {
    l3a_context *context = (*history)->context;
    const size_t next = l3a_history_count(*history) + 1;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = L3A_OK;
    if (step == '+' || step == 't') {
        status = history_apply(*history, lesson(context, next), true, &report);
    } else if (step == '-' || step == 'u') {
        status = l3a_history_undo(*history, NULL);
    } else if (step == 's') {
        return l3a_history_save(*history);
    } else {
        l3a_history_free(*history);
        *history = NULL;
        return l3a_history_open(context, model_path, history);
    }
    return status == L3A_OK && is_durable(step) ? history_commit(*history) : status;
}

/* A model that knows nothing, in a file. */
static void save_empty(void) {
    l3a_context *context = quick_context();
    l3a_model *model = new_model(context);
    l3a_history *history = NULL;
    assert_ok(context, history_begin(context, model_path, &model, &history));
    assert_ok(context, l3a_history_save(history));
    l3a_history_free(history);
    l3a_model_free(model);
    l3a_context_free(context);
}

/* Lives through the story, or what is left of it from this step on. Returns the steps that were taken. */
static size_t live_through(size_t step) {
    l3a_context *context = recording_context();
    l3a_history *history = NULL;
    bool good = l3a_history_open(context, model_path, &history) == L3A_OK;
    while (good && story[step]) {
        good = take_step(&history, story[step]) == L3A_OK;
        if (good && is_durable(story[step])) {
            promise();
        }
        step += good;
    }
    l3a_history_free(history);
    l3a_context_free(context);
    return step;
}

/* Whether these are the lessons after so many steps, or after those up to the next one that makes a promise: it keeps them one
 * after the other. */
static bool is_between(size_t steps, size_t lessons) {
    bool found = lessons == lessons_after(steps);
    for (bool more = true; story[steps] && more; steps++) {
        more = !is_durable(story[steps]);
        found = found || lessons == lessons_after(steps + 1);
    }
    return found;
}

/* The steps up to the promised one are there. */
static void check_lessons_from(size_t steps) {
    l3a_context *context = quick_context();
    l3a_history *history = NULL;
    works(context, l3a_history_open(context, model_path, &history));
    const size_t lessons = l3a_history_count(history);
    require(is_between(steps, lessons), "the lessons are neither the old nor the new ones", NULL);
    require_lessons(history, lessons);
    works(context, take_step(&history, lessons < LESSONS ? '+' : '-')); /* what was left behind is no obstacle */
    works(context, take_step(&history, 'o'));
    require_lessons(history, lessons < LESSONS ? lessons + 1 : lessons - 1);
    works(context, take_step(&history, 's'));
    works(context, take_step(&history, 'o'));
    require_lessons(history, lessons < LESSONS ? lessons + 1 : lessons - 1);
    l3a_history_free(history);
    l3a_context_free(context);
}

static void check_lessons(size_t promised) {
    size_t steps = 0;
    for (size_t i = 0; promised && story[i]; i++) {
        promised -= is_durable(story[i]);
        steps = i + 1;
    }
    check_lessons_from(steps);
}

/* The lessons that a process found, and those after the one it has answered. */
static size_t found, answered;

/* What was found may have been lost after all, if it was never answered: then `steps` of the story are left, or one more. */
static size_t steps_before;

static void check_answered(size_t promised) {
    l3a_context *context = quick_context();
    l3a_history *history = NULL;
    works(context, l3a_history_open(context, model_path, &history));
    const size_t lessons = l3a_history_count(history);
    require(lessons == answered || (!promised && (lessons == found || is_between(steps_before, lessons))),
            "the lessons are neither the old nor the new ones", NULL);
    require_lessons(history, lessons);
    l3a_history_free(history);
    l3a_context_free(context);
}

static const char *const stories[] = {"++-+s+-s-+", "tstustuus", "ts+-+s", "+++s---s+s", "tsot+osu-s", "tttsu-tts"};

/* The folder has a model that knows nothing, and nothing else. */
static void put_empty(void) {
    free(model_path);
    remove_folder(folder);
    folder = make_temporary_folder();
    model_path = path_in(folder, "pets.l3a");
    save_empty();
}

static void lessons_are_there_or_not(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    make_expected(context);
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        story = stories[i];
        put_empty();
        begin(story);
        assert_int_equal(live_through(0), strlen(story));
        cut_everywhere(check_lessons);
    }
    free_expected();
    l3a_context_free(context);
}

/* A process that comes after one that was killed. */
static void answer_another(void) {
    l3a_context *context = recording_context();
    l3a_history *history = NULL;
    works(context, l3a_history_open(context, model_path, &history));
    found = l3a_history_count(history);
    works(context, take_step(&history, found < LESSONS ? '+' : '-'));
    answered = found < LESSONS ? found + 1 : found - 1;
    promise();
    l3a_history_free(history);
    l3a_context_free(context);
}

/* A process is killed after some operations, and the next one goes on: what it finds is not certain just because it is there. The
 * power goes while the next one works. */
static void what_a_killed_process_left_is_not_certain(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    make_expected(context);
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        bool finished = false;
        for (size_t operations = 0; !finished; operations += getenv("L3A_QUICK") ? 3 : 1) {
            story = stories[i];
            put_empty();
            begin(story);
            disk_end_after(operations);
            const size_t steps = live_through(0);
            disk_end_after(SIZE_MAX);
            finished = !story[steps];
            for (steps_before = steps; steps_before && !is_durable(story[steps_before - 1]); steps_before--) {
            }
            const size_t first = disk_operations();
            probe.promised = 0;
            answer_another();
            cut_from(first, check_answered);
        }
    }
    free_expected();
    l3a_context_free(context);
}

/* ---- Extraction ---- */

static struct {
    l3a_context *context;
    l3a_backbone *backbone, *other;
    l3a_dataset *dataset;
    char *path;
    char *bytes;
    size_t size;
} extraction;

static l3a_backbone *open_backbone(uint64_t seed) {
    char *path = path_in(apart, seed == 1 ? "backbone.safetensors" : "other.safetensors");
    l3a_backbone *backbone = NULL;
    write_small_backbone(extraction.context, path, seed);
    assert_ok(extraction.context, l3a_backbone_open(extraction.context, path, NULL, &backbone));
    free(path);
    return backbone;
}

static void open_pictures(void) {
    char *list = path_in(apart, "pictures.csv"), *text = NULL, name[600];
    size_t length;
    FILE *lines = open_memstream(&text, &length);
    extraction.context = quick_context();
    extraction.backbone = open_backbone(1);
    extraction.other = open_backbone(2);
    fprintf(lines, "path,labels\n");
    for (size_t i = 0; i < PICTURES; i++) {
        char file[32];
        snprintf(file, sizeof file, "%zu.jpg", i);
        char *picture = path_in(apart, file);
        write_small_picture(picture, i);
        fprintf(lines, "%s,%s\n", file, class_names[i % CLASSES]);
        free(picture);
    }
    fclose(lines);
    write_bytes(list, text, length);
    snprintf(name, sizeof name, "list:%s", list);
    assert_ok(extraction.context, l3a_dataset_open(extraction.context, name, NULL, NULL, &extraction.dataset));
    free(text);
    free(list);
}

static size_t resumed; /* pictures of which an earlier extraction has left a record */

/* With views, a record fills several sectors, and most of them have no head. */
static l3a_status extract_with(l3a_backbone *backbone) {
    const l3a_extract_options options = {.size = sizeof options, .views = VIEWS};
    l3a_extract_report report = {.size = sizeof report};
    const l3a_status status = l3a_extract(extraction.context, backbone, extraction.dataset, &options, extraction.path, &report);
    resumed = report.resumed;
    return status;
}

static l3a_status extract(void) {
    return extract_with(extraction.backbone);
}

static size_t batches_left; /* the extraction is cancelled before the next one; SIZE_MAX: never */

static int cancel_extraction(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_PROGRESS && strcmp(event->stage, "extract") == 0 && batches_left != SIZE_MAX) {
        return batches_left-- == 0;
    }
    return 0;
}

static void check_extracted(size_t promised) {
    size_t size;
    if (promised) {
        require(access(extraction.path, F_OK) == 0, "the feature file is not there", NULL);
    } else {
        works(extraction.context, extract());
    }
    char *bytes = read_bytes(extraction.path, &size);
    require(size == extraction.size && memcmp(bytes, extraction.bytes, size) == 0, "the features are others", NULL);
    free(bytes);
}

static void begin_extraction(void) {
    open_pictures();
    extraction.path = path_in(apart, "expected");
    batches_left = SIZE_MAX;
    assert_ok(extraction.context, extract());
    extraction.bytes = read_bytes(extraction.path, &extraction.size);
    free(extraction.path);
    extraction.path = path_in(folder, "features");
    extraction.context->options.on_event = cancel_extraction;
}

static void end_extraction(void) {
    l3a_dataset_free(extraction.dataset);
    l3a_backbone_free(extraction.backbone);
    l3a_backbone_free(extraction.other);
    l3a_context_free(extraction.context);
    free(extraction.path);
    free(extraction.bytes);
}

/* Makes the first records what versions up to 0.8 wrote: they begin with the checksum of the picture's file alone. damaged: a
 * record that gets a wrong bit; SIZE_MAX: none. */
static void make_older(size_t count, size_t damaged) {
    enum { HEAD = 32, RECORD = (3 + (1 + VIEWS) * 64) * sizeof(float) };
    char *part = path_in(folder, "features.part");
    size_t size, length;
    char *bytes = read_bytes(part, &size);
    assert_int_equal(size, HEAD + 2 * BATCH * RECORD);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        char *path = path_in(apart, name), *picture = read_bytes(path, &length);
        const uint64_t checksum = XXH3_64bits(picture, length);
        memcpy(bytes + HEAD + i * RECORD, &checksum, sizeof checksum);
        free(picture);
        free(path);
    }
    if (damaged != SIZE_MAX) {
        bytes[HEAD + (damaged + 1) * RECORD - 1] ^= 1;
    }
    write_bytes(part, bytes, size);
    free(bytes);
    free(part);
}

/* An older version has left records of other features; the extraction is interrupted and resumed. */
static void a_resumed_extraction_has_the_same_bytes(void **state) {
    (void)state;
    begin_extraction();
    batches_left = 2;
    assert_int_equal(extract_with(extraction.other), L3A_ERROR_CANCELLED);
    make_older(2 * BATCH, SIZE_MAX);
    begin("extraction");
    extraction.context->files = &recorded_files;
    batches_left = 2;
    assert_int_equal(extract(), L3A_ERROR_CANCELLED);
    batches_left = SIZE_MAX;
    assert_ok(extraction.context, extract());
    promise();
    extraction.context->files = &quick_files;
    cut_everywhere(check_extracted);
    end_extraction();
}

static void records_of_older_versions_are_resumed(void **state) {
    static const size_t damaged[] = {SIZE_MAX, BATCH + 1};
    (void)state;
    begin_extraction();
    for (size_t i = 0; i < 2; i++) {
        batches_left = 2;
        assert_int_equal(extract(), L3A_ERROR_CANCELLED);
        make_older(BATCH, damaged[i]);
        batches_left = SIZE_MAX;
        assert_ok(extraction.context, extract());
        assert_int_equal(resumed, i ? BATCH : 2 * BATCH);
        check_extracted(1);
        unlink(extraction.path);
    }
    end_extraction();
}

/* ---- Runs ---- */

/* Models; points of a sweep; methods that are no models. */
enum run_kind { MODELS, SWEEP, OTHERS };

static struct {
    enum run_kind kind;
    char *path;
    char *text;
    size_t length;
} run;

static l3a_status make_run(l3a_context *context, int resume, FILE *out) {
    static const char *const methods[] = {"l3a", "joint"}, *const others[] = {"er", "dsal"}, *const gammas[] = {"1", "10"};
    static const uint64_t seeds[] = {1, 2};
    static const l3a_axis axis = {"gamma", gammas, 2};
    const l3a_options settings = small_options();
    l3a_features *table = small_table(context, 3);
    l3a_experiment *experiment = NULL;
    l3a_experiment_options options = {.size = sizeof options,
                                      .train = table,
                                      .test = table,
                                      .protocol = "B0-C2",
                                      .methods = run.kind == OTHERS ? others : methods,
                                      .method_count = run.kind == SWEEP ? 1 : 2,
                                      .seeds = seeds,
                                      .seed_count = run.kind == MODELS ? 2 : 1,
                                      .axes = &axis,
                                      .axis_count = run.kind == SWEEP,
                                      .settings = &settings,
                                      .folder = run.path,
                                      .resume = resume,
                                      .no_report = 1};
    l3a_status status = l3a_experiment_create(context, &options, &experiment);
    if (status == L3A_OK) {
        experiment->saving.always = true; /* what is promised is saved */
        status = l3a_experiment_run(experiment);
    }
    for (size_t i = 0; status == L3A_OK && i < l3a_experiment_points(experiment); i++) {
        const l3a_results *results = l3a_experiment_results(experiment, i);
        for (size_t j = 0; j < l3a_results_count(results); j++) {
            const l3a_result *row = l3a_results_at(results, j);
            fprintf(out, "%zu %s %" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %a %a %a\n", i, row->method, row->seed, row->phase,
                    row->train_images, row->pseudo_labels, row->metrics.mean_ap, row->metrics.class_f1, row->metrics.overall_f1);
        }
    }
    l3a_experiment_free(experiment);
    l3a_features_free(table);
    return status;
}

static void add_model(FILE *out) {
    char *path = path_in(run.path, "model.safetensors");
    size_t size;
    char *bytes = read_bytes(path, &size);
    fwrite(bytes, 1, size, out);
    free(bytes);
    free(path);
}

/* Each phase that was announced is in the tables, and the run can be resumed. */
static void check_run(size_t promised) {
    l3a_context *context = quick_context();
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (promised && run.kind != SWEEP) {
        l3a_results *results = NULL;
        works(context, l3a_results_load(context, run.path, &results));
        require(l3a_results_count(results) >= promised, "a phase that was announced is not in the tables", NULL);
        l3a_results_free(results);
    }
    works(context, make_run(context, 1, out));
    if (run.kind == MODELS) {
        add_model(out);
    }
    for (size_t i = 1; i <= 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "partial-%zu.safetensors", i);
        char *partial = path_in(run.path, name);
        require(access(partial, F_OK) != 0, "what a job has learned is left", NULL);
        free(partial);
    }
    fclose(out);
    require(length == run.length && memcmp(text, run.text, length) == 0, "the results are others", NULL);
    free(text);
    l3a_context_free(context);
}

static int promise_result(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_RESULT) {
        promise();
    }
    return 0;
}

static void a_resumed_run_has_the_same_results(void **state) {
    static const char *const kinds[] = {"run", "sweep", "run of other methods"};
    run.kind = *(const enum run_kind *)*state;
    run.path = path_in(folder, "run");
    begin(kinds[run.kind]);
    l3a_context *context = recording_context();
    context->options.on_event = run.kind == SWEEP ? NULL : promise_result;
    FILE *out = open_memstream(&run.text, &run.length);
    assert_ok(context, make_run(context, 0, out));
    if (run.kind == MODELS) {
        add_model(out);
    }
    fclose(out);
    l3a_context_free(context);
    cut_everywhere(check_run);
    free(run.text);
    free(run.path);
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1);
    }
    enum { WRITERS = sizeof writers / sizeof writers[0], REST = 7 };
    static struct writer states[WRITERS];
    static enum run_kind kinds[] = {MODELS, SWEEP, OTHERS};
    memcpy(states, writers, sizeof states);
    struct CMUnitTest tests[WRITERS + REST] = {
        cmocka_unit_test_setup_teardown(lessons_are_there_or_not, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_not_certain, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(a_resumed_extraction_has_the_same_bytes, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(records_of_older_versions_are_resumed, make_folders, remove_folders),
        {"a_resumed_run_has_the_same_results", a_resumed_run_has_the_same_results, make_folders, remove_folders, &kinds[MODELS]},
        {"a_resumed_sweep_has_the_same_results", a_resumed_run_has_the_same_results, make_folders, remove_folders, &kinds[SWEEP]},
        {"a_resumed_run_of_other_methods_has_the_same_results", a_resumed_run_has_the_same_results, make_folders, remove_folders,
         &kinds[OTHERS]},
    };
    for (size_t i = 0; i < WRITERS; i++) {
        tests[REST + i] =
            (struct CMUnitTest){writers[i].name, a_file_is_the_old_or_the_new_one, make_folders, remove_folders, &states[i]};
    }
    apart = make_temporary_folder();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(apart);
    return failed;
}
