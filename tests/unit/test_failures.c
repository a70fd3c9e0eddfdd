/* One loop for all failures: the N-th allocation or file operation goes wrong, N = 1, 2, 3 … until an attempt meets no
 * failure. After each one the status and the text are right, nothing leaks, files are wholly old or wholly new, and the work
 * can be done again.
 *
 * That is tens of thousands of attempts, so nothing is done twice that has the same outcome:
 * - The files that an attempt begins with are made once for each scenario, and so are its files: in memory (memory_folder.h).
 * - Whether a run can be resumed depends on the files that the failure has left. They are those of the failure before, byte by
 * byte, unless a file has changed in between. The clock stands still for that. So the run is resumed once for each kind of failure
 * and each state of the files; that the attempt has left one of these states is checked every time.
 * - What the library must cope with, such as a short read, befalls every other operation of an attempt, and in a second one the
 *   others. */
#include "support.h"

#include "base/file.h"
#include "data/features.h"
#include "archive.h"
#include "memory_folder.h"
#include "run/experiment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 6, CLASSES = 4, STEP = 2, ROWS = 800, RUN_ROWS = 40, FEW = 5, DIM = 16, SOILED = 1 << 14 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog"};

/* ---- Faults ---- */

enum operation {
    ALLOCATE,
    OPEN,
    READ,
    WRITE,
    SIZE,
    LOCK,
    LOCK_BYTES,
    TRUNCATE,
    SYNC,
    RESERVE,
    START_SYNC,
    CLOSE,
    RENAME,
    REMOVE,
    MAKE_FOLDER,
    DESCRIBE,
    READ_LINK,
    SET_OWNER,
    SET_MODE,
    TOUCH,
    RANDOM,
    LIST,
    ANY_FILE_OPERATION
};

enum manner { ONCE, FROM_THEN_ON, EVERY_OTHER };
/* What a read or a write does: it fails, does less than it should, or nothing. */
enum effect { FAILS, CUT_SHORT, ENDS };

struct fault {
    const char *name;
    enum operation operation;
    enum manner manner;
    enum effect effect;
    int code;
    l3a_status expected;
    bool may_pass; /* some calls of the kind decide nothing: closing a file that was read, removing a lock, looking at its file */
};

static const struct fault faults[] = {
    {"no memory, once", ALLOCATE, ONCE, FAILS, ENOMEM, L3A_ERROR_MEMORY, false},
    {"no memory any more", ALLOCATE, FROM_THEN_ON, FAILS, ENOMEM, L3A_ERROR_MEMORY, false},
    {"cannot open", OPEN, ONCE, FAILS, EACCES, L3A_ERROR_IO, false},
    {"nothing to open", OPEN, ONCE, FAILS, ENOENT, L3A_ERROR_NOT_FOUND, false},
    {"cannot read", READ, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"read interrupted", READ, EVERY_OTHER, FAILS, EINTR, L3A_OK, false},
    {"short read", READ, EVERY_OTHER, CUT_SHORT, 0, L3A_OK, false},
    {"early end", READ, ONCE, ENDS, 0, L3A_ERROR_TRUNCATED, false},
    {"cannot write", WRITE, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"disk full", WRITE, FROM_THEN_ON, FAILS, ENOSPC, L3A_ERROR_FULL, false},
    {"disk full, nothing written", WRITE, ONCE, ENDS, 0, L3A_ERROR_FULL, false},
    {"write interrupted", WRITE, EVERY_OTHER, FAILS, EINTR, L3A_OK, false},
    {"short write", WRITE, EVERY_OTHER, CUT_SHORT, 0, L3A_OK, false},
    {"no size", SIZE, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"no locks", LOCK, ONCE, FAILS, ENOLCK, L3A_ERROR_IO, false},
    {"no locks on bytes", LOCK_BYTES, EVERY_OTHER, FAILS, ENOLCK, L3A_OK, false},
    {"cannot truncate", TRUNCATE, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"cannot sync", SYNC, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"cannot close", CLOSE, ONCE, FAILS, EIO, L3A_ERROR_IO, true},
    {"cannot rename", RENAME, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"cannot remove", REMOVE, ONCE, FAILS, EIO, L3A_ERROR_IO, true},
    {"cannot make a folder", MAKE_FOLDER, ONCE, FAILS, EROFS, L3A_ERROR_IO, false},
    {"no description", DESCRIBE, ONCE, FAILS, EIO, L3A_ERROR_IO, true},
    {"cannot read a link", READ_LINK, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"cannot keep the owner", SET_OWNER, EVERY_OTHER, FAILS, EPERM, L3A_OK, false},
    {"cannot keep the group either", SET_OWNER, FROM_THEN_ON, FAILS, EPERM, L3A_OK, false},
    {"cannot keep the mode", SET_MODE, ONCE, FAILS, EIO, L3A_ERROR_IO, false},
    {"no modes on this file system", SET_MODE, EVERY_OTHER, FAILS, EPERM, L3A_OK, false},
    {"cannot set the time", TOUCH, EVERY_OTHER, FAILS, EPERM, L3A_OK, false},
    {"no random numbers", RANDOM, ONCE, FAILS, ENOSYS, L3A_ERROR_IO, false},
    {"cannot list the folder", LIST, EVERY_OTHER, FAILS, EACCES, L3A_OK, false},
    {"disk gone", ANY_FILE_OPERATION, FROM_THEN_ON, FAILS, EIO, L3A_ERROR_IO, true},
};

enum { FAULTS = sizeof faults / sizeof faults[0] };

/* What the probed operations share. File operations have no argument of their own, so this is global. */
static struct {
    const char *scenario;
    const struct fault *fault; /* NULL: nothing goes wrong */
    size_t number, seen;
    bool met;
    long blocks; /* of memory that were not released */
    size_t renames;
    bool removal_failed, lock_failed;
    unsigned results_left; /* the run is cancelled at the last of them; 0: never */
} probe;

static const struct fault *armed;

static void require(bool condition, const char *what) {
    if (!condition) {
        print_error("%s; %s, number %zu: %s\n", probe.scenario, armed ? armed->name : "undisturbed", probe.number, what);
        assert_true(condition);
    }
}

static bool strikes(enum operation operation) {
    const struct fault *fault = probe.fault;
    if (!fault || (fault->operation != operation && (fault->operation != ANY_FILE_OPERATION || operation == ALLOCATE))) {
        return false;
    }
    probe.seen++;
    const bool strike = fault->manner == FROM_THEN_ON  ? probe.seen >= probe.number
                        : fault->manner == EVERY_OTHER ? (probe.seen - probe.number) % 2 == 0
                                                       : probe.seen == probe.number;
    probe.met = probe.met || strike;
    errno = strike ? fault->code : errno;
    return strike;
}

static void *probed_allocate(void *user, size_t bytes) {
    (void)user;
    void *memory = strikes(ALLOCATE) ? NULL : malloc(bytes);
    if (memory) {
        memset(memory, 0xA5, bytes < SOILED ? bytes : SOILED);
        probe.blocks++;
    }
    return memory;
}

static void probed_release(void *user, void *memory) {
    (void)user;
    free(memory);
    probe.blocks--;
}

/* A file that is not there anyway is no fault. */
static int probed_open(const char *path, int flags, mode_t mode) {
    const bool missing = probe.fault && probe.fault->operation == OPEN && probe.fault->code == ENOENT && !(flags & O_CREAT);
    const int file = missing ? memory_folder.open(path, flags, mode) : -1;
    if (!missing) {
        return strikes(OPEN) ? -1 : memory_folder.open(path, flags, mode);
    }
    if (file >= 0 && strikes(OPEN)) {
        memory_folder.close(file);
        errno = ENOENT;
        return -1;
    }
    return file;
}

