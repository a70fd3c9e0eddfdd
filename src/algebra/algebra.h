/* Sums that can live anywhere. What a model keeps are sums over images; what it does with them are a few large matrix operations.
 * This header names both, and a back end implements them wherever it likes: in the memory of the processor (algebra/cpu), or on a
 * device. Only features z, weights ω, targets y, scores and coefficients cross the boundary, never an expanded row.
 *
 *   layer      x = layer(z), of d numbers: ReLU(z B), tanh(z B), Gaussian kernels, or z itself; with `skip`, z follows
 *   block      a block of expanded rows X, and the work space to use them
 *   sums       A = Σ ω x xᵀ (d x d, symmetric) and, while rows are added, C = Σ ω x yᵀ (d x columns)
 *   scatter    an A that is only stored, in single or double precision: as a root while it is the sum of at most d/2 rows, and
 *              otherwise as the rows of its lower triangle
 *   solution   coefficients W (d x columns), to score rows: s = x W
 *   vectors    rows of d numbers that a search works on: products with sums, solutions with their factor, combinations, dot
 * products
 *
 * Sums have two halves. The first is what is kept. Rows are added to the second: sums_begin() clears it, sums_add() adds to it, and
 * sums_keep() adds it to the first half. Until then nothing that was kept has changed, and a sum over several processes is a sum of
 * second halves. Between phases the second half holds a factor: U with UᵀU = scale · A + share · Σ scatters + γI.
 *
 * The paper's recursion keeps R = (A + γI)⁻¹ in the first half instead. With rows scaled by √ω, X̃ and Ỹ, and I + X̃ R X̃ᵀ = L Lᵀ:
 *
 *   G = L⁻¹ X̃ R       R ← R - GᵀG       W ← W + Gᵀ L⁻¹ (Ỹ - X̃ W)
 *
 * This is R ← R - R Xᵀ(Ω⁻¹ + X R Xᵀ)⁻¹ X R and W ← W + R Xᵀ Ω (Y - X W) without the inverse of Ω, so a row of weight 0 changes
 * nothing.
 *
 * A root is R [n x d] with RᵀR = A. Adding rows to it is appending √ω x, so it takes memory for n rows, not for d/2, and what is
 * done with it costs n d instead of d²/2. Appended rows are those of images until scatter_tidy() replaces them by rows that depend
 * on nothing but A.
 *
 * Costs for n rows: n d² for the sums (in float32 if the type is single), d³/3 for a factor, 3 n d² for the recursion. */
#ifndef L3A_ALGEBRA_H
#define L3A_ALGEBRA_H

#include "base/context.h"
#include "base/matrix.h"

struct algebra;

enum layer_kind { LAYER_RELU, LAYER_TANH, LAYER_KERNELS, LAYER_NONE };

/* What a layer is made from. B is uniform in (-1/√k, 1/√k): entry i·dim + j is number i·dim + j of the stream that starts at the
 * seed, so it is never stored. */
struct layer_shape {
    enum layer_kind kind;
    real type;         /* of its rows; the entries of B are float32 numbers either way */
    size_t width, dim; /* k, and the outputs without those of `skip`; the width for LAYER_NONE */
    bool skip;         /* z follows the outputs */
    uint64_t seed;
    const float *centres; /* LAYER_KERNELS: c [dim x width]; x_j = exp(-rate ‖z - c_j‖²) */
    double rate;
};

struct layer {
    l3a_context *context;
    const struct algebra *algebra;
    struct layer_shape shape; /* centres are NULL: a back end copies them */
    void *held;               /* the back end's; NULL: there is no layer */
};

struct block {
    l3a_context *context; /* of the thread that uses them, which may differ from the layer's */
    const struct layer *layer;
    size_t capacity, count;
    size_t columns;           /* the most targets that are added with them; 0: the rows are only scored */
    bool recursive;           /* they update an inverse */
    bool reused;              /* sums_add() leaves them as they are */
    const struct block *work; /* whose work space it uses, with as many rows and columns; NULL: its own */
    void *held;
};

