/* The numbers of a run: a row for each method, seed and phase, with what is known of each class, and the seconds of each stage;
 * kept in memory and in CSV files. Rows are sorted by method, seed and phase, whatever order they are added in. */
#ifndef L3A_RESULTS_H
#define L3A_RESULTS_H

#include "base/memory.h"
#include "measure/metrics.h"
#include "report/tables.h"

/* Of a row's `last` classes. */
struct class_details {
    double *average_precision;
    l3a_class_tally *tallies; /* NULL: not recorded */
    float *curves;            /* [last x CURVE_POINTS] of measure_curves(); NULL: not recorded */
};

void details_free(l3a_context *context, struct class_details *details);

struct stage_time {
    const char *method;
    uint64_t seed;
    size_t phase;
    char stage[16];
    double seconds;
    uint64_t peak_memory; /* of the process, up to then */
};

struct l3a_results {
    l3a_context *context;
    text_list methods; /* the names that rows point to, in the order of rows */
    uint64_t *seeds;   /* in the order of rows */
    size_t seed_count, seed_capacity;
    text_list classes; /* in the run's order */
    l3a_result *rows;
    struct class_details *details; /* of each row */
    size_t count, capacity;
    struct stage_time *stages;
    size_t stage_count, stage_capacity;
    struct tables tables; /* of the folder */
    bool cut;             /* rows were removed since the tables were written */
};

l3a_status results_create(l3a_context *context, l3a_results **results);
/* The order of rows. Methods and seeds that are not named here come after these, in the order in which they are first added. */
l3a_status results_expect(l3a_results *results, const char *const *methods, size_t method_count, const uint64_t *seeds,
                          size_t seed_count);
/* Copies the row and its details; tallies and curves may be NULL. */
l3a_status results_add(l3a_results *results, const l3a_result *row, const struct class_details *details);
/* Keeps the seconds that the context's stages have taken in the phase of a row, in place of what was kept of it before. A stage
 * "save" is always among them, with 0 seconds before there has been one. */
l3a_status results_keep_stages(l3a_results *results, const l3a_result *row);
/* Number of rows of a method and seed. */
size_t results_rows_of(const l3a_results *results, const char *method, uint64_t seed);
/* Removes the rows and stages of a method and seed after phase `keep`. */
void results_cut(l3a_results *results, const char *method, uint64_t seed, size_t keep);
/* Writes per_class.csv, metrics.csv and, where there are stages, timings.csv. At every moment each row of metrics.csv has its
 * classes in per_class.csv. */
l3a_status results_write(l3a_results *results, const char *folder);
l3a_status results_write_stages(l3a_results *results, const char *folder);
/* A text as a field of a CSV file: in quotes where it must be. */
void print_field(text_builder *text, const char *field);
/* Adds what the files hold; nothing when there are none. */
l3a_status results_read(l3a_results *results, const char *folder);

#endif
