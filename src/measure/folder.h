/* The folder of a run or a sweep: the record of how it was started, and the results so far. */
#ifndef L3A_FOLDER_H
#define L3A_FOLDER_H

#include "format/json.h"
#include "measure/results.h"

/* Reads a run.json or sweep.json and begins to parse it. The caller releases *text, even if this fails. */
l3a_status record_open(l3a_context *context, const char *path, struct json *json, char **text);
/* Moves to the object "run" of a run.json. */
l3a_status record_find_run(struct json *json);
/* The results of a run, without thresholds. */
l3a_status results_load(l3a_context *context, const char *folder, l3a_results **results);

#endif
