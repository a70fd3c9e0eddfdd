/* A page about a sweep: its points, and how the results depend on the settings that vary. With one of them there is a chart, with
 * two a map, and always a table with the best point first. */
#include "common/number.h"
#include "common/rank.h"
#include "measure/folder.h"
#include "report/report.h"
#include "report/html_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The cells of a map are tinted by how good they are: --h is 0 for the worst and 1 for the best. */
const char report_sweep_style[] = ".verdict{color:var(--ink);font-size:17px}\n"
                                  ".map{border-spacing:2px;border-collapse:separate}\n"
                                  ".map td{padding:7px 10px;border:0;border-radius:4px;text-align:center;"
                                  "background:color-mix(in srgb,var(--gain) calc(var(--h)*55%),var(--rail))}\n"
                                  ".map th{border:0}.map thead th{text-align:center}.map .best{outline:2px solid var(--ink)}\n";

/* ---- Reading ---- */

static const char values_of[] = "run.values of ";

void sweep_free(struct report *report) {
    struct report_sweep *sweep = report->sweep;
    if (!sweep) {
        return;
    }
    for (size_t i = 0; sweep->values && i < sweep->axes.count; i++) {
        text_list_clear(report->context, &sweep->values[i]);
    }
    text_list_clear(report->context, &sweep->axes);
    text_list_clear(report->context, &sweep->methods);
    text_list_clear(report->context, &sweep->folders);
    release(report->context, sweep->name);
    release(report->context, sweep->values);
    release(report->context, sweep->chosen);
    release(report->context, sweep);
    report->sweep = NULL;
}

/* The settings that vary, and the methods, as sweep.json has them. */
static l3a_status read_axes(l3a_context *context, const struct report_run *record, struct report_sweep *sweep) {
    l3a_status status = L3A_OK;
    const size_t prefix = strlen(values_of);
    for (size_t i = 0; i < record->keys.count; i++) {
        const char *key = record->keys.items[i];
        if (strncmp(key, values_of, prefix) == 0) {
            TRY(text_list_add(context, &sweep->axes, key + prefix, strlen(key + prefix)));
        }
    }
    TRY(allocate_zeroed(context, sweep->axes.count, sizeof *sweep->values, &sweep->values));
    for (size_t i = 0, axis = 0; i < record->keys.count; i++) {
        if (strncmp(record->keys.items[i], values_of, prefix) == 0) {
            TRY(split_items(context, record->values.items[i], &sweep->values[axis++]));
        }
    }
    TRY(split_items(context, run_record(record, "run.methods"), &sweep->methods));
done:
    return status;
}

/* The folders of the points: those in points/ that hold a run. */
static l3a_status list_points(struct report *report, const char *folder) {
    l3a_context *context = report->context;
    l3a_status status = L3A_OK;
    text_list names = {0};
    char *points = NULL, *path = NULL, *record = NULL;
    TRY(join_path(context, folder, "points", &points));
    TRY(list_folder(context, points, &names));
    for (size_t i = 0; i < names.count; i++) {
        bool exists = false;
        TRY(join_path(context, points, names.items[i], &path));
        TRY(join_path(context, path, "run.json", &record));
        TRY(file_exists(context, record, &exists));
        if (exists) {
            TRY(text_list_add(context, &report->sweep->folders, path, strlen(path)));
        }
        release(context, path);
        release(context, record);
        path = record = NULL;
    }
    FAIL_IF(!report->sweep->folders.count, context, L3A_ERROR_NOT_FOUND, "resume the sweep, or copy its whole folder",
            "%s: there is no point in this folder", points);
done:
    text_list_clear(context, &names);
    release(context, points);
    release(context, path);
    release(context, record);
    return status;
}

