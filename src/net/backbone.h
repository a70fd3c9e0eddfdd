/* A backbone opened from a table of tensors rather than from a file, and with an engine of the caller's choice: what the public
 * calls and the tests build on. */
#ifndef L3A_BACKBONE_H
#define L3A_BACKBONE_H

#include "net/program.h"

struct l3a_backbone {
    l3a_context *context;
    const struct engine *engine;
    void *state;
    struct network network;
    struct program many, one; /* a batch at a time, and a single picture */
    float *arena;
    void *memory; /* in which the arena lies, aligned */
    l3a_backbone_info info;
};

l3a_status backbone_open_from(l3a_context *context, const struct weight_source *source, const struct engine *engine,
                              const l3a_backbone_options *options, l3a_backbone **backbone);

#endif
