#include "support.h"

#include "power_loss.h"

#include "base/random.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, DESCRIPTORS = 1024, NO_FILE = -1, A_FOLDER = -2 };

/* ---- The record ---- */

/* A name of a file, from the folder on. file: its number, NO_FILE or A_FOLDER. */
struct name {
    char *path;
    int file;
};

enum kind { WRITE, LENGTH, NAMES, SYNC };

struct operation {
    enum kind kind;
    int file;
    uint64_t offset; /* of a write; the new length */
    size_t count;
    char *bytes;
    char *folder;         /* whose names change, or that is synced */
    struct name names[2]; /* that change at once */
    size_t name_count;
    size_t synced; /* the operation that made it certain; SIZE_MAX: none */
};

/* Names, each once. */
struct names {
    struct name *items;
    size_t count, capacity;
};

static struct {
    char *folder;
    struct operation *operations;
    size_t count, capacity, base; /* base: operations that make what was there at the beginning */
    struct names now;
    int files;
    int file_of[DESCRIPTORS];     /* of an open descriptor; NO_FILE: not ours */
    char *folder_of[DESCRIPTORS]; /* the same of an open folder */
    size_t left;                  /* operations until the process ends */
} disk;

static void *checked(void *memory) {
    assert_non_null(memory);
    return memory;
}

static struct name *find_name(struct names *names, const char *path) {
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i].path, path) == 0) {
            return &names->items[i];
        }
    }
    return NULL;
}

static void set_name(struct names *names, const char *path, int file) {
    struct name *found = find_name(names, path);
    if (found) {
        found->file = file;
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = 2 * names->capacity + 16;
        names->items = checked(realloc(names->items, names->capacity * sizeof *names->items));
    }
    names->items[names->count++] = (struct name){checked(strdup(path)), file};
}

static int file_named(struct names *names, const char *path) {
    const struct name *found = find_name(names, path);
    return found ? found->file : NO_FILE;
}

static void forget_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++) {
        free(names->items[i].path);
    }
    free(names->items);
    *names = (struct names){0};
}

/* The path from the folder on; "" for the folder itself. NULL: it is elsewhere. */
static const char *inside(const char *path) {
    const size_t length = disk.folder ? strlen(disk.folder) : 0;
    if (!length || strncmp(path, disk.folder, length) != 0 || (path[length] && path[length] != '/')) {
        return NULL;
    }
    return path[length] ? path + length + 1 : path + length;
}

/* The folder of a path, to be freed. */
static char *parent_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return checked(slash ? strndup(path, (size_t)(slash - path)) : strdup(""));
}

static struct operation *record(enum kind kind, int file) {
    if (disk.count == disk.capacity) {
        disk.capacity = 2 * disk.capacity + 64;
        disk.operations = checked(realloc(disk.operations, disk.capacity * sizeof *disk.operations));
    }
    struct operation *operation = &disk.operations[disk.count++];
    *operation = (struct operation){.kind = kind, .file = file, .synced = SIZE_MAX};
    return operation;
}

static void record_write(int file, uint64_t offset, const void *bytes, size_t count) {
    struct operation *operation = record(WRITE, file);
    operation->offset = offset;
    operation->count = count;
    operation->bytes = checked(malloc(count + 1));
    memcpy(operation->bytes, bytes, count);
}

static void record_length(int file, uint64_t length) {
    record(LENGTH, file)->offset = length;
}

static void record_names(const char *path, int file, const char *second, int second_file) {
    struct operation *operation = record(NAMES, NO_FILE);
    operation->folder = parent_of(path);
    operation->names[operation->name_count++] = (struct name){checked(strdup(path)), file};
    set_name(&disk.now, path, file);
    if (second) {
        operation->names[operation->name_count++] = (struct name){checked(strdup(second)), second_file};
        set_name(&disk.now, second, second_file);
    }
}

/* file: NO_FILE for that of a folder. */
static void record_sync(int file, const char *folder) {
    const size_t at = disk.count;
    struct operation *sync = record(SYNC, file);
    sync->folder = folder ? checked(strdup(folder)) : NULL;
    for (size_t i = 0; i < at; i++) {
        struct operation *earlier = &disk.operations[i];
        const bool covered = earlier->kind == NAMES ? folder && strcmp(earlier->folder, folder) == 0
                                                    : earlier->kind != SYNC && !folder && earlier->file == file;
        earlier->synced = covered && earlier->synced == SIZE_MAX ? at : earlier->synced;
    }
}

size_t disk_operations(void) {
    return disk.count - disk.base;
}

