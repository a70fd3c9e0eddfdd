/* Views (SPEC §7). A view is a crop of a picture, which the backbone sees at its own size; view 0 is the whole picture.
 *
 *   views   rows of an image   crops
 *     1            1           none
 *     5            6           0.6 of each side, at the four corners and in the centre
 *     9           10           0.45 of each side, on a 3 x 3 grid
 *    14           15           those of 5, then those of 9
 *
 * Feature tables that were not made by l3a may have any other number of crops from 2 on. `views` means the number in the first
 * column everywhere: 1, or the number of crops.
 *
 * A crop that has the share p of each side of a picture W pixels wide is w = ⌊p W + ½⌋ pixels wide, at least 1, and begins at
 * pixel ⌊f (W - w) + ½⌋ with f = 0, ½ or 1. Heights are computed in the same way. */
#ifndef L3A_VIEWS_H
#define L3A_VIEWS_H

#include "base/context.h"

/* Rows of an image. */
static inline size_t view_rows(size_t views) {
    return views > 1 ? views + 1 : 1;
}

/* The pixels of a view. */
struct view_box {
    size_t left, top, width, height;
};

/* Whether pictures can be cropped like this: 1, 5, 9 or 14. */
bool views_known(size_t views);
/* Whether images with `stored` views also have these: 1 are in any, 5 and 9 in 14. *first: the row of their first crop. */
bool views_within(size_t views, size_t stored, size_t *first);
/* The pixels of a view of a picture; views_known(views), view < view_rows(views). */
struct view_box view_box(size_t views, size_t view, size_t width, size_t height);

#endif
