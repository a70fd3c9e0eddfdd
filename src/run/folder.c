/* Reads how a run or a sweep was started from the record in its folder. */
#include "base/file.h"
#include "base/memory.h"
#include "format/json.h"

#include <string.h>

enum { RECORD_LIMIT = 64 << 20 };

/* The text under a key of the outermost object; *value is unchanged if there is none. */
static l3a_status find_text(struct json *json, const char *wanted, char **value) {
    l3a_status status = L3A_OK;
    bool more;
    TRY(json_object(json));
    for (;;) {
        json_text key, text;
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        if (json_text_is(key, wanted)) {
            TRY(json_string(json, &text));
            status = json_text_copy(json, text, value);
            break;
        }
        TRY(json_skip(json));
    }
done:
    return status;
}

l3a_status l3a_folder_record(l3a_context *context, const char *folder, const char *key, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    char *run = NULL, *sweep = NULL, *content = NULL, *value = NULL;
    size_t length;
    bool is_run = false, is_sweep = false;
    struct json json;
    NEED(context, context, folder, key, text);
    TRY(join_path(context, folder, "run.json", &run));
    TRY(join_path(context, folder, "sweep.json", &sweep));
    TRY(file_exists(context, run, &is_run));
    if (!is_run) {
        TRY(file_exists(context, sweep, &is_sweep));
    }
    FAIL_IF(!is_run && !is_sweep, context, L3A_ERROR_NOT_FOUND, "give the folder of a run or a sweep",
            "%s: there is no run.json or sweep.json in this folder", folder);
    const char *path = is_run ? run : sweep;
    TRY(read_whole(context, path, RECORD_LIMIT, &content, &length));
    json_begin(&json, context, path, content, length);
    TRY(find_text(&json, key, &value));
    const char *found = value ? value : "";
    FAIL_IF(strlen(found) >= capacity, context, L3A_ERROR_FORMAT, NULL,
            "%s: \"%s\" has %zu bytes, too many for a buffer of %zu bytes", path, key, strlen(found), capacity);
    memcpy(text, found, strlen(found) + 1);
done:
    release(context, run);
    release(context, sweep);
    release(context, content);
    release(context, value);
    return status;
}
