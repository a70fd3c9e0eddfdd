/* Backbones: recognises the network in a checkpoint, says what pictures it takes, and has a back end compute their features. */
#include "net/backbone.h"
#include "net/fuse.h"
#include "net/names.h"
#include "net/recipe.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "base/sized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The first that matches is used. */
static const struct family *const families[] = {&vit_family, &tresnet_family, &resnet_family, &convnext_family};

static l3a_status find_family(const struct parameters *parameters, const struct family **family) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i]->matches(parameters)) {
            *family = families[i];
            return L3A_OK;
        }
    }
    const struct checkpoint_tensor *first = parameters->source.count ? parameters->source.at(parameters->source.owner, 0) : NULL;
    return fail(parameters->context, L3A_ERROR_MISMATCH,
                "use a checkpoint of a ViT, ResNet, TResNet or ConvNeXt, as docs/backbones.md lists them",
                "these %zu tensors are not those of a known network (the first is %s)", parameters->source.count,
                first ? first->name : "missing");
}

/* ---- Where the recipe comes from ---- */

/* Checkpoints whose mean and deviation are known although nothing beside them says so. */
static const struct {
    const char *sha256;
    float mean, deviation;
} known[] = {
    /* timm's vit_tiny_patch16_224, whose published configuration says 0.5 */
    {"00cf5b85f82484b1958c817bdd80d460d0da827f00ef0a48c2dc493b9d12d8d3", 0.5F, 0.5F},
};

static bool has_mean(const struct backbone_recipe *recipe) {
    return recipe->deviation[0] > 0;
}

/* Reading the whole file takes a moment, so this comes last. */
static l3a_status take_known_mean(struct checkpoint *file, struct backbone_recipe *recipe, struct recipe_sources *sources) {
    char sha256[65];
    l3a_status status = L3A_OK;
    TRY(checkpoint_sha256(file, sha256));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].sha256, sha256) == 0) {
            for (size_t c = 0; c < 3; c++) {
                recipe->mean[c] = known[i].mean;
                recipe->deviation[c] = known[i].deviation;
            }
            sources->mean = "the table of known files";
        }
    }
done:
    return status;
}

/* What stands beside the file. A model that was learned with the network has recorded what counts. */
static l3a_status take_configuration(l3a_context *context, struct checkpoint *file, bool published, struct reading *reading) {
    struct config_geometry geometry = {0};
    l3a_status status = L3A_OK;
    TRY(config_apply(context, file, &reading->recipe, &reading->sources, &geometry));
    if (published && !reading->sources.recorded) {
        TRY(config_check_geometry(context, file, &geometry));
        config_take_crop(&geometry, &reading->recipe);
        reading->recipe.filter = geometry.has_filter ? geometry.filter : reading->recipe.filter;
    }
done:
    return status;
}

/* "size, mean from config.json; heads, activation as usual" */
static void list_decisions(const struct backbone_recipe *given, struct reading *reading) {
    const struct backbone_recipe *recipe = &reading->recipe;
    const struct recipe_sources *from = &reading->sources;
    const struct {
        const char *name, *source;
        bool given, there;
    } decisions[] = {
        {"size", from->side, given->side > 0, true},
        {"mean", from->mean, has_mean(given), true},
        {"heads", from->heads, given->heads > 0, recipe->heads > 0},
        {"activation", from->activation, given->activation != LINEAR_ACTIVATION, recipe->activation != LINEAR_ACTIVATION},
        {"epsilon", from->epsilon, given->epsilon > 0, true}};
    enum { DECISIONS = sizeof decisions / sizeof *decisions };
    static const char usual[] = "as usual", option[] = "as given";
    const char *sources[DECISIONS];
    char *text = reading->decided;
    size_t length = 0;
    for (size_t i = 0; i < DECISIONS; i++) {
        sources[i] = !decisions[i].there ? NULL : decisions[i].given ? option : decisions[i].source ? decisions[i].source : usual;
    }
    for (size_t i = 0; i < DECISIONS; i++) {
        const char *source = sources[i];
        for (size_t j = i; source && j < DECISIONS && length < sizeof reading->decided; j++) {
            if (sources[j] && strcmp(sources[j], source) == 0) {
                length += (size_t)snprintf(text + length, sizeof reading->decided - length, "%s%s",
                                           j > i    ? ", "
                                           : length ? "; "
                                                    : "",
                                           decisions[j].name);
                sources[j] = j > i ? NULL : sources[j];
            }
        }
        if (source && length < sizeof reading->decided) {
            length += (size_t)snprintf(text + length, sizeof reading->decided - length, " %s%s",
                                       source == usual || source == option ? "" : "from ", source);
        }
    }
}

