/* Other protocols: the Open Inference Protocol, and Label Studio's; and whether the server is ready. */
#ifndef L3A_SERVE_PROTOCOLS_H
#define L3A_SERVE_PROTOCOLS_H

#include "serve/server.h"

/* Whether pictures are tagged, lessons taken, and the model saved. */
bool server_ready(struct server *server);
/* Why not, as a JSON string. */
void server_trouble(struct server *server, struct text *text);

void live_now(struct request *request);
void ready_now(struct request *request);
void inference_server_now(struct request *request);
void inference_model_now(struct request *request);
void infer_start(struct request *request, struct worker *worker);
void infer_finish(struct request *request, struct worker *worker);

void studio_health_now(struct request *request);
void studio_versions_now(struct request *request);
void studio_webhook_start(struct request *request, struct worker *worker);
void studio_setup_start(struct request *request, struct worker *worker);
void studio_predict_start(struct request *request, struct worker *worker);
void studio_predict_finish(struct request *request, struct worker *worker);

#endif
