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

static void widen(struct choice *choice, const char *id) {
    const int width = display_width(id);
    choice->width = width > choice->width ? width : choice->width;
}

static int compare_tags(const void *left, const void *right) {
    const struct tag *a = left, *b = right;
    return a->chosen != b->chosen ? (a->chosen ? -1 : 1)
           : a->score > b->score  ? -1
           : a->score < b->score  ? 1
           : a->index < b->index  ? -1
                                  : 1;
}

size_t choose_tags(const l3a_model *model, const float *scores, struct choice choice, struct tag *tags) {
    const size_t classes = l3a_model_class_count(model);
    size_t count = 0;
    for (size_t k = 0; k < classes; k++) {
        const double score = (double)scores[k];
        tags[k] =
            (struct tag){k, score, !choice.top && score > (isnan(choice.threshold) ? choice.thresholds[k] : choice.threshold)};
        count += tags[k].chosen;
    }
    qsort(tags, classes, sizeof *tags, compare_tags);
    return !choice.top ? count : choice.top < classes ? (size_t)choice.top : classes;
}

static void print_row(const l3a_model *model, const char *id, int width, const struct tag *tags, size_t count, const char *format,
                      bool first) {
    const bool json = strcmp(format, "json") == 0, csv = strcmp(format, "csv") == 0;
    if (json) {
        printf("%s\n  {\"id\": ", first ? "" : ",");
        print_json_string(id);
        printf(", \"tags\": [");
    } else if (!csv) {
        const int padding = width - display_width(id);
        printf("%s%*s ", id, padding > 0 ? padding : 0, "");
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = l3a_model_class(model, tags[i].index);
        if (json) {
            printf("%s{\"class\": ", i ? ", " : "");
            print_json_string(name);
            printf(", \"score\": %.4f}", tags[i].score);
        } else if (csv) {
            print_csv_field(id);
            printf(",");
            print_csv_field(name);
            printf(",%.4f\n", tags[i].score);
        } else {
            printf("%s %s %.3f", i ? "," : "", name, tags[i].score);
        }
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

static l3a_status predict_rows(l3a_model *model, l3a_features *features, struct choice choice, const char *format) {
    enum { BLOCK = 512 };
    const size_t rows = l3a_features_rows(features), classes = l3a_model_class_count(model);
    float *values = calloc(BLOCK * l3a_features_width(features), sizeof *values),
          *scores = calloc(BLOCK * classes + 1, sizeof *scores);
    struct tag *tags = calloc(classes + 1, sizeof *tags);
    l3a_status status = values && scores && tags ? l3a_model_accepts(model, features) : L3A_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++) {
        widen(&choice, l3a_features_id(features, i) ? l3a_features_id(features, i) : "");
    }
    for (size_t first = 0; status == L3A_OK && first < rows; first += BLOCK) {
        const size_t count = rows - first < BLOCK ? rows - first : BLOCK;
        status = l3a_features_read(features, NULL, first, count, values);
        if (status == L3A_OK) {
            status = l3a_model_score(model, values, count, scores);
        }
        if (status == L3A_OK && !first) {
            print_start(format);
        }
        for (size_t i = 0; status == L3A_OK && i < count; i++) {
            char number[32];
            const char *id = l3a_features_id(features, first + i);
            snprintf(number, sizeof number, "%zu", first + i);
            print_row(model, id ? id : number, choice.width, tags, choose_tags(model, scores + i * classes, choice, tags), format,
                      first + i == 0);
        }
    }
    if (status == L3A_OK) {
        print_end(format);
    }
    free(values);
    free(scores);
    free(tags);
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

/* Whether the model's features came from this backbone. */
static l3a_status check_backbone(l3a_context *context, l3a_model *model, const l3a_backbone *backbone, bool orient) {
    const size_t width = l3a_backbone_describe(backbone)->width;
    float *values = calloc(width, sizeof *values);
    l3a_features *features = NULL;
    l3a_status status = values ? l3a_features_wrap(context, values, NULL, 1, width, NULL, 0, &features) : L3A_ERROR_MEMORY;
    if (status == L3A_OK) {
        status = l3a_backbone_sign(backbone, orient, features);
    }
    if (status == L3A_OK) {
        status = l3a_model_accepts(model, features);
    }
    l3a_features_free(features);
    free(values);
    return status;
}

struct picture_run {
    l3a_model *model;
    l3a_backbone *backbone;
    l3a_loader *loader;
    struct choice choice;
    const char *format;
    float *planes, *features, *scores;
    struct tag *tags;
    size_t bad;
    bool printed;
};

static l3a_status predict_pictures(const struct arguments *arguments, struct picture_run *run, const struct list *pictures) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; status == L3A_OK && i < pictures->count; i++) {
        size_t index;
        const l3a_status loaded = l3a_loader_next(run->loader, &index, run->planes);
        if (loaded == L3A_ERROR_CANCELLED || loaded == L3A_ERROR_MEMORY) {
            return loaded;
        }
        if (loaded != L3A_OK) {
            explain(arguments, loaded);
            run->bad++;
            continue;
        }
        status = l3a_backbone_run(run->backbone, run->planes, 1, run->features);
        if (status == L3A_OK) {
            status = l3a_model_score(run->model, run->features, 1, run->scores);
        }
        if (status == L3A_OK) {
            print_row(run->model, pictures->items[index], run->choice.width, run->tags,
                      choose_tags(run->model, run->scores, run->choice, run->tags), run->format, !run->printed);
            run->printed = true;
        }
    }
    return status;
}

