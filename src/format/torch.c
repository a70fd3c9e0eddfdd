/* Turns the object in a checkpoint into a list of tensors, and a tensor into numbers. */
#include "format/torch.h"

#include "base/memory.h"
#include "common/utf8.h"
#include "format/pickle.h"
#include "format/torch_objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEGACY_VERSION = 1001, NEST_LIMIT = 2, NAME_LIMIT = 4096, CHUNK = 1 << 20 };

static const char damaged[] = "the file is damaged: copy, download or save it again";
static const char save_hint[] = "save the weights in PyTorch with torch.save(model.state_dict(), FILE)";

/* The pickled magic number: from protocol 2 on, and before. */
static const char magic[] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
static const char magic_digits[] = "L119547037146038801333356L\n.";

static bool is_legacy(const char *bytes, size_t count) {
    return count && ((*bytes == '\x80' && memmem(bytes, count < 32 ? count : 32, magic, sizeof magic - 1)) ||
                     (count >= sizeof magic_digits - 1 && memcmp(bytes, magic_digits, sizeof magic_digits - 1) == 0));
}

bool torch_recognise(const char *bytes, size_t count) {
    return zip_recognise(bytes, count) || is_legacy(bytes, count);
}

/* ---- The parameters in the object ---- */

static bool holds_tensors(const struct pickle *pickle, uint32_t dict) {
    bool found = false;
    for (uint32_t link = pickle_at(pickle, dict)->as.items.first; link && !found;) {
        const struct pickle_link *key = &pickle->links.items[link], *value = &pickle->links.items[key->next];
        found = pickle_at(pickle, key->value)->kind == PICKLE_TEXT && pickle_at(pickle, value->value)->kind == PICKLE_TENSOR;
        link = value->next;
    }
    return found;
}

/* Where training programs keep the parameters, in the order of preference. DINO saves a student and its teacher, and the teacher is
 * what its authors evaluate. Running means of the parameters (EMA) are taken only where there is nothing else: a file with both was
 * meant to be read as the plain ones. */
static const char *const usual[] = {"model",   "state_dict", "model_state", "teacher",
                                    "student", "model_ema",  "ema",         "state_dict_ema"};

/* Finds the dict of parameters: under one of the usual names, or else this dict itself; 0 if there is none. A tensor beside the
 * parameters, such as the best accuracy so far, does not hide them. */
static uint32_t find_parameters(const struct pickle *pickle, uint32_t index, unsigned depth, const char **name) {
    if (pickle_at(pickle, index)->kind != PICKLE_DICT) {
        return 0;
    }
    for (size_t i = 0; depth && i < sizeof usual / sizeof usual[0]; i++) {
        const uint32_t inner = pickle_find(pickle, index, usual[i]);
        const char *deeper = NULL;
        const uint32_t found = inner ? find_parameters(pickle, inner, depth - 1, &deeper) : 0;
        if (found) {
            *name = deeper ? deeper : usual[i];
            return found;
        }
    }
    return holds_tensors(pickle, index) ? index : 0;
}

/* Names the other dicts: an optimiser, averages of the parameters. Not more than a few, so that a file in which many names stand
 * for the same dict is no burden. */
static l3a_status list_others(struct torch_file *file, const struct pickle *pickle, uint32_t parameters) {
    enum { MOST = 16, SHOWN = 64 };
    text_builder text = {.context = file->context};
    l3a_status status = L3A_OK;
    size_t seen = 0;
    for (uint32_t link = pickle_at(pickle, pickle->root)->as.items.first; link && seen < MOST;) {
        const struct pickle_link *key = &pickle->links.items[link], *item = &pickle->links.items[key->next];
        const struct pickle_value *name = pickle_at(pickle, key->value);
        const char *unused = NULL;
        char shown[SHOWN];
        link = item->next;
        if (pickle_at(pickle, item->value)->kind != PICKLE_DICT || name->kind != PICKLE_TEXT || name->as.text.length >= SHOWN) {
            continue;
        }
        seen++;
        snprintf(shown, sizeof shown, "%.*s", (int)name->as.text.length, pickle_text(pickle, name));
        if (find_parameters(pickle, item->value, NEST_LIMIT - 1, &unused) != parameters && is_utf8(shown) &&
            !utf8_find_hidden(shown)) {
            text_builder_print(&text, "%s%s", text.length ? ", " : "", shown);
        }
    }
    TRY(text.status);
    file->beside = text.text;
    text.text = NULL;
done:
    text_builder_free(&text);
    return status;
}

