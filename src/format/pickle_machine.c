/* The stack machine: a stack with marks, a memo of values for reuse, and a table with one function per operation. */
#include "format/pickle.h"

#include "common/number.h"

#include <inttypes.h>
#include <string.h>

enum { STACK_LIMIT = 1 << 22, MARK_LIMIT = 1 << 16, MEMO_LIMIT = 1 << 23, PROTOCOL_LIMIT = 5 };

/* ---- Stack ---- */

static l3a_status push(struct pickle *pickle, uint32_t value) {
    const l3a_status status = pickle_reserve(pickle, &pickle->machine.stack.items, pickle->machine.stack.count,
                                             &pickle->machine.stack.room, sizeof value, STACK_LIMIT, "values on the stack");
    if (status == L3A_OK) {
        pickle->machine.stack.items[pickle->machine.stack.count++] = value;
    }
    return status;
}

static l3a_status push_new(struct pickle *pickle, struct pickle_value value) {
    uint32_t index;
    const l3a_status status = pickle_make(pickle, value, &index);
    return status == L3A_OK ? push(pickle, index) : status;
}

/* The number of values above the last mark. */
static size_t above_mark(const struct pickle *pickle) {
    return pickle->machine.stack.count -
           (pickle->machine.marks.count ? pickle->machine.marks.items[pickle->machine.marks.count - 1] : 0);
}

static l3a_status expect_values(struct pickle *pickle, size_t count) {
    return above_mark(pickle) >= count ? L3A_OK : pickle_fail(pickle, "the stack has too few values for this operation");
}

static l3a_status pop(struct pickle *pickle, uint32_t *value) {
    const l3a_status status = expect_values(pickle, 1);
    if (status == L3A_OK) {
        *value = pickle->machine.stack.items[--pickle->machine.stack.count];
    }
    return status;
}

/* Removes the last mark. The values above it begin at *first; the caller removes them. */
static l3a_status pop_mark(struct pickle *pickle, size_t *first) {
    if (!pickle->machine.marks.count) {
        return pickle_fail(pickle, "there is no mark on the stack");
    }
    *first = pickle->machine.marks.items[--pickle->machine.marks.count];
    return L3A_OK;
}

static l3a_status run_mark(struct pickle *pickle, unsigned argument) {
    (void)argument;
    const l3a_status status =
        pickle_reserve(pickle, &pickle->machine.marks.items, pickle->machine.marks.count, &pickle->machine.marks.room,
                       sizeof *pickle->machine.marks.items, MARK_LIMIT, "nested marks");
    if (status == L3A_OK) {
        pickle->machine.marks.items[pickle->machine.marks.count++] = (uint32_t)pickle->machine.stack.count;
    }
    return status;
}

static l3a_status run_pop_mark(struct pickle *pickle, unsigned argument) {
    (void)argument;
    return pop_mark(pickle, &pickle->machine.stack.count);
}

/* Like Python's own reader, removes a mark if there is no value above it. */
static l3a_status run_pop(struct pickle *pickle, unsigned argument) {
    uint32_t value;
    return pickle->machine.marks.count && !above_mark(pickle) ? run_pop_mark(pickle, argument) : pop(pickle, &value);
}

static l3a_status run_duplicate(struct pickle *pickle, unsigned argument) {
    (void)argument;
    const l3a_status status = expect_values(pickle, 1);
    return status == L3A_OK ? push(pickle, pickle->machine.stack.items[pickle->machine.stack.count - 1]) : status;
}

static l3a_status run_stop(struct pickle *pickle, unsigned argument) {
    (void)argument;
    pickle->machine.stopped = true;
    return pop(pickle, &pickle->root);
}

static l3a_status run_protocol(struct pickle *pickle, unsigned argument) {
    uint64_t version;
    l3a_status status = pickle_take_number(&pickle->bytes, argument, &version);
    if (status == L3A_OK && version > PROTOCOL_LIMIT) {
        status = fail(pickle->bytes.input->context, L3A_ERROR_VERSION, "save it with pickle_protocol=2, torch's default",
                      "%s: byte %" PRIu64 ": pickle protocol %" PRIu64 " is not supported; 0 to %d are", pickle->bytes.input->path,
                      pickle->bytes.start + pickle->bytes.operation, version, PROTOCOL_LIMIT);
    }
    return status;
}

