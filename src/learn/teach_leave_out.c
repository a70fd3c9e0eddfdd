/* Scores of images by the model that was not taught them, in closed form. An image has V rows X (view_rows.h), which leave
 * together. With their weights Ω in the system of class k (what they count if the image was judged for k, α times that otherwise),
 * the label y of the image and a vector of ones 1,
 *
 *   H = Ω^½ X M_k⁻¹ Xᵀ Ω^½     s = X w_k     scores without the image = Ω^-½ (I - H)⁻¹ (Ω^½ s - y H Ω^½ 1)
 *
 * since M_k loses Xᵀ Ω X, and c_k loses y Xᵀ Ω 1. With one row that is (s - h y)/(1 - h). Each system is factored once, and a row
 * costs 2 d² operations in each. The lift is added to these scores: w'_k = w_k + λ Σ_l w_l gives Σ s' = (1 + λK) Σ s. The scores of
 * rows are combined last. */
#include "learn/teach_leave_out.h"

#include <math.h>
#include <string.h>

struct leaving {
    struct taught_rows rows;
    double *spread; /* X M⁻¹ Xᵀ of an image [V x V] */
    double *left;   /* I - H of an image and a class, then its factors [V x V] */
    double *rest;   /* [V] */
    double *scores; /* of all rows [rows x classes] */
};

int8_t taught_label(const struct taught_rows *rows, size_t image, size_t class) {
    const l3a_features *features = rows->features;
    const size_t column = rows->column[class];
    return column == SIZE_MAX ? -1 : features->labels.held[image * features->classes.count + column];
}

/* ω of an image, as it was taught. */
static double weight_of(const struct taught_rows *rows, size_t image) {
    const l3a_model *model = rows->model;
    double shown = 0, judged = 0;
    size_t shows = 0, judges = 0;
    for (size_t k = 0; k < model->classes.count; k++) {
        const int8_t label = taught_label(rows, image, k);
        const double weight = model->options.weights == L3A_WEIGHTS_NONE ? 1 : model->class_weight[k];
        shown += label == 1 ? weight : 0;
        shows += label == 1;
        judged += label != -1 ? weight : 0;
        judges += label != -1;
    }
    return shows ? shown / (double)shows : judges ? judged / (double)judges : 0;
}

double taught_weight(const struct taught_rows *rows, size_t image, size_t class) {
    const l3a_model *model = rows->model;
    const bool apart = model->evidence->part_count && taught_label(rows, image, class) == -1;
    return (apart ? model->options.alpha : 1) * rows->weight[image];
}

l3a_status taught_read(struct taught_rows *rows, const size_t *images, size_t first, size_t count) {
    l3a_status status = L3A_OK;
    const size_t d = model_dim(rows->model), n = count * rows->each;
    TRY(l3a_features_read(rows->features, images, first, count, rows->values));
    TRY(block_expand(&rows->expanded, rows->values, n));
    TRY(block_read(&rows->expanded, rows->exact));
    if (options_real(&rows->model->options) == REAL_SINGLE) {
        const float *narrow = (const float *)rows->exact;
        for (size_t i = n * d; i-- > 0;) { /* from the end, because both share their memory */
            rows->exact[i] = (double)narrow[i];
        }
    }
done:
    return status;
}

l3a_status taught_solve(struct taught_rows *rows, size_t count) {
    const size_t n = count * rows->each;
    memcpy(rows->solved, rows->exact, n * model_dim(rows->model) * sizeof *rows->solved);
    return sums_solve(&rows->model->evidence->ridge.sums, REAL_DOUBLE, n, rows->solved);
}

l3a_status taught_rows_open(struct taught_rows *rows) {
    l3a_model *model = rows->model;
    l3a_features *features = rows->features;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), classes = model->classes.count;
    rows->views = (size_t)model->options.views;
    rows->each = view_rows(rows->views);
    const size_t most = images_of_rows(SCORE_ROWS, rows->views), each = rows->each;
    rows->images = features->rows < most ? features->rows : most;
    FAIL_IF(!classes, context, L3A_ERROR_STATE, "learn or teach a class first", "the model has learned no class yet");
    FAIL_IF(!features->labels.held, context, L3A_ERROR_DATA, "give the labels that the images were taught with", "%s: no labels",
            features->path);
    TRY(features_hold_all(features));
    TRY(model_ready(model));
    TRY(allocate(context, classes, sizeof *rows->column, &rows->column));
    for (size_t k = 0; k < classes; k++) {
        const size_t at = text_list_find(&features->classes, model->classes.items[k]);
        rows->column[k] = at < features->classes.count ? at : SIZE_MAX;
    }
    const struct array list[] = {
        {&rows->values, rows->images, model_image(model) * sizeof *rows->values, false},
        {&rows->exact, rows->images * each, d * sizeof *rows->exact, false},
        {&rows->solved, rows->images * each, d * sizeof *rows->solved, false},
        {&rows->weight, features->rows, sizeof *rows->weight, false},
    };
    TRY(arrays_allocate(context, list, sizeof list / sizeof list[0]));
    for (size_t i = 0; i < features->rows; i++) {
        rows->weight[i] = weight_of(rows, i);
    }
    rows->expanded = (struct block){.context = context, .layer = &model->layer, .capacity = rows->images * each};
    TRY(block_create(&rows->expanded));
    TRY(ridge_use_inverse(&model->evidence->ridge, false));
    TRY(model_sum_parts(model, classes, model->counts));
    TRY(systems_find(context, model->evidence->parts, model->evidence->part_count,
                     model->evidence->part_count ? model->options.alpha : 1, classes, &rows->systems));
