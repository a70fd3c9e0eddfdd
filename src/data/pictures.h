/* Finding picture files; the calls are public. */
#ifndef L3A_PICTURES_H
#define L3A_PICTURES_H

#include "base/memory.h"

/* Whether a file or folder of this name is left out: it begins with a dot, or is where a Synology keeps its thumbnails. */
bool is_hidden(const char *name);

#endif
