#ifndef L3A_JPEG_WRITE_H
#define L3A_JPEG_WRITE_H

#include <stddef.h>
#include <stdint.h>

/* Encodes RGB pixels as JPEG of a quality from 1 to 100, with libjpeg-turbo's exact integer transform: the same pixels always give
 * the same bytes. Returns their number, or 0 if they do not fit; 3 bytes for each pixel and 4096 more are enough. */
size_t jpeg_encode(const uint8_t *pixels, size_t width, size_t height, int quality, uint8_t *bytes, size_t capacity);

#endif
