/* Residual networks ("Deep residual learning for image recognition", He et al., 2016), wide ones (Zagoruyko and Komodakis, 2016)
 * and ResNeXt (Xie et al., 2017), with the tensor names of torchvision and timm.
 *
 * A 7 x 7 convolution and a max pool; four stages of blocks, each with twice the channels and half the side of the one before; then
 * the mean over the remaining pixels. A block adds to its input the result of two 3 x 3 convolutions (18, 34), or of a 1 x 1, a
 * 3 x 3 and a 1 x 1 convolution that ends with more channels (50, 101, 152). The stride is on the 3 x 3; in the networks of the
 * first release (Caffe, Keras) it is on the first 1 x 1, which the recipe says. Wide networks have more channels between the 1 x 1
 * convolutions, and ResNeXt divides those of the 3 x 3 into groups. Keras gives every convolution a bias. */
#include "net/network.h"

#include <stdio.h>
#include <string.h>

enum { STAGES = 4, STEM = 64 };

struct sizes {
    size_t width, blocks[STAGES];
    size_t inner, out, groups; /* of the blocks of the first stage */
    bool bottleneck;
};

static const struct {
    const char *name;
    size_t blocks[STAGES];
    bool bottleneck;
} known[] = {
    {"18", {2, 2, 2, 2}, false},  {"34", {3, 4, 6, 3}, false},  {"50", {3, 4, 6, 3}, true},
    {"101", {3, 4, 23, 3}, true}, {"152", {3, 8, 36, 3}, true},
};

static bool matches(const struct parameters *parameters) {
    return parameters_find(parameters, "layer1.0.conv1.weight") && parameters_find(parameters, "conv1.weight");
}

/* timm's variants whose names could be read, but whose layers are others. */
static l3a_status refuse_variants(const struct parameters *parameters) {
    const struct checkpoint_tensor *shortcut = parameters_find(parameters, "layer2.0.downsample.1.weight");
    const char *variant = NULL;
    l3a_status status = L3A_OK;
    if (shortcut && shortcut->rank == 4) {
        variant = "an average pool in the shortcuts, as in timm's resnet50d";
    } else if (parameters_count_parts(parameters, "layer1.0.conv2.") || parameters_count_parts(parameters, "layer1.0.convs.")) {
        variant = "divided 3 x 3 convolutions, as in ResNeSt and Res2Net";
    } else if (parameters_find(parameters, "layer1.0.se.fc1.weight") || parameters_find(parameters, "layer1.0.se.conv.weight")) {
        variant = "attention to channels, as in SE-ResNet and ECA-ResNet";
    }
    FAIL_IF(variant, parameters->context, L3A_ERROR_MISMATCH,
            "use a plain network, such as timm's resnet50 or resnext50_32x4d, or compute the features with PyTorch",
            "this ResNet is a variant that is not supported: it has %s", variant);
done:
    return status;
}

