/* The table of results for programs: one row per method, or point of a sweep, and metric, with what report_significance.c shows. */
#include "common/number.h"
#include "format/csv.h"
#include "report/report.h"

#include <math.h>

static void print_text(text_builder *text, const char *value) {
    csv_print_field(text, value ? value : "");
    text_builder_print(text, ",");
}

/* Nothing if it is unknown. */
static void print_number(text_builder *text, double value) {
    char number[NUMBER_TEXT];
    text_builder_print(text, "%s,", isnan(value) ? "" : number_format(value, number));
}

static bool names_runs(const struct report *report) {
    return report->run_count > 1 && !report->sweep;
}

static void print_row(const struct report *report, const struct series *series, size_t column, text_builder *text) {
    static const char *const metrics[SUMMARY_COLUMNS] = {"avg_mAP", "last_mAP", "CF1", "OF1", "forgetting"};
    const l3a_difference *found = series_difference(report, series, column);
    const struct series *reference = found->reference ? &report->series[found->reference_index] : NULL;
    const double *value = summary_value(&series->summary, column);
    const bool known = series->rows > 1 || (column != AVERAGE_MAP && column != FORGETTING);
    if (names_runs(report)) {
        print_text(text, series->run->name);
    }
    for (size_t j = 0; report->sweep && j < report->sweep->axes.count; j++) {
        print_text(text, sweep_value(report, series->run, j));
    }
    print_text(text, series->method);
    print_text(text, metrics[column]);
    print_number(text, known ? value[0] : NAN);
    print_number(text, known && series->summary.seeds > 1 && !isnan(value[0]) ? value[1] : NAN);
    text_builder_print(text, "%zu,", series->summary.seeds);
    print_text(text, series->threshold);
    print_text(text, reference ? names_runs(report) || report->sweep ? reference->label : reference->method : "");
    text_builder_print(text, "%zu,", found->pairs);
    print_number(text, found->difference);
    print_number(text, found->low);
    print_number(text, found->high);
    print_number(text, found->p);
    print_number(text, found->adjusted_p);
    text_builder_print(text, "%s,", found->significant < 0 ? "" : found->significant ? "yes" : "no");
    csv_print_field(text, series->source);
    text_builder_print(text, "\n");
}

void print_csv_table(const struct report *report, text_builder *text) {
    if (names_runs(report)) {
        print_text(text, "run");
    }
    for (size_t j = 0; report->sweep && j < report->sweep->axes.count; j++) {
        print_text(text, report->sweep->axes.items[j]);
    }
    text_builder_print(
        text, "method,metric,mean,deviation,runs,threshold,reference,pairs,difference,low,high,p,adjusted_p,significant,source\n");
    for (size_t i = 0; i < report->series_count; i++) {
        for (size_t j = 0; j < SUMMARY_COLUMNS; j++) {
            print_row(report, &report->series[i], j, text);
        }
    }
}
