/* Renaming a class, and merging it into another one. */
#include "learn/model.h"
#include "tag/history.h"
#include "tag/lesson.h"

#include <string.h>

/* Puts a picture that shows both classes into the entry: as it was judged, to be taken back, and with one class of the two. */
static l3a_status add_both(const l3a_history *history, struct entry *entry, const struct known *picture, size_t at,
                           const int8_t *labels) {
    l3a_context *context = history->context;
    const size_t classes = entry->classes.count, halves[2] = {at, entry->back_count + at};
    const struct pictured *row = &picture->entry->rows[picture->row];
    l3a_status status = L3A_OK;
    for (size_t half = 0; half < 2; half++) {
        struct pictured *to = &entry->rows[halves[half]];
        int8_t *own = entry->labels + halves[half] * classes;
        TRY(copy_text(context, row->path, strlen(row->path), &to->path));
        TRY(copy_text(context, row->relative, strlen(row->relative), &to->relative));
        to->checksum = row->checksum;
        to->lesson = half ? 0 : picture->entry->number;
        to->row = half ? 0 : picture->row;
        for (size_t k = 0; k < classes; k++) {
            own[k] = labels[text_list_find(&(*history->model)->classes, entry->classes.items[k])];
        }
        own[0] = half ? -1 : own[0];
        TRY(journal_features(&history->journal, picture->entry, picture->row, 1, entry->features + halves[half] * entry->width));
    }
done:
    return status;
}

/* The old and the new name, then the other classes of the model. */
static l3a_status list_classes(const l3a_model *model, const char *old_name, const char *new_name, bool all, text_list *classes) {
    l3a_status status = L3A_OK;
    TRY(text_list_add(model->context, classes, old_name, strlen(old_name)));
    TRY(text_list_add(model->context, classes, new_name, strlen(new_name)));
    for (size_t k = 0; all && k < model->classes.count; k++) {
        const char *name = model->classes.items[k];
        if (strcmp(name, old_name) != 0 && strcmp(name, new_name) != 0) {
            TRY(text_list_add(model->context, classes, name, strlen(name)));
        }
    }
done:
    return status;
}

/* The pictures that show both classes, which would count twice: they come first in `pictures`. */
static l3a_status find_both(const l3a_history *history, size_t from, size_t to, struct known *pictures, size_t *count) {
    int8_t *labels = NULL;
    size_t found = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(history->context, (*history->model)->classes.count, 1, &labels));
    for (size_t i = 0; i < *count; i++) {
        history_labels(history, &pictures[i], labels);
        if (labels[from] == 1 && labels[to] == 1) {
            pictures[found++] = pictures[i];
        }
    }
    *count = found;
done:
    release(history->context, labels);
    return status;
}

static l3a_status fill_merge(const l3a_history *history, struct entry *entry, const struct known *pictures, size_t count) {
    l3a_context *context = history->context;
    int8_t *labels = NULL;
    l3a_status status = L3A_OK;
    entry->width = count ? model_image(*history->model) : 0;
    TRY(allocate_zeroed(context, 2 * count, sizeof *entry->rows, &entry->rows));
    entry->row_count = 2 * count;
    entry->back_count = count;
    TRY(allocate(context, 2 * count, entry->classes.count, &entry->labels));
    TRY(allocate(context, 2 * count, entry->width * sizeof *entry->features, &entry->features));
    TRY(allocate(context, (*history->model)->classes.count, 1, &labels));
    for (size_t i = 0; i < count; i++) {
        history_labels(history, &pictures[i], labels);
        TRY(add_both(history, entry, &pictures[i], i, labels));
    }
done:
    release(context, labels);
    return status;
}

static l3a_status make_merge(const l3a_history *history, size_t from, size_t to, struct entry *entry) {
    struct known *pictures = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(history_known(history, &pictures, &count));
    TRY(find_both(history, from, to, pictures, &count));
    TRY(fill_merge(history, entry, pictures, count));
done:
    release(history->context, pictures);
    return status;
}

l3a_status l3a_history_rename(l3a_history *history, const char *old_name, const char *new_name, int *exact) {
    REQUIRE(history, history, old_name, new_name, exact);
    l3a_context *context = history->context;
    const l3a_model *model = *history->model;
    const size_t from = text_list_find(&model->classes, old_name), to = text_list_find(&model->classes, new_name);
    const bool merges = from < model->classes.count && to < model->classes.count && from != to;
    l3a_teach_report report = {.size = sizeof report};
    struct entry *entry = NULL;
    l3a_status status = L3A_OK;
    TRY(check_class_name(context, new_name));
    TRY(to < model->classes.count ? L3A_OK : check_new_name(context, new_name));
    FAIL_IF(from == to && from < model->classes.count, context, L3A_ERROR_CLASS, NULL, "'%s' has this name already", old_name);
    TRY(entry_create(context, merges ? ENTRY_MERGE : ENTRY_RENAME, &entry));
    TRY(list_classes(model, old_name, new_name, merges, &entry->classes));
    if (merges) {
        TRY(make_merge(history, from, to, entry));
    }
    const bool complete = history_is_complete(history);
    *exact = !merges || (complete && model->options.weights == L3A_WEIGHTS_NONE);
    status = history_apply(history, entry, true, &report);
    entry = NULL;
done:
    entry_free(context, entry);
    return status;
}
