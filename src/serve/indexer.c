/* The indexer: a thread at low priority that keeps the index of the library up to date. In each round it does what is most urgent:
 *
 *   say     takes over what the teacher handed over (saying.c)
 *   score   brings the scores up to date with the edition and the pictures, a part at a time
 *   scan    finds what is new in the folder, when something has changed there, or now and then
 *   look    looks at some of the pictures that wait
 *
 * A lesson interrupts scoring and looking, so that its own pictures come first. While requests are being answered, it pauses
 * between two steps: looking at pictures may take all processors, and it has time. */
#include "serve/librarian.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NICER = 10,
    SCORE_AT_ONCE = 1 << 16, /* pictures */
    LEAST_LOOKED = 32,       /* at once, for each worker */
    MOST_LOOKED = 512,
    TROUBLE_SECONDS = 10,
    RESCAN_SECONDS = 2, /* where nobody tells of changes … */
    RESCAN_LATER = 600, /* … and where somebody does, in case one was missed */
    RESCAN_SHARE = 20,  /* of the time, at most one part is spent on scanning for no reason … */
    SCAN_SHARE = 3,     /* … and for one */
    AFTER_SECONDS = 4,  /* what had just been changed when it was looked at may have changed again */
    PAUSES = 40,
    PAUSE_MILLISECONDS = 25
};

struct indexer {
    struct librarian *librarian;
    l3a_library *library;
    double next_scan, not_before;
    double rate;                           /* pictures a second */
    bool scan, look, score, watched, lost; /* lost: the index may be a new one, without the folder and what was said */
};

/* ---- Pauses and interruptions ---- */

static bool is_busy(struct server *server) {
    struct pipeline *pipeline = &server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    const bool busy = pipeline->requests > pipeline->errands;
    pthread_mutex_unlock(&pipeline->lock);
    return busy;
}

/* Lets requests go first, for a while. */
static void give_way(struct librarian *librarian) {
    const struct timespec moment = {.tv_nsec = PAUSE_MILLISECONDS * 1000000L};
    for (int i = 0; i < PAUSES && is_busy(librarian->server) && !atomic_load(&librarian->stop); i++) {
        nanosleep(&moment, NULL);
    }
}

/* Warnings of one kind come with every scan, as that of a folder that is not there. */
static void warn(struct librarian *librarian, const char *text) {
    pthread_mutex_lock(&librarian->lock);
    bool known = false;
    for (size_t i = 0; i < WARNINGS; i++) {
        known = known || (librarian->warned[i] && strcmp(librarian->warned[i], text) == 0);
    }
    if (!known) {
        char **place = &librarian->warned[librarian->warning++ % WARNINGS];
        free(*place);
        *place = copy_string(text);
    }
    pthread_mutex_unlock(&librarian->lock);
    if (!known) {
        note(librarian->server, LOG_WARNING, "%s", text);
    }
}

int indexer_on_event(const l3a_event *event, void *user) {
    struct librarian *librarian = user;
    if (event->kind == L3A_EVENT_WARNING) {
        warn(librarian, event->text);
        return 0;
    }
    if (event->kind != L3A_EVENT_PROGRESS) {
        return 0;
    }
    const bool scans = event->stage && strcmp(event->stage, "find") == 0; /* it has the index locked meanwhile */
    if (!scans) {
        give_way(librarian);
    }
    return atomic_load(&librarian->stop) || (!scans && atomic_load(&librarian->urgent));
}

/* ---- Steps ---- */

static struct saying *take_sayings(struct indexer *indexer, bool *outdated, bool *changed) {
    struct librarian *librarian = indexer->librarian;
    pthread_mutex_lock(&librarian->lock);
    struct saying *first = librarian->first;
    librarian->first = NULL;
    librarian->last = &librarian->first;
    *outdated = librarian->outdated;
    *changed = librarian->changed;
    indexer->watched = librarian->watched;
    librarian->outdated = librarian->changed = false;
    atomic_store(&librarian->urgent, false);
    pthread_mutex_unlock(&librarian->lock);
    return first;
}

