/* Tensors under the names of other libraries: each naming, written out as its library has it for a network with few blocks, gives
 * timm's names, shapes and values, and lists what was skipped. Files that are incomplete, misshaped, huge or hostile are errors
 * that name what is wrong, and every allocation may fail. */
#include "support.h"

#include "fixture.h"
#include "memory_probe.h"
#include "naive_network.h"
#include "net/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = 4, HIDDEN = 8, OUT = 3, SCALE = 4096 };

/* ---- What the files hold ---- */

/* How the tensors of a file make one of timm's. */
enum how { PLAIN, THIRDS, SQUEEZED, PIXEL, FLIPPED, POINTWISE, FIRST_THIRD, OTHER_THIRDS, NONE };

/* One of timm's names, and the file's. In both, # is the number of a block, and * one of the parameters in `leaves`. Of three
 * names, the first is written out, and the others are its last word's replacements. */
struct line {
    const char *timm, *file;
    enum how how;
};

struct file {
    const char *naming, *prefix, *skipped; /* skipped: as it is listed */
    const char *leaves;                    /* of *; NULL: weight and bias */
    struct line lines[40];
};

#define MODERN_BLOCK(prefix)                                                                                                       \
    {"blocks.#.norm2.*", prefix "norm2.*", PLAIN}, {"blocks.#.mlp.fc1.*", prefix "mlp.fc1.*", PLAIN}, {                            \
        "blocks.#.mlp.fc2.*", prefix "mlp.fc2.*", PLAIN                                                                            \
    }
#define OWN_BLOCK                                                                                                                  \
    {"blocks.#.norm1.*", "blocks.#.norm1.*", PLAIN}, {"blocks.#.attn.qkv.*", "blocks.#.attn.qkv.*", PLAIN},                        \
        {"blocks.#.attn.proj.*", "blocks.#.attn.proj.*", PLAIN}, MODERN_BLOCK("blocks.#.")
#define OWN_ENDS                                                                                                                   \
    {"cls_token", "cls_token", PLAIN}, {"patch_embed.proj.*", "patch_embed.proj.*", PLAIN}, {                                      \
        "norm.*", "norm.*", PLAIN                                                                                                  \
    }
#define TRANSFORMERS_ENDS(prefix)                                                                                                  \
    {"cls_token", prefix "embeddings.cls_token", PLAIN}, {"pos_embed", prefix "embeddings.position_embeddings", PLAIN},            \
        {"patch_embed.proj.*", prefix "embeddings.patch_embeddings.projection.*", PLAIN}, {                                        \
        "norm.*", prefix "layernorm.*", PLAIN                                                                                      \
    }
#define TRANSFORMERS_ATTENTION(layer)                                                                                              \
    {"blocks.#.attn.qkv.*", layer "attention.attention.query.*|key.*|value.*", THIRDS}, {                                          \
        "blocks.#.attn.proj.*", layer "attention.output.dense.*", PLAIN                                                            \
    }
#define TRANSFORMERS_BLOCK(layer)                                                                                                  \
    TRANSFORMERS_ATTENTION(layer), {"blocks.#.norm1.*", layer "layernorm_before.*", PLAIN},                                        \
        {"blocks.#.norm2.*", layer "layernorm_after.*", PLAIN}, {"blocks.#.mlp.fc1.*", layer "intermediate.dense.*", PLAIN}, {     \
        "blocks.#.mlp.fc2.*", layer "output.dense.*", PLAIN                                                                        \
    }
#define CLIP_BODY(prefix)                                                                                                          \
    {"pos_embed", prefix "embeddings.position_embedding.weight", SQUEEZED},                                                        \
        {"blocks.#.norm1.*", prefix "encoder.layers.#.layer_norm1.*", PLAIN},                                                      \
        {"blocks.#.attn.qkv.*", prefix "encoder.layers.#.self_attn.q_proj.*|k_proj.*|v_proj.*", THIRDS},                           \
        {"blocks.#.attn.proj.*", prefix "encoder.layers.#.self_attn.out_proj.*", PLAIN},                                           \
        {"blocks.#.norm2.*", prefix "encoder.layers.#.layer_norm2.*", PLAIN},                                                      \
        {"blocks.#.mlp.fc1.*", prefix "encoder.layers.#.mlp.fc1.*", PLAIN},                                                        \
        {"blocks.#.mlp.fc2.*", prefix "encoder.layers.#.mlp.fc2.*", PLAIN}, {                                                      \
        "norm.*", prefix "post_layernorm.*", PLAIN                                                                                 \
    }
#define OPENAI_BODY(prefix)                                                                                                        \
    {"cls_token", prefix "class_embedding", SQUEEZED}, {"pos_embed", prefix "positional_embedding", SQUEEZED},                     \
        {"patch_embed.proj.weight", prefix "conv1.weight", PLAIN}, {"norm_pre.*", prefix "ln_pre.*", PLAIN},                       \
        {"blocks.#.norm1.*", prefix "transformer.resblocks.#.ln_1.*", PLAIN},                                                      \
        {"blocks.#.attn.qkv.*", prefix "transformer.resblocks.#.attn.in_proj_*", PLAIN},                                           \
        {"blocks.#.attn.proj.*", prefix "transformer.resblocks.#.attn.out_proj.*", PLAIN},                                         \
        {"blocks.#.norm2.*", prefix "transformer.resblocks.#.ln_2.*", PLAIN},                                                      \
        {"blocks.#.mlp.fc1.*", prefix "transformer.resblocks.#.mlp.c_fc.*", PLAIN},                                                \
        {"blocks.#.mlp.fc2.*", prefix "transformer.resblocks.#.mlp.c_proj.*", PLAIN}, {"norm.*", prefix "ln_post.*", PLAIN}, {     \
        "head.weight", prefix "proj", FLIPPED                                                                                      \
    }
#define TORCHVISION_VIT(first, second)                                                                                             \
    {"cls_token", "class_token", PLAIN}, {"pos_embed", "encoder.pos_embedding", PLAIN},                                            \
        {"patch_embed.proj.*", "conv_proj.*", PLAIN}, {"blocks.#.norm1.*", "encoder.layers.encoder_layer_#.ln_1.*", PLAIN},        \
        {"blocks.#.attn.qkv.*", "encoder.layers.encoder_layer_#.self_attention.in_proj_*", PLAIN},                                 \
        {"blocks.#.attn.proj.*", "encoder.layers.encoder_layer_#.self_attention.out_proj.*", PLAIN},                               \
        {"blocks.#.norm2.*", "encoder.layers.encoder_layer_#.ln_2.*", PLAIN},                                                      \
        {"blocks.#.mlp.fc1.*", "encoder.layers.encoder_layer_#.mlp." first ".*", PLAIN},                                           \
        {"blocks.#.mlp.fc2.*", "encoder.layers.encoder_layer_#.mlp." second ".*", PLAIN}, {"norm.*", "encoder.ln.*", PLAIN}, {     \
        "head.*", "heads.head.*", PLAIN                                                                                            \
    }
