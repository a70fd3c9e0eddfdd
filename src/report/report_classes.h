/* What the sections about classes share. */
#ifndef L3A_REPORT_CLASSES_H
#define L3A_REPORT_CLASSES_H

#include "report/report.h"

enum { PHASES = 1024 };

struct classes {
    struct report *report;
    const struct series *focus;     /* the first series, which is shown in detail */
    const l3a_class_tally *tallies; /* of its last phase; NULL: not recorded */
    size_t count;                   /* classes that it has learned */
    double *precision;              /* their AP after its last phase */
    size_t *order;                  /* by falling AP */
    double rare;                    /* a class with fewer images is called rare */
    size_t *ends;
    double *x, *y; /* buffers for a curve */
};

static inline size_t last_class(const struct series *series) {
    return series->run->results->rows[series->last_row].last;
}

static inline const char *class_name(const struct series *series, size_t k) {
    return series->run->results->classes.items[k];
}

/* report_forgetting.c */
l3a_status report_forgetting(const struct classes *c);
/* report_pseudo_labels.c */
void report_pseudo_labels(const struct classes *c);

#endif
