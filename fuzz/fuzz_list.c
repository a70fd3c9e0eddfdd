/* Lists of pictures: an accepted list has sorted classes, labels of 0 and 1, ids and paths; every split that is listed is found. */
#include "fuzz.h"

#include <string.h>

static void check_set(const l3a_dataset *dataset) {
    const size_t rows = l3a_dataset_rows(dataset), classes = l3a_dataset_class_count(dataset);
    must(rows > 0 && classes > 0);
    for (size_t k = 1; k < classes; k++) {
        must(strcmp(l3a_dataset_class(dataset, k - 1), l3a_dataset_class(dataset, k)) < 0);
    }
    for (size_t i = 0; i < rows; i++) {
        must(l3a_dataset_id(dataset, i)[0] && l3a_dataset_path(dataset, i)[0]);
    }
    for (size_t i = 0; i < rows * classes; i++) {
        const int8_t label = l3a_dataset_labels(dataset)[i];
        must((label == 0 || label == 1) && label == l3a_dataset_members(dataset)[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    l3a_dataset *dataset = NULL;
    char splits[256], *rest = splits;
    if (l3a_dataset_open(context, "list:folder/input.csv", NULL, NULL, &dataset) == L3A_OK) {
        check_set(dataset);
        l3a_dataset_free(dataset);
    }
    if (l3a_dataset_splits(context, "list:folder/input.csv", splits, sizeof splits) == L3A_OK &&
        strlen(splits) + 1 < sizeof splits) {
        for (const char *split; (split = strsep(&rest, " "));) {
            dataset = NULL;
            const l3a_status status = l3a_dataset_open(context, "list:folder/input.csv", split, NULL, &dataset);
            must(status != L3A_ERROR_NOT_FOUND || !split[0]);
            if (status == L3A_OK) {
                check_set(dataset);
            }
            l3a_dataset_free(dataset);
        }
    }
    l3a_context_free(context);
    return 0;
}
