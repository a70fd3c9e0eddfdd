#include "extract/cache.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DIGITS = 32 };

struct entry {
    char *path;
    uint64_t bytes;
    int64_t used;
    bool whole; /* a feature file, not a part of one */
};

struct entries {
    struct entry *items;
    size_t count, capacity;
};

static bool is_whole(const char *name) {
    return strcmp(name + DIGITS, ".safetensors") == 0;
}

static bool is_entry(const char *name) {
    return strspn(name, "0123456789abcdef") == DIGITS && (is_whole(name) || strcmp(name + DIGITS, ".safetensors.part") == 0);
}

static void entries_free(l3a_context *context, struct entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        release(context, entries->items[i].path);
    }
    release(context, entries->items);
}

/* A file that has just gone is none. */
static l3a_status entries_list(l3a_context *context, const char *folder, struct entries *entries) {
    l3a_status status = L3A_OK;
    text_list names = {0};
    file_description about;
    TRY(list_folder(context, folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        if (!is_entry(names.items[i])) {
            continue;
        }
        TRY(grow_array(context, &entries->items, &entries->capacity, entries->count + 1, sizeof *entries->items));
        struct entry *entry = &entries->items[entries->count];
        *entry = (struct entry){.whole = is_whole(names.items[i])};
        TRY(join_path(context, folder, names.items[i], &entry->path));
        entries->count++;
        if (context->files->describe(entry->path, &about) == 0 && S_ISREG(about.mode)) {
            entry->bytes = about.size;
            entry->used = about.modified;
        }
    }
done:
    text_list_clear(context, &names);
    return status;
}

static int compare_use(const void *left, const void *right) {
    const struct entry *one = left, *other = right;
    return one->used != other->used ? (one->used > other->used) - (one->used < other->used) : strcmp(one->path, other->path);
}

/* Removes a file unless a process uses it, or cannot be asked. A feature file that is used is locked for reading (cache_use), from
 * before the lock of its key is freed; one that is being extracted is locked by its extraction (part_file.c). */
static l3a_status remove_entry(l3a_context *context, const struct entry *entry, bool *gone) {
    const file_operations *files = context->files;
    l3a_status status = L3A_OK;
    l3a_lock *lock = NULL;
    *gone = false;
    const int file = files->open(entry->path, O_RDWR | O_NOFOLLOW, 0);
    if (file < 0) {
        return L3A_OK;
    }
    if (entry->whole) {
        const l3a_status locked = lock_target(context, entry->path, entry->path, FAIL_AT_ONCE, &lock);
        TRY(locked == L3A_ERROR_MEMORY ? locked : L3A_OK);
    }
    const bool free = entry->whole ? lock && !files->lock_bytes(file, BYTES_WRITE, 0, 0) : !files->lock(file, entry->path);
    *gone = free && !files->remove(entry->path);
done:
    l3a_lock_free(lock);
    files->close(file);
    return status;
}

l3a_status cache_trim(l3a_context *context, const char *folder, uint64_t limit) {
    l3a_status status = L3A_OK;
    struct entries entries = {0};
    uint64_t bytes = 0;
    TRY(remove_leftovers(context, folder));
    const l3a_status listed = entries_list(context, folder, &entries);
    TRY(listed == L3A_ERROR_MEMORY ? listed : L3A_OK); /* where nothing can be listed, nothing can be removed */
    for (size_t i = 0; i < entries.count; i++) {
        bytes += entries.items[i].bytes;
    }
    if (entries.count) {
        qsort(entries.items, entries.count, sizeof *entries.items, compare_use);
    }
    for (size_t i = 0; i < entries.count && bytes > limit; i++) {
        bool gone;
        TRY(remove_entry(context, &entries.items[i], &gone));
        bytes -= gone ? entries.items[i].bytes : 0;
    }
done:
    entries_free(context, &entries);
    return status;
}

/* Who cannot lock or touch the file can read it nevertheless, even after another process has removed it. */
void cache_use(l3a_features *features) {
    const file_operations *files = features->context->files;
    files->lock_bytes(features->input.file, BYTES_READ, 0, 0);
    files->touch(features->input.file);
}

l3a_status cache_make_folder(l3a_context *context, const char *folder) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(copy_text(context, folder, strlen(folder), &path));
    for (char *slash = strchr(path + (path[0] == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        TRY(make_folder(context, path));
        *slash = '/';
    }
    TRY(make_folder(context, path));
done:
    release(context, path);
    return status;
}

static l3a_status copy_folder(l3a_context *context, const char *start, const char *end, char *text, size_t capacity) {
    const int length = snprintf(text, capacity, "%s%s", start, end);
    return length >= 0 && (size_t)length < capacity ? L3A_OK
                                                    : fail(context, L3A_ERROR_ARGUMENT, "set L3A_CACHE to a shorter path",
                                                           "the path of the cache is too long: %s%s", start, end);
}

l3a_status l3a_cache_folder(l3a_context *context, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    const char *own = secure_getenv("L3A_CACHE"), *shared = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    NEED(context, context, text);
    if (own && own[0]) {
        TRY(copy_folder(context, own, "", text, capacity));
    } else if (shared && shared[0] == '/') { /* a relative path is to be ignored, its specification says */
        TRY(copy_folder(context, shared, "/l3a", text, capacity));
    } else {
        FAIL_IF(!home || !home[0], context, L3A_ERROR_NOT_FOUND, "set L3A_CACHE to a folder",
                "there is no folder for cached features: neither L3A_CACHE, XDG_CACHE_HOME nor HOME is set");
        TRY(copy_folder(context, home, "/.cache/l3a", text, capacity));
    }
done:
    return status;
}

l3a_status l3a_cache_measure(l3a_context *context, const char *folder, uint64_t *files, uint64_t *bytes) {
    l3a_status status = L3A_OK;
    struct entries entries = {0};
    bool exists;
    NEED(context, context, folder, files, bytes);
    *files = *bytes = 0;
    TRY(file_exists(context, folder, &exists));
    TRY(exists ? entries_list(context, folder, &entries) : L3A_OK);
    for (size_t i = 0; i < entries.count; i++) {
        *bytes += entries.items[i].bytes;
    }
    *files = entries.count;
done:
    entries_free(context, &entries);
    return status;
}
