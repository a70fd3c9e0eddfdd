#include "library/scan.h"

#define COMMIT_SECONDS 1
enum { COMMIT_ROWS = 4000 };

/* ---- Transactions ---- */

l3a_status scan_begin_writing(struct scan *scan) {
    l3a_status status = L3A_OK;
    if (!scan->open) {
        TRY(database_begin(&scan->library->database));
        scan->open = true;
        scan->began = clock_seconds();
        TRY(library_next_change(scan->library, &scan->change));
    }
    scan->written++;
done:
    return status;
}

l3a_status scan_end_writing(struct scan *scan, l3a_status status) {
    if (scan->open) {
        scan->open = false;
        scan->written = 0;
        status = database_end(&scan->library->database, status);
    }
    return status;
}

l3a_status scan_pause(struct scan *scan) {
    const bool due = scan->open && (scan->written >= COMMIT_ROWS || clock_seconds() > scan->began + COMMIT_SECONDS);
    return due ? scan_end_writing(scan, L3A_OK) : L3A_OK;
}

/* ---- Rows ---- */

l3a_status scan_next_row(struct scan *scan, struct row *row) {
    bool found;
    l3a_status status = L3A_OK;
    row->name = NULL;
    TRY(database_step(&scan->library->database, row->statement, &found));
    if (found) {
        row->id = sqlite3_column_int64(row->statement, 0);
        row->name = (const char *)sqlite3_column_text(row->statement, 1);
        row->size = sqlite3_column_int64(row->statement, 2);
        row->modified = sqlite3_column_int64(row->statement, 3);
        row->state = sqlite3_column_int64(row->statement, 4);
        row->checksum = (uint64_t)sqlite3_column_int64(row->statement, 5);
        row->sure = sqlite3_column_int64(row->statement, 6) != 0;
        FAIL_IF(!row->name, scan->context, L3A_ERROR_MEMORY, NULL, "not enough memory for the rows of the index");
    }
done:
    return status;
}

static void bind_found(sqlite3_stmt *statement, const struct scan *scan, const struct found *found) {
    sqlite3_bind_int64(statement, 2, found->size);
    sqlite3_bind_int64(statement, 3, found->modified);
    sqlite3_bind_int64(statement, 4, found->refusal ? PICTURE_OTHER : PICTURE_WAITING);
    if (found->refusal) {
        sqlite3_bind_text(statement, 5, found->refusal, -1, SQLITE_STATIC);
    }
    sqlite3_bind_int64(statement, 6, scan->change);
}

l3a_status scan_add_row(struct scan *scan, int64_t folder, const struct found *found) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(scan_begin_writing(scan));
    TRY(database_prepare(&scan->library->database,
                         "INSERT INTO picture (folder, name, size, modified, state, problem, change) "
                         "VALUES (?1, ?7, ?2, ?3, ?4, ?5, ?6)",
                         &statement));
    sqlite3_bind_int64(statement, 1, folder);
    sqlite3_bind_text(statement, 7, found->name, -1, SQLITE_STATIC);
    bind_found(statement, scan, found);
    TRY(database_step(&scan->library->database, statement, &row));
    scan->report.added++;
done:
    return status;
}

l3a_status scan_change_row(struct scan *scan, int64_t id, const struct found *found) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(scan_begin_writing(scan));
    TRY(database_prepare(&scan->library->database,
                         "UPDATE picture SET size = ?2, modified = ?3, state = ?4, problem = ?5, change = ?6, slot = NULL, "
                         "checksum = NULL, kind = NULL, taken = NULL, sure = 1 WHERE id = ?1",
                         &statement));
    sqlite3_bind_int64(statement, 1, id);
    bind_found(statement, scan, found);
    TRY(database_step(&scan->library->database, statement, &row));
done:
    return status;
}

l3a_status scan_drop_row(struct scan *scan, int64_t id) {
    l3a_status status = L3A_OK;
    TRY(scan_begin_writing(scan));
    const int64_t values[] = {id, PICTURE_GONE, scan->change};
    TRY(database_run(&scan->library->database, "UPDATE picture SET state = ?2, change = ?3 WHERE id = ?1", values, 3));
    scan->report.gone++;
done:
    return status;
}
