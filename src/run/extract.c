/* Extraction: the pictures of a data set through a backbone, to a feature file.
 *
 * PATH.part holds a head of 32 bytes (a word that names it, the identity of the work, the width) and then a record for each picture
 * in order: a float that says whether it could be read, and its features. A record is written when its batch is done, so the length
 * of the file says how far an earlier extraction came. The feature file is made from it in one step at the end. */
#include "base/file.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/features.h"
#include "format/safetensors.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 16, HEAD = 32 };

/* The flag of a record that was never written, zero, is neither. */
static const float READ = 1, UNREADABLE = 2;
static const char part_name[16] = "l3a extraction 1";

struct extraction {
    l3a_context *context;
    l3a_backbone *backbone;
    const l3a_backbone_info *info;
    l3a_dataset *dataset;
    l3a_extract_options options;
    const char *path;
    char *part;
    int file;
    size_t rows, done; /* pictures, and records in the part file */
    size_t record;     /* bytes */
    size_t *good;      /* rows that could be read */
    size_t good_count;
    text_list bad;
    const char **paths;
    float *planes, *features, *records;
};

void l3a_extract_options_default(l3a_extract_options *options) {
    memset(options, 0, sizeof *options);
    l3a_picture_options_default(&options->picture);
}

/* The same pictures, in the same order, through the same network, prepared in the same way. */
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
    XXH3_64bits_update(&state, &e->options.picture.orient, sizeof e->options.picture.orient);
    XXH3_64bits_update(&state, &e->options.picture.pixel_limit, sizeof e->options.picture.pixel_limit);
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
    const uint64_t id = identity(e), width = e->info->width;
    memcpy(head, part_name, sizeof part_name);
    memcpy(head + 16, &id, sizeof id);
    memcpy(head + 24, &width, sizeof width);
}

/* Whole batches only, so that every picture goes the same way as in one go; strict looks again at what was bad. */
static l3a_status count_done(struct extraction *e, size_t held) {
    l3a_status status = L3A_OK;
    for (e->done = 0; e->done < held; e->done++) {
        float flag;
        TRY(read_part(e, HEAD + e->done * e->record, &flag, sizeof flag));
        if (flag != READ && (flag != UNREADABLE || e->options.strict)) {
            break;
        }
    }
    if (e->done < e->rows) {
        e->done -= e->done % BATCH;
    }
done:
    return status;
}

/* A file that is empty or starts as a part file does, of whatever version. */
static l3a_status check_owner(const struct extraction *e, uint64_t size) {
    enum { NAMED = sizeof "l3a extraction" };
    l3a_status status = L3A_OK;
    char found[NAMED];
    const size_t count = size < NAMED ? (size_t)size : NAMED;
    TRY(read_part(e, 0, found, count));
    FAIL_IF(memcmp(found, part_name, count) != 0, e->context, L3A_ERROR_EXISTS, "move it away, or choose another file",
            "%s: is needed for what has been extracted, and is a file that l3a did not make", e->part);
done:
    return status;
}

/* Opens the part file, or makes it, for this process alone. */
static l3a_status claim_part(struct extraction *e, uint64_t *size) {
    const file_operations *files = e->context->files;
    l3a_status status = L3A_OK;
    output_target target = {0};
    TRY(target_find(e->context, e->path, &target));
    e->file = files->open(e->part, O_RDWR | O_CREAT | O_NOFOLLOW, target_mode(&target));
    const int code = e->file < 0 || files->lock(e->file, e->part) || files->size(e->file, size) ? errno : 0;
    FAIL_IF(code == EWOULDBLOCK || code == ESTALE, e->context, L3A_ERROR_IO, "wait until it is done, or choose another file",
            "%s: another process is extracting to this file", e->part);
    FAIL_IF(code == ELOOP || code == ESPIPE || code == ENXIO, e->context, L3A_ERROR_EXISTS, "move it away, or choose another file",
            "%s: is needed for what has been extracted, and is not a regular file", e->part);
    if (code) {
        status = fail_system(e->context, e->part, "write", code);
        goto done;
    }
    TRY(check_owner(e, *size));
done:
    target_free(e->context, &target);
    return status;
}

