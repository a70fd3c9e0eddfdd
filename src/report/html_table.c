#include "report/html_table.h"

#include <math.h>

static void open_tag(text_builder *page, const char *tag, const char *kind) {
    html_print(page, kind ? "<%s class=\"%s\">" : "<%s>", tag, kind);
}

void table_begin(text_builder *page, const char *kind) {
    open_tag(page, "table", kind);
    html_raw(page, "<thead><tr>");
}

void table_column(text_builder *page, const char *kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    open_tag(page, "th", kind);
    html_print_list(page, format, arguments);
    html_raw(page, "</th>");
    va_end(arguments);
}

void table_columns(text_builder *page, const char *const *names) {
    for (size_t i = 0; names[i]; i++) {
        table_column(page, NULL, "%s", names[i]);
    }
}

void table_body(text_builder *page) {
    html_raw(page, "</tr></thead><tbody>\n");
}

void table_row(text_builder *page, const char *kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    open_tag(page, "tr", kind);
    html_raw(page, "<th scope=\"row\">");
    html_print_list(page, format, arguments);
    html_raw(page, "</th>");
    va_end(arguments);
}

void table_cell(text_builder *page, const char *kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    open_tag(page, "td", kind);
    html_print_list(page, format, arguments);
    html_raw(page, "</td>");
    va_end(arguments);
}

void table_number(text_builder *page, double value, int decimals) {
    table_cell(page, NULL, "%.*f", decimals, value);
}

void table_count(text_builder *page, uint64_t count) {
    table_cell(page, NULL, "%zu", (size_t)count);
}

void table_spread(text_builder *page, const double value[2], size_t seeds, bool best) {
    if (isnan(value[0])) {
        table_number(page, NAN, 2);
        return;
    }
    open_tag(page, "td", best ? "best" : NULL);
    html_print(page, "%.2f", value[0]);
    if (seeds > 1) {
        html_print(page, "<small> ± %.2f</small>", value[1]);
    }
    html_raw(page, "</td>");
}

void table_empty(text_builder *page) {
    html_raw(page, "<td></td>");
}

void table_row_end(text_builder *page) {
    html_raw(page, "</tr>\n");
}

void table_end(text_builder *page) {
    html_raw(page, "</tbody></table>");
}
