/* Layers, blocks of expanded rows, and scores. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { STRIP = 512, LAYER_ARRAYS = 3, BLOCK_LIST = 10, GRAIN = 16 };

static bool has_matrix(const struct layer_shape *shape) {
    return shape->kind != LAYER_NONE;
}

static void list_layer(const struct layer_shape *shape, struct cpu_layer *held, struct array *list) {
    const bool kernels = shape->kind == LAYER_KERNELS;
    list[0] = (struct array){&held->matrix, has_matrix(shape) ? shape->width : 0, shape->dim * real_size(shape->type), false};
    list[1] = (struct array){&held->mean, kernels ? shape->width : 0, sizeof *held->mean, true};
    list[2] = (struct array){&held->square, kernels ? shape->dim : 0, sizeof *held->square, false};
}

uint64_t cpu_layer_bytes(enum place place, const struct layer_shape *shape) {
    struct cpu_layer none;
    struct array list[LAYER_ARRAYS];
    list_layer(shape, &none, list);
    return place == PROCESSOR ? arrays_bytes(list, LAYER_ARRAYS) : 0;
}

/* z - mean of every row, in the layer's type */
static void subtract_mean(const struct layer_shape *shape, const double *mean, const float *features, size_t rows, void *shifted) {
    for (size_t i = 0; i < rows * shape->width; i++) {
        real_put(shape->type, shifted, i, (double)features[i] - mean[i % shape->width]);
    }
}

static double square_of(const struct layer_shape *shape, const void *shifted, size_t row) {
    double sum = 0;
    for (size_t j = 0; j < shape->width; j++) {
        const double value = real_get(shape->type, shifted, row * shape->width + j);
        sum += value * value;
    }
    return sum;
}

static void place_centres(const struct layer_shape *shape, struct cpu_layer *held) {
    for (size_t i = 0; i < shape->dim * shape->width; i++) {
        held->mean[i % shape->width] += (double)shape->centres[i] / (double)shape->dim;
    }
    subtract_mean(shape, held->mean, shape->centres, shape->dim, held->matrix);
    for (size_t i = 0; i < shape->dim; i++) {
        held->square[i] = square_of(shape, held->matrix, i);
    }
}

l3a_status cpu_layer_create(struct layer *layer) {
    l3a_status status = L3A_OK;
    struct array list[LAYER_ARRAYS];
    TRY(allocate_zeroed(layer->context, 1, sizeof(struct cpu_layer), &layer->held));
    list_layer(&layer->shape, layer->held, list);
    TRY(arrays_allocate(layer->context, list, LAYER_ARRAYS));
    if (layer->shape.kind == LAYER_KERNELS) {
        place_centres(&layer->shape, layer->held);
    } else if (has_matrix(&layer->shape)) {
        layer_entries(layer->context->threads, &layer->shape, ((struct cpu_layer *)layer->held)->matrix);
    }
done:
    return status;
}

void cpu_layer_free(struct layer *layer) {
    struct array list[LAYER_ARRAYS];
    list_layer(&layer->shape, layer->held, list);
    arrays_release(layer->context, list, LAYER_ARRAYS);
    release(layer->context, layer->held);
}

/* `scaled` is an array of its own only if the rows are reused, and z is used as it is in single precision without kernels. */
static void list_block_arrays(const struct block *rows, struct cpu_block *held, struct array *list) {
    const struct layer_shape *shape = &rows->layer->shape;
    const size_t size = real_size(shape->type), d = layer_columns(shape), columns = rows->columns, n = rows->capacity;
    const bool single = shape->type == REAL_SINGLE, adds = columns && !rows->recursive && !rows->work;
    const size_t few = rows->recursive ? (n < UPDATE_ROWS ? n : UPDATE_ROWS) : 0;
    list[0] = (struct array){&held->expanded, n, d * size, false};
    list[1] = (struct array){&held->scaled, adds && rows->reused ? n : 0, d * size, false};
    list[2] = (struct array){&held->wide, single && shape->kind != LAYER_KERNELS ? 0 : n, shape->width * size, false};
    list[3] = (struct array){&held->targets, adds ? n : 0, columns * size, false};
    list[4] = (struct array){&held->panel, adds && single ? (d < PANEL_ROWS ? d : PANEL_ROWS) : 0, d * size, false};
    list[5] = (struct array){&held->cross_block, adds && single ? d : 0, columns * size, false};
    list[6] = (struct array){&held->update, few, d * sizeof(double), false};
    list[7] = (struct array){&held->gain, few, d * sizeof(double), false};
    list[8] = (struct array){&held->system, few, few * sizeof(double), false};
    list[9] = (struct array){&held->error, few, columns * sizeof(double), false};
}

uint64_t cpu_block_bytes(enum place place, const struct block *rows) {
    struct cpu_block none;
    struct array list[BLOCK_LIST];
    list_block_arrays(rows, &none, list);
    return place == PROCESSOR ? arrays_bytes(list, BLOCK_LIST) : 0;
}

