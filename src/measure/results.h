/* The numbers of a run: one row per method, class order, seed and phase, with details of each class, and the seconds of each stage,
 * in memory and in CSV files. Rows are sorted by these four, in whatever order they are added. */
#ifndef L3A_RESULTS_H
#define L3A_RESULTS_H

#include "base/memory.h"
#include "measure/metrics.h"
#include "measure/tables.h"
#include "l3a/l3a_experiment.h"

/* For each of a row's `last` classes. */
struct class_details {
    double *average_precision;
    l3a_class_tally *tallies; /* NULL: not recorded */
    float *curves;            /* [last x CURVE_POINTS] of measure_curves(); NULL: not recorded */
    size_t order;             /* of these classes: one of the results' orders */
};

void details_free(l3a_context *context, struct class_details *details);

/* A method with a class order and a seed: all its phases are one pass through the protocol. */
struct trial {
    const char *method;
    uint64_t seed;
    size_t order;
};

struct stage_time {
    const char *method;
    uint64_t seed;
    size_t phase, order;
    char stage[16];
    double seconds;
    uint64_t peak_memory; /* of the process so far */
};

struct l3a_results {
    l3a_context *context;
    text_list methods;    /* the names that rows point to, in the order in which rows are sorted */
    text_list sources;    /* the file that each of these was joined from; those past the end, and "", are the run's own */
    text_list thresholds; /* above which each of these predicts, as threshold_describe() says it; those past the end are unknown */
    uint64_t *seeds;      /* in the same way */
    size_t seed_count, seed_capacity;
    text_list classes; /* in the run's first order */
    text_list orders;  /* what the class orders are called, if there are several; otherwise empty */
    size_t *positions; /* [orders x classes]: where each class of an order is in `classes`; NULL: there is one order */
    l3a_result *rows;
    struct class_details *details; /* of each row */
    size_t count, capacity;
    struct stage_time *stages;
    size_t stage_count, stage_capacity;
    struct tables tables; /* of the folder */
    bool cut;             /* rows were removed since the tables were written */
};

l3a_status results_create(l3a_context *context, l3a_results **results);
/* Sets the order of rows. Methods and seeds not listed here come after these, in the order in which they are first added. */
l3a_status results_expect(l3a_results *results, const char *const *methods, size_t method_count, const uint64_t *seeds,
                          size_t seed_count);
/* Gives the results several class orders: positions [count x classes] as in the struct. The classes must be there already. */
l3a_status results_set_orders(l3a_results *results, const char *const *orders, size_t count, const size_t *positions);
/* The place of a class, counted from 0 in `classes`, in a class order. */
size_t results_place(const l3a_results *results, size_t order, size_t class_index);
/* Copies the row and its details; tallies and curves may be NULL. */
l3a_status results_add(l3a_results *results, const l3a_result *row, const struct class_details *details);
l3a_status results_add_stage(l3a_results *results, const struct stage_time *stage);
/* Stores the seconds of the context's stages for the phase of a row, replacing those stored before. There is always a stage "save",
 * with 0 seconds if nothing has been saved yet. */
l3a_status results_keep_stages(l3a_results *results, const l3a_result *row, size_t order);
/* The number of rows of a trial. */
size_t results_rows_of(const l3a_results *results, const struct trial *trial);
/* Removes the rows and stages of a trial after phase `keep`. */
void results_cut(l3a_results *results, const struct trial *trial, size_t keep);
/* Writes per_class.csv, metrics.csv and, if there are stages, timings.csv. At all times, per_class.csv has the classes of every row
 * of metrics.csv. */
l3a_status results_write(l3a_results *results, const char *folder);
l3a_status results_write_stages(l3a_results *results, const char *folder);
/* Adds the contents of the files, if they exist. */
l3a_status results_read(l3a_results *results, const char *folder);

/* Records above which threshold a method predicts, and tells: "" if it is unknown. */
l3a_status results_set_threshold(l3a_results *results, const char *method, const char *threshold);
const char *results_threshold(const l3a_results *results, const char *method);
/* The same of the file that a method's results were joined from: "" if the run measured them. */
l3a_status results_set_source(l3a_results *results, const char *method, const char *source);
/* Removes all methods from number `kept` on, with their rows. */
void results_forget_methods(l3a_results *results, size_t kept);

/* What a trial comes to, in the order of l3a_summary. */
enum trial_value { AVERAGE_MAP, LAST_MAP, LAST_CLASS_F1, LAST_OVERALL_F1, FORGETTING, BASE_MAP, NEW_MAP, TRIAL_VALUES };
/* The values of the trial whose first phase is row `first`; NaN: not recorded. Returns its last row. */
size_t results_trial(const l3a_results *results, size_t first, double values[TRIAL_VALUES]);

/* The mean and the standard deviation of a sample; the deviation of one value is 0. Start from zeroes. */
struct spread {
    size_t count;
    double sum, squares;
};
void spread_add(struct spread *spread, double value);
void spread_finish(const struct spread *spread, double result[2]);

#endif
