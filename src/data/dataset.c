/* Data sets: finding the kind that a name means, and what all kinds have in common. */
#include "data/dataset.h"

#include "base/file.h"
#include "base/machine.h"
#include "common/utf8.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>

enum { CLASS_LIMIT = 1 << 16, CLASS_NAME_LIMIT = 256 };

static const struct dataset_kind *const kinds[] = {&voc_kind, &coco_kind, &list_kind, &folders_kind, &tar_kind};

/* *place is the text after the colon. */
static l3a_status find_kind(l3a_context *context, const char *name, const struct dataset_kind **kind, const char **place) {
    char forms[160] = "";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t length = strlen(kinds[i]->prefix), used = strlen(forms);
        if (strncmp(name, kinds[i]->prefix, length) == 0 && name[length] == ':' && name[length + 1]) {
            *kind = kinds[i];
            *place = name + length + 1;
            return L3A_OK;
        }
        snprintf(forms + used, sizeof forms - used, "%s%s", i ? ", " : "", kinds[i]->form);
    }
    return fail(context, L3A_ERROR_OPTION, "use for example voc:VOCdevkit", "'%s' does not name a data set; the forms are %s", name,
                forms);
}

l3a_status l3a_dataset_open(l3a_context *context, const char *name, const char *split, const l3a_dataset_options *options,
                            l3a_dataset **dataset) {
    l3a_status status = L3A_OK;
    const struct dataset_kind *kind;
    const char *place;
    l3a_dataset_options chosen;
    l3a_dataset *made = NULL;
    NEED(context, context, name, dataset);
    TRY(READ_SIZED(context, options, chosen));
    TRY(find_kind(context, name, &kind, &place));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(copy_text(context, name, strlen(name), &made->name));
    TRY(copy_text(context, split ? split : "", split ? strlen(split) : 0, &made->split));
    TRY(kind->open(made, place, split, &chosen));
    if (chosen.ignore_difficult && !made->ignores_difficult) {
        report_warning(context, "%s: ignoring difficult objects has no effect: only VOC marks objects as difficult", name);
    }
    *dataset = made;
    made = NULL;
done:
    l3a_dataset_free(made);
    return status;
}

l3a_status l3a_dataset_splits(l3a_context *context, const char *name, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    const struct dataset_kind *kind;
    const char *place;
    text_list splits = {0};
    NEED(context, context, name, text);
    FAIL_IF(!capacity, context, L3A_ERROR_ARGUMENT, NULL, "no room for the names of the splits");
    TRY(find_kind(context, name, &kind, &place));
    TRY(kind->splits(context, place, &splits));
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < splits.count && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? " " : "", splits.items[i]);
    }
done:
    text_list_clear(context, &splits);
    return status;
}

l3a_status l3a_dataset_usual_splits(l3a_context *context, const char *name, char *train, char *test, size_t capacity) {
    l3a_status status = L3A_OK;
    const struct dataset_kind *kind;
    const char *place;
    text_list splits = {0};
    NEED(context, context, name, train, test);
    FAIL_IF(!capacity, context, L3A_ERROR_ARGUMENT, NULL, "no room for the names of the splits");
    TRY(find_kind(context, name, &kind, &place));
    TRY(kind->splits(context, place, &splits));
    train[0] = test[0] = '\0';
    for (size_t i = 0; i < sizeof kind->usual / sizeof kind->usual[0] && kind->usual[i][0] && !train[0]; i++) {
        const char *const *pair = kind->usual[i];
        if (text_list_find(&splits, pair[0]) < splits.count && text_list_find(&splits, pair[1]) < splits.count) {
            snprintf(train, capacity, "%s", pair[0]);
            snprintf(test, capacity, "%s", pair[1]);
        }
    }
done:
    text_list_clear(context, &splits);
    return status;
}

void l3a_dataset_free(l3a_dataset *dataset) {
    if (!dataset) {
        return;
    }
    l3a_context *context = dataset->context;
    release(context, dataset->name);
    release(context, dataset->split);
    text_list_clear(context, &dataset->classes);
    text_index_free(context, &dataset->class_index);
    text_pool_clear(context, &dataset->ids);
    text_pool_clear(context, &dataset->paths);
    text_list_clear(context, &dataset->archives);
    release(context, dataset->spans);
    release(context, dataset->labels);
    release(context, dataset->members);
    release(context, dataset);
}

