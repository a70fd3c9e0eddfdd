/* A JSON pull parser: the caller asks for the values it expects, in the order they come, and skips the rest. It names line and
 * column of what is wrong. It works on a text in memory, or on a file of any size through a window that slides over it: a file
 * that another process cuts short while it is read is an error, which it would not be if it were mapped.
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
    JSON_NOTHING /* the end of the text, or what cannot begin a value */
} json_kind;

/* A string as it is in the text, between its quotes, escapes and all. It points into the text or, of a file, into the window:
 * there it is valid until the next call that reads. */
typedef struct json_text {
    const char *at;
    size_t length;
    bool escaped;
} json_text;

struct json {
    l3a_context *context;
    const char *name;             /* of the file, for errors */
    const char *start, *at, *end; /* of the text or, of a file, of the part in the window */
    unsigned depth;
    bool first; /* in the container just opened, before its first value */
    input_file input;
    char *window; /* NULL: a text in memory */
    size_t capacity;
    uint64_t offset;   /* in the file, of start */
    const char *kept;  /* the first byte that must stay in the window, or NULL: `at` is the first */
    l3a_status status; /* of reading the file */
};

void json_begin(struct json *json, l3a_context *context, const char *name, const char *text, size_t length);
/* A file of at most `limit` bytes, through a window of so many bytes; 0: as many as are fast. A string that is wanted, and not
 * skipped, must fit. Close it, whatever this returns. */
l3a_status json_open(struct json *json, l3a_context *context, const char *path, uint64_t limit, size_t window);
void json_close(struct json *json);
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
/* Where the parser is: bytes from the beginning of the text. */
uint64_t json_position(const struct json *json);
/* Line and column, from 1 and in bytes, of a position. */
void json_place(const struct json *json, uint64_t position, size_t *line, size_t *column);
/* An error at the place the parser is at, or at a position it has been at; or the error that reading the file has met. */
__attribute__((format(printf, 2, 3))) l3a_status json_fail(struct json *json, const char *format, ...);
__attribute__((format(printf, 3, 4))) l3a_status json_fail_at(struct json *json, uint64_t position, const char *format, ...);

bool json_text_is(json_text text, const char *expected);
/* Decoded, zero-terminated. */
l3a_status json_text_copy(struct json *json, json_text text, char **copy);

#endif
