/* Charts in SVG that fill any width without scaling their text: horizontal positions are percentages of the plot, curves are in an
 * inner drawing that is stretched, and labels and markers keep their size. Colours come from the page's style sheet; series differ
 * in colour (Okabe and Ito's), dashes and marker. */
#ifndef L3A_SVG_H
#define L3A_SVG_H

#include "report/html.h"

enum { TICKS = 12, SERIES_COLOURS = 7, SERIES_DASHES = 4, SERIES_MARKERS = 7 };

struct axis {
    const char *label;
    double low, high;
    bool logarithmic;
    int decimals; /* in the tick labels */
    double ticks[TICKS];
    size_t tick_count;
};

/* Extends the range to round numbers, with ticks at round distances. */
void axis_fit(struct axis *axis, double low, double high);
/* A logarithmic axis, with ticks at powers of ten and at digits between them if the range is small. */
void axis_fit_logarithmic(struct axis *axis, double low, double high);

struct chart {
    text_builder *page;
    struct axis x, y;
    double height;
};

/* Defines the markers of all charts: call it once per page, before the first chart. */
void svg_markers(text_builder *page);
void chart_begin(const struct chart *chart, const char *title, const char *description);
void chart_band(const struct chart *chart, const double *x, const double *low, const double *high, size_t count, size_t series);
void chart_line(const struct chart *chart, const double *x, const double *y, size_t count, size_t series, bool thick);
/* A marker, with the text that is shown when the pointer is over it. */
__attribute__((format(printf, 5, 6))) void chart_mark(const struct chart *chart, double x, double y, size_t series,
                                                      const char *format, ...);
/* A text beside a point: side -1 to its left, 1 to its right. */
void chart_label(const struct chart *chart, double x, double y, int side, const char *text);
void chart_end(const struct chart *chart);

void legend_begin(text_builder *page);
void legend_item(text_builder *page, size_t series, const char *label);
void legend_end(text_builder *page);

/* Horizontal bars, one per row. The parts of a bar follow one another, in the colours of the series from `series` on. */
struct bar {
    const char *name;
    const char *note; /* printed after the number; the bar is drawn lighter; may be NULL */
    const double *parts;
    size_t part_count;
    double mark; /* a second value, as a line across the bar; NaN: none */
};

void bars(text_builder *page, const char *title, const struct bar *rows, size_t count, double full, int decimals, size_t series);

/* Cells [rows x columns] from -limit to limit: losses in one colour, gains in another, NaN empty. */
struct heat_map {
    const char *const *names; /* of the rows */
    const double *values;
    size_t rows, columns;
    double limit;
};

void heat_map(text_builder *page, const char *title, const struct heat_map *map);

#endif
