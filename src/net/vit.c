/* Vision transformers ("An image is worth 16x16 words", Dosovitskiy et al., 2021) and the networks that came from them, with the
 * tensor names of timm 1.0: DeiT (Touvron et al., 2021) and DeiT III (2022), MAE (He et al., 2022), DINO (Caron et al., 2021),
 * DINOv2 (Oquab et al., 2023) with and without registers (Darcet et al., 2023), the image towers of CLIP (Radford et al., 2021) and
 * SigLIP (Zhai et al., 2023).
 *
 * A picture is cut into squares of `patch` pixels, and a linear map turns each into a token of `width` numbers. A learned class
 * token, and a distillation token or registers, are put in front, and learned positions are added. CLIP normalises the tokens here.
 * Each of `depth` blocks updates the tokens x by
 *     x += g₁ W attention(norm(x)),    x += g₂ W₂ gelu(W₁ norm(x)),
 * where g₁ and g₂ are factors of each channel that only some networks have. After a last norm, the feature is
 *     cls         the class token,
 *     mean, max   of the tokens of the picture,
 *     cls+mean    the one and the other,
 *     map         SigLIP: y + W₂ gelu(W₁ norm(y)), y = W attention of one learned query to the tokens of the picture,
 *     projection  CLIP: a linear map of the class token.
 * In networks that were trained with the mean, the last norm can come after the pool; it is then named fc_norm.
 *
 * Besides the features, its outputs are all tokens after the last norm, and, as in networks of convolutions, four stages: the
 * tokens of the picture, as a map, after each quarter of the blocks. */
#include "net/vit.h"
#include "net/recipe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_WIDTH = 64, DINOV2_SIDE = 518, LAST_POOL = L3A_POOL_PROJECTION, STAGES = 4 };

static bool has(const struct parameters *parameters, const char *name) {
    return parameters_find(parameters, name) != NULL;
}

static bool matches(const struct parameters *parameters) {
    return has(parameters, "patch_embed.proj.weight") &&
           (has(parameters, "cls_token") || (has(parameters, "pos_embed") && has(parameters, "blocks.0.norm1.weight")));
}

/* ---- What the tensors show ---- */

