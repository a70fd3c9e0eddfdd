/* Where the bytes of a picture are: in a file of its own, in an archive, or in memory. */
#ifndef L3A_PICTURE_SOURCE_H
#define L3A_PICTURE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* Some of the bytes of an archive. */
struct archive_span {
    const char *archive; /* its path; NULL: there is none */
    uint64_t offset, size;
};

/* A picture to read. What is in an archive or in memory is read like a file, with the same limits. */
struct picture_source {
    const char *name;  /* in messages; of a file of its own, the path */
    const void *bytes; /* NULL: not in memory */
    size_t count;
    struct archive_span span;
};

/* bytes may be NULL if there are none. */
static inline struct picture_source picture_in_memory(const char *name, const void *bytes, size_t count) {
    return (struct picture_source){.name = name, .bytes = bytes ? bytes : "", .count = count};
}

#endif
