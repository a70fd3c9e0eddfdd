/* The buffer layer (SPEC: features): x = ReLU(z B), where B in R^{k x d} is uniform in (-1/√k, 1/√k) and never changes. If
 * features skip the layer, z follows: x = (ReLU(z B), z).
 *
 * B is never stored. Entry i·d + j is the output with that index of the stream started at the seed, so any thread can compute any
 * part, and a model file holds only the seed. */
#ifndef L3A_BUFFER_H
#define L3A_BUFFER_H

#include "base/context.h"
#include "base/matrix.h"

struct buffer {
    l3a_context *context;
    size_t width, dim; /* k, d */
    real type;
    void *matrix; /* B in that type; the values are float32 numbers either way */
    bool skip;    /* z follows ReLU(z B) */
};

l3a_status buffer_create(l3a_context *context, size_t width, size_t dim, uint64_t seed, real type, struct buffer *buffer);
void buffer_free(struct buffer *buffer);
/* Numbers in an expanded row: dim, plus width if features skip the layer. */
size_t buffer_columns(const struct buffer *buffer);
/* expanded [rows x columns] = features [rows x width] B. wide has room for rows x width doubles; unused in single precision. */
void buffer_project(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded);
/* expanded [rows x columns] = ReLU(features [rows x width] B), followed by the features if they skip the layer */
void buffer_expand(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded);

#endif
