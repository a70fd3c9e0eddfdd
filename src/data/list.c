/* A list of pictures: a CSV file whose first line names its columns. `path` is relative to the file. `labels` (or `label`) holds
 * class names separated by semicolons, or nothing. `split`, which is optional, holds the split that a picture belongs to. Other
 * columns are ignored. The classes are those of all rows, so that all splits of a file have the same classes. */
#include "base/file.h"
#include "base/utf8.h"
#include "data/dataset.h"
#include "format/csv.h"

#include <stdio.h>
#include <string.h>

enum { LIST_LIMIT = 1 << 30 };

struct row {
    char *path, *split;
    size_t first_label, label_count, line;
};

struct list {
    struct l3a_dataset *dataset;
    l3a_context *context;
    const char *path;
    char *text; /* rows and labels point into it */
    struct row *rows;
    char **labels;
    size_t row_count, row_capacity, label_count, label_capacity;
    size_t path_column, label_column, split_column, columns; /* a missing column is `columns` */
};

static void list_close(struct list *list) {
    release(list->context, list->text);
    release(list->context, list->rows);
    release(list->context, list->labels);
}

static size_t find_column(const struct csv *csv, const char *name, const char *other) {
    size_t column = 0;
    while (column < csv->count && strcmp(csv->fields[column], name) != 0 && strcmp(csv->fields[column], other) != 0) {
        column++;
    }
    return column;
}

static const char form[] =
    "separate the columns by commas (path,labels,split) and the labels of a picture by ';', as in a.jpg,cat;dog,train";

/* Some programs write CSV with semicolons or tabs. A first line without a comma cannot name two columns. */
static l3a_status check_separator(const struct list *list, size_t length) {
    const size_t start = length >= 3 && memcmp(list->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    const char *line = list->text + start;
    const char *end = memchr(line, '\n', length - start);
    const int shown = (int)(end ? end - line : (ptrdiff_t)(length - start));
    const char *found = memchr(line, ',', (size_t)shown)    ? NULL
                        : memchr(line, ';', (size_t)shown)  ? "semicolons"
                        : memchr(line, '\t', (size_t)shown) ? "tabs"
                                                            : NULL;
    return !found ? L3A_OK
                  : fail(list->context, L3A_ERROR_FORMAT, form, "%s: line 1: the columns are separated by %s: '%.*s'", list->path,
                         found, shown < 64 ? shown - (shown && line[shown - 1] == '\r') : 64, line);
}

static l3a_status read_header(struct list *list, struct csv *csv) {
    static const char hint[] = "name the columns in the first line: path,labels or path,labels,split";
    l3a_status status = L3A_OK;
    bool more = false;
    TRY(csv_next_row(csv, &more));
    FAIL_IF(!more, list->context, L3A_ERROR_FORMAT, hint, "%s: the file is empty", list->path);
    list->columns = csv->count;
    list->path_column = find_column(csv, "path", "path");
    list->label_column = find_column(csv, "labels", "label");
    list->split_column = find_column(csv, "split", "split");
    FAIL_IF(list->path_column == csv->count, list->context, L3A_ERROR_FORMAT, hint, "%s: line %zu: no column 'path'", list->path,
            csv->line);
    FAIL_IF(list->label_column == csv->count, list->context, L3A_ERROR_FORMAT, hint, "%s: line %zu: no column 'labels' or 'label'",
            list->path, csv->line);
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

static l3a_status take_labels(struct list *list, struct row *row, char *text) {
    l3a_status status = L3A_OK;
    row->first_label = list->label_count;
    for (char *rest = text, *label; (label = strsep(&rest, ";"));) {
        label = trim(label);
        if (label[0]) {
            TRY(grow_array(list->context, &list->labels, &list->label_capacity, list->label_count + 1, sizeof *list->labels));
            list->labels[list->label_count++] = label;
        }
    }
    row->label_count = list->label_count - row->first_label;
done:
    return status;
}

static l3a_status take_row(struct list *list, const struct csv *csv) {
    l3a_status status = L3A_OK;
    struct row row = {.line = csv->line};
    const bool semicolons = csv->count < list->columns && strchr(csv->fields[0], ';');
    FAIL_IF(csv->count != list->columns, list->context, L3A_ERROR_FORMAT,
            semicolons ? form : "separate the labels of a picture by ';', and put a field that contains a comma in quotes",
            "%s: line %zu: %zu fields, but the first line has %zu", list->path, csv->line, csv->count, list->columns);
    for (size_t i = 0; i < csv->count; i++) {
        FAIL_IF(!is_utf8(csv->fields[i]), list->context, L3A_ERROR_FORMAT, "save the file as UTF-8",
                "%s: line %zu: column %zu is not UTF-8", list->path, csv->line, i + 1);
    }
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
    TRY(take_labels(list, &row, csv->fields[list->label_column]));
    TRY(grow_array(list->context, &list->rows, &list->row_capacity, list->row_count + 1, sizeof row));
    list->rows[list->row_count++] = row;
done:
    return status;
}

static l3a_status list_read(struct list *list) {
    l3a_status status = L3A_OK;
    struct csv csv;
    bool more = true;
    size_t length;
    TRY(read_whole(list->context, list->path, LIST_LIMIT, &list->text, &length));
    FAIL_IF(memchr(list->text, '\0', length), list->context, L3A_ERROR_FORMAT, "use a text file whose first line is path,labels",
            "%s: the file contains a zero byte, so it is not text", list->path);
    TRY(check_separator(list, length));
    csv_begin(&csv, list->context, list->path, list->text, length);
    TRY(read_header(list, &csv));
    for (;;) {
        TRY(csv_next_row(&csv, &more));
        if (!more) {
            break;
        }
        TRY(take_row(list, &csv));
    }
done:
    return status;
}

/* Adds each distinct text once, in sorted order. Sorts the array in place. */
static l3a_status add_distinct(l3a_context *context, char **texts, size_t count, text_list *distinct) {
    l3a_status status = L3A_OK;
    sort_texts(texts, count);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0) {
            TRY(text_list_add(context, distinct, texts[i], strlen(texts[i])));
        }
    }
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

const struct dataset_kind list_kind = {"list", "list:FILE.csv", list_open, list_splits};
