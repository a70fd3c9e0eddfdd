/* Histories whose journal is damaged: what is lost, and saving the rest. */
#include "base/sized.h"
#include "tag/history_private.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- What is lost ---- */

/* A walk over the changes that are not in the model's file, some of which cannot be read. */
struct walk {
    uint64_t last;   /* the id of the entry that the next change would be applied to */
    uint64_t number; /* of the last lesson, had nothing been lost */
    uint64_t lost;   /* lessons */
    bool behind;     /* a change follows the damage */
};

enum verdict { USE, IGNORE, LOSE };

static struct walk walk_from(const struct position *position) {
    return (struct walk){.last = position->id, .number = position->number};
}

/* Whether a change can be applied to the entry with this id. A lesson that takes nothing back can be taught at any time; anything
 * else needs the model that it was made for. */
static bool is_of_use(const struct entry *entry, uint64_t last) {
    return entry->kind != ENTRY_NOT_KEPT && (entry->parent == last || (entry->kind == ENTRY_TEACH && !entry->back_count));
}

/* Lessons between the last change and this one that cannot be read. */
static uint64_t missing_before(const struct walk *walk, const struct entry *entry) {
    return entry->number > walk->number + 1 ? entry->number - walk->number - 1 : 0;
}

/* Goes on to the next change. An undo of a lesson that is lost has nothing to do. */
static enum verdict walk_on(struct walk *walk, const struct journal *journal, const struct entry *entry) {
    const bool undo = entry->kind == ENTRY_UNDO;
    walk->behind = walk->behind || entry->offset >= journal->end;
    walk->lost += missing_before(walk, entry);
    walk->number = undo ? entry->number - 1 : entry->number;
    if (undo && entry->parent == walk->last) {
        size_t before = journal->count;
        const struct entry *undone = journal_find_before(journal, entry->parent, &before);
        walk->last = undone ? undone->parent : 0;
        return USE;
    }
    if (undo || !is_of_use(entry, walk->last)) {
        walk->lost += !undo;
        return undo ? IGNORE : LOSE;
    }
    walk->last = entry->id;
    return USE;
}

static l3a_status fail_damaged(const l3a_history *history, const struct position *position, const struct walk *walk) {
    const uint64_t lessons = walk->number > position->number ? walk->number - position->number : 0;
    char hint[400];
    snprintf(hint, sizeof hint,
             "restore it from a backup; or run 'l3a history %.120s --repair', which loses %" PRIu64 " of the %" PRIu64
             " lessons that are not in the model's file yet; or move it away, which loses %" PRIu64
             ". In the last two cases, older lessons may no longer be undone",
             history->model_path, walk->lost, lessons, lessons);
    return fail(history->context, L3A_ERROR_CHECKSUM, hint, "%s: the history is damaged at byte %" PRIu64, history->journal.path,
                history->journal.end);
}

l3a_status history_check_damage(const l3a_history *history, const struct position *position) {
    const struct journal *journal = &history->journal;
    const bool reached = history->count ? history->entries[history->count - 1]->offset < journal->end : !position->id;
    struct walk walk = walk_from(position);
    for (size_t i = 0; i < journal->count; i++) {
        if (journal->entries[i]->sequence > position->sequence) {
            walk_on(&walk, journal, journal->entries[i]);
        }
    }
    if (journal->end < journal->size && (walk.behind || !reached)) {
        return fail_damaged(history, position, &walk);
    }
    if (journal->damaged) {
        report_warning(history->context,
                       "%s: the history is damaged from byte %" PRIu64
                       " to its end. The lessons before that are intact. What follows "
                       "was never answered, and is cut off with the next change",
                       journal->path, journal->end);
    }
    return L3A_OK;
}

/* ---- Repairing ---- */

/* A class that neither the model knows nor a picture of the entry shows came with a lesson that is lost. The entry does not judge
 * it then. */
static void unjudge_lost(const l3a_model *model, const struct entry *entry) {
    const size_t classes = entry->classes.count;
    for (size_t k = 0; k < classes; k++) {
        bool shown = knows_class(model, entry->classes.items[k]);
        for (size_t i = 0; i < entry->row_count && !shown; i++) {
            shown = entry->labels[i * classes + k] == 1;
        }
        for (size_t i = 0; i < entry->row_count && !shown; i++) {
            entry->labels[i * classes + k] = -1;
        }
    }
}

