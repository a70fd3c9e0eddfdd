/* Matrix products and factors by cuBLAS and cuSOLVER, for row-major matrices.
 *
 * Tensor cores multiply TF32 numbers, which have 11 significant bits, exactly, and are far faster than float32 arithmetic. With
 * each number split into what TF32 holds of it and the rest, a = a₁ + a₂ and b = b₁ + b₂,
 *
 *   a b = a₁ b₁ + a₁ b₂ + a₂ b₁ + a₂ b₂,
 *
 * where the last product is below 2⁻²² of the whole and is left out. Tensor cores cut their sums off instead of rounding them,
 * which moves long sums towards zero, so the terms a₁ b₁ are summed in chunks, and the chunks added up in float32, which rounds.
 * With chunks of 192 the error of a row is about 5e-7 for any width. That of cuBLAS's product in float32 is the same at a width of
 * 768, and grows with it (bench_gpu prints both). */
#include "cuda/algebra/algebra.h"

#include <math.h>

l3a_status device_multiply(struct device *device, real type, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner,
                           double scale, const void *a, size_t a_stride, const void *b, size_t b_stride, double keep, void *c,
                           size_t c_stride) {
    const cublasOperation_t first = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const float narrow_scale = (float)scale, narrow_keep = (float)keep;
    l3a_status status = L3A_OK;
    if (!m || !n) {
        return L3A_OK;
    }
    if (type == REAL_SINGLE) { /* cᵀ = op(b)ᵀ op(a)ᵀ */
        TRY_BLAS(device, cublasSgemm(device->blas, first, second, (int)n, (int)m, (int)inner, &narrow_scale, b, (int)b_stride, a,
                                     (int)a_stride, &narrow_keep, c, (int)c_stride));
    } else {
        TRY_BLAS(device, cublasDgemm(device->blas, first, second, (int)n, (int)m, (int)inner, &scale, b, (int)b_stride, a,
                                     (int)a_stride, &keep, c, (int)c_stride));
    }
done:
    return status;
}

enum { SPLIT_CHUNK = 192, PANEL = 2048 };

/* c [m x n] = a bᵀ + keep · c, of TF32 numbers in rows of `stride` */
static l3a_status multiply_tensors(struct device *device, size_t m, size_t n, size_t inner, const float *a, const float *b,
                                   size_t stride, float keep, float *c, size_t c_stride) {
    const float one = 1;
    return device_check_blas(device,
                             cublasGemmEx(device->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)n, (int)m, (int)inner, &one, b, CUDA_R_32F,
                                          (int)stride, a, CUDA_R_32F, (int)stride, &keep, c, CUDA_R_32F, (int)c_stride,
                                          CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT),
                             "cublasGemmEx");
}

l3a_status device_multiply_split(struct device *device, size_t m, size_t n, size_t inner, const float *a, const float *b, float *c,
                                 size_t c_stride) {
    const size_t stride = 2 * inner;
    l3a_status status = L3A_OK;
    TRY(multiply_tensors(device, m, n, stride, a, b, stride, 0, c, c_stride)); /* a₁ b₂ + a₂ b₁ */
    for (size_t first = 0; first < inner; first += SPLIT_CHUNK) {
        const size_t count = inner - first < SPLIT_CHUNK ? inner - first : SPLIT_CHUNK;
        TRY(multiply_tensors(device, m, n, count, a + first, b + inner + first, stride, 1, c, c_stride));
    }
done:
    return status;
}

/* Panel by panel, which is faster than one call of dsyrk: on the diagonal dsyrk, below it dgemm. */
l3a_status device_rank_update(struct device *device, size_t d, size_t rows, double scale, const double *x, double keep,
                              double *square) {
    l3a_status status = L3A_OK;
    for (size_t first = 0, width; first < d; first += width) {
        width = d - first < 2 * PANEL ? d - first : PANEL;
        double *corner = square + first * d + first;
        TRY_BLAS(device, cublasDsyrk(device->blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, (int)width, (int)rows, &scale, x + first,
                                     (int)d, &keep, corner, (int)d));
        if (first + width < d) {
            TRY_BLAS(device, cublasDgemm(device->blas, CUBLAS_OP_N, CUBLAS_OP_T, (int)(d - first - width), (int)width, (int)rows,
                                         &scale, x + first + width, (int)d, x + first, (int)d, &keep, corner + width, (int)d));
        }
    }
done:
    return status;
}

