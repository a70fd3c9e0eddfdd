/* Networks that are trained on a CUDA device: a trainer (net/trainer.h) with its memory there.
 *
 * train.c          the calls of a back end, and the memory
 * train_run.c      passes: the order of steps, their values and gradients
 * train_layers.c   what runs for each kind of layer
 * train_weighted.c those that multiply matrices: convolutions and linear layers
 * train_mixing.c   attention, and squeeze and excite
 * train_products.c matrix products, by cuBLASLt
 * train_kernels.h  everything else
 *
 * Values and their gradients between layers have the numbers that the network was opened for; parameters, their gradients, moments,
 * statistics and sums are float32 or float64. */
#ifndef L3A_CUDA_NET_TRAIN_H
#define L3A_CUDA_NET_TRAIN_H

#include "cuda/net/net.h"
#include "cuda/net/train_kernels.h"
#include "net/trainer.h"

/* ---- Matrix products ---- */

/* c [m x n] = scale · op(a) op(b) + keep · c + bias, by rows; `batches` times, with steps from one matrix to the next, in numbers.
 * scale, keep and bias are given with each call. */
struct cuda_product {
    bool transpose_a, transpose_b, biased;
    enum number_type type, made; /* of a and b, and of c; the bias has that of c */
    size_t m, n, inner, a_stride, b_stride, c_stride, batches, a_step, b_step, c_step;
};

struct cuda_prepared;

/* Those that came up so far. */
struct cuda_products {
    struct cuda_prepared *made;
    size_t count, capacity;
    void *work; /* PRODUCT_BYTES */
};

struct cuda_factors {
    const void *a, *b, *bias; /* bias: NULL if there is none */
    float scale, keep;
};

l3a_status cuda_train_multiply(struct device *device, struct cuda_products *products, const struct cuda_product *what,
                               const struct cuda_factors *factors, void *c);
void cuda_train_products_close(struct device *device, struct cuda_products *products);

/* ---- A trainer ---- */

struct cuda_trainer {
    l3a_context *context;
    struct trainer trainer;
    enum number_type type;
    float *parts[PARAMETER_PARTS]; /* of parameters */
    float *statistics;             /* of norms and scales */
    char *arena;
    double *squares; /* TRAIN_SQUARE_PARTS */
    struct cuda_products products;
};

l3a_status cuda_trainer_plan(const struct network *network, const struct network_use *use, struct network_plan *plan);
l3a_status cuda_trainer_open(const struct network *network, const struct network_use *use, struct cuda_trainer **opened);
void cuda_trainer_close(struct cuda_trainer *cuda);
l3a_status cuda_trainer_gradient_square(struct cuda_trainer *cuda, double *sum);
l3a_status cuda_trainer_step(struct cuda_trainer *cuda, const struct network_step *step);
l3a_status cuda_trainer_read(struct cuda_trainer *cuda, size_t layer, enum parameter_kind kind, enum parameter_part part,
                             float *values);
l3a_status cuda_trainer_write(struct cuda_trainer *cuda, size_t layer, enum parameter_kind kind, enum parameter_part part,
                              const float *values);

/* train_run.c: calls of struct train_machine, whose owner is a struct cuda_trainer */
l3a_status cuda_train_prepare(void *owner, const struct train_program *program, size_t step, size_t *floats, void **operation);
l3a_status cuda_train_forward(void *owner, const struct train_program *program, bool training, const float *pictures,
                              float *const *outputs);
l3a_status cuda_train_backward(void *owner, const struct train_program *program, const float *const *gradients);

/* ---- A step ---- */

/* What a step works on. Before a program has places, pointers are NULL. */
struct cuda_call {
    struct cuda_trainer *cuda;
    struct device *device;
    cudaStream_t stream;
    enum number_type type;
    const struct train_step *step;
    const struct net_layer *layer;
    size_t pictures;
    struct shape from, to, beside;
    const void *input, *second;
    void *output;
    void *out_gradient;                  /* an activation that follows a norm changes it in place */
    void *in_gradient, *second_gradient; /* NULL: not wanted */
    bool adds;                           /* to in_gradient, for linear layers and layer norms */
    bool measures, again;                /* a batch norm takes mean and variance from these pictures; and has done so */
    float *values[PARAMETER_KINDS];      /* of parameters */
    float *gradients[PARAMETER_KINDS];   /* NULL: not wanted */
    float *mean, *scale;                 /* of each channel, from forward to backward */
    char *scratch;
};

/* Where parts of the scratch begin, in bytes. */
enum { CUDA_ROOMS = 8 };
struct cuda_rooms {
    size_t starts[CUDA_ROOMS], end;
};

static inline void *cuda_room(const struct cuda_call *call, const struct cuda_rooms *rooms, size_t which) {
    return call->scratch + rooms->starts[which];
}

/* Adds a part of so many bytes. */
static inline void cuda_reserve(struct cuda_rooms *rooms, size_t which, size_t bytes) {
    enum { ALIGNMENT = 256 };
    rooms->starts[which] = rooms->end;
    rooms->end += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static inline size_t cuda_rows(const struct cuda_call *call) {
    return call->pictures * call->to.height * call->to.width;
}

/* The largest number of pictures up to all of them, at least one, for which there is room if each takes so many bytes. */
size_t cuda_slice(const struct cuda_call *call, size_t bytes);

/* Forward, backward, and the scratch that they need, by kinds of layers. */
l3a_status cuda_layer_forward(const struct cuda_call *call);
/* Gives the gradient of the output of a norm or scale to `second`, once it is that of the sum. */
typedef l3a_status cuda_pass_on(void *owner);
l3a_status cuda_layer_backward(const struct cuda_call *call, cuda_pass_on *pass_on, void *owner);
struct cuda_rooms cuda_layer_rooms(const struct cuda_call *call);

l3a_status cuda_weighted_forward(const struct cuda_call *call);
l3a_status cuda_weighted_backward(const struct cuda_call *call);
struct cuda_rooms cuda_weighted_rooms(const struct cuda_call *call);

l3a_status cuda_attention_backward(const struct cuda_call *call);
struct cuda_rooms cuda_attention_rooms(const struct cuda_call *call);
l3a_status cuda_excite_forward(const struct cuda_call *call);
l3a_status cuda_excite_backward(const struct cuda_call *call);
struct cuda_rooms cuda_excite_rooms(const struct cuda_call *call);

#endif
