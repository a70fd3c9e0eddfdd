#include "draw/scene.h"

#include <math.h>
#include <string.h>

enum { LATTICE = 9, TRIES = 24 };

static bool shows(const struct scene *scene, size_t recipe) {
    for (size_t i = 0; i < scene->count; i++) {
        if (scene->things[i].recipe == recipe) {
            return true;
        }
    }
    return false;
}

static void add(struct scene *scene, size_t recipe) {
    if (scene->count < SCENE_THINGS && !shows(scene, recipe)) {
        scene->things[scene->count++] = (struct thing){.recipe = recipe};
    }
}

/* Chooses a thing that the scene does not show yet, in proportion to its frequency; `count` if none is left. */
static size_t choose_thing(const struct recipe *recipes, size_t count, const struct scene *scene, struct stream *stream) {
    double total = 0;
    size_t chosen = count;
    for (size_t i = 0; i < count; i++) {
        total += shows(scene, i) ? 0 : recipes[i].frequency;
    }
    double left = draw_between(stream, 0, total);
    for (size_t i = 0; i < count && left >= 0; i++) {
        if (!shows(scene, i) && recipes[i].frequency > 0) {
            chosen = i;
            left -= recipes[i].frequency;
        }
    }
    return chosen;
}

static void add_follower(const struct recipe *recipes, size_t count, const char *name, struct scene *scene) {
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(recipes[i].name, name) == 0) {
            add(scene, i);
        }
    }
}

static void choose_things(const struct recipe *recipes, size_t count, size_t always, struct stream *stream, struct scene *scene) {
    static const double at_most[SCENE_THINGS] = {0.2, 0.5, 0.75, 0.9, 1};
    const double draw = draw_between(stream, 0, 1);
    size_t wanted = 1;
    while (wanted < SCENE_THINGS && draw >= at_most[wanted - 1]) {
        wanted++;
    }
    scene->count = 0;
    while (scene->count < wanted) {
        const size_t chosen = always < count && scene->count == 0 ? always : choose_thing(recipes, count, scene, stream);
        const bool followed = draw_chance(stream, 0.92);
        if (chosen == count) {
            return;
        }
        add(scene, chosen);
        add_follower(recipes, count, followed ? recipes[chosen].follower : NULL, scene);
    }
}

