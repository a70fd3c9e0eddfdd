/* What happens to each picture of a lesson, and the entry of the history that says so. */
#include "tag/teach.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- What was taught before ---- */

static bool is_file(const struct lesson_picture *picture) {
    return !picture->bytes && !picture->features;
}

/* The picture that the model knows with the same content or, failing that and if `by_path`, from the same file. */
static l3a_status find_known(const struct teaching *teaching, size_t index, bool by_path, struct known *found) {
    l3a_context *context = teaching->context;
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    char *absolute = NULL, *relative = NULL;
    l3a_status status = L3A_OK;
    *found = known_by_checksum(teaching->known, teaching->plans[index].checksum);
    if (by_path && is_file(picture) && !found->entry) {
        TRY(history_paths(teaching->history, picture->path, &absolute, &relative));
        *found = known_by_path(teaching->known, absolute, relative);
    }
done:
    release(context, absolute);
    release(context, relative);
    return status;
}

/* Whether a judgement says nothing that was not said before: the same classes are shown, and those named as absent were so. Classes
 * that have become known since do not matter. */
static bool says_the_same(const struct teaching *teaching, size_t index, const int8_t *labels, const int8_t *before) {
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    for (size_t k = 0; k < teaching->classes.count; k++) {
        if ((labels[k] == 1) != (before[k] == 1)) {
            return false;
        }
    }
    for (size_t i = 0; i < picture->marks.count; i++) {
        const size_t place = teaching->places[picture->marks.items[i].class];
        if (labels[place] != before[place]) {
            return false;
        }
    }
    return true;
}

/* Leaves a picture out that was taught in the same way: in this lesson, or in an earlier one. */
static l3a_status leave_out(struct teaching *teaching, size_t index, const char *twin, uint64_t lesson) {
    const char *path = teaching->lesson->pictures[index].path;
    char problem[1024];
    teaching->plans[index].fate = LEAVE_OUT;
    if (twin) {
        snprintf(problem, sizeof problem, "%s: is the same picture as %s", path, twin);
    } else {
        snprintf(problem, sizeof problem, "%s: was taught before in the same way, in lesson %" PRIu64, path, lesson);
    }
    return lesson_set_outcome(teaching->lesson, index, L3A_ERROR_EXISTS, problem);
}

l3a_status teach_find_seen(struct teaching *teaching) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        const struct lesson_picture *picture = &teaching->lesson->pictures[i];
        const struct picture_source source = lesson_source(picture);
        struct plan *plan = &teaching->plans[i];
        TRY(teach_labels(teaching, i, teaching->labels)); /* before time is spent on pictures */
        if (!teaching->known->count || picture->features || !picture_checksum(teaching->context, &source, &plan->checksum)) {
            continue;
        }
        TRY(find_known(teaching, i, false, &plan->known));
        if (plan->known.entry) {
            teach_labels_known(teaching, &plan->known, teaching->other);
            plan->seen = says_the_same(teaching, i, teaching->labels, teaching->other);
            TRY(plan->seen ? leave_out(teaching, i, NULL, plan->known.entry->number) : L3A_OK);
        }
    }
done:
    return status;
}

/* ---- Plans ---- */

/* Looks for the same picture earlier in the lesson. */
static l3a_status plan_twin(struct teaching *teaching, size_t index, const int8_t *labels, bool *found) {
    const l3a_lesson *lesson = teaching->lesson;
    const struct plan *plan = &teaching->plans[index];
    l3a_status status = L3A_OK;
    *found = false;
    for (size_t i = 0; i < index && !*found; i++) {
        if (teaching->plans[i].bad || teaching->plans[i].checksum != plan->checksum) {
            continue;
        }
        TRY(teach_labels(teaching, i, teaching->other));
        FAIL_IF(memcmp(labels, teaching->other, teaching->classes.count) != 0, teaching->context, L3A_ERROR_CLASS,
                "remove one of the two, or give them the same tags", "%s and %s are the same picture, with different tags",
                lesson->pictures[i].path, lesson->pictures[index].path);
        *found = true;
        TRY(leave_out(teaching, index, lesson->pictures[i].path, 0));
    }
done:
    return status;
}

static l3a_status plan_picture(struct teaching *teaching, size_t index) {
    l3a_context *context = teaching->context;
    const char *path = teaching->lesson->pictures[index].path;
    const bool instead = teaching->options.instead;
    struct plan *plan = &teaching->plans[index];
    bool twin;
    l3a_status status = L3A_OK;
    TRY(teach_labels(teaching, index, teaching->labels));
    TRY(plan_twin(teaching, index, teaching->labels, &twin));
    if (twin) {
        return L3A_OK;
    }
    TRY(find_known(teaching, index, instead, &plan->known));
    if (!plan->known.entry) {
        FAIL_IF(instead && !teaching->options.was && !history_is_complete(teaching->history), context, L3A_ERROR_STATE,
                "say how it was taught before ('was')", "%s: the history does not say how this picture was taught", path);
        plan->fate = instead && teaching->options.was ? REPLACE : ADD;
        return L3A_OK;
    }
    const struct known *known = &plan->known;
    teach_labels_known(teaching, known, teaching->other);
    if (says_the_same(teaching, index, teaching->labels, teaching->other)) {
        return leave_out(teaching, index, NULL, known->entry->number);
    }
    const char *tags = entry_tags(context, known->entry, known->row);
    FAIL_IF(!instead, context, L3A_ERROR_EXISTS, "to replace what was taught, teach it with 'instead'",
            "%s: lesson %" PRIu64 " taught this picture with %s%s", path, known->entry->number,
            tags && tags[0] ? "the tags " : "no tag", tags ? tags : "");
    plan->fate = REPLACE;
done:
    return status;
}

