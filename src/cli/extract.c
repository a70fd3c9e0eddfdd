/* l3a extract: the pictures of a data set through a backbone, to a feature file. Processes can share the work (shards.c). */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct option extract_options[] = {
    {"backbone", "FILE", "checkpoint: .safetensors, .pth or .pt"},
    {"data", "DATASET", "voc:FOLDER, coco:FOLDER, list:FILE.csv, folders:FOLDER or tar:FILE.tar"},
    {"split", "NAME", "split of the data set: trainval, test, train2014, …"},
    {"difficult", "absent|ignore", "VOC: a class with only difficult objects is absent, or left out of the metrics [absent]"},
    {"o", "FILE", "feature file to write"},
    BACKBONE_OPTIONS(""),
    {"views", "1|5|9|14", "1: the whole picture; more: also so many crops of it, each with features of its own [1]"},
    {"shard", "I/N", "extract only shard I of N of the pictures, from 1/N to N/N; l3a merge joins the files"},
    {"shards", "N",
     "share the work with processes that run the same command in the same folder: each takes the next of N shards, and the last "
     "joins them"},
    {"float16", NULL, "store features as float16; the default with views"},
    {"float32", NULL, "store features as float32; the default without views"},
    {"orient", NULL, "rotate pictures according to their EXIF orientation"},
    {"strict", NULL, "stop at the first picture that cannot be read, instead of skipping it"},
    {NULL, NULL, NULL},
};

/* What there is to extract, and how. */
struct extraction {
    const struct arguments *arguments;
    l3a_backbone *backbone;
    l3a_dataset *dataset;
    l3a_extract_options options;
    const char *path;
    size_t bad;  /* pictures that could not be read */
    bool joined; /* the shards, so these are the pictures of all of them */
};

static int explain_extract(const struct arguments *arguments, l3a_status status) {
    const int code = explain(arguments, status);
    if (status == L3A_ERROR_CANCELLED) {
        print_hint("run the same command again to continue");
        return EXIT_INTERRUPTED;
    }
    return code;
}

static void print_rows(const struct extraction *e, size_t rows) {
    const size_t views = e->options.views;
    printf("%zu %s of ", rows, plural(rows, "row", "rows"));
    if (views > 1) {
        printf("%zu x ", l3a_view_rows(views));
    }
    printf("%zu features", l3a_backbone_describe(e->backbone)->width);
    if (views > 1) {
        printf(" (%zu views)", views);
    }
}

/* Extracts all pictures, or the shard in the options. */
static int extract_to(struct extraction *e, const char *path) {
    l3a_extract_report report = {.size = sizeof report};
    const l3a_status status = l3a_extract(e->arguments->context, e->backbone, e->dataset, &e->options, path, &report);
    if (status != L3A_OK) {
        return explain_extract(e->arguments, status);
    }
    printf("%s: ", path);
    if (e->options.shards) {
        printf("shard %zu of %zu, ", e->options.shard, e->options.shards);
    }
    print_rows(e, report.rows);
    printf(" in %.1f s", report.seconds);
    if (report.resumed) {
        printf(", %zu of them from an earlier run", report.resumed);
    }
    printf("\n");
    e->bad += report.bad;
    return EXIT_DONE;
}

static int find_shard(void *user, size_t shard, const char *path, bool *done) {
    (void)user;
    (void)shard;
    *done = access(path, F_OK) == 0;
    return EXIT_DONE;
}

static int make_shard(void *user, size_t shard, const char *path) {
    struct extraction *e = user;
    e->options.shard = shard;
    return extract_to(e, path);
}

static int join_shards(void *user, char *const *paths) {
    struct extraction *e = user;
    uint64_t rows = 0;
    const l3a_status status =
        l3a_features_merge(e->arguments->context, (const char *const *)paths, e->options.shards, e->path, &rows);
    if (status != L3A_OK) {
        return explain_extract(e->arguments, status);
    }
    printf("%s: ", e->path);
    print_rows(e, (size_t)rows);
    printf(" from %zu shards\n", e->options.shards);
    e->bad = l3a_dataset_rows(e->dataset) - (size_t)rows;
    e->joined = true;
    return EXIT_DONE;
}

static void discard_shard(void *user, const char *path) {
    const struct extraction *e = user;
    remove_shard_file(e->arguments, path);
}

static int extract_shared(struct extraction *e) {
    const struct shared_work work = {.arguments = e->arguments,
                                     .path = e->path,
                                     .shards = e->options.shards,
                                     .find = find_shard,
                                     .make = make_shard,
                                     .join = join_shards,
                                     .discard = discard_shard,
                                     .user = e};
    return share_work(&work);
}

static int execute(const struct arguments *arguments, l3a_backbone *backbone, l3a_dataset *dataset, size_t views, size_t shared,
                   const char *path) {
    const bool half = argument(arguments, "float16") || (views > 1 && !argument(arguments, "float32"));
    const l3a_picture_options picture = {.size = sizeof picture, .orient = argument(arguments, "orient") != NULL};
    struct extraction e = {.arguments = arguments,
                           .backbone = backbone,
                           .dataset = dataset,
                           .path = path,
                           .options = {.size = sizeof e.options,
                                       .half = half,
                                       .strict = argument(arguments, "strict") != NULL,
                                       .picture = &picture,
                                       .views = views,
                                       .shards = shared}};
    progress_clear();
    if (!arguments->quiet) {
        print_backbone_line(stderr, l3a_backbone_describe(backbone), views);
    }
    if (!shared) {
        shard_argument(arguments, &e.options.shard, &e.options.shards);
    }
    const int code = shared ? extract_shared(&e) : extract_to(&e, path);
    if (code != EXIT_DONE || !e.bad) {
        return code;
    }
    complain(arguments, "%zu %s could not be read and %s skipped", e.bad, plural(e.bad, "picture", "pictures"),
             plural(e.bad, "was", "were"));
    return shared ? bad_pictures_code(e.joined) : EXIT_USAGE;
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
    size_t views, shard, shards, shared;
    if (!path || !views_argument(arguments, &views) || !shard_argument(arguments, &shard, &shards) ||
        !shared_argument(arguments, &shared) || !backbone_arguments(arguments, &options)) {
        return EXIT_USAGE;
    }
    if (argument(arguments, "float16") && argument(arguments, "float32")) {
        return complain(arguments, "--float16 and --float32 exclude each other");
    }
    if (arguments->positional_count) {
        const int code = complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
        if (strncmp(data, "tar:", 4) == 0) {
            print_hint("put the names of several tar files in quotes, or separate them by commas");
        }
        return code;
    }
    reading.ignore_difficult = strcmp(difficult, "ignore") == 0;
    l3a_status status = l3a_dataset_open(arguments->context, data, argument(arguments, "split"), &reading, &dataset);
    if (status == L3A_OK) {
        status = l3a_backbone_open(arguments->context, checkpoint, &options, &backbone);
    }
    const int code =
        status == L3A_OK ? execute(arguments, backbone, dataset, views ? views : 1, shared, path) : explain(arguments, status);
    l3a_backbone_free(backbone);
    l3a_dataset_free(dataset);
    return code;
}
