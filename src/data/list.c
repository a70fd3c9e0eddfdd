/* A list of pictures: a CSV file whose first line names its columns. `path` is relative to the file. `labels` (or `label`, `tags`,
 * `tag`) holds the names of classes, or nothing. `split`, which is optional, holds the split that a picture belongs to. Other
 * columns are ignored. The classes are those of all rows, so that all splits of a file have the same classes.
 *
 * The columns are separated by the first of comma, semicolon and tab with which the first line names a path and labels: in many
 * countries, spreadsheets write semicolons. Where the separator is not a comma and no other column follows the labels, a row may
 * have a label in each of any number of fields at its end.
 *
 * Labels in a field are separated by semicolons. If no field with labels has one, they are separated by '|', and if there is none
 * either, by commas; but where commas separate the columns, only fields in quotes are split that way. */
#include "base/file.h"
#include "common/utf8.h"
#include "data/dataset.h"
#include "format/csv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LIST_LIMIT = 1 << 30 };

/* A field with labels. */
struct cell {
    char *text;
    bool quoted;
};

struct row {
    char *path, *split;
    size_t first_cell, cell_count, first_label, label_count, line;
};

struct list {
    struct l3a_dataset *dataset;
    l3a_context *context;
    const char *path;
    char *text; /* rows, cells and labels point into it */
    struct row *rows;
    struct cell *cells;
    char **labels;
    size_t row_count, row_capacity, cell_count, cell_capacity, label_count, label_capacity;
    size_t path_column, label_column, split_column, columns; /* a missing column is `columns` */
    bool open_ended;                                         /* the fields from label_column on are labels, however many */
    char separator, label_separator;
};

static void list_close(struct list *list) {
    release(list->context, list->text);
    release(list->context, list->rows);
    release(list->context, list->cells);
    release(list->context, list->labels);
}

/* Capital letters and blanks around the name do not matter, unless `exactly`. */
static bool is_called(const char *field, const char *name, bool exactly) {
    const size_t length = strlen(name);
    if (exactly) {
        return strcmp(field, name) == 0;
    }
    field += strspn(field, " \t");
    return strncasecmp(field, name, length) == 0 && !field[length + strspn(field + length, " \t")];
}

/* The column with one of two names; csv->count if there is none. */
static size_t find_column(const struct csv *csv, const char *name, const char *other) {
    for (int exactly = 1; exactly >= 0; exactly--) {
        for (size_t i = 0; i < csv->count; i++) {
            if (is_called(csv->fields[i], name, exactly) || is_called(csv->fields[i], other, exactly)) {
                return i;
            }
        }
    }
    return csv->count;
}

static size_t find_label_column(const struct csv *csv) {
    const size_t labels = find_column(csv, "labels", "label");
    return labels < csv->count ? labels : find_column(csv, "tags", "tag");
}

static bool is_header(const struct csv *csv) {
    return find_column(csv, "path", "path") < csv->count && find_label_column(csv) < csv->count;
}

/* Whether all that follows the labels in the header is more labels: columns without a name, or with the same one. */
static bool ends_with_labels(const struct csv *csv, size_t label_column) {
    for (size_t i = label_column + 1; i < csv->count; i++) {
        if (!is_called(csv->fields[i], "", false) && !is_called(csv->fields[i], csv->fields[label_column], false)) {
            return false;
        }
    }
    return true;
}

static l3a_status read_header(struct list *list, struct csv *csv) {
    static const char hint[] = "name the columns in the first line: path,labels or path,labels,split";
    l3a_status status = L3A_OK;
    bool more = false;
    TRY(csv_detect_separator(csv, is_header));
    TRY(csv_next_row(csv, &more));
    FAIL_IF(!more, list->context, L3A_ERROR_FORMAT, hint, "%s: the file is empty", list->path);
    list->separator = csv->separator;
    list->columns = csv->count;
    list->path_column = find_column(csv, "path", "path");
    list->label_column = find_label_column(csv);
    list->split_column = find_column(csv, "split", "split");
    FAIL_IF(list->path_column == csv->count, list->context, L3A_ERROR_FORMAT, hint, "%s: line %zu: no column 'path'", list->path,
            csv->line);
    FAIL_IF(list->label_column == csv->count, list->context, L3A_ERROR_FORMAT, hint, "%s: line %zu: no column 'labels' or 'label'",
            list->path, csv->line);
    list->open_ended = csv->separator != ',' && ends_with_labels(csv, list->label_column);
done:
    return status;
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        text[--length] = '\0';
    }
    return text;
}

