/* A network made ready to run on a number of pictures at a time: its layers prepared by an engine, and a place in one arena for
 * every value, planned so that values that are never alive together share memory. Running it allocates nothing. */
#ifndef L3A_PROGRAM_H
#define L3A_PROGRAM_H

#include "net/kernels.h"

struct step {
    void *operation; /* of the engine, or NULL */
    size_t scratch;  /* floats */
};

struct program {
    l3a_context *context;
    const struct network *network;
    const struct engine *engine;
    const struct kernels *kernels;
    size_t batch;
    struct step *steps;     /* of each layer */
    struct layout *layouts; /* of each value */
    size_t *places;         /* of each value, in floats from the arena's start */
    size_t scratch_place;
    size_t arena; /* floats */
};

/* twin: the same network prepared for another batch, or NULL; must be freed later than this one. */
l3a_status program_open(const struct network *network, const struct engine *engine, void *state, size_t batch,
                        const struct program *twin, struct program *program);
void program_close(struct program *program);
/* pictures [batch x 3 x side x side], features [batch x width]; the arena is aligned to 64 bytes and large enough. */
l3a_status program_run(const struct program *program, const float *pictures, float *arena, float *features);
/* A value of the last run as planes [batch x channels x height x width], if nothing has overwritten it; for tests. */
l3a_status program_run_until(const struct program *program, const float *pictures, float *arena, size_t layer, float *planes);

#endif
