#include "data/features.h"

#include "common/closest.h"
#include "common/number.h"
#include "base/sized.h"
#include "base/text_index.h"
#include "base/threads.h"
#include "format/npy.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_LIMIT = 16 << 20, CLASS_LIMIT = 1 << 14, VIEWS_LIMIT = 1001 };

const char *const provenance[PROVENANCE] = {"backbone", "sha256", "preprocess", "pool"};

size_t provenance_conflict(const char *const mine[PROVENANCE], const char *const theirs[PROVENANCE]) {
    enum { NAME, CHECKSUM };
    const bool same = mine[CHECKSUM] && theirs[CHECKSUM] && strcmp(mine[CHECKSUM], theirs[CHECKSUM]) == 0;
    size_t i = same ? CHECKSUM : NAME;
    while (i < PROVENANCE && !(mine[i] && theirs[i] && strcmp(mine[i], theirs[i]) != 0)) {
        i++;
    }
    return i;
}

const char difficult_record[] = "difficult", views_record[] = "views", bad_record[] = "bad";
const char shard_record[] = "shard", extraction_record[] = "extraction", batches_record[] = "batches";

/* Where the pictures are, so that they can be shown, and how their labels were read. A model does not compare these records. */
static const char *const origin[] = {"data", "split", difficult_record, shard_record, extraction_record, batches_record};
enum { ORIGIN = sizeof origin / sizeof origin[0] };

bool shard_parse(const char *text, uint64_t *shard, uint64_t *shards) {
    const char *slash = strchr(text, '/');
    return slash && integer_parse(text, (size_t)(slash - text), shard) && integer_parse(slash + 1, strlen(slash + 1), shards) &&
           *shard && *shard <= *shards && *shards <= SHARD_LIMIT;
}

