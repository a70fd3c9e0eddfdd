/* What the sections of a report share: its runs, and one series for each method of each run. */
#ifndef L3A_REPORT_H
#define L3A_REPORT_H

#include "report/html.h"
#include "measure/results.h"
#include "report/svg.h"

/* The methods in order; NULL past the last. */
typedef const l3a_method_info *method_table(size_t index);

/* l3a_report_write() with the methods that the page can describe. */
l3a_status report_write(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                        method_table *method_at, const char *path);
/* l3a_report_figures(), with the same methods. */
l3a_status report_figures(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                          method_table *method_at, const char *format, const char *folder);

struct report_run {
    const char *folder;
    char *name;             /* as the page calls it */
    text_list keys, values; /* of run.json: "machine.blas", "run.protocol", …; the items of a list are joined with ", " */
    l3a_results *results;
    text_list methods, seeds; /* requested, whether or not they have results */
    size_t first_series, series_count;
    bool finished;
};

struct series {
    const struct report_run *run;
    const char *method;
    const char *help; /* what the method is; "" if unknown */
    char *label;
    l3a_summary summary;
    size_t rows;     /* phases that at least one seed has */
    size_t last_row; /* of the first seed, in the results */
    double gap;      /* last mAP of the run's `joint` minus this one's; NaN: joint was not run, or is this series */
};

/* A chart in a file of its own (report_figures.c). */
struct figure {
    char *name, *title;
    char *bytes;
    size_t length;
};

struct report {
    l3a_context *context;
    const l3a_report_options *options;
    method_table *method_at;
    struct report_run *runs;
    size_t run_count;
    struct series *series;
    size_t series_count;
    text_builder page, links; /* the body, and the list of its sections */
    struct canvas canvas;     /* the page, or the figure that is being drawn; then the page is made all the same, and dropped */
    text_builder drawing;     /* of that figure */
    struct figure *figures;
    size_t figure_count, figure_capacity;
    bool has_boxes; /* on pictures: the page needs report_box_style */
};

/* An empty report that is drawn on its page. */
void report_begin(struct report *report, l3a_context *context, const l3a_report_options *options, method_table *method_at);
/* Reads the runs, and prints all sections. */
l3a_status report_print(struct report *report, const char *const *folders, size_t count);
l3a_status report_load(struct report *report, const char *const *folders, size_t count);
void report_free(struct report *report);

/* A value of run.json, or "" if there is none. */
const char *run_record(const struct report_run *run, const char *key);

enum measure { MEAN_AP, CLASS_F1, OVERALL_F1, BASE_AP, NEW_AP };
/* The mean and standard deviation over seeds after the phase that ends with class `last`. Returns the number of seeds that have it.
 */
size_t phase_value(const struct series *series, size_t last, enum measure measure, double value[2]);
/* The ends of the phases of all series, or of `only` if it is not NULL, in rising order; at most `limit`. */
size_t phase_ends(const struct report *report, const struct series *only, size_t *ends, size_t limit);
/* The mean over seeds of a class's AP after the phase that ends with class `last`; NaN if there is none. */
double class_precision(const struct series *series, size_t last, size_t k);

/* The sections of the page, in order. A section with nothing to show prints nothing. */
void report_headline(struct report *report);
l3a_status report_phases(struct report *report);
void report_paper(struct report *report);
l3a_status report_classes(struct report *report);
l3a_status report_pictures(struct report *report);
l3a_status report_record(struct report *report);

/* A section with its heading, the id that links use, and an optional first paragraph. */
void section_begin(struct report *report, const char *id, const char *heading, const char *text);
void section_end(struct report *report);
/* The series with their colours, if there is more than one. */
void report_legend(struct report *report);
/* What a chart is as a figure of its own. */
struct figure_plan {
    const char *name;    /* of its file, without the ending */
    const char *of;      /* appended to the name, with all but plain characters replaced; may be NULL */
    const char *title;   /* what it shows, for programs */
    const char *heading; /* printed above it; may be NULL: its axes say enough */
    double width;        /* of one of its drawings; 0: that of a chart */
    bool with_legend;    /* the last one */
};

/* Enclose what is drawn on the canvas for a chart. On a page they do nothing. */
void figure_begin(struct report *report, const struct figure_plan *plan);
void figure_end(struct report *report, const struct figure_plan *plan);
/* Enclose a chart's table of numbers. */
void numbers_begin(struct report *report);
void numbers_end(struct report *report);

extern const char report_style[], report_box_style[], figure_style[];

#endif
