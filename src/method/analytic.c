/* The learner behind l3a and its variants: an l3a_model. */
#include "learn/model.h"
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

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    l3a_model *model = state;
    l3a_status status = L3A_OK;
    TRY(l3a_model_learn(model, lesson->train, lesson->names + lesson->first, lesson->last - lesson->first));
    const l3a_phase_info *info = l3a_model_phase(model, l3a_model_phase_count(model) - 1);
    outcome->images = info->images + info->skipped;
    outcome->pseudo_labels = info->pseudo_labels;
done:
    return status;
}

static l3a_status score(void *state, const float *features, size_t rows, float *scores) {
    return l3a_model_score(state, features, rows, scores);
}

static void edges_of(const void *state, double *edges) {
    const l3a_model *model = state;
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        edges[k] = logit(l3a_model_options(model)->theta);
    }
}

static void free_model(void *state) {
    l3a_model_free(state);
}

const struct learner analytic_learner = {create, learn, score, edges_of, free_model, true};
const struct learner masked_learner = {create, learn_masked, score, edges_of, free_model, true};