/* Records of the same work count; other ones in the part file go. */
static l3a_status open_part(struct extraction *e) {
    l3a_status status = L3A_OK;
    char head[HEAD], found[HEAD];
    uint64_t size = 0;
    TRY(claim_part(e, &size));
    make_head(e, head);
    if (size >= HEAD) {
        TRY(read_part(e, 0, found, HEAD));
        const size_t held = memcmp(head, found, HEAD) == 0 ? (size_t)((size - HEAD) / e->record) : 0;
        TRY(count_done(e, held < e->rows ? held : e->rows));
    }
    if (e->context->files->truncate(e->file, (off_t)(e->done ? HEAD + e->done * e->record : 0))) {
        status = fail_system(e->context, e->part, "write", errno);
        goto done;
    }
    if (!e->done) {
        TRY(write_part(e, 0, head, HEAD));
    }
done:
    return status;
}

/* Up to BATCH pictures; those that can be read stand in planes, one after another. */
static l3a_status load_batch(struct extraction *e, l3a_loader *loader, bool readable[BATCH], size_t *count) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t size = 3 * e->info->size * e->info->size;
    size_t good = 0;
    for (*count = 0; *count < BATCH && e->done + *count < e->rows; ++*count) {
        size_t index;
        status = l3a_loader_next(loader, &index, e->planes + good * size);
        readable[*count] = status == L3A_OK;
        good += status == L3A_OK;
        if (status == L3A_ERROR_CANCELLED || (status != L3A_OK && (e->options.strict || status == L3A_ERROR_MEMORY))) {
            return status;
        }
        if (status != L3A_OK) {
            report_warning(context, "%s", l3a_error_text(context));
        }
    }
    return L3A_OK;
}

static l3a_status finish_batch(struct extraction *e, const bool readable[BATCH], size_t count) {
    l3a_status status = L3A_OK;
    const size_t width = e->info->width;
    size_t good = 0;
    for (size_t i = 0; i < count; i++) {
        good += readable[i];
    }
    if (good) {
        TRY(l3a_backbone_run(e->backbone, e->planes, good, e->features));
    }
    good = 0;
    memset(e->records, 0, count * e->record);
    for (size_t i = 0; i < count; i++) {
        float *record = e->records + i * (width + 1);
        record[0] = readable[i] ? READ : UNREADABLE;
        if (readable[i]) {
            memcpy(record + 1, e->features + good++ * width, width * sizeof *record);
        }
    }
    TRY(write_part(e, HEAD + e->done * e->record, e->records, count * e->record));
    e->done += count;
done:
    return status;
}

static l3a_status extract_rest(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    l3a_loader *loader = NULL;
    l3a_loader_options options;
    const size_t first = e->done;
    l3a_loader_options_default(&options);
    options.width = options.height = e->info->size;
    options.filter = e->info->filter;
    options.picture = e->options.picture;
    memcpy(options.mean, e->info->mean, sizeof options.mean);
    memcpy(options.deviation, e->info->deviation, sizeof options.deviation);
    TRY(l3a_loader_create(context, e->paths + first, e->rows - first, &options, &loader));
    while (e->done < e->rows) {
        bool readable[BATCH];
        size_t count;
        TRY(report_progress(context, "extract", e->done - first, e->rows - first));
        TRY(load_batch(e, loader, readable, &count));
        TRY(finish_batch(e, readable, count));
    }
    TRY(report_progress(context, "extract", e->rows - first, e->rows - first));
done:
    l3a_loader_free(loader);
    return status;
}

