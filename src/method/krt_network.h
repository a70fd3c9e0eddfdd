/* The network of KRT (Dong et al. 2023): a backbone, and behind it a head with one block of attention and a token for each phase.
 */
#ifndef L3A_METHOD_KRT_NETWORK_H
#define L3A_METHOD_KRT_NETWORK_H

#include "method/published.h"

/* Its outputs. Those of the tokens are the embeddings e of all phases, [width, phases]. */
enum { KRT_SCORES, KRT_TOKENS, KRT_POOLED };

struct krt {
    struct head head;
    size_t width;        /* of its tokens; 0: that of the data set */
    bool leak;           /* exemplars get labels of later phases, as in the published program */
    uint64_t *threshold; /* in steps of 1/200 */
};

value krt_describe(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe);
l3a_status krt_make(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values);
bool krt_trains(void *owner, const char *name, bool selected);

#endif