#define TIMM_STAGE(stage)                                                                                                          \
    {"stages." stage ".blocks.#.conv_dw.*", "stages." stage ".blocks.#.conv_dw.*", PLAIN},                                         \
        {"stages." stage ".blocks.#.norm.*", "stages." stage ".blocks.#.norm.*", PLAIN}, {                                         \
        "stages." stage ".blocks.#.gamma", "stages." stage ".blocks.#.gamma", PLAIN                                                \
    }
#define TORCHVISION_STAGE(stage, features)                                                                                         \
    {"stages." stage ".blocks.#.conv_dw.*", "features." features ".#.block.0.*", PLAIN},                                           \
        {"stages." stage ".blocks.#.norm.*", "features." features ".#.block.2.*", PLAIN},                                          \
        {"stages." stage ".blocks.#.mlp.fc1.*", "features." features ".#.block.3.*", PLAIN},                                       \
        {"stages." stage ".blocks.#.mlp.fc2.*", "features." features ".#.block.5.*", PLAIN}, {                                     \
        "stages." stage ".blocks.#.gamma", "features." features ".#.layer_scale", PIXEL                                            \
    }
#define CONVNEXT_STAGE(stage, blocks, norm, gamma)                                                                                 \
    {"stages." stage ".blocks.#.conv_dw.*", blocks "dwconv.*", PLAIN},                                                             \
        {"stages." stage ".blocks.#.norm.*", blocks norm ".*", PLAIN},                                                             \
        {"stages." stage ".blocks.#.mlp.fc1.*", blocks "pwconv1.*", PLAIN},                                                        \
        {"stages." stage ".blocks.#.mlp.fc2.*", blocks "pwconv2.*", PLAIN}, {                                                      \
        "stages." stage ".blocks.#.gamma", blocks gamma, PLAIN                                                                     \
    }

static const char *const norm_leaves = "weight,bias,running_mean,running_var,num_batches_tracked";

