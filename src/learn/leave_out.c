/* Scores of images by the model that was not taught them, in closed form. For an image with weight ω in the system of class k
 * (ω if it was judged for k, αω otherwise), leverage h and label y,
 *
 *   h = ω xᵀ M_k⁻¹ x     s = xᵀ w_k     score without the image = (s - h y) / (1 - h)
 *
 * since M_k loses ω x xᵀ, and c_k loses ω x y. Each system is factored once, and a row costs 2 d² operations in each. The lift is
 * added to these scores: w'_k = w_k + λ Σ_l w_l gives Σ s' = (1 + λK) Σ s. */
#include "learn/merge.h"
#include "learn/teach.h"
#include "learn/weights.h"

#include <math.h>
#include <string.h>

struct leaving {
    l3a_model *model;
    l3a_features *features;
    size_t *column; /* of each class of the model; SIZE_MAX: the table does not have it */
    size_t rows;    /* in a block */
    float *values;
    double *weight, *exact, *solved;
    struct block expanded;
};

static int8_t label_of(const struct leaving *leaving, size_t row, size_t class) {
    const l3a_features *features = leaving->features;
    const size_t column = leaving->column[class];
    return column == SIZE_MAX ? -1 : features->labels[row * features->classes.count + column];
}

/* ω of a row, as it was taught. */
static double weight_of(const struct leaving *leaving, size_t row) {
    const l3a_model *model = leaving->model;
    double shown = 0, judged = 0;
    size_t shows = 0, judges = 0;
    for (size_t k = 0; k < model->classes.count; k++) {
        const int8_t label = label_of(leaving, row, k);
        const double weight = model->options.weights == L3A_WEIGHTS_NONE ? 1 : model->class_weight[k];
        shown += label == 1 ? weight : 0;
        shows += label == 1;
        judged += label != -1 ? weight : 0;
        judges += label != -1;
    }
    return shows ? shown / (double)shows : judges ? judged / (double)judges : 0;
}

/* X in double precision. */
static l3a_status read_rows(struct leaving *leaving, size_t first, size_t n) {
    l3a_model *model = leaving->model;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model);
    TRY(l3a_features_read(leaving->features, NULL, first, n, leaving->values));
    TRY(block_expand(&leaving->expanded, leaving->values, n));
    TRY(block_read(&leaving->expanded, leaving->exact));
    if (options_real(&model->options) == REAL_SINGLE) {
        const float *narrow = (const float *)leaving->exact;
        for (size_t i = n * d; i-- > 0;) { /* from the end, because both share their memory */
            leaving->exact[i] = (double)narrow[i];
        }
    }
done:
    return status;
}

/* Replaces the scores of a system's classes, which are without the lift. */
static l3a_status leave_out(struct leaving *leaving, const struct systems *systems, const struct system *system, float *scores) {
    l3a_model *model = leaving->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), classes = model->classes.count;
    TRY(system_factor(system, &model->evidence->ridge, model->evidence->part_count ? model->options.alpha : 1));
    for (size_t first = 0, n; first < leaving->features->rows; first += n) {
        n = leaving->features->rows - first < leaving->rows ? leaving->features->rows - first : leaving->rows;
        TRY(report_progress(context, "leave out", first, leaving->features->rows));
        TRY(read_rows(leaving, first, n));
        memcpy(leaving->solved, leaving->exact, n * d * sizeof *leaving->solved);
        TRY(sums_solve(&model->evidence->ridge.sums, REAL_DOUBLE, n, leaving->solved));
        for (size_t i = 0; i < n; i++) {
            double spread = 0;
            for (size_t j = 0; j < d; j++) {
                spread += leaving->exact[i * d + j] * leaving->solved[i * d + j];
            }
            for (size_t c = system->first; c < system->last; c++) {
                const size_t k = systems->order[c];
                const int8_t label = label_of(leaving, first + i, k);
                const double share = label == -1 && model->evidence->part_count ? model->options.alpha : 1;
                const double h = fmin(share * leaving->weight[first + i] * spread, 1 - 1e-9);
                float *score = &scores[(first + i) * classes + k];
                *score = (float)(((double)*score - (label == 1 ? h : 0)) / (1 - h));
            }
        }
    }
