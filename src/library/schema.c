/* The tables of an index. `application_id` tells an index from other databases, and `user_version` the version of the tables. A new
 * version adds a step to `steps`; each brings the tables of the version before to its own. */
#include "library/library.h"

#include <stdio.h>

enum { APPLICATION = 0x4C334149 /* "L3AI" */ };

static const char *const steps[] = {
    /* Nothing yet → 1. A picture: folder and name say where it is; size and modified (nanoseconds; 0: to be compared by its
     * content) whether it has changed; sure is 0 if the file may have changed since without another size or time, or could not be
     * read for a reason that may pass; taken is in seconds, as the camera had them; state is an enum picture_state; `change`
     * counts the changes of the index. A slot is a record of the features file, and belongs to a checksum. */
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE root (id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, problem TEXT);"
    "CREATE TABLE folder (id INTEGER PRIMARY KEY, root INTEGER NOT NULL, path TEXT UNIQUE NOT NULL, problem TEXT);"
    "CREATE TABLE picture (id INTEGER PRIMARY KEY AUTOINCREMENT, folder INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER NOT "
    "NULL,"
    "  modified INTEGER NOT NULL, sure INTEGER NOT NULL DEFAULT 1, checksum INTEGER, kind TEXT, taken INTEGER,"
    "  state INTEGER NOT NULL, slot INTEGER, problem TEXT, change INTEGER NOT NULL);"
    "CREATE UNIQUE INDEX picture_place ON picture (folder, name) WHERE state <> 4;"
    "CREATE INDEX picture_content ON picture (checksum);"
    "CREATE INDEX picture_change ON picture (change);"
    "CREATE INDEX picture_waiting ON picture (state) WHERE state = 0;"
    "CREATE INDEX picture_gone ON picture (state) WHERE state = 4;"
    "CREATE TABLE feature (slot INTEGER PRIMARY KEY, checksum INTEGER UNIQUE NOT NULL);"
    "CREATE TABLE said (checksum INTEGER NOT NULL, class TEXT NOT NULL, shown INTEGER NOT NULL, PRIMARY KEY (checksum, class))"
    "  WITHOUT ROWID;"
    "CREATE TABLE class (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, threshold REAL, active INTEGER NOT NULL);"
    "CREATE TABLE block (id INTEGER PRIMARY KEY, edition INTEGER NOT NULL, slots INTEGER NOT NULL);"
    "CREATE TABLE score (class INTEGER NOT NULL, block INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (class, block));",
};

enum { VERSION = sizeof steps / sizeof steps[0] };

static l3a_status find_version(struct database *database, int64_t *version) {
    int64_t application, tables;
    l3a_status status = L3A_OK;
    /* The tables first: another process may make them at this moment, together with what is read next. */
    TRY(database_number(database, "SELECT count(*) FROM sqlite_master", NULL, 0, 0, &tables));
    TRY(database_number(database, "PRAGMA application_id", NULL, 0, 0, &application));
    TRY(database_number(database, "PRAGMA user_version", NULL, 0, 0, version));
    *version = tables ? *version : 0;
    FAIL_IF(tables && application != APPLICATION, database->context, L3A_ERROR_FORMAT, "name another file with --index",
            "%s: this is a database of another program", database->path);
    FAIL_IF(*version > VERSION, database->context, L3A_ERROR_VERSION, "use the newer version of l3a, or another file with --index",
            "%s: this index was made by a newer version of l3a", database->path);
    FAIL_IF(tables && *version < 1, database->context, L3A_ERROR_CHECKSUM, "run 'l3a index', which makes it again",
            "%s: the index is damaged: it has tables, and says that it has none", database->path);
done:
    return status;
}

/* In a transaction: another process may have done it meanwhile. */
static l3a_status upgrade(struct database *database) {
    char text[80];
    int64_t version;
    l3a_status status = L3A_OK;
    TRY(find_version(database, &version));
    for (int64_t i = version; i < VERSION; i++) {
        TRY(database_execute(database, steps[i]));
    }
    snprintf(text, sizeof text, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION, VERSION);
    TRY(database_execute(database, text));
done:
    return status;
}

/* Whether the tables are as this version has them: all that is used of them. */
static l3a_status check_tables(struct database *database) {
    static const char *const used[] = {
        "SELECT key, value FROM meta",
        "SELECT id, path, problem FROM root",
        "SELECT id, root, path, problem FROM folder",
        "SELECT id, folder, name, size, modified, sure, checksum, kind, taken, state, slot, problem, change FROM picture",
        "SELECT slot, checksum FROM feature",
        "SELECT checksum, class, shown FROM said",
        "SELECT id, name, threshold, active FROM class",
        "SELECT id, edition, slots FROM block",
        "SELECT class, block, data FROM score",
    };
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        sqlite3_stmt *statement = NULL;
        const int code = sqlite3_prepare_v2(database->handle, used[i], -1, &statement, NULL);
        sqlite3_finalize(statement);
        if (code != SQLITE_OK) {
            return database_fail(database, code == SQLITE_ERROR ? SQLITE_CORRUPT : code);
        }
    }
    return L3A_OK;
}

l3a_status library_prepare_tables(struct database *database) {
    int64_t version;
    l3a_status status = L3A_OK;
    TRY(find_version(database, &version));
    if (version < VERSION) {
        TRY(database_begin(database));
        TRY(database_end(database, upgrade(database)));
    }
    TRY(check_tables(database));
done:
    return status;
}
