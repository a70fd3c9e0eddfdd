/* A checkpoint in several files, as transformers and timm save large ones: an index (model.safetensors.index.json,
 * pytorch_model.bin.index.json) says which tensor is in which file, and the files, called shards, lie beside it.
 *
 *   {"metadata": {…}, "weight_map": {TENSOR: FILE, …}}
 *
 * The index may come from a stranger, so a FILE is a plain name: nothing outside its folder can be reached. */
#ifndef L3A_SHARDS_H
#define L3A_SHARDS_H

#include "base/memory.h"
#include "base/text_index.h"

struct shards {
    l3a_context *context;
    char *path;        /* of the index */
    uint64_t size;     /* of the index, in bytes */
    char sha256[65];   /* of the index */
    text_list files;   /* names, in the order in which the index first mentions them */
    text_list tensors; /* names … */
    size_t *owners;    /* … and the number of the file that has each */
    text_index names;
};

/* Whether a file that begins with these bytes is JSON, which no checkpoint is. */
bool shards_recognise(const char *start, size_t count);
/* Reads the index, and checks that all of its files are there. */
l3a_status shards_open(l3a_context *context, const char *path, struct shards *shards);
void shards_close(struct shards *shards);
/* The path of a shard. */
l3a_status shards_path(const struct shards *shards, size_t file, char **path);
/* The number of a tensor in the index, or tensors.count. */
size_t shards_find(const struct shards *shards, const char *tensor);
/* The file to open for a path: if it is a folder, the checkpoint or index in it; otherwise the path itself. */
l3a_status shards_locate(l3a_context *context, const char *path, char **file);
/* "folder/name" for a name beside a file, whose path is taken as it is: symbolic links are not followed. */
l3a_status path_of_sibling(l3a_context *context, const char *file, const char *name, char **path);

#endif