/* What could not be written comes again, before what has come since. */
static void put_back(struct librarian *librarian, struct saying *first) {
    struct saying **last = &first;
    if (!first) {
        return;
    }
    while (*last) {
        last = &(*last)->next;
    }
    pthread_mutex_lock(&librarian->lock);
    *last = librarian->first;
    librarian->last = librarian->first ? librarian->last : last;
    librarian->first = first;
    librarian->outdated = true;
    pthread_mutex_unlock(&librarian->lock);
}

static l3a_status say(struct indexer *indexer, struct saying **first) {
    l3a_status status = L3A_OK;
    while (*first && status == L3A_OK) {
        struct saying *saying = *first;
        status = l3a_library_say(indexer->library, saying->said, saying->count, (const char *const *)saying->names, saying->classes,
                                 saying->all);
        if (status == L3A_OK) {
            *first = saying->next;
            saying_free(saying);
        }
    }
    return status;
}

static l3a_status score(struct indexer *indexer) {
    struct metrics *metrics = &indexer->librarian->server->metrics;
    uint64_t scored = 0;
    const double began = seconds_now();
    const l3a_status status = l3a_library_score(indexer->library, SCORE_AT_ONCE, &scored);
    atomic_fetch_add(&metrics->index_scored, scored);
    atomic_fetch_add(&metrics->index_scoring_micros, (uint_fast64_t)(1e6 * (seconds_now() - began)));
    indexer->score = status != L3A_OK || scored;
    return status;
}

static l3a_status scan(struct indexer *indexer) {
    struct librarian *librarian = indexer->librarian;
    struct metrics *metrics = &librarian->server->metrics;
    const double began = seconds_now();
    const l3a_status status = l3a_library_scan(indexer->library, NULL);
    const double now = seconds_now(), took = now - began;
    histogram_add(&metrics->scanning, took);
    indexer->scan = status != L3A_OK;
    indexer->look = true; /* if nothing waits, that takes no time */
    const double least = indexer->watched ? RESCAN_LATER : RESCAN_SECONDS;
    indexer->next_scan = now + (took * RESCAN_SHARE > least ? took * RESCAN_SHARE : least);
    indexer->not_before = now + took * SCAN_SHARE;
    return status;
}

static l3a_status look(struct indexer *indexer) {
    struct librarian *librarian = indexer->librarian;
    struct server *server = librarian->server;
    const double least = LEAST_LOOKED * (double)server->options->workers, most = indexer->rate < least         ? least
                                                                                 : indexer->rate > MOST_LOOKED ? MOST_LOOKED
                                                                                                               : indexer->rate;
    const l3a_look_options options = {
        .size = sizeof options, .most = (uint64_t)most, .newest = 1, .no_heif = !server->options->heif};
    l3a_look_report report = {.size = sizeof report};
    const double began = seconds_now();
    const l3a_status status = l3a_library_look(indexer->library, &options, &report);
    const double took = seconds_now() - began;
    const uint64_t done = report.looked + report.known + report.failed;
    if (status == L3A_OK) {
        if (report.looked) {
            const double rate = (double)done / (took > 1e-3 ? took : 1e-3);
            indexer->rate = indexer->rate > 0 ? 0.7 * indexer->rate + 0.3 * rate : rate;
        }
        atomic_fetch_add(&server->metrics.index_looked, report.looked);
        atomic_fetch_add(&server->metrics.index_known, report.known);
        atomic_fetch_add(&server->metrics.index_failed, report.failed);
        atomic_fetch_add(&server->metrics.index_looking_micros, (uint_fast64_t)(1e6 * took));
        indexer->look = report.waiting && done; /* what changes just now waits for the next scan */
        if (done && !indexer->look && indexer->next_scan > seconds_now() + AFTER_SECONDS) {
            indexer->next_scan = seconds_now() + AFTER_SECONDS;
        }
    }
    indexer->score = true;
    librarian->rate = indexer->look ? indexer->rate : 0;
    return status;
}

/* ---- Rounds ---- */

static void set_trouble(struct librarian *librarian, const char *trouble) {
    pthread_mutex_lock(&librarian->lock);
    const bool news = !trouble != !librarian->holdings.trouble;
    free(librarian->holdings.trouble);
    librarian->holdings.trouble = copy_string(trouble);
    pthread_mutex_unlock(&librarian->lock);
    if (news && trouble) {
        note(librarian->server, LOG_ERROR, "the library cannot be remembered: %s", trouble);
    } else if (news) {
        note(librarian->server, LOG_INFO, "the library is remembered again");
    }
}

