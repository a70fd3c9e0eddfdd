/* Computes coverage, row by row.
 *
 * A polygon's row is cut into four lines. On each line, the crossings of the path are sorted, and the spans with a winding number
 * other than zero add their exact length to every pixel. A stroke covers a pixel according to how far the pixel's centre is inside
 * the nearest segment. Rows of coverage are then blended into the canvas in integer arithmetic. */
#include "draw/raster.h"

#include <math.h>
#include <string.h>

enum { LINES = 4, CHANNELS = 3, CURVE_STEPS = 8, ELLIPSE_POINTS = 48, OPAQUE = 256 };

double draw_between(struct stream *stream, double low, double high) {
    return low + (high - low) * random_uniform(stream->seed, stream->next++);
}

bool draw_chance(struct stream *stream, double probability) {
    return random_uniform(stream->seed, stream->next++) < probability;
}

size_t draw_below(struct stream *stream, size_t count) {
    return (size_t)((double)count * random_uniform(stream->seed, stream->next++));
}

/* A Taylor series for a quarter turn, and symmetry for the rest. */
double sine(double turns) {
    double part = turns - floor(turns + 0.5);
    part = part > 0.25 ? 0.5 - part : part < -0.25 ? -0.5 - part : part;
    const double x = 6.283185307179586 * part, xx = x * x;
    return x * (1 - xx / 6 * (1 - xx / 20 * (1 - xx / 42 * (1 - xx / 72))));
}

double cosine(double turns) {
    return sine(turns + 0.25);
}

static double clamp(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

struct colour colour_of(double hue, double saturation, double value) {
    double channels[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) {
        double sixth = 6 * (hue + (double)(CHANNELS - i) / CHANNELS);
        sixth -= 6 * floor(sixth / 6);
        channels[i] = 255 * value * (1 - saturation * (1 - clamp(fabs(sixth - 3) - 1, 0, 1)));
    }
    return (struct colour){(uint8_t)(channels[0] + 0.5), (uint8_t)(channels[1] + 0.5), (uint8_t)(channels[2] + 0.5)};
}

static uint8_t mix(uint8_t left, uint8_t right, int part) {
    return (uint8_t)((left * (OPAQUE - part) + right * part + OPAQUE / 2) / OPAQUE);
}

struct colour colour_between(struct colour left, struct colour right, double part) {
    const int share = (int)(OPAQUE * clamp(part, 0, 1));
    return (struct colour){mix(left.red, right.red, share), mix(left.green, right.green, share), mix(left.blue, right.blue, share)};
}

struct paint flat_paint(struct colour colour, double opacity) {
    return (struct paint){.first = colour, .second = colour, .along_x = 1, .scale = 1, .opacity = opacity};
}

/* A square wave between 0 and 1 with a period of 2, whose steps are a pixel wide. */
static double wave(double position, double scale) {
    const double within = position - 2 * floor(position / 2);
    return clamp((0.5 - fabs(within - 1)) * scale + 0.5, 0, 1);
}

static struct colour paint_at(const struct paint *paint, int column, int row) {
    const double x = column + 0.5 - paint->origin.x, y = row + 0.5 - paint->origin.y;
    const double u = (x * paint->along_x + y * paint->along_y) / paint->scale,
                 v = (y * paint->along_x - x * paint->along_y) / paint->scale;
    double part = 0;
    switch (paint->pattern) {
    case PATTERN_GRADIENT: part = 0.5 + u; break;
    case PATTERN_STRIPES: part = wave(u, paint->scale); break;
    case PATTERN_CHECKS: part = fabs(wave(u, paint->scale) - wave(v, paint->scale)); break;
    case PATTERN_DOTS: {
        const double du = u - 2 * floor(u / 2) - 1, dv = v - 2 * floor(v / 2) - 1;
        part = clamp((0.6 - sqrt(du * du + dv * dv)) * paint->scale + 0.5, 0, 1);
        break;
    }
    default: return paint->first;
    }
    return colour_between(paint->first, paint->second, part);
}

static void touch(struct canvas *canvas, int column, int row) {
    struct box *box = &canvas->touched;
    if (box->left >= box->right) {
        *box = (struct box){column, row, column + 1, row + 1};
        return;
    }
    box->left = column < box->left ? column : box->left;
    box->right = column >= box->right ? column + 1 : box->right;
    box->top = row < box->top ? row : box->top;
    box->bottom = row >= box->bottom ? row + 1 : box->bottom;
}

static void blend_row(struct canvas *canvas, int row, int left, int right, const double *cover, const struct paint *paint) {
    uint8_t *pixel = canvas->pixels + ((size_t)row * (size_t)canvas->width + (size_t)left) * CHANNELS;
    for (int x = left; x < right; x++, pixel += CHANNELS) {
        const int part = (int)(OPAQUE * clamp(cover[x], 0, 1) * paint->opacity + 0.5);
        if (part == 0) {
            continue;
        }
        const struct colour colour = paint_at(paint, x, row);
        pixel[0] = mix(pixel[0], colour.red, part);
        pixel[1] = mix(pixel[1], colour.green, part);
        pixel[2] = mix(pixel[2], colour.blue, part);
        if (part > OPAQUE / 4) {
            touch(canvas, x, row);
        }
    }
}

/* The box of the pixels within `margin` of the points; false if it contains no pixel of the canvas. */
static bool pixels_around(const struct canvas *canvas, const struct point *path, size_t count, double margin, struct box *box) {
    double left = path[0].x, right = path[0].x, top = path[0].y, bottom = path[0].y;
    for (size_t i = 1; i < count; i++) {
        left = path[i].x < left ? path[i].x : left;
        right = path[i].x > right ? path[i].x : right;
        top = path[i].y < top ? path[i].y : top;
        bottom = path[i].y > bottom ? path[i].y : bottom;
    }
    box->left = (int)clamp(floor(left - margin), 0, canvas->width);
    box->right = (int)clamp(floor(right + margin) + 1, 0, canvas->width);
    box->top = (int)clamp(floor(top - margin), 0, canvas->height);
    box->bottom = (int)clamp(floor(bottom + margin) + 1, 0, canvas->height);
    return box->left < box->right && box->top < box->bottom;
}

struct crossing {
    double x;
    int winding;
};

/* Sorts by x, with insertion sort: there are few crossings. */
static size_t find_crossings(const struct point *path, size_t count, double y, struct crossing crossings[PATH_POINTS]) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const struct point a = path[i], b = path[i + 1 < count ? i + 1 : 0];
        if ((a.y <= y) == (b.y <= y)) {
            continue;
        }
        const struct crossing crossing = {a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y), a.y <= y ? 1 : -1};
        size_t at = found++;
        for (; at > 0 && crossings[at - 1].x > crossing.x; at--) {
            crossings[at] = crossings[at - 1];
        }
        crossings[at] = crossing;
    }
    return found;
}

