/* The report: one page of HTML about one or more runs, without scripts and without anything to load. */
#include "report/report.h"

#include "base/file.h"
#include "base/sized.h"

void section_begin(struct report *report, const char *id, const char *heading, const char *text) {
    html_print(&report->links, "<a href=\"#%s\">%s</a> ", id, heading);
    html_print(&report->page, "<section id=\"%s\" class=\"card\">\n<h2>%s</h2>\n", id, heading);
    if (text) {
        html_print(&report->page, "<p>%s</p>\n", text);
    }
}

void section_end(struct report *report) {
    html_raw(&report->page, "</section>\n");
}

void numbers_begin(struct report *report) {
    html_raw(&report->page, "<details><summary>Numbers</summary><div class=\"scroll\">");
}

void numbers_end(struct report *report) {
    html_raw(&report->page, "</div></details>\n");
}

static void print_title(const struct report *report, text_builder *to) {
    if (report->options->title) {
        html_print(to, "%s", report->options->title);
        return;
    }
    if (report->sweep) {
        html_print(to, "%s", report->sweep->name);
        return;
    }
    for (size_t i = 0; i < report->run_count; i++) {
        html_print(to, i ? ", %s" : "%s", report->runs[i].name);
    }
}

static void print_head(const struct report *report, const char *subject, text_builder *to) {
    html_raw(to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                 "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<link "
                 "rel=\"icon\" href=\"data:,\">\n<title>");
    print_title(report, to);
    html_raw(to, "</title>\n<style>\n");
    html_raw(to, report_style);
    html_raw(to, report->has_boxes ? report_box_style : "");
    html_raw(to, report->sweep ? report_sweep_style : "");
    switch_style(to, report->canvas.switches);
    html_raw(to, "</style>\n</head>\n<body>\n");
    svg_markers(to);
    html_print(to, "<header><p>%s: a report by l3a</p><h1>", subject);
    print_title(report, to);
    html_raw(to, "</h1></header>\n<nav aria-label=\"Sections\"><div class=\"scroll\"><a href=\"#headline\">Summary</a> ");
    text_builder_append(to, report->links.text, report->links.length);
    html_raw(to, "</div></nav>\n<main>\n");
}

void report_begin(struct report *report, l3a_context *context, const l3a_report_options *options,
                  const struct method_table *methods) {
    *report = (struct report){.context = context,
                              .options = options,
                              .methods = methods,
                              .page.context = context,
                              .links.context = context,
                              .drawing.context = context,
                              .canvas = {.to = &report->page, .legend.context = context}};
}

l3a_status report_print(struct report *report, const char *const *folders, size_t count) {
    l3a_status status = L3A_OK;
    FAIL_IF(!count, report->context, L3A_ERROR_ARGUMENT, NULL, "a report needs at least one folder of a run");
    TRY(report_load(report, folders, count));
    TRY(report_settings(report));
    TRY(report_headline(report));
    TRY(report_phases(report));
    report_paper(report);
    TRY(report_classes(report));
    if (!(report->canvas.width > 0)) { /* pictures are no figures */
        TRY(report_pictures(report));
    }
    TRY(report_record(report));
    status = report->page.status != L3A_OK ? report->page.status : report->links.status;
done:
    return status;
}

l3a_status report_save(struct report *report, const char *subject, const char *numbers, const char *path) {
    l3a_status status = L3A_OK;
    text_builder whole = {.context = report->context};
    print_head(report, subject, &whole);
    text_builder_append(&whole, report->page.text, report->page.length);
    html_print(&whole,
               "</main>\n<footer>Written by l3a %s. %s<details><summary>How to cite</summary><pre>%s</pre></details></footer>\n"
               "</body>\n</html>\n",
               l3a_version(), numbers, l3a_citation());
    TRY(whole.status);
    TRY(write_whole(report->context, path, whole.text, whole.length));
done:
    text_builder_free(&whole);
    return status;
}

l3a_status report_write(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                        const struct method_table *methods, const char *path) {
    l3a_status status = L3A_OK;
    l3a_report_options chosen;
    struct report report;
    report_begin(&report, context, &chosen, methods);
    TRY(READ_SIZED(context, options, chosen));
    TRY(report_print(&report, folders, count));
    TRY(report_save(&report, "Learning classes in phases",
                    "The numbers are in metrics.csv and per_class.csv in the folder of the run.", path));
done:
    report_free(&report);
    return status;
}
