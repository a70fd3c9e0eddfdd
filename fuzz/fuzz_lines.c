/* Text files that people write: class names, the order of classes, and rows of CSV. Accepted names appear in the file; an order is
 * a permutation; fields are unchanged after they are written and read again. Lists of pictures have their own target. */
#include "fuzz.h"

#include "format/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A NumPy file of 2 x 3, for features or for the labels of three classes. */
static const char *npy(const char *type, const void *data, size_t size, char file[128 + 24]) {
    static const char start[] = "\x93NUMPY\x01\0v";
    memset(file, ' ', 128);
    memcpy(file, start, sizeof start);
    file[9] = '\0';
    char text[96];
    const int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }", type);
    memcpy(file + 10, text, (size_t)length);
    file[127] = '\n';
    memcpy(file + 128, data, size);
    return file;
}

static void read_names(const uint8_t *bytes, size_t count) {
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    static const int8_t labels[6] = {1, 0, 0, 0, 1, 1};
    char features_file[152], labels_file[152];
    l3a_context *context = context_over(bytes, count);
    l3a_features *features = NULL;
    add_file("x.npy", npy("<f4", values, sizeof values, features_file), 152);
    add_file("y.npy", npy("|i1", labels, sizeof labels, labels_file), 134);
    if (l3a_features_open_npy(context, "x.npy", "y.npy", "names.txt", &features) == L3A_OK) {
        must(l3a_features_class_count(features) == 3);
        for (size_t i = 0; i < 3; i++) {
            const char *name = l3a_features_class(features, i);
            must(name[0] && !strchr(name, '\n') && memmem(bytes, count, name, strlen(name)));
        }
    }
    l3a_features_free(features);
    l3a_context_free(context);
}

static void read_order(const uint8_t *bytes, size_t count) {
    static const char *const names[4] = {"cat", "dog", "hot dog", "\xC3\xA9"};
    size_t order[4];
    l3a_context *context = context_over(bytes, count);
    if (l3a_class_order(context, names, 4, "order.txt", order) == L3A_OK) {
        bool seen[4] = {false};
        for (size_t i = 0; i < 4; i++) {
            must(order[i] < 4 && !seen[order[i]]);
            seen[order[i]] = true;
        }
    }
    l3a_context_free(context);
}

static void check_fields(l3a_context *context, const struct csv *csv) {
    text_builder line = {.context = context};
    struct csv again;
    bool more = false, empty = true;
    for (size_t i = 0; i < csv->count; i++) {
        text_builder_append(&line, ",", i > 0);
        csv_print_field(&line, csv->fields[i]);
        empty = empty && !csv->fields[i][0];
    }
    text_builder_append(&line, "\n", 1);
    must(line.status == L3A_OK);
    csv_begin(&again, context, "again", line.text, line.length);
    const bool marked = strncmp(line.text, "\xEF\xBB\xBF", 3) == 0; /* read again, it would count as a byte-order mark */
    must(csv_next_row(&again, &more) == L3A_OK && (more || marked || (empty && csv->count == 1)));
    must(!more || marked || again.count == csv->count);
    for (size_t i = 0; more && !marked && i < csv->count; i++) {
        must(strcmp(again.fields[i], csv->fields[i]) == 0);
    }
    text_builder_free(&line);
}

/* The same row with every field in quotes, and any separator. */
static void check_quoted(l3a_context *context, const struct csv *csv) {
    text_builder line = {.context = context};
    struct csv again;
    bool more = false;
    for (size_t i = 0; i < csv->count; i++) {
        text_builder_append(&line, &csv->separator, i > 0);
        text_builder_append(&line, "\"", 1);
        for (const char *at = csv->fields[i]; *at; at++) {
            text_builder_append(&line, "\"\"", *at == '"');
            text_builder_append(&line, at, 1);
        }
        text_builder_append(&line, "\"", 1);
    }
    must(line.status == L3A_OK);
    csv_begin(&again, context, "again", line.text, line.length);
    again.separator = csv->separator;
    must(csv_next_row(&again, &more) == L3A_OK && (more || csv->count == 1) && (!more || again.count == csv->count));
    for (size_t i = 0; more && i < csv->count; i++) {
        must(again.quoted[i] && strcmp(again.fields[i], csv->fields[i]) == 0);
    }
    text_builder_free(&line);
}

static bool has_two_fields(const struct csv *row) {
    return row->count == 2;
}

/* separator 0: the one that the text suggests. */
static void read_rows(const uint8_t *bytes, size_t count, char separator) {
    l3a_context *context = context_over(bytes, count);
    char *text = malloc(count + 1);
    struct csv csv;
    bool more = true;
    must(text != NULL);
    memcpy(text, bytes, count);
    text[count] = '\0';
    csv_begin(&csv, context, "rows.csv", text, count);
    if (separator) {
        csv.separator = separator;
    } else {
        must(csv_detect_separator(&csv, has_two_fields) == L3A_OK && memcmp(text, bytes, count) == 0);
        must(csv.separator == ',' || csv.separator == ';' || csv.separator == '\t');
    }
    for (size_t line = 0; csv_next_row(&csv, &more) == L3A_OK && more; line = csv.line) {
        must(csv.count > 0 && csv.count <= CSV_FIELDS && csv.line > line);
        check_fields(context, &csv);
        check_quoted(context, &csv);
    }
    free(text);
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static const uint8_t nothing;
    bytes = count ? bytes : &nothing;
    read_names(bytes, count);
    read_order(bytes, count);
    read_rows(bytes, count, ',');
    read_rows(bytes, count, ';');
    read_rows(bytes, count, '\t');
    read_rows(bytes, count, '\0');
    return 0;
}
