/* Plain training, phase after phase or all at once, with no rules beyond those of every head. */
#include "method/head.h"

static const struct head_rules rules = {.size = sizeof(struct head)};
static const struct head_rules joint_rules = {.size = sizeof(struct head)};

HEAD_LEARNER(finetune, rules, 20, 1e-2, 3e-3, 0, 0, false);
HEAD_LEARNER(joint_sgd, joint_rules, 20, 3e-3, 3e-3, 0, 0, false);
