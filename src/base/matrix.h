/* Matrix operations of the processor. Nothing else in the project knows the name of a matrix library.
 *
 * All matrices are row-major. Only the lower triangle of a symmetric matrix is read and written, unless `upper` says otherwise. A
 * triangular factor is stored in the upper triangle: U with UᵀU = the matrix. */
#ifndef L3A_MATRIX_H
#define L3A_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef enum real { REAL_SINGLE, REAL_DOUBLE } real;

static inline size_t real_size(real type) {
    return type == REAL_SINGLE ? sizeof(float) : sizeof(double);
}

static inline double real_get(real type, const void *values, size_t index) {
    return type == REAL_SINGLE ? (double)((const float *)values)[index] : ((const double *)values)[index];
}

static inline void real_put(real type, void *values, size_t index, double number) {
    if (type == REAL_SINGLE) {
        ((float *)values)[index] = (float)number;
    } else {
        ((double *)values)[index] = number;
    }
}

/* Puts numbers into memory of the type. */
static inline void reals_put(real type, void *to, const double *from, size_t count) {
    if (type == REAL_DOUBLE) {
        memcpy(to, from, count * sizeof *from);
    } else {
        for (size_t i = 0; i < count; i++) {
            ((float *)to)[i] = (float)from[i];
        }
    }
}

/* c (m x n) = scale · op(a) op(b) + keep · c; op transposes if asked to; inner is the shared dimension. */
void matrix_multiply(int threads, real type, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner, double scale,
                     const void *a, size_t a_stride, const void *b, size_t b_stride, double keep, void *c, size_t c_stride);
/* c (n x n, symmetric) = scale · aᵀa + keep · c, where a is rows x n. */
void matrix_rank_update(int threads, real type, bool upper, size_t n, size_t rows, double scale, const void *a, size_t a_stride,
                        double keep, void *c, size_t c_stride);
/* c (rows x n) = a s, where s is symmetric, n x n; in double precision. */
void matrix_multiply_symmetric(int threads, size_t rows, size_t n, const double *a, size_t a_stride, const double *s,
                               size_t s_stride, double *c, size_t c_stride);
/* In place: the upper triangle of a positive definite matrix becomes U. Returns false if it is not positive definite. */
bool matrix_factor(int threads, real type, size_t n, void *a, size_t a_stride);
/* In place: b = U⁻ᵀ b, where b is n x columns. */
void matrix_solve_transposed(int threads, size_t n, size_t columns, const double *u, size_t u_stride, double *b, size_t b_stride);
/* In place: b = b (UᵀU)⁻¹, where b is rows x n. */
void matrix_solve_rows(int threads, real type, size_t n, size_t rows, const void *u, size_t u_stride, void *b, size_t b_stride);
/* In place: U becomes the upper triangle of (UᵀU)⁻¹, or U⁻¹. Returns false if U is singular. */
bool matrix_invert(int threads, size_t n, double *u, size_t u_stride);
bool matrix_invert_factor(int threads, size_t n, double *u, size_t u_stride);
/* Describes the library. If its kernels are slower than the machine allows, *better_kernels is the OPENBLAS_CORETYPE to set. */
void matrix_describe(char *text, size_t capacity, const char **better_kernels);

#endif
