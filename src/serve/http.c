/* Reads requests, checks them, hands them on, and writes answers. A request that cannot be taken (another site, a wrong token, no
 * such path, too large, an ambiguous head) is answered at once; its body is not read, and the connection ends. */
#include "serve/http.h"

#include "serve/guard.h"
#include "serve/head.h"
#include "serve/model.h"
#include "serve/peers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- Answers ---- */

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/* The name under which to save an answer. What does not belong between quotes is replaced there, and follows in the form of RFC
 * 8187, which browsers prefer. */
static void add_download(const char *name, struct MHD_Response *response) {
    struct text text = {0};
    bool plain = true;
    text_print(&text, "attachment; filename=\"");
    for (const char *at = name; *at; at++) {
        const bool fits = *at >= ' ' && *at < 0x7F && *at != '"' && *at != '\\' && *at != '%';
        text_print(&text, "%c", fits ? *at : '_');
        plain = plain && fits;
    }
    text_print(&text, plain ? "\"" : "\"; filename*=UTF-8''");
    for (const char *at = name; *at && !plain; at++) {
        const bool fits =
            (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || strchr("-._~", *at);
        text_print(&text, fits ? "%c" : "%%%02X", (unsigned char)*at);
    }
    if (!text.failed) {
        MHD_add_response_header(response, "Content-Disposition", text.bytes);
    }
    text_free(&text);
}

static void add_headers(const struct request *request, struct MHD_Response *response) {
    char text[32];
    MHD_add_response_header(response, "Content-Type", request->answer.type ? request->answer.type : "application/json");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", request->answer.page ? "no-cache" : "no-store");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Content-Security-Policy",
                            request->answer.page ? policy : "default-src 'none'; frame-ancestors 'none'");
    if (request->answer.retry) {
        snprintf(text, sizeof text, "%u", request->answer.retry);
        MHD_add_response_header(response, "Retry-After", text);
    }
    if (request->answer.status == MHD_HTTP_UNAUTHORIZED) {
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    }
    if (request->answer.etag) {
        MHD_add_response_header(response, "ETag", request->answer.etag);
    }
    if (request->answer.json_length) {
        snprintf(text, sizeof text, "%zu", request->answer.json_length);
        MHD_add_response_header(response, "Inference-Header-Content-Length", text);
    }
    if (request->answer.location) {
        MHD_add_response_header(response, "Location", request->answer.location);
    }
    if (request->answer.download) {
        add_download(request->answer.download, response);
    }
    if (request->answer.close || atomic_load(&request->server->load.draining)) {
        MHD_add_response_header(response, "Connection", "close");
    }
}

