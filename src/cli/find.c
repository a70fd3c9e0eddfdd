/* l3a find: pictures of a library by tags, words, dates, or by pictures that they are like. What is cheap is brought up to date
 * first: the scores, if no other process has the model. */
#include "found.h"
#include "tag.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct option find_options[] = {
    {"tag", "NAME…", "pictures that show this tag: somebody said so, or it is predicted"},
    {"not", "NAME…", "pictures that were looked at and do not show this tag"},
    {"word", "WORD", "first those that the network, which knows 1,000 words of its own, takes for this"},
    {"like", "PICTURE…", "first those that are most like this picture, which need not be in the index"},
    {"part", "L,T,R,B", "with --like: only this part of the picture: left, top, right and bottom, from 0 to 1"},
    {"where", "EXPRESSION", "an expression such as 'dog and not (cat or horse) since:2024-01'"},
    {"folder", "FOLDER", "pictures in this folder, or in any folder of this name, and below"},
    {"since", "DATE", "pictures taken on this date or later: 2024, 2024-06 or 2024-06-30"},
    {"until", "DATE", "pictures taken on this date or before"},
    {"name", "TEXT", "pictures whose file name contains this text"},
    {"untagged", NULL, "pictures without any tag"},
    {"unsure", NULL, "pictures with a tag in doubt"},
    {"duplicates", NULL, "groups of pictures that show the same"},
    {"closeness", "X", "with --duplicates: how alike they must be, up to 1 [0.97]"},
    {"words", NULL, "list the words that the network knows, or those that match a text that follows"},
    {"sort", "score|date|name|unsure|novel",
     "order, unless --word or --like say it; unsure: first those in doubt; novel: first those to judge next [as asked for]"},
    {"most", "N", "only the first N pictures"},
    {"scan", NULL, "first look for new and changed pictures, as 'l3a index' does"},
    {"format", "table|csv|json|paths|xmp",
     "output; paths: one per line; xmp: write the tags into XMP files beside the pictures [table]"},
    {"o", "FILE", "write to a file; its name decides the format if it ends in .csv, .json or .txt"},
    {"0", NULL, "paths that end with a zero byte instead of a line break, for xargs -0"},
    {"null", NULL, "the same"},
    {"xmp-all", NULL, "XMP files get all tags that are given, not only those that were said or are sure"},
    {"xmp-name", "photo.jpg.xmp|photo.xmp", "how new XMP files are named [photo.jpg.xmp]"},
    LIBRARY_OPTIONS,
    {NULL, NULL, NULL},
};

struct search {
    struct indexed *indexed;
    const struct arguments *arguments;
    struct found_form form;
    l3a_find_options options;
    double part[4];
    bool has_part;
    char *where;
    uint64_t *ids;   /* examples in the index */
    float *features; /* of other examples [like_rows x width of a row] */
    l3a_reader *reader;
    size_t row, rows; /* width of a row, and rows of a picture */
};

/* ---- The expression ---- */

/* Whether an absolute path is one of the library's folders, or below one. */
static bool is_in_library(const struct search *search, const char *path) {
    const char *root;
    bool found = false;
    for (size_t i = 0; !found && (root = l3a_library_folder(search->indexed->library, i, NULL)); i++) {
        const size_t length = strlen(root);
        found = strncmp(path, root, length) == 0 && (path[length] == '/' || !path[length] || strcmp(root, "/") == 0);
    }
    return found;
}

/* A folder is meant by its path, if that leads into the library, or by its name. */
static void write_folder(const struct search *search, FILE *to, const char *folder) {
    char *path = realpath(folder, NULL);
    write_quoted(to, "folder:", path && is_in_library(search, path) ? path : folder);
    free(path);
}

