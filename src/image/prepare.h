/* From a picture's bytes to the numbers that a network takes: decode, resize, scale and centre. Loaders and readers share this. */
#ifndef L3A_PREPARE_H
#define L3A_PREPARE_H

#include "image/resize.h"

/* One thread's buffers, reused from picture to picture. */
struct preparer {
    l3a_loader_options options;
    float scale[3], offset[3]; /* a byte v becomes v · scale + offset */
    struct picture_reader reader;
    struct resizer resizer;
};

l3a_status check_loader_options(l3a_context *context, const l3a_loader_options *options);
/* The options have been checked. */
void preparer_start(l3a_context *context, const l3a_loader_options *options, struct preparer *preparer);
/* Decodes a picture and resizes it. */
l3a_status preparer_read(struct preparer *preparer, const char *path, struct raster *resized);
l3a_status preparer_decode(struct preparer *preparer, const char *name, const void *bytes, size_t count, struct raster *resized);
/* Scales and centres a resized picture: planes [3 x height x width]. */
void preparer_deliver(const struct preparer *preparer, const struct raster *resized, float *planes);
void preparer_free(struct preparer *preparer);

#endif
