/* The tables of names. Sources: the modules of timm, transformers (4 and 5), torchvision, open_clip and OpenAI's CLIP, Meta's DINO,
 * DINOv2, DeiT, MAE and ConvNeXt, and the TResNet of its authors; each naming is that of the modules' parameters. */
#include "net/namings.h"

#define TABLE(rules) rules, sizeof(rules) / sizeof *(rules)

#define SAME(name)                                                                                                                 \
    { .from = (name) }
#define MAP(name, timm)                                                                                                            \
    { .from = (name), .to = (timm) }
#define CHANGE(name, timm, how)                                                                                                    \
    { .from = (name), .to = (timm), .change = (how) }
#define PART(name, timm, how, number, some, all)                                                                                   \
    { .from = (name), .to = (timm), .change = (how), .first = (number), .count = (some), .parts = (all) }

/* Three tensors that timm has as one. */
#define QUERY_KEY_VALUE(query, key, value, to)                                                                                     \
    PART(query, to, JOINED, 0, 1, 3), PART(key, to, JOINED, 1, 1, 3), PART(value, to, JOINED, 2, 1, 3)

/* ---- Vision transformers ---- */

/* timm, and Meta's DeiT, DeiT III, MAE, DINO and DINOv2. */
static const struct rule timm_vit[] = {
    SAME("cls_token"),
    SAME("dist_token"),
    SAME("reg_token"),
    MAP("register_tokens", "reg_token"),
    SAME("pos_embed"),
    SAME("patch_embed.proj.@"),
    SAME("norm_pre.@"),
    SAME("blocks.%.norm1.@"),
    SAME("blocks.%.attn.qkv.@"),
    SAME("blocks.%.attn.proj.@"),
    SAME("blocks.%.ls1.gamma"),
    MAP("blocks.%.gamma_1", "blocks.%.ls1.gamma"),
    SAME("blocks.%.norm2.@"),
    SAME("blocks.%.mlp.fc1.@"),
    SAME("blocks.%.mlp.fc2.@"),
    SAME("blocks.%.ls2.gamma"),
    MAP("blocks.%.gamma_2", "blocks.%.ls2.gamma"),
    SAME("norm.@"),
    SAME("fc_norm.@"),
    SAME("attn_pool.latent"),
    SAME("attn_pool.q.@"),
    SAME("attn_pool.kv.@"),
    SAME("attn_pool.proj.@"),
    SAME("attn_pool.norm.@"),
    SAME("attn_pool.mlp.fc1.@"),
    SAME("attn_pool.mlp.fc2.@"),
    SAME("head.@"),
    SAME("head_dist.@"),
    MAP("^head.proj.@", "head.@"), /* open_clip, around a network of timm */
};

/* DINOv2 in training, which groups its blocks: blocks.GROUP.BLOCK. */
static const struct rule grouped_vit[] = {
    SAME("cls_token"),
    MAP("register_tokens", "reg_token"),
    SAME("pos_embed"),
    SAME("patch_embed.proj.@"),
    MAP("blocks.*.%.norm1.@", "blocks.%.norm1.@"),
    MAP("blocks.*.%.attn.qkv.@", "blocks.%.attn.qkv.@"),
    MAP("blocks.*.%.attn.proj.@", "blocks.%.attn.proj.@"),
    MAP("blocks.*.%.ls1.gamma", "blocks.%.ls1.gamma"),
    MAP("blocks.*.%.norm2.@", "blocks.%.norm2.@"),
    MAP("blocks.*.%.mlp.fc1.@", "blocks.%.mlp.fc1.@"),
    MAP("blocks.*.%.mlp.fc2.@", "blocks.%.mlp.fc2.@"),
    MAP("blocks.*.%.ls2.gamma", "blocks.%.ls2.gamma"),
    SAME("norm.@"),
};

/* mask_token hides patches in training, and MAE's decoder draws them again. */
static const char *const meta_skipped[] = {"mask_token", "decoder_", "pre_logits.", NULL};

