/* One table of layers and shapes for every back end: tests compare values with the naive one (test_net_layers.c) and gradients with
 * finite differences (test_gradients.c), and bench/layers.c measures them. */
#ifndef L3A_LAYER_CASES_H
#define L3A_LAYER_CASES_H

#include "naive_network.h"

struct layer_case {
    const char *name;
    enum net_layer_kind kind;
    size_t
        channels; /* of the layer's input, which a 1 x 1 convolution makes; 0: tokens of 48 numbers from squares of 4 x 4 pixels */
    size_t side;  /* of the picture */
    size_t out, kernel, stride, groups, heads;
    enum activation activation;
    bool add;       /* a second copy of its input is added, joined, or attended to besides */
    size_t variant; /* of tokens and batch norms: see layer_cases.c */
};

extern const struct layer_case layer_cases[];
extern const size_t layer_case_count;

/* Those that prompts need, which a GPU does not compute. */
bool layer_case_is_for_prompts(const struct layer_case *what);
/* Describes a network that ends with the layer. The caller frees the network and closes the parameters. tensors is room. */
void layer_case_open(l3a_context *context, const struct layer_case *what, struct memory_tensors *tensors,
                     struct parameters *parameters, struct network *net);
/* Numbers from -1 to 1 that depend on the name and the index. */
float layer_case_number(const char *name, size_t index);

#endif