static l3a_status measure_patches(const struct parameters *parameters, struct vit_sizes *sizes) {
    const struct checkpoint_tensor *patch = parameters_find(parameters, "patch_embed.proj.weight");
    l3a_status status = L3A_OK;
    FAIL_IF(patch->rank != 4 || patch->shape[1] != 3 || patch->shape[2] != patch->shape[3] || patch->shape[2] < 1 ||
                !patch->shape[0],
            parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor patch_embed.proj.weight has an unexpected shape; expected [width, 3, patch, patch]");
    sizes->width = (size_t)patch->shape[0];
    sizes->patch = (size_t)patch->shape[2];
done:
    return status;
}

/* The positions are those of the picture alone, with the class token's, or with those of all tokens in front. */
static l3a_status measure_tokens(const struct parameters *parameters, struct vit_sizes *sizes) {
    const struct checkpoint_tensor *position = parameters_find(parameters, "pos_embed");
    l3a_status status = L3A_OK;
    sizes->has_class = has(parameters, "cls_token");
    sizes->between = has(parameters, "reg_token") ? "reg_token" : has(parameters, "dist_token") ? "dist_token" : NULL;
    if (sizes->between) {
        const struct checkpoint_tensor *between = parameters_find(parameters, sizes->between);
        FAIL_IF(between->rank != 3 || between->shape[1] < 1 || between->shape[1] > ATTENTION_TOKENS, parameters->context,
                L3A_ERROR_MISMATCH, NULL, "the tensor %s has an unexpected shape; expected [1, tokens, %zu]", sizes->between,
                sizes->width);
        sizes->registers = (size_t)between->shape[1];
    }
    FAIL_IF(!position || position->rank != 3 || position->shape[1] < 1 || position->shape[1] > ATTENTION_TOKENS,
            parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor pos_embed is missing or has an unexpected shape; expected [1, tokens, %zu]", sizes->width);
    sizes->positions = (size_t)position->shape[1];
    const size_t prefixes[] = {sizes->has_class, sizes->has_class + sizes->registers, 0};
    for (size_t i = 0; i < 3 && !sizes->across; i++) {
        const size_t own = sizes->positions > prefixes[i] ? sizes->positions - prefixes[i] : 0, root = root_of(own);
        sizes->across = root * root == own ? root : 0;
    }
    const size_t more = prefixes[sizes->between != NULL];
    FAIL_IF(!sizes->across && !more, parameters->context, L3A_ERROR_MISMATCH,
            "check that the checkpoint is complete and belongs to this network",
            "the tensor pos_embed has %zu positions; without a cls_token, which is missing, a square number is expected",
            sizes->positions);
    FAIL_IF(!sizes->across, parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor pos_embed has %zu positions; expected %zu more than a square number", sizes->positions, more);
done:
    return status;
}

static l3a_status measure_blocks(const struct parameters *parameters, struct vit_sizes *sizes) {
    const struct checkpoint_tensor *first = parameters_find(parameters, "blocks.0.mlp.fc1.weight");
    const struct checkpoint_tensor *second = parameters_find(parameters, "blocks.0.mlp.fc2.weight");
    const struct checkpoint_tensor *queries = parameters_find(parameters, "blocks.0.attn.qkv.weight");
    l3a_status status = L3A_OK;
    sizes->depth = parameters_count_parts(parameters, "blocks.");
    FAIL_IF(!sizes->depth, parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor blocks.0.norm1.weight is missing; expected [%zu]", sizes->width);
    FAIL_IF(queries && queries->rank == 2 && queries->shape[0] != 3 * sizes->width, parameters->context, L3A_ERROR_MISMATCH, NULL,
            "blocks.0.attn.qkv.weight has shape [%" PRIu64 ", %" PRIu64 "]; expected [%zu, %zu]", queries->shape[0],
            queries->shape[1], 3 * sizes->width, sizes->width);
    sizes->hidden = first && first->rank == 2 ? (size_t)first->shape[0] : 4 * sizes->width;
    FAIL_IF(second && second->rank == 2 && second->shape[1] * 2 == sizes->hidden, parameters->context, L3A_ERROR_MISMATCH,
            "use a smaller network of this kind, or compute the features with PyTorch",
            "this vision transformer has gated blocks (SwiGLU), which are not supported");
done:
    return status;
}

static l3a_status measure(const struct parameters *parameters, struct vit_sizes *sizes) {
    l3a_status status = L3A_OK;
    *sizes = (struct vit_sizes){.scaled = has(parameters, "blocks.0.ls1.gamma"),
                                .before = has(parameters, "norm_pre.weight"),
                                .after = has(parameters, "fc_norm.weight"),
                                .maps = has(parameters, "attn_pool.latent")};
    TRY(measure_patches(parameters, sizes));
    TRY(measure_tokens(parameters, sizes));
    TRY(measure_blocks(parameters, sizes));
    FAIL_IF(sizes->maps && (sizes->has_class || sizes->between), parameters->context, L3A_ERROR_MISMATCH,
            "compute the features with PyTorch",
            "this vision transformer has attention pooling and a class token, which are not supported together");
    const struct checkpoint_tensor *head = parameters_find(parameters, "head.weight");
    sizes->projects = sizes->before && sizes->has_class && head && head->rank == 2 && head->shape[0];
done:
    return status;
}

/* ---- The recipe ---- */

/* The sizes whose heads are taken to have 64 numbers: four that have a name in timm, and three that are small enough for tests. The
 * tensors do not show how wide a head is; it has 80, 88 or 104 numbers in timm's huge, giant and gigantic networks. */
static const struct {
    const char *name;
    size_t width, depth;
} known[] = {{"tiny", 192, 12}, {"small", 384, 12}, {"base", 768, 12}, {"large", 1024, 24},
             {NULL, 64, 1},     {NULL, 64, 2},      {NULL, 64, 4}};

/* MoCo v3's files. Its small network has heads of 32 numbers. */
static bool is_moco(const struct parameters *parameters) {
    char text[NAME_IN_FILE];
    return parameters->source.name_in_file && parameters->source.name_in_file(parameters->source.owner, "cls_token", text) &&
           strstr(text, "base_encoder.");
}

/* A model that was learned with a network keeps it, and the heads that earlier versions took for granted: its features must stay
 * what they were. */
static l3a_status choose_heads(const struct parameters *parameters, const struct vit_sizes *sizes, struct backbone_recipe *recipe) {
    const size_t usual = sizes->width / HEAD_WIDTH;
    bool found = parameters->source.recorded && usual && sizes->width % usual == 0;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        found = found || (known[i].width == sizes->width && known[i].depth == sizes->depth && !is_moco(parameters));
    }
    FAIL_IF(recipe->heads && sizes->width % recipe->heads, parameters->context, L3A_ERROR_OPTION,
            "give the number of heads with which the network was trained", "%zu heads do not divide the width of %zu",
            recipe->heads, sizes->width);
    FAIL_IF(!recipe->heads && !found, parameters->context, L3A_ERROR_MISMATCH,
            "give their number (--heads N), or put the network's config.json beside its file",
            "this vision transformer has width %zu and depth %zu, and its tensors do not show how many attention heads it has: "
            "with a wrong number, its features would be wrong",
            sizes->width, sizes->depth);
    recipe->usual_heads = usual;
    recipe->heads = recipe->heads ? recipe->heads : usual;
done:
    return status;
}

/* SigLIP was trained with the GELU of tanh, which transformers computes; for most of its sizes, timm computes the exact one. Its
 * networks have attention pooling, or, without it, neither a class token nor a norm after the mean. */
static bool may_be_siglip(const struct vit_sizes *sizes) {
    return sizes->maps || (!sizes->has_class && !sizes->after);
}

/* A model has recorded the activation and the epsilon, unless they are GELU and 1e-6. */
static l3a_status choose_activation(const struct parameters *parameters, const struct vit_sizes *sizes,
                                    struct backbone_recipe *recipe) {
    const bool recorded = parameters->source.recorded;
    l3a_status status = L3A_OK;
    FAIL_IF(!recipe->activation && sizes->before && !recorded, parameters->context, L3A_ERROR_MISMATCH,
            "give it (--activation quick_gelu for OpenAI's networks, --activation gelu for most others), or put the network's "
            "config.json beside its file",
            "this network is an image tower of CLIP, and its tensors do not show which activation it was trained with");
    FAIL_IF(!recipe->activation && may_be_siglip(sizes) && !recorded, parameters->context, L3A_ERROR_MISMATCH,
            "give it (--activation tanh_gelu, with which SigLIP was trained and transformers computes it, or --activation gelu, as "
            "timm "
            "computes most of its sizes and most other networks), or put the network's config.json beside its file",
            "this vision transformer has %s, and its tensors do not show which GELU it is computed with",
            sizes->maps ? "attention pooling" : "no class token");
    recipe->activation = recipe->activation ? recipe->activation : GELU;
    recipe->epsilon = recipe->epsilon > 0 ? recipe->epsilon : sizes->before && !recorded ? 1e-5 : 1e-6;
done:
    return status;
}

static unsigned pools_of(const struct vit_sizes *sizes) {
    unsigned pools = 1U << L3A_POOL_MEAN | 1U << L3A_POOL_MAX;
    pools |= sizes->has_class ? 1U << L3A_POOL_CLS : 0;
    pools |= sizes->has_class && !sizes->after ? 1U << L3A_POOL_CLS_MEAN : 0;
    pools |= sizes->maps ? 1U << L3A_POOL_MAP : 0;
    pools |= sizes->projects ? 1U << L3A_POOL_PROJECTION : 0;
    return pools;
}

static l3a_status choose_pool(const struct parameters *parameters, const struct vit_sizes *sizes, struct backbone_recipe *recipe) {
    const unsigned pools = pools_of(sizes);
    char list[64] = "";
    l3a_status status = L3A_OK;
    if (recipe->pool == L3A_POOL_DEFAULT) {
        recipe->pool = sizes->maps ? L3A_POOL_MAP : sizes->has_class && !sizes->after ? L3A_POOL_CLS : L3A_POOL_MEAN;
    }
    for (unsigned pool = L3A_POOL_CLS; pool <= LAST_POOL; pool++) {
        if (pools >> pool & 1) {
            const size_t length = strlen(list);
            snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "", pool_text((l3a_pool)pool));
        }
    }
    FAIL_IF((unsigned)recipe->pool > LAST_POOL || !(pools >> recipe->pool & 1), parameters->context, L3A_ERROR_OPTION,
            "choose one of those that it has", "this network does not have the pool \"%s\"; it has %s", pool_text(recipe->pool),
            list);
done:
    return status;
}

/* DINOv2: its blocks have factors, and its patches 14 pixels. The one network of DeiT III with such patches has no name here. */
static bool is_dinov2(const struct vit_sizes *sizes) {
    return sizes->scaled && sizes->has_class && sizes->patch == 14;
}

/* Positions for another side are resized. Only the networks without registers were trained with an offset. */
static l3a_status choose_side(const struct parameters *parameters, const struct vit_sizes *sizes, struct backbone_recipe *recipe) {
    const size_t own = sizes->across * sizes->patch;
    l3a_status status = L3A_OK;
    recipe->side = recipe->side ? recipe->side : own;
    const size_t smaller = recipe->side < sizes->patch ? sizes->patch : recipe->side / sizes->patch * sizes->patch;
    FAIL_IF(recipe->side % sizes->patch && recipe->side / sizes->patch != sizes->across, parameters->context, L3A_ERROR_MISMATCH,
            "choose a multiple of the patch",
            "this network cuts pictures into squares of %zu pixels, so it cannot take pictures of %zu x %zu; it can take %zu x %zu",
            sizes->patch, recipe->side, recipe->side, smaller, smaller);
    const size_t across = recipe->side / sizes->patch;
    FAIL_IF(across * across + sizes->has_class + sizes->registers > ATTENTION_TOKENS, parameters->context, L3A_ERROR_MISMATCH,
            "choose smaller pictures", "pictures of %zu x %zu have %zu tokens in this network, more than the limit of %d",
            recipe->side, recipe->side, across * across + sizes->has_class + sizes->registers, ATTENTION_TOKENS);
    if (across != sizes->across && own == DINOV2_SIDE && is_dinov2(sizes) && !sizes->registers && !parameters->source.recorded) {
        recipe->offset = true;
    }
done:
    return status;
}

/* Others were trained with 0.5 or with ImageNet's mean, and OpenCLIP's large network with patches of 14 with two means: unknown. */
static void choose_mean(const struct parameters *parameters, const struct vit_sizes *sizes, struct backbone_recipe *recipe) {
    const bool two_means = recipe->activation == GELU && sizes->width == 1024 && sizes->patch == 14;
    if (sizes->before && !two_means) {
        recipe_set_mean(recipe, (const float[]){0.48145466F, 0.4578275F, 0.40821073F},
                        (const float[]){0.26862954F, 0.26130258F, 0.27577711F});
    } else if (sizes->has_class && (sizes->scaled || (sizes->between && strcmp(sizes->between, "dist_token") == 0))) {
        /* DINOv2, DeiT III, and DeiT with distillation */
        recipe_set_imagenet(recipe);
    } else if (sizes->maps || parameters->source.recorded) { /* as before 0.14, for a model that did not record it */
        recipe_set_mean(recipe, (const float[]){0.5F, 0.5F, 0.5F}, (const float[]){0.5F, 0.5F, 0.5F});
    }
}

/* Much as timm names it. */
static void choose_name(const struct vit_sizes *sizes, struct backbone_recipe *recipe) {
    const bool distilled = sizes->between && strcmp(sizes->between, "dist_token") == 0;
    const bool dino = is_dinov2(sizes);
    const bool deit3 = sizes->scaled && sizes->has_class && !dino && !sizes->registers;
    char registers[24] = "";
    snprintf(recipe->name, sizeof recipe->name, "vit, width %zu, depth %zu, heads %zu, patch %zu", sizes->width, sizes->depth,
             recipe->heads, sizes->patch);
    if (sizes->registers && !distilled) {
        snprintf(registers, sizeof registers, "_reg%zu", sizes->registers);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].name && known[i].width == sizes->width && known[i].depth == sizes->depth &&
            recipe->heads * HEAD_WIDTH == sizes->width) {
            snprintf(recipe->name, sizeof recipe->name, "%s_%s_%spatch%zu%s%s_%zu",
                     distilled ? "deit"
                     : deit3   ? "deit3"
                               : "vit",
                     known[i].name, distilled ? "distilled_" : "", sizes->patch, registers,
                     sizes->before ? recipe->activation == QUICK_GELU ? "_clip_quickgelu" : "_clip"
                     : sizes->maps ? "_siglip"
                     : dino        ? "_dinov2"
                                   : "",
                     recipe->side);
        }
    }
}

