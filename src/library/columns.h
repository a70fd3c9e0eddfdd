/* Scores of all slots, by class: columns in blocks of SCORE_BLOCK slots, as float16. Besides the classes, two columns say what
 * holds for a picture as a whole.
 *
 * +infinity: somebody said that the picture shows the class; -infinity: that it does not; NaN: not scored yet. */
#ifndef L3A_COLUMNS_H
#define L3A_COLUMNS_H

#include "library/database.h"

#include <math.h>

enum { SCORE_BLOCK = 4096 };
/* Columns that are not of a class: how much in doubt the picture is, 1 (a score is at its threshold) to 0; and flags, as numbers.
 */
enum { COLUMN_DOUBT = -1, COLUMN_FLAGS = -2 };
/* From here on, a score or a picture counts as unsure. */
#define UNSURE 0.7f
/* How much in doubt a score is at this distance from its threshold; infinity: somebody has said it, and it is not. */
static inline float doubt_of(float distance) {
    return distance < INFINITY ? 1 / (1 + 10 * distance) : 0;
}
enum { FLAG_TAGGED = 1 /* said or predicted */, FLAG_SAID = 2 /* anything, even that it shows none */, FLAG_SCORED = 4 };

struct column {
    int64_t class;
    float *values; /* [slots] */
    uint64_t used; /* when it was asked for */
};

struct columns {
    l3a_context *context;
    struct column *items;
    size_t count, capacity;
    size_t slots;
    int64_t scored; /* up to which they are */
    uint64_t clock;
};

/* The column of a class, which stays valid until the next call of columns_update(). */
l3a_status columns_get(struct columns *columns, struct database *database, int64_t class, const float **values);
/* Forgets columns that have changed since, and those that were not used for long. slots: how many there are. */
l3a_status columns_update(struct columns *columns, struct database *database, size_t slots);
void columns_free(struct columns *columns);

/* The number of a class, 0 if the index does not have it, and the threshold that its scores were compared with. */
l3a_status class_find(struct database *database, const char *name, int64_t *class, double *threshold);

#endif