/* All of these must hold. The tags come first, as the first tag of the expression is the one to sort by. */
static bool make_where(struct search *search) {
    static const char *const keys[][2] = {{"since", "since:"}, {"until", "until:"}, {"name", "name:"}};
    const struct arguments *arguments = search->arguments;
    const char *where = argument(arguments, "where"), *folder = argument(arguments, "folder"), *name;
    size_t length;
    bool any = false;
    FILE *to = open_memstream(&search->where, &length);
    for (size_t i = 0; to && (name = argument_each(arguments, "tag", i)); i++, any = true) {
        write_quoted(to, "", name);
    }
    for (size_t i = 0; to && (name = argument_each(arguments, "not", i)); i++, any = true) {
        write_quoted(to, "not ", name);
    }
    for (size_t i = 0; to && i < sizeof keys / sizeof keys[0]; i++) {
        name = argument(arguments, keys[i][0]);
        if (name) {
            write_quoted(to, keys[i][1], name);
            any = true;
        }
    }
    if (to && folder) {
        write_folder(search, to, folder);
        any = true;
    }
    if (to) {
        fputs(argument(arguments, "untagged") ? "is:untagged " : "", to);
        fputs(argument(arguments, "unsure") ? "is:unsure " : "", to);
        any = any || argument(arguments, "untagged") || argument(arguments, "unsure");
        fputs(where && any ? "(" : "", to);
        fputs(where ? where : "", to);
        fputs(where && any ? ")" : "", to);
    }
    return to && fclose(to) == 0;
}

/* ---- Examples ---- */

/* The part of a picture, at least a pixel. */
static void cut(l3a_picture *picture, const double part[4]) {
    const size_t left = (size_t)(part[0] * (double)picture->width), top = (size_t)(part[1] * (double)picture->height);
    size_t right = (size_t)ceil(part[2] * (double)picture->width), bottom = (size_t)ceil(part[3] * (double)picture->height);
    right = right > left ? right : left + 1;
    bottom = bottom > top ? bottom : top + 1;
    for (size_t y = top; y < bottom; y++) {
        memmove(picture->pixels + 3 * (right - left) * (y - top), picture->pixels + 3 * (picture->width * y + left),
                3 * (right - left));
    }
    picture->width = right - left;
    picture->height = bottom - top;
}

static int explain_reader(const struct search *search, l3a_status status) {
    return explain_error(search->arguments, status, l3a_reader_error_text(search->reader), l3a_reader_error_hint(search->reader));
}

/* A part of a picture as people see it: upright. */
static int prepare_part(const struct search *search, const char *path, float *input) {
    const char *orient = argument(search->arguments, "orient");
    const l3a_picture_options options = {.size = sizeof options, .orient = !orient || strcmp(orient, "1") == 0};
    l3a_context *context = search->arguments->context;
    l3a_picture picture = {.size = sizeof picture};
    int code = explain(search->arguments, l3a_picture_read(context, path, &options, &picture));
    if (code == EXIT_DONE) {
        cut(&picture, search->part);
        code = explain_reader(search, l3a_reader_prepare_pixels(search->reader, &picture, input));
    }
    l3a_picture_free(context, &picture);
    return code;
}

static int prepare_whole(const struct search *search, const char *path, float *input) {
    enum { PIECE = 1 << 16 };
    char *bytes = NULL, *piece = malloc(PIECE);
    size_t count = 0, got;
    uint64_t checksum;
    FILE *file = fopen(path, "rb"), *memory = open_memstream(&bytes, &count);
    while (file && memory && piece && (got = fread(piece, 1, PIECE, file)) > 0) {
        fwrite(piece, 1, got, memory);
    }
    const bool read = file && !ferror(file), stored = memory && fclose(memory) == 0 && piece;
    int code = !read     ? complain(search->arguments, "--like: %s: %s", path, strerror(errno))
               : !stored ? complain(search->arguments, "out of memory")
                         : explain_reader(search, l3a_reader_prepare(search->reader, path, bytes, count, input, &checksum));
    if (file) {
        fclose(file);
    }
    free(piece);
    free(bytes);
    return code;
}

/* Computes the features of a picture, or of a part of it; only those of the whole are compared, and none of its crops. */
static int compute_example(struct search *search, const char *path) {
    float *input = calloc(l3a_reader_inputs(search->reader) + 1, sizeof *input);
    float *features = calloc(l3a_reader_width(search->reader) + 1, sizeof *features);
    int code = !input || !features ? complain(search->arguments, "out of memory")
               : search->has_part  ? prepare_part(search, path, input)
                                   : prepare_whole(search, path, input);
    if (code == EXIT_DONE) {
        code = explain_reader(search, l3a_reader_compute(search->reader, input, 1, features));
    }
    if (code == EXIT_DONE) {
        memcpy(search->features + search->options.like_rows++ * search->row, features, search->row * sizeof *features);
    }
    free(input);
    free(features);
    return code;
}

