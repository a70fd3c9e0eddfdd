/* Learning without Forgetting (Li and Hoiem 2016): on new images the outputs of old classes are to stay what the old head says, and
 * the labels of the phase train those of new classes alone. With one logistic output per class the distillation is the binary
 * cross-entropy against the old head's probabilities. Where the network below is frozen, this leaves old classes as they are. */
#include "method/head.h"

static const struct head_rules rules = {
    .size = sizeof(struct head), .tuning = {20, 1e-2, 1e-2, 1, 0, false}, .distils = DISTIL_ONLY};

HEAD_LEARNER(lwf, rules);