/* A configuration that was left behind by another network would be believed otherwise. */
static l3a_status check_family(l3a_context *context, const struct reading *reading) {
    const struct recipe_sources *sources = &reading->sources;
    l3a_status status = L3A_OK;
    FAIL_IF(sources->family && strcmp(sources->family, reading->family->name) != 0, context, L3A_ERROR_MISMATCH,
            "give each network a folder of its own, with its own configuration",
            "%s is that of a %s, but these tensors are those of a %s", sources->of_family, sources->family, reading->family->name);
done:
    return status;
}

/* ---- Reading and opening ---- */

static value describe_network(const struct network_changes *changes, struct reading *reading) {
    return changes->describe ? changes->describe(changes->owner, &reading->network, reading->family, &reading->recipe)
                             : reading->family->describe(&reading->network, &reading->recipe);
}

/* Recognises the network in a table of tensors that have timm's names, and describes it. */
static l3a_status describe(l3a_context *context, struct names *names, struct checkpoint *file, bool recorded,
                           const struct network_changes *changes, struct reading *reading) {
    struct parameter_source source;
    struct parameters parameters = {0};
    text_builder skipped = {.context = context};
    l3a_status status = L3A_OK;
    names_source(names, &source);
    source.recorded = recorded;
    TRY(parameters_open(context, &source, &parameters));
    TRY(find_family(&parameters, &reading->family));
    TRY(check_family(context, reading));
    if (names_are_imagenets(names)) {
        recipe_set_imagenet(&reading->recipe);
    }
    TRY(reading->family->recognise(&parameters, &reading->recipe));
    if (file && !recorded && !has_mean(&reading->recipe)) {
        TRY(take_known_mean(file, &reading->recipe, &reading->sources));
    }
    TRY(recipe_check(context, reading->family, &reading->recipe));
    parameters.maker = (struct parameter_maker){changes->owner, changes->make};
    network_start(context, &parameters, reading->recipe.side, &reading->network);
    TRY(network_finish(&reading->network, describe_network(changes, reading)));
    TRY(parameters_check_all_used(&parameters, reading->recipe.name));
    TRY(names_list_skipped(names, &parameters, &skipped));
    snprintf(reading->skipped, sizeof reading->skipped, "%s", skipped.text ? skipped.text : "");
done:
    reading->network.parameters = NULL;
    parameters_close(&parameters);
    text_builder_free(&skipped);
    return status;
}

l3a_status backbone_read(l3a_context *context, const struct parameter_source *source, const l3a_backbone_options *options,
                         struct reading *reading) {
    return backbone_read_changed(context, source, options, &(struct network_changes){.owner = NULL}, reading);
}

l3a_status backbone_read_changed(l3a_context *context, const struct parameter_source *source, const l3a_backbone_options *options,
                                 const struct network_changes *changes, struct reading *reading) {
    struct names *names = NULL;
    l3a_status status = L3A_OK;
    *reading = (struct reading){0};
    TRY(recipe_start(context, options, &reading->recipe));
    const struct backbone_recipe given = reading->recipe;
    TRY(names_open(context, source, &names));
    if (source->file && !source->recorded) {
        TRY(take_configuration(context, source->file, options->published != 0, reading));
    }
    TRY(describe(context, names, source->file, source->recorded || reading->sources.recorded, changes, reading));
    list_decisions(&given, reading);
done:
    names_close(names);
    return status;
}

static const enum number_type number_types[] = {
    [L3A_NETWORK_FLOAT32] = NUMBER_FLOAT32, [L3A_NETWORK_BF16] = NUMBER_BFLOAT16, [L3A_NETWORK_FLOAT16] = NUMBER_FLOAT16};

/* Of a network whose features are new, if nothing was asked for. */
static l3a_network_precision usual_precision(const l3a_context *context, const struct network_back_end *back_end) {
    const struct network_use half = {.numbers = NUMBER_FLOAT16};
    const bool on_device = back_end == network_back_end_of_device(context);
    return on_device && network_back_end_supports(back_end, &half) ? L3A_NETWORK_FLOAT16 : L3A_NETWORK_FLOAT32;
}

