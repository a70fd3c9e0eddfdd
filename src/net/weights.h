/* Where a network's numbers come from: a table of named tensors, which a checkpoint fills, or a test from memory. It remembers
 * which tensors a description asked for, so that one too many is found as surely as one too few. */
#ifndef L3A_WEIGHTS_SOURCE_H
#define L3A_WEIGHTS_SOURCE_H

#include "base/text_index.h"
#include "format/checkpoint.h"

struct weight_source {
    void *owner;
    size_t count;
    const struct checkpoint_tensor *(*at)(const void *owner, size_t index);
    /* All elements of a tensor, in C order. */
    l3a_status (*read)(void *owner, const struct checkpoint_tensor *tensor, float *values);
};

struct weights {
    l3a_context *context;
    struct weight_source source;
    bool *used;
    text_index names;
};

void weight_source_checkpoint(struct checkpoint *checkpoint, struct weight_source *source);

l3a_status weights_open(l3a_context *context, const struct weight_source *source, struct weights *weights);
void weights_close(struct weights *weights);
/* NULL when there is none of that name. */
const struct checkpoint_tensor *weights_find(const struct weights *weights, const char *name);
/* How many numbered parts a name has: one more than the largest N in names that begin with "prefixN.". */
size_t weights_count_parts(const struct weights *weights, const char *prefix);
/* A new array with the tensor's numbers. A tensor that is missing, or of another shape, is an error that says what was expected. */
l3a_status weights_take(struct weights *weights, const char *name, size_t rank, const uint64_t *shape, float **values);
/* A tensor that was not taken, and is neither a classifier's nor a counter of training steps, is an error that names it. */
l3a_status weights_check_all_used(const struct weights *weights, const char *network);

/* The scale and shift that a batch norm amounts to: y = scale · x + shift. */
struct batch_norm {
    double *scale, *shift;
};

/* magnitude: the scale is |weight| + epsilon, as in the in-place activated batch norm of TResNet's first release. */
l3a_status weights_take_batch_norm(struct weights *weights, const char *name, size_t channels, bool magnitude,
                                   struct batch_norm *norm);
void batch_norm_free(l3a_context *context, struct batch_norm *norm);

#endif
