/* What to expect of a model, as its history tells: of pictures like those that were taught, and of a library. */
#include "data/features.h"
#include "tag/history_private.h"

#include <math.h>
#include <string.h>

/* The pictures that the model knows, and what it would have made of them unseen. A picture that shows no class is *background*.
 * Over the pictures judged for class k, with left-out scores s and the threshold T of the class, and the shares of
 * l3a_history_foresee():
 *
 *   found      pictures of the class with s > T (c - 1)/c; c of them were taught, and without one of them the scores are lower
 *   recall     found / n                         n pictures show the class
 *   alarms     the share of the pictures that show another class, but not k, with s > T;    near: with s > 3/4 T
 *   guess      of the share of the background that gets the tag: the mean of (near + 0.25/K)/2 and, if it is known, the share of
 *              the other classes' pictures that a model which was never taught them tags with k (l3a_model_leave_out_classes)
 *   g          (20 guess + hits) / (20 + u)      of u background pictures that were taught, as many have s > T
 *   precision  found / (found + alarms (N - n) + g N b/(1 - b))     N pictures show a class, b is the share of the background
 *
 * docs/teaching.md says how the rule was chosen, and how far it can be trusted. */

/* The pictures as a table: features [count x numbers of a picture] and labels [count x classes]. */
struct review {
    struct known *pictures;
    size_t count, classes;
    float *features, *scores;
    int8_t *labels;
    double *thresholds, *shares;
};

static void review_free(l3a_context *context, struct review *review) {
    release(context, review->pictures);
    release(context, review->features);
    release(context, review->scores);
    release(context, review->labels);
    release(context, review->thresholds);
    release(context, review->shares);
}

/* Copies the features of the pictures, entry by entry. */
static l3a_status gather_features(const l3a_history *history, struct review *review, size_t width) {
    l3a_context *context = history->context;
    const struct entry *loaded = NULL;
    const float *rows = NULL;
    float *owned = NULL;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < review->count; i++) {
        const struct known *picture = &review->pictures[i];
        if (picture->entry != loaded) {
            release(context, owned);
            TRY(journal_find_features(&history->journal, picture->entry, 0, picture->entry->row_count, &owned, &rows));
            loaded = picture->entry;
        }
        memcpy(review->features + i * width, rows + picture->row * width, width * sizeof *rows);
        history_labels(history, picture, review->labels + i * review->classes);
    }
done:
    release(context, owned);
    return status;
}

static l3a_status review_make(const l3a_history *history, struct review *review) {
    l3a_context *context = history->context;
    l3a_model *model = *history->model;
    const size_t width = model_image(model);
    l3a_features table;
    l3a_status status = L3A_OK;
    review->classes = model->classes.count;
    TRY(history_known(history, &review->pictures, &review->count));
    TRY(allocate(context, review->count, width * sizeof *review->features, &review->features));
    TRY(allocate(context, review->count, review->classes, &review->labels));
    TRY(allocate(context, review->count, review->classes * sizeof *review->scores, &review->scores));
    TRY(allocate(context, review->classes, sizeof *review->thresholds, &review->thresholds));
    TRY(allocate(context, review->classes, sizeof *review->shares, &review->shares));
    for (size_t k = 0; k < review->classes; k++) {
        review->shares[k] = NAN;
    }
    TRY(gather_features(history, review, width));
    if (review->count) {
        TRY(features_borrow(context, review->features, review->labels, review->count, (size_t)model->options.views, model->width,
                            &model->classes, &table));
        TRY(l3a_model_leave_out(model, &table, review->scores));
        TRY(l3a_model_leave_out_classes(model, &table, review->shares));
    }
    l3a_model_thresholds(model, review->thresholds);
done:
    return status;
}

/* Counts of a class over the pictures judged for it. */
struct tally {
    uint64_t shown, judged, found;
    uint64_t others, alarms, near; /* pictures that show other classes */
    uint64_t none, hits;           /* pictures that show none */
};

