/* l3a tag: the tags of pictures, and of folders and tar files full of them, as text or as XMP files beside the pictures. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option tag_options[] = {
    {"o", "FILE", "write the tags to a file; its name decides the format if it ends in .csv or .json"},
    {"format", "table|json|csv", "output format [table]"},
    {"csv", NULL, "the same as --format csv"},
    {"json", NULL, "the same as --format json"},
    {"top", "N", "give every picture the N tags with the highest scores"},
    {"threshold", "X", "give tags with a score above this [the model's thresholds]"},
    {"views", "1|5|9|14", "look at so many crops of each picture, too: slower, but finds small things [as the model was taught]"},
    {"sort", "given|name|uncertain", "order of the pictures; uncertain: first those whose tags are most in doubt [given]"},
    {"xmp", NULL, "also write the tags to an XMP file beside each picture, and keep what is in it"},
    {"xmp-replace", NULL, "the same, and remove tags that the model knows but did not give"},
    {"xmp-name", "photo.jpg.xmp|photo.xmp", "how new XMP files are named [photo.jpg.xmp]"},
    {"backbone", "FILE", "the model's checkpoint, if the model does not know where it is"},
    {"orient", "0|1", "1: turn pictures upright as their EXIF orientation says; 0: do not [as the model was taught]"},
    {NULL, NULL, NULL},
};

enum order { GIVEN, BY_NAME, UNCERTAIN };

/* A picture's part of the output, kept until all are known. */
struct row {
    const char *path;
    double distance; /* from the decision that is most in doubt */
    char *text;
};

struct tag_run {
    const struct arguments *arguments;
    struct tag_choice choice;
    struct printer printer;
    enum order order;
    const char *output; /* path of the file; NULL: the standard output */
    int width;          /* of the paths */
    const l3a_pictures *pictures;
    struct row *rows; /* if they are sorted */
    size_t row_count;
    bool checked; /* whether a tag contains a semicolon */
    size_t bad;
    bool xmp, replace, short_name;
    size_t written, unchanged, failed; /* sidecars */
    int code;                          /* of what failed; a full disk counts most */
};

/* ---- Rows ---- */

/* A tag, and how far its score is from the threshold, where the decision changes. */
struct doubt {
    const char *tag; /* NULL: there are no tags */
    double score, threshold, distance;
};

/* The tag that is most in doubt. */
static struct doubt find_doubt(const struct tag_run *run, const l3a_tags *tags) {
    struct doubt least = {.distance = INFINITY};
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        const double score = (double)l3a_tags_score(tags, i),
                     threshold = isnan(run->choice.threshold) ? l3a_tags_threshold(tags, i) : run->choice.threshold;
        if (!least.tag || fabs(score - threshold) < least.distance) {
            least = (struct doubt){l3a_tags_name(tags, i), score, threshold, fabs(score - threshold)};
        }
    }
    return least;
}

/* An error of a picture begins with its path, which the row has already. */
static const char *reason_of(const char *path, const char *error) {
    const size_t length = strlen(path);
    return strncmp(error, path, length) == 0 && strncmp(error + length, ": ", 2) == 0 ? error + length + 2 : error;
}

static void write_table_row(const struct tag_run *run, FILE *to, const char *path, const l3a_tags *tags, const char *error) {
    const int padding = run->width - display_width(path);
    fprintf(to, "%s%*s ", path, padding > 0 ? padding : 0, "");
    if (error) {
        const char *reason = reason_of(path, error), opened[] = "cannot open: ";
        const bool says_so = strncmp(reason, opened, sizeof opened - 1) == 0;
        fprintf(to, " cannot be read: %s\n", says_so ? reason + sizeof opened - 1 : reason);
        return;
    }
    write_tags(to, &run->choice, tags);
    const struct doubt doubt = find_doubt(run, tags);
    if (run->order == UNCERTAIN && doubt.tag) {
        fprintf(to, "   in doubt: %s %.3f (threshold %.3f)", doubt.tag, doubt.score, doubt.threshold);
    }
    fputs("\n", to);
}

