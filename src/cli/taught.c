/* What teach prints: what was learned, and what to expect of each tag. */
#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

l3a_status fold_history(const struct arguments *arguments, const char *path) {
    char *target = realpath(path, NULL), *history_path = NULL;
    l3a_history *history = NULL;
    l3a_status status = L3A_OK;
    if (target && asprintf(&history_path, "%s.history", target) >= 0 && access(history_path, F_OK) == 0) {
        status = l3a_history_open(arguments->context, path, &history);
        if (status == L3A_OK && l3a_history_ahead(history)) {
            status = l3a_history_save(history);
        }
        l3a_history_free(history);
    }
    free(history_path);
    free(target);
    return status;
}

/* What to expect of each tag, if half of the pictures show none of the tags, and of all if most of them do. */
static const double background[] = {0.5, 0.8};
enum { SHARES = sizeof background / sizeof background[0] };

struct expectation {
    size_t count, library; /* tags; pictures of the library that is at hand, 0: none is, and what follows is about any pictures */
    uint64_t *tagged;      /* of the library */
    double *precision, *recall; /* precision [SHARES x count] */
    uint64_t *shown, *judged;
    double mean_precision[SHARES], mean_recall; /* over the tags that have both; NaN if none has */
    uint64_t fewest;                            /* pictures of a tag */
    size_t unknown;                             /* tags of which nothing can be said */
    bool one_sided;                             /* there is no picture without the tag, for any tag */
};

static void expectation_free(struct expectation *expectation) {
    free(expectation->precision);
    free(expectation->recall);
    free(expectation->shown);
    free(expectation->judged);
    free(expectation->tagged);
}

l3a_status count_tagged(l3a_tagger *tagger, struct tagged_before *before) {
    const l3a_model *model = l3a_tagger_model(tagger);
    const size_t count = model ? l3a_model_class_count(model) : 0;
    const l3a_history *history = NULL;
    if (!l3a_tagger_library(tagger)) {
        return L3A_OK;
    }
    before->tags = calloc(count + 1, sizeof *before->tags);
    before->pictures = calloc(count + 1, sizeof *before->pictures);
    if (!before->tags || !before->pictures) {
        return L3A_ERROR_MEMORY;
    }
    for (; before->count < count; before->count++) {
        before->tags[before->count] = strdup(l3a_model_class(model, before->count));
    }
    l3a_status status = l3a_tagger_history(tagger, &history);
    if (status == L3A_OK) {
        status = l3a_history_foresee_in(history, l3a_tagger_library(tagger), NULL, NULL, before->pictures);
    }
    return status;
}

void tagged_before_free(struct tagged_before *before) {
    for (size_t i = 0; i < before->count; i++) {
        free(before->tags[i]);
    }
    free(before->tags);
    free(before->pictures);
}

/* 0 for a tag that is new. */
static uint64_t tagged_then(const struct tagged_before *before, const char *tag) {
    for (size_t i = 0; i < before->count; i++) {
        if (before->tags[i] && strcmp(before->tags[i], tag) == 0) {
            return before->pictures[i];
        }
    }
    return 0;
}

static void summarise(const l3a_model *model, struct expectation *expectation) {
    double precision[SHARES] = {0}, recall = 0;
    size_t known = 0;
    expectation->fewest = UINT64_MAX;
    expectation->one_sided = true;
    for (size_t k = 0; k < expectation->count; k++) {
        const uint64_t images = l3a_model_class_images(model, k);
        const bool tells = !isnan(expectation->precision[k]) && !isnan(expectation->recall[k]);
        for (size_t i = 0; i < SHARES; i++) {
            precision[i] += tells ? expectation->precision[i * expectation->count + k] : 0;
        }
        recall += tells ? expectation->recall[k] : 0;
        known += tells;
        expectation->unknown += isnan(expectation->recall[k]) ? 1 : 0;
        expectation->fewest = images < expectation->fewest ? images : expectation->fewest;
        expectation->one_sided = expectation->one_sided && expectation->judged[k] == expectation->shown[k];
    }
    for (size_t i = 0; i < SHARES; i++) {
        expectation->mean_precision[i] = known ? precision[i] / (double)known : NAN;
    }
    expectation->mean_recall = known ? recall / (double)known : NAN;
}

