/* Extraction: runs the pictures of a data set through a backbone and writes a feature file.
 *
 * The features go to PATH.part first, batch by batch (part_file.h). Resuming compares what it has with the current pictures, and
 * extracts a batch again if a picture has changed, or if a power cut has left a record that is not whole. At the end, the feature
 * file is written from the records in one step.
 *
 * A shard is a run of whole batches, because the last bits of features depend on the batch: batches b with
 * ⌊B(i-1)/n⌋ <= b < ⌊Bi/n⌋ of B for shard i of n. So shards have the bytes that one process would have written (join.c). */
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/dataset.h"
#include "data/features.h"
#include "extract/extract.h"
#include "extract/part_file.h"
#include "format/safetensors.h"
#include "net/backbone.h"
#include "net/recipe.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Batches to extract, because their records are missing or out of date. */
struct todo {
    size_t *firsts; /* the first picture of each */
    size_t count;
    struct picture_source *pictures; /* of all of them */
    size_t picture_count;
};

struct extraction {
    l3a_context *context;
    l3a_backbone *backbone;
    const l3a_backbone_info *info;
    l3a_dataset *dataset;
    l3a_extract_options options;
    l3a_picture_options picture;
    const char *name, *path;         /* of the data set, and of the feature file */
    size_t batch;                    /* pictures that are computed together */
    size_t first, rows;              /* pictures of the data set: the first one, and how many */
    struct picture_source *pictures; /* these */
    size_t views;
    char engine[ENGINE_TEXT]; /* what of a device changes the last bits of features; "" on the processor */
    struct part_file part;
    struct todo todo;
    size_t *good; /* rows that could be read */
    size_t good_count;
    text_list bad;
    float *features;  /* of a batch */
    uint16_t *halves; /* of a picture */
};

static void find_engine(const struct extraction *e, char text[ENGINE_TEXT]) {
    print_engine(e->backbone, e->rows * view_rows(e->views), text);
}

/* Features of the processor are as before there were others. */
static void add_engine(XXH3_state_t *state, const struct extraction *e) {
    if (e->engine[0]) {
        const uint64_t computed = (uint64_t)e->info->computed;
        XXH3_64bits_update(state, e->engine, strlen(e->engine) + 1);
        XXH3_64bits_update(state, &computed, sizeof computed);
    }
}

/* Equal for the same pictures, in the same order, through the same network, with the same preprocessing. */
static uint64_t identity(const struct extraction *e) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    const char *const texts[] = {e->info->sha256, e->info->preprocess, e->info->pool, e->info->network};
    const size_t count = e->info->network[0] ? 4 : 3; /* parts that 0.13 has begun can be finished */
    for (size_t i = 0; i < count; i++) {
        XXH3_64bits_update(&state, texts[i], strlen(texts[i]) + 1);
    }
    for (size_t i = 0; i < e->rows; i++) {
        XXH3_64bits_update(&state, e->pictures[i].name, strlen(e->pictures[i].name) + 1);
    }
    XXH3_64bits_update(&state, &e->picture.orient, sizeof e->picture.orient);
    XXH3_64bits_update(&state, &e->picture.pixel_limit, sizeof e->picture.pixel_limit);
    add_engine(&state, e);
    return XXH3_64bits_digest(&state);
}

/* Equal for all shards of the same extraction, wherever the pictures are: the same names and labels, through the same network. */
static uint64_t whole_identity(const struct extraction *e, const struct backbone_record *record) {
    const size_t rows = l3a_dataset_rows(e->dataset), classes = l3a_dataset_class_count(e->dataset);
    const uint64_t numbers[] = {rows, classes, e->views, e->options.half != 0, e->picture.pixel_limit};
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, numbers, sizeof numbers);
    for (size_t i = 1; i < PROVENANCE; i++) { /* the name of the network may differ, its checksum may not */
        if (record->values[i]) {
            XXH3_64bits_update(&state, record->values[i], strlen(record->values[i]) + 1);
        }
    }
    for (size_t i = 0; i < classes; i++) {
        const char *name = l3a_dataset_class(e->dataset, i);
        XXH3_64bits_update(&state, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < rows; i++) {
        const char *id = l3a_dataset_id(e->dataset, i);
        XXH3_64bits_update(&state, id, strlen(id) + 1);
    }
    XXH3_64bits_update(&state, l3a_dataset_labels(e->dataset), rows * classes);
    XXH3_64bits_update(&state, l3a_dataset_members(e->dataset), rows * classes);
    add_engine(&state, e);
    return XXH3_64bits_digest(&state);
}

