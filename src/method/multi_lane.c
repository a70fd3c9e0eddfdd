/* MULTI-LANE (De Min et al., CoLLAs 2024): a lane of few tokens beside the stream of a frozen vision transformer, one lane per
 * phase.
 *
 * Lane t is L = [c, s], the class token and SELECTORS selectors. In each block, x being the tokens of the network without prompts:
 *
 *   n = norm₁(x),   m = norm₁(L),
 *   a_j = Σ_i softmax_i(m_sⱼ · n_i / √width) n_i     what selector j finds in the picture,
 *   o = attention of [m_c, a], with the block's own maps and, in the first PROMPTED blocks, PROMPTS learned keys and values,
 *   c += W o_c,   s += m_s,   and then   L += mlp(norm₂(L)).
 *
 * After the last norm, with f the class token at length 1, the scores of the phase's classes are W_t f + b_t.
 *
 * A phase trains its own lane and its own scores, and looks at no other lane. All lanes score, each its own classes. */
#include "method/prompts.h"

#include <stdio.h>
#include <string.h>

enum { SELECTORS = 20, PROMPTS = 20, PROMPTED = 5 };

static const char method_name[] = "multi-lane";

/* How many classes a lane scores: its bias is kept, unless it is the lane of this phase. */
static size_t lane_classes(const struct head *head, size_t lane) {
    char name[PROMPT_NAME];
    snprintf(name, sizeof name, "lanes.%zu.head.bias", lane);
    const struct kept_value *bias = trained_network_find(&head->network->net, name);
    return bias ? bias->count : head->classes - head->old;
}

static void prefix_lane(struct network *net, size_t lane) {
    network_prefix(net, "lanes.%zu.", lane);
}

/* ---- The network ---- */

static value lane_block(struct network *net, const struct vit *vit, size_t block, size_t lane, value normed, value tokens) {
    char prompts[32];
    value beside = NOTHING;
    if (block < PROMPTED) {
        prefix_lane(net, lane);
        snprintf(prompts, sizeof prompts, "prompts.%zu", block);
        beside = learned(net, prompts, PROMPTS, 2 * vit->sizes.width);
    }
    const value own = vit_block_norm(net, vit, block, tokens), selectors = slice(net, own, 1, SELECTORS, 1);
    const value found = attention(net, selectors, normed, 1);
    const value mixed = vit_block_attention(net, vit, block, stack(net, first_token(net, own), found), beside);
    const value class_token = vit_block_project(net, vit, block, first_token(net, mixed), first_token(net, tokens));
    const value kept = sum(net, slice(net, tokens, 1, SELECTORS, 1), selectors);
    return vit_block_mlp(net, vit, block, stack(net, class_token, kept));
}

static value lane_scores(struct network *net, const struct vit *vit, const struct head *head, size_t lane, value tokens) {
    const value features = unit_tokens(net, vit_norm(net, vit, first_token(net, tokens)));
    prefix_lane(net, lane);
    return linear(net, features, &(struct linear){.name = "head", .out = lane_classes(head, lane)});
}

/* lanes: their tokens, `count` of them, from number `first` on. */
static value describe_lanes(struct network *net, const struct vit *vit, const struct head *head, size_t first, size_t count,
                            value *lanes) {
    value x = vit_tokens(net, vit), scores = NOTHING;
    const value class_token = first_token(net, x);
    for (size_t i = 0; i < count; i++) {
        prefix_lane(net, first + i);
        lanes[i] = stack(net, class_token, learned(net, "selectors", SELECTORS, vit->sizes.width));
    }
    for (size_t block = 0; block < vit->blocks; block++) {
        const value normed = vit_block_norm(net, vit, block, x);
        for (size_t i = 0; i < count; i++) {
            lanes[i] = lane_block(net, vit, block, first + i, normed, lanes[i]);
        }
        if (block + 1 < vit->blocks) {
            const value mixed = vit_block_attention(net, vit, block, normed, NOTHING);
            x = vit_block_mlp(net, vit, block, vit_block_project(net, vit, block, mixed, x));
        }
    }
    for (size_t i = 0; i < count; i++) {
        const value own = lane_scores(net, vit, head, first + i, lanes[i]);
        scores = scores ? join(net, scores, own) : own;
    }
    return scores;
}

