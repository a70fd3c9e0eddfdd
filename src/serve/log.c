#include "serve/log.h"

#include "serve/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WAITING = 1 << 20 /* bytes that may wait */,
    PIECE = 4096 /* a pipe that is ready takes so much */,
    LOOK = 100 /* milliseconds */,
    LAST = 2 /* seconds for what is waiting when the log is closed */,
    LONGEST_PATH = 256
};

/* Where lines go, and the thread that writes them. */
struct sink {
    struct log *log;
    int file;
    const char *path; /* to open it again; NULL: stderr */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct text waiting;
    bool reopen, stop;
    uint64_t lost, unsaid; /* lines that were not written, and those of them that the log does not mention yet */
    /* The thread's own: */
    bool broken; /* the last write has failed */
    bool torn;   /* in the middle of a line */
};

struct log {
    enum log_form form;
    enum log_level level;
    struct sink screen, book; /* stderr, and the file */
};

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* ---- Writing ---- */

static size_t count_lines(const char *bytes, size_t count) {
    size_t lines = 0;
    for (size_t i = 0; i < count; i++) {
        lines += bytes[i] == '\n';
    }
    return lines;
}

/* Waits until the file takes something; false: the log ends, and it still does not. */
static bool wait_for_room(struct sink *sink, time_t *until) {
    struct pollfd polled = {.fd = sink->file, .events = POLLOUT};
    struct timespec now;
    while (poll(&polled, 1, LOOK) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        pthread_mutex_lock(&sink->lock);
        const bool stop = sink->stop;
        pthread_mutex_unlock(&sink->lock);
        *until = *until || !stop ? *until : now.tv_sec + LAST;
        if (stop && now.tv_sec >= *until) {
            return false;
        }
    }
    return true;
}

/* Returns how many bytes were written; errno says why they are not all. */
static size_t write_bytes(struct sink *sink, const char *bytes, size_t count) {
    size_t done = 0;
    time_t until = 0;
    while (done < count) {
        if (!wait_for_room(sink, &until)) {
            errno = EAGAIN;
            break;
        }
        const ssize_t written = write(sink->file, bytes + done, count - done < PIECE ? count - done : PIECE);
        if (written < 0 && errno != EINTR && errno != EAGAIN) {
            break;
        }
        done += written > 0 ? (size_t)written : 0;
    }
    if (done) {
        sink->torn = bytes[done - 1] != '\n';
    }
    return done;
}

static void lose(struct sink *sink, uint64_t lines) {
    pthread_mutex_lock(&sink->lock);
    sink->lost += lines;
    sink->unsaid += lines;
    pthread_mutex_unlock(&sink->lock);
}

static void write_note(const struct log *log, struct text *line, enum log_level level, const char *text);
static void sink_add(struct sink *sink, const struct text *line);

/* Says on stderr that the log cannot be written, or can again. */
static void say_broken(struct sink *sink, bool broken, int code) {
    if (sink->broken != broken && sink->path) {
        struct text line = {0}, text = {0};
        text_print(&text, "%s: the log %s%s", sink->path, broken ? "cannot be written: " : "can be written again",
                   broken ? strerror(code) : "");
        write_note(sink->log, &line, broken ? LOG_ERROR : LOG_INFO, text.bytes ? text.bytes : "");
        sink_add(&sink->log->screen, &line);
        text_free(&line);
        text_free(&text);
    }
    sink->broken = broken;
}

/* A line that says how many are missing goes before those that are written again. */
static void say_lost(struct sink *sink) {
    struct text line = {0}, text = {0};
    pthread_mutex_lock(&sink->lock);
    const uint64_t unsaid = sink->unsaid;
    pthread_mutex_unlock(&sink->lock);
    if (unsaid) {
        text_print(&text, "%llu lines of this log are missing: they could not be written", (unsigned long long)unsaid);
        if (sink->torn) {
            text_add(&line, "\n", 1);
        }
        write_note(sink->log, &line, LOG_WARNING, text.bytes ? text.bytes : "");
        if (line.length && write_bytes(sink, line.bytes, line.length) == line.length) {
            pthread_mutex_lock(&sink->lock);
            sink->unsaid -= unsaid;
            pthread_mutex_unlock(&sink->lock);
        }
        text_free(&line);
        text_free(&text);
    }
}

