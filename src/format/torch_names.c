/* The names that the pickle interpreter knows, and the values they make. Any other name is opaque, and so is the result of calling
 * it: a pickle that asks for os.system gets a value that can only be skipped. */
#include "format/pickle.h"

#include <string.h>

enum { STORAGE_LIMIT = 1 << 20, TENSORS_LIMIT = 1 << 20, ARGUMENTS = 8 };

enum meaning {
    NAME_DICT,         /* called without arguments, with a factory, or with a list of pairs */
    NAME_SET,          /* called with a list */
    NAME_SAME,         /* returns its first argument: a parameter is its tensor */
    NAME_TENSOR,       /* called with storage, first element, shape, strides … */
    NAME_TYPED_TENSOR, /* … and, as the seventh argument, the element type */
    NAME_SUBCLASS,     /* called with one of these functions, a class, and the function's arguments */
    NAME_STORAGE,
    NAME_TYPE,
    NAME_CLASS /* of TorchScript, in this module or one below it; called, it makes an object */
};

struct name {
    const char *module, *name;
    enum meaning meaning;
    tensor_type type; /* of a storage or an element; TENSOR_TYPES: not supported */
    size_t size;
};

static const struct name names[] = {
    {"collections", "OrderedDict", NAME_DICT, 0, 0},
    {"collections", "defaultdict", NAME_DICT, 0, 0},
    {"builtins", "dict", NAME_DICT, 0, 0},
    {"__builtin__", "dict", NAME_DICT, 0, 0},
    {"builtins", "set", NAME_SET, 0, 0},
    {"__builtin__", "set", NAME_SET, 0, 0},
    {"builtins", "frozenset", NAME_SET, 0, 0},
    {"__builtin__", "frozenset", NAME_SET, 0, 0},
    {"torch", "Size", NAME_SAME, 0, 0},
    {"torch._utils", "_rebuild_parameter", NAME_SAME, 0, 0},
    {"torch._utils", "_rebuild_parameter_with_state", NAME_SAME, 0, 0},
    {"torch._utils", "_rebuild_tensor", NAME_TENSOR, 0, 0},
    {"torch._utils", "_rebuild_tensor_v2", NAME_TENSOR, 0, 0},
    {"torch._utils", "_rebuild_tensor_v3", NAME_TYPED_TENSOR, 0, 0},
    {"torch._tensor", "_rebuild_from_type_v2", NAME_SUBCLASS, 0, 0},
    {"torch", "HalfStorage", NAME_STORAGE, TENSOR_F16, 2},
    {"torch", "BFloat16Storage", NAME_STORAGE, TENSOR_BF16, 2},
    {"torch", "FloatStorage", NAME_STORAGE, TENSOR_F32, 4},
    {"torch", "DoubleStorage", NAME_STORAGE, TENSOR_F64, 8},
    {"torch", "CharStorage", NAME_STORAGE, TENSOR_I8, 1},
    {"torch", "ByteStorage", NAME_STORAGE, TENSOR_U8, 1},
    {"torch", "BoolStorage", NAME_STORAGE, TENSOR_U8, 1},
    {"torch", "IntStorage", NAME_STORAGE, TENSOR_I32, 4},
    {"torch", "LongStorage", NAME_STORAGE, TENSOR_I64, 8},
    {"torch", "ShortStorage", NAME_STORAGE, TENSOR_TYPES, 2},
    {"torch", "ComplexFloatStorage", NAME_STORAGE, TENSOR_TYPES, 8},
    {"torch", "ComplexDoubleStorage", NAME_STORAGE, TENSOR_TYPES, 16},
    {"torch", "QInt8Storage", NAME_STORAGE, TENSOR_TYPES, 1},
    {"torch", "QUInt8Storage", NAME_STORAGE, TENSOR_TYPES, 1},
    {"torch", "QInt32Storage", NAME_STORAGE, TENSOR_TYPES, 4},
    {"torch", "UntypedStorage", NAME_STORAGE, TENSOR_U8, 1},
    {"torch", "float16", NAME_TYPE, TENSOR_F16, 2},
    {"torch", "bfloat16", NAME_TYPE, TENSOR_BF16, 2},
    {"torch", "float32", NAME_TYPE, TENSOR_F32, 4},
    {"torch", "float64", NAME_TYPE, TENSOR_F64, 8},
    {"torch", "int8", NAME_TYPE, TENSOR_I8, 1},
    {"torch", "uint8", NAME_TYPE, TENSOR_U8, 1},
    {"torch", "bool", NAME_TYPE, TENSOR_U8, 1},
    {"torch", "int32", NAME_TYPE, TENSOR_I32, 4},
    {"torch", "int64", NAME_TYPE, TENSOR_I64, 8},
    {"__torch__", NULL, NAME_CLASS, 0, 0},
};