done:
    return status;
}

/* Takes the lift out of the scores, or adds it. */
static void lift_scores(const l3a_model *model, size_t rows, bool add, float *scores) {
    const size_t classes = model->classes.count;
    const double lift = parts_lift(model->options.lift, model->evidence->parts, model->evidence->part_count);
    const double share = add ? lift : -lift / (1 + lift * (double)classes);
    for (size_t i = 0; i < rows && lift > 0; i++) {
        double sum = 0;
        for (size_t k = 0; k < classes; k++) {
            sum += (double)scores[i * classes + k];
        }
        for (size_t k = 0; k < classes; k++) {
            scores[i * classes + k] += (float)(share * sum);
        }
    }
}

static l3a_status prepare(struct leaving *leaving) {
    l3a_model *model = leaving->model;
    l3a_features *features = leaving->features;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), classes = model->classes.count;
    leaving->rows = features->rows < SCORE_ROWS ? features->rows : SCORE_ROWS;
    TRY(allocate(context, classes, sizeof *leaving->column, &leaving->column));
    for (size_t k = 0; k < classes; k++) {
        const size_t at = text_list_find(&features->classes, model->classes.items[k]);
        leaving->column[k] = at < features->classes.count ? at : SIZE_MAX;
    }
    TRY(allocate(context, leaving->rows, model->width * sizeof *leaving->values, &leaving->values));
    TRY(allocate(context, leaving->rows, d * sizeof *leaving->exact, &leaving->exact));
    TRY(allocate(context, leaving->rows, d * sizeof *leaving->solved, &leaving->solved));
    TRY(allocate(context, features->rows, sizeof *leaving->weight, &leaving->weight));
    for (size_t i = 0; i < features->rows; i++) {
        leaving->weight[i] = weight_of(leaving, i);
    }
    leaving->expanded = (struct block){.context = context, .layer = &model->layer, .capacity = leaving->rows};
    TRY(block_create(&leaving->expanded));
done:
    return status;
}

static void leaving_free(struct leaving *leaving) {
    l3a_context *context = leaving->model->context;
    release(context, leaving->column);
    release(context, leaving->values);
    release(context, leaving->weight);
    release(context, leaving->exact);
    release(context, leaving->solved);
    block_free(&leaving->expanded);
}

l3a_status l3a_model_leave_out(l3a_model *model, l3a_features *features, float *scores) {
    REQUIRE(model, model, features, scores);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct leaving leaving = {.model = model, .features = features};
    struct systems systems = {0};
    TRY(check_state(model, false));
    TRY(l3a_model_accepts(model, features));
    FAIL_IF(!model->classes.count, context, L3A_ERROR_STATE, "learn or teach a class first", "the model has learned no class yet");
    FAIL_IF(!features->labels, context, L3A_ERROR_DATA, "give the labels that the images were taught with", "%s: no labels",
            features->path);
    TRY(model_ready(model));
    TRY(prepare(&leaving));
    for (size_t first = 0, n; first < features->rows; first += n) {
        n = features->rows - first < leaving.rows ? features->rows - first : leaving.rows;
        TRY(l3a_features_read(features, NULL, first, n, leaving.values));
        TRY(l3a_model_score(model, leaving.values, n, scores + first * model->classes.count));
    }
    lift_scores(model, features->rows, false, scores);
    TRY(ridge_use_inverse(&model->evidence->ridge, false));
    TRY(model_sum_parts(model));
    TRY(systems_find(context, model->evidence->parts, model->evidence->part_count,
                     model->evidence->part_count ? model->options.alpha : 1, model->classes.count, &systems));
    for (size_t s = 0; s < systems.count; s++) {
        TRY(leave_out(&leaving, &systems, &systems.items[s], scores));
    }
    lift_scores(model, features->rows, true, scores);
done:
    systems_free(context, &systems);
    leaving_free(&leaving);
    return status;
}
