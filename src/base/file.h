/* Files. Every operation goes through one table, so that a test can make any of them fail. A file is written beside its
 * final place, synced, and renamed over it: whatever happens, the path holds all of the new file or all of the old. */
#ifndef L3A_FILE_H
#define L3A_FILE_H

#include "base/context.h"

#include <sys/types.h>

typedef struct file_operations {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*read)(int file, void *bytes, size_t count, off_t offset);
    ssize_t (*write)(int file, const void *bytes, size_t count, off_t offset);
    int (*size)(int file, uint64_t *bytes);
    int (*lock)(int file, const char *path); /* EWOULDBLOCK: another process has it, or has just put it elsewhere */
    int (*truncate)(int file, off_t bytes);
    int (*sync)(int file);
    int (*close)(int file);
    int (*rename)(const char *from, const char *to);
    int (*remove)(const char *path);
    int (*make_folder)(const char *path, mode_t mode);
    /* The names in a folder, in no order, until `each` returns non-zero. */
    int (*list)(const char *path, int (*each)(const char *name, void *user), void *user);
} file_operations;

extern const file_operations posix_files;

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

typedef struct output_file {
    l3a_context *context;
    char *path, *temporary;
    int file;
} output_file;

l3a_status output_open(l3a_context *context, const char *path, output_file *output);
l3a_status output_write(const output_file *output, uint64_t offset, const void *bytes, size_t count);
/* Sync, rename, sync the folder. The output is closed, whether it succeeds or not. */
l3a_status output_commit(output_file *output);
/* Closes and removes what was written; harmless after a commit. */
void output_discard(output_file *output);
l3a_status write_whole(l3a_context *context, const char *path, const char *text, size_t length);
/* A new file, without the syncs and the renaming: for one of many of which none counts until the last is there. */
l3a_status write_new(l3a_context *context, const char *path, const void *bytes, size_t length);
l3a_status remove_file(l3a_context *context, const char *path);
l3a_status make_folder(l3a_context *context, const char *path);
l3a_status join_path(l3a_context *context, const char *folder, const char *name, char **path);

#endif
