#include "published_networks.h"

#include <stdio.h>
#include <string.h>

l3a_status read_published(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    uint64_t seed = 0xCBF29CE484222325;
    const bool scales = tensor->rank == 1 && (strstr(tensor->name, "var") || strstr(tensor->name, "weight"));
    (void)owner;
    for (const char *c = tensor->name; *c; c++) {
        seed = (seed ^ (uint64_t)(unsigned char)*c) * 0x100000001B3;
    }
    for (size_t i = 0; i < tensor->elements; i++) {
        uint64_t z = seed + i * 0x9E3779B97F4A7C15;
        z = (z ^ z >> 29) * 0xBF58476D1CE4E5B9;
        values[i] = (float)(z >> 40) / 16777216.0F - (scales ? -0.5F : 0.5F);
    }
    return L3A_OK;
}

static void add_linear(struct memory_tensors *tensors, const char *prefix, const char *name, size_t out, size_t in) {
    char full[96];
    snprintf(full, sizeof full, "%s%s.", prefix, name);
    tensors_add(tensors, full, "weight", in ? 2 : 1, out, in, 0, 0);
    tensors_add(tensors, full, "bias", 1, out, 0, 0, 0);
}

void make_published_vit(struct memory_tensors *tensors, size_t width, size_t depth, size_t patch, size_t side) {
    const size_t across = side / patch;
    tensors->count = 0;
    tensors_add(tensors, "", "cls_token", 3, 1, 1, width, 0);
    tensors_add(tensors, "", "pos_embed", 3, 1, across * across + 1, width, 0);
    tensors_add(tensors, "", "patch_embed.proj.weight", 4, width, 3, patch, patch);
    tensors_add(tensors, "", "patch_embed.proj.bias", 1, width, 0, 0, 0);
    for (size_t i = 0; i < depth; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
        add_linear(tensors, prefix, "norm1", width, 0);
        add_linear(tensors, prefix, "attn.qkv", 3 * width, width);
        add_linear(tensors, prefix, "attn.proj", width, width);
        add_linear(tensors, prefix, "norm2", width, 0);
        add_linear(tensors, prefix, "mlp.fc1", 4 * width, width);
        add_linear(tensors, prefix, "mlp.fc2", width, 4 * width);
    }
    add_linear(tensors, "", "norm", width, 0);
}

static void add_batch_norm(struct memory_tensors *tensors, const char *prefix, size_t width) {
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    for (size_t i = 0; i < 4; i++) {
        tensors_add(tensors, prefix, parts[i], 1, width, 0, 0, 0);
    }
}

static void add_convolution(struct memory_tensors *tensors, const char *block, const char *name, const char *norm, size_t out,
                            size_t in, size_t kernel) {
    char prefix[96];
    snprintf(prefix, sizeof prefix, "%s%s.", block, name);
    tensors_add(tensors, prefix, "weight", 4, out, in, kernel, kernel);
    snprintf(prefix, sizeof prefix, "%s%s.", block, norm);
    add_batch_norm(tensors, prefix, out);
}

void make_published_resnet(struct memory_tensors *tensors, const size_t blocks[4], bool bottleneck) {
    size_t before = 64;
    tensors->count = 0;
    add_convolution(tensors, "", "conv1", "bn1", 64, 3, 7);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t width = (size_t)64 << stage, out = bottleneck ? 4 * width : width;
        for (size_t i = 0; i < blocks[stage]; i++) {
            char block[64];
            snprintf(block, sizeof block, "layer%zu.%zu.", stage + 1, i);
            add_convolution(tensors, block, "conv1", "bn1", width, before, bottleneck ? 1 : 3);
            add_convolution(tensors, block, "conv2", "bn2", width, width, 3);
            if (bottleneck) {
                add_convolution(tensors, block, "conv3", "bn3", out, width, 1);
            }
            if (!i && (stage || bottleneck)) {
                add_convolution(tensors, block, "downsample.0", "downsample.1", out, before, 1);
            }
            before = out;
        }
    }
}

static void add_part(struct memory_tensors *tensors, const char *block, const char *name, bool numbered, bool blurred, size_t out,
                     size_t in, size_t kernel) {
    char convolution[48], norm[48];
    snprintf(convolution, sizeof convolution, "%s%s", name, !numbered ? ".conv" : blurred ? ".0.0" : ".0");
    snprintf(norm, sizeof norm, "%s%s", name, !numbered ? ".bn" : blurred ? ".0.1" : ".1");
    add_convolution(tensors, block, convolution, norm, out, in, kernel);
}

static void add_excite(struct memory_tensors *tensors, const char *block, size_t channels, size_t hidden) {
    hidden = hidden < 64 ? 64 : hidden;
    tensors_add(tensors, block, "se.fc1.weight", 4, hidden, channels, 1, 1);
    tensors_add(tensors, block, "se.fc1.bias", 1, hidden, 0, 0, 0);
    tensors_add(tensors, block, "se.fc2.weight", 4, channels, hidden, 1, 1);
    tensors_add(tensors, block, "se.fc2.bias", 1, channels, 0, 0, 0);
}

void make_published_tresnet(struct memory_tensors *tensors, size_t width, const size_t blocks[4], bool numbered) {
    size_t before = width;
    tensors->count = 0;
    add_part(tensors, "", "body.conv1", numbered, false, width, 48, 3);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t inner = width << stage, out = stage < 2 ? inner : 4 * inner;
        for (size_t i = 0; i < blocks[stage]; i++) {
            const bool halve = stage && !i;
            char block[48];
            snprintf(block, sizeof block, "body.layer%zu.%zu.", stage + 1, i);
            add_part(tensors, block, "conv1", numbered, stage < 2 && halve, inner, before, stage < 2 ? 3 : 1);
            add_part(tensors, block, "conv2", numbered, stage > 1 && halve, inner, inner, 3);
            if (stage < 3) {
                add_excite(tensors, block, inner, stage < 2 ? inner / 4 : inner / 2);
            }
            if (stage > 1) {
                add_part(tensors, block, "conv3", numbered, false, out, inner, 1);
            }
            if (halve) {
                add_part(tensors, block, "downsample.1", numbered, false, out, before, 1);
            }
            before = out;
        }
    }
}
