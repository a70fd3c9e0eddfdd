/* The sections about classes: AP, weights, and precision-recall curves; forgetting and pseudo-labels have files of their own. */
#include "report/report_classes.h"
#include "report/html_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The index in another series of a class of the focus; SIZE_MAX if that series has not learned it. */
static size_t same_class(const struct classes *c, const struct series *other, size_t k) {
    const size_t index = other->run == c->focus->run ? k : text_list_find(&other->run->results->classes, class_name(c->focus, k));
    return index < last_class(other) ? index : SIZE_MAX;
}

static double last_precision(const struct classes *c, const struct series *other, size_t k) {
    const size_t index = same_class(c, other, k);
    return index == SIZE_MAX ? NAN : class_precision(other, last_class(other), index, ALL_ORDERS);
}

static bool is_rare(const struct classes *c, size_t k) {
    return c->tallies && (double)c->tallies[k].images < c->rare;
}

/* ---- AP of each class ---- */

/* The series that the bars are compared with: joint learning if it was run, else the next series. */
static const struct series *second_series(const struct classes *c) {
    for (size_t i = 1; i < c->report->series_count; i++) {
        const struct series *series = &c->report->series[i];
        if (series->run == c->focus->run && c->focus->bound && strcmp(series->method, c->focus->bound) == 0) {
            return series;
        }
    }
    const struct series *next = c->report->series_count > 1 ? &c->report->series[1] : NULL;
    return next && !next->source[0] ? next : NULL; /* results from elsewhere come last, and have no classes */
}

static void print_precision_table(const struct classes *c) {
    struct report *report = c->report;
    text_builder *page = &report->page;
    numbers_begin(report);
    table_begin(page, NULL);
    table_columns(page, (const char *const[]){"class", c->tallies ? "training images" : NULL, NULL});
    for (size_t i = 0; i < report->series_count; i++) {
        table_column(page, NULL, "%s", report->series[i].label);
    }
    table_body(page);
    for (size_t i = 0; i < c->count; i++) {
        const size_t k = c->order[i];
        table_row(page, NULL, "%s", class_name(c->focus, k));
        if (c->tallies) {
            table_cell(page, NULL, "%zu%s", (size_t)c->tallies[k].images, is_rare(c, k) ? " (rare)" : "");
        }
        for (size_t j = 0; j < report->series_count; j++) {
            table_number(page, last_precision(c, &report->series[j], k), 2);
        }
        table_row_end(page);
    }
    table_end(page);
    numbers_end(report);
}

static void print_precision_text(const struct classes *c, const struct series *second, bool any_rare) {
    text_builder *page = &c->report->page;
    html_print(page, "<p>Average precision after the last phase, best first. Bars: %s", c->focus->label);
    if (second) {
        html_print(page, "; lines across: %s", second->label);
    }
    if (any_rare) {
        html_print(
            page,
            ". Light bars with ◇ mark rare classes, which have fewer than %.0f training images, half as many as the median class",
            c->rare);
    }
    html_raw(page, ".</p>\n");
}

/* In columns of about the same length. */
static l3a_status draw_precisions(const struct classes *c, const struct series *second, const struct bar *rows) {
    struct report *report = c->report;
    l3a_status status = L3A_OK;
    text_builder heading = {.context = report->context};
    struct figure_plan plan = {.name = "ap-by-class", .title = "average precision of classes, in percent", .width = 240};
    const size_t chunks = c->count <= 12 ? 1 : c->count <= 36 ? 2 : c->count <= 54 ? 3 : 4, each = (c->count + chunks - 1) / chunks;
    text_builder_print(&heading, second ? "AP, percent: %s, and %s (lines)" : "AP, percent: %s", c->focus->label,
                       second ? second->label : "");
    TRY(heading.status);
    plan.heading = heading.text;
    plan.width = chunks > 1 ? plan.width : LEGEND_WIDTH;
    html_raw(&report->page, "<div class=\"many\">\n");
    figure_begin(report, &plan);
    for (size_t first = 0; first < c->count; first += each) {
        bars(&report->canvas, plan.title, rows + first, c->count - first < each ? c->count - first : each, 100, 1, 0);
    }
    figure_end(report, &plan);
    html_raw(&report->page, "</div>\n");
done:
    text_builder_free(&heading);
    return status;
}

static l3a_status print_precisions(const struct classes *c) {
    struct report *report = c->report;
    const struct series *second = second_series(c);
    l3a_status status = L3A_OK;
    struct bar *rows = NULL;
    bool any_rare = false;
    TRY(allocate_zeroed(report->context, c->count, sizeof *rows, &rows));
    for (size_t i = 0; i < c->count; i++) {
        const size_t k = c->order[i];
        rows[i] = (struct bar){.name = class_name(c->focus, k),
                               .note = is_rare(c, k) ? " ◇" : NULL,
                               .parts = &c->precision[k],
                               .part_count = 1,
                               .mark = second ? last_precision(c, second, k) : NAN};
        any_rare = any_rare || rows[i].note;
    }
    section_begin(report, "classes", "Class by class", NULL);
    print_precision_text(c, second, any_rare);
    html_raw(&report->page, "<figure>");
    TRY(draw_precisions(c, second, rows));
    print_precision_table(c);
    html_raw(&report->page, "</figure>\n");
    section_end(report);
done:
    release(report->context, rows);
    return status;
}

