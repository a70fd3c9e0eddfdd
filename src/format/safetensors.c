#include "format/safetensors.h"

#include "base/write_behind.h"
#include "format/json.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest checkpoints in use have a few thousand tensors per file. Each tensor may have a metadata key for its checksum. */
enum { HEADER_LIMIT = 100 << 20, TENSOR_LIMIT = 100000, METADATA_LIMIT = 2 * TENSOR_LIMIT, SUM_DIGITS = 16 };

static const char damaged[] = "the file is damaged: copy or create it again";
static const char limit_hint[] = "check that this is the right file, and split it if it really holds that many";

static l3a_status parse_metadata(struct json *json, safetensors *file) {
    l3a_status status = L3A_OK;
    char *key = NULL, *value = NULL;
    bool more;
    TRY(json_object(json));
    for (;;) {
        json_text text;
        TRY(json_next_key(json, &text, &more));
        if (!more) {
            break;
        }
        FAIL_IF(file->keys.count == METADATA_LIMIT, file->context, L3A_ERROR_FORMAT, limit_hint, "%s: more than %d metadata keys",
                file->input.path, METADATA_LIMIT);
        TRY(json_text_copy(json, text, &key));
        TRY(json_string(json, &text));
        TRY(json_text_copy(json, text, &value));
        TRY(text_list_add(file->context, &file->keys, key, strlen(key)));
        TRY(text_list_add(file->context, &file->values, value, strlen(value)));
        release(file->context, key);
        release(file->context, value);
        key = value = NULL;
    }
done:
    release(file->context, key);
    release(file->context, value);
    return status;
}

static l3a_status parse_shape(struct json *json, struct tensor *tensor) {
    l3a_status status = L3A_OK;
    bool more;
    TRY(json_array(json));
    for (;;) {
        TRY(json_next_item(json, &more));
        if (!more) {
            break;
        }
        if (tensor->rank == TENSOR_RANK) {
            status = json_fail(json, "more than %d dimensions", TENSOR_RANK);
            goto done;
        }
        TRY(json_integer(json, &tensor->shape[tensor->rank]));
        tensor->rank++;
    }
done:
    return status;
}

/* The start and the end, relative to the end of the header. */
static l3a_status parse_offsets(struct json *json, uint64_t ends[2]) {
    l3a_status status = L3A_OK;
    bool more;
    TRY(json_array(json));
    for (size_t i = 0; i < 2; i++) {
        TRY(json_next_item(json, &more));
        if (!more) {
            status = json_fail(json, "two offsets are expected");
            goto done;
        }
        TRY(json_integer(json, &ends[i]));
    }
    TRY(json_next_item(json, &more));
    if (more) {
        status = json_fail(json, "two offsets are expected");
    }
done:
    return status;
}

static l3a_status parse_tensor(struct json *json, const safetensors *file, uint64_t data, struct tensor *tensor) {
    l3a_status status = L3A_OK;
    uint64_t ends[2] = {0, 0}, elements = 0;
    bool more, typed = false, shaped = false, placed = false;
    TRY(json_object(json));
    for (;;) {
        json_text key, text;
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        if (json_text_is(key, "dtype")) {
            TRY(json_string(json, &text));
            tensor->type = tensor_type_find(text.at, text.length);
            if (tensor->type == TENSOR_TYPES) {
                status =
                    json_fail(json, "tensors of type %.*s are not supported", (int)(text.length < 20 ? text.length : 20), text.at);
                goto done;
            }
            typed = true;
        } else if (json_text_is(key, "shape") && !shaped) {
            TRY(parse_shape(json, tensor));
            shaped = true;
        } else if (json_text_is(key, "data_offsets")) {
            TRY(parse_offsets(json, ends));
            placed = true;
        } else {
            TRY(json_skip(json));
        }
    }
    if (!typed || !shaped || !placed) {
        status = json_fail(json, "tensor '%.100s' lacks dtype, shape or data_offsets", tensor->name);
        goto done;
    }
    const uint64_t available = file->input.size - data;
    if (!tensor_count(tensor, &elements, &tensor->bytes) || ends[1] < ends[0] || ends[1] - ends[0] != tensor->bytes) {
        status = json_fail(json, "the offsets of tensor '%.100s' do not match its shape", tensor->name);
        goto done;
    }
    FAIL_IF(ends[1] > available, file->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: tensor '%s' ends at byte %" PRIu64 ", but the file ends at %" PRIu64, file->input.path, tensor->name,
            data + ends[1], file->input.size);
    tensor->offset = data + ends[0];
done:
    return status;
}

