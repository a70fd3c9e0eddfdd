/* Which paths of requests may be looked up in the library. */
#ifndef L3A_SERVE_PATH_H
#define L3A_SERVE_PATH_H

#include <stdbool.h>

/* Relative, of plain components: no "..", ".", names that begin with a dot, empty ones, backslashes. "" is the library itself. */
bool library_path_allowed(const char *path);

#endif
