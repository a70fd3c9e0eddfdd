/* The database of an index: SQLite, with errors as the rest of the library has them. Statements are prepared once and kept. */
#ifndef L3A_DATABASE_H
#define L3A_DATABASE_H

#include "base/memory.h"
#include "library/vfs.h"

#include <sqlite3.h>

struct statement {
    char *text;
    sqlite3_stmt *made;
};

struct database {
    l3a_context *context;
    char *path;
    struct vfs *vfs;
    sqlite3 *handle;
    struct statement *statements;
    size_t count, capacity;
    unsigned depth; /* of transactions; the inner ones are part of the outer one */
    bool damaged;   /* SQLite has found it to be */
};

/* Opens the file, and makes it if `create`; a missing one is L3A_ERROR_NOT_FOUND otherwise. What is no database, or is damaged, is
 * L3A_ERROR_CHECKSUM. */
l3a_status database_open(l3a_context *context, const char *path, bool create, struct database *database);
void database_close(struct database *database);
/* The failure of a call of SQLite, as an error of the context. */
l3a_status database_fail(struct database *database, int code);
/* A statement, ready to be bound and stepped. It belongs to the database; one text is one statement, which cannot be in use twice.
 * What is bound to it is forgotten when it is prepared again, and is not looked at in between. A statement that is left before its
 * last row must be reset, or nobody else can write any more; resetting NULL is harmless. */
l3a_status database_prepare(struct database *database, const char *text, sqlite3_stmt **statement);
/* Steps; *row: there is a row. After the last one, the statement is reset. */
l3a_status database_step(struct database *database, sqlite3_stmt *statement, bool *row);
/* Prepares, binds the numbers and runs a statement that has no rows. */
l3a_status database_run(struct database *database, const char *text, const int64_t *values, size_t count);
/* The number that a statement of one row finds; `otherwise`: there is no row, or it is NULL. */
l3a_status database_number(struct database *database, const char *text, const int64_t *values, size_t count, int64_t otherwise,
                           int64_t *number);
/* One or more statements without values or rows. */
l3a_status database_execute(struct database *database, const char *text);
/* Begins a transaction that writes; another process waits, or this one does. */
l3a_status database_begin(struct database *database);
/* Begins one that only reads: what it sees does not change meanwhile. It keeps others from writing, so it should be short. */
l3a_status database_begin_reading(struct database *database);
/* Commits it if all went well, and takes it back if not. Returns the first failure. */
l3a_status database_end(struct database *database, l3a_status status);

/* meta */
l3a_status meta_number(struct database *database, const char *key, int64_t otherwise, int64_t *number);
l3a_status meta_set_number(struct database *database, const char *key, int64_t number);
/* Adds 1 to a number that is 0 at first, and returns what it is then. */
l3a_status meta_step(struct database *database, const char *key, int64_t *number);
/* The text is NULL if there is none. */
l3a_status meta_text(struct database *database, const char *key, char **text);
l3a_status meta_set_text(struct database *database, const char *key, const char *text);

#endif
