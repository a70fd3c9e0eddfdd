/* Reads the index of a checkpoint in several files, and finds the checkpoint in a folder. */
#include "format/shards.h"

#include "common/sha256.h"
#include "common/utf8.h"
#include "format/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* As many tensors as a safetensors file may have. The largest checkpoints in use have a few hundred shards. */
enum { INDEX_LIMIT = 16 << 20, TENSOR_LIMIT = 100000, SHARD_LIMIT = 1000, NAME_LIMIT = 255 };

static const char not_index[] =
    "give the path of a .safetensors or .pth file, of an index such as model.safetensors.index.json, or "
    "of the folder of either";
static const char download[] = "download all files that the index names, from the same place, into the folder of the index";
static const char make_index[] = "use an index as transformers writes it: each file is a plain name, in the folder of the index";

/* The length of a safetensors header, in the first eight bytes, cannot look like text: its last bytes are zeros. */
bool shards_recognise(const char *start, size_t count) {
    size_t at = 0;
    while (at < count && start[at] && strchr(" \t\r\n", start[at])) {
        at++;
    }
    return at < count && start[at] == '{' && (count < 8 || start[7]);
}

l3a_status path_of_sibling(l3a_context *context, const char *file, const char *name, char **path) {
    const char *slash = strrchr(file, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - file) : 0, length = strlen(name);
    char *made = NULL;
    const l3a_status status = allocate(context, folder + length + 1, 1, &made);
    if (status == L3A_OK) {
        memcpy(made, file, folder);
        memcpy(made + folder, name, length + 1);
        *path = made;
    }
    return status;
}

l3a_status shards_path(const struct shards *shards, size_t file, char **path) {
    return path_of_sibling(shards->context, shards->path, shards->files.items[file], path);
}

size_t shards_find(const struct shards *shards, const char *tensor) {
    return text_index_find(&shards->names, tensor);
}

/* ---- The index ---- */

static l3a_status check_name(const struct shards *shards, const char *name) {
    l3a_context *context = shards->context;
    l3a_status status = L3A_OK;
    FAIL_IF(!*name, context, L3A_ERROR_FORMAT, make_index, "%s: weight_map: a file has an empty name", shards->path);
    FAIL_IF(!is_utf8(name) || utf8_find_hidden(name) || strlen(name) > NAME_LIMIT, context, L3A_ERROR_FORMAT, make_index,
            "%s: weight_map: the name of a file has control characters, is not UTF-8, or is longer than %d bytes", shards->path,
            NAME_LIMIT);
    FAIL_IF(strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0, context, L3A_ERROR_FORMAT, make_index,
            "%s: weight_map: '%s' is not the name of a file in the folder of the index", shards->path, name);
done:
    return status;
}

/* Most tensors are in the same file as the one before. */
static size_t find_file(const struct shards *shards) {
    const size_t count = shards->tensors.count;
    return count ? shards->owners[count - 1] : 0;
}

static l3a_status own(struct shards *shards, const char *name, size_t *capacity) {
    l3a_status status = L3A_OK;
    size_t file = find_file(shards);
    if (file >= shards->files.count || strcmp(shards->files.items[file], name) != 0) {
        file = text_list_find(&shards->files, name);
    }
    if (file == shards->files.count) {
        TRY(check_name(shards, name));
        FAIL_IF(file == SHARD_LIMIT, shards->context, L3A_ERROR_FORMAT, "check that this is the right file",
                "%s: weight_map: more than %d files", shards->path, SHARD_LIMIT);
        TRY(text_list_add(shards->context, &shards->files, name, strlen(name)));
    }
    TRY(grow_array(shards->context, &shards->owners, capacity, shards->tensors.count + 1, sizeof *shards->owners));
    shards->owners[shards->tensors.count] = file;
done:
    return status;
}

static l3a_status parse_map(struct json *json, struct shards *shards) {
    l3a_status status = L3A_OK;
    char *tensor = NULL, *file = NULL;
    size_t capacity = 0;
    bool more;
    TRY(json_object(json));
    for (;;) {
        json_text text;
        TRY(json_next_key(json, &text, &more));
        if (!more) {
            break;
        }
        FAIL_IF(shards->tensors.count == TENSOR_LIMIT, shards->context, L3A_ERROR_FORMAT, "check that this is the right file",
                "%s: weight_map: more than %d tensors", shards->path, TENSOR_LIMIT);
        TRY(json_text_copy(json, text, &tensor));
        TRY(json_string(json, &text));
        TRY(json_text_copy(json, text, &file));
        TRY(own(shards, file, &capacity));
        TRY(text_list_add(shards->context, &shards->tensors, tensor, strlen(tensor)));
        release(shards->context, tensor);
        release(shards->context, file);
        tensor = file = NULL;
    }
done:
    release(shards->context, tensor);
    release(shards->context, file);
    return status;
}