static struct tally count_class(const struct review *review, size_t class, const bool *shows, uint64_t taught) {
    struct tally tally = {0};
    const double threshold = review->thresholds[class], fewer = taught > 1 ? 1 - 1 / (double)taught : 1;
    for (size_t i = 0; i < review->count; i++) {
        const int8_t label = review->labels[i * review->classes + class];
        const double score = (double)review->scores[i * review->classes + class];
        const bool other = label == 0 && shows[i], none = label == 0 && !shows[i];
        tally.shown += label == 1;
        tally.judged += label >= 0;
        tally.found += label == 1 && score > threshold * fewer;
        tally.others += other;
        tally.alarms += other && score > threshold;
        tally.near += other && score > 0.75 * threshold;
        tally.none += none;
        tally.hits += none && score > threshold;
    }
    return tally;
}

/* The share of the background that gets the tag. */
static double guess_background(const struct tally *tally, size_t classes, double share) {
    const double near = tally->others ? (double)tally->near / (double)tally->others : 0;
    const double own = (near + 0.25 / (double)classes) / 2, guess = isnan(share) ? own : (own + share) / 2;
    return (20 * guess + (double)tally->hits) / (20 + (double)tally->none);
}

/* In percent. all: pictures that show a class; g: the share of the background that gets the tag; b: the share of background. */
static double foresee_precision(const struct tally *tally, double all, double g, double b) {
    const double found = (double)tally->found, others = (double)tally->others;
    const double alarms = (others > 0 ? (double)tally->alarms / others : g) * (all - (double)tally->shown);
    const double given = found + alarms + g * all * b / (1 - b);
    return tally->found || tally->alarms || tally->hits ? 100 * found / given : NAN;
}

static void count_confusions(const struct review *review, uint64_t *counts) {
    const size_t classes = review->classes;
    memset(counts, 0, classes * classes * sizeof *counts);
    for (size_t i = 0; i < review->count; i++) {
        const int8_t *labels = review->labels + i * classes;
        for (size_t k = 0; k < classes * classes; k++) {
            const size_t shown = k / classes, tagged = k % classes;
            const bool predicted = (double)review->scores[i * classes + tagged] > review->thresholds[tagged];
            counts[k] += labels[shown] == 1 && labels[tagged] == 0 && predicted;
        }
    }
}

/* Whether each picture shows a class; returns how many do. */
static uint64_t find_shown(const struct review *review, bool *shows) {
    uint64_t count = 0;
    for (size_t i = 0; i < review->count; i++) {
        shows[i] = memchr(review->labels + i * review->classes, 1, review->classes) != NULL;
        count += shows[i];
    }
    return count;
}

l3a_status l3a_history_foresee(const l3a_history *history, const double *background, size_t count, double *precision,
                               double *recall, uint64_t *shown, uint64_t *judged, uint64_t *confusions) {
    REQUIRE(history, history, background, precision, recall, shown, judged);
    l3a_context *context = history->context;
    struct review review = {0};
    bool *shows = NULL;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!(background[i] >= 0 && background[i] < 1), context, L3A_ERROR_ARGUMENT, "give a share from 0 to below 1",
                "a share of %g of the pictures cannot be background", background[i]);
    }
    TRY(review_make(history, &review));
    TRY(allocate(context, review.count, sizeof *shows, &shows));
    const double all = (double)find_shown(&review, shows);
    for (size_t k = 0; k < review.classes; k++) {
        const struct tally tally = count_class(&review, k, shows, (*history->model)->counts[k]);
        const bool known = tally.shown >= 2 && tally.judged > tally.shown;
        const double g = guess_background(&tally, review.classes, review.shares[k]);
        shown[k] = tally.shown;
        judged[k] = tally.judged;
        recall[k] = known ? 100 * (double)tally.found / (double)tally.shown : NAN;
        for (size_t i = 0; i < count; i++) {
            precision[i * review.classes + k] = known ? foresee_precision(&tally, all, g, background[i]) : NAN;
        }
    }
    if (confusions) {
        count_confusions(&review, confusions);
    }
done:
    review_free(context, &review);
    release(context, shows);
    return status;
}

/* ---- A library ---- */

/* In a library, whose scores of class k are known, with T the threshold and m their mean:
 *
 *   recall      as above
 *   precision   1 / (1 + exp(1.7 + 1.5 ln G + 2.75 ln(H/G)))     G and H: the shares of the pictures above T, and above (m + T)/2
 *
 * Where few pictures more reach half the height than the threshold, what is above it stands apart, and is mostly right; where
 * scores fall off gradually, the threshold cuts through what is common in the library. The constants were fitted on training images
 * (docs/teaching.md). */