static void write_json_row(const struct tag_run *run, struct printer *printer, const char *path, const l3a_tags *tags,
                           const char *error) {
    put_open(printer, NULL, '{');
    put_text(printer, "path", path);
    put_tags(printer, &run->choice, tags, "tag");
    const struct doubt doubt = find_doubt(run, tags);
    if (run->order == UNCERTAIN && doubt.tag) {
        put_open(printer, "doubtful", '{');
        put_text(printer, "tag", doubt.tag);
        put_number(printer, "score", doubt.score, 4);
        put_number(printer, "threshold", doubt.threshold, 4);
        put_close(printer, '}');
    }
    if (error) {
        put_text(printer, "error", reason_of(path, error));
    }
    put_close(printer, '}');
}

/* Paths in a list are relative to the list's folder. "./" keeps spreadsheets from taking one for a formula, and readers of lists
 * from dropping blanks before it. To be freed; NULL if there is no memory. */
static char *listed_path(const struct tag_run *run, const char *path) {
    const char *slash = run->output ? strrchr(run->output, '/') : NULL, *before = "", *between = "";
    const size_t folder = slash ? (size_t)(slash - run->output) + 1 : 0;
    char *made = NULL;
    if (folder && path[0] != '/' && strncmp(path, run->output, folder) == 0) {
        path += folder;
    } else if (folder && path[0] != '/' && run->arguments->directory) {
        before = run->arguments->directory;
        between = "/";
    }
    const char *first = before[0] ? before : path;
    const bool odd = first[0] == ' ' || is_formula(first);
    return asprintf(&made, "%s%s%s%s", odd ? "./" : "", before, between, path) < 0 ? NULL : made;
}

/* All chosen tags in one text: their names, none of which a spreadsheet takes for a formula, or their scores. To be freed; NULL if
 * there is no memory. */
static char *listed_tags(const struct tag_run *run, const l3a_tags *tags, bool names) {
    char *text = NULL;
    size_t length = 0, count = 0;
    FILE *memory = open_memstream(&text, &length);
    for (size_t i = 0; memory && i < l3a_tags_count(tags); i++) {
        if (tag_is_chosen(&run->choice, tags, i)) {
            fputs(count++ ? ";" : "", memory);
            if (names) {
                fputs(count > 1 && is_formula(l3a_tags_name(tags, i)) ? " " : "", memory);
                fputs(l3a_tags_name(tags, i), memory);
            } else {
                fprintf(memory, "%.4f", (double)l3a_tags_score(tags, i));
            }
        }
    }
    const bool good = memory && fclose(memory) == 0;
    if (!good) {
        free(text);
    }
    return good ? text : NULL;
}

static const struct column columns[] = {{.name = "path"}, {.name = "labels"}, {.name = "scores"}, {.name = "error"}},
                           doubtful_columns[] = {
                               {.name = "path"}, {.name = "labels"}, {.name = "scores"}, {.name = "doubtful"}, {.name = "error"}};

static void write_csv_row(const struct tag_run *run, struct printer *printer, const char *path, const l3a_tags *tags,
                          const char *error) {
    char *listed = listed_path(run, path), *names = listed_tags(run, tags, true), *scores = listed_tags(run, tags, false);
    const char *reason = error ? reason_of(path, error) : "", *doubtful = find_doubt(run, tags).tag;
    const struct value first[] = {text_value(listed ? listed : path), text_value(names ? names : ""),
                                  word_value(scores ? scores : "")};
    if (run->order == UNCERTAIN) {
        print_values(printer, doubtful_columns,
                     (struct value[]){first[0], first[1], first[2], text_value(doubtful ? doubtful : ""), text_value(reason)}, 5);
    } else {
        print_values(printer, columns, (struct value[]){first[0], first[1], first[2], text_value(reason)}, 4);
    }
    free(listed);
    free(names);
    free(scores);
}

static void begin(struct tag_run *run) {
    if (run->printer.form == FORM_JSON) {
        put_open(&run->printer, NULL, '[');
    } else if (run->printer.form == FORM_CSV && run->order == UNCERTAIN) {
        print_headings(&run->printer, doubtful_columns, 5);
    } else if (run->printer.form == FORM_CSV) {
        print_headings(&run->printer, columns, 4);
    }
}

