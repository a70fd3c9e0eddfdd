/* Where the values of a fused network live in one stretch of memory, its arena. */
#ifndef L3A_NET_PLACES_H
#define L3A_NET_PLACES_H

#include "net/network.h"

/* The place of a value, and of the values that are written over it. */
struct stretch {
    size_t start, size, first, last;
};

/* The value that a layer writes its output over: what a product adds to, or what squeeze and excite reads. NOTHING: none. */
value layer_overwrites(const struct net_layer *layer);
/* The lowest place for a stretch where it overlaps none of these that is needed at the same time. */
size_t places_lowest(const struct stretch *stretches, size_t count, const struct stretch *wanted);
/* Sets the place of each value, in the units of its size. last_uses has room for a number for each value, stretches for one for
 * each layer. Returns the layer that would write over a value that is still needed, or layer_count. Needs no memory of its own. */
size_t places_find(const struct network *net, const size_t *sizes, size_t *last_uses, struct stretch *stretches, size_t *places,
                   size_t *arena);

#endif
