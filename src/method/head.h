/* A linear head on frozen features, trained by gradient descent: what finetune and its rivals have in common.
 *
 * A method is a set of rules: settings, hooks into the training of a phase, and a struct that begins with a struct head. Its file
 * also defines the learner, whose functions other than create() are the head's.
 *
 * Rows of a phase and of a replay memory are stored as features with a 1 appended. What the head is trained on is made from them
 * one batch at a time, so that a head on the random layer never keeps a phase's expanded rows. */
#ifndef L3A_HEAD_H
#define L3A_HEAD_H

#include "learn/buffer.h"
#include "method/loss.h"
#include "method/method.h"
#include "method/optimiser.h"
#include "method/replay.h"
#include "method/stream.h"

/* What one step is made from. The first `fresh` rows are the epoch's next ones; the others were drawn from the memory. */
struct batch {
    size_t fresh, last, rows; /* the last draw from the memory begins at `last` */
    bool last_pass;           /* over the phase */
    float *stored;            /* [rows x stored] */
    float *features;          /* [rows x inputs]; the same array where the input is the features */
    float *targets;           /* [rows x classes], 0 where a label was not given */
    float *scale;             /* [rows], of the loss on the targets */
    size_t *slots;            /* [rows], of replayed rows: where in the memory they are */
    float *scores;            /* [rows x classes] */
    float *old;               /* [rows x old classes]: the scores of the head as it was before the phase; distilling methods only */
    float *gradient;          /* by the scores */
};

/* What a method uses where the settings leave it open; see tools/tune_heads.py. */
struct tuning {
    size_t epochs;
    double first_rate, rate; /* highest of the cycle, in the first phase and in later ones */
    double lambda;           /* weight of what the method adds to the loss */
    size_t memory;           /* rows kept: of each class, or in all */
    bool of_each_class;
};

/* What stands for the labels of old classes. */
enum distillation {
    DISTIL_NONE, /* labels that are not given are 0 */
    DISTIL_ONLY, /* the old head's probabilities, in place of labels */
    DISTIL_TOO   /* those as well, weighted by (old classes / new classes) */
};

struct head;

/* NULL where there is nothing to do. */
struct head_rules {
    size_t size; /* of the method's struct */
    struct tuning tuning;
    size_t replays; /* draws from the memory with each batch of the phase */
    bool apart;     /* each draw weighs as much as the batch; else the loss is the mean over all rows of the step */
    bool joins;     /* the memory's rows are shuffled among the phase's instead, and shown once an epoch */
    enum distillation distils;
    /* Before a phase is trained; the head has its new classes already. May take rows away. */
    l3a_status (*prepare)(struct head *head, struct rows *rows);
    /* Add to the gradient by the scores, and by the weights. */
    void (*score_terms)(const struct head *head, struct batch *batch);
    void (*weight_terms)(struct head *head, float *gradient);
    /* After a step, with the numbers of the phase's rows that were in it. */
    void (*stepped)(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch);
    /* After a phase was trained. */
    l3a_status (*finish)(struct head *head, const struct rows *rows);
    void (*release)(struct head *head);
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
    struct buffer layer;  /* the random layer; its matrix is NULL where the input is the features */
    float layer_scale;    /* of its outputs */
    size_t stored;        /* numbers of a stored row: the features and a one */
    size_t inputs;        /* of the head: the same, or what the layer makes of it */
    size_t total_classes; /* of the whole run */
    size_t classes;       /* seen, with those of the phase */
    size_t old;           /* seen before the phase */
    float *weights;       /* [classes x inputs] */
    float *old_weights;   /* [old x inputs], before the phase; distilling methods only */
    struct memory memory;
};

/* What a learner's create() calls. */
l3a_status head_create(l3a_context *context, const struct head_rules *rules, const l3a_options *settings, size_t width,
                       void **state);
l3a_status head_learn(void *state, const struct lesson *lesson, struct outcome *outcome);
l3a_status head_score(void *state, const float *features, size_t rows, float *scores);
void head_edges(const void *state, double *edges);
void head_free(void *state);

/* A learner of these rules, `name`_learner. */
#define HEAD_LEARNER(name, rules)                                                                                                  \
    static l3a_status name##_create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,  \
                                    void **state) {                                                                                \
        (void)method;                                                                                                              \
        return head_create(context, &(rules), settings, width, state);                                                             \
    }                                                                                                                              \
    const struct learner name##_learner = {name##_create, head_learn, head_score, head_edges, head_free, false}

/* inputs [rows x inputs] of stored rows; the two may be one array where the input is the features. */
void head_expand(const struct head *head, const float *stored, size_t rows, float *inputs);
/* scores [rows x classes], in an array of `stride` columns, of such inputs. */
void head_multiply(const struct head *head, const float *weights, size_t classes, const float *inputs, size_t rows, float *scores,
                   size_t stride);
/* *array [old x inputs] becomes [classes x inputs], new numbers being 0. */
l3a_status head_widen(const struct head *head, float **array);
/* Images the memory may hold in all, and of each class. */
size_t head_memory_slots(const struct head *head);
size_t head_memory_of_class(const struct head *head);
/* A phase of its own classes; total_classes is set. */
l3a_status head_learn_rows(struct head *head, struct rows *rows);
/* The training of all classes on a phase's rows. */
l3a_status head_train(struct head *head, const struct rows *rows);

#endif
