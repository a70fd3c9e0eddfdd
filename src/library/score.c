/* Scores of all pictures from their features, in blocks.
 *
 * A block is current if it was scored by the edition that the tagger's readers see now, and has all the slots that there are. The
 * others are scored, and a few at a time are committed. If the edition changes meanwhile, the call begins anew with the new one, so
 * a lesson waits for nothing. It does so, too, if another process begins the features anew or says something about pictures: what
 * was scored before must not be written after that. What a record holds is checked here, since all of it is read: a damaged one is
 * dropped, and its pictures wait to be looked at again. */
#include "library/library.h"

#include "base/sized.h"
#include "base/threads.h"
#include "format/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Blocks in a transaction, as far as their columns have at most COLUMN_BYTES. */
enum { TOGETHER = 16, COLUMN_BYTES = 16 << 20, PIECE = 64 };

/* A judgement of a picture of the block. */
struct judged {
    uint32_t slot, class;
    bool shown;
};

struct scoring {
    l3a_library *library;
    l3a_context *context; /* on the tagger's device */
    struct scorer *edition;
    int64_t *classes;   /* the numbers that the index gives the classes of the edition */
    int64_t judgements; /* their number, as library_say() counts */
    bool outdated;      /* what was scored is not what is to be written */
    struct judged *judged;
    size_t judged_count, judged_capacity;
    uint64_t slots; /* all */
    size_t numbers;
    void *records;
    float *features, *scores; /* [SCORE_BLOCK x numbers], [SCORE_BLOCK x classes] */
    struct {
        int64_t block[TOGETHER];
        size_t count, most;
        bool *damaged;     /* [most][SCORE_BLOCK] */
        uint16_t *columns; /* [most][classes + 2][SCORE_BLOCK] */
    } ready;               /* to be written */
    bool *damaged;         /* of the block at work: in `ready` */
    uint16_t *columns;
};

/* ---- Classes ---- */

static l3a_status enter_class(struct database *database, const char *name, double threshold, int64_t *class) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database,
                         "INSERT INTO class (name, threshold, active) VALUES (?1, ?2, 1) "
                         "ON CONFLICT (name) DO UPDATE SET threshold = ?2, active = 1 RETURNING id",
                         &statement));
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_double(statement, 2, threshold);
    TRY(database_step(database, statement, &row));
    *class = row ? sqlite3_column_int64(statement, 0) : 0;
    while (row) {
        TRY(database_step(database, statement, &row));
    }
done:
    return status;
}

/* Classes that are gone keep their number, in case they come back, and nothing else. */
static l3a_status enter_classes(struct scoring *scoring) {
    struct database *database = &scoring->library->database;
    const text_list *classes = &scoring->edition->classes;
    l3a_status status = L3A_OK;
    TRY(database_execute(database, "UPDATE class SET active = 0 WHERE active <> 0"));
    for (size_t k = 0; k < classes->count; k++) {
        TRY(enter_class(database, classes->items[k], scoring->edition->thresholds[k], &scoring->classes[k]));
    }
    TRY(database_execute(database, "DELETE FROM score WHERE class > 0 AND class NOT IN (SELECT id FROM class WHERE active)"));
done:
    return status;
}

/* Of an edition whose classes are there. */
static l3a_status find_classes(struct scoring *scoring) {
    const text_list *classes = &scoring->edition->classes;
    double threshold;
    l3a_status status = L3A_OK;
    for (size_t k = 0; k < classes->count; k++) {
        TRY(class_find(&scoring->library->database, classes->items[k], &scoring->classes[k], &threshold));
    }
done:
    return status;
}

static int compare_judged(const void *left, const void *right) {
    const uint32_t a = ((const struct judged *)left)->slot, b = ((const struct judged *)right)->slot;
    return (a > b) - (a < b);
}

