/* A tensor in a file: its type, shape and position, and the conversion of its numbers. */
#ifndef L3A_TENSOR_H
#define L3A_TENSOR_H

#include "base/file.h"

enum { TENSOR_RANK = 8 };

typedef enum tensor_type {
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_I8,
    TENSOR_U8,
    TENSOR_I32,
    TENSOR_I64,
    TENSOR_TYPES
} tensor_type;

struct tensor {
    char *name;
    tensor_type type;
    size_t rank;
    uint64_t shape[TENSOR_RANK];
    uint64_t offset, bytes; /* in the file */
    bool fortran;           /* the first index varies fastest */
};

/* The name of a type, such as "F32", and its size in bytes. */
const char *tensor_type_name(tensor_type type);
size_t tensor_type_size(tensor_type type);
/* Returns TENSOR_TYPES if there is no type of that name. */
tensor_type tensor_type_find(const char *name, size_t length);
/* The number of elements and of bytes; returns false if they do not fit. */
bool tensor_count(const struct tensor *tensor, uint64_t *elements, uint64_t *bytes);
/* Convert `count` little-endian numbers, which need not be aligned. */
void tensor_to_double(tensor_type type, const void *from, double *to, size_t count);
void tensor_to_float(tensor_type type, const void *from, float *to, size_t count);
/* Converts to float16, rounding to nearest, ties to even. */
void halves_of_floats(const float *from, uint16_t *to, size_t count);
/* Reads elements [first, first + count) in the order of the file, as float. */
l3a_status tensor_read(const input_file *input, const struct tensor *tensor, uint64_t first, size_t count, float *values);
/* As input_try_read(). */
bool tensor_try_read(const input_file *input, const struct tensor *tensor, uint64_t first, size_t count, float *values,
                     struct read_failure *failure);
/* Reads a whole matrix in Fortran order, and stores it as float in C order. */
l3a_status tensor_read_fortran(const input_file *input, const struct tensor *tensor, float *values);
/* Labels that are read at a time; that takes 16 bytes each, at most. */
enum { LABEL_BLOCK = 16384 };
/* Reads the rows [first, first + rows) of a matrix of labels, and stores them in C order. A value other than -1, 0 or 1 is an error
 * that gives its row and column. */
l3a_status tensor_read_labels(const input_file *input, const struct tensor *tensor, size_t first, size_t rows, int8_t *labels);

#endif
