/* Which series are comparable, which is best, and one sentence about them. */
#include "common/rank.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

const double *summary_column(const l3a_summary *summary, size_t column) {
    const double *const columns[SUMMARY_COLUMNS] = {summary->average_map, summary->last_map, summary->last_class_f1,
                                                    summary->last_overall_f1, summary->forgetting};
    return columns[column];
}

bool competes(const struct series *series) {
    return series->rows > 1 && series->run->finished;
}

bool are_comparable(const struct report_run *left, const struct report_run *right) {
    static const char *const keys[] = {"run.protocol", "run.classes", "run.classes_by_order", "run.test.xxh3",
                                       "run.test.labels_xxh3"};
    bool same = true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        same = same && strcmp(run_record(left, keys[i]), run_record(right, keys[i])) == 0;
    }
    return same;
}

/* For forgetting, the lowest value is best. */
bool is_best(const struct report *report, const struct series *own, size_t column) {
    const double value = as_printed(summary_column(&own->summary, column)[0], 2);
    size_t rivals = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *other = &report->series[i];
        if (other != own && competes(other) && are_comparable(own->run, other->run)) {
            const double theirs = as_printed(summary_column(&other->summary, column)[0], 2);
            if (column == COLUMN_FORGETTING ? theirs < value : theirs > value) {
                return false;
            }
            rivals++;
        }
    }
    return competes(own) && rivals;
}

l3a_status report_verdict(const struct report *report, text_builder *text) {
    l3a_status status = L3A_OK;
    struct contender *contenders = NULL;
    size_t phases = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        if (!series->run->finished || !are_comparable(series->run, report->series[0].run)) {
            return L3A_OK;
        }
        phases = series->rows > phases ? series->rows : phases;
    }
    TRY(allocate(report->context, report->series_count + 1, sizeof *contenders, &contenders));
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        contenders[i] = (struct contender){series->label, series->method, series->run->results, &series->summary,
                                           series->rows > 1 || phases == 1};
    }
    verdict_print(contenders, report->series_count, text);
    status = text->status;
done:
    release(report->context, contenders);
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
