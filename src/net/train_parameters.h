/* Where the parameters of a network that is trained are: their values one after the other in one array, and the gradients and
 * moments of those that are trained in three more, each as in the checkpoint. */
#ifndef L3A_TRAIN_PARAMETERS_H
#define L3A_TRAIN_PARAMETERS_H

#include "net/back_end.h"

enum { PARAMETER_PARTS = PARAMETER_SQUARE + 1 };

struct stored {
    size_t count;
    size_t value, trained; /* where it begins, in floats; trained: among gradients and moments */
    struct parameter_use use;
};

struct train_parameters {
    l3a_context *context;
    struct stored (*stored)[PARAMETER_KINDS];  /* of each layer */
    size_t layers, value_count, trained_count; /* floats of the arrays; room between parameters stays zero */
};

l3a_status train_parameters_make(const struct network *network, const struct network_use *use, struct train_parameters *made);
void train_parameters_release(struct train_parameters *parameters);
/* Of the four arrays. */
uint64_t train_parameters_bytes(const struct train_parameters *parameters);
/* Where a part begins among parts[], which has the four arrays; NULL: it is not kept. */
float *train_parameter_at(const struct train_parameters *parameters, float *const *parts, size_t layer, enum parameter_kind kind,
                          enum parameter_part part);
/* The numbers that loops need of a step. */
struct step_numbers step_numbers_of(const struct network_step *step, const struct parameter_use *use);

#endif