static void end(struct tag_run *run) {
    if (run->printer.form == FORM_JSON) {
        put_break(&run->printer, 0);
        put_close(&run->printer, ']');
        fputs("\n", run->printer.to);
    }
}

static void write_row(const struct tag_run *run, struct printer *printer, const char *path, const l3a_tags *tags,
                      const char *error) {
    switch (printer->form) {
    case FORM_TABLE: write_table_row(run, printer->to, path, tags, error); break;
    case FORM_JSON: write_json_row(run, printer, path, tags, error); break;
    case FORM_CSV: write_csv_row(run, printer, path, tags, error); break;
    }
}

/* Writes a row, or keeps it if the rows are sorted later. */
static void add_row(struct tag_run *run, const char *path, const l3a_tags *tags, const char *error) {
    run->bad += error != NULL;
    if (!run->rows) {
        put_break(&run->printer, 2);
        write_row(run, &run->printer, path, tags, error);
        return;
    }
    struct row *row = &run->rows[run->row_count++];
    size_t length;
    row->path = path;
    row->distance = find_doubt(run, tags).distance; /* unreadable pictures come last */
    FILE *memory = open_memstream(&row->text, &length);
    if (memory) {
        struct printer printer = {.to = memory, .form = run->printer.form, .visible = run->printer.visible};
        write_row(run, &printer, path, tags, error);
        fclose(memory);
    }
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const struct row *)left)->path, ((const struct row *)right)->path);
}

static int compare_distances(const void *left, const void *right) {
    const struct row *a = left, *b = right;
    return a->distance < b->distance ? -1 : a->distance > b->distance ? 1 : compare_names(left, right);
}

static void write_sorted(struct tag_run *run) {
    if (run->row_count) {
        qsort(run->rows, run->row_count, sizeof *run->rows, run->order == BY_NAME ? compare_names : compare_distances);
    }
    for (size_t i = 0; i < run->row_count; i++) {
        const char *text = run->rows[i].text ? run->rows[i].text : "";
        if (run->printer.form == FORM_JSON) {
            put_break(&run->printer, 2);
            put_json(&run->printer, NULL, text);
        } else {
            fputs(text, run->printer.to);
        }
    }
}

/* ---- Sidecars ---- */

static void write_sidecar(struct tag_run *run, const char *path, const l3a_tags *tags) {
    const size_t all = l3a_tags_count(tags);
    const char **names = calloc(2 * all + 1, sizeof *names);
    size_t count = 0;
    int changed = 0;
    if (!names) {
        run->failed++;
        run->code = run->code ? run->code : EXIT_USAGE;
        return;
    }
    for (size_t i = 0; i < all; i++) {
        names[all + i] = l3a_tags_name(tags, i);
        if (tag_is_chosen(&run->choice, tags, i)) {
            names[count++] = l3a_tags_name(tags, i);
        }
    }
    const l3a_sidecar_options options = {.size = sizeof options,
                                         .remove = run->replace ? names + all : NULL,
                                         .remove_count = run->replace ? all : 0,
                                         .short_name = run->short_name};
    const l3a_status status = l3a_sidecar_write(run->arguments->context, path, names, count, &options, &changed);
    const int code = explain(run->arguments, status);
    run->code = code > EXIT_DONE && run->code != EXIT_FAILED ? code : run->code;
    run->failed += status != L3A_OK;
    run->written += status == L3A_OK && changed;
    run->unchanged += status == L3A_OK && !changed;
    free(names);
}

/* A list separates tags by semicolons and has no way to escape one. */
static void warn_of_semicolons(const l3a_tags *tags) {
    const char *name;
    for (size_t i = 0; (name = l3a_tags_name(tags, i)); i++) {
        if (strchr(name, ';')) {
            progress_clear();
            fprintf(stderr, "%swarning:%s the tag '%s' contains a semicolon, so the column 'labels' cannot tell it from two tags\n",
                    style(stderr, STYLE_BOLD), style(stderr, STYLE_PLAIN), name);
            return;
        }
    }
}