/* The change of a record, to be written again with the place that it has now. */
static l3a_status make_again(l3a_history *history, struct entry *from, struct entry **made) {
    const struct position before = history_position(history);
    l3a_status status = L3A_OK;
    TRY(history_make_room(history));
    TRY(journal_load(&history->journal, from));
    TRY(allocate(history->context, 1, sizeof **made, made));
    **made = *from;
    from->rows = NULL;
    from->labels = NULL;
    from->features = NULL;
    from->classes = (text_list){0};
    from->row_count = from->back_count = 0;
    (*made)->parent = before.id;
    (*made)->number = before.number + 1;
    (*made)->from_nothing = !history->count && history->gap == gap_none;
    (*made)->offset = (*made)->length = (*made)->sequence = 0;
    unjudge_lost(*history->model, *made);
done:
    return status;
}

static l3a_status apply_again(l3a_history *history, struct entry *from) {
    l3a_teach_report report = {.size = sizeof report};
    struct entry *made = NULL;
    l3a_status status = L3A_OK;
    if (from->kind == ENTRY_UNDO) {
        FAIL_IF(!history->count, history->context, L3A_ERROR_STATE, NULL, "what it takes back is lost");
        return history_take_back(history, &report);
    }
    TRY(history_check_width(history, from));
    TRY(make_again(history, from, &made));
    TRY(history_change(history, *history->model, made, &report));
    history->entries[history->count++] = made;
    made = NULL;
done:
    entry_free(history->context, made);
    return status;
}

/* Applies what is left of the changes that are not in the model, and says which lessons are lost. */
static l3a_status salvage(l3a_history *history, l3a_repair_report *report) {
    l3a_context *context = history->context;
    const struct position start = history_position(history);
    struct walk walk = walk_from(&start);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < history->journal.count; i++) {
        struct entry *entry = history->journal.entries[i];
        if (entry->sequence <= history->saved) {
            continue;
        }
        const uint64_t number = entry->number, missing = missing_before(&walk, entry);
        if (missing == 1) {
            report_warning(context, "lost: lesson %" PRIu64 ", which cannot be read", number - 1);
        } else if (missing) {
            report_warning(context, "lost: lessons %" PRIu64 " to %" PRIu64 ", which cannot be read", number - missing, number - 1);
        }
        enum verdict verdict = walk_on(&walk, &history->journal, entry);
        if (verdict == USE) {
            status = apply_again(history, entry);
            TRY(status == L3A_ERROR_MEMORY || status == L3A_ERROR_CANCELLED ? status : L3A_OK);
            report->applied += status == L3A_OK;
        }
        if (verdict == LOSE || status != L3A_OK) {
            report_warning(context, "lost: lesson %" PRIu64 ", %s", number,
                           verdict == LOSE ? "which needs a lesson that is lost" : context->error_text);
            walk.lost += verdict != LOSE;
        }
        status = L3A_OK;
        walk.last = history_position(history).id;
        history->sequence = entry->sequence > history->sequence ? entry->sequence : history->sequence;
    }
    report->lost = walk.lost;
done:
    return status;
}

/* The model first: should this process end in between, nothing is lost that the damaged file still has. */
static l3a_status save_repaired(l3a_history *history, const output_target *target) {
    l3a_status status = L3A_OK;
    TRY(history_check_file(history, target));
    TRY(history_write_position(history));
    TRY(l3a_model_save(*history->model, history->model_path));
    TRY(journal_repair(&history->journal, history->entries, history->count));
done:
    return status;
}

l3a_status l3a_history_repair(l3a_context *context, const char *model_path, l3a_repair_report *report) {
    l3a_repair_report made = {.size = sizeof made};
    l3a_model *model = NULL;
    l3a_history *history = NULL;
    l3a_status status = L3A_OK;
    NEED(context, context, model_path);
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    TRY(l3a_model_load(context, model_path, &model));
    TRY(history_start(context, model_path, &model, true, &history));
    made.bytes = history->journal.damaged ? history->journal.lost : history->journal.size - history->journal.end;
    if (made.bytes) {
        TRY(salvage(history, &made));
        TRY(history_with_lock(history, save_repaired));
    }
    if (report) {
        TRY(WRITE_SIZED(context, report, made));
    }
done:
    l3a_history_free(history);
    l3a_model_free(model);
    return status;
}
