/* The connections: reads requests, checks them, hands them on, and writes answers.
 *
 * libmicrohttpd ends a connection on which nothing moves. A client that sends a byte now and then keeps it open for ever, so each
 * connection also has a time by which the head of a request, its body, and the answer must be through; the main thread looks at
 * all of them every second. A connection that rests between requests has no such time. Whether it rests, the kernel knows: it
 * counts the bytes that have come.
 *
 * One client can open many connections and let them rest. A limit for each address would be wrong behind a proxy, where all clients
 * have one. So when connections run short, those that have rested the longest are ended; whoever needs one again opens another. */
#include "serve/http.h"

#include "serve/guard.h"
#include "serve/model.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_SECONDS = 10, BODY_SECONDS = 20, SLOWEST = 16 << 10 /* bytes a second */ };

enum peer_state { RESTING, SENDING_BODY, WORKED_ON, TAKING_ANSWER };

struct peer {
    int socket;
    enum peer_state state;
    uint64_t bytes_at_rest; /* that had come when the last request ended */
    double deadline;        /* 0: none */
    bool ended;             /* libmicrohttpd will notice */
    struct peer *newer, *older;
};

/* ---- Connections ---- */

static uint64_t bytes_received(int socket) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) ? 0 : info.tcpi_bytes_received;
}

/* Those that came, or began to rest, last are at the front. Under the lock. */
static void link_peer(struct server *server, struct peer *peer) {
    peer->newer = NULL;
    peer->older = server->newest_peer;
    *(peer->older ? &peer->older->newer : &server->oldest_peer) = peer;
    server->newest_peer = peer;
}

static void unlink_peer(struct server *server, struct peer *peer) {
    *(peer->newer ? &peer->newer->older : &server->newest_peer) = peer->older;
    *(peer->older ? &peer->older->newer : &server->oldest_peer) = peer->newer;
}

static void set_state(struct server *server, struct peer *peer, enum peer_state state, double seconds) {
    if (peer) {
        pthread_mutex_lock(&server->peer_lock);
        peer->state = state;
        peer->deadline = seconds > 0 ? seconds_now() + seconds : 0;
        if (state == RESTING) {
            peer->bytes_at_rest = bytes_received(peer->socket);
            unlink_peer(server, peer);
            link_peer(server, peer);
        }
        pthread_mutex_unlock(&server->peer_lock);
    }
}

void http_notice(void *argument, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode what) {
    struct server *server = argument;
    struct peer *peer = *context;
    pthread_mutex_lock(&server->peer_lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        peer = info ? calloc(1, sizeof *peer) : NULL;
        *context = peer;
        if (peer) {
            peer->socket = info->connect_fd;
            link_peer(server, peer);
        }
        atomic_fetch_add(&server->metrics.connections, 1);
        atomic_fetch_add(&server->metrics.connections_total, 1);
    } else {
        if (peer) {
            unlink_peer(server, peer);
            free(peer);
            *context = NULL;
        }
        atomic_fetch_sub(&server->metrics.connections, 1);
    }
    pthread_mutex_unlock(&server->peer_lock);
}

static void end_peer(struct peer *peer, atomic_uint_fast64_t *count) {
    shutdown(peer->socket, SHUT_RDWR); /* libmicrohttpd then notices its end, and closes it */
    peer->ended = true;
    atomic_fetch_add(count, 1);
}

/* Ends connections that rest, until at most `most` of `open` are left. */
static void make_room(struct server *server, size_t open, size_t most) {
    for (struct peer *peer = server->oldest_peer; peer && open > most; peer = peer->newer) {
        if (peer->state == RESTING && peer->deadline <= 0 && !peer->ended) {
            end_peer(peer, &server->metrics.dropped);
            open--;
        }
    }
}