/* How many bytes an operation on `count` of them does; negative: it fails. */
static ssize_t granted(enum operation operation, size_t count) {
    if (!strikes(operation)) {
        return (ssize_t)count;
    }
    switch (probe.fault->effect) {
    case CUT_SHORT: return count > 1 ? (ssize_t)count / 2 : (ssize_t)count;
    case ENDS: return 0;
    case FAILS: break;
    }
    return -1;
}

static ssize_t probed_read(int file, void *bytes, size_t count, off_t offset) {
    const ssize_t size = granted(READ, count);
    return size > 0 ? memory_folder.read(file, bytes, (size_t)size, offset) : size;
}

static ssize_t probed_write(int file, const void *bytes, size_t count, off_t offset) {
    const ssize_t size = granted(WRITE, count);
    return size > 0 ? memory_folder.write(file, bytes, (size_t)size, offset) : size;
}

static int probed_size(int file, uint64_t *bytes) {
    return strikes(SIZE) ? -1 : memory_folder.size(file, bytes);
}

static int probed_open_lock(const char *path) {
    return strikes(OPEN) ? -1 : memory_folder.open_lock(path);
}

static int probed_lock(int file, const char *path) {
    const bool strike = strikes(LOCK);
    probe.lock_failed = probe.lock_failed || strike;
    return strike ? -1 : memory_folder.lock(file, path);
}

static int probed_lock_bytes(int file, enum byte_lock kind, off_t offset, off_t count) {
    return strikes(LOCK_BYTES) ? -1 : memory_folder.lock_bytes(file, kind, offset, count);
}

static int probed_truncate(int file, off_t bytes) {
    return strikes(TRUNCATE) ? -1 : memory_folder.truncate(file, bytes);
}

static int probed_sync(int file) {
    return strikes(SYNC) ? -1 : memory_folder.sync(file);
}

/* Only large files come here; test_write_behind.c has those. */
static int probed_reserve(int file, off_t bytes) {
    return strikes(RESERVE) ? -1 : memory_folder.reserve(file, bytes);
}

static int probed_start_sync(int file, off_t offset, off_t count) {
    return strikes(START_SYNC) ? -1 : memory_folder.start_sync(file, offset, count);
}

/* The descriptor is gone even where close says that it failed. */
static int probed_close(int file) {
    const bool strike = strikes(CLOSE);
    const int code = errno, closed = memory_folder.close(file);
    errno = strike ? code : errno;
    return strike ? -1 : closed;
}

static int probed_rename(const char *from, const char *to) {
    const int done = strikes(RENAME) ? -1 : memory_folder.rename(from, to);
    probe.renames += done == 0;
    return done;
}

static int probed_remove(const char *path) {
    const bool strike = strikes(REMOVE);
    probe.removal_failed = probe.removal_failed || strike;
    return strike ? -1 : memory_folder.remove(path);
}

static int probed_make_folder(const char *path, mode_t mode) {
    return strikes(MAKE_FOLDER) ? -1 : memory_folder.make_folder(path, mode);
}

static int probed_describe(const char *path, file_description *description) {
    return strikes(DESCRIBE) ? -1 : memory_folder.describe(path, description);
}

static ssize_t probed_read_link(const char *path, char *text, size_t capacity) {
    return strikes(READ_LINK) ? -1 : memory_folder.read_link(path, text, capacity);
}

static int probed_resolve(const char *path, char *text, size_t capacity) {
    return strikes(READ_LINK) ? -1 : memory_folder.resolve(path, text, capacity);
}

static int probed_set_owner(int file, uid_t owner, gid_t group) {
    return strikes(SET_OWNER) ? -1 : memory_folder.set_owner(file, owner, group);
}

static int probed_set_mode(int file, mode_t mode) {
    return strikes(SET_MODE) ? -1 : memory_folder.set_mode(file, mode);
}

static int probed_touch(int file) {
    return strikes(TOUCH) ? -1 : memory_folder.touch(file);
}

static ssize_t probed_random(void *bytes, size_t count, unsigned flags) {
    return strikes(RANDOM) ? -1 : memory_folder.random(bytes, count, flags);
}

static int probed_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    return strikes(LIST) ? -1 : memory_folder.list(path, each, user);
}

static const file_operations probed_files = {.open = probed_open,
                                             .read = probed_read,
                                             .write = probed_write,
                                             .size = probed_size,
                                             .open_lock = probed_open_lock,
                                             .lock = probed_lock,
                                             .lock_bytes = probed_lock_bytes,
                                             .truncate = probed_truncate,
                                             .sync = probed_sync,
                                             .reserve = probed_reserve,
                                             .start_sync = probed_start_sync,
                                             .close = probed_close,
                                             .rename = probed_rename,
                                             .remove = probed_remove,
                                             .make_folder = probed_make_folder,
                                             .describe = probed_describe,
                                             .read_link = probed_read_link,
                                             .resolve = probed_resolve,
                                             .set_owner = probed_set_owner,
                                             .set_mode = probed_set_mode,
                                             .touch = probed_touch,
                                             .random = probed_random,
                                             .list = probed_list};

static int cancel_after_results(const l3a_event *event, void *user) {
    (void)user;
    return event->kind == L3A_EVENT_RESULT && probe.results_left && --probe.results_left == 0;
}

static l3a_status create_probed_context(l3a_context **context) {
    l3a_context_options options = {.size = sizeof options};
    options.threads = 1;
    options.memory_limit = UINT64_C(1) << 30;
    options.on_event = cancel_after_results;
    options.allocate = probed_allocate;
    options.release = probed_release;
    const l3a_status status = l3a_context_create(&options, context);
    if (status == L3A_OK) {
        (*context)->files = &probed_files;
    }
    return status;
}

/* A run's files have the time and the memory that it took. Without these, the same work leaves the same bytes. The library finds
 * these functions before those of the system. */
__attribute__((visibility("default"))) int getrusage(__rusage_who_t who, struct rusage *usage) {
    (void)who;
    memset(usage, 0, sizeof *usage);
    return 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    *time = (struct timespec){.tv_sec = 1};
    return 0;
}

/* ---- What the scenarios work on ---- */

/* Files that all scenarios read. */
static struct {
    char *folder;
    char *table, *run_table, *npy_values, *npy_labels, *npy_names, *model, *apart, *early, *late, *few, *crops;
    char *backbone, *picture, *pictures, *archive, *tags;
} input;

/* What the scenarios write, in memory; runs and sweeps that reports are about. */
#define OUTPUT MEMORY_FOLDER "/out"
#define RUN MEMORY_FOLDER "/run"
#define SWEEP MEMORY_FOLDER "/sweep"

static const char old_text[] = "what was there before";

/* One attempt at a scenario; all that it holds is freed by the loop. */
struct stage {
    l3a_context *context;
    const char *path;   /* of the output */
    const char *source; /* the file that the model came from */
    l3a_features *train, *test;
    l3a_model *model, *other;
    l3a_experiment *experiment;
    l3a_tagger *tagger;
    l3a_reader *reader;
    l3a_backbone *backbone;
    l3a_dataset *dataset;
};

/* The bytes that the undisturbed attempt, which comes first, left behind. */
static char *kept;
static size_t kept_size;

static void same_as_undisturbed(const void *bytes, size_t size) {
    if (!kept) {
        kept = malloc(size);
        assert_non_null(kept);
        memcpy(kept, bytes, size);
        kept_size = size;
    }
    require(size == kept_size && memcmp(kept, bytes, size) == 0, "the outcome differs from the undisturbed one");
}

static l3a_options small_options(void) {
    l3a_options options;
    options_default(&options);
    options.model.dim = DIM;
    options.model.gamma = 1;
    options.model.eta = 0.6;
    options.model.tau = 1.4;
    options.model.block = 8;
    return options;
}

static void write_npy(const char *path, const char *type, size_t columns, const void *data, size_t bytes) {
    char header[128 + 1] = "\x93NUMPY\x01";
    header[8] = 118;
    const int used =
        snprintf(header + 10, 119, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %zu), }", type, ROWS, columns);
    memset(header + 10 + used, ' ', (size_t)(118 - used));
    char *file = malloc(128 + bytes);
    assert_non_null(file);
    memcpy(file, header, 128);
    memcpy(file + 128, data, bytes);
    write_bytes(path, file, 128 + bytes);
    free(file);
}

