/* A JSON pull parser: the caller asks for the values it expects, in the order they stand, and skips the rest. It works on
 * text in memory, allocates nothing, and names line and column of what is wrong.
 *
 *   TRY(json_object(&json));
 *   for (;;) {
 *       TRY(json_next_key(&json, &key, &more));
 *       if (!more) break;
 *       if (json_text_is(key, "shape")) ... else TRY(json_skip(&json));
 *   } */
#ifndef L3A_JSON_H
#define L3A_JSON_H

#include "base/context.h"

enum { JSON_DEPTH = 128 };

typedef enum json_kind {
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_BOOLEAN,
    JSON_NULL,
    JSON_NOTHING /* the end of the text, or what cannot begin a value */
} json_kind;

/* A string as it stands in the text, between its quotes, escapes and all. */
typedef struct json_text {
    const char *at;
    size_t length;
    bool escaped;
} json_text;

struct json {
    l3a_context *context;
    const char *name; /* of the file, for errors */
    const char *start, *at, *end;
    unsigned depth;
    bool first; /* in the container just opened, before its first value */
};

void json_begin(struct json *json, l3a_context *context, const char *name, const char *text, size_t length);
json_kind json_peek(struct json *json);
l3a_status json_object(struct json *json);
/* The next key, with its colon consumed; or the object's end, and *more is false. */
l3a_status json_next_key(struct json *json, json_text *key, bool *more);
l3a_status json_array(struct json *json);
l3a_status json_next_item(struct json *json, bool *more);
l3a_status json_string(struct json *json, json_text *text);
l3a_status json_number(struct json *json, double *value);
l3a_status json_integer(struct json *json, uint64_t *value); /* a whole number from 0 on */
l3a_status json_boolean(struct json *json, bool *value);
l3a_status json_skip(struct json *json);
/* Nothing but white space may follow. */
l3a_status json_end(struct json *json);
/* Line and column, from 1 and in bytes, of a place in the text. */
void json_place(const struct json *json, const char *at, size_t *line, size_t *column);
/* An error at the place the parser is at. */
__attribute__((format(printf, 2, 3))) l3a_status json_fail(struct json *json, const char *format, ...);

bool json_text_is(json_text text, const char *expected);
/* Decoded, zero-terminated. */
l3a_status json_text_copy(struct json *json, json_text text, char **copy);

#endif
