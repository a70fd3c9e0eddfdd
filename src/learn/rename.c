/* Renaming a class, and making one class of two: C and f of the two add up, since an image that shows either shows the new class.
 * That is exact if no image was judged for both. If images were, those that show both count twice, because the sums do not tell
 * which they are. */
#include "common/closest.h"
#include "learn/change.h"

#include <string.h>

/* Every part that judges one class judges the other as well afterwards. */
static l3a_status judge_as_well(l3a_model *model, size_t from, size_t to, bool *both) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < evidence->part_count; i++) {
        struct part *part = &evidence->parts[i];
        const bool judges = part_judges(part, from);
        *both = *both || (judges && part_judges(part, to));
        if (!judges || part_judges(part, to)) {
            continue;
        }
        TRY(extend_array(model->context, &part->judged, part->judged_count, part->judged_count + 1, sizeof *part->judged));
        size_t at = part->judged_count++;
        for (; at && part->judged[at - 1] > to; at--) {
            part->judged[at] = part->judged[at - 1];
        }
        part->judged[at] = to;
    }
    *both = *both || !evidence->part_count;
done:
    return status;
}

static l3a_status unite(l3a_model *model, size_t from, size_t to, int *exact) {
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    bool *gone = NULL, both = false;
    struct change change = {0};
    TRY(allocate_zeroed(model->context, classes, sizeof *gone, &gone));
    TRY(change_begin(model, &change));
    TRY(model_own_columns(model));
    gone[from] = true;
    TRY(judge_as_well(model, from, to, &both));
    model->counts[to] += model->counts[from];
    model->label_weight[to] += model->label_weight[from];
    model->class_weight[to] = model->options.weights == L3A_WEIGHTS_NONE;
    for (size_t i = 0; i < model_dim(model); i++) {
        double *cross = model->evidence->cross + i * classes;
        cross[to] += cross[from];
    }
    TRY(model_drop_classes(model, gone));
    TRY(ridge_use_inverse(&model->evidence->ridge, false));
    TRY(model_settle(model, true));
    *exact = !both && model->options.weights == L3A_WEIGHTS_NONE;
done:
    release(model->context, gone);
    return change_end(&change, status);
}

l3a_status l3a_model_rename(l3a_model *model, const char *old_name, const char *new_name, int *exact) {
    REQUIRE(model, model, old_name, new_name, exact);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    char hint[128], *name = NULL;
    TRY(check_state(model, false));
    const size_t classes = model->classes.count, from = text_list_find(&model->classes, old_name),
                 to = text_list_find(&model->classes, new_name);
    FAIL_IF(from == classes, context, L3A_ERROR_CLASS,
            suggest_closest(hint, sizeof hint, old_name, (const char *const *)model->classes.items, classes,
                            "use the name of one of its classes"),
            "the model has no class '%s'", old_name);
    FAIL_IF(!new_name[0] || strchr(new_name, '\n'), context, L3A_ERROR_CLASS, "use a name without line breaks",
            "class '%s' cannot get an empty name or one with a line break", old_name);
    *exact = 1;
    if (to < classes && to != from) {
        TRY(unite(model, from, to, exact));
    } else {
        TRY(copy_text(context, new_name, strlen(new_name), &name));
        release(context, model->classes.items[from]);
        model->classes.items[from] = name;
    }
done:
    return status;
}
