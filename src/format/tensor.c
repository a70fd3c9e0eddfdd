#include "format/tensor.h"

#include "base/memory.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[TENSOR_TYPES] = {
    [TENSOR_F16] = {"F16", 2}, [TENSOR_BF16] = {"BF16", 2}, [TENSOR_F32] = {"F32", 4}, [TENSOR_F64] = {"F64", 8},
    [TENSOR_I8] = {"I8", 1},   [TENSOR_U8] = {"U8", 1},     [TENSOR_I32] = {"I32", 4}, [TENSOR_I64] = {"I64", 8}};

const char *tensor_type_name(tensor_type type) {
    return types[type].name;
}

size_t tensor_type_size(tensor_type type) {
    return types[type].size;
}

tensor_type tensor_type_find(const char *name, size_t length) {
    tensor_type type = 0;
    while (type < TENSOR_TYPES && (strlen(types[type].name) != length || memcmp(types[type].name, name, length) != 0)) {
        type++;
    }
    return type;
}

bool tensor_count(const struct tensor *tensor, uint64_t *elements, uint64_t *bytes) {
    *elements = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (!multiply_sizes(*elements, tensor->shape[i], elements)) {
            return false;
        }
    }
    return multiply_sizes(*elements, tensor_type_size(tensor->type), bytes);
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float float_of_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7FFF;
    const float subnormal = (float)magnitude * 0x1p-24f;
    uint32_t bits = (magnitude << 13) + ((uint32_t)112 << 23);
    if (magnitude >= 0x7C00) {
        bits += (uint32_t)112 << 23;
    }
    if (magnitude < 0x0400) {
        memcpy(&bits, &subnormal, sizeof bits);
    }
    return float_of_bits(sign | bits);
}

/* To make a subnormal half, adds a number whose last bit has the value of a half's last bit, so that the addition itself rounds to
 * nearest, ties to even. */
static uint16_t half_of_float(float value) {
    uint32_t bits, rounded;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
        return (uint16_t)(sign | 0x7E00);
    }
    if (magnitude < 0x38800000) {
        const float shifted = float_of_bits(magnitude) + 0.5F;
        memcpy(&rounded, &shifted, sizeof rounded);
        return (uint16_t)(sign | (rounded - 0x3F000000));
    }
    rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded >= 0x47800000 ? 0x7C00 : (rounded - 0x38000000) >> 13));
}

void halves_of_floats(const float *from, uint16_t *to, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = half_of_float(from[i]);
    }
}

#define CONVERT(stored, expression)                                                                                                \
    for (size_t i = 0; i < count; i++) {                                                                                           \
        stored x;                                                                                                                  \
        memcpy(&x, (const char *)from + i * sizeof x, sizeof x);                                                                   \
        to[i] = (expression);                                                                                                      \
    }                                                                                                                              \
    break

#define CONVERT_ALL(number)                                                                                                        \
    switch (type) {                                                                                                                \
    case TENSOR_F16: CONVERT(uint16_t, (number)float_of_half(x));                                                                  \
    case TENSOR_BF16: CONVERT(uint16_t, (number)float_of_bits((uint32_t)x << 16));                                                 \
    case TENSOR_F32: CONVERT(float, (number)x);                                                                                    \
    case TENSOR_F64: CONVERT(double, (number)x);                                                                                   \
    case TENSOR_I8: CONVERT(int8_t, (number)x);                                                                                    \
    case TENSOR_U8: CONVERT(uint8_t, (number)x);                                                                                   \
    case TENSOR_I32: CONVERT(int32_t, (number)x);                                                                                  \
    case TENSOR_I64: CONVERT(int64_t, (number)x);                                                                                  \
    case TENSOR_TYPES: break;                                                                                                      \
    }

void tensor_to_double(tensor_type type, const void *from, double *to, size_t count) {
    CONVERT_ALL(double)
}

void tensor_to_float(tensor_type type, const void *from, float *to, size_t count) {
    CONVERT_ALL(float)
}

