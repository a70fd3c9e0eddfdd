/* Queries about settings. */
#ifndef L3A_OPTIONS_H
#define L3A_OPTIONS_H

#include "base/context.h"

/* Whether a setting was set by name, so that the defaults of a method leave it alone. */
bool option_is_given(const l3a_options *options, const char *name);

/* Checks that a model can have these settings together. */
l3a_status options_fit(l3a_context *context, const l3a_options *options);

/* Whether a model with these settings keeps the sums of phases apart. */
static inline bool keeps_phases(const l3a_options *options) {
    return options->alpha < 1 || options->keep_phases;
}

/* Numbers in a learned row: the outputs of the random layer, and the features if they skip it. */
static inline size_t learned_width(const l3a_options *options, size_t width) {
    const size_t dim = (size_t)options->dim;
    const bool cheap = 8 * width <= dim || (width <= dim && dim + width <= 4096);
    const bool skip = options->skip_features == L3A_SKIP_ON || (options->skip_features == L3A_SKIP_AUTO && cheap);
    return dim + (skip ? width : 0);
}

#endif