static l3a_status read_judged(struct scoring *scoring) {
    struct database *database = &scoring->library->database;
    sqlite3_stmt *statement = NULL;
    bool row;
    l3a_status status = L3A_OK;
    TRY(meta_number(database, "judgements", 0, &scoring->judgements));
    TRY(database_prepare(database, "SELECT f.slot, s.class, s.shown FROM said s JOIN feature f ON f.checksum = s.checksum",
                         &statement));
    TRY(database_step(database, statement, &row));
    while (row) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        const size_t class = name ? text_list_find(&scoring->edition->classes, name) : scoring->edition->classes.count;
        const int64_t slot = sqlite3_column_int64(statement, 0);
        if (class < scoring->edition->classes.count && slot >= 0 && (uint64_t)slot < scoring->slots) {
            TRY(grow_array(scoring->library->context, &scoring->judged, &scoring->judged_capacity, scoring->judged_count + 1,
                           sizeof *scoring->judged));
            scoring->judged[scoring->judged_count++] =
                (struct judged){(uint32_t)slot, (uint32_t) class, sqlite3_column_int64(statement, 2) > 0};
        }
        TRY(database_step(database, statement, &row));
    }
    if (scoring->judged_count) {
        qsort(scoring->judged, scoring->judged_count, sizeof *scoring->judged, compare_judged);
    }
done:
    sqlite3_reset(statement);
    return status;
}

/* ---- A block ---- */

static void unpack(void *argument, size_t first, size_t last) {
    struct scoring *scoring = argument;
    const struct slots *slots = &scoring->library->slots;
    for (size_t i = first; i < last; i++) {
        struct slot slot;
        scoring->damaged[i] = !slot_check(slots, scoring->records, i, &slot);
        if (scoring->damaged[i]) {
            memset(scoring->features + i * scoring->numbers, 0, scoring->numbers * sizeof *scoring->features);
        } else {
            tensor_to_float(TENSOR_F16, slot.halves, scoring->features + i * scoring->numbers, scoring->numbers);
        }
    }
}

/* Puts what was said in place of the scores. */
static void overlay(const struct scoring *scoring, uint64_t first, size_t count) {
    const size_t classes = scoring->edition->classes.count;
    size_t low = 0, high = scoring->judged_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (scoring->judged[middle].slot < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < scoring->judged_count && scoring->judged[low].slot < first + count; low++) {
        const struct judged *judged = &scoring->judged[low];
        scoring->scores[(judged->slot - first) * classes + judged->class] = judged->shown ? INFINITY : -INFINITY;
    }
}

/* The distance from the threshold of the tag most in doubt, turned into 1 (in doubt) to 0; and what holds for the picture. */
static void sum_up(const struct scoring *scoring, const float *scores, float *doubt, float *flags) {
    const size_t classes = scoring->edition->classes.count;
    float least = INFINITY;
    unsigned found = FLAG_SCORED;
    for (size_t k = 0; k < classes; k++) {
        const float distance = fabsf(scores[k] - (float)scoring->edition->thresholds[k]);
        found |= (scores[k] > (float)scoring->edition->thresholds[k] ? FLAG_TAGGED : 0) | (isinf(scores[k]) ? FLAG_SAID : 0);
        least = distance < least ? distance : least;
    }
    *doubt = doubt_of(least);
    *flags = (float)found;
}

/* float16 rounds, and must not carry a score over its threshold: of the two float16 numbers around the score, the one on its side.
 */
static float on_its_side(float score, float rounded, float threshold) {
    const bool above = score > threshold;
    const float step = fmaxf(fabsf(rounded) * 0x1p-10f, 0x1p-24f);
    return isinf(score) || (rounded > threshold) == above ? rounded : above ? rounded + step : rounded - step;
}

/* What float16 can hold. */
static float clip(float score) {
    return isinf(score) || fabsf(score) <= 60000 ? score : score > 0 ? 60000 : -60000;
}

enum { STRIP = 16 };

