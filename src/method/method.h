/* Methods that `run` can compare. A method is a learner (learn a phase, score) with the settings it prescribes. There is one file
 * per learner, and one line per method in methods.c. All of them work on the same frozen features, in multi-label form. */
#ifndef L3A_METHOD_H
#define L3A_METHOD_H

#include "base/memory.h"
#include "data/features.h"
#include "learn/view_rows.h"
#include "method/options.h"
#include "l3a/l3a_experiment.h"

struct training_source; /* train/training_source.h */
struct state_progress;  /* method/state.h */

/* One phase, as a learner sees it. Classes are numbered in the run's order. */
struct lesson {
    l3a_features *train;
    const char *const *names; /* of all classes */
    const size_t *columns;    /* of all classes, in the training table */
    const size_t *bounds;     /* of the protocol's phases: `phases` + 1 numbers */
    size_t phases;
    size_t first, last;                     /* the classes that are new in this lesson */
    const struct training_source *training; /* the pictures of the table, and a network to train; NULL: there are none */
    const struct state_progress *progress;  /* NULL: a learner that is stopped in the lesson begins it again */
};

struct outcome {
    uint64_t images; /* learned from, with weight above 0 */
    uint64_t pseudo_labels;
    l3a_class_tally *classes; /* [0, last), zeroed; the learner fills in weight, pseudo and right. NULL: not wanted */
};

struct method;

/* What it takes to train a network. */
struct training_need {
    uint64_t memory;
    double passes;      /* how often a picture goes through it, forward and backward … */
    double flops;       /* … and what one of these takes … */
    double score_flops; /* … and one that only scores */
};

/* The functions of a learner; the state is private to it. */
struct learner {
    l3a_status (*create)(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state);
    l3a_status (*learn)(void *state, const struct lesson *lesson, struct outcome *outcome);
    /* scores [images x classes learned so far] of features [images x rows of an image x width], as l3a.h defines them */
    l3a_status (*score)(void *state, const float *features, size_t images, float *scores);
    /* The score above which each class learned so far counts as predicted. */
    void (*thresholds)(const void *state, double *thresholds);
    void (*free)(void *state);
    /* What the learner keeps between phases, so that a stopped job can resume. `load` gets a state that `create` has just made, and
     * checks what it reads; `learn` comes next. Arrays that `save` has put must stay as they are until another function of the
     * learner is called, which is after they were written. NULL: a model is saved as one; another learner starts its job again. */
    l3a_status (*save)(void *state, l3a_state *into);
    l3a_status (*load)(void *state, const l3a_state *from);
    bool is_model; /* the state is an l3a_model */
    /* The settings that its results depend on, as "|dim|gamma|"; NULL: those of a model. */
    const char *settings;
    const char *layer_settings;   /* those that it also depends on if head-input is layer; NULL: none */
    const char *trained_settings; /* … and if the network is trained */
    bool needs_gamma;             /* gamma must be a number, not auto */
    bool holds_images;            /* the features of all images of a lesson are in memory while it is learned */
    /* Scores of pictures, rows of the test table, if the settings say that the network is trained; NULL: it never is. */
    /* What training it takes with such pictures, and so many classes; the state has just been created. */
    l3a_status (*plan)(void *state, const struct training_source *training, size_t classes, struct training_need *need);
    l3a_status (*score_pictures)(void *state, const struct training_source *training, const size_t *rows, size_t images,
                                 float *scores);
};

/* Which labels a lesson may use. */
enum lesson_plan {
    BY_PHASE,    /* one lesson per phase, with the labels of its own classes */
    ALL_AT_ONCE, /* one lesson with all classes: every image once, with all its labels */
    ALL_MASKED   /* one lesson with all classes: every image once for each phase it belongs to, with that phase's labels */
};

struct method {
    l3a_method_info info;
    enum lesson_plan plan;
    const struct learner *learner;
    void (*prescribe)(l3a_options *options); /* the settings that make the method; NULL: none */
    const l3a_method *own;                   /* the callbacks, of a method of the program's own; NULL: of this library */
};

/* NULL if there is no method of that name. */
const struct method *method_find(const char *name);
/* Makes a method of the program's own, after checking that its callbacks are there; they must outlive it. */
l3a_status own_method(l3a_context *context, const l3a_method *given, struct method *method);
/* Fails unless there is a method of that name that runs; the error says which ones do. */
l3a_status method_check(l3a_context *context, const char *name);
/* Fails unless the method can have these settings. */
l3a_status method_check_settings(l3a_context *context, const struct method *method, const l3a_options *settings);
/* The settings of a run, with those that the method prescribes. */
l3a_options method_options(const struct method *method, const l3a_options *settings);
/* Whether the method trains the network, with these settings. */
bool method_trains(const struct method *method, const l3a_options *settings);
/* Whether the method's results depend on a setting. `settings` include what it prescribes. For eta, the value may be "dynamic". */
bool method_looks_at(const struct method *method, const l3a_options *settings, const char *name, const char *value);

/* The setting that says above which score the method predicts a class: "thresholds", which may also mean theta; "theta"; or
 * "head-theta". What it is for a method of the program's own, its run records. */
const char *method_threshold(const char *name);

/* This process's part of the images of a lesson: those that belong to at least one of its new classes. All methods have the same.
 */
l3a_status lesson_members(const struct lesson *lesson, struct own_rows *own);
/* Those images of all processes that are labelled with at least one of the new classes. The others only show a crowd of one;
 * without a pseudo-label they have weight 0 and teach nothing, in every method. */
l3a_status lesson_rows(const struct lesson *lesson, size_t **rows, size_t *count);
/* Receives some images of a lesson: features [images x rows of an image x width], and the labels of its new classes [images x new
 * classes]. */
typedef l3a_status lesson_block(void *argument, const float *features, const int8_t *labels, size_t images);
/* Passes the labelled images of a lesson to `take`, with at most `block` rows of features at a time but at least one image, and
 * never more than the first time. *images: their number. Of several processes, each gets all images. */
l3a_status lesson_read(const struct lesson *lesson, const char *stage, size_t block, lesson_block *take, void *argument,
                       uint64_t *images);
/* The same, but each process gets its part. */
l3a_status lesson_read_part(const struct lesson *lesson, const char *stage, size_t block, lesson_block *take, void *argument,
                            uint64_t *images);
/* The same with these rows of the table. */
l3a_status lesson_read_rows(const struct lesson *lesson, const char *stage, const size_t *rows, size_t count, size_t block,
                            lesson_block *take, void *argument);

/* The weight of a row of an image if they are scaled to sum to 1. */
static inline double view_share(size_t view, size_t views) {
    return view_weight(1, view, views) / (views > 1 ? 2 : 1);
}

/* The learn function of joint-masked, for the state of analytic_learner. */
l3a_status learn_masked(void *state, const struct lesson *lesson, struct outcome *outcome);

extern const struct learner analytic_learner, masked_learner, dsal_learner, gkeal_learner, slda_learner;
/* Heads trained by gradient descent. */
extern const struct learner finetune_learner, joint_sgd_learner, lwf_learner, ewc_learner, oewc_learner, rwalk_learner, er_learner,
    derpp_learner, icarl_learner, bic_learner, prs_learner, ocdm_learner;
/* Those that always train the network, or prompts inside it. */
extern const struct learner podnet_learner, krt_learner, krt_r_learner, csc_learner, csc_r_learner, tpcil_learner,
    multi_lane_learner, coda_prompt_learner, l2p_learner;

#endif