static void save_table(l3a_context *context, const char *path, const float *values, const int8_t *labels, size_t rows) {
    l3a_features *table = NULL;
    assert_ok(context, l3a_features_wrap(context, values, labels, rows, 1, WIDTH, class_names, CLASSES, &table));
    assert_ok(context, l3a_features_set_record(table, "backbone", "none"));
    assert_ok(context, l3a_features_set_record(table, "pool", "mean"));
    assert_ok(context, l3a_features_save(table, NULL, path));
    l3a_features_free(table);
}

/* Two crops, and names of the pictures. */
static void save_crops(l3a_context *context, const float *values, const int8_t *labels) {
    l3a_features *table = NULL;
    assert_ok(context, l3a_features_wrap(context, values, labels, FEW, 2, WIDTH, class_names, CLASSES, &table));
    for (size_t i = 0; i < FEW; i++) {
        char id[24];
        assert_ok(context, text_list_add(context, &table->ids, id, (size_t)snprintf(id, sizeof id, "%zu.png", i)));
    }
    input.crops = path_in(input.folder, "crops.safetensors");
    assert_ok(context, l3a_features_save(table, NULL, input.crops));
    l3a_features_free(table);
}

static void save_learned_model(l3a_context *context) {
    const l3a_options options = small_options();
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    assert_ok(context, l3a_features_open(context, input.run_table, &table));
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, CLASSES));
    assert_ok(context, l3a_model_save(model, input.model));
    l3a_model_free(model);
    l3a_features_free(table);
}

/* Phases kept apart, and everything chosen that can be. */
static l3a_options apart_options(void) {
    l3a_options options = small_options();
    options.model.pseudo = L3A_PSEUDO_OFF;
    options.model.alpha = 0.3;
    options.model.lift = 0.05;
    options.model.gamma = 0;
    options.model.skip_features = L3A_SKIP_ON;
    options.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    return options;
}

/* Classes [first, last), in phases. */
static void save_model_of_phases(l3a_context *context, const l3a_options *options, size_t first, size_t last, const char *path) {
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    assert_ok(context, l3a_features_open(context, input.run_table, &table));
    assert_ok(context, l3a_model_create(context, WIDTH, options, &model));
    for (size_t k = first; k < last; k += STEP) {
        assert_ok(context, l3a_model_learn(model, table, class_names + k, STEP));
    }
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
    l3a_features_free(table);
}

/* A backbone, a picture, and a model of features as wide as the backbone's. */
/* A picture with its labels. */
static void save_archive(void) {
    size_t count;
    char *bytes = read_bytes(input.picture, &count);
    archive_begin();
    archive_add('x', "PaxHeader", "20 path=picture.jpg\n");
    archive_add_bytes('0', "long", bytes, count);
    archive_add('0', "picture.json", "{\"labels\": [\"ant\", 7]}");
    archive_end();
    write_bytes(input.archive, archive, archive_length);
    free(bytes);
}

static void save_tagger(l3a_context *context) {
    enum { FEATURES = 64 };
    static float values[RUN_ROWS * FEATURES];
    static int8_t labels[RUN_ROWS * CLASSES];
    const l3a_options options = small_options();
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    input.backbone = path_in(input.folder, "backbone.safetensors");
    input.picture = path_in(input.folder, "picture.jpg");
    input.pictures = path_in(input.folder, "pictures.csv");
    input.archive = path_in(input.folder, "pictures.tar");
    input.tags = path_in(input.folder, "tags.safetensors");
    write_small_backbone(context, input.backbone, 1);
    write_small_picture(input.picture, 1);
    write_bytes(input.pictures, "path,labels\npicture.jpg,ant\n", 28);
    save_archive();
    random_table(8, RUN_ROWS, FEATURES, CLASSES, 2, values, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, RUN_ROWS, 1, FEATURES, class_names, CLASSES, &table));
    assert_ok(context, l3a_model_create(context, FEATURES, &options, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, CLASSES));
    assert_ok(context, l3a_model_save(model, input.tags));
    l3a_model_free(model);
    l3a_features_free(table);
}

static int make_inputs(void **state) {
    (void)state;
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_context *context = make_context(1);
    random_table(3, ROWS, WIDTH, CLASSES, 2, values, labels);
    input.folder = make_temporary_folder();
    input.table = path_in(input.folder, "table.safetensors");
    input.run_table = path_in(input.folder, "run.safetensors");
    input.npy_values = path_in(input.folder, "values.npy");
    input.npy_labels = path_in(input.folder, "labels.npy");
    input.npy_names = path_in(input.folder, "names.txt");
    input.model = path_in(input.folder, "model.safetensors");
    save_table(context, input.table, values, labels, ROWS);
    save_table(context, input.run_table, values, labels, RUN_ROWS);
    write_npy(input.npy_values, "<f4", WIDTH, values, sizeof values);
    write_npy(input.npy_labels, "|i1", CLASSES, labels, sizeof labels);
    write_bytes(input.npy_names, "ant\nbee\ncat\ndog\n", 16);
    input.apart = path_in(input.folder, "apart.safetensors");
    input.early = path_in(input.folder, "early.safetensors");
    input.late = path_in(input.folder, "late.safetensors");
    input.few = path_in(input.folder, "few.safetensors");
    l3a_options options = apart_options();
    save_learned_model(context);
    save_model_of_phases(context, &options, 0, CLASSES, input.apart);
    options.model.gamma = 1;
    save_model_of_phases(context, &options, 0, STEP, input.early);
    save_model_of_phases(context, &options, STEP, CLASSES, input.late);
    save_table(context, input.few, values, labels, FEW);
    save_crops(context, values, labels);
    save_tagger(context);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    (void)state;
    char *const paths[] = {input.table, input.run_table, input.npy_values, input.npy_labels, input.npy_names,
                           input.model, input.apart,     input.early,      input.late,       input.few,
                           kept,        input.backbone,  input.picture,    input.pictures,   input.tags,
                           input.crops, input.archive};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        free(paths[i]);
    }
    memory_folder_clear(true);
    remove_folder(input.folder);
    return 0;
}

/* ---- Scenarios: opening tables ---- */

static l3a_status open_safetensors(struct stage *stage) {
    return l3a_features_open(stage->context, input.table, &stage->train);
}

static l3a_status open_npy(struct stage *stage) {
    return l3a_features_open_npy(stage->context, input.npy_values, input.npy_labels, input.npy_names, &stage->train);
}

static void check_table(struct stage *stage, l3a_status status) {
    static float values[ROWS * WIDTH];
    if (status != L3A_OK) {
        require(!stage->train, "a table in spite of the failure");
        return;
    }
    assert_ok(stage->context, l3a_features_read(stage->train, NULL, 0, ROWS, values));
    require(strcmp(l3a_features_class(stage->train, CLASSES - 1), class_names[CLASSES - 1]) == 0, "other classes");
    same_as_undisturbed(values, sizeof values);
}

/* ---- Scenarios: learning ---- */

static l3a_status learn_rest(struct stage *stage) {
    l3a_status status = L3A_OK;
    while (status == L3A_OK && l3a_model_phase_count(stage->model) < CLASSES / STEP) {
        status = l3a_model_learn(stage->model, stage->train, class_names + STEP * l3a_model_phase_count(stage->model), STEP);
    }
    return status;
}

static l3a_status learn_with(struct stage *stage, l3a_solver solver, l3a_pseudo pseudo) {
    l3a_options options = small_options();
    options.model.solver = solver;
    options.model.pseudo = pseudo;
    l3a_status status = l3a_features_open(stage->context, input.table, &stage->train);
    if (status == L3A_OK) {
        status = l3a_model_create(stage->context, WIDTH, &options, &stage->model);
    }
    return status == L3A_OK ? learn_rest(stage) : status;
}

