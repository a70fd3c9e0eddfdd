/* A linear head on frozen features, trained by gradient descent: what finetune and similar methods have in common. With the setting
 * train-backbone, the network below is trained as well (head_network.h).
 *
 * A method is a set of rules: settings, hooks into the training of a phase, and a struct that begins with a struct head. Its file
 * also defines the learner, whose functions other than create() are the head's.
 *
 * Images of a phase and of a replay memory are stored as the features of each of their views, with a 1 appended to each. A step
 * sees one view of an image (train.c). The inputs of the head are computed one batch at a time, so a head on the random layer never
 * keeps a phase's expanded rows. */
#ifndef L3A_HEAD_H
#define L3A_HEAD_H

#include "algebra/algebra.h"
#include "base/stream.h"
#include "base/views.h"
#include "method/head_network.h"
#include "method/method.h"
#include "method/replay.h"
#include "method/state.h"
#include "train/loss.h"
#include "train/optimiser.h"

/* The rows of one step. The first `fresh` rows are the epoch's next ones; the others were drawn from the memory. */
struct batch {
    size_t first;             /* where in the epoch's order its rows begin */
    size_t fresh, last, rows; /* the last draw from the memory begins at `last` */
    bool last_pass;           /* over the phase */
    float *stored;            /* [rows x stored] */
    float *features;          /* [rows x inputs]; the same array if the input is the features */
    float *targets;           /* [rows x classes], 0 if a label was not given */
    float *scale;             /* [rows], of the loss on the targets */
    size_t *slots;            /* [rows], slots of replayed rows in the memory */
    size_t *views;            /* [rows], which view of its image a row is */
    float *scores;            /* [rows x classes] */
    float *old;               /* [rows x old classes]: scores of the head before the phase; distilling methods only */
    float *gradient;          /* with respect to the scores */
};

/* What a method uses unless the settings say otherwise; see docs/methods-gradient.md. */
struct tuning {
    size_t epochs;
    double first_rate, rate; /* highest of the cycle, in the first phase and in later ones */
    double lambda;           /* weight of what the method adds to the loss */
    size_t memory;           /* rows kept, per class or in all */
    bool of_each_class;
};

/* What replaces the missing labels of old classes. */
enum distillation {
    DISTIL_NONE, /* labels that are not given are 0 */
    DISTIL_ONLY, /* the old head's probabilities instead of labels */
    DISTIL_TOO   /* both, with the probabilities weighted by (old classes / new classes) */
};

struct head;

/* An array that a method keeps between phases, with a row for each class or for each image in the memory. */
struct head_array {
    const char *name;
    size_t place;                                                         /* of the pointer to it, in the method's struct */
    l3a_number type;                                                      /* L3A_NUMBER_INT64: uint64_t */
    enum { EACH_CLASS, EACH_STORED, NETWORK_ONCE, PICTURES } rows;        /* the last two: none, unless a network is trained */
    enum { OF_ONE, OF_CLASSES, OF_INPUTS, OF_IMAGE, OF_NETWORK } columns; /* OF_IMAGE: its features; OF_NETWORK: its numbers */
};

/* A hook is NULL if there is nothing to do. */
struct head_rules {
    size_t size;    /* of the method's struct */
    size_t replays; /* draws from the memory with each batch of the phase */
    bool apart;     /* each draw weighs as much as the batch; otherwise the loss is the mean over all rows of the step */
    bool joins;     /* the memory's rows are shuffled among the phase's instead, and shown once per epoch */
    enum distillation distils;
    /* Called before a phase is trained, when the head already has its new classes. May remove rows. */
    l3a_status (*prepare)(struct head *head, struct rows *rows);
    /* Which view of a slot the last draw from the memory shows; NULL: one drawn at random, as everywhere else. */
    size_t (*kept_view)(const struct head *head, size_t slot);
    /* Add terms to the gradient with respect to the scores, and with respect to the coefficients. */
    void (*score_terms)(const struct head *head, struct batch *batch);
    void (*coefficient_terms)(struct head *head, float *gradient);
    /* Called after a step; `shown` are the numbers of the phase's rows in it. */
    void (*stepped)(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch);
    /* Called after a phase was trained. */
    bool looks; /* … and then looks at the features of the phase's rows, and of the memory's */
    l3a_status (*finish)(struct head *head, struct rows *rows);
    void (*release)(struct head *head);
    /* What is kept between phases, besides the coefficients and the memory. */
    const struct head_array *kept;
    size_t kept_count;
    /* Called after these arrays were loaded: checks their numbers, and makes what was not saved. */
    l3a_status (*resume)(struct head *head, const l3a_state *from);
    /* Arrays of float32 that steps change, with a trained network: what is kept between two epochs of a phase (head_progress.c). */
    const struct head_array *during;
    size_t during_count;
    /* With a trained network. NULL: as every method. */
    const struct trained_tuning *trained;
    const struct head_network_rules *network;
};