static l3a_status run_frame(struct pickle *pickle, unsigned argument) {
    uint64_t size;
    const l3a_status status = pickle_take_number(&pickle->bytes, argument, &size);
    const bool fits = size <= pickle->bytes.end - pickle->bytes.start - pickle->bytes.at;
    return status != L3A_OK || fits ? status : pickle_need(&pickle->bytes, size);
}

/* ---- Numbers and texts ---- */

static l3a_status push_integer(struct pickle *pickle, int64_t integer) {
    return push_new(pickle, (struct pickle_value){PICKLE_INTEGER, {.integer = integer}});
}

static l3a_status push_opaque(struct pickle *pickle, unsigned argument) {
    (void)argument;
    return push_new(pickle, (struct pickle_value){.kind = PICKLE_OPAQUE});
}

static l3a_status run_none(struct pickle *pickle, unsigned argument) {
    (void)argument;
    return push_new(pickle, (struct pickle_value){.kind = PICKLE_NONE});
}

static l3a_status run_boolean(struct pickle *pickle, unsigned argument) {
    return push_new(pickle, (struct pickle_value){PICKLE_BOOLEAN, {.integer = argument}});
}

static l3a_status run_integer(struct pickle *pickle, unsigned argument) {
    uint64_t number;
    const l3a_status status = pickle_take_number(&pickle->bytes, argument, &number);
    return status != L3A_OK ? status : push_integer(pickle, argument == 4 ? (int32_t)(uint32_t)number : (int64_t)number);
}

/* Two's complement of any length; a number that does not fit in 64 bits is opaque. */
static l3a_status run_long(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    uint64_t length, number = 0;
    uint32_t at;
    TRY(pickle_take_number(&pickle->bytes, argument, &length));
    TRY(pickle_take_bytes(&pickle->bytes, length, &at));
    if (length > 8) {
        return push_opaque(pickle, 0);
    }
    for (size_t i = 0; i < length; i++) {
        number |= (uint64_t)(unsigned char)pickle->bytes.held[at + i] << 8 * i;
    }
    if (length && length < 8 && pickle->bytes.held[at + length - 1] & 0x80) {
        number |= UINT64_MAX << 8 * length;
    }
    TRY(push_integer(pickle, (int64_t)number));
done:
    return status;
}

/* A decimal number as text; "01" and "00" are true and false, and a long ends in L. */
static l3a_status run_integer_line(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    uint32_t at, length;
    uint64_t magnitude = 0;
    TRY(pickle_take_line(&pickle->bytes, &at, &length));
    const char *text = pickle->bytes.held + at;
    if (argument == 'I' && length == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1')) {
        return run_boolean(pickle, text[1] == '1');
    }
    length -= length && text[length - 1] == 'L';
    const bool negative = length && *text == '-';
    for (size_t i = negative; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return pickle_fail(pickle, "a number contains a character that is not a digit");
        }
    }
    if (!integer_parse(text + negative, length - negative, &magnitude) || magnitude > INT64_MAX) {
        return push_opaque(pickle, 0);
    }
    TRY(push_integer(pickle, negative ? -(int64_t)magnitude : (int64_t)magnitude));
done:
    return status;
}

static l3a_status run_float_line(struct pickle *pickle, unsigned argument) {
    (void)argument;
    l3a_status status = L3A_OK;
    uint32_t at, length;
    double number;
    TRY(pickle_take_line(&pickle->bytes, &at, &length));
    if (!number_parse(pickle->bytes.held + at, length, &number)) {
        return push_opaque(pickle, 0);
    }
    TRY(push_new(pickle, (struct pickle_value){PICKLE_NUMBER, {.number = number}}));
done:
    return status;
}

static l3a_status run_float(struct pickle *pickle, unsigned argument) {
    uint64_t bits;
    double number;
    const l3a_status status = pickle_take_number(&pickle->bytes, argument, &bits);
    bits = __builtin_bswap64(bits);
    memcpy(&number, &bits, sizeof number);
    return status == L3A_OK ? push_new(pickle, (struct pickle_value){PICKLE_NUMBER, {.number = number}}) : status;
}

