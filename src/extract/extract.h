/* Extraction for other parts of the library. */
#ifndef L3A_EXTRACT_H
#define L3A_EXTRACT_H

#include "base/context.h"

/* As l3a_extract(); the feature file names the data set like this. */
l3a_status extract_named(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset, const char *name,
                         const l3a_extract_options *options, const char *path, l3a_extract_report *report);

#endif
