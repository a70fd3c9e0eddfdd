/* A linear head on the frozen features, trained by gradient descent: what finetune and its rivals have in common.
 *
 * A method is a set of rules, hooks into the training of a phase, and a struct that begins with a struct head. Its file also
 * defines the learner, whose functions but create() are the head's. */
#ifndef L3A_HEAD_H
#define L3A_HEAD_H

#include "base/matrix.h"
#include "method/loss.h"
#include "method/replay.h"
#include "method/method.h"
#include "method/optimiser.h"
#include "method/stream.h"

/* What one step is made from. The first `fresh` rows are the phase's, the others replayed. */
struct batch {
    size_t fresh, last, rows; /* the last batch from the memory begins at `last` */
    float *features;          /* [rows x inputs] */
    float *targets;           /* [rows x classes], 0 where a label was not given */
    float *scale;             /* [rows], of the loss on the targets */
    size_t *slots;            /* [rows], of replayed rows: where in the memory they are */
    float *scores;            /* [rows x classes] */
    float *old;               /* [rows x old classes]: the scores of the head as it was before the phase; distilling methods only */
    float *gradient;          /* by the scores */
};

struct tuning {
    size_t epochs;
    double first_rate, rate; /* highest of the cycle, in the first phase and in later ones */
    double lambda;           /* weight of what the method adds to the loss */
    size_t memory;           /* rows kept: for each class, or in all */
};

struct head;

/* NULL where there is nothing to do. */
struct head_rules {
    size_t size;    /* of the method's struct */
    size_t replays; /* batches from the memory with each of the phase's */
    bool distils;   /* lambda times the cross-entropy against the old head's probabilities, for old classes, is added to the loss */
    /* Before a phase is trained; the head has its new classes already. May take rows away. */
    l3a_status (*prepare)(struct head *head, struct rows *rows);
    /* Add to the gradient by the scores, and by the weights. */
    void (*score_terms)(const struct head *head, struct batch *batch);
    void (*weight_terms)(struct head *head, float *gradient);
    /* After a step. */
    void (*stepped)(struct head *head);
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
    size_t inputs;      /* the features and a one */
    size_t classes;     /* seen, with those of the phase */
    size_t old;         /* seen before the phase */
    float *weights;     /* [classes x inputs] */
    float *old_weights; /* [old x inputs], before the phase; distilling methods only */
    struct memory memory;
};

/* What a learner's create() calls. */
l3a_status head_create(l3a_context *context, const struct head_rules *rules, const struct method *method,
                       const l3a_options *settings, size_t width, void **state);
l3a_status head_learn(void *state, const struct lesson *lesson, struct outcome *outcome);
l3a_status head_score(void *state, const float *features, size_t rows, float *scores);
void head_edges(const void *state, double *edges);
void head_free(void *state);

/* A learner of these rules, `name`_learner. */
#define HEAD_LEARNER(name, rules)                                                                                                  \
    static l3a_status name##_create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,  \
                                    void **state) {                                                                                \
        return head_create(context, &(rules), method, settings, width, state);                                                     \
    }                                                                                                                              \
    const struct learner name##_learner = {name##_create, head_learn, head_score, head_edges, head_free, false}

/* scores [rows x classes] of features with their one. */
void head_multiply(const struct head *head, const float *weights, size_t classes, const float *features, size_t rows,
                   float *scores);
/* *array [old x inputs] becomes [classes x inputs], new numbers being 0. */
l3a_status head_widen(const struct head *head, float **array);

#endif
