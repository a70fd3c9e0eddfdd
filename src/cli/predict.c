/* l3a predict: tags for pictures, or for the rows of a feature file. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option predict_options[] = {
    {"backbone", "FILE", "checkpoint that made the features the model was trained on"},
    {"features", "FILE", "tag the rows of a feature file instead of pictures; labels are not needed"},
    {"views", "N", "score with these views, whatever the model was learned with; of pictures 1, 5, 9 or 14 [as the model says]"},
    {"top", "N", "print the N classes with the highest scores"},
    {"threshold", "X", "print the classes with a score above this [the model's thresholds]"},
    {"format", "table|json|csv", "output format [table]"},
    BACKBONE_OPTIONS("as in extract: "),
    {"orient", NULL, "as in extract"},
    {NULL, NULL, NULL},
};

struct view {
    struct tag_choice choice;
    struct printer printer;
    int width; /* of the name of a picture or row */
};

static void widen(struct view *view, const char *id) {
    const int width = display_width(id);
    view->width = width > view->width ? width : view->width;
}

static const struct column columns[] = {{.name = "id"}, {.name = "class"}, {.name = "score", .exact = 4}};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* One row per tag; an image without a tag has one as well. */
static void print_tags(struct view *view, const char *id, const l3a_tags *tags) {
    size_t count = 0;
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (tag_is_chosen(&view->choice, tags, i)) {
            const struct value values[COLUMNS] = {text_value(id), text_value(l3a_tags_name(tags, i)),
                                                  number_value((double)l3a_tags_score(tags, i))};
            print_values(&view->printer, columns, values, COLUMNS);
            count++;
        }
    }
    if (!count) {
        const struct value values[COLUMNS] = {text_value(id), text_value(""), number_value(NAN)};
        print_values(&view->printer, columns, values, COLUMNS);
    }
}

static void print_row(struct view *view, const char *id, const l3a_tags *tags) {
    struct printer *printer = &view->printer;
    switch (printer->form) {
    case FORM_TABLE:
        printf("%*s ", -view->width, id);
        write_tags(stdout, &view->choice, tags);
        printf("\n");
        break;
    case FORM_JSON:
        put_break(printer, 2);
        put_open(printer, NULL, '{');
        put_text(printer, "id", id);
        put_tags(printer, &view->choice, tags, "class");
        put_close(printer, '}');
        break;
    case FORM_CSV: print_tags(view, id, tags); break;
    }
}

static void print_start(struct view *view) {
    if (view->printer.form == FORM_JSON) {
        put_open(&view->printer, NULL, '[');
    } else if (view->printer.form == FORM_CSV) {
        print_headings(&view->printer, columns, COLUMNS);
    }
}

static void print_end(struct view *view) {
    if (view->printer.form == FORM_JSON) {
        put_break(&view->printer, 0);
        put_close(&view->printer, ']');
        printf("\n");
    }
}

/* Prints the tags of rows of scores, of which `first` is the number of the first in the table. */
static l3a_status print_rows(struct view *view, const l3a_model *model, const l3a_features *features, size_t first, size_t count,
                             const float *scores, const double *thresholds) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        char number[32];
        l3a_tags *tags = NULL;
        const char *id = l3a_features_id(features, first + i);
        snprintf(number, sizeof number, "%zu", first + i);
        status = l3a_tags_create(model, scores + i * l3a_model_class_count(model), thresholds, &tags);
        if (status == L3A_OK) {
            print_row(view, id ? id : number, tags);
        }
        l3a_tags_free(tags);
    }
    return status;
}

static l3a_status predict_rows(l3a_model *model, l3a_features *features, struct view view) {
    enum { BLOCK = 512 };
    const size_t rows = l3a_features_rows(features), classes = l3a_model_class_count(model),
                 row = l3a_view_rows(l3a_features_views(features)) * l3a_features_width(features);
    float *values = calloc(BLOCK * row, sizeof *values), *scores = calloc(BLOCK * classes + 1, sizeof *scores);
    double *thresholds = calloc(classes + 1, sizeof *thresholds);
    l3a_status status = values && scores && thresholds ? l3a_model_accepts_to_score(model, features) : L3A_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++) {
        widen(&view, l3a_features_id(features, i) ? l3a_features_id(features, i) : "");
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
            print_start(&view);
        }
        if (status == L3A_OK) {
            status = print_rows(&view, model, features, first, count, scores, thresholds);
        }
    }
    if (status == L3A_OK) {
        print_end(&view);
    }
    free(values);
    free(scores);
    free(thresholds);
    return status;
}

