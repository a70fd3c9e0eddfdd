/* What the sections of a report share: its runs, and one series for each method of each run. */
#ifndef L3A_REPORT_H
#define L3A_REPORT_H

#include "report/html.h"
#include "measure/compare.h"
#include "report/svg.h"
#include "l3a/l3a_experiment.h"

/* What a report knows about methods: each in order, NULL past the last; and the setting that one has its threshold from. */
struct method_table {
    const l3a_method_info *(*at)(size_t index);
    const char *(*threshold)(const char *name);
};

/* l3a_report_write() with the methods that the page can describe. */
l3a_status report_write(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                        const struct method_table *methods, const char *path);
/* l3a_results_load(), with the same methods. */
l3a_status report_results(l3a_context *context, const char *folder, const struct method_table *methods, l3a_results **results);
/* l3a_report_figures(), with the same methods. */
l3a_status report_figures(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                          const struct method_table *methods, const char *format, const char *folder);
/* l3a_report_table(), with the same methods. */
l3a_status report_table(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                        const struct method_table *methods, const char *format, text_builder *text);

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
    const char *help;   /* what the method is; "" if unknown */
    const char *source; /* the file that it was joined from; "": measured by the run */
    char *label;
    l3a_summary summary;
    size_t rows;     /* phases that at least one seed has */
    size_t last_row; /* of the first seed, in the results */
    const char *threshold;
    const char *bound; /* the run's joint+ or joint, if it was run and is not this series … */
    double gap;        /* … and its last mAP minus this one's; otherwise NaN */
};

/* A chart in a file of its own (report_figures.c). */
struct figure {
    char *name, *title;
    char *bytes;
    size_t length;
};

/* The grid that a page is about (report_sweep.c); the page's runs are its points. */
struct report_sweep {
    char *name;        /* as the page calls it */
    text_list axes;    /* the settings that vary */
    text_list *values; /* of each of them, as they were asked for */
    size_t *chosen;    /* [runs x axes]: which of these a run has; SIZE_MAX: its method does not use the setting */
    text_list methods; /* in the order of the sweep */
    text_list folders; /* of the points */
};

struct report {
    l3a_context *context;
    const l3a_report_options *options;
    const struct method_table *methods;
    struct report_run *runs;
    size_t run_count;
    struct series *series;
    size_t series_count;
    l3a_difference *differences; /* [SUMMARY_COLUMNS x series] */
    struct report_sweep *sweep;  /* NULL: the page is about runs */
    bool by_grid;                /* the points of a sweep are in the order of its grid; otherwise the best comes first */
    text_builder page, links;    /* the body, and the list of its sections */
    struct canvas canvas;        /* the page, or the figure that is being drawn; then the page is made all the same, and dropped */
    text_builder drawing;        /* of that figure */
    struct figure *figures;
    size_t figure_count, figure_capacity;
    bool has_boxes; /* on pictures: the page needs report_box_style */
};

/* An empty report that is drawn on its page. */
void report_begin(struct report *report, l3a_context *context, const l3a_report_options *options,
                  const struct method_table *methods);
/* Writes the page with its head and foot: what it is about, and a sentence that says where its numbers are. */
l3a_status report_save(struct report *report, const char *subject, const char *numbers, const char *path);
/* Reads the runs, and prints all sections. */
l3a_status report_print(struct report *report, const char *const *folders, size_t count);
l3a_status report_load(struct report *report, const char *const *folders, size_t count);
void report_free(struct report *report);

/* Reads a run.json or sweep.json. */
l3a_status load_record(l3a_context *context, const char *path, struct report_run *run);
/* Appends the items of a list in it. */
l3a_status split_items(l3a_context *context, const char *text, text_list *items);
/* The last part of a folder's path. */
const char *short_name(const char *folder, size_t *length);
/* A value of run.json, or "" if there is none. */
const char *run_record(const struct report_run *run, const char *key);

/* Whether a series is the first of those that were joined from a file. */
bool begins_source(const struct report *report, size_t index);

