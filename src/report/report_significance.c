/* How far each method is from the best, with intervals and p values, and what is bold because of it. */
#include "report/report.h"
#include "report/html_table.h"

#include <math.h>

enum { COMPARED = LAST_OVERALL_F1 + 1 }; /* avg mAP, last mAP, CF1, OF1 */

static size_t rivals_of(const struct report *report, const struct series *own, size_t column) {
    size_t rivals = 0;
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *other = &report->series[i];
        rivals += other != own && series_difference(report, other, column)->reference_index == (size_t)(own - report->series);
    }
    return rivals;
}

static void print_p(text_builder *page, double p) {
    html_print(page, p < 0.001 ? "p < 0.001" : "p = %.3f", p);
}

static void print_difference(struct report *report, const struct series *series, size_t column) {
    text_builder *page = &report->page;
    const l3a_difference *found = series_difference(report, series, column);
    if (found->reference_index == (size_t)(series - report->series)) {
        table_cell(page, NULL, "%s", rivals_of(report, series, column) ? "best" : "–");
    } else if (!found->pairs) {
        table_cell(page, NULL, "%s", "–");
    } else {
        html_print(page, "<td>%.2f", found->difference);
        if (found->pairs > 1) {
            html_print(page, "<br><small>%.2f to %.2f<br>", found->low, found->high);
            print_p(page, found->adjusted_p);
            html_raw(page, "</small>");
        }
        html_raw(page, "</td>");
    }
}

void print_bold_rule(const struct report *report, text_builder *text) {
    bool bold = false, compared = false;
    for (size_t i = 0; i < SUMMARY_COLUMNS * report->series_count; i++) {
        bold = bold || report->differences[i].best;
        compared = compared || report->differences[i].pairs;
    }
    if (bold) {
        html_raw(text,
                 " Bold: the best of the methods that learn in phases, and those that may be as good: their difference from it "
                 "is not significant (p ≥ 0.05 after Holm’s correction).");
    } else if (compared && most_pairs(report, LAST_MAP) < PAIRS_TO_TELL) {
        html_print(text,
                   " Nothing is bold: it takes %d paired runs, with the same seed and class order, to tell whether a difference is "
                   "chance.",
                   PAIRS_TO_TELL);
    }
}

void print_differences(struct report *report) {
    text_builder *page = &report->page;
    const size_t pairs = most_pairs(report, LAST_MAP);
    if (pairs < 2) {
        return;
    }
    html_print(page, "<details%s><summary>Differences from the best</summary>\n<p>", pairs < PAIRS_TO_TELL ? "" : " open");
    html_print(
        page,
        "Each method minus the best that learns in phases, in points, over the seeds and class orders that both have; with the 95 "
        "%% %s interval of the mean, and p of %s, corrected for all methods of the column (Holm). CF1 and OF1 are compared only "
        "between methods with the same threshold. The best is chosen from these numbers, so it looks a little better than it "
        "is.</p>\n",
        pairs < 10 ? "t" : "bootstrap", pairs < 10 ? "a paired t test" : "a test that flips the signs of the differences");
    html_raw(page, "<div class=\"scroll\">");
    table_begin(page, "differences");
    table_columns(page,
                  (const char *const[]){report->sweep ? "point" : "method", "pairs", "avg mAP", "last mAP", "CF1", "OF1", NULL});
    table_body(page);
    for (size_t i = 0; i < report->series_count; i++) {
        const struct series *series = &report->series[i];
        table_row(page, NULL, "%s", series->label);
        const size_t own = series_difference(report, series, LAST_MAP)->pairs;
        table_number(page, own ? (double)own : NAN, 0);
        for (size_t j = 0; j < COMPARED; j++) {
            print_difference(report, series, j);
        }
        table_row_end(page);
    }
    table_end(page);
    html_raw(page, "</div></details>\n");
}
