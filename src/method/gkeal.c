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
 * Distances are computed as ‖z‖² + ‖c‖² - 2 z·c, with the mean of the centres subtracted from both to reduce rounding errors. As
 * in acil, a class counts as predicted above logit(theta). */
#include "base/random.h"
#include "base/threads.h"
#include "data/features.h"
#include "learn/model.h"
#include "method/method.h"
#include "method/ridge.h"

#include <math.h>

struct gkeal {
    l3a_context *context;
    l3a_options settings;
    size_t width, centres; /* k, m */
    real type;
    double *mean;   /* of the centres */
    void *centre;   /* c - mean [m x k], in the working precision */
    double *square; /* ‖c - mean‖² */
    double rate;    /* 1 / (2 σ²) */
    struct ridge ridge;
};

/* Buffers for a block of rows. */
struct block {
    struct gkeal *gkeal;
    void *shifted;  /* z - mean */
    void *expanded; /* x */
    double *targets;
};

static void free_gkeal(void *state) {
    struct gkeal *gkeal = state;
    release(gkeal->context, gkeal->mean);
    release(gkeal->context, gkeal->centre);
    release(gkeal->context, gkeal->square);
    ridge_free(&gkeal->ridge);
    release(gkeal->context, gkeal);
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    (void)method;
    l3a_status status = L3A_OK;
    struct gkeal *gkeal = NULL;
    TRY(model_check_memory(context, &settings->model, width, 0, 0, 0));
    TRY(allocate_zeroed(context, 1, sizeof *gkeal, &gkeal));
    gkeal->context = context;
    gkeal->settings = *settings;
    gkeal->width = width;
    gkeal->type = settings->model.precision == L3A_PRECISION_MIXED ? REAL_SINGLE : REAL_DOUBLE;
    *state = gkeal;
done:
    return status;
}

static double value_at(const struct gkeal *gkeal, const void *values, size_t index) {
    return gkeal->type == REAL_SINGLE ? (double)((const float *)values)[index] : ((const double *)values)[index];
}

/* z - mean of every row */
static void shift(const struct gkeal *gkeal, const float *features, size_t rows, void *shifted) {
    const size_t k = gkeal->width;
    for (size_t i = 0; i < rows * k; i++) {
        const double value = (double)features[i] - gkeal->mean[i % k];
        if (gkeal->type == REAL_SINGLE) {
            ((float *)shifted)[i] = (float)value;
        } else {
            ((double *)shifted)[i] = value;
        }
    }
}

static double square_of(const struct gkeal *gkeal, const void *shifted, size_t row) {
    double sum = 0;
    for (size_t j = 0; j < gkeal->width; j++) {
        const double value = value_at(gkeal, shifted, row * gkeal->width + j);
        sum += value * value;
    }
    return sum;
}

/* Allocates for the first block, which is never smaller than later ones. */
static l3a_status block_prepare(struct block *block, size_t rows, size_t classes) {
    const struct gkeal *gkeal = block->gkeal;
    l3a_context *context = gkeal->context;
    l3a_status status = L3A_OK;
    const size_t size = real_size(gkeal->type);
    if (block->targets) {
        return L3A_OK;
    }
    TRY(allocate(context, rows, gkeal->width * size, &block->shifted));
    TRY(allocate(context, rows, gkeal->centres * size, &block->expanded));
    TRY(allocate(context, rows, classes * sizeof *block->targets, &block->targets));
done:
    return status;
}

static void block_free(struct block *block) {
    l3a_context *context = block->gkeal->context;
    release(context, block->shifted);
    release(context, block->expanded);
    release(context, block->targets);
}

/* From -2 z·c to x. */
static void apply_kernels(void *argument, size_t first, size_t last) {
    const struct block *block = argument;
    const struct gkeal *gkeal = block->gkeal;
    const size_t m = gkeal->centres;
    for (size_t i = first; i < last; i++) {
        const double own = square_of(gkeal, block->shifted, i);
        for (size_t j = 0; j < m; j++) {
            const double distance = own + gkeal->square[j] + value_at(gkeal, block->expanded, i * m + j);
            const double exponent = distance > 0 ? -gkeal->rate * distance : 0;
            if (gkeal->type == REAL_SINGLE) {
                ((float *)block->expanded)[i * m + j] = expf((float)exponent);
            } else {
                ((double *)block->expanded)[i * m + j] = exp(exponent);
            }
        }
    }
}

static void expand(const struct block *block, const float *features, size_t rows) {
    const struct gkeal *gkeal = block->gkeal;
    const l3a_context *context = gkeal->context;
    const size_t k = gkeal->width, m = gkeal->centres;
    shift(gkeal, features, rows, block->shifted);
    context->matrix->multiply(context->threads, gkeal->type, false, true, rows, m, k, -2, block->shifted, k, gkeal->centre, k, 0,
                              block->expanded, m);
    struct block copy = *block;
    parallel_for(context->threads, rows, 16, apply_kernels, &copy);
}

