/* l3a eval: the metrics of a model on a feature file. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct option eval_options[] = {
    {"features", "FILE", "features with labels to measure on"},
    {"labels", "Y.npy", "labels, if --features is a .npy file"},
    {"names", "FILE", "class names, one per line, for .npy files"},
    {"views", "N", "score with these views of the features, whatever the model was learned with [as the model says]"},
    {"all-pictures", NULL, "count pictures that show none of the model's classes, too"},
    {"theta", "X", "predict a class where 1 / (1 + exp(-score)) is above X [the model's thresholds]"},
    {"format", "table|json|csv", "output format [table]"},
    {NULL, NULL, NULL},
};

/* Tags on these images would all be wrong, so their number says how far the metrics can be trusted. */
static void print_left_out(FILE *to, size_t count) {
    fprintf(to, "%zu %s that %s none of the classes %s left out; --all-pictures counts %s", count, plural(count, "image", "images"),
            plural(count, "shows", "show"), plural(count, "was", "were"), plural(count, "it", "them"));
}

static void print_table(const l3a_model *model, const l3a_features *features, const l3a_metrics *m, const double *precisions) {
    int width = 5;
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        const int name = display_width(l3a_model_class(model, k));
        width = name > width ? name : width;
    }
    printf("%zu %s, %zu %s%s", m->images, plural(m->images, "image", "images"), l3a_model_class_count(model),
           plural(l3a_model_class_count(model), "class", "classes"),
           l3a_features_record(features, "difficult") ? "; difficult objects left out of the metrics" : "");
    if (m->left_out) {
        printf("; ");
        print_left_out(stdout, m->left_out);
    }
    printf("\n\n");
    printf("%s   mAP     CP     CR    CF1     OP     OR    OF1%s\n", style(stdout, STYLE_BOLD), style(stdout, STYLE_PLAIN));
    printf("%6.2f %6.2f %6.2f %6.2f %6.2f %6.2f %6.2f\n\n", m->mean_ap, m->class_precision, m->class_recall, m->class_f1,
           m->overall_precision, m->overall_recall, m->overall_f1);
    printf("%sclass%*s  learned from      AP%s\n", style(stdout, STYLE_BOLD), width - 5, "", style(stdout, STYLE_PLAIN));
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        const char *name = l3a_model_class(model, k);
        printf("%s%*s  %12" PRIu64 "  %6.2f\n", name, width - display_width(name), "", l3a_model_class_images(model, k),
               precisions[k]);
    }
}

static void print_programs(const l3a_model *model, const l3a_metrics *m, const double *precisions, bool json) {
    if (json) {
        printf("{\"images\": %zu, \"left_out\": %zu, \"mAP\": %.6f, \"CP\": %.6f, \"CR\": %.6f, \"CF1\": %.6f, \"OP\": %.6f, "
               "\"OR\": %.6f, \"OF1\": "
               "%.6f, "
               "\"AP\": {",
               m->images, m->left_out, m->mean_ap, m->class_precision, m->class_recall, m->class_f1, m->overall_precision,
               m->overall_recall, m->overall_f1);
    } else {
        printf("class,images,AP\n");
    }
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        if (json) {
            printf("%s", k ? ", " : "");
            print_json_string(l3a_model_class(model, k));
            printf(": %.6f", precisions[k]);
        } else {
            print_csv_field(l3a_model_class(model, k));
            printf(",%" PRIu64 ",%.6f\n", l3a_model_class_images(model, k), precisions[k]);
        }
    }
    if (json) {
        printf("}}\n");
    }
}

int eval_command(struct arguments *arguments) {
    const char *features_path = argument_needed(arguments, "features");
    const char *format = argument_choice(arguments, "format", "table|json|csv", "table"), *theta = argument(arguments, "theta"),
               *views = argument(arguments, "views");
    l3a_features *features = NULL;
    l3a_model *model = NULL;
    double *precisions = NULL;
    l3a_metrics metrics = {.size = sizeof metrics};
    const l3a_evaluate_options options = {.size = sizeof options, .all_images = argument(arguments, "all-pictures") != NULL};
    if (!features_path || !format || !argument_labels_fit(arguments, "features", "labels")) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one model file");
    }
    l3a_status status = l3a_model_load(arguments->context, arguments->positionals[0], &model);
    if (status == L3A_OK && theta) {
        status = l3a_model_set_option(model, "theta", theta);
    }
    if (status == L3A_OK && theta) {
        status = l3a_model_set_option(model, "thresholds", "fixed");
    }
    if (status == L3A_OK && views) {
        status = l3a_model_set_option(model, "score-views", views);
    }
    if (status == L3A_OK) {
        status = open_features(arguments, features_path, argument(arguments, "labels"), argument(arguments, "names"), &features);
    }
    if (status == L3A_OK) {
        precisions = calloc(l3a_model_class_count(model) + 1, sizeof *precisions);
        status = precisions ? l3a_model_evaluate(model, features, &options, &metrics, precisions) : L3A_ERROR_MEMORY;
    }
    if (status == L3A_OK && strcmp(format, "table") == 0) {
        print_table(model, features, &metrics, precisions);
    } else if (status == L3A_OK) {
        print_programs(model, &metrics, precisions, strcmp(format, "json") == 0);
        if (metrics.left_out && !arguments->quiet) {
            progress_clear();
            print_left_out(stderr, metrics.left_out);
            fprintf(stderr, "\n");
        }
    }
    const int code = explain(arguments, status);
    free(precisions);
    l3a_model_free(model);
    l3a_features_free(features);
    return code;
}
