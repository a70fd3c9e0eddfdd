/* Teaching: learns images of any classes, known or new, each judged for some of them (SPEC §6), and takes them back. */
#ifndef L3A_TEACH_H
#define L3A_TEACH_H

#include "data/features.h"
#include "learn/model.h"

/* The images of a lesson: rows and columns of a table. */
struct taught {
    l3a_features *features;
    const size_t *rows, *columns;
    size_t row_count, column_count;
};

/* Adds the images if sign is 1, and takes them back if it is -1. */
l3a_status model_teach(l3a_model *model, const struct taught *taught, double sign, l3a_teach_report *report);
/* The same with all rows and columns of a table. */
l3a_status model_teach_all(l3a_model *model, l3a_features *features, double sign, l3a_teach_report *report);

#endif
