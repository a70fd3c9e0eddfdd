/* What to judge next: of the pictures that are in doubt, those whose answers say most about all of them.
 *
 * In doubt is a picture with a score from a little below to well above the threshold of a tag: its height, (score - threshold) /
 * |threshold - mean score of the library|, is within HALF of MIDDLE. Of these, a sample of CANDIDATES is taken; if there are fewer
 * than FEW, those nearest to that.
 *
 * Their features z are centred, and scaled to a mean square of 1. With the taught pictures T, M = I + TᵀT, and K = Z M⁻¹ Zᵀ says
 * how much two pictures have in common that is not known yet. The picture i with the largest Σⱼ Kᵢⱼ² / (1 + Kᵢᵢ) comes next: it
 * takes that much of the variance from all. K then becomes what it is once i is taught, K - kᵢkᵢᵀ / (1 + Kᵢᵢ), so that a picture
 * nearly like it is not asked for again. docs/teaching.md has the experiment that chose the rule (bench/judging.py). */
#include "base/matrix.h"
#include "base/random.h"
#include "format/tensor.h"
#include "library/found.h"
#include "library/order.h"

#include <math.h>
#include <string.h>

#define MIDDLE 0.15f
#define HALF 0.3f
enum { CANDIDATES = 1000, FEW = 200, SAMPLE = 2000, TAUGHT = 4000, PICKS = 100 };

struct novelty {
    l3a_library *library;
    l3a_context *context;
    const uint8_t *chosen;
    size_t slots, width;
    float *off;          /* [slots]: how far from the middle of the doubt; infinity: nothing is in doubt */
    struct keyed *items; /* the candidates: `at` is a position in the catalogue */
    size_t count;
    double *mean, scale; /* [width], of the library's features */
    double *known;       /* M, then its factor [width x width] */
    double *z, *solved;  /* [count x width] */
    double *common;      /* K [count x count] */
    void *record;
};

/* ---- Doubt ---- */

/* What a tag says of the pictures. */
static void measure_doubt(struct novelty *novelty, const float *values, float threshold) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < novelty->slots; i++) {
        if (isfinite(values[i])) {
            sum += (double)values[i];
            count++;
        }
    }
    const float scale = count ? fabsf(threshold - (float)(sum / (double)count)) : 0;
    for (size_t i = 0; i < novelty->slots && scale > 0; i++) {
        const float off = fabsf((values[i] - threshold) / scale - MIDDLE);
        if (isfinite(values[i]) && off < novelty->off[i]) {
            novelty->off[i] = off;
        }
    }
}

static l3a_status measure_all(struct novelty *novelty) {
    struct database *database = &novelty->library->database;
    sqlite3_stmt *statement = NULL;
    text_list names = {0};
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "SELECT name FROM class WHERE active", &statement));
    TRY(database_step(database, statement, &row));
    while (row) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        TRY(text_list_add(novelty->context, &names, name ? name : "", name ? strlen(name) : 0));
        TRY(database_step(database, statement, &row));
    }
    for (size_t k = 0; k < names.count; k++) {
        const float *values;
        int64_t class;
        double threshold;
        TRY(class_find(database, names.items[k], &class, &threshold));
        if (class) {
            TRY(columns_get(&novelty->library->columns, database, class, &values));
            measure_doubt(novelty, values, (float)threshold);
        }
    }
done:
    sqlite3_reset(statement);
    text_list_clear(novelty->context, &names);
    return status;
}

