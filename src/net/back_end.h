/* A back end of networks: an implementation that takes a network whole. It decides how many pictures it computes at a time, where
 * values live, and in which form it keeps the parameters. Only pictures and results cross this boundary.
 *
 * To add a back end, write its files in a folder of their own, as cpu/ is one, and add a line to the table in back_end.c. */
#ifndef L3A_NET_BACK_END_H
#define L3A_NET_BACK_END_H

#include "net/network.h"

struct network_back_end {
    const char *name; /* `engine` in l3a_backbone_info */
    /* Whether this build and this machine have it. The other calls are made only if they do. */
    bool (*available)(void);
    /* Prepares a network. It need not live longer than this call: what the back end needs of it, it copies or converts. Memory
     * comes from the network's context. */
    l3a_status (*open)(const struct network *network, void **state);
    /* Computes the network's output for any number of pictures [count x 3 x side x side], as planes [count x channels x height x
     * width]: rows of features if the output is one pixel. */
    l3a_status (*run)(void *state, const float *pictures, size_t count, float *output);
    /* Another state with the same parameters, for another thread. Memory comes from that context. It must be closed first. */
    l3a_status (*share)(l3a_context *context, const void *state, void **shared);
    void (*close)(void *state);
};

/* All back ends of the library, the fastest first; the last is always available. NULL past the end. */
const struct network_back_end *network_back_end_at(size_t index);
/* The first one that is available. */
const struct network_back_end *network_back_end_best(void);

#endif
