/* A change of a model that is made as a whole or not at all.
 *
 * Between change_begin() and change_end(), what the change replaces is kept, and nothing of that is altered in place. If the change
 * fails, the model gets it back, which takes no memory and cannot fail on the processor. What is large is not copied for that:
 *
 *   columns   C, W and the counts are made anew by every change; the change keeps those from before
 *   parts     the sums of a part are shared with the change; a part gets a copy of its own before they are altered (part_own)
 *   unlabelled images, too, are made anew
 *   sums      of a model without parts: the recursion has a copy in the second half; anything else copies the triangle
 *
 * What is derived, such as the sum of the parts, is computed again after a failure. A change within a change belongs to it. */
#ifndef L3A_MODEL_CHANGE_H
#define L3A_MODEL_CHANGE_H

#include "learn/model.h"

struct change {
    l3a_model *model; /* NULL: part of another change, which decides */
    struct model_options options;
    text_list classes, record_keys, record_values;
    l3a_phase_info *phases;
    size_t phase_count;
    struct part *parts; /* their sums may be the model's */
    size_t part_count;
    struct model_columns columns;
    bool has_columns;
    struct unlabelled unlabelled;
    bool has_unlabelled;
    double *triangle;       /* the first half of the sums; NULL: not kept */
    bool inverse, recursed; /* the triangle is that of R; the second half is the first as it was */
};

l3a_status change_begin(l3a_model *model, struct change *change);
/* Ends it: if status is not L3A_OK, the model is as it was. Returns the status. */
l3a_status change_end(struct change *change, l3a_status status);

/* Within a change: */
/* Gives a part sums of its own. */
l3a_status part_own(l3a_model *model, struct part *part);
/* Frees sums, unless the change has them. Also outside of changes. */
void model_free_sums(const l3a_model *model, struct scatter *sums);
/* Gives the model columns of its own. */
l3a_status model_own_columns(l3a_model *model);
/* Keeps the first half of the sums. recursion: the second half may hold it, because nothing else will. */
l3a_status change_keep_sums(l3a_model *model, bool recursion);

/* What teaching, merging and forgetting share: steps of a change, and whether its result is exact. */
/* Removes the columns of the classes in `gone`, and the phases and parts of which nothing is left. */
l3a_status model_drop_classes(l3a_model *model, const bool *gone);
void model_drop_part(l3a_model *model, size_t index);
/* Adds up parts that judge the same classes. */
l3a_status model_unite_parts(l3a_model *model);
/* While there are more parts than the setting `keep-phases` allows, folds the oldest part into the one after it. */
l3a_status model_fold(l3a_model *model);
/* Whether phases from `first` on gave pseudo-labels. */
bool has_pseudo_labels(const l3a_model *model, size_t first);
/* Whether phases were folded together in a model whose solution depends on that. */
bool is_folded(const l3a_model *model);
/* Whether classes were forgotten whose images are still in the sums. */
bool has_dropped_classes(const l3a_model *model);
/* Whether gamma was chosen from the images of the first phase. */
bool has_chosen_gamma(const l3a_model *model);

#endif