/* The scores [count x classes] of some pictures become columns, from number `first` on. */
static void turn_strip(const struct scoring *scoring, size_t first, size_t count) {
    const size_t classes = scoring->edition->classes.count;
    const float *scores = scoring->scores + first * classes;
    float strip[STRIP], rounded[STRIP];
    uint16_t halves[STRIP];
    for (size_t k = 0; k < classes; k++) {
        const float threshold = (float)scoring->edition->thresholds[k];
        for (size_t i = 0; i < count; i++) {
            strip[i] = scoring->damaged[first + i] ? -INFINITY : clip(scores[i * classes + k]);
        }
        halves_of_floats(strip, halves, count);
        tensor_to_float(TENSOR_F16, halves, rounded, count);
        for (size_t i = 0; i < count; i++) {
            rounded[i] = on_its_side(strip[i], rounded[i], threshold);
        }
        halves_of_floats(rounded, scoring->columns + k * SCORE_BLOCK + first, count);
    }
}

static void transpose(void *argument, size_t first, size_t last) {
    const struct scoring *scoring = argument;
    const size_t classes = scoring->edition->classes.count;
    float doubts[STRIP], flags[STRIP];
    for (size_t start = first; start < last; start += STRIP) {
        const size_t count = last - start < STRIP ? last - start : STRIP;
        for (size_t i = 0; i < count; i++) {
            sum_up(scoring, scoring->scores + (start + i) * classes, &doubts[i], &flags[i]);
        }
        turn_strip(scoring, start, count);
        halves_of_floats(doubts, scoring->columns + classes * SCORE_BLOCK + start, count);
        halves_of_floats(flags, scoring->columns + (classes + 1) * SCORE_BLOCK + start, count);
    }
}

static l3a_status score_block(struct scoring *scoring, uint64_t first, size_t count) {
    l3a_status status = L3A_OK;
    TRY(slots_read(&scoring->library->slots, first, count, scoring->records));
    parallel_for(scoring->context->threads, count, PIECE, unpack, scoring);
    if (scoring->edition->classes.count) {
        status = scorer_score(scoring->context, scoring->edition, scoring->features, count, scoring->scores, NULL);
        TRY(status == L3A_OK
                ? status
                : fail(scoring->library->context, status, scoring->context->error_hint, "%s", scoring->context->error_text));
        overlay(scoring, first, count);
    }
    parallel_for(scoring->context->threads, count, PIECE, transpose, scoring);
done:
    return status;
}

static l3a_status write_column(struct scoring *scoring, int64_t class, int64_t block, const uint16_t *column, size_t count) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(&scoring->library->database, "INSERT OR REPLACE INTO score (class, block, data) VALUES (?1, ?2, ?3)",
                         &statement));
    sqlite3_bind_int64(statement, 1, class);
    sqlite3_bind_int64(statement, 2, block);
    sqlite3_bind_blob(statement, 3, column, (int)(count * sizeof *column), SQLITE_STATIC);
    TRY(database_step(&scoring->library->database, statement, &row));
done:
    return status;
}

static size_t block_slots(const struct scoring *scoring, int64_t block) {
    const uint64_t first = (uint64_t)block * SCORE_BLOCK;
    return scoring->slots - first < SCORE_BLOCK ? (size_t)(scoring->slots - first) : SCORE_BLOCK;
}

static l3a_status write_block(struct scoring *scoring, size_t index) {
    const size_t classes = scoring->edition->classes.count;
    const int64_t block = scoring->ready.block[index];
    const uint16_t *columns = scoring->ready.columns + index * (classes + 2) * SCORE_BLOCK;
    const size_t count = block_slots(scoring, block);
    l3a_status status = L3A_OK;
    for (size_t k = 0; k < classes + 2; k++) {
        const int64_t class = k < classes ? scoring->classes[k] : k == classes ? COLUMN_DOUBT : COLUMN_FLAGS;
        TRY(write_column(scoring, class, block, columns + k * SCORE_BLOCK, count));
    }
    const int64_t values[] = {block, (int64_t)scoring->edition->fingerprint, (int64_t)count};
    TRY(database_run(&scoring->library->database, "INSERT OR REPLACE INTO block (id, edition, slots) VALUES (?1, ?2, ?3)", values,
                     3));
    TRY(library_drop_records(scoring->library, scoring->ready.damaged + index * SCORE_BLOCK, (uint64_t)block * SCORE_BLOCK, count));
done:
    return status;
}

