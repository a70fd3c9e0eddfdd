/* What training keeps of the parameters of a network: values, gradients and moments, each as in the checkpoint, and the steps of
 * the optimisers. */
#ifndef L3A_TRAIN_STORE_H
#define L3A_TRAIN_STORE_H

#include "net/cpu/train_kernels.h"
#include "net/train_parameters.h"

struct train_store {
    l3a_context *context;
    const struct train_kernels *kernels;
    const struct train_parameters *parameters;
    float *parts[PARAMETER_PARTS];
};

/* Takes the memory, and copies the values of the parameters. train_store_close() also follows a failure. */
l3a_status train_store_open(const struct network *network, const struct train_parameters *parameters, struct train_store *store);
void train_store_close(struct train_store *store);
double train_store_square(const struct train_store *store);
void train_store_step(struct train_store *store, const struct network_step *step);

#endif
