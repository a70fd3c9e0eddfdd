/* Feature files: a table that can be read is unchanged after it is saved and opened again. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static bool same_text(const char *left, const char *right) {
    return left && right ? strcmp(left, right) == 0 : left == right;
}

static void check_copy(l3a_context *context, l3a_features *features, const float *values) {
    l3a_features *copy = NULL;
    const size_t rows = l3a_features_rows(features), width = l3a_features_width(features);
    const size_t classes = l3a_features_class_count(features), views = l3a_features_views(features);
    must(l3a_features_open(context, "saved.safetensors", &copy) == L3A_OK);
    must(l3a_features_rows(copy) == rows && l3a_features_width(copy) == width && l3a_features_class_count(copy) == classes &&
         l3a_features_views(copy) == views);
    must(!l3a_features_labels(copy) == !l3a_features_labels(features));
    must(!classes || !l3a_features_labels(copy) ||
         memcmp(l3a_features_labels(copy), l3a_features_labels(features), rows * classes) == 0);
    for (size_t i = 0; i < classes; i++) {
        must(same_text(l3a_features_class(copy, i), l3a_features_class(features, i)));
    }
    for (size_t i = 0; i < rows; i++) {
        must(same_text(l3a_features_id(copy, i), l3a_features_id(features, i)));
    }
    float *read = read_table(copy);
    must(read && memcmp(read, values, rows * l3a_view_rows(views) * width * sizeof *read) == 0);
    free(read);
    l3a_features_free(copy);
}

static void use_table(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    l3a_features *features = NULL;
    if (l3a_features_open(context, "features.safetensors", &features) == L3A_OK) {
        uint64_t checksum;
        float *values = read_table(features);
        l3a_features_checksum(features, &checksum);
        for (size_t views = 1; views < 20; views++) { /* what the table does not have is refused */
            const size_t before = l3a_features_views(features);
            if (l3a_features_use_views(features, views) == L3A_OK) {
                free(read_table(features));
                must(l3a_features_use_views(features, before) == L3A_OK);
            }
        }
        if (values && l3a_features_save(features, NULL, "saved.safetensors") == L3A_OK) {
            check_copy(context, features, values);
        }
        free(values);
    }
    l3a_features_free(features);
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    with_repaired_header(bytes, count, use_table);
    return 0;
}
