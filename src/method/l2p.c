/* Learning to Prompt (Wang et al., CVPR 2022) for several labels: tokens beside those of a frozen vision transformer, picked from a
 * pool.
 *
 * With q the features of the network without prompts, the pool has POOL groups of LENGTH tokens, each with a key k. Those PICKS
 * groups are taken whose cos(k, q) is highest; their tokens join those of the picture before the first block, and the feature is
 * their mean after the last norm. A linear head on it scores. In training, the pictures of a batch take the same groups, those that
 * are among the highest of the most pictures; otherwise each picture takes its own.
 *
 * To the loss is added −λ Σ cos(k, q) of the groups taken, as a mean over the batch. Choosing has no gradient, so that term alone
 * trains keys. All phases train one pool. */
#include "method/prompts.h"
#include "net/pick.h"

#include <string.h>

enum { POOL = 10, LENGTH = 5, PICKS = 5 };

static const char method_name[] = "l2p", matches[] = "matches";

/* Attention does not see the order of tokens: those picked come last, so that the mean can leave out the others. */
static value describe(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe) {
    const struct head *head = owner;
    struct vit vit;
    if (!prompts_start(net, head, method_name, family, recipe, &vit)) {
        return NOTHING;
    }
    const value tokens = vit_tokens(net, &vit), query = prompts_query(net, &vit, tokens);
    const value cosines_of = cosines(net, query, "pool.keys", NULL, POOL);
    network_output(net, matches, cosines_of);
    const value picked = pick_tokens(net, cosines_of,
                                     &(struct picking){.name = "pool.prompts",
                                                       .groups = POOL,
                                                       .length = LENGTH,
                                                       .channels = vit.sizes.width,
                                                       .picks = PICKS,
                                                       .together = true});
    const size_t own = net->status == L3A_OK ? net->shapes[tokens].height : 0;
    value x = stack(net, tokens, picked);
    for (size_t block = 0; block < vit.blocks; block++) {
        x = vit_block(net, &vit, block, x, NOTHING);
    }
    return token_mean(net, vit_norm(net, &vit, x), own);
}

static l3a_status make(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values) {
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)shape[i];
    }
    prompts_uniform(owner, name, -1, 1, count, values);
    return L3A_OK;
}

static bool trains(void *owner, const char *name, bool selected) {
    (void)owner;
    (void)selected;
    return strncmp(name, "pool.", 5) == 0;
}

/* Pulls the keys that were taken towards the batch's features. */
static l3a_status pull_keys(struct head *head, struct batch *batch) {
    const float share = (float)(head->tuning.lambda / (double)batch->rows);
    size_t picked[PICKS];
    pick_together(head->network->outputs[1], batch->rows, POOL, PICKS, picked);
    for (size_t i = 0; i < batch->rows * PICKS; i++) {
        head->network->by_outputs[1][i / PICKS * POOL + picked[i % PICKS]] -= share;
    }
    return L3A_OK;
}

/* The rate is that of a batch of 16: 0.03 · 16 / 256. */
static const struct trained_tuning published = {.epochs = 5,
                                                .batch = 16,
                                                .backbone_rate = 0.001875,
                                                .later = 1,
                                                .first_rate = 0.001875,
                                                .rate = 0.001875,
                                                .schedule = SCHEDULE_CONSTANT,
                                                .optimiser = OPTIMISER_ADAM,
                                                .clip = 1,
                                                .lambda = 0.1,
                                                .augmentation = PROMPT_AUGMENTATION};
static const struct head_network_rules network_rules = {
    .plan = {.changes = {.describe = describe, .make = make}, .trains = trains, .outputs = {matches}},
    .keeps_backbone = true,
    .own_classes = true,
    .output_terms = pull_keys};
static const struct head_rules rules = {.size = sizeof(struct head), .trained = &published, .network = &network_rules};

PROMPT_LEARNER(l2p, rules, "|loss|epochs|batch|first-rate|rate|lambda|head-theta|train-backbone|");