/* The features of a picture in the index are there already. */
static int add_example(struct search *search, const char *given) {
    l3a_library *library = search->indexed->library;
    float *features = calloc(l3a_reader_width(search->reader) + 1, sizeof *features);
    char *path = realpath(given, NULL);
    uint64_t id = 0;
    bool known = false;
    int code = EXIT_DONE;
    if (!path || !features) {
        code = path ? complain(search->arguments, "out of memory")
                    : complain(search->arguments, "--like: %s: %s", given, strerror(errno));
    } else if (!search->has_part && l3a_library_picture_find(library, path, &id) == L3A_OK) {
        known = l3a_library_features(library, id, features) == L3A_OK;
    }
    if (known) {
        search->ids[search->options.like_count++] = id;
    } else if (code == EXIT_DONE) {
        code = compute_example(search, given);
    }
    free(features);
    free(path);
    return code;
}

static int add_examples(struct search *search) {
    const char *path;
    size_t count = 0;
    int code = EXIT_DONE;
    while (argument_each(search->arguments, "like", count)) {
        count++;
    }
    if (!count) {
        return EXIT_DONE;
    }
    if (l3a_reader_create(search->indexed->tagger, &search->reader) != L3A_OK) {
        return complain(search->arguments, "out of memory");
    }
    l3a_library_info info = {.size = sizeof info};
    const l3a_status status = l3a_library_describe(search->indexed->library, &info);
    search->rows = l3a_view_rows(info.views ? info.views : 1);
    search->row = l3a_reader_width(search->reader) / search->rows;
    search->ids = calloc(count, sizeof *search->ids);
    search->features = calloc(count * search->row + 1, sizeof *search->features);
    if (status != L3A_OK || !search->ids || !search->features) {
        return status != L3A_OK ? explain(search->arguments, status) : complain(search->arguments, "out of memory");
    }
    for (size_t i = 0; code == EXIT_DONE && (path = argument_each(search->arguments, "like", i)); i++) {
        code = add_example(search, path);
    }
    search->options.like = search->ids;
    search->options.like_features = search->features;
    return code;
}

/* ---- The way through ---- */

static l3a_status scan(struct indexed *indexed) {
    l3a_status status = l3a_library_scan(indexed->library, NULL);
    return status == L3A_OK ? l3a_library_look(indexed->library, NULL, NULL) : status;
}

/* Says on stderr what the answer may lack. */
static l3a_status note_missing(struct indexed *indexed, bool scored) {
    l3a_library_info info = {.size = sizeof info};
    const l3a_status status = l3a_library_describe(indexed->library, &info);
    progress_clear();
    if (status != L3A_OK || indexed->arguments->quiet) {
        return status;
    }
    if (info.waiting) {
        fprintf(stderr, "%" PRIu64 " %s not looked at yet: 'l3a index %s' does it\n", info.waiting,
                plural(info.waiting, "picture was", "pictures were"), indexed->named);
    }
    if (!scored && info.scored < info.done) {
        fprintf(stderr, "the index cannot be brought up to date now; %" PRIu64 " %s the tags of an older lesson, or none\n",
                info.done - info.scored, plural(info.done - info.scored, "picture has", "pictures have"));
    }
    return L3A_OK;
}

static int find_duplicates(struct search *search) {
    double closeness = 0;
    l3a_found *found = NULL;
    if (!argument_number(search->arguments, "closeness", 0.5, 1, &closeness)) {
        return EXIT_USAGE;
    }
    search->form.groups = true;
    const l3a_status status = l3a_library_duplicates(search->indexed->library, closeness, &found);
    const int code =
        status == L3A_OK ? write_found(search->indexed, &search->form, found) : indexed_explain(search->indexed, status);
    l3a_found_free(found);
    return code;
}

static int find_pictures(struct search *search) {
    l3a_found *found = NULL;
    int code = make_where(search) ? add_examples(search) : complain(search->arguments, "out of memory");
    search->options.where = search->where;
    search->options.word = argument(search->arguments, "word");
    search->options.sort = argument(search->arguments, "sort");
    if (code == EXIT_DONE) {
        code = indexed_explain(search->indexed, l3a_library_find(search->indexed->library, &search->options, &found));
    }
    if (code == EXIT_DONE) {
        code = write_found(search->indexed, &search->form, found);
    }
    l3a_found_free(found);
    return code;
}

