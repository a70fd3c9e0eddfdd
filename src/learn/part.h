/* Parts (SPEC §6): the sums over images that were judged for the same classes, its judged set. A phase makes a part whose judged
 * set are the phase's classes. For a class k, an image counts fully if it was judged for k, and α otherwise (the setting `alpha`):
 *
 *   A_p = Σ ω x xᵀ over the images of part p     c_k = Σ ω x y_k over the images judged for k
 *   M_k w_k = c_k     M_k = (1 - α) Σ_{p judges k} A_p + α S + γI     S = Σ_p A_p
 *
 * An image that was not judged for k may still show it, so it is wrong to treat it as a full negative; but without it, nothing says
 * what k is not. A weight α < 1 is a compromise. Classes that are judged by the same parts share a system. With α = 1, all M_k are
 * equal, and W is that of the sums over all parts.
 *
 * An image that shows many classes is in many phases, and each of its classes sees it as a negative in all of them but one. So the
 * more an image shows, the lower its scores. The sum of its scores tells roughly how much it shows, and a share of that sum is
 * added back to each score:
 *
 *   w'_k = w_k + λ_t Σ_l w_l     λ_t = λ (t - 1)/(t + 8)
 *
 * with λ from the setting `lift`, and t the number of parts whose judged set contains no other part's: the number of phases, if
 * there is nothing but phases, and 1 for nested sets, whose labels are complete. A single phase lacks no label, so λ_1 = 0. With
 * many phases, almost every label of an image is in a phase of its own, and more phases make little difference. The 8 was chosen on
 * training images (docs/beyond.md).
 *
 * Solving. Factoring each M would cost d³/3. Instead, one factor in single precision serves as the preconditioner of conjugate
 * gradients in double precision for all of them,
 *
 *   P = (α + (1 - α)/n) S + γI = UᵀU     n parts
 *
 * M_k lies between αS + γI and S + γI, so the eigenvalues of P⁻¹M_k lie between α and 1/α, or nearer to 1. A step reduces the
 * error at least by the factor (1 - √α)/(1 + √α), 3 to 4 times for α = 0.3, whatever d and γ are, and costs about 6 d² per class.
 * The search starts from the coefficients before. After a lesson of few rows, solving for these rows is often enough (part.c); so a
 * picture that is taught to a thousand classes takes as many searches as there are different M, not classes. Each M is factored
 * after all if the precision is double, if γ is near the rounding error of the sums (ridge.h), or if conjugate gradients do not
 * converge. */
#ifndef L3A_PART_H
#define L3A_PART_H

#include "algebra/ridge.h"

struct part {
    size_t *judged; /* the classes it judges, ascending */
    size_t judged_count;
    size_t phases;   /* that were folded into it */
    uint64_t images; /* with a weight above 0 */
    struct scatter sums;
};

/* A part that judges the classes [first, last), with sums of 0. */
l3a_status part_create(l3a_context *context, size_t dim, real type, size_t first, size_t last, struct part *part);
/* The same without memory for sums, for a model that only scores. */
l3a_status part_create_empty(l3a_context *context, size_t dim, real type, size_t first, size_t last, struct part *part);
void part_free(struct part *part);
bool part_judges(const struct part *part, size_t class);
/* Sorts the judged set, after it was filled in. */
void part_sort_judged(struct part *part);
/* Whether two parts judge the same classes. */
bool parts_agree(const struct part *one, const struct part *other);
/* Adds the sums and the judged set of another part. */
l3a_status part_fold(struct part *part, const struct part *from);

/* Classes that are judged by the same parts share a system. With α = 1 there is only one. */
struct system {
    size_t first, last;              /* its classes are order[first] … order[last - 1] */
    const struct scatter **scatters; /* of the parts that judge them; none with α = 1 */
    size_t count;
};

struct systems {
    struct system *items;
    size_t count;
    size_t *order;
    const struct scatter **scatters; /* of all systems, one after another */
};

l3a_status systems_find(l3a_context *context, const struct part *parts, size_t count, double alpha, size_t columns,
                        struct systems *systems);
void systems_free(l3a_context *context, struct systems *systems);
/* Factors M of a system, so that sums_solve() can solve it. The ridge's sums hold S or, without parts, A. */
l3a_status system_factor(const struct system *system, struct ridge *ridge, double alpha);

/* Where a search ended, so that the next one can go on from there after a few images were added, without the product M W. If images
 * change M_k by Σ ω x xᵀ and c_k by Σ ω x y, then c_k - M_k w_k changes by Σ x e, e = ω (y - x·w_k). With few rows x, these and
 * their e are kept instead of the change: then it is enough to solve M u = x for them (part.c). */
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
/* λ_t */
double parts_lift(double lift, const struct part *parts, size_t count);
/* First half of the sums = S */
l3a_status parts_sum(struct sums *sums, const struct part *parts, size_t count);

#endif
