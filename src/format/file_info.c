/* Describes the content of any file that the library can read. */
#include "base/sized.h"
#include "format/checkpoint.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/shards.h"
#include "format/torch.h"

#include <string.h>

struct l3a_file {
    l3a_context *context;
    const char *kind;
    uint64_t size;
    safetensors safetensors;
    struct tensor array;           /* of a .npy file */
    struct checkpoint *checkpoint; /* of a torch file */
};

static const char *kind_of(const safetensors *file) {
    const char *format = safetensors_metadata(file, "format");
    return format && strcmp(format, "l3a-model") == 0    ? "model"
           : format && strcmp(format, "l3a-packed") == 0 ? "packed"
           : safetensors_find(file, "features") != NULL  ? "features"
                                                         : "safetensors";
}

/* A torch file, or the index of several files. */
static bool is_checkpoint(const char *start, size_t count) {
    return torch_recognise(start, count) || shards_recognise(start, count);
}

l3a_status l3a_file_recognise(l3a_context *context, const char *path, const char **kind) {
    l3a_status status = L3A_OK;
    char start[TORCH_START];
    size_t count;
    safetensors file = {0};
    NEED(context, context, path, kind);
    TRY(read_start(context, path, start, sizeof start, &count));
    if (npy_recognise(start, count) || is_checkpoint(start, count)) {
        *kind = npy_recognise(start, count) ? "npy" : "checkpoint";
        goto done;
    }
    TRY(safetensors_open(context, path, &file));
    *kind = kind_of(&file);
done:
    safetensors_close(&file);
    return status;
}

l3a_status l3a_file_open(l3a_context *context, const char *path, l3a_file **file) {
    l3a_status status = L3A_OK;
    l3a_file *made = NULL;
    char start[TORCH_START];
    char *found = NULL;
    size_t count;
    NEED(context, context, path, file);
    TRY(shards_locate(context, path, &found));
    TRY(read_start(context, found, start, sizeof start, &count));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    if (npy_recognise(start, count)) {
        input_file input;
        TRY(npy_open(context, found, &input, &made->array));
        made->kind = "npy";
        made->size = input.size;
        input_close(&input);
    } else if (is_checkpoint(start, count)) {
        TRY(checkpoint_open(context, found, &made->checkpoint));
        TRY(checkpoint_verify(made->checkpoint));
        made->kind = "checkpoint";
        made->size = checkpoint_size(made->checkpoint);
    } else {
        TRY(safetensors_open(context, found, &made->safetensors));
        TRY(safetensors_verify(&made->safetensors));
        made->kind = kind_of(&made->safetensors);
        made->size = made->safetensors.input.size;
    }
    *file = made;
    made = NULL;
done:
    release(context, found);
    l3a_file_free(made);
    return status;
}

void l3a_file_free(l3a_file *file) {
    if (file) {
        safetensors_close(&file->safetensors);
        checkpoint_free(file->checkpoint);
        release(file->context, file);
    }
}

const char *l3a_file_kind(const l3a_file *file) {
    return file ? file->kind : NULL;
}

uint64_t l3a_file_size(const l3a_file *file) {
    return file ? file->size : 0;
}

void l3a_file_record(const l3a_file *file, size_t index, const char **key, const char **value) {
    if (!file || !key || !value) {
        return;
    }
    if (file->checkpoint) {
        const char *const texts[][2] = {{"form", checkpoint_form(file->checkpoint)},
                                        {"dict", checkpoint_dict(file->checkpoint)},
                                        {"beside", checkpoint_beside(file->checkpoint)}};
        size_t i = 0;
        for (size_t left = index; i < sizeof texts / sizeof *texts && (left || !texts[i][1]); i++) {
            left -= texts[i][1] != NULL;
        }
        *key = i < sizeof texts / sizeof *texts ? texts[i][0] : NULL;
        *value = *key ? texts[i][1] : NULL;
        return;
    }
    const bool there = index < file->safetensors.values.count;
    *key = there ? file->safetensors.keys.items[index] : NULL;
    *value = there ? file->safetensors.values.items[index] : NULL;
}

static int describe_checkpoint_tensor(const struct checkpoint *checkpoint, size_t index, l3a_tensor_info *info) {
    const struct checkpoint_tensor *tensor = checkpoint_at(checkpoint, index);
    if (!tensor) {
        return 0;
    }
    info->name = tensor->name;
    info->type = tensor->type;
    info->rank = tensor->rank;
    memcpy(info->shape, tensor->shape, tensor->rank * sizeof *info->shape);
    info->bytes = tensor->elements * tensor_type_size(tensor_type_find(tensor->type, strlen(tensor->type)));
    info->verified = checkpoint_is_summed(checkpoint, tensor);
    return 1;
}

static int describe_tensor(const l3a_file *file, size_t index, l3a_tensor_info *info) {
    if (file->checkpoint) {
        return describe_checkpoint_tensor(file->checkpoint, index, info);
    }
    const bool npy = strcmp(file->kind, "npy") == 0;
    if (index >= (npy ? 1 : file->safetensors.count)) {
        return 0;
    }
    const struct tensor *tensor = npy ? &file->array : &file->safetensors.tensors[index];
    info->name = tensor->name ? tensor->name : "array";
    info->type = tensor_type_name(tensor->type);
    info->rank = tensor->rank;
    memcpy(info->shape, tensor->shape, tensor->rank * sizeof *info->shape);
    info->bytes = tensor->bytes;
    info->verified = !npy && safetensors_is_summed(&file->safetensors, tensor);
    return 1;
}

int l3a_file_tensor(const l3a_file *file, size_t index, l3a_tensor_info *info) {
    l3a_tensor_info own = {.size = sizeof own};
    return file && info && describe_tensor(file, index, &own) && WRITE_SIZED(file->context, info, own) == L3A_OK;
}
