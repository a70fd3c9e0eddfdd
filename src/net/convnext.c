/* ConvNeXt ("A ConvNet for the 2020s", Liu et al., 2022), with the tensor names of timm 1.0.
 *
 * Squares of 4 x 4 pixels become channels, with a layer norm; then four stages of blocks. Between stages, a layer norm and a 2 x 2
 * convolution halve the side. A block updates x by
 *     x += g W₂ gelu(W₁ norm(D x)),
 * where D is a 7 x 7 convolution of each channel by itself and g a factor of each channel. All norms are over the channels of a
 * pixel. The feature is the norm of the mean over the remaining pixels. */
#include "net/network.h"

#include <stdio.h>
#include <string.h>

/* Networks from that width on were also trained as CLIP's image towers, with another mean. */
enum { STAGES = 4, SQUARE = 4, CLIP_WIDTH = 128, LARGEST_WIDTH = 384 };

struct sizes {
    size_t widths[STAGES], hidden[STAGES], blocks[STAGES], kernel;
};

static const struct {
    const char *name;
    size_t width, blocks[STAGES];
} known[] = {
    {"convnext_tiny", 96, {3, 3, 9, 3}},    {"convnext_small", 96, {3, 3, 27, 3}},   {"convnext_base", 128, {3, 3, 27, 3}},
    {"convnext_large", 192, {3, 3, 27, 3}}, {"convnext_xlarge", 256, {3, 3, 27, 3}},
};

static bool matches(const struct parameters *parameters) {
    return parameters_find(parameters, "stem.0.weight") && parameters_find(parameters, "stages.0.blocks.0.conv_dw.weight");
}

static l3a_status refuse_variants(const struct parameters *parameters) {
    const struct checkpoint_tensor *stem = parameters_find(parameters, "stem.0.weight");
    const char *variant = NULL;
    l3a_status status = L3A_OK;
    if (parameters_find(parameters, "stages.0.blocks.0.mlp.grn.weight")) {
        variant = "a norm of responses, as in ConvNeXt V2";
    } else if (stem->rank != 4 || stem->shape[2] != SQUARE || stem->shape[3] != SQUARE) {
        variant = "a stem other than squares of 4 x 4 pixels, as in timm's convnext_atto_ols";
    } else if (parameters_find(parameters, "norm_pre.weight")) {
        variant = "a norm before the mean, as in timm's convnext_tiny_hnf";
    }
    FAIL_IF(variant, parameters->context, L3A_ERROR_MISMATCH,
            "use a plain network, such as timm's convnext_tiny, or compute the features with PyTorch",
            "this ConvNeXt is a variant that is not supported: it has %s", variant);
done:
    return status;
}

static l3a_status measure(const struct parameters *parameters, struct sizes *sizes) {
    l3a_status status = L3A_OK;
    *sizes = (struct sizes){0};
    TRY(refuse_variants(parameters));
    for (size_t stage = 0; stage < STAGES; stage++) {
        char name[64];
        snprintf(name, sizeof name, "stages.%zu.blocks.", stage);
        sizes->blocks[stage] = parameters_count_parts(parameters, name);
        snprintf(name, sizeof name, "stages.%zu.blocks.0.conv_dw.weight", stage);
        const struct checkpoint_tensor *depthwise = parameters_find(parameters, name);
        FAIL_IF(!depthwise || depthwise->rank != 4 || !depthwise->shape[0] || depthwise->shape[2] % 2 == 0, parameters->context,
                L3A_ERROR_MISMATCH, NULL, "the tensor %s is missing or has an unexpected shape; expected [width, 1, 7, 7]", name);
        snprintf(name, sizeof name, "stages.%zu.blocks.0.mlp.fc1.weight", stage);
        const struct checkpoint_tensor *inner = parameters_find(parameters, name);
        sizes->widths[stage] = (size_t)depthwise->shape[0];
        sizes->kernel = (size_t)depthwise->shape[2];
        sizes->hidden[stage] = inner && inner->rank == 2 ? (size_t)inner->shape[0] : 4 * sizes->widths[stage];
    }
done:
    return status;
}

