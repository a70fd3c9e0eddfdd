#include "report/svg.h"

#include <math.h>

enum { NAME_WIDTH = 120, ROW = 20, CELL = 16, COLUMN_GAP = 18, LEGEND_ROW = 18, LEGEND_SIDE = 10 };

static const char *const markers[SERIES_MARKERS] = {
    "M4.2 0A4.2 4.2 0 1 1 -4.2 0A4.2 4.2 0 1 1 4.2 0Z",
    "M-3.8 -3.8H3.8V3.8H-3.8Z",
    "M0 -5L4.6 3.4H-4.6Z",
    "M0 -5.2L4.8 0L0 5.2L-4.8 0Z",
    "M0 5L4.6 -3.4H-4.6Z",
    "M-1.5 -4.6H1.5V-1.5H4.6V1.5H1.5V4.6H-1.5V1.5H-4.6V-1.5H-1.5Z",
    "M0 -5L1.5 -1.6L4.8 -1.5L2.2 .9L3.1 4.3L0 2.4L-3.1 4.3L-2.2 .9L-4.8 -1.5L-1.5 -1.6Z"};

/* Chosen so that combinations of colour, dashes and marker repeat as late as possible. */
static size_t colour_of(size_t series) {
    return series % SERIES_COLOURS;
}

static size_t dashes_of(size_t series) {
    return (series + series / SERIES_COLOURS) % SERIES_DASHES;
}

static size_t marker_of(size_t series) {
    return (series + series / SERIES_COLOURS) % SERIES_MARKERS;
}

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

