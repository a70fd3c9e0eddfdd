/* A JSON pull parser: the caller asks for the values it expects, in the order they come, and skips the rest. Errors give the line
 * and column. The text is in memory, or comes from a source of any size that is read through a sliding window. The library begins
 * with format/json.h, which knows contexts and files; a whole text becomes a tree with common/json_tree.h.
 *
 *   TRY(json_object(&json));
 *   for (;;) {
 *       TRY(json_next_key(&json, &key, &more));
 *       if (!more) break;
 *       if (json_text_is(key, "shape")) ... else TRY(json_skip(&json));
 *   } */
#ifndef L3A_COMMON_JSON_H
#define L3A_COMMON_JSON_H

#include "common/try.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH = 128 };

typedef enum json_kind {
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_BOOLEAN,
    JSON_NULL,
    JSON_NOTHING /* the end of the text, or something that cannot begin a value */
} json_kind;

/* A string as written between its quotes, with escapes not decoded. It points into the text or, for a file, into the window; there
 * it is valid until the next call that reads. */
typedef struct json_text {
    const char *at;
    size_t length;
    bool escaped;
} json_text;

struct json;

/* What the parser needs of whoever begins it. */
struct json_host {
    /* Records an error and returns its status. */
    l3a_status (*fail)(struct json *json, l3a_status status, const char *text);
    /* Reads bytes of the source; NULL if the text is in memory. */
    l3a_status (*read)(const struct json *json, uint64_t from, void *bytes, size_t count);
};

struct json {
    const struct json_host *host;
    l3a_context *context;         /* the host's … */
    void *source;                 /* … both */
    const char *name;             /* of the file, for errors */
    const char *start, *at, *end; /* of the text or, with a window, of the part in it */
    unsigned depth;
    bool first;   /* at the start of a container, before its first value */
    char *window; /* NULL if the text is in memory */
    size_t capacity;
    uint64_t size;     /* of the source */
    uint64_t offset;   /* of start in the source */
    const char *kept;  /* the first byte that must stay in the window; NULL: `at` is */
    l3a_status status; /* the error met while reading the source, if any */
};

json_kind json_peek(struct json *json);
l3a_status json_object(struct json *json);
/* Reads the next key and its colon; at the end of the object, *more is false. */
l3a_status json_next_key(struct json *json, json_text *key, bool *more);
/* Enters an object and moves to the value of the first key with this name; *found is false if there is none. */
l3a_status json_find(struct json *json, const char *name, bool *found);
l3a_status json_array(struct json *json);
l3a_status json_next_item(struct json *json, bool *more);
l3a_status json_string(struct json *json, json_text *text);
l3a_status json_number(struct json *json, double *value);
l3a_status json_integer(struct json *json, uint64_t *value); /* a whole number, 0 or larger */
l3a_status json_boolean(struct json *json, bool *value);
l3a_status json_skip(struct json *json);
/* Fails if anything but white space follows. */
l3a_status json_end(struct json *json);
/* The parser's position: bytes from the beginning of the text. */
uint64_t json_position(const struct json *json);
/* The line and column of a position, both counted from 1; columns are in bytes. */
void json_place(const struct json *json, uint64_t position, size_t *line, size_t *column);
/* An error at the parser's position, or at an earlier position. If reading the source has failed, that error is returned instead.
 */
__attribute__((format(printf, 2, 3))) l3a_status json_fail(struct json *json, const char *format, ...);
__attribute__((format(printf, 3, 4))) l3a_status json_fail_at(struct json *json, uint64_t position, const char *format, ...);

bool json_text_is(json_text text, const char *expected);
/* Decodes the escapes and adds a zero byte. `to` has room for text.length + 1 bytes. */
l3a_status json_text_decode(struct json *json, json_text text, char *to);

#endif
