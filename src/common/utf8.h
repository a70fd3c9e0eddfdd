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
/* The first character that nobody sees, or that changes how others are shown: control characters, line and paragraph separators,
 * marks of the direction of writing, invisible spaces and hyphens, byte-order marks; 0 if there is none. The joiners U+200C and
 * U+200D are none of these: words of several languages and many emoji need them. */
uint32_t utf8_find_hidden(const char *text);

#endif