static const struct file files[] = {
    {"timm's ViT",
     "",
     "head (2 tensors), head_dist (2 tensors)",
     NULL,
     {OWN_ENDS,
      OWN_BLOCK,
      {"pos_embed", "pos_embed", PLAIN},
      {"dist_token", "dist_token", PLAIN},
      {"reg_token", "reg_token", PLAIN},
      {"norm_pre.*", "norm_pre.*", PLAIN},
      {"blocks.#.ls1.gamma", "blocks.#.ls1.gamma", PLAIN},
      {"attn_pool.latent", "attn_pool.latent", PLAIN},
      {"attn_pool.kv.*", "attn_pool.kv.*", PLAIN},
      {"head.*", "head.*", PLAIN},
      {"head_dist.*", "head_dist.*", PLAIN}}},
    {"timm's ViT", /* Meta's DINOv2 with registers, and MAE's decoder */
     "",
     "decoder_blocks (2 tensors), decoder_embed.bias, decoder_pos_embed, mask_token",
     NULL,
     {OWN_ENDS,
      OWN_BLOCK,
      {"pos_embed", "pos_embed", PLAIN},
      {"reg_token", "register_tokens", PLAIN},
      {"blocks.#.ls1.gamma", "blocks.#.ls1.gamma", PLAIN},
      {NULL, "mask_token", NONE},
      {NULL, "decoder_pos_embed", NONE},
      {NULL, "decoder_embed.bias", NONE},
      {NULL, "decoder_blocks.0.norm1.*", NONE}}},
    {"timm's ViT", /* Meta's DeiT III */
     "",
     "",
     NULL,
     {OWN_ENDS,
      OWN_BLOCK,
      {"pos_embed", "pos_embed", PLAIN},
      {"blocks.#.ls1.gamma", "blocks.#.gamma_1", PLAIN},
      {"blocks.#.ls2.gamma", "blocks.#.gamma_2", PLAIN}}},
    {"timm's ViT", /* SigLIP and others of timm within OpenCLIP */
     "visual.trunk.",
     "logit_bias, logit_scale, text (3 tensors), visual.head.proj.weight",
     NULL,
     {{"pos_embed", "visual.trunk.pos_embed", PLAIN},
      {"patch_embed.proj.*", "visual.trunk.patch_embed.proj.*", PLAIN},
      {"blocks.#.norm1.*", "visual.trunk.blocks.#.norm1.*", PLAIN},
      {"attn_pool.q.*", "visual.trunk.attn_pool.q.*", PLAIN},
      {"head.weight", "visual.head.proj.weight", PLAIN},
      {NULL, "text.token_embedding.weight", NONE},
      {NULL, "text.transformer.resblocks.0.ln_1.*", NONE},
      {NULL, "logit_scale", NONE},
      {NULL, "logit_bias", NONE}}},
    {"timm's ViT", /* DINO in training: the teacher is the network */
     "teacher.module.backbone.",
     "student (4 tensors), teacher.module.head (2 tensors)",
     NULL,
     {{NULL, "student.backbone.patch_embed.proj.*", NONE},
      {NULL, "student.backbone.blocks.0.norm1.*", NONE},
      {"cls_token", "teacher.module.backbone.cls_token", PLAIN},
      {"patch_embed.proj.*", "teacher.module.backbone.patch_embed.proj.*", PLAIN},
      {"blocks.#.norm1.*", "teacher.module.backbone.blocks.#.norm1.*", PLAIN},
      {NULL, "teacher.module.head.mlp.0.weight", NONE},
      {NULL, "teacher.module.head.last_layer.weight_v", NONE}}},
    {"DINOv2's ViT with grouped blocks",
     "",
     "mask_token",
     NULL,
     {OWN_ENDS,
      {"pos_embed", "pos_embed", PLAIN},
      {"blocks.#.norm1.*", "blocks.0.#.norm1.*", PLAIN},
      {"blocks.#.attn.qkv.*", "blocks.0.#.attn.qkv.*", PLAIN},
      {"blocks.#.attn.proj.*", "blocks.0.#.attn.proj.*", PLAIN},
      {"blocks.#.ls1.gamma", "blocks.0.#.ls1.gamma", PLAIN},
      {"blocks.#.ls2.gamma", "blocks.0.#.ls2.gamma", PLAIN},
      {"blocks.30.norm1.*", "blocks.3.30.norm1.*", PLAIN},
      {"reg_token", "register_tokens", PLAIN},
      {NULL, "mask_token", NONE},
      MODERN_BLOCK("blocks.0.#.")}},
    {"transformers' ViT",
     "vit.",
     "classifier (2 tensors)",
     NULL,
     {TRANSFORMERS_ENDS("vit."), TRANSFORMERS_BLOCK("vit.encoder.layer.#."), {"head.*", "classifier.*", PLAIN}}},
    {"transformers' ViT",
     "",
     "pooler (2 tensors)",
     NULL,
     {TRANSFORMERS_ENDS(""), TRANSFORMERS_BLOCK("encoder.layer.#."), {NULL, "pooler.dense.*", NONE}}},
    {"transformers' ViT",
     "deit.",
     "cls_classifier (2 tensors), distillation_classifier (2 tensors)",
     NULL,
     {TRANSFORMERS_ENDS("deit."),
      TRANSFORMERS_BLOCK("deit.encoder.layer.#."),
      {"dist_token", "deit.embeddings.distillation_token", PLAIN},
      {"head.*", "cls_classifier.*", PLAIN},
      {"head_dist.*", "distillation_classifier.*", PLAIN}}},
    {"transformers' ViT", /* MAE */
     "vit.",
     "decoder (3 tensors)",
     NULL,
     {TRANSFORMERS_ENDS("vit."),
      TRANSFORMERS_BLOCK("vit.encoder.layer.#."),
      {NULL, "decoder.mask_token", NONE},
      {NULL, "decoder.decoder_layers.0.attention.attention.query.*", NONE}}},
    {"transformers' ViT", /* DINOv2 with registers */
     "dinov2_with_registers.",
     "dinov2_with_registers.embeddings.mask_token",
     NULL,
     {TRANSFORMERS_ENDS("dinov2_with_registers."),
      TRANSFORMERS_ATTENTION("dinov2_with_registers.encoder.layer.#."),
      MODERN_BLOCK("dinov2_with_registers.encoder.layer.#."),
      {"blocks.#.norm1.*", "dinov2_with_registers.encoder.layer.#.norm1.*", PLAIN},
      {"blocks.#.ls1.gamma", "dinov2_with_registers.encoder.layer.#.layer_scale1.lambda1", PLAIN},
      {"blocks.#.ls2.gamma", "dinov2_with_registers.encoder.layer.#.layer_scale2.lambda1", PLAIN},
      {"reg_token", "dinov2_with_registers.embeddings.register_tokens", PLAIN},
      {NULL, "dinov2_with_registers.embeddings.mask_token", NONE}}},
    {"transformers' ViT", /* version 5 */
     "vit.",
     "",
     NULL,
     {TRANSFORMERS_ENDS("vit."),
      {"blocks.#.attn.qkv.*", "vit.layers.#.attention.q_proj.*|k_proj.*|v_proj.*", THIRDS},
      {"blocks.#.attn.proj.*", "vit.layers.#.attention.o_proj.*", PLAIN},
      {"blocks.#.norm1.*", "vit.layers.#.layernorm_before.*", PLAIN},
      {"blocks.#.norm2.*", "vit.layers.#.layernorm_after.*", PLAIN},
      {"blocks.#.mlp.fc1.*", "vit.layers.#.mlp.fc1.*", PLAIN},
      {"blocks.#.mlp.fc2.*", "vit.layers.#.mlp.fc2.*", PLAIN}}},
    {"transformers' CLIP or SigLIP",
     "vision_model.",
     "logit_scale, text_model (5 tensors), text_projection.weight, vision_model.embeddings.position_ids, visual_projection.weight",
     NULL,
     {CLIP_BODY("vision_model."),
      {"cls_token", "vision_model.embeddings.class_embedding", SQUEEZED},
      {"patch_embed.proj.weight", "vision_model.embeddings.patch_embedding.weight", PLAIN},
      {"norm_pre.*", "vision_model.pre_layrnorm.*", PLAIN},
      {"head.weight", "visual_projection.weight", PLAIN},
      {NULL, "logit_scale", NONE},
      {NULL, "text_projection.weight", NONE},
      {NULL, "text_model.embeddings.token_embedding.weight", NONE},
      {NULL, "text_model.encoder.layers.0.self_attn.q_proj.*", NONE},
      {NULL, "text_model.encoder.layers.0.layer_norm1.*", NONE},
      {NULL, "vision_model.embeddings.position_ids", NONE}}},
    {"transformers' CLIP or SigLIP", /* SigLIP's image tower, and without a prefix, as version 5 has it */
     "",
     "",
     NULL,
     {CLIP_BODY(""),
      {"patch_embed.proj.*", "embeddings.patch_embedding.*", PLAIN},
      {"attn_pool.latent", "head.probe", PLAIN},
      {"attn_pool.q.*", "head.attention.in_proj_*", FIRST_THIRD},
      {"attn_pool.kv.*", "head.attention.in_proj_*", OTHER_THIRDS},
      {"attn_pool.proj.*", "head.attention.out_proj.*", PLAIN},
      {"attn_pool.norm.*", "head.layernorm.*", PLAIN},
      {"attn_pool.mlp.fc1.*", "head.mlp.fc1.*", PLAIN},
      {"attn_pool.mlp.fc2.*", "head.mlp.fc2.*", PLAIN}}},
    {"torchvision's ViT", "", "heads (2 tensors)", NULL, {TORCHVISION_VIT("0", "3")}},
    {"torchvision's ViT", "", "heads (2 tensors)", NULL, {TORCHVISION_VIT("linear_1", "linear_2")}},
    {"OpenAI's CLIP or OpenCLIP",
     "visual.",
     "ln_final (2 tensors), logit_scale, positional_embedding, text_projection, token_embedding.weight, transformer (4 tensors), "
     "visual.proj",
     NULL,
     {{NULL, "positional_embedding", NONE},
      {NULL, "text_projection", NONE},
      {NULL, "logit_scale", NONE},
      OPENAI_BODY("visual."),
      {NULL, "transformer.resblocks.0.attn.in_proj_*", NONE},
      {NULL, "transformer.resblocks.0.ln_1.*", NONE},
      {NULL, "token_embedding.weight", NONE},
      {NULL, "ln_final.*", NONE}}},
    {"OpenAI's CLIP or OpenCLIP", "module.visual.", "module.visual.proj", NULL, {OPENAI_BODY("module.visual.")}},
    {"OpenAI's CLIP or OpenCLIP",
     "",
     "proj",
     NULL,
     {OPENAI_BODY(""),
      {"blocks.#.ls1.gamma", "transformer.resblocks.#.ls_1.gamma", PLAIN},
      {"blocks.#.ls2.gamma", "transformer.resblocks.#.ls_2.gamma", PLAIN}}},
    {"timm's ConvNeXt",
     "",
     "head (2 tensors)",
     NULL,
     {{"stem.0.*", "stem.0.*", PLAIN},
      {"stem.1.*", "stem.1.*", PLAIN},
      TIMM_STAGE("0"),
      {"stages.0.blocks.#.mlp.fc1.*", "stages.0.blocks.#.mlp.fc1.*", PLAIN},
      {"stages.1.downsample.0.*", "stages.1.downsample.0.*", PLAIN},
      TIMM_STAGE("1"),
      {"stages.1.blocks.#.mlp.fc2.weight", "stages.1.blocks.#.mlp.fc2.weight", POINTWISE},
      {"head.norm.*", "head.norm.*", PLAIN},
      {"head.fc.*", "head.fc.*", PLAIN}}},
    {"ConvNeXt's first release",
     "",
     "head (2 tensors)",
     NULL,
     {{"stem.0.*", "downsample_layers.0.0.*", PLAIN},
      {"stem.1.*", "downsample_layers.0.1.*", PLAIN},
      CONVNEXT_STAGE("0", "stages.0.#.", "norm", "gamma"),
      {"stages.1.downsample.0.*", "downsample_layers.1.0.*", PLAIN},
      {"stages.3.downsample.1.*", "downsample_layers.3.1.*", PLAIN},
      CONVNEXT_STAGE("3", "stages.3.#.", "norm", "gamma"),
      {"head.norm.*", "norm.*", PLAIN},
      {"head.fc.*", "head.*", PLAIN}}},
    {"transformers' ConvNeXt",
     "convnext.",
     "classifier (2 tensors)",
     NULL,
     {{"stem.0.*", "convnext.embeddings.patch_embeddings.*", PLAIN},
      {"stem.1.*", "convnext.embeddings.layernorm.*", PLAIN},
      CONVNEXT_STAGE("0", "convnext.encoder.stages.0.layers.#.", "layernorm", "layer_scale_parameter"),
      {"stages.1.downsample.0.*", "convnext.encoder.stages.1.downsampling_layer.0.*", PLAIN},
      CONVNEXT_STAGE("3", "convnext.encoder.stages.3.layers.#.", "layernorm", "layer_scale_parameter"),
      {"head.norm.*", "convnext.layernorm.*", PLAIN},
      {"head.fc.*", "classifier.*", PLAIN}}},
    {"torchvision's ConvNeXt",
     "",
     "classifier (2 tensors)",
     NULL,
     {{"stem.0.*", "features.0.0.*", PLAIN},
      {"stem.1.*", "features.0.1.*", PLAIN},
      TORCHVISION_STAGE("0", "1"),
      {"stages.1.downsample.0.*", "features.2.0.*", PLAIN},
      {"stages.1.downsample.1.*", "features.2.1.*", PLAIN},
      TORCHVISION_STAGE("1", "3"),
      {"stages.2.downsample.1.*", "features.4.1.*", PLAIN},
      TORCHVISION_STAGE("2", "5"),
      {"stages.3.downsample.1.*", "features.6.1.*", PLAIN},
      TORCHVISION_STAGE("3", "7"),
      {"head.norm.*", "classifier.0.*", PLAIN},
      {"head.fc.*", "classifier.2.*", PLAIN}}},
    {"timm's ResNet",
     "",
     "fc.weight, num_batches_tracked (5 tensors)",
     norm_leaves,
     {{"conv1.weight", "conv1.weight", PLAIN},
      {"bn1.*", "bn1.*", PLAIN},
      {"layer1.#.conv1.weight", "layer1.#.conv1.weight", PLAIN},
      {"layer1.#.bn1.*", "layer1.#.bn1.*", PLAIN},
      {"layer1.0.downsample.0.weight", "layer1.0.downsample.0.weight", PLAIN},
      {"layer1.0.downsample.1.*", "layer1.0.downsample.1.*", PLAIN},
      {"fc.weight", "fc.weight", PLAIN}}},
    {"transformers' ResNet",
     "resnet.",
     "classifier.1.weight, num_batches_tracked (8 tensors)",
     norm_leaves,
     {{"conv1.weight", "resnet.embedder.embedder.convolution.weight", PLAIN},
      {"bn1.*", "resnet.embedder.embedder.normalization.*", PLAIN},
      {"layer1.#.conv1.weight", "resnet.encoder.stages.0.layers.#.layer.0.convolution.weight", PLAIN},
      {"layer1.#.bn1.*", "resnet.encoder.stages.0.layers.#.layer.0.normalization.*", PLAIN},
      {"layer4.#.conv3.weight", "resnet.encoder.stages.3.layers.#.layer.2.convolution.weight", PLAIN},
      {"layer4.#.bn3.*", "resnet.encoder.stages.3.layers.#.layer.2.normalization.*", PLAIN},
      {"layer2.0.downsample.0.weight", "resnet.encoder.stages.1.layers.0.shortcut.convolution.weight", PLAIN},
      {"layer2.0.downsample.1.*", "resnet.encoder.stages.1.layers.0.shortcut.normalization.*", PLAIN},
      {"fc.weight", "classifier.1.weight", PLAIN}}},
    {"timm's TResNet",
     "",
     "head (2 tensors)",
     NULL,
     {{"body.conv1.conv.weight", "body.conv1.conv.weight", PLAIN},
      {"body.conv1.bn.*", "body.conv1.bn.*", PLAIN},
      {"body.layer1.#.conv1.conv.weight", "body.layer1.#.conv1.conv.weight", PLAIN},
      {"body.layer1.#.se.fc1.*", "body.layer1.#.se.fc1.*", PLAIN},
      {"head.fc.*", "head.fc.*", PLAIN}}},
    {"TResNet's first release", /* which tresnet.c reads */
     "",
     "body.layer2.0.conv1.1.op.filt",
     NULL,
     {{"body.conv1.0.weight", "body.conv1.0.weight", PLAIN},
      {"body.conv1.1.*", "body.conv1.1.*", PLAIN},
      {"body.layer1.#.conv1.0.weight", "body.layer1.#.conv1.0.weight", PLAIN},
      {"body.layer2.0.conv1.0.1.*", "body.layer2.0.conv1.0.1.*", PLAIN},
      {NULL, "body.layer2.0.conv1.1.op.filt", NONE}}},
};

