/* The options about a network and its pictures, which several commands have, and how fast a network is here. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const char *const backbone_option_names[] = {
    "pool", "size", "mean", "std", "filter", "heads", "layer", "activation", "preprocess", "backbone-precision", NULL};

/* The position of a value among those of a choice, from 1 on; 0: the option is not given; -1: it is none of them. */
static int choice(const struct arguments *arguments, const char *name, const char *const values[], const char *choices) {
    const char *value = argument(arguments, name) ? argument_choice(arguments, name, choices, NULL) : NULL;
    int i = 1;
    if (!argument(arguments, name)) {
        return 0;
    }
    while (value && values[i - 1] && strcmp(values[i - 1], value) != 0) {
        i++;
    }
    return value ? i : -1;
}

/* "0.5" or "0.485,0.456,0.406" */
static bool parse_channels(const struct arguments *arguments, const char *name, float channels[3]) {
    struct list list;
    const char *text = argument(arguments, name);
    bool good = text && list_parse(text, &list);
    if (!text || !good) {
        return !text;
    }
    good = list.count == 1 || list.count == 3;
    for (size_t i = 0; good && i < 3; i++) {
        char *end;
        const char *item = list.items[list.count == 3 ? i : 0];
        channels[i] = strtof(item, &end);
        good = end != item && !*end && channels[i] >= 0 && channels[i] <= 10;
    }
    list_free(&list);
    if (!good) {
        complain(arguments, "--%s: '%s' is neither one number nor three separated by commas", name, text);
    }
    return good;
}

static bool mean_arguments(const struct arguments *arguments, l3a_backbone_options *options) {
    const bool mean = argument(arguments, "mean") != NULL, deviation = argument(arguments, "std") != NULL;
    if (mean != deviation) {
        complain(arguments, "--mean and --std must be given together");
        return false;
    }
    if (!parse_channels(arguments, "mean", options->mean) || !parse_channels(arguments, "std", options->deviation)) {
        return false;
    }
    for (size_t c = 0; c < 3 && mean; c++) {
        if (!(options->deviation[c] > 0)) {
            complain(arguments, "--std: the standard deviation must be positive");
            return false;
        }
    }
    return true;
}

bool backbone_arguments(const struct arguments *arguments, l3a_backbone_options *options) {
    static const char *const pools[] = {"cls", "mean", "cls+mean", "max", "map", "projection", NULL};
    static const char *const activations[] = {"gelu", "quick_gelu", "tanh_gelu", NULL};
    static const char *const filters[] = {"bilinear", "bicubic", NULL}, *const precisions[] = {"float32", "bf16", "float16", NULL};
    static const char *const ways[] = {"squash", "checkpoint", NULL};
    const int pool = choice(arguments, "pool", pools, POOL_CHOICES),
              filter = choice(arguments, "filter", filters, "bilinear|bicubic");
    const int activation = choice(arguments, "activation", activations, ACTIVATION_CHOICES);
    const int precision = choice(arguments, "backbone-precision", precisions, PRECISION_CHOICES);
    const int way = choice(arguments, "preprocess", ways, "squash|checkpoint");
    uint64_t size = 0, heads = 0, layer = 0;
    *options = (l3a_backbone_options){.size = sizeof *options};
    if (pool < 0 || filter < 0 || activation < 0 || precision < 0 || way < 0 ||
        !argument_integer(arguments, "size", 32, 4096, &size) || !argument_integer(arguments, "heads", 1, 1024, &heads) ||
        !argument_integer(arguments, "layer", 1, 1000, &layer) || !mean_arguments(arguments, options)) {
        return false;
    }
    options->pool = (l3a_pool)pool;
    options->filter = filter == 2 ? L3A_FILTER_BICUBIC : L3A_FILTER_BILINEAR;
    options->activation = (l3a_activation)activation;
    options->precision = precision ? (l3a_network_precision)(precision - 1) : L3A_NETWORK_USUAL;
    options->published = way == 2;
    options->side = (size_t)size;
    options->heads = (size_t)heads;
    options->layer = (size_t)layer;
    if (options->published && filter) {
        complain(arguments, "--preprocess checkpoint takes the filter from the checkpoint's configuration; leave out --filter");
        return false;
    }
    return true;
}

void print_backbone_line(FILE *to, const l3a_backbone_info *info, size_t views) {
    static const char *const precisions[] = {
        [L3A_NETWORK_FLOAT32] = "", [L3A_NETWORK_BF16] = ", bf16", [L3A_NETWORK_FLOAT16] = ", float16"};
    fprintf(to, "%s (%s%s), %.2f GFLOP per picture, features %zu wide; %s\n", info->name, info->engine, precisions[info->computed],
            info->flops * 1e-9 * (double)l3a_view_rows(views), info->width, info->preprocess);
}

const char *backbone_argument_given(const struct arguments *arguments) {
    for (size_t i = 0; backbone_option_names[i]; i++) {
        if (argument(arguments, backbone_option_names[i])) {
            return backbone_option_names[i];
        }
    }
    return NULL;
}
