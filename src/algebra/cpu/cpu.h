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

/* layer.c */
l3a_status cpu_layer_create(struct layer *layer);
void cpu_layer_free(struct layer *layer);
uint64_t cpu_layer_bytes(enum place place, const struct layer_shape *shape);
l3a_status cpu_block_create(struct block *rows);
void cpu_block_free(struct block *rows);
uint64_t cpu_block_bytes(enum place place, const struct block *rows);
l3a_status cpu_block_expand(struct block *rows, const float *features);
l3a_status cpu_block_append(struct block *rows, const struct block *from, const size_t *chosen, size_t count);
l3a_status cpu_block_read(const struct block *rows, void *values);
const void *cpu_block_view(const struct block *rows);
l3a_status cpu_block_score(const struct block *rows, const struct solution *solution, void *scores);
l3a_status cpu_block_gram(struct block *rows, const double *weight, double *gram);
l3a_status cpu_block_cross(const struct block *rows, const double *weight, const double *targets, size_t columns, double sign,
                           double *cross);
l3a_status cpu_solution_create(struct solution *solution);
void cpu_solution_free(struct solution *solution);
l3a_status cpu_solution_set(struct solution *solution, const double *coefficients);
uint64_t cpu_solution_bytes(enum place place, size_t dim, size_t columns, real type);
/* scaled = Ω^½ X */
void cpu_block_scale(const struct block *rows, const double *weight);

/* sums.c */
l3a_status cpu_sums_create(struct sums *sums);
void cpu_sums_free(struct sums *sums);
uint64_t cpu_sums_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns);
l3a_status cpu_sums_begin(struct sums *sums, size_t columns);
l3a_status cpu_sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets);
l3a_status cpu_sums_add_cross(struct sums *sums, struct block *rows, const double *targets);
l3a_status cpu_sums_join(struct sums *sums, const struct sums *from);
l3a_status cpu_sums_keep(struct sums *sums, double sign);
l3a_status cpu_sums_cross(struct sums *sums, double sign, double *cross);
l3a_status cpu_sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values);
l3a_status cpu_sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values);
l3a_status cpu_sums_trace(const struct sums *sums, double *trace);
l3a_status cpu_sums_copy(struct sums *sums, enum half to);

/* scatter.c */
void cpu_scatter_free(struct scatter *scatter);
uint64_t cpu_scatter_bytes(enum place place, size_t dim, real type, uint64_t rows);
l3a_status cpu_scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values);
l3a_status cpu_scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values);
l3a_status cpu_scatter_make_root(struct scatter *scatter, size_t rows);
l3a_status cpu_scatter_read_root(const struct scatter *scatter, size_t first, size_t count, void *values);
l3a_status cpu_scatter_write_root(struct scatter *scatter, size_t first, size_t count, const void *values);
l3a_status cpu_scatter_add(struct scatter *scatter, const struct scatter *from);
l3a_status cpu_scatter_add_rows(struct scatter *scatter, const struct block *rows, double sign, const double *weight);
l3a_status cpu_scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign);
l3a_status cpu_sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count);
l3a_status cpu_sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter);
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

/* rank.c */
l3a_status cpu_rank(l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order);

/* root.c */
l3a_status cpu_scatter_tidy(struct scatter *scatter, uint64_t rows);
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

/* factor.c */
l3a_status cpu_sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                           double share, double shift, double *trace, bool *definite);
l3a_status cpu_vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count);
l3a_status cpu_sums_invert(struct sums *sums, double shift, bool *regular);
l3a_status cpu_sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                           double *coefficients, bool *definite);

/* product.c */
l3a_status cpu_vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures, size_t count,
                                const struct vectors *x, struct vectors *y);
uint64_t cpu_multiply_bytes(enum place place, const l3a_context *context, size_t dim, size_t rows);

/* vectors.c */
l3a_status cpu_vectors_create(struct vectors *vectors, void *memory);
void cpu_vectors_free(struct vectors *vectors);
uint64_t cpu_vectors_bytes(enum place place, size_t dim, size_t count, real type);
l3a_status cpu_vectors_put(struct vectors *vectors, size_t first, size_t count, const void *values);
l3a_status cpu_vectors_get(const struct vectors *vectors, size_t first, size_t count, void *values);
l3a_status cpu_vectors_combine(struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
                               const size_t *from_rows, const double *scale, size_t count);
l3a_status cpu_vectors_dot(const struct dots *dots, size_t kinds, size_t count, double *results);

#endif
