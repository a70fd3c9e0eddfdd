#include "report/svg.h"

#include <math.h>

enum { NAME_WIDTH = 120, ROW = 20, CELL = 16 };

/* ---- Axes ---- */

static double round_step(double step) {
    const double power = pow(10, floor(log10(step))), part = step / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

void axis_fit(struct axis *axis, double low, double high) {
    if (!(high > low)) {
        low -= 1;
        high += 1;
    }
    const double step = round_step((high - low) / 5);
    axis->low = step * floor(low / step + 1e-9);
    axis->high = step * ceil(high / step - 1e-9);
    axis->decimals = step < 0.1 ? 2 : step < 1 ? 1 : 0;
    axis->tick_count = 0;
    for (double tick = axis->low; tick < axis->high + step / 2 && axis->tick_count < TICKS; tick += step) {
        axis->ticks[axis->tick_count++] = tick;
    }
}

void axis_fit_logarithmic(struct axis *axis, double low, double high) {
    axis->logarithmic = true;
    axis->low = low / 1.15;
    axis->high = high * 1.15;
    axis->tick_count = 0;
    const double decades = log10(high / low);
    for (double power = pow(10, floor(log10(axis->low))); power <= axis->high; power *= 10) {
        for (int digit = 1; digit < 10; digit++) {
            const bool wanted = digit == 1 || (decades < 3.5 && digit == 3) || (decades < 1.2 && (digit == 2 || digit == 5)) ||
                                (decades < 0.4 && digit % 2 == 0);
            if (wanted && power * digit >= axis->low && power * digit <= axis->high && axis->tick_count < TICKS) {
                axis->ticks[axis->tick_count++] = power * digit;
            }
        }
    }
}

static double fraction_of(const struct axis *axis, double value) {
    return axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                             : (value - axis->low) / (axis->high - axis->low);
}

/* In percent of the width, with a margin for markers at both ends. */
static double across(const struct chart *chart, double x) {
    return 2 + 96 * fraction_of(&chart->x, x);
}

static double down(const struct chart *chart, double y) {
    return chart->height * (1 - fraction_of(&chart->y, y));
}

/* ---- Charts ---- */

void svg_markers(text_builder *page) {
    static const char *const paths[SERIES_MARKERS] = {
        "M4.2 0A4.2 4.2 0 1 1 -4.2 0A4.2 4.2 0 1 1 4.2 0Z",
        "M-3.8 -3.8H3.8V3.8H-3.8Z",
        "M0 -5L4.6 3.4H-4.6Z",
        "M0 -5.2L4.8 0L0 5.2L-4.8 0Z",
        "M0 5L4.6 -3.4H-4.6Z",
        "M-1.5 -4.6H1.5V-1.5H4.6V1.5H1.5V4.6H-1.5V1.5H-4.6V-1.5H-1.5Z",
        "M0 -5L1.5 -1.6L4.8 -1.5L2.2 .9L3.1 4.3L0 2.4L-3.1 4.3L-2.2 .9L-4.8 -1.5L-1.5 -1.6Z"};
    html_raw(page, "<svg class=\"hidden\" aria-hidden=\"true\"><defs>");
    for (size_t i = 0; i < SERIES_MARKERS; i++) {
        html_print(page, "<path id=\"m%zu\" d=\"%s\"/>", i, paths[i]);
    }
    html_raw(page, "</defs></svg>\n");
}

static void open_drawing(text_builder *page, const char *title, const char *description, double height, double left, double right,
                         double top, double bottom) {
    html_print(page,
               "<div class=\"plot\" style=\"padding:%.0fpx %.0fpx %.0fpx %.0fpx\"><svg role=\"img\" width=\"100%%\" "
               "height=\"%.0f\" aria-label=\"%s\"><title>%s</title>",
               top, right, bottom, left, height, title, title);
    if (description) {
        html_print(page, "<desc>%s</desc>", description);
    }
}

static void close_drawing(text_builder *page) {
    html_raw(page, "</svg></div>\n");
}

void chart_begin(const struct chart *chart, const char *title, const char *description) {
    text_builder *page = chart->page;
    open_drawing(page, title, description, chart->height, 46, 10, 26, 44);
    for (size_t i = 0; i < chart->y.tick_count; i++) {
        const double y = down(chart, chart->y.ticks[i]);
        html_print(page, "<line class=\"grid\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", y, y);
        html_print(page, "<text class=\"end\" x=\"-8\" y=\"%.1f\">%.*f</text>", y + 4, chart->y.decimals, chart->y.ticks[i]);
    }
    html_print(page, "<line class=\"axis\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", chart->height, chart->height);
    for (size_t i = 0; i < chart->x.tick_count; i++) {
        const double x = across(chart, chart->x.ticks[i]);
        html_print(page, "<line class=\"axis\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.0f\" y2=\"%.0f\"/>", x, x, chart->height,
                   chart->height + 4);
        html_print(page, "<text class=\"middle\" x=\"%.2f%%\" y=\"%.0f\">%.*f</text>", x, chart->height + 18, chart->x.decimals,
                   chart->x.ticks[i]);
    }
    html_print(page,
               "<text class=\"unit\" x=\"-42\" y=\"-13\">%s</text><text class=\"unit middle\" x=\"50%%\" y=\"%.0f\">%s</text>\n",
               chart->y.label, chart->height + 37, chart->x.label);
}

static void open_stretched(const struct chart *chart) {
    html_print(chart->page, "<svg viewBox=\"0 0 1000 %.0f\" preserveAspectRatio=\"none\" overflow=\"visible\"><path d=\"",
               chart->height);
}

static void print_point(const struct chart *chart, char action, double x, double y) {
    html_print(chart->page, "%c%.1f %.1f", action, 10 * across(chart, x), down(chart, y));
}

void chart_band(const struct chart *chart, const double *x, const double *low, const double *high, size_t count, size_t series) {
    open_stretched(chart);
    for (size_t i = 0; i < count; i++) {
        print_point(chart, i ? 'L' : 'M', x[i], high[i]);
    }
    for (size_t i = count; i-- > 0;) {
        print_point(chart, 'L', x[i], low[i]);
    }
    html_print(chart->page, "Z\" class=\"band s%zu\"/></svg>\n", series % SERIES_COLOURS);
}

void chart_line(const struct chart *chart, const double *x, const double *y, size_t count, size_t series, bool thick) {
    open_stretched(chart);
    for (size_t i = 0; i < count; i++) {
        print_point(chart, i ? 'L' : 'M', x[i], y[i]);
    }
    html_print(chart->page, "\" class=\"line s%zu d%zu%s\"/></svg>\n", series % SERIES_COLOURS,
               series / SERIES_COLOURS % SERIES_DASHES, thick ? " thick" : "");
}

/* Chosen so that combinations of colour, dashes and marker repeat as late as possible. */
static size_t marker_of(size_t series) {
    return (series + series / SERIES_COLOURS) % SERIES_MARKERS;
}

void chart_mark(const struct chart *chart, double x, double y, size_t series, const char *format, ...) {
    va_list arguments;
    html_print(chart->page, "<use href=\"#m%zu\" x=\"%.2f%%\" y=\"%.1f\" class=\"mark s%zu\"><title>", marker_of(series),
               across(chart, x), down(chart, y), series % SERIES_COLOURS);
    va_start(arguments, format);
    html_print_list(chart->page, format, arguments);
    va_end(arguments);
    html_raw(chart->page, "</title></use>\n");
}

void chart_label(const struct chart *chart, double x, double y, int side, const char *text) {
    html_print(chart->page, "<text class=\"%s\" x=\"%.2f%%\" y=\"%.1f\" dx=\"%d\">%s</text>\n", side < 0 ? "end" : "start",
               across(chart, x), down(chart, y) + 4, 9 * side, text);
}

void chart_end(const struct chart *chart) {
    close_drawing(chart->page);
}

/* ---- Legends ---- */

void legend_begin(text_builder *page) {
    html_raw(page, "<ul class=\"legend\">");
}

void legend_item(text_builder *page, size_t series, const char *label) {
    html_print(page,
               "<li><svg width=\"30\" height=\"12\" aria-hidden=\"true\"><path d=\"M1 6H29\" class=\"line s%zu d%zu\"/><use "
               "href=\"#m%zu\" x=\"15\" y=\"6\" class=\"mark s%zu\"/></svg>%s</li>\n",
               series % SERIES_COLOURS, series / SERIES_COLOURS % SERIES_DASHES, marker_of(series), series % SERIES_COLOURS, label);
}

void legend_end(text_builder *page) {
    html_raw(page, "</ul>\n");
}

/* ---- Rows ---- */

/* The space for names of this width. */
static double name_room(double width) {
    return 12 + fmin(width, NAME_WIDTH);
}

static void print_name(text_builder *page, const char *name, double y) {
    char clipped[CLIPPED];
    html_print(page, "<text class=\"name end\" x=\"-8\" y=\"%.1f\">%s<title>%s</title></text>", y,
               text_clip(name, NAME_WIDTH, clipped), name);
}

void bars(text_builder *page, const char *title, const struct bar *rows, size_t count, double full, int decimals, size_t series) {
    double widest = 0;
    for (size_t i = 0; i < count; i++) {
        widest = fmax(widest, text_width(rows[i].name));
    }
    open_drawing(page, title, NULL, (double)(count * ROW), name_room(widest), 58, 2, 2);
    for (size_t i = 0; i < count; i++) {
        const double top = (double)(i * ROW);
        double start = 0;
        print_name(page, rows[i].name, top + 14);
        html_print(page, "<rect class=\"rail\" width=\"100%%\" y=\"%.0f\" height=\"12\"/>", top + 4);
        for (size_t j = 0; j < rows[i].part_count; j++) {
            const double wide = full > 0 ? 100 * rows[i].parts[j] / full : 0;
            html_print(page, "<rect class=\"bar s%zu%s\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"%.0f\" height=\"12\"/>",
                       (series + j) % SERIES_COLOURS, rows[i].note ? " noted" : "", 100 * start / (full > 0 ? full : 1), wide,
                       top + 4);
            start += rows[i].parts[j];
        }
        if (!isnan(rows[i].mark)) {
            const double x = full > 0 ? 100 * rows[i].mark / full : 0;
            html_print(page, "<line class=\"second\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.0f\" y2=\"%.0f\"/>", x, x, top + 2,
                       top + 18);
        }
        html_print(page, "<text class=\"start\" x=\"100%%\" dx=\"6\" y=\"%.0f\">%.*f%s</text>\n", top + 14, decimals, start,
                   rows[i].note ? rows[i].note : "");
    }
    close_drawing(page);
}

void heat_map(text_builder *page, const char *title, const struct heat_map *map) {
    const double wide = 100 / (double)map->columns;
    double widest = 0;
    for (size_t i = 0; i < map->rows; i++) {
        widest = fmax(widest, text_width(map->names[i]));
    }
    open_drawing(page, title, NULL, (double)(map->rows * CELL), name_room(widest), 6, 4, 40);
    for (size_t i = 0; i < map->rows; i++) {
        const double top = (double)(i * CELL);
        print_name(page, map->names[i], top + 12);
        for (size_t j = 0; j < map->columns; j++) {
            const double value = map->values[i * map->columns + j], strength = fabs(value) / map->limit;
            if (!isnan(value) && (j == 0 || isnan(map->values[i * map->columns + j - 1]))) {
                html_print(page, "<rect class=\"cell\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"%.0f\" height=\"%d\"/>", wide * (double)j,
                           100 - wide * (double)j, top + 1, CELL - 2);
            }
            if (strength > 0.005) {
                html_print(page,
                           "<rect class=\"%s\" fill-opacity=\"%.2f\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"%.0f\" height=\"%d\"/>",
                           value < 0 ? "loss" : "gain", strength < 1 ? strength : 1, wide * (double)j, wide, top + 1, CELL - 2);
            }
        }
        html_raw(page, "\n");
    }
    const size_t every = map->columns > 16 ? (map->columns + 9) / 10 : 1;
    for (size_t j = 0; j < map->columns; j += every) {
        html_print(page, "<text class=\"middle\" x=\"%.2f%%\" y=\"%zu\">%zu</text>", wide * ((double)j + 0.5),
                   map->rows * CELL + 16, j + 1);
    }
    html_print(page, "<text class=\"unit middle\" x=\"50%%\" y=\"%zu\">phase</text>", map->rows * CELL + 34);
    close_drawing(page);
}