bool tensor_try_read(const input_file *input, const struct tensor *tensor, uint64_t first, size_t count, float *values,
                     struct read_failure *failure) {
    enum { CHUNK = 16384 };
    const size_t size = tensor_type_size(tensor->type), step = CHUNK / size;
    const uint64_t start = tensor->offset + first * size;
    bool read = true;
    char chunk[CHUNK];
    if (tensor->type == TENSOR_F32) {
        return input_try_read(input, start, values, count * size, failure);
    }
    for (size_t done = 0; read && done < count; done += step) {
        const size_t now = count - done < step ? count - done : step;
        read = input_try_read(input, start + done * size, chunk, now * size, failure);
        tensor_to_float(tensor->type, chunk, values + done, read ? now : 0);
    }
    return read;
}

l3a_status tensor_read(const input_file *input, const struct tensor *tensor, uint64_t first, size_t count, float *values) {
    struct read_failure failure;
    return tensor_try_read(input, tensor, first, count, values, &failure) ? L3A_OK : input_fail(input, &failure);
}

l3a_status tensor_read_fortran(const input_file *input, const struct tensor *tensor, float *values) {
    l3a_status status = L3A_OK;
    const size_t rows = (size_t)tensor->shape[0], columns = (size_t)tensor->shape[1], size = tensor_type_size(tensor->type);
    char *bytes = NULL;
    float *column = NULL;
    TRY(allocate(input->context, rows, size, &bytes));
    TRY(allocate(input->context, rows, sizeof *column, &column));
    for (size_t j = 0; j < columns; j++) {
        TRY(input_read(input, tensor->offset + (uint64_t)j * rows * size, bytes, rows * size));
        tensor_to_float(tensor->type, bytes, column, rows);
        for (size_t i = 0; i < rows; i++) {
            values[i * columns + j] = column[i];
        }
    }
done:
    release(input->context, bytes);
    release(input->context, column);
    return status;
}

static l3a_status refuse_label(const input_file *input, const struct tensor *tensor, size_t index, double value) {
    const size_t rows = (size_t)tensor->shape[0], columns = (size_t)tensor->shape[1];
    return fail(input->context, L3A_ERROR_DATA, "use 1 (present), 0 (absent) or -1 (unknown) as a label",
                "%s: row %zu, column %zu: label %g", input->path, tensor->fortran ? index % rows : index / columns,
                tensor->fortran ? index / rows : index % columns, value);
}

/* Some labels that lie next to each other in the file. The first goes to `labels`, and each further one `stride` behind the last.
 */
static l3a_status read_run(const input_file *input, const struct tensor *tensor, uint64_t start, size_t count, int8_t *labels,
                           size_t stride, char *block, double *numbers) {
    l3a_status status = L3A_OK;
    const size_t size = tensor_type_size(tensor->type);
    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < LABEL_BLOCK ? count - done : LABEL_BLOCK;
        TRY(input_read(input, tensor->offset + (start + done) * size, block, n * size));
        tensor_to_double(tensor->type, block, numbers, n);
        for (size_t i = 0; i < n; i++) {
            const double value = numbers[i];
            if (!(value == -1 || value == 0 || value == 1)) {
                status = refuse_label(input, tensor, (size_t)start + done + i, value);
                goto done;
            }
            labels[(done + i) * stride] = (int8_t)value;
        }
    }
done:
    return status;
}

l3a_status tensor_read_labels(const input_file *input, const struct tensor *tensor, size_t first, size_t rows, int8_t *labels) {
    l3a_status status = L3A_OK;
    const size_t columns = (size_t)tensor->shape[1], runs = tensor->fortran ? columns : 1;
    char *block = NULL;
    double *numbers = NULL;
    TRY(allocate(input->context, LABEL_BLOCK, tensor_type_size(tensor->type), &block));
    TRY(allocate(input->context, LABEL_BLOCK, sizeof *numbers, &numbers));
    for (size_t j = 0; j < runs; j++) {
        TRY(tensor->fortran ? read_run(input, tensor, j * tensor->shape[0] + first, rows, labels + j, columns, block, numbers)
                            : read_run(input, tensor, (uint64_t)first * columns, rows * columns, labels, 1, block, numbers));
    }
done:
    release(input->context, block);
    release(input->context, numbers);
    return status;
}