static l3a_status measure_block(const struct parameters *parameters, struct sizes *sizes) {
    const struct checkpoint_tensor *first = parameters_find(parameters, "layer1.0.conv1.weight");
    const struct checkpoint_tensor *second = parameters_find(parameters, "layer1.0.conv2.weight");
    const struct checkpoint_tensor *third = parameters_find(parameters, "layer1.0.conv3.weight");
    l3a_status status = L3A_OK;
    FAIL_IF(first->rank != 4 || !first->shape[0], parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor layer1.0.conv1.weight has an unexpected shape; expected [channels, %zu, kernel, kernel]", sizes->width);
    FAIL_IF(third && (third->rank != 4 || !third->shape[0]), parameters->context, L3A_ERROR_MISMATCH, NULL,
            "the tensor layer1.0.conv3.weight has an unexpected shape; expected [channels, %zu, 1, 1]", (size_t)first->shape[0]);
    sizes->inner = (size_t)first->shape[0];
    sizes->bottleneck = third != NULL;
    sizes->out = third ? (size_t)third->shape[0] : sizes->inner;
    const bool divides = third && second && second->rank == 4 && second->shape[1] && sizes->inner % second->shape[1] == 0;
    sizes->groups = divides ? sizes->inner / (size_t)second->shape[1] : 1;
done:
    return status;
}

static l3a_status measure(const struct parameters *parameters, struct sizes *sizes) {
    const struct checkpoint_tensor *stem = parameters_find(parameters, "conv1.weight");
    l3a_status status = L3A_OK;
    TRY(refuse_variants(parameters));
    FAIL_IF(stem->rank != 4 || stem->shape[1] != 3 || stem->shape[2] != 7 || !stem->shape[0], parameters->context,
            L3A_ERROR_MISMATCH, NULL, "the tensor conv1.weight has an unexpected shape; expected [64, 3, 7, 7]");
    *sizes = (struct sizes){.width = (size_t)stem->shape[0]};
    TRY(measure_block(parameters, sizes));
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

/* resnet50, wide_resnet50_2, resnext50_32x4d: as timm and torchvision name them. */
static void choose_name(const struct sizes *sizes, struct backbone_recipe *recipe) {
    const bool usual = sizes->width == STEM && sizes->out == (sizes->bottleneck ? 4 * STEM : STEM) && sizes->inner % STEM == 0;
    snprintf(recipe->name, sizeof recipe->name, "resnet, width %zu, blocks %zu %zu %zu %zu", sizes->width, sizes->blocks[0],
             sizes->blocks[1], sizes->blocks[2], sizes->blocks[3]);
    for (size_t i = 0; usual && i < sizeof known / sizeof *known; i++) {
        if (known[i].bottleneck != sizes->bottleneck || memcmp(known[i].blocks, sizes->blocks, sizeof sizes->blocks) != 0) {
            continue;
        }
        if (sizes->groups > 1) {
            snprintf(recipe->name, sizeof recipe->name, "resnext%s_%zux%zud", known[i].name, sizes->groups,
                     sizes->inner / sizes->groups);
        } else if (sizes->inner > STEM) {
            snprintf(recipe->name, sizeof recipe->name, "wide_resnet%s_%zu", known[i].name, sizes->inner / STEM);
        } else {
            snprintf(recipe->name, sizeof recipe->name, "resnet%s", known[i].name);
        }
    }
}

static l3a_status recognise(struct parameters *parameters, struct backbone_recipe *recipe) {
    struct sizes sizes;
    l3a_status status = L3A_OK;
    TRY(measure(parameters, &sizes));
    recipe->side = recipe->side ? recipe->side : 224;
    recipe->epsilon = recipe->epsilon > 0 ? recipe->epsilon : 1e-5;
    choose_name(&sizes, recipe);
    recipe_set_imagenet(recipe);
done:
    return status;
}

/* A convolution with its norm, and with a bias if the checkpoint has one. */
struct unit {
    const char *name, *norm;
    size_t out, kernel, stride, groups;
    bool linear; /* no ReLU */
    value add;
};

static value unit(struct network *net, const struct backbone_recipe *recipe, value x, const struct unit *what) {
    char bias[32];
    snprintf(bias, sizeof bias, "%s.bias", what->name);
    return conv(net, x,
                &(struct conv){.name = what->name,
                               .norm = what->norm,
                               .out = what->out,
                               .kernel = what->kernel,
                               .stride = what->stride,
                               .groups = what->groups,
                               .activation = what->linear ? LINEAR_ACTIVATION : RELU,
                               .epsilon = recipe->epsilon,
                               .add = what->add,
                               .biased = network_has(net, bias)});
}

static value block(struct network *net, const struct backbone_recipe *recipe, value x, const struct sizes *sizes, size_t stage,
                   bool first) {
    const size_t inner = sizes->inner << stage, out = sizes->out << stage, stride = stage && first ? 2 : 1;
    const size_t early = recipe->stride_first ? stride : 1, late = recipe->stride_first ? 1 : stride;
    value y = x;
    if (sizes->bottleneck) {
        y = unit(net, recipe, y, &(struct unit){.name = "conv1", .norm = "bn1", .out = inner, .kernel = 1, .stride = early});
        y = unit(
            net, recipe, y,
            &(struct unit){.name = "conv2", .norm = "bn2", .out = inner, .kernel = 3, .stride = late, .groups = sizes->groups});
    } else {
        y = unit(net, recipe, y, &(struct unit){.name = "conv1", .norm = "bn1", .out = inner, .kernel = 3, .stride = stride});
    }
    if (first && (stage || sizes->bottleneck)) {
        x = unit(net, recipe, x,
                 &(struct unit){
                     .name = "downsample.0", .norm = "downsample.1", .out = out, .kernel = 1, .stride = stride, .linear = true});
    }
    return sizes->bottleneck ? unit(net, recipe, y,
                                    &(struct unit){.name = "conv3", .norm = "bn3", .out = out, .kernel = 1, .stride = 1, .add = x})
                             : unit(net, recipe, y,
                                    &(struct unit){.name = "conv2", .norm = "bn2", .out = out, .kernel = 3, .stride = 1, .add = x});
}

static value describe(struct network *net, const struct backbone_recipe *recipe) {
    struct sizes sizes = {0};
    net->status = net->status == L3A_OK ? measure(net->parameters, &sizes) : net->status;
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    value x =
        unit(net, recipe, PICTURE, &(struct unit){.name = "conv1", .norm = "bn1", .out = sizes.width, .kernel = 7, .stride = 2});
    x = max_pool(net, x);
    for (size_t stage = 0; stage < STAGES; stage++) {
        for (size_t i = 0; i < sizes.blocks[stage]; i++) {
            network_prefix(net, "layer%zu.%zu.", stage + 1, i);
            x = block(net, recipe, x, &sizes, stage, !i);
        }
        network_stage(net, stage, x);
    }
    return global_mean(net, x);
}

const struct family resnet_family = {
    .name = "resnet", .usual_epsilon = 1e-5, .matches = matches, .recognise = recognise, .describe = describe};