static int tag_pictures(const struct arguments *arguments, l3a_model *model, struct choice choice, const char *format) {
    l3a_context *context = arguments->context;
    struct picture_run run = {.model = model, .choice = choice, .format = format};
    struct list pictures = {0};
    l3a_backbone_options options;
    l3a_loader_options loading = {.size = sizeof loading};
    const l3a_picture_options picture = {.size = sizeof picture, .orient = argument(arguments, "orient") != NULL};
    if (!backbone_arguments(arguments, &options) || !list_pictures(arguments, &pictures) || interrupted) {
        list_free(&pictures);
        return interrupted ? EXIT_INTERRUPTED : EXIT_USAGE;
    }
    for (size_t i = 0; i < pictures.count; i++) {
        widen(&run.choice, pictures.items[i]);
    }
    l3a_status status = l3a_backbone_open(context, argument(arguments, "backbone"), &options, &run.backbone);
    if (status == L3A_OK) {
        status = check_backbone(context, model, run.backbone, argument(arguments, "orient") != NULL);
    }
    if (status == L3A_OK) {
        const l3a_backbone_info *info = l3a_backbone_describe(run.backbone);
        loading.width = loading.height = info->size;
        loading.filter = info->filter;
        loading.picture = &picture;
        memcpy(loading.mean, info->mean, sizeof loading.mean);
        memcpy(loading.deviation, info->deviation, sizeof loading.deviation);
        run.planes = calloc(3 * info->size * info->size, sizeof *run.planes);
        run.features = calloc(info->width, sizeof *run.features);
        run.scores = calloc(l3a_model_class_count(model) + 1, sizeof *run.scores);
        run.tags = calloc(l3a_model_class_count(model) + 1, sizeof *run.tags);
        status = l3a_loader_create(context, pictures.items, pictures.count, &loading, &run.loader);
    }
    const bool room = run.planes && run.features && run.scores && run.tags;
    if (status == L3A_OK && room) {
        print_start(format);
        status = predict_pictures(arguments, &run, &pictures);
        print_end(format);
    }
    const int code = status == L3A_OK && !room ? complain(arguments, "out of memory") : explain(arguments, status);
    l3a_loader_free(run.loader);
    l3a_backbone_free(run.backbone);
    list_free(&pictures);
    free(run.planes);
    free(run.features);
    free(run.scores);
    free(run.tags);
    return code == EXIT_DONE && run.bad ? EXIT_USAGE : code;
}

static int tag_features(const struct arguments *arguments, l3a_model *model, struct choice choice, const char *format) {
    l3a_features *features = NULL;
    l3a_status status = open_features(arguments->context, argument(arguments, "features"), NULL, NULL, &features);
    if (status == L3A_OK) {
        status = predict_rows(model, features, choice, format);
    }
    l3a_features_free(features);
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
    struct choice choice = {.threshold = NAN};
    l3a_model *model = NULL;
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
    l3a_status status = l3a_model_load(arguments->context, arguments->positionals[0], &model);
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    double *thresholds = calloc(l3a_model_class_count(model) + 1, sizeof *thresholds);
    int code = EXIT_FAILED;
    if (thresholds) {
        l3a_model_thresholds(model, thresholds);
        choice.thresholds = thresholds;
        code = pictures ? tag_pictures(arguments, model, choice, format) : tag_features(arguments, model, choice, format);
    }
    free(thresholds);
    l3a_model_free(model);
    return code;
}