static l3a_status features_new(l3a_context *context, const char *path, l3a_features **features) {
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->input.file = -1;
    made->views = made->stored = 1;
    TRY(copy_text(context, path, strlen(path), &made->path));
    *features = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

void l3a_features_free(l3a_features *features) {
    if (!features) {
        return;
    }
    l3a_context *context = features->context;
    release(context, features->path);
    text_list_clear(context, &features->classes);
    text_list_clear(context, &features->ids);
    text_list_clear(context, &features->record_keys);
    text_list_clear(context, &features->record_values);
    release(context, features->owned_labels);
    release(context, features->members);
    release(context, features->owned_values);
    input_close(&features->input);
    release(context, features->features.name);
    release(context, features);
}

static l3a_status check_classes(l3a_features *features) {
    const text_list *classes = &features->classes;
    l3a_status status = L3A_OK;
    text_index index = {0};
    size_t first = 0;
    FAIL_IF(classes->count > CLASS_LIMIT, features->context, L3A_ERROR_CLASS, "check that this is the right file",
            "%s: more than %d classes", features->path, CLASS_LIMIT);
    for (size_t i = 0; i < classes->count; i++) {
        FAIL_IF(!classes->items[i][0] || strchr(classes->items[i], '\n'), features->context, L3A_ERROR_CLASS,
                "give every class a name, on one line", "%s: class %zu has no usable name", features->path, i);
    }
    TRY(text_index_make(features->context, classes->items, classes->count, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < classes->count, features->context, L3A_ERROR_CLASS, "give every class its own column and its own name",
            "%s: class '%s' is listed twice, at %zu and %zu", features->path, classes->items[second], first, second);
done:
    text_index_free(features->context, &index);
    return status;
}

static l3a_status check_matrix(l3a_features *features, const struct tensor *tensor, const char *path, const char *what) {
    return tensor->rank == 2 ? L3A_OK
                             : fail(features->context, L3A_ERROR_FORMAT, "use a matrix with one row per image",
                                    "%s: %s have %zu dimensions instead of 2", path, what, tensor->rank);
}

/* Takes the shape of the features: [rows, width], or with views [rows, rows of an image, width]. record: what the file says about
 * its views; NULL: nothing. shard: what it says about being one; NULL: it is none, and must have rows. */
static l3a_status take_shape(l3a_features *features, const struct tensor *tensor, const char *record, const char *shard) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    char views[32];
    FAIL_IF(tensor->rank != 2 && tensor->rank != 3, context, L3A_ERROR_FORMAT,
            "use a matrix with one row per image, or an array [images, views, numbers]",
            "%s: the features have %zu dimensions instead of 2 or 3", features->path, tensor->rank);
    const uint64_t each = tensor->rank == 3 ? tensor->shape[1] : 1, width = tensor->shape[tensor->rank - 1];
    FAIL_IF((!tensor->shape[0] && !shard) || !width || !each, context, L3A_ERROR_DATA, "check that this is the right file",
            "%s: no features", features->path);
    FAIL_IF(each == 2 || each > VIEWS_LIMIT, context, L3A_ERROR_FORMAT,
            "give the whole picture alone, or the whole picture and then from 2 to 1000 crops", "%s: an image has %llu views",
            features->path, (unsigned long long)each);
    features->rows = (size_t)tensor->shape[0];
    features->width = (size_t)width;
    features->views = features->stored = each > 1 ? (size_t)each - 1 : 1;
    snprintf(views, sizeof views, "%zu", features->views);
    FAIL_IF(record && strcmp(record, views) != 0, context, L3A_ERROR_MISMATCH, "create the file again",
            "%s: the record says %s views, but an image has %llu rows", features->path, record, (unsigned long long)each);
done:
    return status;
}

static l3a_status take_labels(l3a_features *features, const input_file *input, const struct tensor *labels) {
    l3a_status status = L3A_OK;
    TRY(check_matrix(features, labels, input->path, "the labels"));
    FAIL_IF(labels->shape[0] != features->rows, features->context, L3A_ERROR_MISMATCH, "give features and labels one row per image",
            "%s: %llu rows of labels for %zu rows of features", input->path, (unsigned long long)labels->shape[0], features->rows);
    TRY(allocate(features->context, features->rows, (size_t)labels->shape[1], &features->owned_labels));
    TRY(tensor_read_labels(input, labels, features->owned_labels));
    features->labels = features->owned_labels;
done:
    return status;
}

static l3a_status check_label_columns(l3a_features *features, uint64_t columns) {
    return columns == features->classes.count
               ? L3A_OK
               : fail(features->context, L3A_ERROR_MISMATCH, "name every column of the labels, in order",
                      "%s: %llu columns of labels for %zu class names", features->path, (unsigned long long)columns,
                      features->classes.count);
}

/* Optional: without it, a row belongs to the classes it is labelled with. */
static l3a_status take_members(l3a_features *features, const safetensors *file) {
    l3a_status status = L3A_OK;
    const struct tensor *members = safetensors_find(file, "members");
    const size_t classes = features->classes.count;
    if (!members) {
        return L3A_OK;
    }
    FAIL_IF(!features->labels || members->rank != 2 || members->shape[0] != features->rows || members->shape[1] != classes,
            features->context, L3A_ERROR_MISMATCH, "extract the features again, or leave 'members' out",
            "%s: 'members' needs one row per image and one column per class, like 'labels'", features->path);
    TRY(allocate(features->context, features->rows, classes, &features->members));
    TRY(tensor_read_labels(&file->input, members, features->members));
    for (size_t i = 0; i < features->rows * classes; i++) {
        FAIL_IF(features->members[i] < (features->labels[i] == 1), features->context, L3A_ERROR_DATA,
                "use 1 (belongs to the class's phase) or 0 as a member, and 1 if the label is 1",
                "%s: row %zu, column %zu: member %d and label %d", features->path, i / classes, i % classes, features->members[i],
                features->labels[i]);
    }
done:
    return status;
}

static l3a_status take_ids(l3a_features *features, const safetensors *file) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    const struct tensor *ids = safetensors_find(file, "ids");
    if (!ids) {
        return L3A_OK;
    }
    FAIL_IF(ids->type != TENSOR_U8 || ids->rank != 1, features->context, L3A_ERROR_FORMAT, NULL,
            "%s: 'ids' must be bytes (U8) with one name per line", features->path);
    TRY(allocate(features->context, (size_t)ids->bytes, 1, &text));
    TRY(input_read(&file->input, ids->offset, text, (size_t)ids->bytes));
    FAIL_IF(memchr(text, '\0', (size_t)ids->bytes), features->context, L3A_ERROR_FORMAT, "create the file again",
            "%s: 'ids' contains a zero byte", features->path);
    TRY(text_list_split_lines(features->context, &features->ids, text, (size_t)ids->bytes));
    FAIL_IF(features->ids.count != features->rows, features->context, L3A_ERROR_MISMATCH, "create the file again",
            "%s: %zu ids for %zu rows of features", features->path, features->ids.count, features->rows);
done:
    release(features->context, text);
    return status;
}

