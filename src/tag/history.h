/* The history of a model: the entries of the journal that led to the model as it is.
 *
 * The model's record `lesson` has the number of the last lesson, the id of its entry, and a fingerprint of the model. Each entry
 * names its parent, so the entries that count are found by walking back from the model's id. Whatever else is in the journal was
 * left by a process that was killed, belongs to another model, or was undone; it is ignored, and removed by the next save.
 *
 * Saving. New entries are added to the journal and synced; then the model, which has the new id, replaces the old one; then entries
 * that the new model does not lead to are removed. At every moment, the model in place finds all its entries in the journal.
 *
 * Committing. A change can be kept without saving the model: its entry is added to the journal with the next number in a sequence,
 * and synced. An entry that was in the journal before and is undone gets a mark there, an entry of the kind ENTRY_UNDO. The
 * model's record has the sequence up to which the model contains the changes. Those with higher numbers are applied to the model
 * when the history is opened, whoever opens it; so each is in the model once, whatever happens between committing and saving.
 *
 * If another command changed the model, the fingerprint no longer fits. Taking a lesson back from another model than it was taught
 * to could spoil it, so a new history begins there. */
#ifndef L3A_HISTORY_H
#define L3A_HISTORY_H

#include "base/file.h"
#include "tag/known.h"

/* What a model's record says: the last lesson, the model's fingerprint, and the last change that was committed. */
struct position {
    uint64_t number, id, fingerprint, sequence;
};

struct entry_list {
    struct entry **items;
    size_t count, capacity;
};

struct l3a_history {
    l3a_context *context;
    char *model_path, *path;
    l3a_model **model, *own; /* own: *model belongs to the history */
    struct journal journal;
    struct entry *
        *entries; /* that count, the oldest first; those of length 0 are not in the journal yet and belong to the history */
    size_t count, capacity;
    struct position base;  /* of the model before the first of them */
    const char *gap;       /* why nothing older can be undone */
    bool exists;           /* the model is in a file, which is: */
    file_description file; /* all 0: unknown */
    uint64_t needed;       /* the bytes of the journal that lead to the model in the file, and those of changes committed since */
    uint64_t sequence, saved;  /* of the last change that was committed, and of the last one that the model in the file contains */
    struct entry_list marks;   /* of entries in the journal that were undone; not committed yet */
    struct known_index *known; /* of the entries; may lack the newest */
};

/* The history of a model that was loaded from this path, or that will be saved there. *model may be replaced by another model. */
l3a_status history_begin(l3a_context *context, const char *model_path, l3a_model **model, l3a_history **history);
/* Applies an entry to the model and makes it the last one. It belongs to the history even if this fails. keep: not kept, it only
 * leaves a note. */
l3a_status history_apply(l3a_history *history, struct entry *entry, bool keep, l3a_teach_report *report);
/* Adds to the journal what was changed since it was last saved or committed, and syncs it. If this fails, the history and the model
 * must be loaded again. */
l3a_status history_commit(l3a_history *history);
/* Whether the entries contain every picture that the model has learned. */
bool history_is_complete(const l3a_history *history);
/* Whether an entry can be taken back once those after it were. */
bool history_can_revert(const l3a_history *history, size_t index);

/* The index of the pictures that the model knows, up to date. */
l3a_status history_index(const l3a_history *history, const struct known_index **index);
/* All of them, in the order in which they were taught. */
l3a_status history_known(const l3a_history *history, struct known **pictures, size_t *count);
/* The picture that a row of an entry is now: this row, or one of a later entry that took another lesson back, and judged the
 * picture again without a class that nothing shows any more. entry NULL: the model does not know it as the row says. labels: room
 * for two labels of each class; the first are those of the row. */
struct known history_row_now(const l3a_history *history, const struct known_index *index, size_t position, size_t row,
                             int8_t *labels);
/* The labels of a known picture for all classes of the model, under the names that they have now. */
void history_labels(const l3a_history *history, const struct known *picture, int8_t *labels);
/* "/photos/a.jpg", and "photos/a.jpg" or "" as seen from the model's folder. */
l3a_status history_paths(const l3a_history *history, const char *path, char **absolute, char **relative);

#endif