static l3a_status push_text(struct pickle *pickle, uint32_t at, uint32_t length) {
    return push_new(pickle, (struct pickle_value){PICKLE_TEXT, {.text = {at, length}}});
}

/* The argument is the number of bytes in the length, which precedes the text. */
static l3a_status run_text(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    uint64_t length;
    uint32_t at;
    TRY(pickle_take_number(&pickle->bytes, argument, &length));
    TRY(pickle_take_bytes(&pickle->bytes, length, &at));
    TRY(push_text(pickle, at, (uint32_t)length));
done:
    return status;
}

static l3a_status run_bytes(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    uint64_t length;
    uint32_t at;
    TRY(pickle_take_number(&pickle->bytes, argument, &length));
    TRY(pickle_take_bytes(&pickle->bytes, length, &at));
    TRY(push_opaque(pickle, 0));
done:
    return status;
}

/* Escapes are not decoded: no name of a tensor contains any. */
static l3a_status run_text_line(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    uint32_t at, length;
    TRY(pickle_take_line(&pickle->bytes, &at, &length));
    if (argument == 'S') {
        const char *text = pickle->bytes.held + at;
        if (length < 2 || (*text != '\'' && *text != '"') || text[length - 1] != *text) {
            return pickle_fail(pickle, "a text is not in quotes");
        }
        at++;
        length -= 2;
    }
    TRY(push_text(pickle, at, length));
done:
    return status;
}

/* ---- Containers ---- */

static l3a_status run_empty(struct pickle *pickle, unsigned argument) {
    return push_new(pickle, (struct pickle_value){.kind = (enum pickle_kind)argument});
}

/* Moves the stack values from index `first` on into a container. An opaque container discards them. */
static l3a_status fill(struct pickle *pickle, size_t first, uint32_t container) {
    l3a_status status = L3A_OK;
    for (size_t i = first; pickle_at(pickle, container)->kind != PICKLE_OPAQUE && i < pickle->machine.stack.count; i++) {
        TRY(pickle_append(pickle, container, pickle->machine.stack.items[i]));
    }
    pickle->machine.stack.count = first;
done:
    return status;
}

static l3a_status push_filled(struct pickle *pickle, size_t first, enum pickle_kind kind) {
    l3a_status status = L3A_OK;
    uint32_t made;
    if (kind == PICKLE_DICT && (pickle->machine.stack.count - first) % 2) {
        return pickle_fail(pickle, "a key without a value");
    }
    TRY(pickle_make(pickle, (struct pickle_value){.kind = kind}, &made));
    TRY(fill(pickle, first, made));
    TRY(push(pickle, made));
done:
    return status;
}

static l3a_status run_filled(struct pickle *pickle, unsigned argument) {
    size_t first = 0;
    const l3a_status status = pop_mark(pickle, &first);
    return status == L3A_OK ? push_filled(pickle, first, (enum pickle_kind)argument) : status;
}

static l3a_status run_tuple(struct pickle *pickle, unsigned argument) {
    const l3a_status status = expect_values(pickle, argument);
    return status == L3A_OK ? push_filled(pickle, pickle->machine.stack.count - argument, PICKLE_TUPLE) : status;
}

/* Adds the stack values from index `first` on to the container below them, which must be of the given kind. */
static l3a_status add_items(struct pickle *pickle, size_t first, enum pickle_kind kind) {
    const size_t floor = pickle->machine.marks.count ? pickle->machine.marks.items[pickle->machine.marks.count - 1] : 0;
    if (first <= floor) {
        return pickle_fail(pickle, "items without a container");
    }
    const uint32_t container = pickle->machine.stack.items[first - 1];
    const enum pickle_kind found = pickle_at(pickle, container)->kind;
    if (found != kind && found != PICKLE_OPAQUE) {
        return pickle_fail(pickle, "items for a value that is not a container of this kind");
    }
    if (kind == PICKLE_DICT && (pickle->machine.stack.count - first) % 2) {
        return pickle_fail(pickle, "a key without a value");
    }
    return fill(pickle, first, container);
}

static l3a_status run_add_many(struct pickle *pickle, unsigned argument) {
    size_t first = 0;
    const l3a_status status = pop_mark(pickle, &first);
    return status == L3A_OK ? add_items(pickle, first, (enum pickle_kind)argument) : status;
}

