/* Files for the fuzz targets: the input and all files that are written are kept in memory. */
#include "fuzz.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { HANDLE = 1000, FILES = 16, NAME = 64, ROWS_LIMIT = 1 << 18, ALLOCATION = 80 << 20, ALLOCATION_RATIO = 1024 };

struct memory_file {
    char name[NAME];
    const uint8_t *bytes; /* of an input; NULL: the file was written */
    uint8_t *written;
    size_t count, capacity;
};

/* The input is the first file, with an empty name. */
static struct memory_file all[FILES];
static size_t all_count, input_count;
static bool every_path;

void must(bool condition) {
    if (!condition) {
        abort();
    }
}

static bool ends_with(const char *path, const char *name) {
    const size_t length = strlen(path), tail = strlen(name);
    return tail && length >= tail && strcmp(path + length - tail, name) == 0 && (length == tail || path[length - tail - 1] == '/');
}

/* The file for a path: the one of that name, or an input whose name the path ends with. */
static size_t find_file(const char *path) {
    for (size_t i = 1; i < all_count; i++) {
        if (strcmp(all[i].name, path) == 0) {
            return i;
        }
    }
    for (size_t i = 1; i < all_count; i++) {
        if (all[i].bytes && ends_with(path, all[i].name)) {
            return i;
        }
    }
    return every_path ? 0 : FILES;
}

/* In the place of a file that was removed, if there is one. */
static size_t new_file(const char *path) {
    size_t file = 1;
    while (file < all_count && (all[file].name[0] || all[file].bytes)) {
        file++;
    }
    file = all_count ? file : 0;
    if (file == FILES || strlen(path) >= NAME) {
        return FILES;
    }
    free(all[file].written);
    all[file] = (struct memory_file){0};
    strcpy(all[file].name, path);
    all_count += file == all_count;
    return file;
}

static int memory_open(const char *path, int flags, mode_t mode) {
    (void)mode;
    size_t file = find_file(path);
    if (flags & O_CREAT && (file == FILES || all[file].bytes)) {
        file = new_file(path);
    }
    errno = file == FILES ? ENOENT : 0;
    return file == FILES ? -1 : HANDLE + (int)file;
}

static struct memory_file *file_of(int handle) {
    must(handle >= HANDLE && handle < HANDLE + (int)all_count);
    return &all[handle - HANDLE];
}

static ssize_t memory_read(int handle, void *bytes, size_t count, off_t offset) {
    const struct memory_file *file = file_of(handle);
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    const size_t start = (size_t)offset < file->count ? (size_t)offset : file->count;
    const size_t size = count < file->count - start ? count : file->count - start;
    if (size) {
        memcpy(bytes, (file->bytes ? file->bytes : file->written) + start, size);
    }
    return (ssize_t)size;
}

static ssize_t memory_write(int handle, const void *bytes, size_t count, off_t offset) {
    struct memory_file *file = file_of(handle);
    must(!file->bytes && offset >= 0);
    const size_t end = (size_t)offset + count;
    if (end > file->capacity) {
        file->capacity = 2 * end;
        file->written = realloc(file->written, file->capacity);
        must(file->written != NULL);
    }
    if ((size_t)offset > file->count) {
        memset(file->written + file->count, 0, (size_t)offset - file->count);
    }
    memcpy(file->written + offset, bytes, count);
    file->count = end > file->count ? end : file->count;
    return (ssize_t)count;
}

static int memory_size(int handle, uint64_t *bytes) {
    *bytes = file_of(handle)->count;
    return 0;
}

static int memory_truncate(int handle, off_t bytes) {
    struct memory_file *file = file_of(handle);
    must(!file->bytes);
    file->count = (size_t)bytes < file->count ? (size_t)bytes : file->count;
    return 0;
}

static int memory_lock(int handle, const char *path) {
    (void)path;
    file_of(handle);
    return 0;
}

static int memory_lock_bytes(int handle, enum byte_lock kind, off_t offset, off_t count) {
    (void)kind;
    (void)offset;
    (void)count;
    file_of(handle);
    return 0;
}

static int memory_done(int handle) {
    file_of(handle);
    return 0;
}

static int memory_rename(const char *from, const char *to) {
    const size_t source = find_file(from), target = find_file(to);
    must(source < FILES && !all[source].bytes && strlen(to) < NAME);
    if (target < FILES && target != source && !all[target].bytes) {
        all[target].name[0] = '\0';
    }
    strcpy(all[source].name, to);
    return 0;
}

static int memory_remove(const char *path) {
    const size_t file = find_file(path);
    if (file < FILES && !all[file].bytes) {
        all[file].name[0] = '\0';
    }
    return 0;
}

static int memory_make_folder(const char *path, mode_t mode) {
    (void)path;
    (void)mode;
    return 0;
}

static int memory_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    (void)path;
    for (size_t i = 1; i < all_count; i++) {
        if (all[i].name[0] && each(all[i].name, user)) {
            break;
        }
    }
    return 0;
}

static int memory_open_lock(const char *path) {
    return memory_open(path, O_RDWR | O_CREAT, 0666);
}

/* Only files that were written: the input stands for every other path. */
static int memory_describe(const char *path, file_description *description) {
    const size_t file = find_file(path);
    if (file == FILES || all[file].bytes) {
        errno = ENOENT;
        return -1;
    }
    *description = (file_description){.mode = S_IFREG | 0644};
    return 0;
}

static ssize_t memory_read_link(const char *path, char *text, size_t capacity) {
    (void)text;
    (void)capacity;
    errno = find_file(path) == FILES ? ENOENT : EINVAL;
    return -1;
}

