/* Numbers as text, always with a point, whatever the host's locale. */
#ifndef L3A_NUMBER_H
#define L3A_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_TEXT = 32 };

/* A short text that reads back as the same double. */
const char *number_format(double value, char text[NUMBER_TEXT]);
/* False unless all of the text is a finite decimal number. */
bool number_parse(const char *text, size_t length, double *value);
bool integer_parse(const char *text, size_t length, uint64_t *value);

#endif
