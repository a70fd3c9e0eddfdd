/* Tables of pictures whose features nobody looks at: to plan an experiment before they are extracted, and for methods that look at
 * the pictures themselves. */
#include "base/memory.h"
#include "data/dataset.h"
#include "data/features.h"
#include "extract/intake.h"
#include "net/backbone.h"

#include <stdio.h>
#include <string.h>

static l3a_status take_rows(const l3a_dataset *dataset, l3a_features *features) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    for (size_t k = 0; k < l3a_dataset_class_count(dataset); k++) {
        const char *name = l3a_dataset_class(dataset, k);
        TRY(text_list_add(context, &features->classes, name, strlen(name)));
    }
    for (size_t i = 0; i < features->rows; i++) {
        const char *id = l3a_dataset_id(dataset, i);
        TRY(text_list_add(context, &features->ids, id, strlen(id)));
        features->id_bytes += strlen(id) + 1;
    }
    features->labels = (struct marks){.held = l3a_dataset_labels(dataset), .count = features->rows};
    features->members = (struct marks){.held = l3a_dataset_members(dataset), .count = features->rows};
    TRY(features_check_classes(features));
done:
    return status;
}

/* What the file of the features would say of them. */
static l3a_status sign(const l3a_backbone *backbone, const l3a_dataset *dataset, int orient, l3a_features *features) {
    l3a_status status = L3A_OK;
    char *name = NULL, views[32];
    TRY(dataset_full_name(dataset, &name));
    TRY(l3a_backbone_sign(backbone, orient, features));
    TRY(l3a_features_set_record(features, "data", name));
    TRY(l3a_features_set_record(features, "split", dataset->split));
    if (dataset->ignores_difficult) {
        TRY(l3a_features_set_record(features, difficult_record, "ignore"));
    }
    if (features->views > 1) {
        snprintf(views, sizeof views, "%zu", features->views);
        TRY(l3a_features_set_record(features, views_record, views));
    }
done:
    release(features->context, name);
    return status;
}

l3a_status l3a_features_blank(l3a_context *context, const l3a_backbone *backbone, const l3a_dataset *dataset, size_t views,
                              int orient, l3a_features **features) {
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    NEED(context, context, backbone, dataset, features);
    FAIL_IF(!l3a_dataset_rows(dataset), context, L3A_ERROR_DATA, NULL, "%s has no pictures", dataset->name);
    FAIL_IF(views >= VIEWS_LIMIT, context, L3A_ERROR_ARGUMENT, "use 1, or the number of crops", "l3a_features_blank: %zu views",
            views);
    TRY(features_create(context, dataset->name, &made));
    made->rows = l3a_dataset_rows(dataset);
    made->width = l3a_backbone_describe(backbone)->width;
    made->views = made->stored = views ? views : 1;
    TRY(allocate_zeroed(context, made->rows, features_row(made) * sizeof(float), &made->owned_values));
    made->values = made->owned_values;
    TRY(take_rows(dataset, made));
    TRY(sign(backbone, dataset, orient, made));
    *features = made;
    made = NULL;
done:
    l3a_features_free(made);
    return status;
}
