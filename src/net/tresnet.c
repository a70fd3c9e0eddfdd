/* TResNet M, L and XL ("TResNet: high performance GPU-dedicated architecture", Ridnik et al., 2021), with the tensor names of timm
 * or of the first release.
 *
 * Squares of 4 x 4 pixels become channels, and a 3 x 3 convolution follows; then two stages of basic blocks and two of bottlenecks,
 * and the mean over the remaining pixels. A block that halves the side does so with a blur after a convolution of stride 1, and
 * with an average pool on its shortcut. All stages except the last weigh the channels by squeeze and excite. Activations are leaky
 * ReLUs, with a slope of 0.01 after the stem and 0.001 within blocks, and plain ReLU after the sum.
 *
 * The first release normalises with an in-place activated batch norm, whose scale is |weight| + epsilon. Its checkpoints number the
 * parts of a convolution (0 kernel, 1 norm, and one more level if a blur follows), whereas timm names them. */
#include "net/network.h"

#include <stdio.h>
#include <string.h>

enum { STAGES = 4, STEM_SQUARE = 4 };
static const float stem_slope = 1e-2F, block_slope = 1e-3F;

struct sizes {
    size_t width, blocks[STAGES];
    bool numbered; /* names of the first release */
};

static const struct {
    const char *name;
    struct sizes sizes;
} known[] = {{"tresnet_m", {.width = 64, .blocks = {3, 4, 11, 3}}},
             {"tresnet_l", {.width = 76, .blocks = {4, 5, 18, 3}}},
             {"tresnet_xl", {.width = 83, .blocks = {4, 5, 24, 3}}}};

static const char *stem_name(const struct parameters *parameters) {
    return parameters_find(parameters, "body.conv1.conv.weight") ? "body.conv1.conv.weight" : "body.conv1.0.weight";
}

static bool matches(const struct parameters *parameters) {
    return parameters_find(parameters, stem_name(parameters)) && parameters_count_parts(parameters, "body.layer1.");
}

static l3a_status measure(struct parameters *parameters, struct sizes *sizes) {
    const struct checkpoint_tensor *stem = parameters_find(parameters, stem_name(parameters));
    l3a_status status = L3A_OK;
    FAIL_IF(stem->rank != 4 || !stem->shape[0] || stem->shape[1] != 3 * STEM_SQUARE * STEM_SQUARE, parameters->context,
            L3A_ERROR_MISMATCH, NULL, "the tensor %s has an unexpected shape; expected [width, 48, 3, 3]", stem->name);
    *sizes = (struct sizes){.width = (size_t)stem->shape[0], .numbered = strcmp(stem->name, "body.conv1.0.weight") == 0};
    for (size_t stage = 0; stage < STAGES; stage++) {
        char prefix[24];
        snprintf(prefix, sizeof prefix, "body.layer%zu.", stage + 1);
        sizes->blocks[stage] = parameters_count_parts(parameters, prefix);
        FAIL_IF(!sizes->blocks[stage], parameters->context, L3A_ERROR_MISMATCH, NULL, "the tensors of %s0 are missing", prefix);
    }
done:
    return status;
}

static l3a_status recognise(struct parameters *parameters, struct backbone_recipe *recipe) {
    struct sizes sizes;
    l3a_status status = L3A_OK;
    TRY(measure(parameters, &sizes));
    recipe->side = recipe->side ? recipe->side : 224;
    snprintf(recipe->name, sizeof recipe->name, "tresnet, width %zu, blocks %zu %zu %zu %zu", sizes.width, sizes.blocks[0],
             sizes.blocks[1], sizes.blocks[2], sizes.blocks[3]);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].sizes.width == sizes.width && memcmp(known[i].sizes.blocks, sizes.blocks, sizeof sizes.blocks) == 0) {
            snprintf(recipe->name, sizeof recipe->name, "%s", known[i].name);
        }
    }
    recipe_set_mean(recipe, (const float[]){0, 0, 0}, (const float[]){1, 1, 1});
done:
    return status;
}

