/* l3a extract: the pictures of a data set through a backbone, to a feature file. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const struct option extract_options[] = {
    {"backbone", "FILE", "checkpoint: .safetensors, .pth or .pt"},
    {"data", "DATASET", "voc:FOLDER, coco:FOLDER, list:FILE.csv or folders:FOLDER"},
    {"split", "NAME", "split of the data set: trainval, test, train2014, …"},
    {"difficult", "absent|ignore", "VOC: a class with only difficult objects is absent, or left out of the metrics [absent]"},
    {"o", "FILE", "feature file to write"},
    {"pool", "cls|mean|cls+mean", "ViT: the class token, the mean of the patches, or both [cls]"},
    {"size", "N", "side length that pictures are resized to [the network's own]"},
    {"mean", "X or R,G,B", "mean to subtract, from 0 to 1 [the network family's]"},
    {"std", "X or R,G,B", "standard deviation to divide by [the network family's]"},
    {"filter", "bilinear|bicubic", "filter for resizing pictures [bilinear]"},
    {"views", "1|5|9|14", "1: the whole picture; more: also so many crops of it, each with features of its own [1]"},
    {"shard", "I/N", "extract only shard I of N of the pictures, from 1/N to N/N; l3a merge joins the files"},
    {"float16", NULL, "store features as float16; the default with views"},
    {"float32", NULL, "store features as float32; the default without views"},
    {"orient", NULL, "rotate pictures according to their EXIF orientation"},
    {"strict", NULL, "stop at the first picture that cannot be read, instead of skipping it"},
    {NULL, NULL, NULL},
};

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

bool backbone_arguments(const struct arguments *arguments, l3a_backbone_options *options) {
    const char *pool = argument(arguments, "pool") ? argument_choice(arguments, "pool", "cls|mean|cls+mean", "cls") : "";
    if (!pool) {
        return false;
    }
    *options = (l3a_backbone_options){.size = sizeof *options};
    options->pool = strcmp(pool, "cls") == 0    ? L3A_POOL_CLS
                    : strcmp(pool, "mean") == 0 ? L3A_POOL_MEAN
                    : pool[0]                   ? L3A_POOL_CLS_MEAN
                                                : L3A_POOL_DEFAULT;
    const char *filter = argument_choice(arguments, "filter", "bilinear|bicubic", "bilinear");
    uint64_t size = 0;
    if (!filter || !argument_integer(arguments, "size", 32, 4096, &size)) {
        return false;
    }
    options->filter = strcmp(filter, "bicubic") == 0 ? L3A_FILTER_BICUBIC : L3A_FILTER_BILINEAR;
    options->side = (size_t)size;
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

/* "3/8": the third of eight. Both stay 0 if the option is not given. */
static bool shard_argument(const struct arguments *arguments, size_t *shard, size_t *shards) {
    const char *text = argument(arguments, "shard");
    int length = 0;
    *shard = *shards = 0;
    if (!text || (strspn(text, "0123456789/") == strlen(text) && sscanf(text, "%7zu/%7zu%n", shard, shards, &length) == 2 &&
                  !text[length] && *shard && *shard <= *shards && *shards <= 1000000)) {
        return true;
    }
    complain(arguments, "--shard: '%s' is not a shard such as 3/8; shards are numbered from 1, up to a million of them", text);
    return false;
}

static int execute(const struct arguments *arguments, l3a_backbone *backbone, l3a_dataset *dataset, size_t views,
                   const char *path) {
    const bool half = argument(arguments, "float16") || (views > 1 && !argument(arguments, "float32"));
    const l3a_picture_options picture = {.size = sizeof picture, .orient = argument(arguments, "orient") != NULL};
    l3a_extract_options options = {
        .size = sizeof options, .half = half, .strict = argument(arguments, "strict") != NULL, .picture = &picture, .views = views};
    shard_argument(arguments, &options.shard, &options.shards);
    l3a_extract_report report = {.size = sizeof report};
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    progress_clear();
    if (!arguments->quiet) {
        fprintf(stderr, "%s (%s), %.2f GFLOP per picture, features %zu wide; %s\n", info->name, info->engine,
                info->flops * 1e-9 * (double)l3a_view_rows(views), info->width, info->preprocess);
    }
    const l3a_status status = l3a_extract(arguments->context, backbone, dataset, &options, path, &report);
    if (status == L3A_ERROR_CANCELLED) {
        explain(arguments, status);
        print_hint("run the same command again to continue");
        return EXIT_INTERRUPTED;
    }
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    printf("%s: ", path);
    if (options.shards) {
        printf("shard %zu of %zu, ", options.shard, options.shards);
    }
    printf("%zu %s of ", report.rows, plural(report.rows, "row", "rows"));
    if (views > 1) {
        printf("%zu x ", l3a_view_rows(views));
    }
    printf("%zu features", info->width);
    if (views > 1) {
        printf(" (%zu views)", views);
    }
    printf(" in %.1f s", report.seconds);
    if (report.resumed) {
        printf(", %zu of them from an earlier run", report.resumed);
    }
    printf("\n");
    return report.bad ? complain(arguments, "%zu %s could not be read and %s skipped", report.bad,
                                 plural(report.bad, "picture", "pictures"), plural(report.bad, "was", "were"))
                      : EXIT_DONE;
}

int extract_command(struct arguments *arguments) {
    const char *difficult = argument_choice(arguments, "difficult", "absent|ignore", "absent");
    const char *checkpoint = difficult ? argument_needed(arguments, "backbone") : NULL;
    const char *data = checkpoint ? argument_needed(arguments, "data") : NULL,
               *path = data ? argument_needed(arguments, "o") : NULL;
    l3a_backbone_options options;
    l3a_dataset_options reading = {.size = sizeof reading};
    l3a_backbone *backbone = NULL;
    l3a_dataset *dataset = NULL;
    size_t views, shard, shards;
    if (!path || !views_argument(arguments, &views) || !shard_argument(arguments, &shard, &shards) ||
        !backbone_arguments(arguments, &options)) {
        return EXIT_USAGE;
    }
    if (argument(arguments, "float16") && argument(arguments, "float32")) {
        return complain(arguments, "--float16 and --float32 exclude each other");
    }
    if (arguments->positional_count) {
        return complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
    }
    reading.ignore_difficult = strcmp(difficult, "ignore") == 0;
    l3a_status status = l3a_dataset_open_with(arguments->context, data, argument(arguments, "split"), &reading, &dataset);
    if (status == L3A_OK) {
        status = l3a_backbone_open(arguments->context, checkpoint, &options, &backbone);
    }
    const int code = status == L3A_OK ? execute(arguments, backbone, dataset, views ? views : 1, path) : explain(arguments, status);
    l3a_backbone_free(backbone);
    l3a_dataset_free(dataset);
    return code;
}
