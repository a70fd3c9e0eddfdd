/* A page of HTML under construction. What is printed with %s is escaped, so that no name can be anything but text. */
#ifndef L3A_HTML_H
#define L3A_HTML_H

#include "base/memory.h"

#include <stdarg.h>

/* Like printf with %s (escaped), %zu, %d, %c, %.Nf and %.*f (with a point, whatever the locale), %%, and nothing else. */
__attribute__((format(printf, 2, 3))) void html_print(text_builder *page, const char *format, ...);
void html_print_list(text_builder *page, const char *format, va_list list);
/* As it stands: for text of the program's own. */
void html_raw(text_builder *page, const char *text);
/* Bytes as base64, for a data: address. */
void html_base64(text_builder *page, const uint8_t *bytes, size_t count);

/* Pixels that a text takes at most in a chart's size of letters, and its beginning in at most so many, ended by … where cut. */
enum { CLIPPED = 160 };
double text_width(const char *text);
const char *text_clip(const char *text, double width, char clipped[CLIPPED]);

#endif
