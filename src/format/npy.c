#include "format/npy.h"

#include "base/memory.h"
#include "common/number.h"

#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, HEADER_LIMIT = 1 << 16 };

bool npy_recognise(const char *bytes, size_t count) {
    return count >= MAGIC && memcmp(bytes, magic, MAGIC) == 0;
}

/* The header is a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */
struct header {
    const char *at, *end;
};

static void skip_space(struct header *header) {
    while (header->at < header->end && (*header->at == ' ' || *header->at == '\n')) {
        header->at++;
    }
}

static bool take(struct header *header, const char *text) {
    skip_space(header);
    const size_t length = strlen(text);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, text, length) != 0) {
        return false;
    }
    header->at += length;
    return true;
}

static bool take_string(struct header *header, const char **text, size_t *length) {
    skip_space(header);
    if (header->at == header->end || (*header->at != '\'' && *header->at != '"')) {
        return false;
    }
    const char *close = memchr(header->at + 1, *header->at, (size_t)(header->end - header->at - 1));
    if (!close) {
        return false;
    }
    *text = header->at + 1;
    *length = (size_t)(close - *text);
    header->at = close + 1;
    return true;
}

static bool take_shape(struct header *header, struct tensor *tensor) {
    tensor->rank = 0;
    if (!take(header, "(")) {
        return false;
    }
    while (!take(header, ")")) {
        const char *start = (skip_space(header), header->at);
        while (header->at < header->end && *header->at >= '0' && *header->at <= '9') {
            header->at++;
        }
        if (tensor->rank == TENSOR_RANK || !integer_parse(start, (size_t)(header->at - start), &tensor->shape[tensor->rank])) {
            return false;
        }
        tensor->rank++;
        if (!take(header, ",")) {
            return take(header, ")");
        }
    }
    return true;
}

static bool find_type(const char *name, size_t length, tensor_type *type) {
    static const struct {
        const char *name;
        tensor_type type;
    } known[] = {{"<f2", TENSOR_F16}, {"<f4", TENSOR_F32}, {"<f8", TENSOR_F64}, {"|i1", TENSOR_I8}, {"|u1", TENSOR_U8},
                 {"|b1", TENSOR_U8},  {"<i4", TENSOR_I32}, {"<i8", TENSOR_I64}, {"<i1", TENSOR_I8}, {"<u1", TENSOR_U8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (length == 3 && memcmp(known[i].name, name, 3) == 0) {
            *type = known[i].type;
            return true;
        }
    }
    return false;
}

static l3a_status fail_type(l3a_context *context, const char *path, const char *name, size_t length) {
    const bool big_endian = length && *name == '>';
    return fail(context, L3A_ERROR_FORMAT,
                big_endian ? "save array.astype(array.dtype.newbyteorder('<')) instead"
                           : "save it as float16, float32, float64, int8, uint8, bool, int32 or int64",
                "%s: %sarrays of type '%.*s' are not supported", path, big_endian ? "big-endian " : "",
                (int)(length < 40 ? length : 40), name);
}

static l3a_status parse_header(l3a_context *context, const char *path, const char *text, size_t length, struct tensor *tensor) {
    static const char hint[] = "write it with numpy.save";
    struct header header = {text, text + length};
    bool type = false, order = false, shape = false, good = take(&header, "{");
    while (good && !take(&header, "}")) {
        const char *key, *value;
        size_t key_length, value_length;
        good = take_string(&header, &key, &key_length) && take(&header, ":");
        if (!good) {
            break;
        }
        if (key_length == 5 && memcmp(key, "descr", 5) == 0) {
            good = type = take_string(&header, &value, &value_length);
            if (good && !find_type(value, value_length, &tensor->type)) {
                return fail_type(context, path, value, value_length);
            }
        } else if (key_length == 13 && memcmp(key, "fortran_order", 13) == 0) {
            tensor->fortran = take(&header, "True");
            good = order = tensor->fortran || take(&header, "False");
        } else if (key_length == 5 && memcmp(key, "shape", 5) == 0) {
            good = shape = take_shape(&header, tensor);
        } else {
            good = false;
        }
        if (good && !take(&header, ",")) {
            good = take(&header, "}");
            break;
        }
    }
    return good && type && order && shape
               ? L3A_OK
               : fail(context, L3A_ERROR_FORMAT, hint, "%s: the header of the .npy file cannot be parsed at byte %zu", path,
                      (size_t)(header.at - text));
}

l3a_status npy_open(l3a_context *context, const char *path, input_file *input, struct tensor *tensor) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    unsigned char start[12];
    memset(tensor, 0, sizeof *tensor);
    TRY(input_open(context, path, input));
    FAIL_IF(input->size < sizeof start, context, L3A_ERROR_TRUNCATED, "write it with numpy.save",
            "%s: %llu bytes are too few for a .npy file", path, (unsigned long long)input->size);
    TRY(input_read(input, 0, start, sizeof start));
    FAIL_IF(!npy_recognise((const char *)start, sizeof start), context, L3A_ERROR_FORMAT, "write it with numpy.save",
            "%s: not a .npy file", path);
    FAIL_IF(start[6] < 1 || start[6] > 3, context, L3A_ERROR_VERSION, "write it with numpy.save",
            "%s: .npy version %d is not supported; versions 1 to 3 are", path, start[6]);
    const size_t before = start[6] == 1 ? 10 : 12;
    const size_t length = start[6] == 1 ? start[8] + 256u * start[9]
                                        : start[8] + 256u * start[9] + 65536u * start[10] + 16777216u * (size_t)start[11];
    FAIL_IF(length > HEADER_LIMIT, context, L3A_ERROR_FORMAT, "write it with numpy.save",
            "%s: the header has %zu bytes, which is too long", path, length);
    TRY(allocate(context, length, 1, &text));
    TRY(input_read(input, before, text, length));
    TRY(parse_header(context, path, text, length, tensor));
    tensor->offset = before + length;
    uint64_t elements;
    FAIL_IF(!tensor_count(tensor, &elements, &tensor->bytes), context, L3A_ERROR_FORMAT,
            "the file is damaged: copy or create it again", "%s: the shape is larger than any memory", path);
    FAIL_IF(tensor->bytes > input->size - tensor->offset, context, L3A_ERROR_TRUNCATED, "copy or create the file again",
            "%s: the header promises %llu bytes of numbers, but there are %llu", path, (unsigned long long)tensor->bytes,
            (unsigned long long)(input->size - tensor->offset));
done:
    release(context, text);
    if (status != L3A_OK) {
        input_close(input);
    }
    return status;
}
