/* Scores of images by the model that was not taught them, in closed form. An image has V rows X (views.h), which leave together.
 * With their weights Ω in the system of class k (what they count if the image was judged for k, α times that otherwise), the label
 * y of the image and a vector of ones 1,
 *
 *   H = Ω^½ X M_k⁻¹ Xᵀ Ω^½     s = X w_k     scores without the image = Ω^-½ (I - H)⁻¹ (Ω^½ s - y H Ω^½ 1)
 *
 * since M_k loses Xᵀ Ω X, and c_k loses y Xᵀ Ω 1. With one row that is (s - h y)/(1 - h). Each system is factored once, and a row
 * costs 2 d² operations in each. The lift is added to these scores: w'_k = w_k + λ Σ_l w_l gives Σ s' = (1 + λK) Σ s. The scores of
 * rows are combined last. */
#include "learn/merge.h"
#include "learn/teach.h"
#include "learn/weights.h"

#include <math.h>
#include <string.h>

struct leaving {
    l3a_model *model;
    l3a_features *features;
    size_t *column;     /* of each class of the model; SIZE_MAX: the table does not have it */
    size_t images;      /* in a block */
    size_t views, each; /* rows of an image */
    float *values;
    double *weight;         /* ω of every image */
    double *exact, *solved; /* X and X M⁻¹ of a block */
    double *spread;         /* X M⁻¹ Xᵀ of an image [V x V] */
    double *left;           /* I - H of an image and a class, then its factors [V x V] */
    double *rest;           /* [V] */
    double *scores;         /* of all rows [rows x classes] */
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
static l3a_status read_rows(struct leaving *leaving, size_t first, size_t images) {
    l3a_model *model = leaving->model;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), n = images * leaving->each;
    TRY(l3a_features_read(leaving->features, NULL, first, images, leaving->values));
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

/* X M⁻¹ Xᵀ of image i of the block. */
static void spread_rows(const struct leaving *leaving, size_t i) {
    const size_t d = model_dim(leaving->model), each = leaving->each;
    for (size_t a = 0; a < each; a++) {
        for (size_t b = 0; b <= a; b++) {
            const double *left = leaving->exact + (i * each + a) * d, *right = leaving->solved + (i * each + b) * d;
            double sum = 0;
            for (size_t j = 0; j < d; j++) {
                sum += left[j] * right[j];
            }
            leaving->spread[a * each + b] = leaving->spread[b * each + a] = sum;
        }
    }
}

/* Replaces the scores of an image's rows for class k. ω: the image's weight in the system of the class. */
static void leave_image(const struct leaving *leaving, double weight, bool shown, size_t k, double *scores) {
    const size_t each = leaving->each, classes = leaving->model->classes.count;
    double *left = leaving->left, *rest = leaving->rest;
    for (size_t a = 0; a < each; a++) {
        const double own = sqrt(view_weight(weight, a, leaving->views));
        rest[a] = own * scores[a * classes + k];
        for (size_t b = 0; b < each; b++) {
            const double other = sqrt(view_weight(weight, b, leaving->views)), h = own * other * leaving->spread[a * each + b];
            rest[a] -= shown ? h * other : 0;
            left[a * each + b] = (a == b) - h;
        }
    }
    for (size_t a = 0; a < each; a++) { /* I - H = L D Lᵀ; D is above 0 if the image was taught */
        for (size_t b = 0; b <= a; b++) {
            for (size_t c = 0; c < b; c++) {
                left[a * each + b] -= left[a * each + c] * left[b * each + c] * left[c * each + c];
            }
            left[a * each + b] = a == b ? fmax(left[a * each + b], 1e-9) : left[a * each + b] / left[b * each + b];
        }
        for (size_t c = 0; c < a; c++) {
            rest[a] -= left[a * each + c] * rest[c];
        }
    }
    for (size_t a = each; a-- > 0;) {
        rest[a] /= left[a * each + a];
        for (size_t c = a + 1; c < each; c++) {
            rest[a] -= left[c * each + a] * rest[c];
        }
        scores[a * classes + k] = rest[a] / sqrt(view_weight(weight, a, leaving->views));
    }
}

/* Replaces the scores of a system's classes, which are without the lift. */
static l3a_status leave_out(struct leaving *leaving, const struct systems *systems, const struct system *system) {
    l3a_model *model = leaving->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), classes = model->classes.count, count = leaving->features->rows, each = leaving->each;
    TRY(system_factor(system, &model->evidence->ridge, model->evidence->part_count ? model->options.alpha : 1));
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < leaving->images ? count - first : leaving->images;
        TRY(report_progress(context, "leave out", first, count));
        TRY(read_rows(leaving, first, n));
        memcpy(leaving->solved, leaving->exact, n * each * d * sizeof *leaving->solved);
        TRY(sums_solve(&model->evidence->ridge.sums, REAL_DOUBLE, n * each, leaving->solved));
        for (size_t i = 0; i < n; i++) {
            spread_rows(leaving, i);
            for (size_t c = system->first; c < system->last; c++) {
                const size_t k = systems->order[c];
                const int8_t label = label_of(leaving, first + i, k);
                const double share = label == -1 && model->evidence->part_count ? model->options.alpha : 1;
                const double weight = share * leaving->weight[first + i];
                if (weight > 0) {
                    leave_image(leaving, weight, label == 1, k, leaving->scores + (first + i) * each * classes);
                }
            }
        }
    }