/* One after the other, until one fails or is interrupted. */
static l3a_status step(struct indexer *indexer, struct saying **sayings) {
    l3a_status status = say(indexer, sayings);
    if (status == L3A_OK && indexer->score) {
        status = score(indexer);
    }
    const double now = seconds_now();
    if (status == L3A_OK && ((indexer->scan && now >= indexer->not_before) || now >= indexer->next_scan)) {
        status = scan(indexer);
    }
    if (status == L3A_OK && indexer->look) {
        status = look(indexer);
    }
    if (status == L3A_OK && !indexer->score && !indexer->look) {
        sidecars_write(indexer->librarian);
    }
    return status;
}

/* Waits until there is something to do. */
static void rest(struct indexer *indexer, double until) {
    struct librarian *librarian = indexer->librarian;
    const struct timespec time = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    int waited = 0;
    pthread_mutex_lock(&librarian->lock);
    while (!librarian->first && !librarian->outdated && !librarian->changed && !atomic_load(&librarian->stop) && !waited) {
        waited = pthread_cond_timedwait(&librarian->work, &librarian->lock, &time);
    }
    pthread_mutex_unlock(&librarian->lock);
}

/* After a failure, waits; the handle may have to be opened again. */
static void recover(struct indexer *indexer, l3a_status status) {
    struct librarian *librarian = indexer->librarian;
    set_trouble(librarian, l3a_error_text(librarian->own.context));
    handle_check(librarian, &librarian->own, status);
    indexer->scan = indexer->look = indexer->score = true;
    const struct timespec moment = {.tv_nsec = 100000000};
    for (double until = seconds_now() + TROUBLE_SECONDS; seconds_now() < until && !atomic_load(&librarian->stop);) {
        nanosleep(&moment, NULL);
    }
}

/* Opens the index again, if it was given up. */
static bool open_again(struct indexer *indexer) {
    struct librarian *librarian = indexer->librarian;
    l3a_status status = L3A_OK;
    const unsigned opened = librarian->own.opened;
    const bool good = handle_open(librarian, &librarian->own, &status);
    indexer->lost = indexer->lost || librarian->own.opened != opened;
    if (!good || (indexer->lost && (status = l3a_library_add(librarian->own.library, librarian->folder)) != L3A_OK)) {
        recover(indexer, status);
        return false;
    }
    indexer->library = librarian->own.library;
    if (indexer->lost) {
        indexer->lost = false;
        indexer->scan = indexer->look = indexer->score = true;
        teacher_tell(librarian->server);
    }
    return true;
}

static uint64_t edition_now(struct server *server) {
    struct knowledge *knowledge = knowledge_keep(server);
    const uint64_t edition = knowledge->edition;
    knowledge_free(knowledge);
    return edition;
}

void *indexer_run(void *argument) {
    struct librarian *librarian = argument;
    struct indexer indexer = {.librarian = librarian, .scan = true, .look = true, .score = true};
    thread_give_way(NICER);
    while (!atomic_load(&librarian->stop)) {
        bool outdated, changed;
        if (!open_again(&indexer)) {
            continue;
        }
        const uint64_t edition = edition_now(librarian->server); /* there are no sayings of it that are not taken now */
        struct saying *sayings = take_sayings(&indexer, &outdated, &changed);
        indexer.score = indexer.score || outdated || sayings;
        indexer.scan = indexer.scan || changed;
        const l3a_status status = step(&indexer, &sayings);
        put_back(librarian, sayings);
        if (status == L3A_OK) {
            set_trouble(librarian, NULL);
        } else if (status != L3A_ERROR_CANCELLED) {
            recover(&indexer, status);
        }
        holdings_renew(librarian, !indexer.look && !indexer.score, edition);
        if (status == L3A_OK && !indexer.look && !indexer.score) {
            rest(&indexer, indexer.scan ? indexer.not_before : indexer.next_scan);
        }
    }
    return NULL;
}
