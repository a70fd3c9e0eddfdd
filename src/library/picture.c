/* What is known of a picture, of the folders, and of the library as a whole. */
#include "base/sized.h"
#include "format/tensor.h"
#include "library/found.h"
#include "library/library.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- A picture ---- */

static l3a_status make_path(l3a_library *library, const char *folder, const char *name) {
    library->path.length = 0;
    text_builder_print(&library->path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
    return library->path.status;
}

static bool in_scope(const l3a_library *library, const char *path) {
    return !library->scope || strncmp(path, library->scope, strlen(library->scope)) == 0;
}

/* The number that a statement gives for ?1 and the scope, which is ?2. */
static l3a_status number_in_scope(l3a_library *library, const char *text, int64_t key, int64_t otherwise, int64_t *number) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    *number = otherwise;
    TRY(database_prepare(&library->database, text, &statement));
    sqlite3_bind_int64(statement, 1, key);
    if (library->scope) {
        sqlite3_bind_text(statement, 2, library->scope, -1, SQLITE_STATIC);
    }
    TRY(database_step(&library->database, statement, &row));
    if (row) {
        *number = sqlite3_column_type(statement, 0) == SQLITE_NULL ? otherwise : sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
done:
    return status;
}

static l3a_status take_picture(l3a_library *library, sqlite3_stmt *row, l3a_library_picture *own) {
    l3a_status status = L3A_OK;
    const char *folder = (const char *)sqlite3_column_text(row, 0), *name = (const char *)sqlite3_column_text(row, 1);
    const char *problem = (const char *)sqlite3_column_text(row, 6);
    FAIL_IF(!folder || !name, library->context, L3A_ERROR_MEMORY, NULL, "not enough memory for a path");
    TRY(make_path(library, folder, name));
    release(library->context, library->problem);
    library->problem = NULL;
    TRY(copy_text(library->context, problem ? problem : "", problem ? strlen(problem) : 0, &library->problem));
    own->path = library->path.text;
    own->problem = library->problem;
    own->state = (l3a_library_state)sqlite3_column_int64(row, 2);
    own->bytes = (uint64_t)sqlite3_column_int64(row, 3);
    own->modified = sqlite3_column_int64(row, 4);
    own->taken = sqlite3_column_type(row, 5) == SQLITE_NULL ? INT64_MIN : sqlite3_column_int64(row, 5);
    own->checksum = (uint64_t)sqlite3_column_int64(row, 7);
done:
    return status;
}

l3a_status l3a_library_picture_at(l3a_library *library, uint64_t id, l3a_library_picture *picture) {
    REQUIRE(library, library, picture);
    l3a_library_picture own = {.size = sizeof own, .id = id};
    sqlite3_stmt *statement;
    int64_t copies = 0;
    bool row;
    l3a_status status = L3A_OK;
    TRY(CHECK_SIZED(library->context, picture));
    TRY(database_prepare(
        &library->database,
        "SELECT f.path, p.name, p.state, p.size, CASE WHEN p.sure THEN p.modified ELSE 0 END, p.taken, p.problem, p.checksum "
        "FROM picture p JOIN folder f ON f.id = p.folder WHERE p.id = ?1 AND p.state <> 4",
        &statement));
    sqlite3_bind_int64(statement, 1, (int64_t)id);
    TRY(database_step(&library->database, statement, &row));
    FAIL_IF(!row, library->context, L3A_ERROR_NOT_FOUND, NULL, "the library has no picture %llu", (unsigned long long)id);
    status = take_picture(library, statement, &own);
    sqlite3_reset(statement);
    TRY(status);
    FAIL_IF(!in_scope(library, own.path), library->context, L3A_ERROR_NOT_FOUND, NULL, "the library has no picture %llu",
            (unsigned long long)id);
    if (own.checksum) {
        const int64_t values[] = {(int64_t)own.checksum, (int64_t)id};
        TRY(database_number(&library->database, "SELECT count(*) FROM picture WHERE checksum = ?1 AND id <> ?2 AND state <> 4",
                            values, 2, 0, &copies));
        own.copies = (uint64_t)copies;
    }
    TRY(WRITE_SIZED(library->context, picture, own));
done:
    return status;
}

l3a_status l3a_library_picture_find(l3a_library *library, const char *path, uint64_t *id) {
    REQUIRE(library, library, path, id);
    const char *slash = strrchr(path, '/');
    sqlite3_stmt *statement;
    bool row = false;
    l3a_status status = L3A_OK;
    FAIL_IF(!slash || path[0] != '/', library->context, L3A_ERROR_ARGUMENT, NULL, "%s: this is not an absolute path", path);
    TRY(database_prepare(
        &library->database,
        "SELECT p.id FROM folder f JOIN picture p ON p.folder = f.id WHERE f.path = ?1 AND p.name = ?2 AND p.state <> 4",
        &statement));
    sqlite3_bind_text(statement, 1, path, slash == path ? 1 : (int)(slash - path), SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, slash + 1, -1, SQLITE_STATIC);
    TRY(database_step(&library->database, statement, &row));
    const int64_t found = row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    FAIL_IF(!row || !in_scope(library, path), library->context, L3A_ERROR_NOT_FOUND, "it comes into the index with 'l3a index'",
            "%s: this picture is not in the index", path);
    *id = (uint64_t)found;
done:
    return status;
}

l3a_status l3a_library_picture_known(l3a_library *library, uint64_t checksum, uint64_t *id) {
    REQUIRE(library, library, id);
    int64_t found;
    l3a_status status = L3A_OK;
    TRY(number_in_scope(library,
                        "SELECT p.id FROM picture p JOIN folder f ON f.id = p.folder WHERE p.checksum = ?1 AND p.state = 1 AND "
                        "(?2 IS NULL OR substr(f.path || '/', 1, length(?2)) = ?2) LIMIT 1",
                        (int64_t)checksum, 0, &found));
    FAIL_IF(!found, library->context, L3A_ERROR_NOT_FOUND, NULL, "the library has no picture of this content");
    *id = (uint64_t)found;
done:
    return status;
}

/* ---- Features ---- */

static l3a_status read_features(l3a_library *library, uint64_t index, float *features, uint64_t *checksum, bool *good) {
    const size_t numbers = library->slots.width * library->slots.rows;
    void *record = NULL;
    struct slot slot;
    l3a_status status = L3A_OK;
    TRY(allocate(library->context, 1, library->slots.stride, &record));
    TRY(slots_read(&library->slots, index, 1, record));
    *good = slot_check(&library->slots, record, 0, &slot);
    tensor_to_float(TENSOR_F16, slot.halves, features, numbers);
    *checksum = slot.checksum;
done:
    release(library->context, record);
    return status;
}

/* A damaged record is given up, unless a transaction of a caller is open, which may only read. */
static l3a_status refuse_record(l3a_library *library, int64_t slot, bool damaged) {
    l3a_status status = L3A_OK;
    if (damaged && !library->database.depth) {
        TRY(database_begin(&library->database));
        TRY(database_end(&library->database, library_drop_records(library, &damaged, (uint64_t)slot, 1)));
    }
    status = fail(library->context, L3A_ERROR_CHECKSUM, "its picture is looked at again by 'l3a index'",
                  "%s: record %lld is damaged", library->slots.path, (long long)slot);
done:
    return status;
}

l3a_status l3a_library_features(l3a_library *library, uint64_t id, float *features) {
    REQUIRE(library, library, features);
    const int64_t key = (int64_t)id;
    int64_t slot, expected;
    uint64_t checksum;
    bool good;
    l3a_status status = L3A_OK;
    TRY(library_open_slots(library));
    TRY(number_in_scope(library,
                        "SELECT p.slot FROM picture p JOIN folder f ON f.id = p.folder WHERE p.id = ?1 AND p.state = 1 AND "
                        "(?2 IS NULL OR substr(f.path || '/', 1, length(?2)) = ?2)",
                        (int64_t)id, -1, &slot));
    TRY(database_number(&library->database, "SELECT checksum FROM picture WHERE id = ?1", &key, 1, 0, &expected));
    FAIL_IF(slot < 0 || library->slots.file < 0, library->context, L3A_ERROR_STATE, "wait until it was looked at",
            "picture %llu has no features yet", (unsigned long long)id);
    TRY(read_features(library, (uint64_t)slot, features, &checksum, &good));
    TRY(good && checksum == (uint64_t)expected ? L3A_OK : refuse_record(library, slot, !good));
done:
    return library_suspect(library, status);
}

l3a_status l3a_library_sample(l3a_library *library, size_t most, float *features, uint64_t *checksums, size_t *count) {
    REQUIRE(library, library, features, checksums, count);
    const struct catalogue *catalogue = &library->catalogue;
    size_t found = 0, seen = 0, all = 0;
    l3a_status status = L3A_OK;
    *count = 0;
    TRY(library_refresh(library));
    const size_t numbers = library->slots.width * library->slots.rows;
    for (size_t i = 0; i < catalogue->count; i++) {
        all += catalogue->states[i] == PICTURE_DONE;
    }
    for (size_t i = 0; i < catalogue->count && found < most; i++) {
        bool good = false;
        if (catalogue->states[i] == PICTURE_DONE && found * all <= seen++ * most && catalogue->slots[i] < catalogue->slot_count) {
            TRY(read_features(library, catalogue->slots[i], features + found * numbers, &checksums[found], &good));
        }
        found += good;
    }
    *count = found;
done:
    return status;
}

/* ---- Folders ---- */

const char *l3a_library_folder(l3a_library *library, size_t index, const char **problem) {
    sqlite3_stmt *statement;
    bool row = false;
    if (!library || database_prepare(&library->database, "SELECT path, problem FROM root ORDER BY path LIMIT 1 OFFSET ?1",
                                     &statement) != L3A_OK) {
        return NULL;
    }
    sqlite3_bind_int64(statement, 1, (int64_t)index);
    if (database_step(&library->database, statement, &row) != L3A_OK || !row) {
        return NULL;
    }
    const char *path = (const char *)sqlite3_column_text(statement, 0), *why = (const char *)sqlite3_column_text(statement, 1);
    library->path.length = 0;
    text_builder_print(&library->path, "%s", path ? path : "");
    release(library->context, library->problem);
    library->problem = NULL;
    const l3a_status status = copy_text(library->context, why ? why : "", why ? strlen(why) : 0, &library->problem);
    sqlite3_reset(statement);
    if (problem) {
        *problem = library->problem;
    }
    return status == L3A_OK && library->path.status == L3A_OK ? library->path.text : NULL;
}

/* ---- The whole ---- */

/* Counts by slot; pictures that share one count each. */
static l3a_status count_flags(l3a_library *library, l3a_library_info *info) {
    const struct catalogue *catalogue = &library->catalogue;
    const float *flags, *doubts;
    l3a_status status = L3A_OK;
    TRY(columns_get(&library->columns, &library->database, COLUMN_FLAGS, &flags));
    TRY(columns_get(&library->columns, &library->database, COLUMN_DOUBT, &doubts));
    for (size_t i = 0; i < catalogue->count; i++) {
        if (catalogue->states[i] == PICTURE_DONE && catalogue->slots[i] < catalogue->slot_count) {
            const unsigned own = (unsigned)flags[catalogue->slots[i]];
            const bool said = (own & FLAG_SAID) != 0, judged = said || !(own & FLAG_SCORED);
            info->said += said;
            info->tagged += !judged && (own & FLAG_TAGGED);
            info->untagged += !judged && !(own & FLAG_TAGGED);
            info->unsure += doubts[catalogue->slots[i]] >= UNSURE;
        }
    }
done:
    return status;
}

static l3a_status count_scored(l3a_library *library, uint64_t fingerprint, l3a_library_info *info) {
    const int64_t key = (int64_t)fingerprint;
    int64_t slots, scored;
    l3a_status status = L3A_OK;
    TRY(database_number(&library->database, "SELECT count(*) FROM feature", NULL, 0, 0, &slots));
    TRY(database_number(&library->database, "SELECT sum(slots) FROM block WHERE edition = ?1", &key, 1, 0, &scored));
    info->scored = scored >= slots ? info->done : scored > 0 ? (uint64_t)((double)info->done * (double)scored / (double)slots) : 0;
done:
    return status;
}

static uint64_t change_number(int64_t change, int64_t scored) {
    return (uint64_t)change * 1000003 + (uint64_t)scored;
}

static void count_states(const struct catalogue *catalogue, l3a_library_info *info) {
    for (size_t i = 0; i < catalogue->count; i++) {
        const uint8_t state = catalogue->states[i];
        info->done += state == PICTURE_DONE;
        info->waiting += state == PICTURE_WAITING;
        info->failed += state == PICTURE_FAILED;
        info->others += state == PICTURE_OTHER;
    }
    info->pictures = info->done + info->waiting + info->failed;
}

/* Counts again only if something has changed. */
static l3a_status count_all(l3a_library *library) {
    const struct catalogue *catalogue = &library->catalogue;
    struct scorer *edition = tagger_borrow(library->tagger);
    struct counts *counts = &library->counts;
    const uint64_t fingerprint = edition->fingerprint;
    l3a_library_info own = {.size = sizeof own, .views = library->tagger->loading.views};
    l3a_status status = L3A_OK;
    scorer_free(edition);
    if (counts->change == catalogue->change && counts->scored == library->columns.scored && counts->fingerprint == fingerprint) {
        return L3A_OK;
    }
    count_states(catalogue, &own);
    own.change = change_number(catalogue->change, library->columns.scored);
    if (catalogue->slot_count) {
        TRY(count_flags(library, &own));
    }
    TRY(count_scored(library, fingerprint, &own));
    *counts = (struct counts){catalogue->change, library->columns.scored, fingerprint, own};
done:
    return status;
}

l3a_status l3a_library_change(l3a_library *library, uint64_t *change) {
    REQUIRE(library, library, change);
    int64_t changed, scored;
    l3a_status status = L3A_OK;
    TRY(meta_number(&library->database, "change", 0, &changed));
    TRY(meta_number(&library->database, "scored", 0, &scored));
    *change = change_number(changed, scored);
done:
    return status;
}

l3a_status l3a_library_describe(l3a_library *library, l3a_library_info *info) {
    REQUIRE(library, library, info);
    int64_t pages, page;
    uint64_t slots = 0;
    l3a_status status = L3A_OK;
    TRY(CHECK_SIZED(library->context, info));
    TRY(library_begin_reading(library));
    TRY(database_end(&library->database, count_all(library)));
    TRY(database_number(&library->database, "PRAGMA page_count", NULL, 0, 0, &pages));
    TRY(database_number(&library->database, "PRAGMA page_size", NULL, 0, 0, &page));
    if (library->slots.file >= 0) {
        TRY(slots_count(&library->slots, &slots));
    }
    l3a_library_info own = library->counts.info;
    own.bytes = (uint64_t)pages * (uint64_t)page + slots * library->slots.stride;
    TRY(WRITE_SIZED(library->context, info, own));
done:
    return status;
}

l3a_status l3a_library_count(l3a_library *library, const char *class_name, uint64_t *said, uint64_t *predicted) {
    REQUIRE(library, library, class_name, said, predicted);
    const struct catalogue *catalogue = &library->catalogue;
    const float *values;
    int64_t class;
    double threshold;
    l3a_status status = L3A_OK;
    *said = *predicted = 0;
    TRY(library_refresh(library));
    TRY(class_find(&library->database, class_name, &class, &threshold));
    if (!class || !catalogue->slot_count) {
        return L3A_OK;
    }
    TRY(columns_get(&library->columns, &library->database, class, &values));
    for (size_t i = 0; i < catalogue->count; i++) {
        if (catalogue->states[i] == PICTURE_DONE && catalogue->slots[i] < catalogue->slot_count) {
            const float value = values[catalogue->slots[i]];
            *said += value == INFINITY;
            *predicted += value != INFINITY && value > (float)threshold;
        }
    }
done:
    return status;
}
