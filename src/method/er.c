/* Experience Replay (Chaudhry et al. 2019, algorithm 1, with their reservoir): each step uses a batch of new images and as many
 * from the memory; then the new ones are offered to the memory. The paper makes one pass over the images; here that is the last
 * pass over a phase. */
#include "method/head.h"

static const struct head_rules rules = {
    .size = sizeof(struct head), .replays = 1, .prepare = memory_prepare_reservoir, .stepped = memory_offer_shown};

HEAD_LEARNER(er, rules, 20, 1e-2, 3e-3, 0, 20, true);
