/* Questions about settings. */
#ifndef L3A_OPTIONS_H
#define L3A_OPTIONS_H

#include "base/context.h"

/* Whether it was set by name, so that a method that would prescribe another value leaves it. */
bool option_is_given(const l3a_options *options, const char *name);

/* Whether a model can have these settings together. */
l3a_status options_fit(l3a_context *context, const l3a_options *options);

/* Whether a model with these settings keeps the sums of phases apart. */
static inline bool keeps_phases(const l3a_options *options) {
    return options->alpha < 1 || options->keep_phases;
}

/* Numbers in a row that is learned: the random layer's, and the features themselves where they are learned, too. */
static inline size_t learned_width(const l3a_options *options, size_t width) {
    const size_t dim = (size_t)options->dim;
    const bool cheap = 8 * width <= dim || (width <= dim && dim + width <= 4096);
    const bool skip = options->skip_features == L3A_SKIP_ON || (options->skip_features == L3A_SKIP_AUTO && cheap);
    return dim + (skip ? width : 0);
}

#endif
