/* Tar files: their members, in order, read in one pass that seeks over the contents. POSIX (ustar and pax), GNU and V7 archives are
 * read. What is no plain file with a plain name is an error; directories are left out. */
#ifndef L3A_TAR_H
#define L3A_TAR_H

#include "base/file.h"
#include "base/memory.h"

/* A regular file in the archive. Its name is relative, without "..", "./" at its start and control characters, and is UTF-8. */
struct tar_member {
    const char *name; /* until the next call */
    uint64_t header;  /* where its header is */
    uint64_t offset, size;
};

/* What the headers before that of a member say about it. */
struct tar_announced {
    bool any;   /* there was one */
    char *name; /* NULL: its own header has the name */
    uint64_t size;
    bool has_size;
};

struct tar {
    const input_file *input;
    uint64_t at; /* of the next header */
    struct tar_announced announced;
    text_pool names;   /* of all members so far, … */
    uint64_t *headers; /* … and where their headers are */
    size_t header_capacity;
    char *window; /* the bytes [start, start + held) of the file */
    uint64_t start;
    size_t held;
};

/* The input remains the caller's, and must outlive the archive. Close it even if this fails. */
l3a_status tar_open(const input_file *input, struct tar *tar);
/* The next member; *more is false after the last. All of a member's bytes are in the file. An archive in which a name occurs twice
 * is refused at its end. */
l3a_status tar_next(struct tar *tar, struct tar_member *member, bool *more);
/* Reads the first bytes of the member that tar_next() gave last, at most its size. A few cost nothing. */
l3a_status tar_read(struct tar *tar, const struct tar_member *member, void *bytes, size_t count);
void tar_close(struct tar *tar);

#endif
