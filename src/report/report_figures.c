/* The charts of a report as figures of their own, for papers and slides: in SVG, or in PDF or PNG, which a plug-in makes from it.
 * The sections of the report draw them; what they print on the page besides is dropped. */
#include "base/file.h"
#include "base/plugin.h"
#include "base/sized.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_LIMIT = 80, HEADING = 22, MARGIN = 4 };
#define BOLD 1.25 /* how much wider a heading is than text of 12 pixels */

/* ---- Drawing ---- */

void figure_begin(struct report *report, const struct figure_plan *plan) {
    struct canvas *canvas = &report->canvas;
    if (canvas->width > 0) {
        canvas->width = plan->width > 0 ? plan->width : LEGEND_WIDTH;
        canvas->across = canvas->down = 0;
        report->drawing.length = 0;
    }
}

static void print_figure(const struct report *report, const struct figure_plan *plan, text_builder *to) {
    const struct canvas *canvas = &report->canvas;
    const bool with_legend = plan->with_legend && canvas->legend_down > 0;
    const double wide = fmax(canvas->across, with_legend ? LEGEND_WIDTH / 2 : 0) + 2 * MARGIN;
    const double legend = MARGIN + (plan->heading ? HEADING : 0), top = legend + (with_legend ? canvas->legend_down + 4 : 0);
    const double high = top + canvas->down + MARGIN;
    char clipped[CLIPPED];
    html_print(to,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"l3a\" role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 "
               "%.0f %.0f\">\n<title>%s</title>\n<style>\n",
               wide, high, wide, high, plan->title);
    html_raw(to, figure_style);
    html_print(to, "</style>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", wide, high);
    if (plan->heading) {
        html_print(to, "<text class=\"heading\" x=\"%d\" y=\"%d\">%s</text>\n", 2 * MARGIN, MARGIN + 13,
                   text_clip(plan->heading, (wide - 4 * MARGIN) / BOLD, clipped));
    }
    if (with_legend) {
        html_print(to, "<g transform=\"translate(0 %.0f)\">\n", legend);
        text_builder_append(to, canvas->legend.text, canvas->legend.length);
        html_raw(to, "</g>\n");
    }
    html_print(to, "<g transform=\"translate(%d %.0f)\">\n", MARGIN, top);
    text_builder_append(to, report->drawing.text, report->drawing.length);
    html_raw(to, "</g>\n</svg>\n");
}

static bool is_plain(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '_';
}

/* "forgetting" of "my run: l3a+" becomes "forgetting-my-run-l3a+". If another figure has the name, a number follows. */
static l3a_status name_figure(struct report *report, const struct figure_plan *plan, char **name) {
    char text[NAME_LIMIT + 24];
    size_t length = (size_t)snprintf(text, NAME_LIMIT, "%s", plan->name), taken = 0;
    bool gap = true;
    for (const char *at = plan->of ? plan->of : ""; *at && length + 2 < NAME_LIMIT; at++) {
        if (is_plain(*at) && gap) {
            text[length++] = '-';
        }
        gap = !is_plain(*at);
        if (!gap) {
            text[length++] = *at;
        }
    }
    text[length] = 0;
    for (size_t i = 0, number = 2; i < report->figure_count; i++) {
        if (strcmp(report->figures[i].name, text) == 0) {
            taken = (size_t)snprintf(text + length, 24, "-%zu", number++);
            i = SIZE_MAX; /* compares the new name with all of them */
        }
    }
    return copy_text(report->context, text, length + taken, name);
}

static l3a_status keep_figure(struct report *report, const struct figure_plan *plan) {
    l3a_status status = L3A_OK;
    text_builder whole = {.context = report->context};
    TRY(report->drawing.status);
    TRY(report->canvas.legend.status);
    TRY(grow_array(report->context, &report->figures, &report->figure_capacity, report->figure_count + 1, sizeof *report->figures));
    struct figure *figure = &report->figures[report->figure_count];
    *figure = (struct figure){0};
    print_figure(report, plan, &whole);
    TRY(whole.status);
    TRY(copy_text(report->context, plan->title, strlen(plan->title), &figure->title));
    status = name_figure(report, plan, &figure->name);
    if (status != L3A_OK) {
        release(report->context, figure->title);
        goto done;
    }
    figure->bytes = whole.text;
    figure->length = whole.length;
    whole.text = NULL;
    report->figure_count++;
done:
    text_builder_free(&whole);
    return status;
}

void figure_end(struct report *report, const struct figure_plan *plan) {
    if (report->canvas.width > 0 && report->page.status == L3A_OK) {
        report->page.status = keep_figure(report, plan);
    }
}

/* ---- Writing ---- */

static l3a_status find_format(l3a_context *context, const char *name, enum figure_format *format) {
    static const char *const names[] = {[FIGURE_SVG] = "svg", [FIGURE_PDF] = "pdf", [FIGURE_PNG] = "png"};
    l3a_status status = L3A_OK;
    size_t found = 0;
    while (found < sizeof names / sizeof names[0] && strcmp(names[found], name) != 0) {
        found++;
    }
    FAIL_IF(found == sizeof names / sizeof names[0], context, L3A_ERROR_OPTION, "use svg, pdf or png",
            "format: there are no figures in '%.40s'", name);
    *format = (enum figure_format)found;
done:
    return status;
}

static l3a_status convert(struct report *report, enum figure_format format) {
    l3a_context *context = report->context;
    const struct figure_plugin *plugin = NULL;
    l3a_status status = L3A_OK;
    if (format == FIGURE_SVG) {
        return L3A_OK;
    }
    TRY(figure_load(context, &plugin));
    for (size_t i = 0; i < report->figure_count; i++) {
        struct figure *figure = &report->figures[i];
        char *bytes = NULL;
        size_t length = 0;
        TRY(plugin->convert(context, &plugin_host, format, figure->title, figure->bytes, figure->length, &bytes, &length));
        release(context, figure->bytes);
        figure->bytes = bytes;
        figure->length = length;
    }
done:
    return status;
}

static l3a_status write_figure(l3a_context *context, const struct figure *figure, const char *folder, const char *format) {
    l3a_status status = L3A_OK;
    char name[NAME_LIMIT + 32], *path = NULL;
    snprintf(name, sizeof name, "%s.%s", figure->name, format);
    TRY(join_path(context, folder, name, &path));
    TRY(write_whole(context, path, figure->bytes, figure->length));
done:
    release(context, path);
    return status;
}

l3a_status report_figures(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                          const struct method_table *methods, const char *format, const char *folder) {
    l3a_status status = L3A_OK;
    l3a_report_options chosen = {0};
    enum figure_format kind = FIGURE_SVG;
    struct report report;
    report_begin(&report, context, &chosen, methods);
    report.canvas.to = &report.drawing;
    report.canvas.width = LEGEND_WIDTH;
    TRY(READ_SIZED(context, options, chosen));
    TRY(find_format(context, format, &kind));
    TRY(report_print(&report, folders, count));
    FAIL_IF(!report.figure_count, context, L3A_ERROR_NOT_FOUND, "wait until a run has finished its first phase",
            "%s: there is nothing to draw yet, because no phase has results", folders[0]);
    TRY(convert(&report, kind));
    TRY(make_folder(context, folder));
    for (size_t i = 0; i < report.figure_count; i++) {
        TRY(write_figure(context, &report.figures[i], folder, format));
    }
done:
    report_free(&report);
    return status;
}