l3a_status sweep_find(struct report *report, const char *folder, bool *found) {
    l3a_context *context = report->context;
    l3a_status status = L3A_OK;
    struct report_run record = {.folder = folder};
    size_t length;
    const char *name = short_name(folder, &length);
    char *path = NULL;
    bool run = false;
    TRY(join_path(context, folder, "run.json", &path));
    TRY(file_exists(context, path, &run));
    release(context, path);
    path = NULL;
    TRY(join_path(context, folder, "sweep.json", &path));
    TRY(file_exists(context, path, found));
    *found = *found && !run;
    if (!*found || report->sweep) {
        goto done;
    }
    TRY(allocate_zeroed(context, 1, sizeof *report->sweep, &report->sweep));
    TRY(copy_text(context, name, length, &report->sweep->name));
    TRY(load_record(context, path, &record));
    TRY(read_axes(context, &record, report->sweep));
    TRY(list_points(report, folder));
done:
    release(context, path);
    text_list_clear(context, &record.keys);
    text_list_clear(context, &record.values);
    return status;
}

/* ---- The order of the points ---- */

static bool same_value(const char *left, size_t length, const char *right) {
    double one, other;
    return (length == strlen(right) && strncmp(left, right, length) == 0) ||
           (number_parse(left, length, &one) && number_parse(right, strlen(right), &other) && one == other);
}

/* Which of an axis's values a point has, from the name of its folder: "l3a,gamma=10,eta=0.7". */
static size_t find_value(const struct report_sweep *sweep, const char *folder, size_t axis) {
    const char *slash = strrchr(folder, '/'), *at = slash ? slash + 1 : folder, *name = sweep->axes.items[axis];
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t length = strcspn(at, ","), prefix = strlen(name);
        for (size_t i = 0; strncmp(at, name, prefix) == 0 && at[prefix] == '=' && i < sweep->values[axis].count; i++) {
            if (same_value(at + prefix + 1, length - prefix - 1, sweep->values[axis].items[i])) {
                return i;
            }
        }
    }
    return SIZE_MAX;
}

struct place {
    struct report_run run;
    double last, average; /* as printed; those of points that cannot be best are lowered. By grid, they do not matter */
    double number;        /* in the grid */
};

static int compare_places(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    return a->last != b->last         ? (a->last < b->last ? 1 : -1)
           : a->average != b->average ? (a->average < b->average ? 1 : -1)
                                      : (a->number > b->number) - (a->number < b->number);
}

static l3a_status fill_place(const struct report *report, const struct report_run *run, struct place *place) {
    const struct report_sweep *sweep = report->sweep;
    l3a_status status = L3A_OK;
    l3a_summary summary = {.size = sizeof summary};
    size_t phases = 0;
    *place = (struct place){.run = *run, .last = -2000, .average = -2000};
    place->number = run->methods.count ? (double)text_list_find(&sweep->methods, run->methods.items[0]) : 0;
    for (size_t i = 0; i < sweep->axes.count; i++) {
        const size_t value = find_value(sweep, run->folder, i);
        place->number = place->number * (double)(sweep->values[i].count + 1) + (value == SIZE_MAX ? 0 : (double)value + 1);
    }
    for (size_t i = 0; i < run->results->count; i++) {
        phases = run->results->rows[i].phase > phases ? run->results->rows[i].phase : phases;
    }
    if (phases && !report->by_grid) {
        TRY(l3a_results_summary(report->context, run->results, run->results->rows[0].method, &summary));
        const double lowered = phases > 1 && run->finished ? 0 : 1000;
        place->last = as_printed(summary.last_map[0], 2) - lowered;
        place->average = as_printed(summary.average_map[0], 2) - lowered;
    }
done:
    return status;
}