struct sums {
    l3a_context *context;
    const struct algebra *algebra;
    size_t dim;
    bool factored;       /* the second half holds the factor that was made last, even if A has changed since */
    real factor_type;    /* its type, scale and shift */
    double scale, shift; /* scale: 0 if scatters were added */
    void *held;
};

struct scatter {
    l3a_context *context;
    const struct algebra *algebra;
    size_t dim;
    real type;
    bool is_root;          /* otherwise it is a triangle */
    bool tidy;             /* the root depends on nothing but A */
    size_t rows, capacity; /* of the root, and for how many there is memory; at most dim / 2 */
    void *held;            /* NULL: a root of 0 rows */
};

struct solution {
    l3a_context *context;
    const struct algebra *algebra;
    size_t dim, columns;
    real type;
    void *held;
};

enum half { KEPT, ADDED };

/* Where memory is taken. Scatters can be on a device or, as far as they do not fit, in the processor's memory: their back end
 * decides when it allocates them. */
enum place { PROCESSOR, DEVICE, EITHER, PLACE_COUNT };

/* Bytes in each place. */
struct footprint {
    uint64_t in[PLACE_COUNT];
};

struct vectors {
    l3a_context *context;
    const struct algebra *algebra;
    size_t dim, count;
    real type;
    bool borrowed; /* they are in memory of the caller, and held is that memory */
    void *held;
};

/* Dot products of rows left_rows[i] and right_rows[i]; NULL: rows i. The types may differ. */
struct dots {
    const struct vectors *left;
    const size_t *left_rows;
    const struct vectors *right;
    const size_t *right_rows;
};

/* What some vectors are multiplied by: scale · A + share · Σ scatters. */
struct mixture {
    size_t rows; /* how many vectors, after those of the mixture before */
    const struct scatter *const *scatters;
    size_t count;
};

/* A back end. Every function but those that free can fail. Matrices that are passed are row-major and in the processor's memory.
 * Its functions are listed in operations.h, and the functions below say what each does. */
struct algebra {
    const char *name;
    bool shared; /* sums are those of all processes together, as soon as all have called sums_cross() */
#define OPERATION(returns, operation, ...) returns (*operation)(__VA_ARGS__);
#define OPTIONAL OPERATION
#include "algebra/operations.h"
};

extern const struct algebra cpu_algebra;
/* The back end of a context. */
const struct algebra *algebra_of(const l3a_context *context);

/* Bytes in a place of what is in the processor's memory whatever the back end. */
static inline uint64_t processor_bytes(enum place place, uint64_t bytes) {
    return place == PROCESSOR ? bytes : 0;
}

/* Numbers in a row of a layer. */
static inline size_t layer_columns(const struct layer_shape *shape) {
    return shape->dim + (shape->skip ? shape->width : 0);
}
/* Creating functions leave nothing behind if they fail. A struct of zeros may be freed. */
l3a_status layer_create(l3a_context *context, const struct layer_shape *shape, struct layer *layer);
void layer_free(struct layer *layer);
/* Entries of B, in order, to values [width x dim]. */
void layer_entries(int threads, const struct layer_shape *shape, void *values);

/* All but count and held are set in *rows. */
l3a_status block_create(struct block *rows);
void block_free(struct block *rows);
/* X = layer(features), features [count x width] */
l3a_status block_expand(struct block *rows, const float *features, size_t count);
/* Appends copies of the chosen rows of another block of the same layer; NULL: of its first `count` rows. */
l3a_status block_append(struct block *rows, const struct block *from, const size_t *chosen, size_t count);
/* Copies X [count x d] in the layer's type. */
l3a_status block_read(const struct block *rows, void *values);
/* scores [count x columns] = X W, in the layer's type */
l3a_status block_score(const struct block *rows, const struct solution *solution, void *scores);
/* The same in two steps: the scores are there after the second. In between, the block must not change. */
l3a_status block_score_begin(const struct block *rows, const struct solution *solution, void *scores);
l3a_status block_score_end(const struct block *rows);
/* gram [count x count] = Ω^½ X Xᵀ Ω^½; afterwards X is scaled */
l3a_status block_gram(struct block *rows, const double *weight, double *gram);
/* cross [d x columns] += sign · XᵀΩY; targets Y [count x columns] */
l3a_status block_cross(const struct block *rows, const double *weight, const double *targets, size_t columns, double sign,
                       double *cross);

