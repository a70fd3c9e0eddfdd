#include "format/checkpoint.h"

#include "base/memory.h"
#include "common/sha256.h"
#include "format/safetensors.h"
#include "format/torch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)CHECKPOINT_RANK == (int)TENSOR_RANK, "both limit the dimensions of a tensor");

struct checkpoint {
    l3a_context *context;
    const char *form;
    bool is_torch;
    safetensors safetensors;
    struct torch_file torch;
    struct checkpoint_tensor *tensors;
    size_t *places; /* the number of each tensor in the open file */
    text_index names;
    size_t count;
};

/* ---- Opening ---- */

static l3a_status fail_foreign(l3a_context *context, const char *path, const char *start, size_t count) {
    static const char pointer[] = "version https://git-lfs";
    static const char general[] = "use a .safetensors file, or a .pth file written by torch.save";
    const bool is_pointer = count >= sizeof pointer - 1 && memcmp(start, pointer, sizeof pointer - 1) == 0;
    const bool is_page = count && *start == '<';
    return fail(context, L3A_ERROR_FORMAT,
                is_pointer ? "this is a Git LFS pointer: fetch the file itself with 'git lfs pull'"
                : is_page  ? "this looks like a web page: download the file itself"
                           : general,
                "%s: not a checkpoint: its first bytes match neither safetensors nor torch.save", path);
}

static l3a_status recognise(l3a_context *context, const char *path, bool *is_torch) {
    l3a_status status = L3A_OK;
    char start[TORCH_START];
    size_t count;
    TRY(read_start(context, path, start, sizeof start, &count));
    *is_torch = torch_recognise(start, count);
    if (!*is_torch && (count < 9 || start[8] != '{')) {
        status = fail_foreign(context, path, start, count);
    }
done:
    return status;
}

/* The tensor of a safetensors file. */
static const struct tensor *own_tensor(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor) {
    return &checkpoint->safetensors.tensors[checkpoint->places[tensor - checkpoint->tensors]];
}

static void describe(const struct checkpoint *checkpoint, size_t place, const char *prefix, struct checkpoint_tensor *to) {
    const struct torch_tensor *torch = checkpoint->is_torch ? &checkpoint->torch.tensors[place] : NULL;
    const struct tensor *own = torch ? NULL : &checkpoint->safetensors.tensors[place];
    const tensor_type type = torch ? torch->type : own->type;
    to->name = (torch ? torch->name : own->name) + strlen(prefix);
    to->name += strncmp(to->name, "module.", 7) == 0 ? 7 : 0;
    to->type = tensor_type_name(type);
    to->rank = torch ? torch->rank : own->rank;
    memcpy(to->shape, torch ? torch->shape : own->shape, sizeof to->shape);
    to->elements = torch ? torch->elements : own->bytes / tensor_type_size(type);
}

static l3a_status list_tensors(struct checkpoint *checkpoint, const char *prefix) {
    const size_t all = checkpoint->is_torch ? checkpoint->torch.count : checkpoint->safetensors.count;
    l3a_status status = L3A_OK;
    const char **names = NULL;
    size_t count = 0, first;
    TRY(allocate_zeroed(checkpoint->context, all, sizeof *checkpoint->tensors, &checkpoint->tensors));
    TRY(allocate(checkpoint->context, all, sizeof *checkpoint->places, &checkpoint->places));
    TRY(allocate(checkpoint->context, all, sizeof *names, &names));
    for (size_t i = 0; i < all; i++) {
        if (checkpoint->is_torch || strncmp(checkpoint->safetensors.tensors[i].name, prefix, strlen(prefix)) == 0) {
            describe(checkpoint, i, prefix, &checkpoint->tensors[count]);
            names[count] = checkpoint->tensors[count].name;
            checkpoint->places[count++] = i;
        }
    }
    checkpoint->count = count;
    TRY(text_index_make(checkpoint->context, (char *const *)names, count, &checkpoint->names));
    const size_t second = text_index_repeated(&checkpoint->names, &first);
    FAIL_IF(second < count, checkpoint->context, L3A_ERROR_FORMAT, "save the weights again, each under its own name",
            "%s: tensor '%s' is listed twice", checkpoint_path(checkpoint), names[second]);
done:
    release(checkpoint->context, names);
    return status;
}

