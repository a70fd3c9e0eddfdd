/* What a file is, from its first bytes: a picture that the library reads, a picture of another format, or one of the files that
 * people keep beside their pictures. Names of files play no part, except in other_media(). */
#ifndef L3A_PICTURE_KIND_H
#define L3A_PICTURE_KIND_H

#include <stdbool.h>
#include <stddef.h>

/* More bytes make no difference. 64 are enough to tell the formats that are read; the others tell drawings from other texts. */
enum { PICTURE_KIND_BYTES = 512 };

struct picture_kind {
    const char *format;  /* "jpeg", "png", "webp", "heic", "avif"; NULL: no build reads it */
    const char *refusal; /* why this build does not read it, to go after "PATH: "; NULL: it does */
    const char *hint;    /* what to do then */
    const char *other;   /* of videos, RAW files and pictures that no build reads: as other_media() says it; otherwise NULL */
    bool unclear;        /* the bytes do not tell; the ending of the name may */
};

#define RAW_FILE(what) "a RAW file (" what "); export it as JPEG, or keep the camera's JPEG beside it"
#define VIDEO_FILE "a video; only pictures are read"

/* Never NULL. bytes: the whole file, or as much of its start as there is; NULL if count is 0. */
const struct picture_kind *picture_kind_of(const void *bytes, size_t count);

/* Why a file is not read that a person may miss among their pictures, to go after "PATH: ": a video, a RAW file of a camera, or a
 * picture of a format that no build reads. NULL for all others: pictures that some build reads, and what is none, like texts. The
 * content decides where it tells, otherwise the ending of the name: most RAW files are TIFF files inside. bytes: as above; NULL to
 * go by the name alone. (With more than PICTURE_KIND_BYTES, a DNG file is recognised under any name.) */
const char *other_media(const char *name, const void *bytes, size_t count);

#endif
