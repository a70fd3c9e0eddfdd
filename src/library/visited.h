/* Folders that were searched, by the numbers that the file system gives them. */
#ifndef L3A_LIBRARY_VISITED_H
#define L3A_LIBRARY_VISITED_H

#include "base/memory.h"

struct spot {
    uint64_t device, inode;
    bool used;
};

/* A table with open addressing, of which at most half is used. */
struct visited {
    struct spot *spots;
    size_t count, capacity;
};

/* *first: it was not there yet. */
l3a_status visited_add(l3a_context *context, struct visited *visited, uint64_t device, uint64_t inode, bool *first);
void visited_free(l3a_context *context, struct visited *visited);

#endif
