/* Whole backbones, small enough to make in memory: what they are recognised as, features that do not depend on the engine or on how
 * many pictures go in at once, tensors missing, too many or misshaped, bad options, and every allocation failing in turn. */
#include "support.h"

#include "base/random.h"
#include "net/backbone.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 400, COUNT = 11 };

struct memory_weights {
    struct checkpoint_tensor tensors[TENSORS];
    char names[TENSORS][96];
    size_t count;
};

static const struct checkpoint_tensor *memory_at(const void *owner, size_t index) {
    return &((const struct memory_weights *)owner)->tensors[index];
}

static l3a_status memory_read(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    const uint64_t seed = (uint64_t)(tensor - ((struct memory_weights *)owner)->tensors);
    for (size_t i = 0; i < tensor->elements; i++) {
        const double u = random_uniform(seed, i);
        values[i] = (float)(strstr(tensor->name, "var") ? 0.5 + u : tensor->rank == 1 ? u : (u - 0.5) * 0.4);
    }
    return L3A_OK;
}

static struct weight_source source_of(struct memory_weights *weights) {
    return (struct weight_source){weights, weights->count, memory_at, memory_read};
}

static void add(struct memory_weights *weights, const char *prefix, const char *name, size_t rank, size_t a, size_t b, size_t c) {
    struct checkpoint_tensor *tensor = &weights->tensors[weights->count];
    char *full = weights->names[weights->count++];
    snprintf(full, sizeof weights->names[0], "%s%s", prefix, name);
    *tensor = (struct checkpoint_tensor){.name = full, .type = "F32", .rank = rank, .shape = {a, b, c, c}, .elements = 1};
    for (size_t i = 0; i < rank; i++) {
        tensor->elements *= tensor->shape[i];
    }
}

static void add_norm(struct memory_weights *weights, const char *prefix, size_t width) {
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    for (size_t i = 0; i < 4; i++) {
        add(weights, prefix, parts[i], 1, width, 0, 0);
    }
    add(weights, prefix, "num_batches_tracked", 0, 0, 0, 0);
}

static void add_pair(struct memory_weights *weights, const char *prefix, size_t out, size_t in) {
    char name[96];
    snprintf(name, sizeof name, "%sbias", prefix);
    add(weights, prefix, "weight", in ? 2 : 1, out, in, 0);
    add(weights, "", name, 1, out, 0, 0);
}

static void make_vit(struct memory_weights *weights) {
    weights->count = 0;
    add(weights, "", "cls_token", 3, 1, 1, 64);
    add(weights, "", "pos_embed", 3, 1, 10, 64);
    add(weights, "", "patch_embed.proj.weight", 4, 64, 3, 4);
    add(weights, "", "patch_embed.proj.bias", 1, 64, 0, 0);
    for (int i = 0; i < 2; i++) {
        char prefix[64];
        const char *const parts[] = {"norm1.", "attn.qkv.", "attn.proj.", "norm2.", "mlp.fc1.", "mlp.fc2."};
        const size_t sizes[][2] = {{64, 0}, {192, 64}, {64, 64}, {64, 0}, {128, 64}, {64, 128}};
        for (size_t j = 0; j < 6; j++) {
            snprintf(prefix, sizeof prefix, "blocks.%d.%s", i, parts[j]);
            add_pair(weights, prefix, sizes[j][0], sizes[j][1]);
        }
    }
    add_pair(weights, "norm.", 64, 0);
    add_pair(weights, "head.", 10, 64);
}

