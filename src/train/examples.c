#include "train/examples.h"

#include "base/stream.h"
#include "data/dataset.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

enum { FEWEST_HELD = 10 };

static bool belongs(const struct examples *examples, size_t row, bool listed) {
    const size_t all = l3a_dataset_class_count(examples->dataset);
    const int8_t *labels = l3a_dataset_labels(examples->dataset) + row * all;
    const int8_t *members = l3a_dataset_members(examples->dataset) + row * all;
    bool known = false, member = !listed;
    for (size_t k = 0; k < examples->classes; k++) {
        known = known || labels[examples->columns[k]] >= 0;
        member = member || members[examples->columns[k]];
    }
    return known && member;
}

l3a_status examples_choose(l3a_context *context, const l3a_dataset *dataset, const char *const *classes, size_t class_count,
                           bool listed, struct examples *examples) {
    const size_t all = l3a_dataset_class_count(dataset), rows = l3a_dataset_rows(dataset);
    l3a_status status = L3A_OK;
    *examples = (struct examples){.dataset = dataset, .classes = class_count};
    TRY(allocate(context, class_count, sizeof *examples->columns, &examples->columns));
    for (size_t k = 0; k < class_count; k++) {
        examples->columns[k] = dataset_find_class(dataset, classes[k]);
        FAIL_IF(examples->columns[k] == all, context, L3A_ERROR_CLASS, "name classes as `l3a data` lists them",
                "%s has no class '%.200s'", dataset->name, classes[k]);
        for (size_t j = 0; j < k; j++) {
            FAIL_IF(examples->columns[j] == examples->columns[k], context, L3A_ERROR_CLASS, NULL,
                    "the class '%.200s' is listed twice", classes[k]);
        }
    }
    TRY(allocate(context, rows, sizeof *examples->rows, &examples->rows));
    for (size_t row = 0; row < rows; row++) {
        if (belongs(examples, row, listed)) {
            examples->rows[examples->count++] = row;
        }
    }
done:
    return status;
}

l3a_status examples_hold(l3a_context *context, double share, uint64_t seed, struct examples *examples, struct examples *held) {
    const size_t wanted = (size_t)(share * (double)examples->count);
    struct stream stream = {seed, 0};
    size_t *order = NULL, kept = 0;
    l3a_status status = L3A_OK;
    *held = (struct examples){.dataset = examples->dataset};
    if (wanted < FEWEST_HELD) {
        return L3A_OK;
    }
    held->classes = examples->classes;
    TRY(allocate(context, examples->count, sizeof *order, &order));
    TRY(allocate(context, held->classes, sizeof *held->columns, &held->columns));
    TRY(allocate(context, wanted, sizeof *held->rows, &held->rows));
    memcpy(held->columns, examples->columns, held->classes * sizeof *held->columns);
    stream_shuffle(&stream, order, examples->count);
    for (size_t i = 0; i < examples->count; i++) { /* picture i is at place order[i] of the draw */
        if (order[i] < wanted) {
            held->rows[held->count++] = examples->rows[i];
        } else {
            examples->rows[kept++] = examples->rows[i];
        }
    }
    examples->count = kept;
done:
    release(context, order);
    return status;
}

void examples_labels(const struct examples *examples, const size_t *rows, size_t count, int8_t *labels) {
    const size_t all = l3a_dataset_class_count(examples->dataset);
    const int8_t *from = l3a_dataset_labels(examples->dataset);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < examples->classes; k++) {
            labels[i * examples->classes + k] = from[rows[i] * all + examples->columns[k]];
        }
    }
}

l3a_status examples_checksum(l3a_context *context, const struct examples *examples, uint64_t *checksum) {
    l3a_status status = L3A_OK;
    int8_t *labels = NULL;
    XXH3_state_t state;
    TRY(allocate(context, examples->classes, 1, &labels));
    XXH3_64bits_reset(&state);
    for (size_t i = 0; i < examples->count; i++) {
        const char *id = l3a_dataset_id(examples->dataset, examples->rows[i]);
        examples_labels(examples, &examples->rows[i], 1, labels);
        XXH3_64bits_update(&state, id, strlen(id) + 1);
        XXH3_64bits_update(&state, labels, examples->classes);
    }
    for (size_t k = 0; k < examples->classes; k++) {
        const char *name = l3a_dataset_class(examples->dataset, examples->columns[k]);
        XXH3_64bits_update(&state, name, strlen(name) + 1);
    }
    *checksum = XXH3_64bits_digest(&state);
done:
    release(context, labels);
    return status;
}

void examples_free(l3a_context *context, struct examples *examples) {
    release(context, examples->columns);
    release(context, examples->rows);
    *examples = (struct examples){.dataset = NULL};
}
