/* Derives what runs from a description (network.h): the same network for inference, with fewer layers. */
#ifndef L3A_FUSE_H
#define L3A_FUSE_H

#include "net/network.h"

/* Rewrites the network for inference. `outputs`: how many of its outputs are wanted, from the first one on; layers that none of
 * them needs are dropped. Parameters that no longer are those of the checkpoint lose their names. After a failure, the network can
 * only be freed. */
l3a_status network_fuse(struct network *net, size_t outputs);

#endif
