#include "memory_folder.h"

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { HANDLE = 1 << 20, NODES = 256, HANDLES = 64 };

/* A file, a folder or a symbolic link, whose bytes are its target. A file without a path was removed while it was open. */
struct node {
    char *path;
    mode_t mode; /* 0: the place is free */
    uint64_t inode;
    char *bytes;
    size_t size, capacity;
    size_t opened;
    int locked_by; /* a handle; -1: nobody */
};

static struct node nodes[NODES], kept_nodes[NODES];
static char root_path[] = MEMORY_FOLDER;
static struct node root = {.path = root_path, .mode = S_IFDIR | 0777, .locked_by = -1};
static struct node *handles[HANDLES];
static uint64_t last_inode;

static bool is_ours(const char *path) {
    const size_t length = strlen(MEMORY_FOLDER);
    return strncmp(path, MEMORY_FOLDER, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Whether a path says the same, perhaps with more slashes. */
static bool is_at(const struct node *node, const char *path) {
    const char *own = node->path;
    while (own && *own && *own == *path) {
        own++;
        path++;
        while (own[-1] == '/' && *path == '/') {
            path++;
        }
    }
    return own && !*own && (!*path || strcmp(path, "/") == 0);
}

static struct node *find(const char *path) {
    for (size_t i = 0; i < NODES; i++) {
        if (is_at(&nodes[i], path)) {
            return &nodes[i];
        }
    }
    return is_at(&root, path) ? &root : NULL;
}

/* A copy without the slashes that say nothing. */
static char *copy_path(const char *path) {
    char *copy = strdup(path), *to = copy;
    assert_non_null(copy);
    for (; *path; path++) {
        if (*path != '/' || (path[1] != '/' && path[1])) {
            *to++ = *path;
        }
    }
    *to = '\0';
    return copy;
}

/* What a path leads to through a link, which names something in its own folder. */
static struct node *follow(const char *path) {
    struct node *node = find(path);
    if (node && S_ISLNK(node->mode)) {
        const size_t length = (size_t)(strrchr(path, '/') + 1 - path);
        char target[512];
        assert_true(length + node->size < sizeof target);
        memcpy(target, path, length);
        memcpy(target + length, node->bytes, node->size);
        target[length + node->size] = '\0';
        node = find(target);
    }
    return node;
}

static bool has_folder(const char *path) {
    char *folder = copy_path(path);
    *strrchr(folder, '/') = '\0';
    const struct node *node = find(folder);
    free(folder);
    return node && S_ISDIR(node->mode);
}

static struct node *make(const char *path, mode_t mode) {
    struct node *node = nodes;
    while (node < nodes + NODES && node->mode) {
        node++;
    }
    assert_true(node < nodes + NODES);
    *node = (struct node){.path = copy_path(path), .mode = mode, .inode = ++last_inode, .locked_by = -1};
    return node;
}

static void forget(struct node *node) {
    free(node->path);
    free(node->bytes);
    *node = (struct node){0};
}

/* Takes the name; the bytes stay while the file is open. */
static void take_name(struct node *node) {
    free(node->path);
    node->path = NULL;
    if (!node->opened) {
        forget(node);
    }
}

static void resize(struct node *node, size_t size) {
    if (size > node->capacity) {
        node->capacity = size + node->capacity;
        node->bytes = realloc(node->bytes, node->capacity);
        assert_non_null(node->bytes);
    }
    if (size > node->size) {
        memset(node->bytes + node->size, 0, size - node->size);
    }
    node->size = size;
}

static int fail_with(int code) {
    errno = code;
    return -1;
}

/* ---- The operations ---- */

static int memory_open(const char *path, int flags, mode_t mode) {
    if (!is_ours(path)) {
        return posix_files.open(path, flags, mode);
    }
    struct node *node = flags & O_NOFOLLOW || (flags & O_CREAT && flags & O_EXCL) ? find(path) : follow(path);
    if (node && flags & O_CREAT && flags & O_EXCL) {
        return fail_with(EEXIST);
    }
    if (node && S_ISLNK(node->mode)) {
        return fail_with(ELOOP);
    }
    if (node && S_ISDIR(node->mode) && (flags & O_ACCMODE) != O_RDONLY) {
        return fail_with(EISDIR);
    }
    if (node && !S_ISDIR(node->mode) && flags & O_DIRECTORY) {
        return fail_with(ENOTDIR);
    }
    if (!node && (!(flags & O_CREAT) || !has_folder(path))) {
        return fail_with(ENOENT);
    }
    node = node ? node : make(path, S_IFREG | mode);
    if (flags & O_TRUNC) {
        resize(node, 0);
    }
    int handle = 0;
    while (handle < HANDLES && handles[handle]) {
        handle++;
    }
    assert_true(handle < HANDLES);
    handles[handle] = node;
    node->opened++;
    return HANDLE + handle;
}

/* NULL: a file of the system. */
static struct node *opened(int file) {
    assert_true(file < HANDLE || handles[file - HANDLE]);
    return file < HANDLE ? NULL : handles[file - HANDLE];
}

static int memory_close(int file) {
    struct node *node = opened(file);
    if (!node) {
        return posix_files.close(file);
    }
    node->locked_by = node->locked_by == file ? -1 : node->locked_by;
    handles[file - HANDLE] = NULL;
    if (--node->opened == 0 && !node->path) {
        forget(node);
    }
    return 0;
}

static ssize_t memory_read(int file, void *bytes, size_t count, off_t offset) {
    const struct node *node = opened(file);
    if (!node) {
        return posix_files.read(file, bytes, count, offset);
    }
    const size_t first = (size_t)offset, left = first < node->size ? node->size - first : 0, used = count < left ? count : left;
    if (used) {
        memcpy(bytes, node->bytes + first, used);
    }
    return (ssize_t)used;
}

static ssize_t memory_write(int file, const void *bytes, size_t count, off_t offset) {
    struct node *node = opened(file);
    if (!node) {
        return posix_files.write(file, bytes, count, offset);
    }
    const size_t end = (size_t)offset + count;
    if (end > node->size) {
        resize(node, end);
    }
    if (count) {
        memcpy(node->bytes + offset, bytes, count);
    }
    return (ssize_t)count;
}

static int memory_size(int file, uint64_t *bytes) {
    const struct node *node = opened(file);
    if (!node) {
        return posix_files.size(file, bytes);
    }
    *bytes = node->size;
    return S_ISDIR(node->mode) ? fail_with(EISDIR) : 0;
}

static int memory_open_lock(const char *path) {
    if (!is_ours(path)) {
        return posix_files.open_lock(path);
    }
    const struct node *node = find(path);
    return node && (!S_ISREG(node->mode) || node->size) ? fail_with(EEXIST)
                                                        : memory_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
}

static int memory_lock(int file, const char *path) {
    struct node *node = opened(file);
    if (!node) {
        return posix_files.lock(file, path);
    }
    if (node->locked_by >= 0 && node->locked_by != file) {
        return fail_with(EDEADLK);
    }
    node->locked_by = file;
    return find(path) == node ? 0 : fail_with(ESTALE);
}

/* The locks of one program with one open file. */
static int memory_lock_bytes(int file, enum byte_lock kind, off_t offset, off_t count) {
    const struct node *node = opened(file);
    return node ? 0 : posix_files.lock_bytes(file, kind, offset, count);
}

static int memory_truncate(int file, off_t bytes) {
    struct node *node = opened(file);
    if (!node) {
        return posix_files.truncate(file, bytes);
    }
    resize(node, (size_t)bytes);
    return 0;
}

static int memory_sync(int file) {
    const struct node *node = opened(file);
    return node ? 0 : posix_files.sync(file);
}

static int memory_reserve(int file, off_t bytes) {
    const struct node *node = opened(file);
    return node ? 0 : posix_files.reserve(file, bytes);
}

static int memory_touch(int file) {
    const struct node *node = opened(file);
    return node ? 0 : posix_files.touch(file);
}

static int memory_start_sync(int file, off_t offset, off_t count) {
    const struct node *node = opened(file);
    return node ? 0 : posix_files.start_sync(file, offset, count);
}

static int memory_rename(const char *from, const char *to) {
    if (!is_ours(from)) {
        return posix_files.rename(from, to);
    }
    struct node *node = find(from), *old = find(to);
    if (!node || !has_folder(to)) {
        return fail_with(ENOENT);
    }
    assert_true(S_ISREG(node->mode));
    if (old && S_ISDIR(old->mode)) {
        return fail_with(EISDIR);
    }
    if (old == node) {
        return 0;
    }
    if (old) {
        take_name(old);
    }
    free(node->path);
    node->path = copy_path(to);
    return 0;
}

static int memory_remove(const char *path) {
    if (!is_ours(path)) {
        return posix_files.remove(path);
    }
    struct node *node = find(path);
    if (!node || S_ISDIR(node->mode)) {
        return fail_with(node ? EISDIR : ENOENT);
    }
    take_name(node);
    return 0;
}

static int memory_make_folder(const char *path, mode_t mode) {
    if (!is_ours(path)) {
        return posix_files.make_folder(path, mode);
    }
    if (find(path)) {
        return fail_with(EEXIST);
    }
    if (!has_folder(path)) {
        return fail_with(ENOENT);
    }
    make(path, S_IFDIR | mode);
    return 0;
}

static int memory_describe(const char *path, file_description *description) {
    if (!is_ours(path)) {
        return posix_files.describe(path, description);
    }
    const struct node *node = follow(path);
    if (!node) {
        return fail_with(ENOENT);
    }
    *description = (file_description){
        .mode = node->mode, .owner = getuid(), .group = getgid(), .device = UINT64_MAX, .inode = node->inode, .size = node->size};
    return 0;
}

static ssize_t memory_read_link(const char *path, char *text, size_t capacity) {
    if (!is_ours(path)) {
        return posix_files.read_link(path, text, capacity);
    }
    const struct node *node = find(path);
    if (!node || !S_ISLNK(node->mode)) {
        return fail_with(node ? EINVAL : ENOENT);
    }
    const size_t length = node->size < capacity ? node->size : capacity;
    memcpy(text, node->bytes, length);
    return (ssize_t)length;
}

static int memory_resolve(const char *path, char *text, size_t capacity) {
    if (!is_ours(path)) {
        return posix_files.resolve(path, text, capacity);
    }
    const struct node *node = follow(path);
    const char *resolved = node ? node->path : NULL;
    if (!resolved || strlen(resolved) >= capacity) {
        return fail_with(resolved ? ERANGE : ENOENT);
    }
    strcpy(text, resolved);
    return 0;
}

static int memory_set_owner(int file, uid_t owner, gid_t group) {
    const struct node *node = opened(file);
    return node ? 0 : posix_files.set_owner(file, owner, group);
}

static int memory_set_mode(int file, mode_t mode) {
    struct node *node = opened(file);
    if (!node) {
        return posix_files.set_mode(file, mode);
    }
    node->mode = S_IFREG | mode;
    return 0;
}

/* The name of a node in this folder; NULL: it is elsewhere. */
static const char *name_in(const struct node *node, const char *folder) {
    const size_t length = strlen(folder);
    const bool inside = node->path && strncmp(node->path, folder, length) == 0 && node->path[length] == '/';
    return inside && !strchr(node->path + length + 1, '/') ? node->path + length + 1 : NULL;
}

static int memory_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    if (!is_ours(path)) {
        return posix_files.list(path, each, user);
    }
    const struct node *folder = find(path);
    if (!folder || !S_ISDIR(folder->mode)) {
        return fail_with(folder ? ENOTDIR : ENOENT);
    }
    if (each(".", user) || each("..", user)) {
        return 0;
    }
    for (size_t i = 0; i < NODES; i++) {
        const char *name = name_in(&nodes[i], folder->path);
        if (name && each(name, user)) {
            break;
        }
    }
    return 0;
}

static ssize_t memory_random(void *bytes, size_t count, unsigned flags) {
    return posix_files.random(bytes, count, flags);
}

const file_operations memory_folder = {.open = memory_open,
                                       .read = memory_read,
                                       .write = memory_write,
                                       .size = memory_size,
                                       .open_lock = memory_open_lock,
                                       .lock = memory_lock,
                                       .lock_bytes = memory_lock_bytes,
                                       .truncate = memory_truncate,
                                       .sync = memory_sync,
                                       .reserve = memory_reserve,
                                       .start_sync = memory_start_sync,
                                       .close = memory_close,
                                       .rename = memory_rename,
                                       .remove = memory_remove,
                                       .make_folder = memory_make_folder,
                                       .describe = memory_describe,
                                       .read_link = memory_read_link,
                                       .resolve = memory_resolve,
                                       .set_owner = memory_set_owner,
                                       .set_mode = memory_set_mode,
                                       .touch = memory_touch,
                                       .random = memory_random,
                                       .list = memory_list};

/* ---- For the tests ---- */

size_t memory_folder_open(void) {
    size_t count = 0;
    for (size_t i = 0; i < HANDLES; i++) {
        count += handles[i] != NULL;
    }
    return count;
}

/* What is there keeps its permissions. */
static void put(const char *path, mode_t mode, const void *bytes, size_t count) {
    struct node *node = find(path);
    assert_true(is_ours(path) && (!node || (node->mode & S_IFMT) == (mode & S_IFMT)));
    node = node ? node : make(path, mode);
    resize(node, 0);
    resize(node, count);
    memcpy(node->bytes, bytes, count);
}

void memory_folder_put(const char *path, const void *bytes, size_t count) {
    put(path, S_IFREG | 0666, bytes, count);
}

void memory_folder_link(const char *path, const char *target) {
    put(path, S_IFLNK | 0777, target, strlen(target));
}

static char *get(const struct node *node, size_t *count) {
    char *bytes = node ? malloc(node->size + 1) : NULL;
    if (bytes) {
        memcpy(bytes, node->size ? node->bytes : "", node->size);
        bytes[node->size] = '\0';
        *count = node->size;
    }
    return bytes;
}

char *memory_folder_get(const char *path, size_t *count) {
    return get(follow(path), count);
}

char *memory_folder_get_link(const char *path) {
    size_t count;
    const struct node *node = find(path);
    return get(node && S_ISLNK(node->mode) ? node : NULL, &count);
}

size_t memory_folder_count(const char *folder, const char *ending) {
    size_t count = 0;
    for (size_t i = 0; i < NODES; i++) {
        const char *name = name_in(&nodes[i], folder);
        const size_t length = name ? strlen(name) : 0, tail = strlen(ending);
        count += name && length >= tail && strcmp(name + length - tail, ending) == 0;
    }
    return count;
}

uint64_t memory_folder_checksum(void) {
    uint64_t sum = 0; /* in any order */
    for (size_t i = 0; i < NODES; i++) {
        if (nodes[i].path) {
            const uint64_t name = XXH3_64bits(nodes[i].path, strlen(nodes[i].path));
            sum += XXH3_64bits_withSeed(nodes[i].size ? nodes[i].bytes : "", nodes[i].size, name + nodes[i].mode);
        }
    }
    return sum;
}

static void clear(struct node *all) {
    for (size_t i = 0; i < NODES; i++) {
        forget(&all[i]);
    }
}

static void copy(struct node *to, const struct node *from) {
    clear(to);
    for (size_t i = 0; i < NODES; i++) {
        size_t size;
        if (from[i].path) {
            to[i] = from[i];
            to[i].path = strdup(from[i].path);
            to[i].bytes = get(&from[i], &size);
            to[i].capacity = from[i].size;
        }
    }
}

void memory_folder_keep(void) {
    assert_int_equal(memory_folder_open(), 0);
    copy(kept_nodes, nodes);
}

void memory_folder_restore(void) {
    assert_int_equal(memory_folder_open(), 0);
    copy(nodes, kept_nodes);
}

void memory_folder_clear(bool kept) {
    memset(handles, 0, sizeof handles);
    clear(nodes);
    if (kept) {
        clear(kept_nodes);
    }
}
