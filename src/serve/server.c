/* Starting and ending the server. */
#include "serve/http.h"
#include "serve/librarian.h"
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

enum {
    DRAIN_SECONDS = 30,
    LESSON_SECONDS = 20,
    ANSWER_SECONDS = 5,
    PART_MILLISECONDS = 50,
    REST_LIMIT = 300,
    CONNECTION_MEMORY = 64 << 10,
    HTTP_THREADS = 2
};

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

bool serve_base_path_fits(const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~";
    bool fits = path[0] == '/' && strlen(path) <= LONGEST_BASE_PATH;
    for (const char *at = path; fits && *at;) { /* parts of "/part/part" */
        const size_t length = strspn(at + 1, plain);
        fits = *at == '/' && length;
        at += length + 1;
    }
    return fits;
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
        note(server, LOG_ERROR, "cannot listen at port %u: %s", address->port, strerror(errno));
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
        note(server, LOG_ERROR, "the server cannot start: %s", strerror(errno));
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

/* Tokens that cannot be read stay as they were. */
static void reload_tokens(struct server *server) {
    const struct token_files *files = &server->options->token_files;
    struct tokens read = {0};
    const char *exposed;
    char problem[TOKEN_PROBLEM];
    if (!files->single && !files->several) {
        return;
    }
    if (!tokens_read(files, &read, problem, &exposed)) {
        note(server, LOG_ERROR, "the tokens stay as they were: %s", problem);
        return;
    }
    pthread_mutex_lock(&server->access.lock);
    struct tokens old = server->access.tokens;
    server->access.tokens = read;
    pthread_mutex_unlock(&server->access.lock);
    tokens_free(&old);
    note(server, LOG_INFO, "loaded %zu token%s again", read.count, read.count == 1 ? "" : "s");
    if (exposed) {
        note(server, LOG_WARNING, "%s: others on this machine can read the tokens; use 'chmod 600'", exposed);
    }
}

/* SIGHUP: what is in files is read again, and the log goes to a new one. */
static void reload(struct server *server) {
    log_reopen(server->options->events->log);
    reload_tokens(server);
    teacher_reload(server);
}

static void wait_for_end(struct server *server, const sigset_t *set) {
    const struct timespec second = {.tv_sec = 1};
    for (;;) {
        const int number = sigtimedwait(set, NULL, &second);
        if (number == SIGTERM || number == SIGINT) {
            return;
        }
        if (number == SIGHUP) {
            reload(server);
        }
        peers_watch(server);
    }
}

int serve_on_event(const l3a_event *event, void *user) {
    struct serve_events *events = user;
    if (event->kind == L3A_EVENT_WARNING) {
        log_note(events->log, LOG_WARNING, event->text);
    }
    return event->kind == L3A_EVENT_PROGRESS && atomic_load(&events->cancel);
}

/* ---- The end ---- */

/* Takes the connections that the system has made already, since their requests may be there, and no more: further ones are refused.
 * The number of the socket stays in use, because a thread of libmicrohttpd may still look at it. */
static void stop_listening(struct server *server) {
    const int listening = server->options->address.socket, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    MHD_quiesce_daemon(server->daemon);
    fcntl(listening, F_SETFL, fcntl(listening, F_GETFL) | O_NONBLOCK);
    for (int made; (made = accept4(listening, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;
         length = sizeof address) {
        peers_add(server, made, (struct sockaddr *)&address, length);
    }
    if (nothing >= 0) {
        dup3(nothing, listening, O_CLOEXEC);
        close(nothing);
    }
}

/* Answers what has been asked, and takes no new connections. A second signal ends the wait. Lessons are cancelled a while before
 * its end, so that there is time to save the model. */
static void drain(struct server *server, const sigset_t *set) {
    const struct timespec moment = {.tv_nsec = 20000000};
    const double start = seconds_now(), until = start + DRAIN_SECONDS;
    atomic_store(&server->load.draining, true);
    note(server, LOG_INFO, "ending: no new connections; requests in progress are answered");
    stop_listening(server);
    for (int quiet = 0; quiet < 2 && seconds_now() < until;) { /* what was accepted just now is seen the second time */
        quiet = atomic_load(&server->load.in_flight) || peers_ask(server) ? 0 : quiet + 1;
        const int number = sigtimedwait(set, NULL, &moment);
        if (number == SIGTERM || number == SIGINT) {
            break;
        }
        if (number == SIGHUP) {
            log_reopen(server->options->events->log);
        }
        if (seconds_now() > start + LESSON_SECONDS) {
            atomic_store(&server->options->events->cancel, true);
        }
        peers_watch(server);
    }
    atomic_store(&server->load.closing, true);
    if (atomic_load(&server->load.in_flight)) {
        atomic_store(&server->options->events->cancel, true);
    }
}

/* Ends the connections when all answers are out. A connection that is closed while something comes would be reset, and its client
 * could lose the answer before; so clients are told first that nothing more will come. */
static void part(struct server *server) {
    const struct timespec moment = {.tv_nsec = 5000000};
    double until = seconds_now() + ANSWER_SECONDS;
    while (atomic_load(&server->load.in_flight) && seconds_now() < until) {
        nanosleep(&moment, NULL);
        peers_watch(server);
    }
    peers_part(server);
    const double start = seconds_now();
    until = start + 1e-3 * PART_MILLISECONDS;
    while (atomic_load(&server->metrics.connections) && (seconds_now() < until || !peers_are_silent(server)) &&
           seconds_now() < start + ANSWER_SECONDS) {
        nanosleep(&moment, NULL);
    }
}

/* ---- The server ---- */

static bool prepare(struct server *server) {
    const struct serve_options *options = server->options;
    if (!server->model.path) {
        note(server, LOG_ERROR, "the model: %s", strerror(errno));
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
    pthread_mutex_init(&server->access.lock, NULL);
    server->access.page = malloc(strlen(options->base_path) + 2);
    if (!server->access.page) {
        note(server, LOG_ERROR, "not enough memory");
        return false;
    }
    sprintf(server->access.page, "%s/", options->base_path);
    if (options->library) {
        server->library = open(options->library, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (server->library < 0) {
            note(server, LOG_ERROR, "%s: %s", options->library, strerror(errno));
            return false;
        }
    }
    if (!teacher_publish(server)) {
        note(server, LOG_ERROR, "%s", l3a_error_text(server->context));
        return false;
    }
    return true;
}

static bool start(struct server *server) {
    if (!pipeline_start(server)) {
        note(server, LOG_ERROR, "not enough memory for %d workers", server->options->workers);
        return false;
    }
    server->cache = cache_create(server->options->cache, server->pipeline.width);
    if (!server->cache || !teacher_start(server) || !examiner_start(server) || !parting_start(&server->parting)) {
        note(server, LOG_ERROR, "not enough memory");
        return false;
    }
    librarian_start(server);
    return start_daemon(server);
}

int serve_run(l3a_context *context, l3a_tagger *tagger, const char *model_path, const struct serve_options *options) {
    struct server *server = calloc(1, sizeof *server);
    sigset_t signals;
    if (!server) {
        return 1;
    }
    *server = (struct server){.options = options,
                              .context = context,
                              .model = {.tagger = tagger, .path = realpath(model_path, NULL)},
                              .access = {.tokens = *options->tokens},
                              .library = -1};
    *options->tokens = (struct tokens){0};
    block_signals(&signals);
    const bool good = prepare(server) && start(server);
    if (good) {
        const struct serve_address *address = &options->address;
        note(server, LOG_INFO, "listening at http://%s%s%s:%u%s/", address->six ? "[" : "", address->host, address->six ? "]" : "",
             address->port, options->base_path);
        wait_for_end(server, &signals);
        librarian_hurry(server);
        drain(server, &signals);
    }
    pipeline_stop(server);
    examiner_stop(server); /* it may need the teacher */
    teacher_stop(server);
    librarian_stop(server);
    librarian_free(server);
    pipeline_free(server);
    if (server->daemon) {
        part(server);
        MHD_stop_daemon(server->daemon);
    }
    close(options->address.socket);
    parting_stop(&server->parting);
    if (server->library >= 0) {
        close(server->library);
    }
    knowledge_free(server->knowledge.current);
    ledger_free(&server->ledger);
    cache_free(server->cache);
    free(server->teacher.trouble);
    free(server->teacher.unsavable);
    tokens_free(&server->access.tokens);
    free(server->access.page);
    free(server->model.path);
    free(server);
    return !good;
}
