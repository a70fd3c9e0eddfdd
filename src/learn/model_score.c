/* Scoring by a model: whether features are of the kind it takes, scores, thresholds, and how good they are. */
#include "learn/model.h"

#include "base/sized.h"
#include "base/threshold.h"
#include "data/features.h"
#include "measure/evaluate.h"
#include "measure/metrics.h"

#include <math.h>
#include <string.h>

static l3a_status score(l3a_model *model, const float *features, size_t rows, float *scores) {
    const l3a_status status = model_ready(model);
    return status == L3A_OK ? score_features(model->context, &model->layer, &model->solution, scored_views(&model->options),
                                             features, rows, scores, NULL)
                            : status;
}

l3a_status l3a_model_score(l3a_model *model, const float *features, size_t rows, float *scores) {
    REQUIRE(model, model, features, scores);
    return score(model, features, rows, scores);
}

static l3a_status accepts(const l3a_model *model, size_t views, const l3a_features *features) {
    return check_provenance(model->context, model->width, views, &model->record_keys, &model->record_values, features);
}

l3a_status model_accepts(const l3a_model *model, const l3a_features *features) {
    return accepts(model, (size_t)model->options.views, features);
}

l3a_status l3a_model_accepts(l3a_model *model, const l3a_features *features) {
    REQUIRE(model, model, features);
    return model_accepts(model, features);
}

l3a_status l3a_model_accepts_to_score(l3a_model *model, const l3a_features *features) {
    REQUIRE(model, model, features);
    return accepts(model, scored_views(&model->options), features);
}

/* A class counts as predicted above a share f of its own score plus all of the lift, on the mean of the images it was learned
 * from. The mean of a score x·v over these images, weighted as they were learned, is Σ ω x·v / Σ ω = c_k·v / Σ ω. With
 * coefficients w' = w + λ Σ w, v = f w + λ Σ w = f w' + (1 - f) λ Σ w, where Σ w = Σ w' / (1 + λ K) and λ is λ_t of part.h.
 *
 * f is two thirds. With thresholds `taught` it is (0.76 - 0.3 u/(N + 50)) n/(n + 1) for a class with n of the N images: with few
 * images the scores of these images are further above those of others, and among pictures that show none of the classes, a higher
 * threshold pays off. The more such images were taught, at least u = N - Σ n, the less it needs to be (docs/teaching.md).
 *
 * With thresholds `taught` and unlabelled images, the threshold is that of unlabelled.h instead.
 *
 * With views, the sums only know the mean score of all rows of these images, where the crops together count as much as the whole
 * picture; views_level() says how far above it the combined score is. */
static double taught_share(const struct model_columns *columns, size_t classes, double images) {
    double shown = 0;
    for (size_t k = 0; k < classes; k++) {
        shown += (double)columns->counts[k];
    }
    return 0.76 - 0.3 * fmax(0, images - shown) / (images + 50);
}

void columns_thresholds(const l3a_model *model, const struct model_columns *columns, double images, size_t known, size_t views,
                        double *thresholds) {
    const size_t classes = model->classes.count;
    const double fixed = logit(model->options.theta), lift = model_lift(model), share = lift / (1 + lift * (double)known),
                 taught = taught_share(columns, classes, images), level = views_level((size_t)model->options.views, views);
    double sum = 0;
    size_t fitted = 0;
    memset(thresholds, 0, classes * sizeof *thresholds);
    const bool fits_some = classes && model->options.thresholds != L3A_THRESHOLDS_FIXED;
    for (size_t i = 0; fits_some && i < model_dim(model); i++) {
        const double *cross = columns->cross + i * classes, *coefficients = columns->coefficients + i * classes;
        double all = 0;
        for (size_t k = 0; k < classes; k++) {
            all += coefficients[k];
        }
        for (size_t k = 0; k < classes; k++) {
            const double n = (double)columns->counts[k];
            const double own = model->options.thresholds == L3A_THRESHOLDS_TAUGHT ? taught * n / (n + 1) : 2.0 / 3;
            thresholds[k] += cross[k] * (own * coefficients[k] + (1 - own) * share * all);
        }
    }
    for (size_t k = 0; k < classes; k++) {
        const bool fits = thresholds[k] > 0 && columns->label_weight[k] > 0 && columns->counts[k];
        thresholds[k] = fits ? level * thresholds[k] / columns->label_weight[k] : fixed;
        if (fits && has_unlabelled(model) && model->options.thresholds == L3A_THRESHOLDS_TAUGHT) {
            thresholds[k] = level * library_threshold(model, columns, k, known);
        }
        sum += fits ? thresholds[k] : 0;
        fitted += fits;
    }
    for (size_t k = 0; fitted && model->options.thresholds == L3A_THRESHOLDS_GLOBAL && k < classes; k++) {
        thresholds[k] = sum / (double)fitted;
    }
}

void model_thresholds(const l3a_model *model, size_t views, double *thresholds) {
    const struct model_columns columns = model_columns_of(model);
    columns_thresholds(model, &columns, model_images(model), model->classes.count, views, thresholds);
}

void l3a_model_thresholds(const l3a_model *model, double *thresholds) {
    if (model && thresholds) {
        model_thresholds(model, scored_views(&model->options), thresholds);
    }
}

static l3a_status score_block(void *model, const float *features, size_t rows, float *const *scores) {
    return score(model, features, rows, scores[0]);
}

static l3a_status evaluate(l3a_model *model, l3a_features *features, const l3a_evaluate_options *options, l3a_metrics *metrics,
                           double *average_precision) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    struct evaluation evaluation = {0};
    size_t *columns = NULL;
    double *thresholds = NULL;
    l3a_metrics own;
    l3a_evaluate_options chosen;
    TRY(CHECK_SIZED(context, metrics));
    TRY(READ_SIZED(context, options, chosen));
    FAIL_IF(!classes, context, L3A_ERROR_STATE, "learn or teach a class first", "the model has learned no class yet");
    TRY(accepts(model, scored_views(&model->options), features));
    TRY(allocate(context, classes, sizeof *columns, &columns));
    TRY(features_columns(features, (const char *const *)model->classes.items, classes, columns));
    TRY((chosen.all_images ? evaluation_begin_all : evaluation_begin)(features, columns, classes, &evaluation));
    FAIL_IF(!evaluation.choice.count, context, L3A_ERROR_DATA, "measure on images that show the model's classes",
            "%s: no image has any of the model's classes", features->path);
    TRY(evaluation_score(&evaluation, 1, score_ahead(context), score_block, model));
    TRY(allocate(context, classes, sizeof *thresholds, &thresholds));
    model_thresholds(model, scored_views(&model->options), thresholds);
    TRY(evaluation_measure(&evaluation, 0, thresholds, &own, average_precision));
    own.left_out = features->rows - evaluation.count;
    TRY(WRITE_SIZED(context, metrics, own));
done:
    evaluation_free(&evaluation);
    release(context, columns);
    release(context, thresholds);
    return status;
}

l3a_status l3a_model_evaluate(l3a_model *model, l3a_features *features, const l3a_evaluate_options *options, l3a_metrics *metrics,
                              double *average_precision) {
    REQUIRE(model, model, features, metrics);
    return evaluate(model, features, options, metrics, average_precision);
}
