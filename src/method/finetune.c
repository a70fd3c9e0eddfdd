/* Plain training, phase after phase, and all at once: no rule beyond the head's. */
#include "method/head.h"

static const struct head_rules rules = {.size = sizeof(struct head)};

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    return head_create(context, &rules, method, settings, width, state);
}

const struct learner finetune_learner = {create, head_learn, head_score, head_edges, head_free, false};