/* ---- The entry ---- */

/* Fills in a row with the labels in `labels`. */
static l3a_status fill_row(const struct teaching *teaching, struct entry *entry, size_t row, size_t index) {
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    struct pictured *to = &entry->rows[row];
    l3a_status status = L3A_OK;
    if (!is_file(picture)) {
        TRY(copy_text(teaching->context, picture->path, strlen(picture->path), &to->path));
        TRY(copy_text(teaching->context, "", 0, &to->relative));
    } else {
        TRY(history_paths(teaching->history, picture->path, &to->path, &to->relative));
    }
    to->checksum = teaching->plans[index].checksum;
    memcpy(entry->labels + row * teaching->classes.count, teaching->labels, teaching->classes.count);
done:
    return status;
}

/* A row that takes back what was taught before. */
static l3a_status fill_back(const struct teaching *teaching, struct entry *entry, size_t row, size_t index) {
    const struct known *picture = &teaching->plans[index].known;
    l3a_status status = L3A_OK;
    if (!picture->entry) {
        TRY(teach_labels_before(teaching, teaching->labels));
        TRY(fill_row(teaching, entry, row, index));
        return L3A_OK;
    }
    teach_labels_known(teaching, picture, teaching->labels);
    TRY(fill_row(teaching, entry, row, index));
    entry->rows[row].checksum = picture->entry->rows[picture->row].checksum;
    entry->rows[row].lesson = picture->entry->number;
    entry->rows[row].row = picture->row;
done:
    return status;
}

/* A class that no picture shows any more once rows have been taken back is not known any more: the new rows do not judge it, unless
 * they were told to. So it disappears if no other picture was judged for it. */
static void unknow_classes(const struct teaching *teaching, struct entry *entry, const size_t *indices) {
    const size_t classes = teaching->classes.count;
    for (size_t k = 0; k < teaching->model->classes.count; k++) {
        uint64_t shown = l3a_model_class_images(teaching->model, k);
        for (size_t i = 0; i < entry->row_count; i++) {
            const bool shows = entry->labels[i * classes + k] == 1;
            shown = shown + (shows && i >= entry->back_count) - (shows && i < entry->back_count);
        }
        for (size_t i = entry->back_count; i < entry->row_count && !shown; i++) {
            const struct lesson_picture *picture = &teaching->lesson->pictures[indices[i]];
            bool told = !picture->marks.complete;
            for (size_t j = 0; j < picture->marks.count; j++) {
                told = told || teaching->places[picture->marks.items[j].class] == k;
            }
            entry->labels[i * classes + k] = told ? entry->labels[i * classes + k] : -1;
        }
    }
}

/* Gives the entry the features of its rows. indices: the lesson's pictures in these rows. */
static l3a_status fill_features(struct teaching *teaching, struct entry *entry, const size_t *indices) {
    const struct journal *journal = &teaching->history->journal;
    bool as_read = !entry->back_count;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < entry->row_count; i++) {
        as_read = as_read && teaching->plans[indices[i]].row == i;
    }
    if (as_read) {
        entry->features = teaching->features;
        teaching->features = NULL;
        return L3A_OK;
    }
    TRY(allocate(teaching->context, entry->row_count, entry->width * sizeof *entry->features, &entry->features));
    for (size_t i = 0; i < entry->row_count; i++) {
        const struct plan *plan = &teaching->plans[indices[i]];
        float *to = entry->features + i * entry->width;
        if (i < entry->back_count && plan->known.entry) {
            TRY(journal_features(journal, plan->known.entry, plan->known.row, 1, to));
        } else {
            memcpy(to, teaching->features + plan->row * entry->width, entry->width * sizeof *to);
        }
    }
done:
    return status;
}

static l3a_status fill_entry(struct teaching *teaching, struct entry *entry) {
    size_t back = 0, add = entry->back_count, *indices = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(teaching->context, entry->row_count, sizeof *indices, &indices));
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        if (teaching->plans[i].fate == REPLACE) {
            indices[back] = i;
            TRY(fill_back(teaching, entry, back++, i));
        }
        if (teaching->plans[i].fate != LEAVE_OUT) {
            indices[add] = i;
            TRY(teach_labels(teaching, i, teaching->labels));
            TRY(fill_row(teaching, entry, add++, i));
        }
    }
    if (back) {
        unknow_classes(teaching, entry, indices);
    }
    TRY(fill_features(teaching, entry, indices));
done:
    release(teaching->context, indices);
    return status;
}

l3a_status teach_make_entry(struct teaching *teaching, struct entry **made) {
    l3a_context *context = teaching->context;
    struct entry *entry = NULL;
    size_t add = 0, back = 0;
    l3a_status status = L3A_OK;
    *made = NULL;
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        if (!teaching->plans[i].bad && !teaching->plans[i].seen) {
            TRY(plan_picture(teaching, i));
        }
        add += teaching->plans[i].fate != LEAVE_OUT;
        back += teaching->plans[i].fate == REPLACE;
    }
    if (!add) {
        return L3A_OK;
    }
    TRY(entry_create(context, ENTRY_TEACH, &entry));
    TRY(allocate_zeroed(context, add + back, sizeof *entry->rows, &entry->rows));
    entry->row_count = add + back;
    entry->back_count = back;
    entry->pictures = add;
    entry->width = teaching->width;
    entry->new_classes = teaching->classes.count - teaching->model->classes.count;
    TRY(allocate(context, add + back, teaching->classes.count, &entry->labels));
    TRY(fill_entry(teaching, entry));
    entry->classes = teaching->classes;
    teaching->classes = (text_list){0};
    *made = entry;
    entry = NULL;
done:
    entry_free(context, entry);
    return status;
}
