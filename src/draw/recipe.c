#include "draw/recipe.h"

#include <stdlib.h>

enum { NUMBERS = 64, COLOURS = 5 };

struct look {
    struct paint paints[COLOURS]; /* a, b, c, k, w */
    struct paint rim;
    double rim_width; /* in pixels on each side; 0: none */
};

/* A shape of the language: its letter and its numbers. */
struct shape {
    char letter;
    size_t count;
    double numbers[NUMBERS];
};

struct pen {
    struct canvas *canvas;
    const struct thing *thing;
    struct stream stream; /* for the random shifts of points */
    double cosine, sine;
};

static struct paint own_paint(struct stream *stream, int degrees, const struct thing *thing) {
    const bool usual = draw_chance(stream, 0.65);
    const double any = draw_between(stream, 0, 1), shift = draw_between(stream, -0.06, 0.06);
    const double saturation = draw_between(stream, 0.5, 0.95), value = draw_between(stream, 0.55, 1);
    const double turns = draw_between(stream, 0, 1);
    struct paint paint = flat_paint(colour_of(usual ? degrees / 360.0 + shift : any, saturation, value), 1);
    paint.origin = thing->centre;
    paint.along_x = cosine(turns);
    paint.along_y = sine(turns);
    return paint;
}

/* The first colour may have a pattern. */
static void add_pattern(struct stream *stream, struct paint *paint, double radius) {
    const double size = draw_between(stream, 0.1, 0.25), towards = draw_between(stream, 0.25, 0.6);
    const bool lighter = draw_chance(stream, 0.5), plain = draw_chance(stream, 0.45);
    const size_t pattern = draw_below(stream, PATTERNS);
    const struct colour target = lighter ? (struct colour){255, 255, 255} : (struct colour){20, 20, 30};
    paint->second = colour_between(paint->first, target, towards);
    paint->pattern = plain ? PATTERN_GRADIENT : (enum pattern)pattern;
    paint->scale = paint->pattern == PATTERN_GRADIENT ? 2 * radius : size * radius < 2.5 ? 2.5 : size * radius;
}

static void choose_look(const struct recipe *recipe, const struct thing *thing, struct look *look) {
    struct stream stream = {thing->seed, 0};
    for (size_t i = 0; i < 3; i++) {
        look->paints[i] = own_paint(&stream, recipe->hues[i], thing);
    }
    add_pattern(&stream, &look->paints[0], thing->radius);
    const double dark = draw_between(&stream, 0.08, 0.3), light = draw_between(&stream, 0.88, 1);
    const double hue = draw_between(&stream, 0, 1);
    look->paints[3] = flat_paint(colour_of(hue, 0.5, dark), 1);
    look->paints[4] = flat_paint(colour_of(hue, 0.08, light), 1);
    const double kind = draw_between(&stream, 0, 1), width = draw_between(&stream, 0.03, 0.06);
    look->rim = kind < 0.6 ? look->paints[3] : look->paints[4];
    look->rim_width = kind < 0.8 ? width * thing->radius + 0.4 : 0;
}

/* Converts the recipe's hundredths to pixels, and adds a small random shift. */
static struct point place(struct pen *pen, double x, double y) {
    const struct thing *thing = pen->thing;
    const double dx = draw_between(&pen->stream, -2.5, 2.5), dy = draw_between(&pen->stream, -2.5, 2.5);
    const double across = (thing->mirrored ? -1 : 1) * (x + dx) * thing->radius * thing->stretch / 100,
                 down = (y + dy) * thing->radius / thing->stretch / 100;
    return (struct point){thing->centre.x + across * pen->cosine - down * pen->sine,
                          thing->centre.y + across * pen->sine + down * pen->cosine};
}

