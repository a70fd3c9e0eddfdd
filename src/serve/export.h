/* What the page offers besides: tags as files, sidecars, small pictures. */
#ifndef L3A_SERVE_EXPORT_H
#define L3A_SERVE_EXPORT_H

#include "serve/server.h"

void export_start(struct request *request, struct worker *worker);
void export_finish(struct request *request, struct worker *worker);
void xmp_start(struct request *request, struct worker *worker);
void thumbnail_start(struct request *request, struct worker *worker);

#endif
