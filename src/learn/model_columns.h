/* What teaching, merging and forgetting share: rebuilding the class columns of a model, and deciding whether the result is exact.
 */
#ifndef L3A_MODEL_COLUMNS_H
#define L3A_MODEL_COLUMNS_H

#include "data/features.h"
#include "learn/model.h"

struct model_columns {
    uint64_t *counts;
    double *label_weight, *class_weight, *cross, *coefficients;
};

/* Fills them with zeros. */
l3a_status model_columns_create(l3a_context *context, size_t dim, size_t classes, struct model_columns *columns);
/* Sets column `to` of `classes` to column `from` of the model. */
void model_columns_copy(const struct model_columns *columns, size_t dim, size_t classes, size_t to, const l3a_model *model,
                        size_t from);
/* Swaps them with the model's, which are then to be freed. The first ones that a change replaces go to the change instead. */
void model_columns_adopt(l3a_model *model, struct model_columns *columns);
void model_columns_free(l3a_context *context, struct model_columns *columns);
/* model_thresholds() if the model had these columns instead, from so many images in its parts. Columns of 0 stand for classes that
 * it would not have; `known` is the number of those that it would. */
void columns_thresholds(const l3a_model *model, const struct model_columns *columns, double images, size_t known, size_t views,
                        double *thresholds);

/* Removes the columns of the classes in `gone`, and the phases and parts of which nothing is left. */
l3a_status model_drop_classes(l3a_model *model, const bool *gone);
void model_drop_part(l3a_model *model, size_t index);
/* Adds up parts that judge the same classes. */
l3a_status model_unite_parts(l3a_model *model);
/* After a change of the sums: computes W from them, unless it is right already, and makes the model ready. */
l3a_status model_settle(l3a_model *model, bool solve);
/* Whether phases from `first` on gave pseudo-labels. */
bool has_pseudo_labels(const l3a_model *model, size_t first);
/* Whether phases were folded together in a model whose solution depends on that. */
bool is_folded(const l3a_model *model);
/* Whether classes were forgotten whose images are still in the sums. */
bool has_dropped_classes(const l3a_model *model);
/* Whether gamma was chosen from the images of the first phase. */
bool has_chosen_gamma(const l3a_model *model);

#endif
