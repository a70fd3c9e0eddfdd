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

size_t buffer_columns(const struct buffer *buffer) {
    return buffer->dim + (buffer->skip ? buffer->width : 0);
}

void buffer_project(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded) {
    const l3a_context *context = buffer->context;
    const size_t k = buffer->width, d = buffer->dim;
    const bool single = buffer->type == REAL_SINGLE;
    for (size_t i = 0; !single && i < rows * k; i++) {
        wide[i] = (double)features[i];
    }
    context->matrix->multiply(context->threads, buffer->type, false, false, rows, d, k, 1, single ? (const void *)features : wide,
                              k, buffer->matrix, d, 0, expanded, buffer_columns(buffer));
}

struct expansion {
    const struct buffer *buffer;
    const float *features;
    void *expanded;
};

static void finish_single(void *argument, size_t first, size_t last) {
    const struct expansion *expansion = argument;
    const size_t d = expansion->buffer->dim, k = expansion->buffer->width, columns = buffer_columns(expansion->buffer);
    for (size_t i = first; i < last; i++) {
        float *x = (float *)expansion->expanded + i * columns;
        for (size_t j = 0; j < d; j++) {
            x[j] = x[j] > 0 ? x[j] : 0;
        }
        memcpy(x + d, expansion->features + i * k, (columns - d) * sizeof *x);
    }
}

static void finish_double(void *argument, size_t first, size_t last) {
    const struct expansion *expansion = argument;
    const size_t d = expansion->buffer->dim, k = expansion->buffer->width, columns = buffer_columns(expansion->buffer);
    for (size_t i = first; i < last; i++) {
        double *x = (double *)expansion->expanded + i * columns;
        for (size_t j = 0; j < d; j++) {
            x[j] = x[j] > 0 ? x[j] : 0;
        }
        for (size_t j = d; j < columns; j++) {
            x[j] = (double)expansion->features[i * k + j - d];
        }
    }
}

void buffer_expand(const struct buffer *buffer, const float *features, size_t rows, double *wide, void *expanded) {
    struct expansion expansion = {buffer, features, expanded};
    buffer_project(buffer, features, rows, wide, expanded);
    parallel_for(buffer->context->threads, rows, 16, buffer->type == REAL_SINGLE ? finish_single : finish_double, &expansion);
}
