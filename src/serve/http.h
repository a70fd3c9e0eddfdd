/* The callbacks of libmicrohttpd. */
#ifndef L3A_SERVE_HTTP_H
#define L3A_SERVE_HTTP_H

#include "serve/server.h"

enum MHD_Result http_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                            const char *version, const char *bytes, size_t *count, void **context);
void http_complete(void *server, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code);
/* How strict libmicrohttpd itself is to be. */
int http_strictness(void);

#endif
