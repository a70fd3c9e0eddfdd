/* A network on the processor, with the matrix products of oneDNN or of BLAS: the calls of both back ends, which differ in
 * their table of products. */
#ifndef L3A_NET_CPU_H
#define L3A_NET_CPU_H

#include "net/back_end.h"
#include "net/cpu/products.h"
#include "net/cpu/train_products.h"

extern const struct network_back_end onednn_back_end, blas_back_end;

l3a_status cpu_network_open(const struct products *products, const struct network *network, enum number_type numbers, void **state);
l3a_status cpu_network_run(void *state, const float *pictures, size_t count, float *const *outputs);
l3a_status cpu_network_share(l3a_context *context, const void *state, void **shared);
void cpu_network_close(void *state);

/* For training (train.h). The other calls take such a state, too, except that it cannot be shared. */
l3a_status cpu_network_train(const struct train_products *products, const struct network *network, const struct network_use *use,
                             void **state);
l3a_status cpu_network_forward(void *state, const float *pictures, size_t count, float *const *outputs);
l3a_status cpu_network_backward(void *state, const float *const *gradients);
l3a_status cpu_network_gradient_square(void *state, double *sum);
l3a_status cpu_network_step(void *state, const struct network_step *step);
l3a_status cpu_network_read(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, float *values);
l3a_status cpu_network_write(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, const float *values);

#endif
