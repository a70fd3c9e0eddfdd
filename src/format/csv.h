/* Comma-separated values as in RFC 4180: fields may be quoted, a quote in a quoted field is doubled, and lines end in \n or \r\n.
 * Another character may stand for the comma. A spreadsheet takes a field for a formula if it begins with one of = + - @, a tab or a
 * line break; so one blank is written before such a field, after the blanks that it may begin with, and is dropped when the field
 * is read. The text is parsed in place, so the caller's memory must be writable and have a zero
 * byte after its end. */
#ifndef L3A_CSV_H
#define L3A_CSV_H

#include "base/memory.h"

enum { CSV_FIELDS = 64 };

struct csv {
    l3a_context *context;
    const char *name; /* of the file, for errors */
    char separator;   /* ',' unless it is set otherwise before the first row */
    char *at, *end;
    char *line_start;       /* of the line that `at` is on */
    size_t line, next_line; /* of the last row, and of the next */
    char *fields[CSV_FIELDS];
    bool quoted[CSV_FIELDS];
    size_t count;
};

/* Skips a byte order mark. */
void csv_begin(struct csv *csv, l3a_context *context, const char *name, char *text, size_t length);
/* Called before the first row: sets the separator to the first of comma, semicolon and tab with which that row is one that `fits`
 * accepts. If there is none, to the first of them that the row contains, or a comma. */
l3a_status csv_detect_separator(struct csv *csv, bool (*fits)(const struct csv *row));
/* Reads the next row that is not empty into fields[0 … count). *more is false at the end. */
l3a_status csv_next_row(struct csv *csv, bool *more);
/* Appends a field, in quotes if necessary, and never as a formula. */
void csv_print_field(text_builder *text, const char *field);

#endif