static l3a_status sort_out_rows(struct extraction *e) {
    l3a_status status = L3A_OK;
    TRY(allocate(e->context, e->rows, sizeof *e->good, &e->good));
    for (size_t i = 0; i < e->rows; i++) {
        float flag;
        TRY(read_part(e, HEAD + i * e->record, &flag, sizeof flag));
        if (flag == READ) {
            e->good[e->good_count++] = i;
        } else {
            const char *id = l3a_dataset_id(e->dataset, i);
            TRY(text_list_add(e->context, &e->bad, id, strlen(id)));
        }
    }
    FAIL_IF(!e->good_count, e->context, L3A_ERROR_DATA, "check the pictures with 'l3a data --check-pictures'",
            "none of the %zu pictures could be read", e->rows);
done:
    return status;
}

/* Bytes of the features tensor, a row at a time. */
static l3a_status fill_rows(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct extraction *e = argument;
    l3a_status status = L3A_OK;
    const size_t width = e->info->width, size = e->options.half ? sizeof(uint16_t) : sizeof(float), row_bytes = width * size;
    char *to = bytes;
    while (count) {
        const size_t row = (size_t)(offset / row_bytes), within = (size_t)(offset % row_bytes);
        const size_t part = count < row_bytes - within ? count : row_bytes - within;
        TRY(read_part(e, HEAD + e->good[row] * e->record + sizeof(float), e->features, width * sizeof *e->features));
        if (e->options.half) {
            halves_of_floats(e->features, (uint16_t *)(void *)e->records, width);
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

/* The rows of a [pictures x classes] table of the data set that could be read. */
static l3a_status gather_good(const struct extraction *e, const int8_t *table, int8_t **rows) {
    const size_t classes = l3a_dataset_class_count(e->dataset);
    const l3a_status status = allocate(e->context, e->good_count, classes, rows);
    for (size_t i = 0; status == L3A_OK && i < e->good_count; i++) {
        memcpy(*rows + i * classes, table + e->good[i] * classes, classes);
    }
    return status;
}

/* Whether there is a picture that belongs to a class it is not labelled with: a crowd. */
static bool has_other_members(const int8_t *labels, const int8_t *members, size_t count) {
    size_t i = 0;
    while (i < count && (labels[i] == 1) == members[i]) {
        i++;
    }
    return i < count;
}

static l3a_status write_features(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t classes = l3a_dataset_class_count(e->dataset);
    text_list keys = {0}, values = {0};
    text_builder names = {.context = context}, ids = {.context = context}, bad = {.context = context};
    int8_t *labels = NULL, *members = NULL;
    char preprocess[160];
    snprintf(preprocess, sizeof preprocess, "%s%s", e->info->preprocess, e->options.picture.orient ? " oriented" : "");
    TRY(gather_good(e, l3a_dataset_labels(e->dataset), &labels));
    TRY(gather_good(e, l3a_dataset_members(e->dataset), &members));
    for (size_t i = 0; i < e->good_count; i++) {
        text_builder_print(&ids, "%s%s", i ? "\n" : "", l3a_dataset_id(e->dataset, e->good[i]));
    }
    for (size_t i = 0; i < classes; i++) {
        text_builder_print(&names, "%s%s", i ? "\n" : "", l3a_dataset_class(e->dataset, i));
    }
    for (size_t i = 0; i < e->bad.count; i++) {
        text_builder_print(&bad, "%s%s", i ? "\n" : "", e->bad.items[i]);
    }
    TRY(ids.status);
    TRY(add_record(context, &keys, &values, "classes", &names));
    TRY(text_record_set(context, &keys, &values, "backbone", e->info->name));
    TRY(text_record_set(context, &keys, &values, "sha256", e->info->sha256));
    TRY(text_record_set(context, &keys, &values, "preprocess", preprocess));
    TRY(text_record_set(context, &keys, &values, "pool", e->info->pool));
    TRY(add_record(context, &keys, &values, "bad", &bad));
    TRY(text_record_set(context, &keys, &values, "data", e->dataset->name));
    TRY(text_record_set(context, &keys, &values, "split", e->dataset->split));
    if (e->dataset->ignores_difficult) {
        TRY(text_record_set(context, &keys, &values, difficult_record, "ignore"));
    }
    const tensor_source sources[] = {
        {"features", e->options.half ? TENSOR_F16 : TENSOR_F32, 2, {e->good_count, e->info->width}, fill_rows, e},
        {"labels", TENSOR_I8, 2, {e->good_count, classes}, fill_from_memory, labels},
        {"ids", TENSOR_U8, 1, {ids.length}, fill_from_memory, ids.text},
        {"members", TENSOR_I8, 2, {e->good_count, classes}, fill_from_memory, members}, /* only where it says more than the labels
                                                                                         */
    };
    const bool crowds = has_other_members(labels, members, e->good_count * classes);
    TRY(safetensors_write(context, e->path, &keys, &values, sources, sizeof sources / sizeof sources[0] - !crowds));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    text_builder_free(&names);
    text_builder_free(&ids);
    text_builder_free(&bad);
    release(context, labels);
    release(context, members);
    return status;
}

static l3a_status extraction_prepare(struct extraction *e) {
    l3a_context *context = e->context;
    l3a_status status = L3A_OK;
    const size_t length = strlen(e->path) + 6;
    FAIL_IF(!e->rows, context, L3A_ERROR_DATA, "choose another split", "the data set has no picture");
    TRY(allocate(context, length, 1, &e->part));
    snprintf(e->part, length, "%s.part", e->path);
    TRY(allocate(context, e->rows, sizeof *e->paths, &e->paths));
    for (size_t i = 0; i < e->rows; i++) {
        e->paths[i] = l3a_dataset_path(e->dataset, i);
    }
    TRY(allocate(context, (size_t)BATCH * 3 * e->info->size * e->info->size, sizeof *e->planes, &e->planes));
    TRY(allocate(context, BATCH * e->info->width, sizeof *e->features, &e->features));
    TRY(allocate(context, BATCH, e->record, &e->records));
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
    release(context, e->paths);
    release(context, e->planes);
    release(context, e->features);
    release(context, e->records);
    text_list_clear(context, &e->bad);
}

l3a_status l3a_extract(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset, const l3a_extract_options *options,
                       const char *path, l3a_extract_report *report) {
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    struct extraction e = {.context = context,
                           .backbone = backbone,
                           .info = l3a_backbone_describe(backbone),
                           .dataset = dataset,
                           .path = path,
                           .file = -1,
                           .rows = l3a_dataset_rows(dataset)};
    l3a_extract_options_default(&e.options);
    if (options) {
        e.options = *options;
    }
    e.record = (e.info->width + 1) * sizeof(float);
    TRY(extraction_prepare(&e));
    TRY(open_part(&e));
    const size_t resumed = e.done;
    TRY(extract_rest(&e));
    TRY(sort_out_rows(&e));
    TRY(write_features(&e));
    TRY(remove_file(context, e.part));
    if (report) {
        *report = (l3a_extract_report){e.good_count, e.bad.count, resumed, clock_seconds() - start};
    }
done:
    extraction_free(&e);
    return status;
}

l3a_status l3a_backbone_sign(const l3a_backbone *backbone, int orient, l3a_features *features) {
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    l3a_status status = L3A_OK;
    TRY(l3a_features_set_record(features, "backbone", info->name));
    TRY(l3a_features_set_record(features, "sha256", info->sha256));
    char preprocess[160];
    snprintf(preprocess, sizeof preprocess, "%s%s", info->preprocess, orient ? " oriented" : "");
    TRY(l3a_features_set_record(features, "preprocess", preprocess));
    TRY(l3a_features_set_record(features, "pool", info->pool));
done:
    return status;
}