enum { NAMES = sizeof names / sizeof names[0] };

static bool is_text(const char *text, const char *other, size_t length) {
    return strlen(text) == length && memcmp(text, other, length) == 0;
}

/* Storage classes have lived in several modules. */
static bool is_module(const struct name *known, const char *module, size_t length) {
    const size_t own = strlen(known->module);
    return is_text(known->module, module, length) ||
           (known->meaning == NAME_CLASS && length > own && memcmp(known->module, module, own) == 0 && module[own] == '.') ||
           (known->meaning == NAME_STORAGE && (is_text("torch.storage", module, length) || is_text("torch.cuda", module, length)));
}

static l3a_status make_opaque(struct pickle *pickle, uint32_t *made) {
    return pickle_make(pickle, (struct pickle_value){.kind = PICKLE_OPAQUE}, made);
}

l3a_status torch_name(struct pickle *pickle, const char *module, size_t module_length, const char *name, size_t name_length,
                      uint32_t *made) {
    for (uint32_t i = 0; i < NAMES; i++) {
        if ((!names[i].name || is_text(names[i].name, name, name_length)) && is_module(&names[i], module, module_length)) {
            return pickle_make(pickle, (struct pickle_value){PICKLE_KNOWN, {.index = i}}, made);
        }
    }
    return make_opaque(pickle, made);
}

static const struct name *known_name(const struct pickle *pickle, uint32_t index) {
    const struct pickle_value *value = pickle_at(pickle, index);
    return value->kind == PICKLE_KNOWN ? &names[value->as.index] : NULL;
}

static bool take_size(const struct pickle *pickle, uint32_t index, uint64_t *size) {
    const struct pickle_value *value = pickle_at(pickle, index);
    *size = (uint64_t)value->as.integer;
    return value->kind == PICKLE_INTEGER && value->as.integer >= 0;
}

static bool is_sequence(const struct pickle *pickle, uint32_t index) {
    const enum pickle_kind kind = pickle_at(pickle, index)->kind;
    return kind == PICKLE_TUPLE || kind == PICKLE_LIST;
}

static bool take_sizes(const struct pickle *pickle, uint32_t index, uint64_t sizes[TENSOR_RANK], size_t *count) {
    uint32_t items[TENSOR_RANK];
    if (!is_sequence(pickle, index)) {
        return false;
    }
    *count = pickle_items(pickle, index, items, TENSOR_RANK);
    bool good = *count <= TENSOR_RANK;
    for (size_t i = 0; good && i < *count; i++) {
        good = take_size(pickle, items[i], &sizes[i]);
    }
    return good;
}

/* Makes a dict from a list of pairs, which is how Python 2 wrote an OrderedDict. */
static l3a_status make_dict(struct pickle *pickle, const uint32_t *items, size_t count, uint32_t *made) {
    l3a_status status = L3A_OK;
    TRY(pickle_make(pickle, (struct pickle_value){.kind = PICKLE_DICT}, made));
    if (!count || !is_sequence(pickle, items[0])) {
        return L3A_OK;
    }
    for (uint32_t link = pickle_at(pickle, items[0])->as.items.first; link; link = pickle->links.items[link].next) {
        uint32_t pair[2];
        const uint32_t item = pickle->links.items[link].value;
        if (!is_sequence(pickle, item) || pickle_items(pickle, item, pair, 2) != 2) {
            return pickle_fail(pickle, "a dict is made from something other than pairs");
        }
        TRY(pickle_append(pickle, *made, pair[0]));
        TRY(pickle_append(pickle, *made, pair[1]));
    }
done:
    return status;
}

static l3a_status make_set(struct pickle *pickle, const uint32_t *items, size_t count, uint32_t *made) {
    l3a_status status = L3A_OK;
    TRY(pickle_make(pickle, (struct pickle_value){.kind = PICKLE_SET}, made));
    if (count && is_sequence(pickle, items[0])) {
        for (uint32_t link = pickle_at(pickle, items[0])->as.items.first; link; link = pickle->links.items[link].next) {
            TRY(pickle_append(pickle, *made, pickle->links.items[link].value));
        }
    }
done:
    return status;
}

/* items: storage, first element, shape, strides, and others that only matter for training. type is NULL to use the type of the
 * storage. */