/* ---- Making them ---- */

static const char *const blocks[] = {"0", "1", "11"};

static bool ends(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Shapes as timm has them, small and different wherever that matters. */
static size_t timm_shape(const char *name, uint64_t shape[4]) {
    const uint64_t rows = strstr(name, "qkv")                               ? 3 * W
                          : strstr(name, "attn_pool.kv")                    ? 2 * W
                          : strstr(name, "fc1")                             ? HIDDEN
                          : strncmp(name, "head", 4) == 0 || name[0] == 'f' ? OUT
                                                                            : W;
    if (ends(name, "_token") || ends(name, "latent") || ends(name, "pos_embed")) {
        shape[0] = 1;
        shape[1] = ends(name, "pos_embed") ? 5 : 1;
        shape[2] = W;
        return 3;
    }
    shape[0] = rows;
    shape[1] = strstr(name, "fc2") ? HIDDEN : W;
    shape[2] = shape[3] = 2;
    if (ends(name, "num_batches_tracked")) {
        return 0;
    }
    return !ends(name, "weight") || strstr(name, "norm") || strstr(name, "bn") ? 1
           : strstr(name, "patch_embed") || strstr(name, "conv")               ? 4
                                                                               : 2;
}

/* Replaces # and *. */
static void write_name(const char *pattern, const char *block, const char *leaf, char text[96]) {
    size_t length = 0;
    for (; *pattern; pattern++) {
        const char *put = *pattern == '#' ? block : *pattern == '*' ? leaf : NULL;
        length +=
            (size_t)(put ? snprintf(text + length, 96 - length, "%s", put) : snprintf(text + length, 96 - length, "%c", *pattern));
    }
}

static void add_shape(struct memory_tensors *tensors, const char *name, size_t rank, const uint64_t shape[4]) {
    tensors_add(tensors, "", name, rank, (size_t)shape[0], (size_t)shape[1], (size_t)shape[2], (size_t)shape[3]);
}

static size_t find_tensor(const struct memory_tensors *tensors, const char *name) {
    size_t i = 0;
    while (i < tensors->count && strcmp(tensors->names[i], name) != 0) {
        i++;
    }
    return i;
}

/* The tensors that a file has for one of timm's. */
static void add_file_tensors(struct memory_tensors *tensors, const struct line *line, const char *block, const char *leaf) {
    char timm[96] = "", names[96];
    uint64_t shape[4] = {2, 1, 1, 1}, part[4] = {0};
    size_t rank = 1;
    if (line->timm) {
        write_name(line->timm, block, leaf, timm);
        rank = timm_shape(timm, shape);
    }
    write_name(line->file, block, leaf, names);
    memcpy(part, shape, sizeof part);
    switch (line->how) {
    case THIRDS: part[0] /= 3; break;
    case SQUEEZED:
        while (part[0] == 1) {
            memmove(part, part + 1, 3 * sizeof *part);
            rank--;
        }
        break;
    case PIXEL:
    case POINTWISE:
        rank += 2;
        part[rank - 1] = part[rank - 2] = 1;
        break;
    case FLIPPED:
        part[0] = shape[1];
        part[1] = shape[0];
        break;
    case FIRST_THIRD: part[0] *= 3; break;
    case OTHER_THIRDS: part[0] = part[0] / 2 * 3; break;
    default: break;
    }
    char *rest = strchr(names, '|');
    if (rest) {
        *rest++ = '\0';
    }
    if (find_tensor(tensors, names) == tensors->count) {
        add_shape(tensors, names, rank, part);
    }
    size_t stem = strlen(names);
    for (int dots = 0; stem && dots < 2;) { /* "….query.weight|key.weight": the last two words are replaced */
        dots += names[--stem] == '.';
    }
    for (char *next = rest ? strtok(rest, "|") : NULL; next; next = strtok(NULL, "|")) {
        char other[96];
        snprintf(other, sizeof other, "%.*s%s", (int)stem + 1, names, next);
        add_shape(tensors, other, rank, part);
    }
}

typedef void visitor(void *user, const struct line *line, const char *block, const char *leaf);

static void visit_lines(const struct file *file, visitor *visit, void *user) {
    char leaves[96];
    for (const struct line *line = file->lines; line->file; line++) {
        for (size_t i = 0; i < (strchr(line->file, '#') ? 3 : 1); i++) {
            snprintf(leaves, sizeof leaves, "%s", file->leaves ? file->leaves : "weight,bias");
            for (char *leaf = leaves, *next = leaf; next; leaf = next) {
                next = strchr(leaf, ',');
                if (next) {
                    *next++ = '\0';
                }
                visit(user, line, blocks[i], leaf);
                next = strchr(line->file, '*') ? next : NULL;
            }
        }
    }
}

static void visit_to_add(void *user, const struct line *line, const char *block, const char *leaf) {
    add_file_tensors(user, line, block, leaf);
}

/* Every number tells its tensor and its place. */
static l3a_status read_places(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    const size_t number = (size_t)(tensor - ((struct memory_tensors *)owner)->tensors);
    assert_true(tensor->elements < SCALE);
    for (size_t i = 0; i < tensor->elements; i++) {
        values[i] = (float)(number * SCALE + i);
    }
    return L3A_OK;
}

static struct parameter_source make_file(struct memory_tensors *tensors, const struct file *file) {
    tensors->count = 0;
    visit_lines(file, visit_to_add, tensors);
    return tensors_source(tensors, read_places);
}

/* ---- Checking them ---- */

struct check {
    const struct memory_tensors *tensors;
    struct parameters parameters;
    size_t seen;
};

static float expected_value(const struct check *check, const struct line *line, const char *file, const uint64_t shape[4],
                            size_t count, size_t place) {
    const size_t number = find_tensor(check->tensors, file), columns = (size_t)shape[1];
    assert_true(number < check->tensors->count);
    switch (line->how) {
    case THIRDS: return (float)((number + place / (count / 3)) * SCALE + place % (count / 3)); /* they follow each other */
    case FLIPPED: return (float)(number * SCALE + place % columns * shape[0] + place / columns);
    case OTHER_THIRDS: return (float)(number * SCALE + count / 2 + place);
    default: return (float)(number * SCALE + place);
    }
}

static void visit_to_check(void *user, const struct line *line, const char *block, const char *leaf) {
    struct check *check = user;
    char timm[96], file[96];
    uint64_t shape[4];
    float *values = NULL;
    size_t count = 1;
    if (!line->timm) {
        return;
    }
    write_name(line->timm, block, leaf, timm);
    write_name(line->file, block, leaf, file);
    file[strcspn(file, "|")] = '\0';
    const size_t rank = timm_shape(timm, shape);
    check->seen++;
    if (ends(timm, "num_batches_tracked") || strncmp(timm, "head.w", 6) == 0 || strncmp(timm, "head.b", 6) == 0 ||
        strncmp(timm, "head_dist", 9) == 0 || strncmp(timm, "head.fc", 7) == 0 || strncmp(timm, "fc.", 3) == 0) {
        assert_non_null(parameters_find(&check->parameters, timm)); /* what families leave */
        if (line->how != FLIPPED) {
            return;
        }
    }
    bool *used = check->parameters.used, before[TENSORS];
    memcpy(before, used, check->parameters.source.count * sizeof *used);
    assert_ok(context, parameters_take(&check->parameters, timm, rank, shape, &values));
    if (line->how == FLIPPED) {
        memcpy(used, before, check->parameters.source.count * sizeof *used);
    }
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)shape[i];
    }
    for (size_t i = 0; i < count; i++) {
        assert_true(values[i] == expected_value(check, line, file, shape, count, i));
    }
    release(context, values);
}

