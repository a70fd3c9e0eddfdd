/* gkeal: Gaussian kernels instead of the random layer (Zhuang et al., CVPR 2023), then as acil.
 *
 *   x_j = exp(-‖z - c_j‖² / (2 σ²)),   j = 1 … m
 *
 * c_1 … c_m are the features of m = min(dim, images) images, drawn by the seed from those of the first phase and kept permanently:
 * no other closed-form method here keeps features. σ = kernel-width · s, where s² = 2 (mean ‖c‖² - ‖mean c‖²) is the mean squared
 * distance between two centres, so that the scale of the features does not matter. Then comes ridge regression without weights:
 *
 *   A += Xᵀ X     C += Xᵀ Y     (A + γ'I) W = C,     γ' = γ · mean x² / (mean ‖c‖² / 6k)
 *
 * Kernels are at most 1, unlike the outputs of the random layer. γ' relates to the mean square of the kernels at the centres as γ
 * does to that of ReLU(c B), where the entries of B have variance 1/3k. So one γ suits both, and acil and gkeal can be compared in
 * one table.
 *
 * With views, the centres are whole pictures, so σ and γ' depend on those alone. Every row of an image is learned, with its weight
 * (learn/view_rows.h).
 *
 * As in acil, a class counts as predicted above logit(theta). */
#include "base/random.h"
#include "base/threshold.h"
#include "data/features.h"
#include "learn/model.h"
#include "learn/model_plan.h"
#include "method/method.h"
#include "method/regression.h"

#include <math.h>
#include <string.h>

struct gkeal {
    l3a_context *context;
    l3a_options settings;
    size_t width;
    struct regression regression; /* its layer is made in the first phase, from … */
    float *centres;               /* … c [m x width]; NULL before */
    double rate;                  /* 1 / (2 σ²) */
};

static void free_gkeal(void *state) {
    struct gkeal *gkeal = state;
    regression_free(&gkeal->regression);
    release(gkeal->context, gkeal->centres);
    release(gkeal->context, gkeal);
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    (void)method;
    l3a_status status = L3A_OK;
    struct gkeal *gkeal = NULL;
    TRY(model_check_memory(context, &settings->model, width, 0, 0, NULL));
    TRY(allocate_zeroed(context, 1, sizeof *gkeal, &gkeal));
    gkeal->context = context;
    gkeal->settings = *settings;
    gkeal->width = width;
    *state = gkeal;
done:
    return status;
}

/* The mean of x² over all centres and kernels. */
static l3a_status measure_kernels(const struct gkeal *gkeal, double *power) {
    const struct layer *layer = &gkeal->regression.layer;
    l3a_context *context = gkeal->context;
    l3a_status status = L3A_OK;
    const size_t m = layer->shape.dim, block = m < gkeal->settings.model.block ? m : (size_t)gkeal->settings.model.block;
    struct block rows = {.context = context, .layer = layer, .capacity = block};
    void *values = NULL;
    double sum = 0;
    TRY(block_create(&rows));
    TRY(allocate(context, block, m * real_size(layer->shape.type), &values));
    for (size_t first = 0; first < m; first += block) {
        const size_t n = m - first < block ? m - first : block;
        TRY(report_progress(context, "centres", first, m));
        TRY(block_expand(&rows, gkeal->centres + first * gkeal->width, n));
        TRY(block_read(&rows, values));
        for (size_t i = 0; i < n * m; i++) {
            const double x = real_get(layer->shape.type, values, i);
            sum += x * x;
        }
    }
    *power = sum / ((double)m * (double)m);
done:
    block_free(&rows);
    release(context, values);
    return status;
}

/* Moves `wanted` of the rows, drawn by the seed, to the front. */
static void draw(size_t *rows, size_t count, size_t wanted, uint64_t seed) {
    for (size_t i = 0; i < wanted; i++) {
        const size_t j = i + (size_t)(random_bits(seed, i) % (count - i)), drawn = rows[j];
        rows[j] = rows[i];
        rows[i] = drawn;
    }
}