l3a_status sweep_sort(struct report *report) {
    l3a_status status = L3A_OK;
    struct report_sweep *sweep = report->sweep;
    struct place *places = NULL;
    TRY(allocate(report->context, report->run_count, sizeof *places, &places));
    for (size_t i = 0; i < report->run_count; i++) {
        TRY(fill_place(report, &report->runs[i], &places[i]));
    }
    qsort(places, report->run_count, sizeof *places, compare_places);
    for (size_t i = 0; i < report->run_count; i++) {
        report->runs[i] = places[i].run;
    }
    TRY(allocate(report->context, report->run_count, (sweep->axes.count + 1) * sizeof *sweep->chosen, &sweep->chosen));
    for (size_t i = 0; i < report->run_count * sweep->axes.count; i++) {
        sweep->chosen[i] = find_value(sweep, report->runs[i / sweep->axes.count].folder, i % sweep->axes.count);
    }
done:
    release(report->context, places);
    return status;
}

/* ---- Numbers ---- */

const char *sweep_value(const struct report *report, const struct report_run *run, size_t axis) {
    const struct report_sweep *sweep = report->sweep;
    const size_t value = sweep->chosen[(size_t)(run - report->runs) * sweep->axes.count + axis];
    return value == SIZE_MAX ? NULL : sweep->values[axis].items[value];
}

/* The series of a point; NULL if it has no results yet. */
static const struct series *series_of(const struct report *report, size_t run) {
    return report->runs[run].series_count ? &report->series[report->runs[run].first_series] : NULL;
}

static void print_points(struct report *report) {
    const struct report_sweep *sweep = report->sweep;
    text_builder *page = &report->page;
    const bool methods = sweep->methods.count > 1 || !sweep->axes.count;
    const bool mixed = has_mixed_thresholds(report);
    table_begin(page, "points");
    table_columns(page, (const char *const[]){methods ? "method" : NULL, NULL});
    for (size_t j = 0; j < sweep->axes.count; j++) {
        table_column(page, "text", "%s", sweep->axes.items[j]);
    }
    table_columns(page, (const char *const[]){"avg mAP", "last mAP", "CF1", "OF1", NULL});
    if (mixed) {
        table_column(page, "text", "threshold");
    }
    table_body(page);
    for (size_t i = 0; i < report->run_count; i++) {
        const struct series *series = series_of(report, i);
        if (methods) {
            table_row(page, NULL, "%s", run_record(&report->runs[i], "run.methods"));
        } else {
            html_raw(page, "<tr>");
        }
        for (size_t j = 0; j < sweep->axes.count; j++) {
            const char *value = sweep_value(report, &report->runs[i], j);
            table_cell(page, "text", "%s", value ? value : "–");
        }
        for (size_t j = 0; j < FORGETTING; j++) {
            if (series) {
                table_spread(page, summary_value(&series->summary, j), series->summary.seeds, is_best(report, series, j));
            } else {
                table_number(page, NAN, 2);
            }
        }
        if (mixed) {
            table_cell(page, "text", "%s", series ? series->threshold : "");
        }
        table_row_end(page);
    }
    table_end(page);
}

/* ---- One setting: a chart ---- */

struct curve {
    struct chart chart;
    const struct report *report;
    size_t column;              /* of the summary */
    double *at;                 /* of each value, on the axis */
    double *x, *y, *low, *high; /* buffers for a method */
    const char **names;         /* of the values */
};

/* The gaps between values, sorted as they are: the largest divided by the smallest. */
static double unevenness(const double *at, size_t count, bool logarithmic) {
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < count; i++) {
        double gap = INFINITY; /* to the next larger value */
        for (size_t j = 0; j < count; j++) {
            if (at[j] > at[i]) {
                gap = fmin(gap, logarithmic ? log(at[j] / at[i]) : at[j] - at[i]);
            }
        }
        if (isfinite(gap)) {
            least = fmin(least, gap);
            most = fmax(most, gap);
        }
    }
    return most / least;
}

/* Puts the values on the axis: on a logarithmic one if they are geometric rather than evenly spaced; and if one is not a number,
 * side by side. */
