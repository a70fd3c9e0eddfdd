/* Keeping the changes of a history: in the journal alone (committing), or in the journal and the model's file (saving). */
#include "tag/history_private.h"

l3a_status history_check_file(l3a_history *history, const output_target *target) {
    l3a_status status = L3A_OK;
    FAIL_IF(target->exists && !history->exists, history->context, L3A_ERROR_EXISTS, "choose another name, or open this model",
            "%s: the file appeared while the model was made", history->model_path);
    FAIL_IF(target->exists && history->file.inode && !is_same_content(&target->old, &history->file), history->context,
            L3A_ERROR_STATE, "load the model again", "%s: the file has been replaced since the model was loaded",
            history->model_path);
done:
    return status;
}

uint64_t l3a_history_ahead(const l3a_history *history) {
    return history ? history->sequence - history->saved : 0;
}

/* The bytes of the journal that must stay. */
static uint64_t kept_end(const l3a_history *history) {
    const uint64_t end = history_stored_end(history);
    return end > history->needed ? end : history->needed;
}

/* Nothing may be added to the files of another model, or of this one at another time, which somebody has put there since. */
static l3a_status check_current(l3a_history *history) {
    output_target target = {0};
    bool held;
    l3a_status status = L3A_OK;
    TRY(target_find(history->context, history->model_path, &target));
    TRY(lock_is_held(history->context, target.path, &held)); /* or no longer, which fails */
    TRY(history_check_file(history, &target));
    FAIL_IF(!journal_is_current(&history->journal), history->context, L3A_ERROR_STATE, "load the model again",
            "%s: the file has been replaced since the model was loaded", history->path);
done:
    target_free(history->context, &target);
    return status;
}

/* Marks come before new entries: an entry that is undone before it is committed leaves nothing. */
l3a_status history_commit(l3a_history *history) {
    const size_t stored = history_stored(history), fresh = history->count - stored, marks = history->marks.count,
                 count = marks + fresh;
    struct entry **changes = NULL;
    l3a_status status = L3A_OK;
    if (!count) {
        return L3A_OK;
    }
    FAIL_IF(!history->exists, history->context, L3A_ERROR_STATE, "save the model first",
            "%s: changes of a model that is in no file cannot be committed", history->model_path);
    TRY(check_current(history));
    TRY(allocate(history->context, count, sizeof *changes, &changes));
    for (size_t i = 0; i < count; i++) {
        changes[i] = i < marks ? history->marks.items[i] : history->entries[stored + i - marks];
        changes[i]->sequence = history->sequence + 1 + i;
    }
    TRY(journal_add(&history->journal, kept_end(history), changes, count));
    history->marks.count = 0; /* they belong to the journal now */
    history->sequence += count;
    history->needed = history->journal.end;
done:
    release(history->context, changes);
    return status;
}

/* ---- Saving ---- */

/* Adds the entries that are new to the journal, in the place of what a killed process left at its end. */
static l3a_status save_entries(l3a_history *history) {
    const size_t stored = history_stored(history);
    return stored == history->count
               ? L3A_OK
               : journal_add(&history->journal, kept_end(history), history->entries + stored, history->count - stored);
}

/* After an attempt to save: the file may be in its place even if something failed afterwards. While the lock is held, it is ours.
 */
static void find_saved(l3a_history *history, const output_target *target) {
    file_description now = {0};
    const bool found = history->context->files->describe(target->path, &now) == 0;
    history->exists = history->exists || found;
    history->file = now;
}

/* What the model no longer needs may stay in the history until the next save. */
static l3a_status save_locked(l3a_history *history, const output_target *target) {
    l3a_context *context = history->context;
    l3a_status status = L3A_OK;
    TRY(history_check_file(history, target));
    TRY(save_entries(history));
    TRY(history_write_position(history));
    status = l3a_model_save(*history->model, history->model_path);
    find_saved(history, target);
    TRY(status);
    history->saved = history->sequence;
    history_drop_marks(history);
    history->needed = history_stored_end(history);
    if (journal_keep(&history->journal, history->entries, history->count) != L3A_OK) {
        report_warning(context, "%s: the model is saved, but its history could not be shortened: %s", history->model_path,
                       context->error_text);
    }
    history->needed = history_stored_end(history);
done:
    return status;
}

l3a_status history_with_lock(l3a_history *history, l3a_status (*save)(l3a_history *history, const output_target *target)) {
    output_target target = {0};
    l3a_lock *lock = NULL;
    bool held;
    l3a_status status = L3A_OK;
    TRY(target_find(history->context, history->model_path, &target));
    TRY(lock_is_held(history->context, target.path, &held));
    if (!held) {
        TRY(lock_target(history->context, target.path, history->model_path, FAIL_AT_ONCE, &lock));
    }
    TRY(save(history, &target));
done:
    l3a_lock_free(lock);
    target_free(history->context, &target);
    return status;
}

l3a_status l3a_history_save(l3a_history *history) {
    REQUIRE(history, history);
    return history_with_lock(history, save_locked);
}