size_t l3a_dataset_rows(const l3a_dataset *dataset) {
    return dataset ? dataset->ids.count : 0;
}

size_t l3a_dataset_class_count(const l3a_dataset *dataset) {
    return dataset ? dataset->classes.count : 0;
}

const char *l3a_dataset_class(const l3a_dataset *dataset, size_t index) {
    return dataset && index < dataset->classes.count ? dataset->classes.items[index] : NULL;
}

const int8_t *l3a_dataset_labels(const l3a_dataset *dataset) {
    return dataset ? dataset->labels : NULL;
}

const int8_t *l3a_dataset_members(const l3a_dataset *dataset) {
    return dataset ? dataset->members : NULL;
}

const char *l3a_dataset_id(const l3a_dataset *dataset, size_t row) {
    return dataset ? text_pool_at(&dataset->ids, row) : NULL;
}

const char *l3a_dataset_path(const l3a_dataset *dataset, size_t row) {
    return dataset ? text_pool_at(&dataset->paths, row) : NULL;
}

const char *l3a_dataset_archive(const l3a_dataset *dataset, size_t row, uint64_t *offset, uint64_t *bytes) {
    if (!dataset || !dataset->spans || row >= dataset->ids.count) {
        return NULL;
    }
    const struct archive_span *span = &dataset->spans[row];
    if (offset) {
        *offset = span->offset;
    }
    if (bytes) {
        *bytes = span->size;
    }
    return span->archive;
}

struct picture_source dataset_source(const struct l3a_dataset *dataset, size_t row) {
    struct picture_source source = {.name = l3a_dataset_path(dataset, row)};
    if (dataset->spans) {
        source.span = dataset->spans[row];
    }
    return source;
}

l3a_status dataset_full_name(const struct l3a_dataset *dataset, char **name) {
    l3a_context *context = dataset->context;
    l3a_status status = L3A_OK;
    const char *place = strchr(dataset->name, ':') + 1;
    file_description about;
    char *path = NULL;
    text_builder text = {.context = context};
    if (context->files->describe(place, &about) == 0) {
        TRY(resolve_path(context, place, &path));
    }
    text_builder_print(&text, "%.*s%s", (int)(place - dataset->name), dataset->name, path ? path : place);
    TRY(text.status);
    *name = text.text;
    text = (text_builder){.context = context};
done:
    text_builder_free(&text);
    release(context, path);
    return status;
}

size_t l3a_dataset_disagreements(const l3a_dataset *dataset) {
    return dataset ? dataset->disagreements : 0;
}

l3a_status add_distinct(l3a_context *context, char **texts, size_t count, text_list *distinct) {
    l3a_status status = L3A_OK;
    if (count) {
        sort_texts(texts, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0) {
            TRY(text_list_add(context, distinct, texts[i], strlen(texts[i])));
        }
    }
done:
    return status;
}

static bool has_control_character(const char *text) {
    while (*text && (unsigned char)*text >= 0x20 && *text != 0x7F) {
        text++;
    }
    return *text != '\0';
}

l3a_status dataset_set_classes(struct l3a_dataset *dataset, const char *place, text_list *names) {
    l3a_context *context = dataset->context;
    l3a_status status = L3A_OK;
    dataset->classes = *names;
    memset(names, 0, sizeof *names);
    const text_list *classes = &dataset->classes;
    FAIL_IF(!classes->count, context, L3A_ERROR_CLASS, "add labels: without them there is nothing to learn", "%s: no classes",
            place);
    FAIL_IF(classes->count > CLASS_LIMIT, context, L3A_ERROR_CLASS, NULL, "%s: has %zu classes; at most %d are supported", place,
            classes->count, CLASS_LIMIT);
    for (size_t i = 0; i < classes->count; i++) {
        const char *name = classes->items[i];
        FAIL_IF(!name[0] || strlen(name) > CLASS_NAME_LIMIT || has_control_character(name) || !is_utf8(name), context,
                L3A_ERROR_CLASS, "use UTF-8 text of at most 256 bytes, on one line, as a class name",
                "%s: '%.64s' cannot be the name of a class", place, name);
        FAIL_IF(i && strcmp(classes->items[i - 1], name) == 0, context, L3A_ERROR_CLASS, "give every class its own name",
                "%s: class '%s' is listed twice", place, name);
    }
    TRY(text_index_make(context, classes->items, classes->count, &dataset->class_index));
done:
    return status;
}

