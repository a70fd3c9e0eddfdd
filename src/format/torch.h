/* Checkpoints written by torch.save, in either form, and by torch.jit.save.
 *
 * The zip form: NAME/data.pkl is a pickle of the saved object, in which a tensor is a view into a numbered storage, and
 * NAME/data/NUMBER has the bytes of a storage. The legacy form, from before torch 1.6: five pickles (a magic number, a version,
 * facts about the machine, the object, the keys of the storages), then for each key the number of elements and the bytes.
 *
 * torch.jit.save writes a TorchScript archive: the zip form, whose object is a module with its attributes. Its parameters have the
 * names that they have in the state dict. The code in the archive is not read. */
#ifndef L3A_TORCH_H
#define L3A_TORCH_H

#include "format/tensor.h"
#include "format/zip.h"

struct torch_storage {
    uint64_t offset, bytes;
    bool placed;   /* whether offset is known: the header of a zip entry is only read when its bytes are */
    bool verified; /* its checksum is correct */
};

struct torch_tensor {
    char *name;
    tensor_type type;
    size_t rank, storage;
    uint64_t elements, first, span; /* first: position in the storage; span: elements from the first to the last */
    uint64_t shape[TENSOR_RANK], stride[TENSOR_RANK];
};

struct torch_file {
    l3a_context *context;
    input_file input;
    bool zipped, script; /* script: a TorchScript archive */
    struct zip zip;
    struct torch_storage *storages; /* in the zip form: one per entry, in the same order */
    size_t storage_count;
    struct torch_tensor *tensors;
    size_t count, room;
    const char *dict; /* the name of the dict of parameters; NULL: the top level */
    char *beside;     /* the names of the other dicts, such as "optimizer, model_ema"; NULL: there are none */
};

/* Recognises both forms; count may be less than TORCH_START if the file is shorter. */
enum { TORCH_START = 64 };
bool torch_recognise(const char *bytes, size_t count);
/* Reads the descriptions of the tensors, but not their numbers. */
l3a_status torch_open(l3a_context *context, const char *path, struct torch_file *file);
void torch_close(struct torch_file *file);
/* Reads all elements in C order. */
l3a_status torch_read(struct torch_file *file, const struct torch_tensor *tensor, float *values);
/* The same in the type in which they are stored. */
l3a_status torch_read_bytes(struct torch_file *file, const struct torch_tensor *tensor, void *bytes);
/* Verifies the checksum of every storage that a tensor uses; the legacy form has no checksums. */
l3a_status torch_verify(struct torch_file *file);

#endif