static void take_picture(size_t index, const l3a_tags *tags, const char *error, const char *hint, void *user) {
    struct tag_run *run = user;
    const char *path = l3a_pictures_path(run->pictures, index);
    (void)hint;
    if (tags && run->printer.form == FORM_CSV && !run->arguments->quiet && !run->checked) {
        warn_of_semicolons(tags);
        run->checked = true; /* all pictures have the same tags */
    }
    add_row(run, path, tags, error);
    if (tags && run->xmp) {
        write_sidecar(run, path, tags);
    }
}

/* ---- The command ---- */

static size_t skipped_count(const l3a_pictures *pictures) {
    size_t count = 0;
    while (l3a_pictures_skipped(pictures, count)) {
        count++;
    }
    return count;
}

static void measure_paths(struct tag_run *run) {
    const char *path;
    for (size_t i = 0; i < l3a_pictures_count(run->pictures); i++) {
        const int width = display_width(l3a_pictures_path(run->pictures, i));
        run->width = width > run->width ? width : run->width;
    }
    for (size_t i = 0; (path = l3a_pictures_skipped(run->pictures, i)); i++) {
        const int width = display_width(path);
        run->width = width > run->width ? width : run->width;
    }
}

static void print_summary(const struct tag_run *run, size_t count) {
    const size_t others = l3a_pictures_others(run->pictures);
    progress_clear();
    if (run->bad) {
        complain(run->arguments, "%zu of %zu %s could not be read", run->bad, count, plural(count, "picture", "pictures"));
    }
    if (others && !run->arguments->quiet) {
        fprintf(stderr, "%zu other %s in the folders %s left alone\n", others, plural(others, "file", "files"),
                plural(others, "was", "were"));
    }
    if (run->xmp && !run->arguments->quiet) {
        fprintf(stderr, "XMP files: %zu written, %zu unchanged, %zu failed\n", run->written, run->unchanged, run->failed);
    }
}

static int tag_found(struct tag_run *run, l3a_tagger *tagger) {
    const size_t count = l3a_pictures_count(run->pictures), skipped = skipped_count(run->pictures);
    run->rows = run->order == GIVEN ? NULL : calloc(count + skipped + 1, sizeof *run->rows);
    if (run->order != GIVEN && !run->rows) {
        return complain(run->arguments, "out of memory");
    }
    measure_paths(run);
    begin(run);
    int code = tag_found_pictures(run->arguments, tagger, run->pictures, 0, count, take_picture, run);
    for (size_t i = 0; i < skipped && code != EXIT_INTERRUPTED; i++) {
        add_row(run, l3a_pictures_skipped(run->pictures, i), NULL, l3a_pictures_reason(run->pictures, i));
    }
    write_sorted(run);
    end(run);
    print_summary(run, count + skipped);
    for (size_t i = 0; i < run->row_count; i++) {
        free(run->rows[i].text);
    }
    free(run->rows);
    if (code == EXIT_INTERRUPTED) {
        return code;
    }
    return run->code ? run->code : code == EXIT_DONE && run->bad ? EXIT_USAGE : code;
}

/* The output file is written at the end, in one step. After an interruption it stays as it was. */
static int tag_to_file(struct tag_run *run, l3a_tagger *tagger) {
    char *text = NULL;
    size_t length = 0;
    run->printer.to = open_memstream(&text, &length);
    if (!run->printer.to) {
        return complain(run->arguments, "out of memory");
    }
    int code = tag_found(run, tagger);
    const bool complete = fclose(run->printer.to) == 0;
    if (!complete) {
        code = complain(run->arguments, "out of memory");
    } else if (code != EXIT_INTERRUPTED) {
        const l3a_status status = l3a_file_write(run->arguments->context, run->output, text, length);
        code = status == L3A_OK ? code : explain(run->arguments, status);
    }
    free(text);
    return code;
}

static bool find_pictures(const struct arguments *arguments, l3a_pictures **pictures, int *code) {
    struct list list = {0};
    if (!list_pictures(arguments, &list)) {
        list_free(&list);
        *code = complain(arguments, "out of memory");
        return false;
    }
    const l3a_status status = l3a_pictures_find(arguments->context, list.items, list.count, pictures);
    list_free(&list);
    *code = interrupted ? EXIT_INTERRUPTED : explain(arguments, status);
    if (*code == EXIT_DONE && !l3a_pictures_count(*pictures) && !l3a_pictures_skipped(*pictures, 0)) {
        *code = complain(arguments, "there are no pictures in %s", list.count == 1 ? arguments->positionals[1] : "these folders");
    }
    return *code == EXIT_DONE;
}

