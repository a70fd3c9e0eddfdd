/* Residual networks ("Deep residual learning for image recognition", He et al., 2016), with the tensor names of torchvision and
 * timm.
 *
 * A 7 x 7 convolution and a max pool; four stages of blocks, each with twice the channels and half the side of the one before; then
 * the mean over the remaining pixels. A block adds to its input the result of two 3 x 3 convolutions (18, 34), or of a 1 x 1, a
 * 3 x 3 and a 1 x 1 convolution that ends with four times the channels (50, 101, 152) and has its stride on the 3 x 3. */
#include "net/network.h"

#include <stdio.h>
#include <string.h>

enum { STAGES = 4 };

struct sizes {
    size_t width, blocks[STAGES];
    bool bottleneck;
};

static const struct {
    const char *name;
    struct sizes sizes;
} known[] = {{"resnet18", {64, {2, 2, 2, 2}, false}},
             {"resnet34", {64, {3, 4, 6, 3}, false}},
             {"resnet50", {64, {3, 4, 6, 3}, true}},
             {"resnet101", {64, {3, 4, 23, 3}, true}},
             {"resnet152", {64, {3, 8, 36, 3}, true}}};

static bool matches(const struct parameters *parameters) {
    return parameters_find(parameters, "conv1.weight") && parameters_find(parameters, "layer1.0.conv1.weight");
}

static l3a_status measure(struct parameters *parameters, struct sizes *sizes) {
    const struct checkpoint_tensor *stem = parameters_find(parameters, "conv1.weight");
    l3a_status status = L3A_OK;
    FAIL_IF(stem->rank != 4 || stem->shape[1] != 3 || stem->shape[2] != 7 || !stem->shape[0], parameters->context,
            L3A_ERROR_MISMATCH, NULL, "the tensor conv1.weight has an unexpected shape; expected [64, 3, 7, 7]");
    *sizes = (struct sizes){.width = (size_t)stem->shape[0], .bottleneck = parameters_find(parameters, "layer1.0.conv3.weight")};
    for (size_t stage = 0; stage < STAGES; stage++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "layer%zu.", stage + 1);
        sizes->blocks[stage] = parameters_count_parts(parameters, prefix);
        FAIL_IF(!sizes->blocks[stage], parameters->context, L3A_ERROR_MISMATCH, NULL, "the tensor %s0.conv1.weight is missing",
                prefix);
    }
done:
    return status;
}

static l3a_status recognise(struct parameters *parameters, struct backbone_recipe *recipe) {
    struct sizes sizes;
    l3a_status status = L3A_OK;
    TRY(measure(parameters, &sizes));
    recipe->side = recipe->side ? recipe->side : 224;
    snprintf(recipe->name, sizeof recipe->name, "resnet, width %zu, blocks %zu %zu %zu %zu", sizes.width, sizes.blocks[0],
             sizes.blocks[1], sizes.blocks[2], sizes.blocks[3]);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].sizes.width == sizes.width && known[i].sizes.bottleneck == sizes.bottleneck &&
            memcmp(known[i].sizes.blocks, sizes.blocks, sizeof sizes.blocks) == 0) {
            snprintf(recipe->name, sizeof recipe->name, "%s", known[i].name);
        }
    }
done:
    return status;
}

static value block(struct network *net, value x, size_t width, size_t stride, bool bottleneck, bool shortcut) {
    const size_t out = bottleneck ? 4 * width : width;
    value y = x;
    if (bottleneck) {
        y = conv(net, y,
                 &(struct conv){.name = "conv1", .norm = "bn1", .out = width, .kernel = 1, .stride = 1, .activation = RELU});
        y = conv(net, y,
                 &(struct conv){.name = "conv2", .norm = "bn2", .out = width, .kernel = 3, .stride = stride, .activation = RELU});
    } else {
        y = conv(net, y,
                 &(struct conv){.name = "conv1", .norm = "bn1", .out = width, .kernel = 3, .stride = stride, .activation = RELU});
    }
    if (shortcut) {
        x = conv(net, x, &(struct conv){.name = "downsample.0", .norm = "downsample.1", .out = out, .kernel = 1, .stride = stride});
    }
    return bottleneck
               ? conv(net, y,
                      &(struct conv){
                          .name = "conv3", .norm = "bn3", .out = out, .kernel = 1, .stride = 1, .activation = RELU, .add = x})
               : conv(net, y,
                      &(struct conv){
                          .name = "conv2", .norm = "bn2", .out = out, .kernel = 3, .stride = 1, .activation = RELU, .add = x});
}

static value describe(struct network *net, const struct backbone_recipe *recipe) {
    struct sizes sizes = {0};
    (void)recipe;
    net->status = net->status == L3A_OK ? measure(net->parameters, &sizes) : net->status;
    value x =
        conv(net, PICTURE,
             &(struct conv){.name = "conv1", .norm = "bn1", .out = sizes.width, .kernel = 7, .stride = 2, .activation = RELU});
    x = max_pool(net, x);
    for (size_t stage = 0; stage < STAGES; stage++) {
        for (size_t i = 0; i < sizes.blocks[stage]; i++) {
            network_prefix(net, "layer%zu.%zu.", stage + 1, i);
            x = block(net, x, sizes.width << stage, stage && !i ? 2 : 1, sizes.bottleneck, !i && (stage || sizes.bottleneck));
        }
    }
    return global_mean(net, x);
}

const struct family resnet_family = {.name = "resnet",
                                     .mean = {0.485F, 0.456F, 0.406F},
                                     .deviation = {0.229F, 0.224F, 0.225F},
                                     .matches = matches,
                                     .recognise = recognise,
                                     .describe = describe};
