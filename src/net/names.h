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

#endif
