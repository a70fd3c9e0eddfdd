/* Scatter matrices: the rows of a root, or those of a lower triangle, one after another, on the device. */
#include "cuda/algebra/algebra.h"

#include <math.h>

void cuda_scatter_free(struct scatter *scatter) {
    device_release(device_of(scatter->context), scatter->held);
}

static size_t row_bytes(const struct scatter *scatter) {
    return scatter->dim * real_size(scatter->type);
}

/* ---- Roots ---- */

/* Makes room for `count` more rows, or sets *fits to false. */
static l3a_status make_room(struct device *device, struct scatter *scatter, size_t count, bool *fits) {
    const size_t most = scatter->dim / 2;
    l3a_status status = L3A_OK;
    void *made = NULL;
    *fits = scatter->is_root && count <= most - scatter->rows;
    if (*fits && scatter->rows + count > scatter->capacity) {
        const size_t larger = scatter->capacity + scatter->capacity / 2, needed = scatter->rows + count;
        const size_t capacity = larger < needed ? needed : larger < most ? larger : most;
        TRY(device_store(device, capacity, row_bytes(scatter), &made));
        TRY_CUDA(device, kernel_take(device->stream, scatter->rows, scatter->dim, scatter->type, scatter->held, NULL, NULL,
                                     scatter->type, made));
        device_release(device, scatter->held);
        scatter->held = made;
        scatter->capacity = capacity;
        made = NULL;
    }
done:
    device_release(device, made);
    return status;
}

l3a_status cuda_scatter_make_root(struct scatter *scatter, size_t rows) {
    struct device *device = device_of(scatter->context);
    l3a_status status = L3A_OK;
    void *made = NULL;
    if (rows) {
        TRY(device_store_zeroed(device, rows, row_bytes(scatter), &made));
    }
    device_release(device, scatter->held);
    scatter->is_root = scatter->tidy = true;
    scatter->rows = scatter->capacity = rows;
    scatter->held = made;
done:
    return status;
}

l3a_status cuda_scatter_read_root(const struct scatter *scatter, size_t first, size_t count, void *values) {
    return device_get(device_of(scatter->context), values, (const char *)scatter->held + first * row_bytes(scatter),
                      count * row_bytes(scatter));
}

l3a_status cuda_scatter_write_root(struct scatter *scatter, size_t first, size_t count, const void *values) {
    return device_put(device_of(scatter->context), (char *)scatter->held + first * row_bytes(scatter), values,
                      count * row_bytes(scatter));
}

l3a_status cuda_root_widened(struct device *device, const struct scatter *scatter, double **made) {
    l3a_status status = L3A_OK;
    *made = NULL;
    if (scatter->is_root && scatter->rows) {
        TRY(device_allocate(device, scatter->rows, scatter->dim * sizeof **made, made));
        TRY_CUDA(device, kernel_take(device->stream, scatter->rows, scatter->dim, scatter->type, scatter->held, NULL, NULL,
                                     REAL_DOUBLE, *made));
    }
done:
    return status;
}

/* ---- Triangles ---- */

l3a_status cuda_scatter_add_to(struct device *device, const struct scatter *scatter, double scale, double *square) {
    l3a_status status = L3A_OK;
    double *wide = NULL;
    TRY(device_follow(device, scatter->context));
    if (!scatter->is_root) {
        TRY_CUDA(device, kernel_add_triangle(device->stream, scatter->dim, scale, scatter->type, scatter->held, square));
    } else if (scatter->rows) {
        TRY(cuda_root_widened(device, scatter, &wide));
        TRY(device_rank_update(device, scatter->dim, scatter->rows, scale, wide, 1, square));
    }
done:
    device_release(device, wide);
    return status;
}

/* Adds A of another scatter to a triangle, by way of a square. */
static l3a_status add_by_square(struct device *device, const struct scatter *triangle, const struct scatter *from) {
    const size_t d = triangle->dim;
    l3a_status status = L3A_OK;
    double *square = NULL;
    TRY(device_allocate_zeroed(device, d, d * sizeof *square, &square));
    TRY(cuda_scatter_add_to(device, from, 1, square));
    TRY_CUDA(device, kernel_make_triangle(device->stream, d, triangle->type, triangle->held, 1, square, triangle->held));
done:
    device_release(device, square);
    return status;
}