static int find(struct search *search) {
    bool scored = true;
    l3a_status status = argument(search->arguments, "scan") ? scan(search->indexed) : L3A_OK;
    if (status == L3A_OK) {
        status = indexed_bring_up_to_date(search->indexed, &scored);
        scored = scored && status != L3A_ERROR_IO; /* an index that can only be read is used as it is */
        status = status == L3A_ERROR_IO ? L3A_OK : status;
    }
    if (status == L3A_OK) {
        status = note_missing(search->indexed, scored);
    }
    if (status != L3A_OK) {
        return indexed_explain(search->indexed, status);
    }
    return argument(search->arguments, "duplicates") ? find_duplicates(search) : find_pictures(search);
}

/* ---- Words ---- */

static void print_word(struct printer *printer, const char *word) {
    static const struct column column = {.name = "word", .heading = "word", .width = -1};
    if (printer->form == FORM_JSON) {
        put_break(printer, 4);
        put_text(printer, NULL, word);
    } else {
        print_values(printer, &column, &(struct value){VALUE_TEXT, {.text = word}}, 1);
    }
}

/* Their source follows the list, or is on stderr if programs read it. */
static void print_words(struct printer *printer, const char *const *words, size_t count) {
    if (printer->form == FORM_JSON) {
        put_open(printer, NULL, '{');
        put_break(printer, 2);
        put_text(printer, "source", l3a_words_source());
        put_break(printer, 2);
        put_open(printer, "words", '[');
    } else if (printer->form == FORM_CSV) {
        fputs("word\n", printer->to);
    }
    for (size_t i = 0; i < count; i++) {
        print_word(printer, words[i]);
    }
    if (printer->form == FORM_JSON) {
        put_break(printer, 2);
        put_close(printer, ']');
        put_break(printer, 0);
        put_close(printer, '}');
        fputs("\n", printer->to);
    } else if (printer->form == FORM_TABLE) {
        fprintf(printer->to, "\nThese words are from %s.\n", l3a_words_source());
    }
}

static int write_words(struct search *search, const char *const *words, size_t count) {
    struct found_form *form = &search->form;
    struct tag_file file;
    const int code = form->output ? tag_file_open(search->arguments, form->output, &file) : EXIT_DONE;
    if (code != EXIT_DONE) {
        return code;
    }
    form->printer.to = form->output ? file.stream : form->printer.to;
    form->printer.visible = form->printer.visible && !form->output;
    print_words(&form->printer, words, count);
    return form->output ? tag_file_close(&file, true) : EXIT_DONE;
}

/* Words matching a text; all of them if it is NULL. */
static int list_words(struct search *search, const char *text) {
    enum { MOST = 1000 };
    const char *problem = "", **words = calloc(MOST, sizeof *words);
    const l3a_status status = l3a_library_words(search->indexed->library, &problem);
    size_t count = words && text ? l3a_word_classes(text, words, MOST) : 0;
    int code = EXIT_DONE;
    for (; words && !text && count < MOST && l3a_word_at(count); count++) {
        words[count] = l3a_word_at(count);
    }
    if (!words) {
        code = complain(search->arguments, "out of memory");
    } else if (status != L3A_OK) {
        code = explain(search->arguments, status);
    } else if (problem[0]) {
        code = complain(search->arguments, "%s", problem);
        print_hint("words need a checkpoint with its ImageNet classifier");
    } else if (!count) {
        code = complain(search->arguments, "the network does not know the word '%s'", text);
        print_hint("'l3a find %s --words' lists all", search->indexed->named);
    } else {
        code = write_words(search, words, count);
    }
    free(words);
    return code;
}

