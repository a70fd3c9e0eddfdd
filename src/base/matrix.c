/* The matrix operations of the processor, by OpenBLAS. */
#include "base/matrix.h"

#include "base/threads.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

void dpotrf_(const char *triangle, const int *n, double *a, const int *stride, int *info);
void spotrf_(const char *triangle, const int *n, float *a, const int *stride, int *info);
void dpotri_(const char *triangle, const int *n, double *a, const int *stride, int *info);
void dtrtri_(const char *triangle, const char *unit, const int *n, double *a, const int *stride, int *info);

/* A product of fewer multiplications gains nothing from a second thread. With one, it also never waits: OpenBLAS lets only one
 * product at a time use several threads, so one who scores a picture would wait for all of a large product that another thread
 * computes. */
enum { SMALL_PRODUCT = 1 << 23 };

void matrix_multiply(int threads, real type, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner, double scale,
                     const void *a, size_t a_stride, const void *b, size_t b_stride, double keep, void *c, size_t c_stride) {
    const CBLAS_TRANSPOSE ta = transpose_a ? CblasTrans : CblasNoTrans, tb = transpose_b ? CblasTrans : CblasNoTrans;
    if (!m || !n) {
        return;
    }
    const bool small = (double)m * (double)n * (double)inner <= SMALL_PRODUCT;
    const int before = threads_use(small ? 1 : threads);
    if (type == REAL_SINGLE) {
        cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)inner, (float)scale, a, (int)a_stride, b, (int)b_stride,
                    (float)keep, c, (int)c_stride);
    } else {
        cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)inner, scale, a, (int)a_stride, b, (int)b_stride, keep, c,
                    (int)c_stride);
    }
    threads_use(before);
}

void matrix_rank_update(int threads, real type, bool upper, size_t n, size_t rows, double scale, const void *a, size_t a_stride,
                        double keep, void *c, size_t c_stride) {
    const CBLAS_UPLO half = upper ? CblasUpper : CblasLower;
    const int before = threads_use(threads);
    if (type == REAL_SINGLE) {
        cblas_ssyrk(CblasRowMajor, half, CblasTrans, (int)n, (int)rows, (float)scale, a, (int)a_stride, (float)keep, c,
                    (int)c_stride);
    } else {
        cblas_dsyrk(CblasRowMajor, half, CblasTrans, (int)n, (int)rows, scale, a, (int)a_stride, keep, c, (int)c_stride);
    }
    threads_use(before);
}

void matrix_multiply_symmetric(int threads, size_t rows, size_t n, const double *a, size_t a_stride, const double *s,
                               size_t s_stride, double *c, size_t c_stride) {
    const int before = threads_use(threads);
    cblas_dsymm(CblasRowMajor, CblasRight, CblasLower, (int)rows, (int)n, 1, s, (int)s_stride, a, (int)a_stride, 0, c,
                (int)c_stride);
    threads_use(before);
}

/* LAPACK is column-major, so a row-major upper triangle is a lower triangle to it. */
bool matrix_factor(int threads, real type, size_t n, void *a, size_t a_stride) {
    const int before = threads_use(threads), order = (int)n, stride = (int)a_stride;
    int info = 0;
    if (type == REAL_SINGLE) {
        spotrf_("L", &order, a, &stride, &info);
    } else {
        dpotrf_("L", &order, a, &stride, &info);
    }
    threads_use(before);
    return info == 0;
}

bool matrix_invert(int threads, size_t n, double *u, size_t u_stride) {
    const int before = threads_use(threads), order = (int)n, stride = (int)u_stride;
    int info = 0;
    dpotri_("L", &order, u, &stride, &info);
    threads_use(before);
    return info == 0;
}

bool matrix_invert_factor(int threads, size_t n, double *u, size_t u_stride) {
    const int before = threads_use(threads), order = (int)n, stride = (int)u_stride;
    int info = 0;
    dtrtri_("L", "N", &order, u, &stride, &info);
    threads_use(before);
    return info == 0;
}

void matrix_solve_transposed(int threads, size_t n, size_t columns, const double *u, size_t u_stride, double *b, size_t b_stride) {
    const int before = threads_use(threads);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, (int)n, (int)columns, 1, u, (int)u_stride, b,
                (int)b_stride);
    threads_use(before);
}

void matrix_solve_rows(int threads, real type, size_t n, size_t rows, const void *u, size_t u_stride, void *b, size_t b_stride) {
    static const CBLAS_TRANSPOSE steps[] = {CblasNoTrans, CblasTrans};
    const int before = threads_use(threads);
    for (size_t i = 0; i < 2; i++) {
        if (type == REAL_SINGLE) {
            cblas_strsm(CblasRowMajor, CblasRight, CblasUpper, steps[i], CblasNonUnit, (int)rows, (int)n, 1, u, (int)u_stride, b,
                        (int)b_stride);
        } else {
            cblas_dtrsm(CblasRowMajor, CblasRight, CblasUpper, steps[i], CblasNonUnit, (int)rows, (int)n, 1, u, (int)u_stride, b,
                        (int)b_stride);
        }
    }
    threads_use(before);
}

/* OpenBLAS chooses kernels by processor model, and uses its oldest ones for a model that is newer than the library. */
static const char *better_kernels_than(const char *core) {
    static const char *const outdated[] = {"Prescott", "Core2", "Nehalem", "Sandybridge", "Unknown"};
    bool slow = false;
    for (size_t i = 0; i < sizeof outdated / sizeof outdated[0]; i++) {
        slow = slow || strcmp(core, outdated[i]) == 0;
    }
#if defined(__x86_64__)
    if (slow && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
        return "SkylakeX";
    }
    if (slow && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    (void)slow;
    return NULL;
}

void matrix_describe(char *text, size_t capacity, const char **better_kernels) {
    const char *core = openblas_get_corename();
    snprintf(text, capacity, "%s, kernels %s", openblas_get_config(), core);
    *better_kernels = better_kernels_than(core);
}
