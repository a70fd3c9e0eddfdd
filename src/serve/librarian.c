#include "serve/librarian.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Handles ---- */

/* Whether another index is in the place of the one that is open: a damaged one was moved away. */
static bool is_replaced(const struct librarian *librarian, const struct handle *handle) {
    struct stat now;
    return stat(librarian->path, &now) == 0 && (now.st_dev != handle->file.st_dev || now.st_ino != handle->file.st_ino);
}

bool handle_open(struct librarian *librarian, struct handle *handle, l3a_status *status) {
    const l3a_library_options options = {.size = sizeof options, .index = librarian->path, .folder = librarian->folder};
    const unsigned epoch = atomic_load(&librarian->epoch);
    *status = L3A_OK;
    if (handle->library && (handle->epoch != epoch || is_replaced(librarian, handle))) {
        handle_close(handle);
    }
    if (!handle->library) {
        *status = l3a_library_open(handle->context, librarian->server->model.tagger, &options, &handle->library);
        handle->epoch = epoch;
        handle->opened++;
        if (stat(librarian->path, &handle->file)) {
            memset(&handle->file, 0, sizeof handle->file);
        }
    }
    return *status == L3A_OK;
}

void handle_close(struct handle *handle) {
    l3a_library_free(handle->library);
    handle->library = NULL;
}

void handle_check(struct librarian *librarian, struct handle *handle, l3a_status status) {
    if (status == L3A_ERROR_CHECKSUM || status == L3A_ERROR_TRUNCATED) { /* opening it again makes it anew */
        handle_close(handle);
        atomic_fetch_add(&librarian->epoch, 1);
        pthread_mutex_lock(&librarian->lock); /* the indexer fills it */
        librarian->changed = true;
        pthread_cond_signal(&librarian->work);
        pthread_mutex_unlock(&librarian->lock);
    } else if (status == L3A_ERROR_IO) { /* perhaps it is not there any more */
        handle_close(handle);
    }
}

static int on_event(const l3a_event *event, void *user) {
    const struct librarian *librarian = user;
    if (event->kind == L3A_EVENT_WARNING) {
        note(librarian->server, LOG_WARNING, "%s", event->text);
    }
    return event->kind == L3A_EVENT_PROGRESS && atomic_load(&librarian->stop);
}

static bool handle_prepare(struct librarian *librarian, struct handle *handle, int threads, l3a_event_callback *events) {
    const l3a_context_options options = {.size = sizeof options, .threads = threads, .on_event = events, .event_user = librarian};
    return pthread_mutex_init(&handle->lock, NULL) == 0 && l3a_context_create(&options, &handle->context) == L3A_OK;
}

/* ---- Paths ---- */

const char *librarian_relative(const struct librarian *librarian, const char *path) {
    const size_t length = strlen(librarian->folder);
    const bool root = length == 1;
    return strncmp(path, librarian->folder, length) == 0 && (root || path[length] == '/') ? path + length + !root : NULL;
}

/* ---- The librarian ---- */

/* Whether the folder was given to the index itself. Otherwise, it is below one that was, and links may lead from it to there. */
static bool is_root(struct librarian *librarian) {
    const char *folder;
    bool found = false;
    for (size_t i = 0; !found && (folder = l3a_library_folder(librarian->own.library, i, NULL)); i++) {
        found = strcmp(folder, librarian->folder) == 0;
    }
    return found;
}

/* Opens the index for the indexer, and adds the folder. */
static l3a_status open_index(struct librarian *librarian) {
    l3a_status status;
    if (handle_open(librarian, &librarian->own, &status)) {
        status = l3a_library_add(librarian->own.library, librarian->folder);
    }
    librarian->nested = status == L3A_OK && !is_root(librarian);
    return status;
}

static struct librarian *librarian_create(struct server *server) {
    struct librarian *made = calloc(1, sizeof *made);
    const char *path = server->options->index;
    pthread_condattr_t attributes;
    if (!made) {
        return NULL;
    }
    made->server = server;
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->work, &attributes);
    pthread_condattr_destroy(&attributes);
    made->folder = realpath(server->options->library, NULL);
    const size_t size = strlen(server->model.path) + sizeof ".library";
    made->path = path ? copy_string(path) : malloc(size);
    if (made->path && !path) {
        snprintf(made->path, size, "%s.library", server->model.path);
    }
    made->outdated = made->changed = true;
    const int threads = server->options->workers;
    if (made->folder && made->path && handle_prepare(made, &made->own, threads, indexer_on_event) &&
        handle_prepare(made, &made->finder, threads, on_event) && handle_prepare(made, &made->twins, threads, on_event)) {
        handle_prepare(made, &made->shelf, 1, on_event);
    }
    return made;
}

static void librarian_destroy(struct librarian *librarian) {
    struct handle *handles[] = {&librarian->own, &librarian->finder, &librarian->twins, &librarian->shelf};
    for (size_t i = 0; i < ANSWERS_KEPT; i++) {
        l3a_found_free(librarian->results[i].found);
        free(librarian->results[i].question);
    }
    l3a_found_free(librarian->duplicates.found);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        handle_close(handles[i]);
        l3a_context_free(handles[i]->context);
        pthread_mutex_destroy(&handles[i]->lock);
    }
    while (librarian->first) {
        struct saying *next = librarian->first->next;
        saying_free(librarian->first);
        librarian->first = next;
    }
    holdings_free(&librarian->holdings);
    for (size_t i = 0; i < WARNINGS; i++) {
        free(librarian->warned[i]);
    }
    free(librarian->written);
    free(librarian->folder);
    free(librarian->path);
    free(librarian);
}

void librarian_start(struct server *server) {
    if (server->library < 0 || !server->options->remember) {
        return;
    }
    struct librarian *librarian = librarian_create(server);
    const bool ready = librarian && librarian->folder && librarian->path && librarian->shelf.context;
    const l3a_status status = ready ? open_index(librarian) : L3A_ERROR_MEMORY;
    if (status != L3A_OK) {
        const char *text = ready ? l3a_error_text(librarian->own.context) : "not enough memory";
        const char *hint = ready ? l3a_error_hint(librarian->own.context) : "";
        note(server, LOG_WARNING, "the library is not remembered: %s%s%s", text, hint[0] ? "; " : "", hint);
        server->forgetful = copy_string(text);
        if (librarian) {
            librarian_destroy(librarian);
        }
        return;
    }
    librarian->last = &librarian->first;
    server->librarian = librarian;
    librarian_say(server, NULL, NULL, 0);
    watcher_start(librarian);
    librarian->running = pthread_create(&librarian->thread, NULL, indexer_run, librarian) == 0;
    if (!librarian->running) {
        note(server, LOG_ERROR, "the library is not looked at: not enough memory for a thread");
    }
}

void librarian_hurry(struct server *server) {
    struct librarian *librarian = server->librarian;
    if (librarian) {
        atomic_store(&librarian->stop, true);
        pthread_mutex_lock(&librarian->lock);
        pthread_cond_signal(&librarian->work);
        pthread_mutex_unlock(&librarian->lock);
    }
}

void librarian_stop(struct server *server) {
    struct librarian *librarian = server->librarian;
    librarian_hurry(server);
    if (librarian && librarian->running) {
        pthread_join(librarian->thread, NULL);
        librarian->running = false;
    }
    if (librarian) {
        watcher_stop(librarian);
    }
}

void librarian_free(struct server *server) {
    if (server->librarian) {
        librarian_destroy(server->librarian);
        server->librarian = NULL;
    }
    free(server->forgetful);
}
