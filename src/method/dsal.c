/* dsal: DS-AL, a dual stream (Zhuang et al., AAAI 2024).
 *
 * The main stream is acil: ridge regression W on x = ReLU(z B). After it has learned the phase, the second stream learns its
 * residual on x' = tanh(z B), with the same B:
 *
 *   Y' = [0, Y - X W]     A' += X'ᵀ X'     C' += X'ᵀ Y'     (A' + γI) W' = C'
 *
 * Y - X W is in the columns of the phase's own classes only. This is the paper's previous label cleansing, since new images have
 * no labels of old classes. Solving the sums afresh equals the paper's recursion exactly. The score is
 *
 *   s = x·w + ratio · x'·w'
 *
 * so a ratio of 0 is acil. The paper chooses a ratio for each data set; its program starts from 1. As in acil, a class counts as
 * predicted above logit(theta). */
#include "base/threads.h"
#include "learn/model.h"
#include "method/method.h"
#include "method/ridge.h"

#include <math.h>

struct dsal {
    l3a_context *context;
    l3a_options settings;
    l3a_model *main;
    struct ridge second;
};

/* Buffers for a block of rows in the second stream. */
struct block {
    struct dsal *dsal;
    double *wide;   /* double precision only */
    void *expanded; /* x' */
    float *scores;
    double *targets;
};

static void free_dsal(void *state) {
    struct dsal *dsal = state;
    l3a_model_free(dsal->main);
    ridge_free(&dsal->second);
    release(dsal->context, dsal);
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    (void)method;
    l3a_status status = L3A_OK;
    struct dsal *dsal = NULL;
    l3a_plan plan = {.size = sizeof plan};
    const uint64_t square = settings->model.dim * analytic_stride((size_t)settings->model.dim) * sizeof(double);
    TRY(model_plan(context, &settings->model, width, 0, &plan));
    TRY(check_memory(context, &settings->model, width, plan.memory + square, 0));
    TRY(allocate_zeroed(context, 1, sizeof *dsal, &dsal));
    dsal->context = context;
    dsal->settings = *settings;
    TRY(model_create(context, width, &settings->model, &dsal->main));
    TRY(ridge_create(context, (size_t)settings->model.dim, settings->model.gamma, model_real(dsal->main), &dsal->second));
    *state = dsal;
    dsal = NULL;
done:
    if (dsal) {
        free_dsal(dsal);
    }
    return status;
}

/* Allocates for the first block, which is never smaller than later ones. */
static l3a_status block_prepare(struct block *block, size_t rows) {
    const struct dsal *dsal = block->dsal;
    l3a_context *context = dsal->context;
    l3a_status status = L3A_OK;
    const size_t classes = l3a_model_class_count(dsal->main);
    if (block->targets) {
        return L3A_OK;
    }
    if (dsal->second.type == REAL_DOUBLE) {
        TRY(allocate(context, rows, dsal->main->width * sizeof *block->wide, &block->wide));
    }
    TRY(allocate(context, rows, (size_t)dsal->settings.model.dim * real_size(dsal->second.type), &block->expanded));
    TRY(allocate(context, rows, classes * sizeof *block->scores, &block->scores));
    TRY(allocate(context, rows, classes * sizeof *block->targets, &block->targets));
done:
    return status;
}

static void block_free(struct block *block) {
    l3a_context *context = block->dsal->context;
    release(context, block->wide);
    release(context, block->expanded);
    release(context, block->scores);
    release(context, block->targets);
}

static void tanh_single(void *argument, size_t first, size_t last) {
    float *x = argument;
    for (size_t i = first; i < last; i++) {
        x[i] = tanhf(x[i]);
    }
}

static void tanh_double(void *argument, size_t first, size_t last) {
    double *x = argument;
    for (size_t i = first; i < last; i++) {
        x[i] = tanh(x[i]);
    }
}

/* x' = tanh(z B) */
static void expand(const struct block *block, const float *features, size_t rows) {
    enum { GRAIN = 1 << 14 };
    const struct dsal *dsal = block->dsal;
    buffer_project(&dsal->main->buffer, features, rows, block->wide, block->expanded);
    parallel_for(dsal->context->threads, rows * (size_t)dsal->settings.model.dim, GRAIN,
                 dsal->second.type == REAL_SINGLE ? tanh_single : tanh_double, block->expanded);
}

static l3a_status take(void *argument, const float *features, const int8_t *labels, size_t rows) {
    struct block *block = argument;
    struct dsal *dsal = block->dsal;
    l3a_status status = L3A_OK;
    const size_t all = dsal->second.classes, first = dsal->second.first, own = all - first;
    TRY(block_prepare(block, rows));
    TRY(l3a_model_score(dsal->main, features, rows, block->scores));
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < own; k++) {
            block->targets[i * own + k] = (labels[i * own + k] == 1) - (double)block->scores[i * all + first + k];
        }
    }
    expand(block, features, rows);
    TRY(ridge_add(&dsal->second, block->expanded, block->targets, rows));
done:
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct dsal *dsal = state;
    l3a_status status = L3A_OK;
    const size_t own = lesson->last - lesson->first;
    struct block block = {.dsal = dsal};
    TRY(l3a_model_learn(dsal->main, lesson->train, lesson->names + lesson->first, own));
    TRY(ridge_begin(&dsal->second, own));
    TRY(lesson_read(lesson, "second stream", (size_t)dsal->settings.model.block, take, &block, &outcome->images));
    TRY(ridge_end(&dsal->second));
done:
    block_free(&block);
    return status;
}

static l3a_status score(void *state, const float *features, size_t rows, float *scores) {
    struct dsal *dsal = state;
    l3a_status status = L3A_OK;
    struct block block = {.dsal = dsal};
    TRY(block_prepare(&block, rows));
    TRY(l3a_model_score(dsal->main, features, rows, scores));
    expand(&block, features, rows);
    TRY(ridge_score(&dsal->second, block.expanded, rows, dsal->settings.method.ratio, 1, scores));
done:
    block_free(&block);
    return status;
}

static void edges_of(const void *state, double *edges) {
    const struct dsal *dsal = state;
    for (size_t k = 0; k < dsal->second.classes; k++) {
        edges[k] = logit(dsal->settings.model.theta);
    }
}

const struct learner dsal_learner = {
    create, learn, score, edges_of, free_dsal, false, .settings = "|dim|gamma|ratio|precision|block|theta|", .needs_gamma = true};
