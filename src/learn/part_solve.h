/* Solving for the coefficients of a model with parts (part.h). Factoring each M would cost d³/3. Instead, one factor in single
 * precision serves as the preconditioner of conjugate gradients in double precision for all of them,
 *
 *   P = (α + (1 - α)/n) S + γI = UᵀU     n parts
 *
 * with as much of A_U (unlabelled.h) as each M has. M_k lies between αS + γI and S + γI, so the eigenvalues of P⁻¹M_k lie between α
 * and 1/α, or nearer to 1. A step reduces the error at least by the factor (1 - √α)/(1 + √α), 3 to 4 times for α = 0.3, whatever d
 * and γ are, and costs about 6 d² per class. The search starts from the coefficients before. After a lesson of few rows, solving
 * for these rows is often enough (part_solve.c); so a picture that is taught to a thousand classes takes as many searches as there
 * are different M, not classes. Each M is factored after all if the precision is double, if γ is near the rounding error of the
 * sums (ridge.h), or if conjugate gradients do not converge. */
#ifndef L3A_PART_SOLVE_H
#define L3A_PART_SOLVE_H

#include "learn/part.h"

/* Where a search ended, so that the next one can go on from there after a few images were added, without the product M W. If images
 * change M_k by Σ ω x xᵀ and c_k by Σ ω x y, then c_k - M_k w_k changes by Σ x e, e = ω (y - x·w_k). With few rows x, these and
 * their e are kept instead of the change: then it is enough to solve M u = x for them (part_solve.c). */
struct search_end {
    bool kept; /* whether to keep it at all */
    bool known;
    size_t columns;
    double gamma;
    double *solution, *residual; /* [columns x d], without the lift */
    double *error;               /* [columns]: bounds of √(rᵀP⁻¹r) */
    double *rows, *errors;       /* [row_count x d], [row_count x columns]: x and e that the residuals lack */
    size_t row_count;
};

void search_end_free(l3a_context *context, struct search_end *end);

/* Computes coefficients [d x columns] of all classes from cross [d x columns]. The search starts from what coefficients hold
 * before, or from `end` if that is known, which then gets where this one ended. The ridge's own sums are work space, whose first
 * half must hold S (parts_sum). */
l3a_status parts_solve(struct ridge *ridge, const struct part *parts, size_t count, double alpha, double lift, size_t columns,
                       const double *cross, double *coefficients, struct search_end *end);
/* Bytes that this takes. */
uint64_t parts_solve_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns);

#endif
