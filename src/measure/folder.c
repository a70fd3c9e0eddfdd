#include "measure/folder.h"

#include "measure/results.h"

#include <string.h>

enum { RECORD_LIMIT = 64 << 20 };

l3a_status record_open(l3a_context *context, const char *path, struct json *json, char **text) {
    l3a_status status = L3A_OK;
    size_t length;
    TRY(read_whole(context, path, RECORD_LIMIT, text, &length));
    json_begin(json, context, path, *text, length);
done:
    return status;
}

l3a_status record_find_run(struct json *json) {
    bool found;
    const l3a_status status = json_find(json, "run", &found);
    return status == L3A_OK && !found ? json_fail(json, "there is no object \"run\"") : status;
}

/* The path of the folder's run.json or, if there is none, of its sweep.json. */
static l3a_status find_record(l3a_context *context, const char *folder, char **path) {
    static const char *const names[] = {"run.json", "sweep.json"};
    l3a_status status = L3A_OK;
    bool exists = false;
    for (size_t i = 0; i < 2 && !exists; i++) {
        release(context, *path);
        TRY(join_path(context, folder, names[i], path));
        TRY(file_exists(context, *path, &exists));
    }
    FAIL_IF(!exists, context, L3A_ERROR_NOT_FOUND, "give the folder of a run or a sweep",
            "%s: there is no run.json or sweep.json in this folder", folder);
done:
    return status;
}

l3a_status l3a_folder_record(l3a_context *context, const char *folder, const char *key, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    char *path = NULL, *content = NULL, *value = NULL;
    struct json json;
    bool found;
    NEED(context, context, folder, key, text);
    TRY(find_record(context, folder, &path));
    TRY(record_open(context, path, &json, &content));
    TRY(json_find(&json, key, &found));
    if (found) {
        json_text string;
        TRY(json_string(&json, &string));
        TRY(json_text_copy(&json, string, &value));
    }
    const size_t length = value ? strlen(value) : 0;
    FAIL_IF(length >= capacity, context, L3A_ERROR_FORMAT, NULL, "%s: \"%s\" has %zu bytes, too many for a buffer of %zu bytes",
            path, key, length, capacity);
    memcpy(text, value ? value : "", length + 1);
done:
    release(context, path);
    release(context, content);
    release(context, value);
    return status;
}

/* Appends the class names that a run.json lists. */
static l3a_status read_classes(l3a_context *context, const char *path, text_list *classes) {
    l3a_status status = L3A_OK;
    char *text = NULL, *name = NULL;
    struct json json;
    bool more;
    TRY(record_open(context, path, &json, &text));
    TRY(record_find_run(&json));
    TRY(json_find(&json, "classes", &more));
    if (more) {
        TRY(json_array(&json));
    }
    while (more) {
        json_text item;
        TRY(json_next_item(&json, &more));
        if (more) {
            TRY(json_string(&json, &item));
            TRY(json_text_copy(&json, item, &name));
            TRY(text_list_add(context, classes, name, strlen(name)));
            release(context, name);
            name = NULL;
        }
    }
done:
    release(context, text);
    release(context, name);
    return status;
}

l3a_status l3a_results_load(l3a_context *context, const char *folder, l3a_results **results) {
    l3a_status status = L3A_OK;
    l3a_results *made = NULL;
    char *path = NULL;
    NEED(context, context, folder, results);
    TRY(results_create(context, &made));
    TRY(join_path(context, folder, "run.json", &path));
    TRY(read_classes(context, path, &made->classes));
    TRY(results_read(made, folder));
    *results = made;
    made = NULL;
done:
    l3a_results_free(made);
    release(context, path);
    return status;
}
