/* Sidecars: the XMP file beside a picture, found by its name and changed in one step. */
#include "base/file.h"
#include "base/sized.h"
#include "format/xmp.h"

#include <string.h>

/* The name of the sidecar of photo.jpg: photo.jpg.xmp or, if `short_name`, photo.xmp. */
static l3a_status sidecar_path(l3a_context *context, const char *picture, bool short_name, char **path) {
    static const char ending[] = ".xmp";
    const char *slash = strrchr(picture, '/'), *name = slash ? slash + 1 : picture, *dot = strrchr(name, '.');
    const size_t length = short_name && dot > name ? (size_t)(dot - picture) : strlen(picture);
    const l3a_status status = allocate(context, length + sizeof ending, 1, path);
    if (status == L3A_OK) {
        memcpy(*path, picture, length);
        memcpy(*path + length, ending, sizeof ending);
    }
    return status;
}

/* The sidecar that exists, or the one to make. The long name comes first, because it belongs to this picture alone. */
static l3a_status find_sidecar(l3a_context *context, const char *picture, bool short_name, char **path, bool *exists) {
    l3a_status status = L3A_OK;
    char *long_path = NULL, *short_path = NULL;
    TRY(sidecar_path(context, picture, false, &long_path));
    TRY(sidecar_path(context, picture, true, &short_path));
    TRY(file_exists(context, long_path, exists));
    char **chosen = &long_path;
    if (!*exists) {
        TRY(file_exists(context, short_path, exists));
        chosen = *exists || short_name ? &short_path : &long_path;
    }
    *path = *chosen;
    *chosen = NULL;
done:
    release(context, long_path);
    release(context, short_path);
    return status;
}

/* What the sidecar should hold. A sidecar without a tag is not made. */
static l3a_status merge_file(l3a_context *context, const char *path, bool exists, const struct keywords *keywords,
                             text_builder *made, bool *changed) {
    l3a_status status = L3A_OK;
    char *bytes = NULL;
    size_t count = 0;
    *made = (text_builder){.context = context};
    *changed = false;
    if (exists) {
        TRY(read_whole(context, path, XMP_BYTES, &bytes, &count));
    }
    if (exists || keywords->add_count) {
        TRY(xmp_merge(context, path, bytes, count, keywords, made, changed));
    }
done:
    release(context, bytes);
    return status;
}

/* Merges under the file's lock, so that what another process or thread adds meanwhile is not lost. */
static l3a_status change_file(l3a_context *context, const char *path, const struct keywords *keywords) {
    l3a_status status = L3A_OK;
    output_target target = {0};
    l3a_lock *lock = NULL;
    text_builder made = {.context = context};
    bool held, exists, changed;
    TRY(target_find(context, path, &target));
    TRY(lock_is_held(context, target.path, &held));
    TRY(held ? L3A_OK : lock_target(context, target.path, path, AWAIT_ANYONE, &lock));
    TRY(file_exists(context, path, &exists));
    TRY(merge_file(context, path, exists, keywords, &made, &changed));
    if (changed) {
        TRY(write_whole(context, path, made.text, made.length));
    }
done:
    text_builder_free(&made);
    l3a_lock_free(lock);
    target_free(context, &target);
    return status;
}

l3a_status l3a_sidecar_write(l3a_context *context, const char *picture, const char *const *tags, size_t count,
                             const l3a_sidecar_options *options, int *changed) {
    l3a_status status = L3A_OK;
    l3a_sidecar_options chosen;
    text_builder made = {.context = context};
    char *path = NULL;
    bool exists, differs;
    NEED(context, context, picture);
    TRY(READ_SIZED(context, options, chosen));
    if (count) {
        NEED(context, tags);
    }
    if (chosen.remove_count) {
        NEED(context, chosen.remove);
    }
    TRY(need_items(context, __func__, "tags", tags, count));
    TRY(need_items(context, __func__, "remove", chosen.remove, chosen.remove_count));
    const struct keywords keywords = {tags, count, chosen.remove, chosen.remove_count};
    TRY(find_sidecar(context, picture, chosen.short_name, &path, &exists));
    TRY(merge_file(context, path, exists, &keywords, &made, &differs));
    if (differs) {
        TRY(change_file(context, path, &keywords));
    }
    if (changed) {
        *changed = differs;
    }
done:
    release(context, path);
    text_builder_free(&made);
    return status;
}

l3a_status l3a_sidecar_text(l3a_context *context, const char *const *tags, size_t count, char *text, size_t capacity,
                            size_t *length) {
    text_builder made = {.context = context};
    const struct keywords keywords = {.add = tags, .add_count = count};
    bool changed;
    l3a_status status = L3A_OK;
    NEED(context, context, length);
    if (count) {
        NEED(context, tags);
    }
    if (capacity) {
        NEED(context, text);
    }
    TRY(need_items(context, __func__, "tags", tags, count));
    TRY(xmp_merge(context, "sidecar", NULL, 0, &keywords, &made, &changed));
    *length = made.length;
    if (capacity) {
        const size_t kept = made.length < capacity ? made.length : capacity - 1;
        memcpy(text, made.text ? made.text : "", kept);
        text[kept] = '\0';
    }
done:
    text_builder_free(&made);
    return status;
}
