/* Layers, blocks of expanded rows, and scores. */
#include "cuda/algebra/algebra.h"

#include <math.h>

/* ---- Layers ---- */

static l3a_status place_centres(struct device *device, const struct layer_shape *shape, struct cuda_layer *held) {
    const size_t k = shape->width, d = shape->dim;
    l3a_status status = L3A_OK;
    float *centres = NULL;
    double *mean = NULL;
    TRY(device->host->allocate(device->context, k, sizeof *mean, &mean));
    for (size_t j = 0; j < k; j++) {
        mean[j] = 0;
    }
    for (size_t i = 0; i < d * k; i++) {
        mean[i % k] += (double)shape->centres[i] / (double)d;
    }
    TRY(device_copy_of(device, mean, k * sizeof *mean, &held->mean));
    TRY(device_allocate(device, d, sizeof *held->square, &held->square));
    TRY(device_copy_of(device, shape->centres, d * k * sizeof *centres, &centres));
    TRY_CUDA(device, kernel_shift(device->stream, shape->type, d, k, centres, held->mean, held->matrix));
    TRY_CUDA(device, kernel_squares(device->stream, shape->type, d, k, held->matrix, held->square));
done:
    device->host->release(device->context, mean);
    device_release(device, centres);
    return status;
}

bool cuda_layer_splits(const struct layer_shape *shape) {
    return shape->type == REAL_SINGLE && shape->width >= SPLIT_WIDTH && (shape->kind == LAYER_RELU || shape->kind == LAYER_TANH);
}

/* The layer is ready when this returns, for the contexts of all threads. */
l3a_status cuda_layer_create(struct layer *layer) {
    struct device *device = device_of(layer->context);
    const struct layer_shape *shape = &layer->shape;
    struct cuda_layer *held;
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(layer->context, 1, sizeof *held, &layer->held));
    held = layer->held;
    *held = (struct cuda_layer){.split = device->has_tensors && cuda_layer_splits(shape)};
    if (shape->kind == LAYER_NONE) {
        return L3A_OK;
    }
    TRY(device_allocate(device, shape->width, (held->split ? 2 : 1) * shape->dim * real_size(shape->type), &held->matrix));
    if (shape->kind == LAYER_KERNELS) {
        TRY(place_centres(device, shape, held));
    } else if (held->split) {
        TRY_CUDA(device, kernel_split_entries(device->stream, shape->seed, shape->width, shape->dim, held->matrix));
    } else {
        TRY_CUDA(device, kernel_entries(device->stream, shape->type, shape->seed, shape->width, shape->dim, held->matrix));
    }
    TRY(device_wait(device));
done:
    return status;
}

void cuda_layer_free(struct layer *layer) {
    struct device *device = device_of(layer->context);
    struct cuda_layer *held = layer->held;
    device_release(device, held->matrix);
    device_release(device, held->mean);
    device_release(device, held->square);
    device->host->release(layer->context, held);
}

/* ---- Blocks ---- */

l3a_status cuda_block_create(struct block *rows) {
    struct device *device = device_of(rows->context);
    const struct layer_shape *shape = &rows->layer->shape;
    const size_t size = real_size(shape->type), n = rows->capacity;
    const bool kernels = shape->kind == LAYER_KERNELS, split = ((const struct cuda_layer *)rows->layer->held)->split;
    struct cuda_block *held;
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(rows->context, 1, sizeof *held, &rows->held));
    held = rows->held;
    *held = (struct cuda_block){.turn = 0};
    TRY(device_allocate(device, n, layer_columns(shape) * size, &held->expanded));
    for (size_t i = 0; i < 2; i++) {
        TRY(device_allocate(device, n, shape->width * sizeof(float), &held->features[i]));
        TRY_CUDA(device, cudaEventCreateWithFlags(&held->ready[i], cudaEventDisableTiming));
        TRY_CUDA(device, cudaEventCreateWithFlags(&held->used[i], cudaEventDisableTiming));
        TRY_CUDA(device, cudaEventRecord(held->used[i], device->stream)); /* from here on there is memory for them */
    }
    if (kernels || split || shape->type == REAL_DOUBLE) {
        TRY(device_allocate(device, n, (split ? 2 : 1) * shape->width * size, &held->wide));
    }
    if (kernels) {
        TRY(device_allocate(device, n, sizeof *held->squares, &held->squares));
    }
    TRY_CUDA(device, cudaEventCreateWithFlags(&held->scored, cudaEventDisableTiming));
done:
    return status;
}

void cuda_block_free(struct block *rows) {
    struct device *device = device_of(rows->context);
    struct cuda_block *held = rows->held;
    cudaStreamSynchronize(device->copier);
    for (size_t i = 0; i < 2; i++) {
        device_release(device, held->features[i]);
        if (held->ready[i]) {
            cudaEventDestroy(held->ready[i]);
        }
        if (held->used[i]) {
            cudaEventDestroy(held->used[i]);
        }
    }
    device_release(device, held->expanded);
    device_release(device, held->wide);
    device_release(device, held->squares);
    device_release(device, held->scores);
    if (held->scored) {
        cudaEventDestroy(held->scored);
    }
    device->host->release(rows->context, held);
}

