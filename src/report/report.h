/* What the parts of a report share: the runs it tells of, and a series for each method of each. */
#ifndef L3A_REPORT_H
#define L3A_REPORT_H

#include "report/html.h"
#include "report/results.h"
#include "report/svg.h"

struct report_run {
    const char *folder;
    char *name;             /* as the page calls it */
    text_list keys, values; /* run.json: "machine.blas", "run.protocol", …; lists with ", " between their items */
    l3a_results *results;
    text_list methods, seeds; /* that were asked for */
    size_t first_series, series_count;
    bool finished;
};

struct series {
    const struct report_run *run;
    const char *method;
    const char *help; /* what the method is; "" where unknown */
    char *label;
    l3a_summary summary;
    size_t rows;     /* phases that at least one seed has */
    size_t last_row; /* of the first seed, in the results */
    double gap;      /* last mAP of the run's `joint` less this one's; NaN: not run, or this is it */
};

struct report {
    l3a_context *context;
    const l3a_report_options *options;
    struct report_run *runs;
    size_t run_count;
    struct series *series;
    size_t series_count;
    text_builder page, links; /* the body, and the list of its sections */
};

l3a_status report_load(struct report *report, const char *const *folders, size_t count);
void report_free(struct report *report);

/* A value of run.json, "" where there is none. */
const char *run_record(const struct report_run *run, const char *key);

enum measure { MEAN_AP, CLASS_F1, OVERALL_F1, BASE_AP, NEW_AP };
/* The mean over seeds and the deviation of a series after the phase that ends with class `last`; 0 seeds: it has none. */
size_t phase_value(const struct series *series, size_t last, enum measure measure, double value[2]);
/* Where the phases of all series end, rising; at most `limit`. */
size_t phase_edges(const struct report *report, const struct series *only, size_t *edges, size_t limit);
/* AP of a class after the phase that ends with class `last`, a mean over seeds; NaN where there is none. */
double class_precision(const struct series *series, size_t last, size_t k);

/* The parts of the page, in its order; one that has nothing to tell prints nothing. */
void report_headline(struct report *report);
l3a_status report_phases(struct report *report);
void report_paper(struct report *report);
l3a_status report_classes(struct report *report);
l3a_status report_pictures(struct report *report);
l3a_status report_record(struct report *report);

/* A section with its heading; an id for links. */
void section_begin(struct report *report, const char *id, const char *heading, const char *text);
void section_end(struct report *report);
/* The series with their colours, where there are several. */
void report_legend(struct report *report);
/* Around a chart's numbers. */
void numbers_begin(struct report *report);
void numbers_end(struct report *report);

extern const char report_style[];

#endif