l3a_status solution_create(l3a_context *context, size_t dim, size_t columns, real type, struct solution *solution);
void solution_free(struct solution *solution);
/* coefficients: W [dim x columns] */
l3a_status solution_set(struct solution *solution, const double *coefficients);

/* Starts with A = 0. */
l3a_status sums_create(l3a_context *context, size_t dim, struct sums *sums);
/* The same with sums that all processes hold together, by the context's shared_algebra. Every process calls this. */
l3a_status sums_create_shared(l3a_context *context, size_t dim, struct sums *sums);
void sums_free(struct sums *sums);
/* Clears the second half, and C for that many columns. */
l3a_status sums_begin(struct sums *sums, size_t columns);
/* Second half: A += sign · Σ ω x xᵀ, C += sign · Σ ω x yᵀ; targets y [count x columns], NULL: C does not change. Rows that are not
 * reused are scaled afterwards. */
l3a_status sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets);
/* Second half: C += Σ x tᵀ; targets t [count x columns] */
l3a_status sums_add_cross(struct sums *sums, struct block *rows, const double *targets);
/* Second half: adds that of other sums, which have as many columns. */
l3a_status sums_join(struct sums *sums, const struct sums *from);
/* First half += sign · second half. The second half, C aside, is then work space. */
l3a_status sums_keep(struct sums *sums, double sign);
/* cross [d x columns] += sign · C; C then gives up its memory. */
l3a_status sums_cross(struct sums *sums, double sign, double *cross);
/* The same with sign 1, after the second half and C have become the sums over all processes that learn together. After rows were
 * added, this comes before anything else that waits for other processes. */
l3a_status sums_share(struct sums *sums, size_t columns, double *cross);
/* The processor's memory that this takes for a while, with sums of the context's own back end. */
uint64_t sums_share_bytes(const l3a_context *context, size_t dim, size_t columns);
/* Rows [first, first + count) of the lower triangle, one after another: row i has i + 1 numbers. */
l3a_status sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values);
l3a_status sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values);
/* First half = Σ scatters */
l3a_status sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count);
/* First half += sign · A. The second half stays as it is. */
l3a_status sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter);
/* The trace of the first half. */
l3a_status sums_trace(const struct sums *sums, double *trace);
/* One half = the other. */
l3a_status sums_copy(struct sums *sums, enum half to);
/* Second half = the factor of M + shift · I, M = scale · A + share · Σ scatters. *trace: of M. *definite: whether there is a
 * factor; there is none if a number is not finite in that type. */
l3a_status sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                       double share, double shift, double *trace, bool *definite);
/* vectors_solve() for rows [count x d] in the processor's memory, in the type of the factor: rows = rows (UᵀU)⁻¹ */
l3a_status sums_solve(const struct sums *sums, real type, size_t count, void *rows);
/* The same for vectors_multiply(): y [rows x d] = x (scale · A + share · Σ scatters), x [rows x d] */
l3a_status sums_multiply(const struct sums *sums, double scale, const struct scatter *const *scatters, size_t count, double share,
                         const double *x, size_t rows, double *y);
/* First half = (UᵀU)⁻¹ + shift · I. If it is not regular, the first half is unchanged. */
l3a_status sums_invert(struct sums *sums, double shift, bool *regular);
/* The recursion on the first half, which holds R; cross and coefficients [d x columns] are updated with it. targets are y. */
l3a_status sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                       double *coefficients, bool *definite);