/* There are no links. */
static int memory_resolve(const char *path, char *text, size_t capacity) {
    return snprintf(text, capacity, "/%s", path) < (int)capacity ? 0 : (errno = ERANGE, -1);
}

static int memory_set_owner(int handle, uid_t owner, gid_t group) {
    (void)owner;
    (void)group;
    return memory_done(handle);
}

static int memory_set_mode(int handle, mode_t mode) {
    (void)mode;
    return memory_done(handle);
}

/* The same name for every temporary file, so that an input always does the same. */
static ssize_t memory_random(void *bytes, size_t count, unsigned flags) {
    (void)flags;
    memset(bytes, 7, count);
    return (ssize_t)count;
}

static file_operations memory_files;

static void *allocate_in_proportion(void *user, size_t bytes) {
    (void)user;
    must(bytes <= ALLOCATION + ALLOCATION_RATIO * input_count);
    return malloc(bytes);
}

static void release_memory(void *user, void *memory) {
    (void)user;
    free(memory);
}

static l3a_context *make_context(void) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    memory_files = posix_files;
    memory_files.open = memory_open;
    memory_files.read = memory_read;
    memory_files.write = memory_write;
    memory_files.size = memory_size;
    memory_files.lock = memory_lock;
    memory_files.lock_bytes = memory_lock_bytes;
    memory_files.truncate = memory_truncate;
    memory_files.sync = memory_done;
    memory_files.close = memory_done;
    memory_files.rename = memory_rename;
    memory_files.remove = memory_remove;
    memory_files.make_folder = memory_make_folder;
    memory_files.open_lock = memory_open_lock;
    memory_files.describe = memory_describe;
    memory_files.read_link = memory_read_link;
    memory_files.resolve = memory_resolve;
    memory_files.set_owner = memory_set_owner;
    memory_files.set_mode = memory_set_mode;
    memory_files.random = memory_random;
    memory_files.list = memory_list;
    options.threads = 1;
    options.memory_limit = (uint64_t)64 << 20;
    options.allocate = allocate_in_proportion;
    options.release = release_memory;
    must(l3a_context_create(&options, &context) == L3A_OK);
    context->files = &memory_files;
    return context;
}

static void clear_files(void) {
    for (size_t i = 0; i < all_count; i++) {
        free(all[i].written);
    }
    memset(all, 0, sizeof all);
    all_count = 0;
}

void add_file(const char *path, const void *bytes, size_t count) {
    const size_t file = new_file(path);
    if (file < FILES) {
        all[file].bytes = bytes;
        all[file].count = count;
    }
}

l3a_context *context_over(const uint8_t *bytes, size_t count) {
    static const uint8_t nothing;
    clear_files();
    every_path = true;
    input_count = count;
    add_file("", count ? bytes : &nothing, count);
    return make_context();
}

l3a_context *context_over_folder(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    const char *at = (const char *)bytes, *const end = at + count;
    every_path = false;
    while (count && at && (at = memmem(at, (size_t)(end - at), "@@", 2))) {
        const char *const name = at + 2, *const line = memchr(name, '\n', (size_t)(end - name));
        const char *const next = line ? memmem(line + 1, (size_t)(end - line - 1), "@@", 2) : NULL;
        char text[NAME];
        if (line && line - name < NAME - 1 && !memchr(name, '\0', (size_t)(line - name))) {
            snprintf(text, sizeof text, "%.*s", (int)(line - name), name);
            add_file(text, line + 1, (size_t)((next ? next : end) - line - 1));
        }
        at = next;
    }
    return context;
}

float *read_table(l3a_features *features) {
    const size_t rows = l3a_features_rows(features);
    const size_t width = l3a_view_rows(l3a_features_views(features)) * l3a_features_width(features);
    if (rows > ROWS_LIMIT || width > ROWS_LIMIT / rows) {
        return NULL;
    }
    float *values = malloc(rows * width * sizeof *values);
    must(values != NULL);
    for (size_t i = 0; l3a_features_labels(features) && i < rows * l3a_features_class_count(features); i++) {
        const int8_t label = l3a_features_labels(features)[i];
        must(label >= -1 && label <= 1);
    }
    if (l3a_features_read(features, NULL, 0, rows, values) != L3A_OK) {
        free(values);
        return NULL;
    }
    return values;
}

bool repair_header(uint8_t *bytes, size_t count) {
    static const char key[] = "\"xxh3.header\":\"";
    uint64_t length = 0;
    if (count < 8) {
        return false;
    }
    for (size_t i = 8; i-- > 0;) {
        length = length << 8 | bytes[i];
    }
    char *header = (char *)bytes + 8, *sum = length <= count - 8 ? memmem(header, (size_t)length, key, sizeof key - 1) : NULL;
    if (!sum || (size_t)(header + length - sum) < sizeof key - 1 + 16) {
        return false;
    }
    sum += sizeof key - 1;
    char digits[17];
    memset(sum, '0', 16);
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)XXH3_64bits(header, (size_t)length));
    memcpy(sum, digits, 16);
    return true;
}

void with_repaired_header(const uint8_t *bytes, size_t count, void (*run)(const uint8_t *bytes, size_t count)) {
    run(bytes, count);
    uint8_t *repaired = malloc(count + 1);
    must(repaired != NULL);
    if (count) {
        memcpy(repaired, bytes, count);
    }
    if (repair_header(repaired, count) && memcmp(repaired, bytes, count) != 0) {
        run(repaired, count);
    }
    free(repaired);
}