/* library: NULL if none is at hand */
static l3a_status expect_of(const l3a_history *history, l3a_features *library, const l3a_model *model,
                            struct expectation *expectation) {
    const size_t count = l3a_model_class_count(model);
    *expectation = (struct expectation){.count = count,
                                        .precision = calloc(SHARES * count + 1, sizeof(double)),
                                        .recall = calloc(count + 1, sizeof(double)),
                                        .shown = calloc(count + 1, sizeof(uint64_t)),
                                        .judged = calloc(count + 1, sizeof(uint64_t)),
                                        .tagged = calloc(count + 1, sizeof(uint64_t))};
    if (!expectation->precision || !expectation->recall || !expectation->shown || !expectation->judged || !expectation->tagged) {
        return L3A_ERROR_MEMORY;
    }
    l3a_status status = l3a_history_foresee(history, background, SHARES, expectation->precision, expectation->recall,
                                            expectation->shown, expectation->judged, NULL);
    if (status == L3A_OK && library) {
        expectation->library = l3a_features_rows(library);
        status = l3a_history_foresee_in(history, library, expectation->precision, expectation->recall, expectation->tagged);
    }
    if (status == L3A_OK) {
        summarise(model, expectation);
    }
    return status;
}

static uint64_t file_size(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 ? (uint64_t)about.st_size : 0;
}

/* ---- Table ---- */

static size_t count_outcome(const l3a_lesson *lesson, bool unreadable) {
    size_t count = 0;
    for (size_t i = 0; i < l3a_lesson_count(lesson); i++) {
        const l3a_status outcome = l3a_lesson_outcome(lesson, i);
        count += unreadable ? outcome != L3A_OK && outcome != L3A_ERROR_EXISTS : outcome == L3A_ERROR_EXISTS;
    }
    return count;
}

/* Lists the pictures that were left out; those taught before only if they are few. */
static void print_left_out(const l3a_lesson *lesson) {
    enum { FEW = 3 };
    const size_t same = count_outcome(lesson, false);
    const char *bold = style(stderr, STYLE_BOLD), *plain = style(stderr, STYLE_PLAIN);
    for (size_t i = 0; i < l3a_lesson_count(lesson); i++) {
        const l3a_status outcome = l3a_lesson_outcome(lesson, i);
        if (outcome != L3A_OK && (outcome != L3A_ERROR_EXISTS || same <= FEW)) {
            fprintf(stderr, "%sskipped:%s %s\n", bold, plain, l3a_lesson_problem(lesson, i));
        }
    }
    if (same > FEW) {
        fprintf(stderr, "%sskipped:%s %zu pictures that were taught before in the same way\n", bold, plain, same);
    }
}

static void print_nothing_new(const struct arguments *arguments) {
    const char *path = arguments->positionals[0], *dim = argument(arguments, "dim");
    const bool lesson = arguments->positional_count > 1 || argument(arguments, "list"); /* otherwise there was nothing to teach */
    if (dim) {
        printf("nothing new was taught; %s has dim %s\n", path, dim);
    } else if (!argument(arguments, "unlabelled") && !argument(arguments, "no-unlabelled")) {
        printf("nothing new was taught; %s is as it was\n", path);
    } else if (lesson) {
        printf("nothing new was taught\n");
    }
}

static void print_learned(const struct arguments *arguments, const l3a_model *model, const l3a_teach_report *report,
                          const l3a_history *history) {
    const size_t tags = l3a_model_class_count(model);
    l3a_unlabelled_info unlabelled = {.size = sizeof unlabelled};
    if (argument(arguments, "no-unlabelled")) {
        printf("no unlabelled pictures act any more\n");
    } else if (l3a_model_unlabelled(model, &unlabelled) == L3A_OK && unlabelled.images) {
        printf("%" PRIu64 " of %" PRIu64 " unlabelled %s %s\n", unlabelled.images, unlabelled.drawn_from,
               plural(unlabelled.drawn_from, "picture", "pictures"), plural(unlabelled.images, "acts", "act"));
    }
    if (!report->images) {
        print_nothing_new(arguments);
        return;
    }
    printf("taught %" PRIu64 " %s", report->images, plural(report->images, "picture", "pictures"));
    for (size_t k = tags - report->new_classes; k < tags; k++) {
        printf("%s%s", k > tags - report->new_classes ? ", " : plural(report->new_classes, "; new tag: ", "; new tags: "),
               l3a_model_class(model, k));
    }
    printf("\n");
    if (!report->exact) {
        printf("  With these settings, the result depends on the order in which pictures are taught.\n");
    }
    if (argument(arguments, "no-undo")) {
        printf("  Nothing was kept of the pictures; this lesson and those before it cannot be undone.\n");
    } else if (l3a_history_count(history) == 1) {
        char size[32];
        if (l3a_history_gap(history)[0]) {
            printf("  What was taught before cannot be undone: %s.\n", l3a_history_gap(history));
        }
        printf("  %s (%s) keeps the paths, tags and features of the pictures, so that 'l3a undo' can take lessons back.\n"
               "  Only you can read it. Features tell something about a picture; --no-undo keeps nothing.\n",
               l3a_history_path(history), size_text(l3a_history_bytes(history), size));
    }
}