struct picture_run {
    const struct arguments *arguments;
    const struct list *pictures;
    struct view *view;
};

/* Prints the tags of a picture, or why it has none. */
static bool print_picture(size_t index, const l3a_tags *tags, const char *error, const char *hint, void *user) {
    struct picture_run *run = user;
    if (tags) {
        print_row(run->view, run->pictures->items[index], tags);
    } else {
        explain_error(run->arguments, L3A_ERROR_FORMAT, error, hint);
    }
    return true;
}

static int tag_listed(const struct arguments *arguments, l3a_tagger *tagger, struct view *view, const struct list *pictures) {
    struct picture_run run = {.arguments = arguments, .pictures = pictures, .view = view};
    print_start(view);
    const int code = tag_pictures(arguments, tagger, pictures->items, pictures->count, print_picture, &run);
    print_end(view);
    return code;
}

static int predict_pictures(const struct arguments *arguments, struct view view) {
    l3a_backbone_options backbone;
    const l3a_picture_options picture = {.size = sizeof picture, .orient = argument(arguments, "orient") != NULL};
    struct list pictures = {0};
    l3a_tagger *tagger = NULL;
    size_t views = 0;
    if (!backbone_arguments(arguments, &backbone) || !views_argument(arguments, &views) || !list_pictures(arguments, &pictures) ||
        interrupted) {
        list_free(&pictures);
        return interrupted ? EXIT_INTERRUPTED : EXIT_USAGE;
    }
    for (size_t i = 0; i < pictures.count; i++) {
        widen(&view, pictures.items[i]);
    }
    const l3a_tagger_options options = {.size = sizeof options,
                                        .backbone = argument(arguments, "backbone"),
                                        .backbone_options = backbone_argument_given(arguments) ? &backbone : NULL,
                                        .picture_options = &picture,
                                        .batch = 1, /* the tags of a picture do not depend on its neighbours */
                                        .views = views};
    const l3a_status status = l3a_tagger_open(arguments->context, arguments->positionals[0], &options, &tagger);
    const int code = status == L3A_OK ? tag_listed(arguments, tagger, &view, &pictures) : explain(arguments, status);
    l3a_tagger_free(tagger);
    list_free(&pictures);
    return code;
}

static int predict_features(const struct arguments *arguments, struct view view) {
    l3a_model *model = NULL;
    l3a_features *features = NULL;
    const char *views = argument(arguments, "views");
    l3a_status status = l3a_model_load(arguments->context, arguments->positionals[0], &model);
    if (status == L3A_OK && views) {
        status = l3a_model_set_option(model, "score-views", views);
    }
    if (status == L3A_OK) {
        status = open_features(arguments, argument(arguments, "features"), NULL, NULL, &features);
    }
    if (status == L3A_OK) {
        status = predict_rows(model, features, view);
    }
    l3a_features_free(features);
    l3a_model_free(model);
    return explain(arguments, status);
}

/* With --features there are no pictures to prepare. */
static bool pictures_only_unused(const struct arguments *arguments) {
    const char *name = argument(arguments, "orient") ? "orient" : backbone_argument_given(arguments);
    if (name) {
        complain(arguments, "--%s is about pictures, and has no effect with --features", name);
        return false;
    }
    return true;
}

int predict_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "table|json|csv", "table");
    const bool pictures = argument(arguments, "backbone") != NULL, rows = argument(arguments, "features") != NULL;
    struct view view = {0};
    if (!format || !tag_choice_arguments(arguments, &view.choice)) {
        return EXIT_USAGE;
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
    view.printer = printer_of(format);
    return pictures ? predict_pictures(arguments, view) : predict_features(arguments, view);
}