void disk_end_after(size_t operations) {
    disk.left = operations;
}

/* Whether the process has ended before this operation. */
static bool ended(void) {
    errno = EIO;
    if (disk.left == 0) {
        return true;
    }
    disk.left -= disk.left != SIZE_MAX;
    return false;
}

/* ---- The operations ---- */

static void know(int descriptor, int file, const char *folder) {
    assert_true(descriptor < DESCRIPTORS);
    free(disk.folder_of[descriptor]);
    disk.file_of[descriptor] = file;
    disk.folder_of[descriptor] = folder ? checked(strdup(folder)) : NULL;
}

static int file_at(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS && disk.folder ? disk.file_of[descriptor] : NO_FILE;
}

/* A file that was opened may be new. */
static int opened(const char *path, bool existed, int descriptor) {
    const char *own = inside(path);
    struct stat about;
    if (descriptor < 0) {
        return descriptor;
    }
    assert_true(descriptor < DESCRIPTORS);
    if (!own) {
        know(descriptor, NO_FILE, NULL);
    } else if (fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode)) {
        know(descriptor, NO_FILE, own);
    } else {
        if (!existed) {
            record_names(own, disk.files++, NULL, NO_FILE);
        }
        know(descriptor, file_named(&disk.now, own), NULL);
    }
    return descriptor;
}

static bool is_there(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0;
}

static int recorded_open(const char *path, int flags, mode_t mode) {
    const bool existed = is_there(path);
    return flags & O_CREAT && !existed && ended() ? -1 : opened(path, existed, posix_files.open(path, flags, mode));
}

static int recorded_open_lock(const char *path) {
    const bool existed = is_there(path);
    return !existed && ended() ? -1 : opened(path, existed, posix_files.open_lock(path));
}

static ssize_t recorded_write(int file, const void *bytes, size_t count, off_t offset) {
    const ssize_t put = ended() ? -1 : posix_files.write(file, bytes, count, offset);
    if (put > 0 && file_at(file) >= 0) {
        record_write(file_at(file), (uint64_t)offset, bytes, (size_t)put);
    }
    return put;
}

static int recorded_truncate(int file, off_t bytes) {
    const int done = ended() ? -1 : posix_files.truncate(file, bytes);
    if (!done && file_at(file) >= 0) {
        record_length(file_at(file), (uint64_t)bytes);
    }
    return done;
}

/* A reserve makes a file longer, and never shorter. */
static int recorded_reserve(int file, off_t bytes) {
    uint64_t before = 0;
    posix_files.size(file, &before);
    const int done = ended() ? -1 : posix_files.reserve(file, bytes);
    if (!done && file_at(file) >= 0 && (uint64_t)bytes > before) {
        record_length(file_at(file), (uint64_t)bytes);
    }
    return done;
}

/* Real syncs would only take time. */
static int recorded_sync(int file) {
    if (ended()) {
        return -1;
    }
    if (file_at(file) >= 0) {
        record_sync(file_at(file), NULL);
    } else if (file < DESCRIPTORS && disk.folder_of[file]) {
        record_sync(NO_FILE, disk.folder_of[file]);
    }
    return 0;
}

/* Nothing is certain because of it. */
static int recorded_start_sync(int file, off_t offset, off_t count) {
    (void)file, (void)offset, (void)count;
    return 0;
}

static int recorded_close(int file) {
    know(file, NO_FILE, NULL);
    return posix_files.close(file);
}

static int recorded_rename(const char *from, const char *to) {
    const char *own = inside(from), *target = inside(to);
    const int done = ended() ? -1 : posix_files.rename(from, to);
    if (!done && own && target) {
        const int file = file_named(&disk.now, own);
        record_names(target, file, own, NO_FILE);
    }
    return done;
}

static int recorded_remove(const char *path) {
    const int done = ended() ? -1 : posix_files.remove(path);
    if (!done && inside(path)) {
        record_names(inside(path), NO_FILE, NULL, NO_FILE);
    }
    return done;
}

static int recorded_make_folder(const char *path, mode_t mode) {
    const int done = !is_there(path) && ended() ? -1 : posix_files.make_folder(path, mode);
    if (!done && inside(path)) {
        record_names(inside(path), A_FOLDER, NULL, NO_FILE);
    }
    return done;
}

static ssize_t recorded_read(int file, void *bytes, size_t count, off_t offset) {
    return posix_files.read(file, bytes, count, offset);
}

static int recorded_size(int file, uint64_t *bytes) {
    return posix_files.size(file, bytes);
}

