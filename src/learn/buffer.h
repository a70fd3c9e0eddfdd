/* The buffer layer (SPEC: features): x = ReLU(z B), B in R^{k x d} uniform in (-1/√k, 1/√k), fixed for ever; and z itself beside
 * it, x = (ReLU(z B), z), where features skip the layer.
 *
 * B is never stored. Entry i·d + j is the output of that index of the stream started at the seed, so any thread can make any
 * part, and a model file holds the seed alone. */
#ifndef L3A_BUFFER_H
#define L3A_BUFFER_H

#include "base/context.h"
#include "base/matrix.h"

struct buffer {
    l3a_context *context;
    size_t width, dim; /* k, d */
    real type;
    void *matrix; /* B, of that type, holding float32 values either way */
    bool skip;    /* z stands after ReLU(z B) */
};

l3a_status buffer_create(l3a_context *context, size_t width, size_t dim, uint64_t seed, real type, struct buffer *buffer);
void buffer_free(struct buffer *buffer);
/* Numbers in an expanded row: dim, and width more where features skip the layer. */
size_t buffer_columns(const struct buffer *buffer);
/* expanded [rows x columns] = features [rows x width] B. wide has room for rows x width doubles; unused in single precision. */
void buffer_project(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded);
/* expanded [rows x columns] = ReLU(features [rows x width] B), and the features after it where they skip the layer */
void buffer_expand(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded);

#endif
