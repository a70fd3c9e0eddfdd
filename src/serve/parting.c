/* Connections that are being closed although their clients still send. Closing a socket with unread bytes resets the connection,
 * and the client may lose the answer that was sent before. So such a socket stays open for a moment: what comes is thrown away,
 * until the client has closed it, or the time is over. */
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PARTING_SECONDS 2.0

static void wake(const struct parting *parting) {
    const uint64_t one = 1;
    if (write(parting->event, &one, sizeof one) != (ssize_t)sizeof one) {
        return; /* it is awake */
    }
}

/* Throws away what has come. Returns false when the client has closed the connection. */
static bool discard(int socket) {
    ssize_t got;
    for (int i = 0; i < 16; i++) { /* TCP does not even copy it */
        got = recv(socket, NULL, 1 << 20, MSG_TRUNC | MSG_DONTWAIT);
        if (got <= 0) {
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        }
    }
    return true;
}

/* Waits until something has come, or the first of them has to go. */
static void wait_for_bytes(struct parting *parting, const int sockets[PARTING], size_t count, double until) {
    struct pollfd polled[PARTING + 1] = {{.fd = parting->event, .events = POLLIN}};
    uint64_t number;
    for (size_t i = 0; i < count; i++) {
        polled[i + 1] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
    }
    const double left = until - seconds_now();
    poll(polled, count + 1, count ? (left > 0 ? (int)(1e3 * left) + 1 : 0) : -1);
    if (polled[0].revents && read(parting->event, &number, sizeof number) < 0) {
        return;
    }
}

static void *watch(void *argument) {
    struct parting *parting = argument;
    int sockets[PARTING];
    pthread_mutex_lock(&parting->lock);
    while (!parting->stop || parting->count) { /* at the end, those that are there stay their time */
        const size_t count = parting->count;
        memcpy(sockets, parting->sockets, sizeof sockets);
        const double until = count ? parting->until[0] : 0;
        pthread_mutex_unlock(&parting->lock);
        wait_for_bytes(parting, sockets, count, until);
        pthread_mutex_lock(&parting->lock);
        const double now = seconds_now();
        size_t kept = 0;
        for (size_t i = 0; i < parting->count; i++) { /* new ones are at the end, and the first comes due first */
            if (now < parting->until[i] && discard(parting->sockets[i])) {
                parting->until[kept] = parting->until[i];
                parting->sockets[kept++] = parting->sockets[i];
            } else {
                close(parting->sockets[i]);
            }
        }
        parting->count = kept;
    }
    pthread_mutex_unlock(&parting->lock);
    return NULL;
}

void parting_add(struct parting *parting, int socket) {
    pthread_mutex_lock(&parting->lock);
    const int copy = parting->running && parting->count < PARTING ? fcntl(socket, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy >= 0) {
        parting->sockets[parting->count] = copy;
        parting->until[parting->count++] = seconds_now() + PARTING_SECONDS;
        wake(parting);
    }
    pthread_mutex_unlock(&parting->lock);
}

bool parting_start(struct parting *parting) {
    pthread_mutex_init(&parting->lock, NULL);
    parting->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    parting->running = parting->event >= 0 && pthread_create(&parting->thread, NULL, watch, parting) == 0;
    return parting->running;
}

void parting_stop(struct parting *parting) {
    if (parting->running) {
        pthread_mutex_lock(&parting->lock);
        parting->stop = true;
        parting->running = false;
        wake(parting);
        pthread_mutex_unlock(&parting->lock);
        pthread_join(parting->thread, NULL);
        close(parting->event);
    }
}