size_t dataset_find_class(const struct l3a_dataset *dataset, const char *name) {
    return text_index_find(&dataset->class_index, name);
}

l3a_status dataset_add_row(struct l3a_dataset *dataset, const char *id, const char *folder, const char *file) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(join_path(dataset->context, folder, file, &path));
    TRY(text_pool_add(dataset->context, &dataset->paths, path, strlen(path)));
    TRY(text_pool_add(dataset->context, &dataset->ids, id, strlen(id)));
done:
    release(dataset->context, path);
    return status;
}

l3a_status dataset_add_member(struct l3a_dataset *dataset, const char *name, const struct archive_span *span) {
    const size_t row = dataset->ids.count;
    l3a_status status = L3A_OK;
    TRY(grow_array(dataset->context, &dataset->spans, &dataset->span_capacity, row + 1, sizeof *dataset->spans));
    dataset->spans[row] = *span;
    TRY(dataset_add_row(dataset, name, span->archive, name));
done:
    return status;
}

static l3a_status refuse_double_ids(const struct l3a_dataset *dataset, const char *place) {
    l3a_status status = L3A_OK;
    text_index index;
    size_t first;
    TRY(text_index_make_pool(dataset->context, &dataset->ids, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < index.count && dataset->spans, dataset->context, L3A_ERROR_DATA,
            "give the pictures of all archives different names, or use the archives one by one", "%s: '%s' is in %s and in %s",
            place, l3a_dataset_id(dataset, second), dataset->spans[first].archive, dataset->spans[second].archive);
    FAIL_IF(second < index.count, dataset->context, L3A_ERROR_DATA, "list every picture once", "%s: picture '%s' is listed twice",
            place, l3a_dataset_id(dataset, second));
done:
    text_index_free(dataset->context, &index);
    return status;
}

l3a_status dataset_make_labels(struct l3a_dataset *dataset, const char *place) {
    l3a_context *context = dataset->context;
    l3a_status status = L3A_OK;
    const size_t rows = dataset->ids.count, classes = dataset->classes.count;
    const uint64_t limit = context->options.memory_limit ? context->options.memory_limit : machine_memory_available();
    FAIL_IF(!rows, context, L3A_ERROR_DATA, "check that this is the right split", "%s: no pictures", place);
    TRY(refuse_double_ids(dataset, place));
    FAIL_IF(limit && rows > limit / 2 / classes, context, L3A_ERROR_MEMORY, "check that this is the right file",
            "%s: the labels of %zu pictures and %zu classes do not fit in memory", place, rows, classes);
    TRY(allocate_zeroed(context, rows, classes, &dataset->labels));
    TRY(allocate_zeroed(context, rows, classes, &dataset->members));
done:
    return status;
}

static void append(char *text, size_t capacity, const char *separator, const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, capacity - used, "%s%s", separator, more);
}

l3a_status check_split(l3a_context *context, const char *place, const char *split, const text_list *splits) {
    if (split && text_list_find(splits, split) < splits->count) {
        return L3A_OK;
    }
    char there[400] = "";
    for (size_t i = 0; i < splits->count && i < 16; i++) {
        append(there, sizeof there, " ", splits->items[i]);
    }
    return split ? fail(context, L3A_ERROR_NOT_FOUND, "choose one of these splits", "%s: no split '%s'; the splits are:%s%s", place,
                        split, there, splits->count > 16 ? " …" : "")
                 : fail(context, L3A_ERROR_OPTION, "choose one of these splits", "%s: no split was chosen; the splits are:%s%s",
                        place, there, splits->count > 16 ? " …" : "");
}

void describe_folder(l3a_context *context, const char *path, char *text, size_t capacity) {
    enum { SHOWN = 8 };
    text_list names = {0};
    snprintf(text, capacity, "it cannot be listed");
    if (list_folder(context, path, &names) == L3A_OK) {
        snprintf(text, capacity, names.count ? "it holds" : "it is empty");
        for (size_t i = 0; i < names.count && i < SHOWN; i++) {
            append(text, capacity, i ? ", " : " ", names.items[i]);
        }
        if (names.count > SHOWN) {
            append(text, capacity, ", ", "…");
        }
    }
    text_list_clear(context, &names);
}
