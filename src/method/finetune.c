/* Plain training, phase after phase or all at once: no rule beyond the head's. */
#include "method/head.h"

static const struct head_rules rules = {.size = sizeof(struct head)};

HEAD_LEARNER(finetune, rules);
