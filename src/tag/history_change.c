/* Applying the entries of a history to its model, and taking them back. */
#include "base/sized.h"
#include "learn/model_change.h"
#include "learn/teach.h"
#include "tag/history_private.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

/* Teaches or takes back rows [first, last) of an entry. */
static l3a_status move_rows(const l3a_history *history, l3a_model *model, const struct entry *entry, size_t first, size_t last,
                            bool back, l3a_teach_report *report) {
    l3a_context *context = history->context;
    const float *features;
    float *owned = NULL;
    l3a_features rows;
    l3a_status status = L3A_OK;
    if (first == last) {
        return L3A_OK;
    }
    TRY(journal_find_features(&history->journal, entry, first, last - first, &owned, &features));
    TRY(features_borrow(context, features, entry->labels + first * entry->classes.count, last - first, (size_t)model->options.views,
                        model->width, &entry->classes, &rows));
    TRY(model_teach_all(model, &rows, back ? -1 : 1, report));
done:
    release(context, owned);
    return status;
}

/* Pictures that are taught leave the unlabelled ones, if they are among them; those that are taken back return. W is not solved
 * for.
 */
static l3a_status judge_rows(const l3a_history *history, l3a_model *model, const struct entry *entry, size_t first, size_t last,
                             bool judged) {
    l3a_context *context = history->context;
    const float *features;
    float *owned = NULL;
    uint64_t *checksums = NULL;
    l3a_status status = L3A_OK;
    if (first == last || !model->evidence->unlabelled.total) {
        return L3A_OK;
    }
    TRY(journal_find_features(&history->journal, entry, first, last - first, &owned, &features));
    TRY(allocate(context, last - first, sizeof *checksums, &checksums));
    for (size_t i = first; i < last; i++) {
        checksums[i - first] = entry->rows[i].checksum;
    }
    TRY(model_judge(model, checksums, features, last - first, judged));
done:
    release(context, owned);
    release(context, checksums);
    return status;
}

/* Between taking rows back and teaching others, a class that is renamed may be gone, because all its images were taken back. */
l3a_status history_change(const l3a_history *history, l3a_model *model, const struct entry *entry, l3a_teach_report *report) {
    struct change change = {0};
    l3a_status status = L3A_OK;
    int exact;
    TRY(change_begin(model, &change));
    TRY(judge_rows(history, model, entry, 0, entry->back_count, false));
    TRY(judge_rows(history, model, entry, entry->back_count, entry->row_count, true));
    TRY(move_rows(history, model, entry, 0, entry->back_count, true, report));
    if (entry->kind == ENTRY_RENAME || (entry->kind == ENTRY_MERGE && knows_class(model, entry->classes.items[0]))) {
        TRY(l3a_model_rename(model, entry->classes.items[0], entry->classes.items[1], &exact));
    }
    TRY(move_rows(history, model, entry, entry->back_count, entry->row_count, false, report));
done:
    return change_end(&change, status);
}

/* Makes a model with these options and the records of the model, and applies the first `count` entries. The unlabelled images are
 * those of the model as it is, if its rows are as wide: which of them were judged since does not depend on the entries in question,
 * which rename. */
static l3a_status replay(const l3a_history *history, const struct model_options *options, size_t count, l3a_model **model) {
    const l3a_model *old = *history->model;
    l3a_model *made = NULL;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = L3A_OK;
    TRY(model_create(history->context, old->width, options, &made));
    for (size_t i = 0; i < old->record_keys.count; i++) {
        TRY(l3a_model_set_record(made, old->record_keys.items[i], old->record_values.items[i]));
    }
    if (model_dim(made) == model_dim(old)) {
        TRY(unlabelled_copy(history->context, &old->evidence->unlabelled, &made->evidence->unlabelled));
    }
    for (size_t i = 0; i < count; i++) {
        TRY(history_change(history, made, history->entries[i], &report));
    }
    *model = made;
    made = NULL;
done:
    l3a_model_free(made);
    return status;
}

