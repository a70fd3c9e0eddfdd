/* The loops of training: what kernels.h has not, forward, and all layers but the matrix products, backward. They are written once,
 * in train_kernels_body.h, and compiled for each kind of processor as those of kernels.h are.
 *
 * A layer has up to PHASES loops, one after the other. Sums over pictures are made in parts that do not depend on the number of
 * threads, and the parts are added in their order, so the same numbers come out however many threads there are. */
#ifndef L3A_TRAIN_KERNELS_H
#define L3A_TRAIN_KERNELS_H

#include "net/cpu/kernels.h"
#include "net/cpu/train_products.h"

enum { PHASES = 3, STRIPE = 16, ROW_PARTS = 64 };

/* One step of training: a layer, or a batch norm or scale with the sum and the activation that follow it. */
struct train_call {
    const struct net_layer *layer;
    const struct train_products *products;
    size_t pictures;
    struct layout from, to, beside;
    const float *input, *second;
    float *output;
    float *out_gradient;                  /* an activation that follows a norm changes it in place */
    float *in_gradient, *second_gradient; /* NULL: not wanted */
    bool adds;                            /* to in_gradient, for the layers whose loops can (train_steps.c) */
    float *gradients[PARAMETER_KINDS];    /* NULL: not wanted */
    enum activation activation;           /* that follows */
    float slope;
    bool training;       /* not only running */
    bool measures;       /* a batch norm takes mean and variance from these pictures */
    bool again;          /* … and has done so */
    float *mean, *scale; /* of each channel, with padding, from forward to backward; scale: 1 / √(variance + ε) */
    float *sums;         /* room: train_sums() */
};

typedef void train_function(const struct train_call *call, size_t first, size_t last);

/* What the tasks of a loop are. A stripe is STRIPE channels, or those that a block has left. */
enum train_tasks {
    NO_TASKS,
    EACH_PICTURE,
    EACH_OUTPUT_STRIPE, /* of each picture */
    EACH_INPUT_STRIPE,
    EACH_INPUT_BLOCK,
    EACH_STRIPE, /* of the output, all pictures */
    EACH_HEAD,
    EACH_TOKEN, /* of the output, all pictures */
    EACH_PART,  /* of the rows, in ROW_PARTS */
    EACH_CHANNEL,
    EACH_HIDDEN,
    EACH_NUMBER /* of the output, with padding */
};

struct train_phase {
    enum train_tasks tasks;
    train_function *run;
};

struct train_kernels {
    const char *name;
    struct train_phase forward[LAYER_KINDS][PHASES]; /* none: kernels.h has it */
    struct train_phase backward[LAYER_KINDS][PHASES];
    /* to[i] += from[i] */
    void (*add)(const float *from, float *to, size_t first, size_t last);
    void (*step)(const struct step_numbers *numbers, const float *gradient, float *values, float *moment, float *square,
                 size_t first, size_t last);
    double (*square)(const float *numbers, size_t first, size_t last);
};

/* How many floats of `sums` a layer needs. */
size_t train_sums(const struct net_layer *layer, const struct layout *from, const struct layout *to, size_t pictures);
/* How many tasks a loop has. */
size_t train_task_count(enum train_tasks tasks, const struct train_call *call);
const struct train_kernels *train_kernels_pick(void);

extern const struct train_kernels train_kernels_plain;
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
extern const struct train_kernels train_kernels_avx2, train_kernels_avx512;
#endif

#endif
