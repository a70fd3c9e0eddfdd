#include "format/json.h"

#include "base/memory.h"

/* Small enough for the processor's caches, and large enough that one system call per window costs nothing. */
enum { USUAL_WINDOW = 1 << 18 };

static l3a_status fail_in_context(struct json *json, l3a_status status, const char *text) {
    return fail(json->context, status, "the file is damaged or of another kind: copy or create it again", "%s", text);
}

static l3a_status read_input(const struct json *json, uint64_t from, void *bytes, size_t count) {
    return input_read(json->source, from, bytes, count);
}

static const struct json_host host = {fail_in_context, read_input};

void json_begin(struct json *json, l3a_context *context, const char *name, const char *text, size_t length) {
    *json = (struct json){.host = &host, .context = context, .name = name, .start = text, .at = text, .end = text + length};
}

l3a_status json_open(struct json *json, l3a_context *context, const char *path, uint64_t limit, size_t window) {
    input_file *input = NULL;
    l3a_status status = L3A_OK;
    json_begin(json, context, path, "", 0);
    TRY(allocate_zeroed(context, 1, sizeof *input, &input));
    json->source = input;
    TRY(input_open(context, path, input));
    json->size = input->size;
    FAIL_IF(json->size > limit, context, L3A_ERROR_FORMAT, "check that this is the right file",
            "%s: has %llu bytes; at most %llu are expected", path, (unsigned long long)json->size, (unsigned long long)limit);
    window = window ? window : USUAL_WINDOW;
    json->capacity = json->size < window ? (size_t)json->size : window;
    TRY(allocate(context, json->capacity, 1, &json->window));
    json->start = json->at = json->end = json->window;
done:
    return status;
}

void json_close(struct json *json) {
    if (json->source) {
        input_close(json->source);
        release(json->context, json->window);
        release(json->context, json->source);
    }
    *json = (struct json){0};
}

l3a_status json_text_copy(struct json *json, json_text text, char **copy) {
    char *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(json->context, text.length + 1, 1, &made));
    TRY(json_text_decode(json, text, made));
    *copy = made;
    made = NULL;
done:
    release(json->context, made);
    return status;
}
