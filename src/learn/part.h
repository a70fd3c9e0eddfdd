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
 * training images (docs/beyond.md). */
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
/* λ_t */
double parts_lift(double lift, const struct part *parts, size_t count);
/* First half of the sums = S */
l3a_status parts_sum(struct sums *sums, const struct part *parts, size_t count);

#endif
