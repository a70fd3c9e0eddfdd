/* Views in learning and scoring (SPEC §7; base/views.h says what a view is). An image with c crops has V = 1 + c rows: x_0 of the
 * whole picture, and x_1 … x_c of the crops.
 *
 *   learning   x_0 has the image's weight ω, each crop ω/c, and all of them the image's labels
 *   scoring    s = (s_0 + λ max(s_1, …, s_c)) / (1 + λ)     λ = 2, the combined score
 *
 * Pseudo-labels come from s, from s_0, or from the mean (s_0 + (s_1 + … + s_c)/c) / 2 (the setting `pseudo-from`). The best of many
 * crops is above η too easily, so s gives the most labels, and the most wrong ones (docs/views.md).
 *
 * c may be different in learning and scoring (the settings `views` and `score-views`): most of the gain comes from scoring.
 *
 * An object that is small in the whole picture is large in one of the crops, and that crop has the highest score for its class.
 * Dividing by 1 + λ keeps the scale of scores, so thresholds mean the same with and without views. Everything that is a sum over
 * images stays one, so merging, forgetting and teaching are as exact as without views. Without views V = 1, and s = s_0. */
#ifndef L3A_VIEW_ROWS_H
#define L3A_VIEW_ROWS_H

#include "base/matrix.h"
#include "base/views.h"
#include "learn/model_options.h"

#define VIEW_SHARE 2.0 /* λ */

/* The level of s over the images of a class, divided by Σ (weight of a row) (score of the row) / Σ ω over their rows, for images
 * with these views in learning and in scoring. The maximum is no function of sums, but with c crops in learning and c' in scoring,
 * s is 1 + 0.05 ln(c c') times the mean score of the whole picture and of the mean crop, within a few percent, whatever the class,
 * γ and data set: fitted on training images of VOC and COCO (docs/views.md). 1 without views. */
double views_level(size_t learned, size_t scored);
/* Images whose rows together are at most `rows`, but at least one. */
static inline size_t images_of_rows(size_t rows, size_t views) {
    const size_t images = rows / view_rows(views);
    return images ? images : 1;
}

/* The weight of a row of an image whose weight is ω. */
static inline double view_weight(double weight, size_t view, size_t views) {
    return view ? weight / (double)views : weight;
}

/* What the rows of an image count, from its weight ω and its labels: weights [V], targets [V x classes]. */
void spread_image(double weight, const int8_t *labels, size_t classes, size_t views, double *weights, double *targets);
/* Combines the scores of rows [images x V x columns] into those of images [images x columns], which may be the same array. best:
 * the crop with the highest score, 0 without views, [images x columns]; NULL: not wanted. */
void combine_views(int threads, real type, const void *rows, size_t images, size_t views, size_t columns, void *scores,
                   uint16_t *best);
/* Replaces the scores of rows [images x V x columns] by those that give the images pseudo-labels [images x columns]. */
void combine_views_for_labels(int threads, real type, l3a_pseudo_from from, void *scores, size_t images, size_t views,
                              size_t columns);

#endif
