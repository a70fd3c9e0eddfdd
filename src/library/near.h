/* How close pictures are to others, by the cosine of their features. */
#ifndef L3A_NEAR_H
#define L3A_NEAR_H

#include "library/library.h"

/* The examples that pictures are compared with become one direction: the mean of their directions. */
struct direction {
    float *numbers; /* [width] */
    size_t examples;
};

l3a_status direction_begin(l3a_library *library, struct direction *direction);
/* Adds the features of an example [width]. */
void direction_add(const l3a_library *library, struct direction *direction, const float *features);
/* Cosines of all slots [slots]; of a picture with crops, that of the closest. */
l3a_status direction_compare(l3a_library *library, struct direction *direction, size_t slots, float *cosines);
void direction_free(l3a_library *library, struct direction *direction);

/* The product of float16 numbers with others, and their own square sum; `count` is a multiple of nothing in particular. */
void half_products(const uint16_t *halves, const float *numbers, size_t count, float *product, float *squares);

#endif
