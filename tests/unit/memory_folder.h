/* A folder in memory, "/in-memory", for tests that do the same work thousands of times. Operations on its files are as the table of
 * base/file.h wants them; paths outside of it are the system's. */
#ifndef L3A_MEMORY_FOLDER_H
#define L3A_MEMORY_FOLDER_H

#include "base/file.h"

#define MEMORY_FOLDER "/in-memory"

extern const file_operations memory_folder;

/* Files that are open. */
size_t memory_folder_open(void);
/* A file, made or replaced. */
void memory_folder_put(const char *path, const void *bytes, size_t count);
void memory_folder_link(const char *path, const char *target);
/* The bytes of a file or what a link says, with a zero byte at the end, to be freed; NULL: there is none. */
char *memory_folder_get(const char *path, size_t *count);
char *memory_folder_get_link(const char *path);
/* Entries of a folder whose name has this ending. */
size_t memory_folder_count(const char *folder, const char *ending);
/* A checksum of all names and bytes. */
uint64_t memory_folder_checksum(void);

/* Keeps all files as they are now, in place of what was kept before; none may be open. */
void memory_folder_keep(void);
/* Makes the files what they were when they were kept. */
void memory_folder_restore(void);
/* Removes all files, even those that are open, and with `kept` those that were kept, too. */
void memory_folder_clear(bool kept);

#endif
