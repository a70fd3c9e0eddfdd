/* Ridge regression, phase after phase, on the rows of any layer, for methods with a layer of their own:
 *
 *   A += Xᵀ Ω X     C += Xᵀ Ω Y     (A + γI) W = C
 *
 * Targets of old classes on new rows are 0, so a phase adds only to its own columns of C. */
#ifndef L3A_REGRESSION_H
#define L3A_REGRESSION_H

#include "algebra/ridge.h"
#include "method/state.h"

struct regression {
    l3a_context *context;
    struct layer layer;
    struct ridge ridge;
    size_t classes, first;    /* learned so far; the first of the phase in progress */
    double *cross;            /* C [d x classes] */
    struct solution solution; /* W */
    struct block rows;        /* of the phase in progress */
};

/* regression_free() may be called afterwards, even after a failure. */
l3a_status regression_create(l3a_context *context, const struct layer_shape *shape, double gamma, struct regression *regression);
void regression_free(struct regression *regression);
/* Begins a phase with new classes. */
l3a_status regression_begin(struct regression *regression, size_t new_classes);
/* features [count x width], weights ω [count], targets [count x new classes]. No call of a phase has more rows than its first. */
l3a_status regression_add(struct regression *regression, const float *features, const double *weights, const double *targets,
                          size_t count);
l3a_status regression_end(struct regression *regression);
/* scores [count x classes] = keep · scores + scale · X W */
l3a_status regression_score(const struct regression *regression, const float *features, size_t count, double scale, double keep,
                            float *scores);
/* What it keeps between phases: A as sums of that name, and C as "NAME.cross". Loading is for a new regression with the same layer;
 * W is solved in the next phase. */
l3a_status regression_save(const struct regression *regression, const char *name, l3a_state *into);
l3a_status regression_load(struct regression *regression, const char *name, const l3a_state *from);
/* The same for the A and the C of other sums. *cross: NULL before loading. */
l3a_status save_sums(const struct sums *sums, const double *cross, size_t classes, const char *name, l3a_state *into);
l3a_status load_sums(struct sums *sums, double **cross, size_t classes, const char *name, const l3a_state *from);

#endif
