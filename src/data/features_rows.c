/* The rows of a feature table: several threads read them, and check that every number is finite. */
#include "base/threads.h"
#include "data/features.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Without branches, so that the compiler can vectorise it. */
static size_t first_non_finite(const float *values, size_t count) {
    enum { STEP = 1024 };
    for (size_t first = 0; first < count; first += STEP) {
        const size_t last = first + STEP < count ? first + STEP : count;
        float poison = 0;
        for (size_t i = first; i < last; i++) {
            poison += values[i] * 0.0F;
        }
        for (size_t i = first; poison != 0 && i < last; i++) {
            if (!isfinite(values[i])) {
                return i;
            }
        }
    }
    return count;
}

/* What threads have found: the lowest index. */
static void keep_lowest(size_t *lowest, size_t index) {
    size_t known = __atomic_load_n(lowest, __ATOMIC_RELAXED);
    while (index < known && !__atomic_compare_exchange_n(lowest, &known, index, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

struct search {
    const float *values;
    size_t found;
};

static void search_part(void *argument, size_t first, size_t last) {
    struct search *search = argument;
    const size_t bad = first + first_non_finite(search->values + first, last - first);
    if (bad < last) {
        keep_lowest(&search->found, bad);
    }
}

enum { SEARCHED = 1 << 18, PART = 1 << 15 }; /* numbers that a thread searches, and that it reads, at a time */

size_t find_non_finite(int threads, const float *values, size_t count) {
    struct search search = {values, count};
    parallel_for(threads, count, SEARCHED, search_part, &search);
    return search.found;
}

/* Rows that several threads read. */
struct reading {
    const l3a_features *features;
    const size_t *rows; /* NULL: those from `first` on */
    size_t first;
    float *values;
    size_t bad; /* the index of the first number that is not finite */
    /* The first row whose part of the rows could not be read, and why. */
    size_t unread;
    struct read_failure failure;
    unsigned char busy;
};

/* Copies the numbers [first, first + count) of rows that lie next to each other in the table. */
static bool read_part(const l3a_features *features, size_t start, size_t run, size_t first, size_t count, float *values,
                      size_t stride, struct read_failure *failure) {
    const size_t stored = view_rows(features->stored) * features->width;
    bool read = true;
    for (size_t i = 0; read && i < run; i++) {
        const size_t from = (start + i) * stored + first;
        if (features->values) {
            memcpy(values + i * stride, features->values + from, count * sizeof *values);
        } else {
            read = tensor_try_read(&features->input, &features->features, from, count, values + i * stride, failure);
        }
    }
    return read;
}

/* The views in use, of rows that have more: the whole picture, and crops that lie next to each other. */
static bool read_some_views(const l3a_features *features, size_t start, size_t run, float *values, struct read_failure *failure) {
    const size_t k = features->width, row = features_row(features);
    size_t first;
    views_within(features->views, features->stored, &first);
    return read_part(features, start, run, 0, k, values, row, failure) &&
           (features->views == 1 || read_part(features, start, run, first * k, features->views * k, values + k, row, failure));
}

static bool read_rows(const l3a_features *features, size_t start, size_t run, float *values, struct read_failure *failure) {
    const size_t row = features_row(features);
    if (features->views != features->stored) {
        return read_some_views(features, start, run, values, failure);
    }
    if (features->values) {
        memcpy(values, features->values + start * row, run * row * sizeof *values);
        return true;
    }
    return tensor_try_read(&features->input, &features->features, (uint64_t)start * row, run * row, values, failure);
}

static size_t row_to_read(const struct reading *reading, size_t index) {
    return reading->rows ? reading->rows[index] : reading->first + index;
}

/* Only the failure that comes first is kept, so that it does not depend on the threads. */
static void keep_failure(struct reading *reading, size_t index, const struct read_failure *failure) {
    while (__atomic_test_and_set(&reading->busy, __ATOMIC_ACQUIRE)) {
    }
    if (index < reading->unread) {
        __atomic_store_n(&reading->unread, index, __ATOMIC_RELAXED);
        reading->failure = *failure;
    }
    __atomic_clear(&reading->busy, __ATOMIC_RELEASE);
}

/* Checks the numbers while they are still in the cache. */
static void read_and_check(void *argument, size_t first, size_t last) {
    struct reading *reading = argument;
    const size_t width = features_row(reading->features);
    struct read_failure failure;
    if (__atomic_load_n(&reading->unread, __ATOMIC_RELAXED) < first) {
        return;
    }
    for (size_t at = first, run; at < last; at += run) {
        const size_t start = row_to_read(reading, at);
        for (run = 1; at + run < last && row_to_read(reading, at + run) == start + run; run++) {
        }
        if (!read_rows(reading->features, start, run, reading->values + at * width, &failure)) {
            keep_failure(reading, first, &failure);
            return;
        }
    }
    const size_t count = (last - first) * width, bad = first_non_finite(reading->values + first * width, count);
    if (bad < count) {
        keep_lowest(&reading->bad, first * width + bad);
    }
}

static l3a_status fail_non_finite(const l3a_features *features, size_t row, size_t bad, float value) {
    const char *id = l3a_features_id(features, row);
    char view[40] = "";
    if (features->views > 1) {
        snprintf(view, sizeof view, ", view %zu", bad / features->width);
    }
    return fail(features->context, L3A_ERROR_DATA, "extract this image's features again, or remove the row",
                "%s: row %zu%s, column %zu%s%s%s: the feature is %s", features->path, row, view, bad % features->width,
                id ? " (" : "", id ? id : "", id ? ")" : "", isnan(value) ? "not a number (NaN)" : "infinite");
}

l3a_status l3a_features_read(l3a_features *features, const size_t *rows, size_t first, size_t count, float *values) {
    l3a_status status = L3A_OK;
    NEED(features ? features->context : NULL, features, values);
    const size_t width = features_row(features), grain = width < PART ? PART / width : 1;
    struct reading reading = {
        .features = features, .rows = rows, .first = first, .values = values, .bad = count * width, .unread = count};
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(row_to_read(&reading, i) >= features->rows, features->context, L3A_ERROR_ARGUMENT, NULL,
                "%s: row %zu is out of range: there are %zu rows", features->path, row_to_read(&reading, i), features->rows);
    }
    parallel_for(features->context->threads, count, grain, read_and_check, &reading);
    if (reading.unread < count) {
        status = input_fail(&features->input, &reading.failure);
    } else if (reading.bad < count * width) {
        status = fail_non_finite(features, row_to_read(&reading, reading.bad / width), reading.bad % width, values[reading.bad]);
    }
done:
    return status;
}

/* Whether the rows are next to each other in memory, with the views in use. */
static bool lie_together(const l3a_features *features, const size_t *rows, size_t count) {
    bool together = count && features->values && features->views == features->stored && rows[0] < features->rows &&
                    count <= features->rows - rows[0];
    for (size_t i = 1; together && i < count; i++) {
        together = rows[i] == rows[0] + i;
    }
    return together;
}

l3a_status features_find_rows(l3a_features *features, const size_t *rows, size_t count, float *room, const float **values) {
    const size_t width = features_row(features);
    l3a_status status = L3A_OK;
    *values = room;
    if (lie_together(features, rows, count)) {
        *values = features->values + rows[0] * width;
        const size_t bad = find_non_finite(features->context->threads, *values, count * width);
        TRY(bad == count * width ? L3A_OK : fail_non_finite(features, rows[0] + bad / width, bad % width, (*values)[bad]));
    } else {
        TRY(l3a_features_read(features, rows, 0, count, room));
    }
done:
    return status;
}
