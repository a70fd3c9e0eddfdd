/* A network that is trained, as far as it does not depend on where that happens: its steps, the places of its parameters, and the
 * programs for the numbers of pictures that came last, which share an arena. A back end has the memory, and computes. */
#ifndef L3A_NET_TRAINER_H
#define L3A_NET_TRAINER_H

#include "net/train_parameters.h"
#include "net/train_program.h"

enum { TRAIN_PROGRAMS = 4, TRAIN_SEGMENTS = 64 };

/* What a back end does for a trainer. */
struct train_machine {
    struct train_preparer preparer;
    size_t block;      /* of train_steps_make() */
    uint64_t overhead; /* bytes that it takes besides parameters, statistics and the arena */
    /* Takes another arena; what was in the old one is lost. */
    l3a_status (*arena)(void *owner, uint64_t floats);
    /* training: batch norms measure these pictures. */
    l3a_status (*forward)(void *owner, const struct train_program *program, bool training, const float *pictures,
                          float *const *outputs);
    l3a_status (*backward)(void *owner, const struct train_program *program, const float *const *gradients);
};

struct trainer {
    l3a_context *context;
    struct train_machine machine;
    struct network network; /* without the values of parameters */
    struct train_steps steps;
    struct train_parameters parameters;
    size_t pictures;
    size_t starts[TRAIN_SEGMENTS], segments;
    struct train_program *programs[TRAIN_PROGRAMS]; /* the one used last comes first */
    const struct train_program *kept;               /* whose values forward has left for backward; NULL: none */
    uint64_t floats;                                /* of the arena that there is */
};

/* Everything but the memory for numbers. The trainer stays where it is until trainer_release(), which also follows a failure. */
l3a_status trainer_prepare(const struct train_machine *machine, const struct network *network, const struct network_use *use,
                           struct trainer *trainer);
/* Takes the arena for the largest batch. */
l3a_status trainer_start(struct trainer *trainer);
void trainer_release(struct trainer *trainer);
struct network_plan trainer_plan(const struct trainer *trainer);

/* The calls of a back end (net/back_end.h). */
l3a_status trainer_run(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs);
l3a_status trainer_forward(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs);
l3a_status trainer_backward(struct trainer *trainer, const float *const *gradients);
/* Where a part is that read or write names, as train_parameter_at() says; it is an error if it is not kept. */
l3a_status trainer_find_part(const struct trainer *trainer, float *const *parts, size_t layer, enum parameter_kind kind,
                             enum parameter_part part, float **found);

#endif
