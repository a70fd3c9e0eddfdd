/* The TIFF structure of EXIF data and of most RAW files: a header, and directories of entries. Nothing outside the bytes is read,
 * and no directory leads to another one by itself, so that no loop can be walked. */
#ifndef L3A_EXIF_H
#define L3A_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exif {
    const uint8_t *bytes;
    size_t count;
    bool big_endian;
    size_t first; /* directory: where it begins */
};

enum exif_tag {
    EXIF_MAKE = 0x010F,
    EXIF_ORIENTATION = 0x0112,
    EXIF_CHANGED = 0x0132,   /* DateTime */
    EXIF_DIRECTORY = 0x8769, /* where the directory with the camera's settings begins */
    EXIF_TAKEN = 0x9003,     /* DateTimeOriginal */
    EXIF_DIGITIZED = 0x9004, /* DateTimeDigitized */
    EXIF_DNG_VERSION = 0xC612
};

/* With or without "Exif\0\0" before the TIFF header. False if there is no such header. */
bool exif_open(const void *bytes, size_t count, struct exif *exif);
bool exif_has(const struct exif *exif, size_t directory, enum exif_tag tag);
/* The number of an entry, of 2 or 4 bytes; false if the directory has no such entry, or it is of another type. */
bool exif_number(const struct exif *exif, size_t directory, enum exif_tag tag, uint32_t *number);
/* The characters of an entry, without a zero byte at their end; NULL if the directory has no such entry, it is of another type, or
 * the text is not within the bytes. */
const char *exif_text(const struct exif *exif, size_t directory, enum exif_tag tag, size_t *length);

#endif
