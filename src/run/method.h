/* The methods that `run` knows: one line each. */
#ifndef L3A_METHOD_H
#define L3A_METHOD_H

#include "l3a/l3a.h"

#include <stdbool.h>

struct method {
    l3a_method_info info;
    bool all_at_once; /* one phase with all classes, all labels */
    bool no_pseudo_labels, no_weights;
};

/* NULL when there is none of that name. */
const struct method *method_find(const char *name);
/* The settings a run asks for, with what the method itself prescribes. */
l3a_options method_options(const struct method *method, const l3a_options *settings);

#endif
