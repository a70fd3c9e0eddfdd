/* JSON: a text that can be read value by value can also be skipped, and values are unchanged after they are written and read
 * again. */
#include "fuzz.h"

#include "base/memory.h"
#include "common/number.h"
#include "format/json.h"

#include <string.h>

static l3a_status read_value(struct json *json);

static void check_number(double value) {
    char text[NUMBER_TEXT];
    double again = 0;
    number_format(value, text);
    must(number_parse(text, strlen(text), &again) && again == value);
}

static void check_written(l3a_context *context, const char *text) {
    text_builder builder = {.context = context};
    text_builder_json_string(&builder, text);
    must(builder.status == L3A_OK);
    struct json json;
    json_text found;
    char *copy = NULL;
    json_begin(&json, context, "written", builder.text, builder.length);
    must(json_string(&json, &found) == L3A_OK && json_end(&json) == L3A_OK);
    must(json_text_copy(&json, found, &copy) == L3A_OK && strcmp(copy, text) == 0);
    release(context, copy);
    text_builder_free(&builder);
}

static l3a_status check_text(struct json *json, json_text text) {
    char *copy = NULL;
    const l3a_status status = json_text_copy(json, text, &copy);
    if (status == L3A_OK) {
        must(strlen(copy) <= text.length);
        check_written(json->context, copy);
        release(json->context, copy);
    }
    return status;
}

static l3a_status read_object(struct json *json) {
    l3a_status status = L3A_OK;
    bool more = true;
    TRY(json_object(json));
    for (;;) {
        json_text key;
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        TRY(check_text(json, key));
        TRY(read_value(json));
    }
done:
    return status;
}

static l3a_status read_array(struct json *json) {
    l3a_status status = L3A_OK;
    bool more = true;
    TRY(json_array(json));
    for (;;) {
        TRY(json_next_item(json, &more));
        if (!more) {
            break;
        }
        TRY(read_value(json));
    }
done:
    return status;
}

static l3a_status read_value(struct json *json) {
    json_text text;
    double number;
    l3a_status status = L3A_OK;
    switch (json_peek(json)) {
    case JSON_OBJECT: return read_object(json);
    case JSON_ARRAY: return read_array(json);
    case JSON_STRING:
        TRY(json_string(json, &text));
        TRY(check_text(json, text));
        break;
    case JSON_NUMBER:
        TRY(json_number(json, &number));
        check_number(number);
        break;
    default: return json_skip(json);
    }
done:
    return status;
}

/* Reading a file through a small window gives the same verdict as reading the text in memory, unless a string does not fit. */
static void check_window(l3a_context *context, bool skips) {
    struct json windowed;
    must(json_open(&windowed, context, "input", UINT32_MAX, 64) == L3A_OK);
    const bool same = (json_skip(&windowed) == L3A_OK && json_end(&windowed) == L3A_OK) == skips;
    must(same || strstr(l3a_error_text(context), "a string or number is longer than 64 bytes"));
    json_close(&windowed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    struct json skipped, read, integer;
    uint64_t whole;
    json_begin(&skipped, context, "input", (const char *)bytes, count);
    json_begin(&read, context, "input", (const char *)bytes, count);
    json_begin(&integer, context, "input", (const char *)bytes, count);
    const bool skips = json_skip(&skipped) == L3A_OK && json_end(&skipped) == L3A_OK;
    const bool reads = read_value(&read) == L3A_OK && json_end(&read) == L3A_OK;
    must(skips || !reads);
    check_window(context, skips);
    (void)json_integer(&integer, &whole);
    l3a_context_free(context);
    return 0;
}
