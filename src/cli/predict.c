/* l3a predict: tags for pictures, or for the rows of a feature file. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option predict_options[] = {
    {"backbone", "FILE", "checkpoint that made the features the model was trained on"},
    {"features", "FILE", "tag the rows of a feature file instead of pictures; labels are not needed"},
    {"top", "N", "print the N classes with the highest scores"},
    {"threshold", "X", "print the classes with a score above this [the model's thresholds]"},
    {"format", "table|json|csv", "output format [table]"},
    {"pool", "cls|mean|cls+mean", "as in extract"},
    {"size", "N", "as in extract"},
    {"mean", "X or R,G,B", "as in extract"},
    {"std", "X or R,G,B", "as in extract"},
    {"filter", "bilinear|bicubic", "as in extract"},
    {"orient", NULL, "as in extract"},
    {NULL, NULL, NULL},
};

/* What is printed: the first `top` tags; or, if top is 0, those above `threshold`; or, if that is NaN, those that are predicted. */
struct choice {
    uint64_t top;
    double threshold;
    const char *format;
    int width; /* of the name of a picture or row */
};

static void widen(struct choice *choice, const char *id) {
    const int width = display_width(id);
    choice->width = width > choice->width ? width : choice->width;
}

static bool is_chosen(const struct choice *choice, const l3a_tags *tags, size_t index) {
    return choice->top                ? index < choice->top
           : isnan(choice->threshold) ? l3a_tags_predicted(tags, index)
                                      : (double)l3a_tags_score(tags, index) > choice->threshold;
}

static void print_row(const struct choice *choice, const char *id, const l3a_tags *tags, bool first) {
    const bool json = strcmp(choice->format, "json") == 0, csv = strcmp(choice->format, "csv") == 0;
    size_t count = 0;
    if (json) {
        printf("%s\n  {\"id\": ", first ? "" : ",");
        print_json_string(id);
        printf(", \"tags\": [");
    } else if (!csv) {
        const int padding = choice->width - display_width(id);
        printf("%s%*s ", id, padding > 0 ? padding : 0, "");
    }
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        const char *name = l3a_tags_name(tags, i);
        const double score = (double)l3a_tags_score(tags, i);
        if (!is_chosen(choice, tags, i)) {
            continue;
        }
        if (json) {
            printf("%s{\"class\": ", count ? ", " : "");
            print_json_string(name);
            printf(", \"score\": %.4f}", score);
        } else if (csv) {
            print_csv_field(id);
            printf(",");
            print_csv_field(name);
            printf(",%.4f\n", score);
        } else {
            printf("%s %s %.3f", count ? "," : "", name, score);
        }
        count++;
    }
    if (csv && !count) { /* every picture has a row */
        print_csv_field(id);
        printf(",,\n");
    }
    printf(json ? "]}" : csv ? "" : count ? "\n" : " -\n");
}

static void print_start(const char *format) {
    printf("%s", strcmp(format, "json") == 0 ? "[" : strcmp(format, "csv") == 0 ? "id,class,score\n" : "");
}

static void print_end(const char *format) {
    fputs(strcmp(format, "json") == 0 ? "\n]\n" : "", stdout);
}

/* Prints the tags of rows of scores, of which `first` is the number of the first in the table. */
static l3a_status print_rows(const struct choice *choice, const l3a_model *model, const l3a_features *features, size_t first,
                             size_t count, const float *scores, const double *thresholds) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        char number[32];
        l3a_tags *tags = NULL;
        const char *id = l3a_features_id(features, first + i);
        snprintf(number, sizeof number, "%zu", first + i);
        status = l3a_tags_create(model, scores + i * l3a_model_class_count(model), thresholds, &tags);
        if (status == L3A_OK) {
            print_row(choice, id ? id : number, tags, first + i == 0);
        }
        l3a_tags_free(tags);
    }
    return status;
}

static l3a_status predict_rows(l3a_model *model, l3a_features *features, struct choice choice) {
    enum { BLOCK = 512 };
    const size_t rows = l3a_features_rows(features), classes = l3a_model_class_count(model);
    float *values = calloc(BLOCK * l3a_features_width(features), sizeof *values),
          *scores = calloc(BLOCK * classes + 1, sizeof *scores);
    double *thresholds = calloc(classes + 1, sizeof *thresholds);
    l3a_status status = values && scores && thresholds ? l3a_model_accepts(model, features) : L3A_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++) {
        widen(&choice, l3a_features_id(features, i) ? l3a_features_id(features, i) : "");
    }
    if (status == L3A_OK) {
        l3a_model_thresholds(model, thresholds);
    }
    for (size_t first = 0; status == L3A_OK && first < rows; first += BLOCK) {
        const size_t count = rows - first < BLOCK ? rows - first : BLOCK;
        status = l3a_features_read(features, NULL, first, count, values);
        if (status == L3A_OK) {
            status = l3a_model_score(model, values, count, scores);
        }
        if (status == L3A_OK && !first) {
            print_start(choice.format);
        }
        if (status == L3A_OK) {
            status = print_rows(&choice, model, features, first, count, scores, thresholds);
        }
    }
    if (status == L3A_OK) {
        print_end(choice.format);
    }
    free(values);
    free(scores);
    free(thresholds);
    return status;
}

