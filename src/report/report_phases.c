/* The headline, and the results after each phase. */
#include "report/report.h"
#include "report/html_table.h"

#include <math.h>
#include <string.h>

/* ---- The headline ---- */

static void print_tile(text_builder *page, const char *name, const char *meaning, const double value[2], size_t seeds, bool main) {
    html_print(page, "<div class=\"tile%s\"><dt title=\"%s\">%s</dt><dd>%.2f", main ? " main" : "", meaning, name, value[0]);
    if (seeds > 1) {
        html_print(page, "<small> ± %.2f</small>", value[1]);
    }
    html_raw(page, "</dd></div>\n");
}

static void print_tiles(struct report *report, const struct series *series) {
    const l3a_summary *s = &series->summary;
    html_raw(&report->page, "<dl class=\"tiles\">\n");
    print_tile(&report->page, "Average mAP", "mAP in percent, averaged over phases", s->average_map, s->seeds, true);
    print_tile(&report->page, "Last mAP", "mAP in percent after the last phase, over all classes", s->last_map, s->seeds, true);
    print_tile(&report->page, "CF1", "F1 in percent after the last phase, averaged over classes", s->last_class_f1, s->seeds,
               false);
    print_tile(&report->page, "OF1", "F1 in percent after the last phase, over all image-class pairs", s->last_overall_f1, s->seeds,
               false);
    if (series->rows > 1) {
        print_tile(&report->page, "Forgetting", "best earlier AP minus the last AP, averaged over classes, in points",
                   s->forgetting, s->seeds, false);
    }
    if (!isnan(series->gap)) {
        const double gap[2] = {series->gap, 0};
        print_tile(&report->page, strcmp(series->bound, "joint+") == 0 ? "Gap to joint+" : "Gap to joint",
                   "last mAP of learning all classes at once, minus last mAP of this method, in points", gap, 1, false);
    }
    html_raw(&report->page, "</dl>\n");
}

/* The heading of the gaps; NULL if there are none. */
static const char *gap_heading(const struct report *report) {
    bool bounds[2] = {false, false}; /* joint, joint+ */
    for (size_t i = 0; i < report->series_count; i++) {
        const char *bound = report->series[i].bound;
        bounds[bound && strcmp(bound, "joint+") == 0] |= bound != NULL;
    }
    return bounds[0] && bounds[1] ? "gap to joint or joint+" : bounds[1] ? "gap to joint+" : bounds[0] ? "gap to joint" : NULL;
}

static void print_summary_table(struct report *report) {
    text_builder *page = &report->page;
    const bool mixed = has_mixed_thresholds(report);
    const char *gaps = gap_heading(report);
    html_raw(page, "<div class=\"scroll\">");
    table_begin(page, "summary");
    table_column(page, NULL, "%s", report->sweep ? "point" : "method");
    table_column(page, "seeds", "%s", has_orders(report) ? "runs" : "seeds");
    table_columns(page, (const char *const[]){"avg mAP", "last mAP", "CF1", "OF1", NULL});
    if (mixed) {
        table_column(page, "text", "threshold");
    }
    table_columns(page, (const char *const[]){"forget", gaps, NULL});
    table_body(page);
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        table_row(page, NULL, "%s<small class=\"help\">%s</small>", series->label, series->help);
        table_cell(page, "seeds", "%zu", series->summary.seeds);
        for (size_t j = 0; j < SUMMARY_COLUMNS; j++) {
            const double *value = summary_value(&series->summary, j);
            if (j == FORGETTING && mixed) {
                table_cell(page, "text", "%s", series->threshold);
            }
            if (j == FORGETTING && series->rows < 2) {
                table_number(page, NAN, 2);
            } else {
                table_spread(page, value, series->summary.seeds, is_best(report, series, j));
            }
        }
        if (gaps) {
            table_number(page, series->gap, 2);
        }
        table_row_end(page);
    }
    table_end(page);
    html_raw(page, "</div>\n");
}

static void print_about(struct report *report, const struct report_run *run) {
    text_builder *page = &report->page;
    const char *backbone = run_record(run, "run.train.backbone");
    html_print(page, "<p class=\"about\">%zu classes, protocol %s; %s training images and %s test images",
               run->results->classes.count, run_record(run, "run.protocol"), run_record(run, "run.train.rows"),
               run_record(run, "run.test.rows"));
    if (backbone[0]) {
        const char *trained = run_record(run, "run.trained");
        html_print(page, trained[0] ? "; %s" : "; frozen features from %s", backbone);
        html_print(page, "%s%s", trained[0] ? ", trained in every phase by " : "", trained);
    }
    if (run_record(run, "run.adapted")[0]) {
        html_print(page, ", adapted to the first phase (%s)", run_record(run, "run.adapted"));
    }
    if (run_record(run, "run.test.difficult")[0]) {
        html_raw(page, "; difficult objects left out of the metrics, as in the VOC devkit");
    }
    const size_t orders = l3a_results_order_count(run->results);
    if (orders > 1) {
        html_print(page, "; %zu class orders (%s) and %zu %s, ± is the standard deviation over all %zu runs of a method", orders,
                   run_record(run, "run.class_orders"), run->seeds.count, run->seeds.count > 1 ? "seeds" : "seed",
                   orders * run->seeds.count);
    } else if (run->seeds.count > 1) {
        html_print(page, "; %zu seeds, ± is their standard deviation", run->seeds.count);
    }
    html_raw(page, ".</p>\n");
}

