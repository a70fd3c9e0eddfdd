/* The folder of pictures that the server may read. */
#ifndef L3A_SERVE_LIBRARY_H
#define L3A_SERVE_LIBRARY_H

#include "serve/server.h"

/* Opens a file or folder below the folder; never one outside of it, wherever symbolic links lead. -1: *problem says why. */
int library_open(const struct server *server, const char *path, bool folder, const char **problem);
/* The bytes of a picture, for the caller to free; NULL: *problem says why. */
uint8_t *library_read(const struct server *server, const char *path, size_t *count, const char **problem);

/* The path that a request names by ?path= or ?id=, for the caller to free; NULL: refused. */
char *library_named(struct request *request);

void library_start(struct request *request, struct worker *worker);
void library_picture_start(struct request *request, struct worker *worker);

#endif
