#include "base/file.h"

#include "base/text_index.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int posix_open(const char *path, int flags, mode_t mode) {
    return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
}

/* Some network file systems can lock only files that are open for writing, and a file left by another user may be read-only for
 * us. */
static int posix_open_lock(const char *path) {
    struct stat about;
    int file = posix_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (file < 0 && errno == EACCES) { /* the file of another user can still be locked */
        file = posix_open(path, O_RDONLY | O_NOFOLLOW, 0);
        errno = file < 0 && errno == ENOENT ? EACCES : errno; /* there is none, and none can be made */
    }
    if (file < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO)) {
        errno = EEXIST;
    } else if (file >= 0 && (fstat(file, &about) || !S_ISREG(about.st_mode) || about.st_size)) {
        close(file);
        errno = EEXIST;
        file = -1;
    }
    return file;
}

static int posix_size(int file, uint64_t *bytes) {
    struct stat about;
    if (fstat(file, &about)) {
        return -1;
    }
    if (!S_ISREG(about.st_mode)) {
        errno = S_ISDIR(about.st_mode) ? EISDIR : ESPIPE;
        return -1;
    }
    *bytes = (uint64_t)about.st_size;
    return 0;
}

static bool is_same_file(const struct stat *left, const struct stat *right) {
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

/* Whether one of our descriptors has locked this file. The lock belongs to the open file, so a copy of the descriptor that has it
 * locks it again, and only that. The copy also keeps the number from becoming another file's in the meantime. */
static bool has_locked(int number, const struct stat *wanted) {
    struct stat about;
    if (fstat(number, &about) || !is_same_file(&about, wanted)) {
        return false;
    }
    const int copy = fcntl(number, F_DUPFD_CLOEXEC, 0);
    const bool locked =
        copy >= 0 && fstat(copy, &about) == 0 && is_same_file(&about, wanted) && flock(copy, LOCK_EX | LOCK_NB) == 0;
    if (copy >= 0) {
        close(copy);
    }
    return locked;
}

/* Whether this process holds the lock of an open file, by any thread and context, or since before it was forked. It needs no
 * number of a process, which other machines and containers use as well. */
static bool is_own_lock(int file) {
    enum { MOST = 1 << 16 }; /* if the system does not list them */
    struct stat wanted;
    bool own = false;
    if (fstat(file, &wanted)) {
        return false;
    }
    DIR *folder = opendir("/proc/self/fd");
    for (const struct dirent *entry; folder && !own && (entry = readdir(folder));) {
        const int number = entry->d_name[0] == '.' ? file : atoi(entry->d_name);
        own = number != file && has_locked(number, &wanted);
    }
    if (folder) {
        closedir(folder);
    }
    const long limit = folder ? 0 : sysconf(_SC_OPEN_MAX);
    for (int number = 0; !own && number < limit && number < MOST; number++) {
        own = number != file && has_locked(number, &wanted);
    }
    return own;
}

/* Between opening and locking, another process may have removed the file or renamed it to its final name. */
static int posix_lock(int file, const char *path) {
    struct stat held, there;
    if (flock(file, LOCK_EX | LOCK_NB)) {
        const int code = errno;
        errno = code == EWOULDBLOCK && is_own_lock(file) ? EDEADLK : code;
        return -1;
    }
    if (fstat(file, &held) || lstat(path, &there) || !is_same_file(&held, &there)) {
        errno = ESTALE;
        return -1;
    }
    return 0;
}

/* Locks of the open file, not of the process, which would lose them as soon as it closed any descriptor of the same file. For
 * others, they are the same: a program with locks of its process (F_SETLK) and this one lock each other out. */
static int posix_lock_bytes(int file, enum byte_lock kind, off_t offset, off_t count) {
    struct flock range = {.l_type = kind == BYTES_UNLOCK ? F_UNLCK
                                    : kind == BYTES_READ ? F_RDLCK
                                                         : F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = offset,
                          .l_len = count};
    if (fcntl(file, kind == BYTES_TEST ? F_OFD_GETLK : F_OFD_SETLK, &range)) {
        errno = errno == EACCES ? EAGAIN : errno; /* POSIX has both */
        return -1;
    }
    if (kind == BYTES_TEST && range.l_type != F_UNLCK) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

static int64_t nanoseconds(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int posix_describe(const char *path, file_description *description) {
    struct stat about;
    if (stat(path, &about)) {
        return -1;
    }
    *description = (file_description){.mode = about.st_mode,
                                      .owner = about.st_uid,
                                      .group = about.st_gid,
                                      .device = about.st_dev,
                                      .inode = about.st_ino,
                                      .size = (uint64_t)about.st_size,
                                      .modified = nanoseconds(about.st_mtim),
                                      .changed = nanoseconds(about.st_ctim)};
    return 0;
}

static int posix_resolve(const char *path, char *text, size_t capacity) {
    char *resolved = realpath(path, NULL);
    const bool fits = resolved && strlen(resolved) < capacity;
    if (fits) {
        strcpy(text, resolved);
    } else if (resolved) {
        errno = ERANGE;
    }
    free(resolved);
    return fits ? 0 : -1;
}

static int posix_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    DIR *folder = opendir(path);
    if (!folder) {
        return -1;
    }
    int stop = 0, code = 0;
    while (!stop) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        code = entry ? 0 : errno;
        stop = !entry || each(entry->d_name, user);
    }
    closedir(folder);
    errno = code;
    return code ? -1 : 0;
}

static int posix_touch(int file) {
    return futimens(file, NULL);
}

static int posix_reserve(int file, off_t bytes) {
    return fallocate(file, 0, 0, bytes);
}

static int posix_start_sync(int file, off_t offset, off_t count) {
    return sync_file_range(file, offset, count, SYNC_FILE_RANGE_WRITE);
}

const file_operations posix_files = {.open = posix_open,
                                     .read = pread,
                                     .write = pwrite,
                                     .size = posix_size,
                                     .open_lock = posix_open_lock,
                                     .lock = posix_lock,
                                     .lock_bytes = posix_lock_bytes,
                                     .truncate = ftruncate,
                                     .sync = fsync,
                                     .reserve = posix_reserve,
                                     .start_sync = posix_start_sync,
                                     .close = close,
                                     .rename = rename,
                                     .remove = unlink,
                                     .make_folder = mkdir,
                                     .describe = posix_describe,
                                     .read_link = readlink,
                                     .resolve = posix_resolve,
                                     .set_owner = fchown,
                                     .set_mode = fchmod,
                                     .touch = posix_touch,
                                     .random = getrandom,
                                     .list = posix_list};

bool is_same_content(const file_description *left, const file_description *right) {
    return left->device == right->device && left->inode == right->inode && left->size == right->size &&
           left->modified == right->modified;
}

l3a_status fail_system(l3a_context *context, const char *path, const char *action, int code) {
    const char *hint = NULL;
    l3a_status status = L3A_ERROR_IO;
    switch (code) {
    case ENOSPC:
    case EDQUOT:
        status = L3A_ERROR_FULL;
        hint = "the disk is full: free some space, or write to another folder";
        break;
    case EFBIG:
        status = L3A_ERROR_FULL;
        hint = "the file would exceed the file size limit: see 'ulimit -f', or write to another file system";
        break;
    case EACCES:
    case EPERM: hint = "check the permissions of the file and of its folder"; break;
    case EROFS: hint = "the file system is read-only: write to another folder"; break;
    case ENOENT:
    case ENOTDIR:
        status = L3A_ERROR_NOT_FOUND;
        hint = "check the path";
        break;
    case EISDIR: hint = "this is a folder: give the path of a file"; break;
    case ELOOP: hint = "a symbolic link is in the way: remove it, or use another path"; break;
    default: break;
    }
    char reason[128];
    const char *text = strerror_r(code, reason, sizeof reason);
    return fail(context, status, hint, "%s: cannot %s: %s", path, action, text);
}

l3a_status input_open(l3a_context *context, const char *path, input_file *input) {
    l3a_status status = L3A_OK;
    memset(input, 0, sizeof *input);
    input->context = context;
    input->file = -1;
    TRY(copy_text(context, path, strlen(path), &input->path));
    input->file = context->files->open(path, O_RDONLY, 0);
    const int code = input->file < 0 || context->files->size(input->file, &input->size) ? errno : 0;
    FAIL_IF(code == ESPIPE || code == ENXIO, context, L3A_ERROR_IO, "save its output to a file, and give the path of that file",
            "%s: is a pipe, a device or a socket, not a regular file", path);
    if (code) {
        status = fail_system(context, path, input->file < 0 ? "open" : "read", code);
    }
done:
    if (status != L3A_OK) {
        input_close(input);
    }
    return status;
}

bool input_try_read(const input_file *input, uint64_t offset, void *bytes, size_t count, struct read_failure *failure) {
    char *to = bytes;
    while (count) {
        const ssize_t got = input->context->files->read(input->file, to, count, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            *failure = (struct read_failure){got < 0 ? errno : 0, offset, count};
            return false;
        }
        to += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return true;
}

l3a_status input_fail(const input_file *input, const struct read_failure *failure) {
    return failure->code ? fail_system(input->context, input->path, "read", failure->code)
                         : fail(input->context, L3A_ERROR_TRUNCATED, "copy or create the file again",
                                "%s: ends at byte %llu, %zu bytes too early", input->path, (unsigned long long)failure->offset,
                                failure->missing);
}

l3a_status input_read(const input_file *input, uint64_t offset, void *bytes, size_t count) {
    struct read_failure failure;
    return input_try_read(input, offset, bytes, count, &failure) ? L3A_OK : input_fail(input, &failure);
}

l3a_status input_scan(const input_file *input, uint64_t offset, uint64_t count, input_taker *take, void *user) {
    enum { CHUNK = 1 << 20 };
    l3a_status status = L3A_OK;
    char *chunk = NULL;
    TRY(allocate(input->context, count < CHUNK ? (size_t)count : CHUNK, 1, &chunk));
    while (count) {
        const size_t size = count < CHUNK ? (size_t)count : CHUNK;
        TRY(input_read(input, offset, chunk, size));
        take(user, chunk, size);
        offset += size;
        count -= size;
    }
done:
    release(input->context, chunk);
    return status;
}

static void add_to_checksum(void *user, const char *bytes, size_t count) {
    XXH3_64bits_update(user, bytes, count);
}

l3a_status input_checksum(const input_file *input, uint64_t offset, uint64_t count, uint64_t *checksum) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    const l3a_status status = input_scan(input, offset, count, add_to_checksum, &state);
    *checksum = XXH3_64bits_digest(&state);
    return status;
}

void input_close(input_file *input) {
    if (!input->context) {
        return;
    }
    if (input->file >= 0) {
        input->context->files->close(input->file);
    }
    release(input->context, input->path);
    memset(input, 0, sizeof *input);
    input->file = -1;
}

l3a_status read_whole(l3a_context *context, const char *path, uint64_t limit, char **text, size_t *length) {
    l3a_status status = L3A_OK;
    char *made = NULL;
    input_file input;
    TRY(input_open(context, path, &input));
    FAIL_IF(input.size > limit, context, L3A_ERROR_FORMAT, "check that this is the right file",
            "%s: has %llu bytes; at most %llu are expected", path, (unsigned long long)input.size, (unsigned long long)limit);
    TRY(allocate(context, (size_t)input.size + 1, 1, &made));
    TRY(input_read(&input, 0, made, (size_t)input.size));
    made[input.size] = '\0';
    *text = made;
    *length = (size_t)input.size;
    made = NULL;
done:
    release(context, made);
    input_close(&input);
    return status;
}

struct listing {
    l3a_context *context;
    text_list *names;
    l3a_status status;
};

static int add_name(const char *name, void *user) {
    struct listing *listing = user;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
        listing->status = text_list_add(listing->context, listing->names, name, strlen(name));
    }
    return listing->status != L3A_OK;
}

