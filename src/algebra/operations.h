/* The operations of a back end: the one list that struct algebra, the declarations of a back end and its table are made from.
 * Whoever includes this file says what becomes of an entry:
 *
 *   OPERATION(returns, operation, parameters…)        every back end has it
 *   SUMS_OPERATION(returns, operation, parameters…)   so has one that only has sums; if not defined, the same as OPERATION
 *   OPTIONAL(returns, operation, parameters…)         may be NULL; if not defined, nothing: a back end names those it has itself
 *
 * To add an operation, add it here, and a function to each back end: one that lacks it does not link. The functions of algebra.h
 * with the same names say what each does. */
#ifndef SUMS_OPERATION
#define SUMS_OPERATION OPERATION
#endif
#ifndef OPTIONAL
#define OPTIONAL(...)
#endif

OPERATION(l3a_status, layer_create, struct layer *layer)
OPERATION(void, layer_free, struct layer *layer)

OPERATION(l3a_status, block_create, struct block *rows)
OPERATION(void, block_free, struct block *rows)
OPERATION(l3a_status, block_expand, struct block *rows, const float *features)
OPERATION(l3a_status, block_append, struct block *rows, const struct block *from, const size_t *chosen, size_t count)
OPERATION(l3a_status, block_read, const struct block *rows, void *values)
OPTIONAL(const void *, block_view, const struct block *rows) /* X, where it is in the processor's memory; NULL: it is not */
OPERATION(l3a_status, block_score, const struct block *rows, const struct solution *solution, void *scores)
OPTIONAL(l3a_status, block_score_end, const struct block *rows) /* NULL: the scores are there when block_score() returns */
OPERATION(l3a_status, block_gram, struct block *rows, const double *weight, double *gram)
OPERATION(l3a_status, block_cross, const struct block *rows, const double *weight, const double *targets, size_t columns,
          double sign, double *cross)

OPERATION(l3a_status, solution_create, struct solution *solution)
OPERATION(void, solution_free, struct solution *solution)
OPERATION(l3a_status, solution_set, struct solution *solution, const double *coefficients)

SUMS_OPERATION(l3a_status, sums_create, struct sums *sums)
SUMS_OPERATION(void, sums_free, struct sums *sums)
SUMS_OPERATION(l3a_status, sums_begin, struct sums *sums, size_t columns)
SUMS_OPERATION(l3a_status, sums_add, struct sums *sums, struct block *rows, double sign, const double *weight,
               const double *targets)
SUMS_OPERATION(l3a_status, sums_add_cross, struct sums *sums, struct block *rows, const double *targets)
SUMS_OPERATION(l3a_status, sums_join, struct sums *sums, const struct sums *from)
SUMS_OPERATION(l3a_status, sums_keep, struct sums *sums, double sign)
SUMS_OPERATION(l3a_status, sums_cross, struct sums *sums, double sign, double *cross)
SUMS_OPERATION(l3a_status, sums_read, const struct sums *sums, enum half half, size_t first, size_t count, double *values)
SUMS_OPERATION(l3a_status, sums_write, struct sums *sums, enum half half, size_t first, size_t count, const double *values)
SUMS_OPERATION(l3a_status, sums_total, struct sums *sums, const struct scatter *const *scatters, size_t count)
SUMS_OPERATION(l3a_status, sums_add_scatter, struct sums *sums, double sign, const struct scatter *scatter)
SUMS_OPERATION(l3a_status, sums_trace, const struct sums *sums, double *trace)
SUMS_OPERATION(l3a_status, sums_copy, struct sums *sums, enum half to)
SUMS_OPERATION(l3a_status, sums_factor, struct sums *sums, real type, double scale, const struct scatter *const *scatters,
               size_t count, double share, double shift, double *trace, bool *definite)
SUMS_OPERATION(l3a_status, sums_invert, struct sums *sums, double shift, bool *regular)
SUMS_OPERATION(l3a_status, sums_update, struct sums *sums, struct block *rows, const double *weight, const double *targets,
               double *cross, double *coefficients, bool *definite)

OPERATION(void, scatter_free, struct scatter *scatter)
OPERATION(l3a_status, scatter_read, const struct scatter *scatter, uint64_t first, size_t count, void *values)
OPERATION(l3a_status, scatter_write, struct scatter *scatter, uint64_t first, size_t count, const void *values)
OPERATION(l3a_status, scatter_make_root, struct scatter *scatter, size_t rows)
OPERATION(l3a_status, scatter_read_root, const struct scatter *scatter, size_t first, size_t count, void *values)
OPERATION(l3a_status, scatter_write_root, struct scatter *scatter, size_t first, size_t count, const void *values)
OPERATION(l3a_status, scatter_add, struct scatter *scatter, const struct scatter *from)
OPERATION(l3a_status, scatter_add_rows, struct scatter *scatter, const struct block *rows, double sign, const double *weight)
OPERATION(l3a_status, scatter_add_sums, struct scatter *scatter, const struct sums *sums, double sign)
OPERATION(l3a_status, scatter_tidy, struct scatter *scatter, uint64_t rows)

OPERATION(l3a_status, vectors_create, struct vectors *vectors, void *memory) /* NULL: none to borrow */
OPERATION(void, vectors_free, struct vectors *vectors)
OPERATION(l3a_status, vectors_put, struct vectors *vectors, size_t first, size_t count, const void *values)
OPERATION(l3a_status, vectors_get, const struct vectors *vectors, size_t first, size_t count, void *values)
OPERATION(l3a_status, vectors_combine, struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
          const size_t *from_rows, const double *scale, size_t count)
OPERATION(l3a_status, vectors_dot, const struct dots *dots, size_t kinds, size_t count, double *results)
SUMS_OPERATION(l3a_status, vectors_multiply, const struct sums *sums, double scale, double share, const struct mixture *mixtures,
               size_t count, const struct vectors *x, struct vectors *y)
SUMS_OPERATION(l3a_status, vectors_solve, const struct sums *sums, struct vectors *vectors, size_t first, size_t count)

OPERATION(l3a_status, rank, l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order)

/* Bytes that an object would take in a place, with the work space of what is done with it; of `sums`, with a second half of C
 * of that many columns; of a product, with as many rows. */
OPERATION(uint64_t, layer_bytes, enum place place, const struct layer_shape *shape)
OPERATION(uint64_t, block_bytes, enum place place, const struct block *rows)
SUMS_OPERATION(uint64_t, sums_bytes, enum place place, const l3a_context *context, size_t dim, size_t columns)
OPERATION(uint64_t, scatter_bytes, enum place place, size_t dim, real type, uint64_t rows) /* a root if rows ≤ dim / 2 */
OPERATION(uint64_t, solution_bytes, enum place place, size_t dim, size_t columns, real type)
OPERATION(uint64_t, vectors_bytes, enum place place, size_t dim, size_t count, real type)
OPERATION(uint64_t, multiply_bytes, enum place place, const l3a_context *context, size_t dim, size_t rows)

#undef OPERATION
#undef SUMS_OPERATION
#undef OPTIONAL
