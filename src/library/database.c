#include "library/database.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Milliseconds to wait for another process that writes. */
enum { PATIENCE = 20000, CACHE_KIB = 16384 };

/* ---- Failures ---- */

static const char begin_writing[] = "BEGIN IMMEDIATE", begin_reading[] = "BEGIN", commit[] = "COMMIT", roll_back[] = "ROLLBACK";

static l3a_status fail_code(struct database *database, int code, const char *text) {
    l3a_context *context = database->context;
    const int number = database->vfs ? vfs_code(database->vfs) : 0;
    switch (code & 0xff) {
    case SQLITE_NOMEM: return fail(context, L3A_ERROR_MEMORY, NULL, "%s: not enough memory for the index", database->path);
    case SQLITE_FULL: return fail_system(context, database->path, "write", ENOSPC);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        database->damaged = true;
        return fail(context, L3A_ERROR_CHECKSUM, "run 'l3a index', which makes it again",
                    "%s: this is not an index, or it is damaged", database->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fail(context, L3A_ERROR_IO, "try again when it has ended", "%s: another process is writing to the index",
                    database->path);
    case SQLITE_READONLY: return fail_system(context, database->path, "write", number ? number : EACCES);
    case SQLITE_CANTOPEN: return fail_system(context, database->path, "open", number ? number : ENOENT);
    case SQLITE_IOERR:
        if (number == ENOLCK) {
            return fail(context, L3A_ERROR_IO, "put the index elsewhere with --index FILE",
                        "%s: this file system cannot lock files, which an index needs", database->path);
        }
        return fail_system(context, database->path, "read or write", number ? number : EIO);
    default: return fail(context, L3A_ERROR_FORMAT, NULL, "%s: %s", database->path, text);
    }
}

l3a_status database_fail(struct database *database, int code) {
    return fail_code(database, code, database->handle ? sqlite3_errmsg(database->handle) : sqlite3_errstr(code));
}

/* ---- Statements ---- */

l3a_status database_prepare(struct database *database, const char *text, sqlite3_stmt **statement) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < database->count; i++) {
        if (strcmp(database->statements[i].text, text) == 0) {
            *statement = database->statements[i].made;
            sqlite3_reset(*statement);
            sqlite3_clear_bindings(*statement);
            return L3A_OK;
        }
    }
    TRY(grow_array(database->context, &database->statements, &database->capacity, database->count + 1,
                   sizeof *database->statements));
    struct statement *made = &database->statements[database->count];
    *made = (struct statement){0};
    TRY(copy_text(database->context, text, strlen(text), &made->text));
    const int code = sqlite3_prepare_v3(database->handle, text, -1, SQLITE_PREPARE_PERSISTENT, &made->made, NULL);
    if (code != SQLITE_OK) {
        release(database->context, made->text);
        return database_fail(database, code);
    }
    database->count++;
    *statement = made->made;
done:
    return status;
}

l3a_status database_step(struct database *database, sqlite3_stmt *statement, bool *row) {
    const int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    if (code == SQLITE_ROW) {
        return L3A_OK;
    }
    const l3a_status status = code == SQLITE_DONE ? L3A_OK : database_fail(database, code);
    sqlite3_reset(statement);
    return status;
}

static void bind_all(sqlite3_stmt *statement, const int64_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(statement, (int)i + 1, values[i]);
    }
}

l3a_status database_run(struct database *database, const char *text, const int64_t *values, size_t count) {
    sqlite3_stmt *statement;
    bool row = true;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, text, &statement));
    bind_all(statement, values, count);
    while (row) {
        TRY(database_step(database, statement, &row));
    }
done:
    return status;
}

l3a_status database_number(struct database *database, const char *text, const int64_t *values, size_t count, int64_t otherwise,
                           int64_t *number) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    *number = otherwise;
    TRY(database_prepare(database, text, &statement));
    bind_all(statement, values, count);
    TRY(database_step(database, statement, &row));
    if (row) {
        *number = sqlite3_column_type(statement, 0) == SQLITE_NULL ? otherwise : sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
done:
    return status;
}

