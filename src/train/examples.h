/* The pictures of a data set that are trained on or validate, and what of their labels is looked at: those of the classes that are
 * learned, and no others. */
#ifndef L3A_EXAMPLES_H
#define L3A_EXAMPLES_H

#include "base/memory.h"

struct examples {
    const l3a_dataset *dataset;
    size_t *columns; /* of the classes, in the data set */
    size_t classes;
    size_t *rows; /* of the data set, in its order */
    size_t count;
};

/* Chooses all pictures with a known label of the classes; listed: only those that belong to the phase of one of them. A class that
 * the data set does not have is an error. */
l3a_status examples_choose(l3a_context *context, const l3a_dataset *dataset, const char *const *classes, size_t class_count,
                           bool listed, struct examples *examples);
/* Moves a share of the rows, drawn by the seed, to `held`; too few stay where they are. */
l3a_status examples_hold(l3a_context *context, double share, uint64_t seed, struct examples *examples, struct examples *held);
/* Fills in the labels [count x classes] of rows of the data set. */
void examples_labels(const struct examples *examples, const size_t *rows, size_t count, int8_t *labels);
/* A checksum of which pictures they are, by their ids, and of their labels and the names of the classes. */
l3a_status examples_checksum(l3a_context *context, const struct examples *examples, uint64_t *checksum);
void examples_free(l3a_context *context, struct examples *examples);

#endif
