/* training_batches DATA SIZE FILTER LEAST MOST RATIO FLIP CUTOUT RANDOM SEED EPOCH FIRST THREADS: the pass of an epoch over a data
 * set, in batches of 7 from batch FIRST on, for test_batches.py. SIZE is WIDTHxHEIGHT. For each picture, it prints the row, the
 * length of its path, the path, and the pixels as bytes: RGB, plane by plane. */
#include "train/batches.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 7, ARGUMENTS = 13 };

static void print_picture(const l3a_dataset *dataset, size_t row, const float *planes, size_t count) {
    const char *path = l3a_dataset_path(dataset, row);
    const uint64_t head[] = {row, strlen(path)};
    fwrite(head, sizeof head, 1, stdout);
    fputs(path, stdout);
    for (size_t i = 0; i < count; i++) {
        putchar((int)lroundf(planes[i]));
    }
}

static l3a_status print_pass(l3a_context *context, char *const *words) {
    l3a_loader_options loader = {.size = sizeof loader, .filter = (l3a_filter)atoi(words[2])};
    const struct augmentation augmentation = {atof(words[3]), atof(words[4]), atof(words[5]),
                                              atoi(words[6]), atof(words[7]), atoi(words[8])};
    const struct batches_options options = {&loader, augmentation, strtoull(words[9], NULL, 10), BATCH, true};
    l3a_status status = L3A_OK;
    l3a_dataset *dataset = NULL;
    struct batches *batches = NULL;
    struct picture_batch batch;
    size_t *rows = NULL;
    FAIL_IF(sscanf(words[1], "%zux%zu", &loader.width, &loader.height) != 2, context, L3A_ERROR_ARGUMENT, NULL, "a size");
    for (size_t c = 0; c < 3; c++) {
        loader.deviation[c] = 1.0f / 255;
    }
    TRY(l3a_dataset_open(context, words[0], NULL, NULL, &dataset));
    const size_t count = l3a_dataset_rows(dataset), numbers = 3 * loader.width * loader.height;
    rows = malloc((count ? count : 1) * sizeof *rows);
    FAIL_IF(!rows, context, L3A_ERROR_MEMORY, NULL, "no memory");
    for (size_t i = 0; i < count; i++) {
        rows[i] = i;
    }
    TRY(batches_open(context, dataset, rows, count, &options, &batches));
    TRY(batches_begin(batches, strtoull(words[10], NULL, 10), strtoull(words[11], NULL, 10)));
    do {
        TRY(batches_next(batches, &batch));
        for (size_t i = 0; i < batch.count; i++) {
            print_picture(dataset, batch.rows[i], batch.planes + i * numbers, numbers);
        }
    } while (batch.count);
done:
    batches_free(batches);
    l3a_dataset_free(dataset);
    free(rows);
    return status;
}

int main(int count, char **words) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    if (count != ARGUMENTS + 1) {
        return 2;
    }
    options.threads = atoi(words[ARGUMENTS]);
    if (l3a_context_create(&options, &context) != L3A_OK) {
        return 1;
    }
    const l3a_status status = print_pass(context, words + 1);
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n", l3a_error_text(context));
    }
    l3a_context_free(context);
    return status != L3A_OK;
}
