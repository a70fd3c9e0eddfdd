/* Matrix products and factors by cuBLAS and cuSOLVER, for row-major matrices. */
#include "algebra/cuda/cuda.h"

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

l3a_status device_rank_update(struct device *device, size_t d, size_t rows, double scale, const double *x, double keep,
                              double *square) {
    l3a_status status = L3A_OK;
    TRY_BLAS(device, cublasDsyrk(device->blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, (int)d, (int)rows, &scale, x, (int)d, &keep,
                                 square, (int)d));
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

l3a_status device_solve(struct device *device, real type, bool transposed, size_t rows, size_t n, const void *factor, void *b) {
    /* in columns, b is n x rows and the factor is L = Uᵀ: L from the left for b U⁻¹ */
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const double one = 1;
    const float narrow_one = 1;
    l3a_status status = L3A_OK;
    if (!rows || !n) {
        return L3A_OK;
    }
    if (type == REAL_SINGLE) {
        TRY_BLAS(device, cublasStrsm(device->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, operation, CUBLAS_DIAG_NON_UNIT,
                                     (int)n, (int)rows, &narrow_one, factor, (int)n, b, (int)n));
    } else {
        TRY_BLAS(device, cublasDtrsm(device->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, operation, CUBLAS_DIAG_NON_UNIT,
                                     (int)n, (int)rows, &one, factor, (int)n, b, (int)n));
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