/* What the back end lacks is computed in float32. What a model has recorded stays. */
static void choose_numbers(l3a_context *context, const struct network_back_end *back_end, bool recorded,
                           struct backbone_recipe *recipe, struct network_use *use) {
    if (recipe->precision == L3A_NETWORK_USUAL) {
        recipe->precision = usual_precision(context, back_end);
    }
    use->numbers = number_types[recipe->precision];
    if (!network_back_end_supports(back_end, use)) {
        const char *name = precision_text(recipe->precision);
        report_warning(context,
                       "%s cannot compute in %s here, so the network is computed in float32; its features differ a little from "
                       "those in %s",
                       back_end->name, name, name);
        use->numbers = NUMBER_FLOAT32;
        recipe->precision = recorded ? recipe->precision : L3A_NETWORK_FLOAT32;
    }
}

/* As many pictures as the back end likes, as long as they are not too large. */
static size_t choose_batch(const struct network_back_end *back_end, size_t side) {
    const uint64_t largest = 512 << 20, fit = largest / (3 * side * side * sizeof(float));
    const size_t liked = back_end->batch ? back_end->batch : PROCESSOR_BATCH;
    return liked <= PROCESSOR_BATCH || liked <= fit ? liked : fit > PROCESSOR_BATCH ? (size_t)fit : PROCESSOR_BATCH;
}

static void describe_to(const struct reading *reading, l3a_backbone_info *info) {
    const struct network *network = &reading->network;
    recipe_describe(reading->family, &reading->recipe, info);
    info->width = network->shapes[network->outputs[0].value].channels;
    info->parameters = network->parameter_count;
    info->flops = network_flops(network);
    memcpy(info->decided, reading->decided, sizeof info->decided);
    memcpy(info->skipped, reading->skipped, sizeof info->skipped);
}

l3a_status backbone_open_from(l3a_context *context, const struct parameter_source *source, const struct network_back_end *back_end,
                              const l3a_backbone_options *options, l3a_backbone **backbone) {
    l3a_backbone_options own;
    struct reading reading = {0};
    struct network_use use = {0};
    l3a_backbone *made = NULL;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(context, options, own));
    TRY(backbone_read(context, source, &own, &reading));
    TRY(network_fuse(&reading.network, 1));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->back_end = back_end;
    choose_numbers(context, back_end, source->recorded, &reading.recipe, &use);
    describe_to(&reading, &made->info);
    made->info.engine = back_end->name;
    made->info.computed = use.numbers == NUMBER_FLOAT32 ? L3A_NETWORK_FLOAT32 : reading.recipe.precision;
    made->info.batch = choose_batch(back_end, made->info.size);
    TRY(back_end->open(&reading.network, &use, &made->state));
    *backbone = made;
    made = NULL;
done:
    l3a_backbone_free(made);
    network_free(&reading.network);
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

/* Opens it on the context's device, if that computes networks. A context that is still choosing takes the processor if the device
 * has no room for the network, or fails. */
static l3a_status open_where_it_runs(l3a_context *context, const struct parameter_source *source,
                                     const l3a_backbone_options *options, l3a_backbone **backbone) {
    const bool on_device = network_back_end_of_device(context) != NULL;
    if (context->plugin && !on_device) {
        report_note(context, "networks run on the processor: %s cannot compute them here", context->device_name);
    }
    l3a_status status = backbone_open_from(context, source, network_back_end_of(context), options, backbone);
    if (on_device && status == L3A_OK) {
        context->choosing = false;
    } else if (on_device && context->choosing && (status == L3A_ERROR_MEMORY || status == L3A_ERROR_DEVICE)) {
        device_leave(context, "%s", context->error_text);
        context->error_text[0] = context->error_hint[0] = 0;
        status = backbone_open_from(context, source, network_back_end_of(context), options, backbone);
    }
    return status;
}

/* recorded: a model was learned with it */
static l3a_status open_checkpoint(l3a_context *context, struct checkpoint *checkpoint, bool recorded,
                                  const l3a_backbone_options *options, l3a_backbone **backbone) {
    struct parameter_source source;
    parameter_source_checkpoint(checkpoint, &source);
    source.recorded = recorded;
    const l3a_status status = open_where_it_runs(context, &source, options, backbone);
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

size_t backbone_batch(const l3a_backbone *backbone) {
    return backbone->info.batch;
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
    TRY(backbone->back_end->run(backbone->state, pictures, count, &features));
    TRY(check_finite(context, features, count, backbone->info.width));
done:
    return status;
}
