/* Pictures inside the library: the bytes of a file, a decoder for each format, and buffers that are reused from picture to
 * picture. A decoder takes the bytes and fills a raster; its errors name the file and the byte. */
#ifndef L3A_PICTURE_H
#define L3A_PICTURE_H

#include "base/context.h"

/* RGB, row after row. The memory only grows. */
struct raster {
    size_t width, height;
    uint8_t *pixels;
    size_t capacity;
};

/* Makes room for width x height pixels, whose values are undefined. */
l3a_status raster_shape(l3a_context *context, struct raster *raster, size_t width, size_t height);
void raster_free(l3a_context *context, struct raster *raster);

struct picture_bytes {
    l3a_context *context;
    const char *name; /* the file's name in messages */
    const uint8_t *bytes;
    size_t count;
    l3a_picture_options options;
};

bool jpeg_recognise(const uint8_t *bytes, size_t count);
bool png_recognise(const uint8_t *bytes, size_t count);
/* *orientation is the EXIF orientation, 1 to 8, if the options ask for it, and 1 otherwise. */
l3a_status jpeg_decode(const struct picture_bytes *source, struct raster *raster, int *orientation);
l3a_status png_decode(const struct picture_bytes *source, struct raster *raster, int *orientation);
/* Returns the length of the file, or 0 if it does not fit or memory runs out. quality: 1 to 100. */
size_t jpeg_encode(const uint8_t *pixels, size_t width, size_t height, int quality, uint8_t *bytes, size_t capacity);
l3a_status check_pixels(const struct picture_bytes *source, uint64_t width, uint64_t height);

/* The orientation in an EXIF TIFF block, without the leading "Exif\0\0"; 1 if it has none. */
int exif_orientation(const uint8_t *tiff, size_t count);
/* Turns the picture as PIL.ImageOps.exif_transpose does. */
l3a_status turn(l3a_context *context, const struct raster *from, int orientation, struct raster *to);

/* One thread's buffers. Start from zeroes with a context. */
struct picture_reader {
    l3a_context *context;
    uint8_t *file;
    size_t file_capacity;
    uint64_t checksum; /* XXH3 of the bytes of the file read last; 0 where they could not be read */
    struct raster decoded, turned;
};

/* The picture is reader->decoded or reader->turned, until the next call. */
l3a_status picture_reader_decode(struct picture_reader *reader, const char *name, const void *bytes, size_t count,
                                 const l3a_picture_options *options, struct raster **picture);
/* The options that a caller gave, or the defaults, with nothing left at 0. */
l3a_status picture_options_read(l3a_context *context, const l3a_picture_options *options, l3a_picture_options *own);
l3a_status picture_reader_read(struct picture_reader *reader, const char *path, const l3a_picture_options *options,
                               struct raster **picture);
/* That checksum of the picture that l3a_loader_next() handed over last, readable or not. */
uint64_t loader_checksum(const l3a_loader *loader);
/* Frees the memory of an unusually large picture. */
void picture_reader_trim(struct picture_reader *reader);
void picture_reader_free(struct picture_reader *reader);

#endif
