/* Files. Every operation goes through one table, so that a test can make any of them fail. file.c reads, output.c writes, and
 * lock.c locks. */
#ifndef L3A_FILE_H
#define L3A_FILE_H

#include "base/context.h"

#include <sys/types.h>

/* All files have little-endian numbers. They are written from memory and read into it as they are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "l3a's files have little-endian numbers, and nothing converts them");

typedef struct file_description {
    mode_t mode; /* including the file type bits */
    uid_t owner;
    gid_t group;
    uint64_t device, inode;
    uint64_t size;    /* of a regular file, in bytes */
    int64_t modified; /* when its content changed last, in nanoseconds */
    int64_t changed;  /* when anything about it changed last, which cannot be set to another time */
} file_description;

/* Whether both are of the same file with the same content. The number of a file that was removed is used again. */
bool is_same_content(const file_description *left, const file_description *right);

/* What lock_bytes does with a range of bytes. */
enum byte_lock {
    BYTES_UNLOCK,
    BYTES_READ,  /* locks out those who write */
    BYTES_WRITE, /* locks out everybody else */
    BYTES_TEST   /* fails as BYTES_WRITE would, and locks nothing */
};

typedef struct file_operations {
    int (*open)(const char *path, int flags, mode_t mode); /* never waits, not even for the other end of a pipe */
    ssize_t (*read)(int file, void *bytes, size_t count, off_t offset);
    ssize_t (*write)(int file, const void *bytes, size_t count, off_t offset);
    int (*size)(int file, uint64_t *bytes); /* EISDIR for a folder, ESPIPE for a pipe or device: they have no size */
    /* Opens or creates the empty file that represents a lock, never through a symbolic link. EEXIST: something else is there. */
    int (*open_lock)(const char *path);
    /* EWOULDBLOCK: another process holds the lock. EDEADLK: this process does. ESTALE: since the file was opened, the path has come
     * to name another file, or none. */
    int (*lock)(int file, const char *path);
    /* Locks a range of bytes, or changes the lock that this open file has on it, and never waits. count 0: up to the end, wherever
     * that will be. EAGAIN: another open file, of this process or another one, has a lock in the way. Closing the file unlocks. */
    int (*lock_bytes)(int file, enum byte_lock kind, off_t offset, off_t count);
    int (*truncate)(int file, off_t bytes);
    int (*sync)(int file);
    /* Sets the space for a file of that many bytes aside. */
    int (*reserve)(int file, off_t bytes);
    /* Starts writing these bytes to the disk, without waiting for it; where that is not possible, it fails. */
    int (*start_sync)(int file, off_t offset, off_t count);
    int (*close)(int file);
    int (*rename)(const char *from, const char *to);
    int (*remove)(const char *path);
    int (*make_folder)(const char *path, mode_t mode);
    int (*describe)(const char *path, file_description *description);    /* follows symbolic links */
    ssize_t (*read_link)(const char *path, char *text, size_t capacity); /* EINVAL: not a symbolic link */
    /* Writes the absolute path without symbolic links, "." and "..". ERANGE: it does not fit. */
    int (*resolve)(const char *path, char *text, size_t capacity);
    int (*set_owner)(int file, uid_t owner, gid_t group);
    int (*set_mode)(int file, mode_t mode);
    /* Makes now the time when the content changed last. */
    int (*touch)(int file);
    ssize_t (*random)(void *bytes, size_t count, unsigned flags);
    /* Calls `each` with the names in a folder, in no particular order, until it returns non-zero. */
    int (*list)(const char *path, int (*each)(const char *name, void *user), void *user);
} file_operations;

extern const file_operations posix_files;
/* Those of a process that does not write: it reads as posix_files does, and what it writes, locks, renames or removes has no effect
 * (mute.c). */
extern const file_operations mute_files;

/* The error for an operation that failed with this errno: "PATH: cannot ACTION: reason", with a hint if there is a useful one. */
l3a_status fail_system(l3a_context *context, const char *path, const char *action, int code);

typedef struct input_file {
    l3a_context *context;
    char *path;
    int file;
    uint64_t size;
} input_file;

