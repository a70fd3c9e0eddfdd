/* A JSON pull parser: the caller asks for the values it expects, in the order they come, and skips the rest. Errors give the line
 * and column. The text is in memory, or in a file of any size that is read through a sliding window. Reading, unlike mapping, turns
 * a file that another process cuts short into an error.
 *
 *   TRY(json_object(&json));
 *   for (;;) {
 *       TRY(json_next_key(&json, &key, &more));
 *       if (!more) break;
 *       if (json_text_is(key, "shape")) ... else TRY(json_skip(&json));
 *   } */
#ifndef L3A_JSON_H
#define L3A_JSON_H

#include "base/file.h"

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

struct json {
    l3a_context *context;
    const char *name;             /* of the file, for errors */
    const char *start, *at, *end; /* of the text or, for a file, of the part in the window */
    unsigned depth;
    bool first; /* at the start of a container, before its first value */
    input_file input;
    char *window; /* NULL if the text is in memory */
    size_t capacity;
    uint64_t offset;   /* of start in the file */
    const char *kept;  /* the first byte that must stay in the window; NULL: `at` is */
    l3a_status status; /* the error met while reading the file, if any */
};

void json_begin(struct json *json, l3a_context *context, const char *name, const char *text, size_t length);
/* Opens a file of at most `limit` bytes, to be read through a window of `window` bytes; 0 chooses a fast size. A string that is
 * read rather than skipped must fit in the window. Close it even if this fails. */
l3a_status json_open(struct json *json, l3a_context *context, const char *path, uint64_t limit, size_t window);
void json_close(struct json *json);
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
/* An error at the parser's position, or at an earlier position. If reading the file has failed, that error is returned instead. */
__attribute__((format(printf, 2, 3))) l3a_status json_fail(struct json *json, const char *format, ...);
__attribute__((format(printf, 3, 4))) l3a_status json_fail_at(struct json *json, uint64_t position, const char *format, ...);

bool json_text_is(json_text text, const char *expected);
/* Decodes the escapes and adds a zero byte. */
l3a_status json_text_copy(struct json *json, json_text text, char **copy);

#endif
