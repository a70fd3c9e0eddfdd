/* Taking back any lesson, not only the last: a new entry, which takes back what the model still knows from that lesson, and teaches
 * again what the lesson itself had replaced. So it is one change like any other, which can be undone.
 *
 * Pictures that later lessons judged anew stay as these judged them. A tag that nothing shows any more afterwards is forgotten: the
 * pictures that were judged not to show it are no longer judged for it, as in a model that never heard of it. The new entry teaches
 * them again, and they still count as those of their own lessons, which can be taken back later. */
#include "base/sized.h"
#include "learn/model.h"
#include "tag/history_private.h"

#include <inttypes.h>
#include <string.h>

/* A picture as it was judged, and what the new entry makes of it. */
struct change_of {
    struct known picture;
    bool back; /* the model knows it, and shall not; otherwise it is taught again */
};

struct reverting {
    l3a_history *history;
    l3a_context *context;
    const l3a_model *model;
    size_t classes;
    struct change_of *changes;
    size_t count, capacity;
    size_t own;      /* those of the lesson itself, which come first */
    int8_t *labels;  /* [2 x classes] */
    bool *forgotten; /* classes that nothing shows any more */
};

static l3a_status add_change(struct reverting *reverting, struct known picture, bool back) {
    l3a_status status = L3A_OK;
    TRY(grow_array(reverting->context, &reverting->changes, &reverting->capacity, reverting->count + 1,
                   sizeof *reverting->changes));
    reverting->changes[reverting->count++] = (struct change_of){picture, back};
done:
    return status;
}

/* ---- What is taken back, and what is taught again ---- */