/* A = 0, as a root of 0 rows, which takes no memory. */
l3a_status scatter_create(l3a_context *context, size_t dim, real type, struct scatter *scatter);
void scatter_free(struct scatter *scatter);
/* If one of the following fails, the scatter is as it was. */
/* Numbers [first, first + count) of the rows of the triangle of A, in its type. Writing turns a root into a triangle. */
l3a_status scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values);
l3a_status scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values);
/* A = 0, as a root of `rows` rows of zeros, at most dim / 2. */
l3a_status scatter_make_root(struct scatter *scatter, size_t rows);
/* Rows [first, first + count) of the root, in its type. Read a root only after scatter_tidy(), and write tidy rows. */
l3a_status scatter_read_root(const struct scatter *scatter, size_t first, size_t count, void *values);
l3a_status scatter_write_root(struct scatter *scatter, size_t first, size_t count, const void *values);
/* A += the other's. Two roots stay a root if they have at most dim / 2 rows together. */
l3a_status scatter_add(struct scatter *scatter, const struct scatter *from);
/* A += sign · Σ ω x xᵀ. Rows are appended to a root while it has at most dim / 2, and then it becomes a triangle. If they are
 * subtracted, a root stays a root, unless what is left is no sum of squares: then the rows were not in it. */
l3a_status scatter_add_rows(struct scatter *scatter, const struct block *rows, double sign, const double *weight);
/* Adds sign · the second half. The scatter is then a triangle. */
l3a_status scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign);
/* Makes what is stored depend on A alone. A triangle that is the sum of at most `rows` rows becomes a root of at most that many, if
 * that is at most dim / 2; it stays a triangle if it is no such sum. `rows` does not matter to a root, but 0 always makes A = 0. */
l3a_status scatter_tidy(struct scatter *scatter, uint64_t rows);

/* Their numbers are unknown. */
l3a_status vectors_create(l3a_context *context, size_t dim, size_t count, real type, struct vectors *vectors);
/* They have the numbers in memory [count x dim], which must outlive them: a back end may work in it. Until vectors_get() has read
 * them, what the memory holds is unknown. */
l3a_status vectors_wrap(l3a_context *context, size_t dim, size_t count, real type, void *memory, struct vectors *vectors);
void vectors_free(struct vectors *vectors);
/* Rows [first, first + count), in their type. */
l3a_status vectors_put(struct vectors *vectors, size_t first, size_t count, const void *values);
l3a_status vectors_get(const struct vectors *vectors, size_t first, size_t count, void *values);
/* Row to_rows[i] of one = keep[i] · itself + scale[i] · row from_rows[i] of the other, for each i below `count`. What has the
 * factor 0 is not read. Lists that are NULL: rows i, keep 0, scale 1. The types may differ; the numbers are computed in double
 * precision. No row may be in to_rows twice. If both are the same vectors, a row can only be combined with itself. */
l3a_status vectors_combine(struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
                           const size_t *from_rows, const double *scale, size_t count);
/* results [kinds x count], in double precision, in an order that depends on nothing but the dimension */
l3a_status vectors_dot(const struct dots *dots, size_t kinds, size_t count, double *results);
/* The first rows of y = those of x, times the mixture of each; both in double precision. */
l3a_status vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures, size_t count,
                            const struct vectors *x, struct vectors *y);
/* Rows [first, first + count) = rows (UᵀU)⁻¹, in the type of the factor. */
l3a_status vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count);
/* Sorts the images of each class by falling score, those with equal scores by their number; +0 and -0 are equal. scores [classes x
 * rows], order [classes x rows]. There are at most INT32_MAX rows. */
l3a_status rank_images(l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order);

/* Numbers in the rows [first, first + count) of a triangle; all of it: triangle_numbers(0, dim). */
static inline uint64_t triangle_numbers(uint64_t first, uint64_t count) {
    return (first + count) * (first + count + 1) / 2 - first * (first + 1) / 2;
}

/* How many rows of a triangle, from row `first` on, have at most STRIP_NUMBERS numbers together; at least one. Reading and writing
 * so many at a time takes few calls, each of which may wait for a device. */
enum { STRIP_NUMBERS = 1 << 17 };
static inline size_t strip_rows(size_t dim, size_t first) {
    size_t count = 1;
    while (first + count < dim && triangle_numbers(first, count + 1) <= STRIP_NUMBERS) {
        count++;
    }
    return count;
}

/* The most numbers that such a strip has. */
static inline size_t strip_numbers(size_t dim) {
    return dim > STRIP_NUMBERS ? dim : STRIP_NUMBERS;
}

#endif
