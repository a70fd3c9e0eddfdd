/* slda: streaming linear discriminant analysis (Hayes & Kanan, CVPR workshops 2020) on the backbone's features z, each class
 * against the rest.
 *
 * Only sums are kept: N images, Σ z, Σ z zᵀ, and for each class its number of images n and their Σ z. An image counts in every
 * phase it belongs to. The rest of a class are all images seen that are not labelled with it, including those of other phases: as
 * everywhere without pseudo-labels, no label means absent. With the means μ₊ and μ₋, δ = μ₊ - μ₋, p = n / N, T the covariance of
 * all images, and the shrinkage ε,
 *
 *   M = (1 - ε) T + ε (tr T / k) I
 *
 * The covariance shared by a class and its rest, shrunk in the same way, is M without the part between the two,
 * M - (1 - ε) p (1 - p) δ δᵀ. The Sherman-Morrison formula gives its inverse on δ, so that one matrix is factored for all classes:
 *
 *   w = M⁻¹ δ / (1 - (1 - ε) p (1 - p) δᵀ M⁻¹ δ)
 *   s = w·z - w·(μ₊ + μ₋) / 2 + log((n + ½) / (N - n + ½))
 *
 * s is the log-odds of the class under two Gaussians with one covariance (½ an image is added on both sides to keep it finite).
 * 1 / (1 + exp(-s)) is a probability, and the class is predicted if it is above theta. A class without an image, or without a
 * rest, has w = 0. The paper scores single labels and omits the prior, which does not affect AP. Everything is float64.
 *
 * With views, the rows of an image share its weight of 1: ½ is the whole picture's, and each crop has ½/views. These are the
 * proportions of ridge regression (learn/view_rows.h); and since N and n are still numbers of images and the sums Σ z and Σ z zᵀ
 * are weighted, the formulas above hold as they are, with means and covariances over weighted rows. Each row is scored by s, and an
 * image by its rows, as everywhere. */
#include "algebra/ridge.h"
#include "base/threshold.h"
#include "method/method.h"
#include "method/state.h"

#include <math.h>
#include <string.h>

struct slda {
    l3a_context *context;
    l3a_options settings;
    size_t width, classes;
    double *moments;      /* the lower triangle of Σ ω z zᵀ [k x k] */
    double images;        /* N */
    double *sum;          /* Σ ω z */
    double *counts;       /* n */
    double *class_sums;   /* Σ ω z of each class [classes x k] */
    double *coefficients; /* w [k x classes] */
    double *bias;
};

static void free_slda(void *state) {
    struct slda *slda = state;
    release(slda->context, slda->sum);
    release(slda->context, slda->counts);
    release(slda->context, slda->class_sums);
    release(slda->context, slda->coefficients);
    release(slda->context, slda->bias);
    release(slda->context, slda->moments);
    release(slda->context, slda);
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    (void)method;
    l3a_status status = L3A_OK;
    struct slda *slda = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *slda, &slda));
    slda->context = context;
    slda->settings = *settings;
    slda->width = width;
    TRY(allocate_zeroed(context, width, width * sizeof *slda->moments, &slda->moments));
    TRY(allocate_zeroed(context, width, sizeof *slda->sum, &slda->sum));
    *state = slda;
    slda = NULL;
done:
    if (slda) {
        free_slda(slda);
    }
    return status;
}

struct pass {
    struct slda *slda;
    size_t first; /* of the lesson's classes */
    double *wide; /* √ω z, allocated for the first block, which is never smaller than later ones */
};

/* Adds a row to the sums of z, and of the classes with label 1. */
static void add_row(struct slda *slda, size_t first, const float *z, double weight, const int8_t *labels) {
    const size_t k = slda->width;
    for (size_t j = 0; j < k; j++) {
        slda->sum[j] += weight * (double)z[j];
    }
    for (size_t c = first; c < slda->classes; c++) {
        double *sum = slda->class_sums + c * k;
        for (size_t j = 0; labels[c - first] == 1 && j < k; j++) {
            sum[j] += weight * (double)z[j];
        }
    }
}

