/* Packed triangles: the rows of a lower triangle, one after another, in single or double precision; and what is computed from one
 * of them and the sums A of a square (analytic.h).
 *
 * Factors are stored in the square's second triangle. One in single precision fits there as well: its element (i, j ≥ i) is float
 * number i (2 stride + 1) + j from the beginning, so each of its rows lies within a row of the triangle. */
#ifndef L3A_PACKED_H
#define L3A_PACKED_H

#include "learn/analytic.h"

struct packed {
    real type;
    void *rows;
};

size_t packed_size(size_t dim);
l3a_status packed_create(l3a_context *context, size_t dim, real type, struct packed *packed);
/* values += scale · packed numbers [first, first + count) */
void packed_get(const struct packed *packed, size_t first, size_t count, double scale, double *values);
bool packed_is_finite(size_t dim, const struct packed *packed);
/* to += from */
void packed_add(size_t dim, const struct packed *to, const struct packed *from);
/* packed = A */
void analytic_pack(const struct analytic *analytic, const struct packed *packed);
/* A = packed */
void analytic_unpack(const struct analytic *analytic, const struct packed *packed);

/* Sets the second triangle to the factor of scale · A + share · packed + γI. */
l3a_status analytic_factor(const struct analytic *analytic, double scale, const struct packed *packed, double share, double gamma);
/* rows [count x d] = rows (UᵀU)⁻¹, where U is that factor */
void analytic_solve_rows(const struct analytic *analytic, size_t count, double *rows);
/* The same for scale · A + γI in single precision, which takes half the time; false if that precision is not enough. */
bool analytic_factor_single(const struct analytic *analytic, double scale, double gamma);
void analytic_solve_rows_single(const struct analytic *analytic, size_t count, float *rows);

/* y [count x d] = x (scale · A + share · packed), x [count x d]; packed in single precision. work: packed_multiply_work()
 * doubles. */
enum { PACKED_LANES = 16 };
size_t packed_multiply_work(const l3a_context *context, size_t dim);
void packed_multiply(const struct analytic *analytic, double scale, const struct packed *packed, double share, const double *x,
                     size_t count, double *work, double *y);

#endif
