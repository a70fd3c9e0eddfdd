/* Whose index it is. Tags and scores are those of one model: another one would put its own in their place, and be told those of the
 * first. The index names its model; one that is not there any more was renamed, or replaced by another. */
#include "library/library.h"

#include <string.h>

/* A model that was not saved yet has a folder already. */
static l3a_status resolve_model(const l3a_library *library, char **resolved) {
    l3a_context *context = library->context;
    const char *path = library->tagger->path, *slash = strrchr(path, '/');
    char *above = NULL, *folder = NULL;
    text_builder text = {.context = context};
    l3a_status status = resolve_path(context, path, resolved);
    if (status == L3A_OK || status == L3A_ERROR_MEMORY) {
        return status;
    }
    TRY(slash ? copy_text(context, path, (size_t)(slash + 1 - path), &above) : copy_text(context, ".", 1, &above));
    TRY(resolve_path(context, above, &folder));
    text_builder_print(&text, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, slash ? slash + 1 : path);
    TRY(text.status);
    *resolved = text.text;
    text.text = NULL;
done:
    text_builder_free(&text);
    release(context, above);
    release(context, folder);
    return status;
}

/* The model's own path; in the folder of the index, its name alone, so that both can be moved together. */
static l3a_status name_owner(const l3a_library *library, char **owner) {
    l3a_context *context = library->context;
    char *model = NULL, *index = NULL;
    l3a_status status = L3A_OK;
    TRY(resolve_model(library, &model));
    TRY(resolve_path(context, library->database.path, &index));
    const char *name = strrchr(model, '/'), *place = strrchr(index, '/');
    const bool together = name && place && name - model == place - index && strncmp(model, index, (size_t)(name - model)) == 0;
    const char *text = together ? name + 1 : model;
    TRY(copy_text(context, text, strlen(text), owner));
done:
    release(context, model);
    release(context, index);
    return status;
}

/* Whether the model that the index names is still there. */
static l3a_status owner_exists(const l3a_library *library, const char *owner, bool *exists) {
    char *index = NULL;
    text_builder path = {.context = library->context};
    l3a_status status = L3A_OK;
    TRY(resolve_path(library->context, library->database.path, &index));
    const char *slash = strrchr(index, '/');
    text_builder_print(&path, "%.*s%s", owner[0] == '/' || !slash ? 0 : (int)(slash + 1 - index), index, owner);
    TRY(path.status);
    TRY(file_exists(library->context, path.text, exists));
done:
    text_builder_free(&path);
    release(library->context, index);
    return status;
}

/* In a transaction. */
static l3a_status claim(l3a_library *library, const char *owner) {
    char *known = NULL;
    bool exists = false;
    l3a_status status = L3A_OK;
    TRY(meta_text(&library->database, "model", &known));
    if (known && strcmp(known, owner) == 0) {
        goto done;
    }
    TRY(known ? owner_exists(library, known, &exists) : L3A_OK);
    FAIL_IF(exists, library->context, L3A_ERROR_MISMATCH,
            "name another index with --index; or remove this one, and it is made again for this model, from the features that are "
            "there",
            "%s: the tags and scores in this index are those of another model, '%s'", library->database.path, known);
    TRY(meta_set_text(&library->database, "model", owner));
done:
    release(library->context, known);
    return status;
}

l3a_status library_check_owner(l3a_library *library) {
    char *owner = NULL, *known = NULL;
    l3a_status status = L3A_OK;
    TRY(name_owner(library, &owner));
    TRY(meta_text(&library->database, "model", &known));
    if (!known || strcmp(known, owner) != 0) {
        status = database_begin(&library->database);
        status = status == L3A_OK ? database_end(&library->database, claim(library, owner)) : status;
        status = status == L3A_ERROR_IO && !known ? L3A_OK : status; /* an index that can only be read is used as it is */
    }
done:
    release(library->context, owner);
    release(library->context, known);
    return status;
}
