/* What l3a find writes about the pictures that it has found: rows, paths, or XMP files beside them. The tags are those of the model
 * now, from the features in the index, and what was said. */
#include "found.h"

#include "tag.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOGETHER = 64, WIDEST = 60, MEASURED = 2000 };
/* How far above its threshold a score must be for a tag to be sure: the page's confidence() has the same number. */
#define SURE 1.25

/* What was said about a picture. */
struct judgement {
    char *name;
    bool shown;
};

/* A tag that a picture gets. */
struct given {
    const char *name;
    double score, threshold;
    bool said;
};

struct writer {
    struct indexed *indexed;
    struct found_form *form;
    const l3a_found *found;
    l3a_reader *reader;
    size_t first, count, next; /* of the pictures that are written together; the next one that is */
    bool scored[TOGETHER];     /* whether it has features */
    float *features;
    struct judgement *judged; /* about one picture */
    size_t judged_count, judged_capacity;
    struct given *given;
    size_t given_count, given_capacity;
    struct column columns[7];
    size_t column_count;
    size_t sidecars, unchanged, failed;
    double group; /* of the row before */
    l3a_status status;
    int told; /* the exit code of an error that the reader has, and that was explained */
};

static bool is_sure(const struct given *tag) {
    return tag->said || tag->threshold <= 0 || tag->score >= SURE * tag->threshold;
}

/* ---- The tags of a picture ---- */

static int take_judgement(const char *name, int shown, void *user) {
    struct writer *writer = user;
    if (writer->judged_count == writer->judged_capacity) {
        const size_t capacity = 2 * writer->judged_capacity + 16;
        struct judgement *grown = realloc(writer->judged, capacity * sizeof *grown);
        if (!grown) {
            return 1;
        }
        writer->judged = grown;
        writer->judged_capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy) {
        writer->judged[writer->judged_count++] = (struct judgement){copy, shown != 0};
    }
    return copy == NULL;
}

static void forget_judgements(struct writer *writer) {
    for (size_t i = 0; i < writer->judged_count; i++) {
        free(writer->judged[i].name);
    }
    writer->judged_count = 0;
}

static const struct judgement *judgement_of(const struct writer *writer, const char *name) {
    for (size_t i = 0; i < writer->judged_count; i++) {
        if (strcmp(writer->judged[i].name, name) == 0) {
            return &writer->judged[i];
        }
    }
    return NULL;
}

/* First the tags that were said, then those that are predicted and were not denied, each by score. */
static bool choose_tags(struct writer *writer, const l3a_tags *tags) {
    if (l3a_tags_count(tags) > writer->given_capacity) { /* a model may have been reloaded with more */
        struct given *grown = realloc(writer->given, l3a_tags_count(tags) * sizeof *grown);
        if (!grown) {
            return false;
        }
        writer->given = grown;
        writer->given_capacity = l3a_tags_count(tags);
    }
    for (int said = 1; said >= 0; said--) {
        for (size_t i = 0; i < l3a_tags_count(tags); i++) {
            const struct judgement *judgement = judgement_of(writer, l3a_tags_name(tags, i));
            if (said ? judgement && judgement->shown : !judgement && l3a_tags_predicted(tags, i)) {
                writer->given[writer->given_count++] =
                    (struct given){l3a_tags_name(tags, i), (double)l3a_tags_score(tags, i), l3a_tags_threshold(tags, i), said != 0};
            }
        }
    }
    return true;
}

/* ---- Rows ---- */

static const char *state_name(l3a_library_state state) {
    return state == L3A_PICTURE_DONE     ? "done"
           : state == L3A_PICTURE_FAILED ? "failed"
           : state == L3A_PICTURE_OTHER  ? "other"
                                         : "waiting";
}

/* In the camera's own time. */
static struct value taken_value(int64_t taken, char separator, char text[32]) {
    struct tm parts;
    const time_t seconds = (time_t)taken;
    if (taken == INT64_MIN || !gmtime_r(&seconds, &parts)) {
        return no_value();
    }
    strftime(text, 32, separator == 'T' ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &parts);
    return word_value(text);
}

