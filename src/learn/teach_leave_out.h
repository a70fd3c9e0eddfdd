/* The rows of taught images, for what a model would be without some of them. */
#ifndef L3A_TEACH_LEAVE_OUT_H
#define L3A_TEACH_LEAVE_OUT_H

#include "data/features.h"
#include "learn/model.h"
#include "learn/part_systems.h"

struct taught_rows {
    l3a_model *model;
    l3a_features *features; /* the images, with the labels they were taught with */
    size_t *column;         /* of each class of the model; SIZE_MAX: the table does not have it */
    size_t images;          /* in a block */
    size_t views, each;     /* rows of an image */
    float *values;
    double *weight;         /* ω of every image */
    double *exact, *solved; /* X and X M⁻¹ of a block */
    struct block expanded;
    struct systems systems;
};

/* model and features are set. Afterwards the model's sums are ready for taught_factor(). Close it even if this fails. */
l3a_status taught_rows_open(struct taught_rows *rows);
void taught_rows_close(struct taught_rows *rows);
/* 1 shown, 0 not shown, -1 not judged */
int8_t taught_label(const struct taught_rows *rows, size_t image, size_t class);
/* What an image counts in the system of a class. */
double taught_weight(const struct taught_rows *rows, size_t image, size_t class);
/* X of the images with these numbers or, if `images` is NULL, of those from `first` on; at most a block. */
l3a_status taught_read(struct taught_rows *rows, const size_t *images, size_t first, size_t count);
/* Factors M of a system. */
l3a_status taught_factor(const struct taught_rows *rows, size_t system);
/* X M⁻¹ of as many images, which were read. */
l3a_status taught_solve(struct taught_rows *rows, size_t count);

#endif