/* The points of a shape, which begin at number `first`. */
static size_t place_points(struct pen *pen, const struct shape *shape, size_t first, struct point *points) {
    size_t count = 0;
    for (size_t i = first; i + 1 < shape->count; i += 2) {
        points[count++] = place(pen, shape->numbers[i], shape->numbers[i + 1]);
    }
    return count;
}

/* Makes an ellipse in the recipe's coordinates, so that it rotates with the thing. */
static size_t place_ellipse(struct pen *pen, const double *numbers, double from, double to, struct point *path) {
    const struct point middle = {numbers[0], numbers[1]};
    const size_t count = ellipse_path(middle, numbers[2], numbers[3], from, to, path);
    const struct stream before = pen->stream;
    for (size_t i = 0; i < count; i++) {
        pen->stream = before; /* the same shift for all points */
        path[i] = place(pen, path[i].x, path[i].y);
    }
    return count;
}

/* rim: how much the shape is widened, in pixels on each side. */
static void draw_shape(struct pen *pen, const struct shape *shape, const struct paint *paint, double rim) {
    struct point points[NUMBERS], path[PATH_POINTS];
    const double *numbers = shape->numbers;
    const bool lines = shape->letter == 'L' || shape->letter == 'C' || shape->letter == 'O';
    const size_t needed = shape->letter == 'O' ? 7 : shape->letter == 'E' ? 4 : lines ? 5 : 6;
    size_t count = 0;
    if (shape->count < needed) {
        return;
    }
    switch (shape->letter) {
    case 'P': count = place_points(pen, shape, 0, path); break;
    case 'B': count = smooth_path(points, place_points(pen, shape, 0, points), true, path); break;
    case 'E': count = place_ellipse(pen, numbers, 0, 1, path); break;
    case 'L': count = place_points(pen, shape, 1, path); break;
    case 'C': count = smooth_path(points, place_points(pen, shape, 1, points), false, path); break;
    case 'O': count = place_ellipse(pen, numbers + 1, numbers[5] / 360, numbers[6] / 360, path); break;
    default: return;
    }
    if (lines) {
        const double width = numbers[0] * pen->thing->radius / 100;
        stroke_path(pen->canvas, path, count, false, (width < 1.2 ? 1.2 : width) + 2 * rim, paint);
        return;
    }
    fill_path(pen->canvas, path, count, paint);
    if (rim > 0) {
        stroke_path(pen->canvas, path, count, true, 2 * rim, paint);
    }
}

/* Reads the next shape and the colour selected before it; false at the end of the text. */
static bool next_shape(const char **text, size_t *colour, struct shape *shape) {
    static const char letters[] = "abckw";
    const char *at = *text;
    for (; *at && (*at < 'A' || *at > 'Z'); at++) {
        for (size_t i = 0; i < COLOURS; i++) {
            *colour = *at == letters[i] ? i : *colour;
        }
    }
    if (!*at) {
        return false;
    }
    shape->letter = *at++;
    for (shape->count = 0; shape->count < NUMBERS; shape->count++) {
        char *end;
        const long number = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        shape->numbers[shape->count] = (double)number;
        at = end;
    }
    *text = at;
    return true;
}

/* Draws the thing widened in the rim's colour, and then normally on top: the rim surrounds the whole thing, not each part. */
void draw_thing(struct canvas *canvas, const struct recipe *recipe, struct thing *thing) {
    struct look look;
    choose_look(recipe, thing, &look);
    canvas->touched = (struct box){0};
    for (int pass = look.rim_width > 0 ? 0 : 1; pass < 2; pass++) {
        struct pen pen = {canvas, thing, {thing->seed ^ 1, 0}, cosine(thing->turns), sine(thing->turns)};
        const char *text = recipe->drawing;
        struct shape shape;
        for (size_t colour = 0; next_shape(&text, &colour, &shape);) {
            draw_shape(&pen, &shape, pass ? &look.paints[colour] : &look.rim, pass ? 0 : look.rim_width);
        }
    }
    thing->box = canvas->touched;
}
