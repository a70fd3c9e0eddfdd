#include "serve/protocols.h"

#include <stdlib.h>
#include <string.h>

/* ---- Health ---- */

bool server_ready(struct server *server) {
    pthread_mutex_lock(&server->teacher.lock);
    const bool troubled = server->teacher.trouble != NULL;
    pthread_mutex_unlock(&server->teacher.lock);
    return !troubled && !atomic_load(&server->draining);
}

void server_trouble(struct server *server, struct text *text) {
    pthread_mutex_lock(&server->teacher.lock);
    text_json(text, server->teacher.trouble ? server->teacher.trouble : "the server is shutting down");
    pthread_mutex_unlock(&server->teacher.lock);
}

void live_now(struct request *request) {
    text_print(&request->answer, "{\"live\": true}\n");
    request->status = MHD_HTTP_OK;
}

void ready_now(struct request *request) {
    struct server *server = request->server;
    if (server_ready(server)) {
        text_print(&request->answer, "{\"ready\": true}\n");
        request->status = MHD_HTTP_OK;
        return;
    }
    text_print(&request->answer, "{\"ready\": false, \"error\": ");
    server_trouble(server, &request->answer);
    text_print(&request->answer, "}\n");
    request->status = MHD_HTTP_SERVICE_UNAVAILABLE;
}
