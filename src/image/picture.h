/* Pictures inside the library: where their bytes are, a decoder for each format, and buffers that are reused from picture to
 * picture. A decoder takes the bytes and fills a raster; its errors name the file and the byte. */
#ifndef L3A_PICTURE_H
#define L3A_PICTURE_H

#include "base/context.h"
#include "base/file.h"
#include "base/picture_kind.h"
#include "base/picture_source.h"

/* RGB, row after row. The memory only grows. */
struct raster {
    size_t width, height;
    uint8_t *pixels;
    size_t capacity;
};

/* Makes room for width x height pixels, whose values are undefined. */
l3a_status raster_shape(l3a_context *context, struct raster *raster, size_t width, size_t height);
/* Frees the memory if it is large: such pictures are rare. */
void raster_trim(l3a_context *context, struct raster *raster);
void raster_free(l3a_context *context, struct raster *raster);

/* The bytes of a picture, for a decoder. */
struct picture_bytes {
    l3a_context *context;
    const char *name; /* in messages */
    const uint8_t *bytes;
    size_t count;
    const char *format; /* as the first bytes say: "jpeg", … */
    l3a_picture_options options;
};

/* *orientation is the EXIF orientation, 1 to 8, if the options ask for it, and 1 otherwise. */
l3a_status jpeg_decode(const struct picture_bytes *source, struct raster *raster, int *orientation);
l3a_status png_decode(const struct picture_bytes *source, struct raster *raster, int *orientation);
l3a_status webp_decode(const struct picture_bytes *source, struct raster *raster, int *orientation);
/* HEIC and AVIF. *orientation stays 1: what turns the picture is part of the file's structure, and is always applied. */
l3a_status heif_decode(const struct picture_bytes *source, struct raster *raster, int *orientation);
/* Whether libheif has a decoder for "heic" or "avif"; its decoders may be plug-ins, which are installed separately. */
bool heif_decodes(const char *format);
/* Refuses a HEIC or AVIF picture that is put together from itself, or from too many parts. item: the primary picture. */
l3a_status heif_check_parts(const struct picture_bytes *source, uint32_t item);
/* Whether the last of the boxes that make up such a file is incomplete. */
bool heif_is_cut_short(const struct picture_bytes *source);
l3a_status check_pixels(const struct picture_bytes *source, uint64_t width, uint64_t height);
/* format: for people, "JPEG". */
l3a_status fail_cut_short(const struct picture_bytes *source, const char *format);
extern const char hint_damaged[];

/* The orientation in an EXIF block, with or without "Exif\0\0" before the TIFF header; 1 if it has none or is damaged. */
int exif_orientation(const uint8_t *tiff, size_t count);
/* Turns the picture as PIL.ImageOps.exif_transpose does. */
l3a_status turn(l3a_context *context, const struct raster *from, int orientation, struct raster *to);

/* XXH3 of the bytes of a picture, without decoding it. Returns false if they cannot be read. */
bool picture_checksum(l3a_context *context, const struct picture_source *source, uint64_t *checksum);

/* One thread's buffers. Start from zeroes with a context. */
struct picture_reader {
    l3a_context *context;
    uint8_t *file;
    size_t file_capacity;
    input_file archive; /* the one that was read last, still open: the next picture is likely to be in it, too */
    uint64_t checksum;  /* XXH3 of the bytes of the picture read last; 0 where they could not be read */
    struct raster decoded, turned;
};

/* The options that a caller gave, or the defaults, with nothing left at 0. */
l3a_status picture_options_read(l3a_context *context, const l3a_picture_options *options, l3a_picture_options *own);
/* The picture is reader->decoded or reader->turned, until the next call. */
l3a_status picture_reader_read(struct picture_reader *reader, const struct picture_source *source,
                               const l3a_picture_options *options, struct raster **picture);
/* Reads a picture for a caller of the library. */
l3a_status picture_read_source(l3a_context *context, const struct picture_source *source, const l3a_picture_options *options,
                               l3a_picture *picture);
/* Frees the memory of an unusually large picture. */
void picture_reader_trim(struct picture_reader *reader);
void picture_reader_free(struct picture_reader *reader);

#endif
