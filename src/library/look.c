/* Looking at pictures: those that wait get features.
 *
 * Pictures are taken in batches. Workers, each with a reader of its own, read the files of a batch and compute their checksums.
 * What the index knows by its checksum needs no more: a picture that was moved, or a copy. The others go through the network. The
 * records of the features file are then written and synced, and after that the rows of the database that point to them are
 * committed. So a process that is killed loses one batch at most, and never leaves a row without its record.
 *
 * A file that was changed right before it was looked at may change again without another time, so the next scan compares its
 * content. */
#include "library/library.h"

#include "base/picture_kind.h"
#include "base/sized.h"
#include "extract/intake.h"
#include "image/taken.h"
#include "library/words.h"
#include "net/backbone.h"
#include "tag/reader.h"

#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NO_HEIF "HEIC and AVIF pictures are not looked at here"
/* Pictures that a worker takes at a time: more than the fewest if the network likes more, and the workers have them together. */
enum { FEWEST = 16, MOST = 256, CHUNKS = 2 /* of each worker, in a batch */, MOST_WORKERS = 64, KIND = 8 };
static const uint64_t largest_file = 1 << 30;

struct item {
    int64_t id, size, modified;
    char *path;
    bool read, looked, known; /* its bytes were; it has features; the index had them */
    uint64_t checksum;
    bool has_taken;
    int64_t taken;
    char kind[KIND];
    int64_t slot;
    bool passing; /* the failure may pass: the file could not be read */
    enum picture_state state;
    char problem[sizeof((l3a_context *)0)->error_text];
};

struct batch {
    struct look *look;
    struct item *items;
    float *features; /* [items x numbers] */
    size_t count;
    atomic_size_t next;
    bool stopped; /* a failure was not that of a picture: */
    l3a_status failure;
    char error_text[sizeof((l3a_context *)0)->error_text], error_hint[sizeof((l3a_context *)0)->error_hint];
    pthread_mutex_t lock; /* of these */
    void (*work)(struct batch *batch, l3a_reader *reader, size_t first, size_t last);
};

struct look {
    l3a_library *library;
    l3a_context *context;
    const struct l3a_look_options *options;
    l3a_reader *readers[MOST_WORKERS];
    size_t workers, chunk, numbers;
    struct batch batch;
    int64_t last; /* id of the last row that was taken */
    uint64_t waiting;
    int64_t read; /* when the files of the batch were read, by the system's clock */
    l3a_look_report report;
};

/* ---- Workers ---- */

struct hand {
    struct batch *batch;
    l3a_reader *reader;
};

static void *work(void *argument) {
    const struct hand *hand = argument;
    struct batch *batch = hand->batch;
    const size_t chunk = batch->look->chunk;
    size_t first;
    while ((first = atomic_fetch_add(&batch->next, chunk)) < batch->count) {
        batch->work(batch, hand->reader, first, first + chunk < batch->count ? first + chunk : batch->count);
    }
    return NULL;
}

/* Does a part of the work for all items; a thread that cannot be made leaves its share to the others. */
static void share(struct look *look, void (*part)(struct batch *, l3a_reader *, size_t, size_t)) {
    struct batch *batch = &look->batch;
    struct hand hands[MOST_WORKERS];
    pthread_t threads[MOST_WORKERS];
    bool running[MOST_WORKERS] = {false};
    batch->work = part;
    atomic_store(&batch->next, 0);
    for (size_t i = 0; i < look->workers; i++) {
        hands[i] = (struct hand){batch, look->readers[i]};
        running[i] = i > 0 && pthread_create(&threads[i], NULL, work, &hands[i]) == 0;
    }
    work(&hands[0]);
    for (size_t i = 1; i < look->workers; i++) {
        if (running[i]) {
            pthread_join(threads[i], NULL);
        }
    }
}

/* ---- Reading ---- */

static void give_up(struct item *item, enum picture_state state, const char *problem) {
    item->state = state;
    snprintf(item->problem, sizeof item->problem, "%s", problem);
}

/* Memory ran out, or the network failed: what is not done waits, and the call fails when the rest of the batch is kept. */
static void stop(struct batch *batch, l3a_status status, const l3a_context *context) {
    pthread_mutex_lock(&batch->lock);
    if (!batch->stopped) {
        batch->stopped = true;
        batch->failure = status;
        memcpy(batch->error_text, context->error_text, sizeof batch->error_text);
        memcpy(batch->error_hint, context->error_hint, sizeof batch->error_hint);
    }
    pthread_mutex_unlock(&batch->lock);
}