static l3a_status add_tensor(safetensors *file, size_t *capacity, struct tensor **added) {
    l3a_status status = L3A_OK;
    FAIL_IF(file->count == TENSOR_LIMIT, file->context, L3A_ERROR_FORMAT, limit_hint, "%s: more than %d tensors", file->input.path,
            TENSOR_LIMIT);
    TRY(grow_array(file->context, &file->tensors, capacity, file->count + 1, sizeof *file->tensors));
    *added = &file->tensors[file->count++];
    memset(*added, 0, sizeof **added);
done:
    return status;
}

static l3a_status parse_header(safetensors *file, const char *text, size_t length) {
    l3a_status status = L3A_OK;
    const uint64_t data = 8 + (uint64_t)length;
    size_t capacity = 0;
    struct json json;
    bool more, described = false;
    json_begin(&json, file->context, file->input.path, text, length);
    TRY(json_object(&json));
    for (;;) {
        json_text key;
        struct tensor *tensor = NULL;
        TRY(json_next_key(&json, &key, &more));
        if (!more) {
            break;
        }
        if (json_text_is(key, "__metadata__")) {
            if (described) {
                status = json_fail(&json, "__metadata__ is listed twice");
                goto done;
            }
            described = true;
            TRY(parse_metadata(&json, file));
            continue;
        }
        TRY(add_tensor(file, &capacity, &tensor));
        TRY(json_text_copy(&json, key, &tensor->name));
        TRY(parse_tensor(&json, file, data, tensor));
    }
    TRY(json_end(&json));
done:
    return status;
}

/* A name or key that is listed twice would be ambiguous. */
static l3a_status index_names(safetensors *file) {
    l3a_status status = L3A_OK;
    char **names = NULL;
    size_t first = 0;
    TRY(allocate(file->context, file->count, sizeof *names, &names));
    for (size_t i = 0; i < file->count; i++) {
        names[i] = file->tensors[i].name;
    }
    TRY(text_index_make(file->context, names, file->count, &file->name_index));
    TRY(text_index_make(file->context, file->keys.items, file->keys.count, &file->key_index));
    const size_t name = text_index_repeated(&file->name_index, &first), key = text_index_repeated(&file->key_index, &first);
    FAIL_IF(name < file->count, file->context, L3A_ERROR_FORMAT, damaged, "%s: tensor '%s' is listed twice", file->input.path,
            names[name]);
    FAIL_IF(key < file->keys.count, file->context, L3A_ERROR_FORMAT, damaged, "%s: metadata key '%s' is listed twice",
            file->input.path, file->keys.items[key]);
done:
    release(file->context, names);
    return status;
}

