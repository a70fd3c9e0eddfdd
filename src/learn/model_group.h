/* Models that learn the same rows together: those of a sweep that share the random layer and differ in gamma, in how labels are
 * weighted, in pseudo-labels, or in how they solve. Rows are read and expanded once for all of them.
 *
 * Models that can never disagree about a label or a weight share their sums, and each solves with its own settings: all values of
 * gamma of `l3a+`, for example. Models that weight labels alike but may give different pseudo-labels form a chain. Only the first
 * of it adds all rows to its sums; each of the others adds its difference from the model before it,
 *
 *   A_v - A_(v-1) = Σ (ω_v - ω_(v-1)) x xᵀ     C_v - C_(v-1) = Σ x (ω_v ŷ_v - ω_(v-1) ŷ_(v-1))ᵀ
 *
 * which are sums over the rows on which their pseudo-labels disagree. When the phase ends, the sums of the model before are added
 * to it. So the product of a block is computed once per chain, and the result is that of separate models up to rounding. Rows of
 * differences are collected until there are enough for an efficient product, those with a larger weight apart from those with a
 * smaller one. A chain costs n d² for n rows, n_v d² for the n_v ≤ n rows on which v disagrees with its neighbour,
 * and one solve per model. */
#ifndef L3A_MODEL_GROUP_H
#define L3A_MODEL_GROUP_H

#include "learn/model.h"

struct group;

/* The result of the last phase for a member. */
struct group_outcome {
    uint64_t images, pseudo_labels;
    uint64_t corrected; /* images on which it disagreed with the member before it */
};

/* Whether models with these settings can be in one group. */
bool group_accepts(const struct model_options *first, const struct model_options *other);
/* Bytes that a group with these members needs for `phases` phases. */
uint64_t group_memory(enum place place, l3a_context *context, const struct model_options *members, size_t count, size_t width,
                      size_t classes, size_t phases);
/* The order in which neighbours of a chain disagree on few rows: below, equal to or above 0, like strcmp(). */
int group_order(const struct model_options *left, const struct model_options *right);
/* The members should be in that order. */
l3a_status group_create(l3a_context *context, const struct model_options *members, size_t count, size_t width,
                        struct group **group);
void group_free(struct group *group);
/* The model of a member. */
const l3a_model *group_model(const struct group *group, size_t member);

/* Learns one phase from the images that belong to at least one of the new classes, which are `class_count` columns of the table.
 * outcomes: one per member. After a failure, only group_free() may be called. */
l3a_status group_learn(struct group *group, l3a_features *features, const size_t *columns, const char *const *names,
                       size_t class_count, struct group_outcome *outcomes);
/* scores[v]: [rows x classes learned so far] of member v; a row is an image. */
l3a_status group_score(struct group *group, const float *features, size_t rows, float *const *scores);
/* The score above which each class learned so far counts as predicted by a member. */
void group_thresholds(const struct group *group, size_t member, double *thresholds);

#endif
