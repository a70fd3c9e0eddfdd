/* Pseudo-labels compared with the truth: their precision and recall after each phase. */
#include "report/report_classes.h"
#include "report/html_table.h"

#include <math.h>
#include <string.h>

/* The sums over seeds and classes for the phase that ends with class `last`. */
static l3a_class_tally sum_tallies(const struct series *series, size_t last) {
    const l3a_results *results = series->run->results;
    l3a_class_tally sum = {0};
    for (size_t i = 0; i < results->count; i++) {
        const l3a_class_tally *own = results->details[i].tallies;
        for (size_t k = 0; own && results->rows[i].method == series->method && results->rows[i].last == last && k < last; k++) {
            sum.pseudo += own[k].pseudo;
            sum.right += own[k].right;
            sum.present += own[k].present;
        }
    }
    return sum;
}

static double percent_of(uint64_t part, uint64_t whole) {
    return whole ? 100 * (double)part / (double)whole : NAN;
}

static void draw_pseudo_chart(const struct classes *c, const size_t *ends, size_t count, bool precision) {
    struct report *report = c->report;
    const char *title =
        precision ? "Precision: share of the pseudo-labels that are true" : "Recall: share of the missing labels that were given";
    const struct figure_plan plan = {
        .name = precision ? "pseudo-label-precision" : "pseudo-label-recall", .title = title, .with_legend = true};
    struct chart chart = {.canvas = &report->canvas,
                          .height = 210,
                          .y.label = precision ? "precision, percent" : "recall, percent",
                          .x.label = "classes learned so far"};
    axis_fit(&chart.y, 0, 100);
    axis_fit(&chart.x, (double)ends[0], (double)ends[count - 1]);
    chart.x.low = (double)ends[0] - (count == 1);
    chart.x.high = (double)ends[count - 1] + (count == 1);
    chart.x.tick_count = 0;
    for (size_t t = 0; t < count; t += 1 + count / TICKS) {
        chart.x.ticks[chart.x.tick_count++] = (double)ends[t];
    }
    html_print(&report->page, "<figure><figcaption>%s</figcaption>\n", title);
    figure_begin(report, &plan);
    chart_begin(&chart, title, NULL);
    for (size_t i = report->series_count; i-- > 0;) {
        size_t points = 0, given = 0;
        for (size_t t = 0; t < count; t++) {
            const l3a_class_tally sum = sum_tallies(&report->series[i], ends[t]);
            const double value = precision ? percent_of(sum.right, sum.pseudo) : percent_of(sum.right, sum.present);
            given += sum.pseudo;
            if (!isnan(value)) {
                c->x[points] = (double)ends[t];
                c->y[points++] = value;
            }
        }
        if (points > 1 && given) {
            chart_line(&chart, c->x, c->y, points, i, i == 0);
        }
        for (size_t p = 0; p < points && given; p++) {
            chart_mark(&chart, c->x[p], c->y[p], i, "%s, %zu classes: %.1f", report->series[i].label, (size_t)c->x[p], c->y[p]);
        }
    }
    chart_end(&chart);
    figure_end(report, &plan);
    html_raw(&report->page, "</figure>\n");
}

static void print_pseudo_legend(const struct classes *c, size_t count) {
    struct report *report = c->report;
    legend_begin(&report->canvas);
    for (size_t i = 0; i < report->series_count; i++) {
        uint64_t given = 0;
        for (size_t t = 0; t < count; t++) {
            given += sum_tallies(&report->series[i], c->ends[t]).pseudo;
        }
        if (given) {
            legend_item(&report->canvas, i, report->series[i].label);
        }
    }
    legend_end(&report->canvas);
}

static void print_pseudo_table(const struct classes *c, const size_t *ends, size_t count) {
    struct report *report = c->report;
    text_builder *page = &report->page;
    numbers_begin(report);
    table_begin(page, NULL);
    table_columns(page, (const char *const[]){"method", "classes learned", "pseudo-labels", "of these true", "missing labels",
                                              "precision", "recall", NULL});
    table_body(page);
    for (size_t i = 0; i < report->series_count; i++) {
        for (size_t t = 0; t < count; t++) {
            const l3a_class_tally sum = sum_tallies(&report->series[i], ends[t]);
            if (sum.pseudo) {
                table_row(page, NULL, "%s", report->series[i].label);
                table_count(page, ends[t]);
                table_count(page, sum.pseudo);
                table_count(page, sum.right);
                table_count(page, sum.present);
                table_number(page, percent_of(sum.right, sum.pseudo), 2);
                table_number(page, percent_of(sum.right, sum.present), 2);
                table_row_end(page);
            }
        }
    }
    table_end(page);
    numbers_end(report);
}

void report_pseudo_labels(const struct classes *c) {
    struct report *report = c->report;
    const size_t all = phase_ends(report, NULL, c->ends, PHASES);
    size_t count = 0;
    uint64_t given = 0, present = 0;
    for (size_t t = 0; t < all; t++) {
        uint64_t here = 0;
        for (size_t i = 0; i < report->series_count; i++) {
            const l3a_class_tally sum = sum_tallies(&report->series[i], c->ends[t]);
            given += sum.pseudo;
            here += sum.present;
        }
        present += here;
        if (here) {
            c->ends[count++] = c->ends[t];
        }
    }
    if (!present) {
        return;
    }
    section_begin(
        report, "pseudo-labels", "Pseudo-labels and the truth",
        "The images of a phase may show classes learned before, but have no labels for them, so the method labels them itself. "
        "The training features contain the true labels. Learning never uses them; here they are compared with the "
        "pseudo-labels, over all old classes and seeds.");
    if (given) {
        print_pseudo_legend(c, count);
        html_raw(&report->page, "<div class=\"two\">\n");
        draw_pseudo_chart(c, c->ends, count, true);
        draw_pseudo_chart(c, c->ends, count, false);
        html_raw(&report->page, "</div>\n");
        print_pseudo_table(c, c->ends, count);
    } else {
        html_print(&report->page, "<p>No method of this run gave any pseudo-labels%s.</p>\n",
                   strcmp(run_record(c->focus->run, "run.pseudo"), "fixed") == 0 ? ": no old class reached the threshold eta" : "");
    }
    section_end(report);
}
