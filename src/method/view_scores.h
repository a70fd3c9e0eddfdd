#ifndef L3A_VIEW_SCORES_H
#define L3A_VIEW_SCORES_H

#include "base/matrix.h"
#include "base/views.h"

#include <stdint.h>

static inline size_t images_of_rows(size_t rows, size_t views) {
    const size_t images = rows / view_rows(views);
    return images ? images : 1;
}

static inline double view_weight(double weight, size_t view, size_t views) {
    return view ? weight / (double)views : weight;
}

static inline void spread_image(double weight, const int8_t *labels, size_t classes, size_t views, double *weights,
                                double *targets) {
    for (size_t v = 0; v < view_rows(views); v++) {
        weights[v] = view_weight(weight, v, views);
        for (size_t k = 0; k < classes; k++) {
            targets[v * classes + k] = labels[k] == 1;
        }
    }
}

static inline void combine_views(real type, const void *scores, size_t images, size_t views, size_t columns, void *combined,
                                 uint16_t *best_views) {
    const size_t rows = view_rows(views);
    (void)best_views;
    for (size_t i = 0; i < images * columns; i++) {
        const size_t at = i / columns * rows * columns + i % columns;
        const double whole = real_get(type, scores, at);
        double best = rows > 1 ? real_get(type, scores, at + columns) : whole;
        for (size_t v = 2; v < rows; v++) {
            const double s = real_get(type, scores, at + v * columns);
            best = s > best ? s : best;
        }
        real_put(type, combined, i, rows > 1 ? (whole + 2 * best) / 3 : whole);
    }
}

#endif
