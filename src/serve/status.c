/* What the server says about itself, and the table of routes. */
#include "serve/export.h"
#include "serve/librarian.h"
#include "serve/library.h"
#include "serve/model.h"
#include "serve/protocols.h"
#include "serve/tagging.h"

#include <stdlib.h>
#include <string.h>

/* ---- Health ---- */

bool server_ready(struct server *server) {
    pthread_mutex_lock(&server->teacher.lock);
    const bool troubled = server->teacher.trouble || server->teacher.unsavable;
    pthread_mutex_unlock(&server->teacher.lock);
    return !troubled && !atomic_load(&server->load.draining);
}

void server_trouble(struct server *server, struct text *text) {
    const struct teacher *teacher = &server->teacher;
    struct text reason = {0};
    pthread_mutex_lock(&server->teacher.lock);
    if (teacher->trouble) {
        text_print(&reason, "%s", teacher->trouble);
    } else if (teacher->unsavable) {
        text_print(&reason, "%s", teacher->unsavable);
    } else {
        text_print(&reason, "the server is shutting down");
    }
    pthread_mutex_unlock(&server->teacher.lock);
    text_json(text, reason.bytes ? reason.bytes : "");
    text_free(&reason);
}

void live_now(struct request *request) {
    text_print(&request->answer.text, "{\"live\": true}\n");
    request->answer.status = MHD_HTTP_OK;
}

