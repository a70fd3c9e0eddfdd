/* .npy files: opened as a table of features, and as features and labels at the same time. */
#include "fuzz.h"

#include <stdlib.h>

static void open_table(l3a_context *context, const char *labels, const char *names) {
    l3a_features *features = NULL;
    if (l3a_features_open_npy(context, "features.npy", labels, names, &features) == L3A_OK) {
        free(read_table(features));
    }
    l3a_features_free(features);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    l3a_file *file = NULL;
    l3a_tensor_info info = {.size = sizeof info};
    if (l3a_file_open(context, "array.npy", &file) == L3A_OK) {
        must(l3a_file_size(file) == count);
        for (size_t i = 0; l3a_file_tensor(file, i, &info); i++) {
            must(info.bytes <= count && info.rank <= 8);
        }
    }
    l3a_file_free(file);
    open_table(context, NULL, NULL);
    open_table(context, "labels.npy", NULL);
    open_table(context, NULL, "names.txt");
    l3a_context_free(context);
    return 0;
}
