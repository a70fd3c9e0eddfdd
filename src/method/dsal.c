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
 * predicted above logit(theta).
 *
 * With views, both streams learn every row of an image with its weight (learn/view_rows.h), the second one the residual of that
 * row. s is the score of a row; an image is scored by its rows, as everywhere. */
#include "base/threshold.h"
#include "learn/model.h"
#include "learn/model_plan.h"
#include "learn/scorer.h"
#include "method/method.h"
#include "method/regression.h"

struct dsal {
    l3a_context *context;
    l3a_options settings;
    l3a_model *main;
    struct regression second;
};

static void free_dsal(void *state) {
    struct dsal *dsal = state;
    l3a_model_free(dsal->main);
    regression_free(&dsal->second);
    release(dsal->context, dsal);
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    (void)method;
    l3a_status status = L3A_OK;
    struct dsal *dsal = NULL;
    struct footprint needed;
    struct layer_shape shape = model_layer_shape(&settings->model, width);
    shape.kind = LAYER_TANH;
    TRY(model_options_check(context, &settings->model));
    do {
        model_need(context, &settings->model, width, 0, 0, &needed);
        for (enum place place = 0; place < PLACE_COUNT; place++) {
            needed.in[place] += algebra_of(context)->sums_bytes(place, context, shape.dim, 0);
        }
    } while (leaves_device(context, &settings->model, width, &needed));
    TRY(check_memory(context, &settings->model, width, &needed, &(struct footprint){{0}}));
    TRY(allocate_zeroed(context, 1, sizeof *dsal, &dsal));
    dsal->context = context;
    dsal->settings = *settings;
    TRY(l3a_model_create(context, width, settings, &dsal->main));
    TRY(regression_create(context, &shape, settings->model.gamma, &dsal->second));
    *state = dsal;
    dsal = NULL;
done:
    if (dsal) {
        free_dsal(dsal);
    }
    return status;
}

/* Scores of rows, each by itself. */
static l3a_status score_main(const struct dsal *dsal, const float *features, size_t rows, float *scores) {
    const l3a_model *main = dsal->main;
    const l3a_status status = model_ready(dsal->main);
    return status == L3A_OK ? score_features(dsal->context, &main->layer, &main->solution, 1, features, rows, scores, NULL)
                            : status;
}

static l3a_status take(void *argument, const float *features, const int8_t *labels, size_t images) {
    struct dsal *dsal = argument;
    l3a_context *context = dsal->context;
    l3a_status status = L3A_OK;
    const size_t all = dsal->second.classes, first = dsal->second.first, own = all - first;
    const size_t views = (size_t)dsal->settings.model.views, each = view_rows(views), rows = images * each;
    float *scores = NULL;
    double *weights = NULL, *targets = NULL;
    TRY(allocate(context, rows, all * sizeof *scores, &scores));
    TRY(allocate(context, rows, sizeof *weights, &weights));
    TRY(allocate(context, rows, own * sizeof *targets, &targets));
    TRY(score_main(dsal, features, rows, scores));
    for (size_t i = 0; i < images; i++) {
        spread_image(1, labels + i * own, own, views, weights + i * each, targets + i * each * own);
    }
    for (size_t i = 0; i < rows * own; i++) {
        targets[i] -= (double)scores[i / own * all + first + i % own];
    }
    TRY(regression_add(&dsal->second, features, weights, targets, rows));
done:
    release(context, scores);
    release(context, weights);
    release(context, targets);
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct dsal *dsal = state;
    l3a_status status = L3A_OK;
    const size_t own = lesson->last - lesson->first;
    TRY(l3a_model_learn(dsal->main, lesson->train, lesson->names + lesson->first, own));
    TRY(regression_begin(&dsal->second, own));
    TRY(lesson_read_part(lesson, "second stream", (size_t)dsal->settings.model.block, take, dsal, &outcome->images));
    TRY(regression_end(&dsal->second));
done:
    return status;
}

static l3a_status score(void *state, const float *features, size_t images, float *scores) {
    struct dsal *dsal = state;
    l3a_status status = L3A_OK;
    const size_t views = scored_views(&dsal->settings.model), rows = images * view_rows(views), classes = dsal->second.classes;
    float *row_scores = NULL;
    TRY(allocate(dsal->context, rows, classes * sizeof *row_scores, &row_scores));
    TRY(score_main(dsal, features, rows, row_scores));
    TRY(regression_score(&dsal->second, features, rows, dsal->settings.method.ratio, 1, row_scores));
    combine_views(dsal->context->threads, REAL_SINGLE, row_scores, images, views, classes, scores, NULL);
done:
    release(dsal->context, row_scores);
    return status;
}

static void thresholds_of(const void *state, double *thresholds) {
    const struct dsal *dsal = state;
    same_thresholds(dsal->settings.model.theta, dsal->second.classes, thresholds);
}

/* Of the main stream, the next phase uses A, C and the names of the classes: it has no pseudo-labels and no weights, and W is
 * solved anew. */
static l3a_status save(void *state, l3a_state *into) {
    const struct dsal *dsal = state;
    const l3a_model *main = dsal->main;
    l3a_status status = L3A_OK;
    text_builder names = {.context = dsal->context};
    for (size_t i = 0; i < main->classes.count; i++) {
        text_builder_print(&names, "%s\n", main->classes.items[i]);
    }
    TRY(names.status);
    char *text = names.text;
    names.text = NULL;
    TRY(state_give(into, "classes", L3A_NUMBER_UINT8, (const uint64_t[]){names.length}, 1, text));
    TRY(save_sums(&main->evidence->ridge.sums, main->evidence->cross, main->classes.count, "main", into));
    TRY(regression_save(&dsal->second, "second", into));
done:
    text_builder_free(&names);
    return status;
}

static l3a_status load_main(l3a_model *main, const l3a_state *from) {
    l3a_context *context = main->context;
    l3a_status status = L3A_OK;
    struct model_columns columns = {0};
    text_list names = {0};
    const void *text;
    uint64_t length;
    TRY(l3a_state_get(from, "classes", L3A_NUMBER_UINT8, 1, &length, &text));
    TRY(text_list_split_lines(context, &names, text, (size_t)length));
    if (names.count != from->classes || ((const char *)text)[length - 1] != '\n') {
        status = state_fail(from, "the names of the classes are not complete");
        goto done;
    }
    TRY(model_columns_create(context, model_dim(main), names.count, &columns));
    release(context, columns.cross);
    columns.cross = NULL;
    TRY(load_sums(&main->evidence->ridge.sums, &columns.cross, names.count, "main", from));
    model_columns_adopt(main, &columns);
    main->classes = names;
    names = (text_list){0};
done:
    model_columns_free(context, &columns);
    text_list_clear(context, &names);
    return status;
}

static l3a_status load(void *state, const l3a_state *from) {
    struct dsal *dsal = state;
    l3a_status status = L3A_OK;
    TRY(load_main(dsal->main, from));
    TRY(regression_load(&dsal->second, "second", from));
done:
    return status;
}

const struct learner dsal_learner = {.create = create,
                                     .learn = learn,
                                     .score = score,
                                     .thresholds = thresholds_of,
                                     .free = free_dsal,
                                     .save = save,
                                     .load = load,
                                     .settings = "|dim|gamma|ratio|precision|block|theta|",
                                     .needs_gamma = true};
