/* The page about a training: its learning curve, and its settings. */
#include "base/sized.h"
#include "report/html_table.h"
#include "report/report.h"

#include <math.h>

struct training_page {
    struct report report;
    l3a_train_page given;
    l3a_train_plan plan;
    l3a_train_report result; /* if the training is finished */
    size_t *epochs;          /* 1, 2, … */
    double *x;               /* the same */
    size_t best;             /* the epoch with the highest mAP so far, from 0; SIZE_MAX: none has one */
};

static void print_tile(text_builder *page, const char *name, const char *meaning, const char *value, bool main) {
    html_print(page, "<div class=\"tile%s\"><dt title=\"%s\">%s</dt><dd>%s</dd></div>\n", main ? " main" : "", meaning, name,
               value);
}

/* The epoch that was written or, before the end, the best so far; SIZE_MAX: there is none. */
static size_t shown_epoch(const struct training_page *training) {
    return training->given.report ? training->result.kept - 1 : training->best;
}

static void print_tiles(struct training_page *training) {
    const l3a_train_page *given = &training->given;
    text_builder *page = &training->report.page;
    const size_t shown = shown_epoch(training), last = given->done - 1;
    char text[FIXED];
    html_raw(page, "<dl class=\"tiles\">\n");
    if (shown < given->done && !isnan(given->mean_aps[shown])) {
        print_tile(page, given->report ? "mAP" : "Best mAP", "of the validation pictures, in percent",
                   fixed_text(given->mean_aps[shown], 2, text), true);
    }
    if (shown < given->done) {
        print_tile(page, given->report ? "Epoch written" : "Best epoch", "counted from 1", fixed_text((double)shown + 1, 0, text),
                   false);
    }
    print_tile(page, "Epochs done", "of those in the settings", fixed_text((double)given->done, 0, text), false);
    print_tile(page, "Loss", "its mean over the pictures of the last epoch", fixed_text(given->losses[last], 4, text), false);
    html_raw(page, "</dl>\n");
}

static void print_headline(struct training_page *training) {
    const l3a_train_plan *plan = &training->plan;
    text_builder *page = &training->report.page;
    if (!training->given.report) {
        html_raw(page, "<p class=\"warning\"><strong>This training is not finished.</strong> If it was interrupted, give the same "
                       "command again, with the same output and <code>--resume</code>.</p>\n");
    }
    html_raw(page, "<section id=\"headline\" class=\"card\">\n");
    html_print(page, "<p>%s</p>\n<p>%zu classes, %zu training pictures", plan->settings, plan->classes, plan->pictures);
    if (plan->held) {
        html_print(page, ", %zu validation pictures", plan->held);
    }
    html_print(page, ". Of %.0f parameters, %.0f are trained, and the head.</p>\n", (double)plan->parameters,
               (double)plan->trained);
    if (training->given.done) {
        print_tiles(training);
    } else {
        html_raw(page, "<p>No epoch is done yet.</p>\n");
    }
    section_end(&training->report);
}

/* One of the two charts, if there is anything to draw. */
static void draw_curve(struct training_page *training, const char *title, const char *unit, const double *values, size_t series) {
    const size_t count = training->given.done, shown = shown_epoch(training);
    struct chart chart = {.canvas = &training->report.canvas, .height = 260, .unswitched = true};
    text_builder *page = &training->report.page;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, values[i]); /* of a number and NaN, the number */
        high = fmax(high, values[i]);
    }
    if (!(low <= high)) {
        return;
    }
    chart.x.label = "epoch";
    chart.y.label = unit;
    axis_fit_counts(&chart.x, training->epochs, count);
    chart.x.decimals = 0;
    axis_fit(&chart.y, low, high);
    chart.y.decimals = high - low < 0.05 && high > low ? 3 : chart.y.decimals;
    html_print(page, "<figure><figcaption>%s</figcaption>\n", title);
    chart_begin(&chart, title, NULL);
    if (count > 1) {
        chart_line(&chart, training->x, values, count, series, true);
    }
    for (size_t i = 0; i < count && (count <= 40 || i == shown); i++) {
        chart_mark(&chart, training->x[i], values[i], series, "epoch %zu: %.4f", i + 1, values[i]);
    }
    chart_end(&chart);
    html_raw(page, "</figure>\n");
}