l3a_status device_multiply_symmetric(struct device *device, size_t rows, size_t d, double scale, const double *a, const double *s,
                                     double keep, double *c) {
    l3a_status status = L3A_OK;
    if (rows) {
        TRY_BLAS(device, cublasDsymm(device->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, (int)d, (int)rows, &scale, s, (int)d,
                                     a, (int)d, &keep, c, (int)d));
    }
done:
    return status;
}

/* What cuSOLVER has left in info. */
static l3a_status read_info(struct device *device, bool *good) {
    int info = 0;
    const l3a_status status = device_get(device, &info, device->info, sizeof info);
    *good = status == L3A_OK && info == 0;
    return status;
}

l3a_status device_factor(struct device *device, real type, size_t d, void *square, bool *definite) {
    const cublasFillMode_t fill = CUBLAS_FILL_MODE_LOWER;
    const int n = (int)d;
    l3a_status status = L3A_OK;
    void *work = NULL;
    int size = 0;
    if (type == REAL_SINGLE) {
        TRY_SOLVER(device, cusolverDnSpotrf_bufferSize(device->solver, fill, n, square, n, &size));
        TRY(device_allocate(device, (size_t)size, sizeof(float), &work));
        TRY_SOLVER(device, cusolverDnSpotrf(device->solver, fill, n, square, n, work, size, device->info));
    } else {
        TRY_SOLVER(device, cusolverDnDpotrf_bufferSize(device->solver, fill, n, square, n, &size));
        TRY(device_allocate(device, (size_t)size, sizeof(double), &work));
        TRY_SOLVER(device, cusolverDnDpotrf(device->solver, fill, n, square, n, work, size, device->info));
    }
    TRY(read_info(device, definite));
done:
    device_release(device, work);
    return status;
}

l3a_status device_solve(struct device *device, bool transposed, size_t rows, size_t n, const double *factor, double *b) {
    /* in columns, b is n x rows and the factor is L = Uᵀ: L from the left for b U⁻¹ */
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const double one = 1;
    l3a_status status = L3A_OK;
    if (rows && n) {
        TRY_BLAS(device, cublasDtrsm(device->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, operation, CUBLAS_DIAG_NON_UNIT,
                                     (int)n, (int)rows, &one, factor, (int)n, b, (int)n));
    }
done:
    return status;
}

l3a_status device_invert_blocks(struct device *device, size_t d, size_t block, const float *factor, float *inverses) {
    const float one = 1;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, kernel_identities(device->stream, d, block, inverses));
    for (size_t first = 0; first < d; first += block) { /* I U⁻¹, as in device_solve() */
        const size_t n = d - first < block ? d - first : block;
        TRY_BLAS(device,
                 cublasStrsm(device->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, (int)n,
                             (int)n, &one, factor + first * d + first, (int)d, inverses + first * block, (int)block));
    }
done:
    return status;
}

l3a_status device_solve_columns(struct device *device, size_t n, size_t columns, const double *factor, double *b) {
    const double one = 1;
    l3a_status status = L3A_OK;
    if (n && columns) { /* in columns, b is columns x n: Lᵀ from the right */
        TRY_BLAS(device, cublasDtrsm(device->blas, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT,
                                     (int)columns, (int)n, &one, factor, (int)n, b, (int)columns));
    }
done:
    return status;
}

l3a_status device_invert(struct device *device, size_t d, double *factor, bool *regular) {
    const cublasFillMode_t fill = CUBLAS_FILL_MODE_LOWER;
    const int n = (int)d;
    l3a_status status = L3A_OK;
    double *work = NULL;
    int size = 0;
    TRY_SOLVER(device, cusolverDnDpotri_bufferSize(device->solver, fill, n, factor, n, &size));
    TRY(device_allocate(device, (size_t)size, sizeof *work, &work));
    TRY_SOLVER(device, cusolverDnDpotri(device->solver, fill, n, factor, n, work, size, device->info));
    TRY(read_info(device, regular));
done:
    device_release(device, work);
    return status;
}