static void every_naming_gives_the_same_tensors(void **state) {
    static struct memory_tensors tensors;
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct parameter_source source = make_file(&tensors, &files[i]), renamed;
        struct names *names = NULL;
        struct check check = {.tensors = &tensors};
        text_builder text = {.context = context};
        source.recorded = i % 2;
        assert_ok(context, names_open(context, &source, &names));
        assert_string_equal(names_naming(names), files[i].naming);
        assert_string_equal(names_prefix(names), files[i].prefix);
        names_source(names, &renamed);
        assert_int_equal(renamed.recorded, i % 2);
        assert_ok(context, parameters_open(context, &renamed, &check.parameters));
        visit_lines(&files[i], visit_to_check, &check);
        assert_int_equal(check.seen, renamed.count);
        assert_ok(context, parameters_check_all_used(&check.parameters, "it"));
        assert_ok(context, names_list_skipped(names, &check.parameters, &text));
        assert_string_equal(text.text ? text.text : "", files[i].skipped);
        text_builder_free(&text);
        parameters_close(&check.parameters);
        names_close(names);
    }
    names_close(NULL);
}

/* ---- Files that are wrong ---- */

static void assert_refused(struct memory_tensors *tensors, const char *contains) {
    const struct parameter_source source = tensors_source(tensors, read_places);
    struct names *names = NULL;
    assert_fails(context, names_open(context, &source, &names), L3A_ERROR_MISMATCH, contains);
    assert_null(names);
}