/* X from features z that are on the device. */
static l3a_status expand(struct device *device, const struct block *rows, const float *z) {
    const struct layer_shape *shape = &rows->layer->shape;
    const struct cuda_layer *layer = rows->layer->held;
    const struct cuda_block *held = rows->held;
    const size_t k = shape->width, d = shape->dim, columns = layer_columns(shape), n = rows->count;
    const bool kernels = shape->kind == LAYER_KERNELS;
    l3a_status status = L3A_OK;
    if (shape->kind == LAYER_NONE) {
        TRY_CUDA(device, kernel_shift(device->stream, shape->type, n, k, z, NULL, held->expanded));
        return L3A_OK;
    }
    if (layer->split) {
        TRY_CUDA(device, kernel_split(device->stream, n, k, z, held->wide));
        TRY(device_multiply_split(device, n, d, k, held->wide, layer->matrix, held->expanded, columns));
    } else {
        if (held->wide) {
            TRY_CUDA(device, kernel_shift(device->stream, shape->type, n, k, z, layer->mean, held->wide));
        }
        TRY(device_multiply(device, shape->type, false, kernels, n, d, k, kernels ? -2 : 1,
                            held->wide ? held->wide : (const void *)z, k, layer->matrix, kernels ? k : d, 0, held->expanded,
                            columns));
    }
    if (kernels) {
        TRY_CUDA(device, kernel_squares(device->stream, shape->type, n, k, held->wide, held->squares));
        TRY_CUDA(device, kernel_finish_kernels(device->stream, shape->type, n, d, shape->rate, held->squares, layer->square,
                                               held->expanded));
    } else {
        TRY_CUDA(device, kernel_finish(device->stream, shape->type, shape->kind, n, d, k, columns, z, held->expanded));
    }
done:
    return status;
}

/* The features go where those of the call before last were, and need not wait for the work of the last. */
l3a_status cuda_block_expand(struct block *rows, const float *features) {
    struct device *device = device_of(rows->context);
    struct cuda_block *held = rows->held;
    l3a_status status = L3A_OK;
    const int turn = held->turn = !held->turn;
    TRY_CUDA(device, cudaStreamWaitEvent(device->copier, held->used[turn], 0));
    TRY(device_put_on(device, device->copier, held->features[turn], features,
                      rows->count * rows->layer->shape.width * sizeof *features));
    TRY_CUDA(device, cudaEventRecord(held->ready[turn], device->copier));
    TRY_CUDA(device, cudaStreamWaitEvent(device->stream, held->ready[turn], 0));
    TRY(expand(device, rows, held->features[turn]));
    TRY_CUDA(device, cudaEventRecord(held->used[turn], device->stream));
done:
    return status;
}

l3a_status cuda_block_append(struct block *rows, const struct block *from, const size_t *chosen, size_t count) {
    struct device *device = device_of(rows->context);
    const struct cuda_block *held = rows->held, *others = from->held;
    const real type = rows->layer->shape.type;
    const size_t d = layer_columns(&rows->layer->shape);
    size_t *indices = NULL;
    l3a_status status = L3A_OK;
    TRY(device_follow(device, from->context));
    if (chosen) {
        TRY(device_copy_of(device, chosen, count * sizeof *chosen, &indices));
    }
    TRY_CUDA(device, kernel_take(device->stream, count, d, type, others->expanded, indices, NULL, type,
                                 (char *)held->expanded + rows->count * d * real_size(type)));
done:
    device_release(device, indices);
    return status;
}

l3a_status cuda_block_read(const struct block *rows, void *values) {
    const struct layer_shape *shape = &rows->layer->shape;
    return device_get(device_of(rows->context), values, ((const struct cuda_block *)rows->held)->expanded,
                      rows->count * layer_columns(shape) * real_size(shape->type));
}

l3a_status cuda_block_score(const struct block *rows, const struct solution *solution, void *scores) {
    struct device *device = device_of(rows->context);
    const size_t d = solution->dim, columns = solution->columns, size = real_size(solution->type);
    struct cuda_block *held = rows->held;
    l3a_status status = L3A_OK;
    device_release(device, held->scores); /* those of a call that nobody ended */
    TRY(device_allocate(device, rows->count, columns * size, &held->scores));
    TRY(device_multiply(device, solution->type, false, false, rows->count, columns, d, 1, held->expanded, d, solution->held,
                        columns, 0, held->scores, columns));
    TRY_CUDA(device, cudaEventRecord(held->scored, device->stream));
    held->wanted = scores;
    held->score_bytes = rows->count * columns * size;
done:
    return status;
}

/* Waits for the scores, and not for what the device was told to do after them. */
l3a_status cuda_block_score_end(const struct block *rows) {
    struct device *device = device_of(rows->context);
    struct cuda_block *held = rows->held;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, cudaStreamWaitEvent(device->copier, held->scored, 0));
    TRY(device_get_on(device, device->copier, held->wanted, held->scores, held->score_bytes));
