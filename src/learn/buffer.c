#include "learn/buffer.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

struct generation {
    const struct buffer *buffer;
    uint64_t seed;
};

static void generate_rows(void *argument, size_t first, size_t last) {
    const struct generation *generation = argument;
    const size_t d = generation->buffer->dim;
    const double root = sqrt((double)generation->buffer->width);
    for (size_t n = first * d; n < last * d; n++) {
        const float value = (float)((2 * random_uniform(generation->seed, n) - 1) / root);
        if (generation->buffer->type == REAL_SINGLE) {
            ((float *)generation->buffer->matrix)[n] = value;
        } else {
            ((double *)generation->buffer->matrix)[n] = (double)value;
        }
    }
}

l3a_status buffer_create(l3a_context *context, size_t width, size_t dim, uint64_t seed, real type, struct buffer *buffer) {
    l3a_status status = L3A_OK;
    *buffer = (struct buffer){.context = context, .width = width, .dim = dim, .type = type};
    TRY(allocate(context, width, dim * real_size(type), &buffer->matrix));
    struct generation generation = {buffer, seed};
    parallel_for(context->threads, width, 1, generate_rows, &generation);
done:
    return status;
}

void buffer_free(struct buffer *buffer) {
    if (buffer->context) {
        release(buffer->context, buffer->matrix);
    }
    memset(buffer, 0, sizeof *buffer);
}

static void rectify_single(void *argument, size_t first, size_t last) {
    float *x = argument;
    for (size_t i = first; i < last; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

static void rectify_double(void *argument, size_t first, size_t last) {
    double *x = argument;
    for (size_t i = first; i < last; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

void buffer_project(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded) {
    const l3a_context *context = buffer->context;
    const size_t k = buffer->width, d = buffer->dim;
    const bool single = buffer->type == REAL_SINGLE;
    for (size_t i = 0; !single && i < rows * k; i++) {
        wide[i] = (double)features[i];
    }
    context->matrix->multiply(context->threads, buffer->type, false, false, rows, d, k, 1, single ? (const void *)features : wide,
                              k, buffer->matrix, d, 0, expanded, d);
}

void buffer_expand(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded) {
    enum { GRAIN = 1 << 16 };
    buffer_project(buffer, features, rows, wide, expanded);
    parallel_for(buffer->context->threads, rows * buffer->dim, GRAIN, buffer->type == REAL_SINGLE ? rectify_single : rectify_double,
                 expanded);
}
