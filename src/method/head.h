/* A linear head on the frozen features, trained by gradient descent: what finetune and its rivals have in common.
 *
 * A method is a set of rules, hooks into the training of a phase, and a struct that begins with a struct head. Its file also
 * defines the learner, whose functions but create() are the head's. */
#ifndef L3A_HEAD_H
#define L3A_HEAD_H

#include "base/matrix.h"
#include "method/loss.h"
#include "method/method.h"
#include "method/optimiser.h"

/* Random numbers in a row: the job's own stream. */
struct stream {
    uint64_t seed, next;
};

uint64_t stream_bits(struct stream *stream);
double stream_uniform(struct stream *stream);
/* order becomes a permutation of 0 … count − 1. */
void stream_shuffle(struct stream *stream, size_t *order, size_t count);

/* The training rows of a phase. */
struct rows {
    size_t count, inputs;
    size_t classes;  /* that are new in the phase */
    float *features; /* [count x inputs], the last of a row being 1 */
    int8_t *labels;  /* [count x classes]; 1: present */
};

/* What one step is made from. The first `fresh` rows are the phase's, the others replayed. */
struct batch {
    size_t fresh, rows;
    float *features; /* [rows x inputs] */
    float *targets;  /* [rows x classes], 0 where a label was not given */
    float *scale;    /* [rows], of the loss on the targets */
    float *scores;   /* [rows x classes] */
    float *gradient; /* by the scores */
};

struct tuning {
    enum loss loss;
    size_t epochs, batch;
    double first_rate, rate; /* highest of the cycle, in the first phase and in later ones */
    double lambda;           /* of the method's own term */
    double theta;            /* probability above which a class counts as predicted */
    size_t memory;           /* rows kept: for each class, or in all */
};

struct head;

struct head_rules {
    size_t size;    /* of the method's struct */
    size_t replays; /* rows replayed for each of the phase's, at most */
    /* Before a phase is trained; the head has its new classes already, and may take rows for itself. */
    l3a_status (*prepare)(struct head *head, struct rows *rows);
    /* Adds rows to the batch: features, targets, scale. */
    void (*replay)(struct head *head, struct batch *batch);
    /* Add to the gradient by the scores, and by the weights. */
    void (*score_terms)(struct head *head, struct batch *batch);
    void (*weight_terms)(const struct head *head, float *gradient);
    /* After a phase was trained. */
    l3a_status (*finish)(struct head *head, const struct rows *rows);
    /* Changes scores [rows x classes] before they are given out. */
    void (*correct)(const struct head *head, size_t rows, float *scores);
    void (*release)(struct head *head);
};

struct head {
    l3a_context *context;
    const struct head_rules *rules;
    struct tuning tuning;
    uint64_t seed;
    struct stream random;
    size_t inputs;  /* the features and a one */
    size_t classes; /* seen, with those of the phase */
    size_t old;     /* seen before the phase */
    float *weights; /* [classes x inputs] */
};

/* What a learner's create() calls. */
l3a_status head_create(l3a_context *context, const struct head_rules *rules, const struct method *method,
                       const l3a_options *settings, size_t width, void **state);
l3a_status head_learn(void *state, const struct lesson *lesson, struct outcome *outcome);
l3a_status head_score(void *state, const float *features, size_t rows, float *scores);
void head_edges(const void *state, double *edges);
void head_free(void *state);

/* scores [rows x classes] of features with their one, by other weights than the head's, perhaps. */
void head_multiply(const struct head *head, const float *weights, size_t classes, const float *features, size_t rows,
                   float *scores);
/* *array [old x inputs] becomes [classes x inputs], new numbers being 0. */
l3a_status head_widen(const struct head *head, float **array);

#endif