void axis_fit_counts(struct axis *axis, const size_t *counts, size_t count) {
    const double low = (double)counts[0], high = (double)counts[count - 1];
    if (count == 1) {
        axis->low = low - 1;
        axis->high = low + 1;
        axis->ticks[0] = low;
        axis->tick_count = 1;
        return;
    }
    bool room = count <= TICKS;
    for (size_t i = 1; i < count; i++) {
        room = room && (double)(counts[i] - counts[i - 1]) >= (high - low) / 11;
    }
    axis_fit(axis, low, high);
    axis->low = low;
    axis->high = high;
    size_t kept = 0;
    for (size_t i = 0; i < axis->tick_count; i++) {
        if (axis->ticks[i] >= low && axis->ticks[i] <= high) {
            axis->ticks[kept++] = axis->ticks[i];
        }
    }
    axis->tick_count = kept;
    for (size_t i = 0; room && i < count; i++) {
        axis->ticks[i] = (double)counts[i];
        axis->tick_count = count;
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

/* ---- Drawings ---- */

void svg_markers(text_builder *page) {
    html_raw(page, "<svg class=\"hidden\" aria-hidden=\"true\"><defs>");
    for (size_t i = 0; i < SERIES_MARKERS; i++) {
        html_print(page, "<path id=\"m%zu\" d=\"%s\"/>", i, markers[i]);
    }
    html_raw(page, "</defs></svg>\n");
}

static void open_drawing(struct canvas *canvas, const char *title, const char *description, double height, double left,
                         double right, double top, double bottom) {
    if (canvas->width > 0) {
        canvas->across += canvas->across > 0 ? COLUMN_GAP : 0;
        canvas->plot = canvas->width - left - right;
        html_print(canvas->to, "<g transform=\"translate(%.0f %.0f)\">\n", canvas->across + left, top);
        canvas->across += canvas->width;
        canvas->down = fmax(canvas->down, top + height + bottom);
        return;
    }
    html_print(canvas->to,
               "<div class=\"plot\" style=\"padding:%.0fpx %.0fpx %.0fpx %.0fpx\"><svg role=\"img\" width=\"100%%\" "
               "height=\"%.0f\" aria-label=\"%s\"><title>%s</title>",
               top, right, bottom, left, height, title, title);
    if (description) {
        html_print(canvas->to, "<desc>%s</desc>", description);
    }
}

static void close_drawing(struct canvas *canvas) {
    html_raw(canvas->to, canvas->width > 0 ? "</g>\n" : "</svg></div>\n");
}

/* An attribute whose value is a share of the plot's width. */
static void print_share(struct canvas *canvas, const char *attribute, double percent) {
    if (canvas->width > 0) {
        html_print(canvas->to, " %s=\"%.2f\"", attribute, canvas->plot * percent / 100);
    } else {
        html_print(canvas->to, " %s=\"%.2f%%\"", attribute, percent);
    }
}

/* The caller closes the element. */
static void begin_text(struct canvas *canvas, const char *classes, double percent, double shift, double y) {
    html_print(canvas->to, "<text class=\"%s\"", classes);
    if (canvas->width > 0) {
        html_print(canvas->to, " x=\"%.2f\"", canvas->plot * percent / 100 + shift);
    } else if (shift != 0) {
        html_print(canvas->to, " x=\"%.2f%%\" dx=\"%.0f\"", percent, shift);
    } else {
        html_print(canvas->to, " x=\"%.2f%%\"", percent);
    }
    html_print(canvas->to, " y=\"%.1f\">", y);
}

static void print_text(struct canvas *canvas, const char *classes, double percent, double shift, double y, const char *text) {
    begin_text(canvas, classes, percent, shift, y);
    html_print(canvas->to, "%s</text>", text);
}

static void print_line(struct canvas *canvas, const char *classes, double from, double to, double top, double bottom) {
    html_print(canvas->to, "<line class=\"%s\"", classes);
    print_share(canvas, "x1", from);
    print_share(canvas, "x2", to);
    html_print(canvas->to, " y1=\"%.1f\" y2=\"%.1f\"/>", top, bottom);
}

/* The caller closes the element. */
static void begin_rectangle(struct canvas *canvas, double start, double wide, double y, double height) {
    html_raw(canvas->to, "<rect");
    print_share(canvas, "x", start);
    print_share(canvas, "width", wide);
    html_print(canvas->to, " y=\"%.0f\" height=\"%.0f\"", y, height);
}

static void print_rectangle(struct canvas *canvas, const char *classes, double start, double wide, double y, double height) {
    begin_rectangle(canvas, start, wide, y, height);
    html_print(canvas->to, " class=\"%s\"/>", classes);
}

/* ---- Charts ---- */

void chart_begin(const struct chart *chart, const char *title, const char *description) {
    struct canvas *canvas = chart->canvas;
    char number[FIXED];
    open_drawing(canvas, title, description, chart->height, 52, 10, 26, 44);
    for (size_t i = 0; i < chart->y.tick_count; i++) {
        const double y = down(chart, chart->y.ticks[i]);
        print_line(canvas, "grid", 0, 100, y, y);
        print_text(canvas, "end", 0, -8, y + 4, fixed_text(chart->y.ticks[i], chart->y.decimals, number));
    }
    print_line(canvas, "axis", 0, 100, chart->height, chart->height);
    for (size_t i = 0; i < chart->x.tick_count; i++) {
        const double x = across(chart, chart->x.ticks[i]);
        print_line(canvas, "axis", x, x, chart->height, chart->height + 4);
        print_text(canvas, "middle", x, 0, chart->height + 18,
                   chart->x.names ? chart->x.names[i] : fixed_text(chart->x.ticks[i], chart->x.decimals, number));
    }
    print_text(canvas, "unit", 0, -42, -13, chart->y.label);
    print_text(canvas, "unit middle", 50, 0, chart->height + 37, chart->x.label);
    html_raw(canvas->to, "\n");
}

static void print_points(const struct chart *chart, char action, const double *x, const double *y, size_t count, bool backwards) {
    const struct canvas *canvas = chart->canvas;
    const double scale = canvas->width > 0 ? canvas->plot / 100 : 10;
    for (size_t i = 0; i < count; i++) {
        const size_t at = backwards ? count - 1 - i : i;
        html_print(canvas->to, "%c%.*f %.*f", i ? 'L' : action, canvas->width > 0 ? 2 : 1, scale * across(chart, x[at]),
                   canvas->width > 0 ? 2 : 1, down(chart, y[at]));
    }
}

/* A path over the whole plot; on a page, in a drawing that is stretched. */
static void begin_path(const struct chart *chart) {
    if (!(chart->canvas->width > 0)) {
        html_print(chart->canvas->to, "<svg viewBox=\"0 0 1000 %.0f\" preserveAspectRatio=\"none\" overflow=\"visible\">",
                   chart->height);
    }
    html_raw(chart->canvas->to, "<path d=\"");
}

static void end_path(const struct chart *chart) {
    html_raw(chart->canvas->to, chart->canvas->width > 0 ? "\"/>\n" : "\"/></svg>\n");
}

void chart_band(const struct chart *chart, const double *x, const double *low, const double *high, size_t count, size_t series) {
    begin_path(chart);
    print_points(chart, 'M', x, high, count, false);
    print_points(chart, 'L', x, low, count, true);
    html_print(chart->canvas->to, "Z\" class=\"band s%zu l%zu", colour_of(series), series);
    end_path(chart);
}

void chart_line(const struct chart *chart, const double *x, const double *y, size_t count, size_t series, bool thick) {
    begin_path(chart);
    print_points(chart, 'M', x, y, count, false);
    html_print(chart->canvas->to, "\" class=\"line s%zu d%zu l%zu%s", colour_of(series), dashes_of(series), series,
               thick ? " thick" : "");
    end_path(chart);
}

void chart_mark(const struct chart *chart, double x, double y, size_t series, const char *format, ...) {
    struct canvas *canvas = chart->canvas;
    const double at = across(chart, x), top = down(chart, y);
    va_list arguments;
    if (canvas->width > 0) {
        html_print(canvas->to, "<path d=\"%s\" transform=\"translate(%.2f %.2f)\"", markers[marker_of(series)],
                   canvas->plot * at / 100, top);
    } else {
        html_print(canvas->to, "<use href=\"#m%zu\" x=\"%.2f%%\" y=\"%.1f\"", marker_of(series), at, top);
    }
    html_print(canvas->to, " class=\"mark%s s%zu", chart->hollow ? " hollow" : "", colour_of(series));
    if (!chart->unswitched) {
        html_print(canvas->to, " l%zu", series);
    }
    html_raw(canvas->to, "\"><title>");
    va_start(arguments, format);
    html_print_list(canvas->to, format, arguments);
    va_end(arguments);
    html_raw(canvas->to, canvas->width > 0 ? "</title></path>\n" : "</title></use>\n");
}

void chart_label(const struct chart *chart, double x, double y, int side, const char *text) {
    const double beside = down(chart, y) + 4, below = fmin(beside + 12, chart->height - 4);
    print_text(chart->canvas, side < 0 ? "end" : "start", across(chart, x), 9 * side, side < 0 ? below : beside, text);
    html_raw(chart->canvas->to, "\n");
}

void chart_end(const struct chart *chart) {
    close_drawing(chart->canvas);
}

/* ---- Legends ---- */

void legend_clear(struct canvas *canvas) {
    canvas->legend.length = 0;
    canvas->legend_across = canvas->legend_down = 0;
}

void legend_begin(struct canvas *canvas) {
    legend_clear(canvas);
    html_raw(canvas->to, canvas->width > 0 ? "" : "<ul class=\"legend\">");
}

/* Moves to the next row of a figure's legend if the item does not fit into this one, and opens the item. */
static void place_item(struct canvas *canvas, double wide) {
    const bool fits = canvas->legend_across + wide <= LEGEND_WIDTH;
    if (!fits || canvas->legend_down == 0) {
        canvas->legend_across = LEGEND_SIDE;
        canvas->legend_down += LEGEND_ROW;
    }
    html_print(&canvas->legend, "<g transform=\"translate(%.1f %.0f)\">", canvas->legend_across, canvas->legend_down - LEGEND_ROW);
    canvas->legend_across += wide;
}

void legend_item(struct canvas *canvas, size_t series, const char *label) {
    char clipped[CLIPPED];
    text_builder *to = canvas->width > 0 ? &canvas->legend : canvas->to;
    if (canvas->width > 0) {
        text_clip(label, LEGEND_WIDTH / 2, clipped);
        place_item(canvas, 40 + text_width(clipped) + 14);
    } else if (series >= canvas->switches) {
        html_print(to, "<li class=\"k%zu\"><label><input type=\"checkbox\" id=\"show%zu\" checked>", series, series);
        canvas->switches = series + 1;
    } else {
        html_print(to, "<li class=\"k%zu\"><label for=\"show%zu\">", series, series);
    }
    html_raw(to, canvas->width > 0 ? "" : "<svg width=\"34\" height=\"12\" aria-hidden=\"true\">");
    html_print(to, "<path d=\"M1 6H33\" class=\"line s%zu d%zu\"/>", colour_of(series), dashes_of(series));
    if (canvas->width > 0) {
        html_print(to, "<path d=\"%s\" transform=\"translate(17 6)\" class=\"mark s%zu\"/>", markers[marker_of(series)],
                   colour_of(series));
        html_print(to, "<text class=\"name\" x=\"40\" y=\"10\">%s</text></g>\n", clipped);
    } else {
        html_print(to, "<use href=\"#m%zu\" x=\"17\" y=\"6\" class=\"mark s%zu\"/></svg>%s</label></li>\n", marker_of(series),
                   colour_of(series), label);
    }
}

void legend_swatch(struct canvas *canvas, size_t series, const char *label) {
    if (canvas->width > 0) {
        place_item(canvas, 18 + text_width(label) + 14);
        html_print(&canvas->legend,
                   "<rect class=\"bar s%zu\" width=\"12\" height=\"12\" rx=\"2\"/><text class=\"name\" x=\"18\" "
                   "y=\"10\">%s</text></g>\n",
                   colour_of(series), label);
    } else {
        html_print(canvas->to, "<li><i class=\"swatch s%zu\"></i>%s</li>", colour_of(series), label);
    }
}

void legend_end(struct canvas *canvas) {
    html_raw(canvas->to, canvas->width > 0 ? "" : "</ul>\n");
}

void legend_scale(struct canvas *canvas, double limit, bool beyond) {
    if (!(canvas->width > 0)) {
        html_print(canvas->to, "<p class=\"scale\"><span>−%.0f points%s</span><i></i><span>+%.0f</span></p>\n", limit,
                   beyond ? " or more" : "", limit);
        return;
    }
    const double text = beyond ? 124 : 74;
    legend_begin(canvas);
    place_item(canvas, 0);
    html_raw(&canvas->legend, "<defs><linearGradient id=\"l3a-scale\"><stop offset=\"0\" class=\"loss\"/><stop offset=\".5\" "
                              "class=\"cell\"/><stop offset=\"1\" class=\"gain\"/></linearGradient></defs>");
    html_print(&canvas->legend,
               "<text class=\"name\" y=\"10\">−%.0f points%s</text><rect x=\"%.0f\" width=\"90\" height=\"12\" "
               "fill=\"url(#l3a-scale)\"/><text class=\"name\" x=\"%.0f\" y=\"10\">+%.0f</text></g>\n",
               limit, beyond ? " or more" : "", text, text + 96, limit);
}

void switch_style(text_builder *page, size_t count) {
    for (size_t i = 0; i < count; i++) {
        html_print(page, "main:has(#show%zu:not(:checked)) .l%zu{display:none}main:has(#show%zu:not(:checked)) .k%zu{--off:1}\n", i,
                   i, i, i);
        html_print(page, "@media print{main:has(#show%zu:not(:checked)) .k%zu{display:none}}\n", i, i);
        html_print(page,
                   "@media(hover:hover){main:has(.k%zu:hover):has(#show%zu:checked) :is(.line,.mark,.band)[class*=\" "
                   "l\"]:not(.l%zu){opacity:.15}}\n",
                   i, i, i);
    }
}

/* ---- Rows ---- */

/* The space for names of this width. */
static double name_room(double width) {
    return 12 + fmin(width, NAME_WIDTH);
}

static void print_name(struct canvas *canvas, const char *name, double y) {
    char clipped[CLIPPED];
    html_print(canvas->to, "<text class=\"name end\" x=\"-8\" y=\"%.1f\">%s<title>%s</title></text>", y,
               text_clip(name, NAME_WIDTH, clipped), name);
}

static void print_bar(struct canvas *canvas, const struct bar *row, double top, double full, int decimals, size_t series) {
    const double whole = full > 0 ? full : 1;
    char number[FIXED];
    double start = 0;
    print_name(canvas, row->name, top + 14);
    print_rectangle(canvas, "rail", 0, 100, top + 4, 12);
    for (size_t j = 0; j < row->part_count; j++) {
        begin_rectangle(canvas, 100 * start / whole, 100 * row->parts[j] / whole, top + 4, 12);
        html_print(canvas->to, " class=\"bar s%zu%s\"/>", colour_of(series + j), row->note ? " noted" : "");
        start += row->parts[j];
    }
    if (!isnan(row->mark)) {
        print_line(canvas, "second", 100 * row->mark / whole, 100 * row->mark / whole, top + 2, top + 18);
    }
    begin_text(canvas, "start", 100, 6, top + 14);
    html_print(canvas->to, "%s%s</text>\n", fixed_text(start, decimals, number), row->note ? row->note : "");
}

void bars(struct canvas *canvas, const char *title, const struct bar *rows, size_t count, double full, int decimals,
          size_t series) {
    double widest = 0;
    for (size_t i = 0; i < count; i++) {
        widest = fmax(widest, text_width(rows[i].name));
    }
    open_drawing(canvas, title, NULL, (double)(count * ROW), name_room(widest), 58, 2, 2);
    for (size_t i = 0; i < count; i++) {
        print_bar(canvas, &rows[i], (double)(i * ROW), full, decimals, series);
    }
    close_drawing(canvas);
}

static void print_cells(struct canvas *canvas, const struct heat_map *map, size_t row) {
    const double wide = 100 / (double)map->columns, top = (double)(row * CELL) + 1;
    const double *values = map->values + row * map->columns;
    for (size_t j = 0; j < map->columns; j++) {
        const double strength = fabs(values[j]) / map->limit, start = wide * (double)j;
        if (!isnan(values[j]) && (j == 0 || isnan(values[j - 1]))) {
            print_rectangle(canvas, "cell", start, 100 - start, top, CELL - 2);
        }
        if (strength > 0.005) {
            begin_rectangle(canvas, start, wide, top, CELL - 2);
            html_print(canvas->to, " class=\"%s\" fill-opacity=\"%.2f\"/>", values[j] < 0 ? "loss" : "gain",
                       strength < 1 ? strength : 1);
        }
    }
    html_raw(canvas->to, "\n");
}

void heat_map(struct canvas *canvas, const char *title, const struct heat_map *map) {
    const double wide = 100 / (double)map->columns, bottom = (double)(map->rows * CELL);
    char number[FIXED];
    double widest = 0;
    for (size_t i = 0; i < map->rows; i++) {
        widest = fmax(widest, text_width(map->names[i]));
    }
    open_drawing(canvas, title, NULL, bottom, name_room(widest), 6, 4, 40);
    for (size_t i = 0; i < map->rows; i++) {
        print_name(canvas, map->names[i], (double)(i * CELL) + 12);
        print_cells(canvas, map, i);
    }
    const size_t every = map->columns > 16 ? (map->columns + 9) / 10 : 1;
    for (size_t j = 0; j < map->columns; j += every) {
        print_text(canvas, "middle", wide * ((double)j + 0.5), 0, bottom + 16, fixed_text((double)(j + 1), 0, number));
    }
    print_text(canvas, "unit middle", 50, 0, bottom + 34, "phase");
    close_drawing(canvas);
}
