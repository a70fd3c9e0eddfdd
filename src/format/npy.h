/* NumPy's .npy files, versions 1 to 3: one little-endian array in C or Fortran order. */
#ifndef L3A_NPY_H
#define L3A_NPY_H

#include "format/tensor.h"

/* Opens the file and describes its array. The caller closes the input. tensor->name stays NULL. */
l3a_status npy_open(l3a_context *context, const char *path, input_file *input, struct tensor *tensor);
bool npy_recognise(const char *bytes, size_t count);

#endif
