/* What replay methods keep of earlier phases: features of some images, with the labels that were given when they were seen. */
#ifndef L3A_REPLAY_H
#define L3A_REPLAY_H

#include "base/memory.h"
#include "method/stream.h"

/* The training rows of a phase. */
struct rows {
    size_t count, inputs;
    size_t classes;  /* that are new in the phase */
    float *features; /* [count x inputs], the last of a row being 1 */
    int8_t *labels;  /* [count x classes]; 1: present */
};

struct memory {
    size_t count, capacity, inputs, classes;
    float *features; /* [capacity x inputs] */
    int8_t *labels;  /* [capacity x classes]; 0 as well where none was given */
    size_t hold_out; /* each so many-th row is not trained on; 0: all are */
    size_t *order;   /* [capacity], of a draw */
    uint64_t seen;   /* rows that were offered to the reservoir */
};

/* Room for so many rows and classes; what is there stays. */
l3a_status memory_resize(l3a_context *context, struct memory *memory, size_t capacity, size_t classes);
void memory_free(l3a_context *context, struct memory *memory);
/* A slot becomes a row of a phase whose classes are the memory's last. */
void memory_set(struct memory *memory, size_t slot, const struct rows *rows, size_t row);
/* Different slots at random, at most as many as there are rows. Returns how many. */
size_t memory_draw(struct memory *memory, struct stream *random, size_t count, size_t *slots);
bool memory_holds_out(const struct memory *memory, size_t slot);

/* Reservoir sampling (Vitter 1985, algorithm R): the n-th row offered takes a free slot, or else, with probability
 * capacity / n, that of a random row. Returns its slot, or SIZE_MAX where it is not kept. */
size_t memory_offer(struct memory *memory, struct stream *random, const struct rows *rows, size_t row);

struct head;
struct batch;
/* Rules' prepare() and stepped() for a reservoir, which is offered every image once, in the last pass over its phase. */
l3a_status memory_prepare_reservoir(struct head *head, struct rows *rows);
void memory_offer_shown(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch);
/* Adds the rows that are marked. */
l3a_status memory_keep(struct head *head, const struct rows *rows, const bool *kept);
/* Rules' finish(): keeps as many images of each class of the phase as the settings say, chosen at random; an image that several
 * classes choose is kept once. */
l3a_status memory_keep_random(struct head *head, const struct rows *rows);

#endif
