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
/* Opens the socket, and finds the port if it was 0. Returns false with errno if the address cannot be had. */
bool serve_address_open(struct serve_address *address);

struct serve_options {
    struct serve_address address;   /* open; the server closes its socket */
    const char *library;            /* a folder of pictures; NULL: none */
    const char *token;              /* that requests need; NULL: none */
    const char *host;               /* a further name that requests may call this server by; NULL: none */
    bool insecure;                  /* allows addresses other than loopback without a token */
    bool readonly;                  /* refuses lessons */
    bool heif;                      /* takes HEIC and AVIF, which libheif decodes */
    bool demo;                      /* shows the demonstration */
    size_t batch;                   /* pictures that the backbone computes at a time */
    size_t queue;                   /* pictures that may wait; more are refused with 429 */
    size_t connections;             /* at a time */
    uint64_t body;                  /* bytes of a request */
    uint64_t cache;                 /* bytes of features of pictures that were seen */
    int workers;                    /* threads that compute */
    void (*note)(const char *text); /* says what happens, one line at a time */
    atomic_bool *cancel;            /* see serve_on_event() */
};

/* The callback for events of the tagger's context. user: an atomic_bool that the options point to. The server sets it when it ends
 * and a lesson takes too long, which is then cancelled. */
int serve_on_event(const l3a_event *event, void *user);

/* Serves until SIGTERM or SIGINT. The tagger's model is locked by the caller. Returns 0, or 1 after an error that was noted. */
int serve_run(l3a_context *context, l3a_tagger *tagger, const char *model_path, const struct serve_options *options);

#endif