/* ---- Counts and weights ---- */

/* The first series whose classes do not all have the same weight. */
static const struct series *weighted_series(const struct report *report) {
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        const l3a_class_tally *tallies = series->run->results->details[series->last_row].tallies;
        for (size_t k = 1; tallies && k < last_class(series); k++) {
            if (tallies[k].weight != tallies[0].weight) {
                return series;
            }
        }
    }
    return NULL;
}

static void print_weight_table(struct report *report, const struct series *series, const l3a_class_tally *tallies) {
    text_builder *page = &report->page;
    numbers_begin(report);
    table_begin(page, NULL);
    table_columns(page, (const char *const[]){"class", "training images", "weight", NULL});
    table_body(page);
    for (size_t k = 0; k < last_class(series); k++) {
        table_row(page, NULL, "%s", class_name(series, k));
        table_count(page, tallies[k].images);
        table_number(page, tallies[k].weight, 4);
        table_row_end(page);
    }
    table_end(page);
    numbers_end(report);
}

static void print_weights(const struct classes *c) {
    struct report *report = c->report;
    const struct series *series = weighted_series(report);
    const struct figure_plan plan = {.name = "weight-by-count", .title = "class weights against the number of training images"};
    struct chart chart = {.canvas = &report->canvas,
                          .height = 230,
                          .x.label = "training images of the class",
                          .y.label = "weight",
                          .unswitched = true};
    size_t rarest = 0, commonest = 0;
    double most = 0;
    char clipped[CLIPPED];
    if (!series) {
        return;
    }
    const l3a_class_tally *tallies = series->run->results->details[series->last_row].tallies;
    for (size_t k = 0; k < last_class(series); k++) {
        rarest = tallies[k].images && (!tallies[rarest].images || tallies[k].images < tallies[rarest].images) ? k : rarest;
        commonest = tallies[k].images > tallies[commonest].images ? k : commonest;
        most = fmax(most, tallies[k].weight);
    }
    if (!tallies[rarest].images) {
        return;
    }
    axis_fit(&chart.y, 0, most);
    axis_fit_logarithmic(&chart.x, (double)tallies[rarest].images, (double)tallies[commonest].images);
    section_begin(report, "weights", "Counts and weights", NULL);
    html_print(&report->page,
               "<p>How many training images each class has, and how much they weigh in learning: %s, after its last phase. "
               "Rarer classes weigh more.</p>\n<figure>\n",
               series->label);
    figure_begin(report, &plan);
    chart_begin(&chart, plan.title, NULL);
    for (size_t k = 0; k < last_class(series); k++) {
        if (tallies[k].images) {
            chart_mark(&chart, (double)tallies[k].images, tallies[k].weight, 0, "%s: %zu images, weight %.3f",
                       class_name(series, k), (size_t)tallies[k].images, tallies[k].weight);
        }
    }
    chart_label(&chart, (double)tallies[rarest].images, tallies[rarest].weight, 1,
                text_clip(class_name(series, rarest), 110, clipped));
    if (commonest != rarest) {
        chart_label(&chart, (double)tallies[commonest].images, tallies[commonest].weight, -1,
                    text_clip(class_name(series, commonest), 110, clipped));
    }
    chart_end(&chart);
    figure_end(report, &plan);
    print_weight_table(report, series, tallies);
    html_raw(&report->page, "</figure>\n");
    section_end(report);
}

/* ---- Precision and recall ---- */

static const float *curve_of(const struct classes *c, const struct series *series, size_t k) {
    const size_t index = same_class(c, series, k);
    const float *curves = series->run->results->details[series->last_row].curves;
    return curves && index != SIZE_MAX ? curves + index * CURVE_POINTS : NULL;
}

static void draw_curves(const struct classes *c, size_t k, const char *what) {
    struct report *report = c->report;
    const struct figure_plan plan = {.name = "precision-recall",
                                     .of = what,
                                     .title = "precision against recall",
                                     .heading = class_name(c->focus, k),
                                     .with_legend = true};
    struct chart chart = {.canvas = &report->canvas, .height = 190, .x.label = "recall, percent", .y.label = "precision, percent"};
    axis_fit(&chart.x, 0, 100);
    axis_fit(&chart.y, 0, 100);
    html_print(&report->page, "<figure><figcaption>%s <small>%s, AP %.1f</small></figcaption>\n", class_name(c->focus, k), what,
               c->precision[k]);
    figure_begin(report, &plan);
    chart_begin(&chart, class_name(c->focus, k), "precision against recall");
    for (size_t i = report->series_count; i-- > 0;) {
        const float *curve = curve_of(c, &report->series[i], k);
        for (size_t p = 0; curve && p < CURVE_POINTS; p++) {
            c->x[p] = 100 * (double)p / (CURVE_POINTS - 1);
            c->y[p] = (double)curve[p];
        }
        if (curve) {
            chart_line(&chart, c->x, c->y, CURVE_POINTS, i, i == 0);
        }
    }
    chart_end(&chart);
    figure_end(report, &plan);
    html_raw(&report->page, "</figure>\n");
}