static void fit_settings(struct curve *curve) {
    const struct report_sweep *sweep = curve->report->sweep;
    const text_list *values = &sweep->values[0];
    struct axis *axis = &curve->chart.x;
    double low = INFINITY, high = -INFINITY;
    bool numbers = true;
    for (size_t i = 0; i < values->count; i++) {
        numbers = numbers && number_parse(values->items[i], strlen(values->items[i]), &curve->at[i]);
    }
    for (size_t i = 0; i < values->count; i++) {
        curve->at[i] = numbers ? curve->at[i] : (double)i;
        low = fmin(low, curve->at[i]);
        high = fmax(high, curve->at[i]);
    }
    axis->label = sweep->axes.items[0];
    if (numbers && low > 0 && high / low >= 4 &&
        unevenness(curve->at, values->count, true) < unevenness(curve->at, values->count, false)) {
        axis_fit_logarithmic(axis, low, high);
    } else {
        axis_fit(axis, low, high);
        axis->low = high > low ? low : low - 1;
        axis->high = high > low ? high : high + 1;
    }
    axis->tick_count = 0;
    const size_t every = 1 + (values->count - 1) / TICKS;
    for (size_t i = 0; i < values->count; i += every) {
        curve->names[axis->tick_count] = values->items[i];
        axis->ticks[axis->tick_count++] = curve->at[i];
    }
    axis->names = curve->names;
}

/* The points of a method, by rising value. Returns how many there are. */
static size_t collect(const struct curve *curve, const char *method) {
    const struct report *report = curve->report;
    size_t count = 0;
    for (size_t i = 0; i < report->run_count; i++) {
        const struct series *series = series_of(report, i);
        const size_t value = report->sweep->chosen[i];
        if (!series || value == SIZE_MAX || strcmp(series->method, method) != 0) {
            continue;
        }
        const double *number = summary_value(&series->summary, curve->column), x = curve->at[value];
        size_t at = count++;
        for (; at && curve->x[at - 1] > x; at--) {
            curve->x[at] = curve->x[at - 1];
            curve->y[at] = curve->y[at - 1];
            curve->low[at] = curve->low[at - 1];
            curve->high[at] = curve->high[at - 1];
        }
        curve->x[at] = x;
        curve->y[at] = number[0];
        curve->low[at] = number[0] - number[1];
        curve->high[at] = number[0] + number[1];
    }
    return count;
}

static void fit_numbers(struct curve *curve) {
    const text_list *methods = &curve->report->sweep->methods;
    double low = INFINITY, high = -INFINITY;
    for (size_t m = 0; m < methods->count; m++) {
        const size_t count = collect(curve, methods->items[m]);
        for (size_t i = 0; i < count; i++) {
            low = fmin(low, curve->low[i]);
            high = fmax(high, curve->high[i]);
        }
    }
    axis_fit(&curve->chart.y, isfinite(low) ? fmax(low, 0) : 0, isfinite(high) ? fmin(high, 100) : 100);
}

static const char *name_of(const struct curve *curve, double x) {
    const text_list *values = &curve->report->sweep->values[0];
    size_t i = 0;
    while (i + 1 < values->count && curve->at[i] != x) {
        i++;
    }
    return values->items[i];
}

static void draw_method(const struct curve *curve, size_t index) {
    const struct chart *chart = &curve->chart;
    const char *method = curve->report->sweep->methods.items[index];
    const size_t count = collect(curve, method);
    bool spread = false;
    for (size_t i = 0; i < count; i++) {
        spread = spread || curve->high[i] > curve->low[i];
        curve->low[i] = fmax(curve->low[i], chart->y.low);
        curve->high[i] = fmin(curve->high[i], chart->y.high);
    }
    if (spread && count > 1) {
        chart_band(chart, curve->x, curve->low, curve->high, count, index);
    }
    if (count > 1) {
        chart_line(chart, curve->x, curve->y, count, index, index == 0);
    }
    for (size_t i = 0; i < count; i++) {
        chart_mark(chart, curve->x[i], curve->y[i], index, "%s, %s %s: %.2f", method, chart->x.label, name_of(curve, curve->x[i]),
                   curve->y[i]);
    }
}