/* The triangle that a scatter is to become; a copy if it is a root. */
static l3a_status begin_triangle(struct device *device, const struct scatter *scatter, struct scatter *made) {
    l3a_status status = L3A_OK;
    *made = *scatter;
    if (scatter->is_root) {
        made->is_root = made->tidy = false;
        made->rows = made->capacity = 0;
        TRY(device_store_zeroed(device, triangle_numbers(0, scatter->dim), real_size(scatter->type), &made->held));
        if (scatter->rows) {
            TRY(add_by_square(device, made, scatter));
        }
    }
done:
    if (status != L3A_OK) {
        device_release(device, made->held);
        *made = *scatter;
    }
    return status;
}

/* Puts the triangle in the place of the root, unless something has failed. */
static l3a_status end_triangle(struct device *device, struct scatter *scatter, const struct scatter *made, l3a_status status) {
    if (made->held != scatter->held) {
        device_release(device, status == L3A_OK ? scatter->held : made->held);
    }
    if (status == L3A_OK) {
        *scatter = *made;
    }
    return status;
}

l3a_status cuda_scatter_expand(struct scatter *scatter) {
    struct device *device = device_of(scatter->context);
    struct scatter made;
    const l3a_status status = begin_triangle(device, scatter, &made);
    return end_triangle(device, scatter, &made, status);
}

l3a_status cuda_scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values) {
    struct device *device = device_of(scatter->context);
    const size_t size = real_size(scatter->type);
    l3a_status status = L3A_OK;
    void *numbers = NULL;
    if (scatter->is_root) {
        TRY(device_allocate(device, count, size, &numbers));
        TRY_CUDA(device, kernel_product_numbers(device->stream, scatter->type, scatter->rows, scatter->dim, scatter->held, first,
                                                count, numbers));
    }
    TRY(device_get(device, values, numbers ? numbers : (const char *)scatter->held + first * size, count * size));
done:
    device_release(device, numbers);
    return status;
}

l3a_status cuda_scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values) {
    const size_t size = real_size(scatter->type);
    l3a_status status = L3A_OK;
    TRY(cuda_scatter_expand(scatter));
    TRY(device_put(device_of(scatter->context), (char *)scatter->held + first * size, values, count * size));
done:
    return status;
}

/* ---- Adding ---- */

l3a_status cuda_scatter_add(struct scatter *scatter, const struct scatter *from) {
    struct device *device = device_of(scatter->context);
    struct scatter made = *scatter;
    l3a_status status = L3A_OK;
    bool fits = false;
    TRY(device_follow(device, from->context));
    if (from->is_root) {
        TRY(make_room(device, scatter, from->rows, &fits));
        made = *scatter;
    }
    if (fits) {
        TRY_CUDA(device, kernel_take(device->stream, from->rows, from->dim, from->type, from->held, NULL, NULL, scatter->type,
                                     (char *)scatter->held + scatter->rows * row_bytes(scatter)));
        scatter->tidy = !from->rows ? scatter->tidy : !scatter->rows && from->tidy;
        scatter->rows += from->rows;
        return L3A_OK;
    }
    TRY(begin_triangle(device, scatter, &made));
    if (!from->is_root) {
        TRY_CUDA(device, kernel_add_numbers(device->stream, triangle_numbers(0, scatter->dim), made.type, made.held, from->type,
                                            from->held));
    } else if (from->rows) {
        TRY(add_by_square(device, &made, from));
    }
done:
    return end_triangle(device, scatter, &made, status);
}

static size_t count_weights(const struct block *rows, const double *weight) {
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        count += weight[i] > 0;
    }
    return count;
}