static l3a_status learn_apart(struct stage *stage) {
    const l3a_options options = apart_options();
    l3a_status status = l3a_features_open(stage->context, input.run_table, &stage->train);
    if (status == L3A_OK) {
        status = l3a_model_create(stage->context, WIDTH, &options, &stage->model);
    }
    return status == L3A_OK ? learn_rest(stage) : status;
}

static l3a_status learn_by_sums(struct stage *stage) {
    return learn_with(stage, L3A_SOLVER_SUMS, L3A_PSEUDO_FIXED);
}

static l3a_status learn_recursively(struct stage *stage) {
    return learn_with(stage, L3A_SOLVER_RECURSIVE, L3A_PSEUDO_FIXED);
}

static l3a_status learn_with_survey(struct stage *stage) {
    return learn_with(stage, L3A_SOLVER_SUMS, L3A_PSEUDO_DYNAMIC);
}

/* The model either refuses to go on and to be saved, or goes on as if nothing had happened. It scores either way. */
static void check_learning(struct stage *stage, l3a_status status) {
    const float row[WIDTH] = {1, 0, -1};
    float scores[CLASSES];
    if (!stage->model) {
        return;
    }
    if (status != L3A_OK && l3a_model_phase_count(stage->model)) {
        assert_ok(stage->context, l3a_model_score(stage->model, row, 1, scores));
    }
    const l3a_status again = learn_rest(stage);
    if (again != L3A_OK) {
        require(status != L3A_OK && again == L3A_ERROR_STATE, "the model neither goes on nor refuses");
        require(l3a_model_save(stage->model, stage->path) == L3A_ERROR_STATE, "half a phase can be saved");
        return;
    }
    require(strcmp(l3a_model_record(stage->model, "pool"), "mean") == 0, "a record is lost");
    same_as_undisturbed(l3a_model_coefficients(stage->model), l3a_model_inputs(stage->model) * CLASSES * sizeof(double));
}

/* ---- Scenarios: files written over old ones ---- */

static void put_old_file(struct stage *stage) {
    memory_folder_put(stage->path, old_text, sizeof old_text);
}

static l3a_status join_tables(struct stage *stage) {
    const char *const paths[] = {input.table, input.few};
    uint64_t rows;
    return l3a_features_merge(stage->context, paths, 2, stage->path, &rows);
}

static l3a_status save_features(struct stage *stage) {
    const l3a_status status = l3a_features_open(stage->context, input.run_table, &stage->train);
    return status == L3A_OK ? l3a_features_save(stage->train, NULL, stage->path) : status;
}

static l3a_status save_named_halves(struct stage *stage) {
    const l3a_save_options options = {.size = sizeof options, .half = 1};
    const char *names[FEW];
    for (size_t i = 0; i < FEW; i++) {
        names[i] = i % 2 ? "odd.jpg" : "even.jpg";
    }
    l3a_status status = l3a_features_open(stage->context, input.few, &stage->train);
    status = status == L3A_OK ? l3a_features_set_ids(stage->train, names, FEW) : status;
    return status == L3A_OK ? l3a_features_save(stage->train, &options, stage->path) : status;
}

static l3a_status load_model(struct stage *stage) {
    return l3a_model_load(stage->context, input.model, &stage->model);
}

static l3a_status load_apart(struct stage *stage) {
    stage->source = input.apart;
    return l3a_model_load(stage->context, input.apart, &stage->model);
}

static l3a_status save_apart(struct stage *stage) {
    const l3a_status status = load_apart(stage);
    return status == L3A_OK ? l3a_model_save(stage->model, stage->path) : status;
}

static l3a_status save_model(struct stage *stage) {
    const l3a_status status = load_model(stage);
    return status == L3A_OK ? l3a_model_save(stage->model, stage->path) : status;
}

/* As `l3a learn` does: the lock is held from loading to saving. */
static l3a_status change_under_lock(struct stage *stage) {
    l3a_lock *lock = NULL;
    l3a_status status = l3a_lock_take(stage->context, stage->path, 0, &lock);
    require((status == L3A_OK) == (lock != NULL), "a lock in spite of the failure, or none");
    if (status == L3A_OK) {
        status = save_model(stage);
    }
    l3a_lock_free(lock);
    return status;
}

/* The old file is behind a symbolic link. */
static void put_old_link(struct stage *stage) {
    memory_folder_put(MEMORY_FOLDER "/behind", old_text, sizeof old_text);
    memory_folder_link(stage->path, "behind");
}

/* The bytes of a file below the output, to be freed. */
static char *bytes_in(const char *folder, const char *name, size_t *size) {
    char *path = path_in(folder, name), *bytes = memory_folder_get(path, size);
    require(bytes != NULL, "a file is missing");
    free(path);
    return bytes;
}

static void check_file(struct stage *stage, l3a_status status) {
    size_t size;
    char *bytes = memory_folder_get(stage->path, &size);
    require(bytes != NULL, "there is no file");
    require(status != L3A_OK || probe.renames == 1, "success without a new file");
    if (probe.renames) {
        same_as_undisturbed(bytes, size);
    } else {
        require(size == sizeof old_text && memcmp(bytes, old_text, size) == 0, "the old file is damaged");
    }
    free(bytes);
}

static void check_link(struct stage *stage, l3a_status status) {
    char *target = memory_folder_get_link(stage->path);
    require(target && strcmp(target, "behind") == 0, "the link is not the same");
    free(target);
    check_file(stage, status);
}

static void check_loaded(struct stage *stage, l3a_status status) {
    if (status != L3A_OK) {
        require(!stage->model, "a model in spite of the failure");
        return;
    }
    same_as_undisturbed(l3a_model_coefficients(stage->model), l3a_model_inputs(stage->model) * CLASSES * sizeof(double));
}

/* ---- Scenarios: merging and forgetting ---- */

static l3a_status merge_files(struct stage *stage, const char *one, const char *other) {
    int exact;
    stage->source = one;
    l3a_status status = l3a_model_load(stage->context, one, &stage->model);
    if (status == L3A_OK) {
        status = l3a_model_load(stage->context, other, &stage->other);
    }
    if (status == L3A_OK && strcmp(one, other) == 0) {
        status = l3a_model_set_record(stage->other, "holds", "other images");
    }
    return status == L3A_OK ? l3a_model_merge(stage->model, stage->other, &exact) : status;
}

static l3a_status merge_shards(struct stage *stage) {
    return merge_files(stage, input.apart, input.apart);
}

static l3a_status merge_sums(struct stage *stage) {
    return merge_files(stage, input.model, input.model);
}

static l3a_status merge_classes(struct stage *stage) {
    return merge_files(stage, input.early, input.late);
}

static l3a_status forget_classes(struct stage *stage) {
    static const char *const classes[] = {"bee", "cat", "dog"}; /* a phase and a column */
    int exact;
    const l3a_status status = load_apart(stage);
    return status == L3A_OK ? l3a_model_forget_classes(stage->model, classes, 3, &exact) : status;
}

static l3a_status forget_phase(struct stage *stage) {
    int exact;
    const l3a_status status = load_apart(stage);
    return status == L3A_OK ? l3a_model_forget_phase(stage->model, 0, &exact) : status;
}

static l3a_status forget_images(struct stage *stage) {
    int exact;
    uint64_t images;
    l3a_status status = load_apart(stage);
    if (status == L3A_OK) {
        status = l3a_features_open(stage->context, input.few, &stage->train);
    }
    return status == L3A_OK ? l3a_model_forget_images(stage->model, stage->train, &images, &exact) : status;
}

