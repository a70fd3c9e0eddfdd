/* Networks on a CUDA device. A network runs as its fused list (net/fuse.h), a layer after the other. Values are rows of pixels or
 * tokens with their channels side by side, in the numbers that the network was opened for; sums are float32.
 *
 * network.c    opening, sharing, and the way of pictures and features
 * parameters.c what layers keep on the device
 * program.c    a network prepared for a number of pictures: places, and what runs for each kind of layer
 * products.c   matrix products, by cuBLASLt with what follows them; convolutions become such products,
 * convolutions.c unless cuDNN computes them
 * kernels.h    everything else
 * train.h      networks that are trained */
#ifndef L3A_CUDA_NET_H
#define L3A_CUDA_NET_H

#include "cuda/device.h"
#include "cuda/net/convolutions.h"
#include "net/back_end.h"

#include <cublasLt.h>

/* Of how many pictures a program is made. */
enum { PROGRAMS = 4, SCRATCH_BYTES = 256 << 20 };
extern const size_t program_sizes[PROGRAMS];

/* How a product becomes that of two matrices: its input is one already, or its windows are unfolded into one. With groups, it is a
 * kernel of its own. */
enum lowering { AS_IT_IS, UNFOLDED, BY_ITSELF };

struct net_parameters {
    void *factors; /* of products in the network's type, [out][room], everything else is float32; of tokens the learned ones */
    void *padded;  /* of a convolution of pictures: the factors for PADDED channels, for cuDNN; NULL: none */
    void *bias;    /* the same; of tokens the positions of the picture's own */
    float *second_factors, *second_bias;
};

/* A matrix product with what follows it. */
struct multiplication {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t factors, input, output;
    cublasLtMatmulAlgo_t algorithm;
    enum activation activation; /* that a kernel applies afterwards */
};

struct net_program {
    size_t batch;
    size_t *places; /* of each value, in bytes */
    size_t *slices; /* of each layer: how many pictures are unfolded at a time */
    size_t scratch; /* where it begins in the arena, in bytes */
    char *arena;
    struct multiplication *products;         /* of each layer; `what` is NULL for others */
    const struct convolution **convolutions; /* of each layer, by cuDNN; NULL for others */
};

/* The way of a batch to the device and back; while one is computed, the next one arrives. */
struct net_slot {
    float *pictures, *planes[NETWORK_OUTPUTS];
    cudaEvent_t arrived, done;
    size_t first, count; /* 0: nothing is under way */
};

struct cuda_trainer;

struct cuda_network {
    l3a_context *context;
    struct cuda_trainer *trainer; /* of a network that is trained, which has nothing else; NULL: it only runs */
    struct network network;       /* layers without parameters */
    struct net_parameters *parameters;
    bool borrows; /* both, from another one */
    enum number_type type;
    size_t most; /* the largest program for which there is room, as far as is known */
    struct net_program *programs[PROGRAMS];
    struct convolutions convolutions;
    struct net_slot slots[2];
    size_t room; /* pictures in each */
    void *work;  /* PRODUCT_BYTES */
};

static inline size_t number_bytes(enum number_type type) {
    return type == NUMBER_FLOAT32 ? sizeof(float) : 2;
}

static inline size_t shape_numbers(struct shape shape) {
    return shape.channels * shape.height * shape.width;
}

/* parameters.c */
enum lowering layer_lowering(const struct net_layer *layer);
/* Numbers of a row of a product's factors, with zeros that make it a multiple of 8. */
size_t layer_room(const struct net_layer *layer);
l3a_status parameters_put(struct cuda_network *net, const struct network *from);
void parameters_drop(struct cuda_network *net);

/* products.c */
/* rows: of the input that is multiplied at a time */
l3a_status multiplication_open(const struct cuda_network *net, size_t layer, size_t rows, struct multiplication *product);
void multiplication_close(struct multiplication *product);
/* *found: the layer's convolution by cuDNN, or NULL. */
l3a_status product_find(struct cuda_network *net, size_t layer, size_t batch, const struct convolution **found);
/* Runs the product of a layer for a program's batch. `to` holds what is added. */
l3a_status product_run(const struct cuda_network *net, const struct net_program *program, size_t layer, const void *from, void *to);

/* program.c */
l3a_status net_program_open(struct cuda_network *net, size_t batch, struct net_program **program);
void net_program_close(struct cuda_network *net, struct net_program *program);
/* pictures [batch x 3 x side x side]; each output as planes */
l3a_status net_program_run(const struct cuda_network *net, const struct net_program *program, const float *pictures,
                           float *const *planes);

/* network.c */
extern const struct network_back_end cuda_network_back_end;

#endif
