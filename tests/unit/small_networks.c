#include "small_networks.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

l3a_status read_small(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    const uint64_t seed = (uint64_t)(tensor - ((struct memory_tensors *)owner)->tensors);
    for (size_t i = 0; i < tensor->elements; i++) {
        const double u = random_uniform(seed, i);
        values[i] = (float)(strstr(tensor->name, "var") ? 0.5 + u : tensor->rank == 1 ? u : (u - 0.5) * 0.4);
    }
    return L3A_OK;
}

static void add(struct memory_tensors *tensors, const char *prefix, const char *name, size_t rank, size_t a, size_t b, size_t c) {
    tensors_add(tensors, prefix, name, rank, a, b, c, c);
}

static void add_norm(struct memory_tensors *tensors, const char *prefix, size_t width) {
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    for (size_t i = 0; i < 4; i++) {
        add(tensors, prefix, parts[i], 1, width, 0, 0);
    }
    add(tensors, prefix, "num_batches_tracked", 0, 0, 0, 0);
}

static void add_pair(struct memory_tensors *tensors, const char *prefix, size_t out, size_t in) {
    char name[96];
    snprintf(name, sizeof name, "%sbias", prefix);
    add(tensors, prefix, "weight", in ? 2 : 1, out, in, 0);
    add(tensors, "", name, 1, out, 0, 0);
}

void make_small_vit_of(struct memory_tensors *tensors, int depth) {
    tensors->count = 0;
    add(tensors, "", "cls_token", 3, 1, 1, 64);
    add(tensors, "", "pos_embed", 3, 1, 10, 64);
    add(tensors, "", "patch_embed.proj.weight", 4, 64, 3, 4);
    add(tensors, "", "patch_embed.proj.bias", 1, 64, 0, 0);
    for (int i = 0; i < depth; i++) {
        char prefix[64];
        const char *const parts[] = {"norm1.", "attn.qkv.", "attn.proj.", "norm2.", "mlp.fc1.", "mlp.fc2."};
        const size_t sizes[][2] = {{64, 0}, {192, 64}, {64, 64}, {64, 0}, {128, 64}, {64, 128}};
        for (size_t j = 0; j < 6; j++) {
            snprintf(prefix, sizeof prefix, "blocks.%d.%s", i, parts[j]);
            add_pair(tensors, prefix, sizes[j][0], sizes[j][1]);
        }
    }
    add_pair(tensors, "norm.", 64, 0);
    add_pair(tensors, "head.", 10, 64);
}

void make_small_vit(struct memory_tensors *tensors) {
    make_small_vit_of(tensors, 2);
}

void make_small_resnet_of(struct memory_tensors *tensors, size_t stem) {
    tensors->count = 0;
    add(tensors, "", "conv1.weight", 4, stem, 3, 7);
    add_norm(tensors, "bn1.", stem);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t width = stem << stage, before = stage ? width / 2 : width;
        char prefix[64];
        for (size_t i = 1; i <= 2; i++) {
            snprintf(prefix, sizeof prefix, "layer%zu.0.conv%zu.", stage + 1, i);
            add(tensors, prefix, "weight", 4, width, i == 1 ? before : width, 3);
            snprintf(prefix, sizeof prefix, "layer%zu.0.bn%zu.", stage + 1, i);
            add_norm(tensors, prefix, width);
        }
        if (stage) {
            snprintf(prefix, sizeof prefix, "layer%zu.0.downsample.0.", stage + 1);
            add(tensors, prefix, "weight", 4, width, before, 1);
            snprintf(prefix, sizeof prefix, "layer%zu.0.downsample.1.", stage + 1);
            add_norm(tensors, prefix, width);
        }
    }
    add_pair(tensors, "fc.", 10, stem << 3);
}

void make_small_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 16);
}

/* A convolution with a norm, as timm names the parts of TResNet. */
static void add_part(struct memory_tensors *tensors, const char *block, const char *name, size_t out, size_t in, size_t kernel) {
    char prefix[80];
    snprintf(prefix, sizeof prefix, "%s%s.conv.", block, name);
    add(tensors, prefix, "weight", 4, out, in, kernel);
    snprintf(prefix, sizeof prefix, "%s%s.bn.", block, name);
    add_norm(tensors, prefix, out);
}

static void add_excite(struct memory_tensors *tensors, const char *block, size_t channels) {
    add(tensors, block, "se.fc1.weight", 4, 64, channels, 1);
    add(tensors, block, "se.fc1.bias", 1, 64, 0, 0);
    add(tensors, block, "se.fc2.weight", 4, channels, 64, 1);
    add(tensors, block, "se.fc2.bias", 1, channels, 0, 0);
}

/* Two basic blocks of 10 and 20 channels, two bottlenecks of 40 and 80 that end with 160 and 320. */
void make_small_tresnet(struct memory_tensors *tensors) {
    tensors->count = 0;
    add_part(tensors, "", "body.conv1", 10, 48, 3);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t width = (size_t)10 << stage, before = stage == 0 ? 10 : stage == 3 ? 160 : width / 2;
        const size_t out = stage < 2 ? width : 4 * width;
        char block[32];
        snprintf(block, sizeof block, "body.layer%zu.0.", stage + 1);
        add_part(tensors, block, "conv1", width, before, stage < 2 ? 3 : 1);
        add_part(tensors, block, "conv2", width, width, 3);
        if (stage < 3) {
            add_excite(tensors, block, width);
        }
        if (stage > 1) {
            add_part(tensors, block, "conv3", out, width, 1);
        }
        if (stage) {
            add_part(tensors, block, "downsample.1", out, before, 1);
        }
    }
    add(tensors, "head.", "fc.weight", 2, 10, 320, 0);
}

static void add_convolution(struct memory_tensors *tensors, const char *prefix, size_t out, size_t in, size_t kernel) {
    add(tensors, prefix, "weight", 4, out, in, kernel);
    add(tensors, prefix, "bias", 1, out, 0, 0);
}

void make_small_convnext(struct memory_tensors *tensors) {
    tensors->count = 0;
    add_convolution(tensors, "stem.0.", 8, 3, 4);
    add_pair(tensors, "stem.1.", 8, 0);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t width = (size_t)8 << stage;
        char prefix[64];
        if (stage) {
            snprintf(prefix, sizeof prefix, "stages.%zu.downsample.0.", stage);
            add_pair(tensors, prefix, width / 2, 0);
            snprintf(prefix, sizeof prefix, "stages.%zu.downsample.1.", stage);
            add_convolution(tensors, prefix, width, width / 2, 2);
        }
        snprintf(prefix, sizeof prefix, "stages.%zu.blocks.0.", stage);
        add(tensors, prefix, "gamma", 1, width, 0, 0);
        snprintf(prefix, sizeof prefix, "stages.%zu.blocks.0.conv_dw.", stage);
        add_convolution(tensors, prefix, width, 1, 7);
        snprintf(prefix, sizeof prefix, "stages.%zu.blocks.0.norm.", stage);
        add_pair(tensors, prefix, width, 0);
        snprintf(prefix, sizeof prefix, "stages.%zu.blocks.0.mlp.fc1.", stage);
        add_pair(tensors, prefix, 4 * width, width);
        snprintf(prefix, sizeof prefix, "stages.%zu.blocks.0.mlp.fc2.", stage);
        add_pair(tensors, prefix, width, 4 * width);
    }
    add_pair(tensors, "head.norm.", 64, 0);
}
