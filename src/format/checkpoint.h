/* Checkpoints: named tensors from a .safetensors file or from either form of torch's .pth files, recognised by content.
 *
 * Names come without what wraps them: the dict that holds the weights is found (the top, or `model`, `state_dict`, `model_state`),
 * and the prefix `module.` goes. Values come as float, in C order, whatever type, stride or storage they had. */
#ifndef L3A_CHECKPOINT_H
#define L3A_CHECKPOINT_H

#include "base/context.h"

enum { CHECKPOINT_RANK = 8 };

struct checkpoint_tensor {
    const char *name;
    const char *type; /* "F32", "F16", "BF16", "F64", … as it is stored */
    size_t rank;
    uint64_t shape[CHECKPOINT_RANK];
    uint64_t elements;
};

struct checkpoint;

l3a_status checkpoint_open(l3a_context *context, const char *path, struct checkpoint **checkpoint);
void checkpoint_free(struct checkpoint *checkpoint);
const char *checkpoint_path(const struct checkpoint *checkpoint);
/* "safetensors", "torch zip", "torch legacy" */
const char *checkpoint_form(const struct checkpoint *checkpoint);
size_t checkpoint_count(const struct checkpoint *checkpoint);
const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *checkpoint, size_t index);
/* NULL when there is none of that name. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
/* All elements, as float; values has room for tensor->elements. A NaN or infinity is an error that names the tensor. */
l3a_status checkpoint_read(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, float *values);
/* Verifies every checksum there is, and says whether a tensor has one. */
l3a_status checkpoint_verify(struct checkpoint *checkpoint);
bool checkpoint_is_summed(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor);
uint64_t checkpoint_size(const struct checkpoint *checkpoint);
/* SHA-256 of the whole file, in hexadecimal. */
l3a_status checkpoint_sha256(struct checkpoint *checkpoint, char text[65]);

#endif
