#include "format/csv.h"

#include <stdio.h>
#include <string.h>

void csv_begin(struct csv *csv, l3a_context *context, const char *name, char *text, size_t length) {
    const bool marked = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    char *start = text + (marked ? 3 : 0);
    *csv = (struct csv){
        .context = context, .name = name, .separator = ',', .at = start, .end = text + length, .line_start = start, .next_line = 1};
}

/* `at` is on the line `line`, which begins at `line_start`. Columns are counted in bytes, from 1. */
static l3a_status fail_at(const struct csv *csv, size_t line, const char *line_start, const char *at, const char *what) {
    const char *separator = csv->separator == ',' ? "comma" : csv->separator == ';' ? "semicolon" : "tab";
    char hint[128];
    snprintf(hint, sizeof hint, "separate fields by %ss, and put a field that contains a %s or a quote in quotes", separator,
             separator);
    return fail(csv->context, L3A_ERROR_FORMAT, hint, "%s: line %zu, column %zu: %s", csv->name, line,
                (size_t)(at - line_start) + 1, what);
}

static l3a_status fail_here(const struct csv *csv, const char *what) {
    return fail_at(csv, csv->next_line, csv->line_start, csv->at, what);
}

/* Decodes a quoted field. csv->at is on the opening quote before, and after the closing quote afterwards. */
static l3a_status take_quoted(struct csv *csv) {
    const size_t line = csv->next_line;
    const char *line_start = csv->line_start;
    char *from = csv->at + 1, *to = from;
    csv->fields[csv->count] = to;
    csv->quoted[csv->count++] = true;
    for (;; from++) {
        if (from == csv->end) {
            return fail_at(csv, line, line_start, csv->at, "a quoted field is not closed");
        }
        if (*from == '"' && from + 1 < csv->end && from[1] == '"') {
            from++;
        } else if (*from == '"') {
            break;
        }
        if (*from == '\n') {
            csv->next_line++;
            csv->line_start = from + 1;
        }
        *to++ = *from;
    }
    csv->at = from + 1;
    *to = '\0';
    return L3A_OK;
}

static bool ends_field(const struct csv *csv) {
    return csv->at == csv->end || *csv->at == csv->separator || *csv->at == '\n';
}

static l3a_status take_plain(struct csv *csv) {
    char *start = csv->at;
    csv->fields[csv->count] = start;
    csv->quoted[csv->count++] = false;
    for (; !ends_field(csv); csv->at++) {
        if (*csv->at == '"') {
            return fail_here(csv, "a quote inside a field that does not begin with one");
        }
    }
    if (csv->at > start && csv->at[-1] == '\r' && (csv->at == csv->end || *csv->at == '\n')) {
        csv->at[-1] = '\0';
    }
    return L3A_OK;
}

/* Takes one field and its separator; *last is true if the field ends the row. */
static l3a_status take_field(struct csv *csv, bool *last) {
    l3a_status status = L3A_OK;
    if (csv->count == CSV_FIELDS) {
        return fail_here(csv, "more than 64 fields");
    }
    if (csv->at < csv->end && *csv->at == '"') {
        TRY(take_quoted(csv));
        csv->at += csv->at < csv->end && *csv->at == '\r';
        if (!ends_field(csv)) {
            return fail_here(csv, "text after the closing quote of a field");
        }
    } else {
        TRY(take_plain(csv));
    }
    *last = csv->at == csv->end || *csv->at == '\n';
    if (csv->at < csv->end) {
        *csv->at++ = '\0';
    }
done:
    return status;
}

/* Whether a spreadsheet would take a field for a formula, or would without the blanks before it. */
static bool is_formula(const char *field) {
    const char first = field[strspn(field, " ")];
    return first && strchr("=+-@\t\r\n", first);
}

/* The field as it was before csv_print_field(). */
static char *without_guard(char *field) {
    return field + (field[0] == ' ' && is_formula(field));
}

l3a_status csv_next_row(struct csv *csv, bool *more) {
    l3a_status status = L3A_OK;
    do {
        *more = csv->at < csv->end;
        csv->count = 0;
        csv->line = csv->next_line;
        for (bool last = !*more; !last;) {
            TRY(take_field(csv, &last));
        }
        csv->next_line++;
        csv->line_start = csv->at;
        for (size_t i = 0; i < csv->count; i++) {
            csv->fields[i] = without_guard(csv->fields[i]);
        }
    } while (*more && csv->count == 1 && !csv->fields[0][0]);
done:
    return status;
}

/* The first row with its line break, and empty lines before it; quotes are as the parser sees them in a sound row. */
static size_t first_row_length(const struct csv *csv) {
    const char *at = csv->at + strspn(csv->at, "\r\n");
    for (bool quoted = false; at < csv->end && (quoted || *at != '\n'); at++) {
        quoted = quoted != (*at == '"');
    }
    return (size_t)(at - csv->at);
}

l3a_status csv_detect_separator(struct csv *csv, bool (*fits)(const struct csv *row)) {
    static const char separators[] = {',', ';', '\t'};
    enum { COUNT = sizeof separators, LENGTH_LIMIT = 1 << 16 };
    l3a_status status = L3A_OK;
    const size_t length = first_row_length(csv);
    char *copy = NULL, found = '\0';
    if (length > LENGTH_LIMIT) {
        return L3A_OK;
    }
    TRY(allocate(csv->context, length + 1, 1, &copy));
    for (size_t i = 0; i < COUNT && !found; i++) {
        struct csv trial;
        bool more = false;
        memcpy(copy, csv->at, length);
        copy[length] = '\0';
        csv_begin(&trial, csv->context, csv->name, copy, length);
        trial.separator = separators[i];
        found = csv_next_row(&trial, &more) == L3A_OK && more && fits(&trial) ? separators[i] : '\0';
    }
    for (size_t i = 0; i < COUNT && !found; i++) {
        found = memchr(csv->at, separators[i], length) ? separators[i] : '\0';
    }
    csv->separator = found ? found : ',';
done:
    release(csv->context, copy);
    return status;
}

void csv_print_field(text_builder *text, const char *field) {
    const char *guard = is_formula(field) ? " " : "";
    if (!strpbrk(field, ",\"\r\n")) {
        text_builder_print(text, "%s%s", guard, field);
        return;
    }
    text_builder_print(text, "\"%s", guard);
    for (; *field; field++) {
        text_builder_append(text, "\"\"", *field == '"' ? 2 : 0);
        text_builder_append(text, field, *field != '"');
    }
    text_builder_append(text, "\"", 1);
}
