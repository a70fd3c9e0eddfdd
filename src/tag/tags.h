/* The result of tagging a picture. */
#ifndef L3A_TAGS_H
#define L3A_TAGS_H

#include "base/context.h"

/* Scores and thresholds [classes of the model]. The names are copied. */
l3a_status tags_create(l3a_context *context, const l3a_model *model, const float *scores, const double *thresholds,
                       l3a_tags **tags);

#endif