static l3a_status take(void *argument, const float *features, const int8_t *labels, size_t images) {
    struct pass *pass = argument;
    struct slda *slda = pass->slda;
    l3a_status status = L3A_OK;
    const size_t k = slda->width, own = slda->classes - pass->first, views = (size_t)slda->settings.model.views;
    const size_t each = view_rows(views), rows = images * each;
    if (!pass->wide) {
        TRY(allocate(slda->context, rows, k * sizeof *pass->wide, &pass->wide));
    }
    for (size_t i = 0; i < rows; i++) {
        const double weight = view_share(i % each, views), root = sqrt(weight);
        add_row(slda, pass->first, features + i * k, weight, labels + i / each * own);
        for (size_t j = 0; j < k; j++) {
            pass->wide[i * k + j] = root * (double)features[i * k + j];
        }
    }
    for (size_t i = 0; i < images * own; i++) {
        slda->counts[pass->first + i % own] += labels[i] == 1;
    }
    slda->images += (double)images;
    matrix_rank_update(slda->context->threads, REAL_DOUBLE, false, k, rows, 1, pass->wide, k, 1, slda->moments, k);
done:
    return status;
}

/* M, as (1 - ε) T with the ridge ε tr T / k. */
static l3a_status shrunk_covariance(const struct slda *slda, struct ridge *covariance) {
    l3a_status status = L3A_OK;
    const size_t k = slda->width;
    const double n = slda->images, keep = 1 - slda->settings.method.shrinkage;
    double *rows = NULL, trace = 0;
    TRY(allocate(slda->context, strip_numbers(k), sizeof *rows, &rows));
    TRY(ridge_create(slda->context, k, 0, REAL_DOUBLE, false, covariance));
    for (size_t first = 0, count; first < k; first += count) {
        count = strip_rows(k, first);
        double *next = rows;
        for (size_t i = first; i < first + count; i++) {
            for (size_t j = 0; j <= i; j++) {
                const double variance = slda->moments[i * k + j] / n - slda->sum[i] / n * (slda->sum[j] / n);
                trace += i == j ? variance : 0;
                *next++ = keep * variance;
            }
        }
        TRY(sums_write(&covariance->sums, KEPT, first, count, rows));
    }
    covariance->gamma = slda->settings.method.shrinkage * trace / (double)k;
    FAIL_IF(!(trace > 0 && isfinite(trace)), slda->context, L3A_ERROR_DATA, "scale the features, or use images that differ",
            "slda: the variance of the features must be finite and above 0");
done:
    release(slda->context, rows);
    return status;
}

static bool has_both(const struct slda *slda, size_t c) {
    return slda->counts[c] > 0 && slda->counts[c] < slda->images;
}

/* μ₊ and μ₋ of coordinate j */
static void means_of(const struct slda *slda, size_t c, size_t j, double *present, double *rest) {
    const double sum = slda->class_sums[c * slda->width + j];
    *present = sum / slda->counts[c];
    *rest = (slda->sum[j] - sum) / (slda->images - slda->counts[c]);
}

/* Computes w from M⁻¹ δ, and the bias. */
static void finish_class(struct slda *slda, size_t c, const double *deltas) {
    const size_t k = slda->width, all = slda->classes;
    const double n = slda->counts[c], p = n / slda->images, keep = 1 - slda->settings.method.shrinkage;
    double distance = 0, middle = 0;
    for (size_t j = 0; j < k; j++) {
        distance += deltas[j * all + c] * slda->coefficients[j * all + c];
    }
    const double left = 1 - keep * p * (1 - p) * distance;
    for (size_t j = 0; has_both(slda, c) && j < k; j++) {
        double present, rest;
        means_of(slda, c, j, &present, &rest);
        slda->coefficients[j * all + c] /= left;
        middle += slda->coefficients[j * all + c] * (present + rest) / 2;
    }
    slda->bias[c] = log((n + 0.5) / (slda->images - n + 0.5)) - middle;
}

static l3a_status solve(struct slda *slda) {
    l3a_context *context = slda->context;
    l3a_status status = L3A_OK;
    const size_t k = slda->width, all = slda->classes;
    struct ridge covariance = {0};
    double *deltas = NULL;
    TRY(shrunk_covariance(slda, &covariance));
    TRY(allocate_zeroed(context, k, all * sizeof *deltas, &deltas));
    for (size_t c = 0; c < all; c++) {
        for (size_t j = 0; has_both(slda, c) && j < k; j++) {
            double present, rest;
            means_of(slda, c, j, &present, &rest);
            deltas[j * all + c] = present - rest;
        }
    }
    status = ridge_solve(&covariance, all, deltas, slda->coefficients);
    FAIL_IF(status == L3A_ERROR_NUMERIC, context, status, "use a larger shrinkage",
            "slda: the covariance of the features cannot be inverted");
    for (size_t c = 0; status == L3A_OK && c < all; c++) {
        finish_class(slda, c, deltas);
    }
done:
    ridge_free(&covariance);
    release(context, deltas);
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct slda *slda = state;
    l3a_context *context = slda->context;
    l3a_status status = L3A_OK;
    const size_t k = slda->width, before = slda->classes, all = lesson->last, rows = (size_t)slda->settings.model.block;
    struct pass pass = {slda, before, NULL};
    TRY(extend_array(context, &slda->counts, before, all, sizeof *slda->counts));
    TRY(extend_array(context, &slda->class_sums, before, all, k * sizeof *slda->class_sums));
    TRY(extend_array(context, &slda->coefficients, 0, all, k * sizeof *slda->coefficients));
    TRY(extend_array(context, &slda->bias, 0, all, sizeof *slda->bias));
    slda->classes = all;
    TRY(lesson_read(lesson, "learn", rows, take, &pass, &outcome->images));
    TRY(solve(slda));
done:
    release(context, pass.wide);
    return status;
}

