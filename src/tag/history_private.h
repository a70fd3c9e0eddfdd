/* What the files of the history share:
 *
 *   history.c          the model's record, opening
 *   history_change.c   applying entries, and taking them back
 *   history_revert.c   taking any lesson back
 *   history_rename.c   renaming and merging classes
 *   history_save.c     committing and saving
 *   history_repair.c   damage
 *   history_view.c     what the history tells
 *   history_expect.c   what to expect of the model */
#ifndef L3A_HISTORY_PRIVATE_H
#define L3A_HISTORY_PRIVATE_H

#include "learn/model.h"
#include "tag/history.h"

static inline bool knows_class(const l3a_model *model, const char *name) {
    return text_list_find(&model->classes, name) < model->classes.count;
}

/* history.c: */
/* Values of `gap`; the first one if the entries begin with an empty model. */
extern const char gap_none[], gap_missing[];
/* As history_begin(). repairs: damage is no failure, and changes are not applied. */
l3a_status history_start(l3a_context *context, const char *model_path, l3a_model **model, bool repairs, l3a_history **history);
/* Where the model is now. Without the fingerprint, which takes time that grows with the model. */
struct position history_position(const l3a_history *history);
/* Writes it to the model's record, with the fingerprint. */
l3a_status history_write_position(const l3a_history *history);
/* Makes room for another entry. */
l3a_status history_make_room(l3a_history *history);
/* How many of the entries are in the journal, and the end of the last one there. */
size_t history_stored(const l3a_history *history);
uint64_t history_stored_end(const l3a_history *history);
/* Frees the marks. What they say is in the model that was saved. */
void history_drop_marks(l3a_history *history);
/* Checks that an entry has the features that the model takes. */
l3a_status history_check_width(const l3a_history *history, const struct entry *entry);

/* history_change.c: */
/* Applies an entry to a model as a whole or not at all. */
l3a_status history_change(const l3a_history *history, l3a_model *model, const struct entry *entry, l3a_teach_report *report);
/* Takes back the last entry, and forgets it. */
l3a_status history_take_back(l3a_history *history, l3a_teach_report *report);

/* history_save.c: */
/* The model in the file must be the one that was loaded, if that is known: a change by another process in between would be lost. */
l3a_status history_check_file(l3a_history *history, const output_target *target);
/* Calls `save` with the model's lock. */
l3a_status history_with_lock(l3a_history *history, l3a_status (*save)(l3a_history *history, const output_target *target));

/* history_repair.c: */
/* Damage is harmless if the records before it lead to the model, and no change that was committed follows it: what it hit was then
 * never answered, and is cut off by whoever writes next. */
l3a_status history_check_damage(const l3a_history *history, const struct position *position);

#endif
