#include "library/columns.h"

#include "format/tensor.h"

#include <math.h>
#include <string.h>

/* Columns that are kept. Of a million pictures, one has 4 MB. */
enum { KEPT = 24 };

void columns_free(struct columns *columns) {
    for (size_t i = 0; i < columns->count; i++) {
        release(columns->context, columns->items[i].values);
    }
    if (columns->context) {
        release(columns->context, columns->items);
    }
    *columns = (struct columns){.context = columns->context};
}

static void drop(struct columns *columns, size_t index) {
    release(columns->context, columns->items[index].values);
    columns->items[index] = columns->items[--columns->count];
}

l3a_status columns_update(struct columns *columns, struct database *database, size_t slots) {
    int64_t scored;
    l3a_status status = L3A_OK;
    TRY(meta_number(database, "scored", 0, &scored));
    if (scored != columns->scored || slots != columns->slots) {
        while (columns->count) {
            drop(columns, 0);
        }
        columns->scored = scored;
        columns->slots = slots;
    }
    while (columns->count > KEPT) {
        size_t oldest = 0;
        for (size_t i = 1; i < columns->count; i++) {
            oldest = columns->items[i].used < columns->items[oldest].used ? i : oldest;
        }
        drop(columns, oldest);
    }
done:
    return status;
}

static l3a_status read_blocks(const struct columns *columns, struct database *database, int64_t class, float *values) {
    sqlite3_stmt *statement = NULL;
    bool row = true;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "SELECT block, data FROM score WHERE class = ?1", &statement));
    sqlite3_bind_int64(statement, 1, class);
    TRY(database_step(database, statement, &row));
    while (row) {
        const int64_t block = sqlite3_column_int64(statement, 0);
        const void *data = sqlite3_column_blob(statement, 1);
        size_t count = (size_t)sqlite3_column_bytes(statement, 1) / sizeof(uint16_t);
        if (data && block >= 0 && (uint64_t)block <= columns->slots / SCORE_BLOCK) {
            const size_t first = (size_t)block * SCORE_BLOCK, left = columns->slots - first;
            const size_t room = left < SCORE_BLOCK ? left : SCORE_BLOCK;
            tensor_to_float(TENSOR_F16, data, values + first, count < room ? count : room);
        }
        TRY(database_step(database, statement, &row));
    }
done:
    return status;
}

l3a_status columns_get(struct columns *columns, struct database *database, int64_t class, const float **values) {
    struct column made = {.class = class, .used = ++columns->clock};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < columns->count; i++) {
        if (columns->items[i].class == class) {
            columns->items[i].used = columns->clock;
            *values = columns->items[i].values;
            return L3A_OK;
        }
    }
    TRY(grow_array(columns->context, &columns->items, &columns->capacity, columns->count + 1, sizeof *columns->items));
    TRY(allocate(columns->context, columns->slots, sizeof *made.values, &made.values));
    for (size_t i = 0; i < columns->slots; i++) {
        made.values[i] = class == COLUMN_FLAGS || class == COLUMN_DOUBT ? 0 : NAN;
    }
    TRY(read_blocks(columns, database, class, made.values));
    columns->items[columns->count++] = made;
    *values = made.values;
    made.values = NULL;
done:
    release(columns->context, made.values);
    return status;
}

static l3a_status class_search(struct database *database, const char *text, const char *name, int64_t *class, double *threshold) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, text, &statement));
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    TRY(database_step(database, statement, &row));
    if (row) {
        *class = sqlite3_column_int64(statement, 0);
        *threshold = sqlite3_column_double(statement, 1);
        sqlite3_reset(statement);
    }
done:
    return status;
}

l3a_status class_find(struct database *database, const char *name, int64_t *class, double *threshold) {
    l3a_status status = L3A_OK;
    *class = 0;
    *threshold = 0;
    TRY(class_search(database, "SELECT id, threshold FROM class WHERE name = ?1 AND active", name, class, threshold));
    if (!*class) { /* capitals do not matter if only one tag is spelled so */
        TRY(class_search(database,
                         "SELECT min(id), threshold FROM class WHERE name = ?1 COLLATE NOCASE AND active HAVING count(*) = 1", name,
                         class, threshold));
    }
done:
    return status;
}
