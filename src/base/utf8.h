/* UTF-8, without overlong forms, surrogates and numbers above 10FFFF. */
#ifndef L3A_UTF8_H
#define L3A_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of bytes of the character at the start of a text that ends with a zero byte, and its number; 0 if it is invalid. */
size_t utf8_decode(const char *text, uint32_t *code);
/* Writes a character of at most four bytes, and returns their number. */
size_t utf8_encode(uint32_t code, char *text);
bool is_utf8(const char *text);

#endif
