/* The result of tagging a picture. */
#ifndef L3A_TAGS_H
#define L3A_TAGS_H

#include "base/memory.h"

/* Scores and thresholds [classes]. The names are copied. */
l3a_status tags_create(l3a_context *context, const text_list *classes, const float *scores, const double *thresholds,
                       l3a_tags **tags);

#endif
