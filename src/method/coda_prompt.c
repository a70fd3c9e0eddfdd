/* CODA-Prompt (Smith et al., CVPR 2023) for several labels: keys and values beside those of a frozen vision transformer, composed
 * for each picture.
 *
 * With q the features of the network without prompts, each of the first PROMPTED blocks has components m of a key k_m, a mask a_m
 * and 2 LENGTH rows p_m, and attends besides to the rows Σ_m cos(a_m ∘ q, k_m) p_m,    the first LENGTH of them keys, the others
 * values. COMPONENTS components are divided among the phases. A phase trains its own, which begin at length 1 and orthogonal to all
 * before them, and looks at the earlier ones as they are. A linear head on the features of the prompted pass scores. */
#include "method/prompts.h"

#include <stdio.h>
#include <string.h>

enum { COMPONENTS = 100, LENGTH = 4, PROMPTED = 5 };

static const char method_name[] = "coda-prompt";

static size_t components(const struct head *head) {
    const size_t each = COMPONENTS / (head->phases ? head->phases : 1);
    return each ? each : 1;
}

static const struct kept_value *find(const struct head *head, size_t phase, size_t block, const char *part) {
    char name[PROMPT_NAME];
    snprintf(name, sizeof name, "prompts.%zu.%zu.%s", phase, block, part);
    return trained_network_find(&head->network->net, name);
}

/* Of a phase; it has them already, unless it is the one that is being learned. */
static size_t components_of(const struct head *head, size_t phase, size_t block) {
    const struct kept_value *keys = find(head, phase, block, "keys");
    return keys ? (size_t)keys->shape[0] : components(head);
}

/* ---- The network ---- */

/* Keys and values of a block: those of component m are column m of the linear map. */
static value compose(struct network *net, const struct vit *vit, const struct head *head, size_t phases, size_t block,
                     value query) {
    value rows = NOTHING;
    for (size_t phase = 0; phase < phases; phase++) {
        network_prefix(net, "prompts.%zu.%zu.", phase, block);
        const value shares = cosines(net, query, "keys", "masks", components_of(head, phase, block));
        rows = linear(net, shares,
                      &(struct linear){.name = "rows", .out = LENGTH * 2 * vit->sizes.width, .add = rows, .unbiased = true});
    }
    return split(net, rows, LENGTH);
}

static value describe(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe) {
    const struct head *head = owner;
    const size_t phases = head->network->phase + head->network->net.training;
    struct vit vit;
    if (!prompts_start(net, head, method_name, family, recipe, &vit)) {
        return NOTHING;
    }
    const value tokens = vit_tokens(net, &vit), query = prompts_query(net, &vit, tokens);
    value x = tokens;
    for (size_t block = 0; block < vit.blocks; block++) {
        const value beside = block < PROMPTED ? compose(net, &vit, head, phases, block, query) : NOTHING;
        x = vit_block(net, &vit, block, x, beside);
    }
    return vit_features(net, &vit, x);
}

/* ---- Parameters ---- */

/* A tensor's components as rows: a linear map has them as columns. */
static void put_rows(const float *values, size_t count, size_t columns, bool transposed, float *rows) {
    for (size_t i = 0; i < count * columns; i++) {
        rows[i] = transposed ? values[i % columns * count + i / columns] : values[i];
    }
}

/* The components of a block that earlier phases have made. */
static l3a_status gather(const struct head *head, size_t block, const char *part, size_t columns, bool transposed, float **rows,
                         size_t *count) {
    const size_t phases = head->network->phase;
    l3a_status status = L3A_OK;
    size_t all = 0;
    for (size_t phase = 0; phase < phases; phase++) {
        all += components_of(head, phase, block);
    }
    TRY(allocate(head->context, all, columns * sizeof **rows, rows));
    *count = 0;
    for (size_t phase = 0; phase < phases; phase++) {
        const struct kept_value *kept = find(head, phase, block, part);
        const size_t own = kept ? kept->count / columns : 0;
        if (kept) {
            put_rows(kept->values, own, columns, transposed, *rows + *count * columns);
        }
        *count += own;
    }
done:
    return status;
}

static l3a_status make(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values) {
    const struct head *head = owner;
    char part[PROMPT_NAME] = "";
    size_t phase = 0, block = 0, before = 0;
    float *earlier = NULL, *drawn = NULL;
    l3a_status status = L3A_OK;
    sscanf(name, "prompts.%zu.%zu.%95s", &phase, &block, part);
    const bool map = strcmp(part, "rows.weight") == 0;
    const size_t count = (size_t)shape[map ? rank - 1 : 0], columns = (size_t)shape[map ? 0 : rank - 1];
    TRY(gather(head, block, part, columns, map, &earlier, &before));
    TRY(allocate(head->context, count, columns * sizeof *drawn, &drawn));
    TRY(prompts_orthogonal(head, name, earlier, before, count, columns, drawn));
    put_rows(drawn, map ? columns : count, map ? count : columns, map, values);
done:
    release(head->context, earlier);
    release(head->context, drawn);
    return status;
}

static bool trains(void *owner, const char *name, bool selected) {
    (void)selected;
    return prompts_of_phase(owner, "prompts", name);
}

static const struct trained_tuning published = {.epochs = 20,
                                                .batch = 128,
                                                .backbone_rate = 1e-3,
                                                .later = 1,
                                                .first_rate = 1e-3,
                                                .rate = 1e-3,
                                                .schedule = SCHEDULE_QUARTER_COSINE,
                                                .by_epoch = true,
                                                .optimiser = OPTIMISER_ADAM,
                                                .augmentation = PROMPT_AUGMENTATION};
static const struct head_network_rules network_rules = {
    .plan = {.changes = {.describe = describe, .make = make}, .trains = trains}, .keeps_backbone = true, .own_classes = true};
static const struct head_rules rules = {.size = sizeof(struct head), .trained = &published, .network = &network_rules};

PROMPT_LEARNER(coda_prompt, rules, "|loss|epochs|batch|first-rate|rate|head-theta|train-backbone|");
