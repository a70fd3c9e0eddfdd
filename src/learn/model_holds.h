/* What a model has learned, so that the same images are not counted twice when jobs are repeated and their models are merged.
 *
 * The record `holds` of a model has a line for each table that it learned a phase or more images from: two checksums, one of the
 * table's features and labels and one of the classes. The line of a shard goes on with the shard, its extraction, and the number of
 * batches that all shards have together, as in "1f0c2b… 9a7e41… 3/8 5d08f7… 42". Up to version 0.6, there is no number of batches.
 * Settings are not part of it: with other settings, the images would count twice as well. */
#ifndef L3A_MODEL_HOLDS_H
#define L3A_MODEL_HOLDS_H

#include "data/features.h"
#include "learn/model.h"

enum { HOLD_TEXT = 96 };

/* The line for the images of a table and these classes, in any order. "" if several processes share the phase: none of them knows
 * the tables of the others. */
l3a_status hold_describe(l3a_features *features, const char *const *classes, size_t count, char line[HOLD_TEXT]);
bool model_holds(const l3a_model *model, const char *line);
/* The same, or a shard of the same extraction that has images in common with this one. */
bool model_holds_some(const l3a_model *model, const char *line);
/* Adds a line, unless it is there or "". */
l3a_status model_hold(l3a_model *model, const char *line);
/* Removes a line, if it is there. */
void model_let_go(l3a_model *model, const char *line);
/* Removes the lines of a phase, all of whose images have been removed. */
l3a_status model_let_go_phase(l3a_model *model, const l3a_phase_info *phase);
/* Checks that no images are in both. */
l3a_status holds_compare(const l3a_model *model, const l3a_model *other);
/* Adds the lines of the other model. */
l3a_status holds_merge(l3a_model *model, const l3a_model *other);

#endif