static void print_made(const struct arguments *arguments, const l3a_model *model) {
    const char *path = arguments->positionals[0], *place = l3a_model_record(model, "backbone-path");
    char size[32];
    if (place && strncmp(place, "../", 3) == 0) { /* not below the model's folder */
        place = l3a_model_record(model, "backbone-path-absolute");
    }
    printf("made %s: %s, %zu numbers per picture from %s\n", path, size_text(file_size(path), size), l3a_model_width(model),
           l3a_model_record(model, "backbone"));
    if (place) {
        printf("  It remembers its backbone, %s; --backbone is not needed again.\n", place);
    }
}

enum { TAG_COLUMNS = 6, COLUMNS_WITHOUT_LIBRARY = 4 };

static size_t column_count(const struct expectation *expectation) {
    return expectation->library ? TAG_COLUMNS : COLUMNS_WITHOUT_LIBRARY;
}

static void list_columns(const l3a_model *model, struct column columns[TAG_COLUMNS]) {
    static const struct column all[TAG_COLUMNS] = {{"tag", "tag", -3, 0, 0, 0, NULL},
                                                   {"pictures", "pictures", 8, 2, 0, 0, NULL},
                                                   {"precision", "precision", 9, 2, 0, 2, " %"},
                                                   {"recall", "recall", 9, 2, 0, 2, " %"},
                                                   {"tagged", "tagged", 6, 2, 0, 0, NULL},
                                                   {"tagged_before", "before", 6, 2, 0, 0, NULL}};
    memcpy(columns, all, sizeof all);
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        column_widen(&columns[0], l3a_model_class(model, k));
    }
}

static void print_tag(struct printer *printer, const struct column *columns, const l3a_model *model,
                      const struct expectation *expectation, const struct tagged_before *before, size_t k) {
    const struct value values[TAG_COLUMNS] = {
        text_value(l3a_model_class(model, k)),   count_value(l3a_model_class_images(model, k)),
        number_value(expectation->precision[k]), number_value(expectation->recall[k]),
        count_value(expectation->tagged[k]),     count_value(tagged_then(before, l3a_model_class(model, k)))};
    print_values(printer, columns, values, column_count(expectation));
}

static void print_expectation(const l3a_model *model, const struct expectation *expectation, const struct tagged_before *before) {
    struct printer printer = printer_of("table");
    struct column columns[TAG_COLUMNS];
    list_columns(model, columns);
    printf("\n");
    print_headings(&printer, columns, column_count(expectation));
    for (size_t k = 0; k < expectation->count; k++) {
        print_tag(&printer, columns, model, expectation, before, k);
    }
}

/* What to do next if no library is at hand, or it does not tell. */
static void print_general_advice(const l3a_model *model, const char *path, const struct expectation *expectation) {
    enum { ENOUGH = 10 };
    l3a_unlabelled_info unlabelled = {.size = sizeof unlabelled};
    const bool acting = l3a_model_unlabelled(model, &unlabelled) == L3A_OK && unlabelled.images;
    if (expectation->one_sided && expectation->count && !acting) {
        printf("Every picture so far shows %s, so the model cannot tell it from anything else yet. Teach pictures of something\n"
               "else, some that do not show it (--not), or say where the pictures to be tagged are: l3a teach %s --unlabelled "
               "FOLDER\n",
               expectation->count == 1 ? l3a_model_class(model, 0) : "all tags", path);
        return;
    }
    if (expectation->unknown) {
        printf("'-': too few pictures to tell. At least two must show the tag%s.\n",
               expectation->library ? "" : ", and one must be known not to show it");
    }
    if (!isnan(expectation->mean_precision[0])) {
        printf("Expect this of other pictures if half of them show none of your tags: on average %.0f %% of the tags given will be "
               "right\n"
               "(precision), and %.0f %% of what is shown will be tagged (recall). If four out of five show none of your tags, "
               "only\n"
               "%.0f %% will be right.",
               expectation->mean_precision[0], expectation->mean_recall, expectation->mean_precision[1]);
        printf(acting ? "\n"
                      : " It helps to say where the pictures to be tagged are (--unlabelled FOLDER), and to teach some that\n"
                        "show none of your tags (--not).\n");
    }
    if (acting && !expectation->library) {
        printf("To see what to expect in the library, name it again: l3a teach %s --unlabelled FOLDER\n", path);
    }
    if (!isnan(expectation->mean_precision[0]) && expectation->fewest < ENOUGH) {
        printf("Some tags have fewer than %d pictures; a few more will help most.\n", ENOUGH);
    }
}

