/* Batches of pictures for training: rows of a data set, decoded ahead and changed at random.
 *
 * A pass delivers every row once. Its order and what happens to each picture are functions of the seed, the epoch and the row, so a
 * pass can begin at any of its batches, and its numbers are the same with any number of threads. */
#ifndef L3A_BATCHES_H
#define L3A_BATCHES_H

#include "image/augment.h"

struct batches_options {
    const l3a_loader_options *loader; /* NULL: the defaults */
    struct augmentation augmentation;
    uint64_t seed;
    size_t batch;  /* rows of a batch; the last one of a pass may have fewer */
    bool shuffled; /* in an order drawn for each epoch; otherwise as they are listed */
};

struct picture_batch {
    size_t count;        /* 0: the pass is over */
    const size_t *rows;  /* of the data set */
    const float *planes; /* [count x rows of an image x 3 x height x width], scaled and centred */
};

struct batches;

/* The data set must outlive the batches; the list of rows is copied. */
l3a_status batches_open(l3a_context *context, const l3a_dataset *dataset, const size_t *rows, size_t row_count,
                        const struct batches_options *options, struct batches **batches);
/* Begins a pass at this batch of it; pictures of an earlier pass that were not delivered are dropped. */
l3a_status batches_begin(struct batches *batches, uint64_t epoch, size_t first_batch);
/* The next batch, valid until the next call. A picture that cannot be read ends the pass with its error, because training without
 * it could not be repeated. No events are sent. */
l3a_status batches_next(struct batches *batches, struct picture_batch *batch);
void batches_free(struct batches *batches);

#endif
