/* A request: its body, its answer, and what belongs to it. */
#include "serve/peers.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void thread_give_way(int steps) {
    const id_t self = (id_t)syscall(SYS_gettid); /* on Linux, priorities belong to threads */
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + steps);
}

void note(const struct server *server, enum log_level level, const char *format, ...) {
    char line[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    log_note(server->options->events->log, level, line);
}

void refuse(struct request *request, unsigned status, const char *hint, const char *format, ...) {
    char error[1200];
    va_list list;
    va_start(list, format);
    vsnprintf(error, sizeof error, format, list);
    va_end(list);
    request->answer.status = status;
    request->answer.type = NULL;
    request->answer.download = NULL;
    request->answer.json_length = 0;
    request->answer.text.length = 0;
    text_print(&request->answer.text, "{\"error\": ");
    text_json(&request->answer.text, error);
    text_print(&request->answer.text, ", \"hint\": ");
    text_json(&request->answer.text, hint ? hint : "");
    text_print(&request->answer.text, "}\n");
}

unsigned status_of(l3a_status status) {
    switch (status) {
    case L3A_OK: return MHD_HTTP_OK;
    case L3A_ERROR_MEMORY:
    case L3A_ERROR_IO: return MHD_HTTP_SERVICE_UNAVAILABLE;
    case L3A_ERROR_FULL: return MHD_HTTP_INSUFFICIENT_STORAGE;
    case L3A_ERROR_NOT_FOUND: return MHD_HTTP_NOT_FOUND;
    case L3A_ERROR_STATE:
    case L3A_ERROR_EXISTS:
    case L3A_ERROR_MISMATCH: return MHD_HTTP_CONFLICT;
    case L3A_ERROR_NUMERIC:
    case L3A_ERROR_DEVICE:
    case L3A_ERROR_CANCELLED: return MHD_HTTP_INTERNAL_SERVER_ERROR;
    default: return MHD_HTTP_UNPROCESSABLE_CONTENT;
    }
}

const char *query(const struct request *request, const char *name, bool *bad) {
    const char *value = NULL;
    size_t length = 0;
    if (MHD_lookup_connection_value_n(request->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &length) != MHD_YES) {
        return NULL;
    }
    if (value && strlen(value) != length) {
        *bad = true;
    }
    return value;
}

bool format_allowed(const struct server *server, const void *bytes, size_t count, const char **problem) {
    const char *format = server->options->heif ? NULL : l3a_picture_format(bytes, count);
    const bool refused = format && (strcmp(format, "heic") == 0 || strcmp(format, "avif") == 0);
    *problem = refused ? "this server does not take HEIC and AVIF pictures" : NULL;
    return !refused;
}

bool request_json_head(struct request *request, size_t length) {
    struct json_problem problem;
    const l3a_status status =
        json_tree_read("the request", request->body.text.bytes, length, JSON_VALUES, &request->body.json, &problem);
    if (status == L3A_ERROR_MEMORY) {
        refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, problem.hint, "%s", problem.text);
    } else if (status != L3A_OK) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send a JSON object", "%s", problem.text);
    } else if (json_value_kind(json_tree_root(request->body.json)) != JSON_OBJECT) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send a JSON object", "the request is not a JSON object");
    }
    if (length == request->body.text.length) {
        text_free(&request->body.text); /* the tree has copies */
    }
    return !request->answer.status;
}

bool request_json(struct request *request) {
    return request_json_head(request, request->body.text.length);
}

void request_release(struct request *request) {
    for (size_t i = 0; i < request->pictures.count; i++) {
        struct picture *picture = &request->pictures.items[i];
        free(picture->name);
        free(picture->place);
        free(picture->input);
        free(picture->features);
        free(picture->error);
        free(picture->hint);
    }
    free(request->pictures.items);
    request->pictures.items = NULL;
    request->pictures.count = 0;
    json_tree_free(request->body.json);
    request->body.json = NULL;
    text_free(&request->body.text);
    body_discount(request);
}

void request_done(struct request *request) {
    request_release(request);
    if (request->answer.text.failed) {
        text_free(&request->answer.text);
        request->answer.status = MHD_HTTP_SERVICE_UNAVAILABLE;
        refuse(request, request->answer.status, "try again in a moment", "not enough memory for the answer");
    }
    if (request->suspended) {
        request->suspended = false;
        MHD_resume_connection(request->connection);
    }
}
