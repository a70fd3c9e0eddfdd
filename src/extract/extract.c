/* Extraction: runs the pictures of a data set through a backbone and writes a feature file.
 *
 * PATH.part holds a header of 32 bytes (the name of the format, the identity of the work, the numbers of a picture, which tell its
 * views) and then one record per picture, in order: its seal, a float that says whether it could be read, and its features, those
 * of all views. The seal is a checksum of the identity, the picture's file and the record; up to version 0.8 it was that of the
 * picture's file alone. Records are written batch by batch, so the length of the file says how far an earlier extraction got.
 * Resuming compares the seals with the current pictures, and extracts a batch again if a picture has changed, or if a power cut has
 * left a record that is not whole. Only the header is synced, before the first record: a file that begins otherwise is not ours. At
 * the end, the feature file is written from the records in one step.
 *
 * A shard is a run of whole batches, because the last bits of features depend on the batch: batches b with
 * ⌊B(i-1)/n⌋ <= b < ⌊Bi/n⌋ of B for shard i of n. So shards have the bytes that one process would have written (join.c). */
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "image/picture.h"
#include "data/dataset.h"
#include "data/features.h"
#include "extract/intake.h"
#include "format/safetensors.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = INTAKE_BATCH, HEAD = 32, RECORD_HEAD = 3 /* floats before the features: seal, flag */ };

/* Neither is 0, the flag of a record that was never written. */
static const float READ = 1, UNREADABLE = 2;
static const char part_name[16] = "l3a extraction 2", old_part_name[16] = "l3a extraction 1";

struct extraction {
    l3a_context *context;
    l3a_backbone *backbone;
    const l3a_backbone_info *info;
    l3a_dataset *dataset;
    l3a_extract_options options;
    l3a_picture_options picture;
    const char *path;
    char *part;
    int file;
    size_t first;      /* picture of the data set */
    size_t rows, held; /* pictures; records in the part file from an earlier extraction */
    size_t views, row; /* views; numbers of a picture: those of all views */
    size_t record;     /* bytes */
    uint64_t identity; /* of the work */
    size_t *todo;      /* the first picture of each batch to extract */
    size_t todo_count;
    size_t todo_rows;        /* pictures in those batches */
    const char **todo_paths; /* of those pictures */
    size_t *good;            /* rows that could be read */
    size_t good_count;
    text_list bad;
    const char **paths;
    float *features; /* of a row */
    float *records;  /* of a batch */
};

/* Equal for the same pictures, in the same order, through the same network, with the same preprocessing. */
static uint64_t identity(const struct extraction *e) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    const char *const texts[] = {e->info->sha256, e->info->preprocess, e->info->pool};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        XXH3_64bits_update(&state, texts[i], strlen(texts[i]) + 1);
    }
    for (size_t i = 0; i < e->rows; i++) {
        XXH3_64bits_update(&state, e->paths[i], strlen(e->paths[i]) + 1);
    }
    XXH3_64bits_update(&state, &e->picture.orient, sizeof e->picture.orient);
    XXH3_64bits_update(&state, &e->picture.pixel_limit, sizeof e->picture.pixel_limit);
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
        XXH3_64bits_update(&state, record->values[i], strlen(record->values[i]) + 1);
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
    return XXH3_64bits_digest(&state);
}

static l3a_status write_part(const struct extraction *e, uint64_t offset, const void *bytes, size_t count) {
    const output_file output = {.context = e->context, .path = e->part, .file = e->file};
    return output_write(&output, offset, bytes, count);
}

static l3a_status read_part(const struct extraction *e, uint64_t offset, void *bytes, size_t count) {
    const input_file input = {.context = e->context, .path = e->part, .file = e->file};
    return input_read(&input, offset, bytes, count);
}

static void make_head(const struct extraction *e, char head[HEAD]) {
    const uint64_t row = e->row;
    memcpy(head, part_name, sizeof part_name);
    memcpy(head + 16, &e->identity, sizeof e->identity);
    memcpy(head + 24, &row, sizeof row);
}

/* The number of pictures in the batch that begins with picture `first`. */
static size_t batch_size(const struct extraction *e, size_t first) {
    return e->rows - first < BATCH ? e->rows - first : BATCH;
}