#define TRANSFORMERS_ENDS                                                                                                          \
    MAP("embeddings.cls_token", "cls_token"), MAP("embeddings.distillation_token", "dist_token"),                                  \
        MAP("embeddings.register_tokens", "reg_token"), MAP("embeddings.position_embeddings", "pos_embed"),                        \
        MAP("embeddings.patch_embeddings.projection.@", "patch_embed.proj.@"), MAP("layernorm.@", "norm.@"),                       \
        MAP("^classifier.@", "head.@"), MAP("^cls_classifier.@", "head.@"), MAP("^distillation_classifier.@", "head_dist.@")

static const struct rule transformers_vit[] = {
    TRANSFORMERS_ENDS,
    QUERY_KEY_VALUE("encoder.layer.%.attention.attention.query.@", "encoder.layer.%.attention.attention.key.@",
                    "encoder.layer.%.attention.attention.value.@", "blocks.%.attn.qkv.@"),
    MAP("encoder.layer.%.attention.output.dense.@", "blocks.%.attn.proj.@"),
    MAP("encoder.layer.%.layernorm_before.@", "blocks.%.norm1.@"), /* ViT, DeiT, MAE … */
    MAP("encoder.layer.%.layernorm_after.@", "blocks.%.norm2.@"),
    MAP("encoder.layer.%.intermediate.dense.@", "blocks.%.mlp.fc1.@"),
    MAP("encoder.layer.%.output.dense.@", "blocks.%.mlp.fc2.@"),
    MAP("encoder.layer.%.norm1.@", "blocks.%.norm1.@"), /* … and DINOv2 */
    MAP("encoder.layer.%.norm2.@", "blocks.%.norm2.@"),
    MAP("encoder.layer.%.mlp.fc1.@", "blocks.%.mlp.fc1.@"),
    MAP("encoder.layer.%.mlp.fc2.@", "blocks.%.mlp.fc2.@"),
    MAP("encoder.layer.%.layer_scale1.lambda1", "blocks.%.ls1.gamma"),
    MAP("encoder.layer.%.layer_scale2.lambda1", "blocks.%.ls2.gamma"),
};

/* From version 5 on; files can still have the older names. */
static const struct rule transformers_5_vit[] = {
    TRANSFORMERS_ENDS,
    QUERY_KEY_VALUE("layers.%.attention.q_proj.@", "layers.%.attention.k_proj.@", "layers.%.attention.v_proj.@",
                    "blocks.%.attn.qkv.@"),
    MAP("layers.%.attention.o_proj.@", "blocks.%.attn.proj.@"),
    MAP("layers.%.layernorm_before.@", "blocks.%.norm1.@"),
    MAP("layers.%.layernorm_after.@", "blocks.%.norm2.@"),
    MAP("layers.%.mlp.fc1.@", "blocks.%.mlp.fc1.@"),
    MAP("layers.%.mlp.fc2.@", "blocks.%.mlp.fc2.@"),
};

static const char *const transformers_skipped[] = {"embeddings.mask_token", "pooler.", NULL};

static const struct rule transformers_clip[] = {
    CHANGE("embeddings.class_embedding", "cls_token", AS_TOKENS),
    CHANGE("embeddings.position_embedding.weight", "pos_embed", AS_TOKENS),
    MAP("embeddings.patch_embedding.@", "patch_embed.proj.@"),
    MAP("pre_layrnorm.@", "norm_pre.@"), /* so spelt */
    QUERY_KEY_VALUE("encoder.layers.%.self_attn.q_proj.@", "encoder.layers.%.self_attn.k_proj.@",
                    "encoder.layers.%.self_attn.v_proj.@", "blocks.%.attn.qkv.@"),
    MAP("encoder.layers.%.self_attn.out_proj.@", "blocks.%.attn.proj.@"),
    MAP("encoder.layers.%.layer_norm1.@", "blocks.%.norm1.@"),
    MAP("encoder.layers.%.layer_norm2.@", "blocks.%.norm2.@"),
    MAP("encoder.layers.%.mlp.fc1.@", "blocks.%.mlp.fc1.@"),
    MAP("encoder.layers.%.mlp.fc2.@", "blocks.%.mlp.fc2.@"),
    MAP("post_layernorm.@", "norm.@"),
    MAP("^visual_projection.@", "head.@"),
    SAME("^classifier.@"),                               /* beside a projection, which is timm's head */
    CHANGE("head.probe", "attn_pool.latent", AS_TOKENS), /* SigLIP */
    PART("head.attention.in_proj_@", "attn_pool.q.@", CUT, 0, 1, 3),
    PART("head.attention.in_proj_@", "attn_pool.kv.@", CUT, 1, 2, 3),
    MAP("head.attention.out_proj.@", "attn_pool.proj.@"),
    MAP("head.layernorm.@", "attn_pool.norm.@"),
    MAP("head.mlp.fc1.@", "attn_pool.mlp.fc1.@"),
    MAP("head.mlp.fc2.@", "attn_pool.mlp.fc2.@"),
};

