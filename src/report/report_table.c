/* The table of results for papers and web pages, in LaTeX or Markdown: the columns of the paper's tables, one row per method, and
 * the paper's own rows below. The table of a sweep has one row per point and a column for each setting that varies. */
#include "base/sized.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

/* How a format writes a table. */
struct notation {
    const char *name;
    const char *before, *after, *between; /* of rows and fields */
    const char *bold[2], *italic[2];
    const char *plus_minus[2], *missing; /* around the deviation; instead of a number */
    const char *const *escapes;          /* pairs: a character, and what stands for it */
};

static const char *const latex_escapes[] = {"\\",   "\\textbackslash{}",
                                            "{",    "\\{",
                                            "}",    "\\}",
                                            "$",    "\\$",
                                            "&",    "\\&",
                                            "#",    "\\#",
                                            "%",    "\\%",
                                            "_",    "\\_",
                                            "^",    "\\textasciicircum{}",
                                            "~",    "\\textasciitilde{}",
                                            "<",    "\\textless{}",
                                            ">",    "\\textgreater{}",
                                            "|",    "\\textbar{}",
                                            "σ > ", "$\\sigma >$ ",
                                            "±",    "$\\pm$",
                                            "†",    "$\\dagger$",
                                            NULL};
static const char *const markdown_escapes[] = {"\\", "\\\\", "|", "\\|",   "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;",
                                               ">",  "&gt;", "&", "&amp;", "[", "\\[", "]", "\\]", "~", "\\~", NULL};

static const struct notation notations[] = {
    {"latex",
     "    ",
     " \\\\\n",
     " & ",
     {"\\textbf{", "}"},
     {"\\textit{", "}"},
     {"\\,{\\scriptsize$\\pm$", "}"},
     "--",
     latex_escapes},
    {"markdown", "| ", " |\n", " | ", {"**", "**"}, {"*", "*"}, {" ± ", ""}, "–", markdown_escapes},
};

struct table {
    const struct report *report;
    const struct notation *notation;
    text_builder *text;
    bool latex, mixed, quoted; /* quoted: the paper has rows for this task */
    bool compared;             /* there are several pairs, so differences have intervals */
};

/* ---- Texts ---- */

static void print_escaped(const struct table *table, const char *text) {
    const char *const *escapes = table->notation->escapes;
    for (; *text; text++) {
        size_t i = 0;
        while (escapes[i] && strncmp(text, escapes[i], strlen(escapes[i])) != 0) {
            i += 2;
        }
        if (escapes[i]) {
            text_builder_print(table->text, "%s", escapes[i + 1]);
            text += strlen(escapes[i]) - 1;
        } else if ((unsigned char)*text >= ' ') {
            text_builder_append(table->text, text, 1);
        }
    }
}

static void print_plain(const struct table *table, const char *text) {
    text_builder_print(table->text, "%s", text);
}

static void print_value(const struct table *table, const double value[2], size_t trials, int decimals, bool best) {
    if (isnan(value[0])) {
        print_plain(table, table->notation->missing);
        return;
    }
    print_plain(table, best ? table->notation->bold[0] : "");
    html_print(table->text, "%.*f", decimals, value[0]);
    print_plain(table, best ? table->notation->bold[1] : "");
    if (trials > 1) {
        print_plain(table, table->notation->plus_minus[0]);
        html_print(table->text, "%.*f", decimals, value[1]);
        print_plain(table, table->notation->plus_minus[1]);
    }
}

/* ---- Rows ---- */

/* The settings that vary, if the table is about a sweep. */
static size_t setting_count(const struct table *table) {
    return table->report->sweep ? table->report->sweep->axes.count : 0;
}

static size_t column_count(const struct table *table) {
    return 1 + setting_count(table) + PAPER_COLUMNS + (table->quoted ? 1 : 0) + (table->mixed ? 1 : 0) + (table->compared ? 1 : 0);
}

/* A number of the last column; a minus sign is one in LaTeX too. */
static void print_signed(const struct table *table, double value) {
    html_print(table->text, table->latex ? "$%.2f$" : "%.2f", value);
}

