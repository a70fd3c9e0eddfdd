/* The weighted ridge regression (SPEC §3, steps 4 and 5): (A + γI) W = C, on sums that a back end holds; or the paper's recursion
 * on R = (A + γI)⁻¹, which starts at I/γ (algebra.h).
 *
 * Rounding. Products in float32 leave a symmetric error E in A. The residual of a solution cannot show it, because it is in A
 * itself, but it changes W by up to ‖E‖/λ of its size, where λ ≥ γ is the smallest eigenvalue of A + γI. Measured on ViT features,
 * ‖E‖ is at most 2⁻²⁴ tr(A)/4, and smaller with many rows. In double precision it is taken to be 2⁻⁵³ tr(A), since factoring
 * rounds too. If γ is not far above that, a few steps of inverse iteration on the factor estimate λ. All that is certain is that
 * λ ≥ max(γ, estimate - ‖E‖). If ‖E‖ is above 10 times that, the solution is refused; above half of it, a warning is given;
 * below, mAP differed by less than 0.05 from double precision (docs/method.md). The recursion adds no such error, because its rows
 * are scaled by √ω in double precision. What it loses by cancellation shows in R C ≠ W, which is checked on a few random
 * combinations of columns. */
#ifndef L3A_RIDGE_H
#define L3A_RIDGE_H

#include "algebra/algebra.h"

struct ridge {
    struct sums sums;
    struct {
        const struct scatter *scatter; /* NULL: there is none */
        double times;
    } beside; /* a scatter, so many times, that A holds besides the parts of a model */
    double gamma;
    bool inverse;   /* the first half holds R, not A */
    real precision; /* the lowest precision that A went through, in its products or in a file */
};

/* Starts with A = 0. shared: all processes hold the sums together. */
l3a_status ridge_create(l3a_context *context, size_t dim, double gamma, real precision, bool shared, struct ridge *ridge);
void ridge_free(struct ridge *ridge);
/* Turns A into R or back, in d³ operations; does nothing if it is in that form already. If it fails, A or R is unchanged. */
l3a_status ridge_use_inverse(struct ridge *ridge, bool inverse);
/* coefficients = (A + γI)⁻¹ cross, both [d x columns] */
l3a_status ridge_solve(struct ridge *ridge, size_t columns, const double *cross, double *coefficients);
/* Second half = the factor of scale · A + share · Σ scatters + γI, if it is good enough to solve with. */
l3a_status ridge_factor(struct ridge *ridge, double scale, const struct scatter *const *scatters, size_t count, double share);
/* The recursion, with y as targets: updates R, cross and coefficients [d x columns]. */
l3a_status ridge_update(struct ridge *ridge, struct block *rows, const double *weight, const double *targets, double *cross,
                        double *coefficients);
/* Checks after the recursion that R C = W, and that W does not come from the rounding of the rows, the largest of which has
 * ‖x‖² = square. */
l3a_status ridge_check_update(const struct ridge *ridge, double square, size_t columns, const double *cross,
                              const double *coefficients);
/* Whether γ alone makes the rounding error of sums with this trace harmless. */
bool ridge_is_safe(const struct ridge *ridge, double trace);
/* Checks that coefficients [d x columns] are finite. */
l3a_status ridge_check_finite(const struct ridge *ridge, const double *coefficients, size_t columns);

#endif