/* Computes the number of elements, and how far the last is from the first; returns false if they do not fit. */
static bool measure(struct torch_tensor *tensor) {
    uint64_t last = 0;
    tensor->elements = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        uint64_t step = 0;
        if (!multiply_sizes(tensor->elements, tensor->shape[i], &tensor->elements) ||
            (tensor->shape[i] > 1 && !multiply_sizes(tensor->shape[i] - 1, tensor->stride[i], &step)) ||
            __builtin_add_overflow(last, step, &last)) {
            return false;
        }
    }
    tensor->span = tensor->elements ? last + 1 : 0;
    return tensor->elements == 0 || last < UINT64_MAX;
}

static l3a_status check_tensor(const struct torch_file *file, const struct torch_tensor *tensor) {
    l3a_status status = L3A_OK;
    const uint64_t there = file->storages[tensor->storage].bytes;
    uint64_t end = 0, needed = 0;
    FAIL_IF(__builtin_add_overflow(tensor->first, tensor->span, &end) ||
                !multiply_sizes(end, tensor_type_size(tensor->type), &needed),
            file->context, L3A_ERROR_FORMAT, damaged, "%s: tensor '%s' is larger than any storage", file->input.path, tensor->name);
    FAIL_IF(tensor->elements && needed > there, file->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: tensor '%s' needs %" PRIu64 " bytes of its storage, which has %" PRIu64, file->input.path, tensor->name, needed,
            there);
    FAIL_IF(tensor->elements > file->input.size, file->context, L3A_ERROR_FORMAT,
            "save tensor.contiguous() instead of an expanded view",
            "%s: tensor '%s' expands its storage to %" PRIu64 " numbers, in a file of %" PRIu64 " bytes", file->input.path,
            tensor->name, tensor->elements, file->input.size);
done:
    return status;
}

/* What is needed to add a tensor. archive: the prefix of all entry names in the zip form, and empty in the legacy form. */
struct listing {
    struct torch_file *file;
    const struct pickle *pickle;
    const char *archive;
    size_t archive_length;
};

/* Finds the storage in the file that holds a tensor's. */
static l3a_status find_storage(const struct listing *listing, const struct pickle_storage *storage, const char *tensor,
                               size_t *place) {
    const struct torch_file *file = listing->file;
    const struct pickle *pickle = listing->pickle;
    l3a_status status = L3A_OK;
    const struct pickle_value *key = pickle_at(pickle, storage->key);
    const int length = key->as.text.length < NAME_LIMIT ? (int)key->as.text.length : NAME_LIMIT;
    char *path = NULL;
    *place = storage->place;
    if (file->zipped) {
        const size_t room = listing->archive_length + (size_t)length + 6;
        TRY(allocate(file->context, room, 1, &path));
        snprintf(path, room, "%.*sdata/%.*s", (int)listing->archive_length, listing->archive, length, pickle_text(pickle, key));
        const struct zip_entry *entry = zip_find(&file->zip, path, strlen(path));
        *place = entry ? (size_t)(entry - file->zip.entries) : SIZE_MAX;
    }
    FAIL_IF(*place == SIZE_MAX, file->context, L3A_ERROR_FORMAT, damaged, "%s: tensor '%s' is in storage '%.*s', which is missing",
            file->input.path, tensor, length, pickle_text(pickle, key));
done:
    release(file->context, path);
    return status;
}

static l3a_status add_tensor(void *user, const char *name, size_t length, const struct pickle_tensor *from) {
    const struct listing *listing = user;
    struct torch_file *file = listing->file;
    l3a_status status = L3A_OK;
    TRY(grow_array(file->context, &file->tensors, &file->room, file->count + 1, sizeof *file->tensors));
    struct torch_tensor *tensor = &file->tensors[file->count];
    const struct pickle_storage *storage = &listing->pickle->storages.items[from->storage];
    memset(tensor, 0, sizeof *tensor);
    TRY(copy_text(file->context, name, length, &tensor->name));
    file->count++;
    tensor->type = from->type;
    tensor->rank = from->rank;
    memcpy(tensor->shape, from->shape, sizeof tensor->shape);
    memcpy(tensor->stride, from->stride, sizeof tensor->stride);
    FAIL_IF(!measure(tensor) || __builtin_add_overflow(from->first, storage->first, &tensor->first), file->context,
            L3A_ERROR_FORMAT, damaged, "%s: tensor '%s' has a shape larger than any memory", file->input.path, tensor->name);
    TRY(find_storage(listing, storage, tensor->name, &tensor->storage));
    TRY(check_tensor(file, tensor));
done:
    return status;
}

