/* The tables of a folder, and checksums.csv, which shows whether one of them was edited.
 *
 * A row of checksums.csv is the name of a table, the XXH3-64 of its bytes, and 32 bits of the XXH3-64 of each line, to say which
 * line differs. It is written before the tables, with a row for what a table still holds and one for what it will hold, so that a
 * table agrees with one of them whenever the writing is interrupted. Where checksums.csv is missing, tables are taken as they are.
 */
#ifndef L3A_TABLES_H
#define L3A_TABLES_H

#include "base/memory.h"

struct table_sum {
    char *name;
    uint64_t whole;
    char *lines; /* eight hexadecimal digits for each */
};

/* What is known about the tables of one folder. Start from zeroes. */
struct tables {
    struct table_sum *sums;
    size_t count, capacity;
    bool recorded; /* checksums.csv was there */
};

struct table_text {
    const char *name;
    const text_builder *text;
};

/* Reads checksums.csv, if there is one. */
l3a_status tables_open(l3a_context *context, const char *folder, struct tables *tables);
/* The text and path of a table, both for the caller to release; *text is NULL where there is no such table. An error names the line
 * that is not as it was written. */
l3a_status tables_read(l3a_context *context, struct tables *tables, const char *folder, const char *name, char **path, char **text,
                       size_t *length);
/* Writes checksums.csv, and then the tables in this order. */
l3a_status tables_write(l3a_context *context, struct tables *tables, const char *folder, const struct table_text *written,
                        size_t count);
void tables_free(l3a_context *context, struct tables *tables);

#endif
