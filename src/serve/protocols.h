/* Other protocols: the Open Inference Protocol, and Label Studio's; and whether the server is ready. */
#ifndef L3A_SERVE_PROTOCOLS_H
#define L3A_SERVE_PROTOCOLS_H

#include "serve/server.h"

/* Whether pictures are tagged and lessons taken. */
bool server_ready(struct server *server);
/* Why not, as a JSON string. */
void server_trouble(struct server *server, struct text *text);

void live_now(struct request *request);
void ready_now(struct request *request);

#endif