/* The tensors of a dict, under its keys. */
static l3a_status list_dict(struct listing *listing) {
    struct torch_file *file = listing->file;
    const struct pickle *pickle = listing->pickle;
    l3a_status status = L3A_OK;
    const uint32_t parameters = find_parameters(pickle, pickle->root, NEST_LIMIT, &file->dict);
    FAIL_IF(!parameters, file->context, L3A_ERROR_FORMAT, save_hint,
            "%s: no weights: there is no dict of tensors at the top level, or under a usual name such as 'model' or 'state_dict'",
            file->input.path);
    TRY(file->dict ? list_others(file, pickle, parameters) : L3A_OK);
    for (uint32_t link = pickle_at(pickle, parameters)->as.items.first; link;) {
        const struct pickle_link *key = &pickle->links.items[link], *item = &pickle->links.items[key->next];
        const struct pickle_value *name = pickle_at(pickle, key->value), *value = pickle_at(pickle, item->value);
        link = item->next;
        if (name->kind != PICKLE_TEXT || value->kind != PICKLE_TENSOR) {
            continue;
        }
        const char *text = pickle_text(pickle, name);
        const size_t length = name->as.text.length;
        FAIL_IF(length > NAME_LIMIT || memchr(text, '\0', length), file->context, L3A_ERROR_FORMAT, damaged,
                "%s: byte %" PRIu64 ": the name of a tensor is too long, or contains a zero byte", file->input.path,
                pickle->bytes.start + name->as.text.at);
        TRY(add_tensor(listing, text, length, &pickle->tensors.items[value->as.index]));
    }
done:
    return status;
}

static l3a_status list_tensors(struct listing *listing) {
    struct torch_file *file = listing->file;
    const struct pickle *pickle = listing->pickle;
    l3a_status status = L3A_OK;
    if (pickle_at(pickle, pickle->root)->kind != PICKLE_OBJECT) {
        return list_dict(listing);
    }
    file->script = true;
    TRY(torch_objects(pickle, pickle->root, add_tensor, listing));
    FAIL_IF(!file->count, file->context, L3A_ERROR_FORMAT, save_hint, "%s: no weights: no object in it has a tensor",
            file->input.path);
done:
    return status;
}

/* ---- The zip form ---- */

static const struct zip_entry *find_object(const struct zip *zip, size_t *archive_length) {
    static const char wanted[] = "data.pkl";
    const size_t length = sizeof wanted - 1;
    const struct zip_entry *found = NULL;
    for (size_t i = 0; i < zip->count; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        const size_t before = entry->name_length - length;
        if (entry->name_length >= length && memcmp(entry->name + before, wanted, length) == 0 &&
            (!before || entry->name[before - 1] == '/') && (!found || entry->name_length < found->name_length)) {
            found = entry;
            *archive_length = before;
        }
    }
    return found;
}

/* Newer versions of torch record the byte order in a separate entry. */
static l3a_status check_byte_order(struct torch_file *file, const char *archive, size_t archive_length) {
    l3a_status status = L3A_OK;
    char *path = NULL, order[3];
    uint64_t offset;
    const size_t room = archive_length + sizeof "byteorder";
    TRY(allocate(file->context, room, 1, &path));
    snprintf(path, room, "%.*sbyteorder", (int)archive_length, archive);
    const struct zip_entry *entry = zip_find(&file->zip, path, strlen(path));
    if (entry && entry->size >= sizeof order) {
        TRY(zip_verify(&file->zip, entry));
        TRY(zip_place(&file->zip, entry, &offset));
        TRY(input_read(&file->input, offset, order, sizeof order));
        FAIL_IF(memcmp(order, "big", sizeof order) == 0, file->context, L3A_ERROR_FORMAT,
                "save it again on a little-endian machine", "%s: the numbers are big-endian", file->input.path);
    }
done:
    release(file->context, path);
    return status;
}

