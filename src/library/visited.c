#include "library/visited.h"

enum { SMALLEST = 256 };

/* The place of a spot, or the free one where it belongs. */
static struct spot *place_of(struct spot *spots, size_t capacity, uint64_t device, uint64_t inode) {
    size_t at = (size_t)((inode * UINT64_C(0x9E3779B97F4A7C15) ^ device * UINT64_C(0xC2B2AE3D27D4EB4F)) >> 20) & (capacity - 1);
    while (spots[at].used && (spots[at].inode != inode || spots[at].device != device)) {
        at = (at + 1) & (capacity - 1);
    }
    return &spots[at];
}

static l3a_status grow(l3a_context *context, struct visited *visited) {
    const size_t capacity = visited->capacity ? 2 * visited->capacity : SMALLEST;
    struct spot *spots = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, capacity, sizeof *spots, &spots));
    for (size_t i = 0; i < visited->capacity; i++) {
        if (visited->spots[i].used) {
            *place_of(spots, capacity, visited->spots[i].device, visited->spots[i].inode) = visited->spots[i];
        }
    }
    release(context, visited->spots);
    visited->spots = spots;
    visited->capacity = capacity;
done:
    return status;
}

l3a_status visited_add(l3a_context *context, struct visited *visited, uint64_t device, uint64_t inode, bool *first) {
    l3a_status status = L3A_OK;
    if (2 * visited->count >= visited->capacity) {
        TRY(grow(context, visited));
    }
    struct spot *spot = place_of(visited->spots, visited->capacity, device, inode);
    *first = !spot->used;
    visited->count += *first;
    *spot = (struct spot){device, inode, true};
done:
    return status;
}

void visited_free(l3a_context *context, struct visited *visited) {
    release(context, visited->spots);
    *visited = (struct visited){0};
}
