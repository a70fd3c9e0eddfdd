/* The back end of the processor: what its objects hold. Matrix products are those of base/matrix.h. */
#ifndef L3A_ALGEBRA_CPU_H
#define L3A_ALGEBRA_CPU_H

#include "algebra/algebra.h"

enum { PANEL_ROWS = 1024, UPDATE_ROWS = 512, LANES = 16 };

struct cpu_layer {
    void *matrix;   /* B [width x dim]; for kernels the centres - mean [dim x width]; in the layer's type */
    double *mean;   /* kernels: of the centres */
    double *square; /* kernels: ‖c - mean‖² */
};

struct cpu_block {
    void *expanded;     /* X [capacity x d] */
    void *scaled;       /* Ω^½ X; the same array unless the rows are reused */
    void *wide;         /* z in the layer's type, less the mean for kernels; NULL if z is used as it is */
    void *targets;      /* [capacity x columns] in the layer's type */
    float *panel;       /* PANEL_ROWS rows of A, or d if that is less; single precision only */
    float *cross_block; /* [d x columns]; single precision only */
    double *update;     /* Ω^½ X of at most UPDATE_ROWS rows; this and the next three: for the recursion */
    double *gain;       /* G */
    double *system;     /* I + X̃ R X̃ᵀ */
    double *error;      /* Ỹ - X̃ W */
};

/* Both halves share one square of d rows. A row has d + 1 doubles, and padding up to whole cache lines. The lower triangle with
 * the diagonal, (i, j ≤ i), is the first half. The elements above it, (i, j + 1 > i), are the second: an upper triangle with its
 * diagonal. A factor in single precision fits there as well: its element (i, j ≥ i) is float number i (2 stride + 1) + j from the
 * beginning of the second half, so each of its rows lies within a row of that half. */
struct cpu_sums {
    size_t stride;
    double *square;
    double *cross; /* C [d x columns]; NULL if no rows are being added */
    size_t columns;
    bool mirrored; /* the second half equals the first */
};

static inline double *first_row(const struct sums *sums, size_t i) {
    const struct cpu_sums *held = sums->held;
    return held->square + i * held->stride;
}

/* Row i of the second half; its elements begin at [i]. */
static inline double *second_row(const struct sums *sums, size_t i) {
    return first_row(sums, i) + 1;
}

static inline size_t stride_of(const struct sums *sums) {
    return ((const struct cpu_sums *)sums->held)->stride;
}

/* Where a block has its targets, panel and cross_block. */
static inline const struct cpu_block *work_of(const struct block *rows) {
    return rows->work ? rows->work->held : rows->held;
}

/* The doubles of the work space for products with a scatter: LANES rows, and as many for each thread. */
static inline size_t work_size(const l3a_context *context, size_t dim) {
    return (1 + (size_t)context->threads) * dim * LANES;
}

static inline bool has_root(const struct scatter *const *scatters, size_t count) {
    size_t i = 0;
    while (i < count && !(scatters[i]->is_root && scatters[i]->rows)) {
        i++;
    }
    return i < count;
}

/* The operations. Those of layers, blocks and solutions are in layer.c, those of vectors in vectors.c and product.c, of scatters in
 * scatter.c and root.c, of sums in sums.c, scatter.c and factor.c, which also solves. */
#define OPERATION(returns, operation, ...) returns cpu_##operation(__VA_ARGS__);
#include "algebra/operations.h"
const void *cpu_block_view(const struct block *rows);

/* layer.c */
/* scaled = Ω^½ X */
void cpu_block_scale(const struct block *rows, const double *weight);

/* scatter.c */
/* values += scale · numbers [first, first + count) of a triangle; nothing of a root */
void cpu_scatter_get(const struct scatter *scatter, size_t first, size_t count, double scale, double *values);
/* A root becomes a triangle. */
l3a_status cpu_scatter_expand(struct scatter *scatter);
/* √(scale ω) x of the rows [*next, …) with a weight above 0, at most `most`; returns how many there are, and moves *next on. */
size_t cpu_block_take(const struct block *rows, const double *weight, double scale, size_t *next, size_t most, real type, void *to);

/* mixture.c */
/* y += share · x Σ roots, for each mixture with its own vectors and roots. */
l3a_status cpu_add_roots(l3a_context *context, size_t dim, double share, const struct mixture *mixtures, size_t count,
                         const double *x, double *y);
/* The rows of roots that this multiplies together at most. */
size_t cpu_strip_rows(size_t dim);

/* root.c */
/* Subtracts scale · Σ ω x xᵀ from a root; `count` rows have a weight above 0. *found: whether a root is left; otherwise nothing has
 * changed. */
l3a_status cpu_root_subtract(struct scatter *scatter, const struct block *rows, double scale, const double *weight, size_t count,
                             bool *found);

/* panel.c */
/* Adds `count` numbers of a product to row i of a matrix, from column `first` on. */
typedef void add_numbers(const void *to, size_t i, size_t first, size_t count, const void *numbers);
/* XᵀX, of which the elements (i, j ≤ i) are added, or (i, j ≥ i) if `upper`. */
struct rank_product {
    real type; /* of X and the panel */
    bool upper;
    size_t dim, rows;
    const void *x; /* [rows x dim] */
    add_numbers *add;
    const void *to;
    int threads;
    size_t panel_rows;
    void *panel; /* [panel_rows x dim] */
};
void cpu_add_product(const struct rank_product *product);
/* Sets the threads, and a panel of the size of the work space. */
l3a_status cpu_panel_create(l3a_context *context, struct rank_product *product);

#endif