/* There is no place beside a picture in a tar file. */
static bool sidecars_fit(const struct tag_run *run, const l3a_pictures *pictures) {
    for (size_t i = 0; run->xmp && i < l3a_pictures_count(pictures); i++) {
        const char *archive = l3a_pictures_archive(pictures, i);
        if (archive) {
            complain(run->arguments, "XMP files cannot be written beside pictures in a tar file: %s", archive);
            print_hint("write the tags to a file with -o tags.csv, or unpack the archive");
            return false;
        }
    }
    return true;
}

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static bool read_format(const struct arguments *arguments, struct tag_run *run) {
    const char *name = argument(arguments, "o") ? argument(arguments, "o") : "";
    const char *format = argument_choice(arguments, "format", "table|json|csv",
                                         ends_with(name, ".csv")    ? "csv"
                                         : ends_with(name, ".json") ? "json"
                                                                    : "table");
    const bool csv = argument(arguments, "csv") != NULL, json = argument(arguments, "json") != NULL;
    if (!format) {
        return false;
    }
    if ((argument(arguments, "format") != NULL) + csv + json > 1) {
        complain(arguments, "--format, --csv and --json cannot be used together");
        return false;
    }
    run->printer = printer_of(csv ? "csv" : json ? "json" : format);
    return true;
}

static bool read_arguments(const struct arguments *arguments, struct tag_run *run, l3a_picture_options *picture) {
    const char *sort = argument_choice(arguments, "sort", "given|name|uncertain", "given"),
               *name = argument_choice(arguments, "xmp-name", "photo.jpg.xmp|photo.xmp", "photo.jpg.xmp"),
               *orient = argument_choice(arguments, "orient", "0|1", "1");
    if (!sort || !name || !orient || !read_format(arguments, run) || !tag_choice_arguments(arguments, &run->choice)) {
        return false;
    }
    run->order = strcmp(sort, "name") == 0 ? BY_NAME : strcmp(sort, "uncertain") == 0 ? UNCERTAIN : GIVEN;
    run->output = argument(arguments, "o");
    run->replace = argument(arguments, "xmp-replace") != NULL;
    run->xmp = run->replace || argument(arguments, "xmp") != NULL;
    run->short_name = strcmp(name, "photo.xmp") == 0;
    run->printer.visible = run->printer.visible && !run->output;
    picture->orient = strcmp(orient, "1") == 0;
    if (argument(arguments, "xmp-name") && !run->xmp) {
        complain(arguments, "--xmp-name has no effect without --xmp");
        return false;
    }
    if (arguments->positional_count < 2) {
        complain_usage(arguments, "name a model file and at least one picture or folder");
        return false;
    }
    return true;
}

int tag_command(struct arguments *arguments) {
    struct tag_run run = {.arguments = arguments};
    l3a_picture_options picture = {.size = sizeof picture};
    l3a_pictures *pictures = NULL;
    l3a_tagger *tagger = NULL;
    size_t views = 0;
    int code = EXIT_USAGE;
    if (read_arguments(arguments, &run, &picture) && views_argument(arguments, &views) &&
        find_pictures(arguments, &pictures, &code) && (code = EXIT_USAGE, sidecars_fit(&run, pictures))) {
        const l3a_tagger_options options = {.size = sizeof options,
                                            .backbone = argument(arguments, "backbone"),
                                            .picture_options = argument(arguments, "orient") ? &picture : NULL,
                                            .views = views};
        const l3a_status status = l3a_tagger_open(arguments->context, arguments->positionals[0], &options, &tagger);
        run.pictures = pictures;
        code = status != L3A_OK ? explain(arguments, status) : run.output ? tag_to_file(&run, tagger) : tag_found(&run, tagger);
    }
    l3a_tagger_free(tagger);
    l3a_pictures_free(pictures);
    return code;
}
