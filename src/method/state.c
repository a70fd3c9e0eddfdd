#include "method/state.h"

#include "common/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STATE_VERSION = 1, NAME_LIMIT = 100 };

static const char state_format[] = "l3a-state", array_prefix[] = "state.", owner_prefix[] = "job.";
const char sums_prefix[] = "sums.";
static const char damaged[] = "delete the file, and this method starts again";
static const char name_hint[] = "use 1 to 100 printable ASCII characters without quotes or backslashes";

/* The types that a state can have, by l3a_number. */
static const tensor_type types[] = {[L3A_NUMBER_FLOAT32] = TENSOR_F32,
                                    [L3A_NUMBER_FLOAT64] = TENSOR_F64,
                                    [L3A_NUMBER_INT8] = TENSOR_I8,
                                    [L3A_NUMBER_UINT8] = TENSOR_U8,
                                    [L3A_NUMBER_INT64] = TENSOR_I64};

enum { TYPES = sizeof types / sizeof types[0], RANK_LIMIT = sizeof((l3a_state_array *)0)->shape / sizeof(uint64_t) };
_Static_assert((size_t)RANK_LIMIT == (size_t)TENSOR_RANK, "an array of a state is a tensor in a file");

l3a_status state_owner_set(l3a_context *context, struct state_owner *owner, const char *key, const char *value) {
    return text_record_set(context, &owner->keys, &owner->values, key, value);
}

void state_owner_free(l3a_context *context, struct state_owner *owner) {
    text_list_clear(context, &owner->keys);
    text_list_clear(context, &owner->values);
}

l3a_status state_create(l3a_context *context, l3a_state **state) {
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof **state, state));
    (*state)->context = context;
done:
    return status;
}

void state_free(l3a_state *state) {
    if (!state) {
        return;
    }
    for (size_t i = 0; i < state->count; i++) {
        release(state->context, state->items[i].name);
        release(state->context, state->items[i].own);
    }
    for (size_t i = 0; i < state->sums_count; i++) {
        release(state->context, state->sums[i].strip);
    }
    release(state->context, state->items);
    release(state->context, state->sums);
    safetensors_close(&state->file);
    release(state->context, state);
}

static const l3a_state_array *find(const l3a_state *state, const char *name) {
    for (size_t i = 0; i < state->count; i++) {
        if (strcmp(state->items[i].name, name) == 0) {
            return &state->items[i].array;
        }
    }
    return NULL;
}

/* Adds an array with these numbers; own: the same, or NULL if they belong to somebody else. */
static l3a_status add(l3a_state *state, const l3a_state_array *array, void *own) {
    l3a_context *context = state->context;
    l3a_status status = L3A_OK;
    char *name = NULL;
    TRY(copy_text(context, array->name, strlen(array->name), &name));
    TRY(grow_array(context, &state->items, &state->capacity, state->count + 1, sizeof *state->items));
    struct state_item *item = &state->items[state->count++];
    *item = (struct state_item){*array, name, own};
    item->array.name = name;
    name = NULL;
done:
    release(context, name);
    return status;
}

static bool is_plain(const char *name) {
    const size_t length = strlen(name);
    bool plain = length > 0 && length <= NAME_LIMIT;
    for (size_t i = 0; plain && i < length; i++) {
        plain = name[i] > ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\'' && name[i] != '\\';
    }
    return plain;
}

/* Checks what a caller wants to put, and adds it. */
static l3a_status put(l3a_state *state, const char *name, l3a_number type, const uint64_t *shape, size_t rank, const void *data,
                      void *own) {
    l3a_context *context = state->context;
    l3a_status status = L3A_OK;
    uint64_t elements, bytes;
    FAIL_IF(!is_plain(name), context, L3A_ERROR_ARGUMENT, name_hint, "l3a_state_put: '%.*s' cannot be the name of an array",
            NAME_LIMIT, name);
    FAIL_IF(find(state, name), context, L3A_ERROR_ARGUMENT, "give each array a name of its own",
            "l3a_state_put: there are two arrays '%s'", name);
    FAIL_IF((unsigned)type >= TYPES, context, L3A_ERROR_ARGUMENT, NULL, "l3a_state_put: array '%s' has the unknown type %d", name,
            (int)type);
    FAIL_IF(rank > RANK_LIMIT, context, L3A_ERROR_ARGUMENT, NULL,
            "l3a_state_put: array '%s' has %zu dimensions, but %d are the most", name, rank, RANK_LIMIT);
    FAIL_IF(rank && !shape, context, L3A_ERROR_ARGUMENT, NULL, "l3a_state_put: the shape of array '%s' is NULL", name);
    struct tensor tensor = {.type = types[type], .rank = rank};
    l3a_state_array array = {.name = name, .type = type, .rank = rank, .data = data};
    for (size_t i = 0; i < rank; i++) {
        tensor.shape[i] = array.shape[i] = shape[i];
    }
    FAIL_IF(!tensor_count(&tensor, &elements, &bytes), context, L3A_ERROR_ARGUMENT, NULL,
            "l3a_state_put: array '%s' is larger than any memory", name);
    FAIL_IF(bytes && !data, context, L3A_ERROR_ARGUMENT, NULL, "l3a_state_put: the numbers of array '%s' are NULL", name);
    TRY(add(state, &array, own));
done:
    return status;
}

