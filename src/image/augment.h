/* Pictures changed at random, for training. What happens to a picture is a function of its seed alone, which is made of the run's
 * seed, the epoch and the picture's row. So it depends neither on the threads that prepare pictures nor on where a run was resumed.
 *
 * A picture is changed in this order: a part of it is cut out and resized, mirrored, a square is filled, and the changes of
 * RandAugment follow. Each kind of change draws from a stream of its own, so that a new one alters no other. */
#ifndef L3A_AUGMENT_H
#define L3A_AUGMENT_H

#include "base/views.h"
#include "image/picture.h"
#include "image/rand_augment.h"

/* All 0: a picture stays as it is. */
struct augmentation {
    double least, most; /* the share of the picture's area that a random part of it has, uniform between these; most 0: the whole
                           picture */
    double ratio;  /* the part's width divided by its height, both in pixels, is between 1 / ratio and ratio, and its logarithm is
                      uniform; 0: the part has the shape of the picture */
    bool flip;     /* mirrored with probability one half */
    double cutout; /* of each side of the resized picture, the share that one filled rectangle has: a square of a square; 0: none */
    bool rand_augment; /* the changes of rand_augment.h */
};

/* What happens to one picture. */
struct changes {
    struct view_box part; /* of the picture as it was decoded */
    bool flipped;
    struct view_box filled; /* of the resized picture; width or height 0: nothing */
    uint8_t colour[3];
    struct rand_change random[RAND_CHANGES]; /* which change nothing, if there are none */
};

l3a_status augmentation_check(l3a_context *context, const struct augmentation *augmentation);
/* Whether pictures are changed at all. */
bool augmentation_acts(const struct augmentation *augmentation);
/* The seed of a picture: seed is that of the pass. */
uint64_t augmentation_seed(uint64_t seed, size_t row);
/* Draws what happens to a picture of width x height pixels that is resized to to_width x to_height. */
struct changes augmentation_draw(const struct augmentation *augmentation, uint64_t seed, size_t width, size_t height,
                                 size_t to_width, size_t to_height);
/* Mirrors the resized pixels, RGB and row by row, fills the rectangle, and makes the changes of RandAugment. */
l3a_status changes_apply(l3a_context *context, const struct changes *changes, uint8_t *pixels, size_t width, size_t height);

#endif
