/* The mathematics of every kind of layer of a description, in plain loops over double: what a layer makes of its inputs, and the
 * gradients of its inputs and parameters from those of its output. Values are planes, [picture][channel][row][column]. */
#ifndef L3A_NAIVE_LAYERS_H
#define L3A_NAIVE_LAYERS_H

#include "net/network.h"

struct naive_layer {
    struct net_layer what; /* without parameters */
    struct shape beside;   /* of its second input */
    bool training;         /* a batch norm takes mean and variance from the batch */
    double *parameters[PARAMETER_KINDS];
    double *gradients[PARAMETER_KINDS]; /* of the parameters; backward adds to them */
    double *moments[PARAMETER_KINDS], *squares[PARAMETER_KINDS];
    size_t counts[PARAMETER_KINDS];
    double *batch_mean, *batch_variance; /* what a batch norm used last */
};

static inline size_t shape_size(struct shape shape) {
    return shape.channels * shape.height * shape.width;
}

/* second: NULL if the layer has none. */
void naive_forward(struct naive_layer *layer, size_t pictures, const double *input, const double *second, double *output);
/* Adds to the gradients of the inputs and of the parameters. in_gradient: NULL for the picture. */
void naive_backward(struct naive_layer *layer, size_t pictures, const double *input, const double *second,
                    const double *out_gradient, double *in_gradient, double *second_gradient);

#endif
