/* Experience Replay (Chaudhry et al. 2019): with each batch of new images a batch from the memory, which is a random choice of each
 * phase's images. */
#include "method/head.h"

static const struct head_rules rules = {.size = sizeof(struct head), .replays = 1, .finish = memory_keep_random};

HEAD_LEARNER(er, rules);
