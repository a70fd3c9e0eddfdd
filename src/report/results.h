/* The numbers of a run: a row for each method, seed and phase, with the AP of each class; kept in memory and in two CSV files. */
#ifndef L3A_RESULTS_H
#define L3A_RESULTS_H

#include "base/memory.h"

struct l3a_results {
    l3a_context *context;
    text_list methods; /* the names that rows point to */
    text_list classes; /* in the run's order */
    l3a_result *rows;
    double **average_precision; /* of each row: its `last` classes */
    size_t count, capacity;
};

l3a_status results_create(l3a_context *context, l3a_results **results);
/* Copies the row and its AP. */
l3a_status results_add(l3a_results *results, const l3a_result *row, const double *average_precision);
/* Number of rows of a method and seed. */
size_t results_rows_of(const l3a_results *results, const char *method, uint64_t seed);
/* Removes the rows of a method and seed after phase `keep`. */
void results_cut(l3a_results *results, const char *method, uint64_t seed, size_t keep);
/* Writes per_class.csv, then metrics.csv: a row of the second has its classes in the first. */
l3a_status results_write(const l3a_results *results, const char *folder);
/* Adds what the two files hold; nothing when there are none. */
l3a_status results_read(l3a_results *results, const char *folder);

#endif
