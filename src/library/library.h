/* A library that remembers: the pictures below some folders, their features, what was said about them and what the model says of
 * them. docs/library.md describes the files.
 *
 * The index is a database (database.h) and a file of features (slots.h). Whoever uses it has a handle of its own, a struct
 * l3a_library; any number of processes and threads may have one each. What a handle keeps in memory is a copy of the rows of the
 * database that searching needs (catalogue.h), which follows the changes of others.
 *
 *   scan    what is in the folders: names, sizes, times                       scan.c
 *   look    new pictures get features: a record of the features file each     look.c
 *   judge   what was said about pictures, by their checksums                  said.c
 *   score   features give scores: a column of the database for each class     score.c
 *   find    columns and rows give pictures in an order                        find.c, where.c, order.c, near.c, words.c
 *
 * Each step can be repeated, interrupted and killed: what it has committed stays, and what it has not is done again. */
#ifndef L3A_LIBRARY_H
#define L3A_LIBRARY_H

#include "library/catalogue.h"
#include "library/columns.h"
#include "library/database.h"
#include "library/names.h"
#include "library/slots.h"
#include "tag/tagger.h"

/* The states of a picture, as the database has them. */
enum picture_state { PICTURE_WAITING, PICTURE_DONE, PICTURE_FAILED, PICTURE_OTHER, PICTURE_GONE };

struct classifier;

/* What was counted last, and what it holds for. */
struct counts {
    int64_t change, scored;
    uint64_t fingerprint;
    l3a_library_info info;
};

struct l3a_library {
    l3a_context *context;
    l3a_tagger *tagger; /* for readers and its current edition; may belong to another context */
    struct database database;
    struct slots slots; /* file -1: no picture was looked at yet */
    int64_t generation; /* of the features file that is open */
    char *recipe;       /* of the tagger's features */
    char *scope;        /* "/photos/": only what is below it is told of; NULL: all */
    struct catalogue catalogue;
    struct columns columns;
    struct names names;
    struct counts counts;
    struct classifier *classifier; /* of the network; NULL: not read yet, or there is none: */
    char *wordless;                /* the reason */
    text_builder path;             /* of the picture described last, and its problem */
    char *problem;
    char *note; /* asked for last */
};

/* schema.c: makes the tables, or brings those of an older version up to date. */
l3a_status library_prepare_tables(struct database *database);

/* owner.c: whether the index belongs to the tagger's model, which takes one that belongs to none; L3A_ERROR_MISMATCH if it is that
 * of another model. Not in a transaction. */
l3a_status library_check_owner(l3a_library *library);

/* Opens the features file that the database names; none yet: a file of -1. What is damaged, or was made in another way than the
 * tagger would, is given up, so that pictures are looked at again. Not in a transaction. */
l3a_status library_open_slots(l3a_library *library);
/* Makes a features file for the tagger's recipe, if there is none. Not in a transaction. */
l3a_status library_make_slots(l3a_library *library);
/* Gives up the records [first, first + count) that are marked, with a warning, if pictures use them; these wait to be looked at
 * again. In a transaction. */
l3a_status library_drop_records(l3a_library *library, const bool *damaged, uint64_t first, size_t count);
/* In a transaction: whether the features file that is open is still the index's. */
l3a_status library_same_slots(l3a_library *library, bool *same);
/* Whether a file may have changed after it was read without another time: it was read right after it had been written. Both in
 * nanoseconds. */
static inline bool is_recent(int64_t modified, int64_t read) {
    const int64_t race = INT64_C(2000000000);
    return modified > read - race && modified < read + race;
}
/* The status of a call that has read features: if they are too short or damaged, the next call opens them anew. */
l3a_status library_suspect(l3a_library *library, l3a_status status);
/* The number of the change that the current transaction makes, written with every row that it touches. */
l3a_status library_next_change(l3a_library *library, int64_t *change);
/* A context like the tagger's, on the same device, with the threads of the library's. */
l3a_status library_fork(const l3a_library *library, l3a_context **context);

#endif
