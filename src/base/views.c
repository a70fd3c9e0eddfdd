#include "base/views.h"

#include <math.h>

/* The share of each side, and where the crop lies: 0, 1 or 2 halves of the room that is left, across and down. */
struct crop {
    double side;
    int across, down;
};

static const struct crop corners[] = {{0.6, 0, 0}, {0.6, 2, 0}, {0.6, 0, 2}, {0.6, 2, 2}, {0.6, 1, 1}};
static const struct crop grid[] = {{0.45, 0, 0}, {0.45, 1, 0}, {0.45, 2, 0}, {0.45, 0, 1}, {0.45, 1, 1},
                                   {0.45, 2, 1}, {0.45, 0, 2}, {0.45, 1, 2}, {0.45, 2, 2}};
enum { CORNERS = sizeof corners / sizeof corners[0], GRID = sizeof grid / sizeof grid[0] };

bool views_known(size_t views) {
    return views == 1 || views == CORNERS || views == GRID || views == CORNERS + GRID;
}

bool views_within(size_t views, size_t stored, size_t *first) {
    *first = views == GRID && stored == CORNERS + GRID ? 1 + CORNERS : 1;
    return views == 1 || views == stored || (stored == CORNERS + GRID && (views == CORNERS || views == GRID));
}

static const struct crop *find_crop(size_t views, size_t index) {
    if (views == GRID) {
        return &grid[index];
    }
    return index < CORNERS ? &corners[index] : &grid[index - CORNERS];
}

struct view_box view_box(size_t views, size_t view, size_t width, size_t height) {
    if (!view) {
        return (struct view_box){0, 0, width, height};
    }
    const struct crop *crop = find_crop(views, view - 1);
    const double across = fmax(1, floor(crop->side * (double)width + 0.5)),
                 down = fmax(1, floor(crop->side * (double)height + 0.5));
    return (struct view_box){.left = (size_t)floor(0.5 * crop->across * ((double)width - across) + 0.5),
                             .top = (size_t)floor(0.5 * crop->down * ((double)height - down) + 0.5),
                             .width = (size_t)across,
                             .height = (size_t)down};
}

size_t l3a_view_rows(size_t views) {
    return view_rows(views);
}

int l3a_view_box(size_t views, size_t view, double box[4]) {
    if (!box || !views_known(views) || view >= view_rows(views)) {
        return 0;
    }
    const struct crop whole = {1, 0, 0}, *crop = view ? find_crop(views, view - 1) : &whole;
    box[0] = 0.5 * crop->across * (1 - crop->side);
    box[1] = 0.5 * crop->down * (1 - crop->side);
    box[2] = box[0] + crop->side;
    box[3] = box[1] + crop->side;
    return 1;
}
