/* Starting and ending the server. */
#include "common/sha256.h"
#include "serve/http.h"
#include "serve/peers.h"
#include "serve/protocols.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DRAIN_SECONDS = 30, LESSON_SECONDS = 20, REST_LIMIT = 300, CONNECTION_MEMORY = 64 << 10, HTTP_THREADS = 2, BACKLOG = 1024 };

/* ---- The address ---- */

bool serve_address_parse(const char *text, struct serve_address *address, const char **problem) {
    const char *colon = strrchr(text, ':'), *end;
    struct in6_addr bytes;
    char *rest;
    *address = (struct serve_address){.six = text[0] == '['};
    *problem = "give an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
    if (!colon) {
        return false;
    }
    end = address->six ? colon - 1 : colon;
    const char *start = text + address->six;
    if (end <= start || (address->six && *end != ']') || (size_t)(end - start) >= sizeof address->host) {
        return false;
    }
    memcpy(address->host, start, (size_t)(end - start));
    const unsigned long port = strtoul(colon + 1, &rest, 10);
    if (colon[1] < '0' || colon[1] > '9' || *rest || port > 65535) {
        *problem = "the port is a number up to 65535; 0 takes any that is free";
        return false;
    }
    address->port = (unsigned)port;
    if (strcmp(address->host, "localhost") == 0) {
        strcpy(address->host, "127.0.0.1");
    }
    if (inet_pton(address->six ? AF_INET6 : AF_INET, address->host, &bytes) != 1) {
        *problem = "give an address in numbers; 0.0.0.0 is all addresses of this machine";
        return false;
    }
    address->loopback = address->six ? IN6_IS_ADDR_LOOPBACK(&bytes) : strncmp(address->host, "127.", 4) == 0;
    return true;
}

bool serve_address_open(struct serve_address *address) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)address->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)address->port)};
    const int family = address->six ? AF_INET6 : AF_INET, yes = 1;
    struct sockaddr *name = address->six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    socklen_t length = address->six ? sizeof six : sizeof four;
    inet_pton(family, address->host, address->six ? (void *)&six.sin6_addr : (void *)&four.sin_addr);
    address->socket = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(address->socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->socket < 0 || bind(address->socket, name, length) || getsockname(address->socket, name, &length)) {
        const int code = errno;
        close(address->socket);
        errno = code;
        return false;
    }
    address->port = ntohs(address->six ? six.sin6_port : four.sin_port);
    return true;
}

/* Each connection needs a file descriptor. */
static void raise_file_limit(size_t connections) {
    struct rlimit limit;
    const rlim_t wanted = connections + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool start_daemon(struct server *server) {
    const struct serve_options *options = server->options;
    const struct serve_address *address = &options->address;
    if (listen(address->socket, BACKLOG)) {
        note(server, "cannot listen at port %u: %s", address->port, strerror(errno));
        return false;
    }
    raise_file_limit(options->connections);
    server->daemon = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
                                      http_handle, server, MHD_OPTION_LISTEN_SOCKET, address->socket, MHD_OPTION_THREAD_POOL_SIZE,
                                      (unsigned)HTTP_THREADS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections,
                                      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)REST_LIMIT, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                      (size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, http_complete, server,
                                      MHD_OPTION_NOTIFY_CONNECTION, peers_notice, server, MHD_OPTION_URI_LOG_CALLBACK,
                                      peers_request_line, server, MHD_OPTION_STRICT_FOR_CLIENT, http_strictness(), MHD_OPTION_END);
    if (!server->daemon) {
        note(server, "the server cannot start: %s", strerror(errno));
    }
    return server->daemon != NULL;
}

/* ---- Signals ---- */

static void block_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void wait_for_end(struct server *server, const sigset_t *set) {
    const struct timespec second = {.tv_sec = 1};
    for (;;) {
        const int number = sigtimedwait(set, NULL, &second);
        if (number == SIGTERM || number == SIGINT) {
            return;
        }
        if (number == SIGHUP) {
            teacher_reload(server);
        }
        peers_watch(server);
    }
}

int serve_on_event(const l3a_event *event, void *user) {
    return event->kind == L3A_EVENT_PROGRESS && atomic_load((const atomic_bool *)user);
}

