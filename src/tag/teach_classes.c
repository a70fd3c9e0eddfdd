/* The classes that a lesson names, and the labels of its pictures for all classes. */
#include "common/closest.h"
#include "base/text_index.h"
#include "tag/teach.h"

#include <stdio.h>
#include <string.h>

void teach_free_classes(struct teaching *teaching) {
    release(teaching->context, teaching->places);
    release(teaching->context, teaching->labels);
    release(teaching->context, teaching->other);
    text_list_clear(teaching->context, &teaching->classes);
    teaching->places = NULL;
    teaching->labels = teaching->other = NULL;
}

void teach_warn_of_likeness(const struct teaching *teaching) {
    const text_list *classes = &teaching->classes;
    for (size_t k = teaching->model->classes.count; k < classes->count; k++) {
        for (size_t i = 0; i < k; i++) {
            if (names_look_alike(classes->items[k], classes->items[i])) {
                report_warning(teaching->context, "'%s' is new, although there is '%s'; did you mean that?", classes->items[k],
                               classes->items[i]);
            }
        }
    }
}

/* Notes which classes of the lesson are shown by a picture that can be read, or has not been read yet. */
static void find_shown(const struct teaching *teaching, bool *shown) {
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        const struct lesson_picture *picture = &teaching->lesson->pictures[i];
        for (size_t j = 0; j < picture->marks.count && !teaching->plans[i].bad; j++) {
            const struct mark *mark = &picture->marks.items[j];
            shown[mark->class] = shown[mark->class] || mark->label == 1;
        }
    }
}

l3a_status teach_find_classes(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const text_list *old = &teaching->model->classes, *own = &teaching->lesson->classes;
    text_index known = {0};
    bool *shown = NULL;
    l3a_status status = L3A_OK;
    teach_free_classes(teaching);
    TRY(allocate(context, own->count, sizeof *teaching->places, &teaching->places));
    TRY(allocate_zeroed(context, own->count, sizeof *shown, &shown));
    find_shown(teaching, shown);
    TRY(text_index_make(context, old->items, old->count, &known));
    for (size_t k = 0; k < old->count; k++) {
        TRY(text_list_add(context, &teaching->classes, old->items[k], strlen(old->items[k])));
    }
    for (size_t k = 0; k < own->count; k++) {
        const size_t place = text_index_find(&known, own->items[k]);
        teaching->places[k] = place < old->count ? place : SIZE_MAX;
        if (place == old->count && shown[k]) {
            TRY(check_new_name(context, own->items[k]));
            teaching->places[k] = teaching->classes.count;
            TRY(text_list_add(context, &teaching->classes, own->items[k], strlen(own->items[k])));
        }
    }
    TRY(allocate(context, teaching->classes.count, 1, &teaching->labels));
    TRY(allocate(context, teaching->classes.count, 1, &teaching->other));
done:
    text_index_free(context, &known);
    release(context, shown);
    return status;
}

l3a_status teach_check_limits(const struct teaching *teaching) {
    const size_t all = teaching->classes.count, old = teaching->model->classes.count, most_new = teaching->options.most_new_classes,
                 most = teaching->options.most_classes;
    l3a_status status = L3A_OK;
    FAIL_IF(most_new && all - old > most_new, teaching->context, L3A_ERROR_CLASS, "teach them in several lessons",
            "the lesson has %zu new tags; %zu is the most", all - old, most_new);
    FAIL_IF(most && all > most && all > old, teaching->context, L3A_ERROR_CLASS,
            "use tags that there are, or teach these to another model",
            "the model would have %zu tags with the %zu new ones of this lesson; %zu is the most", all, all - old, most);
done:
    return status;
}

static l3a_status fail_unknown(const struct teaching *teaching, const char *who, const char *name) {
    char hint[512];
    const char *const *known = (const char *const *)teaching->classes.items;
    const char *close = closest_name(name, known, teaching->classes.count);
    snprintf(hint, sizeof hint, close ? "did you mean '%s'?" : "teach a picture that shows it first", close ? close : "");
    return fail(teaching->context, L3A_ERROR_CLASS, hint, "%s: no picture has been taught that shows '%s'", who, name);
}

/* The labels of marks for all classes. */
static l3a_status spread(const struct teaching *teaching, const char *who, const struct marks *marks, int8_t *labels) {
    memset(labels, marks->complete ? 0 : -1, teaching->classes.count);
    for (size_t i = 0; i < marks->count; i++) {
        const struct mark *mark = &marks->items[i];
        const size_t place = teaching->places[mark->class];
        if (place == SIZE_MAX) {
            return fail_unknown(teaching, who, teaching->lesson->classes.items[mark->class]);
        }
        labels[place] = mark->label;
    }
    return L3A_OK;
}

l3a_status teach_labels(const struct teaching *teaching, size_t index, int8_t *labels) {
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    return spread(teaching, picture->path, &picture->marks, labels);
}

l3a_status teach_labels_before(const struct teaching *teaching, int8_t *labels) {
    const size_t old = teaching->model->classes.count;
    l3a_status status = spread(teaching, "was", &teaching->was, labels);
    for (size_t k = old; k < teaching->classes.count && status == L3A_OK; k++) {
        if (labels[k] == 1) {
            return fail_unknown(teaching, "was", teaching->classes.items[k]);
        }
        labels[k] = -1;
    }
    return status;
}

void teach_labels_known(const struct teaching *teaching, const struct known *picture, int8_t *labels) {
    memset(labels, -1, teaching->classes.count);
    history_labels(teaching->history, picture, labels);
}
