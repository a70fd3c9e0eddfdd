/* What runs is derived from the description (net/fuse.c). For the networks that were there before there were descriptions, it is
 * what was run then, to the last bit: the digests below are those of 0.13.0, whose descriptions were fused by hand. Equal lists of
 * layers with equal parameters give equal features, on every back end, processor and number of threads. */
#include "support.h"

#include "net/backbone.h"
#include "net/fuse.h"
#include "published_networks.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { DIGEST_TEXT = 33 };

struct published {
    const char *name;
    enum { VIT, RESNET, TRESNET } family;
    size_t numbers[4]; /* vit: width, depth, patch, side; otherwise the blocks of each stage */
    size_t width;      /* of a tresnet */
    bool flag;         /* resnet: bottlenecks; tresnet: the names of the first release */
    l3a_pool pool;
    const char *digest;
};

static const struct published networks[] = {
    {"ViT-Ti/16", VIT, {192, 12, 16, 224}, 0, false, L3A_POOL_DEFAULT, "f7c1804f22942287faeea2fe51931f0d"},
    {"ViT-Ti/16, mean", VIT, {192, 12, 16, 224}, 0, false, L3A_POOL_MEAN, "2c0b7443cfb3fded46fdda7d8c6e90f8"},
    {"ViT-Ti/16, cls+mean", VIT, {192, 12, 16, 224}, 0, false, L3A_POOL_CLS_MEAN, "7a2c95edad90c0aa271b90c932f0f9b3"},
    {"ViT-S/16", VIT, {384, 12, 16, 224}, 0, false, L3A_POOL_CLS, "e7049ddfff2c5f7a696bccb19288b178"},
    {"ViT-B/32", VIT, {768, 12, 32, 224}, 0, false, L3A_POOL_DEFAULT, "e1d763a48066b3502863919aac9d5f9e"},
    {"ViT-L/16", VIT, {1024, 24, 16, 384}, 0, false, L3A_POOL_DEFAULT, "b938a1dff89cbdba6e25fb83e594f826"},
    {"ResNet-18", RESNET, {2, 2, 2, 2}, 0, false, L3A_POOL_DEFAULT, "0cbb31d0684ef1ca37f6ab5134ca2a47"},
    {"ResNet-34", RESNET, {3, 4, 6, 3}, 0, false, L3A_POOL_DEFAULT, "9919f655dfdcef9296afbe15e2481a35"},
    {"ResNet-50", RESNET, {3, 4, 6, 3}, 0, true, L3A_POOL_DEFAULT, "91bf6b77dcae4a23ae1b29a0aa6c32c9"},
    {"ResNet-101", RESNET, {3, 4, 23, 3}, 0, true, L3A_POOL_DEFAULT, "3e2fc0f0d09f6829378ba3b86582da51"},
    {"ResNet-152", RESNET, {3, 8, 36, 3}, 0, true, L3A_POOL_DEFAULT, "09ac87fd0deab8a726782c5985ad6164"},
    {"TResNet-M", TRESNET, {3, 4, 11, 3}, 64, false, L3A_POOL_DEFAULT, "1667fd2821aceb7ef73668aa9914a60b"},
    {"TResNet-L", TRESNET, {4, 5, 18, 3}, 76, false, L3A_POOL_DEFAULT, "8de759c90ed97d77876b299254556d63"},
    {"TResNet-XL", TRESNET, {4, 5, 24, 3}, 83, false, L3A_POOL_DEFAULT, "124e4da16c8f1340ceeb8d68d6093798"},
    {"TResNet-M, first release", TRESNET, {3, 4, 11, 3}, 64, true, L3A_POOL_DEFAULT, "092eea3ea455f08ec778f8a60fcbbbd8"},
    {"TResNet-L, first release", TRESNET, {4, 5, 18, 3}, 76, true, L3A_POOL_DEFAULT, "b69af9db6e6e5c6b089365fa3a030f57"},
    {"TResNet-XL, first release", TRESNET, {4, 5, 24, 3}, 83, true, L3A_POOL_DEFAULT, "14f563c64947a136fa279edf760c9eb0"},
};

