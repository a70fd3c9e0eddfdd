#include "learn/view_rows.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

double views_level(size_t learned, size_t scored) {
    return (learned > 1 ? 0.5 : 1) * (1 + 0.05 * log((double)(learned * scored)));
}

void spread_image(double weight, const int8_t *labels, size_t classes, size_t views, double *weights, double *targets) {
    for (size_t v = 0; v < view_rows(views); v++) {
        weights[v] = view_weight(weight, v, views);
        for (size_t k = 0; k < classes; k++) {
            targets[v * classes + k] = labels[k] == 1;
        }
    }
}

static void combine_single(const float *whole, size_t views, size_t columns, float *scores) {
    const float share = (float)VIEW_SHARE;
    for (size_t k = 0; k < columns; k++) {
        float most = whole[columns + k];
        for (size_t v = 2; v <= views; v++) {
            most = whole[v * columns + k] > most ? whole[v * columns + k] : most;
        }
        scores[k] = (whole[k] + share * most) / (1 + share);
    }
}

static void combine_double(const double *whole, size_t views, size_t columns, double *scores) {
    for (size_t k = 0; k < columns; k++) {
        double most = whole[columns + k];
        for (size_t v = 2; v <= views; v++) {
            most = whole[v * columns + k] > most ? whole[v * columns + k] : most;
        }
        scores[k] = (whole[k] + VIEW_SHARE * most) / (1 + VIEW_SHARE);
    }
}

static void average(real type, const void *rows, size_t views, size_t columns, void *scores) {
    for (size_t k = 0; k < columns; k++) {
        double sum = 0;
        for (size_t v = 1; v <= views; v++) {
            sum += real_get(type, rows, v * columns + k);
        }
        real_put(type, scores, k, (real_get(type, rows, k) + sum / (double)views) / 2);
    }
}

static void find_best(real type, const void *rows, size_t views, size_t columns, uint16_t *best) {
    for (size_t k = 0; k < columns; k++) {
        best[k] = views > 1;
        for (size_t v = 2; views > 1 && v <= views; v++) {
            if (real_get(type, rows, v * columns + k) > real_get(type, rows, best[k] * columns + k)) {
                best[k] = (uint16_t)v;
            }
        }
    }
}

struct combining {
    real type;
    l3a_pseudo_from rule;
    const char *rows;
    size_t views, columns;
    char *scores;
    size_t stride; /* bytes from the scores of an image to those of the next */
    uint16_t *best;
};

static void combine_images(void *argument, size_t first, size_t last) {
    const struct combining *c = argument;
    const size_t row = c->columns * real_size(c->type), all = view_rows(c->views) * row;
    for (size_t i = first; i < last; i++) {
        const char *from = c->rows + i * all;
        char *to = c->scores + i * c->stride;
        if (c->best) {
            find_best(c->type, from, c->views, c->columns, c->best + i * c->columns);
        }
        if (c->views == 1 || c->rule == L3A_PSEUDO_FROM_WHOLE) {
            memmove(to, from, row);
        } else if (c->rule == L3A_PSEUDO_FROM_MEAN) {
            average(c->type, from, c->views, c->columns, to);
        } else if (c->type == REAL_SINGLE) {
            combine_single((const float *)(const void *)from, c->views, c->columns, (float *)(void *)to);
        } else {
            combine_double((const double *)(const void *)from, c->views, c->columns, (double *)(void *)to);
        }
    }
}

/* In the same array, the scores of each image first replace those of its whole picture, and are then moved together. */
static void combine(int threads, struct combining *combining, size_t images) {
    enum { PART = 1 << 14 };
    const size_t row = combining->columns * real_size(combining->type), each = view_rows(combining->views), all = each * row,
                 numbers = each * combining->columns;
    const bool same = combining->rows == combining->scores;
    if (same && each == 1 && !combining->best) {
        return;
    }
    combining->stride = same ? all : row;
    parallel_for(threads, images, numbers < PART ? PART / (numbers + 1) + 1 : 1, combine_images, combining);
    for (size_t i = 1; same && each > 1 && i < images; i++) {
        memmove(combining->scores + i * row, combining->rows + i * all, row);
    }
}

void combine_views(int threads, real type, const void *rows, size_t images, size_t views, size_t columns, void *scores,
                   uint16_t *best) {
    struct combining combining = {.type = type,
                                  .rule = L3A_PSEUDO_FROM_COMBINED,
                                  .rows = rows,
                                  .views = views,
                                  .columns = columns,
                                  .scores = scores,
                                  .best = best};
    combine(threads, &combining, images);
}

void combine_views_for_labels(int threads, real type, l3a_pseudo_from from, void *scores, size_t images, size_t views,
                              size_t columns) {
    struct combining combining = {.type = type, .rule = from, .rows = scores, .views = views, .columns = columns, .scores = scores};
    combine(threads, &combining, images);
}