static const struct file *find_file(const char *naming, const char *prefix) {
    size_t i = 0;
    while (strcmp(files[i].naming, naming) != 0 || strcmp(files[i].prefix, prefix) != 0) {
        assert_true(++i < sizeof files / sizeof *files);
    }
    return &files[i];
}

static struct checkpoint_tensor *tensor_of(struct memory_tensors *tensors, const char *name) {
    const size_t number = find_tensor(tensors, name);
    assert_true(number < tensors->count);
    return &tensors->tensors[number];
}

static void parts_that_do_not_fit_are_named(void **state) {
    static struct memory_tensors tensors;
    const struct file *vit = find_file("transformers' ViT", "vit."), *clip = find_file("OpenAI's CLIP or OpenCLIP", "visual.");
    (void)state;
    make_file(&tensors, vit);
    tensor_of(&tensors, "vit.encoder.layer.1.attention.attention.key.weight")->shape[0] = 5;
    assert_refused(&tensors, "vit.encoder.layer.1.attention.attention.key.weight has shape [5, 4]; expected [4, 4], as "
                             "vit.encoder.layer.1.attention.attention.query.weight has");
    make_file(&tensors, vit);
    tensor_of(&tensors, "vit.encoder.layer.1.attention.attention.value.bias")->rank = 2;
    assert_refused(&tensors, "value.bias has shape [4, 4]; expected [4], as");
    make_file(&tensors, vit);
    tensor_of(&tensors, "vit.encoder.layer.11.attention.attention.key.bias")->name = "elsewhere";
    assert_refused(&tensors,
                   "vit.encoder.layer.11.attention.attention.key.bias is missing; it is a part of blocks.11.attn.qkv.bias");
    make_file(&tensors, vit);
    const char *const parts[] = {"query", "key", "value"};
    for (size_t i = 0; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, "vit.encoder.layer.0.attention.attention.%s.bias", parts[i]);
        tensor_of(&tensors, name)->rank = 0;
    }
    assert_refused(&tensors, "query.bias has shape []; expected a vector or a matrix");
    make_file(&tensors, clip);
    tensor_of(&tensors, "visual.proj")->rank = 1;
    assert_refused(&tensors, "visual.proj has shape [4]; expected a matrix");
    make_file(&tensors, clip);
    tensor_of(&tensors, "visual.class_embedding")->rank = 4;
    assert_refused(&tensors, "expected [channels] or [tokens, channels]");
    make_file(&tensors, clip);
    tensor_of(&tensors, "visual.class_embedding")->rank = 0;
    assert_refused(&tensors, "expected [channels] or [tokens, channels]");
    make_file(&tensors, find_file("torchvision's ConvNeXt", ""));
    tensor_of(&tensors, "features.1.0.layer_scale")->shape[1] = 2;
    assert_refused(&tensors, "features.1.0.layer_scale has shape [4, 2, 1]; expected [channels, 1, 1]");
    make_file(&tensors, find_file("timm's ConvNeXt", ""));
    tensor_of(&tensors, "stages.1.blocks.0.mlp.fc2.weight")->shape[3] = 3;
    assert_refused(&tensors, "expected [outputs, inputs, 1, 1]");
    make_file(&tensors, find_file("transformers' CLIP or SigLIP", ""));
    tensor_of(&tensors, "head.attention.in_proj_bias")->shape[0] = 7;
    assert_refused(&tensors, "head.attention.in_proj_bias has shape [7]; expected equal parts");
}

static void tensors_that_stand_for_the_same_are_named(void **state) {
    static struct memory_tensors tensors;
    (void)state;
    make_file(&tensors, &files[0]);
    tensors_add(&tensors, "", "register_tokens", 3, 1, 4, W, 1);
    assert_refused(&tensors, "reg_token and register_tokens both stand for reg_token");
    make_file(&tensors, find_file("transformers' ViT", "vit."));
    tensors_add(&tensors, "", "vit.encoder.layer.0.norm1.bias", 1, W, 1, 1, 1);
    assert_refused(&tensors, "vit.encoder.layer.0.layernorm_before.bias and vit.encoder.layer.0.norm1.bias both stand for");
    make_file(&tensors, find_file("transformers' ViT", "vit."));
    tensors_add(&tensors, "", "vit.blocks.0.attn.qkv.bias", 1, W, 1, 1, 1);
    assert_refused(&tensors, "vit.blocks.0.attn.qkv.bias both stand for blocks.0.attn.qkv.bias");
    make_file(&tensors, find_file("DINOv2's ViT with grouped blocks", ""));
    tensors_add(&tensors, "", "blocks.7.11.norm1.bias", 1, W, 1, 1, 1);
    assert_refused(&tensors, "blocks.0.11.norm1.bias and blocks.7.11.norm1.bias both stand for blocks.11.norm1.bias");
    make_file(&tensors, find_file("DINOv2's ViT with grouped blocks", ""));
    tensors_add(&tensors, "", "blocks.0.11.norm1.bias", 1, W, 1, 1, 1);
    assert_refused(&tensors, "both stand for blocks.11.norm1.bias");
}

