#include "learn/views.h"

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
        if (c->views == 1 && to != from) {
            memcpy(to, from, row);
        } else if (c->views > 1 && c->type == REAL_SINGLE) {
            combine_single((const float *)(const void *)from, c->views, c->columns, (float *)(void *)to);
        } else if (c->views > 1) {
            combine_double((const double *)(const void *)from, c->views, c->columns, (double *)(void *)to);
        }
    }
}

/* In the same array, the scores of each image first replace those of its whole picture, and are then moved together. */
void combine_views(int threads, real type, const void *rows, size_t images, size_t views, size_t columns, void *scores,
                   uint16_t *best) {
    enum { PART = 1 << 14 };
    const size_t row = columns * real_size(type), numbers = view_rows(views) * columns, all = view_rows(views) * row;
    const bool same = rows == scores;
    struct combining combining = {type, rows, views, columns, scores, same ? all : row, best};
    if (same && views == 1 && !best) {
        return;
    }
    parallel_for(threads, images, numbers < PART ? PART / (numbers + 1) + 1 : 1, combine_images, &combining);
    for (size_t i = 1; same && views > 1 && i < images; i++) {
        memmove((char *)scores + i * row, (const char *)rows + i * all, row);
    }
}
