/* The two halves of the sums: adding rows to the second, and the second to the first. */
#include "cuda/algebra/algebra.h"

l3a_status cuda_sums_create(struct sums *sums) {
    struct device *device = device_of(sums->context);
    const size_t row = sums->dim * sizeof(double);
    struct cuda_sums *held;
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(sums->context, 1, sizeof *held, &sums->held));
    held = sums->held;
    *held = (struct cuda_sums){.columns = 0};
    TRY(device_allocate_zeroed(device, sums->dim, row, &held->halves[KEPT]));
    TRY(device_allocate_zeroed(device, sums->dim, row, &held->halves[ADDED]));
done:
    return status;
}

void cuda_sums_free(struct sums *sums) {
    struct device *device = device_of(sums->context);
    struct cuda_sums *held = sums->held;
    device_release(device, held->halves[KEPT]);
    device_release(device, held->halves[ADDED]);
    device_release(device, held->cross);
    device->host->release(sums->context, held);
}

l3a_status cuda_sums_begin(struct sums *sums, size_t columns) {
    struct device *device = device_of(sums->context);
    struct cuda_sums *held = sums->held;
    l3a_status status = L3A_OK;
    device_release(device, held->cross);
    held->cross = NULL;
    held->columns = columns;
    TRY_CUDA(device, cudaMemsetAsync(held->halves[ADDED], 0, sums->dim * sums->dim * sizeof(double), device->stream));
    TRY(device_allocate_zeroed(device, sums->dim, columns * sizeof *held->cross, &held->cross));
done:
    return status;
}

static bool has_weight(const struct block *rows, const double *weight) {
    size_t i = 0;
    while (i < rows->count && weight[i] == 0) {
        i++;
    }
    return i < rows->count;
}

/* The rows may change as soon as a call returns. If they belong to another context, its stream knows nothing of the work on them.
 */
static l3a_status end_rows(struct device *device, const struct block *rows) {
    return rows->context->device == device ? L3A_OK : device_wait(device);
}

/* C += sign · XᵀT */
static l3a_status add_cross(struct device *device, const struct sums *sums, size_t n, const double *x, const double *targets,
                            const double *weight, double sign) {
    const struct cuda_sums *held = sums->held;
    double *y = NULL;
    l3a_status status = L3A_OK;
    TRY(cuda_targets_scaled(device, targets, n, held->columns, weight, &y));
    TRY(device_multiply(device, REAL_DOUBLE, true, false, sums->dim, held->columns, n, sign, x, sums->dim, y, held->columns, 1,
                        held->cross, held->columns));
done:
    device_release(device, y);
    return status;
}

l3a_status cuda_sums_add_cross(struct sums *sums, struct block *rows, const double *targets) {
    struct device *device = device_of(sums->context);
    double *x = NULL;
    l3a_status status = L3A_OK;
    TRY(device_follow(device, rows->context));
    TRY(cuda_block_scaled(device, rows, 0, rows->count, NULL, &x));
    TRY(add_cross(device, sums, rows->count, x, targets, NULL, 1));
    TRY(end_rows(device, rows));
done:
    device_release(device, x);
    return status;
}

/* With X̃ = Ω^½ X and Ỹ = Ω^½ Y, both in double precision: A += X̃ᵀX̃ and C += X̃ᵀỸ. X stays as it is. */
l3a_status cuda_sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    double *x = NULL;
    l3a_status status = L3A_OK;
    if (!has_weight(rows, weight)) {
        return L3A_OK;
    }
    TRY(device_follow(device, rows->context));
    TRY(cuda_block_scaled(device, rows, 0, rows->count, weight, &x));
    if (targets) {
        TRY(add_cross(device, sums, rows->count, x, targets, weight, sign));
    }
    TRY(device_rank_update(device, sums->dim, rows->count, sign, x, 1, held->halves[ADDED]));
    TRY(end_rows(device, rows));
done:
    device_release(device, x);
    return status;
}

