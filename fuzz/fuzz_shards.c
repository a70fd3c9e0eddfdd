/* The index of a checkpoint in several files. The input is the index, or a folder (fuzz.h) with it and with files that it names;
 * two good ones are there in any case. Nothing outside of the folder is opened. An index that is read has each tensor once, in a
 * file with a plain name; a checkpoint that opens has exactly the tensors of its index, and all can be read. */
#include "fuzz.h"

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/shards.h"

#include <stdlib.h>
#include <string.h>

#define INDEX "model.safetensors.index.json"

enum { ELEMENTS_LIMIT = 1 << 12 };

/* Two files with the tensors x and y, and z. */
static const char first[] = "\x70\0\0\0\0\0\0\0"
                            "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                            "\"y\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[8,12]}}  "
                            "aaa?bbb?c<d<";
static const char second[] = "\x40\0\0\0\0\0\0\0"
                             "{\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}           "
                             "eee?";

static file_operations inside;
static int (*open_memory)(const char *path, int flags, mode_t mode);

static int open_inside(const char *path, int flags, mode_t mode) {
    must(strncmp(path, "in/", 3) == 0 && path[3] && !strchr(path + 3, '/') && strcmp(path, "in/..") != 0 &&
         strcmp(path, "in/.") != 0);
    return open_memory(path, flags, mode);
}

static void check_error(const l3a_context *context) {
    must(l3a_error_text(context)[0] && l3a_error_hint(context)[0]);
}

static size_t check_index(l3a_context *context) {
    struct shards shards;
    size_t count = 0;
    if (shards_open(context, "in/" INDEX, &shards) == L3A_OK) {
        count = shards.tensors.count;
        must(count && shards.files.count);
        for (size_t i = 0; i < count; i++) {
            must(shards.owners[i] < shards.files.count && shards_find(&shards, shards.tensors.items[i]) == i);
        }
        for (size_t i = 0; i < shards.files.count; i++) {
            const char *name = shards.files.items[i];
            must(name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
        }
    } else {
        check_error(context);
    }
    shards_close(&shards);
    return count;
}

static void check_checkpoint(l3a_context *context, size_t expected) {
    struct checkpoint *checkpoint = NULL;
    char sum[65];
    if (checkpoint_open(context, "in/" INDEX, &checkpoint) == L3A_OK) {
        const size_t count = checkpoint_count(checkpoint);
        must(checkpoint_sha256(checkpoint, sum) == L3A_OK && strlen(sum) == 64);
        must(!expected || (count == expected && checkpoint_files(checkpoint) <= count));
        (void)checkpoint_verify(checkpoint);
        for (size_t i = 0; i < count; i++) {
            const struct checkpoint_tensor *tensor = checkpoint_at(checkpoint, i);
            float values[ELEMENTS_LIMIT];
            must(checkpoint_find(checkpoint, tensor->name) == tensor);
            (void)checkpoint_is_summed(checkpoint, tensor);
            if (tensor->elements <= ELEMENTS_LIMIT && checkpoint_read(checkpoint, tensor, values) != L3A_OK) {
                check_error(context);
            }
        }
    } else {
        check_error(context);
    }
    checkpoint_free(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over_folder(bytes, count);
    add_file("a.safetensors", first, sizeof first - 1);
    add_file("b.safetensors", second, sizeof second - 1);
    if (!count || !memmem(bytes, count, "@@", 2)) {
        static const uint8_t nothing;
        add_file(INDEX, count ? bytes : &nothing, count);
    }
    inside = *context->files;
    open_memory = inside.open;
    inside.open = open_inside;
    context->files = &inside;
    check_checkpoint(context, check_index(context));
    l3a_context_free(context);
    return 0;
}
