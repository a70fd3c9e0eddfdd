/* safetensors: eight bytes of header length, a JSON header, the tensors one after another.
 *
 * What this project adds, and any other reader may ignore: metadata `xxh3.NAME`, the XXH3-64 of a tensor's bytes, and
 * `xxh3.header`, that of the header with this one value written as zeros. So each bit of such a file is under a checksum. */
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
/* NULL when there is none. */
const struct tensor *safetensors_find(const safetensors *file, const char *name);
const char *safetensors_metadata(const safetensors *file, const char *key);
/* True when the tensor has a checksum. */
bool safetensors_is_summed(const safetensors *file, const struct tensor *tensor);
/* Verifies every checksum there is. */
l3a_status safetensors_verify(const safetensors *file);
/* The tensor, or an error that says what was expected; shape may have zeros for "any". */
l3a_status safetensors_expect(const safetensors *file, const char *name, size_t rank, const uint64_t *shape,
                              const struct tensor **tensor);

/* What is written: each tensor's bytes come in order from `fill`, in chunks of at most 1 MiB. */
typedef struct tensor_source {
    const char *name;
    tensor_type type;
    size_t rank;
    uint64_t shape[TENSOR_RANK];
    l3a_status (*fill)(void *argument, uint64_t offset, void *bytes, size_t count);
    void *argument;
} tensor_source;

/* A source whose bytes stand in memory: argument is their address. */
l3a_status fill_from_memory(void *argument, uint64_t offset, void *bytes, size_t count);

l3a_status safetensors_write(l3a_context *context, const char *path, const text_list *keys, const text_list *values,
                             const tensor_source *sources, size_t count);

#endif
