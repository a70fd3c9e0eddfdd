/* Vision transformers ("An image is worth 16x16 words", Dosovitskiy et al., 2021), with the tensor names of timm.
 *
 * A picture is cut into squares of `patch` pixels, and a linear map turns each into a token of `width` numbers. A learned class
 * token is put in front, and learned positions are added. Each of `depth` blocks updates the tokens x by
 *     x += W attention(norm(x)),    x += W₂ gelu(W₁ norm(x)),
 * with heads of 64 numbers, the width in all sizes that are known (below). The feature is the class token after a last norm, the
 * mean of the other tokens, or both.
 *
 * If only the class token is needed, the last block computes only keys and values for the other tokens. */
#include "net/network.h"

#include <stdio.h>

enum { HEAD_WIDTH = 64 };
static const float epsilon = 1e-6F;

static bool matches(const struct parameters *parameters) {
    return parameters_find(parameters, "patch_embed.proj.weight") && parameters_find(parameters, "cls_token");
}

struct sizes {
    size_t width, depth, patch, tokens, hidden;
};

static l3a_status measure(struct parameters *parameters, struct sizes *sizes) {
    const struct checkpoint_tensor *patch = parameters_find(parameters, "patch_embed.proj.weight");
    const struct checkpoint_tensor *position = parameters_find(parameters, "pos_embed");
    const struct checkpoint_tensor *hidden = parameters_find(parameters, "blocks.0.mlp.fc1.weight");
    l3a_status status = L3A_OK;
    FAIL_IF(patch->rank != 4 || patch->shape[1] != 3 || patch->shape[2] != patch->shape[3] || patch->shape[2] < 1 ||
                patch->shape[0] % HEAD_WIDTH || !patch->shape[0],
            parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor patch_embed.proj.weight has an unexpected shape; expected [width, 3, patch, patch] with a width that is a "
            "multiple of 64");
    FAIL_IF(!position || position->rank != 3 || position->shape[1] < 2, parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor pos_embed is missing or has an unexpected shape; expected [1, tokens, %zu]", (size_t)patch->shape[0]);
    *sizes = (struct sizes){.width = (size_t)patch->shape[0],
                            .depth = parameters_count_parts(parameters, "blocks."),
                            .patch = (size_t)patch->shape[2],
                            .tokens = (size_t)position->shape[1],
                            .hidden = hidden && hidden->rank == 2 ? (size_t)hidden->shape[0] : 4 * (size_t)patch->shape[0]};
    FAIL_IF(!sizes->depth, parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor blocks.0.norm1.weight is missing; expected [%zu]", sizes->width);
done:
    return status;
}

/* The sizes whose heads are known to have 64 numbers: four that have a name in timm, and two that are small enough for tests. The
 * tensors do not show how wide a head is; it has 80, 88 or 104 numbers in timm's huge, giant and gigantic networks. */
static const struct {
    const char *name;
    size_t width, depth;
} known[] = {{"tiny", 192, 12}, {"small", 384, 12}, {"base", 768, 12}, {"large", 1024, 24}, {NULL, 64, 1}, {NULL, 64, 2}};

/* A model that was learned with a network keeps it, and the heads that earlier versions took for granted: its features must stay
 * what they were. */
static l3a_status check_heads(const struct parameters *parameters, const struct sizes *sizes) {
    bool found = parameters->source.recorded;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        found = found || (known[i].width == sizes->width && known[i].depth == sizes->depth);
    }
    return found ? L3A_OK
                 : fail(parameters->context, L3A_ERROR_MISMATCH,
                        "use a tiny, small, base or large vision transformer, a ResNet or a TResNet, or compute the features "
                        "with PyTorch",
                        "this vision transformer has width %zu and depth %zu, and its tensors do not show how many attention heads "
                        "it has: with a wrong number, its features would be wrong",
                        sizes->width, sizes->depth);
}

static l3a_status recognise(struct parameters *parameters, struct backbone_recipe *recipe) {
    struct sizes sizes;
    size_t across = 1;
    l3a_status status = L3A_OK;
    TRY(measure(parameters, &sizes));
    TRY(check_heads(parameters, &sizes));
    while (across * across < sizes.tokens - 1) {
        across++;
    }
    FAIL_IF(across * across != sizes.tokens - 1, parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor pos_embed has %zu positions; expected one more than a square number", sizes.tokens);
    FAIL_IF(recipe->side && recipe->side != across * sizes.patch, parameters->context, L3A_ERROR_MISMATCH, "use the default size",
            "this network cannot take pictures of %zu x %zu, because its positions are for %zu x %zu", recipe->side, recipe->side,
            across * sizes.patch, across * sizes.patch);
    recipe->side = across * sizes.patch;
    snprintf(recipe->name, sizeof recipe->name, "vit, width %zu, depth %zu, heads %zu, patch %zu", sizes.width, sizes.depth,
             sizes.width / HEAD_WIDTH, sizes.patch);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].name && known[i].width == sizes.width && known[i].depth == sizes.depth) {
            snprintf(recipe->name, sizeof recipe->name, "vit_%s_patch%zu_%zu", known[i].name, sizes.patch, recipe->side);
        }
    }
done:
    return status;
}

static value block(struct network *net, value x, size_t width, size_t hidden, bool first_only) {
    const value queries = linear(net, layer_norm(net, x, "norm1", epsilon), &(struct linear){.name = "attn.qkv", .out = 3 * width});
    const value mixed = attention(net, queries, width / HEAD_WIDTH, first_only);
    if (first_only) {
        x = first_token(net, x);
    }
    x = linear(net, mixed, &(struct linear){.name = "attn.proj", .out = width, .add = x});
    const value inner =
        linear(net, layer_norm(net, x, "norm2", epsilon), &(struct linear){.name = "mlp.fc1", .out = hidden, .activation = GELU});
    return linear(net, inner, &(struct linear){.name = "mlp.fc2", .out = width, .add = x});
}

static value describe(struct network *net, const struct backbone_recipe *recipe) {
    struct sizes sizes = {0};
    const bool class_token_only = recipe->pool == L3A_POOL_CLS || recipe->pool == L3A_POOL_DEFAULT;
    net->status = net->status == L3A_OK ? measure(net->parameters, &sizes) : net->status;
    value x = patch_embedding(net, PICTURE, "patch_embed.proj", sizes.patch, sizes.width);
    x = add_tokens(net, x, "cls_token", "pos_embed");
    for (size_t i = 0; i < sizes.depth; i++) {
        network_prefix(net, "blocks.%zu.", i);
        x = block(net, x, sizes.width, sizes.hidden, class_token_only && i + 1 == sizes.depth);
    }
    network_prefix(net, "%s", "");
    x = layer_norm(net, x, "norm", epsilon);
    if (class_token_only) {
        return x;
    }
    const value mean = token_mean(net, x);
    return recipe->pool == L3A_POOL_MEAN ? mean : join(net, first_token(net, x), mean);
}

const struct family vit_family = {.name = "vit",
                                  .mean = {0.5F, 0.5F, 0.5F},
                                  .deviation = {0.5F, 0.5F, 0.5F},
                                  .pools = true,
                                  .matches = matches,
                                  .recognise = recognise,
                                  .describe = describe};