static l3a_status open_zip(struct torch_file *file) {
    l3a_status status = L3A_OK;
    struct pickle pickle = {0};
    size_t archive_length = 0;
    uint64_t offset;
    TRY(zip_open(&file->input, &file->zip));
    const struct zip_entry *object = find_object(&file->zip, &archive_length);
    FAIL_IF(!object, file->context, L3A_ERROR_FORMAT, save_hint,
            "%s: the zip archive has no data.pkl, so torch.save did not write it", file->input.path);
    TRY(allocate_zeroed(file->context, file->zip.count, sizeof *file->storages, &file->storages));
    file->storage_count = file->zip.count;
    for (size_t i = 0; i < file->zip.count; i++) {
        file->storages[i].bytes = file->zip.entries[i].size;
    }
    TRY(check_byte_order(file, object->name, archive_length));
    TRY(zip_verify(&file->zip, object));
    TRY(zip_place(&file->zip, object, &offset));
    TRY(pickle_read(&file->input, offset, offset + object->size, &pickle));
    TRY(list_tensors(&(struct listing){file, &pickle, object->name, archive_length}));
done:
    pickle_free(&pickle);
    return status;
}

/* ---- The legacy form ---- */

/* The storages of the object, sorted by key, to match them with the list of keys. */
struct keyed {
    const char *key;
    size_t length;
    struct pickle_storage *storage;
};

static int compare_keys(const void *left, const void *right) {
    const struct keyed *a = left, *b = right;
    return compare_bytes(a->key, a->length, b->key, b->length);
}

