/* Checkpoints that torch.save wrote, in either form.
 *
 * The zip form: NAME/data.pkl is a pickle of the saved object, in which a tensor is a view into a numbered storage, and
 * NAME/data/NUMBER has a storage's bytes. The legacy form, before torch 1.6: five pickles (a magic number, a version, facts of the
 * machine, the object, the keys of the storages), and then for each key the number of elements and the bytes. */
#ifndef L3A_TORCH_H
#define L3A_TORCH_H

#include "format/tensor.h"
#include "format/zip.h"

struct torch_storage {
    uint64_t offset, bytes;
    bool placed;   /* offset is known: the header before an entry of an archive is read when its bytes are */
    bool verified; /* its checksum was found to hold */
};

struct torch_tensor {
    char *name;
    tensor_type type;
    size_t rank, storage;
    uint64_t elements, first, span; /* first: in the storage; span: elements from the first to the last */
    uint64_t shape[TENSOR_RANK], stride[TENSOR_RANK];
};

struct torch_file {
    l3a_context *context;
    input_file input;
    bool zipped;
    struct zip zip;
    struct torch_storage *storages; /* of an archive: one an entry, in its order */
    size_t storage_count;
    struct torch_tensor *tensors;
    size_t count;
};

/* True for both forms; count may be less than TORCH_START where the file is shorter. */
enum { TORCH_START = 64 };
bool torch_recognise(const char *bytes, size_t count);
/* Reads what describes the tensors, and none of their numbers. */
l3a_status torch_open(l3a_context *context, const char *path, struct torch_file *file);
void torch_close(struct torch_file *file);
/* All elements, in C order. */
l3a_status torch_read(struct torch_file *file, const struct torch_tensor *tensor, float *values);
/* Verifies the checksum of every storage that a tensor uses; the legacy form has none. */
l3a_status torch_verify(struct torch_file *file);

#endif