done:
    return status;
}

l3a_status taught_factor(const struct taught_rows *rows, size_t system) {
    struct evidence *evidence = rows->model->evidence;
    return system_factor(&rows->systems.items[system], &evidence->ridge, evidence->part_count ? rows->model->options.alpha : 1);
}

void taught_rows_close(struct taught_rows *rows) {
    l3a_context *context = rows->model->context;
    void *const owned[] = {rows->column, rows->values, rows->weight, rows->exact, rows->solved};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    block_free(&rows->expanded);
    systems_free(context, &rows->systems);
}

/* X M⁻¹ Xᵀ of image i of the block. */
static void spread_rows(const struct leaving *leaving, size_t i) {
    const struct taught_rows *rows = &leaving->rows;
    const size_t d = model_dim(rows->model), each = rows->each;
    for (size_t a = 0; a < each; a++) {
        for (size_t b = 0; b <= a; b++) {
            const double *left = rows->exact + (i * each + a) * d, *right = rows->solved + (i * each + b) * d;
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
    const size_t each = leaving->rows.each, classes = leaving->rows.model->classes.count, views = leaving->rows.views;
    double *left = leaving->left, *rest = leaving->rest;
    for (size_t a = 0; a < each; a++) {
        const double own = sqrt(view_weight(weight, a, views));
        rest[a] = own * scores[a * classes + k];
        for (size_t b = 0; b < each; b++) {
            const double other = sqrt(view_weight(weight, b, views)), h = own * other * leaving->spread[a * each + b];
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
        scores[a * classes + k] = rest[a] / sqrt(view_weight(weight, a, views));
    }
}

/* Replaces the scores of a system's classes, which are without the lift. */
static l3a_status leave_out(struct leaving *leaving, size_t number) {
    struct taught_rows *rows = &leaving->rows;
    const struct system *system = &rows->systems.items[number];
    l3a_status status = L3A_OK;
    const size_t classes = rows->model->classes.count, count = rows->features->rows;
    TRY(taught_factor(rows, number));
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < rows->images ? count - first : rows->images;
        TRY(report_progress(rows->model->context, "leave out", first, count));
        TRY(taught_read(rows, NULL, first, n));
        TRY(taught_solve(rows, n));
        for (size_t i = 0; i < n; i++) {
            spread_rows(leaving, i);
            for (size_t c = system->first; c < system->last; c++) {
                const size_t k = rows->systems.order[c];
                const double weight = taught_weight(rows, first + i, k);
                if (weight > 0) {
                    leave_image(leaving, weight, taught_label(rows, first + i, k) == 1, k,
                                leaving->scores + (first + i) * rows->each * classes);
                }
            }
        }
    }
done:
    return status;
}

/* The scores of all rows as the model is. */
static l3a_status score_rows_now(struct leaving *leaving) {
    struct taught_rows *rows = &leaving->rows;
    l3a_model *model = rows->model;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count, count = rows->features->rows, each = rows->each;
    float *scores = NULL;
    TRY(allocate(model->context, rows->images * each, classes * sizeof *scores, &scores));
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < rows->images ? count - first : rows->images;
        TRY(l3a_features_read(rows->features, NULL, first, n, rows->values));
        TRY(score_features(model->context, &model->layer, &model->solution, 1, rows->values, n * each, scores, NULL));
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
    const l3a_model *model = leaving->rows.model;
    const size_t classes = model->classes.count, rows = leaving->rows.features->rows * leaving->rows.each;
    const double lift = model_lift(model);
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

l3a_status l3a_model_leave_out(l3a_model *model, l3a_features *features, float *scores) {
    REQUIRE(model, model, features, scores);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct leaving leaving = {.rows = {.model = model, .features = features}};
    struct taught_rows *rows = &leaving.rows;
    TRY(check_state(model, false));
    TRY(model_accepts(model, features));
    TRY(taught_rows_open(rows));
    const struct array list[] = {
        {&leaving.spread, rows->each, rows->each * sizeof *leaving.spread, false},
        {&leaving.left, rows->each, rows->each * sizeof *leaving.left, false},
        {&leaving.rest, rows->each, sizeof *leaving.rest, false},
        {&leaving.scores, features->rows * rows->each, model->classes.count * sizeof *leaving.scores, false},
    };
    TRY(arrays_allocate(context, list, sizeof list / sizeof list[0]));
    TRY(score_rows_now(&leaving));
    lift_scores(&leaving, false);
    for (size_t s = 0; s < rows->systems.count; s++) {
        TRY(leave_out(&leaving, s));
    }
    lift_scores(&leaving, true);
    combine_views(context->threads, REAL_DOUBLE, leaving.scores, features->rows, rows->views, model->classes.count, leaving.scores,
                  NULL);
    for (size_t i = 0; i < features->rows * model->classes.count; i++) {
        scores[i] = (float)leaving.scores[i];
    }
done:
    release(context, leaving.spread);
    release(context, leaving.left);
    release(context, leaving.rest);
    release(context, leaving.scores);
    taught_rows_close(rows);
    return status;
}
