/* A JSON text as a tree, by the pull parser. The values are in one array, in the order of the text: the first value of a container
 * follows it, and each value knows how far away the next one of its container is. */
#include "base/memory.h"
#include "base/utf8.h"
#include "format/json.h"

#include <string.h>

struct l3a_json_value {
    uint32_t kind;
    uint32_t next; /* so many values further; 0: it is the last */
    char *key, *text;
    double number;
    size_t length; /* of the text; of a container, the number of its values */
};
_Static_assert(sizeof(struct l3a_json_value) == 40, "as l3a.h says");

struct l3a_json {
    l3a_context *context;
    struct l3a_json_value *values;
    size_t count, capacity;
};

/* A container that is being read. */
struct level {
    size_t value, last; /* its number, and that of its latest value */
};

struct reading {
    struct json json;
    l3a_json *made;
    size_t limit;
    struct level levels[JSON_DEPTH + 1];
    size_t depth;
};

static l3a_status read_text(struct reading *reading, json_text text, char **copy) {
    l3a_status status = L3A_OK;
    TRY(json_text_copy(&reading->json, text, copy));
    if (!is_utf8(*copy)) {
        status = json_fail(&reading->json, "a string is not UTF-8");
    }
done:
    return status;
}

/* Adds a value to the innermost container. The key comes to belong to it. */
static l3a_status add_value(struct reading *reading, l3a_json_kind kind, char *key, struct l3a_json_value **added) {
    l3a_json *made = reading->made;
    l3a_status status = L3A_OK;
    FAIL_IF(made->count >= reading->limit, made->context, L3A_ERROR_MEMORY, "send less at a time", "%s: more than %zu values",
            reading->json.name, reading->limit);
    TRY(grow_array(made->context, &made->values, &made->capacity, made->count + 1, sizeof *made->values));
    if (reading->depth) {
        struct level *level = &reading->levels[reading->depth - 1];
        struct l3a_json_value *container = &made->values[level->value];
        if (container->length++) {
            made->values[level->last].next = (uint32_t)(made->count - level->last);
        }
        level->last = made->count;
    }
    made->values[made->count] = (struct l3a_json_value){.kind = (uint32_t)kind, .key = key};
    *added = &made->values[made->count++];
    key = NULL;
done:
    release(made->context, key);
    return status;
}

static l3a_status enter(struct reading *reading, bool object) {
    l3a_status status = L3A_OK;
    TRY(object ? json_object(&reading->json) : json_array(&reading->json));
    reading->levels[reading->depth++].value = reading->made->count - 1;
done:
    return status;
}

static l3a_status read_value(struct reading *reading, char *key) {
    static const l3a_json_kind kinds[] = {
        [JSON_OBJECT] = L3A_JSON_OBJECT, [JSON_ARRAY] = L3A_JSON_ARRAY,     [JSON_STRING] = L3A_JSON_STRING,
        [JSON_NUMBER] = L3A_JSON_NUMBER, [JSON_BOOLEAN] = L3A_JSON_BOOLEAN, [JSON_NULL] = L3A_JSON_NULL,
        [JSON_NOTHING] = L3A_JSON_NULL};
    struct json *json = &reading->json;
    const json_kind kind = json_peek(json);
    struct l3a_json_value *value = NULL;
    json_text text;
    bool truth = false;
    l3a_status status = L3A_OK;
    TRY(add_value(reading, kinds[kind], key, &value));
    switch (kind) {
    case JSON_OBJECT:
    case JSON_ARRAY: TRY(enter(reading, kind == JSON_OBJECT)); break;
    case JSON_STRING:
        TRY(json_string(json, &text));
        TRY(read_text(reading, text, &value->text));
        value->length = strlen(value->text);
        break;
    case JSON_NUMBER: TRY(json_number(json, &value->number)); break;
    case JSON_BOOLEAN:
        TRY(json_boolean(json, &truth));
        value->number = truth;
        break;
    case JSON_NULL:
    case JSON_NOTHING: TRY(json_skip(json)); break;
    }
done:
    return status;
}

/* Reads the next value of the innermost container, or leaves the container. */
static l3a_status read_next(struct reading *reading) {
    const bool object = reading->made->values[reading->levels[reading->depth - 1].value].kind == L3A_JSON_OBJECT;
    json_text name;
    char *key = NULL;
    bool more;
    l3a_status status = L3A_OK;
    TRY(object ? json_next_key(&reading->json, &name, &more) : json_next_item(&reading->json, &more));
    if (!more) {
        reading->depth--;
        return L3A_OK;
    }
    if (object) {
        TRY(read_text(reading, name, &key));
    }
    status = read_value(reading, key);
    key = NULL;
done:
    release(reading->made->context, key);
    return status;
}

l3a_status l3a_json_read(l3a_context *context, const char *name, const char *text, size_t length, size_t limit, l3a_json **json) {
    struct reading reading = {.limit = limit < UINT32_MAX ? limit : UINT32_MAX};
    l3a_status status = L3A_OK;
    NEED(context, context, name, json);
    if (length) {
        NEED(context, text);
    }
    TRY(allocate_zeroed(context, 1, sizeof *reading.made, &reading.made));
    reading.made->context = context;
    json_begin(&reading.json, context, name, text ? text : "", length);
    TRY(read_value(&reading, NULL));
    while (reading.depth) {
        TRY(read_next(&reading));
    }
    TRY(json_end(&reading.json));
    *json = reading.made;
    reading.made = NULL;
done:
    l3a_json_free(reading.made);
    return status;
}

void l3a_json_free(l3a_json *json) {
    if (json) {
        for (size_t i = 0; i < json->count; i++) {
            release(json->context, json->values[i].key);
            release(json->context, json->values[i].text);
        }
        release(json->context, json->values);
        release(json->context, json);
    }
}

const l3a_json_value *l3a_json_root(const l3a_json *json) {
    return json ? json->values : NULL;
}

l3a_json_kind l3a_json_kind_of(const l3a_json_value *value) {
    return value ? (l3a_json_kind)value->kind : L3A_JSON_NULL;
}

const l3a_json_value *l3a_json_first(const l3a_json_value *value) {
    const bool contains = value && (value->kind == L3A_JSON_ARRAY || value->kind == L3A_JSON_OBJECT);
    return contains && value->length ? value + 1 : NULL;
}

const l3a_json_value *l3a_json_next(const l3a_json_value *value) {
    return value && value->next ? value + value->next : NULL;
}

const l3a_json_value *l3a_json_get(const l3a_json_value *value, const char *key) {
    const l3a_json_value *found = key && l3a_json_kind_of(value) == L3A_JSON_OBJECT ? l3a_json_first(value) : NULL;
    while (found && strcmp(found->key, key) != 0) {
        found = l3a_json_next(found);
    }
    return found;
}

const char *l3a_json_key(const l3a_json_value *value) {
    return value ? value->key : NULL;
}

const char *l3a_json_text(const l3a_json_value *value, size_t *length) {
    const bool text = value && value->kind == L3A_JSON_STRING;
    if (length) {
        *length = text ? value->length : 0;
    }
    return text ? value->text : NULL;
}

double l3a_json_number(const l3a_json_value *value) {
    return value ? value->number : 0;
}
