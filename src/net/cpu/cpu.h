/* A network on the processor, with the matrix products of oneDNN or of BLAS: the calls of both back ends, which differ in
 * their table of products. */
#ifndef L3A_NET_CPU_H
#define L3A_NET_CPU_H

#include "net/back_end.h"
#include "net/cpu/products.h"

extern const struct network_back_end onednn_back_end, blas_back_end;

l3a_status cpu_network_open(const struct products *products, const struct network *network, enum number_type numbers, void **state);
l3a_status cpu_network_run(void *state, const float *pictures, size_t count, float *const *outputs);
l3a_status cpu_network_share(l3a_context *context, const void *state, void **shared);
void cpu_network_close(void *state);

#endif
