/* Training on the processor, with the products of a matrix library: the calls of a back end (net/back_end.h). */
#ifndef L3A_NET_CPU_TRAIN_H
#define L3A_NET_CPU_TRAIN_H

#include "net/back_end.h"
#include "net/cpu/train_products.h"

struct cpu_trainer;

l3a_status cpu_trainer_plan(const struct train_products *products, const struct network *network, const struct network_use *use,
                            struct network_plan *plan);
l3a_status cpu_trainer_open(const struct train_products *products, const struct network *network, const struct network_use *use,
                            struct cpu_trainer **opened);
void cpu_trainer_close(struct cpu_trainer *cpu);
l3a_status cpu_trainer_run(struct cpu_trainer *cpu, const float *pictures, size_t count, float *const *outputs);
l3a_status cpu_trainer_forward(struct cpu_trainer *cpu, const float *pictures, size_t count, float *const *outputs);
l3a_status cpu_trainer_backward(struct cpu_trainer *cpu, const float *const *gradients);
l3a_status cpu_trainer_gradient_square(struct cpu_trainer *cpu, double *sum);
l3a_status cpu_trainer_step(struct cpu_trainer *cpu, const struct network_step *step);
l3a_status cpu_trainer_read(const struct cpu_trainer *cpu, size_t layer, enum parameter_kind kind, enum parameter_part part,
                            float *values);
l3a_status cpu_trainer_write(struct cpu_trainer *cpu, size_t layer, enum parameter_kind kind, enum parameter_part part,
                             const float *values);

#endif