/* The pictures named as arguments and, if one of them is "-", those on the standard input. */
static bool list_pictures(const struct arguments *arguments, struct list *list) {
    size_t capacity = 0, length = 0;
    memset(list, 0, sizeof *list);
    FILE *memory = open_memstream(&list->text, &length);
    char *line = NULL;
    for (size_t i = 1; memory && i < arguments->positional_count; i++) {
        if (strcmp(arguments->positionals[i], "-") != 0) {
            fwrite(arguments->positionals[i], 1, strlen(arguments->positionals[i]) + 1, memory);
            list->count++;
            continue;
        }
        while (!interrupted && getline(&line, &capacity, stdin) > 0) {
            line[strcspn(line, "\r\n")] = '\0';
            if (line[0]) {
                fwrite(line, 1, strlen(line) + 1, memory);
                list->count++;
            }
        }
    }
    free(line);
    if (!memory || fclose(memory)) {
        return false;
    }
    list->items = calloc(list->count + 1, sizeof *list->items);
    const char *at = list->text;
    for (size_t i = 0; list->items && i < list->count; i++) {
        list->items[i] = at;
        at += strlen(at) + 1;
    }
    return list->items != NULL;
}

struct picture_run {
    const struct arguments *arguments;
    l3a_reader *reader;
    const struct list *pictures;
    const struct choice *choice;
    size_t bad;
    bool printed;
};

/* Prints the tags of a picture, or why it has none. */
static int print_picture(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct picture_run *run = user;
    if (interrupted) {
        return 1;
    }
    if (status == L3A_OK) {
        print_row(run->choice, run->pictures->items[index], tags, !run->printed);
        run->printed = true;
    } else {
        explain_error(run->arguments, status, l3a_reader_error_text(run->reader), l3a_reader_error_hint(run->reader));
        run->bad++;
    }
    progress_show("pictures", index + 1, run->pictures->count);
    return 0;
}

static int tag_listed(const struct arguments *arguments, l3a_tagger *tagger, const struct choice *choice,
                      const struct list *pictures) {
    struct picture_run run = {.arguments = arguments, .pictures = pictures, .choice = choice};
    l3a_status status = l3a_reader_create(tagger, &run.reader);
    if (status != L3A_OK) {
        return complain(arguments, "out of memory");
    }
    print_start(choice->format);
    progress_show("pictures", 0, pictures->count);
    status = l3a_reader_tag_files(run.reader, pictures->items, pictures->count, print_picture, &run);
    print_end(choice->format);
    const int code = explain_error(arguments, status, l3a_reader_error_text(run.reader), l3a_reader_error_hint(run.reader));
    l3a_reader_free(run.reader);
    return code == EXIT_DONE && run.bad ? EXIT_USAGE : code;
}

static int tag_pictures(const struct arguments *arguments, struct choice choice) {
    l3a_backbone_options backbone;
    const l3a_picture_options picture = {.size = sizeof picture, .orient = argument(arguments, "orient") != NULL};
    struct list pictures = {0};
    l3a_tagger *tagger = NULL;
    if (!backbone_arguments(arguments, &backbone) || !list_pictures(arguments, &pictures) || interrupted) {
        list_free(&pictures);
        return interrupted ? EXIT_INTERRUPTED : EXIT_USAGE;
    }
    for (size_t i = 0; i < pictures.count; i++) {
        widen(&choice, pictures.items[i]);
    }
    const l3a_tagger_options options = {.size = sizeof options,
                                        .backbone = argument(arguments, "backbone"),
                                        .backbone_options = &backbone,
                                        .picture_options = &picture,
                                        .batch = 1}; /* the tags of a picture do not depend on its neighbours */
    const l3a_status status = l3a_tagger_open(arguments->context, arguments->positionals[0], &options, &tagger);
    const int code = status == L3A_OK ? tag_listed(arguments, tagger, &choice, &pictures) : explain(arguments, status);
    l3a_tagger_free(tagger);
    list_free(&pictures);
    return code;
}

static int tag_features(const struct arguments *arguments, struct choice choice) {
    l3a_model *model = NULL;
    l3a_features *features = NULL;
    l3a_status status = l3a_model_load(arguments->context, arguments->positionals[0], &model);
    if (status == L3A_OK) {
        status = open_features(arguments->context, argument(arguments, "features"), NULL, NULL, &features);
    }
    if (status == L3A_OK) {
        status = predict_rows(model, features, choice);
    }
    l3a_features_free(features);
    l3a_model_free(model);
    return explain(arguments, status);
}

/* With --features there are no pictures to prepare. */
static bool pictures_only_unused(const struct arguments *arguments) {
    static const char *const names[] = {"pool", "size", "mean", "std", "filter", "orient"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (argument(arguments, names[i])) {
            complain(arguments, "--%s is about pictures, and has no effect with --features", names[i]);
            return false;
        }
    }
    return true;
}

int predict_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "table|json|csv", "table");
    const bool pictures = argument(arguments, "backbone") != NULL, rows = argument(arguments, "features") != NULL;
    struct choice choice = {.threshold = NAN, .format = format};
    if (!format || !argument_integer(arguments, "top", 1, 1000000, &choice.top) ||
        !argument_number(arguments, "threshold", -1e6, 1e6, &choice.threshold)) {
        return EXIT_USAGE;
    }
    if (choice.top > 0 && !isnan(choice.threshold)) {
        return complain(arguments, "--top and --threshold cannot be used together");
    }
    if (pictures == rows) {
        return complain(arguments, "give either --backbone with pictures, or --features");
    }
    if (rows && !pictures_only_unused(arguments)) {
        return EXIT_USAGE;
    }
    if (pictures ? arguments->positional_count < 2 : arguments->positional_count != 1) {
        return complain(arguments, pictures ? "name a model file and at least one picture" : "name one model file");
    }
    return pictures ? tag_pictures(arguments, choice) : tag_features(arguments, choice);
}
