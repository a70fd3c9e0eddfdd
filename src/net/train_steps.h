/* What training computes, independent of the number of pictures: steps, layouts, and which gradients and values are needed.
 *
 * A step is a layer, or a batch norm or scale with the sum and the ReLU that follow it, if nothing else reads what is between them:
 * what such a step takes is the time to pass over memory. */
#ifndef L3A_TRAIN_STEPS_H
#define L3A_TRAIN_STEPS_H

#include "net/back_end.h"
#include "net/layout.h"

struct train_step {
    size_t index; /* of the layer: the first one, if it is several */
    const struct net_layer *layer;
    value input, second, output;
    enum activation activation; /* that follows a norm or a scale */
    float slope;
    bool trained[PARAMETER_KINDS], trains;        /* trains: any of them */
    bool measures;                                /* a batch norm takes its mean and variance from the pictures */
    size_t statistics;                            /* where those are, in floats: mean, and then scale, of each channel */
    bool backward;                                /* there is something to do */
    bool keeps_input, keeps_second, keeps_output; /* backward reads these values */
    /* Of the gradients of its inputs: whether they are wanted, whether others have added to them before, and whether the gradient
     * of the output becomes that of the input where it is. */
    bool wants_input, wants_second, input_adds, second_adds, input_stays, second_stays;
    bool input_apart, second_apart; /* it is made elsewhere first, and then added */
    bool output_adds;               /* to the gradient of its output, when the caller's is added */
};

struct train_steps {
    l3a_context *context;
    const struct network *network;
    struct train_step *steps;
    size_t count;
    struct layout *layouts; /* of each value */
    size_t *gradients;      /* of each value: the first value whose gradient is in the same place */
    size_t statistics;      /* floats */
};

/* The network lives longer than the steps. block: of the layouts of values that convolutions read; 0: all channels are side by side
 * in each value but the picture. */
l3a_status train_steps_make(const struct network *network, const struct network_use *use, size_t block, struct train_steps *steps);
void train_steps_release(struct train_steps *steps);

#endif