static void an_unknown_naming_is_compared_with_the_nearest(void **state) {
    static struct memory_tensors tensors;
    char expected[256];
    (void)state;
    make_file(&tensors, find_file("transformers' ViT", "vit."));
    tensor_of(&tensors, "vit.encoder.layer.0.attention.attention.query.weight")->name = "elsewhere";
    snprintf(
        expected, sizeof expected,
        "these %zu tensors are not those of a known network; transformers' ViT is the nearest: %zu of them have its names, but "
        "vit.encoder.layer.0.attention.attention.query.weight is missing",
        tensors.count, tensors.count - 3); /* two more are the classifier */
    assert_refused(&tensors, expected);
    tensors.count = 0;
    assert_refused(&tensors, "these 0 tensors are not those of a known network (the first is missing)");
    tensors_add(&tensors, "", "bert.embeddings.word_embeddings.weight", 2, 3, 3, 1, 1);
    assert_refused(&tensors,
                   "these 1 tensors are not those of a known network (the first is bert.embeddings.word_embeddings.weight)");
    tensors_add(&tensors, "", "fc.weight", 2, 3, 3, 1, 1);
    tensors_add(&tensors, "", "conv1.weight", 2, 3, 3, 1, 1);
    assert_refused(&tensors, "the first is bert.");
}

static l3a_status read_none(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    (void)owner, (void)tensor, (void)values;
    return L3A_ERROR_DATA;
}

static void errors_of_families_have_the_names_of_the_file(void **state) {
    static struct memory_tensors tensors;
    struct parameter_source source = make_file(&tensors, find_file("transformers' ViT", "vit.")), renamed;
    struct names *names = NULL;
    struct parameters parameters;
    float *values = NULL;
    (void)state;
    tensors_add(&tensors, "", "vit.encoder.layer.0.adapter.weight", 1, 3, 1, 1, 1);
    tensors_add(&tensors, "", "adapter.weight", 1, 3, 1, 1, 1);
    source.count = tensors.count;
    source.read = read_none;
    assert_ok(context, names_open(context, &source, &names));
    names_source(names, &renamed);
    assert_ok(context, parameters_open(context, &renamed, &parameters));
    assert_fails(context, parameters_take(&parameters, "blocks.7.norm2.bias", 1, (uint64_t[]){W}, &values), L3A_ERROR_MISMATCH,
                 "the tensor blocks.7.norm2.bias (vit.encoder.layer.7.layernorm_after.bias in this file) is missing");
    assert_fails(
        context, parameters_take(&parameters, "blocks.0.attn.qkv.bias", 1, (uint64_t[]){W}, &values), L3A_ERROR_MISMATCH,
        "blocks.0.attn.qkv.bias (vit.encoder.layer.0.attention.attention.query.bias in this file) has shape [12]; expected");
    assert_int_equal(parameters_take(&parameters, "blocks.0.attn.qkv.bias", 1, (uint64_t[]){3 * W}, &values), L3A_ERROR_DATA);
    assert_null(values);
    for (size_t i = 0; i + 1 < renamed.count; i++) {
        parameters_skip(&parameters, renamed.at(renamed.owner, i)->name);
    }
    assert_fails(context, parameters_check_all_used(&parameters, "it"), L3A_ERROR_MISMATCH,
                 "encoder.layer.0.adapter.weight (vit.encoder.layer.0.adapter.weight in this file) of shape [3] is not part of it");
    parameters_skip(&parameters, "encoder.layer.0.ad");
    assert_ok(context, parameters_check_all_used(&parameters, "it"));
    parameters_close(&parameters);
    names_close(names);
}

/* ---- Hostile files ---- */

/* Any number of tensors of any names, each of one element. */
struct crowd {
    struct checkpoint_tensor *tensors;
    char **names;
    size_t count;
};

static const struct checkpoint_tensor *crowd_at(const void *owner, size_t index) {
    return &((const struct crowd *)owner)->tensors[index];
}

static l3a_status read_zero(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    (void)owner;
    memset(values, 0, (size_t)tensor->elements * sizeof *values);
    return L3A_OK;
}

static void crowd_open(struct crowd *crowd, size_t count, size_t longest) {
    crowd->count = count;
    crowd->tensors = calloc(count, sizeof *crowd->tensors);
    crowd->names = calloc(count, sizeof *crowd->names);
    for (size_t i = 0; i < count; i++) {
        crowd->names[i] = calloc(longest + 1, 1);
        crowd->tensors[i] =
            (struct checkpoint_tensor){.name = crowd->names[i], .type = "F32", .rank = 1, .shape = {1}, .elements = 1};
    }
}

static void crowd_close(struct crowd *crowd) {
    for (size_t i = 0; i < crowd->count; i++) {
        free(crowd->names[i]);
    }
    free(crowd->names);
    free(crowd->tensors);
}

static struct parameter_source crowd_source(struct crowd *crowd) {
    return (struct parameter_source){.owner = crowd, .count = crowd->count, .at = crowd_at, .read = read_zero};
}

/* 100,000 names of each kind: blocks without end, marks with prefixes without end, names that hardly differ from known ones, and
 * names that all stand for the same. Steps that grow with the square of their number would take minutes. */
static void many_tensors_are_no_burden(void **state) {
    static const char *const kinds[] = {"blocks.%zu.norm1.bias",
                                        "x%zu.patch_embed.proj.weight",
                                        "a.%zu.b.weight",
                                        "layers.%zu.attention.q_proj.bias",
                                        "text.%zu",
                                        "blocks.%zu.0.norm1.weight"};
    (void)state;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        struct crowd crowd;
        struct parameter_source source, renamed;
        struct names *names = NULL;
        struct parameters parameters;
        text_builder text = {.context = context};
        crowd_open(&crowd, 100000, 48);
        for (size_t i = 0; i < crowd.count; i++) {
            snprintf(crowd.names[i], 48, kinds[kind], i);
        }
        source = crowd_source(&crowd);
        assert_int_equal(names_open(context, &source, &names), L3A_ERROR_MISMATCH);
        snprintf(crowd.names[0], 48, "patch_embed.proj.weight");
        snprintf(crowd.names[1], 48, "blocks.0.norm1.weight");
        assert_ok(context, names_open(context, &source, &names));
        names_source(names, &renamed);
        assert_int_equal(renamed.count, crowd.count);
        assert_ok(context, parameters_open(context, &renamed, &parameters));
        assert_ok(context, names_list_skipped(names, &parameters, &text));
        assert_true(text.length < 4096);
        text_builder_free(&text);
        parameters_close(&parameters);
        names_close(names);
        crowd_close(&crowd);
    }
}

