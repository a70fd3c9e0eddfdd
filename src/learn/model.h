/* The model: what it keeps between phases, and the phase in progress, if any. */
#ifndef L3A_MODEL_H
#define L3A_MODEL_H

#include "base/memory.h"
#include "learn/analytic.h"
#include "learn/buffer.h"
#include "learn/gamma.h"
#include "learn/options.h"
#include "learn/part.h"
#include "learn/pseudo_label.h"

typedef enum model_state {
    MODEL_READY,
    MODEL_COUNTING, /* in a phase, before its first row */
    MODEL_LEARNING,
    MODEL_BROKEN /* a phase was abandoned after some of its rows were added to the sums, or merging or forgetting failed */
} model_state;

/* Receives the labels of old classes that a phase gives its rows, in the order of the rows: labels [rows x stride]. */
struct label_witness {
    void (*see)(void *user, uint64_t first, size_t rows, const int8_t *labels, size_t stride);
    void *user;
};

/* How large the features of a phase are, and which row is the largest. */
struct feature_scale {
    double sum; /* of ‖z‖² over all rows */
    uint64_t rows;
    double largest; /* ‖z‖² of the largest row */
    uint64_t row;
    size_t column; /* of the largest number in that row */
    float value;
};

/* A phase in progress. Class arrays cover all classes; the phase's own come last. */
struct phase {
    text_list classes;
    uint64_t *counts;  /* f, including this phase's labels */
    uint64_t *learned; /* the same count, over the rows learned so far */
    double *class_weight;
    double *label_weight; /* of the next model, like the two fields below */
    double *cross, *weights;
    struct part part; /* A of this phase, if phases are kept apart */
    bool apart;       /* the square collects A, which is not among the model's parts yet */
    struct gamma_sample sample;
    uint64_t rows; /* counted so far */
    uint64_t rows_learned;
    bool recursive;
    bool dirty;  /* rows of this phase are in the sums */
    bool failed; /* a block of rows was only partly added */
    l3a_phase_info info;
    threshold_survey survey;
    struct feature_scale scale;
    const l3a_features *table; /* where the rows come from; NULL: the caller passes them */
    const size_t *table_rows;  /* their numbers in the table */

    size_t block, staged; /* capacity in rows, and rows waiting */
    float *features;      /* [block x k] */
    int8_t *labels;       /* [block x classes] */
    double *wide;         /* features as double; double precision only */
    void *expanded;       /* x [block x d] */
    void *scores;         /* [block x old classes] */
    void *old_weights;    /* the model's weights in the working precision */
    void *targets;        /* [block x classes], ŷ scaled by √ω */
    double *row_scale;    /* √ω */
    float *panel;
    float *cross_block;
    struct recursion recursion;
    double expand_seconds;
};

struct l3a_model {
    l3a_context *context;
    struct model_options options;
    size_t width;
    text_list classes;
    uint64_t *counts;
    double *label_weight;     /* Σ ω over the images labelled with each class; -infinity if an old file did not say */
    double *class_weight;     /* v of each class when its phase was learned; 0 if unknown, or if it had no image */
    double *cross, *weights;  /* C and W, [d x classes] */
    struct analytic analytic; /* its square is work space if phases are kept apart */
    struct part *parts;
    size_t part_count;
    struct buffer buffer; /* created when it is first needed */
    l3a_phase_info *phases;
    size_t phase_count;
    text_list record_keys, record_values;
    model_state state;
    struct phase phase;
    struct label_witness witness; /* none if see is NULL */
};

/* As l3a_model_create() and l3a_model_plan(). */
l3a_status model_create(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model);
l3a_status model_plan(l3a_context *context, const struct model_options *options, size_t width, size_t classes, l3a_plan *plan);
/* Records how the features were made, unless an earlier table has set it. */
l3a_status model_keep_provenance(l3a_model *model, const l3a_features *features);
/* Checks that `needed` bytes fit into memory; `held` of them are allocated already. */
l3a_status check_memory(l3a_context *context, const struct model_options *options, size_t width, uint64_t needed, uint64_t held);
/* Checks that the model is in a phase, or between phases. */
l3a_status check_state(const l3a_model *model, bool in_phase);
real model_real(const l3a_model *model);
/* While there are more parts than the setting `keep-phases` allows, adds the oldest part to the one after it. */
void model_fold(l3a_model *model);
/* Computes W from the model's sums. */
l3a_status model_solve(const l3a_model *model, size_t columns, const double *cross, double *weights);
l3a_status model_buffer(l3a_model *model);
/* A copy of the weights in the working precision, which the caller releases; NULL on failure. */
l3a_status model_working_weights(const l3a_model *model, void **weights);
/* The largest number of phases that are kept apart while `phases` phases are learned. */
uint64_t kept_phases(const struct model_options *options, uint64_t phases);
/* The size of a phase to be learned. */
struct phase_size {
    size_t old, all; /* classes before it, and including it */
    uint64_t rows;
    uint64_t parts; /* phases kept apart before it */
    bool inverse;   /* the phase before was learned by recursion */
};

/* Whether a phase of `rows` rows is learned by recursion. */
bool chooses_recursion(const struct model_options *options, uint64_t dim, uint64_t rows, bool inverse);

/* Peak memory in bytes, including the model's own, while a phase is learned, and while rows are scored. */
uint64_t phase_memory(const l3a_context *context, const struct model_options *options, size_t width,
                      const struct phase_size *phase);
uint64_t score_memory(const struct model_options *options, size_t width, size_t classes, uint64_t parts, uint64_t rows);
/* Checks that the plan fits into memory; `held` bytes are allocated already. */
l3a_status model_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                              uint64_t phases, uint64_t held);
/* Bytes of the matrices that the model holds. */
uint64_t model_memory(const l3a_model *model);

#endif
