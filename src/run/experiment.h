/* What runs and sweeps share: the tables, and the order of their classes. */
#ifndef L3A_EXPERIMENT_H
#define L3A_EXPERIMENT_H

#include "base/memory.h"
#include "method/options.h"

enum { PHASES = 1024 };

struct run {
    l3a_context *context;
    const l3a_run_options *options;
    l3a_options settings;
    size_t classes, phases;
    const char **names; /* in the run's order */
    size_t *order;      /* of the training table's columns */
    size_t *test_order; /* of the test table's columns */
    size_t edges[PHASES + 1];
    char *record_path, *model_path, *partial_path;
    l3a_results *results;
};

/* The settings that the options give, or the defaults. */
l3a_options run_settings(const l3a_run_options *options);
/* Checks the options, and fills in what follows from the tables and the protocol. */
l3a_status run_create(l3a_context *context, const l3a_run_options *options, struct run *run);
void run_free(struct run *run);
/* Sets a row's base_map and new_map from scores and labels [rows x row->last]. The row's classes must be set. */
l3a_status measure_parts(const struct run *run, const float *scores, const int8_t *labels, size_t rows, l3a_result *row);
/* Warns if only one of the two tables ignores difficult objects. */
void warn_of_difficult(l3a_context *context, const l3a_features *train, const l3a_features *test);

#endif
