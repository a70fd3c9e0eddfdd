/* Whole backbones, small enough to make in memory: what they are recognised as, features that equal those of the naive back end
 * (naive_network.h) on every other one, however many pictures go in at once, tensors missing, too many or misshaped, bad options,
 * and every allocation failing in turn. */
#include "support.h"

#include "base/random.h"
#include "memory_probe.h"
#include "naive_network.h"
#include "net/backbone.h"
#include "small_networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 11 };

static const struct network_case {
    void (*make)(struct memory_tensors *tensors);
    l3a_pool pool;
    size_t side, width;
    const char *name, *preprocess, *pool_name;
} network_cases[] = {{make_small_vit, L3A_POOL_DEFAULT, 12, 64, "vit, width 64, depth 2, heads 1, patch 4",
                      "rgb 12x12 bilinear mean 0.5 std 0.5", "cls"},
                     {make_small_vit, L3A_POOL_CLS_MEAN, 12, 128, "vit, width 64, depth 2, heads 1, patch 4",
                      "rgb 12x12 bilinear mean 0.5 std 0.5", "cls+mean"},
                     {make_small_vit, L3A_POOL_DEFAULT, 20, 64, "vit, width 64, depth 2, heads 1, patch 4",
                      "rgb 20x20 bilinear mean 0.5 std 0.5", "cls"},
                     {make_small_resnet, L3A_POOL_DEFAULT, 40, 128, "resnet, width 16, blocks 1 1 1 1",
                      "rgb 40x40 bilinear mean 0.485,0.456,0.406 std 0.229,0.224,0.225", "average"},
                     {make_small_tresnet, L3A_POOL_DEFAULT, 40, 320, "tresnet, width 10, blocks 1 1 1 1",
                      "rgb 40x40 bilinear mean 0 std 1", "average"}};

static float *make_pictures(size_t side) {
    const size_t count = COUNT * 3 * side * side;
    float *pictures = malloc(count * sizeof *pictures);
    assert_non_null(pictures);
    for (size_t i = 0; i < count; i++) {
        pictures[i] = (float)(random_uniform(7, i) - 0.5);
    }
    return pictures;
}

/* Options with a mean, which the tensors of a vision transformer do not show. */
static l3a_backbone_options some_mean(void) {
    l3a_backbone_options options = {.size = sizeof options};
    for (size_t i = 0; i < 3; i++) {
        options.mean[i] = options.deviation[i] = 0.5F;
    }
    return options;
}

static bool is_vit(const struct network_case *test) {
    return test->make == make_small_vit;
}

static l3a_status open_case(l3a_context *context, const struct network_case *test, const struct network_back_end *back_end,
                            l3a_backbone **backbone) {
    static struct memory_tensors tensors;
    l3a_backbone_options options = {.size = sizeof options};
    options = is_vit(test) ? some_mean() : options;
    test->make(&tensors);
    const struct parameter_source source = tensors_source(&tensors, read_small);
    options.side = test->side;
    options.pool = test->pool;
    return backbone_open_from(context, &source, back_end, &options, backbone);
}

static float *features_of(l3a_context *context, const struct network_case *test, const struct network_back_end *back_end,
                          bool singly) {
    l3a_backbone *backbone = NULL;
    float *pictures = make_pictures(test->side), *features = malloc(COUNT * test->width * sizeof *features);
    assert_ok(context, open_case(context, test, back_end, &backbone));
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    assert_string_equal(info->name, test->name);
    assert_string_equal(info->preprocess, test->preprocess);
    assert_string_equal(info->pool, test->pool_name);
    assert_string_equal(info->engine, back_end->name);
    assert_int_equal(info->width, test->width);
    for (size_t i = 0; i < (singly ? COUNT : 1); i++) {
        assert_ok(context, l3a_backbone_run(backbone, pictures + i * 3 * test->side * test->side, singly ? 1 : COUNT,
                                            features + i * test->width));
    }
    l3a_backbone_free(backbone);
    free(pictures);
    return features;
}

static void assert_close(const float *left, const float *right, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_true(fabsf(left[i] - right[i]) <= 1e-5F * (1 + fabsf(left[i])));
    }
}

static void features_do_not_depend_on_back_end_or_batch(void **unused) {
    l3a_context *context = make_context(2);
    (void)unused;
    for (size_t i = 0; i < sizeof network_cases / sizeof *network_cases; i++) {
        const struct network_case *test = &network_cases[i];
        const struct network_back_end *back_end;
        float *reference = features_of(context, test, &naive_back_end, false);
        for (size_t j = 0; (back_end = network_back_end_at(j)); j++) {
            if (back_end->available()) {
                float *together = features_of(context, test, back_end, false);
                float *singly = features_of(context, test, back_end, true), *again = features_of(context, test, back_end, true);
                assert_close(reference, together, COUNT * test->width);
                assert_close(reference, singly, COUNT * test->width);
                assert_memory_equal(singly, again, COUNT * test->width * sizeof *again);
                free(together);
                free(singly);
                free(again);
            }
        }
        free(reference);
    }
    l3a_context_free(context);
}

