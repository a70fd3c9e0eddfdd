/* A back end that trains beside the naive one: both make the same passes, and what follows is compared. */
#ifndef L3A_TRAINING_PAIR_H
#define L3A_TRAINING_PAIR_H

#include "support.h"

#include "naive_layers.h"
#include "naive_network.h"

enum { PAIR_PICTURES = 5 };

extern enum number_type training_numbers; /* in which values between layers are */

struct pair {
    l3a_context *context;
    const char *name;
    struct network *net;
    const struct network_back_end *back_end;
    struct network_use use;
    void *naive, *state;
    float *pictures, *shares[NETWORK_OUTPUTS], *expected[NETWORK_OUTPUTS], *found[NETWORK_OUTPUTS];
};

/* Numbers that a name makes up, to be freed. */
float *made_up_numbers(const char *name, size_t count);
/* Opens both; all but the states and the numbers is given. */
void pair_open(struct pair *pair);
void pair_close(struct pair *pair);
void compare_outputs(const struct pair *pair, size_t count, double tolerance);
/* Forward and backward with `count` pictures; compares all that follows from them. */
void check_pass(const struct pair *pair, size_t count, double tolerance);

static inline size_t output_size(const struct network *net, size_t output) {
    return shape_size(net->shapes[net->outputs[output].value]);
}

#endif
