/* An entry of the history: what a lesson or another change did to the model.
 *
 * Its description, which the journal keeps, has id, parent, number, seconds, kind, from_nothing, pictures, new classes, width,
 * taken back, number of classes and of rows; then for each class its name; for each row the checksum, lesson, row, path, relative
 * path and labels; of a change that was committed, its sequence. Numbers have 8 bytes and are little-endian, a text has its length
 * before it, a label has one byte. */
#ifndef L3A_ENTRY_H
#define L3A_ENTRY_H

#include "base/memory.h"

/* ENTRY_UNDO takes back its parent. It is only ever committed, and goes when the model is saved. */
enum entry_kind { ENTRY_TEACH = 1, ENTRY_RENAME = 2, ENTRY_MERGE = 3, ENTRY_NOT_KEPT = 4, ENTRY_UNDO = 5 };

/* A picture that was taught or taken back. */
struct pictured {
    char *path, *relative; /* absolute, and from the folder of the model; "" if it is not below that */
    char *tags;            /* what it shows; NULL until somebody asks (entry_tags) */
    uint64_t checksum;     /* of its file */
    uint64_t lesson, row;  /* taken back: where it was taught; lesson 0: the history does not have it */
};

struct entry {
    uint64_t id, parent;
    uint64_t number; /* of the lesson */
    int64_t seconds;
    enum entry_kind kind;
    bool from_nothing; /* the model knew no class before */
    uint64_t pictures; /* taught, even if nothing of them was kept */
    text_list classes; /* the new ones come last; of a rename, the old and the new name */
    size_t new_classes;
    struct pictured *rows; /* first those that were taken back */
    size_t row_count, back_count;
    size_t width;            /* numbers of a row: those of all views of the picture */
    int8_t *labels;          /* [rows x classes] */
    float *features;         /* [rows x width]; NULL: in the file */
    uint64_t offset, length; /* of the record in the file; length 0: it is not there yet */
    uint64_t sequence;       /* of the change, if it was committed; else 0 */
    bool listed;             /* for the journal: among the entries in question */
};

/* Whether it gives a class another name. */
static inline bool entry_renames(const struct entry *entry) {
    return entry->kind == ENTRY_RENAME || entry->kind == ENTRY_MERGE;
}

/* Whether it takes back more than it teaches: another lesson, by itself (history_revert.c). A correction teaches all that it takes
 * back. */
static inline bool entry_takes_back(const struct entry *entry) {
    return entry->kind == ENTRY_TEACH && entry->back_count > entry->row_count - entry->back_count;
}

l3a_status entry_create(l3a_context *context, enum entry_kind kind, struct entry **entry);
void entry_free(l3a_context *context, struct entry *entry);
/* The classes that a row shows, separated by "; " or, if it shows none, those that it does not: "not cat; not dog". NULL if memory
 * runs out. */
const char *entry_tags(l3a_context *context, struct entry *entry, size_t row);

/* Appends the description. */
void entry_describe(const struct entry *entry, text_builder *to);
/* Makes an entry from its description; NULL if that is not valid. feature_bytes: those of its features. commit: it has a sequence.
 */
l3a_status entry_understand(l3a_context *context, const char *description, size_t length, uint64_t feature_bytes, bool commit,
                            struct entry **entry);

#endif
