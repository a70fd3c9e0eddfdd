/* A closed interpreter for the pickles of torch's checkpoints.
 *
 * A pickle is a program for a small machine with a stack. Python's own reader looks names up and calls what it finds; this one
 * knows a fixed list of names, all of which stand for containers and tensors, and makes an opaque value of anything else. So
 * nothing is imported or called, whatever the file says, and an opaque value is only good for being skipped.
 *
 * Values live in one array and refer to each other by index, so a value that contains itself is nothing special. Nothing here
 * recurses. Bytes are read from the file as they are needed, and each count is compared with the bytes that are there first. */
#ifndef L3A_PICKLE_H
#define L3A_PICKLE_H

#include "base/file.h"
#include "format/tensor.h"

enum pickle_kind {
    PICKLE_OPAQUE,
    PICKLE_NONE,
    PICKLE_BOOLEAN,
    PICKLE_INTEGER,
    PICKLE_NUMBER,
    PICKLE_TEXT,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT,
    PICKLE_SET,
    PICKLE_KNOWN, /* one of the names the interpreter knows */
    PICKLE_STORAGE,
    PICKLE_TENSOR
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer; /* and a boolean */
        double number;
        struct {
            uint32_t at, length;
        } text; /* in the pickle's bytes, as it stands there */
        struct {
            uint32_t first, last, count;
        } items;        /* links; a dict has keys and values in turn */
        uint32_t index; /* of a known name, a storage or a tensor */
    } as;
};

struct pickle_link {
    uint32_t value, next; /* next is 0 at the end */
};

struct pickle_storage {
    uint32_t key;     /* a text */
    tensor_type type; /* TENSOR_TYPES: one that is not read */
    size_t element_size;
    uint64_t elements, first; /* first: of a view into another storage, as old versions of torch had */
    size_t place;             /* for the caller */
};

struct pickle_tensor {
    uint32_t storage;
    tensor_type type;
    size_t rank;
    uint64_t first, shape[TENSOR_RANK], stride[TENSOR_RANK]; /* in elements */
};

struct pickle {
    const input_file *input;
    uint64_t start, end; /* of the bytes in the file that may belong to the pickle */
    char *bytes;         /* those read so far */
    size_t loaded, room;
    size_t at, operation; /* the next byte, and the beginning of the operation under way */
    struct pickle_value *values;
    struct pickle_link *links;
    struct pickle_storage *storages;
    struct pickle_tensor *tensors;
    uint32_t *stack, *marks, *memo;
    size_t value_count, value_room, link_count, link_room, storage_count, storage_room, tensor_count, tensor_room;
    size_t stack_count, stack_room, mark_count, mark_room, memo_room, memo_count;
    bool stopped;
    uint32_t root;
};

/* Runs the pickle that begins at `start`; pickle->start + pickle->at is where it ended. */
l3a_status pickle_read(const input_file *input, uint64_t start, uint64_t end, struct pickle *pickle);
void pickle_free(struct pickle *pickle);
/* An error that names the byte of the operation under way. */
__attribute__((format(printf, 2, 3))) l3a_status pickle_fail(struct pickle *pickle, const char *format, ...);

static inline const struct pickle_value *pickle_at(const struct pickle *pickle, uint32_t index) {
    return &pickle->values[index];
}

static inline const char *pickle_text(const struct pickle *pickle, const struct pickle_value *value) {
    return pickle->bytes + value->as.text.at;
}

bool pickle_is_text(const struct pickle *pickle, uint32_t index, const char *text);
/* The value of a text key, the last one where there are several; 0 when there is none, or this is no dict. */
uint32_t pickle_find(const struct pickle *pickle, uint32_t dict, const char *key);
/* The first `capacity` items of a container; returns how many items it has. */
size_t pickle_items(const struct pickle *pickle, uint32_t container, uint32_t *items, size_t capacity);

/* For what interprets names. */
l3a_status pickle_make(struct pickle *pickle, struct pickle_value value, uint32_t *index);
l3a_status pickle_append(struct pickle *pickle, uint32_t container, uint32_t value);
/* Makes room in one of the arrays for one more, up to a limit; items is the address of its pointer. */
l3a_status pickle_reserve(struct pickle *pickle, void *items, size_t count, size_t *room, size_t size, size_t limit,
                          const char *what);

/* In torch_names.c: the value a name, a call, or a persistent id stands for. */
l3a_status torch_name(struct pickle *pickle, const char *module, size_t module_length, const char *name, size_t name_length,
                      uint32_t *made);
l3a_status torch_call(struct pickle *pickle, uint32_t called, uint32_t arguments, uint32_t *made);
l3a_status torch_persistent(struct pickle *pickle, uint32_t id, uint32_t *made);

#endif
