/* The methods there are. */
#include "method/method.h"

#include "data/features.h"

#include <string.h>

static void without_pseudo_labels(l3a_options *options) {
    options->pseudo = L3A_PSEUDO_OFF;
}

static void without_weights(l3a_options *options) {
    options->weights = L3A_WEIGHTS_NONE;
}

static void without_either(l3a_options *options) {
    without_pseudo_labels(options);
    without_weights(options);
}

static const struct method methods[] = {
    {{"l3a", "pseudo-labels and weights, phase after phase: the paper's method"}, BY_PHASE, &analytic_learner, NULL},
    {{"l3a-no-pl", "without pseudo-labels"}, BY_PHASE, &analytic_learner, without_pseudo_labels},
    {{"l3a-no-wac", "without weights"}, BY_PHASE, &analytic_learner, without_weights},
    {{"acil", "without either: plain recursive ridge regression"}, BY_PHASE, &analytic_learner, without_either},
    {{"joint", "all classes at once with all their labels: the upper bound"},
     ALL_AT_ONCE,
     &analytic_learner,
     without_pseudo_labels},
};

enum { METHODS = sizeof methods / sizeof methods[0] };

const l3a_method_info *l3a_method_at(size_t index) {
    return index < METHODS ? &methods[index].info : NULL;
}

const struct method *method_find(const char *name) {
    for (size_t i = 0; i < METHODS; i++) {
        if (strcmp(methods[i].info.name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

l3a_options method_options(const struct method *method, const l3a_options *settings) {
    l3a_options options = *settings;
    if (method->prescribe) {
        method->prescribe(&options);
    }
    return options;
}

l3a_status lesson_rows(const struct lesson *lesson, size_t **rows, size_t *count) {
    return features_rows_with(lesson->train, lesson->columns + lesson->first, lesson->last - lesson->first, rows, count);
}
