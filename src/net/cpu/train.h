/* Training on the processor, with the products of a matrix library: the calls of a back end (net/back_end.h). */
#ifndef L3A_NET_CPU_TRAIN_H
#define L3A_NET_CPU_TRAIN_H

#include "net/back_end.h"
#include "net/cpu/train_products.h"

struct trainer;

l3a_status trainer_plan(const struct train_products *products, const struct network *network, const struct network_use *use,
                        struct network_plan *plan);
l3a_status trainer_open(const struct train_products *products, const struct network *network, const struct network_use *use,
                        struct trainer **opened);
void trainer_close(struct trainer *trainer);
l3a_status trainer_run(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs);
l3a_status trainer_forward(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs);
l3a_status trainer_backward(struct trainer *trainer, const float *const *gradients);
l3a_status trainer_gradient_square(struct trainer *trainer, double *sum);
l3a_status trainer_step(struct trainer *trainer, const struct network_step *step);
l3a_status trainer_read(const struct trainer *trainer, size_t layer, enum parameter_kind kind, enum parameter_part part,
                        float *values);
l3a_status trainer_write(struct trainer *trainer, size_t layer, enum parameter_kind kind, enum parameter_part part,
                         const float *values);

#endif
