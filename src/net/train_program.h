/* The program of training for a number of pictures: in which order steps run, and where values and gradients are in one arena.
 *
 * Forward, all steps; backward, in reverse. If there is no memory for all values, the steps are divided into segments: of each but
 * the last, only the values that other segments read are kept, and backward computes the others again. Statistics of batch norms
 * are kept, so they move once, and the same bytes come out.
 *
 * A program also runs without training, with places of its own in the same arena. */
#ifndef L3A_TRAIN_PROGRAM_H
#define L3A_TRAIN_PROGRAM_H

#include "net/train_steps.h"

enum train_pass { PASS_FORWARD, PASS_AGAIN, PASS_BACKWARD };

struct train_event {
    size_t step;
    enum train_pass pass;
};

/* In floats from the arena's start. */
struct train_places {
    struct train_event *events;
    size_t count;
    size_t *values, *again, *gradients; /* of each value; again: where backward finds it */
    size_t scratch, arena;
};

struct train_program;

/* What a back end prepares for the steps of a program. */
struct train_preparer {
    void *owner;
    /* floats: the scratch that the step needs. operation: what the back end keeps for it, or NULL. */
    l3a_status (*prepare)(void *owner, const struct train_program *program, size_t step, size_t *floats, void **operation);
    void (*release)(void *operation); /* NULL: there are no operations */
};

struct train_program {
    const struct train_steps *steps;
    struct train_preparer preparer;
    size_t pictures;
    void **operations; /* of each step */
    size_t *scratch;   /* floats, of each step: first for gradients that are made apart, and then what the back end needs */
    struct train_places training, running;
};

/* starts: the first step of each segment. NULL: one segment. */
l3a_status train_program_open(const struct train_steps *steps, const struct train_preparer *preparer, size_t pictures,
                              const size_t *starts, size_t segments, struct train_program *program);
void train_program_close(struct train_program *program);
/* Places values again, for other segments. */
l3a_status train_program_divide(struct train_program *program, const size_t *starts, size_t segments);
/* Divides steps into at most `wanted` segments of about the same size, where a single value goes from one to the next. Returns how
 * many there are. */
size_t train_segments(const struct train_steps *steps, size_t wanted, size_t *starts);
/* The floats that a value takes. */
size_t train_value_floats(const struct train_program *program, value made);

static inline size_t train_aligned(size_t floats) {
    return (floats + 15) / 16 * 16;
}

#endif
