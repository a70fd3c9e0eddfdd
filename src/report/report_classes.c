/* The sections about classes: AP, forgetting, pseudo-labels and the truth, weights, precision-recall curves. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PHASES = 1024, HEAT_MAPS = 4, MANY_CLASSES = 30 };

struct classes {
    struct report *report;
    const struct series *focus;     /* the first series, which is shown in detail */
    const l3a_class_tally *tallies; /* of its last phase; NULL: not recorded */
    size_t count;                   /* classes that it has learned */
    double *precision;              /* their AP after its last phase */
    size_t *order;                  /* by falling AP */
    double rare;                    /* a class with fewer images is called rare */
    size_t *ends;
    double *x, *y; /* buffers for a curve */
};

static size_t last_class(const struct series *series) {
    return series->run->results->rows[series->last_row].last;
}

static const char *class_name(const struct series *series, size_t k) {
    return series->run->results->classes.items[k];
}

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
        if (series->run == c->focus->run && strcmp(series->method, "joint") == 0) {
            return series;
        }
    }
    return c->report->series_count > 1 ? &c->report->series[1] : NULL;
}

static void print_precision_table(const struct classes *c) {
    struct report *report = c->report;
    text_builder *page = &report->page;
    numbers_begin(report);
    html_raw(page, "<table><thead><tr><th>class</th>");
    html_raw(page, c->tallies ? "<th>training images</th>" : "");
    for (size_t i = 0; i < report->series_count; i++) {
        html_print(page, "<th>%s</th>", report->series[i].label);
    }
    html_raw(page, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < c->count; i++) {
        const size_t k = c->order[i];
        html_print(page, "<tr><th scope=\"row\">%s</th>", class_name(c->focus, k));
        if (c->tallies) {
            html_print(page, "<td>%zu%s</td>", (size_t)c->tallies[k].images, is_rare(c, k) ? " (rare)" : "");
        }
        for (size_t j = 0; j < report->series_count; j++) {
            const double value = last_precision(c, &report->series[j], k);
            if (isnan(value)) {
                html_raw(page, "<td>–</td>");
            } else {
                html_print(page, "<td>%.2f</td>", value);
            }
        }
        html_raw(page, "</tr>\n");
    }
    html_raw(page, "</tbody></table>");
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

/* ---- Forgetting ---- */

/* Chooses the first series, and of the others those that forget most. Returns how many. */
static size_t choose_heat_maps(const struct classes *c, const struct series *chosen[HEAT_MAPS]) {
    const struct report *report = c->report;
    size_t count = 0;
    while (count < HEAT_MAPS) {
        const struct series *best = NULL;
        for (size_t i = 0; i < report->series_count; i++) {
            const struct series *series = &report->series[i];
            bool taken = series->rows < 2;
            for (size_t j = 0; j < count; j++) {
                taken = taken || chosen[j] == series;
            }
            if (!taken && (!best || (count && series->summary.forgetting[0] > best->summary.forgetting[0]))) {
                best = series;
            }
        }
        if (!best) {
            break;
        }
        chosen[count++] = best;
    }
    return count;
}

/* The change of AP since the class was learned, [classes x phases]. */
static void fill_changes(const struct series *series, const size_t *ends, size_t phases, double *values) {
    for (size_t k = 0; k < last_class(series); k++) {
        double start = NAN;
        for (size_t t = 0; t < phases; t++) {
            const double now = class_precision(series, ends[t], k, FIRST_ORDER);
            start = isnan(start) ? now : start;
            values[k * phases + t] = now - start;
        }
    }
}

static void print_change_table(struct report *report, const struct series *series, const size_t *ends, size_t phases) {
    text_builder *page = &report->page;
    numbers_begin(report);
    html_raw(page, "<table><thead><tr><th>AP after phase</th>");
    for (size_t t = 0; t < phases; t++) {
        html_print(page, "<th>%zu</th>", t + 1);
    }
    html_raw(page, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < last_class(series); k++) {
        html_print(page, "<tr><th scope=\"row\">%s</th>", class_name(series, k));
        for (size_t t = 0; t < phases; t++) {
            const double value = class_precision(series, ends[t], k, FIRST_ORDER);
            html_raw(page, "<td>");
            if (!isnan(value)) {
                html_print(page, "%.2f", value);
            }
            html_raw(page, "</td>");
        }
        html_raw(page, "</tr>\n");
    }
    html_raw(page, "</tbody></table>");
    numbers_end(report);
}

struct changes {
    const struct series *series;
    size_t phases;
    double *values; /* [classes x phases] */
};

static void draw_changes(struct report *report, const struct changes *changes, const char *name, const struct heat_map *map) {
    const struct figure_plan plan = {.name = name,
                                     .of = changes->series->label,
                                     .title = "change of average precision since a class was learned, by class and phase",
                                     .heading = changes->series->label,
                                     .width = fmin(fmax(150 + 28 * (double)map->columns, 270), LEGEND_WIDTH),
                                     .with_legend = true};
    figure_begin(report, &plan);
    heat_map(&report->canvas, plan.title, map);
    figure_end(report, &plan);
}

/* The mean over the classes of each phase, with one row per phase. */
static l3a_status draw_short(struct report *report, const struct changes *changes, const size_t *ends, double limit) {
    const size_t phases = changes->phases;
    l3a_status status = L3A_OK;
    double *means = NULL;
    text_list names = {0};
    TRY(allocate(report->context, phases * phases, sizeof *means, &means));
    for (size_t row = 0; row < phases; row++) {
        const size_t first = row ? ends[row - 1] : 0, last = ends[row];
        char name[64];
        const int length = snprintf(name, sizeof name, "classes %zu–%zu", first + 1, last);
        TRY(text_list_add(report->context, &names, name, (size_t)length));
        for (size_t t = 0; t < phases; t++) {
            double sum = 0;
            for (size_t k = first; k < last; k++) {
                sum += changes->values[k * phases + t];
            }
            means[row * phases + t] = sum / (double)(last - first); /* NaN before the phase */
        }
    }
    draw_changes(
        report, changes, "forgetting-by-phase",
        &(struct heat_map){
            .names = (const char *const *)names.items, .values = means, .rows = phases, .columns = phases, .limit = limit});
done:
    text_list_clear(report->context, &names);
    release(report->context, means);
    return status;
}

/* A map of many classes is folded up behind one of phases. */
static l3a_status print_changes(const struct classes *c, const struct changes *changes, double limit) {
    struct report *report = c->report;
    text_builder *page = &report->page;
    const struct series *series = changes->series;
    l3a_status status = L3A_OK;
    const size_t phases = phase_ends(report, series, c->ends, PHASES), count = last_class(series);
    const struct heat_map map = {.names = (const char *const *)series->run->results->classes.items,
                                 .values = changes->values,
                                 .rows = count,
                                 .columns = phases,
                                 .limit = limit};
    html_print(page, "<figure><figcaption>%s <small>%.1f points forgotten on average</small></figcaption>\n", series->label,
               series->summary.forgetting[0]);
    if (count > MANY_CLASSES) {
        TRY(draw_short(report, changes, c->ends, limit));
        html_print(page, "<details><summary>All %zu classes</summary>", count);
    }
    draw_changes(report, changes, "forgetting", &map);
    html_raw(page, count > MANY_CLASSES ? "</details>\n" : "");
    print_change_table(report, series, c->ends, phases);
    html_raw(page, "</figure>\n");
done:
    return status;
}

static void print_forgetting_text(const struct classes *c, size_t shown) {
    static const char *const numbers[HEAT_MAPS] = {"", "one that forgets", "two that forget", "three that forget"};
    struct report *report = c->report;
    size_t candidates = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        candidates += report->series[i].rows > 1;
    }
    section_begin(report, "forgetting", "Forgetting",
                  "For each class and phase: how the average precision has changed since the phase that taught the class. The test "
                  "set grows as classes are added, so some loss is normal for every method, joint learning included.");
    if (shown < candidates) {
        html_print(&report->page, "<p>The charts show the first method and, of the others, the %s most.</p>", numbers[shown - 1]);
    }
    if (c->count > MANY_CLASSES) {
        html_raw(&report->page, "<p>A row is the mean over the classes that a phase taught. <span class=\"screen\">Unfold a chart "
                                "to see each class.</span></p>");
    }
}

