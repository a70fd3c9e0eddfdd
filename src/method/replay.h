/* What replay methods keep of earlier phases: features of some images, with the labels that were given when they were seen. */
#ifndef L3A_REPLAY_H
#define L3A_REPLAY_H

#include "base/memory.h"
#include "base/stream.h"

/* The training images of a phase. */
struct rows {
    size_t count, inputs; /* images, and numbers in each: the features of its views, with a 1 after those of each */
    size_t classes;       /* that are new in the phase */
    float *features;      /* [count x inputs]; NULL while a network that makes them is being trained */
    int8_t *labels;       /* [count x classes]; 1: present */
    /* Methods that train the network: the rows of the table, and checksums of their files; 0: not read yet. NULL: features only. */
    uint64_t *pictures, *checksums;
};

struct memory {
    size_t count, capacity, inputs, classes;
    float *features;                /* [capacity x inputs] */
    int8_t *labels;                 /* [capacity x classes]; 0 also if none was given */
    uint64_t *pictures, *checksums; /* as of rows; [capacity] */
    bool of_pictures;
    size_t hold_out; /* every hold_out-th row is not trained on; 0: all are */
    size_t *order;   /* [capacity], work space of a draw */
    uint64_t seen;   /* rows offered to the reservoir */
};

/* Makes room for `capacity` rows and `classes` classes, and keeps what is there. */
l3a_status memory_resize(l3a_context *context, struct memory *memory, size_t capacity, size_t classes);
void memory_free(l3a_context *context, struct memory *memory);
/* Sets a slot to a row of a phase, whose classes are the memory's last. */
void memory_set(struct memory *memory, size_t slot, const struct rows *rows, size_t row);
/* Draws different slots at random, at most as many as there are rows. Returns their number. */
size_t memory_draw(struct memory *memory, struct stream *random, size_t count, size_t *slots);
bool memory_holds_out(const struct memory *memory, size_t slot);

/* Reservoir sampling (Vitter 1985, algorithm R): the n-th row offered takes a free slot or, if there is none, replaces a random
 * row with probability capacity / n. Returns its slot, or SIZE_MAX if it is not kept. */
size_t memory_offer(struct memory *memory, struct stream *random, const struct rows *rows, size_t row);

struct head;
struct batch;
/* prepare() and stepped() of rules with a reservoir, which is offered every image once, in the last pass over its phase. */
l3a_status memory_prepare_reservoir(struct head *head, struct rows *rows);
void memory_offer_shown(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch);
/* Offers the rows of a phase to a memory one after another, in random order. */
l3a_status memory_offer_shuffled(struct head *head, const struct rows *rows,
                                 void (*offer)(struct head *head, const struct rows *rows, size_t row));
/* Adds the rows marked in `kept`. */
l3a_status memory_keep(struct head *head, const struct rows *rows, const bool *kept);
/* finish() of rules that keep, at random, as many images of each class of the phase as the settings say. An image that several
 * classes choose is kept once. */
l3a_status memory_keep_random(struct head *head, const struct rows *rows);
/* The same, but chosen by herding on the features of the phase's images, which must be there. */
l3a_status memory_keep_herded(struct head *head, struct rows *rows);

#endif
