/* The roots of mixtures: Y += share · Σ (X Rᵀ) R, for each mixture over its own roots.
 *
 * Many mixtures have many small roots in common, a few rows each. So the rows of all roots are multiplied together, some at a time,
 * with the vectors of all mixtures that have one of them, and products of vectors with rows that their mixture does not have are
 * set to 0. That is more arithmetic than is needed, but in two large matrix products instead of many thin ones. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct segment {
    size_t root, first, count; /* of the rows that are multiplied together */
};

struct joint {
    const struct mixture *mixtures;
    size_t count, dim;
    size_t *starts;               /* of the vectors of each mixture, and their end */
    const struct scatter **roots; /* of all mixtures, by address */
    size_t root_count, capacity;
    uint64_t *members; /* [mixtures x words]: a bit for each root that a mixture has */
    size_t words;
    size_t *ranges;           /* [2 x roots]: the first mixture that has a root, and the end of the last */
    double *wide, *products;  /* [strip x dim]; [vectors x strip] */
    struct segment *segments; /* [strip] */
};

size_t cpu_strip_rows(size_t dim) {
    enum { MOST = 256 };
    return dim < MOST ? dim : MOST;
}

static int compare_addresses(const void *left, const void *right) {
    const struct scatter *one = *(const struct scatter *const *)left, *other = *(const struct scatter *const *)right;
    return (one > other) - (one < other);
}

/* The number of a root, or `count`. The lists of mixtures are mostly sorted, so it is tried first whether it is number `next`. */
static size_t find_root(const struct joint *joint, size_t count, const struct scatter *root, size_t next) {
    if (next < count && joint->roots[next] == root) {
        return next;
    }
    const struct scatter **found = count ? bsearch(&root, joint->roots, count, sizeof *joint->roots, compare_addresses) : NULL;
    return found ? (size_t)(found - joint->roots) : count;
}

static bool counts(const struct scatter *scatter) {
    return scatter->is_root && scatter->rows;
}

static l3a_status list_roots(l3a_context *context, struct joint *joint) {
    l3a_status status = L3A_OK;
    for (size_t m = 0; m < joint->count; m++) {
        const size_t before = joint->root_count;
        for (size_t i = 0, next = 0; i < joint->mixtures[m].count; i++) {
            const struct scatter *root = joint->mixtures[m].scatters[i];
            const size_t at = counts(root) ? find_root(joint, before, root, next) : 0;
            next = at + 1;
            if (counts(root) && at == before) {
                TRY(grow_array(context, &joint->roots, &joint->capacity, joint->root_count + 1, sizeof *joint->roots));
                joint->roots[joint->root_count++] = root;
            }
        }
        if (joint->root_count > before) {
            qsort(joint->roots, joint->root_count, sizeof *joint->roots, compare_addresses);
        }
    }
done:
    return status;
}

/* Notes which mixture has which root. */
static void note_members(const struct joint *joint) {
    for (size_t r = 0; r < joint->root_count; r++) {
        joint->ranges[2 * r] = joint->count;
    }
    for (size_t m = 0; m < joint->count; m++) {
        for (size_t i = 0, next = 0; i < joint->mixtures[m].count; i++) {
            const struct scatter *root = joint->mixtures[m].scatters[i];
            if (counts(root)) {
                const size_t r = find_root(joint, joint->root_count, root, next);
                joint->members[m * joint->words + r / 64] |= (uint64_t)1 << r % 64;
                joint->ranges[2 * r] = joint->ranges[2 * r] < m ? joint->ranges[2 * r] : m;
                joint->ranges[2 * r + 1] = m + 1;
                next = r + 1;
            }
        }
    }
}

