/* A table of tensors under timm's names, on top of one that has the names of a file: renames, joins, cuts, transposes and reshapes
 * tensors when they are read. The namings are in namings.c.
 *
 * Whole model files may be read. What is not the image tower is skipped, and can be listed. */
#ifndef L3A_NAMES_H
#define L3A_NAMES_H

#include "net/parameters.h"

struct names;

/* Recognises the naming of a table of tensors, which must outlive the names. A table that has no known one is an error, which tells
 * the nearest one and a tensor that it lacks. Shapes that cannot be joined or changed are errors as well. */
l3a_status names_open(l3a_context *context, const struct parameter_source *from, struct names **names);
void names_close(struct names *names);
/* The table under timm's names. Its tensors belong to the names. */
void names_source(struct names *names, struct parameter_source *source);
/* The naming in words: "transformers' ViT". */
const char *names_naming(const struct names *names);
/* Whether whatever is published under these names has ImageNet's mean and deviation. */
bool names_are_imagenets(const struct names *names);
/* What stands in front of all names of the tower: "vision_model.", or "". */
const char *names_prefix(const struct names *names);
/* Appends what no network has taken, under the names of the file: "logit_scale, text_model (196 tensors)"; nothing if all was
 * taken. parameters: opened from names_source(), and used since. */
l3a_status names_list_skipped(const struct names *names, const struct parameters *parameters, text_builder *text);

/* ---- Putting values back ---- */

/* Whether a tensor of the file belongs to the tower: it is neither outside of its prefix nor a copy. */
bool names_is_of_tower(const struct names *names, size_t source);
/* The tensors of the file that make the one with that number under timm's names. */
size_t names_made_from(const struct names *names, size_t target, const size_t **sources);
/* Puts what a tensor of the file has of one under timm's names in its place among the values of the former. from: those of the
 * latter, `count` of them. Returns how many it has. */
size_t names_put(const struct names *names, size_t target, const float *from, size_t count, size_t source, float *values);
/* Whether a tensor of the file has its dimensions, from the last one on, from that one of timm's. */
bool names_keeps_shape(const struct names *names, size_t target);
/* What a new classifier is called in the file. beside: there is something else of that name. */
void names_classifier(const struct names *names, bool beside, char text[NAME_IN_FILE]);

#endif