static l3a_status check_fields(const struct list *list, const struct csv *csv) {
    static const char form[] =
        "separate the columns by commas (path,labels,split) and the labels of a picture by ';', as in a.jpg,cat;dog,train";
    const bool semicolons = list->separator == ',' && csv->count < list->columns && strchr(csv->fields[0], ';');
    const bool right = list->open_ended ? csv->count > list->label_column : csv->count == list->columns;
    if (!right) {
        return fail(list->context, L3A_ERROR_FORMAT,
                    semicolons ? form
                    : list->separator == ','
                        ? "separate the labels of a picture by ';', and put a field that contains a comma in quotes"
                        : "separate the labels of a picture by commas, or put them in quotes",
                    "%s: line %zu: %zu fields, but the first line has %zu", list->path, csv->line, csv->count, list->columns);
    }
    for (size_t i = 0; i < csv->count; i++) {
        if (!is_utf8(csv->fields[i])) {
            return fail(list->context, L3A_ERROR_FORMAT, "save the file as UTF-8", "%s: line %zu: field %zu is not UTF-8",
                        list->path, csv->line, i + 1);
        }
    }
    return L3A_OK;
}

static l3a_status take_cells(struct list *list, struct row *row, const struct csv *csv) {
    l3a_status status = L3A_OK;
    const size_t last = list->open_ended ? csv->count : list->label_column + 1;
    row->first_cell = list->cell_count;
    row->cell_count = last - list->label_column;
    TRY(grow_array(list->context, &list->cells, &list->cell_capacity, list->cell_count + row->cell_count, sizeof *list->cells));
    for (size_t i = list->label_column; i < last; i++) {
        list->cells[list->cell_count++] = (struct cell){csv->fields[i], csv->quoted[i]};
    }
done:
    return status;
}

static l3a_status take_row(struct list *list, const struct csv *csv) {
    l3a_status status = L3A_OK;
    struct row row = {.line = csv->line};
    TRY(check_fields(list, csv));
    row.path = trim(csv->fields[list->path_column]);
    FAIL_IF(!row.path[0], list->context, L3A_ERROR_FORMAT, NULL, "%s: line %zu: no path", list->path, csv->line);
    FAIL_IF(strpbrk(row.path, "\r\n"), list->context, L3A_ERROR_FORMAT, "rename the picture",
            "%s: line %zu: the path contains a line break", list->path, csv->line);
    if (list->split_column < list->columns) {
        row.split = trim(csv->fields[list->split_column]);
        FAIL_IF(!row.split[0] || strchr(row.split, ' '), list->context, L3A_ERROR_FORMAT,
                "use one word as the name of a split, such as train", "%s: line %zu: '%.64s' cannot be the name of a split",
                list->path, csv->line, row.split);
    }
    TRY(take_cells(list, &row, csv));
    TRY(grow_array(list->context, &list->rows, &list->row_capacity, list->row_count + 1, sizeof row));
    list->rows[list->row_count++] = row;
done:
    return status;
}

/* Whether a cell is split at this separator, if it is the one of the file. */
static bool is_split_at(const struct list *list, const struct cell *cell, char separator) {
    return separator == ';' || list->separator != ',' || cell->quoted;
}

static void choose_label_separator(struct list *list) {
    static const char separators[] = ";|,";
    list->label_separator = '\0';
    for (const char *separator = separators; *separator && !list->label_separator; separator++) {
        for (size_t i = 0; i < list->cell_count && !list->label_separator; i++) {
            const struct cell *cell = &list->cells[i];
            list->label_separator = is_split_at(list, cell, *separator) && strchr(cell->text, *separator) ? *separator : '\0';
        }
    }
}

static l3a_status add_label(struct list *list, char *label) {
    l3a_status status = L3A_OK;
    label = trim(label);
    if (label[0]) {
        TRY(grow_array(list->context, &list->labels, &list->label_capacity, list->label_count + 1, sizeof *list->labels));
        list->labels[list->label_count++] = label;
    }
done:
    return status;
}

static l3a_status split_cells(struct list *list) {
    l3a_status status = L3A_OK;
    choose_label_separator(list);
    for (size_t i = 0; i < list->row_count; i++) {
        struct row *row = &list->rows[i];
        row->first_label = list->label_count;
        for (size_t j = row->first_cell; j < row->first_cell + row->cell_count; j++) {
            const char separator[2] = {is_split_at(list, &list->cells[j], list->label_separator) ? list->label_separator : '\0'};
            for (char *rest = list->cells[j].text, *label; (label = strsep(&rest, separator));) {
                TRY(add_label(list, label));
            }
        }
        row->label_count = list->label_count - row->first_label;
    }
done:
    return status;
}

/* Version 0.2 took such a field for one label. */
static void warn_of_separator(const struct list *list) {
    if (list->separator == ',' && (list->label_separator == '|' || list->label_separator == ',')) {
        report_warning(
            list->context,
            "%s: labels in quotes are separated by '%c', because no field has a ';'; if one of them is a single label, put "
            "a ';' after it",
            list->path, list->label_separator);
    }
}