static l3a_status score(void *state, const float *features, size_t images, float *scores) {
    const struct slda *slda = state;
    l3a_context *context = slda->context;
    l3a_status status = L3A_OK;
    const size_t k = slda->width, all = slda->classes, views = scored_views(&slda->settings.model),
                 rows = images * view_rows(views);
    double *wide = NULL, *exact = NULL;
    TRY(allocate(context, rows, k * sizeof *wide, &wide));
    TRY(allocate(context, rows, all * sizeof *exact, &exact));
    for (size_t i = 0; i < rows * k; i++) {
        wide[i] = (double)features[i];
    }
    matrix_multiply(context->threads, REAL_DOUBLE, false, false, rows, all, k, 1, wide, k, slda->coefficients, all, 0, exact, all);
    for (size_t i = 0; i < rows * all; i++) {
        exact[i] += slda->bias[i % all];
    }
    combine_views(context->threads, REAL_DOUBLE, exact, images, views, all, exact, NULL);
    for (size_t i = 0; i < images * all; i++) {
        scores[i] = (float)exact[i];
    }
done:
    release(context, wide);
    release(context, exact);
    return status;
}

static void thresholds_of(const void *state, double *thresholds) {
    const struct slda *slda = state;
    same_thresholds(slda->settings.model.theta, slda->classes, thresholds);
}

/* The sums; w and the bias are solved from them in the next phase. */
static l3a_status save(void *state, l3a_state *into) {
    const struct slda *slda = state;
    const uint64_t k = slda->width, all = slda->classes;
    l3a_status status = L3A_OK;
    TRY(l3a_state_put(into, "moments", L3A_NUMBER_FLOAT64, (const uint64_t[]){k, k}, 2, slda->moments));
    TRY(l3a_state_put(into, "images", L3A_NUMBER_FLOAT64, NULL, 0, &slda->images));
    TRY(l3a_state_put(into, "sum", L3A_NUMBER_FLOAT64, &k, 1, slda->sum));
    TRY(l3a_state_put(into, "counts", L3A_NUMBER_FLOAT64, &all, 1, slda->counts));
    TRY(l3a_state_put(into, "class_sums", L3A_NUMBER_FLOAT64, (const uint64_t[]){all, k}, 2, slda->class_sums));
done:
    return status;
}

static l3a_status load(void *state, const l3a_state *from) {
    struct slda *slda = state;
    const uint64_t k = slda->width, all = from->classes;
    l3a_status status = L3A_OK;
    const void *moments, *images, *sum;
    TRY(state_expect(from, "moments", L3A_NUMBER_FLOAT64, 2, (const uint64_t[]){k, k}, &moments));
    TRY(state_expect(from, "images", L3A_NUMBER_FLOAT64, 0, NULL, &images));
    TRY(state_expect(from, "sum", L3A_NUMBER_FLOAT64, 1, &k, &sum));
    memcpy(slda->moments, moments, slda->width * slda->width * sizeof *slda->moments);
    memcpy(&slda->images, images, sizeof slda->images);
    memcpy(slda->sum, sum, slda->width * sizeof *slda->sum);
    TRY(state_copy(from, "counts", L3A_NUMBER_FLOAT64, 1, &all, &slda->counts));
    TRY(state_copy(from, "class_sums", L3A_NUMBER_FLOAT64, 2, (const uint64_t[]){all, k}, &slda->class_sums));
    slda->classes = from->classes;
done:
    return status;
}

const struct learner slda_learner = {.create = create,
                                     .learn = learn,
                                     .score = score,
                                     .thresholds = thresholds_of,
                                     .free = free_slda,
                                     .save = save,
                                     .load = load,
                                     .settings = "|shrinkage|block|theta|"};