static l3a_status recognise(struct parameters *parameters, struct backbone_recipe *recipe) {
    struct vit_sizes sizes;
    l3a_status status = L3A_OK;
    TRY(measure(parameters, &sizes));
    TRY(choose_heads(parameters, &sizes, recipe));
    TRY(choose_activation(parameters, &sizes, recipe));
    TRY(choose_pool(parameters, &sizes, recipe));
    TRY(choose_side(parameters, &sizes, recipe));
    FAIL_IF(recipe->layer > sizes.depth, parameters->context, L3A_ERROR_OPTION, NULL,
            "layer %zu does not exist: this network has %zu blocks", recipe->layer, sizes.depth);
    choose_mean(parameters, &sizes, recipe);
    choose_name(&sizes, recipe);
done:
    return status;
}

/* ---- The description ---- */

static value mlp(struct network *net, value x, const char *norm, size_t hidden, const char *scale,
                 const struct backbone_recipe *recipe) {
    const value inner = linear(net, layer_norm(net, x, norm, recipe->epsilon),
                               &(struct linear){.name = "mlp.fc1", .out = hidden, .activation = recipe->activation});
    const size_t width = net->status == L3A_OK ? net->shapes[x].channels : 0;
    return linear(net, inner, &(struct linear){.name = "mlp.fc2", .out = width, .scale = scale, .add = x});
}