void http_watch(struct server *server) {
    const double now = seconds_now();
    const size_t limit = server->options->connections;
    size_t open = 0;
    pthread_mutex_lock(&server->peer_lock);
    for (struct peer *peer = server->newest_peer; peer; peer = peer->older) {
        if (peer->state == RESTING && peer->deadline <= 0 && bytes_received(peer->socket) > peer->bytes_at_rest) {
            peer->deadline = now + HEAD_SECONDS;
        }
        if (peer->deadline > 0 && now > peer->deadline && !peer->ended) {
            end_peer(peer, &server->metrics.timed_out);
        }
        open += !peer->ended;
    }
    if (open >= limit - limit / 8) {
        make_room(server, open, limit / 2);
    }
    pthread_mutex_unlock(&server->peer_lock);
}

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
    MHD_add_response_header(response, "Content-Type", request->type ? request->type : "application/json");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", request->page ? "no-cache" : "no-store");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Content-Security-Policy",
                            request->page ? policy : "default-src 'none'; frame-ancestors 'none'");
    if (request->retry) {
        snprintf(text, sizeof text, "%u", request->retry);
        MHD_add_response_header(response, "Retry-After", text);
    }
    if (request->status == MHD_HTTP_UNAUTHORIZED) {
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    }
    if (request->etag) {
        MHD_add_response_header(response, "ETag", request->etag);
    }
    if (request->json_length) {
        snprintf(text, sizeof text, "%zu", request->json_length);
        MHD_add_response_header(response, "Inference-Header-Content-Length", text);
    }
    if (request->download) {
        add_download(request->download, response);
    }
    if (atomic_load(&request->server->draining)) {
        MHD_add_response_header(response, "Connection", "close");
    }
}

static enum MHD_Result respond(struct request *request) {
    struct MHD_Response *response;
    size_t bytes = request->answer.length;
    if (request->file >= 0) {
        const off_t size = lseek(request->file, 0, SEEK_END);
        bytes = size > 0 ? (size_t)size : 0;
        response = MHD_create_response_from_fd(bytes, request->file);
        request->file = response ? -1 : request->file;
    } else {
        response = MHD_create_response_from_buffer(bytes, request->answer.bytes, MHD_RESPMEM_MUST_FREE);
        if (response) {
            request->answer = (struct text){0};
        }
    }
    if (!response) {
        return MHD_NO;
    }
    add_headers(request, response);
    set_state(request->server, request->peer, TAKING_ANSWER, BODY_SECONDS + (double)bytes / SLOWEST);
    const enum MHD_Result result = MHD_queue_response(request->connection, request->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- Requests ---- */

static bool same_method(const char *method, const char *wanted) {
    return strcmp(method, wanted) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(wanted, "GET") == 0);
}

static void find_route(struct request *request, const char *url, const char *method) {
    bool known = false;
    for (const struct route *route = routes; route->method; route++) {
        const size_t length = strlen(route->path);
        if (strncmp(url, route->path, length) == 0 && (route->prefix || !url[length])) {
            known = true;
            if (same_method(method, route->method)) {
                request->route = route;
                request->rest = request->url + length;
                return;
            }
        }
    }
    refuse(request, known ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND, "see /openapi.json for the paths of this server",
           known ? "%s: this path does not accept %s" : "%s: there is nothing here", url, method);
}

static const char *header(const struct request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static void check_guard(struct request *request) {
    const struct server *server = request->server;
    const char *const names[] = {server->options->host, server->own_name, server->options->address.host};
    const struct guard guard = {names, sizeof names / sizeof names[0], server->options->token ? server->token : NULL};
    const struct asked asked = {.host = header(request, "Host"),
                                .origin = header(request, "Origin"),
                                .fetch_site = header(request, "Sec-Fetch-Site"),
                                .fetch_mode = header(request, "Sec-Fetch-Mode"),
                                .fetch_dest = header(request, "Sec-Fetch-Dest"),
                                .mark = header(request, "X-L3A"),
                                .authorization = header(request, "Authorization"),
                                .content_type = header(request, "Content-Type")};
    const struct route *route = request->route;
    struct objection objection;
    if (!guard_allows(&guard, &asked, route && route->open, route && route->changes, route && route->now == page_now, &objection)) {
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

static void begin(struct request *request, const char *url, const char *method) {
    struct server *server = request->server;
    find_route(request, url, method);
    check_guard(request); /* a foreign site does not even learn what there is */
    const uint64_t limit = !request->status && request->route->upload ? upload_limit(server) : server->options->body;
    if (!request->status && announced(request) > limit) {
        refuse_size(request, limit);
    }
    const char *coding = header(request, "Content-Encoding");
    if (!request->status && coding && strcasecmp(coding, "identity") != 0) {
        refuse(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "send it without Content-Encoding", "the body is encoded as %s", coding);
    }
    if (!request->status && request->route->upload) {
        upload_begin(request);
    }
}

/* Adds a piece of the body. Returns false if the connection must end. */
static bool take_body(struct request *request, const char *bytes, size_t count) {
    struct server *server = request->server;
    if (request->status) {
        return true;
    }
    if (request->upload >= 0) {
        upload_take(request, bytes, count);
        return true;
    }
    if (request->body.length + count > server->options->body) {
        return false; /* in the middle of a body of unknown length there is no way to answer */
    }
    if (atomic_load(&server->body_bytes) + count > 8 * server->options->body) {
        request->retry = 1;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "the requests of all clients have too many bytes");
        return true;
    }
    atomic_fetch_add(&server->body_bytes, count);
    request->counted += count;
    text_add(&request->body, bytes, count);
    if (request->body.failed) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
    }
    return true;
}

/* The body is complete. */
static enum MHD_Result dispatch(struct request *request) {
    request->taken = true;
    set_state(request->server, request->peer, WORKED_ON, 0);
    if (!request->status && request->route->now) {
        request->route->now(request);
    }
    if (request->status) {
        request_done(request);
        return respond(request);
    }
    request->suspended = true;
    MHD_suspend_connection(request->connection);
    if (!pipeline_add(request)) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "the server is shutting down");
        request_done(request);
    }
    return MHD_YES;
}

