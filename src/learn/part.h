/* Phases kept apart (the setting `alpha`): for the classes of phase j, images of other phases count α.
 *
 *   A_s = Σ ω x xᵀ over the images of phase s     C_j = Σ ω x yᵀ over those of phase j
 *   M_j W_j = C_j     M_j = (1 - α) A_j + α Σ_s A_s + γI
 *
 * An image of phase s ≠ j carries no label of the classes of j. It may show them all the same, and then it is wrong to take it for
 * a full negative; but without it nothing says what the classes of j are not. The weight α < 1 is between the two, and holds for
 * the phases after j as for those before it. With α = 1, all M_j are one, and W is that of the sums over all phases.
 *
 * An image that shows much is in many phases, and a negative in all of them but one for each of its classes: its scores come out
 * too low, the more the more it shows. How much it shows is near the sum of its scores, a share of which goes back to each:
 *
 *   w'_k = w_k + λ_t Σ_l w_l     λ_t = λ (t - 1)/(t + 8)
 *
 * with λ from the setting `lift`. One phase alone lacks no label, so that λ_1 = 0; with many phases, each label of an image is as
 * good as in a phase of its own, and more phases make little difference. The 8 is from training images (docs/beyond.md).
 *
 * Solving. A factor for each M_j costs d³/3; instead, one factor in single precision serves all of them as preconditioner of
 * conjugate gradients in double precision,
 *
 *   P = (α + (1 - α)/t) S + γI = UᵀU     S = Σ_s A_s     t phases
 *
 * since M_j lies between αS + γI and S + γI, so that the eigenvalues of P⁻¹M_j lie between α and 1/α or nearer to 1, and the
 * error falls at least by (1 - √α)/(1 + √α) in a step, 3 to 4 times for α = 0.3, whatever d and γ are. A step costs about 6 d²
 * for each class. It starts from the weights w_k of the phase before. In double precision, where γ is near the rounding error of
 * the sums (analytic.h), and where conjugate gradients do not converge, each M_j is factored. */
#ifndef L3A_PART_H
#define L3A_PART_H

#include "learn/packed.h"

/* The sums of a phase, or of several that were folded together. */
struct part {
    size_t first, last; /* its classes */
    size_t phases;
    struct packed sums;
};

/* Weights [d x columns] of all classes from cross [d x columns]; what weights hold before is where the search starts. The square is
 * work space: afterwards its first triangle holds S. */
l3a_status parts_solve(const struct analytic *analytic, const struct part *parts, size_t count, double alpha, double lift,
                       size_t columns, const double *cross, double *weights);
/* λ_t */
double parts_lift(double lift, size_t count);
/* The square's first triangle becomes S. */
void parts_sum(const struct analytic *analytic, const struct part *parts, size_t count);

#endif