/* In the transaction that writes. */
static l3a_status check_outdated(struct scoring *scoring) {
    int64_t judgements;
    bool same;
    l3a_status status = L3A_OK;
    TRY(library_same_slots(scoring->library, &same));
    TRY(meta_number(&scoring->library->database, "judgements", 0, &judgements));
    scoring->outdated = !same || judgements != scoring->judgements;
done:
    return status;
}

static l3a_status write_blocks(struct scoring *scoring) {
    struct database *database = &scoring->library->database;
    int64_t scored;
    l3a_status status = L3A_OK;
    TRY(check_outdated(scoring));
    if (scoring->outdated) {
        goto done;
    }
    TRY(meta_step(database, "scored", &scored));
    for (size_t i = 0; i < scoring->ready.count; i++) {
        TRY(write_block(scoring, i));
    }
done:
    scoring->ready.count = 0;
    return status;
}

/* Writes what is ready. */
static l3a_status flush(struct scoring *scoring) {
    l3a_status status = L3A_OK;
    if (scoring->ready.count) {
        TRY(database_begin(&scoring->library->database));
        TRY(database_end(&scoring->library->database, write_blocks(scoring)));
    }
done:
    return status;
}

/* ---- All blocks ---- */

static l3a_status next_block(const struct scoring *scoring, int64_t from, int64_t *block) {
    sqlite3_stmt *statement;
    l3a_status status = L3A_OK;
    bool row = true;
    const int64_t blocks = (int64_t)((scoring->slots + SCORE_BLOCK - 1) / SCORE_BLOCK);
    *block = from;
    TRY(database_prepare(&scoring->library->database,
                         "SELECT id FROM block WHERE id >= ?1 AND edition = ?2 AND slots >= min(4096, ?3 - id * 4096) ORDER BY id",
                         &statement));
    sqlite3_bind_int64(statement, 1, from);
    sqlite3_bind_int64(statement, 2, (int64_t)scoring->edition->fingerprint);
    sqlite3_bind_int64(statement, 3, (int64_t)scoring->slots);
    TRY(database_step(&scoring->library->database, statement, &row));
    while (row && sqlite3_column_int64(statement, 0) == *block) {
        ++*block; /* this one is current */
        TRY(database_step(&scoring->library->database, statement, &row));
    }
    if (row) {
        sqlite3_reset(statement);
    }
    *block = *block < blocks ? *block : -1;
done:
    return status;
}

static bool is_outdated(const struct scoring *scoring) {
    if (scoring->outdated) {
        return true;
    }
    struct scorer *current = tagger_borrow(scoring->library->tagger);
    const bool outdated = current->fingerprint != scoring->edition->fingerprint;
    scorer_free(current);
    return outdated;
}

static l3a_status score_all(struct scoring *scoring, uint64_t most, uint64_t *done, bool *again) {
    const size_t columns = (scoring->edition->classes.count + 2) * SCORE_BLOCK;
    int64_t block = 0;
    l3a_status status = L3A_OK;
    while (*done < most && !*again) {
        TRY(next_block(scoring, block, &block));
        if (block < 0) {
            break;
        }
        const uint64_t first = (uint64_t)block * SCORE_BLOCK;
        const size_t count = block_slots(scoring, block);
        scoring->damaged = scoring->ready.damaged + scoring->ready.count * SCORE_BLOCK;
        scoring->columns = scoring->ready.columns + scoring->ready.count * columns;
        TRY(score_block(scoring, first, count));
        scoring->ready.block[scoring->ready.count++] = block++;
        if (scoring->ready.count == scoring->ready.most) {
            TRY(flush(scoring));
        }
        *done += count;
        TRY(report_progress(scoring->library->context, "score", first + count, scoring->slots));
        *again = is_outdated(scoring);
    }
    TRY(flush(scoring));
    *again = *again || scoring->outdated;
done:
    return status;
}