/* The random layer, on the processor: training takes small steps. */
struct head_layer {
    struct layer_shape shape;
    float *matrix; /* NULL if the input is the features */
};

struct head {
    l3a_context *context;
    const struct head_rules *rules;
    struct tuning tuning;
    l3a_loss loss;
    size_t batch; /* rows of a phase in a step */
    double theta; /* probability above which a class counts as predicted */
    uint64_t seed;
    struct stream random;
    struct head_layer layer;
    float layer_scale;       /* of its outputs */
    size_t views, scored;    /* of an image that is learned, and of one that is scored */
    size_t stored;           /* numbers in a stored view: the features and a 1; an image has view_rows(views) of them */
    size_t inputs;           /* numbers in an input of the head: the same, or those of the layer */
    size_t total_classes;    /* of the whole run */
    size_t phases;           /* … 0: not known yet */
    size_t classes;          /* seen so far, including those of the phase */
    size_t old;              /* seen before the phase */
    float *coefficients;     /* [classes x inputs] */
    float *old_coefficients; /* [old x inputs], before the phase; distilling methods only */
    struct memory memory;
    bool in_order;                /* the rows of a phase are shown as they are listed, not in random order */
    struct head_network *network; /* that makes the features; NULL: it is frozen, and they are given */
    const struct lesson *lesson;  /* that is being learned; NULL: none is */
};

/* Whether the scores are made from features by coefficients, and not by the network itself or by the method. */
static inline bool head_has_coefficients(const struct head *head) {
    const struct head_network_rules *rules = head->network ? head->rules->network : NULL;
    return !(rules && (rules->scores || rules->score));
}

/* What each of so many rows counts: the loss of a head on frozen features is a mean, that of a network a sum, unless its rules say
 * otherwise. */
static inline float head_row_share(const struct head *head, size_t rows) {
    const bool own = head->network && head->rules->network && head->rules->network->own_classes;
    return own ? 1 / ((float)rows * (float)head->total_classes) : head->network ? 1 : 1 / (float)rows;
}

/* What a learner's create() calls. */
l3a_status head_create(l3a_context *context, const struct head_rules *rules, const struct tuning *tuning,
                       const l3a_options *settings, size_t width, void **state);
l3a_status head_learn(void *state, const struct lesson *lesson, struct outcome *outcome);
l3a_status head_score(void *state, const float *features, size_t rows, float *scores);
void head_thresholds(const void *state, double *thresholds);
void head_free(void *state);
l3a_status head_save(void *state, l3a_state *into);
l3a_status head_load(void *state, const l3a_state *from);

#define HEAD_SETTINGS "|loss|epochs|batch|first-rate|rate|lambda|memory|memory-per|head-theta|head-input|train-backbone|"

/* What all such learners have in common. */
#define HEAD_LEARNER_FUNCTIONS                                                                                                     \
    .learn = head_learn, .score = head_score, .thresholds = head_thresholds, .free = head_free, .save = head_save,                 \
    .load = head_load, .holds_images = true, .plan = head_network_plan, .score_pictures = head_score_pictures

/* Defines `name`_learner, a learner with these rules and this tuning, in the order of struct tuning. */
#define HEAD_LEARNER(name, rules, epochs, first_rate, rate, lambda, memory, of_each_class)                                         \
    static l3a_status name##_create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,  \
                                    void **state) {                                                                                \
        static const struct tuning tuning = {epochs, first_rate, rate, lambda, memory, of_each_class};                             \
        (void)method;                                                                                                              \
        return head_create(context, &(rules), &tuning, settings, width, state);                                                    \
    }                                                                                                                              \
    const struct learner name##_learner = {.create = name##_create,                                                                \
                                           HEAD_LEARNER_FUNCTIONS,                                                                 \
                                           .settings = HEAD_SETTINGS,                                                              \
                                           .layer_settings = "|dim|skip-features|",                                                \
                                           .trained_settings = "|backbone-rate|"}

/* Computes inputs [rows x inputs] from stored views; the two may be one array if the input is the features. */
void head_expand(const struct head *head, const float *stored, size_t rows, float *inputs);
/* Computes scores [rows x classes], in an array of `stride` columns, from such inputs. */
void head_multiply(const struct head *head, const float *coefficients, size_t classes, const float *inputs, size_t rows,
                   float *scores, size_t stride);
/* Where a view of an image is, in the features of a phase or of a memory. */
static inline const float *head_view(const struct head *head, const float *images, size_t image, size_t view) {
    return images + (image * view_rows(head->views) + view) * head->stored;
}

/* Widens *array from [old x inputs] to [classes x inputs]; new numbers are 0. */
l3a_status head_widen(const struct head *head, float **array);
/* Images the memory may hold in all, and per class. */
size_t head_memory_slots(const struct head *head);
size_t head_memory_of_class(const struct head *head);
/* Learns the rows of a phase; total_classes must be set. */
l3a_status head_learn_rows(struct head *head, struct rows *rows);
/* Trains all classes on a phase's rows. */
l3a_status head_train(struct head *head, struct rows *rows);

#endif
