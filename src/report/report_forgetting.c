/* How the AP of each class has changed since the phase that taught it: heat maps of classes and phases. */
#include "report/report_classes.h"
#include "report/html_table.h"

#include <math.h>
#include <stdio.h>

enum { HEAT_MAPS = 4, MANY_CLASSES = 30 };

/* Whether the AP of its classes is known for several phases. */
static bool has_classes(const struct series *series) {
    return series->rows > 1 && !isnan(series->summary.forgetting[0]);
}

/* Chooses the first series, and of the others those that forget most. Returns how many. */
static size_t choose_heat_maps(const struct classes *c, const struct series *chosen[HEAT_MAPS]) {
    const struct report *report = c->report;
    size_t count = 0;
    while (count < HEAT_MAPS) {
        const struct series *best = NULL;
        for (size_t i = 0; i < report->series_count; i++) {
            const struct series *series = &report->series[i];
            bool taken = !has_classes(series);
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
    table_begin(page, NULL);
    table_column(page, NULL, "AP after phase");
    for (size_t t = 0; t < phases; t++) {
        table_column(page, NULL, "%zu", t + 1);
    }
    table_body(page);
    for (size_t k = 0; k < last_class(series); k++) {
        table_row(page, NULL, "%s", class_name(series, k));
        for (size_t t = 0; t < phases; t++) {
            const double value = class_precision(series, ends[t], k, FIRST_ORDER);
            if (isnan(value)) {
                table_empty(page);
            } else {
                table_number(page, value, 2);
            }
        }
        table_row_end(page);
    }
    table_end(page);
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
        candidates += has_classes(&report->series[i]);
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

l3a_status report_forgetting(const struct classes *c) {
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
