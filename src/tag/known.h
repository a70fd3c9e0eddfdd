/* The pictures that the model knows, found by their content and by their path without looking at the others.
 *
 * There is a record for every row that an entry of the history taught, in the order of the history, and three chains of records
 * with the same hash: of the checksum, the path and the relative path. A chain begins with its newest record. So the records of the
 * last entry are those at the end of the list and at the heads of their chains, and undoing that entry takes them off again. A row
 * that takes back another one only marks its record.
 *
 * The index is brought up to date when somebody asks. That takes time for the entries that are new, not for the others. */
#ifndef L3A_KNOWN_H
#define L3A_KNOWN_H

#include "tag/journal.h"

/* A picture that the model knows: a row of an entry that no later entry has taken back. */
struct known {
    struct entry *entry; /* NULL: none */
    size_t position;     /* of the entry */
    size_t row;
};

enum { KNOWN_KEYS = 3 };

struct known_record {
    struct known picture;
    size_t taken_back; /* how many later rows took it back; 0: the model knows it */
    size_t taken_by;   /* the position of the entry that did; SIZE_MAX: unknown */
    uint64_t hashes[KNOWN_KEYS];
    size_t next[KNOWN_KEYS]; /* the record before it in the chain, plus 1; 0: none */
};

struct known_index {
    l3a_context *context;
    struct known_record *records;
    size_t count, capacity;
    size_t *heads;  /* [KNOWN_KEYS x chains]: as `next` */
    size_t chains;  /* a power of 2, or 0 */
    size_t *starts; /* of the entries that it has: their first record */
    size_t covered, start_capacity;
    size_t *renames; /* positions of the entries that give a class another name */
    size_t rename_count, rename_capacity;
};

void known_free(struct known_index *index);
/* Adds the entries that the index lacks. If this fails, it has those that fit. */
l3a_status known_update(struct known_index *index, struct entry *const *entries, size_t count);
/* The last of `count` entries is about to be undone. */
void known_forget_last(struct known_index *index, struct entry *const *entries, size_t count);
/* The record of the same picture in the entry that took this one back; NULL: that entry did not teach it again. */
const struct known_record *known_next(const struct known_index *index, const struct known_record *record);
/* The oldest picture with this checksum. */
struct known known_by_checksum(const struct known_index *index, uint64_t checksum);
/* The oldest picture with this absolute path, or with this relative path unless that is "". */
struct known known_by_path(const struct known_index *index, const char *absolute, const char *relative);

#endif
