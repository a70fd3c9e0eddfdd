/* Ridge regression without weights on rows that some layer expanded, for methods with their own layer:
 *
 *   A += Xᵀ X     C += Xᵀ Y     (A + γI) W = C
 *
 * Targets of old classes on new rows are 0, so a phase adds only to its own columns of C. */
#ifndef L3A_RIDGE_H
#define L3A_RIDGE_H

#include "learn/analytic.h"

struct ridge {
    l3a_context *context;
    real type;
    struct analytic analytic;
    size_t classes, first; /* learned so far; the first of the phase in progress */
    double *cross;         /* C [d x classes] */
    void *weights;         /* W [d x classes], in the working precision */
    float *panel, *cross_block;
};

/* ridge_free() may be called afterwards, even after a failure. */
l3a_status ridge_create(l3a_context *context, size_t dim, double gamma, real type, struct ridge *ridge);
void ridge_free(struct ridge *ridge);
/* Begins a phase with new classes. */
l3a_status ridge_begin(struct ridge *ridge, size_t new_classes);
/* rows [count x d] in the working precision, targets [count x new classes] */
l3a_status ridge_add(struct ridge *ridge, const void *rows, const double *targets, size_t count);
l3a_status ridge_end(struct ridge *ridge);
/* scores [count x classes] = keep · scores + scale · X W */
l3a_status ridge_score(const struct ridge *ridge, const void *rows, size_t count, double scale, double keep, float *scores);

#endif
