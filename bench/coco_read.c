/* Reads COCO annotations with this library, or with cJSON and a loop as a user would write it, and prints the seconds, the peak
 * heap memory, and what was found, as JSON.
 *
 *   coco_read l3a FOLDER SPLIT
 *   coco_read cjson FILE */
#include "l3a/l3a.h"

#include <cjson/cJSON.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static size_t held, most_held;

static void *count_allocate(void *user, size_t bytes) {
    (void)user;
    void *memory = malloc(bytes);
    held += memory ? malloc_usable_size(memory) : 0;
    most_held = held > most_held ? held : most_held;
    return memory;
}

static void count_release(void *user, void *memory) {
    (void)user;
    held -= memory ? malloc_usable_size(memory) : 0;
    free(memory);
}

static void *plain_allocate(size_t bytes) {
    return count_allocate(NULL, bytes);
}

static void plain_release(void *memory) {
    count_release(NULL, memory);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void print_result(double seconds, size_t pictures, size_t labels) {
    printf("{\"seconds\": %.6f, \"heap\": %zu, \"pictures\": %zu, \"labels\": %zu}\n", seconds, most_held, pictures, labels);
}

static int read_with_l3a(const char *folder, const char *split) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context;
    l3a_dataset *dataset;
    char name[4096];
    options.threads = 1;
    options.allocate = count_allocate;
    options.release = count_release;
    if (l3a_context_create(&options, &context) != L3A_OK) {
        return 1;
    }
    snprintf(name, sizeof name, "coco:%s", folder);
    const double start = now();
    if (l3a_dataset_open(context, name, split, NULL, &dataset) != L3A_OK) {
        fprintf(stderr, "%s\n", l3a_error_text(context));
        l3a_context_free(context);
        return 1;
    }
    const double seconds = now() - start;
    const size_t rows = l3a_dataset_rows(dataset), pairs = rows * l3a_dataset_class_count(dataset);
    size_t labels = 0;
    for (size_t i = 0; i < pairs; i++) {
        labels += l3a_dataset_labels(dataset)[i] == 1;
    }
    print_result(seconds, rows, labels);
    l3a_dataset_free(dataset);
    l3a_context_free(context);
    return 0;
}

struct pair {
    double image, category;
};

static int compare_pairs(const void *left, const void *right) {
    const struct pair *a = left, *b = right;
    return a->image != b->image ? (a->image > b->image) - (a->image < b->image)
                                : (a->category > b->category) - (a->category < b->category);
}

static size_t count_labels(const cJSON *annotations) {
    struct pair *pairs = plain_allocate((size_t)cJSON_GetArraySize(annotations) * sizeof *pairs + 1);
    size_t count = 0, distinct = 0;
    const cJSON *annotation;
    cJSON_ArrayForEach(annotation, annotations) {
        if (pairs && cJSON_GetObjectItemCaseSensitive(annotation, "iscrowd")->valuedouble == 0) {
            pairs[count++] = (struct pair){cJSON_GetObjectItemCaseSensitive(annotation, "image_id")->valuedouble,
                                           cJSON_GetObjectItemCaseSensitive(annotation, "category_id")->valuedouble};
        }
    }
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    for (size_t i = 0; i < count; i++) {
        distinct += i == 0 || compare_pairs(&pairs[i - 1], &pairs[i]) != 0;
    }
    plain_release(pairs);
    return distinct;
}

static int read_with_cjson(const char *path) {
    cJSON_Hooks hooks = {plain_allocate, plain_release};
    cJSON_InitHooks(&hooks);
    const double start = now();
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    fseek(file, 0, SEEK_END);
    const size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = plain_allocate(length);
    cJSON *root = text && fread(text, 1, length, file) == length ? cJSON_ParseWithLength(text, length) : NULL;
    fclose(file);
    if (!root) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    const size_t labels = count_labels(cJSON_GetObjectItemCaseSensitive(root, "annotations"));
    const double seconds = now() - start;
    print_result(seconds, (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(root, "images")), labels);
    plain_release(text);
    cJSON_Delete(root);
    return 0;
}

int main(int count, char **texts) {
    if (count == 4 && strcmp(texts[1], "l3a") == 0) {
        return read_with_l3a(texts[2], texts[3]);
    }
    if (count == 3 && strcmp(texts[1], "cjson") == 0) {
        return read_with_cjson(texts[2]);
    }
    fprintf(stderr, "usage: coco_read l3a FOLDER SPLIT | coco_read cjson FILE\n");
    return 2;
}
