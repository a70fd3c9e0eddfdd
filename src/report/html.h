/* Builds a page of HTML. Text printed with %s is escaped, so that a name can never become markup. */
#ifndef L3A_HTML_H
#define L3A_HTML_H

#include "base/memory.h"

#include <stdarg.h>

/* Like printf, with only %s (escaped), %zu, %d, %c, %.Nf and %.*f (with a decimal point in every locale), and %%. */
__attribute__((format(printf, 2, 3))) void html_print(text_builder *page, const char *format, ...);
void html_print_list(text_builder *page, const char *format, va_list list);
/* Without escaping, for the program's own text. */
void html_raw(text_builder *page, const char *text);
/* A number as %.*f prints it; uses the buffer. */
enum { FIXED = 32 };
const char *fixed_text(double value, int decimals, char text[FIXED]);
/* Bytes as base64, for a data: URL. */
void html_base64(text_builder *page, const uint8_t *bytes, size_t count);

/* An upper bound on the width of a text in a chart, in pixels; and the text itself, cut with … if it is wider than `width`. */
enum { CLIPPED = 160 };
double text_width(const char *text);
const char *text_clip(const char *text, double width, char clipped[CLIPPED]);

#endif
