/* The server: a tagger over HTTP, with a page on which people teach it. Uses only the public interface, l3a.h.
 *
 * Threads. libmicrohttpd's threads move bytes: they read requests, check them (guard.c), and write answers. They never compute.
 * Workers, one for each processor, decode pictures, run the backbone over batches gathered from all connections, and score; others,
 * at low priority, do what takes long (pipeline.c). One teacher, at low priority, owns the tagger: it teaches, and answers only
 * when the lesson is in the synced history of the model (teacher.c). An examiner measures how good a copy of the model is
 * (quality.c). The main thread waits for signals and ends connections that are too slow (peers.c).
 *
 * A request waits suspended, without a thread, while others work on it. */
#ifndef L3A_SERVE_H
#define L3A_SERVE_H

#include "l3a/l3a.h"
#include "serve/log.h"
#include "serve/tokens.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Where to listen. */
struct serve_address {
    char host[64];
    unsigned port;
    bool six, loopback;
    int socket; /* bound to it */
};

/* "127.0.0.1:8080", "[::1]:8080". Explains in `problem` and returns false if it is invalid. */
bool serve_address_parse(const char *text, struct serve_address *address, const char **problem);
enum { LONGEST_BASE_PATH = 200 };
/* Whether a base path is one: "/tags", "/photos/tags"; with nothing that would have to be written in another way in a URL. */
bool serve_base_path_fits(const char *path);
/* Opens the socket, and finds the port if it was 0. Returns false with errno if the address cannot be had. */
bool serve_address_open(struct serve_address *address);

struct serve_options {
    struct serve_address address;   /* open; the server closes its socket */
    const char *library;            /* a folder of pictures; NULL: none */
    bool remember;                  /* keeps an index of the library … */
    const char *index;              /* … in this file; NULL: beside the model */
    bool write_xmp;                 /* writes tags beside the pictures of the library */
    struct tokens *tokens;          /* one of which requests need; none: they need none. The server takes them */
    struct token_files token_files; /* where they are, to read them again */
    const char *base_path;          /* that all paths begin with, such as "/tags"; "": they do not */
    const char *host;               /* a further name that requests may call this server by; NULL: none */
    bool insecure;                  /* allows addresses other than loopback without a token */
    bool readonly;                  /* refuses lessons */
    bool unlabelled;                /* the pictures of the library help to teach */
    bool heif;                      /* takes HEIC and AVIF, which libheif decodes */
    bool demo;                      /* shows the demonstration */
    size_t batch;                   /* pictures that the backbone computes at a time */
    size_t queue;                   /* pictures that may wait; more are refused with 429 */
    size_t connections;             /* at a time */
    uint64_t body;                  /* bytes of a request */
    uint64_t cache;                 /* bytes of features of pictures that were seen */
    int workers;                    /* threads that compute */
    struct serve_events *events;    /* see serve_on_event() */
};

/* What the events of the tagger's context need. */
struct serve_events {
    struct log *log;
    atomic_bool cancel; /* the server sets it when it ends and a lesson takes too long, which is then cancelled */
};

/* The callback for events of the tagger's context; user: a struct serve_events. Warnings, such as that of a damaged history, go to
 * the log. */
int serve_on_event(const l3a_event *event, void *user);

/* Serves until SIGTERM or SIGINT. The tagger's model is locked by the caller. Returns 0, or 1 after an error that was noted. */
int serve_run(l3a_context *context, l3a_tagger *tagger, const char *model_path, const struct serve_options *options);

#endif