l3a_status checkpoint_open(l3a_context *context, const char *path, struct checkpoint **checkpoint) {
    l3a_status status = L3A_OK;
    struct checkpoint *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(recognise(context, path, &made->is_torch));
    if (made->is_torch) {
        TRY(torch_open(context, path, &made->torch));
        made->form = made->torch.zipped ? "torch zip" : "torch legacy";
    } else {
        TRY(safetensors_open(context, path, &made->safetensors));
        made->form = "safetensors";
    }
    TRY(list_tensors(made, ""));
    *checkpoint = made;
    made = NULL;
done:
    checkpoint_free(made);
    return status;
}

l3a_status checkpoint_open_inside(l3a_context *context, const char *path, const char *prefix, struct checkpoint **checkpoint) {
    l3a_status status = L3A_OK;
    struct checkpoint *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->form = "safetensors";
    TRY(safetensors_open(context, path, &made->safetensors));
    TRY(list_tensors(made, prefix));
    *checkpoint = made;
    made = NULL;
done:
    checkpoint_free(made);
    return status;
}

void checkpoint_free(struct checkpoint *checkpoint) {
    if (checkpoint) {
        l3a_context *context = checkpoint->context;
        safetensors_close(&checkpoint->safetensors);
        torch_close(&checkpoint->torch);
        release(context, checkpoint->tensors);
        release(context, checkpoint->places);
        text_index_free(context, &checkpoint->names);
        release(context, checkpoint);
    }
}

/* ---- What it holds ---- */

static const input_file *input_of(const struct checkpoint *checkpoint) {
    return checkpoint->is_torch ? &checkpoint->torch.input : &checkpoint->safetensors.input;
}

const char *checkpoint_path(const struct checkpoint *checkpoint) {
    return input_of(checkpoint)->path;
}

uint64_t checkpoint_size(const struct checkpoint *checkpoint) {
    return input_of(checkpoint)->size;
}

const char *checkpoint_form(const struct checkpoint *checkpoint) {
    return checkpoint->form;
}

size_t checkpoint_count(const struct checkpoint *checkpoint) {
    return checkpoint->count;
}

const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *checkpoint, size_t index) {
    return index < checkpoint->count ? &checkpoint->tensors[index] : NULL;
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name) {
    return checkpoint_at(checkpoint, text_index_find(&checkpoint->names, name));
}

/* ---- Numbers ---- */

l3a_status checkpoint_read(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, float *values) {
    l3a_status status = L3A_OK;
    FAIL_IF(!tensor, checkpoint->context, L3A_ERROR_ARGUMENT, "check the name of the tensor", "%s: no such tensor",
            checkpoint_path(checkpoint));
    const size_t place = checkpoint->places[tensor - checkpoint->tensors];
    TRY(checkpoint->is_torch
            ? torch_read(&checkpoint->torch, &checkpoint->torch.tensors[place], values)
            : tensor_read(&checkpoint->safetensors.input, own_tensor(checkpoint, tensor), 0, (size_t)tensor->elements, values));
    for (uint64_t i = 0; i < tensor->elements; i++) {
        FAIL_IF(!isfinite(values[i]), checkpoint->context, L3A_ERROR_DATA, "use a checkpoint from before training diverged",
                "%s: tensor '%s': element %" PRIu64 " is %g, not a finite float", checkpoint_path(checkpoint), tensor->name, i,
                (double)values[i]);
    }
done:
    return status;
}

l3a_status checkpoint_verify(struct checkpoint *checkpoint) {
    l3a_status status = L3A_OK;
    if (checkpoint->is_torch) {
        return torch_verify(&checkpoint->torch);
    }
    for (size_t i = 0; i < checkpoint->count; i++) {
        TRY(safetensors_verify_tensor(&checkpoint->safetensors, own_tensor(checkpoint, &checkpoint->tensors[i])));
    }
done:
    return status;
}

bool checkpoint_is_summed(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor) {
    return checkpoint->is_torch ? checkpoint->torch.zipped
                                : safetensors_is_summed(&checkpoint->safetensors, own_tensor(checkpoint, tensor));
}

static void add_to_sha256(void *user, const char *bytes, size_t count) {
    sha256_add(user, bytes, count);
}

l3a_status checkpoint_sha256(struct checkpoint *checkpoint, char text[65]) {
    l3a_status status = L3A_OK;
    const input_file *input = input_of(checkpoint);
    struct sha256 sha256;
    uint8_t digest[SHA256_BYTES];
    sha256_begin(&sha256);
    TRY(input_scan(input, 0, input->size, add_to_sha256, &sha256));
    sha256_end(&sha256, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
done:
    return status;
}