static enum MHD_Result respond(struct request *request) {
    struct MHD_Response *response;
    size_t bytes = request->answer.text.length;
    if (request->answer.file >= 0) {
        const off_t size = lseek(request->answer.file, 0, SEEK_END);
        bytes = size > 0 ? (size_t)size : 0;
        response = MHD_create_response_from_fd(bytes, request->answer.file);
        request->answer.file = response ? -1 : request->answer.file;
    } else {
        response = MHD_create_response_from_buffer(bytes, request->answer.text.bytes, MHD_RESPMEM_MUST_FREE);
        if (response) {
            request->answer.text = (struct text){0};
        }
    }
    if (!response) {
        return MHD_NO;
    }
    request->answer.bytes = strcmp(request->wanted.method, "HEAD") == 0 ? 0 : bytes;
    add_headers(request, response);
    peer_set(request, TAKING_ANSWER);
    const enum MHD_Result result = MHD_queue_response(request->connection, request->answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- Requests ---- */

static bool same_method(const char *method, const char *wanted) {
    return strcmp(method, wanted) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(wanted, "GET") == 0);
}

/* What follows the base path; NULL: the request is answered. */
static const char *path_below_base(struct request *request) {
    const char *url = request->wanted.url, *base = request->server->options->base_path;
    const size_t length = strlen(base);
    if (strncmp(url, base, length) != 0 || (url[length] && url[length] != '/')) {
        refuse(request, MHD_HTTP_NOT_FOUND, "see --base-path: that is where the page is, and all paths begin with it",
               "%s: there is nothing here", url);
    } else if (!url[length]) { /* links of the page are relative to its folder */
        refuse(request, MHD_HTTP_PERMANENT_REDIRECT, "add a slash", "the page is at %s/", base);
        request->answer.location = request->server->access.page;
    } else {
        return url + length;
    }
    return NULL;
}

static void find_route(struct request *request, const char *method) {
    const char *path = path_below_base(request);
    bool known = false;
    if (!path) {
        return;
    }
    request->wanted.path = path;
    for (const struct route *route = routes; route->method; route++) {
        const size_t length = strlen(route->path);
        if (strncmp(path, route->path, length) == 0 && (route->prefix || !path[length])) {
            known = true;
            if (same_method(method, route->method)) {
                request->wanted.route = route;
                request->wanted.rest = path + length;
                return;
            }
        }
    }
    char hint[LONGEST_BASE_PATH + 64];
    snprintf(hint, sizeof hint, "see %s/openapi.json for the paths of this server", request->server->options->base_path);
    refuse(request, known ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND, hint,
           known ? "%s: this path does not accept %s" : "%s: there is nothing here", request->wanted.url, method);
}

static const char *header(const struct request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static void check_guard(struct request *request) {
    struct server *server = request->server;
    const char *const names[] = {server->options->host, server->access.own_name, server->options->address.host};
    const struct guard guard = {names, sizeof names / sizeof names[0], &server->access.tokens};
    const struct asked asked = {.host = header(request, "Host"),
                                .origin = header(request, "Origin"),
                                .fetch_site = header(request, "Sec-Fetch-Site"),
                                .fetch_mode = header(request, "Sec-Fetch-Mode"),
                                .fetch_dest = header(request, "Sec-Fetch-Dest"),
                                .mark = header(request, "X-L3A"),
                                .authorization = header(request, "Authorization"),
                                .content_type = header(request, "Content-Type")};
    const struct route *route = request->wanted.route;
    const bool moved = request->answer.location != NULL;
    const struct needs needs = {.role = route   ? route->role
                                        : moved ? ROLE_OPEN
                                                : ROLE_READ, /* what there is not is not said to everybody */
                                .changes = route && route->changes,
                                .page = moved || (route && route->now == page_now)};
    struct objection objection;
    pthread_mutex_lock(&server->access.lock);
    const bool allowed = guard_allows(&guard, &asked, &needs, &request->bearer, &objection);
    pthread_mutex_unlock(&server->access.lock);
    if (!allowed) {
        request->answer.location = NULL;
        refuse(request, objection.status, objection.hint, "%s", objection.error);
    }
}

/* The length that the client announces; 0: none. */
static uint64_t announced(const struct request *request) {
    const char *length = header(request, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

static void refuse_size(struct request *request, uint64_t limit) {
    refuse(request, MHD_HTTP_CONTENT_TOO_LARGE,
           "send fewer or smaller pictures at a time, or start the server with a larger --max-body",
           "the request has more than %llu bytes", (unsigned long long)limit);
}

static void begin(struct request *request, const char *method) {
    struct server *server = request->server;
    find_route(request, method);
    check_guard(request); /* a foreign site does not even learn what there is */
    const uint64_t limit = !request->answer.status && request->wanted.route->upload ? upload_limit(server) : server->options->body;
    if (!request->answer.status && announced(request) > limit) {
        refuse_size(request, limit);
    }
    const char *coding = header(request, "Content-Encoding");
    if (!request->answer.status && coding && strcasecmp(coding, "identity") != 0) {
        refuse(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "send it without Content-Encoding", "the body is encoded as %s", coding);
    }
    if (!request->answer.status && request->wanted.route->upload) {
        upload_begin(request);
    }
}

/* Adds a piece of the body. Refuses the request if that is not possible. Returns false if the connection was ended. */
static bool take_body(struct request *request, const char *bytes, size_t count) {
    const uint64_t limit = request->server->options->body;
    const bool upload = request->upload.file >= 0;
    request->body.received += count;
    const enum room room = body_count(request, count, !upload);
    if (room == ENDED) {
        return false;
    }
    if (upload) {
        upload_take(request, bytes, count);
        return true;
    }
    if (request->body.text.length + count > limit) {
        refuse_size(request, limit);
    } else if (room == NO_ROOM) {
        request->answer.retry = 1;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "the requests of all clients have too many bytes");
    } else {
        text_add(&request->body.text, bytes, count);
    }
    if (request->body.text.failed) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
    }
    return true;
}

/* The body is complete. */
static enum MHD_Result dispatch(struct request *request) {
    request->body.taken = true;
    if (!peer_set(request, WORKED_ON)) {
        return MHD_NO; /* its client was told so */
    }
    if (request->wanted.route->now) {
        request->wanted.route->now(request);
    }
    if (request->answer.status) {
        request_done(request);
        return respond(request);
    }
    request->suspended = true;
    MHD_suspend_connection(request->connection);
    if (!pipeline_add(request)) {
        request_done(request);
    }
    return MHD_YES;
}

static struct request *request_create(struct server *server, struct MHD_Connection *connection, const char *url,
                                      const char *method) {
    struct request *request = calloc(1, sizeof *request);
    if (request) {
        request->server = server;
        request->connection = connection;
        request->answer.file = request->upload.file = -1;
        request->began = seconds_now();
        request->peer = peer_of(connection);
        request->client = peer_client(request);
        request->wanted.url = copy_string(url);
        snprintf(request->wanted.method, sizeof request->wanted.method, "%s", method);
        atomic_fetch_add(&server->load.in_flight, 1);
        if (!request->wanted.url) {
            refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
        }
    }
    return request;
}

/* ---- Ambiguous heads ---- */

int http_strictness(void) {
    return MHD_get_version()[0] != '0'; /* 1.0 can be strict, and then refuses what head.c has to find out before that */
}

/* Whether libmicrohttpd leaves the head of a request where it was, as head.h says. */
static bool head_stays(void) {
    return strcmp(MHD_get_version(), "0.9.75") >= 0 && strcmp(MHD_get_version(), "0.9.78") < 0;
}

static enum MHD_Result add_header(void *head, enum MHD_ValueKind kind, const char *name, size_t name_length, const char *value,
                                  size_t value_length) {
    (void)kind;
    head_add(head, name, name_length, value ? value : "", value ? value_length : 0);
    return MHD_YES;
}

static void check_head(struct request *request, const char *method, const char *version) {
    const bool stays = head_stays();
    struct head head = {.old = strcmp(version, "HTTP/1.0") == 0, .next = stays ? version + strlen(version) + 2 : NULL};
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, add_header, &head);
    const char *problem = head_problem(&head, info ? method + info->header_size : NULL);
    if (!problem && stays && !peer_line_is_clear(request->peer, version)) {
        problem = "the request line has a space too many, or a control character";
    }
    if (problem) {
        request->answer.close = true;
        refuse(request, MHD_HTTP_BAD_REQUEST, "send a request with one meaning only", "%s", problem);
    }
}

/* ---- Callbacks ---- */

/* Answers a request that was refused when its head had come. */
static enum MHD_Result respond_early(struct request *request) {
    if (announced(request) || header(request, "Transfer-Encoding")) {
        request->answer.close = true;
    }
    if (request->answer.close) {
        peer_let_go(request);
    }
    request_done(request);
    return respond(request);
}

static enum MHD_Result take_head(struct server *server, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, void **context) {
    struct request *request = request_create(server, connection, url, method);
    *context = request;
    if (!request) {
        return MHD_NO;
    }
    peer_set(request, SENDING_BODY);
    if (!request->answer.status) {
        check_head(request, method, version);
    }
    if (!request->answer.status) {
        begin(request, method);
    }
    if (!request->answer.status && atomic_load(&server->load.closing)) {
        request->answer.close = true;
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "send it again when the server is back", "the server is shutting down");
    }
    return request->answer.status ? respond_early(request) : MHD_YES;
}

