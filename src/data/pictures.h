/* Finding picture files; most of the calls are public. */
#ifndef L3A_PICTURES_H
#define L3A_PICTURES_H

#include "base/memory.h"
#include "base/picture_source.h"

/* Whether a file or folder of this name is left out: it begins with a dot, or is where a Synology keeps its thumbnails. What
 * follows a slash does not count. */
bool is_hidden(const char *name);
/* Whether the ending of a name is that of a format that some build reads. */
bool named_like_a_picture(const char *path);
/* The pictures in a folder; deep: and in the folders in it. */
l3a_status pictures_find_in(l3a_context *context, const char *folder, bool deep, l3a_pictures **pictures);
/* Where a picture is; the texts are those of the pictures. */
struct picture_source pictures_source(const l3a_pictures *pictures, size_t index);

#endif
