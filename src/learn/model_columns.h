/* The columns of a model: what it has for each class. Changes make new ones beside the model's, and then swap the two. */
#ifndef L3A_MODEL_COLUMNS_H
#define L3A_MODEL_COLUMNS_H

#include "base/memory.h"

struct model_columns {
    uint64_t *counts;
    double *label_weight, *class_weight, *cross, *coefficients;
};

/* Fills them with zeros. */
l3a_status model_columns_create(l3a_context *context, size_t dim, size_t classes, struct model_columns *columns);
/* Creates those of the model, and columns of zeros for the other classes. */
l3a_status model_columns_extend(const l3a_model *model, size_t classes, struct model_columns *columns);
/* Sets the first columns of C and W to the model's. */
void model_columns_widen(const struct model_columns *columns, size_t classes, const l3a_model *model);
/* Sets column `to` of `classes` to column `from` of the model. */
void model_columns_copy(const struct model_columns *columns, size_t dim, size_t classes, size_t to, const l3a_model *model,
                        size_t from);
/* Swaps them with the model's, which are then to be freed. The first ones that a change replaces go to the change instead. */
void model_columns_adopt(l3a_model *model, struct model_columns *columns);
void model_columns_free(l3a_context *context, struct model_columns *columns);

#endif
