/* l3a find, in two files: find.c has the command and what it looks for, and found.c writes what was found. */
#ifndef L3A_CLI_FOUND_H
#define L3A_CLI_FOUND_H

#include "indexed.h"
#include "rows.h"

/* How pictures are written. */
struct found_form {
    struct printer printer;
    bool paths, xmp;    /* instead of rows: a path per picture; sidecars */
    bool all;           /* sidecars get all tags that are given, and not only those that are sure */
    bool short_name;    /* of new sidecars */
    bool groups;        /* near-duplicates: the rank is the number of a group */
    char end;           /* of a path */
    const char *output; /* NULL: the standard output */
};

/* Writes all of them; returns the exit code. */
int write_found(struct indexed *indexed, struct found_form *form, const l3a_found *found);

#endif
