/* COCO annotations: in an accepted file, every label is also a member, and every path is below the folder of the pictures. */
#include "fuzz.h"

#include "base/file.h"

#include <string.h>

static int list_annotations(const char *path, int (*each)(const char *name, void *user), void *user) {
    each(strstr(path, "annotations") ? "instances_train.json" : "annotations", user);
    return 0;
}

static void check_set(const l3a_dataset *dataset) {
    static const char below[] = "folder/train/";
    const size_t rows = l3a_dataset_rows(dataset), classes = l3a_dataset_class_count(dataset);
    must(rows > 0 && classes > 0);
    for (size_t i = 0; i < rows; i++) {
        const char *path = l3a_dataset_path(dataset, i);
        must(strlen(l3a_dataset_id(dataset, i)) >= 12 && strncmp(path, below, sizeof below - 1) == 0 && !strstr(path, "/../"));
    }
    for (size_t i = 0; i < rows * classes; i++) {
        const int8_t label = l3a_dataset_labels(dataset)[i], member = l3a_dataset_members(dataset)[i];
        must((label == 0 || label == 1) && (member == 0 || member == 1) && label <= member);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    file_operations files = *context->files;
    l3a_dataset *dataset = NULL;
    files.list = list_annotations;
    context->files = &files;
    if (l3a_dataset_open(context, "coco:folder", "train", NULL, &dataset) == L3A_OK) {
        check_set(dataset);
    }
    l3a_dataset_free(dataset);
    l3a_context_free(context);
    return 0;
}
