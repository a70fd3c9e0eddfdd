/* What l3a tag says about each picture: a line or an object with all its tags or, in the long form, one for each of its tags. */
#include "tag.h"

#include "common/closest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The score above which a tag is given, unless the first few are. */
static double threshold_of(const struct tag_form *form, const l3a_tags *tags, size_t index) {
    return isnan(form->choice.threshold) ? l3a_tags_threshold(tags, index) : form->choice.threshold;
}

/* A tag, and how far its score is from the threshold, where the decision changes. */
struct doubt {
    const char *tag; /* NULL: there are no tags */
    double score, threshold, distance;
};

/* The tag that is most in doubt. */
static struct doubt find_doubt(const struct tag_form *form, const l3a_tags *tags) {
    struct doubt least = {.distance = INFINITY};
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        const double score = (double)l3a_tags_score(tags, i), threshold = threshold_of(form, tags, i);
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

static void write_table_row(const struct tag_form *form, FILE *to, const char *path, const l3a_tags *tags, const char *error) {
    const int padding = form->width - display_width(path);
    fprintf(to, "%s%*s ", path, padding > 0 ? padding : 0, "");
    if (error) {
        const char *reason = reason_of(path, error), opened[] = "cannot open: ";
        const bool says_so = strncmp(reason, opened, sizeof opened - 1) == 0;
        fprintf(to, " cannot be read: %s\n", says_so ? reason + sizeof opened - 1 : reason);
        return;
    }
    write_tags(to, &form->choice, tags);
    const struct doubt doubt = find_doubt(form, tags);
    if (form->order == UNCERTAIN && doubt.tag) {
        fprintf(to, "   in doubt: %s %.3f (threshold %.3f)", doubt.tag, doubt.score, doubt.threshold);
    }
    fputs("\n", to);
}

/* After an object. */
static void end_line(const struct tag_form *form, struct printer *printer) {
    if (form->lines) {
        fputs("\n", printer->to);
        printer->begun = false;
    }
}

static void write_json_row(const struct tag_form *form, struct printer *printer, const char *path, const l3a_tags *tags,
                           const char *error) {
    put_open(printer, NULL, '{');
    put_text(printer, "path", path);
    put_tags(printer, &form->choice, tags, "tag");
    const struct doubt doubt = find_doubt(form, tags);
    if (form->order == UNCERTAIN && doubt.tag) {
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
    end_line(form, printer);
}

/* Paths in a list are relative to the list's folder. "./" keeps spreadsheets from taking one for a formula, and readers of lists
 * from dropping blanks before it. To be freed; NULL if there is no memory. */
static char *listed_path(const struct tag_form *form, const char *path) {
    const char *slash = form->output ? strrchr(form->output, '/') : NULL, *before = "", *between = "";
    const size_t folder = slash ? (size_t)(slash - form->output) + 1 : 0;
    char *made = NULL;
    if (folder && path[0] != '/' && strncmp(path, form->output, folder) == 0) {
        path += folder;
    } else if (folder && path[0] != '/' && form->directory) {
        before = form->directory;
        between = "/";
    }
    const char *first = before[0] ? before : path;
    const bool odd = first[0] == ' ' || is_formula(first);
    return asprintf(&made, "%s%s%s%s", odd ? "./" : "", before, between, path) < 0 ? NULL : made;
}

char *tag_row_path(const struct tag_form *form, const char *path) {
    return form->printer.form == FORM_CSV ? listed_path(form, path) : strdup(path);
}

/* All chosen tags in one text: their names, none of which a spreadsheet takes for a formula, or their scores. To be freed; NULL if
 * there is no memory. */
static char *listed_tags(const struct tag_form *form, const l3a_tags *tags, bool names) {
    char *text = NULL;
    size_t length = 0, count = 0;
    FILE *memory = open_memstream(&text, &length);
    for (size_t i = 0; memory && i < l3a_tags_count(tags); i++) {
        if (tag_is_chosen(&form->choice, tags, i)) {
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

static void write_csv_row(const struct tag_form *form, struct printer *printer, const char *path, const l3a_tags *tags,
                          const char *error) {
    char *listed = listed_path(form, path), *names = listed_tags(form, tags, true), *scores = listed_tags(form, tags, false);
    const char *reason = error ? reason_of(path, error) : "", *doubtful = find_doubt(form, tags).tag;
    const struct value first[] = {text_value(listed ? listed : path), text_value(names ? names : ""),
                                  word_value(scores ? scores : "")};
    if (form->order == UNCERTAIN) {
        print_values(printer, doubtful_columns,
                     (struct value[]){first[0], first[1], first[2], text_value(doubtful ? doubtful : ""), text_value(reason)}, 5);
    } else {
        print_values(printer, columns, (struct value[]){first[0], first[1], first[2], text_value(reason)}, 4);
    }
    free(listed);
    free(names);
    free(scores);
}

/* ---- The long form ---- */

static const struct column fields[TAG_FIELDS] = {
    [FIELD_PATH] = {.name = "path"},
    [FIELD_TAG] = {.name = "tag"},
    [FIELD_SCORE] = {.name = "score", .exact = 4},
    [FIELD_GIVEN] = {.name = "given"},
    [FIELD_THRESHOLD] = {.name = "threshold", .exact = 4},
    [FIELD_RANK] = {.name = "rank"},
    [FIELD_LEFT] = {.name = "left", .exact = 4},
    [FIELD_TOP] = {.name = "top", .exact = 4},
    [FIELD_RIGHT] = {.name = "right", .exact = 4},
    [FIELD_BOTTOM] = {.name = "bottom", .exact = 4},
    [FIELD_ERROR] = {.name = "error"},
};

/* A tag of a picture, field by field. */
static void read_fields(const struct tag_form *form, const l3a_tags *tags, size_t index, struct value values[TAG_FIELDS]) {
    double box[4];
    values[FIELD_TAG] = text_value(l3a_tags_name(tags, index));
    values[FIELD_SCORE] = number_value((double)l3a_tags_score(tags, index));
    values[FIELD_GIVEN] = flag_value(tag_is_chosen(&form->choice, tags, index));
    values[FIELD_THRESHOLD] = number_value(threshold_of(form, tags, index));
    values[FIELD_RANK] = count_value(index + 1);
    if (l3a_tags_box(tags, index, box)) {
        for (size_t i = 0; i < 4; i++) {
            values[FIELD_LEFT + i] = number_value(box[i]);
        }
    }
}

static void write_fields(const struct tag_form *form, struct printer *printer, const struct value values[TAG_FIELDS]) {
    struct column chosen[TAG_FIELDS];
    struct value row[TAG_FIELDS];
    for (size_t i = 0; i < form->field_count; i++) {
        chosen[i] = fields[form->fields[i]];
        row[i] = values[form->fields[i]];
    }
    if (printer->form == FORM_JSON) {
        put_open(printer, NULL, '{');
    }
    print_values(printer, chosen, row, form->field_count);
    if (printer->form == FORM_JSON) {
        put_close(printer, '}');
        end_line(form, printer);
    }
}

static void write_long_rows(const struct tag_form *form, struct printer *printer, const char *path, const l3a_tags *tags,
                            const char *error) {
    struct value values[TAG_FIELDS];
    char *shown = tag_row_path(form, path);
    size_t count = 0;
    for (size_t i = 0; i < TAG_FIELDS; i++) {
        values[i] = no_value();
    }
    values[FIELD_PATH] = text_value(shown ? shown : path);
    if (error) {
        values[FIELD_ERROR] = text_value(reason_of(path, error));
        write_fields(form, printer, values);
    }
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (!form->only_given || tag_is_chosen(&form->choice, tags, i)) {
            if (count++ && !form->lines) {
                put_break(printer, 2);
            }
            read_fields(form, tags, i, values);
            write_fields(form, printer, values);
        }
    }
    free(shown);
}

/* ---- All forms ---- */

void write_tag_head(struct tag_form *form) {
    struct printer *printer = &form->printer;
    if (printer->form == FORM_JSON && !form->lines) {
        put_open(printer, NULL, '[');
    } else if (printer->form == FORM_CSV && form->by_tag) {
        struct column chosen[TAG_FIELDS];
        for (size_t i = 0; i < form->field_count; i++) {
            chosen[i] = fields[form->fields[i]];
        }
        print_headings(printer, chosen, form->field_count);
    } else if (printer->form == FORM_CSV && form->order == UNCERTAIN) {
        print_headings(printer, doubtful_columns, 5);
    } else if (printer->form == FORM_CSV) {
        print_headings(printer, columns, 4);
    }
}

void write_tag_tail(struct tag_form *form) {
    if (form->printer.form == FORM_JSON && !form->lines) {
        put_break(&form->printer, 0);
        put_close(&form->printer, ']');
        fputs("\n", form->printer.to);
    }
}

static void write_row(const struct tag_form *form, struct printer *printer, const char *path, const l3a_tags *tags,
                      const char *error) {
    if (form->by_tag) {
        write_long_rows(form, printer, path, tags, error);
        return;
    }
    switch (printer->form) {
    case FORM_TABLE: write_table_row(form, printer->to, path, tags, error); break;
    case FORM_JSON: write_json_row(form, printer, path, tags, error); break;
    case FORM_CSV: write_csv_row(form, printer, path, tags, error); break;
    }
}

void write_tag_row(struct tag_form *form, const char *path, const l3a_tags *tags, const char *error) {
    if (!form->lines) {
        put_break(&form->printer, 2);
    }
    write_row(form, &form->printer, path, tags, error);
}

/* ---- Sorted rows ---- */

void keep_tag_row(const struct tag_form *form, const char *path, const l3a_tags *tags, const char *error, struct tag_row *row) {
    size_t length;
    row->path = path;
    row->distance = find_doubt(form, tags).distance; /* unreadable pictures come last */
    FILE *memory = open_memstream(&row->text, &length);
    if (memory) {
        struct printer printer = {.to = memory, .form = form->printer.form, .visible = form->printer.visible};
        write_row(form, &printer, path, tags, error);
        fclose(memory);
    }
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const struct tag_row *)left)->path, ((const struct tag_row *)right)->path);
}

static int compare_distances(const void *left, const void *right) {
    const struct tag_row *a = left, *b = right;
    return a->distance < b->distance ? -1 : a->distance > b->distance ? 1 : compare_names(left, right);
}

void write_tag_rows(struct tag_form *form, struct tag_row *rows, size_t count) {
    if (count) {
        qsort(rows, count, sizeof *rows, form->order == BY_NAME ? compare_names : compare_distances);
    }
    for (size_t i = 0; i < count; i++) {
        const char *text = rows[i].text ? rows[i].text : "";
        if (form->printer.form == FORM_JSON && !form->lines && text[0]) {
            put_break(&form->printer, 2);
            put_json(&form->printer, NULL, text);
        } else {
            fputs(text, form->printer.to);
        }
        free(rows[i].text);
    }
}

/* ---- Arguments ---- */

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

/* The format that the name of the output asks for. */
static const char *format_by_name(const char *name, const char *otherwise) {
    return ends_with(name, ".csv")                                   ? "csv"
           : ends_with(name, ".json")                                ? "json"
           : ends_with(name, ".jsonl") || ends_with(name, ".ndjson") ? "jsonl"
                                                                     : otherwise;
}

static bool read_format(const struct arguments *arguments, struct tag_form *form) {
    const char *name = argument(arguments, "o") ? argument(arguments, "o") : "";
    const char *format =
        argument_choice(arguments, "format", "table|json|jsonl|csv", format_by_name(name, form->by_tag ? "csv" : "table"));
    const bool csv = argument(arguments, "csv") != NULL, json = argument(arguments, "json") != NULL;
    if (!format) {
        return false;
    }
    if ((argument(arguments, "format") != NULL) + csv + json > 1) {
        complain(arguments, "--format, --csv and --json cannot be used together");
        return false;
    }
    format = csv ? "csv" : json ? "json" : format;
    form->lines = strcmp(format, "jsonl") == 0;
    form->printer = printer_of(form->lines ? "json" : format);
    form->output = argument(arguments, "o");
    form->directory = arguments->directory;
    form->printer.visible = form->printer.visible && !form->output;
    if (form->by_tag && form->printer.form == FORM_TABLE) {
        complain(arguments, "--long is for programs: use it with --format csv, json or jsonl");
        return false;
    }
    return true;
}

static bool add_field(const struct arguments *arguments, struct tag_form *form, const char *name) {
    const char *names[TAG_FIELDS];
    char hint[128];
    size_t found = 0;
    for (size_t i = 0; i < TAG_FIELDS; i++) {
        names[i] = fields[i].name;
    }
    while (found < TAG_FIELDS && strcmp(fields[found].name, name) != 0) {
        found++;
    }
    if (found == TAG_FIELDS) {
        complain(arguments, "--fields: there is no field '%s'", name);
        suggest_closest(hint, sizeof hint, name, names, TAG_FIELDS, "");
        print_hint("%s%sthe fields are path, tag, score, given, threshold, rank, left, top, right, bottom and error", hint,
                   hint[0] ? " " : "");
        return false;
    }
    for (size_t i = 0; i < form->field_count; i++) {
        if (form->fields[i] == found) {
            complain(arguments, "--fields: '%s' is listed twice", name);
            return false;
        }
    }
    form->fields[form->field_count++] = (enum tag_field)found;
    return true;
}

static bool read_field_list(const struct arguments *arguments, struct tag_form *form) {
    const char *text = argument(arguments, "fields");
    struct list list;
    bool good = list_parse(text ? text : "path,tag,score,given,error", &list);
    for (size_t i = 0; good && i < list.count; i++) {
        good = add_field(arguments, form, list.items[i]);
    }
    if (good && !form->field_count) {
        complain(arguments, "--fields: name at least one field");
        good = false;
    }
    list_free(&list);
    return good;
}

bool tag_form_arguments(const struct arguments *arguments, struct tag_form *form) {
    form->by_tag = argument(arguments, "long") != NULL;
    form->only_given = argument(arguments, "given") != NULL;
    const char *idle = argument(arguments, "fields") ? "fields" : form->only_given ? "given" : NULL;
    if (idle && !form->by_tag) {
        complain(arguments, "--%s has no effect without --long", idle);
        return false;
    }
    return read_format(arguments, form) && read_field_list(arguments, form);
}