done:
    return status;
}

/* The scores of all rows as the model is. */
static l3a_status score_rows_now(struct leaving *leaving) {
    l3a_model *model = leaving->model;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count, count = leaving->features->rows, each = leaving->each;
    float *scores = NULL;
    TRY(allocate(model->context, leaving->images * each, classes * sizeof *scores, &scores));
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < leaving->images ? count - first : leaving->images;
        TRY(l3a_features_read(leaving->features, NULL, first, n, leaving->values));
        TRY(score_features(model->context, &model->layer, &model->solution, 1, leaving->values, n * each, scores, NULL));
        for (size_t i = 0; i < n * each * classes; i++) {
            leaving->scores[first * each * classes + i] = (double)scores[i];
        }
    }
done:
    release(model->context, scores);
    return status;
}

/* Takes the lift out of the scores of rows, or adds it. */
static void lift_scores(const struct leaving *leaving, bool add) {
    const l3a_model *model = leaving->model;
    const size_t classes = model->classes.count, rows = leaving->features->rows * leaving->each;
    const double lift = parts_lift(model->options.lift, model->evidence->parts, model->evidence->part_count);
    const double share = add ? lift : -lift / (1 + lift * (double)classes);
    for (size_t i = 0; i < rows && lift > 0; i++) {
        double *scores = leaving->scores + i * classes, sum = 0;
        for (size_t k = 0; k < classes; k++) {
            sum += scores[k];
        }
        for (size_t k = 0; k < classes; k++) {
            scores[k] += share * sum;
        }
    }
}

static l3a_status prepare(struct leaving *leaving) {
    l3a_model *model = leaving->model;
    l3a_features *features = leaving->features;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), classes = model->classes.count, each = leaving->each;
    const size_t most = images_of_rows(SCORE_ROWS, leaving->views);
    leaving->images = features->rows < most ? features->rows : most;
    TRY(allocate(context, classes, sizeof *leaving->column, &leaving->column));
    for (size_t k = 0; k < classes; k++) {
        const size_t at = text_list_find(&features->classes, model->classes.items[k]);
        leaving->column[k] = at < features->classes.count ? at : SIZE_MAX;
    }
    const struct array list[] = {
        {&leaving->values, leaving->images, model_image(model) * sizeof *leaving->values, false},
        {&leaving->exact, leaving->images * each, d * sizeof *leaving->exact, false},
        {&leaving->solved, leaving->images * each, d * sizeof *leaving->solved, false},
        {&leaving->weight, features->rows, sizeof *leaving->weight, false},
        {&leaving->spread, each, each * sizeof *leaving->spread, false},
        {&leaving->left, each, each * sizeof *leaving->left, false},
        {&leaving->rest, each, sizeof *leaving->rest, false},
        {&leaving->scores, features->rows * each, classes * sizeof *leaving->scores, false},
    };
    TRY(arrays_allocate(context, list, sizeof list / sizeof list[0]));
    for (size_t i = 0; i < features->rows; i++) {
        leaving->weight[i] = weight_of(leaving, i);
    }
    leaving->expanded = (struct block){.context = context, .layer = &model->layer, .capacity = leaving->images * each};
    TRY(block_create(&leaving->expanded));
done:
    return status;
}

static void leaving_free(struct leaving *leaving) {
    l3a_context *context = leaving->model->context;
    void *const owned[] = {leaving->column, leaving->values, leaving->weight, leaving->exact, leaving->solved,
                           leaving->spread, leaving->left,   leaving->rest,   leaving->scores};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    block_free(&leaving->expanded);
}

l3a_status l3a_model_leave_out(l3a_model *model, l3a_features *features, float *scores) {
    REQUIRE(model, model, features, scores);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t views = (size_t)model->options.views;
    struct leaving leaving = {.model = model, .features = features, .views = views, .each = view_rows(views)};
    struct systems systems = {0};
    TRY(check_state(model, false));
    TRY(l3a_model_accepts(model, features));
    FAIL_IF(!model->classes.count, context, L3A_ERROR_STATE, "learn or teach a class first", "the model has learned no class yet");
    FAIL_IF(!features->labels, context, L3A_ERROR_DATA, "give the labels that the images were taught with", "%s: no labels",
            features->path);
    TRY(model_ready(model));
    TRY(prepare(&leaving));
    TRY(score_rows_now(&leaving));
    lift_scores(&leaving, false);
    TRY(ridge_use_inverse(&model->evidence->ridge, false));
    TRY(model_sum_parts(model));
    TRY(systems_find(context, model->evidence->parts, model->evidence->part_count,
                     model->evidence->part_count ? model->options.alpha : 1, model->classes.count, &systems));
    for (size_t s = 0; s < systems.count; s++) {
        TRY(leave_out(&leaving, &systems, &systems.items[s]));
    }
    lift_scores(&leaving, true);
    combine_views(model->context->threads, REAL_DOUBLE, leaving.scores, features->rows, views, model->classes.count, leaving.scores, NULL);
    for (size_t i = 0; i < features->rows * model->classes.count; i++) {
        scores[i] = (float)leaving.scores[i];
    }
done:
    systems_free(context, &systems);
    leaving_free(&leaving);
    return status;
}
