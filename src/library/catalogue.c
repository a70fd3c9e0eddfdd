#include "library/catalogue.h"

#include <string.h>

static l3a_status grow(struct catalogue *catalogue, size_t needed) {
    l3a_context *context = catalogue->context;
    l3a_status status = L3A_OK;
    if (needed <= catalogue->capacity) {
        return L3A_OK;
    }
    size_t longer = catalogue->capacity + catalogue->capacity / 2 + 1024;
    longer = longer < needed ? needed : longer;
    const struct {
        void *array;
        size_t size;
    } arrays[] = {{&catalogue->ids, sizeof *catalogue->ids},     {&catalogue->dates, sizeof *catalogue->dates},
                  {&catalogue->sizes, sizeof *catalogue->sizes}, {&catalogue->folders, sizeof *catalogue->folders},
                  {&catalogue->slots, sizeof *catalogue->slots}, {&catalogue->states, sizeof *catalogue->states}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        size_t capacity = catalogue->capacity;
        TRY(grow_array(context, arrays[i].array, &capacity, longer, arrays[i].size));
    }
    catalogue->capacity = longer;
done:
    return status;
}

size_t catalogue_find(const struct catalogue *catalogue, int64_t id) {
    size_t low = 0, high = catalogue->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (catalogue->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < catalogue->count && catalogue->ids[low] == id ? low : catalogue->count;
}

/* Rows come by id, so those that are new come in order. */
static l3a_status take_row(struct catalogue *catalogue, sqlite3_stmt *row, uint64_t records) {
    const int64_t id = sqlite3_column_int64(row, 0);
    size_t at = catalogue->count;
    l3a_status status = L3A_OK;
    if (catalogue->count && id <= catalogue->ids[catalogue->count - 1]) {
        at = catalogue_find(catalogue, id);
        if (at == catalogue->count) { /* a row between others: the ids of purged rows are not used again, so it cannot be */
            return fail(catalogue->context, L3A_ERROR_CHECKSUM, NULL, "the index has rows out of order");
        }
    }
    TRY(grow(catalogue, at + 1));
    catalogue->count = at < catalogue->count ? catalogue->count : at + 1;
    const int64_t slot = sqlite3_column_type(row, 2) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 2);
    const bool has_slot = slot >= 0 && (uint64_t)slot < records && slot < NO_SLOT; /* a damaged index may say anything */
    catalogue->ids[at] = id;
    catalogue->folders[at] = (uint32_t)sqlite3_column_int64(row, 1);
    catalogue->slots[at] = has_slot ? (uint32_t)slot : NO_SLOT;
    catalogue->dates[at] = sqlite3_column_int64(row, 3);
    catalogue->states[at] = (uint8_t)sqlite3_column_int64(row, 4);
    catalogue->sizes[at] = (uint64_t)sqlite3_column_int64(row, 5);
    if (has_slot && catalogue->slots[at] >= catalogue->slot_count) {
        catalogue->slot_count = catalogue->slots[at] + 1;
    }
done:
    return status;
}

/* ?2: the scope, with a slash at its end; NULL: there is none. */
#define ROW                                                                                                                        \
    "SELECT id, folder, slot, coalesce(taken, modified / 1000000000), CASE WHEN ?2 IS NULL OR folder IN (SELECT f.id FROM folder " \
    "f "                                                                                                                           \
    "WHERE substr(f.path || '/', 1, length(?2)) = ?2) THEN state ELSE 4 END, size FROM picture "
static const char changed_rows[] = ROW "WHERE change > ?1 ORDER BY id", all_rows[] = ROW "ORDER BY id";

static l3a_status read_rows(struct catalogue *catalogue, struct database *database, int64_t change, uint64_t records) {
    sqlite3_stmt *statement = NULL;
    bool row = true;
    l3a_status status = L3A_OK;
    const bool all = !catalogue->count;
    if (all) {
        catalogue->slot_count = 0;
    }
    TRY(database_prepare(database, all ? all_rows : changed_rows, &statement));
    if (!all) {
        sqlite3_bind_int64(statement, 1, catalogue->change);
    }
    if (catalogue->scope) {
        sqlite3_bind_text(statement, 2, catalogue->scope, -1, SQLITE_STATIC);
    }
    TRY(database_step(database, statement, &row));
    while (row) {
        TRY(take_row(catalogue, statement, records));
        TRY(database_step(database, statement, &row));
    }
    catalogue->change = change;
done:
    sqlite3_reset(statement);
    return status;
}

l3a_status catalogue_update(struct catalogue *catalogue, struct database *database, uint64_t records, int64_t generation) {
    int64_t change, purges;
    l3a_status status = L3A_OK;
    TRY(meta_number(database, "change", 0, &change));
    TRY(meta_number(database, "purges", 0, &purges));
    if (purges != catalogue->purges || generation != catalogue->generation) {
        catalogue->count = 0;
        catalogue->purges = purges;
        catalogue->generation = generation;
        catalogue->change = -1;
    }
    if (change != catalogue->change) {
        TRY(read_rows(catalogue, database, change, records));
    }
done:
    if (status != L3A_OK) { /* begins anew next time */
        catalogue->count = 0;
        catalogue->change = -1;
    }
    return status;
}

void catalogue_free(struct catalogue *catalogue) {
    l3a_context *context = catalogue->context;
    if (context) {
        release(context, catalogue->ids);
        release(context, catalogue->dates);
        release(context, catalogue->sizes);
        release(context, catalogue->folders);
        release(context, catalogue->slots);
        release(context, catalogue->states);
    }
    *catalogue = (struct catalogue){0};
}
