#include "format/checkpoint.h"

#include "base/memory.h"
#include "common/sha256.h"
#include "format/safetensors.h"
#include "format/shards.h"
#include "format/torch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char other_shards[] = "download all files of the checkpoint again, from the same place; these do not belong together";

_Static_assert((int)CHECKPOINT_RANK == (int)TENSOR_RANK, "both limit the dimensions of a tensor");

/* A file that holds tensors. */
struct part {
    const char *form;
    bool is_torch;
    safetensors safetensors;
    struct torch_file torch;
};

/* Where a tensor is. */
struct place {
    size_t part, tensor;
};

struct checkpoint {
    l3a_context *context;
    char *path;
    struct part *parts;
    size_t part_count;
    struct shards shards; /* if there is an index */
    struct checkpoint_tensor *tensors;
    struct place *places;
    text_index names;
    size_t count;
};

/* ---- A file ---- */

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

static l3a_status recognise(l3a_context *context, const char *path, bool *is_torch, bool *is_index) {
    l3a_status status = L3A_OK;
    char start[TORCH_START];
    size_t count;
    TRY(read_start(context, path, start, sizeof start, &count));
    *is_torch = torch_recognise(start, count);
    *is_index = !*is_torch && shards_recognise(start, count);
    if (!*is_torch && !*is_index && (count < 9 || start[8] != '{')) {
        status = fail_foreign(context, path, start, count);
    }
done:
    return status;
}

static l3a_status open_part(l3a_context *context, const char *path, bool is_torch, struct part *part) {
    l3a_status status = L3A_OK;
    part->is_torch = is_torch;
    TRY(is_torch ? torch_open(context, path, &part->torch) : safetensors_open(context, path, &part->safetensors));
    part->form = !is_torch ? "safetensors" : part->torch.script ? "torchscript" : part->torch.zipped ? "torch zip" : "torch legacy";
done:
    return status;
}

static size_t part_count(const struct part *part) {
    return part->is_torch ? part->torch.count : part->safetensors.count;
}

/* The name of a tensor in the file. */
static const char *part_name(const struct part *part, size_t tensor) {
    return part->is_torch ? part->torch.tensors[tensor].name : part->safetensors.tensors[tensor].name;
}

static bool part_has(const struct part *part, const char *name) {
    bool found = false;
    for (size_t i = 0; !found && i < part_count(part); i++) {
        found = strcmp(part_name(part, i), name) == 0;
    }
    return found;
}

static const input_file *part_input(const struct part *part) {
    return part->is_torch ? &part->torch.input : &part->safetensors.input;
}

static void describe(const struct part *part, size_t tensor, struct checkpoint_tensor *to) {
    const struct torch_tensor *torch = part->is_torch ? &part->torch.tensors[tensor] : NULL;
    const struct tensor *own = torch ? NULL : &part->safetensors.tensors[tensor];
    const tensor_type type = torch ? torch->type : own->type;
    to->type = tensor_type_name(type);
    to->rank = torch ? torch->rank : own->rank;
    memcpy(to->shape, torch ? torch->shape : own->shape, sizeof to->shape);
    to->elements = torch ? torch->elements : own->bytes / tensor_type_size(type);
}

/* ---- Several files ---- */

/* The index and the files must agree in every tensor: otherwise they do not belong together, and the network would be made of
 * two. */
static l3a_status check_owners(const struct checkpoint *checkpoint, size_t file, bool *seen) {
    const struct shards *shards = &checkpoint->shards;
    const struct part *part = &checkpoint->parts[file];
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < part_count(part); i++) {
        const char *name = part_name(part, i);
        const size_t tensor = shards_find(shards, name);
        FAIL_IF(tensor == shards->tensors.count, checkpoint->context, L3A_ERROR_MISMATCH, other_shards,
                "%s: file %s has the tensor '%s', which is not in the index", shards->path, shards->files.items[file], name);
        const size_t owner = shards->owners[tensor];
        FAIL_IF(owner != file, checkpoint->context, L3A_ERROR_MISMATCH, other_shards,
                part_has(&checkpoint->parts[owner], name) ? "%s: tensor '%s' is in two files, %s and %s"
                                                          : "%s: tensor '%s' is in %s, but the index says that it is in %s",
                shards->path, name, shards->files.items[file], shards->files.items[owner]);
        seen[tensor] = true;
    }
