/* Unlabelled images (SPEC §8): images of a library that nobody has judged. They say how features are spread there, and so which
 * directions the score of a class must not depend on:
 *
 *   A_U = Σ x xᵀ over the whole pictures     M_k has β N/|U| A_U besides
 *
 * for N images that were judged and |U| that were not. C does not change. β is the setting `beta`. If it is `auto`,
 *
 *   β N = 8/K · P²/(P + 2K) · 100/(100 + N - P), rounded to a quarter of a decade
 *
 * for K classes, P = min(N, Σ n_k) being about the number of judged images that show a class. The more classes there are, the more
 * of the unlabelled images show one of them, so the less they may count; and images that were judged to show none of the classes
 * take their place. Rounding keeps the solution from changing everywhere at every lesson.
 *
 * Only the mean of U acts, so a sample of a library is as good as all of it. U is no part: the lift does not see it, γ is chosen
 * without it, and forgetting leaves it. An image of U that is judged leaves U, and returns if that is undone. So the model knows
 * the images of the sample by their checksums, and has none of their features.
 *
 * The mean score m of the library follows from sums, so a threshold can use it without the images. It is between m and the mean
 * score μ of the n images of the class:
 *
 *   T_k = m + (0.85 - 0.06 ln K) v (μ - m) n/(n + 3)     v = 1/(1 + (m/(0.3 μ))⁶)     m = w_k·b/|U|     b = Σ x over U
 *
 * Images of a class that were not learned score lower, and more so if n is small. v is near 1 for most classes. The nearer m is to
 * μ, the more images of the library show the class, and the lower its threshold must be. The constants were chosen on training
 * images (docs/teaching.md). */
#ifndef L3A_UNLABELLED_H
#define L3A_UNLABELLED_H

#include "algebra/algebra.h"

/* An image of the sample. */
struct sampled {
    uint64_t checksum;
    bool judged; /* it is not in the sums, because it was judged */
};

struct unlabelled {
    struct scatter sums;    /* A_U */
    double *total;          /* b [d]; NULL: there is no U */
    double trace;           /* of A_U */
    uint64_t images;        /* |U|: those that are in the sums; 0: there are none, or all of them were judged since */
    uint64_t drawn_from;    /* images that the sample was drawn from */
    struct sampled *sample; /* by checksum; an image of both models that were merged is there twice */
    size_t sample_count;    /* 0: the images have no checksums */
};

/* The images of a table that are to be U. */
struct unlabelled_source {
    l3a_features *features;    /* NULL: there shall be no unlabelled images */
    const uint64_t *checksums; /* of its rows; NULL: unknown */
    const bool *judged;        /* of its rows: those that were judged already; NULL: none was */
    uint64_t most;             /* of the sample */
    uint64_t drawn_from;       /* 0: from the rows of the table */
};

void unlabelled_free(l3a_context *context, struct unlabelled *unlabelled);
l3a_status unlabelled_copy(l3a_context *context, const struct unlabelled *from, struct unlabelled *to);
/* Adds the images of another model. */
l3a_status unlabelled_merge(l3a_model *model, const struct unlabelled *from);
/* Numbers `count` of [0, of), ascending, which depend on nothing but the seed. */
l3a_status draw_sample(l3a_context *context, uint64_t seed, size_t of, size_t count, size_t **chosen);

/* Replaces the model's unlabelled images, and solves for W. */
l3a_status model_set_unlabelled(l3a_model *model, const struct unlabelled_source *source);
/* Within a change: images that were judged leave U, if they are in it; others return. features [count x the numbers of an image].
 * W is not solved for. */
l3a_status model_judge(l3a_model *model, const uint64_t *checksums, const float *features, size_t count, bool judged);
/* What A_U is multiplied by in M with so many classes, of which `counts` images were learned: β N/|U|; 0 without U. */
double unlabelled_weight(const l3a_model *model, size_t classes, const uint64_t *counts);
/* T_k, as a mean over the rows of an image whose weights add up to more than 1 if there are views. There must be a U, and the mean
 * score of the class must be positive. known: K of the model that the columns are those of. */
struct model_columns;
double library_threshold(const l3a_model *model, const struct model_columns *columns, size_t k, size_t known);

#endif