static struct value rank_value(const struct writer *writer, double rank) {
    return writer->form->groups ? count_value((uint64_t)rank + 1)
           : isinf(rank)        ? word_value(writer->form->printer.form == FORM_TABLE ? (rank > 0 ? "said" : "not") : "")
                                : number_value(rank);
}

/* The tags in one text; scores: their scores instead. To be freed. */
static char *list_tags(const struct writer *writer, bool people, bool scores) {
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    for (size_t i = 0; memory && i < writer->given_count; i++) {
        const struct given *tag = &writer->given[i];
        fputs(!i ? "" : people ? ", " : ";", memory);
        if (!scores) {
            fputs(!people && i && is_formula(tag->name) ? " " : "", memory);
            fputs(tag->name, memory);
        }
        if (scores || (people && !tag->said)) {
            fprintf(memory, people ? " %.3f" : "%.4f", tag->score);
        }
    }
    if (memory && fclose(memory)) {
        free(text);
        text = NULL;
    }
    return memory ? text : NULL;
}

static void put_given(const struct writer *writer, struct printer *printer) {
    put_open(printer, "tags", '[');
    for (size_t i = 0; i < writer->given_count; i++) {
        put_open(printer, NULL, '{');
        put_text(printer, "tag", writer->given[i].name);
        put_number(printer, "score", writer->given[i].score, 4);
        put_boolean(printer, "said", writer->given[i].said);
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

static void write_json(const struct writer *writer, const l3a_library_picture *picture, double rank) {
    struct printer *printer = &writer->form->printer;
    char text[32];
    put_break(printer, 2);
    put_open(printer, NULL, '{');
    put_text(printer, "path", picture->path);
    if (writer->form->groups) {
        put_count(printer, "group", (uint64_t)rank + 1);
    } else {
        put_number(printer, "rank", isinf(rank) ? NAN : rank, 4);
    }
    put_given(writer, printer);
    const struct value taken = taken_value(picture->taken, 'T', text);
    if (taken.kind == VALUE_NONE) {
        put_null(printer, "taken");
    } else {
        put_text(printer, "taken", text);
    }
    put_text(printer, "state", state_name(picture->state));
    put_count(printer, "copies", picture->copies);
    if (picture->problem[0]) {
        put_text(printer, "error", picture->problem);
    }
    put_close(printer, '}');
}

static void write_csv(const struct writer *writer, const l3a_library_picture *picture, double rank) {
    char text[32], *names = list_tags(writer, false, false), *scores = list_tags(writer, false, true);
    const struct value values[] = {text_value(picture->path),
                                   rank_value(writer, rank),
                                   text_value(names ? names : ""),
                                   word_value(scores ? scores : ""),
                                   taken_value(picture->taken, ' ', text),
                                   word_value(state_name(picture->state)),
                                   text_value(picture->problem)};
    print_values(&writer->form->printer, writer->columns, values, writer->column_count);
    free(names);
    free(scores);
}

static void write_line(struct writer *writer, const l3a_library_picture *picture, double rank) {
    static const char *const states[] = {"(not looked at yet)", "", "cannot be read: ", "not read: "};
    char text[32], *tags = list_tags(writer, true, false), *said = NULL;
    if (picture->state != L3A_PICTURE_DONE && asprintf(&said, "%s%s", states[picture->state], picture->problem) < 0) {
        said = NULL;
    }
    const bool done = picture->state == L3A_PICTURE_DONE;
    const struct value values[] = {text_value(short_path(writer->indexed->arguments, picture->path)), rank_value(writer, rank),
                                   taken_value(picture->taken, ' ', text),
                                   text_value(!done             ? (said ? said : "-")
                                              : tags && tags[0] ? tags
                                                                : "-")};
    if (writer->form->groups && rank > writer->group) {
        fputs(writer->group >= 0 ? "\n" : "", writer->form->printer.to);
        writer->group = rank;
    }
    print_values(&writer->form->printer, writer->columns, values, writer->column_count);
    free(tags);
    free(said);
}

/* ---- Paths and sidecars ---- */

static void write_path(struct writer *writer, const l3a_library_picture *picture, double rank) {
    FILE *to = writer->form->printer.to;
    const char *path = short_path(writer->indexed->arguments, picture->path);
    if (writer->form->groups && rank > writer->group) {
        fputs(writer->group >= 0 && writer->form->end == '\n' ? "\n" : "", to);
        writer->group = rank;
    }
    fputs(path[0] == '-' ? "./" : "", to);
    fputs(path, to); /* as it is: other programs open it */
    fputc(writer->form->end, to);
}

static void write_sidecar(struct writer *writer, const l3a_library_picture *picture) {
    const struct arguments *arguments = writer->indexed->arguments;
    const char **names = calloc(writer->given_count + 1, sizeof *names);
    const l3a_sidecar_options options = {.size = sizeof options, .short_name = writer->form->short_name};
    size_t count = 0;
    int changed = 0;
    for (size_t i = 0; names && i < writer->given_count; i++) {
        if (writer->form->all || is_sure(&writer->given[i])) {
            names[count++] = writer->given[i].name;
        }
    }
    const l3a_status status =
        names ? l3a_sidecar_write(arguments->context, picture->path, names, count, &options, &changed) : L3A_ERROR_MEMORY;
    explain(arguments, status);
    writer->sidecars += status == L3A_OK && changed;
    writer->unchanged += status == L3A_OK && !changed;
    writer->failed += status != L3A_OK;
    free(names);
}

/* ---- One after another ---- */

static void write_picture(struct writer *writer, size_t index, const l3a_tags *tags) {
    l3a_library_picture picture = {.size = sizeof picture};
    const uint64_t id = l3a_found_id(writer->found, index);
    const double rank = l3a_found_rank(writer->found, index);
    writer->given_count = 0;
    forget_judgements(writer);
    l3a_status status = tags ? l3a_library_judged(writer->indexed->library, id, take_judgement, writer) : L3A_OK;
    if (status == L3A_OK) {
        status = l3a_library_picture_at(writer->indexed->library, id, &picture);
    }
    if (status != L3A_OK) { /* it may just have gone */
        writer->status = status == L3A_ERROR_NOT_FOUND ? writer->status : status;
        return;
    }
    if (tags && !choose_tags(writer, tags)) {
        writer->status = L3A_ERROR_MEMORY;
    } else if (writer->form->paths) {
        write_path(writer, &picture, rank);
    } else if (writer->form->xmp) {
        write_sidecar(writer, &picture);
    } else if (writer->form->printer.form == FORM_JSON) {
        write_json(writer, &picture, rank);
    } else if (writer->form->printer.form == FORM_CSV) {
        write_csv(writer, &picture, rank);
    } else {
        write_line(writer, &picture, rank);
    }
}

/* Those before the next one that has features. */
static void write_others(struct writer *writer) {
    while (writer->next < writer->count && !writer->scored[writer->next]) {
        write_picture(writer, writer->first + writer->next++, NULL);
    }
}

static int take_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct writer *writer = user;
    (void)index;
    (void)status;
    write_others(writer);
    write_picture(writer, writer->first + writer->next++, tags);
    return interrupted || writer->status != L3A_OK || ferror(writer->form->printer.to);
}

/* Writes some of them. Paths need no tags. */
static l3a_status write_some(struct writer *writer, size_t first, size_t count) {
    const size_t width = l3a_reader_width(writer->reader);
    size_t scored = 0;
    l3a_status status = L3A_OK;
    writer->first = first;
    writer->count = count;
    writer->next = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t id = l3a_found_id(writer->found, first + i);
        status = writer->form->paths ? L3A_ERROR_STATE
                                     : l3a_library_features(writer->indexed->library, id, writer->features + scored * width);
        if (status != L3A_OK && status != L3A_ERROR_STATE && status != L3A_ERROR_CHECKSUM) {
            return status;
        }
        writer->scored[i] = status == L3A_OK;
        scored += status == L3A_OK;
    }
    status = scored ? l3a_reader_score(writer->reader, writer->features, scored, take_tags, writer) : L3A_OK;
    if (status == L3A_ERROR_STATE) { /* the model has learned no class yet: no picture has a tag */
        memset(writer->scored, 0, sizeof writer->scored);
    } else if (status != L3A_OK && status != L3A_ERROR_CANCELLED) {
        writer->told = explain_error(writer->indexed->arguments, status, l3a_reader_error_text(writer->reader),
                                     l3a_reader_error_hint(writer->reader));
        return status;
    }
    if (!interrupted && !ferror(writer->form->printer.to)) {
        write_others(writer);
    }
    return writer->status;
}