static l3a_status take_records(l3a_features *features, const safetensors *file) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < PROVENANCE + ORIGIN; i++) {
        const char *key = i < PROVENANCE ? provenance[i] : origin[i - PROVENANCE];
        const char *value = safetensors_metadata(file, key);
        if (value) {
            TRY(l3a_features_set_record(features, key, value));
        }
    }
done:
    return status;
}

/* Processes that divide the rows read their own part of the features, so they cannot verify the checksum of all. */
static l3a_status verify(const safetensors *file) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < file->count; i++) {
        const bool all = !divides_rows(file->context) || strcmp(file->tensors[i].name, "features") != 0;
        TRY(all ? safetensors_verify_tensor(file, &file->tensors[i]) : L3A_OK);
    }
done:
    return status;
}

l3a_status features_open(l3a_context *context, const char *path, bool may_be_empty, l3a_features **features) {
    static const uint64_t any[2] = {0, 0};
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    safetensors file = {0};
    const struct tensor *values, *labels;
    TRY(features_new(context, path, &made));
    TRY(safetensors_open(context, path, &file));
    TRY(verify(&file));
    values = safetensors_find(&file, "features");
    TRY(values ? L3A_OK : safetensors_expect(&file, "features", 2, any, &values));
    const char *shard = safetensors_metadata(&file, shard_record), *sum = safetensors_metadata(&file, "xxh3.features");
    TRY(take_shape(made, values, safetensors_metadata(&file, views_record), shard));
    FAIL_IF(!made->rows && !may_be_empty, context, L3A_ERROR_DATA, "leave it out; use fewer shards next time",
            "%s: shard %s has no pictures", path, shard);
    made->sum = sum ? strtoull(sum, NULL, 16) : 0;
    const char *classes = safetensors_metadata(&file, "classes");
    if (classes) {
        TRY(text_list_split_lines(context, &made->classes, classes, strlen(classes)));
    }
    TRY(check_classes(made));
    labels = safetensors_find(&file, "labels");
    if (labels) {
        TRY(take_labels(made, &file.input, labels));
        TRY(check_label_columns(made, labels->shape[1]));
    }
    TRY(take_members(made, &file));
    TRY(take_ids(made, &file));
    TRY(take_records(made, &file));
    made->features = *values;
    made->features.name = NULL;
    made->input = file.input;
    file.input = (input_file){.file = -1};
    *features = made;
    made = NULL;
done:
    safetensors_close(&file);
    l3a_features_free(made);
    return status;
}

l3a_status l3a_features_open(l3a_context *context, const char *path, l3a_features **features) {
    l3a_status status = L3A_OK;
    NEED(context, context, path, features);
    TRY(features_open(context, path, false, features));
done:
    return status;
}

static l3a_status default_names(l3a_features *features, uint64_t count) {
    l3a_status status = L3A_OK;
    for (uint64_t i = 0; i < count; i++) {
        char name[32];
        const int length = snprintf(name, sizeof name, "class %llu", (unsigned long long)i);
        TRY(text_list_add(features->context, &features->classes, name, (size_t)length));
    }
done:
    return status;
}

static l3a_status read_names(l3a_features *features, const char *path) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    size_t length;
    TRY(read_whole(features->context, path, NAMES_LIMIT, &text, &length));
    TRY(text_list_split_lines(features->context, &features->classes, text, length));
done:
    release(features->context, text);
    return status;
}

l3a_status l3a_features_open_npy(l3a_context *context, const char *features_path, const char *labels_path, const char *names_path,
                                 l3a_features **features) {
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    input_file label_input = {.file = -1};
    struct tensor labels = {0};
    NEED(context, context, features_path, features);
    TRY(features_new(context, features_path, &made));
    TRY(npy_open(context, features_path, &made->input, &made->features));
    TRY(take_shape(made, &made->features, NULL, NULL));
    if (made->features.fortran) {
        FAIL_IF(made->stored > 1, context, L3A_ERROR_FORMAT, "save numpy.ascontiguousarray(features) instead",
                "%s: features with views must be in C order", features_path);
        TRY(allocate(context, made->rows, made->width * sizeof(float), &made->owned_values));
        TRY(tensor_read_fortran(&made->input, &made->features, made->owned_values));
        made->values = made->owned_values;
    }
    if (names_path) {
        TRY(read_names(made, names_path));
    }
    if (labels_path) {
        TRY(npy_open(context, labels_path, &label_input, &labels));
        TRY(take_labels(made, &label_input, &labels));
        if (!names_path) {
            TRY(default_names(made, labels.shape[1]));
        }
        TRY(check_label_columns(made, labels.shape[1]));
    }
    TRY(check_classes(made));
    *features = made;
    made = NULL;
done:
    input_close(&label_input);
    l3a_features_free(made);
    return status;
}