/* A second backbone with the parameters of the first computes the same numbers, whether the first has run or not. */
static void shared_parameters_give_the_same_features(void **unused) {
    (void)unused;
    for (size_t i = 0; i < 2 * sizeof network_cases / sizeof *network_cases; i++) {
        const struct network_case *test = &network_cases[i / 2];
        const struct network_back_end *back_end;
        for (size_t j = 0; (back_end = network_back_end_at(j)); j++) {
            const int threads = 1 + (int)(i % 2);
            l3a_context *context = make_context(threads), *other = NULL;
            l3a_backbone *first = NULL, *second = NULL;
            const size_t numbers = COUNT * test->width;
            float *pictures = make_pictures(test->side), *expected = malloc(numbers * sizeof *expected),
                  *features = malloc(numbers * sizeof *features);
            if (back_end->available()) {
                assert_ok(context, open_case(context, test, back_end, &first));
                assert_ok(context, context_fork(context, threads, false, &other));
                assert_ok(other, backbone_share(other, first, &second));
                assert_string_equal(l3a_backbone_describe(second)->name, test->name);
                assert_int_equal(l3a_backbone_describe(second)->width, test->width);
                assert_ok(other, l3a_backbone_run(second, pictures, COUNT, features));
                assert_ok(context, l3a_backbone_run(first, pictures, COUNT, expected));
                assert_memory_equal(features, expected, numbers * sizeof *features);
            }
            l3a_backbone_free(second);
            l3a_backbone_free(first);
            l3a_context_free(other);
            l3a_context_free(context);
            free(pictures);
            free(expected);
            free(features);
        }
    }
}

static void assert_refused(l3a_context *context, struct memory_tensors *tensors, const l3a_backbone_options *options,
                           l3a_status expected, const char *contains) {
    const struct parameter_source source = tensors_source(tensors, read_small);
    l3a_backbone *backbone = NULL;
    const l3a_backbone_options usual = some_mean();
    assert_fails(context, backbone_open_from(context, &source, network_back_end_best(), options ? options : &usual, &backbone),
                 expected, contains);
    assert_null(backbone);
}

static void tensors_that_do_not_fit_are_named(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    (void)unused;
    make_small_resnet(&tensors);
    tensors_add(&tensors, "", "layer1.0.extra.weight", 1, 3, 0, 0, 0);
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH, "layer1.0.extra.weight of shape [3] is not part of");
    make_small_resnet(&tensors);
    tensors.tensors[7].name = "elsewhere";
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH, "layer1.0.bn1.weight is missing; expected one of shape [16]");
    make_small_vit(&tensors);
    tensors.tensors[6].shape[1] = 65;
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH, "blocks.0.attn.qkv.weight has shape [192, 65]; expected [192, 64]");
    make_small_vit(&tensors);
    for (size_t i = 0; i < tensors.count; i++) {
        const bool token = strcmp(tensors.tensors[i].name, "cls_token") == 0;
        tensors.tensors[i].name = token ? "head.elsewhere" : tensors.tensors[i].name;
    }
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH,
                   "without a cls_token, which is missing, a square number is expected");
    make_small_vit(&tensors);
    tensors.tensors[6].type = "I8";
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH, "blocks.0.attn.qkv.weight has integers (I8), as quantised");
    tensors.count = 0;
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH, "not those of a known network");
    l3a_context_free(context);
}

/* Only the sizes of a few networks say how wide a head is. A model that has used another one goes on with heads of 64. */
static void heads_that_cannot_be_known_are_refused(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    l3a_backbone *backbone = NULL;
    (void)unused;
    make_small_vit_of(&tensors, 3);
    assert_refused(context, &tensors, NULL, L3A_ERROR_MISMATCH,
                   "width 64 and depth 3, and its tensors do not show how many attention heads");
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true;
    assert_ok(context, backbone_open_from(context, &source, network_back_end_best(), NULL, &backbone));
    assert_string_equal(l3a_backbone_describe(backbone)->name, "vit, width 64, depth 3, heads 1, patch 4");
    l3a_backbone_free(backbone);
    l3a_context_free(context);
}

static void a_mean_that_cannot_be_known_is_asked_for(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    l3a_backbone *backbone = NULL;
    const l3a_backbone_options options = {.size = sizeof options};
    (void)unused;
    make_small_vit(&tensors);
    assert_refused(context, &tensors, &options, L3A_ERROR_MISMATCH, "do not show with which mean and deviation");
    assert_non_null(strstr(l3a_error_hint(context), "--mean, --std"));
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true; /* as earlier versions prepared its pictures */
    assert_ok(context, backbone_open_from(context, &source, network_back_end_best(), &options, &backbone));
    assert_string_equal(l3a_backbone_describe(backbone)->preprocess, "rgb 12x12 bilinear mean 0.5 std 0.5");
    l3a_backbone_free(backbone);
    l3a_context_free(context);
}

