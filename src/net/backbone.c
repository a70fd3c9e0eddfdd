/* Backbones: recognises the network in a checkpoint, says what pictures it takes, and has a back end compute their features. */
#include "net/backbone.h"
#include "base/memory.h"
#include "common/number.h"
#include "base/sized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LARGEST_SIDE = 4096 };

/* The first that matches is used. */
static const struct family *const families[] = {&vit_family, &tresnet_family, &resnet_family};

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
        number_use_point(numbers[i]);
    }
    const bool same = strcmp(numbers[0], numbers[1]) == 0 && strcmp(numbers[1], numbers[2]) == 0;
    const int length = same ? snprintf(text, capacity, " %s %s", name, numbers[0])
                            : snprintf(text, capacity, " %s %s,%s,%s", name, numbers[0], numbers[1], numbers[2]);
    return (size_t)length < capacity ? (size_t)length : capacity;
}

static void fill_info(const struct family *family, const struct backbone_recipe *recipe, const struct network *network,
                      const l3a_backbone_options *options, l3a_backbone_info *info) {
    info->family = family->name;
    memcpy(info->name, recipe->name, sizeof info->name);
    info->size = recipe->side;
    info->width = network->shapes[network->output].channels;
    info->parameters = network->parameter_count;
    info->flops = network->flops;
    memcpy(info->mean, sets_mean(options) ? options->mean : family->mean, sizeof info->mean);
    memcpy(info->deviation, sets_mean(options) ? options->deviation : family->deviation, sizeof info->deviation);
    info->filter = options->filter;
    info->pool = pool_name(family, recipe->pool);
    size_t length = (size_t)snprintf(info->preprocess, sizeof info->preprocess, "rgb %zux%zu %s", info->size, info->size,
                                     info->filter == L3A_FILTER_BICUBIC ? "bicubic" : "bilinear");
    length += print_three(info->preprocess + length, sizeof info->preprocess - length, "mean", info->mean);
    print_three(info->preprocess + length, sizeof info->preprocess - length, "std", info->deviation);
}

/* Reads " NAME A" or " NAME A,B,C" from the text, and moves past it. */
static bool parse_three(const char **text, const char *name, float values[3]) {
    const size_t length = strlen(name);
    if (strncmp(*text, name, length) != 0) {
        return false;
    }
    *text += length;
    for (size_t i = 0; i < 3; i++) {
        double number;
        const size_t digits = strcspn(*text, ", ");
        if (!number_parse(*text, digits, &number)) {
            return false;
        }
        *text += digits;
        values[i] = (float)number;
        if (i == 0 && **text != ',') {
            values[1] = values[2] = values[0];
            return true;
        }
        if (i < 2 && *(*text)++ != ',') {
            return false;
        }
    }
    return true;
}

bool backbone_options_parse(const char *preprocess, const char *pool, l3a_backbone_options *options, const char **rest) {
    l3a_backbone_options made = {.size = sizeof made};
    const char *text = preprocess;
    char filter[16];
    size_t height = 0;
    int length = 0;
    if (sscanf(text, "rgb %5zux%5zu %15[a-z]%n", &made.side, &height, filter, &length) != 3 || made.side != height) {
        return false;
    }
    text += length;
    made.filter = strcmp(filter, "bicubic") == 0 ? L3A_FILTER_BICUBIC : L3A_FILTER_BILINEAR;
    if (!parse_three(&text, " mean ", made.mean) || !parse_three(&text, " std ", made.deviation)) {
        return false;
    }
    made.pool = !pool                           ? L3A_POOL_DEFAULT
                : strcmp(pool, "cls") == 0      ? L3A_POOL_CLS
                : strcmp(pool, "mean") == 0     ? L3A_POOL_MEAN
                : strcmp(pool, "cls+mean") == 0 ? L3A_POOL_CLS_MEAN
                                                : L3A_POOL_DEFAULT;
    *options = made;
    *rest = text;
    return true;
}

static l3a_status find_family(const struct parameters *parameters, const struct family **family) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i]->matches(parameters)) {
            *family = families[i];
            return L3A_OK;
        }
    }
    const struct checkpoint_tensor *first = parameters->source.count ? parameters->source.at(parameters->source.owner, 0) : NULL;
    return fail(parameters->context, L3A_ERROR_MISMATCH,
                "use a ViT, ResNet or TResNet checkpoint with the tensor names of timm or torchvision",
                "these %zu tensors are not those of a known network (the first is %s)", parameters->source.count,
                first ? first->name : "missing");
}