static int recorded_lock(int file, const char *path) {
    return posix_files.lock(file, path);
}

static int recorded_lock_bytes(int file, enum byte_lock kind, off_t offset, off_t count) {
    return posix_files.lock_bytes(file, kind, offset, count);
}

static int recorded_describe(const char *path, file_description *description) {
    return posix_files.describe(path, description);
}

static ssize_t recorded_read_link(const char *path, char *text, size_t capacity) {
    return posix_files.read_link(path, text, capacity);
}

static int recorded_resolve(const char *path, char *text, size_t capacity) {
    return posix_files.resolve(path, text, capacity);
}

static int recorded_set_owner(int file, uid_t owner, gid_t group) {
    return posix_files.set_owner(file, owner, group);
}

static int recorded_set_mode(int file, mode_t mode) {
    return posix_files.set_mode(file, mode);
}

static ssize_t recorded_random(void *bytes, size_t count, unsigned flags) {
    return posix_files.random(bytes, count, flags);
}

static int recorded_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    return posix_files.list(path, each, user);
}

const file_operations recorded_files = {.open = recorded_open,
                                        .read = recorded_read,
                                        .write = recorded_write,
                                        .size = recorded_size,
                                        .open_lock = recorded_open_lock,
                                        .lock = recorded_lock,
                                        .lock_bytes = recorded_lock_bytes,
                                        .truncate = recorded_truncate,
                                        .sync = recorded_sync,
                                        .reserve = recorded_reserve,
                                        .start_sync = recorded_start_sync,
                                        .close = recorded_close,
                                        .rename = recorded_rename,
                                        .remove = recorded_remove,
                                        .make_folder = recorded_make_folder,
                                        .describe = recorded_describe,
                                        .read_link = recorded_read_link,
                                        .resolve = recorded_resolve,
                                        .set_owner = recorded_set_owner,
                                        .set_mode = recorded_set_mode,
                                        .random = recorded_random,
                                        .list = recorded_list};

/* ---- The beginning ---- */

static int record_entry(const char *path, const struct stat *about, int kind, struct FTW *where) {
    const char *own = inside(path);
    (void)kind, (void)where;
    if (!own[0]) {
        return 0;
    }
    if (S_ISDIR(about->st_mode)) {
        record_names(own, A_FOLDER, NULL, NO_FILE);
    } else {
        size_t size;
        char *bytes = read_bytes(path, &size);
        record_names(own, disk.files, NULL, NO_FILE);
        record_write(disk.files, 0, bytes, size);
        record_sync(disk.files++, NULL);
        free(bytes);
    }
    char *folder = parent_of(own);
    record_sync(NO_FILE, folder);
    free(folder);
    return 0;
}

void disk_begin(const char *folder) {
    disk_forget();
    disk.folder = checked(strdup(folder));
    disk.left = SIZE_MAX;
    for (size_t i = 0; i < DESCRIPTORS; i++) {
        disk.file_of[i] = NO_FILE;
    }
    assert_int_equal(nftw(folder, record_entry, 16, FTW_PHYS), 0);
    disk.base = disk.count;
}

void disk_forget(void) {
    for (size_t i = 0; i < disk.count; i++) {
        struct operation *operation = &disk.operations[i];
        free(operation->bytes);
        free(operation->folder);
        for (size_t j = 0; j < operation->name_count; j++) {
            free(operation->names[j].path);
        }
    }
    for (size_t i = 0; i < DESCRIPTORS; i++) {
        free(disk.folder_of[i]);
    }
    forget_names(&disk.now);
    free(disk.operations);
    free(disk.folder);
    memset(&disk, 0, sizeof disk);
}

/* ---- After the power has come back ---- */

struct content {
    char *bytes;
    size_t size;
};

/* Depends on the course, the operation and what is asked about it. In every second course, little is lost. */
static bool chance(unsigned loss, size_t operation, size_t question) {
    return random_bits(1000 + loss, operation * 4096 + question) % (loss % 2 ? 16 : 2) != 0;
}

static void set_length(struct content *content, uint64_t length) {
    content->bytes = checked(realloc(content->bytes, (size_t)length + 1));
    if (length > content->size) {
        memset(content->bytes + content->size, 0, (size_t)length - content->size);
    }
    content->size = (size_t)length;
}

/* Whether the disk has the names of an operation that was not synced. */
static bool keeps_names(unsigned loss, size_t index) {
    return loss == ALL_KEPT || loss == ONLY_NAMES || loss == NAMES_AND_LENGTHS || loss == LATER_SECTORS ||
           loss == EARLIER_SECTORS || (loss >= SOME && chance(loss, index, 0));
}

