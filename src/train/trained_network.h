/* A network that a method trains in each phase of a run.
 *
 * A phase describes the network anew, because a method may add to it: tokens, prompts, layers. Between phases nothing is kept but
 * the values of the parameters that were trained or added, by name; all others are the checkpoint's. So what is saved of a run is
 * these values, and the network before a phase, which some methods compare with, is its description with them.
 *
 *   open, then for each phase: keep_old (if the method compares), begin, forward and backward and step, finish;
 *   run at any time. */
#ifndef L3A_TRAINED_NETWORK_H
#define L3A_TRAINED_NETWORK_H

#include "net/backbone.h"
#include "train/selection.h"
#include "train/training_source.h"

#define OUTPUT_MAP "map"

/* What a method does with a network. */
struct network_plan_of_method {
    struct network_changes changes; /* what it adds */
    /* It describes one network to train and another one to score: `training` says which. */
    bool scores_apart;
    /* Whether it trains a parameter in this phase; `selected`: the settings would train it. NULL: as the settings say. */
    bool (*trains)(void *owner, const char *name, bool selected);
    /* The outputs that it looks at besides the features, by name; NULL past the last. OUTPUT_MAP: the tokens, or the last stage. */
    const char *outputs[NETWORK_OUTPUTS];
};

/* The value of a parameter. */
struct kept_value {
    char *name;
    float *values;
    size_t rank, count;
    uint64_t shape[PARAMETER_RANK];
};

struct trained_network {
    l3a_context *context;
    const struct training_source *source;
    struct network_plan_of_method plan;
    struct train_settings settings; /* `trained`, `blocks` and `decay` choose and treat the parameters */
    size_t batch;
    struct reading reading; /* the description of the phase; no layers: there is none yet */
    struct selection selection;
    void *state;   /* of the back end: being trained, or only run; NULL: closed */
    bool training; /* in a phase */
    void *old;     /* the network before the phase; NULL: it was not wanted */
    struct shape old_shapes[NETWORK_OUTPUTS];
    struct kept_value *kept;
    size_t kept_count, kept_capacity;
};

void trained_network_open(l3a_context *context, const struct training_source *source, const struct network_plan_of_method *plan,
                          const struct train_settings *settings, size_t batch, struct trained_network *net);
void trained_network_close(struct trained_network *net);
/* Keeps a copy of the network as it is, for this phase. The method must still describe it as it was. */
l3a_status trained_network_keep_old(struct trained_network *net);
/* Describes the network and prepares to train it. */
l3a_status trained_network_begin(struct trained_network *net);
/* The network is trained: its values are kept. It can still be run. */
l3a_status trained_network_finish(struct trained_network *net);

/* How many outputs there are, features first, and their shapes. Known after begin, and after run. */
size_t trained_network_outputs(const struct trained_network *net);
struct shape trained_network_shape(const struct trained_network *net, size_t output);
/* Describes it if that has not been done, without opening anything. */
l3a_status trained_network_describe(struct trained_network *net);

/* Any number of pictures, with the values as they are, or those before the phase. */
l3a_status trained_network_run(struct trained_network *net, const float *pictures, size_t count, float *const *outputs);
l3a_status trained_network_run_old(struct trained_network *net, const float *pictures, size_t count, float *const *outputs);
/* At most `batch` pictures. */
l3a_status trained_network_forward(struct trained_network *net, const float *pictures, size_t count, float *const *outputs);
/* gradients: of each output, NULL for those without */
l3a_status trained_network_backward(struct trained_network *net, const float *const *gradients);
l3a_status trained_network_gradient_square(struct trained_network *net, double *sum);
l3a_status trained_network_step(struct trained_network *net, const struct network_step *step);

/* All numbers that steps change, one parameter after the other, in the order of the description. */
size_t trained_network_numbers(const struct trained_network *net);
l3a_status trained_network_read(struct trained_network *net, enum parameter_part part, float *numbers);
l3a_status trained_network_write(struct trained_network *net, enum parameter_part part, const float *numbers);

/* The values of all that training changes, with the means and variances of batch norms, in the order of the selection. */
l3a_status trained_network_read_changed(struct trained_network *net, float *values);
l3a_status trained_network_write_changed(struct trained_network *net, const float *values);

/* The values that are kept: value `index`, NULL past the last; and adding one, which is copied, as if it had been trained. One of
 * another shape is replaced. */
const struct kept_value *trained_network_kept(const struct trained_network *net, size_t index);
/* The one of that name, or NULL. A method that makes a value whose shape has changed finds the old one here. */
const struct kept_value *trained_network_find(const struct trained_network *net, const char *name);
l3a_status trained_network_keep(struct trained_network *net, const char *name, size_t rank, const uint64_t *shape,
                                const float *values);
/* How many tokens of OUTPUT_MAP are in front of those of the picture. */
size_t trained_network_prefix(const struct trained_network *net);
/* The operations of a picture on its way forward, and on its way back, which ends where nothing before it is trained. */
l3a_status trained_network_flops(const struct trained_network *net, double *forward, double *backward);
/* The bytes of training it with such batches. It is described, and nothing is opened. */
l3a_status trained_network_bytes(struct trained_network *net, struct network_plan *plan);

#endif
