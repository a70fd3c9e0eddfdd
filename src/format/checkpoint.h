/* Checkpoints: named tensors from a .safetensors file or from either form of torch's .pth files, recognised by content.
 *
 * The reader unwraps names: it finds the dict that holds the parameters (at the top level, or under `model`, `state_dict` or
 * `model_state`), and removes the prefix `module.`. Values are returned as float in C order, whatever their stored type, strides or
 * storage. */
#ifndef L3A_CHECKPOINT_H
#define L3A_CHECKPOINT_H

#include "base/context.h"

enum { CHECKPOINT_RANK = 8 };

struct checkpoint_tensor {
    const char *name;
    const char *type; /* the stored type: "F32", "F16", "BF16", "F64", … */
    size_t rank;
    uint64_t shape[CHECKPOINT_RANK];
    uint64_t elements;
};

struct checkpoint;

l3a_status checkpoint_open(l3a_context *context, const char *path, struct checkpoint **checkpoint);
/* The tensors of a safetensors file whose names begin with the prefix, which is removed. */
l3a_status checkpoint_open_inside(l3a_context *context, const char *path, const char *prefix, struct checkpoint **checkpoint);
void checkpoint_free(struct checkpoint *checkpoint);
const char *checkpoint_path(const struct checkpoint *checkpoint);
/* "safetensors", "torch zip", "torch legacy" */
const char *checkpoint_form(const struct checkpoint *checkpoint);
size_t checkpoint_count(const struct checkpoint *checkpoint);
const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *checkpoint, size_t index);
/* Returns NULL if there is no tensor of that name. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
/* Reads all elements as float; values has room for tensor->elements. A NaN or infinity is an error that names the tensor. */
l3a_status checkpoint_read(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, float *values);
/* Verifies every checksum in the file, or of the tensors inside it; checkpoint_is_summed tells whether a tensor has one. */
l3a_status checkpoint_verify(struct checkpoint *checkpoint);
bool checkpoint_is_summed(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor);
uint64_t checkpoint_size(const struct checkpoint *checkpoint);
/* SHA-256 of the whole file, in hexadecimal. */
l3a_status checkpoint_sha256(struct checkpoint *checkpoint, char text[65]);

#endif