static const char *const transformers_clip_skipped[] = {"embeddings.position_ids", NULL};

static const struct rule torchvision_vit[] = {
    MAP("class_token", "cls_token"),
    MAP("encoder.pos_embedding", "pos_embed"),
    MAP("conv_proj.@", "patch_embed.proj.@"),
    MAP("encoder.layers.encoder_layer_%.ln_1.@", "blocks.%.norm1.@"),
    MAP("encoder.layers.encoder_layer_%.self_attention.in_proj_@", "blocks.%.attn.qkv.@"),
    MAP("encoder.layers.encoder_layer_%.self_attention.out_proj.@", "blocks.%.attn.proj.@"),
    MAP("encoder.layers.encoder_layer_%.ln_2.@", "blocks.%.norm2.@"),
    MAP("encoder.layers.encoder_layer_%.mlp.0.@", "blocks.%.mlp.fc1.@"),
    MAP("encoder.layers.encoder_layer_%.mlp.3.@", "blocks.%.mlp.fc2.@"),
    MAP("encoder.layers.encoder_layer_%.mlp.linear_1.@", "blocks.%.mlp.fc1.@"), /* until 0.12 */
    MAP("encoder.layers.encoder_layer_%.mlp.linear_2.@", "blocks.%.mlp.fc2.@"),
    MAP("encoder.ln.@", "norm.@"),
    MAP("heads.head.@", "head.@"),
};

static const struct rule clip[] = {
    CHANGE("class_embedding", "cls_token", AS_TOKENS),
    CHANGE("positional_embedding", "pos_embed", AS_TOKENS),
    MAP("conv1.@", "patch_embed.proj.@"),
    MAP("ln_pre.@", "norm_pre.@"),
    MAP("transformer.resblocks.%.ln_1.@", "blocks.%.norm1.@"),
    MAP("transformer.resblocks.%.attn.in_proj_@", "blocks.%.attn.qkv.@"),
    MAP("transformer.resblocks.%.attn.out_proj.@", "blocks.%.attn.proj.@"),
    MAP("transformer.resblocks.%.ls_1.gamma", "blocks.%.ls1.gamma"),
    MAP("transformer.resblocks.%.ln_2.@", "blocks.%.norm2.@"),
    MAP("transformer.resblocks.%.mlp.c_fc.@", "blocks.%.mlp.fc1.@"),
    MAP("transformer.resblocks.%.mlp.c_proj.@", "blocks.%.mlp.fc2.@"),
    MAP("transformer.resblocks.%.ls_2.gamma", "blocks.%.ls2.gamma"),
    MAP("ln_post.@", "norm.@"),
    CHANGE("proj", "head.weight", TRANSPOSED),
};

/* ---- ConvNeXt ---- */

static const struct rule timm_convnext[] = {
    SAME("stem.%.@"),
    SAME("stages.%.downsample.%.@"),
    SAME("stages.%.blocks.%.conv_dw.@"),
    SAME("stages.%.blocks.%.norm.@"),
    CHANGE("stages.%.blocks.%.mlp.fc1.weight", "stages.%.blocks.%.mlp.fc1.weight", AS_MATRIX),
    SAME("stages.%.blocks.%.mlp.fc1.bias"),
    CHANGE("stages.%.blocks.%.mlp.fc2.weight", "stages.%.blocks.%.mlp.fc2.weight", AS_MATRIX),
    SAME("stages.%.blocks.%.mlp.fc2.bias"),
    SAME("stages.%.blocks.%.gamma"),
    SAME("head.norm.@"),
    SAME("head.fc.@"),
    MAP("^head.proj.@", "head.fc.@"), /* open_clip, around a network of timm */
};