/* Whether the first `count` entries contain all that the model had learned then. */
static bool can_replay(const l3a_history *history, size_t count) {
    bool complete = history->gap == gap_none;
    for (size_t i = 0; i < count; i++) {
        complete = complete && history->entries[i]->kind != ENTRY_NOT_KEPT;
    }
    return complete;
}

bool history_is_complete(const l3a_history *history) {
    return can_replay(history, history->count);
}

static void replace_model(l3a_history *history, l3a_model *model) {
    l3a_model_free(*history->model);
    *history->model = model;
}

bool history_can_revert(const l3a_history *history, size_t index) {
    const enum entry_kind kind = history->entries[index]->kind;
    return kind == ENTRY_TEACH || kind == ENTRY_RENAME || (kind == ENTRY_MERGE && can_replay(history, index));
}

static l3a_status check_revert(const l3a_history *history) {
    static const char cannot[] = "restore an older copy of the model from a backup";
    l3a_context *context = history->context;
    l3a_status status = L3A_OK;
    FAIL_IF(!history->count && history->gap == gap_none, context, L3A_ERROR_STATE, NULL, "%s: there is nothing to undo",
            history->model_path);
    FAIL_IF(!history->count, context, L3A_ERROR_STATE, cannot, "%s: there is nothing that can be undone: %s", history->model_path,
            history->gap);
    const struct entry *last = history->entries[history->count - 1];
    FAIL_IF(last->kind == ENTRY_NOT_KEPT || last->kind == ENTRY_UNDO, context, L3A_ERROR_STATE, cannot,
            "%s: lesson %" PRIu64 " cannot be undone, because it was taught without a history", history->model_path, last->number);
    FAIL_IF(!history_can_revert(history, history->count - 1), context, L3A_ERROR_STATE, cannot,
            "%s: lesson %" PRIu64 " merged '%s' into '%s', which can only be undone if the history has every picture",
            history->model_path, last->number, last->classes.items[0], last->classes.items[1]);
done:
    return status;
}

static l3a_status revert(l3a_history *history, const struct entry *entry, l3a_teach_report *report) {
    l3a_model *model = *history->model;
    struct change change = {0};
    l3a_status status = L3A_OK;
    int exact;
    if (entry->kind == ENTRY_RENAME) {
        return l3a_model_rename(model, entry->classes.items[1], entry->classes.items[0], &exact);
    }
    if (entry->kind == ENTRY_MERGE) {
        TRY(replay(history, &model->options, history->count - 1, &model));
        replace_model(history, model);
        return L3A_OK;
    }
    TRY(change_begin(model, &change));
    TRY(judge_rows(history, model, entry, entry->back_count, entry->row_count, false));
    TRY(judge_rows(history, model, entry, 0, entry->back_count, true));
    TRY(move_rows(history, model, entry, entry->back_count, entry->row_count, true, report));
    TRY(move_rows(history, model, entry, 0, entry->back_count, false, report));
done:
    return change_end(&change, status);
}

static l3a_status new_id(l3a_context *context, const char *path, uint64_t *id) {
    *id = 0;
    while (!*id) {
        if (context->files->random(id, sizeof *id, 0) != sizeof *id) {
            return fail_system(context, path, "choose the number of a lesson", errno);
        }
    }
    return L3A_OK;
}

l3a_status history_take_back(l3a_history *history, l3a_teach_report *report) {
    struct entry *last = history->entries[history->count - 1];
    l3a_status status = L3A_OK;
    TRY(check_revert(history));
    TRY(revert(history, last, report));
    report->images = last->pictures;
    known_forget_last(history->known, history->entries, history->count);
    history->count--;
    if (!last->length) {
        entry_free(history->context, last);
    }
done:
    return status;
}

