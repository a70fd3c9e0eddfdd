/* The folder of pictures that the server may read. */
#ifndef L3A_SERVE_LIBRARY_H
#define L3A_SERVE_LIBRARY_H

#include "serve/server.h"

/* Whether a path from a request may be looked up below the folder: relative, of plain components, without zero bytes (the caller
 * has checked that), "..", ".", names that begin with a dot, and backslashes. */
bool library_path_allowed(const char *path);
/* Opens a file or folder below the folder; never one outside of it, wherever symbolic links lead. -1: *problem says why. */
int library_open(const struct server *server, const char *path, bool folder, const char **problem);
/* The bytes of a picture, for the caller to free; NULL: *problem says why. */
uint8_t *library_read(const struct server *server, const char *path, size_t *count, const char **problem);

void library_start(struct request *request, struct worker *worker);
void library_picture_start(struct request *request, struct worker *worker);

#endif
