/* Comma-separated values after RFC 4180: fields may be quoted, a quote in a quoted field is doubled, lines end in \n or \r\n. The
 * text is taken apart where it stands, so the caller's memory must be writable and have a zero byte after its end. */
#ifndef L3A_CSV_H
#define L3A_CSV_H

#include "base/context.h"

enum { CSV_FIELDS = 64 };

struct csv {
    l3a_context *context;
    const char *name; /* of the file, for errors */
    char *at, *end;
    size_t line, next_line; /* of the row just read, and of the next */
    char *fields[CSV_FIELDS];
    size_t count;
};

/* A byte order mark is passed over. */
void csv_begin(struct csv *csv, l3a_context *context, const char *name, char *text, size_t length);
/* The next row that is not empty, in fields[0 … count); or the end, and *more is false. */
l3a_status csv_next_row(struct csv *csv, bool *more);

#endif
