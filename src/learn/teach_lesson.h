/* A lesson in progress, and its steps. */
#ifndef L3A_TEACH_LESSON_H
#define L3A_TEACH_LESSON_H

#include "learn/model.h"
#include "learn/phase_scale.h"
#include "learn/teach.h"

/* Images with the same judged set. */
struct section {
    size_t first, last; /* of the order */
    struct part part;   /* their sums or, if they are taken back, what the model's part will be */
    size_t mine;        /* the model's part with that judged set; part_count: none */
};

/* The images of a lesson by their judged sets. */
struct lesson_sections {
    size_t *order; /* numbers of images: those with the same judged set are next to each other */
    struct section *items;
    size_t count;
};

/* What the lesson adds to C - M W, so that the search can go on from where it ended (part_solve.h): a sum or, if the lesson has few
 * rows, these. Both are NULL if it is not wanted. */
struct lesson_residual {
    double lift;           /* λ before the lesson */
    double *sum;           /* [d x classes] */
    double *rows, *errors; /* x [row_count x d], and e = ω (y - x·w) [row_count x classes] */
    size_t row_count;
};

/* A block of images. Each has V rows (view_rows.h). */
struct lesson_block {
    size_t images;     /* that fit */
    size_t *numbers;   /* in the table */
    float *features;   /* [images x V x k] */
    int8_t *given;     /* [images x columns of the table] */
    int8_t *labels;    /* [images x classes]: 1 present, 0 absent, -1 not judged */
    int8_t *pseudo;    /* [images x old classes] */
    void *scores;      /* [images x V x old classes] */
    double *weight;    /* [images x V]: what each row counts */
    double *targets;   /* [images x V x classes] */
    struct block rows; /* expanded */
};

struct lesson {
    l3a_model *model;
    const struct taught *taught;
    double sign;
    bool recursive;
    text_list classes; /* of the model afterwards, before classes that nobody judges are dropped */
    size_t *place;     /* the class of each column; SIZE_MAX: no image was judged for it */
    struct lesson_sections sections;
    struct model_columns next;
    double *class_weight; /* v now */
    uint64_t pseudo_labels;
    struct lesson_residual residual;
    struct lesson_block block;
    struct feature_scale scale; /* of the rows, for the recursion */
};

/* The label of an image in a column. */
static inline int8_t given_label(const struct taught *taught, size_t image, size_t column) {
    return taught->features->labels.held[taught->rows[image] * taught->features->classes.count + taught->columns[column]];
}

/* teach_judged.c */
/* Checks that labels are allowed, and that each image was judged. */
l3a_status lesson_check_labels(const struct lesson *lesson);
/* Finds the classes of the columns. Those that the model does not know come last. */
l3a_status lesson_place_classes(struct lesson *lesson);
/* Orders the images by judged set. */
l3a_status lesson_make_sections(struct lesson *lesson);
void lesson_sections_free(l3a_context *context, struct lesson_sections *sections);

/* teach_rows.c */
l3a_status lesson_prepare_block(struct lesson *lesson);
void lesson_free_block(struct lesson *lesson);
/* Adds the rows of all sections to their sums and to C. */
l3a_status lesson_sum(struct lesson *lesson);

#endif
