/* Texts under construction, as JSON and in general; and base64. */
#ifndef L3A_SERVE_TEXT_H
#define L3A_SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `failed` remembers that memory ran out. */
struct text {
    char *bytes;
    size_t length, capacity;
    bool failed;
};

void text_add(struct text *text, const void *bytes, size_t count);
__attribute__((format(printf, 2, 3))) void text_print(struct text *text, const char *format, ...);
/* A JSON string, in quotes. Bytes that are not UTF-8 become U+FFFD. */
void text_json(struct text *text, const char *string);
/* A number as JSON has it: null if it is not finite. `digits`: so many that count. */
void text_number(struct text *text, double number, int digits);
void text_free(struct text *text);

char *copy_string(const char *string);

/* Decodes base64, with or without padding; white space is skipped. Returns the bytes, for the caller to free; NULL if it is not
 * base64 or memory runs out. A data: URL before it is skipped. */
uint8_t *base64_decode(const char *string, size_t length, size_t *count);

/* The bytes as lower-case hexadecimal digits, and a zero byte. */
void hex_encode(const uint8_t *bytes, size_t count, char *digits);

#endif