enum measure { MEAN_AP, CLASS_F1, OVERALL_F1, BASE_AP, NEW_AP };
/* The mean and standard deviation over seeds after the phase that ends with class `last`. Returns the number of seeds that have it.
 */
size_t phase_value(const struct series *series, size_t last, enum measure measure, double value[2]);
/* The ends of the phases of all series, or of `only` if it is not NULL, in rising order; at most `limit`. */
size_t phase_ends(const struct report *report, const struct series *only, size_t *ends, size_t limit);
/* The mean over seeds of a class's AP after the phase that ends with class `last`, in the first class order or, if they all have
 * learned the class by then, in all of them; NaN if there is none. k counts in the first class order. */
enum orders { FIRST_ORDER, ALL_ORDERS };
double class_precision(const struct series *series, size_t last, size_t k, enum orders orders);

/* report_compare.c. The columns of a summary: avg mAP, last mAP, CF1, OF1, forgetting, which are the first of enum trial_value. */
enum { SUMMARY_COLUMNS = FORGETTING + 1 };
/* Two runs are comparable if their task is the same: protocol, classes and test rows. */
bool are_comparable(const struct report_run *left, const struct report_run *right);
/* Compares all series with the best of the comparable ones, if their runs are finished. */
l3a_status compare_series(struct report *report);
/* What came of it. */
const l3a_difference *series_difference(const struct report *report, const struct series *series, size_t column);
/* Whether a number is bold: that of the best, and those that may be as good. */
bool is_best(const struct report *report, const struct series *series, size_t column);
/* The most pairs that a comparison has. */
size_t most_pairs(const struct report *report, size_t column);
/* report_significance.c. A sentence that says what is bold, or why nothing is; and the table of differences, if there are several
 * pairs. */
void print_bold_rule(const struct report *report, text_builder *text);
void print_differences(struct report *report);
/* report_csv.c. The rows of all series. */
void print_csv_table(const struct report *report, text_builder *text);
/* One sentence about all series, if their runs are finished and comparable; appends nothing otherwise. */
l3a_status report_verdict(const struct report *report, text_builder *text);
/* The same as a paragraph of the page. */
l3a_status print_verdict(struct report *report);
/* Whether the series predict above different thresholds. */
bool has_mixed_thresholds(const struct report *report);
/* A sentence that says which: "CF1 and OF1 depend on the threshold: σ > 0.5 (l3a, joint), fitted per class (l3a+)." */
void print_thresholds(const struct report *report, text_builder *text);

/* The paper's rows for a run's data set and protocol, in order, and what the data set is called; NULL past the last. */
const l3a_published *published_at(const struct report_run *run, size_t index);
const char *published_data(const struct report_run *run);
enum { PAPER_COLUMNS = 4 }; /* avg mAP, last mAP, CF1, OF1; NaN: the paper does not have it */
void published_values(const l3a_published *row, double values[PAPER_COLUMNS]);

/* report_sweep.c. Whether the folder is that of a sweep; and its points, to be read as runs. */
l3a_status sweep_find(struct report *report, const char *folder, bool *found);
/* Puts the points in order. The runs have been read, but have no series yet. */
l3a_status sweep_sort(struct report *report);
/* The value that a point has for a setting that varies; NULL if its method does not use the setting. */
const char *sweep_value(const struct report *report, const struct report_run *run, size_t axis);
void sweep_free(struct report *report);
/* The section about the settings; nothing on a page about runs. */
l3a_status report_settings(struct report *report);

/* The sections of the page, in order. A section with nothing to show prints nothing. */
l3a_status report_headline(struct report *report);
l3a_status report_phases(struct report *report);
void report_paper(struct report *report);
l3a_status report_classes(struct report *report);
l3a_status report_pictures(struct report *report);
l3a_status report_record(struct report *report);

/* A section with its heading, the id that links use, and an optional first paragraph. */
void section_begin(struct report *report, const char *id, const char *heading, const char *text);
void section_end(struct report *report);
/* Whether a run has several class orders. */
bool has_orders(const struct report *report);
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

extern const char report_style[], report_box_style[], report_sweep_style[], figure_style[];

#endif
