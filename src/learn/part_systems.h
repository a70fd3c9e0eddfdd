/* The systems of a model with parts: M_k for every class k (part.h). */
#ifndef L3A_PART_SYSTEMS_H
#define L3A_PART_SYSTEMS_H

#include "learn/part.h"

/* Classes that are judged by the same parts share a system. With α = 1 there is only one. */
struct system {
    size_t first, last;              /* its classes are order[first] … order[last - 1] */
    const struct scatter **scatters; /* of the parts that judge them; none with α = 1 */
    size_t count;
};

struct systems {
    struct system *items;
    size_t count;
    size_t *order;
    const struct scatter **scatters; /* of all systems, one after another */
};

l3a_status systems_find(l3a_context *context, const struct part *parts, size_t count, double alpha, size_t columns,
                        struct systems *systems);
void systems_free(l3a_context *context, struct systems *systems);
/* Factors M of a system, so that sums_solve() can solve it. The ridge's sums hold S or, without parts, A. */
l3a_status system_factor(const struct system *system, struct ridge *ridge, double alpha);

#endif
