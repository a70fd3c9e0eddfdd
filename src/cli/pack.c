/* l3a pack: a small file that tags, and cannot learn. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

const struct option pack_options[] = {
    {"o", "FILE", "packed file to write"},
    {"type", "float16|int8", "how the model's coefficients are stored [float16]"},
    {"with-backbone", NULL, "put the backbone into the file too, so that tagging needs no other file"},
    {"backbone", "FILE", "where the backbone is, if it is not where the model last found it"},
    {"backbone-type", "float32|float16", "how the backbone is stored [float32]"},
    {"features", "FILE", "measure how far packing moves the scores of these features"},
    {"views", "N", "use only these views of the features [all that there are]"},
    {NULL, NULL, NULL},
};

static void print_report(const char *path, const l3a_pack_options *options, const l3a_pack_report *report) {
    char size[32];
    printf("%s: %s%s\n", path, size_text(report->bytes, size), options->with_backbone ? ", with the backbone" : "");
    if (options->features) {
        printf("%" PRIu64 " %s: the largest change of a score is %.2g; %" PRIu64 " %s changed\n", report->rows,
               plural(report->rows, "image", "images"), report->largest_change, report->changed,
               plural(report->changed, "tag", "tags"));
    }
}

int pack_command(struct arguments *arguments) {
    const char *path = argument_needed(arguments, "o"), *type = argument_choice(arguments, "type", "float16|int8", "float16"),
               *backbone = argument_choice(arguments, "backbone-type", "float32|float16", "float32");
    l3a_pack_options options = {.size = sizeof options, .with_backbone = argument(arguments, "with-backbone") != NULL};
    l3a_pack_report report = {.size = sizeof report};
    l3a_status status = L3A_OK;
    if (!path || !type || !backbone) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one model");
    }
    if (!options.with_backbone && argument(arguments, "backbone-type")) {
        return complain(arguments, "--backbone-type needs --with-backbone");
    }
    options.type = strcmp(type, "int8") == 0 ? L3A_PACK_INT8 : L3A_PACK_FLOAT16;
    options.backbone = argument(arguments, "backbone");
    options.half_backbone = strcmp(backbone, "float16") == 0;
    if (argument(arguments, "features")) {
        status = open_features(arguments, argument(arguments, "features"), NULL, NULL, &options.features);
    }
    if (status == L3A_OK) {
        status = l3a_pack_write(arguments->context, arguments->positionals[0], &options, path, &report);
    }
    if (status == L3A_OK) {
        print_report(path, &options, &report);
    }
    l3a_features_free(options.features);
    return explain(arguments, status);
}
