#include "train/picture_rows.h"

#include "base/memory.h"
#include "base/text_index.h"
#include "data/dataset.h"
#include "image/loader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Which pictures they are ---- */

static l3a_status find_by_id(l3a_features *table, struct picture_rows *rows) {
    l3a_context *context = rows->context;
    const size_t all = l3a_dataset_rows(rows->dataset);
    l3a_status status = L3A_OK;
    const char **ids = NULL;
    text_index index = {0};
    TRY(allocate(context, all, sizeof *ids, &ids));
    for (size_t i = 0; i < all; i++) {
        ids[i] = l3a_dataset_id(rows->dataset, i);
    }
    TRY(text_index_make(context, (char *const *)ids, all, &index));
    for (size_t i = 0; i < rows->count; i++) {
        const char *id;
        TRY(features_id(table, i, &id));
        rows->rows[i] = text_index_find(&index, id);
        FAIL_IF(rows->rows[i] == all, context, L3A_ERROR_MISMATCH, "use the data set that the features were extracted from",
                "%s has the picture '%.200s', but %s does not", table->path, id, rows->dataset->name);
    }
done:
    text_index_free(context, &index);
    release(context, ids);
    return status;
}

l3a_status picture_rows_open(l3a_features *table, const l3a_dataset *dataset, struct picture_rows *rows) {
    l3a_context *context = table->context;
    l3a_status status = L3A_OK;
    *rows = (struct picture_rows){.context = context, .dataset = dataset, .count = table->rows};
    TRY(allocate(context, rows->count, sizeof *rows->rows, &rows->rows));
    if (l3a_features_id(table, 0)) {
        TRY(find_by_id(table, rows));
        goto done;
    }
    FAIL_IF(rows->count != l3a_dataset_rows(dataset), context, L3A_ERROR_MISMATCH,
            "use a table that has ids, or one with a row for each picture", "%s has %zu rows, but %s has %zu pictures", table->path,
            rows->count, dataset->name, l3a_dataset_rows(dataset));
    for (size_t i = 0; i < rows->count; i++) {
        rows->rows[i] = i;
    }
done:
    return status;
}

void picture_rows_close(struct picture_rows *rows) {
    if (rows->context) {
        release(rows->context, rows->rows);
    }
    *rows = (struct picture_rows){.context = NULL};
}

const char *picture_row_id(const struct picture_rows *rows, size_t row) {
    return l3a_dataset_id(rows->dataset, rows->rows[row]);
}

/* ---- Reading them ---- */

void picture_feed_open(l3a_context *context, const struct picture_rows *rows, const l3a_loader_options *loading,
                       const struct augmentation *augmentation, struct picture_feed *feed) {
    *feed = (struct picture_feed){.context = context, .rows = rows, .loading = loading, .augmentation = *augmentation};
}

static void stop(struct picture_feed *feed) {
    l3a_loader_free(feed->loader);
    feed->loader = NULL;
    feed->count = 0;
}

static l3a_status make_room(struct picture_feed *feed, size_t count) {
    l3a_context *context = feed->context;
    l3a_status status = L3A_OK;
    if (count <= feed->capacity) {
        return L3A_OK;
    }
    feed->capacity = 0;
    release(context, feed->sources);
    release(context, feed->numbers);
    feed->sources = NULL;
    feed->numbers = NULL;
    TRY(allocate(context, count, sizeof *feed->sources, &feed->sources));
    TRY(allocate(context, count, sizeof *feed->numbers, &feed->numbers));
    feed->capacity = count;
done:
    return status;
}

l3a_status picture_feed_begin(struct picture_feed *feed, const size_t *rows, const size_t *numbers, size_t count, uint64_t seed) {
    l3a_status status = L3A_OK;
    stop(feed);
    if (!count) {
        return L3A_OK;
    }
    TRY(make_room(feed, count));
    for (size_t i = 0; i < count; i++) {
        feed->sources[i] = dataset_source(feed->rows->dataset, feed->rows->rows[rows[i]]);
        feed->numbers[i] = numbers ? numbers[i] : 0;
    }
    l3a_loader_options loading = *feed->loading;
    loading.ahead = count;
    const struct loader_changes changes = {.augmentation = feed->augmentation, .seed = seed, .rows = feed->numbers};
    TRY(loader_create(feed->context, feed->sources, count, &loading, &changes, &feed->loader));
    feed->count = count;
done:
    return status;
}

l3a_status picture_feed_take(struct picture_feed *feed, float *planes, uint64_t *checksums) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < feed->count; i++) {
        TRY(loader_next(feed->loader, planes + i * loader_numbers(feed->loader)));
        if (checksums) {
            checksums[i] = loader_checksum(feed->loader);
        }
    }
done:
    stop(feed);
    return status;
}

void picture_feed_close(struct picture_feed *feed) {
    if (feed->context) {
        stop(feed);
        release(feed->context, feed->sources);
        release(feed->context, feed->numbers);
    }
    *feed = (struct picture_feed){.context = NULL};
}
