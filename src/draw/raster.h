/* A small software rasteriser: anti-aliased polygons and strokes on an RGB canvas.
 *
 * The same calls give the same bytes on any machine: they use only +, -, *, / and square roots in double precision, compute sines
 * themselves, and are compiled without fused multiply-add. */
#ifndef L3A_RASTER_H
#define L3A_RASTER_H

#include "base/stream.h"

#include <stdbool.h>

enum { CANVAS_SIDE = 512, PATH_POINTS = 512 }; /* limits */

double draw_between(struct stream *stream, double low, double high);
bool draw_chance(struct stream *stream, double probability);
/* 0 … count - 1 */
size_t draw_below(struct stream *stream, size_t count);

/* The angle is in turns. */
double sine(double turns);
double cosine(double turns);

struct point {
    double x, y;
};

struct colour {
    uint8_t red, green, blue;
};

/* hue in turns; saturation and value in 0..1 */
struct colour colour_of(double hue, double saturation, double value);
/* part 0: left, 1: right */
struct colour colour_between(struct colour left, struct colour right, double part);

enum pattern { PATTERN_FLAT, PATTERN_GRADIENT, PATTERN_STRIPES, PATTERN_DOTS, PATTERN_CHECKS, PATTERNS };

/* The filling of a shape: a pattern of two colours, `scale` pixels wide, rotated about the origin to the direction (along_x,
 * along_y). */
struct paint {
    struct colour first, second;
    enum pattern pattern;
    struct point origin;
    double along_x, along_y, scale, opacity;
};

struct paint flat_paint(struct colour colour, double opacity);

struct box {
    int left, top, right, bottom; /* right and bottom are one past the end; empty if left >= right */
};

struct canvas {
    int width, height;
    uint8_t *pixels;    /* RGB, row after row */
    struct box touched; /* the pixels covered by more than a quarter since the box was last emptied */
};

/* Fills where the path winds around a pixel, in either direction. */
void fill_path(struct canvas *canvas, const struct point *path, size_t count, const struct paint *paint);
/* Lines with round ends and corners; closed: from the last point back to the first. */
void stroke_path(struct canvas *canvas, const struct point *path, size_t count, bool closed, double width,
                 const struct paint *paint);
/* Points of a smooth curve through `count` points, at most PATH_POINTS; returns how many. */
size_t smooth_path(const struct point *points, size_t count, bool closed, struct point path[PATH_POINTS]);
/* Points of an ellipse from one angle to another, in turns; returns how many. */
size_t ellipse_path(struct point centre, double across, double down, double from, double to, struct point path[PATH_POINTS]);

#endif
