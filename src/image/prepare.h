/* From a picture to the numbers that a network takes: decode, crop, resize, scale and centre. Loaders and readers share
 * this.
 *
 * How a picture of w x h pixels becomes a square of n x n, for each view by itself:
 *
 *   without a crop   it is resized to n x n, whatever its shape (SPEC §2)
 *   with the crop c  it keeps its shape, as published checkpoints were tested: its shorter side s is resized to m = ⌊n / c⌋, its
 *                    longer side l to ⌊m l / s⌋, and the square begins at half of what is left, rounded, a half to the even number
 *   … squashed       it is resized to m x m, whatever its shape
 *   … down           a half is rounded down
 *
 * The second are the rules of timm's evaluation (transforms_factory.py), by torchvision's Resize and CenterCrop. The processors of
 * transformers round a half down, so where 3, 7, 11 … pixels are left, theirs begins one pixel before.
 *
 * For training, a picture can be changed at random (augment.h). If a part of it is taken, that is resized to the options' size,
 * whatever its shape, and the crop does not matter; without parts, the crop remains. Such a picture has one view.
 *
 * A picture is decoded once, whatever the views. The views lie below each other in one raster of the options' width and
 * view_rows(views) times their height. */
#ifndef L3A_PREPARE_H
#define L3A_PREPARE_H

#include "image/augment.h"
#include "image/resize.h"

/* One thread's buffers, reused from picture to picture. */
struct preparer {
    l3a_loader_options options;
    float scale[3], offset[3]; /* a byte v becomes v · scale + offset */
    struct picture_reader reader;
    struct raster view; /* a part of the picture */
    struct resizer resizer;
    struct augmentation augmentation; /* checked; all 0 at first */
    uint64_t seed;                    /* for the changes of the next picture */
};

/* What is made of a picture or a view of this size. */
struct window preparer_window(const l3a_loader_options *options, size_t width, size_t height);
l3a_status check_loader_options(l3a_context *context, const l3a_loader_options *options);
/* The options have been checked. */
void preparer_start(l3a_context *context, const l3a_loader_options *options, struct preparer *preparer);
/* Decodes a picture and resizes its views. */
l3a_status preparer_read(struct preparer *preparer, const struct picture_source *source, struct raster *resized);
/* Resizes the views of pixels in memory: RGB, row by row. */
l3a_status preparer_take(struct preparer *preparer, size_t width, size_t height, const uint8_t *pixels, struct raster *resized);
/* Scales and centres the resized views: planes [views x 3 x height x width]. */
void preparer_deliver(const struct preparer *preparer, const struct raster *resized, float *planes);
void preparer_free(struct preparer *preparer);

#endif
