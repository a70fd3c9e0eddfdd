/* A phase in progress, and its steps (SPEC §3): pseudo-labels, counts, weights, sums, solution.
 *
 * The phase has sums of its own, which are added to the model's when it ends: a phase that is abandoned leaves the model as it was,
 * and processes that share a phase add up theirs before. */
#ifndef L3A_PHASE_H
#define L3A_PHASE_H

#include "learn/model_columns.h"
#include "learn/model_options.h"
#include "learn/phase_gamma.h"
#include "learn/phase_scale.h"
#include "learn/pseudo_label.h"

/* How far a phase is, once its first row was learned. */
enum phase_step {
    PHASE_OPEN,
    PHASE_FAILED,   /* a block of rows was only partly added */
    PHASE_COMPLETE, /* all rows are in the sums, and gamma is known */
    PHASE_KEPT      /* the sums have been added to the model's */
};

/* The images of a phase: a row each. */
struct phase_rows {
    uint64_t counted, learned; /* so far */
    uint64_t *shown;           /* [classes]: how many of those learned so far show each class */
    uint64_t all;              /* of all processes that share the phase */
    uint64_t first;            /* the number of this process's first row among them */
};

/* Where the rows come from, for messages. */
struct phase_source {
    const l3a_features *table; /* NULL: the caller passes them */
    const size_t *rows;        /* their numbers in the table */
};

/* A block of images, which are learned together. An image has V rows (view_rows.h). */
struct phase_block {
    size_t images, staged; /* how many fit, and how many wait to be learned */
    float *features;       /* [images x V x k] */
    int8_t *own;           /* [images x the phase's classes]: the labels that were given */
    int8_t *labels;        /* [images x classes], true and pseudo */
    void *scores;          /* [images x old classes], with room for [images x V x old classes] */
    bool scored;           /* a group has filled them in */
    double *weight;        /* [images x V]: what each row counts */
    double *targets;       /* [images x V x classes]: ŷ */
    struct block *rows;    /* expanded: own_rows, unless the models of a group share them */
    struct block own_rows;
    double expand_seconds;
};

/* Class arrays cover all classes; the phase's own come last. */
struct phase {
    text_list classes;
    struct model_columns next; /* of the model afterwards; label_weight is only what the phase adds to the model's */
    struct phase_rows rows;
    struct phase_source source;
    threshold_survey survey;
    struct feature_scale scale;
    struct gamma_sample sample;
    bool chose_gamma; /* from the sample */
    enum phase_step step;
    l3a_phase_info info;
    struct phase_block block;
};

/* Checks that the model is in a phase, or between phases. */
l3a_status check_state(const l3a_model *model, bool in_phase);

/* As the public functions of the same names, without checks of their arguments. */
l3a_status phase_begin(l3a_model *model, const char *const *classes, size_t class_count);
l3a_status phase_count(l3a_model *model, const int8_t *labels, size_t rows);
l3a_status phase_survey(l3a_model *model, const float *features, size_t rows);
l3a_status phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows);
l3a_status phase_end(l3a_model *model);
void phase_abandon(l3a_model *model);

/* What phase_learn() and phase_end() consist of; a group takes these steps with several models. */
/* Prepares learning, after everything was counted. rows: where blocks are expanded; NULL: the phase has its own. Everything that
 * may fail for lack of memory happens here. */
l3a_status phase_prepare(l3a_model *model, struct block *rows);
/* The part of it that a survey needs: the layer, a block of rows, the old coefficients. */
l3a_status phase_prepare_block(l3a_model *model, struct block *rows);
void phase_free_block(l3a_model *model);
void warn_of_empty_classes(const l3a_model *model);
/* Adds the scores of an expanded block to the survey for the dynamic threshold. */
l3a_status phase_survey_expanded(l3a_model *model);
/* ŷ and ω of an expanded block, whose labels of the phase's classes are in block.own. */
l3a_status phase_label(l3a_model *model, const float *features, size_t count);
/* Adds that block to the phase's sums. */
l3a_status phase_add(l3a_model *model);
/* Expands, labels and adds the images that are staged, which have these features. */
l3a_status phase_work(l3a_model *model, const float *features);
/* Called when all rows were added: takes C and, if need be, the sums of other processes and gamma. shares: the sums are those of
 * another model, which does so. */
l3a_status phase_complete(l3a_model *model, bool shares);
/* Adds the phase's sums to the evidence. */
l3a_status phase_keep(l3a_model *model);
/* Solves, and makes the phase part of the model. */
l3a_status phase_finish(l3a_model *model);

/* Lists the arrays of a block and of the next columns, for those who allocate them and for plans. */
enum { BLOCK_ARRAYS = 6, COLUMN_ARRAYS = 2 };
void list_block(struct phase_block *block, const struct model_options *options, size_t images, size_t width, size_t old, size_t all,
                struct array *list);
void list_columns(struct model_columns *columns, size_t dim, size_t all, struct array *list);

#endif
