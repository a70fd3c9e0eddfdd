/* Charts in SVG. On a page they fill any width without scaling their text: horizontal positions are percentages of the plot, curves
 * are in an inner drawing that is stretched, and labels and markers keep their size. In a figure of its own, everything has its
 * place in pixels, because the programs that papers are made with know little more than that. Colours come from a style sheet;
 * series differ in colour (Okabe and Ito's), dashes and marker. */
#ifndef L3A_SVG_H
#define L3A_SVG_H

#include "report/html.h"

enum { TICKS = 12, SERIES_COLOURS = 8, SERIES_DASHES = 4, SERIES_MARKERS = 7 };

/* Where charts are drawn: on a page, or in a figure of its own, where drawings stand side by side below its legend. */
struct canvas {
    text_builder *to;
    double width;        /* of a drawing in a figure; 0: this is a page */
    double plot;         /* of these, what the axes enclose */
    double across, down; /* what the drawings of the figure take so far */
    text_builder legend; /* of the figures that follow */
    double legend_across, legend_down;
    size_t switches; /* on the page so far */
};

struct axis {
    const char *label;
    double low, high;
    bool logarithmic;
    int decimals; /* in the tick labels */
    double ticks[TICKS];
    size_t tick_count;
    const char *const *names; /* of the ticks of a horizontal axis; NULL: their numbers */
};

/* Extends the range to round numbers, with ticks at round distances. */
void axis_fit(struct axis *axis, double low, double high);
/* The same for counts in rising order, of phases or epochs, with a tick at each of them if there is room for all. */
void axis_fit_counts(struct axis *axis, const size_t *counts, size_t count);
/* A logarithmic axis, with ticks at powers of ten and at digits between them if the range is small. */
void axis_fit_logarithmic(struct axis *axis, double low, double high);

struct chart {
    struct canvas *canvas;
    struct axis x, y;
    double height;
    bool unswitched; /* its marks are no series that the page can hide */
    bool hollow;     /* its marks show what is below them */
};

/* Defines the markers of all charts: call it once per page, before the first chart. */
void svg_markers(text_builder *page);
void chart_begin(const struct chart *chart, const char *title, const char *description);
void chart_band(const struct chart *chart, const double *x, const double *low, const double *high, size_t count, size_t series);
void chart_line(const struct chart *chart, const double *x, const double *y, size_t count, size_t series, bool thick);
/* A marker, with the text that is shown when the pointer is over it. */
__attribute__((format(printf, 5, 6))) void chart_mark(const struct chart *chart, double x, double y, size_t series,
                                                      const char *format, ...);
/* A text beside a point: side -1 to its left and below, 1 to its right. */
void chart_label(const struct chart *chart, double x, double y, int side, const char *text);
void chart_end(const struct chart *chart);

/* On a page, a legend is printed where it is; the first one has a switch for each series, which hides it in all charts. In figures,
 * it belongs to those that follow, until the next one begins. */
enum { LEGEND_WIDTH = 440 };
void legend_clear(struct canvas *canvas);
void legend_begin(struct canvas *canvas);
void legend_item(struct canvas *canvas, size_t series, const char *label);
void legend_swatch(struct canvas *canvas, size_t series, const char *label);
void legend_end(struct canvas *canvas);
/* The colours of heat maps, from -limit to limit; beyond: values below -limit have the colour of -limit. */
void legend_scale(struct canvas *canvas, double limit, bool beyond);
/* The style sheet's rules for the switches of `count` series. */
void switch_style(text_builder *page, size_t count);

/* Horizontal bars, one per row. The parts of a bar follow one another, in the colours of the series from `series` on. */
struct bar {
    const char *name;
    const char *note; /* printed after the number; the bar is drawn lighter; may be NULL */
    const double *parts;
    size_t part_count;
    double mark; /* a second value, as a line across the bar; NaN: none */
};

void bars(struct canvas *canvas, const char *title, const struct bar *rows, size_t count, double full, int decimals, size_t series);

/* Cells [rows x columns] from -limit to limit: losses in one colour, gains in another, NaN empty. */
struct heat_map {
    const char *const *names; /* of the rows */
    const double *values;
    size_t rows, columns;
    double limit;
};

void heat_map(struct canvas *canvas, const char *title, const struct heat_map *map);

#endif