static const struct rule meta_convnext[] = {
    MAP("downsample_layers.0.%.@", "stem.%.@"),
    MAP("downsample_layers.%.%.@", "stages.%.downsample.%.@"),
    MAP("stages.%.%.dwconv.@", "stages.%.blocks.%.conv_dw.@"),
    MAP("stages.%.%.norm.@", "stages.%.blocks.%.norm.@"),
    MAP("stages.%.%.pwconv1.@", "stages.%.blocks.%.mlp.fc1.@"),
    MAP("stages.%.%.pwconv2.@", "stages.%.blocks.%.mlp.fc2.@"),
    MAP("stages.%.%.gamma", "stages.%.blocks.%.gamma"),
    MAP("norm.@", "head.norm.@"),
    MAP("head.@", "head.fc.@"),
};

static const struct rule transformers_convnext[] = {
    MAP("embeddings.patch_embeddings.@", "stem.0.@"),
    MAP("embeddings.layernorm.@", "stem.1.@"),
    MAP("encoder.stages.%.downsampling_layer.%.@", "stages.%.downsample.%.@"),
    MAP("encoder.stages.%.layers.%.dwconv.@", "stages.%.blocks.%.conv_dw.@"),
    MAP("encoder.stages.%.layers.%.layernorm.@", "stages.%.blocks.%.norm.@"),
    MAP("encoder.stages.%.layers.%.pwconv1.@", "stages.%.blocks.%.mlp.fc1.@"),
    MAP("encoder.stages.%.layers.%.pwconv2.@", "stages.%.blocks.%.mlp.fc2.@"),
    MAP("encoder.stages.%.layers.%.layer_scale_parameter", "stages.%.blocks.%.gamma"),
    MAP("layernorm.@", "head.norm.@"),
    MAP("^classifier.@", "head.fc.@"),
};

/* Of torchvision's features, the even ones halve the side, and the odd ones are the stages. */
#define TORCHVISION_STAGE(from, to)                                                                                                \
    MAP("features." from ".%.block.0.@", "stages." to ".blocks.%.conv_dw.@"),                                                      \
        MAP("features." from ".%.block.2.@", "stages." to ".blocks.%.norm.@"),                                                     \
        MAP("features." from ".%.block.3.@", "stages." to ".blocks.%.mlp.fc1.@"),                                                  \
        MAP("features." from ".%.block.5.@", "stages." to ".blocks.%.mlp.fc2.@"),                                                  \
        CHANGE("features." from ".%.layer_scale", "stages." to ".blocks.%.gamma", AS_VECTOR)

static const struct rule torchvision_convnext[] = {
    MAP("features.0.%.@", "stem.%.@"),
    TORCHVISION_STAGE("1", "0"),
    MAP("features.2.%.@", "stages.1.downsample.%.@"),
    TORCHVISION_STAGE("3", "1"),
    MAP("features.4.%.@", "stages.2.downsample.%.@"),
    TORCHVISION_STAGE("5", "2"),
    MAP("features.6.%.@", "stages.3.downsample.%.@"),
    TORCHVISION_STAGE("7", "3"),
    MAP("classifier.0.@", "head.norm.@"),
    MAP("classifier.2.@", "head.fc.@"),
};

/* ---- Residual networks ---- */

/* torchvision's are the same. */
static const struct rule timm_resnet[] = {
    SAME("conv1.@"), SAME("bn1.@"), SAME("layer%.%.conv%.@"), SAME("layer%.%.bn%.@"), SAME("layer%.%.downsample.%.@"), SAME("fc.@"),
};

static const struct rule transformers_resnet[] = {
    MAP("embedder.embedder.convolution.@", "conv1.@"),
    MAP("embedder.embedder.normalization.@", "bn1.@"),
    MAP("encoder.stages.%.layers.%.layer.%.convolution.@", "layer+.%.conv+.@"),
    MAP("encoder.stages.%.layers.%.layer.%.normalization.@", "layer+.%.bn+.@"),
    MAP("encoder.stages.%.layers.%.shortcut.convolution.@", "layer+.%.downsample.0.@"),
    MAP("encoder.stages.%.layers.%.shortcut.normalization.@", "layer+.%.downsample.1.@"),
    MAP("^classifier.1.@", "fc.@"),
};

