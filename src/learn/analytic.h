/* The analytic classifier (SPEC §3, steps 4 and 5; the paper's weighted ridge regression):
 *
 *   A = Σ ω x xᵀ   (d x d, symmetric)     C = Σ ω x ŷᵀ   (d x K)     (A + γI) W = C
 *
 * and the same as the paper's theorem, a recursion on R = (A + γI)⁻¹, which starts at I/γ. With the rows of a block scaled by
 * √ω, X̃ = Ω^½ X and Ỹ = Ω^½ Ŷ, and I + X̃ R X̃ᵀ = L Lᵀ:
 *
 *   G = L⁻¹ X̃ R       R ← R - GᵀG       W ← W + Gᵀ L⁻¹ (Ỹ - X̃ W)
 *
 * which is R ← R - R Xᵀ(Ω⁻¹ + X R Xᵀ)⁻¹ X R and W ← W + R Xᵀ Ω (Ŷ - X W) without the inverse of Ω, so that a row of weight 0
 * changes nothing. Costs for n rows: the sums n d² (float32 in mixed precision) and d³/3 for each solve; the recursion 3 n d².
 *
 * Both share one square of d rows of d + 1 doubles and a little more, so that rows begin where the processor likes it. Its lower
 * triangle with the diagonal, (i, j ≤ i), holds A or R; what lies above, (i, j + 1 > i), is a second triangle with a diagonal,
 * where the matrix is factored.
 *
 * Rounding. Products in float32 leave a symmetric error E in A. A solution's residual cannot show it, because it is in A itself;
 * but it changes W by up to ‖E‖/λ of its size, where λ ≥ γ is the smallest eigenvalue of A + γI. Measured on ViT features, ‖E‖ is
 * at most 2⁻²⁴ tr(A)/4, and smaller with many rows; in double precision 2⁻⁵³ tr(A) is taken for it, as factoring rounds too. Where
 * γ is not far above that, a few steps of inverse iteration on the factor estimate λ. Known for certain is only that λ ≥ max(γ,
 * estimate
 * - ‖E‖): with ‖E‖ above 10 times that the solution is refused, above half of that a warning is given; below, mAP differed by less
 * than 0.05 from double precision (docs/method.md). The recursion adds no such error, as its rows are scaled by √ω in double
 * precision; what it loses by cancellation shows in R C ≠ W, which is checked on a few random combinations of columns. */
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
    real precision; /* the lowest that A went through: in its products, or in a file */
    double *square;
};

/* Doubles in a row of the square. */
size_t analytic_stride(size_t dim);
/* Holds A = 0. */
l3a_status analytic_create(l3a_context *context, size_t dim, double gamma, real precision, struct analytic *analytic);
void analytic_free(struct analytic *analytic);
/* A = 0 again. */
void analytic_clear(const struct analytic *analytic);
/* Row i of the triangle: elements (i, 0) to (i, i). */
double *analytic_row(const struct analytic *analytic, size_t i);

/* Turns A into R or back, d³ operations; nothing when it is so already. A failure leaves the square as it was. */
l3a_status analytic_use_inverse(struct analytic *analytic, bool inverse);

/* A += X̃ᵀX̃. panel has room for ANALYTIC_PANEL x d floats; unused in double precision. */
void analytic_add(const struct analytic *analytic, real type, const void *rows, size_t count, float *panel);
/* A += MᵀM - LᵀL for rows M and L of d numbers each. */
void analytic_add_difference(const struct analytic *analytic, real type, const void *more, size_t more_count, const void *less,
                             size_t less_count, float *panel);
/* weights = (A + γI)⁻¹ cross, both [d x columns] */
l3a_status analytic_solve(const struct analytic *analytic, size_t columns, const double *cross, double *weights);
/* The same in two steps, where A is a sum of several: the second triangle becomes the first + the second one of another, if there
 * is one; then it is factored, with any γ, and is no longer that sum. */
void analytic_total(const struct analytic *analytic, const struct analytic *before);
l3a_status analytic_solve_total(const struct analytic *analytic, double gamma, size_t columns, const double *cross,
                                double *weights);

/* The second triangle, upper, with its diagonal: rows begin `stride` doubles apart, as those of the first. */
double *analytic_second(const struct analytic *analytic);
/* The second triangle + shift·I becomes its factor. */
l3a_status analytic_factor_second(const struct analytic *analytic, double shift);
/* to [columns x rows] = the transpose of from [rows x columns] */
void transpose(const double *from, size_t rows, size_t columns, double *to);
/* Whether a solution [d x columns] is finite. */
l3a_status check_weights(const struct analytic *analytic, const double *weights, size_t columns);

/* Work space of the recursion, for at most RECURSION_ROWS rows at a time. */
struct recursion {
    double *rows, *gain, *system, *error;
};

l3a_status recursion_create(l3a_context *context, size_t dim, size_t columns, size_t count, struct recursion *recursion);
void recursion_free(l3a_context *context, struct recursion *recursion);
/* Rows [count x d], targets [count x columns] and √ω of each row: updates R, and cross and weights [d x columns]. */
l3a_status recursion_add(const struct analytic *analytic, struct recursion *recursion, real type, const void *rows,
                         const void *targets, const double *scale, size_t count, size_t columns, double *cross, double *weights);
/* Whether R C = W after the recursion. */
l3a_status recursion_check(const struct analytic *analytic, size_t columns, const double *cross, const double *weights);
/* ‖E‖ of sums with this trace, and whether γ alone keeps the solution safe from it. */
double analytic_rounding(const struct analytic *analytic, double trace);
bool analytic_is_safe(const struct analytic *analytic, double trace);

#endif
