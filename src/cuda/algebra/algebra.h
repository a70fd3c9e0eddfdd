/* The algebra on a CUDA device: what its objects hold. Matrix products are those of cuBLAS, factors those of cuSOLVER, and what
 * neither has is in kernels.cu.
 *
 * cuBLAS thinks in columns: a row-major matrix [n x d] is its d x n matrix with the leading dimension d. Of a symmetric matrix, the
 * upper triangle in rows is the lower one in columns. Squares have that one, because cuSOLVER factors it twice as fast.
 *
 * Rows are float32 if the layer's type is single, and expanded with the accuracy of float32 (products.c), never plain TF32.
 * Everything that is summed over rows is computed in float64, from rows that were scaled in float64: on the devices this is made
 * for, that is as fast as float32.
 *
 * Features have a stream of their own and two places in a block, so that those of the next block arrive while this one is being
 * added. Scores leave on that stream too, while the device works on. */
#ifndef L3A_CUDA_ALGEBRA_H
#define L3A_CUDA_ALGEBRA_H

#include "algebra/algebra.h"
#include "cuda/algebra/kernels.h"
#include "cuda/device.h"

enum { UPDATE_ROWS = 512, SPLIT_WIDTH = 768, SOLVE_BLOCK = 512 };

struct cuda_layer {
    void *matrix;   /* B [width x dim]; for kernels the centres - mean [dim x width]; in the layer's type */
    bool split;     /* instead, matrix is that of device_multiply_split(), [dim x 2 width] */
    double *mean;   /* kernels: of the centres */
    double *square; /* kernels: ‖c - mean‖² */
};

struct cuda_block {
    void *expanded;                /* X [capacity x d] */
    float *features[2];            /* z [capacity x width], of this call and of the one before */
    cudaEvent_t ready[2], used[2]; /* they have arrived, and are no longer needed */
    int turn;
    void *wide; /* z in the layer's type, less the mean for kernels; or z split [capacity x 2 width]; NULL: z is used as it is */
    double *squares; /* kernels: ‖z - mean‖² */
    void *scores;    /* that are being computed; NULL: none */
    void *wanted;    /* where they are to go, on the processor */
    size_t score_bytes;
    cudaEvent_t scored;
};

/* A factor in single precision takes half the memory of ADDED. After it come the inverses of the blocks on its diagonal, of
 * SOLVE_BLOCK rows or the rest, one after another, in rows of SOLVE_BLOCK numbers or d if that is less (vectors.c). */
struct cuda_sums {
    double *halves[2]; /* KEPT and ADDED, squares [d x d] */
    double *cross;     /* C [d x columns]; NULL if no rows are being added */
    size_t columns;
};

/* The operations. Those of layers, blocks and solutions are in layer.c, those of scatters in scatter.c and root.c, of sums in
 * sums.c and factor.c, of vectors in vectors.c. bytes.c says what objects take. */
#define OPERATION(returns, operation, ...) returns cuda_##operation(__VA_ARGS__);
#include "algebra/operations.h"
l3a_status cuda_block_score_end(const struct block *rows);

/* products.c: row-major, in columns for cuBLAS */
/* c [m x n] = scale · op(a) op(b) + keep · c; as matrix_multiply() */
l3a_status device_multiply(struct device *device, real type, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner,
                           double scale, const void *a, size_t a_stride, const void *b, size_t b_stride, double keep, void *c,
                           size_t c_stride);
/* c [m x n] = a bᵀ with the accuracy of float32; a [m x 2 inner] and b [n x 2 inner] are split by kernel_split(), b in reverse */
l3a_status device_multiply_split(struct device *device, size_t m, size_t n, size_t inner, const float *a, const float *b, float *c,
                                 size_t c_stride);
/* square [d x d] = scale · xᵀx + keep · square, x [rows x d] */
l3a_status device_rank_update(struct device *device, size_t d, size_t rows, double scale, const double *x, double keep,
                              double *square);
/* c [rows x d] = scale · a s + keep · c, s [d x d] */
l3a_status device_multiply_symmetric(struct device *device, size_t rows, size_t d, double scale, const double *a, const double *s,
                                     double keep, double *c);
/* In place: a square becomes its factor. */
l3a_status device_factor(struct device *device, real type, size_t d, void *square, bool *definite);
/* b [rows x n] = b U⁻¹, or b U⁻ᵀ if transposed, where U is the factor of a square [n x n] */
l3a_status device_solve(struct device *device, bool transposed, size_t rows, size_t n, const double *factor, double *b);
/* b [n x columns] = U⁻ᵀ b */
l3a_status device_solve_columns(struct device *device, size_t n, size_t columns, const double *factor, double *b);
/* inverses [d x block]: of the blocks of `block` rows, or the rest, on the diagonal of a factor in single precision */
l3a_status device_invert_blocks(struct device *device, size_t d, size_t block, const float *factor, float *inverses);
/* In place: U becomes (UᵀU)⁻¹. */
l3a_status device_invert(struct device *device, size_t d, double *factor, bool *regular);

/* layer.c */
/* Whether rows of such a layer are expanded by split products where tensor cores are fast. Those are no more accurate than float32
 * arithmetic where features are narrow, and there expanding takes little time. */
bool cuda_layer_splits(const struct layer_shape *shape);
/* made [count x d] = √ω x of the rows [first, first + count), in double precision; weight NULL: x. To be released. */
l3a_status cuda_block_scaled(struct device *device, const struct block *rows, size_t first, size_t count, const double *weight,
                             double **made);
/* made [count x columns] = √ω y, or y if weight is NULL. To be released. */
l3a_status cuda_targets_scaled(struct device *device, const double *targets, size_t count, size_t columns, const double *weight,
                               double **made);

/* scatter.c */
/* A root becomes a triangle. */
l3a_status cuda_scatter_expand(struct scatter *scatter);
/* made [rows x d]: the root in double precision; NULL if there are no rows. To be released. */
l3a_status cuda_root_widened(struct device *device, const struct scatter *scatter, double **made);
/* square += scale · A, whatever the scatter is kept as */
l3a_status cuda_scatter_add_to(struct device *device, const struct scatter *scatter, double scale, double *square);
/* √(scale ω) x of the `count` rows with a weight above 0. */
l3a_status cuda_block_take(struct device *device, const struct block *rows, const double *weight, double scale, size_t count,
                           real type, void *to);

/* root.c */
/* As cpu_root_subtract(). */
l3a_status cuda_root_subtract(struct scatter *scatter, const struct block *rows, double scale, const double *weight, size_t count,
                              bool *found);

/* The inverses that follow a factor in single precision, and how many rows a block has. */
static inline size_t solve_block(const struct sums *sums) {
    return sums->dim < SOLVE_BLOCK ? sums->dim : SOLVE_BLOCK;
}

static inline float *factor_inverses(const struct sums *sums) {
    return (float *)((const struct cuda_sums *)sums->held)->halves[ADDED] + sums->dim * sums->dim;
}

#endif
