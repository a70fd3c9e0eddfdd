#include "support.h"

#include "small_index.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH = 400 };

int small_index_prepare(sqlite3 *db, const char *mode) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "PRAGMA page_size = 1024; PRAGMA temp_store = MEMORY; PRAGMA synchronous = EXTRA;"
             "PRAGMA cache_size = 4; PRAGMA journal_mode = %s",
             mode ? mode : "DELETE");
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int small_index_open(struct small_index *index, l3a_context *context, const char *path, const char *mode) {
    *index = (struct small_index){0};
    if (vfs_open(context, &index->vfs) != L3A_OK) {
        return SQLITE_NOMEM;
    }
    const int result = sqlite3_open_v2(path, &index->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs_name(index->vfs));
    return result == SQLITE_OK ? small_index_prepare(index->db, mode) : result;
}

void small_index_close(struct small_index *index) {
    assert_int_equal(sqlite3_close(index->db), SQLITE_OK);
    vfs_close(index->vfs);
    *index = (struct small_index){0};
}

static int rows_of(int edition) {
    return 12 + 9 * (edition % 3);
}

int small_index_change(sqlite3 *db, int edition) {
    char sql[600];
    snprintf(sql, sizeof sql,
             "%s BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS row(id INTEGER PRIMARY KEY, edition, data); DELETE FROM row;"
             "WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < %d)"
             "INSERT INTO row SELECT i, %d, printf('%%.*c', %d, char(64 + %d)) FROM number; COMMIT",
             edition == 1 ? "PRAGMA auto_vacuum = FULL;" : "", rows_of(edition), edition, LENGTH, edition);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int is_ok(void *user, int count, char **values, char **names) {
    (void)names;
    *(bool *)user = count == 1 && strcmp(values[0], "ok") == 0;
    return 0;
}

static int take_rows(void *user, int count, char **values, char **names) {
    (void)names;
    int edition = 0, rows = 0, last = 0, length = 0;
    char letter = 0;
    if (count == 1 && sscanf(values[0], "%d %d %d %d %c", &edition, &rows, &last, &length, &letter) == 5) {
        const bool whole = rows == rows_of(edition) && last == rows && length == LENGTH && letter == 64 + edition;
        *(int *)user = whole ? edition : -2;
    }
    return 0;
}

int small_index_edition(sqlite3 *db, int *result) {
    int edition = -1;
    bool intact = false, table = false;
    *result = sqlite3_exec(db, "PRAGMA integrity_check", is_ok, &intact, NULL);
    if (*result != SQLITE_OK || !intact) {
        return -1;
    }
    *result = sqlite3_exec(db, "SELECT iif(count(*), 'ok', '') FROM sqlite_master WHERE name = 'row'", is_ok, &table, NULL);
    if (*result != SQLITE_OK || !table) {
        return *result == SQLITE_OK ? 0 : -1;
    }
    /* Rows that differ make no row here, or several. */
    *result = sqlite3_exec(db,
                           "SELECT printf('%d %d %d %d %s', edition, count(*), max(id), length(data), substr(data, 7, 1)) FROM row "
                           "GROUP BY edition, data HAVING count(*) = (SELECT count(*) FROM row)",
                           take_rows, &edition, NULL);
    return edition;
}
