/* What searching needs of all pictures, in memory: about 40 bytes each. The rows are sorted by id; those of pictures that are gone
 * stay until the whole is read again. */
#ifndef L3A_CATALOGUE_H
#define L3A_CATALOGUE_H

#include "library/database.h"

#define NO_SLOT UINT32_MAX

struct catalogue {
    l3a_context *context;
    int64_t *ids, *dates; /* dates: taken or, if that is unknown, changed; in seconds */
    uint64_t *sizes;
    uint32_t *folders, *slots;
    uint8_t *states;
    size_t count, capacity;
    int64_t change, purges; /* up to which it is */
    const char *scope;      /* pictures that are not in this folder or below it count as gone; NULL: there is none */
    int64_t generation;     /* of the features file that slots belong to */
    uint32_t slot_count;    /* above every slot */
};

/* Takes over what has changed since, in a transaction of the caller. records: of the features file; no slot is above them.
 * generation: of that file. */
l3a_status catalogue_update(struct catalogue *catalogue, struct database *database, uint64_t records, int64_t generation);
void catalogue_free(struct catalogue *catalogue);
/* The position of an id, or catalogue->count. */
size_t catalogue_find(const struct catalogue *catalogue, int64_t id);

#endif