static l3a_status parse_index(struct shards *shards, const char *text, size_t length) {
    l3a_status status = L3A_OK;
    struct json json;
    bool more, mapped = false;
    json_begin(&json, shards->context, shards->path, text, length);
    TRY(json_object(&json));
    for (;;) {
        json_text key;
        TRY(json_next_key(&json, &key, &more));
        if (!more) {
            break;
        }
        if (!json_text_is(key, "weight_map")) {
            TRY(json_skip(&json));
            continue;
        }
        FAIL_IF(mapped, shards->context, L3A_ERROR_FORMAT, make_index, "%s: weight_map is listed twice", shards->path);
        mapped = true;
        TRY(parse_map(&json, shards));
    }
    TRY(json_end(&json));
    FAIL_IF(!mapped, shards->context, L3A_ERROR_FORMAT, not_index, "%s: has no weight_map, so it is not the index of a checkpoint",
            shards->path);
    FAIL_IF(!shards->tensors.count, shards->context, L3A_ERROR_FORMAT, not_index, "%s: weight_map is empty", shards->path);
done:
    return status;
}

/* ---- The files ---- */

static l3a_status check_files(const struct shards *shards) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    size_t missing = 0, first = 0;
    for (size_t i = 0; i < shards->files.count; i++) {
        bool exists;
        TRY(shards_path(shards, i, &path));
        TRY(file_exists(shards->context, path, &exists));
        release(shards->context, path);
        path = NULL;
        first = exists || missing ? first : i;
        missing += !exists;
    }
    FAIL_IF(missing, shards->context, L3A_ERROR_NOT_FOUND, download,
            "%s: %zu of the %zu files of this checkpoint are missing, the first is %s", shards->path, missing, shards->files.count,
            shards->files.items[first]);
done:
    release(shards->context, path);
    return status;
}

static void write_sha256(const char *text, size_t length, char to[65]) {
    uint8_t digest[SHA256_BYTES];
    sha256_of(text, length, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        snprintf(to + 2 * i, 3, "%02x", digest[i]);
    }
}

l3a_status shards_open(l3a_context *context, const char *path, struct shards *shards) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    size_t length, first;
    *shards = (struct shards){.context = context};
    TRY(copy_text(context, path, strlen(path), &shards->path));
    TRY(read_whole(context, path, INDEX_LIMIT, &text, &length));
    shards->size = length;
    write_sha256(text, length, shards->sha256);
    TRY(parse_index(shards, text, length));
    TRY(text_index_make(context, shards->tensors.items, shards->tensors.count, &shards->names));
    const size_t again = text_index_repeated(&shards->names, &first);
    FAIL_IF(again < shards->tensors.count, context, L3A_ERROR_FORMAT, make_index, "%s: weight_map: tensor '%s' is listed twice",
            path, shards->tensors.items[again]);
    TRY(check_files(shards));
done:
    release(context, text);
    if (status != L3A_OK) {
        shards_close(shards);
    }
    return status;
}

void shards_close(struct shards *shards) {
    if (shards->context) {
        release(shards->context, shards->path);
        text_list_clear(shards->context, &shards->files);
        text_list_clear(shards->context, &shards->tensors);
        release(shards->context, shards->owners);
        text_index_free(shards->context, &shards->names);
        *shards = (struct shards){0};
    }
}

/* ---- The folder ---- */

/* What cannot be opened is left to whoever opens it for good; so is a pipe. */
static l3a_status is_folder(l3a_context *context, const char *path, bool *folder) {
    uint64_t size;
    *folder = false;
    const int file = context->files->open(path, O_RDONLY, 0);
    if (file < 0) {
        return errno == ENXIO ? L3A_OK : fail_system(context, path, "open", errno);
    }
    const int code = context->files->size(file, &size) ? errno : 0;
    context->files->close(file);
    *folder = code == EISDIR;
    return !code || code == EISDIR || code == ESPIPE ? L3A_OK : fail_system(context, path, "read", code);
}

l3a_status shards_locate(l3a_context *context, const char *path, char **file) {
    static const char *const names[] = {"model.safetensors",           "model.safetensors.index.json",
                                        "open_clip_model.safetensors", "open_clip_pytorch_model.bin",
                                        "pytorch_model.bin",           "pytorch_model.bin.index.json"};
    l3a_status status = L3A_OK;
    text_builder looked = {.context = context};
    char *made = NULL;
    bool found = false, folder;
    TRY(is_folder(context, path, &folder));
    if (!folder) {
        return copy_text(context, path, strlen(path), file);
    }
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++) {
        release(context, made);
        made = NULL;
        TRY(join_path(context, path, names[i], &made));
        TRY(file_exists(context, made, &found));
        text_builder_print(&looked, "%s%s", i ? ", " : "", names[i]);
    }
    TRY(looked.status);
    FAIL_IF(!found, context, L3A_ERROR_NOT_FOUND, "give the path of the checkpoint itself",
            "%s: this folder has no checkpoint of a usual name: looked for %s", path, looked.text);
    *file = made;
    made = NULL;
done:
    release(context, made);
    text_builder_free(&looked);
    return status;
}
