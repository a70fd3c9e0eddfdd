/* A search for the solutions of many systems at once, by preconditioned conjugate gradients (part_solve.h). */
#ifndef L3A_PART_SEARCH_H
#define L3A_PART_SEARCH_H

#include "learn/part_solve.h"
#include "learn/part_systems.h"

struct search {
    struct ridge *ridge;
    size_t parts, columns;
    double alpha, limit;
    struct systems systems; /* the classes of the columns are in its order */
    double *ahead;          /* [columns x d], by class: about how far the solution is from its start; NULL: not known */

    struct vectors target, solution, residual, direction; /* of each column */
    struct vectors from, image; /* of the columns that are worked on: what M is applied to, and the result */
    struct vectors narrow;      /* of the same: P⁻¹ residual, in single precision */
    double *rows;               /* [columns x d]: vectors on their way */
    double *decrease;           /* rᵀP⁻¹r of each column */
    size_t *going;              /* the columns that are worked on: those that have not converged */
    size_t going_count;
    struct mixture *mixtures; /* their systems */
    double *dots, *factors;   /* [2 x columns] */
};

/* Its systems are there already. If this fails, it is to be closed all the same. */
l3a_status search_open(struct search *search);
void search_close(struct search *search);
/* The factor of P. If there is one from before the sums last changed, it serves as well, because P has hardly changed, and it costs
 * nothing. *good: whether there is a factor, and rounding does not matter. */
l3a_status search_factor(const struct search *search, bool anew, double *scale, bool *good);
/* Searches for the columns of all classes. *found: it is not tried where rounding matters. */
l3a_status search_run(struct search *search, bool anew, const struct search_end *end, double error, bool *found);
/* Conjugate gradients on all columns at once, from their residuals. *found: whether they have converged. */
l3a_status search_descend(struct search *search, bool *found);
/* The square of the relative error at which rᵀP⁻¹r / xᵀc ends a search, with P of this scale. */
double search_limit(const struct search *search, double error, double scale);
/* rows = what an end has, in the order of the search */
void search_take(const struct search *search, const double *values);
/* Keeps where a search has ended, before the lift is added; if there is no memory for that, the next one begins anew. */
l3a_status search_keep_end(struct search *search, bool found, struct search_end *end);

#endif
