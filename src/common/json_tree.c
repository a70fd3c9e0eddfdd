/* A JSON text as a tree, by the pull parser. The values are in one array, in the order of the text: the first value of a container
 * follows it, and each value knows how far away the next one of its container is. */
#include "common/json_tree.h"

#include "common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct json_value {
    uint32_t kind;
    uint32_t next; /* so many values further; 0: it is the last */
    char *key, *text;
    double number;
    size_t length; /* of the text; of a container, the number of its values */
};
_Static_assert(sizeof(struct json_value) == 40, "as json_tree.h says");

struct json_tree {
    struct json_value *values;
    size_t count, capacity;
};

/* A container that is being read. */
struct level {
    size_t value, last; /* its number, and that of its latest value */
};

struct reading {
    struct json json;
    struct json_tree *made;
    size_t limit;
    struct level levels[JSON_DEPTH + 1];
    size_t depth;
};

static l3a_status out_of_memory(struct json_problem *problem) {
    *problem = (struct json_problem){"free some memory", "memory ran out"};
    return L3A_ERROR_MEMORY;
}

static l3a_status keep_problem(struct json *json, l3a_status status, const char *text) {
    struct json_problem *problem = json->source;
    problem->hint = "this is not JSON";
    snprintf(problem->text, sizeof problem->text, "%s", text);
    return status;
}

static l3a_status read_text(struct reading *reading, json_text text, char **copy) {
    l3a_status status = L3A_OK;
    char *made = malloc(text.length + 1);
    if (!made) {
        return out_of_memory(reading->json.source);
    }
    TRY(json_text_decode(&reading->json, text, made));
    if (!is_utf8(made)) {
        status = json_fail(&reading->json, "a string is not UTF-8");
    }
done:
    if (status != L3A_OK) {
        free(made);
        made = NULL;
    }
    *copy = made;
    return status;
}

static bool make_room(struct json_tree *made) {
    const size_t capacity = made->count < made->capacity ? made->capacity : made->capacity ? 2 * made->capacity : 16;
    struct json_value *values = capacity == made->capacity ? made->values : reallocarray(made->values, capacity, sizeof *values);
    if (values) {
        made->values = values;
        made->capacity = capacity;
    }
    return values != NULL;
}

/* Adds a value to the innermost container. The key comes to belong to it. */
static l3a_status add_value(struct reading *reading, json_kind kind, char *key, struct json_value **added) {
    struct json_tree *made = reading->made;
    struct json_problem *problem = reading->json.source;
    if (made->count >= reading->limit) {
        free(key);
        problem->hint = "send less at a time";
        snprintf(problem->text, sizeof problem->text, "%s: more than %zu values", reading->json.name, reading->limit);
        return L3A_ERROR_MEMORY;
    }
    if (!make_room(made)) {
        free(key);
        return out_of_memory(problem);
    }
    if (reading->depth) {
        struct level *level = &reading->levels[reading->depth - 1];
        struct json_value *container = &made->values[level->value];
        if (container->length++) {
            made->values[level->last].next = (uint32_t)(made->count - level->last);
        }
        level->last = made->count;
    }
    made->values[made->count] = (struct json_value){.kind = (uint32_t)kind, .key = key};
    *added = &made->values[made->count++];
    return L3A_OK;
}

static l3a_status enter(struct reading *reading, bool object) {
    l3a_status status = L3A_OK;
    TRY(object ? json_object(&reading->json) : json_array(&reading->json));
    reading->levels[reading->depth++].value = reading->made->count - 1;
done:
    return status;
}

static l3a_status read_value(struct reading *reading, char *key) {
    struct json *json = &reading->json;
    const json_kind kind = json_peek(json);
    struct json_value *value = NULL;
    json_text text;
    bool truth = false;
    l3a_status status = L3A_OK;
    TRY(add_value(reading, kind, key, &value));
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
    const bool object = reading->made->values[reading->levels[reading->depth - 1].value].kind == JSON_OBJECT;
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
done:
    return status;
}

l3a_status json_tree_read(const char *name, const char *text, size_t length, size_t limit, struct json_tree **tree,
                          struct json_problem *problem) {
    static const struct json_host host = {keep_problem, NULL};
    struct reading reading = {.limit = limit < UINT32_MAX ? limit : UINT32_MAX, .made = calloc(1, sizeof *reading.made)};
    l3a_status status = reading.made ? L3A_OK : out_of_memory(problem);
    text = text ? text : "";
    reading.json = (struct json){.host = &host, .source = problem, .name = name, .start = text, .at = text, .end = text + length};
    TRY(status);
    TRY(read_value(&reading, NULL));
    while (reading.depth) {
        TRY(read_next(&reading));
    }
    TRY(json_end(&reading.json));
    *tree = reading.made;
    reading.made = NULL;
done:
    json_tree_free(reading.made);
    return status;
}

void json_tree_free(struct json_tree *tree) {
    if (tree) {
        for (size_t i = 0; i < tree->count; i++) {
            free(tree->values[i].key);
            free(tree->values[i].text);
        }
        free(tree->values);
        free(tree);
    }
}

const struct json_value *json_tree_root(const struct json_tree *tree) {
    return tree ? tree->values : NULL;
}

json_kind json_value_kind(const struct json_value *value) {
    return value ? (json_kind)value->kind : JSON_NULL;
}

const struct json_value *json_value_first(const struct json_value *value) {
    const bool contains = value && (value->kind == JSON_ARRAY || value->kind == JSON_OBJECT);
    return contains && value->length ? value + 1 : NULL;
}

const struct json_value *json_value_next(const struct json_value *value) {
    return value && value->next ? value + value->next : NULL;
}

const struct json_value *json_value_get(const struct json_value *value, const char *key) {
    const struct json_value *found = json_value_kind(value) == JSON_OBJECT ? json_value_first(value) : NULL;
    while (found && strcmp(found->key, key) != 0) {
        found = json_value_next(found);
    }
    return found;
}

const char *json_value_key(const struct json_value *value) {
    return value ? value->key : NULL;
}

const char *json_value_text(const struct json_value *value, size_t *length) {
    const bool text = value && value->kind == JSON_STRING;
    if (length) {
        *length = text ? value->length : 0;
    }
    return text ? value->text : NULL;
}

double json_value_number(const struct json_value *value) {
    return value ? value->number : 0;
}
