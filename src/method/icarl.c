/* iCaRL (Rebuffi et al. 2017) with several labels per image: exemplars of each class, chosen by herding (herding.c), join the
 * phase's images. The loss is the paper's algorithm 3, which already uses logistic outputs: on all of these images, the labels
 * train the outputs of new classes, and those of old classes are distilled from the old head. The paper's nearest-mean-of-exemplars
 * rule names one class per image, so the scores are the head's, as in multi-label comparisons. */
#include "method/head.h"

static const struct head_rules rules = {
    .size = sizeof(struct head), .joins = true, .distils = DISTIL_ONLY, .looks = true, .finish = memory_keep_herded};

HEAD_LEARNER(icarl, rules, 20, 1e-2, 3e-3, 1, 20, true);
