/* Backbones: recognises the network in a checkpoint, says what pictures it takes, and computes features for any number of them.
 *
 * Pictures are computed in batches of the family's size. The rest are computed one at a time, with a second program that shares
 * the weights of the first. */
#include "net/backbone.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/sized.h"
#include "base/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64, LARGEST_SIDE = 4096 };

/* The first that matches is used. */
static const struct family *const families[] = {&vit_family, &tresnet_family, &resnet_family};

const struct engine *engine_best(void) {
#ifdef L3A_HAVE_ONEDNN
    return &onednn_engine;
#else
    return &blas_engine;
#endif
}

/* Whether the options have a mean and a deviation of their own, instead of the family's. */
static bool sets_mean(const l3a_backbone_options *options) {
    bool set = false;
    for (size_t i = 0; i < 3; i++) {
        set = set || options->mean[i] != 0 || options->deviation[i] != 0;
    }
    return set;
}

static l3a_status check_options(l3a_context *context, const l3a_backbone_options *options) {
    l3a_status status = L3A_OK;
    FAIL_IF((unsigned)options->pool > L3A_POOL_CLS_MEAN, context, L3A_ERROR_OPTION, NULL, "there is no pool %d",
            (int)options->pool);
    FAIL_IF((unsigned)options->filter > L3A_FILTER_BICUBIC, context, L3A_ERROR_OPTION, NULL, "there is no filter %d",
            (int)options->filter);
    FAIL_IF(options->side > LARGEST_SIDE, context, L3A_ERROR_OPTION, NULL,
            "pictures of %zu x %zu are too large; the side can be at most %d", options->side, options->side, LARGEST_SIDE);
    for (size_t i = 0; sets_mean(options) && i < 3; i++) {
        FAIL_IF(!isfinite(options->mean[i]) || !isfinite(options->deviation[i]) || !(options->deviation[i] > 0), context,
                L3A_ERROR_OPTION, NULL, "the mean and the deviation must be finite, and the deviation must be positive");
    }
done:
    return status;
}

static const char *pool_name(const struct family *family, l3a_pool pool) {
    return !family->pools ? "average" : pool == L3A_POOL_MEAN ? "mean" : pool == L3A_POOL_CLS_MEAN ? "cls+mean" : "cls";
}

static size_t print_three(char *text, size_t capacity, const char *name, const float values[3]) {
    char numbers[3][NUMBER_TEXT];
    for (size_t i = 0; i < 3; i++) {
        snprintf(numbers[i], NUMBER_TEXT, "%.6g", (double)values[i]);
        char *comma = strchr(numbers[i], ',');
        if (comma) {
            *comma = '.';
        }
    }
    const bool same = strcmp(numbers[0], numbers[1]) == 0 && strcmp(numbers[1], numbers[2]) == 0;
    const int length = same ? snprintf(text, capacity, " %s %s", name, numbers[0])
                            : snprintf(text, capacity, " %s %s,%s,%s", name, numbers[0], numbers[1], numbers[2]);
    return (size_t)length < capacity ? (size_t)length : capacity;
}

static void fill_info(l3a_backbone *backbone, const struct family *family, const struct backbone_recipe *recipe,
                      const l3a_backbone_options *options) {
    l3a_backbone_info *info = &backbone->info;
    info->family = family->name;
    memcpy(info->name, recipe->name, sizeof info->name);
    info->size = recipe->side;
    info->width = backbone->network.shapes[backbone->network.output].channels;
    info->parameters = backbone->network.parameters;
    info->flops = backbone->network.flops;
    memcpy(info->mean, sets_mean(options) ? options->mean : family->mean, sizeof info->mean);
    memcpy(info->deviation, sets_mean(options) ? options->deviation : family->deviation, sizeof info->deviation);
    info->filter = options->filter;
    info->pool = pool_name(family, recipe->pool);
    info->engine = backbone->engine->name;
    size_t length = (size_t)snprintf(info->preprocess, sizeof info->preprocess, "rgb %zux%zu %s", info->size, info->size,
                                     info->filter == L3A_FILTER_BICUBIC ? "bicubic" : "bilinear");
    length += print_three(info->preprocess + length, sizeof info->preprocess - length, "mean", info->mean);
    print_three(info->preprocess + length, sizeof info->preprocess - length, "std", info->deviation);
}

static l3a_status find_family(const struct weights *weights, const struct family **family) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i]->matches(weights)) {
            *family = families[i];
            return L3A_OK;
        }
    }
    const struct checkpoint_tensor *first = weights->source.count ? weights->source.at(weights->source.owner, 0) : NULL;
    return fail(weights->context, L3A_ERROR_MISMATCH,
                "use a ViT, ResNet or TResNet checkpoint with the tensor names of timm or torchvision",
                "these %zu tensors are not those of a known network (the first is %s)", weights->source.count,
                first ? first->name : "missing");
}

/* Once the engine has packed the weights of its layers, the plain weights are no longer needed. */
static void drop_plain_weights(struct network *net) {
    for (size_t i = 0; i < net->layer_count; i++) {
        if (net->layers[i].kind == LAYER_CONVOLUTION || net->layers[i].kind == LAYER_LINEAR) {
            release(net->context, net->layers[i].weight);
            net->layers[i].weight = NULL;
        }
    }
}