static l3a_status list_read(struct list *list) {
    l3a_status status = L3A_OK;
    struct csv csv;
    bool more = true;
    size_t length;
    TRY(read_whole(list->context, list->path, LIST_LIMIT, &list->text, &length));
    FAIL_IF(length > 1 && (memcmp(list->text, "\xFF\xFE", 2) == 0 || memcmp(list->text, "\xFE\xFF", 2) == 0), list->context,
            L3A_ERROR_FORMAT, "save the file as UTF-8: spreadsheets call it 'CSV UTF-8'", "%s: the file is UTF-16", list->path);
    FAIL_IF(memchr(list->text, '\0', length), list->context, L3A_ERROR_FORMAT, "use a text file whose first line is path,labels",
            "%s: the file contains a zero byte, so it is not text", list->path);
    csv_begin(&csv, list->context, list->path, list->text, length);
    TRY(read_header(list, &csv));
    for (;;) {
        TRY(csv_next_row(&csv, &more));
        if (!more) {
            break;
        }
        TRY(take_row(list, &csv));
    }
    TRY(split_cells(list));
done:
    return status;
}

static l3a_status collect_splits(const struct list *list, text_list *splits) {
    l3a_status status = L3A_OK;
    char **names = NULL;
    if (list->split_column == list->columns) {
        return text_list_add(list->context, splits, "all", 3);
    }
    TRY(allocate(list->context, list->row_count, sizeof *names, &names));
    for (size_t i = 0; i < list->row_count; i++) {
        names[i] = list->rows[i].split;
    }
    TRY(add_distinct(list->context, names, list->row_count, splits));
done:
    release(list->context, names);
    return status;
}

static l3a_status collect_classes(struct list *list) {
    l3a_status status = L3A_OK;
    char **labels = NULL;
    text_list classes = {0};
    TRY(allocate(list->context, list->label_count, sizeof *labels, &labels));
    for (size_t i = 0; i < list->label_count; i++) {
        labels[i] = list->labels[i];
    }
    TRY(add_distinct(list->context, labels, list->label_count, &classes));
    TRY(dataset_set_classes(list->dataset, list->path, &classes));
done:
    release(list->context, labels);
    text_list_clear(list->context, &classes);
    return status;
}

static bool in_split(const struct row *row, const char *split) {
    return !row->split || strcmp(row->split, split) == 0;
}

/* An absolute path is used unchanged. */
static l3a_status add_rows(struct list *list, const char *split) {
    l3a_status status = L3A_OK;
    char *folder = NULL;
    const char *slash = strrchr(list->path, '/');
    TRY(copy_text(list->context, slash ? list->path : ".", slash ? (size_t)(slash - list->path) : 1, &folder));
    for (size_t i = 0; i < list->row_count; i++) {
        char *path = list->rows[i].path;
        if (in_split(&list->rows[i], split)) {
            TRY(path[0] == '/' ? dataset_add_row(list->dataset, path, "", path + 1)
                               : dataset_add_row(list->dataset, path, folder, path));
        }
    }
done:
    release(list->context, folder);
    return status;
}

static void set_labels(const struct list *list, const char *split) {
    struct l3a_dataset *dataset = list->dataset;
    const size_t classes = dataset->classes.count;
    size_t to = 0;
    for (size_t i = 0; i < list->row_count; i++) {
        const struct row *row = &list->rows[i];
        if (!in_split(row, split)) {
            continue;
        }
        for (size_t j = 0; j < row->label_count; j++) {
            const size_t class = dataset_find_class(dataset, list->labels[row->first_label + j]);
            dataset->labels[to * classes + class] = dataset->members[to * classes + class] = 1;
        }
        to++;
    }
}

static l3a_status list_open(struct l3a_dataset *dataset, const char *place, const char *split, const l3a_dataset_options *options) {
    l3a_status status = L3A_OK;
    struct list list = {.dataset = dataset, .context = dataset->context, .path = place};
    text_list splits = {0};
    (void)options;
    TRY(list_read(&list));
    TRY(collect_splits(&list, &splits));
    if (!split && list.split_column == list.columns) {
        split = "all";
    }
    TRY(check_split(list.context, place, split, &splits));
    TRY(collect_classes(&list));
    TRY(add_rows(&list, split));
    TRY(dataset_make_labels(dataset, place));
    set_labels(&list, split);
    warn_of_separator(&list);
done:
    list_close(&list);
    text_list_clear(list.context, &splits);
    return status;
}

static l3a_status list_splits(l3a_context *context, const char *place, text_list *splits) {
    l3a_status status = L3A_OK;
    struct list list = {.context = context, .path = place};
    TRY(list_read(&list));
    TRY(collect_splits(&list, splits));
done:
    list_close(&list);
    return status;
}

const struct dataset_kind list_kind = {"list", "list:FILE.csv", list_open, list_splits, {{NULL}}};