static void prefix_block(struct network *net, size_t block) {
    network_prefix(net, "blocks.%zu.", block);
}

value vit_block_norm(struct network *net, const struct vit *vit, size_t block, value x) {
    prefix_block(net, block);
    return layer_norm(net, x, "norm1", vit->recipe->epsilon);
}

value vit_block_attention(struct network *net, const struct vit *vit, size_t block, value normed, value beside) {
    prefix_block(net, block);
    const struct linear into = {.name = "attn.qkv", .out = 3 * vit->sizes.width, .unbiased = !network_has(net, "attn.qkv.bias")};
    return attention(net, linear(net, normed, &into), beside, vit->recipe->heads);
}

value vit_block_project(struct network *net, const struct vit *vit, size_t block, value mixed, value x) {
    prefix_block(net, block);
    return linear(
        net, mixed,
        &(struct linear){.name = "attn.proj", .out = vit->sizes.width, .scale = vit->sizes.scaled ? "ls1.gamma" : NULL, .add = x});
}

value vit_block_mlp(struct network *net, const struct vit *vit, size_t block, value x) {
    prefix_block(net, block);
    return mlp(net, x, "norm2", vit->sizes.hidden, vit->sizes.scaled ? "ls2.gamma" : NULL, vit->recipe);
}

value vit_block(struct network *net, const struct vit *vit, size_t block, value x, value beside) {
    const value mixed = vit_block_attention(net, vit, block, vit_block_norm(net, vit, block, x), beside);
    return vit_block_mlp(net, vit, block, vit_block_project(net, vit, block, mixed, x));
}