l3a_status report_headline(struct report *report) {
    text_builder *page = &report->page;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        if (!run->finished) {
            html_print(page,
                       "<p class=\"warning\"><strong>%s is not finished.</strong> The numbers below cover the phases learned so "
                       "far. To resume, run the command at the end of this page with <code>--resume</code>.</p>\n",
                       report->run_count > 1 ? run->name : "This run");
        }
    }
    html_raw(page, "<section id=\"headline\" class=\"card\">\n");
    if (!report->sweep) { /* otherwise it is at the top already */
        status = print_verdict(report);
    }
    if (!report->series_count) {
        html_raw(page, "<p>No phase has results yet.</p></section>\n");
        return status;
    }
    if (report->run_count == 1) {
        html_print(page, "<h2>%s<small> %s</small></h2>\n", report->series[0].label, report->series[0].help);
        print_about(report, &report->runs[0]);
        print_tiles(report, &report->series[0]);
    } else {
        html_print(page, report->sweep ? "<h2>All %zu points, best first</h2>\n" : "<h2>Comparison of %zu runs</h2>\n",
                   report->run_count);
        for (size_t i = 0; i < (report->sweep ? 1 : report->run_count); i++) {
            html_print(page, report->sweep ? "%s" : "<h3>%s</h3>", report->sweep ? "" : report->runs[i].name);
            print_about(report, &report->runs[i]);
        }
    }
    html_raw(page, "<p>All numbers are in percent. “Forget” is the best earlier AP minus the last AP, averaged over classes.");
    print_thresholds(report, page);
    print_bold_rule(report, page);
    for (size_t i = 0; i < report->series_count; i++) {
        if (begins_source(report, i)) {
            html_print(page, " † from %s: computed elsewhere, not by this run.", report->series[i].source);
        }
    }
    html_raw(page, "</p>\n");
    print_summary_table(report);
    print_differences(report);
    html_raw(page, "</section>\n");
    return status;
}

/* ---- Phase by phase ---- */

struct phase_chart {
    struct chart chart;
    const char *name; /* of its figure */
    const char *title;
    enum measure measure;
    const size_t *ends;
    size_t end_count;
    double *x, *y, *low, *high; /* buffers for a series */
};

static void fit_values(const struct report *report, struct phase_chart *phases) {
    double low = 100, high = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        for (size_t t = 0; t < phases->end_count; t++) {
            double value[2];
            if (phase_value(&report->series[i], phases->ends[t], phases->measure, value)) {
                low = fmin(low, value[0] - value[1]);
                high = fmax(high, value[0] + value[1]);
            }
        }
    }
    axis_fit(&phases->chart.y, fmax(low, 0), fmin(high, 100));
}

static void draw_series(const struct report *report, const struct phase_chart *phases, size_t index) {
    const struct series *series = &report->series[index];
    const struct chart *chart = &phases->chart;
    size_t count = 0;
    bool spread = false;
    for (size_t t = 0; t < phases->end_count; t++) {
        double value[2];
        if (phase_value(series, phases->ends[t], phases->measure, value)) {
            phases->x[count] = (double)phases->ends[t];
            phases->y[count] = value[0];
            phases->low[count] = fmax(value[0] - value[1], chart->y.low);
            phases->high[count++] = fmin(value[0] + value[1], chart->y.high);
            spread = spread || value[1] > 0;
        }
    }
    if (spread && count > 1) {
        chart_band(chart, phases->x, phases->low, phases->high, count, index);
    }
    if (count > 1) {
        chart_line(chart, phases->x, phases->y, count, index, index == 0);
    }
    for (size_t i = 0; i < count && count <= 40; i++) {
        chart_mark(chart, phases->x[i], phases->y[i], index, "%s, %zu classes: %.2f", series->label, (size_t)phases->x[i],
                   phases->y[i]);
    }
}

static void print_phase_table(struct report *report, const struct phase_chart *phases) {
    text_builder *page = &report->page;
    numbers_begin(report);
    table_begin(page, NULL);
    table_column(page, NULL, "classes learned");
    for (size_t t = 0; t < phases->end_count; t++) {
        table_column(page, NULL, "%zu", phases->ends[t]);
    }
    table_body(page);
    for (size_t i = 0; i < report->series_count; i++) {
        table_row(page, NULL, "%s", report->series[i].label);
        for (size_t t = 0; t < phases->end_count; t++) {
            double value[2];
            const size_t seeds = phase_value(&report->series[i], phases->ends[t], phases->measure, value);
            if (seeds) {
                table_spread(page, value, seeds, false);
            } else {
                table_empty(page);
            }
        }
        table_row_end(page);
    }
    table_end(page);
    numbers_end(report);
}

