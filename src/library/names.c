#include "library/names.h"

#include <string.h>

static void forget(struct names *names) {
    if (names->context) {
        text_pool_clear(names->context, &names->pool);
        release(names->context, names->places);
    }
    names->places = NULL;
    names->ordered = 0;
}

void names_free(struct names *names) {
    forget(names);
    *names = (struct names){0};
}

l3a_status names_load(struct names *names, const struct catalogue *catalogue, struct database *database) {
    sqlite3_stmt *statement = NULL;
    bool row = true;
    l3a_status status = L3A_OK;
    if (names->purges != catalogue->purges || names->pool.count > catalogue->count) {
        forget(names);
        names->purges = catalogue->purges;
    }
    if (names->pool.count == catalogue->count) {
        return L3A_OK;
    }
    TRY(database_prepare(database, "SELECT id, name FROM picture WHERE id >= ?1 ORDER BY id", &statement));
    sqlite3_bind_int64(statement, 1, catalogue->ids[names->pool.count]);
    TRY(database_step(database, statement, &row));
    while (row && names->pool.count < catalogue->count) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        if (sqlite3_column_int64(statement, 0) != catalogue->ids[names->pool.count]) {
            break;
        }
        TRY(text_pool_add(names->context, &names->pool, name ? name : "", name ? strlen(name) : 0));
        TRY(database_step(database, statement, &row));
    }
    FAIL_IF(names->pool.count != catalogue->count, names->context, L3A_ERROR_CHECKSUM, "try again",
            "%s: the names of the index do not belong to its pictures", database->path);
done:
    sqlite3_reset(statement);
    return status;
}

l3a_status names_order(struct names *names, const struct catalogue *catalogue, struct database *database) {
    sqlite3_stmt *statement = NULL;
    uint32_t *places = NULL, place = 1;
    bool row;
    l3a_status status = L3A_OK;
    if (names->places && names->ordered == catalogue->count && names->purges == catalogue->purges) {
        return L3A_OK;
    }
    TRY(allocate_zeroed(names->context, catalogue->count, sizeof *places, &places));
    /* The index of the table has the names of each folder in order. */
    TRY(database_prepare(
        database, "SELECT p.id FROM folder f CROSS JOIN picture p ON p.folder = f.id AND p.state <> 4 ORDER BY f.path, p.name",
        &statement));
    TRY(database_step(database, statement, &row));
    while (row) {
        const size_t at = catalogue_find(catalogue, sqlite3_column_int64(statement, 0));
        if (at < catalogue->count) {
            places[at] = place++;
        }
        TRY(database_step(database, statement, &row));
    }
    if (names->purges != catalogue->purges) {
        forget(names);
        names->purges = catalogue->purges;
    }
    release(names->context, names->places);
    names->places = places;
    names->ordered = catalogue->count;
    places = NULL;
done:
    sqlite3_reset(statement);
    release(names->context, places);
    return status;
}

static char small(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter + ('a' - 'A')) : letter;
}

static bool begins(const char *name, const char *text) {
    while (*text && small(*name) == small(*text)) {
        name++;
        text++;
    }
    return !*text;
}

void names_search(const struct names *names, const char *text, uint8_t *mask) {
    const char first = small(text[0]);
    for (size_t i = 0; i < names->pool.count; i++) {
        const char *name = text_pool_at(&names->pool, i);
        while (*name && (small(*name) != first || !begins(name, text))) {
            name++;
        }
        mask[i] = *name || !first;
    }
}
