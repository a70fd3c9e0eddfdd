/* The journal: the file MODEL.history, which keeps what was taught so that it can be taken back.
 *
 *   "l3a history 1\n\0\0"                        16 bytes
 *   records, one after the other:
 *     "l3a-hist", bytes of the description, bytes of the features, XXH3-64 of each, XXH3-64 of these 40 bytes    48 bytes
 *     description                                what an entry says, apart from features (entry.h)
 *     features [rows x width]                    float32; with views, the width counts the numbers of all views
 *
 * A change that is committed, that is, kept before the model is saved, has a record with the mark "l3a-comm", whose description
 * ends with the number of the change (its sequence). A file with such a record begins with "l3a history 2", so that a version that
 * does not know them does not lose what they say.
 *
 * Numbers are little-endian. Records are only ever added at the end and cut off there, so a process that is killed leaves at most
 * an incomplete last record: it is torn. Anything else that is wrong is damage. If no good record follows it, it is what a power
 * cut has made of a record that was not synced, and so not answered: whoever writes next cuts it off, and keeps a copy beside the
 * file. If one does follow, a person has to decide (history_repair.c). A record names its parent, the state of the model that it
 * was applied to. The model file has the id of its last one, and records that do not lead there are ignored. */
#ifndef L3A_JOURNAL_H
#define L3A_JOURNAL_H

#include "base/file.h"
#include "tag/entry.h"

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

/* Reads what is good. A missing file has no entries. */
l3a_status journal_read(l3a_context *context, const char *path, struct journal *journal);
void journal_free(struct journal *journal);
/* Copies features [count x width] of an entry. */
l3a_status journal_features(const struct journal *journal, const struct entry *entry, size_t first, size_t count, float *features);
/* Finds features [count x width] of an entry: its own or, if they are in the file, those read into *owned, which the caller
 * releases. */
l3a_status journal_find_features(const struct journal *journal, const struct entry *entry, size_t first, size_t count,
                                 float **owned, const float **features);
/* Reads all features of an entry into it. */
l3a_status journal_load(const struct journal *journal, struct entry *entry);
/* The entry with this id among the first *before, which is then its number. An entry comes after its parent in the file. */
struct entry *journal_find_before(const struct journal *journal, uint64_t id, size_t *before);
/* Cuts the file off after `keep` bytes, adds the entries to it, and syncs it. They then belong to the journal. */
l3a_status journal_add(struct journal *journal, uint64_t keep, struct entry *const *entries, size_t count);
/* Whether the file is still the one that was last read or written. */
bool journal_is_current(const struct journal *journal);
/* Removes all entries but these, which are in the order of the file. The others are freed. */
l3a_status journal_keep(struct journal *journal, struct entry *const *entries, size_t count);
/* The same for a file that is damaged: keeps a copy of it, and writes it again. Entries may be new. */
l3a_status journal_repair(struct journal *journal, struct entry *const *entries, size_t count);

#endif