l3a_status cuda_sums_join(struct sums *sums, const struct sums *from) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held, *others = from->held;
    l3a_status status = L3A_OK;
    TRY(device_follow(device, from->context));
    TRY_CUDA(device, kernel_add_square(device->stream, sums->dim, 1, held->halves[ADDED], 1, others->halves[ADDED]));
    TRY_CUDA(device,
             kernel_add_numbers(device->stream, sums->dim * held->columns, REAL_DOUBLE, held->cross, REAL_DOUBLE, others->cross));
    TRY(device_wait(device));
done:
    return status;
}

/* Waits, so that what has gone wrong since the phase began is told before it counts as kept. */
l3a_status cuda_sums_keep(struct sums *sums, double sign) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    l3a_status status = L3A_OK;
    TRY(device_wait(device));
    TRY_CUDA(device, kernel_add_square(device->stream, sums->dim, 1, held->halves[KEPT], sign, held->halves[ADDED]));
    TRY(device_wait(device));
done:
    return status;
}

l3a_status cuda_sums_cross(struct sums *sums, double sign, double *cross) {
    struct device *device = device_of(sums->context);
    struct cuda_sums *held = sums->held;
    const size_t numbers = sums->dim * held->columns;
    double *given = NULL;
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(sums->context, numbers, sizeof *given, &given));
    TRY(device_get(device, given, held->cross, numbers * sizeof *given));
    for (size_t i = 0; i < numbers; i++) {
        cross[i] += sign * given[i];
    }
    device_release(device, held->cross);
    held->cross = NULL;
done:
    device->host->release(sums->context, given);
    return status;
}

l3a_status cuda_sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    const size_t numbers = (size_t)triangle_numbers(first, count);
    double *packed = NULL;
    l3a_status status = L3A_OK;
    TRY(device_allocate(device, numbers, sizeof *packed, &packed));
    TRY_CUDA(device, kernel_pack(device->stream, sums->dim, first, count, held->halves[half], packed));
    TRY(device_get(device, values, packed, numbers * sizeof *packed));
done:
    device_release(device, packed);
    return status;
}

l3a_status cuda_sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    double *packed = NULL;
    l3a_status status = L3A_OK;
    TRY(device_copy_of(device, values, (size_t)triangle_numbers(first, count) * sizeof *packed, &packed));
    TRY_CUDA(device, kernel_unpack(device->stream, sums->dim, first, count, packed, held->halves[half]));
done:
    device_release(device, packed);
    return status;
}

l3a_status cuda_sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, cudaMemsetAsync(held->halves[KEPT], 0, sums->dim * sums->dim * sizeof(double), device->stream));
    for (size_t i = 0; i < count; i++) {
        TRY(cuda_scatter_add_to(device, scatters[i], 1, held->halves[KEPT]));
    }
done:
    return status;
}

l3a_status cuda_sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter) {
    return cuda_scatter_add_to(device_of(sums->context), scatter, sign, ((const struct cuda_sums *)sums->held)->halves[KEPT]);
}

l3a_status cuda_sums_trace(const struct sums *sums, double *trace) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    double *diagonal = NULL, *given = NULL;
    l3a_status status = L3A_OK;
    *trace = 0;
    TRY(device->host->allocate(sums->context, sums->dim, sizeof *given, &given));
    TRY(device_allocate_zeroed(device, sums->dim, sizeof *diagonal, &diagonal));
    TRY_CUDA(device, kernel_diagonal(device->stream, REAL_DOUBLE, sums->dim, 1, held->halves[KEPT], diagonal));
    TRY(device_get(device, given, diagonal, sums->dim * sizeof *given));
    for (size_t i = 0; i < sums->dim; i++) {
        *trace += given[i];
    }
done:
    device_release(device, diagonal);
    device->host->release(sums->context, given);
    return status;
}

l3a_status cuda_sums_copy(struct sums *sums, enum half to) {
    struct device *device = device_of(sums->context);
    const struct cuda_sums *held = sums->held;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, kernel_add_square(device->stream, sums->dim, 0, held->halves[to], 1, held->halves[to == KEPT ? ADDED : KEPT]));
done:
    return status;
}
