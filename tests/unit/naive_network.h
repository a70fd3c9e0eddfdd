/* A third back end of networks, written to be obviously right: plain loops in double precision (naive_layers.h), with memory of its
 * own. It can train. The tests compare the library's back ends with it through the interface that all share. Also tensors in
 * memory, to make networks from. */
#ifndef L3A_NAIVE_NETWORK_H
#define L3A_NAIVE_NETWORK_H

#include "net/back_end.h"

extern const struct network_back_end naive_back_end;

/* An output of the last run, before it was rounded. */
const double *naive_output(const void *state, size_t output);

enum { TENSORS = 1200 };

struct memory_tensors {
    struct checkpoint_tensor tensors[TENSORS];
    char names[TENSORS][96];
    size_t count;
};

typedef l3a_status tensor_reader(void *owner, const struct checkpoint_tensor *tensor, float *values);

/* Adds a tensor of shape [a, b, c, d], of which the first `rank` count. */
void tensors_add(struct memory_tensors *tensors, const char *prefix, const char *name, size_t rank, size_t a, size_t b, size_t c,
                 size_t d);
struct parameter_source tensors_source(struct memory_tensors *tensors, tensor_reader *read);

#endif