/* The index of the first that has the key, or count. */
static size_t find_key(const struct keyed *keyed, size_t count, const struct keyed *wanted) {
    size_t first = 0, last = count;
    while (first < last) {
        const size_t middle = first + (last - first) / 2;
        if (compare_keys(&keyed[middle], wanted) < 0) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first < count && compare_keys(&keyed[first], wanted) == 0 ? first : count;
}

/* Reads the element count of a storage at *offset, and moves *offset past its bytes. */
static l3a_status place_storage(struct torch_file *file, const struct keyed *wanted, struct keyed *keyed, size_t count,
                                uint64_t *offset) {
    l3a_status status = L3A_OK;
    unsigned char start[8];
    uint64_t elements = 0;
    struct torch_storage *storage = &file->storages[file->storage_count];
    size_t i = find_key(keyed, count, wanted);
    FAIL_IF(i == count || keyed[i].storage->place != SIZE_MAX, file->context, L3A_ERROR_FORMAT, damaged,
            "%s: storage '%.*s' is listed %s", file->input.path, (int)(wanted->length < 100 ? wanted->length : 100), wanted->key,
            i == count ? "but never used" : "twice");
    TRY(input_read(&file->input, *offset, start, sizeof start));
    for (size_t k = sizeof start; k-- > 0;) {
        elements = elements << 8 | start[k];
    }
    *offset += sizeof start;
    FAIL_IF(!multiply_sizes(elements, keyed[i].storage->element_size, &storage->bytes) ||
                storage->bytes > file->input.size - *offset,
            file->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: byte %" PRIu64 ": storage '%.*s' has %" PRIu64 " elements of %zu bytes, but the file ends at byte %" PRIu64,
            file->input.path, *offset - sizeof start, (int)(wanted->length < 100 ? wanted->length : 100), wanted->key, elements,
            keyed[i].storage->element_size, file->input.size);
    storage->offset = *offset;
    storage->placed = true;
    *offset += storage->bytes;
    for (; i < count && compare_keys(&keyed[i], wanted) == 0; i++) {
        keyed[i].storage->place = file->storage_count;
    }
    file->storage_count++;
done:
    return status;
}

static l3a_status place_storages(struct torch_file *file, const struct pickle *object, const struct pickle *keys) {
    l3a_status status = L3A_OK;
    struct keyed *keyed = NULL;
    const struct pickle_value *list = pickle_at(keys, keys->root);
    uint64_t offset = keys->bytes.start + keys->bytes.at;
    FAIL_IF(list->kind != PICKLE_LIST, file->context, L3A_ERROR_FORMAT, damaged, "%s: byte %" PRIu64 ": not a list of storages",
            file->input.path, keys->bytes.start);
    TRY(allocate_zeroed(file->context, list->as.items.count, sizeof *file->storages, &file->storages));
    TRY(allocate(file->context, object->storages.count, sizeof *keyed, &keyed));
    for (size_t i = 0; i < object->storages.count; i++) {
        const struct pickle_value *key = pickle_at(object, object->storages.items[i].key);
        keyed[i] = (struct keyed){pickle_text(object, key), key->as.text.length, &object->storages.items[i]};
    }
    qsort(keyed, object->storages.count, sizeof *keyed, compare_keys);
    for (uint32_t link = list->as.items.first; link; link = keys->links.items[link].next) {
        const struct pickle_value *key = pickle_at(keys, keys->links.items[link].value);
        FAIL_IF(key->kind != PICKLE_TEXT, file->context, L3A_ERROR_FORMAT, damaged,
                "%s: byte %" PRIu64 ": the key of a storage is not text", file->input.path, keys->bytes.start);
        const struct keyed wanted = {pickle_text(keys, key), key->as.text.length, NULL};
        TRY(place_storage(file, &wanted, keyed, object->storages.count, &offset));
    }
done:
    release(file->context, keyed);
    return status;
}

/* Reads the magic number, the version, and facts about the machine that wrote the file; moves *offset past them. */
static l3a_status read_preamble(struct torch_file *file, uint64_t *offset) {
    l3a_status status = L3A_OK;
    struct pickle pickle = {0};
    for (int i = 0; i < 3; i++) {
        pickle_free(&pickle);
        TRY(pickle_read(&file->input, *offset, file->input.size, &pickle));
        const struct pickle_value *value = pickle_at(&pickle, pickle.root);
        FAIL_IF(i == 1 && (value->kind != PICKLE_INTEGER || value->as.integer != LEGACY_VERSION), file->context, L3A_ERROR_VERSION,
                save_hint, "%s: byte %" PRIu64 ": not version %d of torch's legacy format", file->input.path, *offset,
                LEGACY_VERSION);
        const uint32_t order = i == 2 ? pickle_find(&pickle, pickle.root, "little_endian") : 0;
        FAIL_IF(order && pickle_at(&pickle, order)->kind == PICKLE_BOOLEAN && !pickle_at(&pickle, order)->as.integer, file->context,
                L3A_ERROR_FORMAT, "save it again on a little-endian machine", "%s: the numbers are big-endian", file->input.path);
        *offset += pickle.bytes.at;
    }
done:
    pickle_free(&pickle);
    return status;
}

static l3a_status open_legacy(struct torch_file *file) {
    l3a_status status = L3A_OK;
    struct pickle object = {0}, keys = {0};
    uint64_t offset = 0;
    TRY(read_preamble(file, &offset));
    TRY(pickle_read(&file->input, offset, file->input.size, &object));
    TRY(pickle_read(&file->input, offset + object.bytes.at, file->input.size, &keys));
    TRY(place_storages(file, &object, &keys));
    TRY(list_tensors(&(struct listing){file, &object, "", 0}));
done:
    pickle_free(&object);
    pickle_free(&keys);
    return status;
}

l3a_status torch_open(l3a_context *context, const char *path, struct torch_file *file) {
    l3a_status status = L3A_OK;
    char start[TORCH_START];
    memset(file, 0, sizeof *file);
    file->context = context;
    TRY(input_open(context, path, &file->input));
    const size_t count = file->input.size < TORCH_START ? (size_t)file->input.size : TORCH_START;
    TRY(input_read(&file->input, 0, start, count));
    file->zipped = zip_recognise(start, count);
    FAIL_IF(!torch_recognise(start, count), context, L3A_ERROR_FORMAT, save_hint, "%s: not a file written by torch.save", path);
    TRY(file->zipped ? open_zip(file) : open_legacy(file));
done:
    if (status != L3A_OK) {
        torch_close(file);
    }
    return status;
}

void torch_close(struct torch_file *file) {
    if (!file->context) {
        return;
    }
    for (size_t i = 0; i < file->count; i++) {
        release(file->context, file->tensors[i].name);
    }
    release(file->context, file->tensors);
    release(file->context, file->storages);
    release(file->context, file->beside);
    zip_close(&file->zip);
    input_close(&file->input);
    memset(file, 0, sizeof *file);
}

/* ---- Numbers ---- */

static l3a_status verify_storage(struct torch_file *file, size_t index) {
    struct torch_storage *storage = &file->storages[index];
    if (!file->zipped || storage->verified) {
        return L3A_OK;
    }
    const l3a_status status = zip_verify(&file->zip, &file->zip.entries[index]);
    storage->verified = status == L3A_OK;
    return status;
}

enum reading_form { AS_FLOAT, AS_STORED };

/* Reads the elements from the tensor's first to its last, in the order of the storage. If they are the whole storage, which is the
 * usual case, computes its checksum on the way. */
static l3a_status read_span(struct torch_file *file, const struct torch_tensor *tensor, enum reading_form form, void *to) {
    l3a_status status = L3A_OK;
    struct torch_storage *storage = &file->storages[tensor->storage];
    const struct zip_entry *entry = file->zipped ? &file->zip.entries[tensor->storage] : NULL;
    const size_t size = tensor_type_size(tensor->type), step = CHUNK / size;
    const bool whole = tensor->first == 0 && tensor->span * size == storage->bytes;
    char *chunk = NULL;
    uint32_t crc = 0;
    if (!whole) {
        TRY(verify_storage(file, tensor->storage));
    }
    if (!storage->placed) {
        TRY(zip_place(&file->zip, entry, &storage->offset));
        storage->placed = true;
    }
    const size_t span = (size_t)tensor->span;
    TRY(allocate(file->context, span < step ? span : step, size, &chunk));
    for (size_t done = 0; done < span; done += step) {
        const size_t now = span - done < step ? span - done : step;
        TRY(input_read(&file->input, storage->offset + (tensor->first + done) * size, chunk, now * size));
        crc = entry && whole ? zip_crc(&file->zip, crc, chunk, now * size) : 0;
        if (form == AS_STORED) {
            memcpy((char *)to + done * size, chunk, now * size);
        } else {
            tensor_to_float(tensor->type, chunk, (float *)to + done, now);
        }
    }
    if (entry && whole) {
        storage->verified = crc == entry->crc;
        status = storage->verified ? L3A_OK : zip_fail_crc(&file->zip, entry, crc);
    }
done:
    release(file->context, chunk);
    return status;
}

static bool is_contiguous(const struct torch_tensor *tensor) {
    uint64_t stride = 1;
    bool good = true;
    for (size_t i = tensor->rank; i-- > 0;) {
        good = good && (tensor->shape[i] == 1 || tensor->stride[i] == stride);
        stride *= tensor->shape[i];
    }
    return good;
}

/* Visits the elements in C order, the last index fastest, and tracks the position in the storage. */
static void gather(const struct torch_tensor *tensor, size_t size, const char *from, char *to) {
    uint64_t index[TENSOR_RANK] = {0}, at = 0;
    for (uint64_t i = 0; i < tensor->elements; i++) {
        memcpy(to + i * size, from + at * size, size);
        for (size_t axis = tensor->rank; axis-- > 0;) {
            at += tensor->stride[axis];
            if (++index[axis] < tensor->shape[axis]) {
                break;
            }
            at -= tensor->shape[axis] * tensor->stride[axis];
            index[axis] = 0;
        }
    }
}

static l3a_status read_elements(struct torch_file *file, const struct torch_tensor *tensor, enum reading_form form, void *to) {
    const size_t size = form == AS_STORED ? tensor_type_size(tensor->type) : sizeof(float);
    l3a_status status = L3A_OK;
    char *span = NULL;
    if (!tensor->elements) {
        return L3A_OK;
    }
    if (is_contiguous(tensor)) {
        TRY(read_span(file, tensor, form, to));
    } else {
        TRY(allocate(file->context, (size_t)tensor->span, size, &span));
        TRY(read_span(file, tensor, form, span));
        gather(tensor, size, span, to);
    }
done:
    release(file->context, span);
    return status == L3A_OK ? status : fail_in(file->context, status, "tensor '%s'", tensor->name);
}

l3a_status torch_read(struct torch_file *file, const struct torch_tensor *tensor, float *values) {
    return read_elements(file, tensor, AS_FLOAT, values);
}

l3a_status torch_read_bytes(struct torch_file *file, const struct torch_tensor *tensor, void *bytes) {
    return read_elements(file, tensor, AS_STORED, bytes);
}

l3a_status torch_verify(struct torch_file *file) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < file->count; i++) {
        TRY(verify_storage(file, file->tensors[i].storage));
    }
done:
    return status;
}
