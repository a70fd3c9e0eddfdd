/* Models that learn the same rows together: those of a sweep that share the random layer and differ in gamma, in how labels are
 * weighted, or in pseudo-labels. Rows are read and expanded once for all of them.
 *
 * Members that weight labels alike form a chain. Its first member keeps its sums A and C; each of the others keeps only its
 * difference from the member before it,
 *
 *   A_v - A_(v-1) = Σ (ω_v - ω_(v-1)) x xᵀ     C_v - C_(v-1) = Σ x (ω_v ŷ_v - ω_(v-1) ŷ_(v-1))ᵀ
 *
 * These are sums over the rows on which their pseudo-labels disagree, so the product of a block is computed once per chain, and
 * the result is that of separate models up to rounding. Such rows are collected until there are enough for an efficient product:
 * those with a larger weight from the front, those with a smaller one from the back. Without pseudo-labels there is nothing to
 * collect, and all values of gamma share one A and C. A chain costs n d² for n rows, n_v d² for the n_v ≤ n rows on which v
 * disagrees with its neighbour, and one solve per member. */
#ifndef L3A_GROUP_H
#define L3A_GROUP_H

#include "learn/model.h"

struct group;

/* The result of the last phase for a member. */
struct group_outcome {
    uint64_t images, pseudo_labels;
    uint64_t corrected; /* rows on which it disagreed with the member before it */
};

/* Whether models with these settings can be in one group. */
bool group_accepts(const struct model_options *first, const struct model_options *other);
/* Bytes that a group with these members needs. */
uint64_t group_memory(const struct model_options *members, size_t count, size_t width, size_t classes);
/* Neighbours in a chain should differ as little as possible, so sort the members first. */
l3a_status group_create(l3a_context *context, const struct model_options *members, size_t count, size_t width,
                        struct group **group);
void group_free(struct group *group);

/* Learns one phase from rows of a table. Each row has at least one of the new classes, which are `class_count` columns of the
 * table. outcomes: one per member. After a failure, only group_free() may be called. */
l3a_status group_learn(struct group *group, l3a_features *features, const size_t *rows, size_t count, const size_t *columns,
                       const char *const *names, size_t class_count, struct group_outcome *outcomes);
/* scores[v]: [rows x classes learned so far] of member v. */
l3a_status group_score(struct group *group, const float *features, size_t rows, float *const *scores);

#endif
