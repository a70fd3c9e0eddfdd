/* How the numbers were made: time, memory, settings, machine, and the command that reproduces a run. */
#include "common/number.h"
#include "report/report.h"
#include "report/html_table.h"

#include <math.h>
#include <string.h>

enum { STAGE_NAMES = 8 };

/* ---- Time and memory ---- */

struct costs {
    const char *stages[STAGE_NAMES];
    size_t count;
};

static size_t find_stage(const struct costs *costs, const char *stage) {
    size_t i = 0;
    while (i < costs->count && strcmp(costs->stages[i], stage) != 0) {
        i++;
    }
    return i;
}

/* Sums the seconds of each stage over all seeds and phases. Returns the peak memory. */
static uint64_t add_up(const struct series *series, struct costs *costs, double seconds[STAGE_NAMES]) {
    const l3a_results *results = series->run->results;
    uint64_t memory = 0;
    memset(seconds, 0, STAGE_NAMES * sizeof *seconds);
    for (size_t i = 0; i < results->stage_count; i++) {
        const struct stage_time *stage = &results->stages[i];
        const size_t at = find_stage(costs, stage->stage);
        if (strcmp(stage->method, series->method) != 0 || at == STAGE_NAMES) {
            continue;
        }
        if (at == costs->count) {
            costs->stages[costs->count++] = stage->stage;
        }
        seconds[at] += stage->seconds;
        memory = stage->peak_memory > memory ? stage->peak_memory : memory;
    }
    return memory;
}

static void print_cost_table(struct report *report, struct costs *costs) {
    text_builder *page = &report->page;
    numbers_begin(report);
    table_begin(page, NULL);
    table_column(page, NULL, "seconds, all seeds");
    for (size_t j = 0; j < costs->count; j++) {
        table_column(page, NULL, "%s", costs->stages[j]);
    }
    table_columns(page, (const char *const[]){"total", "peak memory, MiB", NULL});
    table_body(page);
    for (size_t i = 0; i < report->series_count; i++) {
        double seconds[STAGE_NAMES], sum = 0;
        if (report->series[i].source[0]) {
            continue;
        }
        const uint64_t memory = add_up(&report->series[i], costs, seconds);
        table_row(page, NULL, "%s", report->series[i].label);
        for (size_t j = 0; j < costs->count; j++) {
            table_number(page, seconds[j], 3);
            sum += seconds[j];
        }
        table_number(page, sum, 3);
        table_number(page, (double)memory * 0x1p-20, 0);
        table_row_end(page);
    }
    table_end(page);
    numbers_end(report);
}

static void draw_costs(struct report *report, const struct costs *costs, const struct bar *rows, size_t count, double full) {
    const struct figure_plan plan = {.name = "seconds-by-stage",
                                     .title = "seconds of each method, by stage",
                                     .heading = "Seconds, over all phases and seeds",
                                     .with_legend = true};
    legend_begin(&report->canvas);
    for (size_t j = 0; j < costs->count; j++) {
        legend_swatch(&report->canvas, j, costs->stages[j]);
    }
    legend_end(&report->canvas);
    figure_begin(report, &plan);
    bars(&report->canvas, plan.title, rows, count, full, 1, 0);
    figure_end(report, &plan);
}

static l3a_status print_costs(struct report *report) {
    text_builder *page = &report->page;
    l3a_status status = L3A_OK;
    struct costs costs = {.count = 0};
    struct bar *rows = NULL;
    double *seconds = NULL, full = 0;
    uint64_t memory = 0;
    size_t count = 0; /* of the series that the runs measured */
    TRY(allocate_zeroed(report->context, report->series_count, sizeof *rows, &rows));
    TRY(allocate(report->context, report->series_count, STAGE_NAMES * sizeof *seconds, &seconds));
    for (size_t i = 0; i < report->series_count; i++) {
        double sum = 0;
        if (report->series[i].source[0]) {
            continue;
        }
        const uint64_t own = add_up(&report->series[i], &costs, seconds + i * STAGE_NAMES);
        memory = own > memory ? own : memory;
        for (size_t j = 0; j < STAGE_NAMES; j++) {
            sum += seconds[i * STAGE_NAMES + j];
        }
        full = fmax(full, sum);
        rows[count++] = (struct bar){
            .name = report->series[i].label, .parts = seconds + i * STAGE_NAMES, .part_count = STAGE_NAMES, .mark = NAN};
    }
    if (costs.count) {
        section_begin(report, "costs", "Time and memory", NULL);
        html_print(page,
                   "<p>Seconds spent in each stage, summed over phases and seeds. The process used at most <strong>%.0f "
                   "MiB</strong> of memory%s.</p>\n<figure>\n",
                   (double)memory * 0x1p-20, report->run_count > 1 ? " (in the run that used most)" : "");
        draw_costs(report, &costs, rows, count, full);
        print_cost_table(report, &costs);
        html_raw(page, "</figure>\n");
        section_end(report);
    }
done:
    release(report->context, rows);
    release(report->context, seconds);
    return status;
}