/* How far the last mAP is from the best. */
static void print_difference(const struct table *table, const struct series *series) {
    const l3a_difference *found = series_difference(table->report, series, LAST_MAP);
    print_plain(table, table->notation->between);
    if (found->reference_index == (size_t)(series - table->report->series)) {
        print_plain(table, "best");
    } else if (found->pairs < 2) {
        print_plain(table, table->notation->missing);
    } else {
        print_signed(table, found->difference);
        print_plain(table, " (");
        print_signed(table, found->low);
        print_plain(table, " to ");
        print_signed(table, found->high);
        print_plain(table, ")");
        print_plain(table, found->significant <= 0 ? "" : table->latex ? "$^{*}$" : "\\*");
    }
}

static void print_series(const struct table *table, const struct series *series) {
    print_plain(table, table->notation->before);
    print_escaped(table, setting_count(table) ? series->method : series->label);
    for (size_t j = 0; j < setting_count(table); j++) {
        const char *value = sweep_value(table->report, series->run, j);
        print_plain(table, table->notation->between);
        print_escaped(table, value ? value : table->notation->missing);
    }
    print_plain(table, table->quoted ? table->notation->between : "");
    for (size_t j = 0; j < PAPER_COLUMNS; j++) {
        const double none[2] = {NAN, 0};
        const bool known = j > 0 || series->rows > 1; /* with one phase, the average is the last */
        print_plain(table, table->notation->between);
        print_value(table, known ? summary_value(&series->summary, j) : none, series->summary.seeds, 2,
                    is_best(table->report, series, j));
    }
    if (table->mixed) {
        print_plain(table, table->notation->between);
        print_escaped(table, series->threshold);
    }
    if (table->compared) {
        print_difference(table, series);
    }
    print_plain(table, table->notation->after);
}

static void print_quoted(const struct table *table, const l3a_published *row) {
    double values[PAPER_COLUMNS];
    published_values(row, values);
    print_plain(table, table->notation->before);
    print_escaped(table, row->method);
    for (size_t j = 0; j < setting_count(table); j++) {
        print_plain(table, table->notation->between);
    }
    print_plain(table, table->notation->between);
    print_escaped(table, row->memory[0] ? row->memory : "–");
    for (size_t j = 0; j < PAPER_COLUMNS; j++) {
        const double value[2] = {values[j], 0};
        print_plain(table, table->notation->between);
        print_value(table, value, 1, 1, false);
    }
    print_plain(table, table->mixed ? table->notation->between : "");
    print_plain(table, table->compared ? table->notation->between : "");
    print_plain(table, table->notation->after);
}

/* A line across the table that says what follows. */
static void print_group(const struct table *table, const struct report_run *run) {
    if (table->latex) {
        text_builder_print(table->text, "    \\midrule\n    \\multicolumn{%zu}{@{}l}{", column_count(table));
    } else {
        print_plain(table, table->notation->before);
    }
    print_plain(table, table->notation->italic[0]);
    print_plain(table, "As printed by Zhang et al. (ICML 2025) for ");
    print_escaped(table, published_data(run));
    print_plain(table, " ");
    print_escaped(table, run_record(run, "run.protocol"));
    print_plain(table, "; not measured here");
    print_plain(table, table->notation->italic[1]);
    print_plain(table, table->latex ? "}" : "");
    for (size_t j = 1; !table->latex && j < column_count(table); j++) {
        print_plain(table, j + 1 < column_count(table) ? " | " : " |");
    }
    print_plain(table, table->latex ? table->notation->after : " |\n");
}

/* ---- The table ---- */

/* The names of the settings that vary, in the line of headings. */
static void print_settings(const struct table *table) {
    for (size_t j = 0; j < setting_count(table); j++) {
        print_plain(table, table->notation->between);
        print_escaped(table, table->report->sweep->axes.items[j]);
    }
}

