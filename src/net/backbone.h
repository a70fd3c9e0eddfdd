/* Opens a backbone from a table of tensors instead of a file, on a back end of the caller's choice. The public calls and the tests
 * are built on this. */
#ifndef L3A_BACKBONE_H
#define L3A_BACKBONE_H

#include "net/back_end.h"

struct l3a_backbone {
    l3a_context *context;
    const struct network_back_end *back_end;
    void *state; /* of the back end */
    l3a_backbone_info info;
};

/* Recognises the network in a table of tensors, and describes it. The caller frees the network, also after a failure. */
l3a_status backbone_read(l3a_context *context, const struct parameter_source *source, const l3a_backbone_options *options,
                         const struct family **family, struct backbone_recipe *recipe, struct network *network);
/* NULL options: the defaults. */
l3a_status backbone_open_from(l3a_context *context, const struct parameter_source *source, const struct network_back_end *back_end,
                              const l3a_backbone_options *options, l3a_backbone **backbone);

#endif