static value attention_pool(struct network *net, value x, const struct vit_sizes *sizes, const struct backbone_recipe *recipe) {
    network_prefix(net, "attn_pool.");
    const struct checkpoint_tensor *inner = parameters_find(net->parameters, "attn_pool.mlp.fc1.weight");
    const size_t hidden = inner && inner->rank == 2 ? (size_t)inner->shape[0] : 4 * sizes->width;
    const value latent = learned(net, "latent", 1, sizes->width);
    const value query =
        linear(net, latent, &(struct linear){.name = "q", .out = sizes->width, .unbiased = !network_has(net, "q.bias")});
    const value keys =
        linear(net, x, &(struct linear){.name = "kv", .out = 2 * sizes->width, .unbiased = !network_has(net, "kv.bias")});
    x = linear(net, attention(net, query, keys, recipe->heads), &(struct linear){.name = "proj", .out = sizes->width});
    return mlp(net, x, "norm", hidden, NULL, recipe);
}

static value pool(struct network *net, value x, const struct vit_sizes *sizes, const struct backbone_recipe *recipe) {
    const size_t prefix = sizes->has_class + sizes->registers;
    switch (recipe->pool) {
    case L3A_POOL_MEAN: return token_mean(net, x, prefix);
    case L3A_POOL_MAX: return token_max(net, x, prefix);
    case L3A_POOL_CLS_MEAN: {
        const value mean = token_mean(net, x, prefix);
        return join(net, first_token(net, x), mean);
    }
    case L3A_POOL_MAP: return attention_pool(net, x, sizes, recipe);
    case L3A_POOL_PROJECTION: {
        const size_t out = (size_t)parameters_find(net->parameters, "head.weight")->shape[0];
        return linear(net, first_token(net, x),
                      &(struct linear){.name = "head", .out = out, .unbiased = !network_has(net, "head.bias")});
    }
    default: return first_token(net, x);
    }
}