static l3a_status run_append(struct pickle *pickle, unsigned argument) {
    const l3a_status status = expect_values(pickle, 2);
    return status == L3A_OK ? add_items(pickle, pickle->machine.stack.count - 1, (enum pickle_kind)argument) : status;
}

static l3a_status run_set_item(struct pickle *pickle, unsigned argument) {
    const l3a_status status = expect_values(pickle, 3);
    return status == L3A_OK ? add_items(pickle, pickle->machine.stack.count - 2, (enum pickle_kind)argument) : status;
}

/* ---- Memo ---- */

/* Picklers count memos from 0 or 1, so a number larger than the bytes read so far cannot be genuine. */
static l3a_status remember(struct pickle *pickle, uint64_t number) {
    l3a_status status = L3A_OK;
    if (number > pickle->bytes.at) {
        return pickle_fail(pickle, "memo %" PRIu64 " is too large a number for this pickle", number);
    }
    TRY(expect_values(pickle, 1));
    const size_t before = pickle->machine.memo.room;
    TRY(pickle_reserve(pickle, &pickle->machine.memo.items, (size_t)number, &pickle->machine.memo.room,
                       sizeof *pickle->machine.memo.items, MEMO_LIMIT, "memos"));
    if (pickle->machine.memo.room > before) {
        memset(pickle->machine.memo.items + before, 0, (pickle->machine.memo.room - before) * sizeof *pickle->machine.memo.items);
    }
    pickle->machine.memo.count += pickle->machine.memo.items[number] == 0;
    pickle->machine.memo.items[number] = pickle->machine.stack.items[pickle->machine.stack.count - 1];
done:
    return status;
}

static l3a_status recall(struct pickle *pickle, uint64_t number) {
    return number < pickle->machine.memo.room && pickle->machine.memo.items[number]
               ? push(pickle, pickle->machine.memo.items[number])
               : pickle_fail(pickle, "memo %" PRIu64 " was never set", number);
}

/* A number in that many bytes, or as a line of digits if bytes is 0. */
static l3a_status take_memo_number(struct pickle *pickle, unsigned bytes, uint64_t *number) {
    uint32_t at, length;
    if (bytes) {
        return pickle_take_number(&pickle->bytes, bytes, number);
    }
    const l3a_status status = pickle_take_line(&pickle->bytes, &at, &length);
    return status == L3A_OK && !integer_parse(pickle->bytes.held + at, length, number)
               ? pickle_fail(pickle, "the number of a memo cannot be parsed")
               : status;
}

static l3a_status run_put(struct pickle *pickle, unsigned argument) {
    uint64_t number;
    const l3a_status status = take_memo_number(pickle, argument, &number);
    return status == L3A_OK ? remember(pickle, number) : status;
}

static l3a_status run_get(struct pickle *pickle, unsigned argument) {
    uint64_t number;
    const l3a_status status = take_memo_number(pickle, argument, &number);
    return status == L3A_OK ? recall(pickle, number) : status;
}

static l3a_status run_memoize(struct pickle *pickle, unsigned argument) {
    (void)argument;
    return remember(pickle, pickle->machine.memo.count);
}

/* ---- Names, calls, objects: they only make values, and never run anything ---- */

static l3a_status run_name(struct pickle *pickle, unsigned argument) {
    (void)argument;
    l3a_status status = L3A_OK;
    uint32_t module, name, module_length, name_length, made;
    TRY(pickle_take_line(&pickle->bytes, &module, &module_length));
    TRY(pickle_take_line(&pickle->bytes, &name, &name_length));
    TRY(torch_name(pickle, pickle->bytes.held + module, module_length, pickle->bytes.held + name, name_length, &made));
    TRY(push(pickle, made));
done:
    return status;
}

static l3a_status run_stack_name(struct pickle *pickle, unsigned argument) {
    (void)argument;
    l3a_status status = L3A_OK;
    uint32_t module, name, made;
    TRY(pop(pickle, &name));
    TRY(pop(pickle, &module));
    const struct pickle_value *first = pickle_at(pickle, module), *second = pickle_at(pickle, name);
    if (first->kind != PICKLE_TEXT || second->kind != PICKLE_TEXT) {
        return pickle_fail(pickle, "a name that is not text");
    }
    TRY(torch_name(pickle, pickle_text(pickle, first), first->as.text.length, pickle_text(pickle, second), second->as.text.length,
                   &made));
    TRY(push(pickle, made));
done:
    return status;
}