enum MHD_Result http_handle(void *argument, struct MHD_Connection *connection, const char *url, const char *method,
                            const char *version, const char *bytes, size_t *count, void **context) {
    struct request *request = *context;
    if (!request) {
        return take_head(argument, connection, url, method, version, context);
    }
    if (*count) {
        const bool alive = take_body(request, bytes, *count);
        *count = 0;
        if (alive && request->answer.status) {
            peer_answer(request);
        }
        return alive && !request->answer.status ? MHD_YES : MHD_NO;
    }
    return request->body.taken ? respond(request) : dispatch(request);
}

/* An answer in the middle of a body is not libmicrohttpd's, which sees no end of it. */
static void write_log(struct request *request, double seconds, bool ended_well) {
    char address[PEER_ADDRESS];
    const unsigned in_body = peer_status(request, address);
    const struct log_request line = {.client = address,
                                     .token = request->bearer.name[0] ? request->bearer.name : NULL,
                                     .method = request->wanted.method,
                                     .path = request->wanted.url ? request->wanted.url : "",
                                     .status = in_body ? in_body : request->answer.status,
                                     .seconds = seconds,
                                     .bytes_in = request->body.received,
                                     .bytes_out = request->answer.bytes,
                                     .complete = ended_well || in_body};
    log_request(request->server->options->events->log, &line);
}

void http_complete(void *argument, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code) {
    struct server *server = argument;
    struct request *request = *context;
    (void)connection;
    if (!request) {
        return;
    }
    const size_t route = request->wanted.route ? (size_t)(request->wanted.route - routes) : ROUTES - 1;
    const double seconds = seconds_now() - request->began;
    atomic_fetch_add(&server->metrics.requests[route][request->answer.status / 100 % 6], 1);
    histogram_add(&server->metrics.seconds[route], seconds);
    write_log(request, seconds, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    peer_set(request, RESTING);
    request_release(request);
    upload_discard(request);
    if (request->answer.file >= 0) {
        close(request->answer.file);
    }
    text_free(&request->answer.text);
    free(request->wanted.url);
    free(request);
    *context = NULL;
    atomic_fetch_sub(&server->load.in_flight, 1);
}