/* The reason for a failure, without the path before it. */
static void give_up_by_error(struct item *item, const char *text) {
    const size_t length = strlen(item->path);
    const bool prefixed = strncmp(text, item->path, length) == 0 && strncmp(text + length, ": ", 2) == 0;
    give_up(item, PICTURE_FAILED, text + (prefixed ? length + 2 : 0));
}

static void understand(struct item *item, const void *bytes, size_t count, bool no_heif) {
    const struct picture_kind *kind = picture_kind_of(bytes, count < PICTURE_KIND_BYTES ? count : PICTURE_KIND_BYTES);
    item->checksum = XXH3_64bits(bytes, count);
    item->has_taken = picture_taken(bytes, count, &item->taken);
    snprintf(item->kind, sizeof item->kind, "%s", kind->format ? kind->format : "");
    if (kind->refusal) {
        give_up(item, PICTURE_FAILED, kind->refusal);
    } else if (no_heif && (strcmp(item->kind, "heic") == 0 || strcmp(item->kind, "avif") == 0)) {
        give_up(item, PICTURE_FAILED, NO_HEIF);
    } else {
        item->read = true;
    }
}

static void read_items(struct batch *batch, l3a_reader *reader, size_t first, size_t last) {
    l3a_context *context = reader_context(reader);
    for (size_t i = first; i < last; i++) {
        struct item *item = &batch->items[i];
        char *bytes = NULL;
        size_t count = 0;
        const l3a_status status = read_whole(context, item->path, largest_file, &bytes, &count);
        if (status == L3A_OK) {
            understand(item, bytes, count, batch->look->options->no_heif != 0);
        } else if (status == L3A_ERROR_MEMORY) {
            stop(batch, status, context);
        } else {
            give_up_by_error(item, context->error_text);
            item->passing = true; /* a disk may come back, and somebody may be given permission */
        }
        release(context, bytes);
    }
}

/* ---- Features ---- */

/* Looks at some pictures; gives the number that have become good or bad. */
static l3a_status look_at(struct batch *batch, l3a_reader *reader, struct item **chosen, size_t count) {
    const size_t numbers = batch->look->numbers;
    l3a_context *context = reader_context(reader);
    struct picture_source sources[MOST];
    struct arrival *arrivals = NULL;
    float *features = NULL;
    size_t good = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof *arrivals, &arrivals));
    TRY(allocate(context, count, numbers * sizeof *features, &features));
    for (size_t i = 0; i < count; i++) {
        sources[i] = (struct picture_source){.name = chosen[i]->path};
    }
    TRY(reader_look(reader, sources, count, features, arrivals));
    for (size_t i = 0; i < count; i++) {
        struct item *item = chosen[i];
        const bool same = arrivals[i].checksum == item->checksum; /* otherwise it changes just now, and waits */
        if (arrivals[i].status == L3A_OK && same) {
            memcpy(batch->features + (size_t)(item - batch->items) * numbers, features + good * numbers,
                   numbers * sizeof *features);
            item->looked = true;
        } else if (same) {
            give_up_by_error(item, arrivals[i].error_text);
        }
        good += arrivals[i].status == L3A_OK;
    }
done:
    release(context, arrivals);
    release(context, features);
    return status;
}

/* Pictures that are too much together may not be too much one by one. */
static void compute_items(struct batch *batch, l3a_reader *reader, size_t first, size_t last) {
    struct item *chosen[MOST];
    size_t count = 0;
    l3a_status status = L3A_OK;
    for (size_t i = first; i < last; i++) {
        struct item *item = &batch->items[i];
        if (item->read && !item->known) {
            chosen[count++] = item;
        }
    }
    status = count ? look_at(batch, reader, chosen, count) : L3A_OK;
    for (size_t i = 0; status == L3A_ERROR_MEMORY && i < count; i++) {
        const l3a_status alone = look_at(batch, reader, &chosen[i], 1);
        if (alone != L3A_OK) {
            stop(batch, alone, reader_context(reader));
        }
    }
    if (status != L3A_OK && status != L3A_ERROR_MEMORY) {
        stop(batch, status, reader_context(reader));
    }
}

/* ---- The database ---- */

static l3a_status take_item(struct look *look, sqlite3_stmt *row, struct item *item) {
    l3a_library *library = look->library;
    l3a_status status = L3A_OK;
    const char *folder = (const char *)sqlite3_column_text(row, 1), *name = (const char *)sqlite3_column_text(row, 2);
    *item = (struct item){.id = sqlite3_column_int64(row, 0),
                          .size = sqlite3_column_int64(row, 3),
                          .modified = sqlite3_column_int64(row, 4),
                          .slot = -1};
    FAIL_IF(!folder || !name, library->context, L3A_ERROR_MEMORY, NULL, "not enough memory for a path");
    TRY(join_path(library->context, strcmp(folder, "/") == 0 ? "" : folder, name, &item->path));
    look->last = item->id;
done:
    return status;
}