/* ---- All ---- */

static const struct column line_columns[] = {{.heading = "picture", .width = -7},
                                             {.heading = "rank", .width = 6, .gap = 2, .decimals = 3},
                                             {.heading = "taken", .width = -19, .gap = 2},
                                             {.heading = "tags", .width = -1, .gap = 2}},
                           csv_columns[] = {{.name = "path"},   {.name = "rank", .exact = 4},
                                            {.name = "labels"}, {.name = "scores"},
                                            {.name = "taken"},  {.name = "state"},
                                            {.name = "error"}};

static void make_columns(struct writer *writer) {
    const bool csv = writer->form->printer.form == FORM_CSV;
    writer->column_count = csv ? 7 : 4;
    memcpy(writer->columns, csv ? csv_columns : line_columns, writer->column_count * sizeof *writer->columns);
    if (writer->form->groups) {
        writer->columns[1].name = writer->columns[1].heading = "group";
    }
    for (size_t i = 0; !csv && i < l3a_found_count(writer->found) && i < MEASURED; i++) {
        l3a_library_picture picture = {.size = sizeof picture};
        if (l3a_library_picture_at(writer->indexed->library, l3a_found_id(writer->found, i), &picture) == L3A_OK) {
            const char *path = short_path(writer->indexed->arguments, picture.path);
            if (display_width(path) <= WIDEST) {
                column_widen(&writer->columns[0], path);
            }
        }
    }
}