static const struct {
    size_t column;
    const char *name, *unit, *title;
} measures[] = {{1, "last-map-by-setting", "last mAP, percent", "Last mAP: after the last phase"},
                {0, "average-map-by-setting", "average mAP, percent", "Average mAP: over all phases"}};

enum { MEASURES = sizeof measures / sizeof measures[0] };

static void print_curve(struct report *report, struct curve *curve, size_t measure) {
    const struct figure_plan plan = {
        .name = measures[measure].name, .title = measures[measure].title, .with_legend = report->sweep->methods.count > 1};
    curve->column = measures[measure].column;
    curve->chart.y.label = measures[measure].unit;
    fit_numbers(curve);
    html_print(&report->page, "<figure><figcaption>%s</figcaption>\n", measures[measure].title);
    figure_begin(report, &plan);
    chart_begin(&curve->chart, measures[measure].title, NULL);
    for (size_t i = report->sweep->methods.count; i-- > 0;) {
        draw_method(curve, i);
    }
    chart_end(&curve->chart);
    figure_end(report, &plan);
    html_raw(&report->page, "</figure>\n");
}

static l3a_status print_curves(struct report *report) {
    l3a_status status = L3A_OK;
    const struct report_sweep *sweep = report->sweep;
    struct curve curve = {.report = report, .chart = {.canvas = &report->canvas, .height = 220, .unswitched = true}};
    double *room = NULL;
    const size_t points = report->run_count, values = sweep->values[0].count;
    TRY(allocate(report->context, 4 * points + values, sizeof *room, &room));
    TRY(allocate(report->context, TICKS + 1, sizeof *curve.names, &curve.names));
    curve.at = room + 4 * points;
    curve.x = room;
    curve.y = room + points;
    curve.low = room + 2 * points;
    curve.high = room + 3 * points;
    fit_settings(&curve);
    legend_clear(&report->canvas);
    if (sweep->methods.count > 1) {
        legend_begin(&report->canvas);
        for (size_t i = 0; i < sweep->methods.count; i++) {
            legend_swatch(&report->canvas, i, sweep->methods.items[i]);
        }
        legend_end(&report->canvas);
    }
    html_raw(&report->page, "<div class=\"two\">\n");
    for (size_t i = 0; i < MEASURES; i++) {
        print_curve(report, &curve, i);
    }
    html_raw(&report->page, "</div>\n");
done:
    release(report->context, room);
    release(report->context, curve.names);
    return status;
}

/* ---- Two settings: a map ---- */

static const struct series *find_point(const struct report *report, const char *method, size_t row, size_t column) {
    for (size_t i = 0; i < report->run_count; i++) {
        const struct series *series = series_of(report, i);
        const size_t *chosen = report->sweep->chosen + 2 * i;
        if (series && chosen[0] == row && chosen[1] == column && strcmp(series->method, method) == 0) {
            return series;
        }
    }
    return NULL;
}

/* The lowest and highest value of a column of the summary. */
static void find_range(const struct report *report, size_t column, double range[2]) {
    range[0] = INFINITY;
    range[1] = -INFINITY;
    for (size_t i = 0; i < report->series_count; i++) {
        const double value = summary_value(&report->series[i].summary, column)[0];
        range[0] = fmin(range[0], value);
        range[1] = fmax(range[1], value);
    }
}

