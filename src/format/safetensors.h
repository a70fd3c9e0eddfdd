/* safetensors: eight bytes with the length of the header, a JSON header, and the tensors one after another.
 *
 * This project adds metadata that any other reader may ignore: `xxh3.NAME` is the XXH3-64 of a tensor's bytes, and `xxh3.header` is
 * that of the header, computed with this one value written as zeros. So a checksum covers every bit of such a file. */
#ifndef L3A_SAFETENSORS_H
#define L3A_SAFETENSORS_H

#include "base/memory.h"
#include "base/text_index.h"
#include "format/tensor.h"

typedef struct safetensors {
    l3a_context *context;
    input_file input;
    text_list keys, values; /* metadata */
    struct tensor *tensors;
    size_t count;
    text_index key_index, name_index; /* of the metadata's keys, of the tensors' names */
    bool summed;                      /* the header has a checksum */
} safetensors;

l3a_status safetensors_open(l3a_context *context, const char *path, safetensors *file);
void safetensors_close(safetensors *file);
/* Return NULL if there is none. */
const struct tensor *safetensors_find(const safetensors *file, const char *name);
const char *safetensors_metadata(const safetensors *file, const char *key);
/* Whether the tensor has a checksum. */
bool safetensors_is_summed(const safetensors *file, const struct tensor *tensor);
/* Verifies every checksum in the file. */
l3a_status safetensors_verify(const safetensors *file);
/* Verifies the checksum of a tensor, if it has one. */
l3a_status safetensors_verify_tensor(const safetensors *file, const struct tensor *tensor);
/* Finds the tensor, or fails with an error that says what was expected; a 0 in shape means "any". */
l3a_status safetensors_expect(const safetensors *file, const char *name, size_t rank, const uint64_t *shape,
                              const struct tensor **tensor);

/* What to write: `fill` provides the bytes of each tensor in order, in chunks of at most
 * WRITE_CHUNK bytes, and on the thread that calls safetensors_write. */
typedef l3a_status tensor_fill(void *argument, uint64_t offset, void *bytes, size_t count);

typedef struct tensor_source {
    const char *name;
    tensor_type type;
    size_t rank;
    uint64_t shape[TENSOR_RANK];
    tensor_fill *fill;
    void *argument;
} tensor_source;

/* The `fill` of a tensor in memory; argument is its address. */
tensor_fill fill_from_memory;

l3a_status safetensors_write(l3a_context *context, const char *path, const text_list *keys, const text_list *values,
                             const tensor_source *sources, size_t count);

#endif