static l3a_status begin_scoring(struct scoring *scoring) {
    l3a_context *context = scoring->library->context;
    const size_t classes = scoring->edition->classes.count, stride = scoring->library->slots.stride;
    l3a_status status = L3A_OK;
    TRY(allocate(context, SCORE_BLOCK, stride, &scoring->records));
    TRY(allocate(context, SCORE_BLOCK, scoring->numbers * sizeof *scoring->features, &scoring->features));
    TRY(allocate(context, SCORE_BLOCK, classes * sizeof *scoring->scores, &scoring->scores));
    const size_t bytes = (classes + 2) * SCORE_BLOCK * sizeof *scoring->columns, fit = COLUMN_BYTES / bytes;
    scoring->ready.most = fit > TOGETHER ? TOGETHER : fit ? fit : 1;
    TRY(allocate(context, scoring->ready.most, SCORE_BLOCK * sizeof *scoring->damaged, &scoring->ready.damaged));
    TRY(allocate(context, scoring->ready.most, bytes, &scoring->ready.columns));
    TRY(read_judged(scoring));
done:
    return status;
}

static void end_scoring(struct scoring *scoring) {
    l3a_context *context = scoring->library->context;
    scorer_free(scoring->edition);
    release(context, scoring->classes);
    release(context, scoring->judged);
    release(context, scoring->records);
    release(context, scoring->features);
    release(context, scoring->scores);
    release(context, scoring->ready.damaged);
    release(context, scoring->ready.columns);
}

/* The classes of the edition; they are written if they are not what was written last, even if there is no picture yet. */
static l3a_status begin_edition(struct scoring *scoring) {
    struct database *database = &scoring->library->database;
    const int64_t edition = (int64_t)scoring->edition->fingerprint;
    int64_t before;
    l3a_status status = L3A_OK;
    TRY(allocate(scoring->library->context, scoring->edition->classes.count, sizeof *scoring->classes, &scoring->classes));
    TRY(meta_number(database, "edition", edition + 1, &before));
    if (before != edition) {
        TRY(database_begin(database));
        status = enter_classes(scoring);
        status = status == L3A_OK ? meta_set_number(database, "edition", edition) : status;
        TRY(database_end(database, status));
    } else {
        TRY(find_classes(scoring));
    }
done:
    return status;
}

/* With one edition. *again: it is not the current one any more, or another process has changed what scores depend on. */
static l3a_status score_once(l3a_library *library, l3a_context *context, uint64_t most, uint64_t *done, bool *again) {
    struct scoring scoring = {.library = library, .context = context, .edition = tagger_borrow(library->tagger)};
    int64_t block, slots;
    uint64_t records;
    l3a_status status = L3A_OK;
    *again = false;
    TRY(begin_edition(&scoring));
    TRY(library_open_slots(library));
    if (library->slots.file < 0) {
        goto done;
    }
    TRY(database_number(&library->database, "SELECT max(slot) + 1 FROM feature", NULL, 0, 0, &slots));
    TRY(slots_count(&library->slots, &records)); /* later than the rows that point to them */
    scoring.slots = slots > 0 && (uint64_t)slots < records ? (uint64_t)slots : slots > 0 ? records : 0;
    scoring.numbers = library->slots.width * library->slots.rows;
    TRY(next_block(&scoring, 0, &block));
    if (block >= 0) {
        TRY(begin_scoring(&scoring));
        TRY(score_all(&scoring, most, done, again));
    }
done:
    end_scoring(&scoring);
    return status;
}

l3a_status l3a_library_score(l3a_library *library, uint64_t most, uint64_t *scored) {
    REQUIRE(library, library);
    l3a_context *context = NULL;
    uint64_t done = 0;
    bool again = true;
    l3a_status status = L3A_OK;
    TRY(library_fork(library, &context));
    while (again && done < (most ? most : UINT64_MAX)) {
        TRY(score_once(library, context, most ? most : UINT64_MAX, &done, &again));
    }
done:
    if (scored) {
        *scored = done;
    }
    l3a_context_free(context);
    return library_suspect(library, status);
}