l3a_status backbone_read(l3a_context *context, const struct parameter_source *source, const l3a_backbone_options *options,
                         const struct family **family, struct backbone_recipe *recipe, struct network *network) {
    struct parameters parameters = {0};
    l3a_status status = L3A_OK;
    *recipe = (struct backbone_recipe){.side = options->side, .pool = options->pool};
    *network = (struct network){0};
    TRY(check_options(context, options));
    TRY(parameters_open(context, source, &parameters));
    TRY(find_family(&parameters, family));
    FAIL_IF(!(*family)->pools && options->pool != L3A_POOL_DEFAULT, context, L3A_ERROR_OPTION, "use the default pool",
            "the pool can only be chosen for a vision transformer, but this network is a %s", (*family)->name);
    TRY((*family)->recognise(&parameters, recipe));
    network_start(context, &parameters, recipe->side, network);
    TRY(network_finish(network, (*family)->describe(network, recipe)));
    TRY(parameters_check_all_used(&parameters, recipe->name));
done:
    network->parameters = NULL;
    parameters_close(&parameters);
    return status;
}

l3a_status backbone_open_from(l3a_context *context, const struct parameter_source *source, const struct network_back_end *back_end,
                              const l3a_backbone_options *options, l3a_backbone **backbone) {
    l3a_backbone_options own;
    struct backbone_recipe recipe;
    const struct family *family = NULL;
    struct network network = {0};
    l3a_backbone *made = NULL;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(context, options, own));
    TRY(backbone_read(context, source, &own, &family, &recipe, &network));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->back_end = back_end;
    fill_info(family, &recipe, &network, &own, &made->info);
    made->info.engine = back_end->name;
    TRY(back_end->open(&network, &made->state));
    *backbone = made;
    made = NULL;
done:
    l3a_backbone_free(made);
    network_free(&network);
    return status;
}

l3a_status backbone_share(l3a_context *context, const l3a_backbone *first, l3a_backbone **backbone) {
    l3a_backbone *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->back_end = first->back_end;
    made->info = first->info;
    TRY(made->back_end->share(context, first->state, &made->state));
    *backbone = made;
    made = NULL;
done:
    l3a_backbone_free(made);
    return status;
}

/* recorded: a model was learned with it */
static l3a_status open_checkpoint(l3a_context *context, struct checkpoint *checkpoint, bool recorded,
                                  const l3a_backbone_options *options, l3a_backbone **backbone) {
    struct parameter_source source;
    parameter_source_checkpoint(checkpoint, &source);
    source.recorded = recorded;
    const l3a_status status = backbone_open_from(context, &source, network_back_end_best(), options, backbone);
    return status == L3A_OK ? L3A_OK : fail_in(context, status, "%s", checkpoint_path(checkpoint));
}

l3a_status l3a_backbone_open(l3a_context *context, const char *path, const l3a_backbone_options *options, l3a_backbone **backbone) {
    struct checkpoint *checkpoint = NULL;
    l3a_backbone *made = NULL;
    l3a_backbone_options own;
    l3a_status status = L3A_OK;
    NEED(context, context, path, backbone);
    TRY(READ_SIZED(context, options, own));
    TRY(checkpoint_open(context, path, &checkpoint));
    TRY(open_checkpoint(context, checkpoint, false, &own, &made));
    TRY(checkpoint_sha256(checkpoint, made->info.sha256));
    *backbone = made;
    made = NULL;
done:
    l3a_backbone_free(made);
    checkpoint_free(checkpoint);
    return status;
}

l3a_status backbone_open_known(l3a_context *context, const char *path, const char *sha256, const l3a_backbone_options *options,
                               char found[65], l3a_backbone **backbone) {
    struct checkpoint *checkpoint = NULL;
    l3a_status status = L3A_OK;
    *backbone = NULL;
    TRY(checkpoint_open(context, path, &checkpoint));
    TRY(checkpoint_sha256(checkpoint, found));
    if (!sha256 || strcmp(sha256, found) == 0) {
        TRY(open_checkpoint(context, checkpoint, sha256 != NULL, options, backbone));
        memcpy((*backbone)->info.sha256, found, sizeof(*backbone)->info.sha256);
    }
done:
    checkpoint_free(checkpoint);
    return status;
}

l3a_status backbone_open_inside(l3a_context *context, const char *path, const char *prefix, const char *sha256,
                                const l3a_backbone_options *options, l3a_backbone **backbone) {
    struct checkpoint *checkpoint = NULL;
    l3a_status status = L3A_OK;
    TRY(checkpoint_open_inside(context, path, prefix, &checkpoint));
    TRY(checkpoint_verify(checkpoint));
    TRY(open_checkpoint(context, checkpoint, true, options, backbone));
    snprintf((*backbone)->info.sha256, sizeof(*backbone)->info.sha256, "%s", sha256 ? sha256 : "");
done:
    checkpoint_free(checkpoint);
    return status;
}

const char *l3a_backbone_engine(void) {
    return network_back_end_best()->name;
}

void l3a_backbone_free(l3a_backbone *backbone) {
    if (backbone) {
        if (backbone->state) {
            backbone->back_end->close(backbone->state);
        }
        release(backbone->context, backbone);
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
    REQUIRE(backbone, backbone);
    if (count) {
        REQUIRE(backbone, pictures, features);
    }
    l3a_context *context = backbone->context;
    l3a_status status = L3A_OK;
    TRY(backbone->back_end->run(backbone->state, pictures, count, features));
    TRY(check_finite(context, features, count, backbone->info.width));
done:
    return status;
}
