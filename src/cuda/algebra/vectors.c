/* Vectors on the device: combinations, dot products, and products with sums and solutions. Of all these, only dot products wait for
 * the device.
 *
 * Products y = x (scale · A + share · Σ scatters). A is read once for all mixtures, by cuBLAS, which has no fast product of a few
 * rows and half a matrix. So the unused triangle of its square is made the mirror image of the other first. The triangles of
 * scatters are packed, and are read as they are: the work space for x times a triangle holds the share of each tile in each result,
 * and the shares are then added in order.
 *
 * Solutions b (UᵀU)⁻¹ = b U⁻¹ U⁻ᵀ in single precision, which a search asks for at every step. Solving for a few rows at once would
 * leave most of a device idle. So U is cut into blocks, of which those on the diagonal were inverted with the factor, and what
 * remains are products:
 *
 *   z U = b    for k = 0, 1, …: z_k = b_k U_kk⁻¹, and b_j -= z_k U_kj for all j > k
 *   x Uᵀ = z   for k = …, 1, 0: x_k = z_k U_kk⁻ᵀ, and z_j -= x_k U_jkᵀ for all j < k */
#include "cuda/algebra/algebra.h"

l3a_status cuda_vectors_create(struct vectors *vectors, void *memory) {
    struct device *device = device_of(vectors->context);
    const size_t bytes = vectors->dim * real_size(vectors->type);
    l3a_status status = L3A_OK;
    TRY(device_allocate(device, vectors->count, bytes, &vectors->held));
    if (memory) {
        TRY(device_put(device, vectors->held, memory, vectors->count * bytes));
    }
done:
    return status;
}

void cuda_vectors_free(struct vectors *vectors) {
    device_release(device_of(vectors->context), vectors->held);
}

static char *row_of(const struct vectors *vectors, size_t row) {
    return (char *)vectors->held + row * vectors->dim * real_size(vectors->type);
}

l3a_status cuda_vectors_put(struct vectors *vectors, size_t first, size_t count, const void *values) {
    return device_put(device_of(vectors->context), row_of(vectors, first), values, count * vectors->dim * real_size(vectors->type));
}

l3a_status cuda_vectors_get(const struct vectors *vectors, size_t first, size_t count, void *values) {
    return device_get(device_of(vectors->context), values, row_of(vectors, first), count * vectors->dim * real_size(vectors->type));
}

/* The rows at [start, …) of two lists, as many as a kernel takes; returns how many. */
static size_t list_rows(const size_t *first, const size_t *second, size_t start, size_t count, struct listed_rows *list) {
    const size_t listed = count - start < LISTED ? count - start : LISTED;
    for (size_t i = 0; i < listed; i++) {
        list->first[i] = (uint32_t)(first ? first[start + i] : start + i);
        list->second[i] = (uint32_t)(second ? second[start + i] : start + i);
    }
    return listed;
}

l3a_status cuda_vectors_combine(struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
                                const size_t *from_rows, const double *scale, size_t count) {
    struct device *device = device_of(to->context);
    l3a_status status = L3A_OK;
    struct listed_rows list = {0};
    TRY(device_follow(device, from->context));
    for (size_t start = 0, listed; start < count; start += listed) {
        listed = list_rows(to_rows, from_rows, start, count, &list);
        for (size_t i = 0; i < listed; i++) {
            list.keep[i] = keep ? keep[start + i] : 0;
            list.scale[i] = scale ? scale[start + i] : 1;
        }
        TRY_CUDA(device, kernel_combine(device->stream, to->dim, &list, listed, to->type, to->held, from->type, from->held));
    }
done:
    return status;
}

l3a_status cuda_vectors_dot(const struct dots *dots, size_t kinds, size_t count, double *results) {
    struct device *device = device_of(dots->left->context);
    l3a_status status = L3A_OK;
    struct listed_rows list = {0};
    double *found = NULL;
    TRY(device_allocate(device, kinds * count, sizeof *found, &found));
    for (size_t k = 0; k < kinds; k++) {
        const struct vectors *left = dots[k].left, *right = dots[k].right;
        TRY(device_follow(device, left->context));
        TRY(device_follow(device, right->context));
        for (size_t start = 0, listed; start < count; start += listed) {
            listed = list_rows(dots[k].left_rows, dots[k].right_rows, start, count, &list);
            TRY_CUDA(device, kernel_dot(device->stream, left->dim, &list, listed, left->type, left->held, right->type, right->held,
                                        found + k * count + start));
        }
    }
    TRY(device_get(device, results, found, kinds * count * sizeof *results));
done:
    device_release(device, found);
    return status;
}

