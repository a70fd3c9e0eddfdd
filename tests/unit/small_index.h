/* A small SQLite database behind the VFS of an index. Each transaction replaces all rows by those of the next edition, so that half
 * of a transaction can be told from a whole one. */
#ifndef L3A_SMALL_INDEX_H
#define L3A_SMALL_INDEX_H

#include "library/vfs.h"

#include <sqlite3.h>

struct small_index {
    struct vfs *vfs;
    sqlite3 *db;
};

/* How an index is opened: so that only committed transactions count, and with a cache so small that pages are written before the
 * transaction ends. mode: of the journal; NULL: "DELETE". Returns SQLite's result; the index is to be closed in any case. */
int small_index_open(struct small_index *index, l3a_context *context, const char *path, const char *mode);
/* Also checks that SQLite can close it. */
void small_index_close(struct small_index *index);
/* The same settings, for any connection. */
int small_index_prepare(sqlite3 *db, const char *mode);
/* The first edition makes an index that is truncated when rows go. Returns the result of the first statement that fails. */
int small_index_change(sqlite3 *db, int edition);
/* The edition that is there, wholly; 0: nothing is. Negative: SQLite cannot say, or it is none. *result is SQLite's. */
int small_index_edition(sqlite3 *db, int *result);

#endif
