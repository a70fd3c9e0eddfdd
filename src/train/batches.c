#include "train/batches.h"

#include "base/memory.h"
#include "base/sized.h"
#include "base/stream.h"
#include "data/dataset.h"
#include "image/loader.h"

#include <stdio.h>
#include <string.h>

enum { STREAM_ORDER, STREAM_CHANGES };

struct batches {
    l3a_context *context;
    const l3a_dataset *dataset;
    struct batches_options options;
    l3a_loader_options loading; /* options.loader is this, with … */
    l3a_picture_options picture;
    size_t count, *rows;             /* as they are listed */
    size_t *order;                   /* of the pass */
    struct picture_source *pictures; /* in that order */
    size_t next;                     /* the first row of the next batch */
    l3a_loader *loader;              /* NULL: no pass has begun */
    size_t numbers;                  /* of a picture */
    float *planes;
};

/* How many pictures to decode ahead: as many as the threads do while the network learns from a batch. */
static size_t pictures_ahead(const struct batches *batches) {
    const size_t usual = 2 * (size_t)batches->context->threads;
    return batches->options.batch > usual ? batches->options.batch : usual;
}

static l3a_status copy_options(struct batches *batches, const struct batches_options *options) {
    l3a_status status = L3A_OK;
    batches->options = *options;
    FAIL_IF(!options->batch, batches->context, L3A_ERROR_ARGUMENT, "use a number such as 64", "a batch cannot have 0 pictures");
    TRY(READ_SIZED(batches->context, options->loader, batches->loading));
    TRY(picture_options_read(batches->context, batches->loading.picture, &batches->picture));
    batches->loading.picture = &batches->picture;
    batches->loading.ahead = batches->loading.ahead ? batches->loading.ahead : pictures_ahead(batches);
    batches->options.loader = &batches->loading;
done:
    return status;
}

static l3a_status copy_rows(struct batches *batches, const size_t *rows) {
    const size_t all = batches->dataset->ids.count;
    l3a_status status = L3A_OK;
    TRY(allocate(batches->context, batches->count, sizeof *batches->rows, &batches->rows));
    for (size_t i = 0; i < batches->count; i++) {
        FAIL_IF(rows[i] >= all, batches->context, L3A_ERROR_ARGUMENT, NULL, "the data set has %zu rows, and no row %zu", all,
                rows[i]);
        batches->rows[i] = rows[i];
    }
done:
    return status;
}

/* Makes a loader for the rows of the pass from `first` on. */
static l3a_status load_from(struct batches *batches, uint64_t epoch, size_t first) {
    const struct loader_changes changes = {.augmentation = batches->options.augmentation,
                                           .seed = random_bits(random_bits(batches->options.seed, STREAM_CHANGES), epoch),
                                           .rows = batches->order + first};
    return loader_create(batches->context, batches->pictures + first, batches->count - first, &batches->loading, &changes,
                         &batches->loader);
}

static void end_pass(struct batches *batches) {
    l3a_loader_free(batches->loader);
    batches->loader = NULL;
}

/* A loader without pictures checks the options, and tells the size of a picture. */
static l3a_status make_room(struct batches *batches) {
    const size_t most = batches->options.batch < batches->count ? batches->options.batch : batches->count;
    l3a_context *context = batches->context;
    l3a_status status = L3A_OK;
    uint64_t numbers;
    TRY(allocate(context, batches->count, sizeof *batches->order, &batches->order));
    TRY(allocate(context, batches->count, sizeof *batches->pictures, &batches->pictures));
    TRY(load_from(batches, 0, batches->count));
    batches->numbers = loader_numbers(batches->loader);
    end_pass(batches);
    FAIL_IF(!multiply_sizes(most, batches->numbers, &numbers), context, L3A_ERROR_MEMORY, "use smaller batches",
            "a batch of %zu pictures does not fit in memory", most);
    TRY(allocate(context, numbers, sizeof *batches->planes, &batches->planes));
done:
    return status;
}

l3a_status batches_open(l3a_context *context, const l3a_dataset *dataset, const size_t *rows, size_t row_count,
                        const struct batches_options *options, struct batches **batches) {
    struct batches *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->dataset = dataset;
    made->count = row_count;
    TRY(copy_options(made, options));
    TRY(copy_rows(made, rows));
    TRY(make_room(made));
    *batches = made;
    made = NULL;
done:
    batches_free(made);
    return status;
}

static void put_in_order(struct batches *batches, uint64_t epoch) {
    struct stream stream = {random_bits(random_bits(batches->options.seed, STREAM_ORDER), epoch), 0};
    if (batches->options.shuffled) {
        stream_shuffle(&stream, batches->order, batches->count);
    }
    for (size_t i = 0; i < batches->count; i++) {
        batches->order[i] = batches->rows[batches->options.shuffled ? batches->order[i] : i];
        batches->pictures[i] = dataset_source(batches->dataset, batches->order[i]);
    }
}

l3a_status batches_begin(struct batches *batches, uint64_t epoch, size_t first_batch) {
    const size_t size = batches->options.batch, count = batches->count / size + (batches->count % size > 0);
    l3a_status status = L3A_OK;
    end_pass(batches);
    FAIL_IF(first_batch > count, batches->context, L3A_ERROR_ARGUMENT, NULL,
            "a pass over %zu pictures has %zu batches; it cannot begin after %zu of them", batches->count, count, first_batch);
    put_in_order(batches, epoch);
    batches->next = first_batch < count ? first_batch * size : batches->count;
    TRY(load_from(batches, epoch, batches->next));
done:
    return status;
}

/* Adds to the hint of a picture that cannot be read. */
static l3a_status fail_at_picture(l3a_context *context, l3a_status status) {
    char text[sizeof context->error_text], hint[sizeof context->error_hint + 128];
    memcpy(text, context->error_text, sizeof text);
    snprintf(hint, sizeof hint, "%s%sa training in which pictures are missing could not be repeated", context->error_hint,
             context->error_hint[0] ? "; " : "");
    return fail(context, status, hint, "%s", text);
}

l3a_status batches_next(struct batches *batches, struct picture_batch *batch) {
    const size_t left = batches->count - batches->next;
    l3a_status status = L3A_OK;
    *batch = (struct picture_batch){.count = 0};
    FAIL_IF(!batches->loader, batches->context, L3A_ERROR_ARGUMENT, "call batches_begin()", "no pass has begun");
    const size_t count = batches->options.batch < left ? batches->options.batch : left;
    for (size_t i = 0; i < count; i++) {
        status = loader_next(batches->loader, batches->planes + i * batches->numbers);
        if (status != L3A_OK) {
            status = status == L3A_ERROR_MEMORY ? status : fail_at_picture(batches->context, status);
            end_pass(batches);
            goto done;
        }
    }
    *batch = (struct picture_batch){.count = count, .rows = batches->order + batches->next, .planes = batches->planes};
    batches->next += count;
done:
    return status;
}

void batches_free(struct batches *batches) {
    if (batches) {
        l3a_context *context = batches->context;
        end_pass(batches);
        release(context, batches->rows);
        release(context, batches->order);
        release(context, batches->pictures);
        release(context, batches->planes);
        release(context, batches);
    }
}
