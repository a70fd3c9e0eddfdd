/* Numbers as text, always with a decimal point, whatever the locale of the host program. */
#ifndef L3A_NUMBER_H
#define L3A_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_TEXT = 32 };

/* A short text that reads back as the same double. */
const char *number_format(double value, char text[NUMBER_TEXT]);
/* Replaces the decimal point of the locale, which can have several bytes, in a text that printf made of a number. */
char *number_use_point(char *text);
/* Return false unless the whole text is a finite decimal number or, for integer_parse, consists of digits. */
bool number_parse(const char *text, size_t length, double *value);
bool integer_parse(const char *text, size_t length, uint64_t *value);

#endif