static void print_phase_chart(struct report *report, struct phase_chart *phases, double height) {
    const struct figure_plan plan = {.name = phases->name, .title = phases->title, .with_legend = true};
    phases->chart.canvas = &report->canvas;
    phases->chart.height = report->canvas.width > 0 ? 220 : height; /* figures of one size can stand side by side */
    phases->chart.x.label = "classes learned so far";
    axis_fit_counts(&phases->chart.x, phases->ends, phases->end_count);
    fit_values(report, phases);
    html_print(&report->page, "<figure><figcaption>%s</figcaption>\n", phases->title);
    figure_begin(report, &plan);
    chart_begin(&phases->chart, phases->title, NULL);
    for (size_t i = report->series_count; i-- > 0;) {
        if (report->series[i].rows > 1) {
            draw_series(report, phases, i);
        }
    }
    phases->chart.hollow = true; /* a single point would hide below a line, and hide it above */
    for (size_t i = report->series_count; i-- > 0;) {
        if (report->series[i].rows <= 1) {
            draw_series(report, phases, i);
        }
    }
    phases->chart.hollow = false;
    chart_end(&phases->chart);
    figure_end(report, &plan);
    print_phase_table(report, phases);
    html_raw(&report->page, "</figure>\n");
}

void report_legend(struct report *report) {
    legend_clear(&report->canvas);
    if (report->series_count < 2) {
        return;
    }
    legend_begin(&report->canvas);
    for (size_t i = 0; i < report->series_count; i++) {
        legend_item(&report->canvas, i, report->series[i].label);
    }
    legend_end(&report->canvas);
}

static bool has_bands(const struct report *report) {
    for (size_t i = 0; i < report->series_count; i++) {
        if (report->series[i].summary.seeds > 1 && report->series[i].rows > 1) {
            return true;
        }
    }
    return false;
}

/* Whether base and new mAP were recorded and can differ from mAP, because there is more than one phase. */
static bool has_base_and_new(const struct report *report) {
    for (size_t i = 0; i < report->series_count; i++) {
        if (report->series[i].rows > 1 && !isnan(report->series[i].summary.base_map[0])) {
            return true;
        }
    }
    return false;
}

static const struct {
    enum measure measure;
    const char *name, *unit, *title;
} measures[] = {
    {MEAN_AP, "map-by-phase", "mAP, percent", "mAP: average precision, averaged over classes"},
    {CLASS_F1, "cf1-by-phase", "CF1, percent", "CF1: F1, averaged over classes"},
    {OVERALL_F1, "of1-by-phase", "OF1, percent", "OF1: F1 over all image-class pairs"},
    {BASE_AP, "base-map-by-phase", "base mAP, percent", "Base mAP: classes of the first phase, on images that show one"},
    {NEW_AP, "new-map-by-phase", "new mAP, percent", "New mAP: classes of the phase just learned, on images that show one"},
};

l3a_status report_phases(struct report *report) {
    enum { PHASES = 1024 };
    l3a_status status = L3A_OK;
    size_t *ends = NULL;
    double *room = NULL;
    if (!report->series_count) {
        return L3A_OK;
    }
    TRY(allocate(report->context, PHASES, sizeof *ends, &ends));
    const size_t count = phase_ends(report, NULL, ends, PHASES);
    TRY(allocate(report->context, 4 * count, sizeof *room, &room));
    struct phase_chart phases = {
        .ends = ends, .end_count = count, .x = room, .y = room + count, .low = room + 2 * count, .high = room + 3 * count};
    section_begin(
        report, "phases", "Phase by phase",
        has_bands(report)
            ? "Measured after each phase on the test images that show a class learned so far. Lines are "
              "means over seeds, and over class orders if there are several; bands are one standard deviation to each side."
            : "Measured after each phase on the test images that show a class learned so far.");
    report_legend(report);
    html_raw(&report->page, report->series_count > 1
                                ? "<p class=\"switches\">Untick a method to hide its lines in all charts. Point "
                                  "at one to find its lines.</p>\n"
                                : "");
    for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
        const bool part = measures[i].measure == BASE_AP || measures[i].measure == NEW_AP;
        phases.name = measures[i].name;
        phases.title = measures[i].title;
        phases.chart.y.label = measures[i].unit;
        phases.measure = measures[i].measure;
        html_raw(&report->page, i == 1 ? "<div class=\"two\">\n" : "");
        if (!part || has_base_and_new(report)) {
            print_phase_chart(report, &phases, i ? 210 : 300);
        }
    }
    html_raw(&report->page, "</div>\n");
    section_end(report);
done:
    release(report->context, ends);
    release(report->context, room);
    return status;
}