static l3a_status write_all(struct writer *writer) {
    struct printer *printer = &writer->form->printer;
    const bool rows = !writer->form->paths && !writer->form->xmp;
    const size_t count = l3a_found_count(writer->found);
    l3a_status status = L3A_OK;
    if (rows && printer->form == FORM_JSON) {
        put_open(printer, NULL, '[');
    } else if (rows) {
        make_columns(writer);
        if (printer->form == FORM_CSV || count) {
            print_headings(printer, writer->columns, writer->column_count);
        }
    }
    for (size_t first = 0; status == L3A_OK && first < count && !interrupted && !ferror(printer->to); first += TOGETHER) {
        status = write_some(writer, first, count - first < TOGETHER ? count - first : TOGETHER);
    }
    if (rows && printer->form == FORM_JSON) {
        put_break(printer, 0);
        put_close(printer, ']');
        fputs("\n", printer->to);
    }
    return status;
}

static int finish(const struct writer *writer, l3a_status status) {
    const struct arguments *arguments = writer->indexed->arguments;
    progress_clear();
    if (writer->form->xmp && !arguments->quiet) {
        fprintf(stderr, "XMP files: %zu written, %zu unchanged, %zu failed\n", writer->sidecars, writer->unchanged, writer->failed);
    }
    const int code = interrupted ? EXIT_INTERRUPTED : writer->told ? writer->told : indexed_explain(writer->indexed, status);
    return code == EXIT_DONE && writer->failed ? EXIT_USAGE : code;
}

int write_found(struct indexed *indexed, struct found_form *form, const l3a_found *found) {
    struct writer writer = {.indexed = indexed, .form = form, .found = found, .group = -1};
    struct tag_file file;
    int code = form->output ? tag_file_open(indexed->arguments, form->output, &file) : EXIT_DONE;
    if (code != EXIT_DONE) {
        return code;
    }
    form->printer.to = form->output ? file.stream : form->printer.to;
    form->printer.visible = form->printer.visible && !form->output;
    const l3a_status made = l3a_reader_create(indexed->tagger, &writer.reader);
    writer.features = calloc(TOGETHER, (l3a_reader_width(writer.reader) + 1) * sizeof *writer.features);
    code = made == L3A_OK && writer.features ? finish(&writer, write_all(&writer)) : complain(indexed->arguments, "out of memory");
    const int written = form->output ? tag_file_close(&file, code == EXIT_DONE || code == EXIT_USAGE) : EXIT_DONE;
    forget_judgements(&writer);
    free(writer.judged);
    free(writer.given);
    free(writer.features);
    l3a_reader_free(writer.reader);
    return code == EXIT_DONE ? written : code;
}