l3a_status input_open(l3a_context *context, const char *path, input_file *input);
/* Reads exactly count bytes; if the file is too short, the error names the offset. */
l3a_status input_read(const input_file *input, uint64_t offset, void *bytes, size_t count);
/* The same in two steps, for threads that read the same file: each can fail, and one of them reports it. */
struct read_failure {
    int code; /* errno; 0: the file is too short */
    uint64_t offset;
    size_t missing; /* bytes */
};
bool input_try_read(const input_file *input, uint64_t offset, void *bytes, size_t count, struct read_failure *failure);
l3a_status input_fail(const input_file *input, const struct read_failure *failure);
/* Reads bytes in pieces, and passes them on in order. */
typedef void input_taker(void *user, const char *bytes, size_t count);
l3a_status input_scan(const input_file *input, uint64_t offset, uint64_t count, input_taker *take, void *user);
l3a_status input_checksum(const input_file *input, uint64_t offset, uint64_t count, uint64_t *checksum);
void input_close(input_file *input);
/* Reads a whole file of at most `limit` bytes and adds a zero byte. */
l3a_status read_whole(l3a_context *context, const char *path, uint64_t limit, char **text, size_t *length);
/* Reads the first bytes of a file; *count is less than `capacity` if it has fewer. */
l3a_status read_start(l3a_context *context, const char *path, char *start, size_t capacity, size_t *count);
/* A missing file is not an error. */
l3a_status file_exists(l3a_context *context, const char *path, bool *exists);

struct text_list;
/* Adds the names in a folder, sorted by bytes, without "." and "..". */
l3a_status list_folder(l3a_context *context, const char *path, struct text_list *names);

/* Where an output goes: the file that the path leads to, after following symbolic links. If it exists, it is a regular file;
 * target_find refuses anything else. */
typedef struct output_target {
    char *path;
    bool exists;
    file_description old; /* if it exists */
} output_target;

l3a_status target_find(l3a_context *context, const char *path, output_target *target);
void target_free(l3a_context *context, output_target *target);
/* The mode for a new file with the same content: no wider than the old file's. */
mode_t target_mode(const output_target *target);
/* ".NAME" plus the ending, in the folder of the target. A long name is cut and made unique by a checksum of the whole name. */
l3a_status path_beside(l3a_context *context, const char *target, const char *ending, char **path);

extern const char lock_ending[];
/* What to do if a lock is held: fail; wait for another process; or wait for another thread of this process, too, which holds it for
 * a moment only. */
enum patience { FAIL_AT_ONCE, AWAIT_PROCESS, AWAIT_ANYONE };
/* Takes the lock of a target (lock.c). `name` is the path that the user gave, for messages. */
l3a_status lock_target(l3a_context *context, const char *target, const char *name, enum patience patience, l3a_lock **lock);
/* Who holds the lock with this lock file, for messages: "another process", with what is known of it. True: it is a server, which
 * does not end by itself (lock_holder.c). */
enum { HOLDER = 96 };
bool describe_holder(const char *path, char text[HOLDER]);
/* Whether this context already holds the target's lock. If somebody has removed its file, takes it again; fails if another process
 * was faster. */
l3a_status lock_is_held(l3a_context *context, const char *target, bool *held);

typedef struct output_file {
    l3a_context *context;
    char *path, *temporary;
    output_target target;
    l3a_lock *lock; /* NULL if the context already held it */
    int file;
    bool in_place; /* after output_commit(): the new file has its name, even if something failed afterwards */
} output_file;

l3a_status output_open(l3a_context *context, const char *path, output_file *output);
l3a_status output_write(const output_file *output, uint64_t offset, const void *bytes, size_t count);
/* Fails if there is no room for that many bytes. Whether the file is that long afterwards depends on the file system. */
l3a_status output_reserve(const output_file *output, uint64_t bytes);
/* As output_write, without an error text, for other threads: returns 0 or an errno. */
int output_put(const output_file *output, uint64_t offset, const void *bytes, size_t count);
/* Syncs the file, renames it into place and syncs the folder. Closes the output in any case. */
l3a_status output_commit(output_file *output);
/* Closes and removes an output that was not committed; harmless after a commit. */
void output_discard(output_file *output);
/* Removes the temporary files and locks that killed processes left in a folder that only l3a writes to. */
l3a_status remove_leftovers(l3a_context *context, const char *folder);
l3a_status write_whole(l3a_context *context, const char *path, const char *text, size_t length);
/* Writes a new file without syncing or renaming: for one of many files that only count once the last one is written. */
l3a_status write_new(l3a_context *context, const char *path, const void *bytes, size_t length);
/* A new name is only durable once its folder has been synced. */
l3a_status sync_folder_of(l3a_context *context, const char *path);
l3a_status remove_file(l3a_context *context, const char *path);
l3a_status make_folder(l3a_context *context, const char *path);
l3a_status join_path(l3a_context *context, const char *folder, const char *name, char **path);
/* True if a path stays below its folder: not absolute, and without "..". */
bool stays_below(const char *file);
/* The absolute path of something that exists, without symbolic links. */
l3a_status resolve_path(l3a_context *context, const char *path, char **resolved);

#endif