static l3a_status take_batch(struct look *look, size_t most) {
    struct database *database = &look->library->database;
    sqlite3_stmt *statement = NULL;
    bool row;
    l3a_status status = L3A_OK;
    look->batch.count = 0;
    TRY(database_prepare(database,
                         look->options->newest
                             ? "SELECT p.id, f.path, p.name, p.size, p.modified FROM picture p JOIN folder f ON f.id = p.folder "
                               "WHERE p.state = 0 AND p.id < ?1 AND p.id % ?2 = ?3 ORDER BY p.id DESC LIMIT ?4"
                             : "SELECT p.id, f.path, p.name, p.size, p.modified FROM picture p JOIN folder f ON f.id = p.folder "
                               "WHERE p.state = 0 AND p.id > ?1 AND p.id % ?2 = ?3 ORDER BY p.id LIMIT ?4",
                         &statement));
    sqlite3_bind_int64(statement, 1, look->last);
    sqlite3_bind_int64(statement, 2, look->options->shards ? (int64_t)look->options->shards : 1);
    sqlite3_bind_int64(statement, 3, look->options->shards ? (int64_t)look->options->shard - 1 : 0);
    sqlite3_bind_int64(statement, 4, (int64_t)most);
    TRY(database_step(database, statement, &row));
    while (row && look->batch.count < most) {
        TRY(take_item(look, statement, &look->batch.items[look->batch.count]));
        look->batch.count++;
        TRY(database_step(database, statement, &row));
    }
done:
    sqlite3_reset(statement);
    return status;
}

static l3a_status find_known(struct look *look) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < look->batch.count; i++) {
        struct item *item = &look->batch.items[i];
        const int64_t key = (int64_t)item->checksum;
        if (item->read) {
            TRY(database_number(&look->library->database, "SELECT slot FROM feature WHERE checksum = ?1", &key, 1, -1,
                                &item->slot));
            item->known = item->slot >= 0;
        }
    }
done:
    return status;
}

/* Gives the new contents slots: those after the last one in use. Another process may have looked at the same content meanwhile. */
static l3a_status write_records(struct look *look) {
    l3a_library *library = look->library;
    struct database *database = &library->database;
    struct batch *batch = &look->batch;
    int64_t next;
    uint64_t records;
    bool any = false;
    l3a_status status = L3A_OK;
    TRY(database_number(database, "SELECT max(slot) + 1 FROM feature", NULL, 0, 0, &next));
    TRY(slots_count(&library->slots, &records));
    FAIL_IF(next < 0 || (uint64_t)next > records || next >= NO_SLOT, look->context, L3A_ERROR_CHECKSUM, "start it again",
            "%s: the features are fewer than the index says", library->slots.path);
    for (size_t i = 0; i < batch->count; i++) {
        struct item *item = &batch->items[i];
        const float *features = batch->features + i * look->numbers;
        const int64_t key = (int64_t)item->checksum;
        float log_sum = NAN;
        if (!item->looked) {
            continue;
        }
        TRY(database_number(database, "SELECT slot FROM feature WHERE checksum = ?1", &key, 1, -1, &item->slot));
        if (item->slot < 0) {
            TRY(library_log_sum(library, features, &log_sum));
            TRY(slots_write(&library->slots, (uint64_t)next, 1, &item->checksum, &log_sum, features));
            const int64_t values[] = {next, key};
            TRY(database_run(database, "INSERT INTO feature (slot, checksum) VALUES (?1, ?2)", values, 2));
            item->slot = next++;
            any = true;
        }
    }
    if (any) {
        TRY(slots_sync(&library->slots));
    }
done:
    return status;
}

static void bind_text(sqlite3_stmt *statement, int index, const char *text) {
    if (text[0]) {
        sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    }
}