static const char *kind_text(enum net_layer_kind kind) {
    switch (kind) {
    case LAYER_SPACE_TO_DEPTH: return "space to depth";
    case LAYER_CONVOLUTION: return "convolution";
    case LAYER_MAX_POOL: return "max pool";
    case LAYER_AVERAGE_POOL: return "average pool";
    case LAYER_BLUR: return "blur";
    case LAYER_SQUEEZE_EXCITE: return "squeeze and excite";
    case LAYER_GLOBAL_MEAN: return "global mean";
    case LAYER_PATCHES: return "patches";
    case LAYER_LINEAR: return "linear";
    case LAYER_TOKENS: return "tokens";
    case LAYER_NORM: return "norm";
    case LAYER_ATTENTION: return "attention";
    case LAYER_FIRST_TOKEN: return "first token";
    case LAYER_TOKEN_MEAN: return "token mean";
    case LAYER_JOIN: return "join";
    case LAYER_SLICE: return "slice";
    default: return "another";
    }
}

static const char *activation_text(enum activation activation) {
    return activation == RELU                ? "relu"
           : activation == LEAKY_RELU        ? "leaky relu"
           : activation == GELU              ? "gelu"
           : activation == LINEAR_ACTIVATION ? ""
                                             : "another";
}

/* The position in the list of the layer that makes a value, from 1 on; the picture is 0. */
static size_t maker(const struct network *net, value wanted) {
    for (size_t i = 0; i < net->layer_count; i++) {
        if (net->layers[i].output == wanted) {
            return i + 1;
        }
    }
    return 0;
}

static void digest_layer(XXH3_state_t *state, const struct network *net, const struct net_layer *layer) {
    static const enum parameter_kind kinds[] = {FACTORS, BIAS, SECOND_FACTORS, SECOND_BIAS};
    char text[512];
    const int length =
        snprintf(text, sizeof text, "%s %zu %zu %d | %zu %zu %zu | %zu %zu %zu | %zu %zu %zu %zu %zu %zu | %s %.9g %.9g\n",
                 kind_text(layer->kind), maker(net, layer->input), maker(net, layer->second), layer->second != NOTHING,
                 layer->from.channels, layer->from.height, layer->from.width, layer->to.channels, layer->to.height, layer->to.width,
                 layer->kernel, layer->stride, layer->padding, layer->groups, layer->heads, layer->hidden,
                 activation_text(layer->activation), (double)layer->slope, (double)(float)layer->epsilon);
    assert_in_range(length, 1, sizeof text - 1);
    XXH3_128bits_update(state, text, (size_t)length);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (layer->parameters[kinds[i]].values) {
            XXH3_128bits_update(state, &kinds[i], sizeof kinds[i]);
            XXH3_128bits_update(state, layer->parameters[kinds[i]].values, layer->parameters[kinds[i]].count * sizeof(float));
        }
    }
}

static void digest_network(const struct network *net, char text[DIGEST_TEXT]) {
    XXH3_state_t *state = XXH3_createState();
    assert_non_null(state);
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < net->layer_count; i++) {
        digest_layer(state, net, &net->layers[i]);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(text, DIGEST_TEXT, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    XXH3_freeState(state);
}

static void make(const struct published *what, struct memory_tensors *tensors) {
    const size_t *numbers = what->numbers;
    if (what->family == VIT) {
        make_published_vit(tensors, numbers[0], numbers[1], numbers[2], numbers[3]);
    } else if (what->family == RESNET) {
        make_published_resnet(tensors, numbers, what->flag);
    } else {
        make_published_tresnet(tensors, what->width, numbers, what->flag);
    }
}

static void networks_are_those_of_before(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    size_t different = 0;
    (void)unused;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        const l3a_backbone_options options = {.size = sizeof options, .pool = networks[i].pool};
        struct reading reading;
        char digest[DIGEST_TEXT];
        make(&networks[i], &tensors);
        struct parameter_source source = tensors_source(&tensors, read_published);
        source.recorded = true;
        assert_ok(context, backbone_read(context, &source, &options, &reading));
        assert_ok(context, network_fuse(&reading.network, 1));
        digest_network(&reading.network, digest);
        if (strcmp(digest, networks[i].digest) != 0) {
            print_error("%s: %s instead of %s\n", networks[i].name, digest, networks[i].digest);
            different++;
        }
        network_free(&reading.network);
    }
    l3a_context_free(context);
    assert_int_equal(different, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_are_those_of_before)};
    return cmocka_run_group_tests_name("fuse", tests, NULL, NULL);
}