/* What belongs to the network, but not to its features. */
static void skip_others(struct parameters *parameters, const struct vit_sizes *sizes, const struct backbone_recipe *recipe) {
    static const char *const others[] = {"mask_token", "head_dist.", "pre_logits."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        parameters_skip(parameters, others[i]);
    }
    if (recipe->pool != L3A_POOL_MAP) {
        parameters_skip(parameters, "attn_pool.");
    }
    for (size_t i = recipe->layer ? recipe->layer : sizes->depth; i < sizes->depth; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
        parameters_skip(parameters, prefix);
    }
}

bool vit_start(struct network *net, const struct backbone_recipe *recipe, struct vit *vit) {
    *vit = (struct vit){.recipe = recipe};
    net->status = net->status == L3A_OK ? measure(net->parameters, &vit->sizes) : net->status;
    if (net->status != L3A_OK) {
        return false;
    }
    vit->blocks = recipe->layer ? recipe->layer : vit->sizes.depth;
    skip_others(net->parameters, &vit->sizes, recipe);
    return true;
}

value vit_tokens(struct network *net, const struct vit *vit) {
    const struct vit_sizes *sizes = &vit->sizes;
    value x =
        patch_embedding(net, PICTURE, "patch_embed.proj", sizes->patch, sizes->width, !network_has(net, "patch_embed.proj.bias"));
    x = add_tokens(net, x,
                   &(struct tokens){.class_token = sizes->has_class ? "cls_token" : NULL,
                                    .registers = sizes->between,
                                    .register_count = sizes->registers,
                                    .positions = "pos_embed",
                                    .position_count = sizes->positions,
                                    .across = sizes->across,
                                    .method = vit->recipe->offset ? POSITIONS_OFFSET : POSITIONS_ANTIALIASED});
    return sizes->before ? layer_norm(net, x, "norm_pre", vit->recipe->epsilon) : x;
}

value vit_norm(struct network *net, const struct vit *vit, value x) {
    network_prefix(net, "%s", "");
    return layer_norm(net, x, vit->sizes.after ? "fc_norm" : "norm", vit->recipe->epsilon);
}

value vit_features(struct network *net, const struct vit *vit, value x) {
    network_prefix(net, "%s", "");
    x = vit->sizes.after ? x : vit_norm(net, vit, x);
    network_output(net, "tokens", x);
    x = pool(net, x, &vit->sizes, vit->recipe);
    return vit->sizes.after ? vit_norm(net, vit, x) : x;
}

/* The tokens of the picture as a map. */
static value map_of(struct network *net, value x, size_t prefix) {
    const size_t side = net->status == L3A_OK ? root_of(net->shapes[x].height - prefix) : 0;
    return slice(net, x, prefix, side, side);
}

/* A network of fewer blocks than stages has none. */
static value describe(struct network *net, const struct backbone_recipe *recipe) {
    struct vit vit;
    if (!vit_start(net, recipe, &vit)) {
        return NOTHING;
    }
    value x = vit_tokens(net, &vit), stages[STAGES] = {NOTHING};
    for (size_t i = 0; i < vit.blocks; i++) {
        const size_t done = (i + 1) * STAGES / vit.blocks;
        x = vit_block(net, &vit, i, x, NOTHING);
        if (vit.blocks >= STAGES && done > i * STAGES / vit.blocks) {
            stages[done - 1] = map_of(net, x, vit.sizes.has_class + vit.sizes.registers);
        }
    }
    x = vit_features(net, &vit, x);
    for (size_t stage = 0; stage < STAGES && stages[stage]; stage++) {
        network_stage(net, stage, stages[stage]);
    }
    return x;
}

const struct family vit_family = {.name = "vit",
                                  .usual_epsilon = 1e-6,
                                  .gelu = true,
                                  .pools = 1U << L3A_POOL_CLS | 1U << L3A_POOL_MEAN | 1U << L3A_POOL_CLS_MEAN | 1U << L3A_POOL_MAX |
                                           1U << L3A_POOL_MAP | 1U << L3A_POOL_PROJECTION,
                                  .matches = matches,
                                  .recognise = recognise,
                                  .describe = describe};