static value describe(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe) {
    const struct head *head = owner;
    const size_t phase = head->network->phase, first = head->network->net.training ? phase : 0;
    const size_t count = head->network->net.training ? 1 : phase;
    value *lanes = NULL, scores = NOTHING;
    struct vit vit;
    if (!prompts_start(net, head, method_name, family, recipe, &vit)) {
        return NOTHING;
    }
    if (!vit.sizes.has_class) {
        net->status = fail(head->context, L3A_ERROR_MISMATCH, "use a vision transformer with a class token, or another method",
                           "method '%s' needs a class token, which this network does not have", method_name);
        return NOTHING;
    }
    net->status = allocate(head->context, count, sizeof *lanes, &lanes);
    if (net->status == L3A_OK) {
        scores = describe_lanes(net, &vit, head, first, count, lanes);
    }
    release(head->context, lanes);
    return scores;
}

/* ---- Parameters ---- */

/* All keys of a block are one direction, and all values another one, of length 1: so does the published program draw them. */
static l3a_status make_prompts(const struct head *head, const char *name, size_t width, float *values) {
    const size_t all = PROMPTS * width;
    float *drawn = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(head->context, 2, all * sizeof *drawn, &drawn));
    TRY(prompts_orthogonal(head, name, NULL, 0, 2, all, drawn));
    for (size_t i = 0; i < all; i++) {
        values[i / width * 2 * width + i % width] = drawn[i];
        values[i / width * 2 * width + width + i % width] = drawn[all + i];
    }
done:
    release(head->context, drawn);
    return status;
}

/* A lane begins as the one before it. Scores begin anew: with orthogonal rows, and without a bias. */
static l3a_status make(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values) {
    const struct head *head = owner;
    const char *last = strrchr(name, '.');
    const size_t lane = head->network->phase, columns = (size_t)shape[rank - 1];
    char before[PROMPT_NAME];
    l3a_status status = L3A_OK;
    if (strcmp(last, ".bias") == 0) {
        memset(values, 0, columns * sizeof *values);
        return L3A_OK;
    }
    if (strcmp(last, ".weight") == 0) {
        return prompts_orthogonal(head, name, NULL, 0, (size_t)shape[0], columns, values);
    }
    const char *own = strchr(strchr(name, '.') + 1, '.');
    snprintf(before, sizeof before, "lanes.%zu%s", lane ? lane - 1 : 0, own);
    const struct kept_value *kept = lane ? trained_network_find(&head->network->net, before) : NULL;
    if (kept) {
        memcpy(values, kept->values, kept->count * sizeof *values);
    } else if (strcmp(last, ".selectors") == 0) {
        TRY(prompts_orthogonal(head, name, NULL, 0, SELECTORS, columns, values));
    } else {
        TRY(make_prompts(head, name, columns / 2, values));
    }
done:
    return status;
}

static bool trains(void *owner, const char *name, bool selected) {
    (void)selected;
    return prompts_of_phase(owner, "lanes", name);
}

/* The rate is that of a batch of 128: 0.03 · 128 / 256. */
static const struct trained_tuning published = {.epochs = 30,
                                                .batch = 128,
                                                .backbone_rate = 0.015,
                                                .later = 1,
                                                .first_rate = 0.015,
                                                .rate = 0.015,
                                                .schedule = SCHEDULE_COSINE,
                                                .by_epoch = true,
                                                .optimiser = OPTIMISER_ADAM,
                                                .augmentation = PROMPT_AUGMENTATION};
static const struct head_network_rules network_rules = {
    .plan = {.changes = {.describe = describe, .make = make}, .scores_apart = true, .trains = trains},
    .keeps_backbone = true,
    .own_classes = true,
    .scores = true};
static const struct head_rules rules = {.size = sizeof(struct head), .trained = &published, .network = &network_rules};

PROMPT_LEARNER(multi_lane, rules, "|loss|epochs|batch|head-theta|train-backbone|");
