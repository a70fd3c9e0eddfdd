/* Events on stderr: a bar on a terminal, a line every few seconds elsewhere. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void clear_bar(struct progress *progress) {
    if (progress->bar_shown) {
        fprintf(stderr, "\r\033[K");
        progress->bar_shown = false;
    }
}

static void show_bar(struct progress *progress, const l3a_event *event, double seconds) {
    enum { WIDTH = 24 };
    const double part = event->total ? (double)event->done / (double)event->total : 0;
    const int filled = (int)(part * WIDTH);
    const double rate = seconds > 0 ? (double)event->done / seconds : 0;
    const char *unit = strcmp(event->stage, "extract") == 0 || strcmp(event->stage, "pictures") == 0 ? "pictures" : "rows";
    fprintf(stderr, "\r\033[K%-9s [%.*s%*s] %3.0f%%  %.*f %s/s", event->stage, filled, "========================", WIDTH - filled,
            "", 100 * part, rate < 100 ? 1 : 0, rate, unit);
    if (rate > 0 && event->done) {
        fprintf(stderr, "  %.0f s left", (double)(event->total - event->done) / rate);
    }
    fflush(stderr);
    progress->bar_shown = true;
}

static void show_progress(struct progress *progress, const l3a_event *event) {
    const double time = now(), every = progress->terminal ? 0.1 : 5;
    if (strcmp(event->stage, "pictures") == 0 && strcmp(progress->stage, "extract") == 0) {
        return; /* the loader inside an extraction, which reports itself */
    }
    if (strcmp(progress->stage, event->stage) != 0 || event->done == 0) {
        snprintf(progress->stage, sizeof progress->stage, "%s", event->stage);
        progress->started = time;
        progress->shown = time;
        return;
    }
    if (time - progress->shown < every) {
        return;
    }
    progress->shown = time;
    if (progress->terminal) {
        show_bar(progress, event, time - progress->started);
    } else {
        fprintf(stderr, "%s: %llu of %llu\n", event->stage, (unsigned long long)event->done, (unsigned long long)event->total);
    }
}

int show_event(const l3a_event *event, void *user) {
    struct progress *progress = user;
    if (progress->quiet) {
        return interrupted;
    }
    switch (event->kind) {
    case L3A_EVENT_PROGRESS: show_progress(progress, event); break;
    case L3A_EVENT_WARNING:
        clear_bar(progress);
        fprintf(stderr, "warning: %s\n", event->text);
        break;
    case L3A_EVENT_RESULT:
        clear_bar(progress);
        fprintf(stderr, "%s\n", event->text);
        break;
    case L3A_EVENT_TIMING: break;
    }
    return interrupted;
}

void progress_end(struct progress *progress) {
    clear_bar(progress);
}