/* XXH3 of a picture's current file; 0 if it cannot be read. */
static uint64_t file_checksum(l3a_context *context, const char *path) {
    input_file input;
    uint64_t checksum = 0;
    if (input_open(context, path, &input) == L3A_OK && input_checksum(&input, 0, input.size, &checksum) != L3A_OK) {
        checksum = 0;
    }
    input_close(&input);
    return checksum;
}

/* Of a record: what follows the seal counts. */
static uint64_t seal_of(const struct extraction *e, const float *record, uint64_t checksum) {
    const uint64_t numbers[] = {e->identity, checksum};
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, numbers, sizeof numbers);
    XXH3_64bits_update(&state, (const char *)record + sizeof(uint64_t), e->record - sizeof(uint64_t));
    return XXH3_64bits_digest(&state);
}

/* Whether a record is whole, and of the picture as it is now. */
static bool is_sealed(const struct extraction *e, const float *record, uint64_t checksum) {
    uint64_t seal;
    memcpy(&seal, record, sizeof seal);
    return seal == seal_of(e, record, checksum) || seal == checksum;
}

/* Finds the first picture of a batch whose record is missing or out of date, or the end of the batch. With `strict`, pictures that
 * could not be read are tried again. */
static l3a_status find_stale(struct extraction *e, size_t first, size_t *stale, bool *changed) {
    l3a_status status = L3A_OK;
    const size_t last = first + batch_size(e, first);
    *changed = false;
    for (*stale = first; *stale < last && last <= e->held; ++*stale) {
        TRY(read_part(e, HEAD + *stale * e->record, e->records, e->record));
        const float flag = e->records[RECORD_HEAD - 1];
        const bool known = flag == READ || flag == UNREADABLE;
        *changed = known && !is_sealed(e, e->records, file_checksum(e->context, e->paths[*stale]));
        if (!known || *changed || (flag == UNREADABLE && e->options.strict)) {
            break;
        }
    }
done:
    return status;
}

/* Lists whole batches only, so that each picture is computed as in an extraction without interruption. */
static l3a_status list_todo(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    size_t changes = 0, example = 0;
    TRY(allocate(context, e->rows / BATCH + 1, sizeof *e->todo, &e->todo));
    TRY(allocate(context, e->rows, sizeof *e->todo_paths, &e->todo_paths));
    for (size_t first = 0; first < e->rows; first += BATCH) {
        const size_t count = batch_size(e, first);
        size_t stale;
        bool changed;
        if (first < e->held) {
            TRY(report_progress(context, "check", first, e->held));
        }
        TRY(find_stale(e, first, &stale, &changed));
        if (stale < first + count) {
            memcpy(e->todo_paths + e->todo_rows, e->paths + first, count * sizeof *e->paths);
            e->todo[e->todo_count++] = first;
            e->todo_rows += count;
        }
        example = changed && !changes ? stale : example;
        changes += changed;
    }
    if (changes) {
        report_warning(context,
                       "%s has changed since it was extracted, or what was kept of it is damaged: %zu batch%s of %d pictures %s "
                       "extracted again",
                       e->paths[example], changes, changes == 1 ? "" : "es", BATCH, changes == 1 ? "is" : "are");
    }
done:
    return status;
}

/* Checks that the file is empty or begins like a part file of any version. A power cut can leave zeros where the header should be,
 * and then nothing else. */
static l3a_status check_owner(const struct extraction *e, uint64_t size) {
    enum { NAMED = sizeof "l3a extraction" };
    static const char zeros[HEAD];
    l3a_status status = L3A_OK;
    char found[HEAD];
    const size_t count = size < HEAD ? (size_t)size : HEAD;
    TRY(read_part(e, 0, found, count));
    const bool unwritten = size <= HEAD && memcmp(found, zeros, count) == 0;
    FAIL_IF(!unwritten && memcmp(found, part_name, count < NAMED ? count : NAMED) != 0, e->context, L3A_ERROR_EXISTS,
            "move it away, or choose another file",
            "%s: l3a needs this name for its intermediate results, but the file is not one of its own", e->part);
done:
    return status;
}

