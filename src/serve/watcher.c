/* Watches the folder of pictures: a thread that waits, and tells the indexer when something has changed there. Where that cannot be
 * done, the indexer looks at the folder every so often. */
#include "serve/librarian.h"

enum { NICER = 10, WAIT_SECONDS = 3600, POLL_SECONDS = 5 };

static int on_event(const l3a_event *event, void *user) {
    const struct librarian *librarian = user;
    if (event->kind == L3A_EVENT_WARNING) {
        note(librarian->server, LOG_WARNING, "%s", event->text);
    }
    return event->kind == L3A_EVENT_PROGRESS && atomic_load(&librarian->stop);
}

static void tell(struct librarian *librarian, bool watched, bool changed) {
    pthread_mutex_lock(&librarian->lock);
    librarian->watched = watched;
    librarian->changed = librarian->changed || changed;
    pthread_cond_signal(&librarian->work);
    pthread_mutex_unlock(&librarian->lock);
}

static void *watch(void *argument) {
    struct librarian *librarian = argument;
    const char *const folders[] = {librarian->folder};
    l3a_watch *watch = NULL;
    int changed = 0;
    thread_give_way(NICER);
    l3a_status status = l3a_watch_open(librarian->watch_context, folders, 1, POLL_SECONDS, &watch);
    pthread_mutex_lock(&librarian->lock);
    librarian->watch = watch;
    pthread_mutex_unlock(&librarian->lock);
    for (bool first = true; status == L3A_OK && !atomic_load(&librarian->stop); first = false) {
        if (first || changed) { /* what has changed before the folder was watched was not told */
            tell(librarian, true, true);
        }
        status = l3a_watch_next(watch, WAIT_SECONDS, &changed, NULL);
    }
    if (status != L3A_OK && !atomic_load(&librarian->stop)) {
        note(librarian->server, LOG_WARNING, "the folder is looked at every so often, because it cannot be watched: %s",
             l3a_error_text(librarian->watch_context));
    }
    tell(librarian, false, false);
    return NULL;
}

void watcher_start(struct librarian *librarian) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = on_event, .event_user = librarian};
    librarian->watching = l3a_context_create(&options, &librarian->watch_context) == L3A_OK &&
                          pthread_create(&librarian->watcher, NULL, watch, librarian) == 0;
}

/* The librarian's `stop` is set. */
void watcher_stop(struct librarian *librarian) {
    if (librarian->watching) {
        pthread_mutex_lock(&librarian->lock);
        l3a_watch_stop(librarian->watch);
        pthread_mutex_unlock(&librarian->lock);
        pthread_join(librarian->watcher, NULL);
        librarian->watching = false;
    }
    l3a_watch_free(librarian->watch);
    librarian->watch = NULL;
    l3a_context_free(librarian->watch_context);
    librarian->watch_context = NULL;
}