static void write_lines(struct sink *sink, const struct text *lines) {
    say_lost(sink);
    const size_t done = sink->torn ? 0 : write_bytes(sink, lines->bytes, lines->length);
    const int code = errno;
    if (done < lines->length) {
        lose(sink, count_lines(lines->bytes + done, lines->length - done));
    }
    say_broken(sink, done < lines->length, code);
}

/* If the file cannot be opened again, the old one stays. */
static void open_again(struct sink *sink) {
    const int file = open(sink->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (file < 0) {
        struct text text = {0};
        text_print(&text, "%s: the log cannot be opened again: %s; it goes on in the old file", sink->path, strerror(errno));
        log_note(sink->log, LOG_ERROR, text.bytes ? text.bytes : "");
        text_free(&text);
    } else {
        close(sink->file);
        sink->file = file;
        sink->torn = false;
    }
}

static void *write_waiting(void *argument) {
    struct sink *sink = argument;
    pthread_mutex_lock(&sink->lock);
    for (;;) {
        while (!sink->waiting.length && !sink->reopen && !sink->stop) {
            pthread_cond_wait(&sink->work, &sink->lock);
        }
        struct text lines = sink->waiting;
        const bool reopen = sink->reopen, stop = sink->stop;
        sink->waiting = (struct text){0};
        sink->reopen = false;
        pthread_mutex_unlock(&sink->lock);
        if (lines.length) {
            write_lines(sink, &lines);
        }
        text_free(&lines);
        if (reopen) {
            open_again(sink);
        }
        if (stop && !lines.length) {
            return NULL;
        }
        pthread_mutex_lock(&sink->lock);
    }
}

/* ---- Lines ---- */

static void sink_add(struct sink *sink, const struct text *line) {
    if (!sink->running || !line->length) {
        return;
    }
    pthread_mutex_lock(&sink->lock);
    if (line->failed || sink->waiting.length + line->length > WAITING) {
        sink->lost++;
        sink->unsaid++;
    } else {
        text_add(&sink->waiting, line->bytes, line->length);
        sink->waiting.failed = false;
        pthread_cond_signal(&sink->work);
    }
    pthread_mutex_unlock(&sink->lock);
}

/* Times are those of UTC, with milliseconds, as ISO 8601 has them. */
static void begin_line(const struct log *log, struct text *line, enum log_level level, const char *event) {
    struct timespec now;
    struct tm parts;
    char time[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &parts);
    text_print(line, log->form == LOG_JSON ? "{\"time\": \"%s.%03dZ\", \"level\": \"%s\", \"event\": \"%s\"" : "%s.%03dZ %s %s",
               time, (int)(now.tv_nsec / 1000000), level_names[level], event);
}

/* A text of a client, such as a path. Whatever could end a line or a word of it, or act on a terminal, becomes %XX, as in a URL. */
static void add_foreign(struct text *line, const char *name, const char *text, enum log_form form) {
    text_print(line, form == LOG_JSON ? ", \"%s\": \"" : " %s=", name);
    const size_t length = strnlen(text, LONGEST_PATH + 1);
    for (size_t i = 0; i < length && i < LONGEST_PATH; i++) {
        const bool plain = text[i] > ' ' && text[i] < 0x7F && !strchr("\"\\%=", text[i]);
        text_print(line, plain ? "%c" : "%%%02X", (unsigned char)text[i]);
    }
    text_print(line, "%s%s", length > LONGEST_PATH ? "..." : "", form == LOG_JSON ? "\"" : "");
}

static void write_note(const struct log *log, struct text *line, enum log_level level, const char *text) {
    if (log->form == LOG_JSON) {
        begin_line(log, line, level, "note");
        text_print(line, ", \"text\": ");
        text_json(line, text);
        text_print(line, "}\n");
        return;
    }
    if (log->form == LOG_TEXT) {
        begin_line(log, line, level, "note ");
    } else {
        text_print(line, "l3a serve: ");
    }
    for (const char *at = text; *at; at++) { /* names of files may have anything in them */
        text_add(line, (unsigned char)*at < ' ' || *at == 0x7F ? "?" : at, 1);
    }
    text_add(line, "\n", 1);
}

bool log_wants(const struct log *log, enum log_level level) {
    return level <= log->level;
}

void log_note(struct log *log, enum log_level level, const char *text) {
    struct text line = {0};
    if (log_wants(log, level)) {
        write_note(log, &line, level, text);
        sink_add(&log->screen, &line);
        sink_add(&log->book, &line);
    }
    text_free(&line);
}

void log_request(struct log *log, const struct log_request *request) {
    const enum log_level level = request->status >= 500 ? LOG_ERROR : request->status >= 400 ? LOG_WARNING : LOG_INFO;
    const bool json = log->form == LOG_JSON;
    struct text line = {0};
    if (log->form == LOG_NOTES || !log_wants(log, level)) {
        return;
    }
    begin_line(log, &line, level, "request");
    add_foreign(&line, "client", request->client, log->form);
    if (request->token) {
        add_foreign(&line, "token", request->token, log->form);
    }
    add_foreign(&line, "method", request->method, log->form);
    add_foreign(&line, "path", request->path, log->form);
    text_print(&line,
               json ? ", \"status\": %u, \"ms\": %.3f, \"in\": %llu, \"out\": %llu, \"complete\": %s}\n"
                    : " status=%u ms=%.3f in=%llu out=%llu complete=%s\n",
               request->status, 1e3 * request->seconds, (unsigned long long)request->bytes_in,
               (unsigned long long)request->bytes_out, request->complete ? "true" : "false");
    sink_add(log->book.running ? &log->book : &log->screen, &line);
    text_free(&line);
}

/* ---- The log ---- */

/* Signals are for the main thread. */
static bool sink_start(struct sink *sink, struct log *log, int file, const char *path) {
    sigset_t all, before;
    sink->log = log;
    sink->file = file;
    sink->path = path;
    pthread_mutex_init(&sink->lock, NULL);
    pthread_cond_init(&sink->work, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int problem = pthread_create(&sink->thread, NULL, write_waiting, sink);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sink->running = !problem;
    errno = problem;
    return sink->running;
}

static void sink_stop(struct sink *sink) {
    if (sink->running) {
        pthread_mutex_lock(&sink->lock);
        sink->stop = true;
        pthread_cond_signal(&sink->work);
        pthread_mutex_unlock(&sink->lock);
        pthread_join(sink->thread, NULL);
        sink->running = false;
    }
    text_free(&sink->waiting);
}

struct log *log_open(enum log_form form, enum log_level level, const char *path) {
    struct log *log = calloc(1, sizeof *log);
    const int file = log && path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640) : -1;
    if (!log || (path && file < 0)) {
        const int problem = errno;
        free(log);
        errno = problem;
        return NULL;
    }
    log->form = form;
    log->level = level;
    if (!sink_start(&log->screen, log, STDERR_FILENO, NULL) || (path && !sink_start(&log->book, log, file, path))) {
        const int problem = errno;
        log_close(log);
        errno = problem;
        return NULL;
    }
    return log;
}

void log_close(struct log *log) {
    if (log) {
        if (log->book.running) {
            sink_stop(&log->book);
            close(log->book.file);
        }
        sink_stop(&log->screen); /* last: what the other one says goes here */
        free(log);
    }
}

void log_reopen(struct log *log) {
    if (log->book.running) {
        pthread_mutex_lock(&log->book.lock);
        log->book.reopen = true;
        pthread_cond_signal(&log->book.work);
        pthread_mutex_unlock(&log->book.lock);
    }
}

uint64_t log_lost(struct log *log) {
    struct sink *const sinks[] = {&log->screen, &log->book};
    uint64_t lost = 0;
    for (size_t i = 0; i < 2; i++) {
        if (sinks[i]->running) {
            pthread_mutex_lock(&sinks[i]->lock);
            lost += sinks[i]->lost;
            pthread_mutex_unlock(&sinks[i]->lock);
        }
    }
    return lost;
}