/* Takes the candidates: one picture of each content. */
static l3a_status take_candidates(struct novelty *novelty) {
    const struct catalogue *catalogue = &novelty->library->catalogue;
    size_t doubtful = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(novelty->context, catalogue->count, sizeof *novelty->items, &novelty->items));
    for (size_t i = 0; i < catalogue->count; i++) {
        const uint32_t slot = catalogue->slots[i];
        const bool open = novelty->chosen[i] && catalogue->states[i] == PICTURE_DONE && slot < novelty->slots;
        const float off = open ? novelty->off[slot] : INFINITY;
        if (off < INFINITY) {
            const uint64_t chance = random_bits(1, slot) >> 33;
            novelty->items[novelty->count++] = (struct keyed){
                .key = off < HALF ? UINT64_C(1) << 63 | chance : key_of_float(-off), .at = (uint32_t)i, .rank = -off};
            doubtful += off < HALF;
            novelty->off[slot] = INFINITY; /* copies are not asked for, too */
        }
    }
    if (doubtful < FEW) {
        for (size_t i = 0; i < novelty->count; i++) {
            novelty->items[i].key = key_of_float(novelty->items[i].rank);
        }
    }
    TRY(order_by_key(novelty->context, novelty->items, novelty->count));
    const size_t most = doubtful < FEW ? FEW : doubtful < CANDIDATES ? doubtful : CANDIDATES;
    novelty->count = novelty->count < most ? novelty->count : most;
done:
    return status;
}

/* ---- Features ---- */

/* The features of the whole picture, as they are. */
static l3a_status read_slot(struct novelty *novelty, uint64_t slot, double *to) {
    const struct slots *slots = &novelty->library->slots;
    l3a_status status = L3A_OK;
    TRY(slots_read(slots, slot, 1, novelty->record));
    tensor_to_double(TENSOR_F16, slot_at(slots, novelty->record, 0).halves, to, novelty->width);
done:
    return status;
}

static void centre(const struct novelty *novelty, double *z) {
    for (size_t i = 0; i < novelty->width; i++) {
        z[i] = (z[i] - novelty->mean[i]) / novelty->scale;
    }
}

/* The mean and the mean square of a sample of the library. */
static l3a_status measure_features(struct novelty *novelty) {
    const size_t count = novelty->slots < SAMPLE ? novelty->slots : SAMPLE, width = novelty->width;
    double *rows = NULL, sum = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(novelty->context, count, width * sizeof *rows, &rows));
    for (size_t i = 0; i < count; i++) {
        TRY(read_slot(novelty, i * novelty->slots / count, rows + i * width));
        for (size_t k = 0; k < width; k++) {
            novelty->mean[k] += rows[i * width + k] / (double)count;
        }
    }
    for (size_t i = 0; i < count * width; i++) {
        const double difference = rows[i] - novelty->mean[i % width];
        sum += difference * difference;
    }
    novelty->scale = sum > 0 ? sqrt(sum / (double)count) : 1;
done:
    release(novelty->context, rows);
    return status;
}

/* M = I + TᵀT over pictures of the library that were judged, and its factor. */
static l3a_status know_taught(struct novelty *novelty) {
    const size_t width = novelty->width;
    const int threads = novelty->context->threads;
    const float *flags;
    double *taught = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(columns_get(&novelty->library->columns, &novelty->library->database, COLUMN_FLAGS, &flags));
    TRY(allocate(novelty->context, TAUGHT, width * sizeof *taught, &taught));
    for (size_t slot = novelty->slots; slot-- > 0 && count < TAUGHT;) {
        if ((unsigned)flags[slot] & FLAG_SAID) {
            TRY(read_slot(novelty, slot, taught + count * width));
            centre(novelty, taught + count++ * width);
        }
    }
    for (size_t i = 0; i < width; i++) {
        novelty->known[i * width + i] = 1;
    }
    matrix_rank_update(threads, REAL_DOUBLE, true, width, count, 1, taught, width, 1, novelty->known, width);
    FAIL_IF(!matrix_factor(threads, REAL_DOUBLE, width, novelty->known, width), novelty->context, L3A_ERROR_NUMERIC, NULL,
            "the features of the taught pictures cannot be told apart");
done:
    release(novelty->context, taught);
    return status;
}

