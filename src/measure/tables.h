/* The tables of a folder, and checksums.csv, which shows whether a table was edited.
 *
 * A row of checksums.csv holds the name of a table, the XXH3-64 of its bytes, and 32 bits of the XXH3-64 of each line, to find the
 * line that differs. The file is written before the tables, with one row for a table's old contents and one for its new contents,
 * so that the table agrees with one of them whenever writing is interrupted. If checksums.csv is missing, tables are not checked.
 */
#ifndef L3A_TABLES_H
#define L3A_TABLES_H

#include "base/memory.h"

struct table_sum {
    char *name;
    uint64_t whole;
    char *lines; /* eight hexadecimal digits per line */
};

/* What is known about the tables of one folder. Start from zeroes. */
struct tables {
    struct table_sum *sums;
    size_t count, capacity;
    bool recorded; /* checksums.csv existed */
};

struct table_text {
    const char *name;
    const text_builder *text;
};

/* Reads checksums.csv, if there is one. */
l3a_status tables_open(l3a_context *context, const char *folder, struct tables *tables);
/* Reads a table and checks it. The caller releases *text and *path; *text is NULL if there is no such table. If the table was
 * edited, the error names the line. */
l3a_status tables_read(l3a_context *context, struct tables *tables, const char *folder, const char *name, char **path, char **text,
                       size_t *length);
/* Writes checksums.csv, and then the tables in the given order. */
l3a_status tables_write(l3a_context *context, struct tables *tables, const char *folder, const struct table_text *written,
                        size_t count);
void tables_free(l3a_context *context, struct tables *tables);

#endif