/* The number of pictures in the batch that begins with picture `first`. */
static size_t batch_size(const struct extraction *e, size_t first) {
    return e->rows - first < e->batch ? e->rows - first : e->batch;
}

/* XXH3 of a picture's current bytes; 0 if they cannot be read. */
static uint64_t current_checksum(l3a_context *context, const struct picture_source *picture) {
    uint64_t checksum = 0;
    return picture_checksum(context, picture, &checksum) ? checksum : 0;
}

/* Finds the first picture of a batch whose record is missing or out of date, or the end of the batch. With `strict`, pictures that
 * could not be read are tried again. */
static l3a_status find_stale(struct extraction *e, size_t first, size_t *stale, bool *changed) {
    l3a_status status = L3A_OK;
    const size_t last = first + batch_size(e, first);
    enum part_outcome outcome;
    *changed = false;
    for (*stale = first; *stale < last && last <= e->part.held; ++*stale) {
        TRY(part_file_load(&e->part, *stale, &outcome));
        *changed = outcome != PART_MISSING && !part_file_is_current(&e->part, current_checksum(e->context, &e->pictures[*stale]));
        if (outcome == PART_MISSING || *changed || (outcome == PART_UNREADABLE && e->options.strict)) {
            break;
        }
    }
done:
    return status;
}

static void forget_todo(struct extraction *e) {
    release(e->context, e->todo.firsts);
    release(e->context, e->todo.pictures);
    e->todo = (struct todo){0};
}

/* Lists whole batches only, so that each picture is computed as in an extraction without interruption. */
static l3a_status list_todo(struct extraction *e) {
    l3a_context *context = e->context;
    struct todo *todo = &e->todo;
    l3a_status status = L3A_OK;
    size_t changes = 0, example = 0;
    forget_todo(e);
    TRY(allocate(context, e->rows / e->batch + 1, sizeof *todo->firsts, &todo->firsts));
    TRY(allocate(context, e->rows, sizeof *todo->pictures, &todo->pictures));
    for (size_t first = 0; first < e->rows; first += e->batch) {
        const size_t count = batch_size(e, first);
        size_t stale;
        bool changed;
        if (first < e->part.held) {
            TRY(report_progress(context, "check", first, e->part.held));
        }
        TRY(find_stale(e, first, &stale, &changed));
        if (stale < first + count) {
            todo->firsts[todo->count++] = first;
            for (size_t i = 0; i < count; i++) {
                todo->pictures[todo->picture_count++] = e->pictures[first + i];
            }
        }
        example = changed && !changes ? stale : example;
        changes += changed;
    }
    if (changes) {
        report_warning(context,
                       "%s has changed since it was extracted, or what was kept of it is damaged: %zu batch%s of %zu pictures %s "
                       "extracted again",
                       e->pictures[example].name, changes, changes == 1 ? "" : "es", e->batch, changes == 1 ? "is" : "are");
    }
done:
    return status;
}

/* Reports the pictures that could not be read; with `strict`, the first of them is the end. */
static l3a_status judge_batch(const struct extraction *e, const struct intake *intake) {
    for (size_t i = 0; i < intake->count; i++) {
        const struct arrival *arrival = &intake->arrivals[i];
        if (arrival->status != L3A_OK && e->options.strict) {
            return fail(e->context, arrival->status, arrival->error_hint, "%s", arrival->error_text);
        }
        if (arrival->status != L3A_OK) {
            report_warning(e->context, "%s", arrival->error_text);
        }
    }
    return L3A_OK;
}

