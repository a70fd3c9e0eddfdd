#include "data/features.h"

#include "common/closest.h"
#include "common/number.h"
#include "base/text_index.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <string.h>

enum { CLASS_LIMIT = 1 << 14 };

const char *const provenance[PROVENANCE] = {"backbone", "sha256", "preprocess", "pool", "network"};

size_t provenance_conflict(const char *const mine[PROVENANCE], const char *const theirs[PROVENANCE]) {
    enum { NAME, CHECKSUM, NETWORK = PROVENANCE - 1 };
    const bool same = mine[CHECKSUM] && theirs[CHECKSUM] && strcmp(mine[CHECKSUM], theirs[CHECKSUM]) == 0;
    size_t i = same ? CHECKSUM : NAME;
    while (i < PROVENANCE && !(mine[i] && theirs[i] && strcmp(mine[i], theirs[i]) != 0)) {
        i++;
    }
    return i == PROVENANCE && same && !mine[NETWORK] != !theirs[NETWORK] ? NETWORK : i;
}

bool provenance_is_new(const char *const values[PROVENANCE]) {
    static const char *const new_pools[] = {"max", "map", "projection"};
    enum { PREPROCESS = 2, POOL, NETWORK };
    bool is_new = values[NETWORK] || (values[PREPROCESS] && strstr(values[PREPROCESS], " crop "));
    for (size_t i = 0; values[POOL] && i < sizeof new_pools / sizeof *new_pools; i++) {
        is_new = is_new || strcmp(values[POOL], new_pools[i]) == 0;
    }
    return is_new;
}

const char *provenance_text(const char *value) {
    return value ? value : "as usual";
}

const char difficult_record[] = "difficult", views_record[] = "views", bad_record[] = "bad";
const char shard_record[] = "shard", extraction_record[] = "extraction", batches_record[] = "batches", engine_record[] = "engine";

bool shard_parse(const char *text, uint64_t *shard, uint64_t *shards) {
    const char *slash = strchr(text, '/');
    return slash && integer_parse(text, (size_t)(slash - text), shard) && integer_parse(slash + 1, strlen(slash + 1), shards) &&
           *shard && *shard <= *shards && *shards <= SHARD_LIMIT;
}