l3a_status cpu_block_create(struct block *rows) {
    l3a_status status = L3A_OK;
    struct array list[BLOCK_LIST];
    TRY(allocate_zeroed(rows->context, 1, sizeof(struct cpu_block), &rows->held));
    list_block_arrays(rows, rows->held, list);
    TRY(arrays_allocate(rows->context, list, BLOCK_LIST));
done:
    return status;
}

void cpu_block_free(struct block *rows) {
    struct array list[BLOCK_LIST];
    list_block_arrays(rows, rows->held, list);
    arrays_release(rows->context, list, BLOCK_LIST);
    release(rows->context, rows->held);
}

struct expansion {
    const struct block *rows;
    const float *features;
};

/* From z B to x: the layer's function, then the features if they skip it. */
static void finish_single(void *argument, size_t first, size_t last) {
    const struct expansion *expansion = argument;
    const struct layer_shape *shape = &expansion->rows->layer->shape;
    const size_t d = shape->dim, k = shape->width, columns = layer_columns(shape);
    for (size_t i = first; i < last; i++) {
        float *x = (float *)((const struct cpu_block *)expansion->rows->held)->expanded + i * columns;
        for (size_t j = 0; shape->kind == LAYER_RELU && j < d; j++) {
            x[j] = x[j] > 0 ? x[j] : 0;
        }
        for (size_t j = 0; shape->kind == LAYER_TANH && j < d; j++) {
            x[j] = tanhf(x[j]);
        }
        memcpy(x + d, expansion->features + i * k, (columns - d) * sizeof *x);
    }
}

static void finish_double(void *argument, size_t first, size_t last) {
    const struct expansion *expansion = argument;
    const struct layer_shape *shape = &expansion->rows->layer->shape;
    const size_t d = shape->dim, k = shape->width, columns = layer_columns(shape);
    for (size_t i = first; i < last; i++) {
        double *x = (double *)((const struct cpu_block *)expansion->rows->held)->expanded + i * columns;
        for (size_t j = 0; shape->kind == LAYER_RELU && j < d; j++) {
            x[j] = x[j] > 0 ? x[j] : 0;
        }
        for (size_t j = 0; shape->kind == LAYER_TANH && j < d; j++) {
            x[j] = tanh(x[j]);
        }
        for (size_t j = d; j < columns; j++) {
            x[j] = (double)expansion->features[i * k + j - d];
        }
    }
}

/* From -2 z·c to x. Distances are ‖z‖² + ‖c‖² - 2 z·c, with the mean of the centres subtracted from both to round less. */
static void finish_kernels(void *argument, size_t first, size_t last) {
    const struct block *rows = ((const struct expansion *)argument)->rows;
    const struct layer_shape *shape = &rows->layer->shape;
    const struct cpu_layer *layer = rows->layer->held;
    const struct cpu_block *held = rows->held;
    for (size_t i = first; i < last; i++) {
        const double own = square_of(shape, held->wide, i);
        for (size_t j = 0; j < shape->dim; j++) {
            const size_t at = i * shape->dim + j;
            const double distance = own + layer->square[j] + real_get(shape->type, held->expanded, at);
            const double exponent = distance > 0 ? -shape->rate * distance : 0;
            real_put(shape->type, held->expanded, at, shape->type == REAL_SINGLE ? (double)expf((float)exponent) : exp(exponent));
        }
    }
}

l3a_status cpu_block_expand(struct block *rows, const float *features) {
    const struct layer_shape *shape = &rows->layer->shape;
    const struct cpu_layer *layer = rows->layer->held;
    const struct cpu_block *held = rows->held;
    const size_t k = shape->width, d = shape->dim, columns = layer_columns(shape);
    const int threads = rows->context->threads;
    const bool kernels = shape->kind == LAYER_KERNELS;
    struct expansion expansion = {rows, features};
    if (kernels) {
        subtract_mean(shape, layer->mean, features, rows->count, held->wide);
    }
    for (size_t i = 0; held->wide && !kernels && i < rows->count * k; i++) {
        ((double *)held->wide)[i] = (double)features[i];
    }
    const void *from = held->wide ? held->wide : features;
    if (shape->kind == LAYER_NONE) {
        memcpy(held->expanded, from, rows->count * k * real_size(shape->type));
        return L3A_OK;
    }
    matrix_multiply(threads, shape->type, false, kernels, rows->count, d, k, kernels ? -2 : 1, from, k, layer->matrix,
                    kernels ? k : d, 0, held->expanded, columns);
    parallel_for(threads, rows->count, GRAIN,
                 kernels                      ? finish_kernels
                 : shape->type == REAL_SINGLE ? finish_single
                                              : finish_double,
                 &expansion);
    return L3A_OK;
}

l3a_status cpu_block_append(struct block *rows, const struct block *from, const size_t *chosen, size_t count) {
    const struct cpu_block *held = rows->held, *others = from->held;
    const size_t row = layer_columns(&rows->layer->shape) * real_size(rows->layer->shape.type);
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)held->expanded + (rows->count + i) * row, (const char *)others->expanded + (chosen ? chosen[i] : i) * row,
               row);
    }
    return L3A_OK;
}

