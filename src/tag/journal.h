/* The journal: the file MODEL.history, which keeps what was taught so that it can be taken back.
 *
 *   "l3a history 1\n\0\0"                        16 bytes
 *   records, one after the other:
 *     "l3a-hist", bytes of the description, bytes of the features, XXH3-64 of each, XXH3-64 of these 40 bytes    48 bytes
 *     description                                what an entry says, apart from features (journal.c)
 *     features [rows x width]                    float32; with views, the width counts the numbers of all views
 *
 * A change that is committed, that is, kept before the model is saved, has a record with the mark "l3a-comm", whose description
 * ends with the number of the change (its sequence). A file with such a record begins with "l3a history 2", so that a version that
 * does not know them does not lose what they say.
 *
 * Numbers are little-endian. Records are only ever added at the end and cut off there, so a process that is killed leaves at most
 * an incomplete last record: it is torn. Anything else that is wrong is damage. If no good record follows it, it is what a power
 * cut has made of a record that was not synced, and so not answered: whoever writes next cuts it off, and keeps a copy beside the
 * file. If one does follow, a person has to decide (history.c). A record names its parent, the state of the model that it was
 * applied to. The model file has the id of its last one, and records that do not lead there are ignored. */
#ifndef L3A_JOURNAL_H
#define L3A_JOURNAL_H

#include "base/file.h"
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

struct journal {
    l3a_context *context;
    char *path;
    struct entry **entries; /* that are in the file, in its order */
    size_t count, capacity;
    uint64_t end;          /* of the last good record before anything else; 0: there is no file, or not even its first line */
    uint64_t size;         /* of the file */
    bool commits;          /* its first line says that it may have changes that were committed */
    bool damaged;          /* what follows `end` is not just torn; entries may follow it nevertheless */
    bool certain;          /* what was found is synced, and so is the folder */
    uint64_t lost;         /* damaged bytes between good records and after them */
    file_description file; /* when it was last read or written; all 0: there was none; a size of UINT64_MAX: unknown */
};

l3a_status entry_create(l3a_context *context, enum entry_kind kind, struct entry **entry);
void entry_free(l3a_context *context, struct entry *entry);
/* The classes that a row shows, separated by "; " or, if it shows none, those that it does not: "not cat; not dog". NULL if memory
 * runs out. */
const char *entry_tags(l3a_context *context, struct entry *entry, size_t row);

/* Reads what is good. A missing file has no entries. */
l3a_status journal_read(l3a_context *context, const char *path, struct journal *journal);
void journal_free(struct journal *journal);
/* Copies features [count x width] of an entry. */
l3a_status journal_features(const struct journal *journal, const struct entry *entry, size_t first, size_t count, float *features);
/* Reads all features of an entry into it. */
l3a_status journal_load(const struct journal *journal, struct entry *entry);
/* Cuts the file off after `keep` bytes, adds the entries to it, and syncs it. They then belong to the journal. */
l3a_status journal_add(struct journal *journal, uint64_t keep, struct entry *const *entries, size_t count);
/* Whether the file is still the one that was last read or written. */
bool journal_is_current(const struct journal *journal);
/* Removes all entries but these, which are in the order of the file. The others are freed. */
l3a_status journal_keep(struct journal *journal, struct entry *const *entries, size_t count);
/* The same for a file that is damaged: keeps a copy of it, and writes it again. Entries may be new. */
l3a_status journal_repair(struct journal *journal, struct entry *const *entries, size_t count);

#endif