static void print_latex_head(const struct table *table) {
    const size_t first = 2 + setting_count(table) + (table->quoted ? 1 : 0);
    print_plain(table, "  \\smallskip\\footnotesize\n  \\setlength{\\tabcolsep}{3pt}\n  \\begin{tabular}{@{}l");
    for (size_t j = 0; j < setting_count(table); j++) {
        print_plain(table, "l");
    }
    print_plain(table, table->quoted ? "c" : "");
    print_plain(table, table->mixed ? "rrrrl" : "rrrr");
    print_plain(table, table->compared ? "l@{}}\n    \\toprule\n" : "@{}}\n    \\toprule\n");
    print_plain(table, "    ");
    for (size_t j = 2; j < first; j++) {
        print_plain(table, "& ");
    }
    print_plain(table, "& Avg. & \\multicolumn{3}{c}{Last}");
    print_plain(table, table->mixed ? " &" : "");
    print_plain(table, table->compared ? " & $\\Delta$ last \\\\\n" : " \\\\\n");
    text_builder_print(table->text, "    \\cmidrule(lr){%zu-%zu} \\cmidrule(lr){%zu-%zu}\n    Method", first, first, first + 1,
                       first + 3);
    print_settings(table);
    print_plain(table, table->quoted ? " & Memory" : "");
    print_plain(table, " & mAP & mAP & CF1 & OF1");
    print_plain(table, table->mixed ? " & Threshold" : "");
    print_plain(table, table->compared ? " & mAP \\\\\n    \\midrule\n" : " \\\\\n    \\midrule\n");
}

static void print_markdown_head(const struct table *table) {
    print_plain(table, "| Method");
    print_settings(table);
    print_plain(table, table->quoted ? " | Memory |" : " |");
    print_plain(table, " Avg. mAP | Last mAP | Last CF1 | Last OF1 |");
    print_plain(table, table->mixed ? " Threshold |" : "");
    print_plain(table, table->compared ? " Δ last mAP |\n|---|" : "\n|---|");
    for (size_t j = 0; j < setting_count(table); j++) {
        print_plain(table, "---|");
    }
    print_plain(table, table->quoted ? ":---:|" : "");
    print_plain(table, table->mixed ? "---:|---:|---:|---:|---|" : "---:|---:|---:|---:|");
    print_plain(table, table->compared ? "---|\n" : "\n");
}

static void print_spread_source(const struct table *table) {
    const struct report_run *run = &table->report->runs[0];
    const size_t orders = l3a_results_order_count(run->results), seeds = run->seeds.count;
    if (orders > 1) {
        html_print(table->text, " Means %s standard deviation over %zu class orders (", table->latex ? "$\\pm$" : "±", orders);
        print_escaped(table, run_record(run, "run.class_orders"));
        html_print(table->text, ") and %zu %s.", seeds, seeds > 1 ? "seeds" : "seed");
    } else if (seeds > 1) {
        html_print(table->text, " Means %s standard deviation over %zu seeds.", table->latex ? "$\\pm$" : "±", seeds);
    }
}

/* Whether anything is bold. */
static bool has_best(const struct report *report) {
    bool found = false;
    for (size_t i = 0; i < PAPER_COLUMNS * report->series_count; i++) {
        found = found || report->differences[i].best;
    }
    return found;
}

static void print_significance(const struct table *table) {
    const size_t pairs = most_pairs(table->report, LAST_MAP);
    const char *percent = table->latex ? "\\%" : "%";
    if (has_best(table->report)) {
        html_print(table->text, " Bold: best of the methods that learn in phases, and those not significantly worse (5 %s, Holm).",
                   percent);
    } else if (pairs && pairs < PAIRS_TO_TELL) {
        print_plain(table, " Nothing is bold, because fewer than five paired runs cannot tell whether a difference is chance.");
    }
    if (table->compared) {
        html_print(table->text,
                   " The last column is the difference from the best that learns in phases, with its 95 %s %s interval over %zu "
                   "paired runs",
                   percent, pairs < 10 ? "t" : "bootstrap", pairs);
        html_print(table->text, pairs < PAIRS_TO_TELL ? "." : "; %s: significant.", table->latex ? "*" : "\\*");
    }
    print_plain(table, table->mixed && table->report->series_count > 1
                           ? " CF1 and OF1 are compared only between methods with the same threshold."
                           : "");
}