static l3a_status run_call(struct pickle *pickle, unsigned argument) {
    (void)argument;
    l3a_status status = L3A_OK;
    uint32_t called, arguments, made;
    TRY(pop(pickle, &arguments));
    TRY(pop(pickle, &called));
    TRY(torch_call(pickle, called, arguments, &made));
    TRY(push(pickle, made));
done:
    return status;
}

/* Creates an object from its class, its arguments and, for NEWOBJ_EX, its named arguments, which are dropped. */
static l3a_status run_object(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    TRY(expect_values(pickle, argument));
    if (argument == 3) {
        pickle->machine.stack.count--;
    }
    TRY(run_call(pickle, 0));
done:
    return status;
}

/* Protocols 0 and 1: a class and its arguments above a mark. For INST, two lines name the class. */
static l3a_status run_old_object(struct pickle *pickle, unsigned argument) {
    l3a_status status = L3A_OK;
    uint32_t at, length;
    for (unsigned i = 0; i < argument; i++) {
        TRY(pickle_take_line(&pickle->bytes, &at, &length));
    }
    TRY(run_pop_mark(pickle, 0));
    TRY(push_opaque(pickle, 0));
done:
    return status;
}

/* Gives an object its attributes. Those of containers and tensors do not matter, and an opaque value stays opaque. */
static l3a_status run_build(struct pickle *pickle, unsigned argument) {
    (void)argument;
    l3a_status status = L3A_OK;
    uint32_t state;
    TRY(expect_values(pickle, 2));
    TRY(pop(pickle, &state));
    struct pickle_value *object = &pickle->values.items[pickle->machine.stack.items[pickle->machine.stack.count - 1]];
    if (object->kind == PICKLE_OBJECT && pickle_at(pickle, state)->kind == PICKLE_DICT) {
        object->as.index = state;
    }
done:
    return status;
}

static l3a_status run_extension(struct pickle *pickle, unsigned argument) {
    uint64_t code;
    const l3a_status status = pickle_take_number(&pickle->bytes, argument, &code);
    return status == L3A_OK ? push_opaque(pickle, 0) : status;
}

static l3a_status run_persistent(struct pickle *pickle, unsigned argument) {
    (void)argument;
    l3a_status status = L3A_OK;
    uint32_t id, made;
    TRY(pop(pickle, &id));
    TRY(torch_persistent(pickle, id, &made));
    TRY(push(pickle, made));
done:
    return status;
}

/* A persistent id as a line of text, which torch never writes. */
static l3a_status run_persistent_line(struct pickle *pickle, unsigned argument) {
    uint32_t at, length;
    const l3a_status status = pickle_take_line(&pickle->bytes, &at, &length);
    return status == L3A_OK ? push_opaque(pickle, argument) : status;
}

/* ---- The table ---- */

struct operation {
    l3a_status (*run)(struct pickle *pickle, unsigned argument);
    unsigned argument;
};

