/* Finding picture files; most of the calls are public. */
#ifndef L3A_PICTURES_H
#define L3A_PICTURES_H

#include "base/memory.h"

/* Whether a file or folder of this name is left out: it begins with a dot, or is where a Synology keeps its thumbnails. */
bool is_hidden(const char *name);
/* The pictures in a folder, without those in the folders in it. */
l3a_status pictures_find_in(l3a_context *context, const char *folder, l3a_pictures **pictures);

#endif
