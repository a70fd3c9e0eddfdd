#include "learn/model_columns.h"

#include "learn/model_change.h"

#include <string.h>

l3a_status model_columns_create(l3a_context *context, size_t dim, size_t classes, struct model_columns *columns) {
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, classes, sizeof *columns->counts, &columns->counts));
    TRY(allocate_zeroed(context, classes, sizeof *columns->label_weight, &columns->label_weight));
    TRY(allocate_zeroed(context, classes, sizeof *columns->class_weight, &columns->class_weight));
    TRY(allocate_zeroed(context, dim, classes * sizeof *columns->cross, &columns->cross));
    TRY(allocate_zeroed(context, dim, classes * sizeof *columns->coefficients, &columns->coefficients));
done:
    return status;
}

void model_columns_copy(const struct model_columns *columns, size_t dim, size_t classes, size_t to, const l3a_model *model,
                        size_t from) {
    const size_t old = model->classes.count;
    columns->counts[to] = model->counts[from];
    columns->label_weight[to] = model->label_weight[from];
    columns->class_weight[to] = model->class_weight[from];
    for (size_t i = 0; i < dim; i++) {
        columns->cross[i * classes + to] = model->evidence->cross[i * old + from];
        columns->coefficients[i * classes + to] = model->coefficients[i * old + from];
    }
}

void model_columns_widen(const struct model_columns *columns, size_t classes, const l3a_model *model) {
    const size_t old = model->classes.count;
    for (size_t i = 0; old && i < model_dim(model); i++) {
        memcpy(columns->cross + i * classes, model->evidence->cross + i * old, old * sizeof *columns->cross);
        memcpy(columns->coefficients + i * classes, model->coefficients + i * old, old * sizeof *columns->coefficients);
    }
}

l3a_status model_columns_extend(const l3a_model *model, size_t classes, struct model_columns *columns) {
    const size_t old = model->classes.count;
    l3a_status status = L3A_OK;
    TRY(model_columns_create(model->context, model_dim(model), classes, columns));
    if (old) {
        memcpy(columns->counts, model->counts, old * sizeof *columns->counts);
        memcpy(columns->label_weight, model->label_weight, old * sizeof *columns->label_weight);
        memcpy(columns->class_weight, model->class_weight, old * sizeof *columns->class_weight);
        model_columns_widen(columns, classes, model);
    }
done:
    return status;
}

void model_columns_adopt(l3a_model *model, struct model_columns *columns) {
    const struct model_columns before = model_columns_of(model);
    model->counts = columns->counts;
    model->label_weight = columns->label_weight;
    model->class_weight = columns->class_weight;
    model->evidence->cross = columns->cross;
    model->coefficients = columns->coefficients;
    *columns = before;
    if (model->change && !model->change->has_columns) {
        model->change->columns = before;
        model->change->has_columns = true;
        *columns = (struct model_columns){0};
    }
}

void model_columns_free(l3a_context *context, struct model_columns *columns) {
    release(context, columns->counts);
    release(context, columns->label_weight);
    release(context, columns->class_weight);
    release(context, columns->cross);
    release(context, columns->coefficients);
    *columns = (struct model_columns){0};
}