/* Mean ‖c‖², and the mean of ‖c - mean c‖². */
static l3a_status measure_centres(const struct gkeal *gkeal, const float *centres, size_t m, double *square, double *spread) {
    l3a_status status = L3A_OK;
    const size_t k = gkeal->width;
    double *mean = NULL;
    TRY(allocate_zeroed(gkeal->context, k, sizeof *mean, &mean));
    *square = *spread = 0;
    for (size_t i = 0; i < m * k; i++) {
        mean[i % k] += (double)centres[i] / (double)m;
        *square += (double)centres[i] * (double)centres[i] / (double)m;
    }
    for (size_t i = 0; i < m * k; i++) {
        const double gap = (double)centres[i] - mean[i % k];
        *spread += gap * gap / (double)m;
    }
done:
    release(gkeal->context, mean);
    return status;
}

/* Reads the first row of each image. */
static l3a_status read_whole_pictures(l3a_features *features, const size_t *rows, size_t count, float *values) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const size_t k = features->width, image = features_row(features);
    float *images = NULL;
    TRY(allocate(context, READ_ROWS, image * sizeof *images, &images));
    for (size_t first = 0; first < count; first += READ_ROWS) {
        const size_t n = count - first < READ_ROWS ? count - first : READ_ROWS;
        TRY(l3a_features_read(features, rows + first, 0, n, images));
        for (size_t i = 0; i < n; i++) {
            memcpy(values + (first + i) * k, images + i * image, k * sizeof *values);
        }
    }
done:
    release(context, images);
    return status;
}

/* Makes the layer of m kernels, with sums of 0. γ' is not known yet. */
static l3a_status create_regression(struct gkeal *gkeal, size_t m) {
    const struct layer_shape shape = {.kind = LAYER_KERNELS,
                                      .type = options_real(&gkeal->settings.model),
                                      .width = gkeal->width,
                                      .dim = m,
                                      .centres = gkeal->centres,
                                      .rate = gkeal->rate};
    return regression_create(gkeal->context, &shape, 0, &gkeal->regression);
}

static l3a_status make_kernels(struct gkeal *gkeal, const struct lesson *lesson) {
    l3a_context *context = gkeal->context;
    const l3a_options *settings = &gkeal->settings;
    l3a_status status = L3A_OK;
    const size_t k = gkeal->width;
    size_t *rows = NULL, count = 0;
    double square, spread, power;
    TRY(lesson_rows(lesson, &rows, &count));
    const size_t m = count < settings->model.dim ? count : (size_t)settings->model.dim;
    draw(rows, count, m, settings->model.seed);
    TRY(allocate(context, m, k * sizeof *gkeal->centres, &gkeal->centres));
    TRY(read_whole_pictures(lesson->train, rows, m, gkeal->centres));
    TRY(measure_centres(gkeal, gkeal->centres, m, &square, &spread));
    gkeal->rate = 1 / (4 * settings->method.kernel_width * settings->method.kernel_width * spread);
    FAIL_IF(!(spread > 0 && isfinite(gkeal->rate) && gkeal->rate > 0), context, L3A_ERROR_DATA,
            "use a first phase with images that differ, and features that can be squared",
            "gkeal: the distances between the %zu images drawn from the first phase give no kernel width", m);
    TRY(create_regression(gkeal, m));
    TRY(measure_kernels(gkeal, &power));
    gkeal->regression.ridge.gamma = settings->model.gamma * power * 6 * (double)k / square;
done:
    release(context, rows);
    return status;
}