static void options_out_of_range_are_refused(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    l3a_backbone_options options = {.size = sizeof options};
    (void)unused;
    make_small_resnet(&tensors);
    options.pool = L3A_POOL_MEAN;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION, "a resnet cannot give the pool mean");
    make_small_vit(&tensors);
    options.side = 18;
    assert_refused(context, &tensors, &options, L3A_ERROR_MISMATCH, "it can take 16 x 16");
    options.side = 2;
    assert_refused(context, &tensors, &options, L3A_ERROR_MISMATCH, "it can take 4 x 4");
    options.side = 0;
    options.mean[0] = options.mean[1] = options.mean[2] = 0.5F;
    options.deviation[0] = options.deviation[2] = 1;
    options.deviation[1] = 0;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION, "deviation");
    options = some_mean();
    options.heads = 5;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION, "5 heads do not divide the width of 64");
    options.heads = 0;
    options.layer = 3;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION, "this network has 2 blocks");
    options.layer = 0;
    options.pool = L3A_POOL_MAP;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION,
                   "does not have the pool \"map\"; it has cls, mean, cls+mean, max");
    options.pool = (l3a_pool)7;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION, "there is no pool 7");
    options.pool = L3A_POOL_DEFAULT;
    options.crop = 1.5;
    assert_refused(context, &tensors, &options, L3A_ERROR_OPTION, "from 0 to 1");
    l3a_context_free(context);
}

/* Opens a backbone and computes a feature with only n allocations. Whatever fails, nothing is left. */
static l3a_status run_with(size_t n, const struct network_case *test, const struct network_back_end *back_end,
                           const float *picture) {
    struct memory_probe probe = {0};
    l3a_context *context = make_probed_context(&probe, 1);
    l3a_backbone *backbone = NULL;
    float features[320];
    const long before = probe.blocks;
    probe_restart(&probe, n + 1, true);
    l3a_status status = open_case(context, test, back_end, &backbone);
    assert_true(status == L3A_OK || !backbone);
    if (status == L3A_OK) {
        status = l3a_backbone_run(backbone, picture, 1, features);
    }
    assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
    l3a_backbone_free(backbone);
    assert_int_equal(probe.blocks, before);
    l3a_context_free(context);
    return status;
}

static void any_allocation_may_fail(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof network_cases / sizeof *network_cases; i++) {
        float *pictures = make_pictures(network_cases[i].side);
        const struct network_back_end *back_end = &naive_back_end;
        for (size_t j = 0; back_end; back_end = network_back_end_at(j++)) {
            size_t n = 0;
            while (back_end->available() && run_with(n, &network_cases[i], back_end, pictures) != L3A_OK) {
                n++;
            }
            assert_true(n > 50 || !back_end->available());
        }
        free(pictures);
    }
}

/* The first back end that this build and machine have is used; the last is always there. */
static void the_first_available_back_end_is_chosen(void **unused) {
    const struct network_back_end *best = network_back_end_best();
    size_t count = 0, first = 0;
    (void)unused;
    while (network_back_end_at(count)) {
        count++;
    }
    assert_true(network_back_end_at(count - 1)->available());
    while (!network_back_end_at(first)->available()) {
        first++;
    }
    assert_ptr_equal(best, network_back_end_at(first));
}

static l3a_status broken_run(void *state, const float *pictures, size_t count, float *const *outputs) {
    (void)state, (void)pictures, (void)count, (void)outputs;
    return L3A_ERROR_STATE;
}

static void a_back_end_that_fails_is_reported(void **unused) {
    struct network_back_end broken = naive_back_end;
    l3a_context *context = make_context(1);
    l3a_backbone *backbone = NULL;
    float *pictures = make_pictures(12), features[64];
    (void)unused;
    broken.run = broken_run;
    assert_ok(context, open_case(context, &network_cases[0], &broken, &backbone));
    assert_int_equal(l3a_backbone_run(backbone, pictures, 1, features), L3A_ERROR_STATE);
    l3a_backbone_free(backbone);
    free(pictures);
    l3a_context_free(context);
}

static void pictures_that_overflow_are_an_error(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    l3a_backbone *backbone = NULL;
    float *pictures = make_pictures(12), features[64];
    (void)unused;
    make_small_vit(&tensors);
    const struct parameter_source source = tensors_source(&tensors, read_small);
    const l3a_backbone_options options = some_mean();
    assert_ok(context, backbone_open_from(context, &source, network_back_end_best(), &options, &backbone));
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(features_do_not_depend_on_back_end_or_batch),
                                       cmocka_unit_test(shared_parameters_give_the_same_features),
                                       cmocka_unit_test(tensors_that_do_not_fit_are_named),
                                       cmocka_unit_test(heads_that_cannot_be_known_are_refused),
                                       cmocka_unit_test(a_mean_that_cannot_be_known_is_asked_for),
                                       cmocka_unit_test(options_out_of_range_are_refused),
                                       cmocka_unit_test(any_allocation_may_fail),
                                       cmocka_unit_test(the_first_available_back_end_is_chosen),
                                       cmocka_unit_test(a_back_end_that_fails_is_reported),
                                       cmocka_unit_test(pictures_that_overflow_are_an_error)};
    return cmocka_run_group_tests_name("backbones", tests, NULL, NULL);
}