l3a_status l3a_features_wrap(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t width,
                             const char *const *classes, size_t class_count, l3a_features **features) {
    return l3a_features_wrap_views(context, values, labels, rows, 1, width, classes, class_count, features);
}

l3a_status l3a_features_wrap_views(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t views,
                                   size_t width, const char *const *classes, size_t class_count, l3a_features **features) {
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    NEED(context, context, values, features);
    FAIL_IF(!rows || !width, context, L3A_ERROR_ARGUMENT, NULL, "l3a_features_wrap: %zu rows of %zu numbers", rows, width);
    FAIL_IF(!views || views >= VIEWS_LIMIT, context, L3A_ERROR_ARGUMENT, "use 1, or the number of crops",
            "l3a_features_wrap_views: %zu views", views);
    if (class_count) {
        NEED(context, labels, classes);
        TRY(need_items(context, __func__, "classes", classes, class_count));
    }
    TRY(features_new(context, "features in memory", &made));
    made->rows = rows;
    made->width = width;
    made->views = made->stored = views;
    made->values = values;
    made->labels = class_count ? labels : NULL;
    for (size_t i = 0; i < class_count; i++) {
        TRY(text_list_add(context, &made->classes, classes[i], strlen(classes[i])));
    }
    TRY(check_classes(made));
    for (size_t i = 0; i < rows * class_count; i++) {
        FAIL_IF(labels[i] < -1 || labels[i] > 1, context, L3A_ERROR_DATA, "use 1 (present), 0 (absent) or -1 (unknown) as a label",
                "%s: row %zu, column %zu: label %d", made->path, i / class_count, i % class_count, labels[i]);
    }
    *features = made;
    made = NULL;
done:
    l3a_features_free(made);
    return status;
}

struct saving {
    l3a_features *features;
    bool half;
    float *row;
    uint16_t *halves; /* of the row */
};

/* Rounding to float16 makes large numbers infinite. */
static l3a_status round_row(const struct saving *saving, size_t row) {
    const l3a_features *features = saving->features;
    const size_t width = features_row(features);
    l3a_status status = L3A_OK;
    halves_of_floats(saving->row, saving->halves, width);
    for (size_t i = 0; i < width; i++) {
        FAIL_IF((saving->halves[i] & 0x7C00) == 0x7C00, features->context, L3A_ERROR_DATA, "save them as float32",
                "%s: row %zu, column %zu: %g is too large for float16", features->path, row, i % features->width,
                (double)saving->row[i]);
    }
done:
    return status;
}

static l3a_status fill_features(void *argument, uint64_t offset, void *bytes, size_t count) {
    const struct saving *saving = argument;
    const void *from = saving->half ? (const void *)saving->halves : saving->row;
    const size_t stride = features_row(saving->features) * (saving->half ? sizeof *saving->halves : sizeof *saving->row);
    l3a_status status = L3A_OK;
    char *to = bytes;
    while (count) {
        const size_t row = (size_t)(offset / stride), within = (size_t)(offset % stride), left = stride - within;
        const size_t size = count < left ? count : left;
        TRY(l3a_features_read(saving->features, NULL, row, 1, saving->row));
        TRY(saving->half ? round_row(saving, row) : L3A_OK);
        memcpy(to, (const char *)from + within, size);
        to += size;
        offset += size;
        count -= size;
    }
done:
    return status;
}

tensor_source features_source(uint64_t rows, size_t views, size_t width, tensor_type type, tensor_fill *fill, void *argument) {
    tensor_source source = {"features", type, 2, {rows, width}, fill, argument};
    if (views > 1) {
        source.rank = 3;
        source.shape[1] = view_rows(views);
        source.shape[2] = width;
    }
    return source;
}

/* An empty last line needs a newline of its own, or it would not be read again. */
static void join_lines(text_builder *text, const text_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        text_builder_print(text, "%s%s", i ? "\n" : "", list->items[i]);
    }
    if (list->count && !list->items[list->count - 1][0]) {
        text_builder_print(text, "\n");
    }
}

