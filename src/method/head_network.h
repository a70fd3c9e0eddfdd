/* The network below a head, in methods that train it (setting train-backbone). The head's rules are the same as on frozen features:
 * a step looks at pictures instead of stored features, and its gradient goes on from the features into the network.
 *
 * A method can also change the network: add layers, look at other outputs than the features, compare them with those of the network
 * before the phase, and have the scores computed by the network itself. */
#ifndef L3A_HEAD_NETWORK_H
#define L3A_HEAD_NETWORK_H

#include "method/state.h"
#include "train/trained_network.h"

struct training_need;
struct head;
struct batch;
struct rows;
struct memory;

/* How a method trains the network and its head, unless the settings say otherwise. */
struct trained_tuning {
    size_t epochs, batch;
    double backbone_rate;    /* highest of the network, in the first phase … */
    double later;            /* … and, times this, in later ones */
    double first_rate, rate; /* highest of the head */
    enum schedule schedule;
    bool by_epoch; /* rates change only between epochs */
    enum optimiser optimiser;
    double decay, clip; /* clip 0: none */
    double lambda;
    struct augmentation augmentation;
};

/* What a method does with the network besides training it. The functions get the head as their owner. */
struct head_network_rules {
    struct network_plan_of_method plan;
    /* Only what the method adds is trained, whatever part of the network the settings choose. */
    bool keeps_backbone;
    /* Scores of a phase's own classes alone are trained: as if scores and labels of all others were 0 in a loss that is the mean
     * over pictures and all classes of the run. */
    bool own_classes;
    bool compares; /* looks at the network before the phase */
    bool scores;   /* the network's first output are the scores: the head has no coefficients. They are those of all classes so far
                      or, while a phase's own classes are trained, of these alone */
    size_t looks;  /* by which output images are chosen for the memory; 0: the features */
    /* Called when the network is described and open, before the first step of a phase; and after the last one. */
    l3a_status (*begin)(struct head *head, struct rows *rows);
    /* Changes the targets of a step's rows, of which the outputs of both networks are there. */
    void (*set_targets)(struct head *head, struct batch *batch);
    /* Adds to the gradients of the outputs. */
    l3a_status (*output_terms)(struct head *head, struct batch *batch);
    /* Adds to the gradients of the network's numbers, in the order of trained_network_read(). */
    l3a_status (*network_terms)(struct head *head);
    /* Computes the scores of pictures from all outputs, in place of coefficients: numbers of the method's own (struct head_own) do.
     * step: of pictures of a step, whose outputs' gradients output_terms() adds, from that by the scores. NULL: coefficients, or
     * the network itself. */
    l3a_status (*score)(struct head *head, float *const *outputs, size_t rows, bool step, float *scores);
    /* Sets the loss of a step and its gradient by the scores. NULL: the loss that the settings name. */
    l3a_status (*loss)(struct head *head, struct batch *batch, double *loss);
    /* How many numbers of its own the method will have; for the plan. */
    size_t (*own_numbers)(const struct head *head, size_t classes);
};

/* Numbers of a method besides those of the network: the first `count` step at the rate of a head, and the others follow the
 * pictures. The method sets the first three fields before the first step of a phase, and the gradient in output_terms(). */
struct head_own {
    size_t count, all;
    float *values;                     /* [all], the method's */
    float *gradient, *moment, *square; /* [count] */
};

struct head_network {
    const struct training_source *source; /* NULL: not known yet */
    struct trained_network net;
    struct trained_tuning tuning;
    struct picture_feed ahead, drawn; /* the next rows of the epoch; rows drawn from the memory */
    size_t phase;                     /* from 0 */
    size_t trained_numbers;           /* of the network, that steps change */
    uint64_t changes;                 /* the seed of what happens to pictures in this epoch */
    size_t capacity;                  /* pictures of a step, at most */
    size_t *wanted, *numbers;         /* [capacity], work space */
    float *planes;                    /* [capacity x numbers of a picture] */
    uint64_t *checksums;              /* [capacity] */
    float *outputs[NETWORK_OUTPUTS], *old_outputs[NETWORK_OUTPUTS], *by_outputs[NETWORK_OUTPUTS];
    float *old_features;    /* [capacity x inputs], with a 1 */
    float *moment, *square; /* of the head's coefficients */
    struct head_own own;
    double loss;                           /* of the epoch so far */
    const struct state_progress *progress; /* of the lesson; NULL: none is kept */
    double kept_at, keep_every;            /* when that was done last, and after how many seconds of work it is done again */
};

/* Numbers of an output for one picture. */
size_t head_output_numbers(const struct head *head, size_t output);

l3a_status head_network_create(struct head *head, const l3a_options *settings);
void head_network_free(struct head *head);
/* The pictures of the run, and its network. */
void head_network_use(struct head *head, const struct training_source *source);
/* Before classes are added; after that; and after the phase. */
l3a_status head_network_keep_old(struct head *head);
l3a_status head_network_begin(struct head *head);
l3a_status head_network_finish(struct head *head);
/* The work space of a phase. */
l3a_status head_network_make_room(struct head *head, size_t capacity);
void head_network_drop_room(struct head *head);

/* Begins an epoch. */
void head_network_start_epoch(struct head *head, size_t epoch);
/* Begins to read the rows of a step: rows of the phase and, numbered after them, slots of the memory. */
l3a_status head_network_read_ahead(struct head *head, const struct rows *rows, const size_t *order, const size_t *joined,
                                   size_t count);
/* Loads the pictures of a step: those that were begun, and those drawn from the memory. */
l3a_status head_network_load(struct head *head, struct rows *rows, const size_t *order, const size_t *joined, struct batch *batch);
/* Features of the batch's pictures, and of those of the network before the phase. */
l3a_status head_network_forward(struct head *head, struct batch *batch);
/* Loss and gradient by the scores, each row with its weight. */
l3a_status head_network_loss(struct head *head, struct batch *batch);
/* Gradients of coefficients are there, and not yet those of the network; all of them step. */
l3a_status head_network_step(struct head *head, struct batch *batch, float *gradient, size_t step, size_t steps);

/* Fills in the features of rows of a phase, or of the memory, as the network sees them now. */
l3a_status head_network_look(struct head *head, struct rows *rows);
l3a_status head_network_look_at_memory(struct head *head);
/* Calls `take` for each picture of the phase by itself, after the loss's gradient of it is in the network. */
l3a_status head_network_visit(struct head *head, struct rows *rows, size_t most, l3a_status (*take)(struct head *head));
/* What a run of the method will take. */
l3a_status head_network_plan(void *state, const struct training_source *source, size_t classes, struct training_need *need);
/* Scores of test pictures. */
l3a_status head_score_pictures(void *state, const struct training_source *source, const size_t *rows, size_t count, float *scores);

/* head_progress.c. Keeps what `epoch` epochs of a phase have changed, if it is time to; and goes on after those that were kept. */
l3a_status head_progress_keep(struct head *head, const struct rows *rows, size_t epoch, size_t steps);
l3a_status head_progress_resume(struct head *head, const struct rows *rows, size_t *epoch, size_t *steps);

/* head_network_state.c: what is kept between phases besides what every head keeps. */
l3a_status head_network_save(const struct head *head, l3a_state *into);
l3a_status head_network_load_state(struct head *head, const l3a_state *from);

#endif
