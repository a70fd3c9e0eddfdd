/* Opens a backbone from a table of tensors instead of a file, with an engine of the caller's choice. The public calls and the tests
 * are built on this. */
#ifndef L3A_BACKBONE_H
#define L3A_BACKBONE_H

#include "net/program.h"

struct l3a_backbone {
    l3a_context *context;
    const struct engine *engine;
    void *state;
    struct network network;
    struct program many, one; /* for a batch, and for a single picture */
    float *arena;
    void *memory; /* contains the arena, which is aligned */
    l3a_backbone_info info;
    bool borrows; /* the network, and its packed parameters, of another backbone */
};

l3a_status backbone_open_from(l3a_context *context, const struct weight_source *source, const struct engine *engine,
                              const l3a_backbone_options *options, l3a_backbone **backbone);
/* Makes a second backbone, for another thread, with the parameters of the first, which must outlive it. The context must have as
 * many threads as the first one's: the layout of the parameters may depend on their number. */
l3a_status backbone_share(l3a_context *context, const l3a_backbone *first, l3a_backbone **backbone);

#endif