struct part {
    const char *name;
    size_t out, kernel;
    float slope; /* 0: no activation */
    value add;   /* with ReLU after the sum */
    bool blurred;
};

/* A convolution and its norm, and a blur if one follows, with the tensor names of the checkpoint. */
static value part(struct network *net, const struct sizes *sizes, value x, const struct part *what) {
    char name[64], norm[64];
    snprintf(name, sizeof name, "%s%s", what->name, !sizes->numbered ? ".conv" : what->blurred ? ".0.0" : ".0");
    snprintf(norm, sizeof norm, "%s%s", what->name, !sizes->numbered ? ".bn" : what->blurred ? ".0.1" : ".1");
    x = conv(net, x,
             &(struct conv){.name = name,
                            .norm = norm,
                            .out = what->out,
                            .kernel = what->kernel,
                            .stride = 1,
                            .activation = what->add         ? RELU
                                          : what->slope > 0 ? LEAKY_RELU
                                                            : LINEAR_ACTIVATION,
                            .slope = what->slope,
                            .add = what->add,
                            .magnitude = sizes->numbered});
    return what->blurred ? blur_pool(net, x) : x;
}

static size_t at_least_64(size_t channels) {
    return channels < 64 ? 64 : channels;
}

static value shortcut(struct network *net, const struct sizes *sizes, value x, size_t out, bool halve) {
    if (halve) {
        x = average_pool(net, x);
    }
    return part(net, sizes, x, &(struct part){.name = halve ? "downsample.1" : "downsample.0", .out = out, .kernel = 1});
}

static value basic_block(struct network *net, const struct sizes *sizes, value x, size_t width, bool halve, bool widen) {
    value y =
        part(net, sizes, x, &(struct part){.name = "conv1", .out = width, .kernel = 3, .slope = block_slope, .blurred = halve});
    y = part(net, sizes, y, &(struct part){.name = "conv2", .out = width, .kernel = 3});
    if (widen) {
        x = shortcut(net, sizes, x, width, halve);
    }
    return squeeze_excite(net, y, "se.fc1", "se.fc2", at_least_64(width / 4), x);
}

static value bottleneck(struct network *net, const struct sizes *sizes, value x, size_t width, bool halve, bool widen,
                        bool excite) {
    value y = part(net, sizes, x, &(struct part){.name = "conv1", .out = width, .kernel = 1, .slope = block_slope});
    y = part(net, sizes, y, &(struct part){.name = "conv2", .out = width, .kernel = 3, .slope = block_slope, .blurred = halve});
    if (excite) {
        y = squeeze_excite(net, y, "se.fc1", "se.fc2", at_least_64(4 * width / 8), NOTHING);
    }
    if (widen) {
        x = shortcut(net, sizes, x, 4 * width, halve);
    }
    return part(net, sizes, y, &(struct part){.name = "conv3", .out = 4 * width, .kernel = 1, .add = x});
}

static value describe(struct network *net, const struct backbone_recipe *recipe) {
    struct sizes sizes = {0};
    (void)recipe;
    net->status = net->status == L3A_OK ? measure(net->parameters, &sizes) : net->status;
    value x = space_to_depth(net, PICTURE, STEM_SQUARE);
    x = part(net, &sizes, x, &(struct part){.name = "body.conv1", .out = sizes.width, .kernel = 3, .slope = stem_slope});
    for (size_t stage = 0; stage < STAGES; stage++) {
        for (size_t i = 0; i < sizes.blocks[stage]; i++) {
            const bool halve = stage && !i;
            network_prefix(net, "body.layer%zu.%zu.", stage + 1, i);
            x = stage < 2 ? basic_block(net, &sizes, x, sizes.width << stage, halve, halve)
                          : bottleneck(net, &sizes, x, sizes.width << stage, halve, halve, stage < STAGES - 1);
        }
        network_stage(net, stage, x);
    }
    return global_mean(net, x);
}

const struct family tresnet_family = {
    .name = "tresnet", .usual_epsilon = 1e-5, .matches = matches, .recognise = recognise, .describe = describe};
