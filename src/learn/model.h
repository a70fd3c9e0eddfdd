/* The model: what it keeps between phases, and the phase in progress, if any. */
#ifndef L3A_MODEL_H
#define L3A_MODEL_H

#include "base/memory.h"
#include "learn/phase_gamma.h"
#include "learn/model_options.h"
#include "learn/part_solve.h"
#include "learn/pseudo_label.h"
#include "learn/scorer.h"
#include "learn/view_rows.h"

typedef enum model_state {
    MODEL_READY,
    MODEL_COUNTING, /* in a phase, before its first row */
    MODEL_LEARNING,
    MODEL_BROKEN /* a phase that could not be solved was abandoned, or merging or forgetting failed */
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

/* The sums over all that was learned. Models that differ only in how they solve can share them (model_group.h). */
struct evidence {
    struct ridge ridge; /* its sums are work space if phases are kept apart */
    struct part *parts;
    size_t part_count;
    bool summed;   /* the first half of the ridge's sums holds the sum of the parts as they are */
    double *cross; /* C [d x classes] */
    struct search_end end;
    size_t users;
};

/* After a change of the parts: what was derived from them is no longer known. */
static inline void evidence_changed(struct evidence *evidence) {
    evidence->summed = false;
    evidence->end.known = false;
}

/* A phase in progress. Class arrays cover all classes; the phase's own come last. */
struct phase {
    text_list classes;
    uint64_t *counts;  /* f, including this phase's labels */
    uint64_t *learned; /* the same count, over the rows learned so far */
    double *class_weight;
    double *label_weight;         /* what the phase adds to the model's */
    double *cross, *coefficients; /* of the next model */
    struct gamma_sample sample;
    uint64_t rows; /* counted so far */
    uint64_t rows_learned;
    uint64_t all_rows;  /* of all processes that share the phase */
    uint64_t first_row; /* the number of this process's first row among them */
    bool recursive;
    bool complete;    /* all rows are in the sums, and gamma is known */
    bool chose_gamma; /* from the sample */
    bool kept;        /* the sums have been added to the model's */
    bool failed;      /* a block of rows was only partly added */
    l3a_phase_info info;
    threshold_survey survey;
    struct feature_scale scale;
    const l3a_features *table; /* where the rows come from; NULL: the caller passes them */
    const size_t *table_rows;  /* their numbers in the table */

    /* A block of images: how many fit, and how many wait to be learned together. An image has V rows (view_rows.h). */
    size_t block, staged;
    float *features;                       /* [block x V x k] */
    int8_t *own;                           /* [block x the phase's classes]: the labels that were given */
    int8_t *labels;                        /* [block x classes], true and pseudo */
    void *scores;                          /* [block x old classes], with room for [block x V x old classes] */
    bool scored;                           /* a group has filled them in */
    double *weight;                        /* [block x V]: what each row counts */
    double *targets;                       /* [block x V x classes]: ŷ */
    struct block *rows_of_block, own_rows; /* the expanded block, and where it is unless the models of a group share it */
    double expand_seconds;
};

struct l3a_model {
    l3a_context *context;
    struct model_options options;
    size_t width;
    text_list classes;
    uint64_t *counts;
    double *label_weight; /* Σ ω over the images labelled with each class; -infinity if an old file did not say */
    double *class_weight; /* v of each class when its phase was learned; 0 if unknown, or if it had no image */
    struct evidence *evidence;
    double *coefficients; /* W [d x classes] */
    struct layer layer;   /* created when it is first needed; that of shared_layer */
    struct shared_layer *shared_layer;
    struct solution solution; /* of the coefficients; created when it is first needed */
    l3a_phase_info *phases;
    size_t phase_count;
    text_list record_keys, record_values;
    model_state state;
    struct phase phase;
    struct change *change;        /* in progress; NULL: none (model_change.h) */
    struct label_witness witness; /* none if see is NULL */
    bool in_group;                /* the group warns of what concerns all its models */
};

static inline size_t model_dim(const l3a_model *model) {
    return model->evidence->ridge.sums.dim;
}

/* Numbers in the features of an image. */
static inline size_t model_image(const l3a_model *model) {
    return view_rows((size_t)model->options.views) * model->width;
}

/* Whether several processes hold its sums together. */
bool shares_sums(const l3a_model *model);
/* Fails if they do. */
l3a_status check_own_sums(const l3a_model *model);
/* As l3a_model_create() and l3a_model_plan(). */
l3a_status model_create(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model);
/* A model without memory for sums: it can score, and be freed, and nothing else. */
l3a_status model_create_to_score(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model);
l3a_status model_plan(l3a_context *context, const struct model_options *options, size_t width, size_t classes, l3a_plan *plan);
/* The images in its parts. */
double model_images(const l3a_model *model);
/* l3a_model_thresholds() for images that are scored with these views. */
void model_thresholds(const l3a_model *model, size_t views, double *thresholds);
/* Records how the features were made, unless an earlier table has set it. */
l3a_status model_keep_provenance(l3a_model *model, const l3a_features *features);
/* Checks that the model is in a phase, or between phases. */
l3a_status check_state(const l3a_model *model, bool in_phase);
real options_real(const struct model_options *options);
/* Uses the evidence of another model instead of its own, which must be empty. */
void model_share(l3a_model *model, const l3a_model *other);
/* While there are more parts than the setting `keep-phases` allows, folds the oldest part into the one after it. */
l3a_status model_fold(l3a_model *model);
/* Makes the ridge hold the sum of the parts, and the model's gamma. */
l3a_status model_sum_parts(l3a_model *model);
/* Computes W from the model's sums. */
l3a_status model_solve(l3a_model *model, size_t columns, const double *cross, double *coefficients);
/* Makes the layer and, with a class, the solution. */
l3a_status model_ready(l3a_model *model);
/* Only the layer. */
l3a_status model_ready_layer(l3a_model *model);
/* Only the solution, for rows that another model's layer has expanded. */
l3a_status model_ready_solution(l3a_model *model);
/* Frees what model_ready() derived from the coefficients, after they have changed. */
void model_changed(l3a_model *model);
struct layer_shape model_layer_shape(const struct model_options *options, size_t width);

/* phase.c: the steps of a phase. l3a_phase_learn() and l3a_phase_end() consist of them; a group takes them with several models. */
/* Prepares learning, after everything was counted. rows: where blocks are expanded; NULL: the phase has its own. Everything that
 * may fail for lack of memory happens here. */
l3a_status phase_prepare(l3a_model *model, struct block *rows);
/* The part of it that a survey needs. */
l3a_status phase_prepare_block(l3a_model *model, struct block *rows);
void warn_of_empty_classes(const l3a_model *model);
/* Adds the scores of an expanded block to the survey for the dynamic threshold. */
l3a_status phase_survey_expanded(l3a_model *model);
/* ŷ and ω of an expanded block, whose labels of the phase's classes are in phase.own. */
l3a_status phase_label(l3a_model *model, const float *features, size_t count);
/* Adds that block to the phase's sums. */
l3a_status phase_add(l3a_model *model);
/* Called when all rows were added: takes C and, if need be, the sums of other processes and gamma. shares: the sums are those of
 * another model, which does so. */
l3a_status phase_complete(l3a_model *model, bool shares);
/* Adds the phase's sums to the evidence. */
l3a_status phase_keep(l3a_model *model);
/* Solves, and makes the phase part of the model. */
l3a_status phase_finish(l3a_model *model);

/* plan.c */
/* The size of a phase to be learned. */
struct phase_size {
    size_t old, all; /* classes before it, and including it */
    uint64_t rows;   /* images */
    uint64_t parts;  /* phases kept apart before it */
    bool inverse;    /* the phase before was learned by recursion */
};

/* Whether a phase of so many images is learned by recursion. */
bool chooses_recursion(const l3a_context *context, const struct model_options *options, uint64_t dim, uint64_t images,
                       bool inverse);
/* Images that are processed at a time, of so many. */
size_t block_images(const struct model_options *options, uint64_t images);
/* The largest number of phases that are kept apart while `phases` phases are learned. */
uint64_t kept_phases(const struct model_options *options, uint64_t phases);
/* Peak memory in bytes, including the model's own, while a phase is learned, and while rows are scored. */
uint64_t phase_memory(enum place place, l3a_context *context, const struct model_options *options, size_t width,
                      const struct phase_size *phase);
uint64_t score_memory(enum place place, const l3a_context *context, const struct model_options *options, size_t width,
                      size_t classes, uint64_t parts, uint64_t rows);
/* Peak memory of a model that learns `phases` phases. A context that is still choosing leaves a device that is too small. */
void model_need(l3a_context *context, const struct model_options *options, size_t width, size_t classes, uint64_t phases,
                struct footprint *need);
/* Bytes of a part at most, wherever it is. */
uint64_t part_bytes(const l3a_context *context, const struct model_options *options, size_t width);
/* Whether a context that is still choosing had a device that is too small. It has the processor now, where something else is
 * needed. */
bool leaves_device(l3a_context *context, const struct model_options *options, size_t width, const struct footprint *needed);
/* Where parts will be: on the device as many as fit. */
struct placement {
    uint64_t processor, device; /* bytes */
    uint64_t parts, spilled;    /* that may be on the device, and how many of them it has no room for; these add to processor */
    uint64_t available;         /* bytes of the device's memory */
    bool fits;                  /* all but the parts, into the device's memory */
};
l3a_status place_parts(l3a_context *context, const struct footprint *needed, const struct footprint *held, uint64_t part,
                       struct placement *placed);
/* Checks that what is needed fits into memory; what is held is allocated already. */
l3a_status check_memory(l3a_context *context, const struct model_options *options, size_t width, const struct footprint *needed,
                        const struct footprint *held);
/* Checks that the plan fits into memory. model: the one that is to learn; NULL: it does not exist yet. */
l3a_status model_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                              uint64_t phases, const l3a_model *model);
/* Bytes of the matrices that the model holds. */
void model_memory(const l3a_model *model, struct footprint *held);
/* Rows that compared methods read at a time, and rows that are scored at a time. */
enum { READ_ROWS = 512, SCORE_ROWS = 1024 };
/* Bytes of the arrays of a phase: of its block, and of its columns. `phase` need not be in progress. */
enum { BLOCK_ARRAYS = 6, COLUMN_ARRAYS = 2 };
void list_block(struct phase *phase, const struct model_options *options, size_t block, size_t width, size_t old, size_t all,
                struct array *list);
void list_columns(struct phase *phase, size_t dim, size_t all, struct array *list);

#endif