l3a_status cuda_block_take(struct device *device, const struct block *rows, const double *weight, double scale, size_t count,
                           real type, void *to) {
    l3a_status status = L3A_OK;
    size_t *chosen = NULL, *indices = NULL, n = 0;
    double *roots = NULL, *factors = NULL;
    TRY(device_follow(device, rows->context));
    TRY(device->host->allocate(device->context, count, sizeof *chosen, &chosen));
    TRY(device->host->allocate(device->context, count, sizeof *roots, &roots));
    for (size_t i = 0; i < rows->count; i++) {
        if (weight[i] > 0) {
            chosen[n] = i;
            roots[n++] = sqrt(scale * weight[i]);
        }
    }
    TRY(device_copy_of(device, chosen, count * sizeof *chosen, &indices));
    TRY(device_copy_of(device, roots, count * sizeof *roots, &factors));
    TRY_CUDA(device, kernel_take(device->stream, count, layer_columns(&rows->layer->shape), rows->layer->shape.type,
                                 ((const struct cuda_block *)rows->held)->expanded, indices, factors, type, to));
    if (rows->context->device != device) {
        TRY(device_wait(device));
    }
done:
    device_release(device, indices);
    device_release(device, factors);
    device->host->release(device->context, chosen);
    device->host->release(device->context, roots);
    return status;
}

static l3a_status append_rows(struct device *device, struct scatter *scatter, const struct block *rows, double scale,
                              const double *weight, size_t count, bool *fits) {
    l3a_status status = L3A_OK;
    TRY(make_room(device, scatter, count, fits));
    if (*fits) {
        TRY(cuda_block_take(device, rows, weight, scale, count, scatter->type,
                            (char *)scatter->held + scatter->rows * row_bytes(scatter)));
        scatter->rows += count;
        scatter->tidy = false;
    }
done:
    return status;
}

/* Adds sign · Σ ω x xᵀ to a triangle. */
static l3a_status add_products(struct device *device, const struct scatter *triangle, const struct block *rows, double sign,
                               const double *weight, size_t count) {
    const size_t d = triangle->dim;
    l3a_status status = L3A_OK;
    double *x = NULL, *square = NULL;
    TRY(device_allocate(device, count, d * sizeof *x, &x));
    TRY(device_allocate_zeroed(device, d, d * sizeof *square, &square));
    TRY(cuda_block_take(device, rows, weight, fabs(sign), count, REAL_DOUBLE, x));
    TRY(device_rank_update(device, d, count, 1, x, 0, square));
    TRY_CUDA(device,
             kernel_make_triangle(device->stream, d, triangle->type, triangle->held, sign < 0 ? -1 : 1, square, triangle->held));
done:
    device_release(device, x);
    device_release(device, square);
    return status;
}

l3a_status cuda_scatter_add_rows(struct scatter *scatter, const struct block *rows, double sign, const double *weight) {
    struct device *device = device_of(scatter->context);
    const size_t count = count_weights(rows, weight);
    struct scatter made = *scatter;
    bool added = !count || sign == 0;
    l3a_status status = L3A_OK;
    if (!added && scatter->is_root && sign > 0) {
        TRY(append_rows(device, scatter, rows, sign, weight, count, &added));
    } else if (!added && scatter->is_root) {
        TRY(cuda_root_subtract(scatter, rows, -sign, weight, count, &added));
    }
    made = *scatter;
    if (added) {
        return L3A_OK;
    }
    TRY(begin_triangle(device, scatter, &made));
    TRY(add_products(device, &made, rows, sign, weight, count));
done:
    return end_triangle(device, scatter, &made, status);
}

l3a_status cuda_scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign) {
    struct device *device = device_of(scatter->context);
    l3a_status status = L3A_OK;
    TRY(device_follow(device, sums->context));
    TRY(cuda_scatter_expand(scatter));
    TRY_CUDA(device, kernel_make_triangle(device->stream, scatter->dim, scatter->type, scatter->held, sign,
                                          ((const struct cuda_sums *)sums->held)->halves[ADDED], scatter->held));
done:
    return status;
}
