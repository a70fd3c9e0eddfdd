/* Things that can be drawn, each described by a short text in a small language of shapes.
 *
 * The text is drawn in order. A small letter selects a colour: a, b, c are the thing's own, k is dark and w is light. A capital
 * letter starts a shape and is followed by whole numbers, in hundredths of the thing's radius; x points right and y down from its
 * centre.
 *
 *     P x y x y …             a polygon
 *     B x y x y …             a closed smooth curve through the points
 *     E x y rx ry             an ellipse
 *     L width x y x y …       a line
 *     C width x y x y …       a smooth curve
 *     O width x y rx ry a b   an arc of an ellipse, from a to b degrees */
#ifndef L3A_RECIPE_H
#define L3A_RECIPE_H

#include "draw/raster.h"

struct recipe {
    const char *name;
    int hues[3];          /* of a, b, c, in degrees: the usual ones */
    double frequency;     /* relative to the others; 0: drawn only on request */
    const char *follower; /* another thing that nearly always appears with it, or NULL */
    const char *drawing;
};

/* One thing in a scene: position and radius in pixels, rotation, stretch and mirroring, and a seed for the rest. */
struct thing {
    size_t recipe;
    struct point centre;
    double radius, turns, stretch;
    bool mirrored;
    uint64_t seed;
    struct box box; /* what it covers, clipped to the canvas */
};

void draw_thing(struct canvas *canvas, const struct recipe *recipe, struct thing *thing);

/* The things in drawn data sets; the last is held back. */
enum { THINGS = 25 };
extern const struct recipe things[THINGS];

#endif