l3a_status l3a_state_put(l3a_state *state, const char *name, l3a_number type, const uint64_t *shape, size_t rank,
                         const void *data) {
    REQUIRE(state, state, name);
    return put(state, name, type, shape, rank, data, NULL);
}

l3a_status state_give(l3a_state *state, const char *name, l3a_number type, const uint64_t *shape, size_t rank, void *data) {
    const l3a_status status = put(state, name, type, shape, rank, data, data);
    if (status != L3A_OK) {
        release(state->context, data);
    }
    return status;
}

const l3a_state_array *l3a_state_at(const l3a_state *state, size_t index) {
    return state && index < state->count ? &state->items[index].array : NULL;
}

l3a_status state_fail(const l3a_state *state, const char *what) {
    return fail(state->context, L3A_ERROR_FORMAT, damaged, "%s: %s", state->file.input.path ? state->file.input.path : "the state",
                what);
}

l3a_status l3a_state_get(const l3a_state *state, const char *name, l3a_number type, size_t rank, uint64_t *shape,
                         const void **data) {
    REQUIRE(state, state, name, data);
    l3a_status status = L3A_OK;
    const l3a_state_array *array = find(state, name);
    char text[256];
    FAIL_IF((unsigned)type >= TYPES || (rank && !shape), state->context, L3A_ERROR_ARGUMENT, NULL,
            "l3a_state_get: array '%.100s' is asked for with an unknown type, or without room for its shape", name);
    if (!array || array->type != type || array->rank != rank) {
        snprintf(text, sizeof text, "an array '%.100s' of type %s with %zu dimensions is %s", name, tensor_type_name(types[type]),
                 rank, array ? "needed, but it is another" : "missing");
        return state_fail(state, text);
    }
    for (size_t i = 0; i < rank; i++) {
        shape[i] = array->shape[i];
    }
    *data = array->data;
done:
    return status;
}

l3a_status state_expect(const l3a_state *state, const char *name, l3a_number type, size_t rank, const uint64_t *shape,
                        const void **data) {
    l3a_status status = L3A_OK;
    uint64_t found[RANK_LIMIT];
    const void *numbers;
    char text[256];
    TRY(l3a_state_get(state, name, type, rank, found, &numbers));
    for (size_t i = 0; i < rank; i++) {
        if (found[i] != shape[i]) {
            snprintf(text, sizeof text, "array '%s' has %" PRIu64 " numbers in dimension %zu instead of %" PRIu64, name, found[i],
                     i + 1, shape[i]);
            status = state_fail(state, text);
            goto done;
        }
    }
    *data = numbers;
done:
    return status;
}

l3a_status state_copy(const l3a_state *state, const char *name, l3a_number type, size_t rank, const uint64_t *shape, void *copy) {
    l3a_status status = L3A_OK;
    const void *numbers;
    size_t count = 1;
    TRY(state_expect(state, name, type, rank, shape, &numbers));
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)shape[i];
    }
    TRY(allocate(state->context, count, tensor_type_size(types[type]), copy));
    memcpy(*(void **)copy, numbers, count * tensor_type_size(types[type]));
done:
    return status;
}

/* ---- The file ---- */

static l3a_status describe(l3a_context *context, const struct state_owner *owner, size_t phases, text_list *keys,
                           text_list *values) {
    l3a_status status = L3A_OK;
    char number[32];
    TRY(text_record_set(context, keys, values, "format", state_format));
    snprintf(number, sizeof number, "%d", STATE_VERSION);
    TRY(text_record_set(context, keys, values, "version", number));
    snprintf(number, sizeof number, "%zu", phases);
    TRY(text_record_set(context, keys, values, "phases", number));
    for (size_t i = 0; i < owner->keys.count; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s%s", owner_prefix, owner->keys.items[i]);
        TRY(text_record_set(context, keys, values, key, owner->values.items[i]));
    }
done:
    return status;
}