static void print_numbers(struct training_page *training) {
    const l3a_train_page *given = &training->given;
    text_builder *page = &training->report.page;
    numbers_begin(&training->report);
    table_begin(page, NULL);
    table_column(page, NULL, "epoch");
    table_columns(page, (const char *const[]){"loss", "mAP, percent", "seconds", NULL});
    table_body(page);
    for (size_t i = 0; i < given->done; i++) {
        table_row(page, NULL, "%zu", i + 1);
        table_number(page, given->losses[i], 4);
        table_number(page, given->mean_aps[i], 2);
        table_number(page, given->seconds[i], 1);
        table_row_end(page);
    }
    table_end(page);
    numbers_end(&training->report);
}

static void print_curves(struct training_page *training) {
    const l3a_train_page *given = &training->given;
    struct report *report = &training->report;
    if (!given->done) {
        return;
    }
    section_begin(
        report, "curve", "Learning curve",
        "If the loss still falls and mAP still rises at the end, more epochs may help. If mAP falls while the loss falls, the "
        "network learns the pictures by heart: train less of it, for fewer epochs, or with a lower rate.");
    html_raw(&report->page, "<div class=\"two\">\n");
    draw_curve(training, "mAP of the validation pictures", "mAP, percent", given->mean_aps, 0);
    draw_curve(training, "Loss of the training pictures, as they were shown", "mean loss", given->losses, 1);
    html_raw(&report->page, "</div>\n");
    print_numbers(training);
    section_end(report);
}

static void print_record(struct training_page *training) {
    const l3a_train_report *result = &training->result;
    text_builder *page = &training->report.page;
    section_begin(&training->report, "record", "How to reproduce it", NULL);
    if (training->given.command) {
        html_print(page, "<pre>%s</pre>\n", training->given.command);
    } else {
        html_raw(page, "<p>The training was started from the library, so there is no command line.</p>\n");
    }
    if (training->given.report) {
        html_print(
            page,
            "<p>%.0f steps. The last call took %.1f seconds, with %.1f pictures a second in its steps; for %.1f seconds, steps "
            "waited for pictures.%s</p>\n",
            (double)result->steps, result->seconds, result->speed, result->waited,
            result->recomputed ? " Memory was short, so some values were computed twice." : "");
    }
    section_end(&training->report);
}

static l3a_status read_page(struct training_page *training, const l3a_train_page *page) {
    l3a_context *context = training->report.context;
    l3a_train_page *given = &training->given;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(context, page, *given));
    FAIL_IF(!given->plan, context, L3A_ERROR_ARGUMENT, NULL, "l3a_train_page_write: the page has no plan");
    FAIL_IF(given->done && (!given->losses || !given->mean_aps || !given->seconds), context, L3A_ERROR_ARGUMENT, NULL,
            "l3a_train_page_write: the page has no numbers of its epochs");
    TRY(READ_SIZED(context, given->plan, training->plan));
    if (given->report) {
        TRY(READ_SIZED(context, given->report, training->result));
    }
    TRY(allocate(context, given->done, sizeof *training->epochs, &training->epochs));
    TRY(allocate(context, given->done, sizeof *training->x, &training->x));
    training->best = SIZE_MAX;
    for (size_t i = 0; i < given->done; i++) {
        training->epochs[i] = i + 1;
        training->x[i] = (double)(i + 1);
        if (!isnan(given->mean_aps[i]) && (training->best == SIZE_MAX || given->mean_aps[i] > given->mean_aps[training->best])) {
            training->best = i;
        }
    }
done:
    return status;
}

l3a_status l3a_train_page_write(l3a_context *context, const l3a_train_page *page, const char *path) {
    l3a_status status = L3A_OK;
    struct training_page training = {.epochs = NULL};
    l3a_report_options options = {.size = sizeof options};
    NEED(context, context, page, path);
    report_begin(&training.report, context, &options, NULL);
    TRY(read_page(&training, page));
    options.title = training.given.title ? training.given.title : "Training";
    print_headline(&training);
    print_curves(&training);
    print_record(&training);
    TRY(training.report.page.status);
    TRY(training.report.links.status);
    TRY(report_save(&training.report, "Training a network", "The numbers are below its charts.", path));
done:
    report_free(&training.report);
    release(context, training.epochs);
    release(context, training.x);
    return status;
}
