/* Which series are comparable, how they differ, and one sentence about them. */
#include "report/report.h"

#include <math.h>
#include <string.h>

bool are_comparable(const struct report_run *left, const struct report_run *right) {
    static const char *const keys[] = {"run.protocol", "run.classes", "run.classes_by_order", "run.test.xxh3",
                                       "run.test.labels_xxh3"};
    bool same = true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        same = same && strcmp(run_record(left, keys[i]), run_record(right, keys[i])) == 0;
    }
    return same;
}

/* ---- Significance ---- */

/* The series as contenders: those that are comparable with a series, if its run is finished, or all. Returns how many; numbers[i]
 * is the series of contender i. */
static size_t list_contenders_like(const struct report *report, const struct series *like, struct contender *contenders,
                                   size_t *numbers) {
    size_t count = 0, phases = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        if (series->run->finished && are_comparable(like->run, series->run)) {
            contenders[count] =
                (struct contender){series->label, series->method, series->run->results, &series->summary, series->rows > 1};
            numbers[count++] = i;
            phases = series->rows > phases ? series->rows : phases;
        }
    }
    for (size_t i = 0; i < count && phases == 1; i++) {
        contenders[i].phased = true;
    }
    return count;
}

/* Fills in the differences of all series that are comparable with one. */
static l3a_status compare_with(struct report *report, const struct series *like, struct contender *contenders, size_t *numbers,
                               l3a_difference *differences) {
    l3a_status status = L3A_OK;
    const size_t count = list_contenders_like(report, like, contenders, numbers);
    for (size_t column = 0; column < SUMMARY_COLUMNS; column++) {
        TRY(compare_all(report->context, contenders, count, (enum trial_value)column, NULL, differences));
        for (size_t i = 0; i < count; i++) {
            l3a_difference *kept = &report->differences[column * report->series_count + numbers[i]];
            *kept = differences[i];
            kept->reference_index = kept->reference ? numbers[differences[i].reference_index] : SIZE_MAX;
        }
    }
done:
    return status;
}

l3a_status compare_series(struct report *report) {
    const size_t all = report->series_count;
    l3a_status status = L3A_OK;
    struct contender *contenders = NULL;
    size_t *numbers = NULL;
    l3a_difference *differences = NULL;
    TRY(allocate_zeroed(report->context, SUMMARY_COLUMNS * all + 1, sizeof *report->differences, &report->differences));
    TRY(allocate(report->context, all + 1, sizeof *contenders, &contenders));
    TRY(allocate(report->context, all + 1, sizeof *numbers, &numbers));
    TRY(allocate(report->context, all + 1, sizeof *differences, &differences));
    for (size_t i = 0; i < SUMMARY_COLUMNS * all; i++) {
        report->differences[i] = (l3a_difference){.difference = NAN, .significant = -1};
    }
    for (size_t i = 0; i < all; i++) {
        if (report->series[i].run->finished && !series_difference(report, &report->series[i], 0)->method) {
            TRY(compare_with(report, &report->series[i], contenders, numbers, differences));
        }
    }
done:
    release(report->context, contenders);
    release(report->context, numbers);
    release(report->context, differences);
    return status;
}

const l3a_difference *series_difference(const struct report *report, const struct series *series, size_t column) {
    return &report->differences[column * report->series_count + (size_t)(series - report->series)];
}

bool is_best(const struct report *report, const struct series *series, size_t column) {
    return series_difference(report, series, column)->best;
}

size_t most_pairs(const struct report *report, size_t column) {
    size_t most = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        const size_t pairs = series_difference(report, &report->series[i], column)->pairs;
        most = pairs > most ? pairs : most;
    }
    return most;
}

/* ---- The verdict ---- */

l3a_status report_verdict(const struct report *report, text_builder *text) {
    l3a_status status = L3A_OK;
    struct contender *contenders = NULL;
    size_t *numbers = NULL;
    TRY(allocate(report->context, report->series_count + 1, sizeof *contenders, &contenders));
    TRY(allocate(report->context, report->series_count + 1, sizeof *numbers, &numbers));
    const size_t count = report->series_count ? list_contenders_like(report, &report->series[0], contenders, numbers) : 0;
    if (count == report->series_count) { /* all are finished, and have one task */
        TRY(verdict_print(report->context, contenders, count, text));
    }
done:
    release(report->context, contenders);
    release(report->context, numbers);
    return status;
}

l3a_status print_verdict(struct report *report) {
    text_builder verdict = {.context = report->context};
    const l3a_status status = report_verdict(report, &verdict);
    if (verdict.length) {
        html_print(&report->page, "<p class=\"verdict\">%s</p>\n", verdict.text);
    }
    text_builder_free(&verdict);
    return status;
}

bool has_orders(const struct report *report) {
    for (size_t i = 0; i < report->run_count; i++) {
        if (l3a_results_order_count(report->runs[i].results) > 1) {
            return true;
        }
    }
    return false;
}

/* ---- Thresholds ---- */

bool has_mixed_thresholds(const struct report *report) {
    for (size_t i = 1; i < report->series_count; i++) {
        if (strcmp(report->series[i].threshold, report->series[0].threshold) != 0) {
            return true;
        }
    }
    return false;
}

/* Whether an earlier series has the same method and threshold, or only the same threshold. */
static bool was_named(const struct report *report, size_t index, bool method) {
    for (size_t i = 0; i < index; i++) {
        if (strcmp(report->series[i].threshold, report->series[index].threshold) == 0 &&
            (!method || strcmp(report->series[i].method, report->series[index].method) == 0)) {
            return true;
        }
    }
    return false;
}

void print_thresholds(const struct report *report, text_builder *text) {
    const bool mixed = has_mixed_thresholds(report);
    html_raw(text, " CF1 and OF1 depend on the threshold above which a class is predicted");
    for (size_t i = 0; i < report->series_count; i++) {
        const char *threshold = report->series[i].threshold;
        if (was_named(report, i, false)) {
            continue;
        }
        html_print(text, i ? "; <span class=\"whole\">%s</span>" : ": <span class=\"whole\">%s</span>", threshold);
        for (size_t j = i, named = 0; mixed && j < report->series_count; j++) {
            if (strcmp(report->series[j].threshold, threshold) == 0 && !was_named(report, j, true)) {
                html_print(text, named++ ? ", %s" : " (%s", report->series[j].method);
            }
        }
        html_raw(text, mixed ? ")" : "");
    }
    html_raw(text, ". σ is the logistic function of the score.");
    html_raw(text, mixed ? " Compare them only between methods with the same kind of threshold." : "");
}
