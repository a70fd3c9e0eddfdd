/* Learning without Forgetting (Li and Hoiem 2016): on new images, the outputs of old classes are to stay those of the old head,
 * and the labels of the phase train only the outputs of new classes. With one logistic output per class, the distillation is the
 * binary cross-entropy against the old head's probabilities. Since the network below is frozen, this leaves old classes as they
 * are. */
#include "method/head.h"

static const struct head_rules rules = {.size = sizeof(struct head), .distils = DISTIL_ONLY};

HEAD_LEARNER(lwf, rules, 20, 1e-2, 1e-2, 1, 0, false);
