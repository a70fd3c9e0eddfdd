/* A network prepared to run on a fixed number of pictures at a time: its matrix products are prepared, and every value has a place
 * in one arena. Values that are never alive at the same time share memory. Running the program allocates nothing. */
#ifndef L3A_PROGRAM_H
#define L3A_PROGRAM_H

#include "net/cpu/kernels.h"

struct step {
    void *operation; /* of a product, or NULL */
    size_t rounded;  /* floats that a product's input takes in scratch, as bf16; 0: the input is read where it is */
    size_t scratch;  /* floats */
};

struct program {
    l3a_context *context;
    const struct network *network;
    const struct products *products;
    const struct kernels *kernels;
    enum number_type numbers;
    size_t batch;
    struct step *steps;     /* of each layer */
    struct layout *layouts; /* of each value */
    size_t *places;         /* of each value, in floats from the arena's start */
    size_t scratch_place;
    size_t arena; /* floats */
};

/* source: the same network with the factors of its products. numbers: what the products read. twin: the program for another batch
 * size, or NULL; it must be closed after this one. */
l3a_status program_open(const struct network *network, const struct network *source, const struct products *products, void *state,
                        enum number_type numbers, size_t batch, const struct program *twin, struct program *program);
void program_close(struct program *program);
/* pictures [batch x 3 x side x side]; each output as planes [batch x channels x height x width], which begin with picture `first`
 * of outputs. The arena has program->arena floats, aligned to 64 bytes. */
l3a_status program_run(const struct program *program, const float *pictures, float *arena, float *const *outputs, size_t first);

/* Leaves the layout behind: planes, without padding. */
void program_copy_planes(const struct layout *layout, size_t batch, const float *values, float *planes);

#endif
