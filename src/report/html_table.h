/* Tables of a page: a line of column headings, then rows of a heading and cells. Formats are those of html_print(). A `kind` is a
 * class of the page's style, or NULL for none: numbers are aligned right, and cells of the kind "text" left. */
#ifndef L3A_HTML_TABLE_H
#define L3A_HTML_TABLE_H

#include "report/html.h"

void table_begin(text_builder *page, const char *kind);
__attribute__((format(printf, 3, 4))) void table_column(text_builder *page, const char *kind, const char *format, ...);
/* Several without a kind; NULL ends the list. */
void table_columns(text_builder *page, const char *const *names);
/* Ends the headings. */
void table_body(text_builder *page);
__attribute__((format(printf, 3, 4))) void table_row(text_builder *page, const char *kind, const char *format, ...);
__attribute__((format(printf, 3, 4))) void table_cell(text_builder *page, const char *kind, const char *format, ...);
/* A dash if it is NaN. */
void table_number(text_builder *page, double value, int decimals);
void table_count(text_builder *page, uint64_t count);
/* A mean and, if there are several seeds, its standard deviation. */
void table_spread(text_builder *page, const double value[2], size_t seeds, bool best);
void table_empty(text_builder *page);
void table_row_end(text_builder *page);
void table_end(text_builder *page);

#endif