/* Opens or creates the part file, for this process alone. */
static l3a_status claim_part(struct extraction *e, uint64_t *size) {
    const file_operations *files = e->context->files;
    l3a_status status = L3A_OK;
    output_target target = {0};
    TRY(target_find(e->context, e->path, &target));
    e->file = files->open(e->part, O_RDWR | O_CREAT | O_NOFOLLOW, target_mode(&target));
    const int code = e->file < 0 || files->lock(e->file, e->part) || files->size(e->file, size) ? errno : 0;
    FAIL_IF(code == EWOULDBLOCK || code == EDEADLK || code == ESTALE, e->context, L3A_ERROR_IO,
            "wait until it has finished, or choose another file", "%s: %s process is extracting to this file", e->part,
            code == EDEADLK ? "this" : "another");
    FAIL_IF(code == ELOOP || code == ESPIPE || code == ENXIO, e->context, L3A_ERROR_EXISTS, "move it away, or choose another file",
            "%s: l3a needs this name for its intermediate results, but it is not a regular file", e->part);
    if (code) {
        status = fail_system(e->context, e->part, "write", code);
        goto done;
    }
    TRY(check_owner(e, *size));
done:
    target_free(e->context, &target);
    return status;
}

/* Begins the part file. The records of other work are gone before the header says that they are of this one. */
static l3a_status begin_part(const struct extraction *e, const char head[HEAD], bool longer) {
    const file_operations *files = e->context->files;
    l3a_status status = L3A_OK;
    if (longer && files->sync(e->file)) {
        status = fail_system(e->context, e->part, "sync", errno);
        goto done;
    }
    TRY(write_part(e, 0, head, HEAD));
    if (files->sync(e->file)) {
        status = fail_system(e->context, e->part, "sync", errno);
    }
done:
    return status;
}