enum { SCORED_AT_A_TIME = 1024 };

/* The scores of a library, class after class: [classes x rows]. */
static l3a_status score_library(l3a_model *model, l3a_features *library, float *scores) {
    l3a_context *context = model->context;
    const size_t classes = model->classes.count, all = library->rows, block = all < SCORED_AT_A_TIME ? all : SCORED_AT_A_TIME;
    const size_t numbers = view_rows(library->views) * library->width;
    float *features = NULL, *own = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(context, block, numbers * sizeof *features, &features));
    TRY(allocate(context, block, classes * sizeof *own, &own));
    TRY(model_ready(model));
    for (size_t first = 0, n; first < all; first += n) {
        n = all - first < block ? all - first : block;
        TRY(report_progress(context, "library", first, all));
        TRY(l3a_features_read(library, NULL, first, n, features));
        TRY(score_features(context, &model->layer, &model->solution, library->views, features, n, own, NULL));
        for (size_t i = 0; i < n * classes; i++) {
            scores[i % classes * all + first + i / classes] = own[i];
        }
    }
done:
    release(context, features);
    release(context, own);
    return status;
}

static uint64_t count_above(const float *scores, size_t count, double limit) {
    uint64_t above = 0;
    for (size_t i = 0; i < count; i++) {
        above += (double)scores[i] > limit;
    }
    return above;
}

/* In percent; *tagged: how many pictures get the class. */
static double precision_in(const float *scores, size_t count, double threshold, uint64_t *tagged) {
    double mean = 0;
    for (size_t i = 0; i < count; i++) {
        mean += (double)scores[i] / (double)count;
    }
    *tagged = count_above(scores, count, threshold);
    const double above = ((double)*tagged + 0.5) / ((double)count + 1);
    const double half = ((double)count_above(scores, count, (mean + threshold) / 2) + 0.5) / ((double)count + 1);
    return *tagged ? 100 / (1 + exp(1.7 + 1.5 * log(above) + 2.75 * log(half / above))) : NAN;
}

/* Recall by the pictures in the history. */
static l3a_status recall_of(const l3a_history *history, double *recall) {
    struct review review = {0};
    bool *shows = NULL;
    l3a_status status = L3A_OK;
    TRY(review_make(history, &review));
    TRY(allocate(history->context, review.count, sizeof *shows, &shows));
    find_shown(&review, shows);
    for (size_t k = 0; k < review.classes; k++) {
        const struct tally tally = count_class(&review, k, shows, (*history->model)->counts[k]);
        recall[k] = tally.shown >= 2 ? 100 * (double)tally.found / (double)tally.shown : NAN;
    }
done:
    review_free(history->context, &review);
    release(history->context, shows);
    return status;
}

l3a_status l3a_history_foresee_in(const l3a_history *history, l3a_features *library, double *precision, double *recall,
                                  uint64_t *tagged) {
    REQUIRE(history, history, library, tagged);
    l3a_model *model = *history->model;
    l3a_context *context = history->context;
    const size_t classes = model->classes.count, rows = library->rows;
    float *scores = NULL;
    double *thresholds = NULL;
    l3a_status status = L3A_OK;
    if (!classes) {
        return L3A_OK;
    }
    TRY(check_provenance(context, model->width, library->views, &model->record_keys, &model->record_values, library));
    TRY(allocate(context, rows, classes * sizeof *scores, &scores));
    TRY(allocate(context, classes, sizeof *thresholds, &thresholds));
    TRY(score_library(model, library, scores));
    model_thresholds(model, library->views, thresholds);
    if (recall) {
        TRY(recall_of(history, recall));
    }
    for (size_t k = 0; k < classes; k++) {
        const double expected = precision_in(scores + k * rows, rows, thresholds[k], &tagged[k]);
        if (precision) {
            precision[k] = model->counts[k] >= 2 ? expected : NAN;
        }
    }
done:
    release(context, scores);
    release(context, thresholds);
    return status;
}