static l3a_status write_item(struct look *look, const struct item *item, int64_t change, int64_t read) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    const bool sure = !item->passing && !is_recent(item->modified, read);
    TRY(database_prepare(&look->library->database,
                         "UPDATE picture SET state = ?2, slot = ?3, checksum = ?4, kind = ?5, taken = ?6, problem = ?7, "
                         "sure = ?8, change = ?9 WHERE id = ?1 AND state = 0 AND size = ?10 AND modified = ?11",
                         &statement));
    sqlite3_bind_int64(statement, 1, item->id);
    sqlite3_bind_int64(statement, 2, item->state);
    if (item->slot >= 0) {
        sqlite3_bind_int64(statement, 3, item->slot);
    }
    if (item->read) {
        sqlite3_bind_int64(statement, 4, (int64_t)item->checksum);
    }
    bind_text(statement, 5, item->kind);
    if (item->has_taken) {
        sqlite3_bind_int64(statement, 6, item->taken);
    }
    bind_text(statement, 7, item->problem);
    sqlite3_bind_int64(statement, 8, sure);
    sqlite3_bind_int64(statement, 9, change);
    sqlite3_bind_int64(statement, 10, item->size);
    sqlite3_bind_int64(statement, 11, item->modified);
    TRY(database_step(&look->library->database, statement, &row));
done:
    return status;
}

/* A content that the index knows: its old place may be gone, and then it has moved. */
static l3a_status count_known(struct look *look, const struct item *item) {
    int64_t elsewhere;
    const int64_t values[] = {(int64_t)item->checksum, item->id};
    const l3a_status status =
        database_number(&look->library->database, "SELECT count(*) FROM picture WHERE checksum = ?1 AND id <> ?2 AND state = 1",
                        values, 2, 0, &elsewhere);
    look->report.known++;
    *(elsewhere ? &look->report.copies : &look->report.moved) += 1;
    return status;
}

static l3a_status write_batch(struct look *look) {
    l3a_library *library = look->library;
    int64_t change;
    bool same;
    l3a_status status = L3A_OK;
    TRY(library_same_slots(library, &same));
    FAIL_IF(!same, look->context, L3A_ERROR_STATE, "start it again", "%s: another process has begun the features anew",
            library->database.path);
    TRY(library_next_change(library, &change));
    TRY(write_records(look));
    for (size_t i = 0; i < look->batch.count; i++) {
        struct item *item = &look->batch.items[i];
        if (item->slot >= 0) {
            item->state = PICTURE_DONE;
        }
        if (item->state == PICTURE_WAITING) {
            continue;
        }
        if (item->known) {
            TRY(count_known(look, item));
        }
        TRY(write_item(look, item, change, look->read));
        look->report.looked += item->looked;
        look->report.failed += item->state == PICTURE_FAILED;
    }
done:
    return status;
}

/* ---- The way through ---- */

static l3a_status fail_stopped(struct look *look) {
    const struct batch *batch = &look->batch;
    return fail(look->context, batch->failure, batch->error_hint[0] ? batch->error_hint : NULL, "%s", batch->error_text);
}

static bool has_done_any(const struct batch *batch) {
    bool any = false;
    for (size_t i = 0; i < batch->count; i++) {
        any = any || batch->items[i].state != PICTURE_WAITING;
    }
    return any;
}

/* Where memory is too short for some pictures, the others come first. */
static l3a_status look_at_batch(struct look *look) {
    l3a_library *library = look->library;
    struct batch *batch = &look->batch;
    struct timespec time;
    l3a_status status = L3A_OK;
    clock_gettime(CLOCK_REALTIME, &time);
    look->read = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    share(look, read_items);
    TRY(find_known(look));
    share(look, compute_items);
    TRY(database_begin(&library->database));
    TRY(database_end(&library->database, write_batch(look)));
    TRY(batch->stopped && (batch->failure != L3A_ERROR_MEMORY || !has_done_any(batch)) ? fail_stopped(look) : L3A_OK);
done:
    return status;
}

static void free_items(struct look *look) {
    for (size_t i = 0; i < look->batch.count; i++) {
        release(look->context, look->batch.items[i].path);
        look->batch.items[i].path = NULL;
    }
}

/* Pictures that a call with no_heif has refused wait again. */
static l3a_status retry_heif(l3a_library *library) {
    struct database *database = &library->database;
    int64_t count, change;
    l3a_status status = L3A_OK;
    TRY(database_number(database, "SELECT count(*) FROM picture WHERE state = 2 AND problem = '" NO_HEIF "'", NULL, 0, 0, &count));
    if (count) {
        TRY(database_begin(database));
        status = library_next_change(library, &change);
        if (status == L3A_OK) {
            status = database_run(
                database, "UPDATE picture SET state = 0, problem = NULL, change = ?1 WHERE state = 2 AND problem = '" NO_HEIF "'",
                &change, 1);
        }
        TRY(database_end(database, status));
    }
done:
    return status;
}

