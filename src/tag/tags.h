/* The result of tagging a picture. */
#ifndef L3A_TAGS_H
#define L3A_TAGS_H

#include "base/memory.h"

/* What is known of a picture: scores [classes], and for each class the crop that scored highest [classes]; NULL: unknown. */
struct picture_scores {
    const float *scores;
    const uint16_t *crops;
    size_t views;
};

/* Thresholds [classes]. The names are copied. */
l3a_status tags_create(l3a_context *context, const text_list *classes, const struct picture_scores *picture,
                       const double *thresholds, l3a_tags **tags);

#endif