static struct request *request_create(struct server *server, struct MHD_Connection *connection, const char *url) {
    struct request *request = calloc(1, sizeof *request);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (request) {
        request->server = server;
        request->connection = connection;
        request->file = request->upload = -1;
        request->began = seconds_now();
        request->peer = info ? info->socket_context : NULL;
        request->url = copy_string(url);
        atomic_fetch_add(&server->in_flight, 1);
        if (!request->url) {
            refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
        }
    }
    return request;
}

/* A proxy may take another of the two for the length of the body, and what follows for another request. */
static bool has_two_lengths(struct MHD_Connection *connection) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding") &&
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
}

enum MHD_Result http_handle(void *argument, struct MHD_Connection *connection, const char *url, const char *method,
                            const char *version, const char *bytes, size_t *count, void **context) {
    struct request *request = *context;
    (void)version;
    if (!request && has_two_lengths(connection)) {
        return MHD_NO;
    }
    if (!request) {
        request = request_create(argument, connection, url);
        *context = request;
        if (!request) {
            return MHD_NO;
        }
        set_state(argument, request->peer, SENDING_BODY, BODY_SECONDS + (double)announced(request) / SLOWEST);
        if (!request->status) {
            begin(request, url, method);
        }
        /* A refused body is read to its end, because not every client looks for an answer before that; but not a larger one than
         * any that is taken. */
        return request->status && announced(request) > request->server->options->body ? respond(request) : MHD_YES;
    }
    if (*count) {
        const bool good = take_body(request, bytes, *count);
        *count = 0;
        return good ? MHD_YES : MHD_NO;
    }
    return request->taken ? respond(request) : dispatch(request);
}

void http_complete(void *argument, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code) {
    struct server *server = argument;
    struct request *request = *context;
    (void)connection;
    (void)code;
    if (!request) {
        return;
    }
    const size_t route = request->route ? (size_t)(request->route - routes) : ROUTES - 1;
    atomic_fetch_add(&server->metrics.requests[route][request->status / 100 % 6], 1);
    histogram_add(&server->metrics.seconds[route], seconds_now() - request->began);
    set_state(server, request->peer, RESTING, 0);
    request_release(request);
    upload_discard(request);
    if (request->file >= 0) {
        close(request->file);
    }
    text_free(&request->answer);
    free(request->url);
    free(request);
    *context = NULL;
    atomic_fetch_sub(&server->in_flight, 1);
}