static int compare_places(const void *left, const void *right) {
    const struct tensor *a = *(const struct tensor *const *)left, *b = *(const struct tensor *const *)right;
    return a->offset != b->offset ? (a->offset > b->offset) - (a->offset < b->offset)
                                  : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* The format requires that every byte after the header belongs to exactly one tensor. */
static l3a_status check_layout(const safetensors *file, uint64_t data) {
    l3a_status status = L3A_OK;
    const struct tensor **sorted = NULL;
    TRY(allocate(file->context, file->count, sizeof *sorted, &sorted));
    for (size_t i = 0; i < file->count; i++) {
        sorted[i] = &file->tensors[i];
    }
    qsort(sorted, file->count, sizeof *sorted, compare_places);
    for (size_t i = 0; i < file->count; i++) {
        FAIL_IF(sorted[i]->offset != data, file->context, L3A_ERROR_FORMAT, damaged,
                "%s: tensor '%s' begins at byte %" PRIu64 " instead of %" PRIu64 ": tensors overlap or leave a gap",
                file->input.path, sorted[i]->name, sorted[i]->offset, data);
        data += sorted[i]->bytes;
    }
    FAIL_IF(data != file->input.size, file->context, L3A_ERROR_FORMAT, damaged,
            "%s: there are %" PRIu64 " bytes after the last tensor", file->input.path, file->input.size - data);
done:
    release(file->context, sorted);
    return status;
}

static void sum_key(char key[256], const char *name) {
    snprintf(key, 256, "xxh3.%s", name);
}

/* The value of "xxh3.header" in the text of the header, as 16 digits; NULL if there is none. */
static char *find_header_sum(char *text, size_t length) {
    static const char key[] = "\"xxh3.header\":\"";
    char *found = memmem(text, length, key, sizeof key - 1);
    return found && (size_t)(text + length - found) >= sizeof key - 1 + SUM_DIGITS + 1 ? found + sizeof key - 1 : NULL;
}

static l3a_status verify_header(safetensors *file, char *text, size_t length) {
    char *sum = find_header_sum(text, length), stored[SUM_DIGITS + 1] = {0}, computed[SUM_DIGITS + 1];
    if (!sum) {
        return L3A_OK;
    }
    memcpy(stored, sum, SUM_DIGITS);
    memset(sum, '0', SUM_DIGITS);
    snprintf(computed, sizeof computed, "%016" PRIx64, (uint64_t)XXH3_64bits(text, length));
    memcpy(sum, stored, SUM_DIGITS);
    file->summed = true;
    return strcmp(stored, computed) == 0
               ? L3A_OK
               : fail(file->context, L3A_ERROR_CHECKSUM, damaged, "%s: the header's checksum is %s, but the file records %s",
                      file->input.path, computed, stored);
}

l3a_status safetensors_open(l3a_context *context, const char *path, safetensors *file) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    unsigned char start[8];
    memset(file, 0, sizeof *file);
    file->context = context;
    TRY(input_open(context, path, &file->input));
    FAIL_IF(file->input.size < 10, context, L3A_ERROR_FORMAT, damaged, "%s: %" PRIu64 " bytes are too few for a safetensors file",
            path, file->input.size);
    TRY(input_read(&file->input, 0, start, sizeof start));
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) {
        length = length << 8 | start[i];
    }
    char brace = 0;
    TRY(input_read(&file->input, 8, &brace, 1));
    FAIL_IF(brace != '{' || length > HEADER_LIMIT, context, L3A_ERROR_FORMAT, "check that this is the right file",
            "%s: not a safetensors file", path);
    FAIL_IF(length > file->input.size - 8, context, L3A_ERROR_TRUNCATED, damaged,
            "%s: the header needs %" PRIu64 " bytes, but the file has %" PRIu64, path, length, file->input.size);
    TRY(allocate(context, (size_t)length, 1, &text));
    TRY(input_read(&file->input, 8, text, (size_t)length));
    TRY(verify_header(file, text, (size_t)length));
    TRY(parse_header(file, text, (size_t)length));
    TRY(index_names(file));
    TRY(check_layout(file, 8 + length));
    for (size_t i = 0; i < file->keys.count; i++) {
        FAIL_IF(!file->summed && strncmp(file->keys.items[i], "xxh3.", 5) == 0, context, L3A_ERROR_CHECKSUM, damaged,
                "%s: the header's checksum is missing", path);
    }
done:
    release(context, text);
    if (status != L3A_OK) {
        safetensors_close(file);
    }
    return status;
}

void safetensors_close(safetensors *file) {
    if (!file->context) {
        return;
    }
    input_close(&file->input);
    text_list_clear(file->context, &file->keys);
    text_list_clear(file->context, &file->values);
    text_index_free(file->context, &file->key_index);
    text_index_free(file->context, &file->name_index);
    for (size_t i = 0; i < file->count; i++) {
        release(file->context, file->tensors[i].name);
    }
    release(file->context, file->tensors);
    memset(file, 0, sizeof *file);
}