static l3a_status print_forgetting(const struct classes *c) {
    struct report *report = c->report;
    l3a_status status = L3A_OK;
    const struct series *chosen[HEAT_MAPS];
    struct changes changes[HEAT_MAPS] = {0};
    double limit = 0;
    const size_t count = choose_heat_maps(c, chosen);
    if (!count) {
        return L3A_OK;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t phases = phase_ends(report, chosen[i], c->ends, PHASES), cells = last_class(chosen[i]) * phases;
        changes[i] = (struct changes){.series = chosen[i], .phases = phases};
        TRY(allocate(report->context, cells, sizeof *changes[i].values, &changes[i].values));
        fill_changes(chosen[i], c->ends, phases, changes[i].values);
        for (size_t j = 0; j < cells; j++) {
            limit = fmax(limit, fabs(changes[i].values[j])); /* fmax ignores NaN */
        }
    }
    const bool beyond = limit > 30;
    limit = fmin(fmax(5 * ceil(limit / 5), 5), 30);
    print_forgetting_text(c, count);
    if (has_orders(report)) {
        html_print(&report->page, "<p>In the first class order, %s.</p>\n", l3a_results_order(c->focus->run->results, 0));
    }
    legend_scale(&report->canvas, limit, beyond);
    html_raw(&report->page, "<div class=\"heat\">\n");
    for (size_t i = 0; i < count; i++) {
        TRY(print_changes(c, &changes[i], limit));
    }
    html_raw(&report->page, "</div>\n");
    section_end(report);
done:
    for (size_t i = 0; i < HEAT_MAPS; i++) {
        release(report->context, changes[i].values);
    }
    return status;
}