done:
    return status;
}

static l3a_status check_shards(const struct checkpoint *checkpoint) {
    const struct shards *shards = &checkpoint->shards;
    l3a_status status = L3A_OK;
    bool *seen = NULL;
    size_t missing = 0, first = 0;
    TRY(allocate_zeroed(checkpoint->context, shards->tensors.count, sizeof *seen, &seen));
    for (size_t file = 0; file < checkpoint->part_count; file++) {
        FAIL_IF(checkpoint->parts[file].form != checkpoint->parts[0].form, checkpoint->context, L3A_ERROR_MISMATCH, other_shards,
                "%s: its files are of different kinds: %s is %s, but %s is %s", shards->path, shards->files.items[0],
                checkpoint->parts[0].form, shards->files.items[file], checkpoint->parts[file].form);
        TRY(check_owners(checkpoint, file, seen));
    }
    for (size_t i = 0; i < shards->tensors.count; i++) {
        first = seen[i] || missing ? first : i;
        missing += !seen[i];
    }
    FAIL_IF(missing, checkpoint->context, L3A_ERROR_MISMATCH, other_shards,
            "%s: %zu tensors of the index are missing; the first is '%s', which should be in %s", shards->path, missing,
            shards->tensors.items[first], shards->files.items[shards->owners[first]]);
done:
    release(checkpoint->context, seen);
    return status;
}

static l3a_status open_shards(struct checkpoint *checkpoint) {
    l3a_context *context = checkpoint->context;
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(shards_open(context, checkpoint->path, &checkpoint->shards));
    const size_t count = checkpoint->shards.files.count;
    TRY(allocate_zeroed(context, count, sizeof *checkpoint->parts, &checkpoint->parts));
    while (checkpoint->part_count < count) {
        bool is_torch, is_index;
        TRY(shards_path(&checkpoint->shards, checkpoint->part_count, &path));
        TRY(recognise(context, path, &is_torch, &is_index));
        FAIL_IF(is_index, context, L3A_ERROR_FORMAT, other_shards, "%s: is an index itself, not a file with tensors", path);
        TRY(open_part(context, path, is_torch, &checkpoint->parts[checkpoint->part_count]));
        checkpoint->part_count++;
        release(context, path);
        path = NULL;
    }
    TRY(check_shards(checkpoint));
done:
    release(context, path);
    return status;
}

/* ---- Opening ---- */

/* The name without what wrappers put before it. */
static const char *unwrap(const char *name) {
    static const char *const wrappers[] = {"module.", "_orig_mod.", "model.", "backbone."};
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers;) {
        const size_t length = strlen(wrappers[i]);
        const bool wrapped = strncmp(name, wrappers[i], length) == 0;
        name += wrapped ? length : 0;
        i = wrapped ? 0 : i + 1;
    }
    return name;
}

static const char *shorten(const char *name, const char *prefix, bool wrapped) {
    name += strlen(prefix);
    return wrapped ? name + (strncmp(name, "module.", 7) == 0 ? 7 : 0) : unwrap(name);
}

/* Indexes the names, and gives the first that repeats another; or count. wrapped: with all prefixes but `module.`. */
static l3a_status index_names(struct checkpoint *checkpoint, const char *prefix, bool wrapped, size_t *repeated) {
    l3a_status status = L3A_OK;
    const char **names = NULL;
    size_t first;
    TRY(allocate(checkpoint->context, checkpoint->count, sizeof *names, &names));
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct place *place = &checkpoint->places[i];
        names[i] = shorten(part_name(&checkpoint->parts[place->part], place->tensor), prefix, wrapped);
        checkpoint->tensors[i].name = names[i];
    }
    text_index_free(checkpoint->context, &checkpoint->names);
    TRY(text_index_make(checkpoint->context, (char *const *)names, checkpoint->count, &checkpoint->names));
    *repeated = text_index_repeated(&checkpoint->names, &first);
done:
    release(checkpoint->context, names);
    return status;
}

