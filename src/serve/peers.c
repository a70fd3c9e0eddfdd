/* Deadlines go by rate. A body must keep up SLOWEST bytes a second over the last WINDOW seconds, however large it is, and so must
 * an answer, as far as the client has acknowledged it. The head of a request must be there HEAD_SECONDS after its first byte. A
 * connection that rests between requests has no deadline; whether it rests, the kernel knows: it counts the bytes that have come.
 *
 * One client can open many connections. A limit for each address would be wrong behind a proxy, where all clients have one. So when
 * connections run short, those that have rested the longest are ended, and if that is not enough, the slowest; whoever needs one
 * again opens another. When the bodies of all requests have too many bytes, the slowest body goes. The first FREE bytes of each do
 * not count, so that there is always room for small requests. */
#include "serve/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    HEAD_SECONDS = 5,
    WINDOW = 10 /* seconds */,
    SLOWEST = 1 << 10 /* bytes a second */,
    RECENT = 2 /* seconds */,
    FREE = 64 << 10 /* bytes */
};

struct peer {
    int socket;
    enum peer_state state;
    struct client *client;
    struct request *request;    /* whose body comes */
    const char *version;        /* where the version of HTTP should be in the request line */
    bool clear;                 /* the request line has no control character */
    bool head;                  /* while it rests: a head has begun to come … */
    double since;               /* … and when that was seen */
    uint64_t bytes_at_rest;     /* that had come when the last request ended … */
    uint64_t sent_at_rest;      /* … and been sent */
    char address[PEER_ADDRESS]; /* for the log */
    unsigned said;              /* the status of an answer in the middle of a body; 0: none */
    uint64_t body;              /* bytes of the body that have come */
    uint64_t marks[WINDOW + 1]; /* bytes of body or answer at the last ticks, one a second */
    size_t ticks;               /* since the state began */
    bool ended;                 /* libmicrohttpd will notice */
    bool lingers;               /* its client may still be sending when it is closed */
    struct peer *newer, *older;
};

/* ---- Clients ---- */

/* What tells one client from another: an address, or the network of an address of IPv6, since one machine has all of it. */
static void name_client(const struct sockaddr *address, uint8_t name[CLIENT_NAME]) {
    memset(name, 0, CLIENT_NAME);
    if (address && address->sa_family == AF_INET) {
        memcpy(name, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        memcpy(name, six, IN6_IS_ADDR_V4MAPPED(six) ? 16 : 8);
    }
}

static struct client **client_slot(struct server *server, const uint8_t name[CLIENT_NAME]) {
    unsigned sum = 0;
    for (size_t i = 0; i < CLIENT_NAME; i++) {
        sum = 31 * sum + name[i];
    }
    return &server->peers.clients[sum % CLIENT_SLOTS];
}

/* The client at an address, with one more connection; NULL: no memory. Under the lock. */
static struct client *client_find(struct server *server, const struct sockaddr *address) {
    uint8_t name[CLIENT_NAME];
    name_client(address, name);
    struct client **slot = client_slot(server, name), *client = *slot;
    while (client && memcmp(client->name, name, CLIENT_NAME) != 0) {
        client = client->chained;
    }
    if (!client && (client = calloc(1, sizeof *client))) {
        memcpy(client->name, name, CLIENT_NAME);
        client->chained = *slot;
        *slot = client;
    }
    if (client) {
        client->connections++;
    }
    return client;
}

static void client_leave(struct server *server, struct client *client) {
    if (client && --client->connections == 0) {
        struct client **at = client_slot(server, client->name);
        while (*at != client) {
            at = &(*at)->chained;
        }
        *at = client->chained;
        free(client);
    }
}

/* ---- What moves ---- */

static struct tcp_info look(int socket) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size)) {
        memset(&info, 0, sizeof info);
    }
    return info;
}

/* Bytes of the body or of answers that have moved. */
static uint64_t bytes_moved(const struct peer *peer) {
    return peer->state == SENDING_BODY ? peer->body : look(peer->socket).tcpi_bytes_acked;
}

static bool is_moving(const struct peer *peer) {
    return peer->state == SENDING_BODY || peer->state == TAKING_ANSWER;
}

/* Bytes in the last seconds before the last tick, up to `seconds`; at the first tick there is nothing to compare. */
static uint64_t bytes_since(const struct peer *peer, size_t seconds) {
    const size_t last = peer->ticks - 1, back = last < seconds ? last : seconds;
    return peer->marks[last % (WINDOW + 1)] - peer->marks[(last - back) % (WINDOW + 1)];
}

/* ---- Connections ---- */