/* ---- Pseudo-labels ---- */

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
    html_raw(page, "<table><thead><tr><th>method</th><th>classes learned</th><th>pseudo-labels</th><th>of these "
                   "true</th><th>missing labels</th>"
                   "<th>precision</th><th>recall</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < report->series_count; i++) {
        for (size_t t = 0; t < count; t++) {
            const l3a_class_tally sum = sum_tallies(&report->series[i], ends[t]);
            if (sum.pseudo) {
                html_print(page,
                           "<tr><th "
                           "scope=\"row\">%s</th><td>%zu</td><td>%zu</td><td>%zu</td><td>%zu</td><td>%.2f</td><td>%.2f</td></tr>\n",
                           report->series[i].label, ends[t], (size_t)sum.pseudo, (size_t)sum.right, (size_t)sum.present,
                           percent_of(sum.right, sum.pseudo), percent_of(sum.right, sum.present));
            }
        }
    }
    html_raw(page, "</tbody></table>");
    numbers_end(report);
}

static void print_pseudo_labels(const struct classes *c) {
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
    numbers_begin(report);
    html_raw(&report->page, "<table><thead><tr><th>class</th><th>training images</th><th>weight</th></tr></thead><tbody>\n");
    for (size_t k = 0; k < last_class(series); k++) {
        html_print(&report->page, "<tr><th scope=\"row\">%s</th><td>%zu</td><td>%.4f</td></tr>\n", class_name(series, k),
                   (size_t)tallies[k].images, tallies[k].weight);
    }
    html_raw(&report->page, "</tbody></table>");
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
    html_raw(page, "<table><thead><tr><th>precision at recall</th><th></th>");
    for (size_t p = 0; p < CURVE_POINTS; p += 5) {
        html_print(page, "<th>%zu</th>", 2 * p);
    }
    html_raw(page, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < report->series_count; j++) {
            const float *curve = curve_of(c, &report->series[j], chosen[i]);
            if (!curve) {
                continue;
            }
            html_print(page, "<tr><th scope=\"row\">%s</th><td class=\"text\">%s</td>", class_name(c->focus, chosen[i]),
                       report->series[j].label);
            for (size_t p = 0; p < CURVE_POINTS; p += 5) {
                html_print(page, "<td>%.1f</td>", (double)curve[p]);
            }
            html_raw(page, "</tr>\n");
        }
    }
    html_raw(page, "</tbody></table>");
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
    TRY(print_forgetting(&c));
    print_pseudo_labels(&c);
    print_weights(&c);
    print_curves(&c);
done:
    release(context, c.precision);
    release(context, c.order);
    release(context, c.ends);
    release(context, c.x);
    return status;
}
