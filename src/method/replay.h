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
    size_t hold_out; /* each so many-th row is never drawn; 0: all are */
    size_t *order;   /* of the rows that are drawn next */
    size_t drawn, drawable;
};

/* Room for so many rows and classes; what is there stays. */
l3a_status memory_resize(l3a_context *context, struct memory *memory, size_t capacity, size_t classes);
void memory_free(l3a_context *context, struct memory *memory);
/* A slot becomes a row of a phase whose classes are the memory's last. */
void memory_set(struct memory *memory, size_t slot, const struct rows *rows, size_t row);
/* Rows in random order, each once before one comes again; at most as many as there are. Returns how many. */
size_t memory_draw(struct memory *memory, struct stream *random, size_t count, size_t *slots);
bool memory_holds_out(const struct memory *memory, size_t slot);

struct head;
/* Rules' finish(): keeps tuning.memory rows for each class of the phase, chosen at random. */
l3a_status memory_keep_random(struct head *head, const struct rows *rows);

#endif
