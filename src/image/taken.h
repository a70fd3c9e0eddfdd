/* When a picture was taken. */
#ifndef L3A_TAKEN_H
#define L3A_TAKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From the EXIF data of a JPEG, PNG, WebP, HEIC or AVIF file, whether or not this build can decode it: when the picture was taken,
 * otherwise when it was digitized, otherwise when it was changed. Cameras write their local time without saying which zone they are
 * in. *seconds is that time as if it were UTC, since 1970: it sorts and prints as the camera had it. False if there is no such
 * date, or none that a calendar has. */
bool picture_taken(const void *bytes, size_t count, int64_t *seconds);

#endif
