#include "learn/views.h"

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

/* The scores of an image never lie behind its rows, so they can be written over rows that have been read. */
void combine_views(real type, const void *rows, size_t images, size_t views, size_t columns, void *scores, uint16_t *best) {
    const size_t row = columns * real_size(type), all = view_rows(views) * row;
    for (size_t i = 0; i < images; i++) {
        const char *from = (const char *)rows + i * all;
        char *to = (char *)scores + i * row;
        if (best) {
            find_best(type, from, views, columns, best + i * columns);
        }
        if (views == 1) {
            memmove(to, from, row);
        } else if (type == REAL_SINGLE) {
            combine_single((const float *)(const void *)from, views, columns, (float *)(void *)to);
        } else {
            combine_double((const double *)(const void *)from, views, columns, (double *)(void *)to);
        }
    }
}