l3a_status features_create(l3a_context *context, const char *path, l3a_features **features) {
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->input.file = made->label_input.file = -1;
    made->views = made->stored = 1;
    TRY(copy_text(context, path, strlen(path), &made->owned_path));
    made->path = made->owned_path;
    *features = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

void l3a_features_free(l3a_features *features) {
    if (!features) {
        return;
    }
    l3a_context *context = features->context;
    release(context, features->owned_path);
    text_list_clear(context, &features->classes);
    text_list_clear(context, &features->ids);
    text_list_clear(context, &features->record_keys);
    text_list_clear(context, &features->record_values);
    release(context, features->labels.owned);
    release(context, features->members.owned);
    id_reader_free(context, features->id_reader);
    release(context, features->owned_values);
    input_close(&features->input);
    input_close(&features->label_input);
    release(context, features->features.name);
    release(context, features);
}

static l3a_status check_class_count(const l3a_features *features) {
    return features->classes.count <= CLASS_LIMIT ? L3A_OK
                                                  : fail(features->context, L3A_ERROR_CLASS, "check that this is the right file",
                                                         "%s: more than %d classes", features->path, CLASS_LIMIT);
}

l3a_status features_check_classes(l3a_features *features) {
    const text_list *classes = &features->classes;
    l3a_status status = L3A_OK;
    text_index index = {0};
    size_t first = 0;
    TRY(check_class_count(features));
    for (size_t i = 0; i < classes->count; i++) {
        FAIL_IF(!classes->items[i][0] || strchr(classes->items[i], '\n'), features->context, L3A_ERROR_CLASS,
                "give every class a name, on one line", "%s: class %zu has no usable name", features->path, i);
    }
    TRY(text_index_make(features->context, classes->items, classes->count, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < classes->count, features->context, L3A_ERROR_CLASS, "give every class its own column and its own name",
            "%s: class '%s' is listed twice, at %zu and %zu", features->path, classes->items[second], first, second);
done:
    text_index_free(features->context, &index);
    return status;
}

static const char in_memory[] = "features in memory";

l3a_status features_borrow(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t views, size_t width,
                           const text_list *classes, l3a_features *features) {
    *features = (l3a_features){.context = context,
                               .path = in_memory,
                               .rows = rows,
                               .width = width,
                               .views = views,
                               .stored = views,
                               .classes = *classes,
                               .labels = {.held = classes->count ? labels : NULL, .count = rows},
                               .values = values,
                               .input = {.file = -1},
                               .label_input = {.file = -1}};
    return check_class_count(features);
}

l3a_status l3a_features_wrap(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t views,
                             size_t width, const char *const *classes, size_t class_count, l3a_features **features) {
    l3a_status status = L3A_OK;
    l3a_features *made = NULL;
    NEED(context, context, values, features);
    FAIL_IF(!rows || !width, context, L3A_ERROR_ARGUMENT, NULL, "l3a_features_wrap: %zu rows of %zu numbers", rows, width);
    FAIL_IF(!views || views >= VIEWS_LIMIT, context, L3A_ERROR_ARGUMENT, "use 1, or the number of crops",
            "l3a_features_wrap: %zu views", views);
    if (class_count) {
        NEED(context, labels, classes);
        TRY(need_items(context, __func__, "classes", classes, class_count));
    }
    TRY(features_create(context, in_memory, &made));
    made->rows = rows;
    made->width = width;
    made->views = made->stored = views;
    made->values = values;
    made->labels = (struct marks){.held = class_count ? labels : NULL, .count = rows};
    for (size_t i = 0; i < class_count; i++) {
        TRY(text_list_add(context, &made->classes, classes[i], strlen(classes[i])));
    }
    TRY(features_check_classes(made));
    for (size_t i = 0; i < rows * class_count; i++) {
        FAIL_IF(labels[i] < -1 || labels[i] > 1, context, L3A_ERROR_DATA, "use 1 (present), 0 (absent) or -1 (unknown) as a label",
                "%s: row %zu, column %zu: label %d", made->path, i / class_count, i % class_count, labels[i]);
    }
    *features = made;
    made = NULL;
done:
    l3a_features_free(made);
    return status;
}

size_t l3a_features_rows(const l3a_features *features) {
    return features ? features->rows : 0;
}

size_t l3a_features_width(const l3a_features *features) {
    return features ? features->width : 0;
}

size_t l3a_features_views(const l3a_features *features) {
    return features ? features->views : 0;
}

l3a_status l3a_features_use_views(l3a_features *features, size_t views) {
    l3a_status status = L3A_OK;
    NEED(features ? features->context : NULL, features);
    size_t first;
    FAIL_IF(!views_within(views, features->stored, &first), features->context, L3A_ERROR_MISMATCH,
            features->stored == 1 ? "extract the features with views" : "use those that it has, or 1; of 14, also 5 or 9",
            "%s: %zu views are wanted, but the table has %zu", features->path, views, features->stored);
    features->views = views;
done:
    return status;
}

size_t l3a_features_class_count(const l3a_features *features) {
    return features ? features->classes.count : 0;
}

const char *l3a_features_class(const l3a_features *features, size_t index) {
    return features && index < features->classes.count ? features->classes.items[index] : NULL;
}

l3a_status l3a_features_set_ids(l3a_features *features, const char *const *ids, size_t count) {
    l3a_context *context = features ? features->context : NULL;
    l3a_status status = L3A_OK;
    text_list copies = {0};
    uint64_t bytes = 0;
    NEED(context, features, ids);
    TRY(need_items(context, __func__, "ids", ids, count));
    FAIL_IF(count != features->rows, context, L3A_ERROR_ARGUMENT, "give each row one name", "%s: %zu ids for %zu rows",
            features->path, count, features->rows);
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(strchr(ids[i], '\n'), context, L3A_ERROR_DATA, "give every picture a name on one line",
                "%s: the id of row %zu has a line break", features->path, i);
        TRY(text_list_add(context, &copies, ids[i], strlen(ids[i])));
        bytes += strlen(ids[i]) + 1;
    }
    text_list_clear(context, &features->ids);
    features->ids = copies;
    features->id_bytes = bytes;
    copies = (text_list){0};
done:
    text_list_clear(context, &copies);
    return status;
}

const char *l3a_features_record(const l3a_features *features, const char *key) {
    const size_t index = features && key ? text_list_find(&features->record_keys, key) : SIZE_MAX;
    return features && index < features->record_values.count ? features->record_values.items[index] : NULL;
}

l3a_status l3a_features_set_record(l3a_features *features, const char *key, const char *value) {
    l3a_status status = L3A_OK;
    NEED(features ? features->context : NULL, features, key, value);
    TRY(text_record_set(features->context, &features->record_keys, &features->record_values, key, value));
done:
    return status;
}

l3a_status l3a_features_checksum(l3a_features *features, uint64_t *checksum) {
    l3a_status status = L3A_OK;
    XXH3_state_t state;
    NEED(features ? features->context : NULL, features, checksum);
    if (features->input.file >= 0) {
        TRY(input_checksum(&features->input, 0, features->input.size, checksum));
        goto done;
    }
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, features->values,
                       features->rows * view_rows(features->stored) * features->width * sizeof *features->values);
    if (features->labels.held) {
        XXH3_64bits_update(&state, features->labels.held, features->rows * features->classes.count);
    }
    *checksum = XXH3_64bits_digest(&state);
done:
    return status;
}

l3a_status features_columns(l3a_features *features, const char *const *classes, size_t count, size_t *columns) {
    l3a_status status = L3A_OK;
    text_index index = {0};
    FAIL_IF(!features->labels.held, features->context, L3A_ERROR_DATA,
            "use a feature file with labels, or give labels with the .npy file", "%s: no labels", features->path);
    TRY(text_index_make(features->context, features->classes.items, features->classes.count, &index));
    for (size_t i = 0; i < count; i++) {
        columns[i] = text_index_find(&index, classes[i]);
        if (columns[i] == features->classes.count) {
            char hint[128];
            suggest_closest(hint, sizeof hint, classes[i], (const char *const *)features->classes.items, features->classes.count,
                            "check the class names in the file");
            status = fail(features->context, L3A_ERROR_CLASS, hint, "%s: no class '%s'", features->path, classes[i]);
            goto done;
        }
    }
done:
    text_index_free(features->context, &index);
    return status;
}