l3a_status state_write(l3a_state *state, const char *path, const struct state_owner *owner, size_t phases) {
    l3a_context *context = state->context;
    l3a_status status = L3A_OK;
    text_list keys = {0}, values = {0};
    tensor_source *sources = NULL;
    char(*names)[STATE_NAME] = NULL;
    if (!leads(context)) {
        return L3A_OK;
    }
    TRY(allocate_zeroed(context, state->count + state->sums_count, sizeof *sources, &sources));
    TRY(allocate(context, state->count, sizeof *names, &names));
    for (size_t i = 0; i < state->count; i++) {
        const l3a_state_array *array = &state->items[i].array;
        snprintf(names[i], sizeof *names, "%s%s", array_prefix, array->name);
        sources[i] = (tensor_source){.name = names[i],
                                     .type = types[array->type],
                                     .rank = array->rank,
                                     .fill = fill_from_memory,
                                     .argument = (void *)array->data};
        memcpy(sources[i].shape, array->shape, sizeof array->shape);
    }
    for (size_t i = 0; i < state->sums_count; i++) {
        sources[state->count + i] = state_sums_source(&state->sums[i]);
    }
    TRY(describe(context, owner, phases, &keys, &values));
    TRY(safetensors_write(context, path, &keys, &values, sources, state->count + state->sums_count));
done:
    release(context, sources);
    release(context, names);
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    return status;
}

static l3a_status check_owner(const safetensors *file, const struct state_owner *owner, size_t *phases) {
    l3a_context *context = file->context;
    const char *path = file->input.path, *format = safetensors_metadata(file, "format"),
               *version = safetensors_metadata(file, "version"), *learned = safetensors_metadata(file, "phases");
    l3a_status status = L3A_OK;
    uint64_t number;
    FAIL_IF(!format || strcmp(format, state_format) != 0 || !version || !integer_parse(version, strlen(version), &number), context,
            L3A_ERROR_FORMAT, damaged, "%s: not the state of a method", path);
    FAIL_IF(number > STATE_VERSION, context, L3A_ERROR_VERSION, "resume with the version that began the run",
            "%s: a state of version %s, which this version of l3a does not know", path, version);
    for (size_t i = 0; i < owner->keys.count; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s%s", owner_prefix, owner->keys.items[i]);
        const char *value = safetensors_metadata(file, key);
        FAIL_IF(!value || strcmp(value, owner->values.items[i]) != 0, context, L3A_ERROR_MISMATCH, damaged,
                "%s: the state of another run: its %s differs", path, owner->keys.items[i]);
    }
    FAIL_IF(!learned || !integer_parse(learned, strlen(learned), &number) || number > SIZE_MAX, context, L3A_ERROR_FORMAT, damaged,
            "%s: the number of its phases is missing", path);
    *phases = (size_t)number;
done:
    return status;
}

/* The type of a state's array, or TYPES. */
static size_t number_of(tensor_type type) {
    size_t number = 0;
    while (number < TYPES && types[number] != type) {
        number++;
    }
    return number;
}

/* The bytes of a tensor are within the file, as safetensors_open() has checked. Sums stay there until they are asked for. */
static l3a_status read_tensor(l3a_state *state, const struct tensor *tensor) {
    const safetensors *file = &state->file;
    l3a_context *context = state->context;
    l3a_status status = L3A_OK;
    const size_t prefix = strlen(array_prefix), type = number_of(tensor->type);
    const bool sums = strncmp(tensor->name, sums_prefix, strlen(sums_prefix)) == 0;
    const bool array = strncmp(tensor->name, array_prefix, prefix) == 0 && is_plain(tensor->name + prefix) && type < TYPES;
    void *numbers = NULL;
    FAIL_IF(!(sums || array) || !safetensors_is_summed(file, tensor) || tensor->bytes > SIZE_MAX, context, L3A_ERROR_FORMAT,
            damaged, "%s: tensor '%.100s' is not an array of a state", file->input.path, tensor->name);
    TRY(safetensors_verify_tensor(file, tensor));
    if (array) {
        TRY(allocate(context, (size_t)tensor->bytes, 1, &numbers));
        TRY(input_read(&file->input, tensor->offset, numbers, (size_t)tensor->bytes));
        l3a_state_array made = {.name = tensor->name + prefix, .type = (l3a_number)type, .rank = tensor->rank, .data = numbers};
        memcpy(made.shape, tensor->shape, sizeof made.shape);
        TRY(add(state, &made, numbers));
        numbers = NULL;
    }
done:
    release(context, numbers);
    return status;
}

l3a_status state_read(l3a_context *context, const char *path, const struct state_owner *owner, size_t *phases, l3a_state **state) {
    l3a_status status = L3A_OK;
    l3a_state *made = NULL;
    TRY(state_create(context, &made));
    TRY(safetensors_open(context, path, &made->file));
    TRY(check_owner(&made->file, owner, phases));
    for (size_t i = 0; i < made->file.count; i++) {
        TRY(read_tensor(made, &made->file.tensors[i]));
    }
    *state = made;
    made = NULL;
done:
    state_free(made);
    return status;
}
