/* What the page offers besides: tags as files, sidecars, small pictures. */
#ifndef L3A_SERVE_EXPORT_H
#define L3A_SERVE_EXPORT_H

#include "serve/server.h"

void export_start(struct request *request, struct worker *worker);
void export_finish(struct request *request, struct worker *worker);
void xmp_start(struct request *request, struct worker *worker);
void thumbnail_start(struct request *request, struct worker *worker);

/* A row for a picture: adds it to a text. */
typedef void export_row(struct picture *picture, const l3a_tags *tags, void *text);
/* Answers with the rows of all pictures of the index, between two texts; false: refused. */
bool export_index(struct request *request, struct worker *worker, export_row *row, const char *before, const char *after);

#endif