/* wrapped: names keep all prefixes but `module.`, as in a file that was written with names that are unwrapped already. */
static l3a_status list_tensors(struct checkpoint *checkpoint, const char *prefix, bool wrapped) {
    l3a_status status = L3A_OK;
    size_t all = 0, repeated = 0;
    for (size_t i = 0; i < checkpoint->part_count; i++) {
        all += part_count(&checkpoint->parts[i]);
    }
    TRY(allocate_zeroed(checkpoint->context, all, sizeof *checkpoint->tensors, &checkpoint->tensors));
    TRY(allocate(checkpoint->context, all, sizeof *checkpoint->places, &checkpoint->places));
    for (size_t i = 0; i < checkpoint->part_count; i++) {
        const struct part *part = &checkpoint->parts[i];
        for (size_t j = 0; j < part_count(part); j++) {
            if (strncmp(part_name(part, j), prefix, strlen(prefix)) == 0) {
                describe(part, j, &checkpoint->tensors[checkpoint->count]);
                checkpoint->places[checkpoint->count++] = (struct place){i, j};
            }
        }
    }
    TRY(index_names(checkpoint, prefix, wrapped, &repeated));
    if (repeated < checkpoint->count && !wrapped) {
        TRY(index_names(checkpoint, prefix, true, &repeated));
    }
    FAIL_IF(repeated < checkpoint->count, checkpoint->context, L3A_ERROR_FORMAT, "save the weights again, each under its own name",
            "%s: tensor '%s' is listed twice", checkpoint->path, checkpoint->tensors[repeated].name);
done:
    return status;
}

static l3a_status open_one(struct checkpoint *checkpoint, bool is_torch) {
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(checkpoint->context, 1, sizeof *checkpoint->parts, &checkpoint->parts));
    checkpoint->part_count = 1;
    TRY(open_part(checkpoint->context, checkpoint->path, is_torch, checkpoint->parts));
done:
    return status;
}

l3a_status checkpoint_open(l3a_context *context, const char *path, struct checkpoint **checkpoint) {
    l3a_status status = L3A_OK;
    struct checkpoint *made = NULL;
    bool is_torch, is_index;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(shards_locate(context, path, &made->path));
    TRY(recognise(context, made->path, &is_torch, &is_index));
    TRY(is_index ? open_shards(made) : open_one(made, is_torch));
    TRY(list_tensors(made, "", false));
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
    TRY(copy_text(context, path, strlen(path), &made->path));
    TRY(open_one(made, false));
    TRY(list_tensors(made, prefix, true));
    *checkpoint = made;
    made = NULL;
done:
    checkpoint_free(made);
    return status;
}

void checkpoint_free(struct checkpoint *checkpoint) {
    if (checkpoint) {
        l3a_context *context = checkpoint->context;
        for (size_t i = 0; i < checkpoint->part_count; i++) {
            safetensors_close(&checkpoint->parts[i].safetensors);
            torch_close(&checkpoint->parts[i].torch);
        }
        shards_close(&checkpoint->shards);
        release(context, checkpoint->path);
        release(context, checkpoint->parts);
        release(context, checkpoint->tensors);
        release(context, checkpoint->places);
        text_index_free(context, &checkpoint->names);
        release(context, checkpoint);
    }
}

/* ---- What it holds ---- */

const char *checkpoint_path(const struct checkpoint *checkpoint) {
    return checkpoint->path;
}

uint64_t checkpoint_size(const struct checkpoint *checkpoint) {
    uint64_t size = checkpoint->shards.size;
    for (size_t i = 0; i < checkpoint->part_count; i++) {
        size += part_input(&checkpoint->parts[i])->size;
    }
    return size;
}

const char *checkpoint_form(const struct checkpoint *checkpoint) {
    return checkpoint->parts[0].form;
}

size_t checkpoint_files(const struct checkpoint *checkpoint) {
    return checkpoint->part_count;
}

const char *checkpoint_file(const struct checkpoint *checkpoint, size_t index) {
    return part_input(&checkpoint->parts[index])->path;
}

const char *checkpoint_dict(const struct checkpoint *checkpoint) {
    return checkpoint->parts[0].is_torch ? checkpoint->parts[0].torch.dict : NULL;
}

const char *checkpoint_beside(const struct checkpoint *checkpoint) {
    return checkpoint->parts[0].is_torch ? checkpoint->parts[0].torch.beside : NULL;
}