/* Keeps the records in the part file if they are of the same work; otherwise discards them. */
static l3a_status open_part(struct extraction *e) {
    l3a_status status = L3A_OK;
    char head[HEAD], found[HEAD];
    uint64_t size = 0;
    TRY(claim_part(e, &size));
    make_head(e, head);
    if (size >= HEAD) {
        TRY(read_part(e, 0, found, HEAD));
        const uint64_t held = memcmp(head, found, HEAD) == 0 ? (size - HEAD) / e->record : 0;
        e->held = held < e->rows ? (size_t)held : e->rows;
        if (memcmp(found, old_part_name, sizeof old_part_name) == 0) {
            report_warning(e->context,
                           "%s was written by an older version that did not record the pictures' checksums: "
                           "the extraction starts again",
                           e->part);
        }
    }
    if (e->context->files->truncate(e->file, (off_t)(e->held ? HEAD + e->held * e->record : 0))) {
        status = fail_system(e->context, e->part, "write", errno);
        goto done;
    }
    if (!e->held) {
        TRY(begin_part(e, head, size > HEAD));
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

static l3a_status write_batch(const struct extraction *e, size_t first, const struct intake *intake) {
    const float *features = intake->features;
    memset(e->records, 0, intake->count * e->record);
    for (size_t i = 0; i < intake->count; i++) {
        const struct arrival *arrival = &intake->arrivals[i];
        float *record = e->records + i * (RECORD_HEAD + e->row);
        record[RECORD_HEAD - 1] = arrival->status == L3A_OK ? READ : UNREADABLE;
        if (arrival->status == L3A_OK) {
            memcpy(record + RECORD_HEAD, features, e->row * sizeof *record);
            features += e->row;
        }
        const uint64_t seal = seal_of(e, record, arrival->checksum);
        memcpy(record, &seal, sizeof seal);
    }
    return write_part(e, HEAD + first * e->record, e->records, intake->count * e->record);
}

static l3a_status extract_todo(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    l3a_loader_options options;
    struct intake intake = {0};
    size_t done = 0;
    loader_options_for(e->info, &e->picture, e->views, &options);
    TRY(intake_open(context, e->backbone, &options, e->todo_paths, e->todo_rows, BATCH, &intake));
    for (size_t i = 0; i < e->todo_count; i++) {
        TRY(report_progress(context, "extract", done, e->todo_rows));
        TRY(intake_next(&intake, batch_size(e, e->todo[i])));
        TRY(judge_batch(e, &intake));
        TRY(write_batch(e, e->todo[i], &intake));
        done += intake.count;
    }
    TRY(report_progress(context, "extract", done, e->todo_rows));
done:
    intake_close(&intake);
    return status;
}

static l3a_status sort_out_rows(struct extraction *e) {
    l3a_status status = L3A_OK;
    TRY(allocate(e->context, e->rows, sizeof *e->good, &e->good));
    for (size_t i = 0; i < e->rows; i++) {
        float head[RECORD_HEAD];
        TRY(read_part(e, HEAD + i * e->record, head, sizeof head));
        if (head[RECORD_HEAD - 1] == READ) {
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
    const size_t row_bytes = e->row * (e->options.half ? sizeof(uint16_t) : sizeof(float));
    char *to = bytes;
    while (count) {
        const size_t row = (size_t)(offset / row_bytes), within = (size_t)(offset % row_bytes);
        const size_t part = count < row_bytes - within ? count : row_bytes - within;
        TRY(read_part(e, HEAD + e->good[row] * e->record + RECORD_HEAD * sizeof(float), e->features, e->row * sizeof *e->features));
        if (e->options.half) {
            halves_of_floats(e->features, (uint16_t *)(void *)e->records, e->row);
        }
        memcpy(to, (const char *)(e->options.half ? e->records : e->features) + within, part);
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
    return all / BATCH + (all % BATCH != 0);
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
        TRY(text_record_set(context, keys, values, provenance[i], record.values[i]));
    }
    TRY(add_record(context, keys, values, bad_record, &bad));
    TRY(text_record_set(context, keys, values, "data", e->dataset->name));
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
        const size_t last = batches * shard / shards * BATCH;
        e->first = batches * (shard - 1) / shards * BATCH;
        e->rows = (last < all ? last : all) - e->first;
    }
done:
    return status;
}

static l3a_status extraction_prepare(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t length = strlen(e->path) + 6;
    TRY(allocate(context, length, 1, &e->part));
    snprintf(e->part, length, "%s.part", e->path);
    TRY(allocate(context, e->rows, sizeof *e->paths, &e->paths));
    for (size_t i = 0; i < e->rows; i++) {
        e->paths[i] = l3a_dataset_path(e->dataset, e->first + i);
    }
    TRY(allocate(context, e->row, sizeof *e->features, &e->features));
    TRY(allocate(context, BATCH, e->record, &e->records));
    e->identity = identity(e);
done:
    return status;
}

static void extraction_free(struct extraction *e) {
    l3a_context *context = e->context;
    if (e->file >= 0) {
        context->files->close(e->file);
    }
    release(context, e->part);
    release(context, e->good);
    release(context, e->todo);
    release(context, e->todo_paths);
    release(context, e->paths);
    release(context, e->features);
    release(context, e->records);
    text_list_clear(context, &e->bad);
}

static l3a_status extract(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset, const l3a_extract_options *options,
                          const char *path, l3a_extract_report *report) {
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    struct extraction e = {.context = context,
                           .backbone = backbone,
                           .info = l3a_backbone_describe(backbone),
                           .dataset = dataset,
                           .path = path,
                           .file = -1};
    TRY(READ_SIZED(context, options, e.options));
    TRY(picture_options_read(context, e.options.picture, &e.picture));
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    e.views = e.options.views ? e.options.views : 1;
    FAIL_IF(!views_known(e.views), context, L3A_ERROR_ARGUMENT, "use 1, 5, 9 or 14", "pictures cannot have %zu views", e.views);
    e.row = view_rows(e.views) * e.info->width;
    e.record = (RECORD_HEAD + e.row) * sizeof(float);
    TRY(take_shard(&e));
    TRY(extraction_prepare(&e));
    TRY(open_part(&e));
    TRY(list_todo(&e));
    TRY(extract_todo(&e));
    TRY(sort_out_rows(&e));
    TRY(write_features(&e));
    TRY(remove_file(context, e.part));
    if (report) {
        const l3a_extract_report own = {sizeof own, e.good_count, e.bad.count, e.rows - e.todo_rows, clock_seconds() - start};
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
    TRY(extract(context, backbone, dataset, options, path, report));
done:
    return status;
}
