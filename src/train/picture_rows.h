/* The pictures that the rows of a table stand for, and reading them: some rows at a time, decoded ahead by other threads while the
 * network learns from what came before.
 *
 * What happens to a picture is a function of a seed and of its number, which are given with each row (image/augment.h). */
#ifndef L3A_PICTURE_ROWS_H
#define L3A_PICTURE_ROWS_H

#include "data/features.h"
#include "image/augment.h"

struct picture_rows {
    l3a_context *context;
    const l3a_dataset *dataset;
    size_t *rows; /* of each row of the table, its row in the data set */
    size_t count;
};

/* The rows of a table have the ids of their pictures or, in a table without ids, are those of the data set in order. Both must
 * outlive this. */
l3a_status picture_rows_open(l3a_features *table, const l3a_dataset *dataset, struct picture_rows *rows);
void picture_rows_close(struct picture_rows *rows);
/* The id of the picture, for messages. */
const char *picture_row_id(const struct picture_rows *rows, size_t row);

/* Reads pictures of such rows. */
struct picture_feed {
    l3a_context *context;
    const struct picture_rows *rows;
    const l3a_loader_options *loading;
    struct augmentation augmentation;
    l3a_loader *loader; /* NULL: nothing is being read */
    struct picture_source *sources;
    size_t *numbers, capacity, count;
};

/* What a feed refers to must outlive it. */
void picture_feed_open(l3a_context *context, const struct picture_rows *rows, const l3a_loader_options *loading,
                       const struct augmentation *augmentation, struct picture_feed *feed);
/* Begins to read rows; picture i is changed as the seed and numbers[i] say. Those of an earlier call that were not taken are
 * dropped. */
l3a_status picture_feed_begin(struct picture_feed *feed, const size_t *rows, const size_t *numbers, size_t count, uint64_t seed);
/* Waits for all of them: planes [count x 3 x height x width], and a checksum of the bytes of each file. A picture that cannot be
 * read is an error. */
l3a_status picture_feed_take(struct picture_feed *feed, float *planes, uint64_t *checksums);
void picture_feed_close(struct picture_feed *feed);

#endif
