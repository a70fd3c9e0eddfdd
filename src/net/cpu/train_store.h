/* What training keeps of the parameters of a network: values, gradients and moments, each as in the checkpoint, and the steps of
 * the optimisers. */
#ifndef L3A_TRAIN_STORE_H
#define L3A_TRAIN_STORE_H

#include "net/cpu/train_kernels.h"

struct stored {
    size_t count;
    size_t value, trained; /* where it begins, in floats; trained: among gradients and moments */
    struct parameter_use use;
};

struct train_store {
    l3a_context *context;
    const struct train_kernels *kernels;
    struct stored (*parameters)[PARAMETER_KINDS]; /* of each layer */
    size_t layers, value_count, trained_count;    /* floats */
    float *values, *gradients, *moments, *squares;
};

/* Finds out what there is, without the memory for it. */
l3a_status train_store_plan(const struct network *network, const struct network_use *use, struct train_store *store);
uint64_t train_store_bytes(const struct train_store *store);
/* Takes the memory, and copies the values of the parameters. */
l3a_status train_store_open(const struct network *network, struct train_store *store);
void train_store_close(struct train_store *store);
/* Where a part begins; NULL: it is not kept. */
float *train_store_at(const struct train_store *store, size_t layer, enum parameter_kind kind, enum parameter_part part);
double train_store_square(const struct train_store *store);
void train_store_step(struct train_store *store, const struct network_step *step);

#endif