/* The row of the same lesson that a row replaced, by its content or, if that was another, by its path; SIZE_MAX: none. */
static size_t row_replaced(const struct entry *entry, size_t row) {
    for (size_t i = 0; i < entry->back_count; i++) {
        const struct pictured *old = &entry->rows[i], *now = &entry->rows[row];
        if (old->checksum == now->checksum || (now->path[0] && strcmp(old->path, now->path) == 0)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static bool is_taken_back(const struct reverting *reverting, const struct known *picture) {
    bool found = false;
    for (size_t i = 0; !found && i < reverting->own; i++) {
        const struct change_of *change = &reverting->changes[i];
        found = change->back && change->picture.entry == picture->entry && change->picture.row == picture->row;
    }
    return found;
}

static l3a_status choose_rows(struct reverting *reverting, const struct known_index *index, size_t position) {
    struct entry *entry = reverting->history->entries[position];
    l3a_status status = L3A_OK;
    for (size_t row = entry->back_count; row < entry->row_count && !entry_takes_back(entry); row++) {
        const struct known now = history_row_now(reverting->history, index, position, row, reverting->labels);
        if (!now.entry || (now.position != position && is_taken_back(reverting, &now))) {
            continue;
        }
        const size_t old = row_replaced(entry, row);
        TRY(add_change(reverting, now, true));
        if (old != SIZE_MAX) {
            TRY(add_change(reverting, (struct known){entry, position, old}, false));
        }
        reverting->own = reverting->count;
    }
    FAIL_IF(!reverting->count, reverting->context, L3A_ERROR_STATE, NULL,
            "nothing of lesson %" PRIu64 " is left: it was taken back, or its pictures were judged anew", entry->number);
done:
    return status;
}

/* ---- Classes that nothing shows any more ---- */

static l3a_status find_forgotten(struct reverting *reverting, bool *any) {
    uint64_t *shown = NULL;
    l3a_status status = L3A_OK;
    *any = false;
    TRY(allocate(reverting->context, reverting->classes, sizeof *shown, &shown));
    for (size_t k = 0; k < reverting->classes; k++) {
        shown[k] = l3a_model_class_images(reverting->model, k);
    }
    for (size_t i = 0; i < reverting->count; i++) {
        history_labels(reverting->history, &reverting->changes[i].picture, reverting->labels);
        for (size_t k = 0; k < reverting->classes; k++) {
            shown[k] += reverting->labels[k] == 1 ? (reverting->changes[i].back ? UINT64_MAX : 1) : 0; /* modulo 2⁶⁴ */
        }
    }
    for (size_t k = 0; k < reverting->classes; k++) {
        reverting->forgotten[k] = !shown[k];
        *any = *any || !shown[k];
    }
done:
    release(reverting->context, shown);
    return status;
}

/* Other pictures that were judged for a class which is forgotten are judged again, without it. */
static l3a_status rejudge_others(struct reverting *reverting) {
    struct known *pictures = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(history_known(reverting->history, &pictures, &count));
    for (size_t i = 0; i < count; i++) {
        bool judged = false;
        history_labels(reverting->history, &pictures[i], reverting->labels);
        for (size_t k = 0; k < reverting->classes; k++) {
            judged = judged || (reverting->forgotten[k] && reverting->labels[k] >= 0);
        }
        if (judged && !is_taken_back(reverting, &pictures[i])) {
            TRY(add_change(reverting, pictures[i], true));
            TRY(add_change(reverting, pictures[i], false));
        }
    }
done:
    release(reverting->context, pictures);
    return status;
}

/* The labels that a row of the new entry gets; false: the picture is judged for nothing any more. */
static bool label(const struct reverting *reverting, const struct change_of *change, int8_t *labels) {
    bool any = change->back;
    history_labels(reverting->history, &change->picture, labels);
    for (size_t k = 0; !change->back && k < reverting->classes; k++) {
        labels[k] = reverting->forgotten[k] ? -1 : labels[k];
        any = any || labels[k] >= 0;
    }
    return any;
}

/* ---- The entry ---- */

static l3a_status fill_row(const struct reverting *reverting, struct entry *entry, size_t at, const struct change_of *change) {
    const struct known *picture = &change->picture;
    const struct pictured *from = &picture->entry->rows[picture->row];
    struct pictured *to = &entry->rows[at];
    l3a_status status = L3A_OK;
    TRY(copy_text(reverting->context, from->path, strlen(from->path), &to->path));
    TRY(copy_text(reverting->context, from->relative, strlen(from->relative), &to->relative));
    to->checksum = from->checksum;
    to->lesson = change->back ? picture->entry->number : 0;
    to->row = change->back ? picture->row : 0;
    label(reverting, change, entry->labels + at * reverting->classes);
    TRY(journal_features(&reverting->history->journal, picture->entry, picture->row, 1, entry->features + at * entry->width));
done:
    return status;
}

static l3a_status fill_entry(struct reverting *reverting, struct entry *entry) {
    l3a_context *context = reverting->context;
    size_t back = 0, again = 0;
    l3a_status status = L3A_OK;
    for (size_t k = 0; k < reverting->classes; k++) {
        TRY(text_list_add(context, &entry->classes, reverting->model->classes.items[k],
                          strlen(reverting->model->classes.items[k])));
    }
    for (size_t i = 0; i < reverting->count; i++) {
        const bool kept = label(reverting, &reverting->changes[i], reverting->labels);
        back += reverting->changes[i].back;
        again += !reverting->changes[i].back && kept;
    }
    entry->width = model_image(reverting->model);
    entry->back_count = back;
    entry->pictures = again;
    TRY(allocate_zeroed(context, back + again, sizeof *entry->rows, &entry->rows));
    entry->row_count = back + again;
    TRY(allocate(context, back + again, reverting->classes, &entry->labels));
    TRY(allocate(context, back + again, entry->width * sizeof *entry->features, &entry->features));
    again = back;
    back = 0;
    for (size_t i = 0; i < reverting->count; i++) {
        const struct change_of *change = &reverting->changes[i];
        if (change->back || label(reverting, change, reverting->labels)) {
            TRY(fill_row(reverting, entry, change->back ? back++ : again++, change));
        }
    }
done:
    return status;
}

static l3a_status revert_lesson(struct reverting *reverting, size_t position, l3a_teach_report *report) {
    const struct known_index *index;
    struct entry *entry = NULL;
    size_t taken = 0;
    bool any;
    l3a_status status = L3A_OK;
    TRY(allocate(reverting->context, 2, reverting->classes, &reverting->labels));
    TRY(allocate(reverting->context, reverting->classes, sizeof *reverting->forgotten, &reverting->forgotten));
    TRY(history_index(reverting->history, &index));
    TRY(choose_rows(reverting, index, position));
    for (size_t i = 0; i < reverting->own; i++) {
        taken += reverting->changes[i].back;
    }
    TRY(find_forgotten(reverting, &any));
    if (any) {
        TRY(rejudge_others(reverting));
    }
    TRY(entry_create(reverting->context, ENTRY_TEACH, &entry));
    TRY(fill_entry(reverting, entry));
    status = history_apply(reverting->history, entry, true, report);
    entry = NULL;
    report->images = taken;
done:
    entry_free(reverting->context, entry);
    return status;
}

/* A new name is taken back by another one; later changes of the same name come first. */
static l3a_status revert_rename(l3a_history *history, const struct entry *entry) {
    const text_list *classes = &(*history->model)->classes;
    const char *old_name = entry->classes.items[0], *new_name = entry->classes.items[1];
    int exact;
    l3a_status status = L3A_OK;
    FAIL_IF(text_list_find(classes, new_name) == classes->count || text_list_find(classes, old_name) < classes->count,
            history->context, L3A_ERROR_STATE, "rename the class instead",
            "lesson %" PRIu64 " cannot be taken back: '%s' has got another name since, or '%s' means something else now",
            entry->number, new_name, old_name);
    TRY(l3a_history_rename(history, new_name, old_name, &exact));
done:
    return status;
}

static size_t position_of(const l3a_history *history, uint64_t id) {
    size_t position = 0;
    while (position < history->count && history->entries[position]->id != id) {
        position++;
    }
    return position;
}

l3a_status l3a_history_revert(l3a_history *history, uint64_t id, l3a_teach_report *report) {
    REQUIRE(history, history);
    const size_t position = position_of(history, id);
    struct reverting reverting = {
        .history = history, .context = history->context, .model = *history->model, .classes = (*history->model)->classes.count};
    l3a_teach_report made = {.size = sizeof made};
    l3a_status status = L3A_OK;
    if (report) {
        TRY(CHECK_SIZED(history->context, report));
    }
    FAIL_IF(position == history->count, history->context, L3A_ERROR_NOT_FOUND, "see the history", "%s: there is no such lesson",
            history->model_path);
    if (position + 1 == history->count) {
        return l3a_history_undo(history, report);
    }
    const struct entry *entry = history->entries[position];
    FAIL_IF(entry->kind != ENTRY_TEACH && entry->kind != ENTRY_RENAME, history->context, L3A_ERROR_STATE,
            "undo the lessons after it first", "lesson %" PRIu64 " cannot be taken back by itself", entry->number);
    TRY(entry->kind == ENTRY_RENAME ? revert_rename(history, entry) : revert_lesson(&reverting, position, &made));
    if (report) {
        TRY(WRITE_SIZED(history->context, report, made));
    }
done:
    release(history->context, reverting.changes);
    release(history->context, reverting.labels);
    release(history->context, reverting.forgotten);
    return status;
}