l3a_status cpu_block_read(const struct block *rows, void *values) {
    const struct layer_shape *shape = &rows->layer->shape;
    memcpy(values, ((const struct cpu_block *)rows->held)->expanded, rows->count * layer_columns(shape) * real_size(shape->type));
    return L3A_OK;
}

const void *cpu_block_view(const struct block *rows) {
    return ((const struct cpu_block *)rows->held)->expanded;
}

l3a_status cpu_block_score(const struct block *rows, const struct solution *solution, void *scores) {
    const size_t d = solution->dim, columns = solution->columns;
    matrix_multiply(rows->context->threads, solution->type, false, false, rows->count, columns, d, 1,
                    ((const struct cpu_block *)rows->held)->expanded, d, solution->held, columns, 0, scores, columns);
    return L3A_OK;
}

struct scaling {
    const struct block *rows;
    const double *weight;
    void *to;
};

static void scale_rows(void *argument, size_t first, size_t last) {
    const struct scaling *scaling = argument;
    const size_t d = layer_columns(&scaling->rows->layer->shape);
    const void *from = ((const struct cpu_block *)scaling->rows->held)->expanded;
    for (size_t i = first; i < last; i++) {
        const double root = sqrt(scaling->weight[i]);
        if (scaling->rows->layer->shape.type == REAL_SINGLE) {
            const float *x = (const float *)from + i * d;
            float *to = (float *)scaling->to + i * d;
            for (size_t j = 0; j < d; j++) {
                to[j] = x[j] * (float)root;
            }
        } else {
            const double *x = (const double *)from + i * d;
            double *to = (double *)scaling->to + i * d;
            for (size_t j = 0; j < d; j++) {
                to[j] = x[j] * root;
            }
        }
    }
}

void cpu_block_scale(const struct block *rows, const double *weight) {
    const struct cpu_block *held = rows->held;
    struct scaling scaling = {rows, weight, held->scaled ? held->scaled : held->expanded};
    parallel_for(rows->context->threads, rows->count, GRAIN, scale_rows, &scaling);
}

/* Computes the blocks on and right of the diagonal, in the layer's type. */
l3a_status cpu_block_gram(struct block *rows, const double *weight, double *gram) {
    l3a_context *context = rows->context;
    l3a_status status = L3A_OK;
    const struct cpu_block *held = rows->held;
    const real type = rows->layer->shape.type;
    const size_t n = rows->count, d = layer_columns(&rows->layer->shape), size = real_size(type);
    void *product = NULL;
    TRY(allocate(context, n, n * size, &product));
    cpu_block_scale(rows, weight);
    for (size_t first = 0; first < n; first += STRIP) {
        const size_t count = n - first < STRIP ? n - first : STRIP;
        const char *from = (const char *)(held->scaled ? held->scaled : held->expanded) + first * d * size;
        matrix_multiply(context->threads, type, false, true, count, n - first, d, 1, from, d, from, d, 0,
                        (char *)product + (first * n + first) * size, n);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i; j < n; j++) {
            gram[i * n + j] = gram[j * n + i] = real_get(type, product, i * n + j);
        }
    }
done:
    release(context, product);
    return status;
}

/* In the layer's type, with ω as a factor of the targets, so that the rows stay as they are. */
l3a_status cpu_block_cross(const struct block *rows, const double *weight, const double *targets, size_t columns, double sign,
                           double *cross) {
    l3a_context *context = rows->context;
    l3a_status status = L3A_OK;
    const real type = rows->layer->shape.type;
    const size_t d = layer_columns(&rows->layer->shape), size = real_size(type);
    void *weighted = NULL, *product = NULL;
    TRY(allocate(context, rows->count, columns * size, &weighted));
    TRY(allocate(context, d, columns * size, &product));
    for (size_t i = 0; i < rows->count * columns; i++) {
        real_put(type, weighted, i, sign * weight[i / columns] * targets[i]);
    }
    matrix_multiply(context->threads, type, true, false, d, columns, rows->count, 1,
                    ((const struct cpu_block *)rows->held)->expanded, d, weighted, columns, 0, product, columns);
    for (size_t i = 0; i < d * columns; i++) {
        cross[i] += real_get(type, product, i);
    }
done:
    release(context, weighted);
    release(context, product);
    return status;
}

l3a_status cpu_solution_create(struct solution *solution) {
    return allocate_zeroed(solution->context, solution->dim, solution->columns * real_size(solution->type), &solution->held);
}

void cpu_solution_free(struct solution *solution) {
    release(solution->context, solution->held);
}

uint64_t cpu_solution_bytes(enum place place, size_t dim, size_t columns, real type) {
    return place == PROCESSOR ? (uint64_t)dim * columns * real_size(type) : 0;
}

l3a_status cpu_solution_set(struct solution *solution, const double *coefficients) {
    for (size_t i = 0; i < solution->dim * solution->columns; i++) {
        real_put(solution->type, solution->held, i, coefficients[i]);
    }
    return L3A_OK;
}