static void print_map(struct report *report, const char *method, size_t measure) {
    const struct report_sweep *sweep = report->sweep;
    text_builder *page = &report->page;
    double range[2];
    find_range(report, measures[measure].column, range);
    html_print(page, "<figure><figcaption>%s", measures[measure].title);
    if (sweep->methods.count > 1) {
        html_print(page, " <small>%s</small>", method);
    }
    html_raw(page, "</figcaption>\n<div class=\"scroll\">");
    table_begin(page, "map");
    table_column(page, NULL, "%s \\ %s", sweep->axes.items[0], sweep->axes.items[1]);
    for (size_t j = 0; j < sweep->values[1].count; j++) {
        table_column(page, NULL, "%s", sweep->values[1].items[j]);
    }
    table_body(page);
    for (size_t i = 0; i < sweep->values[0].count; i++) {
        table_row(page, NULL, "%s", sweep->values[0].items[i]);
        for (size_t j = 0; j < sweep->values[1].count; j++) {
            const struct series *series = find_point(report, method, i, j);
            if (!series) {
                html_raw(page, "<td style=\"--h:0\">–</td>");
                continue;
            }
            const double value = summary_value(&series->summary, measures[measure].column)[0];
            html_print(page, "<td style=\"--h:%.2f\"", range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 1);
            html_print(page, is_best(report, series, measures[measure].column) ? " class=\"best\">%.2f" : ">%.2f", value);
            html_raw(page, "</td>");
        }
        table_row_end(page);
    }
    table_end(page);
    html_raw(page, "</div></figure>\n");
}

static void print_maps(struct report *report) {
    html_raw(&report->page, "<div class=\"two\">\n");
    for (size_t m = 0; m < report->sweep->methods.count; m++) {
        for (size_t i = 0; i < MEASURES; i++) {
            print_map(report, report->sweep->methods.items[m], i);
        }
    }
    html_raw(&report->page, "</div>\n");
}

/* ---- The section ---- */

static void print_best(struct report *report, size_t axes) {
    const struct series *best = series_of(report, 0);
    text_builder *page = &report->page;
    html_print(page, "<p>%zu %s.", report->run_count, report->run_count == 1 ? "point" : "points");
    const bool told = best && is_best(report, best, LAST_MAP);
    if (best) {
        html_print(page, told ? " Best: <strong>%s</strong>" : " Highest last mAP: %s", best->label);
        html_print(page, ", with %.2f last mAP and %.2f average mAP.", best->summary.last_map[0], best->summary.average_map[0]);
    }
    if (best && best->summary.seeds > 1) {
        html_print(page, " Bands and ± are the standard deviation over %s.",
                   spread_source(best->summary.orders, best->summary.seeds));
    }
    if (axes == 2) {
        html_raw(page, " The stronger the colour of a cell, the better.");
        html_raw(page, told ? " The best has a frame, and so have those that may be as good." : "");
    }
    html_raw(page, "</p>\n");
}

/* How many settings a drawing can show: 1 or 2, or 0 if there are others, or more points than a sweep can have. */
static size_t drawn_axes(const struct report_sweep *sweep) {
    enum { POINTS = 10000 };
    size_t points = 1;
    for (size_t i = 0; i < sweep->axes.count && points <= POINTS; i++) {
        points *= sweep->values[i].count;
    }
    return sweep->axes.count <= 2 && points && points <= POINTS ? sweep->axes.count : 0;
}

l3a_status report_settings(struct report *report) {
    l3a_status status = L3A_OK;
    const struct report_sweep *sweep = report->sweep;
    if (!sweep || !report->series_count) {
        return L3A_OK;
    }
    const size_t axes = drawn_axes(sweep);
    section_begin(report, "settings", sweep->axes.count ? "Results against settings" : "Results of the methods", NULL);
    TRY(print_verdict(report));
    print_best(report, axes);
    if (axes == 1) {
        TRY(print_curves(report));
    } else if (axes == 2) {
        print_maps(report);
    }
    if (axes) {
        numbers_begin(report);
    } else {
        html_raw(&report->page, "<div class=\"scroll\">");
    }
    print_points(report);
    if (axes) {
        numbers_end(report);
    } else {
        html_raw(&report->page, "</div>\n");
    }
    section_end(report);
done:
    return status;
}
