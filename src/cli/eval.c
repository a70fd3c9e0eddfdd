/* l3a eval: the metrics of a model on a feature file. */
#include "rows.h"

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

static void print_about(const l3a_model *model, const l3a_features *features, const l3a_metrics *m) {
    printf("%zu %s, %zu %s%s", m->images, plural(m->images, "image", "images"), l3a_model_class_count(model),
           plural(l3a_model_class_count(model), "class", "classes"),
           l3a_features_record(features, "difficult") ? "; difficult objects left out of the metrics" : "");
    if (m->left_out) {
        printf("; ");
        print_left_out(stdout, m->left_out);
    }
    printf("\n\n");
}

static void print_metrics(struct printer *printer, const l3a_metrics *m) {
    static const struct column columns[] = {
        {.name = "images"},
        {.name = "left_out"},
        {"mAP", "mAP", 6, 1, 2, 6, NULL},
        {"CP", "CP", 6, 1, 2, 6, NULL},
        {"CR", "CR", 6, 1, 2, 6, NULL},
        {"CF1", "CF1", 6, 1, 2, 6, NULL},
        {"OP", "OP", 6, 1, 2, 6, NULL},
        {"OR", "OR", 6, 1, 2, 6, NULL},
        {"OF1", "OF1", 6, 1, 2, 6, NULL},
    };
    const struct value values[] = {
        count_value(m->images),
        count_value(m->left_out),
        number_value(m->mean_ap),
        number_value(m->class_precision),
        number_value(m->class_recall),
        number_value(m->class_f1),
        number_value(m->overall_precision),
        number_value(m->overall_recall),
        number_value(m->overall_f1),
    };
    print_headings(printer, columns, sizeof columns / sizeof columns[0]);
    print_values(printer, columns, values, sizeof values / sizeof values[0]);
}

static void print_classes(struct printer *printer, const l3a_model *model, const double *precisions) {
    enum { COLUMNS = 3 };
    struct column columns[COLUMNS] = {
        {"class", "class", -5, 0, 0, 0, NULL}, {"images", "learned from", 12, 2, 0, 0, NULL}, {"AP", "AP", 6, 2, 2, 6, NULL}};
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        column_widen(&columns[0], l3a_model_class(model, k));
    }
    print_headings(printer, columns, COLUMNS);
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        const struct value values[COLUMNS] = {text_value(l3a_model_class(model, k)), count_value(l3a_model_class_images(model, k)),
                                              number_value(precisions[k])};
        print_values(printer, columns, values, COLUMNS);
    }
}

static void print_json(struct printer *printer, const l3a_model *model, const l3a_metrics *m, const double *precisions) {
    put_open(printer, NULL, '{');
    print_metrics(printer, m);
    put_open(printer, "AP", '{');
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        put_number(printer, l3a_model_class(model, k), precisions[k], 6);
    }
    put_close(printer, '}');
    put_close(printer, '}');
    printf("\n");
}

static void print_evaluation(const char *format, const l3a_model *model, const l3a_features *features, const l3a_metrics *m,
                             const double *precisions) {
    struct printer printer = printer_of(format);
    if (printer.form == FORM_JSON) {
        print_json(&printer, model, m, precisions);
        return;
    }
    if (printer.form == FORM_TABLE) {
        print_about(model, features, m);
        print_metrics(&printer, m);
        printf("\n");
    }
    print_classes(&printer, model, precisions);
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
    if (status == L3A_OK) {
        print_evaluation(format, model, features, &metrics, precisions);
    }
    if (status == L3A_OK && metrics.left_out && strcmp(format, "table") != 0 && !arguments->quiet) {
        progress_clear();
        print_left_out(stderr, metrics.left_out);
        fprintf(stderr, "\n");
    }
    const int code = explain(arguments, status);
    free(precisions);
    l3a_model_free(model);
    l3a_features_free(features);
    return code;
}
