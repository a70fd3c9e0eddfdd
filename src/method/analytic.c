/* The learner behind l3a and its variants: an l3a_model. */
#include "data/features.h"
#include "learn/model.h"
#include "learn/weights.h"
#include "method/method.h"

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    l3a_status status = L3A_OK;
    l3a_model *model = NULL;
    TRY(l3a_model_create(context, width, settings, &model));
    TRY(l3a_model_set_record(model, "method", method->info.name));
    *state = model;
    model = NULL;
done:
    l3a_model_free(model);
    return status;
}

/* Compares pseudo-labels with the true labels, which learning itself never sees. */
struct comparison {
    const struct lesson *lesson;
    struct own_rows rows;
    l3a_class_tally *tallies;
    l3a_status status; /* of reading the labels */
};

static void compare(void *user, uint64_t first, size_t rows, const int8_t *labels, size_t stride) {
    struct comparison *c = user;
    l3a_context *context = c->lesson->train->context;
    const size_t old = c->lesson->first;
    int8_t *truth = NULL;
    if (c->status == L3A_OK) {
        c->status = allocate(context, rows, old, &truth);
    }
    if (c->status == L3A_OK) {
        c->status = features_gather_labels(c->lesson->train, c->rows.rows + first, rows, c->lesson->columns, old, truth);
    }
    for (size_t i = 0; c->status == L3A_OK && i < rows; i++) {
        for (size_t k = 0; k < old; k++) {
            c->tallies[k].pseudo += labels[i * stride + k] == 1;
            c->tallies[k].right += labels[i * stride + k] == 1 && truth[i * old + k] == 1;
        }
    }
    release(context, truth);
}

/* Adds up what all processes have compared. */
static l3a_status share_tallies(l3a_context *context, l3a_class_tally *tallies, size_t classes) {
    l3a_status status = L3A_OK;
    uint64_t *counts = NULL;
    if (!divides_rows(context)) {
        return L3A_OK;
    }
    TRY(allocate(context, classes, 2 * sizeof *counts, &counts));
    for (size_t k = 0; k < classes; k++) {
        counts[2 * k] = tallies[k].pseudo;
        counts[2 * k + 1] = tallies[k].right;
    }
    TRY(sum_counts(context, counts, 2 * classes));
    for (size_t k = 0; k < classes; k++) {
        tallies[k].pseudo = counts[2 * k];
        tallies[k].right = counts[2 * k + 1];
    }
done:
    release(context, counts);
    return status;
}

static l3a_status tally_weights(const l3a_model *model, l3a_class_tally *tallies) {
    const size_t classes = l3a_model_class_count(model);
    double *weights = NULL;
    const l3a_status status = allocate(model->context, classes, sizeof *weights, &weights);
    if (status == L3A_OK) {
        class_weights(model->counts, classes, model->options.weights, model->options.scaling, weights);
        for (size_t k = 0; k < classes; k++) {
            tallies[k].weight = weights[k];
        }
    }
    release(model->context, weights);
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    l3a_model *model = state;
    l3a_status status = L3A_OK;
    struct comparison comparison = {.lesson = lesson, .tallies = outcome->classes};
    if (outcome->classes) {
        TRY(lesson_members(lesson, &comparison.rows));
        model->witness = (struct label_witness){compare, &comparison};
    }
    TRY(l3a_model_learn(model, lesson->train, lesson->names + lesson->first, lesson->last - lesson->first));
    TRY(comparison.status);
    const l3a_phase_info *info = l3a_model_phase(model, l3a_model_phase_count(model) - 1);
    outcome->images = info->images;
    outcome->pseudo_labels = info->pseudo_labels;
    if (outcome->classes) {
        TRY(share_tallies(model->context, outcome->classes, lesson->first));
        TRY(tally_weights(model, outcome->classes));
    }
done:
    model->witness = (struct label_witness){0};
    release(model->context, comparison.rows.rows);
    return status;
}

static l3a_status score(void *state, const float *features, size_t rows, float *scores) {
    return l3a_model_score(state, features, rows, scores);
}

static void thresholds_of(const void *state, double *thresholds) {
    l3a_model_thresholds(state, thresholds);
}

static void free_model(void *state) {
    l3a_model_free(state);
}

const struct learner analytic_learner = {create, learn, score, thresholds_of, free_model, .is_model = true};
const struct learner masked_learner = {create, learn_masked, score, thresholds_of, free_model, .is_model = true};