static l3a_status make_programs(l3a_backbone *backbone, size_t batch) {
    l3a_context *context = backbone->context;
    const uint64_t limit = context->options.memory_limit ? context->options.memory_limit : machine_memory_available();
    l3a_status status = L3A_OK;
    TRY(backbone->engine->open(context, &backbone->state));
    TRY(program_open(&backbone->network, backbone->engine, backbone->state, batch, NULL, &backbone->many));
    TRY(program_open(&backbone->network, backbone->engine, backbone->state, 1, &backbone->many, &backbone->one));
    drop_plain_weights(&backbone->network);
    const size_t floats = backbone->many.arena > backbone->one.arena ? backbone->many.arena : backbone->one.arena;
    FAIL_IF(limit && floats > limit / sizeof(float), context, L3A_ERROR_MEMORY, "use smaller pictures",
            "the network needs %" PRIu64 " MiB of working memory; the limit is %" PRIu64 " MiB",
            (uint64_t)floats * sizeof(float) >> 20, limit >> 20);
    TRY(allocate(context, floats * sizeof(float) + ALIGNMENT, 1, &backbone->memory));
    backbone->arena = (float *)(((uintptr_t)backbone->memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
done:
    return status;
}

static l3a_status build(l3a_backbone *backbone, const struct weight_source *source, const l3a_backbone_options *options) {
    l3a_context *context = backbone->context;
    const struct family *family = NULL;
    struct backbone_recipe recipe = {.side = options->side, .pool = options->pool};
    struct weights weights = {0};
    l3a_status status = L3A_OK;
    TRY(check_options(context, options));
    TRY(weights_open(context, source, &weights));
    TRY(find_family(&weights, &family));
    FAIL_IF(!family->pools && options->pool != L3A_POOL_DEFAULT, context, L3A_ERROR_OPTION, "use the default pool",
            "the pool can only be chosen for a vision transformer, but this network is a %s", family->name);
    TRY(family->recognise(&weights, &recipe));
    network_start(context, &weights, recipe.side, &backbone->network);
    TRY(network_finish(&backbone->network, family->describe(&backbone->network, &recipe)));
    TRY(weights_check_all_used(&weights, recipe.name));
    fill_info(backbone, family, &recipe, options);
    TRY(make_programs(backbone, family->batch));
done:
    backbone->network.weights = NULL;
    weights_close(&weights);
    return status;
}

l3a_status backbone_open_from(l3a_context *context, const struct weight_source *source, const struct engine *engine,
                              const l3a_backbone_options *options, l3a_backbone **backbone) {
    l3a_backbone_options own;
    l3a_backbone *made = NULL;
    l3a_status status = L3A_OK;
    const int threads = threads_use(context->threads);
    TRY(READ_SIZED(context, options, own));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->engine = engine;
    TRY(build(made, source, &own));
    *backbone = made;
    made = NULL;
done:
    l3a_backbone_free(made);
    threads_use(threads);
    return status;
}

l3a_status l3a_backbone_open(l3a_context *context, const char *path, const l3a_backbone_options *options, l3a_backbone **backbone) {
    struct checkpoint *checkpoint = NULL;
    struct weight_source source;
    l3a_backbone *made = NULL;
    l3a_backbone_options own;
    l3a_status status = L3A_OK;
    NEED(context, context, path, backbone);
    TRY(READ_SIZED(context, options, own));
    TRY(checkpoint_open(context, path, &checkpoint));
    weight_source_checkpoint(checkpoint, &source);
    status = backbone_open_from(context, &source, engine_best(), &own, &made);
    if (status != L3A_OK) {
        status = fail_in(context, status, "%s", path);
        goto done;
    }
    TRY(checkpoint_sha256(checkpoint, made->info.sha256));
    *backbone = made;
    made = NULL;
done:
    l3a_backbone_free(made);
    checkpoint_free(checkpoint);
    return status;
}

void l3a_backbone_free(l3a_backbone *backbone) {
    if (backbone) {
        l3a_context *context = backbone->context;
        program_close(&backbone->one);
        program_close(&backbone->many);
        if (backbone->state) {
            backbone->engine->close(backbone->state);
        }
        network_free(&backbone->network);
        release(context, backbone->memory);
        release(context, backbone);
    }
}

const l3a_backbone_info *l3a_backbone_describe(const l3a_backbone *backbone) {
    return backbone ? &backbone->info : NULL;
}

static l3a_status check_finite(l3a_context *context, const float *features, size_t count, size_t width) {
    for (size_t i = 0; i < count * width; i++) {
        if (!isfinite(features[i])) {
            return fail(context, L3A_ERROR_DATA, "check that the pictures are scaled as the network expects",
                        "picture %zu: feature %zu is not finite", i / width, i % width);
        }
    }
    return L3A_OK;
}

l3a_status l3a_backbone_run(l3a_backbone *backbone, const float *pictures, size_t count, float *features) {
    if (!backbone) {
        return L3A_ERROR_ARGUMENT;
    }
    l3a_context *context = backbone->context;
    const size_t picture = 3 * backbone->info.size * backbone->info.size, width = backbone->info.width;
    const int threads = threads_use(context->threads);
    l3a_status status = L3A_OK;
    FAIL_IF(count && (!pictures || !features), context, L3A_ERROR_ARGUMENT, NULL,
            "l3a_backbone_run: pictures and features may not be NULL");
    for (size_t i = 0; i < count;) {
        const struct program *program = count - i >= backbone->many.batch ? &backbone->many : &backbone->one;
        TRY(program_run(program, pictures + i * picture, backbone->arena, features + i * width));
        i += program->batch;
    }
    TRY(check_finite(context, features, count, width));
done:
    threads_use(threads);
    return status;
}