/* ---- Settings and machine ---- */

/* Prints the memory in GiB, and any other value unchanged. */
static void print_entry(text_builder *page, const char *key, const char *value) {
    double bytes;
    if (strcmp(key, "machine.memory") == 0 && number_parse(value, strlen(value), &bytes)) {
        table_cell(page, "text", "%.1f GiB", bytes * 0x1p-30);
    } else {
        table_cell(page, "text", "%s", value);
    }
}

/* One row per key that begins with the prefix, one column per run. Rows in which the runs differ are marked. */
static void print_entries(struct report *report, const char *prefix) {
    text_builder *page = &report->page;
    for (size_t r = 0; r < report->run_count; r++) {
        const struct report_run *run = &report->runs[r];
        for (size_t i = 0; i < run->keys.count; i++) {
            const char *key = run->keys.items[i];
            bool told = strncmp(key, prefix, strlen(prefix)) != 0 || strcmp(key, "run.classes") == 0 ||
                        strcmp(key, "run.classes_by_order") == 0,
                 differs = false;
            for (size_t j = 0; j < r; j++) {
                told = told || text_list_find(&report->runs[j].keys, key) < report->runs[j].keys.count;
            }
            if (told) {
                continue;
            }
            for (size_t j = 0; j < report->run_count; j++) {
                differs = differs || strcmp(run_record(&report->runs[j], key), run->values.items[i]) != 0;
            }
            table_row(page, NULL, "%s", key + strlen(prefix));
            for (size_t j = 0; j < report->run_count; j++) {
                print_entry(page, key, run_record(&report->runs[j], key));
            }
            if (report->run_count > 1) {
                table_cell(page, "differs", "%s", differs ? "differs" : "");
            }
            table_row_end(page);
        }
    }
}

static void print_record_table(struct report *report, const char *caption, const char *prefix) {
    text_builder *page = &report->page;
    html_print(page, "<details open><summary>%s</summary><div class=\"scroll\">", caption);
    if (report->run_count > 1) {
        table_begin(page, "record");
        table_column(page, NULL, "%s", "");
        for (size_t j = 0; j < report->run_count; j++) {
            table_column(page, "text", "%s", report->runs[j].name);
        }
        table_column(page, NULL, "%s", "");
        table_body(page);
    } else {
        html_raw(page, "<table class=\"record single\"><tbody>\n"); /* without headings */
    }
    print_entries(report, prefix);
    table_end(page);
    html_raw(page, "</div></details>\n");
}

l3a_status report_record(struct report *report) {
    text_builder *page = &report->page;
    l3a_status status = L3A_OK;
    TRY(print_costs(report));
    section_begin(report, "record", "How to reproduce it", NULL);
    for (size_t i = 0; i < report->run_count; i++) {
        const char *command = run_record(&report->runs[i], "command");
        if (report->run_count > 1) {
            html_print(page, "<h3>%s</h3>", report->runs[i].name);
        }
        if (command[0]) {
            html_print(page, "<pre>%s</pre>\n", command);
        } else {
            html_raw(page, "<p>The run was started from the library, so there is no command line.</p>\n");
        }
    }
    print_record_table(report, "Settings, versions and data", "run.");
    print_record_table(report, "Machine", "machine.");
    section_end(report);
done:
    return status;
}
