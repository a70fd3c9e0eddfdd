/* The model as a file: downloads, uploads and backups. */
#ifndef L3A_SERVE_MODEL_H
#define L3A_SERVE_MODEL_H

#include "serve/server.h"

/* The body of a request goes to a file beside the model. */
void upload_begin(struct request *request);
void upload_take(struct request *request, const char *bytes, size_t count);
/* Removes the file, if it is still there. */
void upload_discard(struct request *request);

void model_download(struct request *request);
void model_replace(struct request *request);
void model_backup(struct request *request);

#endif
