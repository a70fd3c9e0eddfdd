#include "run/method.h"

#include <string.h>

static const struct method methods[] = {
    {{"l3a", "pseudo-labels and weights, phase after phase: the paper's method"}, false, false, false},
    {{"l3a-no-pl", "without pseudo-labels"}, false, true, false},
    {{"l3a-no-wac", "without weights"}, false, false, true},
    {{"acil", "without either: plain recursive ridge regression"}, false, true, true},
    {{"joint", "all classes at once with all their labels: the upper bound"}, true, true, false},
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
    if (method->no_pseudo_labels) {
        options.pseudo = L3A_PSEUDO_OFF;
    }
    if (method->no_weights) {
        options.weights = L3A_WEIGHTS_NONE;
    }
    return options;
}