static l3a_status make_tensor(struct pickle *pickle, const uint32_t *items, size_t count, const struct name *type, uint32_t *made) {
    l3a_status status = L3A_OK;
    struct pickle_tensor tensor = {0};
    size_t strides = 0;
    if (count < 4 || pickle_at(pickle, items[0])->kind != PICKLE_STORAGE) {
        return make_opaque(pickle, made);
    }
    tensor.storage = pickle_at(pickle, items[0])->as.index;
    tensor.type = type ? type->type : pickle->storages.items[tensor.storage].type;
    if (tensor.type == TENSOR_TYPES) {
        return make_opaque(pickle, made);
    }
    if (!take_size(pickle, items[1], &tensor.first) || !take_sizes(pickle, items[2], tensor.shape, &tensor.rank) ||
        !take_sizes(pickle, items[3], tensor.stride, &strides) || strides != tensor.rank) {
        return pickle_fail(pickle, "the offset, shape (of at most %d dimensions) or strides of a tensor cannot be parsed",
                           TENSOR_RANK);
    }
    TRY(pickle_reserve(pickle, &pickle->tensors.items, pickle->tensors.count, &pickle->tensors.room, sizeof tensor, TENSORS_LIMIT,
                       "tensors"));
    pickle->tensors.items[pickle->tensors.count] = tensor;
    TRY(pickle_make(pickle, (struct pickle_value){PICKLE_TENSOR, {.index = (uint32_t)pickle->tensors.count}}, made));
    pickle->tensors.count++;
done:
    return status;
}

l3a_status torch_call(struct pickle *pickle, uint32_t called, uint32_t arguments, uint32_t *made) {
    const struct name *name = known_name(pickle, called);
    uint32_t items[ARGUMENTS] = {0};
    if (!name || !is_sequence(pickle, arguments)) {
        return make_opaque(pickle, made);
    }
    size_t count = pickle_items(pickle, arguments, items, ARGUMENTS);
    if (name->meaning == NAME_SUBCLASS) {
        const struct name *inner = count > 2 ? known_name(pickle, items[0]) : NULL;
        if (!inner || !is_sequence(pickle, items[2])) {
            return make_opaque(pickle, made);
        }
        name = inner;
        count = pickle_items(pickle, items[2], items, ARGUMENTS);
    }
    switch (name->meaning) {
    case NAME_DICT: return make_dict(pickle, items, count, made);
    case NAME_SET: return make_set(pickle, items, count, made);
    case NAME_TENSOR: return make_tensor(pickle, items, count, NULL, made);
    case NAME_TYPED_TENSOR: {
        const struct name *type = count > 6 ? known_name(pickle, items[6]) : NULL;
        return type && type->meaning == NAME_TYPE ? make_tensor(pickle, items, count, type, made) : make_opaque(pickle, made);
    }
    case NAME_SAME:
        if (count) {
            *made = items[0];
            return L3A_OK;
        }
        break;
    case NAME_CLASS: return pickle_make(pickle, (struct pickle_value){.kind = PICKLE_OBJECT}, made);
    case NAME_SUBCLASS:
    case NAME_STORAGE:
    case NAME_TYPE: break;
    }
    return make_opaque(pickle, made);
}

/* ('storage', class, key, device, number of elements) and, in old files, None or a view: (key, first element, elements). */
l3a_status torch_persistent(struct pickle *pickle, uint32_t id, uint32_t *made) {
    l3a_status status = L3A_OK;
    uint32_t items[ARGUMENTS] = {0}, view[3];
    const size_t count = is_sequence(pickle, id) ? pickle_items(pickle, id, items, ARGUMENTS) : 0;
    const struct name *type = count > 4 ? known_name(pickle, items[1]) : NULL;
    if (!type || type->meaning != NAME_STORAGE || !pickle_is_text(pickle, items[0], "storage")) {
        return make_opaque(pickle, made);
    }
    struct pickle_storage storage = {.key = items[2], .type = type->type, .element_size = type->size, .place = SIZE_MAX};
    bool good = pickle_at(pickle, items[2])->kind == PICKLE_TEXT && take_size(pickle, items[4], &storage.elements);
    if (good && count > 5 && pickle_at(pickle, items[5])->kind != PICKLE_NONE) {
        good = is_sequence(pickle, items[5]) && pickle_items(pickle, items[5], view, 3) == 3 &&
               take_size(pickle, view[1], &storage.first);
    }
    if (!good) {
        return pickle_fail(pickle, "the key or size of a storage cannot be parsed");
    }
    TRY(pickle_reserve(pickle, &pickle->storages.items, pickle->storages.count, &pickle->storages.room, sizeof storage,
                       STORAGE_LIMIT, "storages"));
    pickle->storages.items[pickle->storages.count] = storage;
    TRY(pickle_make(pickle, (struct pickle_value){PICKLE_STORAGE, {.index = (uint32_t)pickle->storages.count}}, made));
    pickle->storages.count++;
done:
    return status;
}
