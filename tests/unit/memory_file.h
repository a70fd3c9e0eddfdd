/* A file in memory, which a context reads instead of those on disk. */
#ifndef L3A_TEST_MEMORY_FILE_H
#define L3A_TEST_MEMORY_FILE_H

#include "base/context.h"

struct memory_file {
    char *bytes;
    size_t count;
    size_t read; /* bytes that were read; a test may start again from 0 */
};
extern struct memory_file memory_file;

/* Whatever file the context opens is a copy of these bytes, in memory of exactly that size, so that a sanitizer detects reading one
 * byte too many. It takes the place of the one before. */
void hold_file(l3a_context *context, const void *bytes, size_t count);
void release_file(void);

#endif