static void print_advice(const struct arguments *arguments, const l3a_model *model, const struct expectation *expectation) {
    const char *path = arguments->positionals[0];
    printf("\n");
    for (size_t k = 0; k < expectation->count; k++) {
        if (!l3a_model_class_images(model, k)) {
            printf("No picture shows %s any more. To make it part of another tag: l3a rename %s '%s' NEW\n",
                   l3a_model_class(model, k), path, l3a_model_class(model, k));
        }
    }
    if (expectation->library && !isnan(expectation->mean_precision[0])) {
        printf(
            "Expect this in the library: on average %.0f %% of the tags given will be right (precision), and %.0f %% of what is\n"
            "shown will be tagged (recall). 'tagged' counts the pictures that get the tag now, among %zu of the library; "
            "'before',\n"
            "those that got it before this lesson. Correcting tags helps most: l3a tag %s FOLDER --sort uncertain\n",
            expectation->mean_precision[0], expectation->mean_recall, expectation->library, path);
        return;
    }
    print_general_advice(model, path, expectation);
}

/* ---- JSON ---- */

static void print_json_skipped(struct printer *printer, const l3a_lesson *lesson) {
    put_open(printer, "skipped", '[');
    for (size_t i = 0; i < l3a_lesson_count(lesson); i++) {
        const l3a_status outcome = l3a_lesson_outcome(lesson, i);
        if (outcome != L3A_OK) {
            put_break(printer, 4);
            put_open(printer, NULL, '{');
            put_text(printer, "path", l3a_lesson_path(lesson, i));
            put_boolean(printer, "taught_before", outcome == L3A_ERROR_EXISTS);
            put_text(printer, "why", l3a_lesson_problem(lesson, i));
            put_close(printer, '}');
        }
    }
    if (printer->begun) {
        put_break(printer, 2);
    }
    put_close(printer, ']');
}

static void print_json(const struct arguments *arguments, const l3a_model *model, const l3a_lesson *lesson,
                       const l3a_teach_report *report, const struct expectation *expectation, const struct tagged_before *before) {
    l3a_unlabelled_info unlabelled = {.size = sizeof unlabelled};
    struct printer printer = printer_of("json");
    struct column columns[TAG_COLUMNS];
    char share[32];
    list_columns(model, columns);
    snprintf(share, sizeof share, "%g", background[0]);
    put_open(&printer, NULL, '{');
    put_break(&printer, 2);
    put_text(&printer, "model", arguments->positionals[0]);
    put_break(&printer, 2);
    put_count(&printer, "taught", report->images);
    put_break(&printer, 2);
    put_count(&printer, "new_tags", report->new_classes);
    put_break(&printer, 2);
    put_boolean(&printer, "exact", report->exact);
    put_break(&printer, 2);
    print_json_skipped(&printer, lesson);
    put_break(&printer, 2);
    put_json(&printer, "background", expectation->library ? "null" : share);
    put_break(&printer, 2);
    if (l3a_model_unlabelled(model, &unlabelled) == L3A_OK) {
        put_count(&printer, "unlabelled", unlabelled.images);
        put_break(&printer, 2);
        put_count(&printer, "library", unlabelled.drawn_from);
        put_break(&printer, 2);
    }
    put_open(&printer, "tags", '[');
    for (size_t k = 0; k < expectation->count; k++) {
        put_break(&printer, 4);
        put_open(&printer, NULL, '{');
        print_tag(&printer, columns, model, expectation, before, k);
        put_close(&printer, '}');
    }
    if (printer.begun) {
        put_break(&printer, 2);
    }
    put_close(&printer, ']');
    put_break(&printer, 0);
    put_close(&printer, '}');
    printf("\n");
}

int print_taught(const struct arguments *arguments, l3a_tagger *tagger, const l3a_lesson *lesson, const l3a_teach_report *report,
                 bool made, const struct tagged_before *before, const char *format) {
    const l3a_model *model = l3a_tagger_model(tagger);
    const l3a_history *history = NULL;
    struct expectation expectation = {0};
    l3a_status status = l3a_tagger_history(tagger, &history);
    if (status == L3A_OK) {
        status = expect_of(history, l3a_tagger_library(tagger), model, &expectation);
    }
    const bool unreadable = count_outcome(lesson, true) > 0;
    if (status == L3A_OK && strcmp(format, "json") == 0) {
        print_json(arguments, model, lesson, report, &expectation, before);
    } else if (status == L3A_OK) {
        print_left_out(lesson);
        print_learned(arguments, model, report, history);
        if (made) {
            print_made(arguments, model);
        }
    }
    if (status == L3A_OK && strcmp(format, "json") != 0 && expectation.count && (report->images || made || expectation.library)) {
        print_expectation(model, &expectation, before);
        print_advice(arguments, model, &expectation);
    }
    expectation_free(&expectation);
    const int code = explain(arguments, status);
    return code == EXIT_DONE && unreadable ? EXIT_USAGE : code;
}
