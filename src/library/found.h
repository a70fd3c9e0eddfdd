/* Pictures that were found, in order. */
#ifndef L3A_FOUND_H
#define L3A_FOUND_H

#include "library/library.h"

struct l3a_found {
    l3a_context *context;
    uint64_t *ids;
    float *ranks;
    size_t count;
};

l3a_status found_create(l3a_context *context, size_t count, l3a_found **found);
/* Brings what a library has in memory up to date. */
l3a_status library_refresh(l3a_library *library);
/* The same, and begins a transaction that reads, in which nothing changes; database_end() ends it. */
l3a_status library_begin_reading(l3a_library *library);
/* What to judge next, among the chosen pictures [pictures of the catalogue] (novel.c). most: 0 is a usual number. */
l3a_status library_novel(l3a_library *library, const uint8_t *chosen, uint64_t most, l3a_found **found);

#endif
