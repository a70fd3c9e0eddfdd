/* The model: what it keeps between phases, and the phase that may be going on. */
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
    MODEL_BROKEN /* left a phase after some of its rows were added to the sums, or failed to be merged or to forget */
} model_state;

/* Sees the labels of old classes that a phase gives its rows, in the order they were handed over: labels [rows x stride]. */
struct label_witness {
    void (*see)(void *user, uint64_t first, size_t rows, const int8_t *labels, size_t stride);
    void *user;
};

/* How large the features of a phase are, and the row that is largest of all. */
struct feature_scale {
    double sum; /* of ‖z‖² over all rows … */
    uint64_t rows;
    double largest; /* … and of one */
    uint64_t row;
    size_t column; /* of its largest number */
    float value;
};

/* A phase going on. Class arrays cover all classes, the phase's own being the last. */
struct phase {
    text_list classes;
    uint64_t *counts;  /* f, with what this phase's labels added */
    uint64_t *learned; /* the same count, over the rows that were learned */
    double *class_weight;
    double *label_weight; /* of the next model, as the two that follow */
    double *cross, *weights;
    struct part part; /* A of this phase, when phases are kept apart */
    bool apart;       /* the square collects it: it is not among the model's parts yet */
    struct gamma_sample sample;
    uint64_t rows; /* that were counted */
    uint64_t rows_learned;
    bool recursive;
    bool dirty;  /* rows of this phase are in the sums */
    bool failed; /* a block of rows could be added only in part */
    l3a_phase_info info;
    threshold_survey survey;
    struct feature_scale scale;
    const l3a_features *table; /* where the rows come from, with … */
    const size_t *table_rows;  /* … their numbers there; NULL: handed over by themselves */

    size_t block, staged; /* rows that fit, and rows that wait */
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
    l3a_options options;
    size_t width;
    text_list classes;
    uint64_t *counts;
    double *label_weight;     /* Σ ω over the images labelled with each class; -infinity where an old file did not say */
    double *class_weight;     /* v of each class when its phase was learned; 0 where nobody knows, or it had no image */
    double *cross, *weights;  /* C and W, [d x classes] */
    struct analytic analytic; /* its square is work space where phases are kept apart */
    struct part *parts;
    size_t part_count;
    struct buffer buffer; /* made when it is first needed */
    l3a_phase_info *phases;
    size_t phase_count;
    text_list record_keys, record_values;
    model_state state;
    struct phase phase;
    struct label_witness witness; /* see is NULL: nobody looks */
};

/* Whether it is a setting of models, which their files keep. */
bool is_model_setting(const l3a_option_info *info);
/* What the model records of how the features were made, from the first table it learns. */
l3a_status model_keep_provenance(l3a_model *model, const l3a_features *features);
/* Whether so many bytes fit the memory there is, held bytes of it being taken already. */
l3a_status check_memory(l3a_context *context, const l3a_options *options, size_t width, uint64_t needed, uint64_t held);
/* Whether the model is between phases, or in one. */
l3a_status check_state(const l3a_model *model, bool in_phase);
real model_real(const l3a_model *model);
/* Where more parts than the setting `keep-phases` allows are kept, adds the oldest to the one after it. */
void model_fold(l3a_model *model);
/* W from what the model holds. */
l3a_status model_solve(const l3a_model *model, size_t columns, const double *cross, double *weights);
l3a_status model_buffer(l3a_model *model);
/* The weights as single where the model works in single: a copy the caller releases, or NULL on failure. */
l3a_status model_working_weights(const l3a_model *model, void **weights);
/* How many phases are kept apart at most, while so many are learned. */
uint64_t kept_phases(const l3a_options *options, uint64_t phases);
/* A phase to be learned. */
struct phase_size {
    size_t old, all; /* classes before it, and with it */
    uint64_t rows;
    uint64_t parts; /* kept apart before it */
    bool inverse;   /* the phase before was learned by recursion */
};

/* Whether a phase of so many rows is learned by recursion. */
bool chooses_recursion(const l3a_options *options, uint64_t dim, uint64_t rows, bool inverse);

/* Bytes at the peak while it is learned, the model's own among them; and while rows are scored. */
uint64_t phase_memory(const l3a_context *context, const l3a_options *options, size_t width, const struct phase_size *phase);
uint64_t score_memory(const l3a_options *options, size_t width, size_t classes, uint64_t parts, uint64_t rows);
/* Whether the plan fits the memory there is, held bytes of it being taken already. */
l3a_status model_check_memory(l3a_context *context, const l3a_options *options, size_t width, size_t classes, uint64_t phases,
                              uint64_t held);
/* Bytes of the matrices that the model holds. */
uint64_t model_memory(const l3a_model *model);

#endif
