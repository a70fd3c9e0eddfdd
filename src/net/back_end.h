/* A back end of networks: an implementation that takes a network whole. It decides how many pictures it computes at a time, where
 * values live, and in which form it keeps the parameters. Only pictures and results cross this boundary.
 *
 * To add a back end, write its files in a folder of their own, as cpu/ is one, and add a line to the table in back_end.c. */
#ifndef L3A_NET_BACK_END_H
#define L3A_NET_BACK_END_H

#include "net/network.h"

/* Pictures at a time on the processor: the last bits of features depend on it, and must be those of earlier versions. */
enum { PROCESSOR_BATCH = 16 };

/* What training does with a parameter. */
struct parameter_use {
    bool trained; /* a step changes it. A batch norm whose factors are not trained keeps its mean and variance, too */
    float rate;   /* times that of the step */
    float decay;
};

/* What a network is opened for. */
struct network_use {
    bool training;
    size_t pictures; /* the largest batch in training */
    enum number_type numbers;
    /* Of each layer, in training. NULL: all are trained, at the rate of the step and without decay. */
    const struct parameter_use (*parameters)[PARAMETER_KINDS];
    uint64_t memory; /* bytes that training may take, by computing again what it does not keep; 0: as many as it likes */
};

/* What a use says of a parameter. Mean and variance of a batch norm follow the pictures, not the gradients. */
struct parameter_use parameter_use_of(const struct network *network, const struct network_use *use, size_t layer,
                                      enum parameter_kind kind);

/* What training takes. */
struct network_plan {
    uint64_t bytes;
    bool recomputes; /* values of the forward pass, because there is no memory to keep them all */
};

/* What is kept of a parameter. The moments, which a step makes, are the running means of its gradient and of the gradient's square;
 * SGD has the first alone. */
enum parameter_part { PARAMETER_VALUE, PARAMETER_GRADIENT, PARAMETER_MOMENT, PARAMETER_SQUARE };

/* With g the gradient times `scale`, m and v the moments, t the number, r the rate times the parameter's, and d its decay:
 *     SGD     g += d w;  m = momentum · m + g;  w -= r m
 *     Adam    g += d w;  m += (1 − momentum)(g − m);  v += (1 − square)(g² − v);  w -= r m̂ / (√v̂ + epsilon)
 *     AdamW   w -= r d w;  then as Adam, without decay
 * with m̂ = m / (1 − momentum^t) and v̂ = v / (1 − square^t). */
struct network_step {
    enum optimiser optimiser;
    double rate, momentum, square, epsilon;
    double scale;
    uint64_t number; /* of the steps made with these moments, from 1 */
};

struct network_back_end {
    const char *name; /* `engine` in l3a_backbone_info */
    size_t batch;     /* how many pictures it likes to be given at a time */
    /* Whether this build and this machine have it. The other calls are made only if they do. */
    bool (*available)(void);
    /* Whether this machine, or the device, can compute for such a use. If not, open() fails and says why. NULL: float32 alone. */
    bool (*supports)(const struct network_use *use);
    /* Prepares a network: fused (fuse.h) to run, as described to train. It need not live longer than this call: what the back end
     * needs of it, it copies or converts. Memory comes from the network's context. */
    l3a_status (*open)(const struct network *network, const struct network_use *use, void **state);
    /* Computes the network's outputs for any number of pictures [count x 3 x side x side], each as planes [count x channels x
     * height x width]: rows of features if an output is one pixel. */
    l3a_status (*run)(void *state, const float *pictures, size_t count, float *const *outputs);
    /* Another state with the same parameters, for another thread. Memory comes from that context. It must be closed first. */
    l3a_status (*share)(l3a_context *context, const void *state, void **shared);
    void (*close)(void *state);
    /* How long the largest batch takes on a device, without its way there and back; NULL if it has no way to go. */
    l3a_status (*measure)(void *state, size_t *pictures, double *seconds);
    /* What the last bits of features depend on besides the batch, such as the kind of device, versions of libraries and how many
     * pictures the device has room for. It makes room for `count` of them, so that this is known; if another program takes the
     * room later, the text changes. An extraction goes on, and its shards are joined, only where it is the same. NULL: nothing. */
    void (*describe)(void *state, size_t count, char *text, size_t capacity);

    /* For training; NULL in a back end that only runs. `forward` runs as `run` does, at most use.pictures at a time, and keeps what
     * `backward` needs: batch norms take mean and variance from these pictures, and move those of the checkpoint towards them.
     * `backward` takes the gradients of the outputs of that call, NULL for those without, and sets those of all trained parameters.
     * `run` can be called between steps, with any number of pictures; then batch norms use the mean and variance they have. It
     * forgets what `forward` kept. */
    l3a_status (*plan)(const struct network *network, const struct network_use *use, struct network_plan *plan);
    l3a_status (*forward)(void *state, const float *pictures, size_t count, float *const *outputs);
    l3a_status (*backward)(void *state, const float *const *gradients);
    /* The sum of the squares of the gradients of all trained parameters. */
    l3a_status (*gradient_square)(void *state, double *sum);
    /* Changes the trained parameters by their gradients. */
    l3a_status (*step)(void *state, const struct network_step *step);
    /* What belongs to a parameter of a layer of the description; values has room for as many numbers as the parameter has. */
    l3a_status (*read)(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, float *values);
    l3a_status (*write)(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, const float *values);
};

/* All back ends of the library, for the processor, the fastest first; the last is always available. NULL past the end. */
const struct network_back_end *network_back_end_at(size_t index);
/* The first one that is available. */
const struct network_back_end *network_back_end_best(void);
/* The one of the context's device; NULL if it has no device, or one that does not compute networks. */
const struct network_back_end *network_back_end_of_device(const l3a_context *context);
/* That, or else the best one of the processor. */
const struct network_back_end *network_back_end_of(const l3a_context *context);
bool network_back_end_supports(const struct network_back_end *back_end, const struct network_use *use);

#endif
