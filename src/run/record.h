/* run.json and sweep.json: what an experiment was asked to do, with which data, and on which machine. A folder can be resumed if
 * the object "run" in its file has the same text as that of the new experiment. */
#ifndef L3A_RECORD_H
#define L3A_RECORD_H

#include "base/memory.h"
#include "l3a/l3a_experiment.h"

/* Appends the object "run" of an experiment with these options, which are complete. */
l3a_status record_identity(const l3a_experiment *experiment, const l3a_experiment_options *options, text_builder *text);
l3a_status record_write(l3a_context *context, const char *path, const l3a_experiment_options *options,
                        const text_builder *identity);
/* Whether the object in the file has a member of that name. */
l3a_status record_says(l3a_context *context, const char *path, const char *name, bool *says);
/* Fails if the object in the file differs, naming the first setting that does. */
l3a_status record_compare(l3a_context *context, const char *path, const text_builder *identity);

#endif