done:
    device_release(device, held->scores);
    held->scores = NULL;
    return status;
}

/* ---- Weights ---- */

/* made [count] = √ω, on the device; NULL if weight is. */
static l3a_status put_roots(struct device *device, const double *weight, size_t count, double **made) {
    l3a_status status = L3A_OK;
    double *roots = NULL;
    *made = NULL;
    if (!weight) {
        return L3A_OK;
    }
    TRY(device->host->allocate(device->context, count, sizeof *roots, &roots));
    for (size_t i = 0; i < count; i++) {
        roots[i] = sqrt(weight[i]);
    }
    TRY(device_copy_of(device, roots, count * sizeof *roots, made));
done:
    device->host->release(device->context, roots);
    return status;
}

/* made [count x width] = √ω · from, which is on the device */
static l3a_status scale(struct device *device, real type, const void *from, size_t count, size_t width, const double *weight,
                        double **made) {
    l3a_status status = L3A_OK;
    double *roots = NULL;
    *made = NULL;
    TRY(put_roots(device, weight, count, &roots));
    TRY(device_allocate(device, count, width * sizeof **made, made));
    TRY_CUDA(device, kernel_take(device->stream, count, width, type, from, NULL, roots, REAL_DOUBLE, *made));
done:
    device_release(device, roots);
    return status;
}

l3a_status cuda_block_scaled(struct device *device, const struct block *rows, size_t first, size_t count, const double *weight,
                             double **made) {
    const struct cuda_block *held = rows->held;
    const real type = rows->layer->shape.type;
    const size_t d = layer_columns(&rows->layer->shape);
    return scale(device, type, (const char *)held->expanded + first * d * real_size(type), count, d, weight, made);
}

l3a_status cuda_targets_scaled(struct device *device, const double *targets, size_t count, size_t columns, const double *weight,
                               double **made) {
    l3a_status status = L3A_OK;
    double *given = NULL;
    *made = NULL;
    TRY(device_copy_of(device, targets, count * columns * sizeof *targets, &given));
    TRY(scale(device, REAL_DOUBLE, given, count, columns, weight, made));
done:
    device_release(device, given);
    return status;
}

l3a_status cuda_block_gram(struct block *rows, const double *weight, double *gram) {
    struct device *device = device_of(rows->context);
    const size_t n = rows->count, d = layer_columns(&rows->layer->shape);
    double *x = NULL, *made = NULL;
    l3a_status status = L3A_OK;
    TRY(cuda_block_scaled(device, rows, 0, n, weight, &x));
    TRY(device_allocate(device, n, n * sizeof *made, &made));
    TRY(device_multiply(device, REAL_DOUBLE, false, true, n, n, d, 1, x, d, x, d, 0, made, n));
    TRY(device_get(device, gram, made, n * n * sizeof *gram));
done:
    device_release(device, x);
    device_release(device, made);
    return status;
}

l3a_status cuda_block_cross(const struct block *rows, const double *weight, const double *targets, size_t columns, double sign,
                            double *cross) {
    struct device *device = device_of(rows->context);
    const size_t n = rows->count, d = layer_columns(&rows->layer->shape);
    double *x = NULL, *y = NULL, *made = NULL;
    l3a_status status = L3A_OK;
    TRY(cuda_block_scaled(device, rows, 0, n, weight, &x));
    TRY(cuda_targets_scaled(device, targets, n, columns, weight, &y));
    TRY(device_copy_of(device, cross, d * columns * sizeof *cross, &made));
    TRY(device_multiply(device, REAL_DOUBLE, true, false, d, columns, n, sign, x, d, y, columns, 1, made, columns));
    TRY(device_get(device, cross, made, d * columns * sizeof *cross));
done:
    device_release(device, x);
    device_release(device, y);
    device_release(device, made);
    return status;
}

/* ---- Solutions ---- */

l3a_status cuda_solution_create(struct solution *solution) {
    struct device *device = device_of(solution->context);
    l3a_status status = L3A_OK;
    TRY(device_allocate_zeroed(device, solution->dim, solution->columns * real_size(solution->type), &solution->held));
    TRY(device_wait(device));
done:
    return status;
}

void cuda_solution_free(struct solution *solution) {
    device_release(device_of(solution->context), solution->held);
}

/* Set when this returns, for the contexts of all threads. */
l3a_status cuda_solution_set(struct solution *solution, const double *coefficients) {
    struct device *device = device_of(solution->context);
    const size_t d = solution->dim, columns = solution->columns;
    double *given = NULL;
    l3a_status status = L3A_OK;
    TRY(device_copy_of(device, coefficients, d * columns * sizeof *given, &given));
    TRY_CUDA(device, kernel_take(device->stream, d, columns, REAL_DOUBLE, given, NULL, NULL, solution->type, solution->held));
    TRY(device_wait(device));
done:
    device_release(device, given);
    return status;
}
