/* The analytic classifier (SPEC §3, steps 4 and 5; the paper's weighted ridge regression):
 *
 *   A = Σ ω x xᵀ   (d x d, symmetric)     C = Σ ω x ŷᵀ   (d x K)     (A + γI) W = C
 *
 * The paper's theorem computes the same by a recursion on R = (A + γI)⁻¹, which starts at I/γ. With the rows of a block scaled by
 * √ω, X̃ = Ω^½ X and Ỹ = Ω^½ Ŷ, and I + X̃ R X̃ᵀ = L Lᵀ:
 *
 *   G = L⁻¹ X̃ R       R ← R - GᵀG       W ← W + Gᵀ L⁻¹ (Ỹ - X̃ W)
 *
 * This is R ← R - R Xᵀ(Ω⁻¹ + X R Xᵀ)⁻¹ X R and W ← W + R Xᵀ Ω (Ŷ - X W) without the inverse of Ω, so a row of weight 0 changes
 * nothing. Costs for n rows: n d² for the sums (float32 in mixed precision) and d³/3 for each solve; 3 n d² for the recursion.
 *
 * Both use one square of d rows. A row has d + 1 doubles, and padding up to whole cache lines. The lower triangle with the
 * diagonal, (i, j ≤ i), holds A or R. The elements above it, (i, j + 1 > i), are a second triangle with a diagonal, in which the
 * matrix is factored.
 *
 * Rounding. Products in float32 leave a symmetric error E in A. The residual of a solution cannot show it, because it is in A
 * itself, but it changes W by up to ‖E‖/λ of its size, where λ ≥ γ is the smallest eigenvalue of A + γI. Measured on ViT features,
 * ‖E‖ is at most 2⁻²⁴ tr(A)/4, and smaller with many rows. In double precision it is taken to be 2⁻⁵³ tr(A), since factoring
 * rounds too. If γ is not far above that, a few steps of inverse iteration on the factor estimate λ. All that is certain is that
 * λ ≥ max(γ, estimate - ‖E‖). If ‖E‖ is above 10 times that, the solution is refused; above half of it, a warning is given;
 * below, mAP differed by less than 0.05 from double precision (docs/method.md). The recursion adds no such error, because its rows
 * are scaled by √ω in double precision. What it loses by cancellation shows in R C ≠ W, which is checked on a few random
 * combinations of columns. */
#ifndef L3A_ANALYTIC_H
#define L3A_ANALYTIC_H

#include "base/context.h"
#include "base/matrix.h"

enum { ANALYTIC_PANEL = 1024, RECURSION_ROWS = 512 };

struct analytic {
    l3a_context *context;
    size_t dim, stride;
    double gamma;
    bool inverse;   /* the square holds R, not A */
    real precision; /* the lowest precision that A went through, in its products or in a file */
    double *square;
};

/* Doubles in a row of the square. */
size_t analytic_stride(size_t dim);
/* Starts with A = 0. */
l3a_status analytic_create(l3a_context *context, size_t dim, double gamma, real precision, struct analytic *analytic);
void analytic_free(struct analytic *analytic);
/* Sets A = 0. */
void analytic_clear(const struct analytic *analytic);
/* Row i of the triangle: elements (i, 0) to (i, i). */
double *analytic_row(const struct analytic *analytic, size_t i);

/* Turns A into R or back, in d³ operations; does nothing if it is in that form already. If it fails, A or R is unchanged. */
l3a_status analytic_use_inverse(struct analytic *analytic, bool inverse);

/* A += X̃ᵀX̃. panel has room for ANALYTIC_PANEL x d floats; unused in double precision. */
void analytic_add(const struct analytic *analytic, real type, const void *rows, size_t count, float *panel);
/* A += MᵀM - LᵀL for rows M and L of d numbers each. */
void analytic_add_difference(const struct analytic *analytic, real type, const void *more, size_t more_count, const void *less,
                             size_t less_count, float *panel);
/* weights = (A + γI)⁻¹ cross, both [d x columns] */
l3a_status analytic_solve(const struct analytic *analytic, size_t columns, const double *cross, double *weights);
/* The same in two steps, for an A that is a sum of several. analytic_total() sets the second triangle to the first one plus the
 * second triangle of `before`, if given. analytic_solve_total() then factors it with any γ, which overwrites the sum. */
void analytic_total(const struct analytic *analytic, const struct analytic *before);
l3a_status analytic_solve_total(const struct analytic *analytic, double gamma, size_t columns, const double *cross,
                                double *weights);

/* The second triangle, an upper one with its diagonal. Its rows are `stride` doubles apart, like those of the first. */
double *analytic_second(const struct analytic *analytic);
/* Factors the second triangle + shift·I in place. */
l3a_status analytic_factor_second(const struct analytic *analytic, double shift);
/* to [columns x rows] = the transpose of from [rows x columns] */
void transpose(const double *from, size_t rows, size_t columns, double *to);
/* Checks that a solution [d x columns] is finite. */
l3a_status check_weights(const struct analytic *analytic, const double *weights, size_t columns);

/* Work space of the recursion, for at most RECURSION_ROWS rows at a time. */
struct recursion {
    double *rows, *gain, *system, *error;
};

l3a_status recursion_create(l3a_context *context, size_t dim, size_t columns, size_t count, struct recursion *recursion);
void recursion_free(l3a_context *context, struct recursion *recursion);
/* Updates R, and cross and weights [d x columns], with rows [count x d], targets [count x columns] and √ω of each row (`scale`). */
l3a_status recursion_add(const struct analytic *analytic, struct recursion *recursion, real type, const void *rows,
                         const void *targets, const double *scale, size_t count, size_t columns, double *cross, double *weights);
/* Checks that R C = W after the recursion. */
l3a_status recursion_check(const struct analytic *analytic, size_t columns, const double *cross, const double *weights);
/* ‖E‖ of sums with this trace, and whether γ alone is large enough to make it harmless. */
double analytic_rounding(const struct analytic *analytic, double trace);
bool analytic_is_safe(const struct analytic *analytic, double trace);

#endif
