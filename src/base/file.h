/* Files. Every operation goes through one table, so that a test can make any of them fail. Reading is in file.c, writing in
 * output.c, locks are in lock.c. */
#ifndef L3A_FILE_H
#define L3A_FILE_H

#include "base/context.h"

#include <sys/types.h>

typedef struct file_description {
    mode_t mode; /* with the bits of its kind */
    uid_t owner;
    gid_t group;
    uint64_t device, inode;
} file_description;

typedef struct file_operations {
    int (*open)(const char *path, int flags, mode_t mode); /* never waits, not even for the other end of a pipe */
    ssize_t (*read)(int file, void *bytes, size_t count, off_t offset);
    ssize_t (*write)(int file, const void *bytes, size_t count, off_t offset);
    int (*size)(int file, uint64_t *bytes); /* EISDIR, ESPIPE: neither a folder nor a pipe or device has one */
    /* Opens the empty file that stands for a lock, or makes it; never through a symbolic link. EEXIST: something else is there. */
    int (*open_lock)(const char *path);
    /* EWOULDBLOCK: another process has it. ESTALE: the path leads to another file, or to none, since this one was opened. */
    int (*lock)(int file, const char *path);
    int (*truncate)(int file, off_t bytes);
    int (*sync)(int file);
    int (*close)(int file);
    int (*rename)(const char *from, const char *to);
    int (*remove)(const char *path);
    int (*make_folder)(const char *path, mode_t mode);
    int (*describe)(const char *path, file_description *description);    /* of what symbolic links lead to */
    ssize_t (*read_link)(const char *path, char *text, size_t capacity); /* EINVAL: not a symbolic link */
    int (*set_owner)(int file, uid_t owner, gid_t group);
    int (*set_mode)(int file, mode_t mode);
    ssize_t (*random)(void *bytes, size_t count, unsigned flags);
    /* The names in a folder, in no order, until `each` returns non-zero. */
    int (*list)(const char *path, int (*each)(const char *name, void *user), void *user);
} file_operations;

extern const file_operations posix_files;

/* The error for an operation that failed with this errno: "PATH: cannot ACTION: reason", with a hint where there is one. */
l3a_status fail_system(l3a_context *context, const char *path, const char *action, int code);

typedef struct input_file {
    l3a_context *context;
    char *path;
    int file;
    uint64_t size;
} input_file;

l3a_status input_open(l3a_context *context, const char *path, input_file *input);
/* Exactly count bytes, or an error that names the offset. */
l3a_status input_read(const input_file *input, uint64_t offset, void *bytes, size_t count);
l3a_status input_checksum(const input_file *input, uint64_t offset, uint64_t count, uint64_t *checksum);
void input_close(input_file *input);
/* A whole file that is meant to be small, with a zero byte after its end. */
l3a_status read_whole(l3a_context *context, const char *path, uint64_t limit, char **text, size_t *length);
/* L3A_ERROR_NOT_FOUND is no error here: *exists says. */
l3a_status file_exists(l3a_context *context, const char *path, bool *exists);

struct text_list;
/* Adds the names in a folder, sorted by bytes, without "." and "..". */
l3a_status list_folder(l3a_context *context, const char *path, struct text_list *names);

/* Where an output goes: the file that the path leads to, symbolic links followed. What exists there is a regular file; anything
 * else is refused. */
typedef struct output_target {
    char *path;
    bool exists;
    file_description old; /* where it exists */
} output_target;

l3a_status target_find(l3a_context *context, const char *path, output_target *target);
void target_free(l3a_context *context, output_target *target);
/* The mode that a new file of the same content gets: no wider than the old one's. */
mode_t target_mode(const output_target *target);
/* ".NAME" and the ending, in the folder of the target; a long name is cut, and made unique by its checksum. */
l3a_status path_beside(l3a_context *context, const char *target, const char *ending, char **path);

extern const char lock_ending[];
/* The lock of a target (lock.c). `name` is what the user called it. */
l3a_status lock_target(l3a_context *context, const char *target, const char *name, bool wait, l3a_lock **lock);
/* Whether a lock taken from this context is the target's. */
l3a_status lock_is_held(l3a_context *context, const char *target, bool *held);

typedef struct output_file {
    l3a_context *context;
    char *path, *temporary;
    output_target target;
    l3a_lock *lock; /* NULL where the context had it before */
    int file;
} output_file;

l3a_status output_open(l3a_context *context, const char *path, output_file *output);
l3a_status output_write(const output_file *output, uint64_t offset, const void *bytes, size_t count);
/* Sync, rename, sync the folder. The output is closed, whether it succeeds or not. */
l3a_status output_commit(output_file *output);
/* Closes and removes what was written; harmless after a commit. */
void output_discard(output_file *output);
/* Removes the temporary files and locks that killed processes left in a folder of l3a's own. */
l3a_status remove_leftovers(l3a_context *context, const char *folder);
l3a_status write_whole(l3a_context *context, const char *path, const char *text, size_t length);
/* A new file, without the syncs and the renaming: for one of many of which none counts until the last is there. */
l3a_status write_new(l3a_context *context, const char *path, const void *bytes, size_t length);
l3a_status remove_file(l3a_context *context, const char *path);
l3a_status make_folder(l3a_context *context, const char *path);
l3a_status join_path(l3a_context *context, const char *folder, const char *name, char **path);

#endif