const struct tensor *safetensors_find(const safetensors *file, const char *name) {
    const size_t index = text_index_find(&file->name_index, name);
    return index < file->count ? &file->tensors[index] : NULL;
}

const char *safetensors_metadata(const safetensors *file, const char *key) {
    const size_t index = text_index_find(&file->key_index, key);
    return index < file->values.count ? file->values.items[index] : NULL;
}

bool safetensors_is_summed(const safetensors *file, const struct tensor *tensor) {
    char key[256];
    sum_key(key, tensor->name);
    return safetensors_metadata(file, key) != NULL;
}

l3a_status safetensors_verify_tensor(const safetensors *file, const struct tensor *tensor) {
    l3a_status status = L3A_OK;
    char key[256], computed[SUM_DIGITS + 1];
    uint64_t sum = 0;
    sum_key(key, tensor->name);
    const char *stored = safetensors_metadata(file, key);
    if (!stored) {
        return L3A_OK;
    }
    TRY(input_checksum(&file->input, tensor->offset, tensor->bytes, &sum));
    snprintf(computed, sizeof computed, "%016" PRIx64, sum);
    FAIL_IF(strcmp(stored, computed) != 0, file->context, L3A_ERROR_CHECKSUM, damaged,
            "%s: tensor '%s' (bytes %" PRIu64 " to %" PRIu64 ") has checksum %s, but the file records %s", file->input.path,
            tensor->name, tensor->offset, tensor->offset + tensor->bytes, computed, stored);
done:
    return status;
}

l3a_status safetensors_verify(const safetensors *file) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < file->count; i++) {
        TRY(safetensors_verify_tensor(file, &file->tensors[i]));
    }
done:
    return status;
}

static void shape_text(char *text, size_t capacity, size_t rank, const uint64_t *shape) {
    size_t length = (size_t)snprintf(text, capacity, "[");
    for (size_t i = 0; i < rank && length < capacity; i++) {
        length += (size_t)(shape[i] ? snprintf(text + length, capacity - length, "%s%" PRIu64, i ? ", " : "", shape[i])
                                    : snprintf(text + length, capacity - length, "%s…", i ? ", " : ""));
    }
    if (length < capacity) {
        snprintf(text + length, capacity - length, "]");
    }
}

l3a_status safetensors_expect(const safetensors *file, const char *name, size_t rank, const uint64_t *shape,
                              const struct tensor **tensor) {
    const struct tensor *found = safetensors_find(file, name);
    char wanted[200], have[200];
    shape_text(wanted, sizeof wanted, rank, shape);
    if (!found) {
        return fail(file->context, L3A_ERROR_FORMAT, "check that this is the right file", "%s: tensor '%s' %s is missing",
                    file->input.path, name, wanted);
    }
    bool fits = found->rank == rank;
    for (size_t i = 0; fits && i < rank; i++) {
        fits = !shape[i] || shape[i] == found->shape[i];
    }
    shape_text(have, sizeof have, found->rank, found->shape);
    if (!fits) {
        return fail(file->context, L3A_ERROR_FORMAT, "check that this is the right file",
                    "%s: tensor '%s' has shape %s instead of %s", file->input.path, name, have, wanted);
    }
    *tensor = found;
    return L3A_OK;
}

l3a_status fill_from_memory(void *argument, uint64_t offset, void *bytes, size_t count) {
    memcpy(bytes, (const char *)argument + offset, count);
    return L3A_OK;
}

static uint64_t source_bytes(const tensor_source *source) {
    uint64_t bytes = tensor_type_size(source->type);
    for (size_t i = 0; i < source->rank; i++) {
        bytes *= source->shape[i];
    }
    return bytes;
}