static void make_resnet(struct memory_weights *weights) {
    weights->count = 0;
    add(weights, "", "conv1.weight", 4, 16, 3, 7);
    add_norm(weights, "bn1.", 16);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t width = (size_t)16 << stage, before = stage ? width / 2 : width;
        char prefix[64];
        for (size_t i = 1; i <= 2; i++) {
            snprintf(prefix, sizeof prefix, "layer%zu.0.conv%zu.", stage + 1, i);
            add(weights, prefix, "weight", 4, width, i == 1 ? before : width, 3);
            snprintf(prefix, sizeof prefix, "layer%zu.0.bn%zu.", stage + 1, i);
            add_norm(weights, prefix, width);
        }
        if (stage) {
            snprintf(prefix, sizeof prefix, "layer%zu.0.downsample.0.", stage + 1);
            add(weights, prefix, "weight", 4, width, before, 1);
            snprintf(prefix, sizeof prefix, "layer%zu.0.downsample.1.", stage + 1);
            add_norm(weights, prefix, width);
        }
    }
    add_pair(weights, "fc.", 10, 128);
}

static float *make_pictures(size_t side) {
    const size_t count = COUNT * 3 * side * side;
    float *pictures = malloc(count * sizeof *pictures);
    assert_non_null(pictures);
    for (size_t i = 0; i < count; i++) {
        pictures[i] = (float)(random_uniform(7, i) - 0.5);
    }
    return pictures;
}

static float *features_of(l3a_context *context, struct memory_weights *weights, const struct engine *engine, size_t side,
                          bool singly, l3a_backbone_info *info) {
    const struct weight_source source = source_of(weights);
    l3a_backbone_options options = {.size = sizeof options};
    l3a_backbone *backbone = NULL;
    float *pictures = make_pictures(side);
    options.side = side;
    assert_ok(context, backbone_open_from(context, &source, engine, &options, &backbone));
    *info = *l3a_backbone_describe(backbone);
    float *features = malloc(COUNT * info->width * sizeof *features);
    for (size_t i = 0; i < (singly ? COUNT : 1); i++) {
        assert_ok(context,
                  l3a_backbone_run(backbone, pictures + i * 3 * side * side, singly ? 1 : COUNT, features + i * info->width));
    }
    l3a_backbone_free(backbone);
    free(pictures);
    return features;
}

static void assert_close(const float *left, const float *right, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_true(fabsf(left[i] - right[i]) <= 1e-4F * (1 + fabsf(left[i])));
    }
}

static void features_do_not_depend_on_engine_or_batch(void **unused) {
    static struct memory_weights weights;
    l3a_context *context = make_context(2);
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        l3a_backbone_info info, other;
        (kind ? make_resnet : make_vit)(&weights);
        const size_t side = kind ? 40 : 12;
        float *reference = features_of(context, &weights, &blas_engine, side, false, &info);
        float *best = features_of(context, &weights, engine_best(), side, false, &other);
        float *singly = features_of(context, &weights, engine_best(), side, true, &other);
        float *again = features_of(context, &weights, engine_best(), side, true, &other);
        assert_string_equal(info.name, kind ? "resnet, width 16, blocks 1 1 1 1" : "vit, width 64, depth 2, heads 1, patch 4");
        assert_string_equal(info.preprocess, kind ? "rgb 40x40 bilinear mean 0.485,0.456,0.406 std 0.229,0.224,0.225"
                                                  : "rgb 12x12 bilinear mean 0.5 std 0.5");
        assert_string_equal(info.pool, kind ? "average" : "cls");
        assert_close(reference, best, COUNT * info.width);
        assert_close(reference, singly, COUNT * info.width);
        assert_memory_equal(singly, again, COUNT * info.width * sizeof *again);
        free(reference);
        free(best);
        free(singly);
        free(again);
    }
    l3a_context_free(context);
}

static void assert_refused(l3a_context *context, struct memory_weights *weights, const l3a_backbone_options *options,
                           l3a_status expected, const char *contains) {
    const struct weight_source source = source_of(weights);
    l3a_backbone *backbone = NULL;
    assert_fails(context, backbone_open_from(context, &source, engine_best(), options, &backbone), expected, contains);
    assert_null(backbone);
}