static const struct operation operations[256] = {
    [0x80] = {run_protocol, 1},          /* PROTO */
    [0x95] = {run_frame, 8},             /* FRAME */
    ['.'] = {run_stop, 0},               /* STOP */
    ['('] = {run_mark, 0},               /* MARK */
    ['0'] = {run_pop, 0},                /* POP */
    ['1'] = {run_pop_mark, 0},           /* POP_MARK */
    ['2'] = {run_duplicate, 0},          /* DUP */
    ['N'] = {run_none, 0},               /* NONE */
    [0x88] = {run_boolean, 1},           /* NEWTRUE */
    [0x89] = {run_boolean, 0},           /* NEWFALSE */
    ['I'] = {run_integer_line, 'I'},     /* INT */
    ['L'] = {run_integer_line, 'L'},     /* LONG */
    ['J'] = {run_integer, 4},            /* BININT */
    ['K'] = {run_integer, 1},            /* BININT1 */
    ['M'] = {run_integer, 2},            /* BININT2 */
    [0x8A] = {run_long, 1},              /* LONG1 */
    [0x8B] = {run_long, 4},              /* LONG4 */
    ['F'] = {run_float_line, 0},         /* FLOAT */
    ['G'] = {run_float, 8},              /* BINFLOAT */
    ['S'] = {run_text_line, 'S'},        /* STRING */
    ['V'] = {run_text_line, 'V'},        /* UNICODE */
    ['T'] = {run_text, 4},               /* BINSTRING */
    ['U'] = {run_text, 1},               /* SHORT_BINSTRING */
    ['X'] = {run_text, 4},               /* BINUNICODE */
    [0x8C] = {run_text, 1},              /* SHORT_BINUNICODE */
    [0x8D] = {run_text, 8},              /* BINUNICODE8 */
    ['B'] = {run_bytes, 4},              /* BINBYTES */
    ['C'] = {run_bytes, 1},              /* SHORT_BINBYTES */
    [0x8E] = {run_bytes, 8},             /* BINBYTES8 */
    [0x96] = {run_bytes, 8},             /* BYTEARRAY8 */
    [']'] = {run_empty, PICKLE_LIST},    /* EMPTY_LIST */
    [')'] = {run_empty, PICKLE_TUPLE},   /* EMPTY_TUPLE */
    ['}'] = {run_empty, PICKLE_DICT},    /* EMPTY_DICT */
    [0x8F] = {run_empty, PICKLE_SET},    /* EMPTY_SET */
    ['l'] = {run_filled, PICKLE_LIST},   /* LIST */
    ['t'] = {run_filled, PICKLE_TUPLE},  /* TUPLE */
    ['d'] = {run_filled, PICKLE_DICT},   /* DICT */
    [0x91] = {run_filled, PICKLE_SET},   /* FROZENSET */
    [0x85] = {run_tuple, 1},             /* TUPLE1 */
    [0x86] = {run_tuple, 2},             /* TUPLE2 */
    [0x87] = {run_tuple, 3},             /* TUPLE3 */
    ['a'] = {run_append, PICKLE_LIST},   /* APPEND */
    ['e'] = {run_add_many, PICKLE_LIST}, /* APPENDS */
    ['s'] = {run_set_item, PICKLE_DICT}, /* SETITEM */
    ['u'] = {run_add_many, PICKLE_DICT}, /* SETITEMS */
    [0x90] = {run_add_many, PICKLE_SET}, /* ADDITEMS */
    ['p'] = {run_put, 0},                /* PUT */
    ['q'] = {run_put, 1},                /* BINPUT */
    ['r'] = {run_put, 4},                /* LONG_BINPUT */
    [0x94] = {run_memoize, 0},           /* MEMOIZE */
    ['g'] = {run_get, 0},                /* GET */
    ['h'] = {run_get, 1},                /* BINGET */
    ['j'] = {run_get, 4},                /* LONG_BINGET */
    ['c'] = {run_name, 0},               /* GLOBAL */
    [0x93] = {run_stack_name, 0},        /* STACK_GLOBAL */
    ['R'] = {run_call, 0},               /* REDUCE */
    ['b'] = {run_build, 0},              /* BUILD */
    [0x81] = {run_object, 2},            /* NEWOBJ */
    [0x92] = {run_object, 3},            /* NEWOBJ_EX */
    ['i'] = {run_old_object, 2},         /* INST */
    ['o'] = {run_old_object, 0},         /* OBJ */
    [0x82] = {run_extension, 1},         /* EXT1 */
    [0x83] = {run_extension, 2},         /* EXT2 */
    [0x84] = {run_extension, 4},         /* EXT4 */
    ['P'] = {run_persistent_line, 0},    /* PERSID */
    ['Q'] = {run_persistent, 0},         /* BINPERSID */
};

l3a_status pickle_run(struct pickle *pickle) {
    l3a_status status = L3A_OK;
    while (!pickle->machine.stopped) {
        uint64_t code;
        pickle->bytes.operation = pickle->bytes.at;
        TRY(pickle_take_number(&pickle->bytes, 1, &code));
        const struct operation *operation = &operations[code];
        if (!operation->run) {
            status = pickle_fail(pickle, "%02" PRIx64 " is not a pickle operation", code);
            goto done;
        }
        TRY(operation->run(pickle, operation->argument));
    }
done:
    return status;
}
