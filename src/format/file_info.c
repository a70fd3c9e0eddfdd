/* What a file holds, whatever this library knows of. */
#include "format/npy.h"
#include "format/safetensors.h"

#include <string.h>

struct l3a_file {
    l3a_context *context;
    const char *kind;
    uint64_t size;
    safetensors safetensors;
    struct tensor array; /* of a .npy file */
};

static l3a_status looks_like_npy(l3a_context *context, const char *path, bool *is_npy) {
    l3a_status status = L3A_OK;
    char start[6];
    input_file input;
    *is_npy = false;
    TRY(input_open(context, path, &input));
    if (input.size >= sizeof start) {
        TRY(input_read(&input, 0, start, sizeof start));
        *is_npy = npy_recognise(start, sizeof start);
    }
done:
    input_close(&input);
    return status;
}

l3a_status l3a_file_open(l3a_context *context, const char *path, l3a_file **file) {
    l3a_status status = L3A_OK;
    l3a_file *made = NULL;
    bool is_npy;
    TRY(looks_like_npy(context, path, &is_npy));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    if (is_npy) {
        input_file input;
        TRY(npy_open(context, path, &input, &made->array));
        made->kind = "npy";
        made->size = input.size;
        input_close(&input);
    } else {
        TRY(safetensors_open(context, path, &made->safetensors));
        TRY(safetensors_verify(&made->safetensors));
        const char *format = safetensors_metadata(&made->safetensors, "format");
        made->kind = format && strcmp(format, "l3a-model") == 0                 ? "model"
                     : safetensors_find(&made->safetensors, "features") != NULL ? "features"
                                                                                : "safetensors";
        made->size = made->safetensors.input.size;
    }
    *file = made;
    made = NULL;
done:
    l3a_file_free(made);
    return status;
}

void l3a_file_free(l3a_file *file) {
    if (file) {
        safetensors_close(&file->safetensors);
        release(file->context, file);
    }
}

const char *l3a_file_kind(const l3a_file *file) {
    return file->kind;
}

uint64_t l3a_file_size(const l3a_file *file) {
    return file->size;
}

void l3a_file_record(const l3a_file *file, size_t index, const char **key, const char **value) {
    const bool there = index < file->safetensors.values.count;
    *key = there ? file->safetensors.keys.items[index] : NULL;
    *value = there ? file->safetensors.values.items[index] : NULL;
}

int l3a_file_tensor(const l3a_file *file, size_t index, l3a_tensor_info *info) {
    const bool npy = strcmp(file->kind, "npy") == 0;
    if (index >= (npy ? 1 : file->safetensors.count)) {
        return 0;
    }
    const struct tensor *tensor = npy ? &file->array : &file->safetensors.tensors[index];
    memset(info, 0, sizeof *info);
    info->name = tensor->name ? tensor->name : "array";
    info->type = tensor_type_name(tensor->type);
    info->rank = tensor->rank;
    memcpy(info->shape, tensor->shape, tensor->rank * sizeof *info->shape);
    info->bytes = tensor->bytes;
    info->verified = !npy && safetensors_is_summed(&file->safetensors, tensor);
    return 1;
}
