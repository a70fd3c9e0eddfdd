/* The settings of a model. */
#ifndef L3A_MODEL_OPTIONS_H
#define L3A_MODEL_OPTIONS_H

#include "base/context.h"

typedef enum l3a_weighting { L3A_WEIGHTS_SQRT, L3A_WEIGHTS_INV, L3A_WEIGHTS_LOG, L3A_WEIGHTS_NONE } l3a_weighting;
typedef enum l3a_scaling { L3A_SCALING_NORMALISED, L3A_SCALING_LITERAL } l3a_scaling;
typedef enum l3a_pseudo { L3A_PSEUDO_FIXED, L3A_PSEUDO_DYNAMIC, L3A_PSEUDO_OFF } l3a_pseudo;
typedef enum l3a_precision { L3A_PRECISION_MIXED, L3A_PRECISION_DOUBLE } l3a_precision;
typedef enum l3a_solver { L3A_SOLVER_AUTO, L3A_SOLVER_SUMS, L3A_SOLVER_RECURSIVE, L3A_SOLVER_SCALAPACK } l3a_solver;
typedef enum l3a_store { L3A_STORE_FLOAT64, L3A_STORE_FLOAT32 } l3a_store;
typedef enum l3a_skip { L3A_SKIP_OFF, L3A_SKIP_ON, L3A_SKIP_AUTO } l3a_skip;
typedef enum l3a_thresholds {
    L3A_THRESHOLDS_FIXED,
    L3A_THRESHOLDS_GLOBAL,
    L3A_THRESHOLDS_PER_CLASS,
    L3A_THRESHOLDS_TAUGHT
} l3a_thresholds;
/* With views: the score of an image that gives it pseudo-labels (learn/view_rows.h). */
typedef enum l3a_pseudo_from { L3A_PSEUDO_FROM_WHOLE, L3A_PSEUDO_FROM_MEAN, L3A_PSEUDO_FROM_COMBINED } l3a_pseudo_from;
typedef enum l3a_gamma_from { L3A_GAMMA_FROM_IMAGES, L3A_GAMMA_FROM_SUMS } l3a_gamma_from;

struct model_options {
    uint64_t dim;            /* width of the random layer */
    uint64_t seed;           /* of the random layer */
    double gamma;            /* ridge; 0: chosen as gamma_from says */
    l3a_weighting weights;   /* class weight for a class with f images: f^-1/2, 1/f, 1/(log f + 1), 1 */
    l3a_scaling scaling;     /* scale class weights to mean 1, or use the paper's formula as printed */
    l3a_pseudo pseudo;       /* pseudo-labels of old classes on new images: fixed threshold, dynamic threshold, none */
    double eta;              /* fixed threshold: sigma(score) above which an old class becomes a pseudo-label */
    double tau;              /* dynamic threshold: average number of labels per image, over all classes */
    uint64_t total_classes;  /* dynamic threshold: number of all classes; 0: the data's in a run or sweep, else those seen so far */
    double theta;            /* sigma(score) above which a class counts as predicted */
    l3a_precision precision; /* float32 products added to float64 sums, or float64 throughout */
    l3a_solver solver;       /* sums and Cholesky, the paper's recursion on the inverse, or whichever is faster for the phase;
                              * or sums that several processes hold together */
    l3a_store store;         /* type of the d x d matrix in a model file */
    uint64_t block;          /* rows processed at a time */
    double alpha;            /* weight of images from other phases; below 1, the sums of phases are kept apart */
    double lift;             /* share of the sum of all scores added to each score, times (t - 1)/(t + 8) for t phases kept apart */
    l3a_skip skip_features;  /* learn from the features as well as the random layer; auto: if width <= dim / 8, or if width <= dim
                              * and dim + width <= 4096 */
    l3a_thresholds thresholds;   /* a class counts as predicted above theta, one fitted score, or a fitted score per class; taught:
                                  * one that suits few images and pictures that show no class */
    uint64_t keep_phases;        /* number of phases kept apart; older ones are folded; 0: all if alpha is below 1, else none */
    l3a_gamma_from gamma_from;   /* the images of the first phase, and then kept; or the sums, again whenever they change */
    uint64_t views;              /* of each image that is learned (base/views.h) */
    uint64_t score_views;        /* of each image that is scored; 0: the same */
    l3a_pseudo_from pseudo_from; /* with views, the score that gives pseudo-labels: of the whole picture, mean, or combined */
    double beta;                 /* weight of all unlabelled images together; 0: auto (unlabelled.h) */
    uint64_t privacy_limit;      /* warn about phases or classes with fewer images; 0: never */
    uint64_t given;              /* settings that were given by name: bit i is line i of the table */
};

/* The table, for base/settings.h. */
extern const struct setting_table model_settings;

void model_options_default(struct model_options *options);
/* As l3a_options_set(), l3a_options_get() and l3a_options_check(). */
l3a_status model_options_set(l3a_context *context, struct model_options *options, const char *name, const char *value);
size_t model_options_get(const struct model_options *options, const char *name, char *text, size_t capacity);
l3a_status model_options_check(l3a_context *context, const struct model_options *options);

/* The model's part of public settings, which begin with it (method/options.h). NULL: the defaults. */
static inline struct model_options model_options_of(const l3a_options *options) {
    struct model_options own;
    if (options) {
        own = *(const struct model_options *)options;
    } else {
        model_options_default(&own);
    }
    return own;
}

/* Checks that a model can have these settings together. */
l3a_status options_fit(l3a_context *context, const struct model_options *options);

/* Checks that the processes of the context can learn with this solver; one that only scores needs none. */
l3a_status solver_fits(l3a_context *context, const struct model_options *options);

/* The views of an image that is scored. */
static inline size_t scored_views(const struct model_options *options) {
    return (size_t)(options->score_views ? options->score_views : options->views);
}

/* Whether a model with these settings keeps the sums of phases apart. */
static inline bool keeps_phases(const struct model_options *options) {
    return options->alpha < 1 || options->keep_phases;
}

/* Whether gamma is chosen from the images of a phase (phase_gamma.h). */
static inline bool chooses_gamma(const struct model_options *options) {
    return options->gamma == 0 && options->gamma_from == L3A_GAMMA_FROM_IMAGES;
}

/* Numbers in a learned row: the outputs of the random layer, and the features if they skip it. */
static inline size_t learned_width(const struct model_options *options, size_t width) {
    const size_t dim = (size_t)options->dim;
    const bool cheap = 8 * width <= dim || (width <= dim && dim + width <= 4096);
    const bool skip = options->skip_features == L3A_SKIP_ON || (options->skip_features == L3A_SKIP_AUTO && cheap);
    return dim + (skip ? width : 0);
}

#endif