static l3a_status open_readers(struct look *look) {
    const l3a_library *library = look->library;
    const int each = library->tagger->context->threads, all = library->context->threads;
    const int wanted = all > each ? all / each : 1;
    l3a_status status = L3A_OK;
    for (; look->workers < (size_t)(wanted < MOST_WORKERS ? wanted : MOST_WORKERS); look->workers++) {
        status = l3a_reader_create(library->tagger, &look->readers[look->workers]);
        if (status != L3A_OK) {
            TRY(look->workers ? L3A_OK : fail(look->context, status, NULL, "not enough memory for a reader"));
            return L3A_OK;
        }
    }
done:
    return status;
}

static size_t chunk_for(size_t share) {
    return share < FEWEST ? FEWEST : share > MOST ? MOST : share;
}

static l3a_status look_through(struct look *look) {
    const size_t size = CHUNKS * look->chunk * look->workers;
    l3a_status status = L3A_OK;
    TRY(allocate(look->context, size, sizeof *look->batch.items, &look->batch.items));
    TRY(allocate(look->context, size, look->numbers * sizeof *look->batch.features, &look->batch.features));
    look->batch.look = look;
    look->last = look->options->newest ? INT64_MAX : 0;
    for (uint64_t done = 0, most = look->options->most ? look->options->most : UINT64_MAX; done < most;) {
        TRY(take_batch(look, most - done < size ? (size_t)(most - done) : size));
        if (!look->batch.count) {
            break;
        }
        done += look->batch.count;
        status = look_at_batch(look);
        free_items(look);
        TRY(status);
        TRY(report_progress(look->context, "look", done, look->waiting > done ? look->waiting : done));
    }
    TRY(look->batch.stopped ? fail_stopped(look) : L3A_OK);
done:
    free_items(look);
    return status;
}

l3a_status l3a_library_retry(l3a_library *library, uint64_t *count) {
    REQUIRE(library, library);
    struct database *database = &library->database;
    int64_t failed, change;
    l3a_status status = L3A_OK;
    TRY(database_begin(database));
    status = database_number(database, "SELECT count(*) FROM picture WHERE state = 2", NULL, 0, 0, &failed);
    if (status == L3A_OK && failed) {
        status = library_next_change(library, &change);
        if (status == L3A_OK) {
            status =
                database_run(database, "UPDATE picture SET state = 0, problem = NULL, change = ?1 WHERE state = 2", &change, 1);
        }
    }
    TRY(database_end(database, status));
    if (count) {
        *count = (uint64_t)failed;
    }
done:
    return status;
}

l3a_status l3a_library_look(l3a_library *library, const l3a_look_options *options, l3a_look_report *report) {
    REQUIRE(library, library);
    l3a_look_options own;
    struct look look = {.library = library,
                        .context = library->context,
                        .report = {.size = sizeof look.report},
                        .options = &own,
                        .batch = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    int64_t waiting = 0;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(library->context, options, own));
    TRY(report ? CHECK_SIZED(library->context, report) : L3A_OK);
    FAIL_IF(own.shards > 100000 || (own.shards ? !own.shard || own.shard > own.shards : own.shard > 0), library->context,
            L3A_ERROR_ARGUMENT, "give a shard from 1 to the number of shards", "shard %zu of %zu", own.shard, own.shards);
    const int64_t shard[] = {own.shards ? (int64_t)own.shards : 1, own.shards ? (int64_t)own.shard - 1 : 0};
    if (!own.no_heif) {
        TRY(retry_heif(library));
    }
    static const char count_waiting[] = "SELECT count(*) FROM picture WHERE state = 0 AND id % ?1 = ?2";
    TRY(database_number(&library->database, count_waiting, shard, 2, 0, &waiting));
    look.waiting = (uint64_t)waiting;
    if (own.most && own.most < look.waiting) {
        look.waiting = own.most;
    }
    if (waiting) {
        TRY(library_make_slots(library));
        TRY(open_readers(&look));
        look.numbers = l3a_reader_width(look.readers[0]);
        look.chunk = chunk_for(reader_batch(look.readers[0]) / look.workers);
        TRY(look_through(&look));
    }
    TRY(database_number(&library->database, count_waiting, shard, 2, 0, &waiting));
    look.report.waiting = (uint64_t)waiting;
done:
    for (size_t i = 0; i < look.workers; i++) {
        l3a_reader_free(look.readers[i]);
    }
    release(library->context, look.batch.items);
    release(library->context, look.batch.features);
    if (status == L3A_OK && report) {
        status = WRITE_SIZED(library->context, report, look.report);
    }
    return status;
}
