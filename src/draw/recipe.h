/* Things that can be drawn, each a short text in a small language of shapes.
 *
 * The text is drawn in order. A small letter chooses a colour: a, b, c are the thing's own, k is dark and w is light. A capital
 * names a shape, and whole numbers follow, in hundredths of the thing's radius, x to the right and y down from its centre: P x y x
 * y …             a polygon B x y x y …             a closed smooth curve through the points E x y rx ry             an ellipse L
 * width x y x y …       a line C width x y x y …       a smooth curve O width x y rx ry a b   a part of an ellipse's outline, from
 * a to b degrees */
#ifndef L3A_RECIPE_H
#define L3A_RECIPE_H

#include "draw/raster.h"

struct recipe {
    const char *name;
    int hues[3];          /* of a, b, c, in degrees: what most of them have */
    double frequency;     /* against the others; 0: only where it is asked for */
    const char *follower; /* the name of another thing that nearly always comes along, or NULL */
    const char *drawing;
};

/* One thing at its place: position and radius in pixels, how it is turned, stretched and mirrored, and a seed for the rest. */
struct thing {
    size_t recipe;
    struct point centre;
    double radius, turns, stretch;
    bool mirrored;
    uint64_t seed;
    struct box box; /* what it covered when it was drawn, cut at the canvas */
};

void draw_thing(struct canvas *canvas, const struct recipe *recipe, struct thing *thing);

/* What data sets are drawn from; the last is held back. */
enum { THINGS = 25 };
extern const struct recipe things[THINGS];

#endif