/* The text of the header, padded so that the tensors begin at a multiple of 64 bytes; sums may be NULL for a first draft. */
static void build_header(text_builder *header, const text_list *keys, const text_list *values, const tensor_source *sources,
                         size_t count, const uint64_t *sums) {
    text_builder key = {.context = header->context};
    text_builder_print(header, "{\"__metadata__\":{");
    for (size_t i = 0; i < keys->count; i++) {
        text_builder_json_string(header, keys->items[i]);
        text_builder_print(header, ":");
        text_builder_json_string(header, values->items[i]);
        text_builder_print(header, ",");
    }
    for (size_t i = 0; i < count; i++) {
        key.length = 0;
        text_builder_print(&key, "xxh3.%s", sources[i].name);
        header->status = header->status == L3A_OK ? key.status : header->status;
        text_builder_json_string(header, key.text ? key.text : "");
        text_builder_print(header, ":\"%016" PRIx64 "\",", sums ? sums[i] : 0);
    }
    text_builder_free(&key);
    text_builder_print(header, "\"xxh3.header\":\"%016d\"}", 0);
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        const tensor_source *source = &sources[i];
        text_builder_print(header, ",");
        text_builder_json_string(header, source->name);
        text_builder_print(header, ":{\"dtype\":\"%s\",\"shape\":[", tensor_type_name(source->type));
        for (size_t j = 0; j < source->rank; j++) {
            text_builder_print(header, "%s%" PRIu64, j ? "," : "", source->shape[j]);
        }
        text_builder_print(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, offset + source_bytes(source));
        offset += source_bytes(source);
    }
    text_builder_print(header, "}");
    while (header->status == L3A_OK && (8 + header->length) % 64) {
        text_builder_append(header, " ", 1);
    }
}

static l3a_status write_tensor(write_behind *writer, const tensor_source *source, uint64_t at, uint64_t *sum) {
    l3a_status status = L3A_OK;
    const uint64_t bytes = source_bytes(source);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t offset = 0; offset < bytes; offset += WRITE_CHUNK) {
        const size_t size = bytes - offset < WRITE_CHUNK ? (size_t)(bytes - offset) : WRITE_CHUNK;
        char *chunk;
        TRY(write_behind_room(writer, &chunk));
        TRY(source->fill(source->argument, offset, chunk, size));
        XXH3_64bits_update(&state, chunk, size);
        TRY(write_behind_put(writer, at + offset, size));
    }
    *sum = XXH3_64bits_digest(&state);
done:
    return status;
}

/* Writes the tensors one after another, and returns their checksums. */
static l3a_status write_tensors(const output_file *output, const tensor_source *sources, size_t count, uint64_t at,
                                uint64_t *sums) {
    l3a_status status = L3A_OK;
    write_behind *writer = NULL;
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += source_bytes(&sources[i]);
    }
    if (total > WRITE_CHUNK) {
        TRY(output_reserve(output, at + total));
    }
    TRY(write_behind_create(output, total, &writer));
    for (size_t i = 0; i < count; i++) {
        TRY(write_tensor(writer, &sources[i], at, &sums[i]));
        at += source_bytes(&sources[i]);
    }
    TRY(write_behind_finish(writer));
done:
    write_behind_free(writer);
    return status;
}

l3a_status safetensors_write(l3a_context *context, const char *path, const text_list *keys, const text_list *values,
                             const tensor_source *sources, size_t count) {
    l3a_status status = L3A_OK;
    output_file output = {.file = -1};
    text_builder draft = {.context = context}, header = {.context = context};
    uint64_t *sums = NULL;
    TRY(allocate_zeroed(context, count + 1, sizeof *sums, &sums));
    build_header(&draft, keys, values, sources, count, NULL);
    TRY(draft.status);
    TRY(output_open(context, path, &output));
    TRY(write_tensors(&output, sources, count, 8 + draft.length, sums));
    build_header(&header, keys, values, sources, count, sums);
    TRY(header.status);
    char *sum = find_header_sum(header.text, header.length), digits[SUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)XXH3_64bits(header.text, header.length));
    memcpy(sum, digits, SUM_DIGITS);
    unsigned char length[8];
    for (size_t i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)header.length >> 8 * i);
    }
    TRY(output_write(&output, 0, length, sizeof length));
    TRY(output_write(&output, 8, header.text, header.length));
    TRY(output_commit(&output));
done:
    output_discard(&output);
    text_builder_free(&draft);
    text_builder_free(&header);
    release(context, sums);
    return status;
}