/* Answers what has been asked, and takes no new connections. A second signal ends the wait. Lessons are cancelled a while before
 * its end, so that there is time to save the model. */
static void drain(struct server *server, const sigset_t *set) {
    const struct timespec moment = {.tv_nsec = 20000000};
    const double start = seconds_now(), until = start + DRAIN_SECONDS;
    atomic_store(&server->load.draining, true);
    note(server, "ending: no new connections; requests in progress are answered");
    MHD_quiesce_daemon(server->daemon);
    while (atomic_load(&server->load.in_flight) && seconds_now() < until) {
        const int number = sigtimedwait(set, NULL, &moment);
        if (number == SIGTERM || number == SIGINT) {
            break;
        }
        if (seconds_now() > start + LESSON_SECONDS) {
            atomic_store(server->options->cancel, true);
        }
        peers_watch(server);
    }
    if (atomic_load(&server->load.in_flight)) {
        atomic_store(server->options->cancel, true);
    }
}

/* ---- The server ---- */

static bool prepare(struct server *server) {
    const struct serve_options *options = server->options;
    if (!server->model.path) {
        note(server, "the model: %s", strerror(errno));
        return false;
    }
    const char *slash = strrchr(server->model.path, '/');
    server->model.name = slash ? slash + 1 : server->model.path;
    const char *backbone = l3a_tagger_backbone(server->model.tagger), *name = backbone ? strrchr(backbone, '/') : NULL;
    snprintf(server->model.backbone, sizeof server->model.backbone, "%s",
             name       ? name + 1
             : backbone ? backbone
                        : "in the model file");
    pthread_mutex_init(&server->teacher.lock, NULL);
    pthread_mutex_init(&server->knowledge.lock, NULL);
    pthread_mutex_init(&server->ledger.lock, NULL);
    pthread_mutex_init(&server->peers.lock, NULL);
    gethostname(server->access.own_name, sizeof server->access.own_name - 1);
    if (options->token) {
        sha256_of(options->token, strlen(options->token), server->access.token);
    }
    if (options->library) {
        server->library = open(options->library, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (server->library < 0) {
            note(server, "%s: %s", options->library, strerror(errno));
            return false;
        }
    }
    if (!teacher_publish(server)) {
        note(server, "%s", l3a_error_text(server->context));
        return false;
    }
    return true;
}

static bool start(struct server *server) {
    if (!pipeline_start(server)) {
        note(server, "not enough memory for %d workers", server->options->workers);
        return false;
    }
    server->cache = cache_create(server->options->cache, server->pipeline.width);
    if (!server->cache || !teacher_start(server) || !examiner_start(server) || !parting_start(&server->parting)) {
        note(server, "not enough memory");
        return false;
    }
    return start_daemon(server);
}

int serve_run(l3a_context *context, l3a_tagger *tagger, const char *model_path, const struct serve_options *options) {
    struct server *server = calloc(1, sizeof *server);
    sigset_t signals;
    if (!server) {
        return 1;
    }
    *server = (struct server){
        .options = options, .context = context, .model = {.tagger = tagger, .path = realpath(model_path, NULL)}, .library = -1};
    block_signals(&signals);
    const bool good = prepare(server) && start(server);
    if (good) {
        const struct serve_address *address = &options->address;
        note(server, "listening at http://%s%s%s:%u/", address->six ? "[" : "", address->host, address->six ? "]" : "",
             address->port);
        wait_for_end(server, &signals);
        drain(server, &signals);
    }
    close(options->address.socket);
    pipeline_stop(server);
    examiner_stop(server); /* it may need the teacher */
    teacher_stop(server);
    pipeline_free(server);
    if (server->daemon) {
        MHD_stop_daemon(server->daemon);
    }
    parting_stop(&server->parting);
    if (server->library >= 0) {
        close(server->library);
    }
    knowledge_free(server->knowledge.current);
    ledger_free(&server->ledger);
    cache_free(server->cache);
    free(server->teacher.trouble);
    free(server->teacher.unsavable);
    free(server->model.path);
    free(server);
    return !good;
}