/* Whether the device does not compute as it did when the extraction began, because another program has taken its memory. */
static bool has_other_engine(const struct extraction *e) {
    char now[ENGINE_TEXT];
    find_engine(e, now);
    return strcmp(now, e->engine) != 0;
}

/* *again: what has been extracted cannot be used with the rest. */
static l3a_status extract_todo(struct extraction *e, bool *again) {
    l3a_context *context = e->context;
    const struct todo *todo = &e->todo;
    l3a_status status = L3A_OK;
    l3a_loader_options options;
    struct intake intake = {0};
    size_t done = 0;
    loader_options_for(e->info, &e->picture, e->views, &options);
    *again = false;
    TRY(intake_open(context, e->backbone, &options, todo->pictures, todo->picture_count, e->batch, &intake));
    for (size_t i = 0; i < todo->count; i++) {
        TRY(report_progress(context, "extract", done, todo->picture_count));
        TRY(intake_next(&intake, batch_size(e, todo->firsts[i]), e->features));
        *again = has_other_engine(e);
        if (*again) {
            report_note(context, "%s: the device has room for fewer pictures at a time than before: the extraction begins again",
                        e->path);
            goto done;
        }
        TRY(judge_batch(e, &intake));
        TRY(part_file_write(&e->part, todo->firsts[i], &intake, e->features));
        done += intake.count;
    }
    TRY(report_progress(context, "extract", done, todo->picture_count));
done:
    intake_close(&intake);
    return status;
}

static l3a_status sort_out_rows(struct extraction *e) {
    l3a_status status = L3A_OK;
    TRY(allocate(e->context, e->rows, sizeof *e->good, &e->good));
    for (size_t i = 0; i < e->rows; i++) {
        enum part_outcome outcome;
        TRY(part_file_outcome(&e->part, i, &outcome));
        if (outcome == PART_READ) {
            e->good[e->good_count++] = i;
        } else {
            const char *id = l3a_dataset_id(e->dataset, e->first + i);
            TRY(text_list_add(e->context, &e->bad, id, strlen(id)));
        }
    }
    FAIL_IF(!e->good_count && e->rows, e->context, L3A_ERROR_DATA, "check the paths, and that the files are pictures",
            "none of the %zu pictures could be read", e->rows);
done:
    return status;
}

/* Fills in bytes of the features tensor, one row at a time. */
static l3a_status fill_rows(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct extraction *e = argument;
    l3a_status status = L3A_OK;
    const size_t numbers = e->part.row, row_bytes = numbers * (e->options.half ? sizeof *e->halves : sizeof *e->features);
    char *to = bytes;
    while (count) {
        const size_t row = (size_t)(offset / row_bytes), within = (size_t)(offset % row_bytes);
        const size_t part = count < row_bytes - within ? count : row_bytes - within;
        TRY(part_file_features(&e->part, e->good[row], e->features));
        if (e->options.half) {
            halves_of_floats(e->features, e->halves, numbers);
        }
        memcpy(to, (e->options.half ? (const char *)e->halves : (const char *)e->features) + within, part);
        to += part;
        offset += part;
        count -= part;
    }
done:
    return status;
}

static l3a_status add_record(l3a_context *context, text_list *keys, text_list *values, const char *key, const text_builder *text) {
    return text->status == L3A_OK ? text_record_set(context, keys, values, key, text->length ? text->text : "") : text->status;
}

/* The rows of a [pictures x classes] table for the pictures that could be read. */
static l3a_status gather_good(const struct extraction *e, const int8_t *table, int8_t **rows) {
    const size_t classes = l3a_dataset_class_count(e->dataset);
    const l3a_status status = allocate(e->context, e->good_count, classes, rows);
    for (size_t i = 0; status == L3A_OK && i < e->good_count; i++) {
        memcpy(*rows + i * classes, table + (e->first + e->good[i]) * classes, classes);
    }
    return status;
}