/* Those that came, or began to rest, last are at the front. Under the lock. */
static void link_peer(struct server *server, struct peer *peer) {
    peer->newer = NULL;
    peer->older = server->peers.newest;
    *(peer->older ? &peer->older->newer : &server->peers.oldest) = peer;
    server->peers.newest = peer;
}

static void unlink_peer(struct server *server, struct peer *peer) {
    *(peer->newer ? &peer->newer->older : &server->peers.newest) = peer->older;
    *(peer->older ? &peer->older->newer : &server->peers.oldest) = peer->newer;
}

struct peer *peer_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

bool peer_set(struct request *request, enum peer_state state) {
    struct server *server = request->server;
    struct peer *peer = request->peer;
    if (!peer) {
        return true;
    }
    pthread_mutex_lock(&server->peers.lock);
    peer->state = state;
    peer->ticks = 0;
    peer->request = state == SENDING_BODY ? request : NULL;
    if (state == SENDING_BODY) {
        peer->body = 0;
    } else if (state == RESTING) {
        const struct tcp_info info = look(peer->socket);
        peer->head = false;
        peer->bytes_at_rest = info.tcpi_bytes_received;
        peer->sent_at_rest = info.tcpi_bytes_sent;
        unlink_peer(server, peer);
        link_peer(server, peer);
    }
    const bool alive = !peer->ended;
    pthread_mutex_unlock(&server->peers.lock);
    return alive;
}

