/* Learning without Forgetting (Li and Hoiem 2016): the old head's answers on the new images are targets too. With one logistic
 * output a class, what it distils is the binary cross-entropy against the old head's probabilities. */
#include "method/head.h"

static const struct head_rules rules = {.size = sizeof(struct head), .distils = true};

HEAD_LEARNER(lwf, rules);