/* The metadata of the file. */
static l3a_status describe(const l3a_features *features, text_list *keys, text_list *values) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    text_builder classes = {.context = context};
    join_lines(&classes, &features->classes);
    TRY(classes.status);
    TRY(text_list_add(context, keys, "classes", 7));
    TRY(text_list_add(context, values, classes.length ? classes.text : "", classes.length));
    for (size_t i = 0; i < features->record_keys.count; i++) {
        TRY(text_list_add(context, keys, features->record_keys.items[i], strlen(features->record_keys.items[i])));
        TRY(text_list_add(context, values, features->record_values.items[i], strlen(features->record_values.items[i])));
    }
    if (features->views > 1) {
        char views[32];
        const int length = snprintf(views, sizeof views, "%zu", features->views);
        TRY(text_list_add(context, keys, views_record, strlen(views_record)));
        TRY(text_list_add(context, values, views, (size_t)length));
    }
done:
    text_builder_free(&classes);
    return status;
}

l3a_status l3a_features_save(l3a_features *features, const char *path) {
    l3a_status status = L3A_OK;
    NEED(features ? features->context : NULL, features, path);
    status = l3a_features_save_with(features, NULL, path);
done:
    return status;
}

l3a_status l3a_features_save_with(l3a_features *features, const l3a_save_options *options, const char *path) {
    l3a_context *context = features ? features->context : NULL;
    l3a_status status = L3A_OK;
    l3a_save_options chosen;
    text_list keys = {0}, values = {0};
    text_builder ids = {.context = context};
    struct saving saving = {.features = features};
    tensor_source sources[4];
    size_t count = 0;
    NEED(context, features, path);
    TRY(READ_SIZED(context, options, chosen));
    saving.half = chosen.half != 0;
    TRY(allocate(context, features_row(features), sizeof *saving.row, &saving.row));
    TRY(allocate(context, features_row(features), sizeof *saving.halves, &saving.halves));
    TRY(describe(features, &keys, &values));
    join_lines(&ids, &features->ids);
    TRY(ids.status);
    sources[count++] = features_source(features->rows, features->views, features->width, saving.half ? TENSOR_F16 : TENSOR_F32,
                                       fill_features, &saving);
    if (features->labels) {
        void *labels;
        memcpy(&labels, &features->labels, sizeof labels);
        sources[count++] =
            (tensor_source){"labels", TENSOR_I8, 2, {features->rows, features->classes.count}, fill_from_memory, labels};
    }
    if (features->members) {
        sources[count++] = (tensor_source){"members",        TENSOR_I8,        2, {features->rows, features->classes.count},
                                           fill_from_memory, features->members};
    }
    if (ids.length) {
        sources[count++] = (tensor_source){"ids", TENSOR_U8, 1, {ids.length}, fill_from_memory, ids.text};
    }
    TRY(safetensors_write(context, path, &keys, &values, sources, count));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    text_builder_free(&ids);
    release(context, saving.row);
    release(context, saving.halves);
    return status;
}

size_t l3a_features_rows(const l3a_features *features) {
    return features ? features->rows : 0;
}

size_t l3a_features_width(const l3a_features *features) {
    return features ? features->width : 0;
}

size_t l3a_features_views(const l3a_features *features) {
    return features ? features->views : 0;
}

l3a_status l3a_features_use_views(l3a_features *features, size_t views) {
    l3a_status status = L3A_OK;
    NEED(features ? features->context : NULL, features);
    size_t first;
    FAIL_IF(!views_within(views, features->stored, &first), features->context, L3A_ERROR_MISMATCH,
            features->stored == 1 ? "extract the features with views" : "use those that it has, or 1; of 14, also 5 or 9",
            "%s: %zu views are wanted, but the table has %zu", features->path, views, features->stored);
    features->views = views;
done:
    return status;
}

size_t l3a_features_class_count(const l3a_features *features) {
    return features ? features->classes.count : 0;
}

const char *l3a_features_class(const l3a_features *features, size_t index) {
    return features && index < features->classes.count ? features->classes.items[index] : NULL;
}

const int8_t *l3a_features_labels(const l3a_features *features) {
    return features ? features->labels : NULL;
}

const int8_t *l3a_features_members(const l3a_features *features) {
    return features ? features->members : NULL;
}

const char *l3a_features_id(const l3a_features *features, size_t row) {
    return features && row < features->ids.count ? features->ids.items[row] : NULL;
}