static const struct rule timm_tresnet[] = {
    SAME("body.conv1.conv.@"),
    SAME("body.conv1.bn.@"),
    SAME("body.layer%.%.conv%.conv.@"),
    SAME("body.layer%.%.conv%.bn.@"),
    SAME("body.layer%.%.downsample.%.conv.@"),
    SAME("body.layer%.%.downsample.%.bn.@"),
    SAME("body.layer%.%.se.fc%.@"),
    SAME("head.fc.@"),
};

/* Its norms are not timm's: their scale is |weight| + epsilon. So it keeps its names, and tresnet.c knows them. */
static const struct rule first_tresnet[] = {
    SAME("body.conv1.%.@"),
    SAME("body.layer%.%.conv%.%.@"),
    SAME("body.layer%.%.conv%.0.%.@"),
    SAME("body.layer%.%.downsample.%.%.@"),
    SAME("body.layer%.%.se.fc%.@"),
    SAME("head.fc.@"),
};

/* Of the blur, if it was not compiled. */
static const char *const first_tresnet_skipped[] = {".filt", NULL};

static const struct naming namings[] = {
    {"timm's ViT", {"patch_embed.proj.weight", "blocks.0.norm1.weight"}, TABLE(timm_vit), meta_skipped, "head", false},
    {"DINOv2's ViT with grouped blocks",
     {"patch_embed.proj.weight", "blocks.0.0.norm1.weight"},
     TABLE(grouped_vit),
     meta_skipped,
     "head",
     false},
    {"transformers' ViT",
     {"embeddings.patch_embeddings.projection.weight", "encoder.layer.0.attention.attention.query.weight"},
     TABLE(transformers_vit),
     transformers_skipped,
     "^classifier",
     false},
    {"transformers' ViT",
     {"embeddings.patch_embeddings.projection.weight", "layers.0.attention.q_proj.weight"},
     TABLE(transformers_5_vit),
     transformers_skipped,
     "^classifier",
     false},
    {"transformers' CLIP or SigLIP",
     {"embeddings.patch_embedding.weight", "encoder.layers.0.self_attn.q_proj.weight"},
     TABLE(transformers_clip),
     transformers_clip_skipped,
     "^classifier",
     false},
    {"torchvision's ViT",
     {"conv_proj.weight", "encoder.layers.encoder_layer_0.ln_1.weight"},
     TABLE(torchvision_vit),
     NULL,
     "heads.head",
     true},
    {"OpenAI's CLIP or OpenCLIP",
     {"class_embedding", "conv1.weight", "transformer.resblocks.0.ln_1.weight"},
     TABLE(clip),
     NULL,
     "classifier",
     false},
    {"timm's ConvNeXt", {"stem.0.weight", "stages.0.blocks.0.conv_dw.weight"}, TABLE(timm_convnext), NULL, "head.fc", false},
    {"ConvNeXt's first release",
     {"downsample_layers.0.0.weight", "stages.0.0.dwconv.weight"},
     TABLE(meta_convnext),
     NULL,
     "head",
     true},
    {"transformers' ConvNeXt",
     {"embeddings.patch_embeddings.weight", "encoder.stages.0.layers.0.dwconv.weight"},
     TABLE(transformers_convnext),
     NULL,
     "^classifier",
     true},
    {"torchvision's ConvNeXt",
     {"features.0.0.weight", "features.1.0.layer_scale"},
     TABLE(torchvision_convnext),
     NULL,
     "classifier.2",
     true},
    {"timm's TResNet", {"body.conv1.conv.weight", "body.layer1.0.conv1.conv.weight"}, TABLE(timm_tresnet), NULL, "head.fc", false},
    {"TResNet's first release",
     {"body.conv1.0.weight", "body.layer1.0.conv1.0.weight"},
     TABLE(first_tresnet),
     first_tresnet_skipped,
     "head.fc",
     false},
    {"timm's ResNet", {"conv1.weight", "layer1.0.conv1.weight"}, TABLE(timm_resnet), NULL, "fc", false},
    {"transformers' ResNet",
     {"embedder.embedder.convolution.weight", "encoder.stages.0.layers.0.layer.0.convolution.weight"},
     TABLE(transformers_resnet),
     NULL,
     "^classifier.1",
     false},
};

const struct naming *naming_at(size_t index) {
    return index < sizeof namings / sizeof *namings ? &namings[index] : NULL;
}