l3a_status database_execute(struct database *database, const char *text) {
    const int code = sqlite3_exec(database->handle, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? L3A_OK : database_fail(database, code);
}

/* ---- Transactions ---- */

static l3a_status begin(struct database *database, const char *text) {
    l3a_status status = L3A_OK;
    if (!database->depth) {
        TRY(database_run(database, text, NULL, 0));
    }
    database->depth++;
done:
    return status;
}

l3a_status database_begin(struct database *database) {
    return begin(database, begin_writing);
}

l3a_status database_begin_reading(struct database *database) {
    return begin(database, begin_reading);
}

l3a_status database_end(struct database *database, l3a_status status) {
    char text[sizeof database->context->error_text], hint[sizeof database->context->error_hint];
    if (--database->depth) {
        return status;
    }
    if (status == L3A_OK) {
        status = database_run(database, commit, NULL, 0);
    }
    if (status != L3A_OK && !sqlite3_get_autocommit(database->handle)) { /* what counts is the first failure */
        memcpy(text, database->context->error_text, sizeof text);
        memcpy(hint, database->context->error_hint, sizeof hint);
        for (size_t i = 0; i < database->count; i++) {
            sqlite3_reset(database->statements[i].made);
        }
        database_run(database, roll_back, NULL, 0);
        memcpy(database->context->error_text, text, sizeof text);
        memcpy(database->context->error_hint, hint, sizeof hint);
    }
    return status;
}

/* ---- Opening ---- */

static l3a_status set_up(struct database *database) {
    char text[160];
    l3a_status status = L3A_OK;
    sqlite3_extended_result_codes(database->handle, 1);
    sqlite3_busy_timeout(database->handle, PATIENCE);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL); /* the file may be a stranger's */
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    snprintf(text, sizeof text,
             "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON; PRAGMA cache_size = -%d;", CACHE_KIB);
    TRY(database_execute(database, text));
    /* Reads the first page, so that what is no database is found here. */
    TRY(database_execute(database, "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;"));
    const char *const always[] = {begin_writing, begin_reading, commit, roll_back}; /* must not fail for want of memory later */
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        sqlite3_stmt *statement;
        TRY(database_prepare(database, always[i], &statement));
    }
done:
    return status;
}

l3a_status database_open(l3a_context *context, const char *path, bool create, struct database *database) {
    l3a_status status = L3A_OK;
    bool exists = false;
    *database = (struct database){.context = context};
    TRY(copy_text(context, path, strlen(path), &database->path));
    TRY(file_exists(context, path, &exists));
    FAIL_IF(!exists && !create, context, L3A_ERROR_NOT_FOUND, "make it with 'l3a index'", "%s: there is no index", path);
    TRY(vfs_open(context, &database->vfs));
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | (create ? SQLITE_OPEN_CREATE : 0);
    const int code = sqlite3_open_v2(path, &database->handle, flags, vfs_name(database->vfs));
    if (code != SQLITE_OK) {
        TRY(database_fail(database, code));
    }
    TRY(set_up(database));
done:
    if (status != L3A_OK) {
        database_close(database);
    }
    return status;
}

void database_close(struct database *database) {
    for (size_t i = 0; i < database->count; i++) {
        sqlite3_finalize(database->statements[i].made);
        release(database->context, database->statements[i].text);
    }
    release(database->context, database->statements);
    sqlite3_close(database->handle);
    vfs_close(database->vfs);
    release(database->context, database->path);
    *database = (struct database){0};
}

/* ---- Meta ---- */

static l3a_status meta_find(struct database *database, const char *key, sqlite3_stmt **statement, bool *row) {
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "SELECT value FROM meta WHERE key = ?1", statement));
    sqlite3_bind_text(*statement, 1, key, -1, SQLITE_STATIC);
    TRY(database_step(database, *statement, row));
done:
    return status;
}

l3a_status meta_number(struct database *database, const char *key, int64_t otherwise, int64_t *number) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    *number = otherwise;
    TRY(meta_find(database, key, &statement, &row));
    if (row) {
        *number = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
done:
    return status;
}

l3a_status meta_text(struct database *database, const char *key, char **text) {
    sqlite3_stmt *statement = NULL;
    bool row = false;
    l3a_status status = L3A_OK;
    *text = NULL;
    TRY(meta_find(database, key, &statement, &row));
    const char *found = row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (found) {
        TRY(copy_text(database->context, found, strlen(found), text));
    }
done:
    if (row) {
        sqlite3_reset(statement);
    }
    return status;
}

static l3a_status meta_put(struct database *database, const char *key, const char *text, int64_t number) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", &statement));
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    if (text) {
        sqlite3_bind_text(statement, 2, text, -1, SQLITE_STATIC);
    } else {
        sqlite3_bind_int64(statement, 2, number);
    }
    TRY(database_step(database, statement, &row));
done:
    return status;
}

l3a_status meta_set_number(struct database *database, const char *key, int64_t number) {
    return meta_put(database, key, NULL, number);
}

l3a_status meta_set_text(struct database *database, const char *key, const char *text) {
    return meta_put(database, key, text, 0);
}

l3a_status meta_step(struct database *database, const char *key, int64_t *number) {
    l3a_status status = L3A_OK;
    TRY(meta_number(database, key, 0, number));
    *number = (int64_t)((uint64_t)*number + 1); /* a damaged index may have any number */
    TRY(meta_set_number(database, key, *number));
done:
    return status;
}