static bool keeps_length(unsigned loss, size_t index) {
    return loss == ALL_KEPT || loss == NAMES_AND_LENGTHS || loss == ONLY_BYTES || loss == LATER_SECTORS ||
           loss == EARLIER_SECTORS || (loss >= SOME && chance(loss, index, 1));
}

/* sector: of the write, counted from 0. */
static bool keeps_sector(unsigned loss, size_t index, size_t sector) {
    return loss == ALL_KEPT || loss == ONLY_BYTES || (loss == LATER_SECTORS && sector) || (loss == EARLIER_SECTORS && !sector) ||
           (loss >= SOME && chance(loss, index, 2 + sector));
}

/* Without the new length, only what is in front of the old end can be seen. */
static void apply_write(struct content *content, const struct operation *operation, size_t index, bool certain, unsigned loss) {
    const uint64_t end = operation->offset + operation->count;
    if (end > content->size && (certain || keeps_length(loss, index))) {
        set_length(content, end);
    }
    for (uint64_t at = operation->offset, next; at < end; at = next) {
        const uint64_t sector = at / SECTOR - operation->offset / SECTOR;
        next = (at / SECTOR + 1) * SECTOR < end ? (at / SECTOR + 1) * SECTOR : end;
        const uint64_t visible = next < content->size ? next : content->size;
        if (at < visible && (certain || keeps_sector(loss, index, (size_t)sector))) {
            memcpy(content->bytes + at, operation->bytes + (at - operation->offset), (size_t)(visible - at));
        }
    }
}

static void apply(size_t index, bool certain, unsigned loss, struct content *contents, struct names *names) {
    const struct operation *operation = &disk.operations[index];
    if (operation->kind == WRITE) {
        apply_write(&contents[operation->file], operation, index, certain, loss);
    } else if (operation->kind == LENGTH && (certain || keeps_length(loss, index))) {
        set_length(&contents[operation->file], operation->offset);
    } else if (operation->kind == NAMES && (certain || keeps_names(loss, index))) {
        for (size_t i = 0; i < operation->name_count; i++) {
            set_name(names, operation->names[i].path, operation->names[i].file);
        }
    }
}

static int remove_inner(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)kind;
    return where->level ? remove(path) : 0;
}

static int compare_paths(const void *left, const void *right) {
    return strcmp(((const struct name *)left)->path, ((const struct name *)right)->path);
}

/* A name in a folder that is not there is lost with it. */
static bool has_folder(struct names *names, const char *path) {
    char *folder = parent_of(path);
    const bool there = !folder[0] || (file_named(names, folder) == A_FOLDER && has_folder(names, folder));
    free(folder);
    return there;
}

static void put_back(const struct name *name, const struct content *contents, XXH3_state_t *sum) {
    char *path = path_in(disk.folder, name->path);
    XXH3_64bits_update(sum, name->path, strlen(name->path) + 1);
    if (name->file == A_FOLDER) {
        assert_int_equal(mkdir(path, 0777), 0);
    } else {
        const struct content *content = &contents[name->file];
        XXH3_64bits_update(sum, &content->size, sizeof content->size);
        XXH3_64bits_update(sum, content->size ? content->bytes : "", content->size);
        write_bytes(path, content->size ? content->bytes : "", content->size);
    }
    free(path);
}

uint64_t disk_cut(size_t count, unsigned loss) {
    struct content *contents = checked(calloc((size_t)disk.files + 1, sizeof *contents));
    struct names names = {0};
    XXH3_state_t sum;
    const size_t until = disk.base + count;
    assert_true(until <= disk.count);
    for (size_t i = 0; i < until; i++) {
        apply(i, disk.operations[i].synced < until, loss, contents, &names);
    }
    nftw(disk.folder, remove_inner, 16, FTW_DEPTH | FTW_PHYS);
    if (names.count) {
        qsort(names.items, names.count, sizeof *names.items, compare_paths); /* a folder comes before what it holds */
    }
    XXH3_64bits_reset(&sum);
    for (size_t i = 0; i < names.count; i++) {
        if (names.items[i].file != NO_FILE && has_folder(&names, names.items[i].path)) {
            put_back(&names.items[i], contents, &sum);
        }
    }
    for (int i = 0; i < disk.files; i++) {
        free(contents[i].bytes);
    }
    free(contents);
    forget_names(&names);
    return XXH3_64bits_digest(&sum);
}