/* K of the candidates. */
static l3a_status compare(struct novelty *novelty) {
    const struct catalogue *catalogue = &novelty->library->catalogue;
    const size_t width = novelty->width, count = novelty->count;
    const int threads = novelty->context->threads;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(novelty->context, width, sizeof *novelty->mean, &novelty->mean));
    TRY(allocate_zeroed(novelty->context, width, width * sizeof *novelty->known, &novelty->known));
    TRY(allocate(novelty->context, count, width * sizeof *novelty->z, &novelty->z));
    TRY(allocate(novelty->context, count, width * sizeof *novelty->solved, &novelty->solved));
    TRY(allocate(novelty->context, count, count * sizeof *novelty->common, &novelty->common));
    TRY(allocate(novelty->context, 1, novelty->library->slots.stride, &novelty->record));
    TRY(measure_features(novelty));
    TRY(know_taught(novelty));
    for (size_t i = 0; i < count; i++) {
        TRY(read_slot(novelty, catalogue->slots[novelty->items[i].at], novelty->z + i * width));
        centre(novelty, novelty->z + i * width);
    }
    memcpy(novelty->solved, novelty->z, count * width * sizeof *novelty->z);
    matrix_solve_rows(threads, REAL_DOUBLE, width, count, novelty->known, width, novelty->solved, width);
    matrix_multiply(threads, REAL_DOUBLE, false, true, count, count, width, 1, novelty->solved, width, novelty->z, width, 0,
                    novelty->common, count);
done:
    return status;
}

/* ---- One after another ---- */

/* What all would be known better by, if this one were judged. */
static double worth_of(const struct novelty *novelty, size_t i) {
    const double *row = novelty->common + i * novelty->count;
    double sum = 0;
    for (size_t j = 0; j < novelty->count; j++) {
        sum += row[j] * row[j];
    }
    return sum / (1 + row[i]);
}

/* As if this one had been judged. */
static void judge(struct novelty *novelty, size_t chosen, double *column) {
    const size_t count = novelty->count;
    memcpy(column, novelty->common + chosen * count, count * sizeof *column);
    const double scale = 1 / (1 + column[chosen]);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            novelty->common[i * count + j] -= scale * column[i] * column[j];
        }
    }
}

static l3a_status pick(struct novelty *novelty, size_t picks, l3a_found **found) {
    double *column = NULL;
    bool *taken = NULL;
    l3a_found *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(novelty->context, novelty->count, sizeof *column, &column));
    TRY(allocate_zeroed(novelty->context, novelty->count, sizeof *taken, &taken));
    TRY(found_create(novelty->context, picks, &made));
    for (size_t n = 0; n < picks; n++) {
        double most = -1;
        size_t best = 0;
        for (size_t i = 0; i < novelty->count; i++) {
            const double worth = taken[i] ? -2 : worth_of(novelty, i);
            if (worth > most) {
                most = worth;
                best = i;
            }
        }
        taken[best] = true;
        made->ids[n] = (uint64_t)novelty->library->catalogue.ids[novelty->items[best].at];
        made->ranks[n] = (float)most;
        judge(novelty, best, column);
    }
    *found = made;
    made = NULL;
done:
    l3a_found_free(made);
    release(novelty->context, column);
    release(novelty->context, taken);
    return status;
}

l3a_status library_novel(l3a_library *library, const uint8_t *chosen, uint64_t most, l3a_found **found) {
    struct novelty novelty = {.library = library,
                              .context = library->context,
                              .chosen = chosen,
                              .slots = library->catalogue.slot_count,
                              .width = library->slots.width};
    l3a_status status = L3A_OK;
    TRY(allocate(library->context, novelty.slots, sizeof *novelty.off, &novelty.off));
    for (size_t i = 0; i < novelty.slots; i++) {
        novelty.off[i] = INFINITY;
    }
    TRY(measure_all(&novelty));
    TRY(take_candidates(&novelty));
    if (novelty.count) {
        TRY(compare(&novelty));
    }
    const size_t wanted = most && most < PICKS ? (size_t)most : PICKS;
    TRY(pick(&novelty, wanted < novelty.count ? wanted : novelty.count, found));
done:
    release(library->context, novelty.off);
    release(library->context, novelty.items);
    release(library->context, novelty.mean);
    release(library->context, novelty.known);
    release(library->context, novelty.z);
    release(library->context, novelty.solved);
    release(library->context, novelty.common);
    release(library->context, novelty.record);
    return status;
}