static void write_address(const struct sockaddr *address, char text[PEER_ADDRESS]) {
    const void *bytes = NULL;
    if (address && address->sa_family == AF_INET) {
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (address && address->sa_family == AF_INET6) {
        bytes = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    }
    if (!bytes || !inet_ntop(address->sa_family, bytes, text, PEER_ADDRESS)) {
        strcpy(text, "-");
    }
}

/* Under the lock. */
static void forget_coming(struct server *server, int socket) {
    struct peers *peers = &server->peers;
    for (size_t i = 0; i < peers->coming_count; i++) {
        if (peers->coming[i] == socket) {
            peers->coming[i] = peers->coming[--peers->coming_count];
            return;
        }
    }
}

static struct peer *peer_create(struct server *server, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct peer *peer = info ? calloc(1, sizeof *peer) : NULL;
    if (peer) {
        peer->socket = info->connect_fd;
        forget_coming(server, peer->socket);
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        peer->client = client_find(server, info ? info->client_addr : NULL);
        write_address(info ? info->client_addr : NULL, peer->address);
        link_peer(server, peer);
    }
    return peer;
}

/* Whether bytes have come since the last request that are not a request yet. The end of a connection counts as a byte. */
static bool has_begun(const struct peer *peer) {
    return peer->state == RESTING && look(peer->socket).tcpi_bytes_received > peer->bytes_at_rest + 1;
}

/* A head that was not understood, or never complete, is no request to libmicrohttpd, which answers it by itself or not at all. */
static void log_head(struct server *server, const struct peer *peer) {
    const bool answered = look(peer->socket).tcpi_bytes_sent > peer->sent_at_rest;
    const struct log_request line = {
        .client = peer->address, .method = "-", .path = "-", .status = answered ? MHD_HTTP_BAD_REQUEST : 0, .complete = answered};
    log_request(server->options->events->log, &line);
}

static void say_connection(struct server *server, const struct peer *peer, const char *what) {
    if (peer && log_wants(server->options->events->log, LOG_DEBUG)) {
        note(server, LOG_DEBUG, "a connection of %s %s", peer->address, what);
    }
}

void peers_notice(void *argument, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode what) {
    struct server *server = argument;
    struct peer *peer = *context;
    pthread_mutex_lock(&server->peers.lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = peer_create(server, connection);
        say_connection(server, *context, "begins");
        atomic_fetch_add(&server->metrics.connections, 1);
        atomic_fetch_add(&server->metrics.connections_total, 1);
    } else {
        if (peer) {
            if (peer->lingers) {
                parting_add(&server->parting, peer->socket);
            } else if (has_begun(peer)) {
                log_head(server, peer);
            }
            say_connection(server, peer, "ends");
            client_leave(server, peer->client);
            unlink_peer(server, peer);
            free(peer);
            *context = NULL;
        }
        atomic_fetch_sub(&server->metrics.connections, 1);
    }
    pthread_mutex_unlock(&server->peers.lock);
}

void *peers_request_line(void *argument, const char *uri, struct MHD_Connection *connection) {
    struct peer *peer = peer_of(connection);
    (void)argument;
    if (peer) {
        const char *at = uri;
        while ((unsigned char)*at > ' ' && *at != 0x7F) {
            at++;
        }
        peer->clear = !*at;
        peer->version = at + 1;
    }
    return NULL;
}

unsigned peer_status(const struct request *request, char address[PEER_ADDRESS]) {
    unsigned status = 0;
    strcpy(address, "-");
    if (request->peer) {
        pthread_mutex_lock(&request->server->peers.lock);
        strcpy(address, request->peer->address);
        status = request->peer->said;
        request->peer->said = 0;
        pthread_mutex_unlock(&request->server->peers.lock);
    }
    return status;
}

bool peer_line_is_clear(const struct peer *peer, const char *version) {
    return !peer || (peer->clear && peer->version == version);
}

struct client *peer_client(struct request *request) {
    return request->peer && request->peer->client ? request->peer->client : &request->server->peers.stranger;
}

bool peer_has_left(const struct request *request) {
    char byte;
    return request->peer && recv(request->peer->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void peer_let_go(struct request *request) {
    if (request->peer) {
        request->peer->lingers = true; /* only its own thread of libmicrohttpd looks */
    }
}

/* ---- Ends ---- */

/* The whole of an answer, for a client that sends a body. */
static void send_answer(const struct peer *peer, unsigned status, const char *reason, unsigned retry, const char *json) {
    char text[4096], after[40] = "";
    if (retry) {
        snprintf(after, sizeof after, "Retry-After: %u\r\n", retry);
    }
    const int length =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                 "X-Content-Type-Options: nosniff\r\nConnection: close\r\n%s\r\n%s",
                 status, reason, strlen(json), after, json);
    if (length > 0 && (size_t)length < sizeof text &&
        send(peer->socket, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) != length) {
        return; /* the client does not listen */
    }
}

void peer_answer(struct request *request) {
    if (request->peer) {
        request->answer.bytes = request->answer.text.length;
        pthread_mutex_lock(&request->server->peers.lock);
        request->peer->said = request->answer.status;
        pthread_mutex_unlock(&request->server->peers.lock);
        send_answer(request->peer, request->answer.status, MHD_get_reason_phrase_for(request->answer.status), request->answer.retry,
                    request->answer.text.bytes ? request->answer.text.bytes : "");
        peer_let_go(request);
    }
}

static void end_peer(struct server *server, struct peer *peer, bool slow) {
    static const char late[] = "{\"error\": \"the body came too slowly\", \"hint\": \"send it again over a faster connection\"}\n";
    static const char full[] = "{\"error\": \"there is no room for this request\", \"hint\": \"try again in a moment\"}\n";
    if (peer->state == SENDING_BODY && slow) {
        peer->said = MHD_HTTP_REQUEST_TIMEOUT;
        send_answer(peer, peer->said, "Request Timeout", 0, late);
    } else if (peer->state == SENDING_BODY) {
        peer->said = MHD_HTTP_SERVICE_UNAVAILABLE;
        send_answer(peer, peer->said, "Service Unavailable", 1, full);
    }
    shutdown(peer->socket, SHUT_RDWR); /* libmicrohttpd then notices its end, and closes it */
    peer->ended = true;
    if (peer->request) { /* its bytes are as good as gone */
        atomic_fetch_sub(&server->load.body_bytes, peer->request->body.counted);
        peer->request->body.counted = 0;
    }
    atomic_fetch_add(slow ? &server->metrics.timed_out : &server->metrics.dropped, 1);
}

/* The slowest of those that send a head or a body or take an answer, for a while already; NULL: there is none. */
static struct peer *find_slowest(struct server *server, bool (*may)(const struct peer *peer)) {
    struct peer *slowest = NULL;
    uint64_t least = UINT64_MAX;
    for (struct peer *peer = server->peers.oldest; peer; peer = peer->newer) {
        if (!peer->ended && may(peer)) {
            const uint64_t bytes = is_moving(peer) ? bytes_since(peer, RECENT) : 0;
            if (bytes < least) {
                least = bytes;
                slowest = peer;
            }
        }
    }
    return slowest;
}

static bool may_leave(const struct peer *peer) {
    return (is_moving(peer) && peer->ticks > RECENT) || (peer->state == RESTING && peer->head);
}

static bool may_give_room(const struct peer *peer) {
    return peer->state == SENDING_BODY && peer->ticks > RECENT && peer->request && peer->request->body.counted;
}

/* Ends connections that rest, until half of them are free; if there are still too many, the slowest, until an eighth is. */
static void make_room(struct server *server, size_t open, size_t limit) {
    const size_t many = limit - limit / 8;
    for (struct peer *peer = server->peers.oldest; peer && open > limit / 2; peer = peer->newer) {
        if (peer->state == RESTING && !peer->head && !peer->ended) {
            end_peer(server, peer, false);
            open--;
        }
    }
    for (struct peer *slowest; open >= many && (slowest = find_slowest(server, may_leave)); open--) {
        end_peer(server, slowest, false);
    }
}

/* Looks at a connection once a second. */
static void tick(struct server *server, struct peer *peer, double now) {
    if (peer->state == RESTING && !peer->head) {
        peer->head = look(peer->socket).tcpi_bytes_received > peer->bytes_at_rest;
        peer->since = now;
    } else if (peer->state == RESTING && now > peer->since + HEAD_SECONDS) {
        end_peer(server, peer, true);
    } else if (is_moving(peer)) {
        peer->marks[peer->ticks++ % (WINDOW + 1)] = bytes_moved(peer);
        if (peer->ticks > WINDOW && bytes_since(peer, WINDOW) < WINDOW * SLOWEST) {
            end_peer(server, peer, true);
        }
    }
}

void peers_watch(struct server *server) {
    const double now = seconds_now();
    const size_t limit = server->options->connections;
    size_t open = 0;
    if (now < server->peers.watched + 0.99) {
        return;
    }
    server->peers.watched = now;
    pthread_mutex_lock(&server->peers.lock);
    for (struct peer *peer = server->peers.newest; peer; peer = peer->older) {
        if (!peer->ended) {
            tick(server, peer, now);
        }
        open += !peer->ended;
    }
    if (open >= limit - limit / 8) {
        make_room(server, open, limit);
    }
    pthread_mutex_unlock(&server->peers.lock);
}

/* ---- The end ---- */

/* Its thread looks at it later, and until then there is no peer. */
void peers_add(struct server *server, int socket, const struct sockaddr *address, socklen_t length) {
    struct peers *peers = &server->peers;
    pthread_mutex_lock(&peers->lock);
    if (peers->coming_count < BACKLOG) {
        peers->coming[peers->coming_count++] = socket;
        peers->handed = seconds_now();
    }
    pthread_mutex_unlock(&peers->lock);
    if (MHD_add_connection(server->daemon, socket, address, length) != MHD_YES) {
        pthread_mutex_lock(&peers->lock);
        forget_coming(server, socket);
        pthread_mutex_unlock(&peers->lock);
    }
}

bool peers_ask(struct server *server) {
    pthread_mutex_lock(&server->peers.lock);
    bool asking = server->peers.coming_count && seconds_now() < server->peers.handed + HEAD_SECONDS;
    for (const struct peer *peer = server->peers.newest; peer && !asking; peer = peer->older) {
        asking = !peer->ended && has_begun(peer);
    }
    pthread_mutex_unlock(&server->peers.lock);
    return asking;
}

void peers_part(struct server *server) {
    pthread_mutex_lock(&server->peers.lock);
    for (struct peer *peer = server->peers.newest; peer; peer = peer->older) {
        if (!peer->ended) {
            shutdown(peer->socket, SHUT_WR);
            peer->ended = true;
        }
    }
    pthread_mutex_unlock(&server->peers.lock);
}

bool peers_are_silent(struct server *server) {
    bool silent = true;
    char byte;
    pthread_mutex_lock(&server->peers.lock);
    for (const struct peer *peer = server->peers.newest; peer && silent; peer = peer->older) {
        silent = recv(peer->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
    }
    pthread_mutex_unlock(&server->peers.lock);
    return silent;
}

/* ---- Bodies ---- */

enum room body_count(struct request *request, size_t count, bool kept) {
    struct server *server = request->server;
    struct peer *peer = request->peer, *slowest = NULL;
    const uint64_t limit = 8 * server->options->body, length = request->body.text.length + count;
    const uint64_t more = !kept || length <= FREE ? 0 : length - FREE - request->body.counted;
    pthread_mutex_lock(&server->peers.lock);
    while (more && atomic_load(&server->load.body_bytes) + more > limit && (slowest = find_slowest(server, may_give_room))) {
        end_peer(server, slowest, false);
    }
    const bool ended = peer && peer->ended, full = more && atomic_load(&server->load.body_bytes) + more > limit;
    if (!ended && !full) {
        atomic_fetch_add(&server->load.body_bytes, more);
        request->body.counted += more;
    }
    if (peer) {
        peer->body += count;
    }
    pthread_mutex_unlock(&server->peers.lock);
    return ended ? ENDED : full ? NO_ROOM : ROOM;
}

void body_discount(struct request *request) {
    pthread_mutex_lock(&request->server->peers.lock);
    atomic_fetch_sub(&request->server->load.body_bytes, request->body.counted);
    request->body.counted = 0;
    pthread_mutex_unlock(&request->server->peers.lock);
}
