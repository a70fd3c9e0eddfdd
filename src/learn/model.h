/* The model: what it keeps between phases, and the phase in progress, if any. */
#ifndef L3A_MODEL_H
#define L3A_MODEL_H

#include "base/memory.h"
#include "learn/model_columns.h"
#include "learn/model_options.h"
#include "learn/part_solve.h"
#include "learn/phase.h"
#include "learn/scorer.h"
#include "learn/unlabelled.h"
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

/* The sums over all that was learned. Models that differ only in how they solve can share them (model_group.h). */
struct evidence {
    struct ridge ridge; /* its sums are work space if phases are kept apart */
    struct part *parts;
    size_t part_count;
    struct unlabelled unlabelled;
    bool summed;   /* the first half of the ridge's sums holds the sum of the parts as they are, S, … */
    double acting; /* … and so many times A_U */
    double *cross; /* C [d x classes] */
    struct search_end end;
    size_t users;
};

/* After a change of the parts: what was derived from them is no longer known. */
static inline void evidence_changed(struct evidence *evidence) {
    evidence->summed = false;
    evidence->end.known = false;
}

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

/* Rows of an image that is learned, and the numbers in its features. */
static inline size_t image_rows(const l3a_model *model) {
    return view_rows((size_t)model->options.views);
}

static inline size_t model_image(const l3a_model *model) {
    return image_rows(model) * model->width;
}

/* Whether images that it learns now can get pseudo-labels of the classes that it knows. */
static inline bool gives_pseudo_labels(const l3a_model *model) {
    return model->options.pseudo != L3A_PSEUDO_OFF && model->classes.count;
}

/* NULL if there is none. */
static inline const char *model_record(const l3a_model *model, const char *key) {
    return text_record_find(&model->record_keys, &model->record_values, key);
}

static inline struct model_columns model_columns_of(const l3a_model *model) {
    return (struct model_columns){.counts = model->counts,
                                  .label_weight = model->label_weight,
                                  .class_weight = model->class_weight,
                                  .cross = model->evidence->cross,
                                  .coefficients = model->coefficients};
}

static inline bool has_unlabelled(const l3a_model *model) {
    return model->evidence->unlabelled.images > 0;
}

/* λ_t of its parts (part.h). */
static inline double model_lift(const l3a_model *model) {
    return parts_lift(model->options.lift, model->evidence->parts, model->evidence->part_count);
}

/* model.c */
real options_real(const struct model_options *options);
struct layer_shape model_layer_shape(const struct model_options *options, size_t width);
/* As l3a_model_create(). */
l3a_status model_create(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model);
/* A model without memory for sums: it can score, and be freed, and nothing else. */
l3a_status model_create_to_score(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model);
/* Uses the evidence of another model instead of its own, which must be empty. */
void model_share(l3a_model *model, const l3a_model *other);
/* Whether several processes hold its sums together. */
bool shares_sums(const l3a_model *model);
/* Fails if they do. */
l3a_status check_own_sums(const l3a_model *model);
/* Makes the layer and, with a class, the solution. */
l3a_status model_ready(l3a_model *model);
/* Only the solution, for rows that another model's layer has expanded. */
l3a_status model_ready_solution(l3a_model *model);
/* Frees what model_ready() derived from the coefficients, after they have changed. */
void model_changed(l3a_model *model);
l3a_status model_set_record(l3a_model *model, const char *key, const char *value);
/* Records how the features were made, unless an earlier table has set it. */
l3a_status model_keep_provenance(l3a_model *model, const l3a_features *features);

/* model_solve.c */
/* The images in its parts. */
double model_images(const l3a_model *model);
/* Makes the ridge hold what all of so many classes share, the sum of the parts and β N/(α |U|) A_U, and the model's gamma. α times
 * that, and the parts that judge a class, are then its M. */
l3a_status model_sum_parts(l3a_model *model, size_t classes, const uint64_t *counts);
/* Computes W of these columns, and what the library's scores are then, from the model's sums. */
l3a_status model_solve(l3a_model *model, size_t classes, const struct model_columns *columns);
/* After a change of the sums: computes W from them, unless it is right already, and makes the model ready. */
l3a_status model_settle(l3a_model *model, bool solve);

/* model_score.c */
/* As l3a_model_accepts(). */
l3a_status model_accepts(const l3a_model *model, const l3a_features *features);
/* l3a_model_thresholds() for images that are scored with these views. */
void model_thresholds(const l3a_model *model, size_t views, double *thresholds);
/* model_thresholds() if the model had these columns instead, from so many images in its parts. Columns of 0 stand for classes that
 * it would not have; `known` is the number of those that it would. */
void columns_thresholds(const l3a_model *model, const struct model_columns *columns, double images, size_t known, size_t views,
                        double *thresholds);

/* Rows that compared methods read at a time, and rows that are scored at a time. */
enum { READ_ROWS = 512, SCORE_ROWS = 1024 };

#endif
