#ifndef L3A_VIEW_SCORES_H
#define L3A_VIEW_SCORES_H

#include "base/matrix.h"
#include "base/views.h"

/* combined [images x columns] of scores [images x rows of an image x columns]: (s₀ + 2 max)/3. */
static inline void combine_views(real type, const void *scores, size_t images, size_t views, size_t columns, float *combined) {
    const size_t rows = view_rows(views);
    for (size_t i = 0; i < images * columns; i++) {
        const size_t at = i / columns * rows * columns + i % columns;
        const double whole = real_get(type, scores, at);
        double best = rows > 1 ? real_get(type, scores, at + columns) : whole;
        for (size_t v = 2; v < rows; v++) {
            const double s = real_get(type, scores, at + v * columns);
            best = s > best ? s : best;
        }
        combined[i] = (float)(rows > 1 ? (whole + 2 * best) / 3 : whole);
    }
}

/* The same, scaled so that those of an image sum to 1. */
static inline double view_share(size_t views, size_t view) {
    return views == 1 ? 1 : view ? 0.5 / (double)views : 0.5;
}

/* ω of a row of an image of weight 1. */
static inline double view_weight(size_t views, size_t view) {
    return view ? 1 / (double)views : 1;
}

#endif
