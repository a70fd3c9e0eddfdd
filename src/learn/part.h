/* Phases kept apart (the setting `alpha`): for the classes of phase j, images of other phases have the weight α.
 *
 *   A_s = Σ ω x xᵀ over the images of phase s     C_j = Σ ω x yᵀ over those of phase j
 *   M_j W_j = C_j     M_j = (1 - α) A_j + α Σ_s A_s + γI
 *
 * An image of phase s ≠ j has no labels of the classes of j. It may still show them, so it is wrong to treat it as a full
 * negative; but without it, nothing says what the classes of j are not. A weight α < 1 is a compromise, and applies to phases
 * after j as well as before it. With α = 1, all M_j are equal, and W is that of the sums over all phases.
 *
 * An image that shows many classes is in many phases, and each of its classes sees it as a negative in all of them but one. So the
 * more an image shows, the lower its scores. The sum of its scores tells roughly how much it shows, and a share of that sum is
 * added back to each score:
 *
 *   w'_k = w_k + λ_t Σ_l w_l     λ_t = λ (t - 1)/(t + 8)
 *
 * with λ from the setting `lift`. A single phase lacks no label, so λ_1 = 0. With many phases, almost every label of an image is
 * in a phase of its own, and more phases make little difference. The 8 was chosen on training images (docs/beyond.md).
 *
 * Solving. Factoring each M_j would cost d³/3. Instead, one factor in single precision serves as the preconditioner of conjugate
 * gradients in double precision for all of them,
 *
 *   P = (α + (1 - α)/t) S + γI = UᵀU     S = Σ_s A_s     t phases
 *
 * M_j lies between αS + γI and S + γI, so the eigenvalues of P⁻¹M_j lie between α and 1/α, or nearer to 1. A step reduces the
 * error at least by the factor (1 - √α)/(1 + √α), 3 to 4 times for α = 0.3, whatever d and γ are, and costs about 6 d² per class.
 * The search starts from the weights w_k of the phase before. Each M_j is factored after all if the precision is double, if γ is
 * near the rounding error of the sums (analytic.h), or if conjugate gradients do not converge. */
#ifndef L3A_PART_H
#define L3A_PART_H

#include "learn/packed.h"

/* The sums of a phase, or of several that were folded together. */
struct part {
    size_t first, last; /* its classes */
    size_t phases;
    struct packed sums;
};

/* Computes weights [d x columns] of all classes from cross [d x columns]. The search starts from what weights hold before. The
 * square is work space; afterwards its first triangle holds S. */
l3a_status parts_solve(const struct analytic *analytic, const struct part *parts, size_t count, double alpha, double lift,
                       size_t columns, const double *cross, double *weights);
/* λ_t */
double parts_lift(double lift, size_t count);
/* Sets the square's first triangle to S. */
void parts_sum(const struct analytic *analytic, const struct part *parts, size_t count);

#endif