/* A model that failed still scores. What it saves, where it does not refuse, is what it was. */
static void check_changed(struct stage *stage, l3a_status status) {
    const float row[WIDTH] = {1, 0, -1};
    float scores[CLASSES];
    if (!stage->model) {
        return;
    }
    const size_t size = l3a_model_inputs(stage->model) * l3a_model_class_count(stage->model) * sizeof(double);
    if (status == L3A_OK) {
        same_as_undisturbed(l3a_model_coefficients(stage->model), size);
        return;
    }
    assert_ok(stage->context, l3a_model_score(stage->model, row, 1, scores));
    const l3a_status saved = l3a_model_save(stage->model, stage->path);
    require(saved == L3A_OK || saved == L3A_ERROR_STATE, "the model is neither saved nor refused");
    if (saved == L3A_OK) {
        size_t now, before;
        char *bytes = memory_folder_get(stage->path, &now), *old = read_bytes(stage->source, &before);
        require(now == before && memcmp(bytes, old, now) == 0, "half a change can be saved");
        free(bytes);
        free(old);
    }
}

/* ---- Scenarios: whole runs ---- */

static l3a_status run_experiment(struct stage *stage, const l3a_experiment_options *options) {
    l3a_experiment_free(stage->experiment);
    stage->experiment = NULL;
    const l3a_status status = l3a_experiment_create(stage->context, options, &stage->experiment);
    if (status != L3A_OK) {
        return status;
    }
    stage->experiment->saving.always = true; /* so that what is done does not depend on the time it takes */
    return l3a_experiment_run(stage->experiment);
}

static l3a_status run_both(struct stage *stage, int resume) {
    static const char *const methods[] = {"l3a", "joint"};
    static const uint64_t seeds[] = {1, 2};
    const l3a_options settings = small_options();
    l3a_experiment_options options = {.size = sizeof options};
    options.train = stage->train;
    options.test = stage->test;
    options.protocol = "B0-C2";
    options.methods = methods;
    options.method_count = 2;
    options.seeds = seeds;
    options.seed_count = 2;
    options.settings = &settings;
    options.folder = stage->path;
    options.resume = resume;
    options.no_report = 1; /* which has a scenario of its own */
    return run_experiment(stage, &options);
}

static l3a_status open_tables(struct stage *stage) {
    l3a_status status = L3A_OK;
    if (!stage->train) {
        status = l3a_features_open(stage->context, input.run_table, &stage->train);
    }
    if (status == L3A_OK && !stage->test) {
        status = l3a_features_open(stage->context, input.run_table, &stage->test);
    }
    return status;
}

static l3a_status open_and_run(struct stage *stage, int resume) {
    const l3a_status status = open_tables(stage);
    return status == L3A_OK ? run_both(stage, resume) : status;
}

/* Methods that are no models, without a folder. */
static l3a_status run_others(struct stage *stage) {
    static const char *const methods[] = {"joint-masked", "dsal", "gkeal", "slda"};
    l3a_status status = L3A_OK;
    const l3a_options settings = small_options();
    l3a_experiment_options options = {.size = sizeof options};
    if (!stage->train) {
        status = l3a_features_open(stage->context, input.run_table, &stage->train);
    }
    options.train = options.test = stage->train;
    options.protocol = "B0-C2";
    options.methods = methods;
    options.method_count = sizeof methods / sizeof methods[0];
    options.settings = &settings;
    return status == L3A_OK ? run_experiment(stage, &options) : status;
}

/* One of them, in a folder. */
static const char *other;

static l3a_status run_other(struct stage *stage, int resume) {
    l3a_options settings = small_options();
    l3a_experiment_options options = {.size = sizeof options};
    const l3a_status status = open_tables(stage);
    settings.method.epochs = 1;
    settings.method.memory = 2;
    options.train = stage->train;
    options.test = stage->test;
    options.protocol = "B0-C2";
    options.methods = &other;
    options.method_count = 1;
    options.settings = &settings;
    options.folder = stage->path;
    options.resume = resume;
    options.no_report = 1;
    return status == L3A_OK ? run_experiment(stage, &options) : status;
}

/* With crops, of which samples.csv says who spoke. */
static l3a_status run_with_crops(struct stage *stage, int resume) {
    l3a_status status = L3A_OK;
    const l3a_options settings = small_options();
    l3a_experiment_options options = {.size = sizeof options};
    if (!stage->train) {
        status = l3a_features_open(stage->context, input.crops, &stage->train);
    }
    options.train = options.test = stage->train;
    options.protocol = "B0-C4";
    options.settings = &settings;
    options.folder = stage->path;
    options.resume = resume;
    options.no_report = 1;
    return status == L3A_OK ? run_experiment(stage, &options) : status;
}

static l3a_status run_crops(struct stage *stage) {
    return run_with_crops(stage, 0);
}

static void check_crops(struct stage *stage, l3a_status status) {
    static const char header[] = "id,class,true,predicted,score,view\n";
    size_t size;
    if (status != L3A_OK) {
        assert_ok(stage->context, run_with_crops(stage, 1));
    }
    char *bytes = bytes_in(stage->path, "samples.csv", &size);
    require(size >= sizeof header && memcmp(bytes, header, sizeof header - 1) == 0, "samples.csv has no views");
    same_as_undisturbed(bytes, size);
    free(bytes);
}

static l3a_status run_afresh(struct stage *stage) {
    return open_and_run(stage, 0);
}

static l3a_status run_resumed(struct stage *stage) {
    return open_and_run(stage, 1);
}

/* Leaves model.safetensors with one phase of two. */
static void run_one_phase(struct stage *stage) {
    probe.results_left = 1;
    assert_int_equal(open_and_run(stage, 0), L3A_ERROR_CANCELLED);
}

/* Leaves model.safetensors finished, and partial-2.safetensors with one phase of two. */
static void run_three_phases(struct stage *stage) {
    probe.results_left = 3;
    assert_int_equal(open_and_run(stage, 0), L3A_ERROR_CANCELLED);
}

/* Leave partial-1.safetensors with one phase of two. */
static void begin_other(struct stage *stage, const char *method) {
    other = method;
    probe.results_left = 1;
    assert_int_equal(run_other(stage, 0), L3A_ERROR_CANCELLED);
}

static void begin_dsal(struct stage *stage) {
    begin_other(stage, "dsal");
}

static void begin_gkeal(struct stage *stage) {
    begin_other(stage, "gkeal");
}

static void begin_slda(struct stage *stage) {
    begin_other(stage, "slda");
}

static void begin_derpp(struct stage *stage) {
    begin_other(stage, "der++");
}

static void begin_prs(struct stage *stage) {
    begin_other(stage, "prs");
}

static l3a_status resume_other(struct stage *stage) {
    return run_other(stage, 1);
}

static void print_results(FILE *out, const l3a_results *results) {
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        const l3a_metrics *m = &row->metrics;
        fprintf(out, "%s %" PRIu64 " %zu: %" PRIu64 " %" PRIu64 " %" PRIu64 " %a %a %a %a %a %a %a %zu\n", row->method, row->seed,
                row->phase, row->train_images, row->test_images, row->pseudo_labels, m->mean_ap, m->class_precision,
                m->class_recall, m->class_f1, m->overall_precision, m->overall_recall, m->overall_f1, m->images);
        for (size_t k = 0; k < row->last; k++) {
            fprintf(out, "%a\n", l3a_results_average_precision(results, i)[k]);
        }
    }
}

/* Temporary files and locks. Those that could not be removed may be there; so may the file of a lock that could not be taken, which
 * is perhaps another process's. */
static void check_leftovers(const char *folder, const char *what) {
    require(!memory_folder_count(folder, ".l3a-tmp") || probe.removal_failed, what);
    require(!memory_folder_count(folder, ".l3a-lock") || probe.removal_failed || probe.lock_failed, "the file of a lock is left");
}

static void check_model_file(const struct stage *stage, FILE *out) {
    size_t size;
    char *bytes = bytes_in(stage->path, "model.safetensors", &size);
    fwrite(bytes, 1, size, out);
    free(bytes);
}

