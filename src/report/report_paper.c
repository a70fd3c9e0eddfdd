/* The paper's numbers for a run's data set and protocol, kept apart from the run's own. */
#include "report/report.h"
#include "report/html_table.h"

#include <math.h>
#include <string.h>

static void print_values(text_builder *page, const double values[PAPER_COLUMNS], int decimals) {
    for (size_t j = 0; j < PAPER_COLUMNS; j++) {
        table_number(page, values[j], decimals);
    }
    table_row_end(page);
}

static void begin_group(text_builder *page, const char *what, const char *of) {
    html_print(page, "<tbody><tr><th colspan=\"6\" scope=\"rowgroup\" class=\"group\">%s%s</th></tr>\n", what, of);
}

static void print_own(struct report *report, const struct report_run *run) {
    text_builder *page = &report->page;
    const char *backbone = run_record(run, "run.train.backbone");
    const bool adapted = run_record(run, "run.adapted")[0];
    for (size_t i = run->first_series; i < run->first_series + run->series_count; i++) {
        const struct series *series = &report->series[i];
        const l3a_summary *s = &series->summary;
        const double values[PAPER_COLUMNS] = {series->rows > 1 ? s->average_map[0] : NAN, s->last_map[0], s->last_class_f1[0],
                                              s->last_overall_f1[0]};
        table_row(page, NULL, "%s<small class=\"help\">%s%s</small>", series->label,
                  series->source[0] ? series->help
                  : backbone[0]     ? backbone
                                    : "backbone not recorded",
                  adapted && !series->source[0] ? ", adapted to the first phase" : "");
        table_empty(page);
        print_values(page, values, 2);
    }
}

const l3a_published *published_at(const struct report_run *run, size_t index) {
    const text_list *classes = &run->results->classes;
    return l3a_published_at(run_record(run, "run.protocol"), (const char *const *)classes->items, classes->count, index);
}

const char *published_data(const struct report_run *run) {
    const l3a_published *row = published_at(run, 0);
    return !row ? NULL : strcmp(row->data, "COCO") == 0 ? "MS-COCO 2014" : "PASCAL VOC 2007";
}

void published_values(const l3a_published *row, double values[PAPER_COLUMNS]) {
    values[0] = row->average_map;
    values[1] = row->last_map;
    values[2] = row->last_class_f1;
    values[3] = row->last_overall_f1;
}

static void print_published(struct report *report, const struct report_run *run) {
    text_builder *page = &report->page;
    begin_group(page, "As printed in the paper: ", published_data(run));
    for (size_t i = 0; published_at(run, i); i++) {
        const l3a_published *row = published_at(run, i);
        double values[PAPER_COLUMNS];
        published_values(row, values);
        table_row(page, "paper", "%s<small class=\"help\">Table %d%s%s</small>", row->method, row->table, row->backbone ? ", " : "",
                  row->backbone ? row->backbone : "");
        table_cell(page, NULL, "%s", row->memory[0] ? row->memory : "–");
        print_values(page, values, 1);
    }
    html_raw(page, "</tbody>\n");
}

static bool is_published(const struct report_run *run) {
    return run->series_count > 0 && published_at(run, 0);
}

/* Whether the paper's rows were already printed for an earlier run. */
static bool is_printed(const struct report *report, size_t run) {
    for (size_t i = 0; i < run; i++) {
        if (is_published(&report->runs[i]) && report->runs[i].results->classes.count == report->runs[run].results->classes.count &&
            strcmp(run_record(&report->runs[i], "run.protocol"), run_record(&report->runs[run], "run.protocol")) == 0) {
            return true;
        }
    }
    return false;
}

static bool joins_others(const struct report *report) {
    bool found = false;
    for (size_t i = 0; i < report->series_count; i++) {
        found = found || report->series[i].source[0];
    }
    return found;
}

void report_paper(struct report *report) {
    bool begun = false;
    for (size_t i = 0; i < report->run_count; i++) {
        if (!is_published(&report->runs[i]) || is_printed(report, i)) {
            continue;
        }
        if (!begun) {
            section_begin(
                report, "paper", "As published",
                "Tinted rows are quoted from the paper (Zhang and others, “L3A: Label-Augmented Analytic Adaptation for "
                "Multi-Label Class Incremental Learning”, ICML 2025). They were not measured with this program: the backbone, "
                "the data and the split may all differ from those of this run. Compare only rows within the same group. L3A uses "
                "a TResNet-M; for rows without a backbone, the paper says only that it is a TResNet-M or a ViT-B/16. “Memory” "
                "is the number of images kept for replay.");
            html_raw(&report->page, "<p>");
            print_thresholds(report, &report->page);
            html_raw(&report->page, " The paper does not say which threshold its CF1 and OF1 have.</p>\n");
            html_raw(&report->page, "<div class=\"scroll\">");
            table_begin(&report->page, "beside");
            table_columns(&report->page,
                          (const char *const[]){"method", "memory", "avg mAP", "last mAP", "last CF1", "last OF1", NULL});
            html_raw(&report->page, "</tr></thead>\n"); /* each group is a body of its own */
            begun = true;
        }
        begin_group(&report->page, "Measured here", joins_others(report) ? "; † elsewhere" : "");
        for (size_t j = i; j < report->run_count; j++) {
            if (is_published(&report->runs[j]) &&
                strcmp(run_record(&report->runs[i], "run.protocol"), run_record(&report->runs[j], "run.protocol")) == 0) {
                print_own(report, &report->runs[j]);
            }
        }
        html_raw(&report->page, "</tbody>\n");
        print_published(report, &report->runs[i]);
    }
    if (begun) {
        html_raw(&report->page, "</table></div>\n");
        section_end(report);
    }
}