static void add_span(double *cover, double from, double to, int left, int right) {
    from = clamp(from, left, right);
    to = clamp(to, left, right);
    for (int x = (int)from; x < right && x < to; x++) {
        const double begin = from > x ? from : x, end = to < x + 1 ? to : x + 1;
        cover[x] += (end - begin) / LINES;
    }
}

void fill_path(struct canvas *canvas, const struct point *path, size_t count, const struct paint *paint) {
    struct crossing crossings[PATH_POINTS];
    double cover[CANVAS_SIDE];
    struct box box;
    if (count < 3 || count > PATH_POINTS || !pixels_around(canvas, path, count, 0, &box)) {
        return;
    }
    for (int row = box.top; row < box.bottom; row++) {
        memset(cover, 0, sizeof cover);
        for (int line = 0; line < LINES; line++) {
            const size_t found = find_crossings(path, count, row + (line + 0.5) / LINES, crossings);
            int winding = 0;
            for (size_t i = 0; i + 1 < found; i++) {
                winding += crossings[i].winding;
                if (winding != 0) {
                    add_span(cover, crossings[i].x, crossings[i + 1].x, box.left, box.right);
                }
            }
        }
        blend_row(canvas, row, box.left, box.right, cover, paint);
    }
}

static double distance_to(struct point from, struct point to, double x, double y) {
    const double dx = to.x - from.x, dy = to.y - from.y, length = dx * dx + dy * dy;
    const double along = length > 0 ? clamp(((x - from.x) * dx + (y - from.y) * dy) / length, 0, 1) : 0;
    const double ex = x - from.x - along * dx, ey = y - from.y - along * dy;
    return sqrt(ex * ex + ey * ey);
}

static void cover_segment(const struct canvas *canvas, struct point from, struct point to, double half, int row, double *cover) {
    const struct point ends[2] = {from, to};
    struct box box;
    if (!pixels_around(canvas, ends, 2, half + 1, &box) || row < box.top || row >= box.bottom) {
        return;
    }
    for (int x = box.left; x < box.right; x++) {
        const double inside = half + 0.5 - distance_to(from, to, x + 0.5, row + 0.5);
        cover[x] = inside > cover[x] ? inside : cover[x];
    }
}

void stroke_path(struct canvas *canvas, const struct point *path, size_t count, bool closed, double width,
                 const struct paint *paint) {
    double cover[CANVAS_SIDE];
    struct box box;
    const double half = width / 2;
    if (count < 2 || !pixels_around(canvas, path, count, half + 1, &box)) {
        return;
    }
    for (int row = box.top; row < box.bottom; row++) {
        memset(cover, 0, sizeof cover);
        for (size_t i = 0; i + 1 < count; i++) {
            cover_segment(canvas, path[i], path[i + 1], half, row, cover);
        }
        if (closed) {
            cover_segment(canvas, path[count - 1], path[0], half, row, cover);
        }
        blend_row(canvas, row, box.left, box.right, cover, paint);
    }
}

/* The Catmull-Rom cubic between b and c. */
static double curve(double a, double b, double c, double d, double t) {
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

size_t smooth_path(const struct point *points, size_t count, bool closed, struct point path[PATH_POINTS]) {
    size_t made = 0;
    const size_t pieces = closed ? count : count - 1;
    for (size_t i = 0; i < pieces && made + CURVE_STEPS < PATH_POINTS; i++) {
        const struct point b = points[i], c = points[(i + 1) % count];
        const struct point a = i || closed ? points[(i + count - 1) % count] : b;
        const struct point d = i + 2 < count || closed ? points[(i + 2) % count] : c;
        for (int step = 0; step < CURVE_STEPS; step++) {
            const double t = (double)step / CURVE_STEPS;
            path[made++] = (struct point){curve(a.x, b.x, c.x, d.x, t), curve(a.y, b.y, c.y, d.y, t)};
        }
    }
    if (!closed) {
        path[made++] = points[count - 1];
    }
    return made;
}

size_t ellipse_path(struct point centre, double across, double down, double from, double to, struct point path[PATH_POINTS]) {
    for (int i = 0; i <= ELLIPSE_POINTS; i++) {
        const double turns = from + (to - from) * i / ELLIPSE_POINTS;
        path[i] = (struct point){centre.x + across * cosine(turns), centre.y + down * sine(turns)};
    }
    return ELLIPSE_POINTS + 1;
}