l3a_status l3a_features_set_ids(l3a_features *features, const char *const *ids, size_t count) {
    l3a_context *context = features ? features->context : NULL;
    l3a_status status = L3A_OK;
    text_list copies = {0};
    NEED(context, features, ids);
    TRY(need_items(context, __func__, "ids", ids, count));
    FAIL_IF(count != features->rows, context, L3A_ERROR_ARGUMENT, "give each row one name", "%s: %zu ids for %zu rows",
            features->path, count, features->rows);
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(strchr(ids[i], '\n'), context, L3A_ERROR_DATA, "give every picture a name on one line",
                "%s: the id of row %zu has a line break", features->path, i);
        TRY(text_list_add(context, &copies, ids[i], strlen(ids[i])));
    }
    text_list_clear(context, &features->ids);
    features->ids = copies;
    copies = (text_list){0};
done:
    text_list_clear(context, &copies);
    return status;
}

const char *l3a_features_record(const l3a_features *features, const char *key) {
    const size_t index = features && key ? text_list_find(&features->record_keys, key) : SIZE_MAX;
    return features && index < features->record_values.count ? features->record_values.items[index] : NULL;
}

l3a_status l3a_features_set_record(l3a_features *features, const char *key, const char *value) {
    l3a_status status = L3A_OK;
    NEED(features ? features->context : NULL, features, key, value);
    TRY(text_record_set(features->context, &features->record_keys, &features->record_values, key, value));
done:
    return status;
}

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

l3a_status l3a_features_checksum(l3a_features *features, uint64_t *checksum) {
    l3a_status status = L3A_OK;
    XXH3_state_t state;
    NEED(features ? features->context : NULL, features, checksum);
    if (features->input.file >= 0) {
        TRY(input_checksum(&features->input, 0, features->input.size, checksum));
        goto done;
    }
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, features->values,
                       features->rows * view_rows(features->stored) * features->width * sizeof *features->values);
    if (features->labels) {
        XXH3_64bits_update(&state, features->labels, features->rows * features->classes.count);
    }
    *checksum = XXH3_64bits_digest(&state);
done:
    return status;
}

l3a_status features_columns(l3a_features *features, const char *const *classes, size_t count, size_t *columns) {
    l3a_status status = L3A_OK;
    text_index index = {0};
    FAIL_IF(!features->labels, features->context, L3A_ERROR_DATA,
            "use a feature file with labels, or give labels with the .npy file", "%s: no labels", features->path);
    TRY(text_index_make(features->context, features->classes.items, features->classes.count, &index));
    for (size_t i = 0; i < count; i++) {
        columns[i] = text_index_find(&index, classes[i]);
        if (columns[i] == features->classes.count) {
            char hint[128];
            suggest_closest(hint, sizeof hint, classes[i], (const char *const *)features->classes.items, features->classes.count,
                            "check the class names in the file");
            status = fail(features->context, L3A_ERROR_CLASS, hint, "%s: no class '%s'", features->path, classes[i]);
            goto done;
        }
    }
done:
    text_index_free(features->context, &index);
    return status;
}

static l3a_status rows_marked(l3a_features *features, const int8_t *marks, const size_t *columns, size_t column_count,
                              size_t **rows, size_t *count) {
    l3a_status status = L3A_OK;
    size_t *found = NULL;
    TRY(allocate(features->context, features->rows, sizeof *found, &found));
    *count = 0;
    for (size_t i = 0; i < features->rows; i++) {
        const int8_t *own = marks + i * features->classes.count;
        bool any = false;
        for (size_t j = 0; j < column_count && !any; j++) {
            any = own[columns[j]] == 1;
        }
        found[*count] = i;
        *count += any;
    }
    *rows = found;
done:
    return status;
}

l3a_status features_rows_with(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count) {
    return rows_marked(features, features->labels, columns, column_count, rows, count);
}

l3a_status features_members_of(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count) {
    return rows_marked(features, features->members ? features->members : features->labels, columns, column_count, rows, count);
}

uint64_t features_label_bytes(const l3a_features *features) {
    return (uint64_t)features->rows * features->classes.count * (features->members ? 2 : 1);
}

void features_gather_labels(const l3a_features *features, const size_t *rows, size_t row_count, const size_t *columns,
                            size_t column_count, int8_t *labels) {
    for (size_t i = 0; i < row_count; i++) {
        const int8_t *from = features->labels + rows[i] * features->classes.count;
        for (size_t j = 0; j < column_count; j++) {
            labels[i * column_count + j] = from[columns[j]];
        }
    }
}
