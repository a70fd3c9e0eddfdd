/* File operations of a process that must not write, because another one does. Reading is real. Everything else succeeds and has no
 * effect: an output is /dev/null, and a lock is held by whoever asks. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int open_nothing(void) {
    return posix_files.open("/dev/null", O_RDWR, 0);
}

/* A folder is opened only to sync it. */
static int mute_open(const char *path, int flags, mode_t mode) {
    return flags & (O_WRONLY | O_RDWR | O_CREAT | O_DIRECTORY) ? open_nothing() : posix_files.open(path, flags, mode);
}

static ssize_t mute_write(int file, const void *bytes, size_t count, off_t offset) {
    (void)file;
    (void)bytes;
    (void)offset;
    return (ssize_t)count;
}

static int mute_open_lock(const char *path) {
    (void)path;
    return open_nothing();
}

static int mute_lock(int file, const char *path) {
    (void)file;
    (void)path;
    return 0;
}

/* Without its lock, a reader could see half a change. Nothing is written under a lock for writing. */
static int mute_lock_bytes(int file, enum byte_lock kind, off_t offset, off_t count) {
    return kind == BYTES_WRITE ? 0 : posix_files.lock_bytes(file, kind, offset, count);
}

static int mute_length(int file, off_t bytes) {
    (void)file;
    (void)bytes;
    return 0;
}

static int mute_sync(int file) {
    (void)file;
    return 0;
}

static int mute_start_sync(int file, off_t offset, off_t count) {
    (void)file;
    (void)offset;
    (void)count;
    return 0;
}

static int mute_rename(const char *from, const char *to) {
    (void)from;
    (void)to;
    return 0;
}

static int mute_remove(const char *path) {
    (void)path;
    return 0;
}

static int mute_make_folder(const char *path, mode_t mode) {
    (void)path;
    (void)mode;
    return 0;
}

/* The file of a lock may never have been there. */
static int mute_describe(const char *path, file_description *description) {
    const size_t length = strlen(path), ending = strlen(lock_ending);
    if (length > ending && strcmp(path + length - ending, lock_ending) == 0) {
        *description = (file_description){0};
        return 0;
    }
    return posix_files.describe(path, description);
}

static int mute_set_owner(int file, uid_t owner, gid_t group) {
    (void)file;
    (void)owner;
    (void)group;
    return 0;
}

static int mute_set_mode(int file, mode_t mode) {
    (void)file;
    (void)mode;
    return 0;
}

static ssize_t mute_read(int file, void *bytes, size_t count, off_t offset) {
    return posix_files.read(file, bytes, count, offset);
}

static int mute_size(int file, uint64_t *bytes) {
    return posix_files.size(file, bytes);
}

static int mute_close(int file) {
    return posix_files.close(file);
}

static ssize_t mute_read_link(const char *path, char *text, size_t capacity) {
    return posix_files.read_link(path, text, capacity);
}

static int mute_resolve(const char *path, char *text, size_t capacity) {
    return posix_files.resolve(path, text, capacity);
}

static ssize_t mute_random(void *bytes, size_t count, unsigned flags) {
    return posix_files.random(bytes, count, flags);
}

static int mute_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    return posix_files.list(path, each, user);
}

const file_operations mute_files = {.open = mute_open,
                                    .read = mute_read,
                                    .write = mute_write,
                                    .size = mute_size,
                                    .open_lock = mute_open_lock,
                                    .lock = mute_lock,
                                    .lock_bytes = mute_lock_bytes,
                                    .truncate = mute_length,
                                    .sync = mute_sync,
                                    .touch = mute_sync,
                                    .reserve = mute_length,
                                    .start_sync = mute_start_sync,
                                    .close = mute_close,
                                    .rename = mute_rename,
                                    .remove = mute_remove,
                                    .make_folder = mute_make_folder,
                                    .describe = mute_describe,
                                    .read_link = mute_read_link,
                                    .resolve = mute_resolve,
                                    .set_owner = mute_set_owner,
                                    .set_mode = mute_set_mode,
                                    .random = mute_random,
                                    .list = mute_list};