static void check_others(struct stage *stage, l3a_status status) {
    char *text = NULL;
    size_t size = 0;
    if (status != L3A_OK) {
        assert_ok(stage->context, run_others(stage));
    }
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print_results(out, l3a_experiment_results(stage->experiment, 0));
    fclose(out);
    same_as_undisturbed(text, size);
    free(text);
}

/* A run that failed can be resumed, and then leaves what an undisturbed one leaves. */
static void check_run(struct stage *stage, l3a_status status) {
    char *text = NULL;
    size_t size = 0;
    if (status != L3A_OK) {
        assert_ok(stage->context, open_and_run(stage, 1));
    }
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print_results(out, l3a_experiment_results(stage->experiment, 0));
    check_model_file(stage, out);
    fclose(out);
    same_as_undisturbed(text, size);
    free(text);
    check_leftovers(stage->path, "a temporary file is left after the run was resumed");
    require(memory_folder_count(stage->path, "") == 6 + memory_folder_count(stage->path, ".l3a-lock"),
            "other files than run.json, the three tables, their checksums and the model");
}

static void check_other(struct stage *stage, l3a_status status) {
    char *text = NULL;
    size_t size = 0;
    if (status != L3A_OK) {
        assert_ok(stage->context, run_other(stage, 1));
    }
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print_results(out, l3a_experiment_results(stage->experiment, 0));
    fclose(out);
    same_as_undisturbed(text, size);
    free(text);
    check_leftovers(stage->path, "a temporary file is left after the run was resumed");
    require(memory_folder_count(stage->path, "") == 5 + memory_folder_count(stage->path, ".l3a-lock"),
            "other files than run.json, the three tables and their checksums");
}

/* Two gammas that learn together. */
static l3a_status run_sweep(struct stage *stage) {
    static const char *const gammas[] = {"1", "10"};
    static const l3a_axis axis = {"gamma", gammas, 2};
    l3a_status status = L3A_OK;
    const l3a_options settings = small_options();
    l3a_experiment_options options = {.size = sizeof options};
    if (!stage->train) {
        status = l3a_features_open(stage->context, input.run_table, &stage->train);
    }
    options.train = options.test = stage->train;
    options.protocol = "B0-C2";
    options.settings = &settings;
    options.folder = stage->path;
    options.resume = 1;
    options.no_report = 1;
    options.axes = &axis;
    options.axis_count = 1;
    return status == L3A_OK ? run_experiment(stage, &options) : status;
}

static void check_sweep(struct stage *stage, l3a_status status) {
    char *text = NULL;
    size_t size = 0;
    if (status != L3A_OK) {
        assert_ok(stage->context, run_sweep(stage));
    }
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < l3a_experiment_points(stage->experiment); i++) {
        print_results(out, l3a_experiment_results(stage->experiment, i));
    }
    fclose(out);
    same_as_undisturbed(text, size);
    free(text);
    check_leftovers(stage->path, "a temporary file is left after the sweep was resumed");
    require(memory_folder_count(stage->path, "") == 4 + memory_folder_count(stage->path, ".l3a-lock"),
            "other files than sweep.json, sweep.csv, checksums.csv and points");
}

/* ---- Scenarios: a page about a run ---- */

/* About one run. */
static void only_run_once(struct stage *stage) {
    stage->path = RUN;
    assert_ok(stage->context, open_and_run(stage, 0));
    stage->path = OUTPUT;
}

static void run_once(struct stage *stage) {
    only_run_once(stage);
    put_old_file(stage);
}

static l3a_status write_figures(struct stage *stage) {
    const char *const folders[] = {RUN};
    return l3a_report_figures(stage->context, folders, 1, NULL, "svg", stage->path);
}

/* Whatever is there is whole. */
static void check_figures(struct stage *stage, l3a_status status) {
    const size_t there = memory_folder_count(stage->path, ".svg");
    size_t size;
    require(there == probe.renames && (status != L3A_OK || there > 5), "the number of figures is wrong");
    if (there) {
        char *bytes = bytes_in(stage->path, "map-by-phase.svg", &size);
        same_as_undisturbed(bytes, size);
        free(bytes);
    }
}

static l3a_status write_report(struct stage *stage) {
    const char *const folders[] = {RUN};
    return l3a_report_write(stage->context, folders, 1, NULL, stage->path);
}

/* The same about a sweep. */
static void sweep_once(struct stage *stage) {
    stage->path = SWEEP;
    assert_ok(stage->context, run_sweep(stage));
    stage->path = OUTPUT;
    put_old_file(stage);
}

static l3a_status write_sweep_report(struct stage *stage) {
    const char *const folders[] = {SWEEP};
    return l3a_report_write(stage->context, folders, 1, NULL, stage->path);
}

static l3a_status write_training(struct stage *stage) {
    static const double losses[] = {2, 1.5, 1.2}, mean_aps[] = {50, 60, 55}, seconds[] = {1, 1, 1};
    const l3a_train_plan plan = {.size = sizeof plan, .pictures = 10, .held = 3, .classes = 2, .settings = "norms"};
    const l3a_train_report report = {.size = sizeof report, .epochs = 3, .kept = 2, .mean_ap = 60};
    const l3a_train_page page = {.size = sizeof page,
                                 .plan = &plan,
                                 .report = &report,
                                 .done = 3,
                                 .losses = losses,
                                 .mean_aps = mean_aps,
                                 .seconds = seconds};
    return l3a_train_page_write(stage->context, &page, stage->path);
}

static void run_and_join(struct stage *stage) {
    static const char rows[] = "method,seed,phase,map\nmine,1,1,50\nmine,1,2,40\nmine,2,1,51\nmine,2,2,42\n";
    only_run_once(stage);
    memory_folder_put(stage->path, rows, sizeof rows - 1);
}

static l3a_status print_table(struct stage *stage) {
    const char *const folders[] = {RUN}, *const files[] = {stage->path};
    const l3a_report_options options = {.size = sizeof options, .with = files, .with_count = 1};
    char text[4096] = "untouched";
    size_t length = 0;
    const l3a_status status = l3a_report_table(stage->context, folders, 1, &options, "latex", text, sizeof text, &length);
    require(status == L3A_OK ? length == strlen(text) : strcmp(text, "untouched") == 0, "the table is wrong");
    return status;
}

static l3a_status read_record(struct stage *stage) {
    char text[64] = "untouched";
    const l3a_status status = l3a_folder_record(stage->context, RUN, "program", text, sizeof text);
    require(strcmp(text, status == L3A_OK ? "l3a" : "untouched") == 0, "the record is wrong");
    return status;
}

static void check_nothing(struct stage *stage, l3a_status status) {
    (void)stage;
    (void)status;
}

/* ---- Scenarios: a drawn data set ---- */

static l3a_status draw_one(struct stage *stage) {
    const l3a_draw_options options = {.size = sizeof options, .seed = 4, .training = 1};
    return l3a_draw_dataset(stage->context, &options, stage->path);
}

static void check_drawn(struct stage *stage, l3a_status status) {
    size_t size;
    if (status == L3A_OK) {
        char *bytes = bytes_in(stage->path, "VOC2007/JPEGImages/000001.jpg", &size);
        same_as_undisturbed(bytes, size);
        free(bytes);
    }
}

/* ---- Scenarios: pictures ---- */

static l3a_status extract_one(struct stage *stage) {
    char name[600];
    snprintf(name, sizeof name, "list:%s", input.pictures);
    l3a_extract_options options = {.size = sizeof options};
    options.strict = 1;
    options.views = 5;
    l3a_status status = l3a_dataset_open(stage->context, name, NULL, NULL, &stage->dataset);
    if (status == L3A_OK) {
        status = l3a_backbone_open(stage->context, input.backbone, NULL, &stage->backbone);
    }
    return status == L3A_OK ? l3a_extract(stage->context, stage->backbone, stage->dataset, &options, stage->path, NULL) : status;
}