static void strange_names_are_only_names(void **state) {
    static const char *const strange[] = {"",
                                          ".",
                                          "..",
                                          "%s%s%n",
                                          "blocks.%.norm1.weight",
                                          "blocks.+.norm1.@",
                                          "blocks.00.norm1.weight",
                                          "blocks.123456789.norm1.weight",
                                          "blocks.-1.norm1.weight",
                                          "^classifier.weight",
                                          "\xff\xfe.\x01",
                                          "weight",
                                          "bias",
                                          "0",
                                          "blocks..norm1.weight"};
    enum { STRANGE = sizeof strange / sizeof *strange, LONG = 100000 };
    struct crowd crowd;
    struct parameter_source source, renamed;
    struct names *names = NULL;
    struct parameters parameters;
    text_builder text = {.context = context};
    (void)state;
    crowd_open(&crowd, STRANGE + 6, LONG + 64);
    for (size_t i = 0; i < STRANGE; i++) {
        snprintf(crowd.names[i], LONG, "%s", strange[i]);
    }
    memset(crowd.names[STRANGE], '7', LONG);
    memset(crowd.names[STRANGE + 1], '.', LONG);
    snprintf(crowd.names[STRANGE + 2], LONG, "blocks.");
    memset(crowd.names[STRANGE + 2] + 7, '1', LONG);
    snprintf(crowd.names[STRANGE + 2] + LONG, 32, ".norm1.weight");
    memset(crowd.names[STRANGE + 3], '%', LONG);
    memset(crowd.names[STRANGE + 4], 'a', LONG);
    memset(crowd.names[STRANGE + 5], 'a', LONG);
    source = crowd_source(&crowd);
    assert_int_equal(names_open(context, &source, &names), L3A_ERROR_MISMATCH);
    /* a prefix as long as that */
    snprintf(crowd.names[STRANGE + 4] + LONG, 64, ".patch_embed.proj.weight");
    snprintf(crowd.names[STRANGE + 5] + LONG, 64, ".blocks.0.norm1.weight");
    assert_ok(context, names_open(context, &source, &names));
    assert_int_equal(strlen(names_prefix(names)), LONG + 1);
    names_source(names, &renamed);
    assert_int_equal(renamed.count, 2);
    assert_ok(context, parameters_open(context, &renamed, &parameters));
    assert_ok(context, names_list_skipped(names, &parameters, &text));
    assert_true(text.length < 8192);
    assert_int_equal(parameters_check_all_used(&parameters, "it"), L3A_ERROR_MISMATCH);
    text_builder_free(&text);
    parameters_close(&parameters);
    names_close(names);
    /* without a prefix, what has no rule keeps its name */
    snprintf(crowd.names[STRANGE + 4], LONG, "patch_embed.proj.weight");
    snprintf(crowd.names[STRANGE + 5], LONG, "blocks.0.norm1.weight");
    assert_ok(context, names_open(context, &source, &names));
    names_source(names, &renamed);
    assert_int_equal(renamed.count, crowd.count);
    for (size_t i = 0; i < crowd.count; i++) {
        assert_string_equal(renamed.at(renamed.owner, i)->name, crowd.names[i]);
    }
    names_close(names);
    crowd_close(&crowd);
}

/* A tensor whose elements would not fit: sizes are multiplied with care. */
static void sizes_that_overflow_are_refused(void **state) {
    static struct memory_tensors tensors;
    (void)state;
    make_file(&tensors, find_file("transformers' ViT", "vit."));
    const char *const parts[] = {"query", "key", "value"};
    for (size_t i = 0; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, "vit.encoder.layer.0.attention.attention.%s.weight", parts[i]);
        struct checkpoint_tensor *tensor = tensor_of(&tensors, name);
        tensor->shape[0] = UINT64_MAX / 2;
        tensor->shape[1] = 0;
        tensor->elements = 0;
    }
    assert_refused(&tensors, "expected a vector or a matrix");
}

/* ---- Memory ---- */

static l3a_status open_and_read(l3a_context *probed, void *argument) {
    struct memory_tensors *tensors = argument;
    const struct parameter_source source = tensors_source(tensors, read_places);
    struct parameter_source renamed;
    struct names *names = NULL;
    struct parameters parameters = {0};
    text_builder text = {.context = probed};
    l3a_status status = L3A_OK;
    TRY(names_open(probed, &source, &names));
    names_source(names, &renamed);
    TRY(parameters_open(probed, &renamed, &parameters));
    for (size_t i = 0; i < renamed.count; i++) {
        const struct checkpoint_tensor *tensor = renamed.at(renamed.owner, i);
        float *values = NULL;
        TRY(parameters_take(&parameters, tensor->name, tensor->rank, tensor->shape, &values));
        release(probed, values);
    }
    TRY(names_list_skipped(names, &parameters, &text));
done:
    text_builder_free(&text);
    parameters_close(&parameters);
    names_close(names);
    return status;
}

static l3a_status open_unknown(l3a_context *probed, void *argument) {
    struct memory_tensors *tensors = argument;
    const struct parameter_source source = tensors_source(tensors, read_places);
    struct names *names = NULL;
    const l3a_status status = names_open(probed, &source, &names);
    assert_null(names);
    return status == L3A_ERROR_MISMATCH ? L3A_OK : status;
}

static void any_allocation_may_fail(void **state) {
    static struct memory_tensors tensors;
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        make_file(&tensors, &files[i]);
        assert_true(fail_each_allocation(open_and_read, &tensors) > 20);
        for (size_t j = 0; j < tensors.count; j++) {
            if (strstr(tensors.names[j], "0.")) {
                tensors.names[j][0] = '!';
            }
        }
        assert_true(fail_each_allocation(open_unknown, &tensors) > 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_naming_gives_the_same_tensors),
                                       cmocka_unit_test(parts_that_do_not_fit_are_named),
                                       cmocka_unit_test(tensors_that_stand_for_the_same_are_named),
                                       cmocka_unit_test(an_unknown_naming_is_compared_with_the_nearest),
                                       cmocka_unit_test(errors_of_families_have_the_names_of_the_file),
                                       cmocka_unit_test(many_tensors_are_no_burden),
                                       cmocka_unit_test(strange_names_are_only_names),
                                       cmocka_unit_test(sizes_that_overflow_are_refused),
                                       cmocka_unit_test(any_allocation_may_fail)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