/* The deepest overlap of a thing with the things before it, relative to the smaller radius of the two. */
static double overlap(const struct scene *scene, size_t index) {
    const struct thing *thing = &scene->things[index];
    double deepest = -1;
    for (size_t i = 0; i < index; i++) {
        const struct thing *other = &scene->things[i];
        const double dx = thing->centre.x - other->centre.x, dy = thing->centre.y - other->centre.y;
        const double depth = (thing->radius + other->radius - sqrt(dx * dx + dy * dy)) /
                             (thing->radius < other->radius ? thing->radius : other->radius);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

/* Things may cover each other a little. If there is no room, a thing is made smaller. */
static void place_thing(struct scene *scene, size_t index, struct stream *stream) {
    struct thing *thing = &scene->things[index];
    thing->radius = draw_between(stream, 12, 35 - 2 * (double)scene->count);
    for (int i = 0; i < TRIES; i++) {
        const double margin = 0.8 * thing->radius;
        thing->centre.x = draw_between(stream, margin, SCENE_SIDE - margin);
        thing->centre.y = draw_between(stream, margin, SCENE_SIDE - margin);
        if (overlap(scene, index) < 0.4) {
            break;
        }
        thing->radius *= thing->radius > 12 ? 0.97 : 1;
    }
    thing->turns = draw_between(stream, -0.1, 0.1);
    thing->stretch = draw_between(stream, 0.82, 1.22);
    thing->mirrored = draw_chance(stream, 0.5);
    thing->seed = random_bits(stream->seed, stream->next++);
}

void scene_plan(const struct recipe *recipes, size_t count, size_t always, uint64_t seed, struct scene *scene) {
    struct stream stream = {seed, 0};
    scene->seed = seed;
    choose_things(recipes, count, always, &stream, scene);
    for (size_t i = 0; i < scene->count; i++) {
        place_thing(scene, i, &stream);
    }
}

static struct colour muted_colour(struct stream *stream) {
    const double hue = draw_between(stream, 0, 1), saturation = draw_between(stream, 0.05, 0.45);
    return colour_of(hue, saturation, draw_between(stream, 0.35, 0.98));
}

static double smoothed(double t) {
    return t * t * (3 - 2 * t);
}

/* A slowly changing field: random values on a lattice, interpolated smoothly. */
static double field_at(const double lattice[LATTICE][LATTICE], int column, int row) {
    const double x = (double)column * (LATTICE - 1) / SCENE_SIDE, y = (double)row * (LATTICE - 1) / SCENE_SIDE;
    const int i = (int)x, j = (int)y;
    const double s = smoothed(x - i), t = smoothed(y - j);
    const double above = lattice[j][i] + s * (lattice[j][i + 1] - lattice[j][i]),
                 below = lattice[j + 1][i] + s * (lattice[j + 1][i + 1] - lattice[j + 1][i]);
    return above + t * (below - above);
}

static void draw_ground(struct canvas *canvas, struct stream *stream) {
    double lattice[LATTICE][LATTICE];
    const struct colour first = muted_colour(stream), second = muted_colour(stream);
    const double turns = draw_between(stream, 0, 1), cloudy = draw_between(stream, 0, 0.7);
    const double along_x = cosine(turns) / SCENE_SIDE, along_y = sine(turns) / SCENE_SIDE;
    for (int i = 0; i < LATTICE * LATTICE; i++) {
        lattice[i / LATTICE][i % LATTICE] = draw_between(stream, -0.5, 0.5);
    }
    uint8_t *pixel = canvas->pixels;
    for (int y = 0; y < SCENE_SIDE; y++) {
        for (int x = 0; x < SCENE_SIDE; x++, pixel += 3) {
            const double slope = 0.5 + along_x * (x - SCENE_SIDE / 2) + along_y * (y - SCENE_SIDE / 2);
            const struct colour colour = colour_between(first, second, slope + cloudy * field_at(lattice, x, y));
            memcpy(pixel, &colour, 3);
        }
    }
}

/* A polygon or a smooth curve through points around a centre, at random distances from it. */
static size_t random_blob(struct stream *stream, double radius, struct point path[PATH_POINTS]) {
    struct point points[8];
    const double x = draw_between(stream, 0, SCENE_SIDE), y = draw_between(stream, 0, SCENE_SIDE);
    const size_t count = 3 + draw_below(stream, 6);
    const bool round = draw_chance(stream, 0.6);
    for (size_t i = 0; i < count; i++) {
        const double distance = radius * draw_between(stream, 0.5, 1.1), turns = (double)i / (double)count;
        points[i] = (struct point){x + distance * cosine(turns), y + distance * sine(turns)};
    }
    if (round) {
        return smooth_path(points, count, true, path);
    }
    memcpy(path, points, count * sizeof *points);
    return count;
}

static size_t random_curve(struct stream *stream, double reach, struct point path[PATH_POINTS]) {
    struct point points[4];
    points[0].x = draw_between(stream, 0, SCENE_SIDE);
    points[0].y = draw_between(stream, 0, SCENE_SIDE);
    for (size_t i = 1; i < 4; i++) {
        points[i].x = points[i - 1].x + draw_between(stream, -reach, reach);
        points[i].y = points[i - 1].y + draw_between(stream, -reach, reach);
    }
    return smooth_path(points, 4, false, path);
}

static struct paint clutter_paint(struct stream *stream, double low, double high) {
    const struct colour colour = muted_colour(stream);
    const double opacity = draw_between(stream, low, high), turns = draw_between(stream, 0, 1);
    struct paint paint = flat_paint(colour, opacity);
    paint.second = muted_colour(stream);
    paint.along_x = cosine(turns);
    paint.along_y = sine(turns);
    paint.scale = draw_between(stream, 2.5, 9);
    paint.pattern = draw_chance(stream, 0.6) ? PATTERN_FLAT : PATTERN_STRIPES;
    if (paint.pattern == PATTERN_STRIPES) {
        paint.pattern += (enum pattern)draw_below(stream, PATTERNS - PATTERN_STRIPES);
    }
    return paint;
}

struct range {
    double low, high;
};

static void draw_blobs(struct canvas *canvas, struct stream *stream, size_t blobs, struct range radii, struct range opacities) {
    struct point path[PATH_POINTS];
    for (size_t i = 0; i < blobs; i++) {
        const double radius = draw_between(stream, radii.low, radii.high);
        const size_t count = random_blob(stream, radius, path);
        const struct paint paint = clutter_paint(stream, opacities.low, opacities.high);
        fill_path(canvas, path, count, &paint);
    }
}

static void draw_curves(struct canvas *canvas, struct stream *stream, size_t curves, double reach, struct range widths,
                        struct range opacities) {
    struct point path[PATH_POINTS];
    for (size_t i = 0; i < curves; i++) {
        const double width = draw_between(stream, widths.low, widths.high);
        const size_t count = random_curve(stream, reach, path);
        const struct paint paint = clutter_paint(stream, opacities.low, opacities.high);
        stroke_path(canvas, path, count, false, width, &paint);
    }
}

/* Draws blobs, curves and dots that belong to no class. */
static void draw_clutter(struct canvas *canvas, struct stream *stream) {
    const size_t blobs = draw_below(stream, 7), curves = draw_below(stream, 7), dots = draw_below(stream, 14);
    draw_blobs(canvas, stream, blobs, (struct range){8, 45}, (struct range){0.25, 0.8});
    draw_curves(canvas, stream, curves, 50, (struct range){1, 5}, (struct range){0.3, 0.9});
    draw_blobs(canvas, stream, dots, (struct range){1.5, 6}, (struct range){0.4, 1});
}

/* Draws thin curves in front of everything. */
static void draw_front(struct canvas *canvas, struct stream *stream) {
    draw_curves(canvas, stream, draw_below(stream, 4), 70, (struct range){1.5, 5}, (struct range){0.7, 1});
}

static uint8_t to_byte(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Applies brightness, contrast and grain. The sum of four random bytes is close to a normal distribution. */
static void finish(struct canvas *canvas, struct stream *stream) {
    const int contrast = (int)draw_between(stream, 200, 290), light = (int)draw_between(stream, -22, 22),
              grain = (int)draw_between(stream, 0, 26);
    const uint64_t seed = random_bits(stream->seed, stream->next++);
    uint8_t *pixel = canvas->pixels;
    for (uint64_t i = 0; i < SCENE_SIDE * SCENE_SIDE; i++, pixel += 3) {
        const uint64_t bits = random_bits(seed, i);
        const int all = (int)(bits & 255) + (int)(bits >> 8 & 255) + (int)(bits >> 16 & 255) + (int)(bits >> 24 & 255) - 510;
        for (int c = 0; c < 3; c++) {
            const int own = (int)(bits >> (32 + 8 * c) & 255) - 128;
            const int noise = grain * (all + own) / 512;
            pixel[c] = to_byte((pixel[c] - 128) * contrast / 256 + 128 + light + noise);
        }
    }
}

void scene_draw(const struct recipe *recipes, struct scene *scene, uint8_t *pixels) {
    struct canvas canvas = {.width = SCENE_SIDE, .height = SCENE_SIDE, .pixels = pixels};
    struct stream stream = {scene->seed ^ UINT64_C(0xA5A5A5A5A5A5A5A5), 0};
    draw_ground(&canvas, &stream);
    draw_clutter(&canvas, &stream);
    for (size_t i = 0; i < scene->count; i++) {
        draw_thing(&canvas, &recipes[scene->things[i].recipe], &scene->things[i]);
    }
    draw_front(&canvas, &stream);
    finish(&canvas, &stream);
}