/* What the numbers are, for the caption. */
static void print_caption(const struct table *table) {
    const struct report_run *run = &table->report->runs[0];
    const char *backbone = run_record(run, "run.train.backbone"), *data = published_data(run);
    print_escaped(table, data ? data : "Results");
    html_print(table->text, data ? ", %zu classes, " : " on %zu classes, ", run->results->classes.count);
    print_escaped(table, run_record(run, "run.protocol"));
    if (backbone[0]) {
        const char *trained = run_record(run, "run.trained");
        print_plain(table, trained[0] ? ", " : ", frozen features from ");
        print_escaped(table, backbone);
        print_plain(table, trained[0] ? ", trained in every phase by " : "");
        print_escaped(table, trained);
        print_plain(table, run_record(run, "run.adapted")[0] ? ", adapted to the first phase" : "");
    }
    print_plain(table, ", in percent.");
    print_spread_source(table);
    print_significance(table);
    if (!table->mixed) {
        print_plain(table, " CF1 and OF1 with the threshold ");
        print_escaped(table, table->report->series[0].threshold);
        print_plain(table, ".");
    }
    for (size_t i = 0; i < table->report->series_count; i++) {
        if (begins_source(table->report, i)) {
            print_escaped(table, " † from ");
            print_escaped(table, table->report->series[i].source);
            print_plain(table, ", not measured here.");
        }
    }
    print_plain(table, table->quoted ? " The quoted rows may have another backbone and another threshold." : "");
}

static void print_rows(const struct table *table) {
    const struct report *report = table->report;
    for (size_t i = 0; i < report->series_count; i++) {
        print_series(table, &report->series[i]);
    }
    if (table->quoted) {
        print_group(table, &report->runs[0]);
    }
    for (size_t i = 0; table->quoted && published_at(&report->runs[0], i); i++) {
        print_quoted(table, published_at(&report->runs[0], i));
    }
}

static void print_table(const struct table *table) {
    if (table->latex) {
        print_plain(table, "% needs \\usepackage{booktabs}\n\\begin{table}[t]\n  \\centering\n  \\caption{");
        print_caption(table);
        print_plain(table, "}\n  \\label{tab:l3a}\n");
        print_latex_head(table);
        print_rows(table);
        print_plain(table, "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
    } else {
        print_markdown_head(table);
        print_rows(table);
        print_plain(table, "\n");
        print_caption(table);
        print_plain(table, "\n");
    }
}

static l3a_status check_runs(const struct report *report) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        FAIL_IF(!run->finished || !run->series_count, report->context, L3A_ERROR_STATE,
                report->sweep ? "resume the sweep; the page can also show an unfinished one"
                              : "resume the run; the page can also show an unfinished one",
                "%s: the run is not finished, so it has no table to publish", run->folder);
        FAIL_IF(!are_comparable(run, &report->runs[0]), report->context, L3A_ERROR_MISMATCH, "make a table of each",
                "%s and %s have different tasks: another protocol, classes or test images", report->runs[0].folder, run->folder);
    }
done:
    return status;
}

l3a_status report_table(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                        const struct method_table *methods, const char *format, text_builder *text) {
    l3a_status status = L3A_OK;
    struct report report;
    l3a_report_options chosen = {0};
    struct table table = {.report = &report, .text = text};
    report_begin(&report, context, &chosen, methods);
    TRY(READ_SIZED(context, options, chosen));
    report.by_grid = true;
    for (size_t i = 0; i < sizeof notations / sizeof notations[0]; i++) {
        table.notation = strcmp(notations[i].name, format) == 0 ? &notations[i] : table.notation;
    }
    const bool csv = strcmp(format, "csv") == 0;
    FAIL_IF(!table.notation && !csv, context, L3A_ERROR_ARGUMENT, "use latex, markdown or csv", "unknown format of a table: '%s'",
            format);
    FAIL_IF(!count, context, L3A_ERROR_ARGUMENT, NULL, "a table needs at least one folder of a run");
    TRY(report_load(&report, folders, count));
    TRY(check_runs(&report));
    if (csv) {
        print_csv_table(&report, text);
        status = text->status;
        goto done;
    }
    table.latex = table.notation == &notations[0];
    table.compared = most_pairs(&report, LAST_MAP) > 1;
    table.mixed = has_mixed_thresholds(&report);
    table.quoted = published_at(&report.runs[0], 0) != NULL;
    print_table(&table);
    status = text->status;
done:
    report_free(&report);
    return status;
}