/* Prepares the mark that says that the last entry, which is in the journal, was undone. */
static l3a_status add_mark(l3a_history *history) {
    const struct entry *last = history->entries[history->count - 1];
    struct entry_list *marks = &history->marks;
    struct entry *mark = NULL;
    l3a_status status = L3A_OK;
    TRY(grow_array(history->context, &marks->items, &marks->capacity, marks->count + 1, sizeof *marks->items));
    TRY(entry_create(history->context, ENTRY_UNDO, &mark));
    TRY(new_id(history->context, history->model_path, &mark->id));
    mark->parent = last->id;
    mark->number = last->number;
    mark->seconds = (int64_t)time(NULL);
    marks->items[marks->count++] = mark;
    mark = NULL;
done:
    entry_free(history->context, mark);
    return status;
}

l3a_status l3a_history_undo(l3a_history *history, l3a_teach_report *report) {
    REQUIRE(history, history);
    l3a_teach_report made = {.size = sizeof made};
    l3a_status status = L3A_OK;
    if (report) {
        TRY(CHECK_SIZED(history->context, report));
    }
    TRY(check_revert(history));
    const bool stored = history->entries[history->count - 1]->length > 0;
    if (stored) {
        TRY(add_mark(history));
    }
    status = history_take_back(history, &made);
    if (status != L3A_OK) {
        if (stored) {
            entry_free(history->context, history->marks.items[--history->marks.count]);
        }
        goto done;
    }
    if (report) {
        TRY(WRITE_SIZED(history->context, report, made));
    }
done:
    return status;
}

/* ---- New entries ---- */

/* The note that an entry leaves of which nothing is kept. */
static l3a_status make_note(l3a_context *context, const struct entry *entry, struct entry **note) {
    l3a_status status = L3A_OK;
    TRY(entry_create(context, ENTRY_NOT_KEPT, note));
    (*note)->id = entry->id;
    (*note)->parent = entry->parent;
    (*note)->number = entry->number;
    (*note)->seconds = entry->seconds;
    (*note)->pictures = entry->pictures;
done:
    return status;
}

/* An entry is the last one now; NULL: nothing is kept, and there is no history to put a note in. There is room for it. */
static void keep_applied(l3a_history *history, struct entry *entry, const struct position *now) {
    if (entry) {
        history->entries[history->count++] = entry;
    } else {
        history->base = *now;
        history->gap = gap_missing;
    }
}

l3a_status history_apply(l3a_history *history, struct entry *entry, bool keep, l3a_teach_report *report) {
    const struct position before = history_position(history);
    struct entry *note = NULL;
    l3a_status status = L3A_OK;
    TRY(new_id(history->context, history->model_path, &entry->id));
    entry->parent = before.id;
    entry->number = before.number + 1;
    entry->seconds = (int64_t)time(NULL);
    entry->from_nothing = !history->count && history->gap == gap_none;
    TRY(history_make_room(history));
    TRY(keep || !history->count ? L3A_OK : make_note(history->context, entry, &note));
    TRY(history_change(history, *history->model, entry, report));
    const struct position now = {.number = entry->number, .id = entry->id};
    keep_applied(history, keep ? entry : note, &now);
    entry = keep ? NULL : entry;
    note = NULL;
done:
    entry_free(history->context, note);
    entry_free(history->context, entry);
    return status;
}

l3a_status l3a_history_widen(l3a_history *history, size_t dim) {
    REQUIRE(history, history);
    l3a_model *model = *history->model;
    struct model_options options = model->options;
    l3a_status status = L3A_OK;
    FAIL_IF(!history_is_complete(history), history->context, L3A_ERROR_STATE,
            "make a new model of this width, and teach it all pictures again",
            "%s: another width needs every picture again, and the history does not have them all", history->model_path);
    options.dim = dim;
    TRY(model_options_check(history->context, &options));
    const bool loses = has_unlabelled(model);
    TRY(replay(history, &options, history->count, &model));
    replace_model(history, model);
    if (loses && !has_unlabelled(model)) {
        report_warning(history->context,
                       "%s: the unlabelled pictures no longer act, because the model has none of their features; give them again",
                       history->model_path);
    }
done:
    return status;
}