static l3a_status take(void *argument, const float *features, const int8_t *labels, size_t images) {
    struct gkeal *gkeal = argument;
    struct regression *regression = &gkeal->regression;
    l3a_context *context = gkeal->context;
    l3a_status status = L3A_OK;
    const size_t own = regression->classes - regression->first, views = (size_t)gkeal->settings.model.views;
    const size_t each = view_rows(views), rows = images * each;
    double *weights = NULL, *targets = NULL;
    TRY(allocate(context, rows, sizeof *weights, &weights));
    TRY(allocate(context, rows, own * sizeof *targets, &targets));
    for (size_t i = 0; i < images; i++) {
        spread_image(1, labels + i * own, own, views, weights + i * each, targets + i * each * own);
    }
    TRY(regression_add(regression, features, weights, targets, rows));
done:
    release(context, weights);
    release(context, targets);
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct gkeal *gkeal = state;
    l3a_status status = L3A_OK;
    if (!gkeal->regression.context) {
        TRY(make_kernels(gkeal, lesson));
    }
    TRY(regression_begin(&gkeal->regression, lesson->last - lesson->first));
    TRY(lesson_read_part(lesson, "learn", (size_t)gkeal->settings.model.block, take, gkeal, &outcome->images));
    TRY(regression_end(&gkeal->regression));
done:
    return status;
}

static l3a_status score(void *state, const float *features, size_t images, float *scores) {
    const struct gkeal *gkeal = state;
    const struct regression *regression = &gkeal->regression;
    l3a_status status = L3A_OK;
    const size_t views = scored_views(&gkeal->settings.model), rows = images * view_rows(views);
    float *row_scores = NULL;
    TRY(allocate(gkeal->context, rows, regression->classes * sizeof *row_scores, &row_scores));
    TRY(regression_score(regression, features, rows, 1, 0, row_scores));
    combine_views(gkeal->context->threads, REAL_SINGLE, row_scores, images, views, regression->classes, scores, NULL);
done:
    release(gkeal->context, row_scores);
    return status;
}

static void thresholds_of(const void *state, double *thresholds) {
    const struct gkeal *gkeal = state;
    same_thresholds(gkeal->settings.model.theta, gkeal->regression.classes, thresholds);
}

static l3a_status save(void *state, l3a_state *into) {
    const struct gkeal *gkeal = state;
    const struct regression *regression = &gkeal->regression;
    l3a_status status = L3A_OK;
    const uint64_t centres[2] = {regression->layer.shape.dim, gkeal->width};
    TRY(l3a_state_put(into, "centres", L3A_NUMBER_FLOAT32, centres, 2, gkeal->centres));
    TRY(l3a_state_put(into, "rate", L3A_NUMBER_FLOAT64, NULL, 0, &gkeal->rate));
    TRY(l3a_state_put(into, "gamma", L3A_NUMBER_FLOAT64, NULL, 0, &regression->ridge.gamma));
    TRY(regression_save(regression, "kernels", into));
done:
    return status;
}

static l3a_status load(void *state, const l3a_state *from) {
    struct gkeal *gkeal = state;
    l3a_status status = L3A_OK;
    const void *centres, *rate, *gamma;
    uint64_t shape[2];
    TRY(l3a_state_get(from, "centres", L3A_NUMBER_FLOAT32, 2, shape, &centres));
    TRY(state_expect(from, "rate", L3A_NUMBER_FLOAT64, 0, NULL, &rate));
    TRY(state_expect(from, "gamma", L3A_NUMBER_FLOAT64, 0, NULL, &gamma));
    if (!shape[0] || shape[0] > gkeal->settings.model.dim || shape[1] != gkeal->width) {
        status = state_fail(from, "the centres of the kernels do not fit the features and the settings");
        goto done;
    }
    TRY(state_copy(from, "centres", L3A_NUMBER_FLOAT32, 2, shape, &gkeal->centres));
    memcpy(&gkeal->rate, rate, sizeof gkeal->rate);
    TRY(create_regression(gkeal, (size_t)shape[0]));
    memcpy(&gkeal->regression.ridge.gamma, gamma, sizeof(double));
    TRY(regression_load(&gkeal->regression, "kernels", from));
done:
    return status;
}

const struct learner gkeal_learner = {.create = create,
                                      .learn = learn,
                                      .score = score,
                                      .thresholds = thresholds_of,
                                      .free = free_gkeal,
                                      .save = save,
                                      .load = load,
                                      .settings = "|dim|gamma|kernel-width|precision|block|theta|",
                                      .needs_gamma = true};
