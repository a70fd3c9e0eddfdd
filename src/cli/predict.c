/* l3a predict: tags for the rows of a feature file. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option predict_options[] = {
    {"features", "FILE", "features; labels are not needed"},
    {"top", "N", "the N most probable classes of each row"},
    {"threshold", "X", "the classes more probable than this [the model's theta]"},
    {"format", "table|json|csv", "what is printed [table]"},
    {NULL, NULL, NULL},
};

struct tag {
    size_t index;
    double probability;
};

struct choice {
    double top, threshold;
};

static int compare_tags(const void *left, const void *right) {
    const struct tag *a = left, *b = right;
    return a->probability > b->probability ? -1 : a->probability < b->probability ? 1 : a->index < b->index ? -1 : 1;
}

/* The tags of a row, most probable first; returns how many are chosen. */
static size_t choose_tags(const float *scores, size_t classes, struct choice choice, struct tag *tags) {
    for (size_t k = 0; k < classes; k++) {
        tags[k] = (struct tag){k, 1 / (1 + exp(-(double)scores[k]))};
    }
    qsort(tags, classes, sizeof *tags, compare_tags);
    size_t count = 0;
    while (count < classes && (choice.top > 0 ? (double)count < choice.top : tags[count].probability > choice.threshold)) {
        count++;
    }
    return count;
}

static void print_row(const l3a_model *model, const char *id, const struct tag *tags, size_t count, const char *format,
                      bool first) {
    const bool json = strcmp(format, "json") == 0, csv = strcmp(format, "csv") == 0;
    if (json) {
        printf("%s\n  {\"id\": ", first ? "" : ",");
        print_json_string(id);
        printf(", \"tags\": [");
    } else if (!csv) {
        printf("%s ", id);
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = l3a_model_class(model, tags[i].index);
        if (json) {
            printf("%s{\"class\": ", i ? ", " : "");
            print_json_string(name);
            printf(", \"probability\": %.4f}", tags[i].probability);
        } else if (csv) {
            print_csv_field(id);
            printf(",");
            print_csv_field(name);
            printf(",%.4f\n", tags[i].probability);
        } else {
            printf("%s %s %.3f", i ? "," : "", name, tags[i].probability);
        }
    }
    printf(json ? "]}" : csv ? "" : count ? "\n" : " -\n");
}

static l3a_status predict(l3a_model *model, l3a_features *features, struct choice choice, const char *format) {
    enum { BLOCK = 512 };
    const size_t rows = l3a_features_rows(features), classes = l3a_model_class_count(model);
    float *values = calloc(BLOCK * l3a_features_width(features), sizeof *values),
          *scores = calloc(BLOCK * classes + 1, sizeof *scores);
    struct tag *tags = calloc(classes + 1, sizeof *tags);
    l3a_status status = values && scores && tags ? l3a_model_accepts(model, features) : L3A_ERROR_MEMORY;
    for (size_t first = 0; status == L3A_OK && first < rows; first += BLOCK) {
        const size_t count = rows - first < BLOCK ? rows - first : BLOCK;
        status = l3a_features_read(features, NULL, first, count, values);
        if (status == L3A_OK) {
            status = l3a_model_score(model, values, count, scores);
        }
        if (status == L3A_OK && !first) {
            printf("%s", strcmp(format, "json") == 0 ? "[" : strcmp(format, "csv") == 0 ? "id,class,probability\n" : "");
        }
        for (size_t i = 0; status == L3A_OK && i < count; i++) {
            char number[32];
            const char *id = l3a_features_id(features, first + i);
            snprintf(number, sizeof number, "%zu", first + i);
            print_row(model, id ? id : number, tags, choose_tags(scores + i * classes, classes, choice, tags), format,
                      first + i == 0);
        }
    }
    if (status == L3A_OK && strcmp(format, "json") == 0) {
        printf("\n]\n");
    }
    free(values);
    free(scores);
    free(tags);
    return status;
}

int predict_command(struct arguments *arguments) {
    const char *features_path = argument_needed(arguments, "features");
    const char *format = argument_choice(arguments, "format", "table|json|csv");
    struct choice choice = {0, -1};
    l3a_features *features = NULL;
    l3a_model *model = NULL;
    if (!features_path || !format || !argument_number(arguments, "top", 1, 1e6, &choice.top) ||
        !argument_number(arguments, "threshold", 0, 1, &choice.threshold)) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain(arguments, "name one model file");
    }
    if (choice.top > 0 && choice.threshold >= 0) {
        return complain(arguments, "--top and --threshold exclude each other");
    }
    l3a_status status = l3a_model_load(arguments->context, arguments->positionals[0], &model);
    if (status == L3A_OK) {
        choice.threshold = choice.threshold < 0 ? l3a_model_options(model)->theta : choice.threshold;
        status = open_features(arguments->context, features_path, NULL, NULL, &features);
    }
    if (status == L3A_OK) {
        status = predict(model, features, choice, format);
    }
    const int code = explain(arguments, status);
    l3a_model_free(model);
    l3a_features_free(features);
    return code;
}