l3a_status list_folder(l3a_context *context, const char *path, text_list *names) {
    struct listing listing = {context, names, L3A_OK};
    const size_t before = names->count;
    if (context->files->list(path, add_name, &listing)) {
        return fail_system(context, path, "list this folder", errno);
    }
    if (names->count > before) {
        sort_texts(names->items + before, names->count - before);
    }
    return listing.status;
}

l3a_status read_start(l3a_context *context, const char *path, char *start, size_t capacity, size_t *count) {
    l3a_status status = L3A_OK;
    input_file input;
    TRY(input_open(context, path, &input));
    *count = input.size < capacity ? (size_t)input.size : capacity;
    TRY(input_read(&input, 0, start, *count));
done:
    input_close(&input);
    return status;
}

l3a_status file_exists(l3a_context *context, const char *path, bool *exists) {
    const int file = context->files->open(path, O_RDONLY, 0);
    if (file >= 0) {
        context->files->close(file);
        *exists = true;
        return L3A_OK;
    }
    *exists = false;
    return errno == ENOENT || errno == ENOTDIR ? L3A_OK : fail_system(context, path, "open", errno);
}

l3a_status remove_file(l3a_context *context, const char *path) {
    return context->files->remove(path) && errno != ENOENT ? fail_system(context, path, "remove", errno) : L3A_OK;
}

l3a_status make_folder(l3a_context *context, const char *path) {
    if (context->files->make_folder(path, 0777)) {
        return errno == EEXIST ? L3A_OK : fail_system(context, path, "create this folder", errno);
    }
    return sync_folder_of(context, path);
}

l3a_status join_path(l3a_context *context, const char *folder, const char *name, char **path) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    const l3a_status status = allocate(context, size, 1, path);
    if (status == L3A_OK) {
        snprintf(*path, size, "%s/%s", folder, name);
    }
    return status;
}

bool stays_below(const char *file) {
    if (!file[0] || file[0] == '/') {
        return false;
    }
    for (const char *part = file; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (!part[2] || part[2] == '/')) {
            return false;
        }
    }
    return true;
}

l3a_status resolve_path(l3a_context *context, const char *path, char **resolved) {
    char text[PATH_MAX];
    return context->files->resolve(path, text, sizeof text) ? fail_system(context, path, "find", errno)
                                                            : copy_text(context, text, strlen(text), resolved);
}