/* The mean of x² over all centres and kernels. */
static l3a_status measure_kernels(struct gkeal *gkeal, const float *values, double *power) {
    l3a_status status = L3A_OK;
    const size_t m = gkeal->centres, rows = m < gkeal->settings.model.block ? m : (size_t)gkeal->settings.model.block;
    struct block block = {.gkeal = gkeal};
    double sum = 0;
    TRY(block_prepare(&block, rows, 1));
    for (size_t first = 0; first < m; first += rows) {
        const size_t n = m - first < rows ? m - first : rows;
        TRY(report_progress(gkeal->context, "centres", first, m));
        expand(&block, values + first * gkeal->width, n);
        for (size_t i = 0; i < n * m; i++) {
            const double x = value_at(gkeal, block.expanded, i);
            sum += x * x;
        }
    }
    *power = sum / ((double)m * (double)m);
done:
    block_free(&block);
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

/* Computes the centres, their mean, and σ. *norm: mean ‖c‖² */
static l3a_status place_centres(struct gkeal *gkeal, const float *values, size_t m, double *norm) {
    l3a_context *context = gkeal->context;
    l3a_status status = L3A_OK;
    const size_t k = gkeal->width;
    double spread = 0;
    TRY(allocate_zeroed(context, k, sizeof *gkeal->mean, &gkeal->mean));
    TRY(allocate(context, m, k * real_size(gkeal->type), &gkeal->centre));
    TRY(allocate(context, m, sizeof *gkeal->square, &gkeal->square));
    *norm = 0;
    for (size_t i = 0; i < m * k; i++) {
        gkeal->mean[i % k] += (double)values[i] / (double)m;
        *norm += (double)values[i] * (double)values[i] / (double)m;
    }
    shift(gkeal, values, m, gkeal->centre);
    for (size_t i = 0; i < m; i++) {
        gkeal->square[i] = square_of(gkeal, gkeal->centre, i);
        spread += gkeal->square[i] / (double)m;
    }
    gkeal->rate = 1 / (4 * gkeal->settings.method.kernel_width * gkeal->settings.method.kernel_width * spread);
    FAIL_IF(!(spread > 0 && isfinite(gkeal->rate) && gkeal->rate > 0), context, L3A_ERROR_DATA,
            "use a first phase with images that differ, and features that can be squared",
            "gkeal: the distances between the %zu images drawn from the first phase give no kernel width", m);
    gkeal->centres = m;
done:
    return status;
}

static l3a_status make_kernels(struct gkeal *gkeal, const struct lesson *lesson) {
    l3a_context *context = gkeal->context;
    l3a_status status = L3A_OK;
    const size_t k = gkeal->width;
    size_t *rows = NULL, count = 0;
    float *values = NULL;
    double norm, power;
    TRY(lesson_rows(lesson, &rows, &count));
    const size_t m = count < gkeal->settings.model.dim ? count : (size_t)gkeal->settings.model.dim;
    draw(rows, count, m, gkeal->settings.model.seed);
    TRY(allocate(context, m, k * sizeof *values, &values));
    TRY(l3a_features_read(lesson->train, rows, 0, m, values));
    TRY(place_centres(gkeal, values, m, &norm));
    TRY(measure_kernels(gkeal, values, &power));
    TRY(ridge_create(context, m, gkeal->settings.model.gamma * power * 6 * (double)k / norm, gkeal->type, &gkeal->ridge));
done:
    release(context, rows);
    release(context, values);
    return status;
}

static l3a_status take(void *argument, const float *features, const int8_t *labels, size_t rows) {
    struct block *block = argument;
    struct ridge *ridge = &block->gkeal->ridge;
    const size_t own = ridge->classes - ridge->first;
    l3a_status status = L3A_OK;
    TRY(block_prepare(block, rows, own));
    for (size_t i = 0; i < rows * own; i++) {
        block->targets[i] = labels[i] == 1;
    }
    expand(block, features, rows);
    TRY(ridge_add(ridge, block->expanded, block->targets, rows));
done:
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct gkeal *gkeal = state;
    l3a_status status = L3A_OK;
    struct block block = {.gkeal = gkeal};
    if (!gkeal->centres) {
        TRY(make_kernels(gkeal, lesson));
    }
    TRY(ridge_begin(&gkeal->ridge, lesson->last - lesson->first));
    TRY(lesson_read(lesson, "learn", (size_t)gkeal->settings.model.block, take, &block, &outcome->images));
    TRY(ridge_end(&gkeal->ridge));
done:
    block_free(&block);
    return status;
}

static l3a_status score(void *state, const float *features, size_t rows, float *scores) {
    struct gkeal *gkeal = state;
    l3a_status status = L3A_OK;
    struct block block = {.gkeal = gkeal};
    TRY(block_prepare(&block, rows, 1));
    expand(&block, features, rows);
    TRY(ridge_score(&gkeal->ridge, block.expanded, rows, 1, 0, scores));
done:
    block_free(&block);
    return status;
}

static void edges_of(const void *state, double *edges) {
    const struct gkeal *gkeal = state;
    for (size_t k = 0; k < gkeal->ridge.classes; k++) {
        edges[k] = logit(gkeal->settings.model.theta);
    }
}

const struct learner gkeal_learner = {create,
                                      learn,
                                      score,
                                      edges_of,
                                      free_gkeal,
                                      false,
                                      .settings = "|dim|gamma|kernel-width|precision|block|theta|",
                                      .needs_gamma = true};