/* b [count x d] = b (UᵀU)⁻¹ */
static l3a_status solve_by_blocks(struct device *device, const struct sums *sums, size_t count, float *b) {
    const size_t d = sums->dim, block = solve_block(sums);
    const float *factor = (const float *)((const struct cuda_sums *)sums->held)->halves[ADDED], *inverses = factor_inverses(sums);
    float *z = NULL;
    l3a_status status = L3A_OK;
    TRY(device_allocate(device, count, d * sizeof *z, &z));
    for (size_t k = 0; k < d; k += block) {
        const size_t n = d - k < block ? d - k : block, after = k + n;
        TRY(device_multiply(device, REAL_SINGLE, false, false, count, n, n, 1, b + k, d, inverses + k * block, block, 0, z + k, d));
        TRY(device_multiply(device, REAL_SINGLE, false, false, count, d - after, n, -1, z + k, d, factor + k * d + after, d, 1,
                            b + after, d));
    }
    for (size_t k = (d - 1) / block * block, n = d - k;; k -= block, n = block) {
        TRY(device_multiply(device, REAL_SINGLE, false, true, count, n, n, 1, z + k, d, inverses + k * block, block, 0, b + k, d));
        TRY(device_multiply(device, REAL_SINGLE, false, true, count, k, n, -1, b + k, d, factor + k, d, 1, z, d));
        if (!k) {
            break;
        }
    }
done:
    device_release(device, z);
    return status;
}

l3a_status cuda_vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count) {
    struct device *device = device_of(sums->context);
    const double *factor = ((const struct cuda_sums *)sums->held)->halves[ADDED];
    void *rows = row_of(vectors, first);
    l3a_status status = L3A_OK;
    TRY(device_follow(device, vectors->context));
    if (vectors->type == REAL_SINGLE) {
        TRY(solve_by_blocks(device, sums, count, rows));
    } else {
        TRY(device_solve(device, false, count, sums->dim, factor, rows));
        TRY(device_solve(device, true, count, sums->dim, factor, rows));
    }
done:
    return status;
}

/* ---- Products ---- */

/* y += share · (x Rᵀ) R */
static l3a_status multiply_root(struct device *device, const struct scatter *root, double share, const double *x, size_t rows,
                                double *y) {
    const size_t d = root->dim, n = root->rows;
    double *wide = NULL, *products = NULL;
    l3a_status status = L3A_OK;
    TRY(cuda_root_widened(device, root, &wide));
    TRY(device_allocate(device, rows, n * sizeof *products, &products));
    TRY(device_multiply(device, REAL_DOUBLE, false, true, rows, n, d, share, x, d, wide, d, 0, products, n));
    TRY(device_multiply(device, REAL_DOUBLE, false, false, rows, d, n, 1, products, n, wide, d, 1, y, d));
done:
    device_release(device, wide);
    device_release(device, products);
    return status;
}

/* y += share · x A of a triangle, some rows at a time */
static l3a_status multiply_triangle(struct device *device, const struct scatter *triangle, double share, const double *x,
                                    size_t rows, double *y) {
    const size_t d = triangle->dim;
    double *work = NULL;
    l3a_status status = L3A_OK;
    TRY(device_allocate(device, multiply_numbers(d, rows < MULTIPLIED_ROWS ? rows : MULTIPLIED_ROWS), sizeof *work, &work));
    for (size_t first = 0; first < rows; first += MULTIPLIED_ROWS) {
        const size_t count = rows - first < MULTIPLIED_ROWS ? rows - first : MULTIPLIED_ROWS;
        TRY_CUDA(device, kernel_multiply_triangle(device->stream, d, share, triangle->type, triangle->held, count, x + first * d,
                                                  work, y + first * d));
    }
done:
    device_release(device, work);
    return status;
}

/* y [rows x d] = scale · x A */
static l3a_status multiply_square(struct device *device, const struct sums *sums, double scale, const double *x, size_t rows,
                                  double *y) {
    const size_t d = sums->dim;
    double *square = ((const struct cuda_sums *)sums->held)->halves[KEPT];
    l3a_status status = L3A_OK;
    if (scale == 0) {
        TRY_CUDA(device, cudaMemsetAsync(y, 0, rows * d * sizeof *y, device->stream));
    } else if (rows) {
        TRY_CUDA(device, kernel_mirror(device->stream, d, square));
        TRY(device_multiply(device, REAL_DOUBLE, false, true, rows, d, d, scale, x, d, square, d, 0, y, d));
    }
done:
    return status;
}

l3a_status cuda_vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures, size_t count,
                                 const struct vectors *x, struct vectors *y) {
    struct device *device = device_of(sums->context);
    l3a_status status = L3A_OK;
    size_t all = 0, first = 0;
    for (size_t m = 0; m < count; m++) {
        all += mixtures[m].rows;
    }
    TRY(device_follow(device, x->context));
    TRY(device_follow(device, y->context));
    TRY(multiply_square(device, sums, scale, x->held, all, y->held));
    for (size_t m = 0; m < count; first += mixtures[m++].rows) {
        const double *from = (const double *)x->held + first * sums->dim;
        double *to = (double *)y->held + first * sums->dim;
        for (size_t i = 0; i < mixtures[m].count; i++) {
            const struct scatter *scatter = mixtures[m].scatters[i];
            TRY(device_follow(device, scatter->context));
            if (!scatter->is_root) {
                TRY(multiply_triangle(device, scatter, share, from, mixtures[m].rows, to));
            } else if (scatter->rows) {
                TRY(multiply_root(device, scatter, share, from, mixtures[m].rows, to));
            }
        }
    }
done:
    return status;
}