static l3a_status prepare(l3a_context *context, struct joint *joint) {
    l3a_status status = L3A_OK;
    TRY(list_roots(context, joint));
    joint->words = joint->root_count / 64 + 1;
    TRY(allocate(context, joint->count + 1, sizeof *joint->starts, &joint->starts));
    joint->starts[0] = 0;
    for (size_t m = 0; m < joint->count; m++) {
        joint->starts[m + 1] = joint->starts[m] + joint->mixtures[m].rows;
    }
    if (joint->root_count) {
        const size_t strip = cpu_strip_rows(joint->dim);
        TRY(allocate_zeroed(context, joint->count, joint->words * sizeof *joint->members, &joint->members));
        TRY(allocate_zeroed(context, joint->root_count, 2 * sizeof *joint->ranges, &joint->ranges));
        TRY(allocate(context, strip, joint->dim * sizeof *joint->wide, &joint->wide));
        TRY(allocate(context, joint->starts[joint->count], strip * sizeof *joint->products, &joint->products));
        TRY(allocate(context, strip, sizeof *joint->segments, &joint->segments));
        note_members(joint);
    }
done:
    return status;
}

/* Copies the next rows of roots, from row *row of root *root on; returns how many, with the number of segments. */
static size_t take_rows(const struct joint *joint, size_t *root, size_t *row, size_t *segments) {
    const size_t strip = cpu_strip_rows(joint->dim), dim = joint->dim;
    size_t taken = 0;
    for (*segments = 0; *root < joint->root_count && taken < strip; ++*segments) {
        const struct scatter *from = joint->roots[*root];
        const size_t left = from->rows - *row, count = left < strip - taken ? left : strip - taken;
        for (size_t i = 0; i < count * dim; i++) {
            joint->wide[taken * dim + i] = real_get(from->type, from->held, *row * dim + i);
        }
        joint->segments[*segments] = (struct segment){*root, taken, count};
        taken += count;
        *row += count;
        if (*row == from->rows) {
            *row = 0;
            ++*root;
        }
    }
    return taken;
}

/* Clears the products of vectors with rows that their mixture does not have. width: of a row of products, the first of which is
 * that of the mixture `first`. */
static void clear_others(const struct joint *joint, size_t first, size_t last, size_t segments, size_t width) {
    for (size_t m = first; m < last; m++) {
        for (size_t s = 0; s < segments; s++) {
            const struct segment *segment = &joint->segments[s];
            const bool has = joint->members[m * joint->words + segment->root / 64] >> segment->root % 64 & 1;
            for (size_t v = joint->starts[m]; !has && v < joint->starts[m + 1]; v++) {
                memset(joint->products + (v - joint->starts[first]) * width + segment->first, 0,
                       segment->count * sizeof *joint->products);
            }
        }
    }
}

static void multiply_strip(const struct joint *joint, int threads, size_t width, size_t segments, double share, const double *x,
                           double *y) {
    const size_t dim = joint->dim;
    size_t first = joint->count, last = 0;
    for (size_t s = 0; s < segments; s++) {
        const size_t *range = &joint->ranges[2 * joint->segments[s].root];
        first = range[0] < first ? range[0] : first;
        last = range[1] > last ? range[1] : last;
    }
    const size_t at = joint->starts[first], vectors = joint->starts[last] - at;
    matrix_multiply(threads, REAL_DOUBLE, false, true, vectors, width, dim, share, x + at * dim, dim, joint->wide, dim, 0,
                    joint->products, width);
    clear_others(joint, first, last, segments, width);
    matrix_multiply(threads, REAL_DOUBLE, false, false, vectors, dim, width, 1, joint->products, width, joint->wide, dim, 1,
                    y + at * dim, dim);
}

l3a_status cpu_add_roots(l3a_context *context, size_t dim, double share, const struct mixture *mixtures, size_t count,
                         const double *x, double *y) {
    struct joint joint = {.mixtures = mixtures, .count = count, .dim = dim};
    size_t root = 0, row = 0, width, segments;
    l3a_status status = L3A_OK;
    TRY(prepare(context, &joint));
    while ((width = take_rows(&joint, &root, &row, &segments))) {
        multiply_strip(&joint, context->threads, width, segments, share, x, y);
    }
done:
    release(context, joint.starts);
    release(context, joint.roots);
    release(context, joint.members);
    release(context, joint.ranges);
    release(context, joint.wide);
    release(context, joint.products);
    release(context, joint.segments);
    return status;
}
