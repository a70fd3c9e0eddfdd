/* The plug-in's own kernels. Each function launches one on a stream and returns cudaGetLastError(). Pointers are the device's,
 * matrices row-major. Of a square [d x d], only the upper triangle is read and written; packed triangles
 * are the lower one, row by row, as everywhere. */
#ifndef L3A_CUDA_ALGEBRA_KERNELS_H
#define L3A_CUDA_ALGEBRA_KERNELS_H

#include "algebra/algebra.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layers. layer_entries(), bit by bit. */
cudaError_t kernel_entries(cudaStream_t stream, real type, uint64_t seed, size_t width, size_t dim, void *values);
/* The transposed layer, split: row j of values [dim x 2 width] is the rest of column j of B, then what TF32 holds of it. */
cudaError_t kernel_split_entries(cudaStream_t stream, uint64_t seed, size_t width, size_t dim, float *values);
/* Row i of to [rows x 2 width] is what TF32 holds of z, then the rest. */
cudaError_t kernel_split(cudaStream_t stream, size_t rows, size_t width, const float *z, float *to);
/* to [rows x width] = z - mean; mean NULL: z */
cudaError_t kernel_shift(cudaStream_t stream, real type, size_t rows, size_t width, const float *z, const double *mean, void *to);
/* sums [rows] = ‖x‖² */
cudaError_t kernel_squares(cudaStream_t stream, real type, size_t rows, size_t width, const void *x, double *sums);
/* From z B to x, in place: the layer's function, then columns - dim features. */
cudaError_t kernel_finish(cudaStream_t stream, real type, enum layer_kind kind, size_t rows, size_t dim, size_t width,
                          size_t columns, const float *z, void *x);
/* From -2 z·c to exp(-rate ‖z - c‖²), in place; own [rows] = ‖z‖², square [dim] = ‖c‖² */
cudaError_t kernel_finish_kernels(cudaStream_t stream, real type, size_t rows, size_t dim, double rate, const double *own,
                                  const double *square, void *x);

/* Rows of other types: to [count x width] = scale · from, row chosen[i] in row i; NULL: scale 1, row i. */
cudaError_t kernel_take(cudaStream_t stream, size_t count, size_t width, real from_type, const void *from, const size_t *chosen,
                        const double *scale, real type, void *to);

/* Squares and packed triangles. Rows [first, first + count) of a triangle, one after another. */
cudaError_t kernel_pack(cudaStream_t stream, size_t d, size_t first, size_t count, const double *square, double *packed);
cudaError_t kernel_unpack(cudaStream_t stream, size_t d, size_t first, size_t count, const double *packed, double *square);
/* to = keep · to + scale · from; what has the factor 0 is not read. */
cudaError_t kernel_add_square(cudaStream_t stream, size_t d, double keep, double *to, double scale, const double *from);
/* square += scale · triangle */
cudaError_t kernel_add_triangle(cudaStream_t stream, size_t d, double scale, real type, const void *triangle, double *square);
/* to = from + scale · square, all triangles but the square; from NULL: 0 */
cudaError_t kernel_make_triangle(cudaStream_t stream, size_t d, real type, const void *from, double scale, const double *square,
                                 void *to);
/* to [count] += from */
cudaError_t kernel_add_numbers(cudaStream_t stream, size_t count, real type, void *to, real from_type, const void *from);
/* The square in single precision. */
cudaError_t kernel_narrow(cudaStream_t stream, size_t d, const double *square, float *to);
/* Adds to the diagonal of a square. */
cudaError_t kernel_shift_diagonal(cudaStream_t stream, real type, size_t d, double shift, void *square);

/* to [d x block]: identity matrices of `block` rows, one below the other */
cudaError_t kernel_identities(cudaStream_t stream, size_t d, size_t block, float *to);

/* Diagonals [d]: to += scale · that of a square, of a triangle, of RᵀR. */
cudaError_t kernel_diagonal(cudaStream_t stream, real type, size_t d, double scale, const void *square, double *to);
cudaError_t kernel_triangle_diagonal(cudaStream_t stream, real type, size_t d, double scale, const void *triangle, double *to);
cudaError_t kernel_root_diagonal(cudaStream_t stream, real type, size_t rows, size_t d, double scale, const void *root, double *to);

/* Numbers [first, first + count) of the triangle of RᵀR. */
cudaError_t kernel_product_numbers(cudaStream_t stream, real type, size_t rows, size_t d, const void *root, uint64_t first,
                                   size_t count, void *to);
/* The pivots' rows of a triangle: to [count x d]. */
cudaError_t kernel_pivot_rows(cudaStream_t stream, real type, size_t d, const void *triangle, const size_t *pivots, size_t count,
                              double *to);
/* The pivots' columns of x [rows x d]: to [rows x count]. */
cudaError_t kernel_pivot_columns(cudaStream_t stream, size_t rows, size_t d, const double *x, const size_t *pivots, size_t count,
                                 double *to);

/* Vectors [… x d]. A kernel gets the lists of at most LISTED rows with its arguments, so that nothing is copied before. */
enum { LISTED = 128 };
struct listed_rows {
    uint32_t first[LISTED], second[LISTED]; /* rows of one and of the other */
    double keep[LISTED], scale[LISTED];
};
/* Row first[i] of to = keep[i] · itself + scale[i] · row second[i] of from; what has the factor 0 is not read. */
cudaError_t kernel_combine(cudaStream_t stream, size_t d, const struct listed_rows *rows, size_t count, real type, void *to,
                           real from_type, const void *from);
/* results [count]: row first[i] of left · row second[i] of right, always in the same order */
cudaError_t kernel_dot(cudaStream_t stream, size_t d, const struct listed_rows *rows, size_t count, real left_type,
                       const void *left, real right_type, const void *right, double *results);
/* The triangle that a square does not have = its mirror image. */
cudaError_t kernel_mirror(cudaStream_t stream, size_t d, double *square);
/* y [rows x d] += scale · x A of a triangle, x [rows x d], at most MULTIPLIED_ROWS. It is read once. work: as many numbers as
 * multiply_numbers() says. */
enum { MULTIPLIED_ROWS = 16, MULTIPLY_TILE = 64 };
static inline size_t multiply_numbers(size_t d, size_t rows) {
    return (d + MULTIPLY_TILE - 1) / MULTIPLY_TILE * rows * d;
}
cudaError_t kernel_multiply_triangle(cudaStream_t stream, size_t d, double scale, real type, const void *triangle, size_t rows,
                                     const double *x, double *work, double *y);

#ifdef __cplusplus
}
#endif

#endif
