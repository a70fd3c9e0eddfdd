/* A closed interpreter for the pickles in torch checkpoints.
 *
 * A pickle is a program for a small stack machine. Python's own reader looks names up and calls what it finds. This one knows a
 * fixed list of names, all of which denote containers and tensors, and turns everything else into an opaque value. So nothing is
 * ever imported or called, whatever the file says, and all one can do with an opaque value is skip it. An object of a class of
 * TorchScript is its attributes, and nothing else.
 *
 * Values live in one array and refer to each other by index, so a value that contains itself needs no special care. Nothing here
 * recurses. Bytes are read from the file as needed, and each count is first compared with the number of bytes that are left. */
#ifndef L3A_PICKLE_H
#define L3A_PICKLE_H

#include "format/pickle_bytes.h"
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
    PICKLE_TENSOR,
    PICKLE_OBJECT /* of a class of TorchScript */
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer; /* also for a boolean */
        double number;
        struct {
            uint32_t at, length;
        } text; /* position in the pickle's bytes, escapes not decoded */
        struct {
            uint32_t first, last, count;
        } items;        /* links; a dict alternates keys and values */
        uint32_t index; /* of a known name, a storage or a tensor; of an object, the dict of its attributes, or 0 */
    } as;
};

struct pickle_link {
    uint32_t value, next; /* next is 0 at the end */
};

struct pickle_storage {
    uint32_t key;     /* a text */
    tensor_type type; /* TENSOR_TYPES if not supported */
    size_t element_size;
    uint64_t elements, first; /* first: for a view into another storage, as in files of old torch versions */
    size_t place;             /* for the caller to use */
};

struct pickle_tensor {
    uint32_t storage;
    tensor_type type;
    size_t rank;
    uint64_t first, shape[TENSOR_RANK], stride[TENSOR_RANK]; /* in elements */
};

/* What the operations work on: values by their index. */
struct pickle_list {
    uint32_t *items;
    size_t count, room;
};

struct pickle_machine {
    struct pickle_list stack;
    struct pickle_list marks; /* how high the stack was */
    struct pickle_list memo;  /* values for reuse by number, 0 for none; count: those that are set */
    bool stopped;
};

struct pickle {
    struct pickle_bytes bytes;
    struct pickle_machine machine;
    struct {
        struct pickle_value *items;
        size_t count, room;
    } values;
    struct {
        struct pickle_link *items;
        size_t count, room;
    } links;
    struct {
        struct pickle_storage *items;
        size_t count, room;
    } storages;
    struct {
        struct pickle_tensor *items;
        size_t count, room;
    } tensors;
    uint32_t root; /* the value that the pickle stands for */
};

/* Runs the pickle that begins at `start`. It ended at bytes.start + bytes.at. */
l3a_status pickle_read(const input_file *input, uint64_t start, uint64_t end, struct pickle *pickle);
void pickle_free(struct pickle *pickle);
/* An error that gives the byte of the current operation. */
#define pickle_fail(pickle, ...) pickle_bytes_fail(&(pickle)->bytes, __VA_ARGS__)

static inline const struct pickle_value *pickle_at(const struct pickle *pickle, uint32_t index) {
    return &pickle->values.items[index];
}

static inline const char *pickle_text(const struct pickle *pickle, const struct pickle_value *value) {
    return pickle->bytes.held + value->as.text.at;
}

bool pickle_is_text(const struct pickle *pickle, uint32_t index, const char *text);
/* The value of a text key, or the last one if there are several; 0 if there is none, or if this is not a dict. */
uint32_t pickle_find(const struct pickle *pickle, uint32_t dict, const char *key);
/* Copies the first `capacity` items of a container, and returns how many it has. */
size_t pickle_items(const struct pickle *pickle, uint32_t container, uint32_t *items, size_t capacity);

/* For the code that interprets names. */
l3a_status pickle_make(struct pickle *pickle, struct pickle_value value, uint32_t *index);
l3a_status pickle_append(struct pickle *pickle, uint32_t container, uint32_t value);
/* Makes room for one more item in one of the arrays, up to a limit; items is the address of its pointer. */
l3a_status pickle_reserve(struct pickle *pickle, void *items, size_t count, size_t *room, size_t size, size_t limit,
                          const char *what);

/* In pickle_machine.c: runs the operations until the one that stops. */
l3a_status pickle_run(struct pickle *pickle);

/* In torch_names.c: the value that a name, a call or a persistent id stands for. */
l3a_status torch_name(struct pickle *pickle, const char *module, size_t module_length, const char *name, size_t name_length,
                      uint32_t *made);
l3a_status torch_call(struct pickle *pickle, uint32_t called, uint32_t arguments, uint32_t *made);
l3a_status torch_persistent(struct pickle *pickle, uint32_t id, uint32_t *made);

#endif