static void tensors_that_do_not_fit_are_named(void **unused) {
    static struct memory_weights weights;
    l3a_context *context = make_context(1);
    (void)unused;
    make_resnet(&weights);
    add(&weights, "", "layer1.0.extra.weight", 1, 3, 0, 0);
    assert_refused(context, &weights, NULL, L3A_ERROR_MISMATCH, "layer1.0.extra.weight of shape [3] is not part of");
    make_resnet(&weights);
    weights.tensors[7].name = "elsewhere";
    assert_refused(context, &weights, NULL, L3A_ERROR_MISMATCH, "layer1.0.bn1.weight is missing; expected one of shape [16]");
    make_vit(&weights);
    weights.tensors[6].shape[1] = 65;
    assert_refused(context, &weights, NULL, L3A_ERROR_MISMATCH, "blocks.0.attn.qkv.weight has shape [192, 65]; expected [192, 64]");
    weights.count = 0;
    assert_refused(context, &weights, NULL, L3A_ERROR_MISMATCH, "not those of a known network");
    l3a_context_free(context);
}

static void options_out_of_range_are_refused(void **unused) {
    static struct memory_weights weights;
    l3a_context *context = make_context(1);
    l3a_backbone_options options = {.size = sizeof options};
    (void)unused;
    make_resnet(&weights);
    options.pool = L3A_POOL_MEAN;
    assert_refused(context, &weights, &options, L3A_ERROR_OPTION, "only be chosen for a vision transformer");
    make_vit(&weights);
    options.side = 16;
    assert_refused(context, &weights, &options, L3A_ERROR_MISMATCH, "12 x 12");
    options.side = 0;
    options.deviation[0] = 1;
    assert_refused(context, &weights, &options, L3A_ERROR_OPTION, "deviation");
    l3a_context_free(context);
}

struct countdown {
    long left, live;
};

static void *counted(void *user, size_t bytes) {
    struct countdown *countdown = user;
    if (countdown->left == 0) {
        return NULL;
    }
    countdown->left--;
    countdown->live++;
    return malloc(bytes);
}

static void counted_free(void *user, void *memory) {
    ((struct countdown *)user)->live -= memory != NULL;
    free(memory);
}

static void any_allocation_may_fail(void **unused) {
    static struct memory_weights weights;
    l3a_status status = L3A_ERROR_MEMORY;
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        (kind ? make_resnet : make_vit)(&weights);
        const struct weight_source source = source_of(&weights);
        status = L3A_ERROR_MEMORY;
        for (long n = 0; status != L3A_OK; n++) {
            struct countdown countdown = {.left = -1};
            l3a_context_options options = {.size = sizeof options};
            l3a_context *context = NULL;
            l3a_backbone *backbone = NULL;
            options.threads = 1;
            options.allocate = counted;
            options.release = counted_free;
            options.memory_user = &countdown;
            assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
            const long before = countdown.live;
            countdown.left = n;
            status = backbone_open_from(context, &source, engine_best(), NULL, &backbone);
            assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
            l3a_backbone_free(backbone);
            assert_int_equal(countdown.live, before);
            l3a_context_free(context);
        }
    }
}

static void pictures_that_overflow_are_an_error(void **unused) {
    static struct memory_weights weights;
    l3a_context *context = make_context(1);
    l3a_backbone *backbone = NULL;
    float *pictures = make_pictures(12), features[64];
    (void)unused;
    make_vit(&weights);
    const struct weight_source source = source_of(&weights);
    assert_ok(context, backbone_open_from(context, &source, engine_best(), NULL, &backbone));
    pictures[5] = NAN;
    assert_fails(context, l3a_backbone_run(backbone, pictures, 1, features), L3A_ERROR_DATA, "picture 0: feature");
    assert_fails(context, l3a_backbone_run(backbone, NULL, 1, features), L3A_ERROR_ARGUMENT, "NULL");
    assert_ok(context, l3a_backbone_run(backbone, NULL, 0, NULL));
    l3a_backbone_free(backbone);
    l3a_backbone_free(NULL);
    free(pictures);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_do_not_depend_on_engine_or_batch), cmocka_unit_test(tensors_that_do_not_fit_are_named),
        cmocka_unit_test(options_out_of_range_are_refused), cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(pictures_that_overflow_are_an_error)};
    return cmocka_run_group_tests_name("backbones", tests, NULL, NULL);
}