static l3a_status recognise(struct parameters *parameters, struct backbone_recipe *recipe) {
    struct sizes sizes;
    l3a_status status = L3A_OK;
    TRY(measure(parameters, &sizes));
    recipe->side = recipe->side ? recipe->side : 224;
    recipe->epsilon = recipe->epsilon > 0                                                ? recipe->epsilon
                      : sizes.widths[0] == LARGEST_WIDTH && !parameters->source.recorded ? 1e-5
                                                                                         : 1e-6;
    recipe->activation = recipe->activation ? recipe->activation : GELU;
    snprintf(recipe->name, sizeof recipe->name, "convnext, width %zu, blocks %zu %zu %zu %zu", sizes.widths[0], sizes.blocks[0],
             sizes.blocks[1], sizes.blocks[2], sizes.blocks[3]);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].width == sizes.widths[0] && memcmp(known[i].blocks, sizes.blocks, sizeof sizes.blocks) == 0) {
            snprintf(recipe->name, sizeof recipe->name, "%s", known[i].name);
        }
    }
    if (sizes.widths[0] < CLIP_WIDTH || parameters->source.recorded) {
        recipe_set_imagenet(recipe);
    }
done:
    return status;
}

static value block(struct network *net, const struct backbone_recipe *recipe, value x, const struct sizes *sizes, size_t stage) {
    const size_t width = sizes->widths[stage];
    value y = conv(net, x,
                   &(struct conv){.name = "conv_dw",
                                  .out = width,
                                  .kernel = sizes->kernel,
                                  .stride = 1,
                                  .groups = width,
                                  .biased = network_has(net, "conv_dw.bias")});
    y = layer_norm(net, y, "norm", recipe->epsilon);
    y = linear(net, y, &(struct linear){.name = "mlp.fc1", .out = sizes->hidden[stage], .activation = recipe->activation});
    return linear(net, y,
                  &(struct linear){.name = "mlp.fc2", .out = width, .scale = network_has(net, "gamma") ? "gamma" : NULL, .add = x});
}

/* A convolution of squares that do not overlap. */
static value squares(struct network *net, value x, const char *name, size_t side, size_t out) {
    char bias[32];
    snprintf(bias, sizeof bias, "%s.bias", name);
    return conv(net, x,
                &(struct conv){
                    .name = name, .out = out, .kernel = side, .stride = side, .biased = network_has(net, bias), .unpadded = true});
}

static value describe(struct network *net, const struct backbone_recipe *recipe) {
    struct sizes sizes = {0};
    net->status = net->status == L3A_OK ? measure(net->parameters, &sizes) : net->status;
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    value x = squares(net, PICTURE, "stem.0", SQUARE, sizes.widths[0]);
    x = layer_norm(net, x, "stem.1", recipe->epsilon);
    for (size_t stage = 0; stage < STAGES; stage++) {
        network_prefix(net, "stages.%zu.", stage);
        if (stage) {
            x = layer_norm(net, x, "downsample.0", recipe->epsilon);
            x = squares(net, x, "downsample.1", 2, sizes.widths[stage]);
        }
        for (size_t i = 0; i < sizes.blocks[stage]; i++) {
            network_prefix(net, "stages.%zu.blocks.%zu.", stage, i);
            x = block(net, recipe, x, &sizes, stage);
        }
        network_stage(net, stage, x);
    }
    network_prefix(net, "%s", "");
    return layer_norm(net, global_mean(net, x), "head.norm", recipe->epsilon);
}

const struct family convnext_family = {
    .name = "convnext", .usual_epsilon = 1e-6, .gelu = true, .matches = matches, .recognise = recognise, .describe = describe};
