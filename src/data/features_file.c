/* Feature tables in files: safetensors, which are read and written, and NumPy files, which are read. */
#include "base/sized.h"
#include "data/features.h"
#include "format/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_LIMIT = 16 << 20 };

/* Where the pictures are, so that they can be shown, and how their labels were read. A model does not compare these records. */
static const char *const origin[] = {"data", "split", difficult_record, shard_record, extraction_record, batches_record};
enum { ORIGIN = sizeof origin / sizeof origin[0] };

/* ---- Reading ---- */

/* Whether processes hold a part of a table in a file each. */
static bool is_divided(const l3a_context *context) {
    return divides_rows(context) && context->options.processes > 1;
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
    TRY(marks_hold(features, input, labels, &features->labels));
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
    FAIL_IF(!features->labels.held || members->rank != 2 || members->shape[0] != features->rows || members->shape[1] != classes,
            features->context, L3A_ERROR_MISMATCH, "extract the features again, or leave 'members' out",
            "%s: 'members' needs one row per image and one column per class, like 'labels'", features->path);
    TRY(marks_hold(features, &file->input, members, &features->members));
    const int8_t *belongs = features->members.held, *shows = features->labels.held;
    for (size_t i = 0; i < features->members.count * classes; i++) {
        FAIL_IF(belongs[i] < (shows[i] == 1), features->context, L3A_ERROR_DATA,
                "use 1 (belongs to the class's phase) or 0 as a member, and 1 if the label is 1",
                "%s: row %zu, column %zu: member %d and label %d", features->path, features->members.first + i / classes,
                i % classes, belongs[i], shows[i]);
    }
done:
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

/* Processes that divide the rows read their own part of the features, so none verifies the checksum of all. Process 0 verifies
 * those of the rest. */
static l3a_status verify(const safetensors *file) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; leads(file->context) && i < file->count; i++) {
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
    TRY(features_create(context, path, &made));
    made->divided = is_divided(context);
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
    TRY(features_check_classes(made));
    labels = safetensors_find(&file, "labels");
    if (labels) {
        TRY(take_labels(made, &file.input, labels));
        TRY(check_label_columns(made, labels->shape[1]));
    }
    TRY(take_members(made, &file));
    TRY(safetensors_find(&file, "ids") ? ids_take(made, &file.input, safetensors_find(&file, "ids")) : L3A_OK);
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
    TRY(features_create(context, features_path, &made));
    made->divided = is_divided(context);
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
        if (made->divided) {
            made->label_input = label_input;
            label_input = (input_file){.file = -1};
        }
    }
    TRY(features_check_classes(made));
    *features = made;
    made = NULL;
done:
    input_close(&label_input);
    l3a_features_free(made);
    return status;
}

/* ---- Writing ---- */

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

l3a_status l3a_features_save(l3a_features *features, const l3a_save_options *options, const char *path) {
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
    TRY(features_hold_all(features));
    saving.half = chosen.half != 0;
    TRY(allocate(context, features_row(features), sizeof *saving.row, &saving.row));
    TRY(allocate(context, features_row(features), sizeof *saving.halves, &saving.halves));
    TRY(describe(features, &keys, &values));
    join_lines(&ids, &features->ids);
    TRY(ids.status);
    sources[count++] = features_source(features->rows, features->views, features->width, saving.half ? TENSOR_F16 : TENSOR_F32,
                                       fill_features, &saving);
    if (features->labels.held) {
        void *labels;
        memcpy(&labels, &features->labels.held, sizeof labels);
        sources[count++] =
            (tensor_source){"labels", TENSOR_I8, 2, {features->rows, features->classes.count}, fill_from_memory, labels};
    }
    if (features->members.held) {
        sources[count++] = (tensor_source){
            "members", TENSOR_I8, 2, {features->rows, features->classes.count}, fill_from_memory, features->members.owned};
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
