#include "format/csv.h"

#include <string.h>

void csv_begin(struct csv *csv, l3a_context *context, const char *name, char *text, size_t length) {
    const bool marked = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    *csv = (struct csv){.context = context, .name = name, .at = text + (marked ? 3 : 0), .end = text + length, .next_line = 1};
}

static l3a_status fail_line(const struct csv *csv, const char *what) {
    return fail(csv->context, L3A_ERROR_FORMAT,
                "separate fields by commas, and put a field that contains a comma or a quote in quotes", "%s: line %zu: %s",
                csv->name, csv->line, what);
}

/* Decodes a quoted field. csv->at is on the opening quote before, and after the closing quote afterwards. */
static l3a_status take_quoted(struct csv *csv) {
    char *from = csv->at + 1, *to = from;
    csv->fields[csv->count++] = to;
    for (;; from++) {
        if (from == csv->end) {
            return fail_line(csv, "a quoted field is not closed");
        }
        if (*from == '"' && from + 1 < csv->end && from[1] == '"') {
            from++;
        } else if (*from == '"') {
            break;
        }
        csv->next_line += *from == '\n';
        *to++ = *from;
    }
    csv->at = from + 1;
    *to = '\0';
    return L3A_OK;
}

static l3a_status take_plain(struct csv *csv) {
    csv->fields[csv->count++] = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n') {
        if (*csv->at == '"') {
            return fail_line(csv, "a quote inside a field that does not begin with one");
        }
        csv->at++;
    }
    if (csv->at > csv->fields[csv->count - 1] && csv->at[-1] == '\r' && (csv->at == csv->end || *csv->at == '\n')) {
        csv->at[-1] = '\0';
    }
    return L3A_OK;
}

/* Takes one field and its separator; *last is true if the field ends the row. */
static l3a_status take_field(struct csv *csv, bool *last) {
    l3a_status status = L3A_OK;
    if (csv->count == CSV_FIELDS) {
        return fail_line(csv, "more than 64 fields");
    }
    if (csv->at < csv->end && *csv->at == '"') {
        TRY(take_quoted(csv));
        csv->at += csv->at < csv->end && *csv->at == '\r';
        if (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n') {
            return fail_line(csv, "text after the closing quote of a field");
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
    } while (*more && csv->count == 1 && !csv->fields[0][0]);
done:
    return status;
}

void csv_print_field(text_builder *text, const char *field) {
    if (!strpbrk(field, ",\"\r\n")) {
        text_builder_print(text, "%s", field);
        return;
    }
    text_builder_append(text, "\"", 1);
    for (; *field; field++) {
        text_builder_append(text, "\"\"", *field == '"' ? 2 : 0);
        text_builder_append(text, field, *field != '"');
    }
    text_builder_append(text, "\"", 1);
}