void ready_now(struct request *request) {
    struct server *server = request->server;
    if (server_ready(server)) {
        text_print(&request->answer.text, "{\"ready\": true}\n");
        request->answer.status = MHD_HTTP_OK;
        return;
    }
    text_print(&request->answer.text, "{\"ready\": false, \"error\": ");
    server_trouble(server, &request->answer.text);
    text_print(&request->answer.text, "}\n");
    request->answer.status = MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* ---- State ---- */

static bool has_tokens(struct server *server) {
    pthread_mutex_lock(&server->access.lock);
    const bool has = server->access.tokens.count > 0;
    pthread_mutex_unlock(&server->access.lock);
    return has;
}

void status_now(struct request *request) {
    struct server *server = request->server;
    struct knowledge *knowledge = knowledge_keep(server);
    struct text *answer = &request->answer.text;
    const bool ready = server_ready(server);
    text_print(answer, "{\"version\": \"%s\", \"model\": ", l3a_version());
    text_json(answer, server->model.name);
    text_print(answer, ", \"backbone\": ");
    text_json(answer, server->model.backbone);
    text_print(
        answer,
        ", \"width\": %zu, \"classes\": %zu, \"edition\": %llu, \"library\": %s, \"index\": %s, \"readonly\": %s, \"token\": %s, "
        "\"role\": \"%s\", ",
        server->pipeline.width, knowledge->classes, (unsigned long long)knowledge->edition, server->library >= 0 ? "true" : "false",
        server->librarian ? "true" : "false", server->model.readonly ? "true" : "false", has_tokens(server) ? "true" : "false",
        role_names[request->bearer.role]);
    text_print(answer, "\"max_body\": %llu, \"ready\": %s, \"demo\": %s", (unsigned long long)server->options->body,
               ready ? "true" : "false", server->options->demo ? "true" : "false");
    pthread_mutex_lock(&server->teacher.lock);
    const bool savable = !server->teacher.unsavable;
    pthread_mutex_unlock(&server->teacher.lock);
    text_print(answer, ", \"unsaved\": %llu, \"savable\": %s", (unsigned long long)atomic_load(&server->metrics.unsaved),
               savable ? "true" : "false");
    if (server->forgetful) {
        text_print(answer, ", \"index_problem\": ");
        text_json(answer, server->forgetful);
    }
    if (!ready) {
        text_print(answer, ", \"trouble\": ");
        server_trouble(server, answer);
    }
    text_print(answer, "}\n");
    request->answer.status = MHD_HTTP_OK;
    knowledge_free(knowledge);
}

void classes_end(struct request *request) {
    struct knowledge *knowledge = knowledge_keep(request->server);
    text_print(&request->answer.text, "\"edition\": %llu, \"classes\": ", (unsigned long long)knowledge->edition);
    text_add(&request->answer.text, knowledge->class_list.bytes, knowledge->class_list.length);
    text_print(&request->answer.text, "}\n");
    request->answer.status = MHD_HTTP_OK;
    knowledge_free(knowledge);
}

void classes_now(struct request *request) {
    text_print(&request->answer.text, "{");
    classes_end(request);
}

void history_now(struct request *request) {
    ledger_write_history(&request->server->ledger, &request->answer.text);
    request->answer.status = MHD_HTTP_OK;
}

/* ---- Routes ---- */

/* Reading tags, pictures and numbers needs the role read; what changes what is known, teach; the model as a whole, admin. */
const struct route routes[] = {
    {.method = "GET", .path = "/", .role = ROLE_OPEN, .now = page_now},
    {.method = "GET", .path = "/page/", .prefix = true, .role = ROLE_OPEN, .now = page_now},
    {.method = "GET", .path = "/openapi.json", .role = ROLE_OPEN, .now = page_now},
    {.method = "POST", .path = "/v1/tag", .role = ROLE_READ, .changes = true, .start = tag_start, .finish = tag_finish},
    {.method = "POST", .path = "/v1/score", .role = ROLE_READ, .changes = true, .start = score_start, .finish = tag_finish},
    {.method = "POST",
     .path = "/v1/teach",
     .role = ROLE_TEACH,
     .changes = true,
     .start = teach_start,
     .finish = teach_finish,
     .teach = teach_lesson},
    {.method = "POST", .path = "/v1/undo", .role = ROLE_TEACH, .changes = true, .start = undo_start, .teach = undo_lesson},
    {.method = "POST", .path = "/v1/rename", .role = ROLE_TEACH, .changes = true, .start = rename_start, .teach = rename_class},
    {.method = "GET", .path = "/v1/status", .role = ROLE_READ, .now = status_now},
    {.method = "GET", .path = "/v1/classes", .role = ROLE_READ, .now = classes_now},
    {.method = "GET", .path = "/v1/history", .role = ROLE_READ, .now = history_now},
    {.method = "GET", .path = "/v1/lesson", .role = ROLE_READ, .start = lesson_start, .teach = lesson_pictures},
    {.method = "GET", .path = "/v1/quality", .role = ROLE_READ, .examine = true},
    {.method = "GET", .path = "/v1/library", .role = ROLE_READ, .slow = true, .start = library_start},
    {.method = "GET", .path = "/v1/library/picture", .role = ROLE_READ, .slow = true, .start = library_picture_start},
    {.method = "GET", .path = "/v1/library/thumbnail", .role = ROLE_READ, .slow = true, .start = thumbnail_start},
    {.method = "GET", .path = "/v1/library/state", .role = ROLE_READ, .now = library_state_now},
    {.method = "GET", .path = "/v1/library/folders", .role = ROLE_READ, .slow = true, .start = library_folders_start},
    {.method = "GET", .path = "/v1/library/problems", .role = ROLE_READ, .slow = true, .start = library_problems_start},
    {.method = "GET", .path = "/v1/find", .role = ROLE_READ, .slow = true, .start = find_start},
    {.method = "GET", .path = "/v1/duplicates", .role = ROLE_READ, .slow = true, .start = duplicates_start},
    {.method = "GET", .path = "/v1/words", .role = ROLE_READ, .slow = true, .start = words_start},
    {.method = "GET", .path = "/v1/export", .role = ROLE_READ, .slow = true, .start = export_start, .finish = export_finish},
    {.method = "POST", .path = "/v1/xmp", .role = ROLE_READ, .changes = true, .slow = true, .start = xmp_start},
    {.method = "GET", .path = "/v1/model", .role = ROLE_ADMIN, .teach = model_download},
    {.method = "PUT", .path = "/v1/model", .role = ROLE_ADMIN, .changes = true, .upload = true, .teach = model_replace},
    {.method = "GET", .path = "/v1/backup", .role = ROLE_ADMIN, .teach = model_backup},
    {.method = "GET", .path = "/metrics", .role = ROLE_READ, .now = metrics_now},
    {.method = "GET", .path = "/v2/health/live", .role = ROLE_OPEN, .now = live_now},
    {.method = "GET", .path = "/v2/health/ready", .role = ROLE_OPEN, .now = ready_now},
    {.method = "GET", .path = "/v2", .role = ROLE_READ, .now = inference_server_now},
    {.method = "GET", .path = "/v2/models/", .prefix = true, .role = ROLE_READ, .now = inference_model_now},
    {.method = "POST",
     .path = "/v2/models/",
     .prefix = true,
     .role = ROLE_READ,
     .changes = true,
     .start = infer_start,
     .finish = infer_finish},
    {.method = "GET", .path = "/health", .role = ROLE_OPEN, .now = studio_health_now},
    {.method = "GET", .path = "/versions", .role = ROLE_READ, .now = studio_versions_now},
    {.method = "POST", .path = "/webhook", .role = ROLE_READ, .changes = true, .start = studio_webhook_start},
    {.method = "POST", .path = "/setup", .role = ROLE_READ, .changes = true, .start = studio_setup_start},
    {.method = "POST",
     .path = "/predict",
     .role = ROLE_READ,
     .changes = true,
     .start = studio_predict_start,
     .finish = studio_predict_finish},
    {.method = NULL},
};