static void print_curve_table(const struct classes *c, const size_t *chosen, size_t count) {
    struct report *report = c->report;
    text_builder *page = &report->page;
    numbers_begin(report);
    table_begin(page, NULL);
    table_columns(page, (const char *const[]){"precision at recall", "", NULL});
    for (size_t p = 0; p < CURVE_POINTS; p += 5) {
        table_column(page, NULL, "%zu", 2 * p);
    }
    table_body(page);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < report->series_count; j++) {
            const float *curve = curve_of(c, &report->series[j], chosen[i]);
            if (!curve) {
                continue;
            }
            table_row(page, NULL, "%s", class_name(c->focus, chosen[i]));
            table_cell(page, "text", "%s", report->series[j].label);
            for (size_t p = 0; p < CURVE_POINTS; p += 5) {
                table_number(page, (double)curve[p], 1);
            }
            table_row_end(page);
        }
    }
    table_end(page);
    numbers_end(report);
}

static void print_curves(const struct classes *c) {
    enum { CHOSEN = 4 };
    static const char *const reasons[CHOSEN] = {"best class", "median class", "worst class", "rarest class"};
    struct report *report = c->report;
    size_t chosen[CHOSEN], count = 0, rarest = 0;
    if (!curve_of(c, c->focus, 0)) {
        return;
    }
    for (size_t k = 1; c->tallies && k < c->count; k++) {
        rarest = c->tallies[k].images < c->tallies[rarest].images ? k : rarest;
    }
    const size_t wanted[CHOSEN] = {c->order[0], c->order[c->count / 2], c->order[c->count - 1], rarest};
    section_begin(
        report, "curves", "Precision and recall",
        "Some classes in detail: the best, median and worst by average precision, and the rarest. First seed, after the last "
        "phase.");
    report_legend(report);
    html_raw(&report->page, "<div class=\"many\">\n");
    for (size_t i = 0; i < (c->tallies ? CHOSEN : CHOSEN - 1); i++) {
        bool again = false;
        for (size_t j = 0; j < count; j++) {
            again = again || chosen[j] == wanted[i];
        }
        if (!again) {
            draw_curves(c, wanted[i], reasons[i]);
            chosen[count++] = wanted[i];
        }
    }
    html_raw(&report->page, "</div>\n");
    print_curve_table(c, chosen, count);
    section_end(report);
}

/* ---- All of them ---- */

struct ranked {
    double value;
    size_t index;
};

static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    return a->value != b->value ? (a->value < b->value ? 1 : -1) : a->index < b->index ? -1 : 1;
}

/* Sorts the classes by falling AP, and sets `rare` to half their median number of images. */
static l3a_status rank_classes(struct classes *c) {
    l3a_context *context = c->report->context;
    struct ranked *ranked = NULL;
    const l3a_status status = allocate(context, c->count, sizeof *ranked, &ranked);
    if (status != L3A_OK) {
        return status;
    }
    for (size_t k = 0; c->tallies && k < c->count; k++) {
        ranked[k] = (struct ranked){(double)c->tallies[k].images, k};
    }
    if (c->tallies) {
        qsort(ranked, c->count, sizeof *ranked, compare_ranked);
        c->rare = ranked[c->count / 2].value / 2;
    }
    for (size_t k = 0; k < c->count; k++) {
        ranked[k] = (struct ranked){c->precision[k], k};
    }
    qsort(ranked, c->count, sizeof *ranked, compare_ranked);
    for (size_t k = 0; k < c->count; k++) {
        c->order[k] = ranked[k].index;
    }
    release(context, ranked);
    return status;
}

l3a_status report_classes(struct report *report) {
    l3a_context *context = report->context;
    l3a_status status = L3A_OK;
    struct classes c = {.report = report, .focus = report->series};
    if (!report->series_count) {
        return L3A_OK;
    }
    c.count = last_class(c.focus);
    c.tallies = c.focus->run->results->details[c.focus->last_row].tallies;
    TRY(allocate(context, c.count, sizeof *c.precision, &c.precision));
    TRY(allocate(context, c.count, sizeof *c.order, &c.order));
    TRY(allocate(context, PHASES, sizeof *c.ends, &c.ends));
    TRY(allocate(context, 2 * PHASES, sizeof *c.x, &c.x));
    c.y = c.x + PHASES;
    for (size_t k = 0; k < c.count; k++) {
        c.precision[k] = class_precision(c.focus, c.count, k, ALL_ORDERS);
    }
    TRY(rank_classes(&c));
    TRY(print_precisions(&c));
    TRY(report_forgetting(&c));
    report_pseudo_labels(&c);
    print_weights(&c);
    print_curves(&c);
done:
    release(context, c.precision);
    release(context, c.order);
    release(context, c.ends);
    release(context, c.x);
    return status;
}
