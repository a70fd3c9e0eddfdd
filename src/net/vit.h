/* The parts of a vision transformer, for networks that add prompts to one. vit.c describes the family with the same calls. A part
 * can be described twice, for two streams of tokens; its parameters must not be trained then. */
#ifndef L3A_VIT_H
#define L3A_VIT_H

#include "net/network.h"

struct vit_sizes {
    size_t width, depth, patch, hidden;
    bool has_class;
    size_t registers;    /* tokens between the class token and those of the picture */
    const char *between; /* the tensor that holds them, or NULL */
    size_t positions;    /* all of them */
    size_t across;       /* the root of how many belong to the picture */
    bool scaled;         /* blocks have factors for each channel */
    bool before;         /* there is a norm before the blocks: an image tower of CLIP */
    bool after;          /* the last norm comes after the pool */
    bool maps;           /* it has attention pooling */
    bool projects;       /* it has a projection */
};

struct vit {
    struct vit_sizes sizes;
    const struct backbone_recipe *recipe;
    size_t blocks; /* that are computed */
};

/* false: the description has failed. */
bool vit_start(struct network *net, const struct backbone_recipe *recipe, struct vit *vit);
/* What enters the first block. */
value vit_tokens(struct network *net, const struct vit *vit);
/* beside: keys and values that all tokens attend to besides, or NOTHING. */
value vit_block(struct network *net, const struct vit *vit, size_t block, value x, value beside);
/* The last norm, of any tokens. */
value vit_norm(struct network *net, const struct vit *vit, value x);
/* The last norm and the pool. */
value vit_features(struct network *net, const struct vit *vit, value x);

/* The parts of a block: its first norm; attention of what that made; the linear map of its result, and the sum with x; the second
 * norm, its two maps, and their sum with x. */
value vit_block_norm(struct network *net, const struct vit *vit, size_t block, value x);
value vit_block_attention(struct network *net, const struct vit *vit, size_t block, value normed, value beside);
value vit_block_project(struct network *net, const struct vit *vit, size_t block, value mixed, value x);
value vit_block_mlp(struct network *net, const struct vit *vit, size_t block, value x);

#endif
