/* What a file is, from its first bytes: a picture that the library reads, a picture of another format, or one of the files that
 * people keep beside their pictures. Names of files play no part. */
#ifndef L3A_PICTURE_KIND_H
#define L3A_PICTURE_KIND_H

#include <stddef.h>

/* More bytes make no difference. 64 are enough to tell the formats that are read; the others tell drawings from other texts. */
enum { PICTURE_KIND_BYTES = 512 };

struct picture_kind {
    const char *format;  /* "jpeg", "png", "webp", "heic", "avif"; NULL: no build reads it */
    const char *refusal; /* why this build does not read it, to go after "PATH: "; NULL: it does */
    const char *hint;    /* what to do then */
};

/* Never NULL. bytes: the whole file, or as much of its start as there is; NULL if count is 0. */
const struct picture_kind *picture_kind_of(const void *bytes, size_t count);

#endif