/* ---- Arguments ---- */

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static bool read_form(const struct arguments *arguments, struct found_form *form) {
    const bool zeros = argument(arguments, "0") || argument(arguments, "null");
    const char *path = argument(arguments, "o"), *name = path ? path : "";
    const char *usual = zeros || ends_with(name, ".txt") ? "paths"
                        : ends_with(name, ".csv")        ? "csv"
                        : ends_with(name, ".json")       ? "json"
                                                         : "table";
    const char *format = argument_choice(arguments, "format", "table|csv|json|paths|xmp", usual);
    const char *sidecar = argument_choice(arguments, "xmp-name", "photo.jpg.xmp|photo.xmp", "photo.jpg.xmp");
    if (!format || !sidecar) {
        return false;
    }
    *form = (struct found_form){.printer = printer_of(format),
                                .paths = strcmp(format, "paths") == 0,
                                .xmp = strcmp(format, "xmp") == 0,
                                .all = argument(arguments, "xmp-all") != NULL,
                                .short_name = strcmp(sidecar, "photo.xmp") == 0,
                                .end = zeros ? '\0' : '\n',
                                .output = path};
    if (zeros && !form->paths) {
        complain(arguments, "-0 is for --format paths");
        return false;
    }
    if ((form->all || argument(arguments, "xmp-name")) && !form->xmp) {
        complain(arguments, "--%s is for --format xmp", form->all ? "xmp-all" : "xmp-name");
        return false;
    }
    if ((form->paths || form->xmp) && argument(arguments, "words")) {
        complain(arguments, "--words lists words, and no pictures: use --format table, csv or json");
        return false;
    }
    if (form->xmp && path) {
        complain(arguments, "--format xmp writes files beside the pictures, and nothing to a file of -o");
        return false;
    }
    return true;
}

static bool read_part(struct search *search) {
    const char *text = argument(search->arguments, "part");
    double *part = search->part;
    int length = 0;
    search->has_part = text != NULL;
    if (!text) {
        return true;
    }
    if (sscanf(text, "%lf,%lf,%lf,%lf%n", &part[0], &part[1], &part[2], &part[3], &length) != 4 || text[length] ||
        !(part[0] >= 0 && part[1] >= 0 && part[0] < part[2] && part[1] < part[3] && part[2] <= 1 && part[3] <= 1)) {
        complain(search->arguments, "--part: '%s' is not left,top,right,bottom from 0 to 1, such as 0,0.5,0.5,1", text);
        return false;
    }
    if (!argument_each(search->arguments, "like", 0) || argument_each(search->arguments, "like", 1)) {
        complain(search->arguments, "--part is a part of one picture: give one --like");
        return false;
    }
    return true;
}

static bool arguments_fit(const struct arguments *arguments) {
    static const char *const chosen[] = {"tag",   "not",  "word",     "like",   "where", "folder", "since",
                                         "until", "name", "untagged", "unsure", "sort",  "most"};
    const bool words = argument(arguments, "words") != NULL, duplicates = argument(arguments, "duplicates") != NULL;
    if (!arguments->positional_count || arguments->positional_count > (words ? 2 : 1)) {
        complain_usage(arguments,
                       arguments->positional_count ? "name one model file; say what to find with options" : "name a model file");
        return false;
    }
    if (words && duplicates) {
        complain(arguments, "--words and --duplicates cannot be used together");
        return false;
    }
    for (size_t i = 0; (words || duplicates) && i < sizeof chosen / sizeof chosen[0]; i++) {
        if (argument(arguments, chosen[i])) {
            complain(arguments, "--%s has no effect with --%s", chosen[i], words ? "words" : "duplicates");
            return false;
        }
    }
    if (words && argument(arguments, "scan")) {
        complain(arguments, "--scan has no effect with --words");
        return false;
    }
    if (argument(arguments, "closeness") && !duplicates) {
        complain(arguments, "--closeness has no effect without --duplicates");
        return false;
    }
    return argument_choice(arguments, "sort", "score|date|name|unsure|novel", "date") != NULL;
}

int find_command(struct arguments *arguments) {
    struct indexed indexed;
    struct search search = {.indexed = &indexed, .arguments = arguments, .options = {.size = sizeof search.options}};
    if (!arguments_fit(arguments) || !read_form(arguments, &search.form) || !read_part(&search) ||
        !argument_integer(arguments, "most", 1, UINT32_MAX, &search.options.most)) {
        return EXIT_USAGE;
    }
    int code = indexed_open(arguments, true, true, &indexed);
    if (code == EXIT_DONE) {
        const bool words = argument(arguments, "words") != NULL;
        code = words ? list_words(&search, arguments->positional_count > 1 ? arguments->positionals[1] : NULL) : find(&search);
    }
    free(search.where);
    free(search.ids);
    free(search.features);
    l3a_reader_free(search.reader);
    indexed_close(&indexed);
    return code;
}