/* True if some picture belongs to a class that it is not labelled with: a crowd. */
static bool has_other_members(const int8_t *labels, const int8_t *members, size_t count) {
    size_t i = 0;
    while (i < count && (labels[i] == 1) == members[i]) {
        i++;
    }
    return i < count;
}

/* The batches of all pictures of the data set. */
static size_t all_batches(const struct extraction *e) {
    const size_t all = l3a_dataset_rows(e->dataset);
    return all / e->batch + (all % e->batch != 0);
}

/* What the file says about the features. */
static l3a_status describe_features(const struct extraction *e, text_list *keys, text_list *values) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t classes = l3a_dataset_class_count(e->dataset);
    text_builder names = {.context = context}, bad = {.context = context};
    struct backbone_record record;
    char text[64];
    backbone_record(e->info, e->picture.orient, &record);
    for (size_t i = 0; i < classes; i++) {
        text_builder_print(&names, "%s%s", i ? "\n" : "", l3a_dataset_class(e->dataset, i));
    }
    for (size_t i = 0; i < e->bad.count; i++) {
        text_builder_print(&bad, "%s%s", i ? "\n" : "", e->bad.items[i]);
    }
    TRY(add_record(context, keys, values, "classes", &names));
    for (size_t i = 0; i < PROVENANCE; i++) {
        TRY(record.values[i] ? text_record_set(context, keys, values, provenance[i], record.values[i]) : L3A_OK);
    }
    TRY(add_record(context, keys, values, bad_record, &bad));
    TRY(text_record_set(context, keys, values, "data", e->name));
    TRY(text_record_set(context, keys, values, "split", e->dataset->split));
    if (e->dataset->ignores_difficult) {
        TRY(text_record_set(context, keys, values, difficult_record, "ignore"));
    }
    if (e->views > 1) {
        snprintf(text, sizeof text, "%zu", e->views);
        TRY(text_record_set(context, keys, values, views_record, text));
    }
    if (e->options.shards) {
        snprintf(text, sizeof text, "%zu/%zu", e->options.shard, e->options.shards);
        TRY(text_record_set(context, keys, values, shard_record, text));
        snprintf(text, sizeof text, "%016" PRIx64, whole_identity(e, &record));
        TRY(text_record_set(context, keys, values, extraction_record, text));
        snprintf(text, sizeof text, "%zu", all_batches(e));
        TRY(text_record_set(context, keys, values, batches_record, text));
        TRY(e->engine[0] ? text_record_set(context, keys, values, engine_record, e->engine) : L3A_OK);
    }
done:
    text_builder_free(&names);
    text_builder_free(&bad);
    return status;
}

static l3a_status write_features(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t classes = l3a_dataset_class_count(e->dataset);
    text_list keys = {0}, values = {0};
    text_builder ids = {.context = context};
    int8_t *labels = NULL, *members = NULL;
    TRY(describe_features(e, &keys, &values));
    TRY(gather_good(e, l3a_dataset_labels(e->dataset), &labels));
    TRY(gather_good(e, l3a_dataset_members(e->dataset), &members));
    for (size_t i = 0; i < e->good_count; i++) {
        text_builder_print(&ids, "%s%s", i ? "\n" : "", l3a_dataset_id(e->dataset, e->first + e->good[i]));
    }
    TRY(ids.status);
    const tensor_source sources[] = {
        features_source(e->good_count, e->views, e->info->width, e->options.half ? TENSOR_F16 : TENSOR_F32, fill_rows, e),
        {"labels", TENSOR_I8, 2, {e->good_count, classes}, fill_from_memory, labels},
        {"ids", TENSOR_U8, 1, {ids.length}, fill_from_memory, ids.text},
        {"members", TENSOR_I8, 2, {e->good_count, classes}, fill_from_memory, members}, /* left out if crowds is false */
    };
    const bool crowds = has_other_members(labels, members, e->good_count * classes);
    TRY(safetensors_write(context, e->path, &keys, &values, sources, sizeof sources / sizeof sources[0] - !crowds));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    text_builder_free(&ids);
    release(context, labels);
    release(context, members);
    return status;
}