static l3a_status extract_to_cache(struct stage *stage) {
    char name[600];
    snprintf(name, sizeof name, "list:%s", input.pictures);
    const l3a_extract_options options = {.size = sizeof options, .strict = 1};
    const l3a_cache_options cache = {.size = sizeof cache, .folder = MEMORY_FOLDER "/deep/cache"};
    l3a_status status = l3a_dataset_open(stage->context, name, NULL, NULL, &stage->dataset);
    if (status == L3A_OK) {
        status = l3a_backbone_open(stage->context, input.backbone, NULL, &stage->backbone);
    }
    return status == L3A_OK
               ? l3a_extract_cached(stage->context, stage->backbone, stage->dataset, &options, &cache, NULL, &stage->train)
               : status;
}

static void check_cached(struct stage *stage, l3a_status status) {
    float values[64];
    require(status == L3A_OK ? stage->train != NULL : !stage->train, "there is a table if all went well");
    if (stage->train) {
        assert_true(l3a_features_width(stage->train) <= 64);
        assert_ok(stage->context, l3a_features_read(stage->train, NULL, 0, 1, values));
        same_as_undisturbed(values, l3a_features_width(stage->train) * sizeof *values);
    }
}

static l3a_status read_archive(struct stage *stage) {
    char name[600];
    snprintf(name, sizeof name, "tar:%s", input.archive);
    l3a_picture picture = {.size = sizeof picture};
    l3a_status status = l3a_dataset_open(stage->context, name, NULL, NULL, &stage->dataset);
    if (status == L3A_OK) {
        status = l3a_dataset_picture(stage->dataset, 0, NULL, &picture);
    }
    if (status == L3A_OK) {
        same_as_undisturbed(picture.pixels, 3 * picture.width * picture.height);
    }
    l3a_picture_free(stage->context, &picture);
    return status;
}

/* A failure that a reader reports becomes the context's, where the loop looks for a text. */
static l3a_status of_reader(struct stage *stage, l3a_status status) {
    if (status != L3A_OK) {
        strcpy(stage->context->error_text, l3a_reader_error_text(stage->reader));
    }
    return status;
}

static int keep_status(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    (void)index;
    (void)tags;
    *(l3a_status *)user = status;
    return status != L3A_OK;
}

static l3a_status open_tagger(struct stage *stage) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = input.backbone};
    return l3a_tagger_open(stage->context, input.tags, &options, &stage->tagger);
}

static l3a_status reload_tagger(struct stage *stage) {
    return l3a_tagger_reload(stage->tagger);
}

static l3a_status tag_picture(struct stage *stage) {
    l3a_tags *tags = NULL;
    const char *const paths[] = {input.picture};
    l3a_status status = l3a_reader_create(stage->tagger, &stage->reader), one = L3A_OK;
    if (status != L3A_OK) {
        strcpy(stage->context->error_text, "no reader");
        return status;
    }
    status = of_reader(stage, l3a_reader_tag_file(stage->reader, input.picture, &tags));
    l3a_tags_free(tags);
    if (status == L3A_OK) {
        status = of_reader(stage, l3a_reader_tag_files(stage->reader, paths, 1, keep_status, &one));
    }
    return status == L3A_ERROR_CANCELLED ? one : status;
}

/* Whatever has failed, the tagger that is open tags, as without the failure. */
static void check_tagger(struct stage *stage, l3a_status status) {
    float scores[CLASSES];
    l3a_tags *tags = NULL;
    if (!stage->tagger) {
        require(status != L3A_OK, "no tagger");
        return;
    }
    l3a_reader_free(stage->reader);
    stage->reader = NULL;
    assert_int_equal(l3a_reader_create(stage->tagger, &stage->reader), L3A_OK);
    assert_ok(stage->context, of_reader(stage, l3a_reader_tag_file(stage->reader, input.picture, &tags)));
    for (size_t i = 0; i < CLASSES; i++) {
        scores[i] = l3a_tags_score(tags, i);
    }
    same_as_undisturbed(scores, sizeof scores);
    l3a_tags_free(tags);
}

/* ---- Scenarios: a sidecar ---- */

static const char old_sidecar[] = "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description "
                                  "xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><dc:subject><rdf:Bag><rdf:li>dog</rdf:li>"
                                  "</rdf:Bag></dc:subject></rdf:Description></rdf:RDF>";

static void put_sidecar(struct stage *stage) {
    (void)stage;
    memory_folder_put(MEMORY_FOLDER "/out.xmp", old_sidecar, strlen(old_sidecar));
}

static l3a_status write_sidecar(struct stage *stage) {
    const char *const remove[] = {"dog"};
    const l3a_sidecar_options options = {.size = sizeof options, .remove = remove, .remove_count = 1};
    int changed;
    return l3a_sidecar_write(stage->context, stage->path, class_names, 2, &options, &changed);
}

/* The sidecar is wholly old or wholly new. */
static void check_sidecar(struct stage *stage, l3a_status status) {
    size_t size;
    char *bytes = bytes_in(MEMORY_FOLDER, "out.xmp", &size);
    (void)stage;
    const bool old = size == strlen(old_sidecar) && memcmp(bytes, old_sidecar, size) == 0;
    require(!old || status != L3A_OK, "the sidecar was not written");
    require(old == (probe.renames == 0), "the sidecar was written before it was put in place");
    if (!old) {
        same_as_undisturbed(bytes, size);
    }
    free(bytes);
}

/* ---- The loop ---- */

struct scenario {
    const char *name;
    void (*prepare)(struct stage *);     /* makes the files, once */
    l3a_status (*begin)(struct stage *); /* opens what the work needs, without failures */
    l3a_status (*act)(struct stage *);
    void (*check)(struct stage *, l3a_status);
    bool looks;   /* asks whether files exist, so that "nothing there" is an answer */
    bool resumes; /* what the check does after a failure depends on the files alone */
};

static const struct scenario scenarios[] = {
    {"open a safetensors table", NULL, NULL, open_safetensors, check_table, false, false},
    {"open .npy files", NULL, NULL, open_npy, check_table, false, false},
    {"save a table", put_old_file, NULL, save_features, check_file, false, false},
    {"save a table as float16, with names", put_old_file, NULL, save_named_halves, check_file, false, false},
    {"join tables", put_old_file, NULL, join_tables, check_file, false, false},
    {"learn by sums", NULL, NULL, learn_by_sums, check_learning, false, false},
    {"learn recursively", NULL, NULL, learn_recursively, check_learning, false, false},
    {"learn with a dynamic threshold", NULL, NULL, learn_with_survey, check_learning, false, false},
    {"learn with phases apart", NULL, NULL, learn_apart, check_learning, false, false},
    {"save a model of phases apart", put_old_file, NULL, save_apart, check_file, false, false},
    {"load a model of phases apart", NULL, NULL, load_apart, check_loaded, false, false},
    {"save a model", put_old_file, NULL, save_model, check_file, false, false},
    {"change a model under its lock", put_old_file, NULL, change_under_lock, check_file, false, false},
    {"save a model through a link", put_old_link, NULL, save_model, check_link, false, false},
    {"load a model", NULL, NULL, load_model, check_loaded, false, false},
    {"merge models of the same phases", NULL, NULL, merge_shards, check_changed, false, false},
    {"merge models of one sum", NULL, NULL, merge_sums, check_changed, false, false},
    {"merge models of other classes", NULL, NULL, merge_classes, check_changed, false, false},
    {"forget classes", NULL, NULL, forget_classes, check_changed, false, false},
    {"forget a phase", NULL, NULL, forget_phase, check_changed, false, false},
    {"forget images", NULL, NULL, forget_images, check_changed, false, false},
    {"run", NULL, NULL, run_afresh, check_run, true, true},
    {"run with crops", NULL, NULL, run_crops, check_crops, true, true},
    {"run other methods", NULL, NULL, run_others, check_others, false, true},
    {"resume in the first model", run_one_phase, open_tables, run_resumed, check_run, true, true},
    {"resume in a partial model", run_three_phases, open_tables, run_resumed, check_run, true, true},
    {"resume dsal", begin_dsal, open_tables, resume_other, check_other, true, true},
    {"resume gkeal", begin_gkeal, open_tables, resume_other, check_other, true, true},
    {"resume slda", begin_slda, open_tables, resume_other, check_other, true, true},
    {"resume der++", begin_derpp, open_tables, resume_other, check_other, true, true},
    {"resume prs", begin_prs, open_tables, resume_other, check_other, true, true},
    {"sweep", NULL, NULL, run_sweep, check_sweep, true, true},
    {"write a report", run_once, NULL, write_report, check_file, true, false},
    {"write a sweep's report", sweep_once, NULL, write_sweep_report, check_file, true, false},
    {"write the page of a training", put_old_file, NULL, write_training, check_file, false, false},
    {"print a table", run_and_join, NULL, print_table, check_nothing, true, false},
    {"write figures", only_run_once, NULL, write_figures, check_figures, true, false},
    {"read the record of a run", run_once, NULL, read_record, check_nothing, false, false},
    {"draw a data set", NULL, NULL, draw_one, check_drawn, true, false},
    {"extract a picture", put_old_file, NULL, extract_one, check_file, true, false},
    {"extract a picture to a cache", NULL, NULL, extract_to_cache, check_cached, true, false},
    {"read a picture in an archive", NULL, NULL, read_archive, check_nothing, false, false},
    {"open a tagger", NULL, NULL, open_tagger, check_tagger, false, false},
    {"reload a tagger", NULL, open_tagger, reload_tagger, check_tagger, false, false},
    {"tag a picture", NULL, open_tagger, tag_picture, check_tagger, false, false},
    {"write a sidecar", put_sidecar, NULL, write_sidecar, check_sidecar, true, false},
};

enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static void check_status(const struct stage *stage, l3a_status status) {
    if (!armed || !probe.met) {
        assert_ok(stage->context, status);
        return;
    }
    if (status != armed->expected && !(armed->may_pass && status == L3A_OK)) {
        print_error("%s: %s\n", l3a_status_name(status), l3a_error_text(stage->context));
        require(false, "the status is wrong");
    }
    require(status == L3A_OK || l3a_error_text(stage->context)[0], "no text");
}

static void check_temporaries(const struct stage *stage) {
    check_leftovers(MEMORY_FOLDER, "a temporary file is left");
    check_leftovers(stage->path, "a temporary file is left");
}

static void stage_free(struct stage *stage) {
    l3a_experiment_free(stage->experiment);
    l3a_reader_free(stage->reader);
    l3a_tagger_free(stage->tagger);
    l3a_backbone_free(stage->backbone);
    l3a_dataset_free(stage->dataset);
    l3a_model_free(stage->model);
    l3a_model_free(stage->other);
    l3a_features_free(stage->train);
    l3a_features_free(stage->test);
    l3a_context_free(stage->context);
}

/* Files of the process. */
static size_t count_open(void) {
    size_t count = memory_folder_open();
    DIR *entries = opendir("/proc/self/fd");
    while (entries && readdir(entries)) {
        count++;
    }
    if (entries) {
        closedir(entries);
    }
    return count;
}

/* The states of files, with the kind of failure, for which the check was made. */
static struct {
    uint64_t sums[1 << 12];
    size_t count;
} checked;

static bool is_new_state(const struct fault *fault) {
    const uint64_t sum = memory_folder_checksum() + (uint64_t)(fault - faults);
    for (size_t i = 0; i < checked.count; i++) {
        if (checked.sums[i] == sum) {
            return false;
        }
    }
    assert_true(checked.count < sizeof checked.sums / sizeof checked.sums[0]);
    checked.sums[checked.count++] = sum;
    return true;
}

/* Returns whether the fault was met. */
static bool attempt(const struct scenario *scenario, const struct fault *fault, size_t number) {
    struct stage stage = {0};
    const size_t files = count_open();
    memset(&probe, 0, sizeof probe);
    probe.scenario = scenario->name;
    armed = fault;
    memory_folder_restore();
    assert_int_equal(create_probed_context(&stage.context), L3A_OK);
    stage.path = OUTPUT;
    if (scenario->begin) {
        assert_ok(stage.context, scenario->begin(&stage));
    }
    probe.number = number;
    probe.renames = 0;
    probe.fault = fault;
    const l3a_status status = scenario->act(&stage);
    probe.fault = NULL;
    check_status(&stage, status);
    check_temporaries(&stage);
    if (status == L3A_OK || !scenario->resumes || is_new_state(fault)) {
        scenario->check(&stage, status);
    }
    stage_free(&stage);
    require(probe.blocks == 0, "memory leaks");
    require(count_open() == files, "a file stays open");
    return probe.met;
}

/* Makes the files that every attempt begins with. */
static void prepare(const struct scenario *scenario) {
    struct stage stage = {.path = OUTPUT};
    memset(&probe, 0, sizeof probe);
    memory_folder_clear(true);
    if (scenario->prepare) {
        assert_int_equal(create_probed_context(&stage.context), L3A_OK);
        scenario->prepare(&stage);
        stage_free(&stage);
        memory_folder_keep();
    }
    checked.count = 0;
}

static void test_scenario(void **state) {
    const struct scenario *scenario = *state;
    const size_t stride = getenv("L3A_QUICK") ? 7 : 1; /* one job of CI meets all of them */
    free(kept);
    kept = NULL;
    prepare(scenario);
    attempt(scenario, NULL, 0);
    for (size_t i = 0; i < FAULTS; i++) {
        if ((scenario->looks && faults[i].code == ENOENT) ||
            (faults[i].operation == LIST && scenario->act == write_sweep_report)) { /* its points cannot be found otherwise */
            continue;
        }
        size_t number = 1;
        while (attempt(scenario, &faults[i], number) && (faults[i].manner != EVERY_OTHER || number < 2)) {
            number += number < 20 ? 1 : stride;
        }
        require(number > 1 || faults[i].operation != ALLOCATE, "the fault was never met");
    }
}

/* ---- By themselves ---- */

static void test_context_without_memory(void **state) {
    (void)state;
    l3a_context *context = NULL;
    memset(&probe, 0, sizeof probe);
    probe.number = 1;
    probe.fault = &faults[0];
    assert_int_equal(create_probed_context(&context), L3A_ERROR_MEMORY);
    assert_null(context);
    assert_int_equal(probe.blocks, 0);
}

/* A record that could not be set leaves the others where they belong. */
static void test_record_without_memory(void **state) {
    (void)state;
    const l3a_options options = small_options();
    memset(&probe, 0, sizeof probe);
    for (size_t number = 1; number < 3; number++) {
        l3a_context *context = NULL;
        l3a_model *model = NULL;
        assert_int_equal(create_probed_context(&context), L3A_OK);
        assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
        assert_ok(context, l3a_model_set_record(model, "first", "1"));
        probe.number = number;
        probe.seen = 0;
        probe.fault = &faults[0];
        assert_int_equal(l3a_model_set_record(model, "second", "2"), L3A_ERROR_MEMORY);
        probe.fault = NULL;
        assert_ok(context, l3a_model_set_record(model, "third", "3"));
        assert_string_equal(l3a_model_record(model, "first"), "1");
        assert_null(l3a_model_record(model, "second"));
        assert_string_equal(l3a_model_record(model, "third"), "3");
        l3a_model_free(model);
        l3a_context_free(context);
        assert_int_equal(probe.blocks, 0);
    }
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1);
    }
    struct CMUnitTest tests[SCENARIOS + 2] = {cmocka_unit_test(test_context_without_memory),
                                              cmocka_unit_test(test_record_without_memory)};
    static struct scenario states[SCENARIOS];
    memcpy(states, scenarios, sizeof states);
    for (size_t i = 0; i < SCENARIOS; i++) {
        tests[2 + i] = (struct CMUnitTest){scenarios[i].name, test_scenario, NULL, NULL, &states[i]};
    }
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