const char *checkpoint_metadata(const struct checkpoint *checkpoint, const char *key) {
    const char *found = NULL;
    for (size_t i = 0; !found && i < checkpoint->part_count; i++) {
        found = checkpoint->parts[i].is_torch ? NULL : safetensors_metadata(&checkpoint->parts[i].safetensors, key);
    }
    return found;
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

static const struct place *place_of(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor) {
    return &checkpoint->places[tensor - checkpoint->tensors];
}

l3a_status checkpoint_read(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, float *values) {
    l3a_status status = L3A_OK;
    FAIL_IF(!tensor, checkpoint->context, L3A_ERROR_ARGUMENT, "check the name of the tensor", "%s: no such tensor",
            checkpoint_path(checkpoint));
    const struct place *place = place_of(checkpoint, tensor);
    struct part *part = &checkpoint->parts[place->part];
    TRY(part->is_torch ? torch_read(&part->torch, &part->torch.tensors[place->tensor], values)
                       : tensor_read(&part->safetensors.input, &part->safetensors.tensors[place->tensor], 0,
                                     (size_t)tensor->elements, values));
    for (uint64_t i = 0; i < tensor->elements; i++) {
        FAIL_IF(!isfinite(values[i]), checkpoint->context, L3A_ERROR_DATA, "use a checkpoint from before training diverged",
                "%s: tensor '%s': element %" PRIu64 " is %g, not a finite float", part_input(part)->path, tensor->name, i,
                (double)values[i]);
    }
done:
    return status;
}

l3a_status checkpoint_read_bytes(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, void *bytes) {
    const struct place *place = place_of(checkpoint, tensor);
    struct part *part = &checkpoint->parts[place->part];
    if (part->is_torch) {
        return torch_read_bytes(&part->torch, &part->torch.tensors[place->tensor], bytes);
    }
    const struct tensor *own = &part->safetensors.tensors[place->tensor];
    return input_read(&part->safetensors.input, own->offset, bytes, (size_t)own->bytes);
}

const char *checkpoint_stored_name(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor) {
    const struct place *place = place_of(checkpoint, tensor);
    return part_name(&checkpoint->parts[place->part], place->tensor);
}

l3a_status checkpoint_verify(struct checkpoint *checkpoint) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < checkpoint->part_count; i++) {
        if (checkpoint->parts[i].is_torch) {
            TRY(torch_verify(&checkpoint->parts[i].torch));
        }
    }
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct part *part = &checkpoint->parts[checkpoint->places[i].part];
        if (!part->is_torch) {
            TRY(safetensors_verify_tensor(&part->safetensors, &part->safetensors.tensors[checkpoint->places[i].tensor]));
        }
    }
done:
    return status;
}

bool checkpoint_is_summed(const struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor) {
    const struct place *place = place_of(checkpoint, tensor);
    const struct part *part = &checkpoint->parts[place->part];
    return part->is_torch ? part->torch.zipped
                          : safetensors_is_summed(&part->safetensors, &part->safetensors.tensors[place->tensor]);
}

static void add_to_sha256(void *user, const char *bytes, size_t count) {
    sha256_add(user, bytes, count);
}

static void end_sha256(struct sha256 *sha256, char text[65]) {
    uint8_t digest[SHA256_BYTES];
    sha256_end(sha256, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
}

static l3a_status sum_file(const input_file *input, char text[65]) {
    struct sha256 sha256;
    sha256_begin(&sha256);
    const l3a_status status = input_scan(input, 0, input->size, add_to_sha256, &sha256);
    end_sha256(&sha256, text);
    return status;
}

static void add_line(struct sha256 *sha256, const char *sum, const char *name) {
    sha256_add(sha256, sum, 64);
    sha256_add(sha256, "  ", 2);
    sha256_add(sha256, name, strlen(name));
    sha256_add(sha256, "\n", 1);
}

l3a_status checkpoint_sha256(struct checkpoint *checkpoint, char text[65]) {
    l3a_status status = L3A_OK;
    struct sha256 sha256;
    char sum[65];
    if (!checkpoint->shards.context) {
        return sum_file(part_input(checkpoint->parts), text);
    }
    const char *slash = strrchr(checkpoint->path, '/');
    sha256_begin(&sha256);
    add_line(&sha256, checkpoint->shards.sha256, slash ? slash + 1 : checkpoint->path);
    for (size_t i = 0; i < checkpoint->part_count; i++) {
        TRY(sum_file(part_input(&checkpoint->parts[i]), sum));
        add_line(&sha256, sum, checkpoint->shards.files.items[i]);
    }
    end_sha256(&sha256, text);
done:
    return status;
}