/* Which pictures are extracted: all, or those of the shard. */
static l3a_status take_shard(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t all = l3a_dataset_rows(e->dataset), shard = e->options.shard, shards = e->options.shards;
    const size_t batches = all_batches(e);
    FAIL_IF(!all, context, L3A_ERROR_DATA, "choose another split", "the data set has no pictures");
    FAIL_IF(shards > SHARD_LIMIT || (shards ? !shard || shard > shards : shard), context, L3A_ERROR_ARGUMENT,
            "number the shards from 1, up to a million of them", "there is no shard %zu of %zu", shard, shards);
    e->rows = all;
    if (shards) {
        const size_t last = batches * shard / shards * e->batch;
        e->first = batches * (shard - 1) / shards * e->batch;
        e->rows = (last < all ? last : all) - e->first;
    }
done:
    return status;
}

static l3a_status extraction_prepare(struct extraction *e) {
    l3a_context *context = e->context;
    const size_t row = view_rows(e->views) * e->info->width;
    l3a_status status = L3A_OK;
    TRY(allocate(context, e->rows, sizeof *e->pictures, &e->pictures));
    for (size_t i = 0; i < e->rows; i++) {
        e->pictures[i] = dataset_source(e->dataset, e->first + i);
    }
    TRY(allocate(context, e->batch, row * sizeof *e->features, &e->features));
    TRY(allocate(context, row, sizeof *e->halves, &e->halves));
done:
    return status;
}

/* Extracts what is missing, the same way as what is there. */
static l3a_status extract_pictures(struct extraction *e) {
    const size_t row = view_rows(e->views) * e->info->width;
    l3a_status status = L3A_OK;
    bool again = true;
    while (again) {
        find_engine(e, e->engine);
        part_file_close(&e->part);
        TRY(part_file_open(e->context, e->path, identity(e), e->rows, e->batch, row, &e->part));
        TRY(list_todo(e));
        TRY(extract_todo(e, &again));
    }
done:
    return status;
}

static void extraction_free(struct extraction *e) {
    l3a_context *context = e->context;
    part_file_close(&e->part);
    release(context, e->good);
    forget_todo(e);
    release(context, e->pictures);
    release(context, e->features);
    release(context, e->halves);
    text_list_clear(context, &e->bad);
}

l3a_status extract_named(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset, const char *name,
                         const l3a_extract_options *options, const char *path, l3a_extract_report *report) {
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    struct extraction e = {.context = context,
                           .backbone = backbone,
                           .info = l3a_backbone_describe(backbone),
                           .dataset = dataset,
                           .name = name,
                           .path = path};
    TRY(READ_SIZED(context, options, e.options));
    TRY(picture_options_read(context, e.options.picture, &e.picture));
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    e.batch = backbone_batch(backbone);
    e.views = e.options.views ? e.options.views : 1;
    FAIL_IF(!views_known(e.views), context, L3A_ERROR_ARGUMENT, "use 1, 5, 9 or 14", "pictures cannot have %zu views", e.views);
    TRY(take_shard(&e));
    TRY(extraction_prepare(&e));
    TRY(extract_pictures(&e));
    TRY(sort_out_rows(&e));
    TRY(write_features(&e));
    TRY(remove_file(context, e.part.path));
    if (report) {
        const l3a_extract_report own = {.size = sizeof own,
                                        .rows = e.good_count,
                                        .bad = e.bad.count,
                                        .resumed = e.rows - e.todo.picture_count,
                                        .seconds = clock_seconds() - start};
        TRY(WRITE_SIZED(context, report, own));
    }
done:
    extraction_free(&e);
    return status;
}

l3a_status l3a_extract(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset, const l3a_extract_options *options,
                       const char *path, l3a_extract_report *report) {
    l3a_status status = L3A_OK;
    NEED(context, context, backbone, dataset, path);
    TRY(extract_named(context, backbone, dataset, dataset->name, options, path, report));
done:
    return status;
}
