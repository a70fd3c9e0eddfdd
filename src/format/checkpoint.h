/* Checkpoints: named tensors from a .safetensors file or from either form of torch's .pth files, recognised by content; or from
 * several such files with an index (shards.h). A path may be that of a folder, which stands for the checkpoint in it.
 *
 * The reader unwraps names. It finds the dict that holds the parameters: at the top level, or under one of the names that training
 * programs use (torch.c). It removes what wrappers put before names: `module.`, `_orig_mod.`, `model.` and `backbone.`, unless two
 * tensors would then have the same name. Values are returned as float in C order, whatever their stored type, strides or storage.
 */
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
/* The path of the file, or of the index: that of a file in the folder, if the path was a folder's. */
const char *checkpoint_path(const struct checkpoint *checkpoint);
/* "safetensors", "torch zip", "torchscript", "torch legacy" */
const char *checkpoint_form(const struct checkpoint *checkpoint);
/* How many files hold its tensors: 1, unless it has an index. */
size_t checkpoint_files(const struct checkpoint *checkpoint);
/* The path of one of them. */
const char *checkpoint_file(const struct checkpoint *checkpoint, size_t index);
/* The name of the dict that holds the parameters, such as "state_dict"; NULL if they are at the top level. */
const char *checkpoint_dict(const struct checkpoint *checkpoint);
/* The names of the dicts beside it, which are not read; NULL if there are none. */
const char *checkpoint_beside(const struct checkpoint *checkpoint);
/* What a safetensors file says of itself under a key; of several files, the first that does. NULL if there is nothing. */
const char *checkpoint_metadata(const struct checkpoint *checkpoint, const char *key);
size_t checkpoint_count(const struct checkpoint *checkpoint);
const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *checkpoint, size_t index);
/* Returns NULL if there is no tensor of that name. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
/* Reads all elements as float; values has room for tensor->elements. A NaN or infinity is an error that names the tensor. */
l3a_status checkpoint_read(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, float *values);
/* Reads all elements in C order as they are stored; bytes has room for as many numbers of tensor->type. */
l3a_status checkpoint_read_bytes(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, void *bytes);
/* The name of a tensor in the file, with what wrappers put before it. */
const char *checkpoint_stored_name(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor);
/* Verifies every checksum in the file, or of the tensors inside it; checkpoint_is_summed tells whether a tensor has one. */
l3a_status checkpoint_verify(struct checkpoint *checkpoint);
bool checkpoint_is_summed(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor);
/* The bytes of all files, with the index. */
uint64_t checkpoint_size(const struct checkpoint *checkpoint);
/* SHA-256 of the whole file, in hexadecimal. With an index, it is that of a text: for the index, and then for each file in the
 * order in which the index first mentions them, a line with the file's SHA-256, two spaces and its name, as sha256sum prints it. */
l3a_status checkpoint_sha256(struct checkpoint *checkpoint, char text[65]);

#endif
