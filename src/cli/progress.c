/* Shows events on stderr. On a terminal, a bar is redrawn in place and always fits the current width of the terminal, so that
 * resizing needs no signal. Elsewhere, and on a dumb terminal, a line is printed every few seconds. The bar consists of text and
 * carriage returns, without escape sequences. */
#include "cli.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 512, SHORTEST_BAR = 8, LONGEST_BAR = 30 };
static const double FIRST_SECONDS = 0.5, BAR_SECONDS = 0.1, LINE_SECONDS = 5;

/* There is one stderr. */
static struct {
    bool quiet, terminal, paused;
    int drawn; /* columns of the bar on the screen */
    char stage[32];
    double began;          /* when the command began */
    double started, shown; /* when the stage began, and when it was last shown */
    uint64_t first;        /* steps already done when the stage began */
} progress;

/* Stages whose steps are not rows. */
static const struct {
    const char *stage, *unit;
} units[] = {{"draw", "pictures"},  {"look", "pictures"},     {"extract", "pictures"}, {"pictures", "pictures"},
             {"check", "pictures"}, {"read", "pictures"},     {"find", "pictures"},    {"compare", "pictures"},
             {"train", "pictures"}, {"validate", "pictures"}, {"head", "epochs"},      {"parse", "B"},
             {"index", "B"}};

static const char *stage_unit(const char *stage) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].stage, stage) == 0) {
            return units[i].unit;
        }
    }
    return "rows";
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void progress_start(bool quiet) {
    progress.quiet = quiet;
    progress.terminal = is_terminal(stderr);
    progress.began = progress.started = progress.shown = now();
}

void progress_pause(void) {
    progress_clear();
    progress.paused = true;
}

void progress_clear(void) {
    if (progress.drawn) {
        const int columns = terminal_columns(stderr) - 1;
        fprintf(stderr, "\r%*s\r", progress.drawn < columns ? progress.drawn : columns, "");
        fflush(stderr);
        progress.drawn = 0;
    }
}

static void print_duration(char text[32], double seconds) {
    const long whole = (long)seconds + 1;
    if (whole < 60) {
        snprintf(text, 32, "%ld s", whole);
    } else if (whole < 3600) {
        snprintf(text, 32, "%ld:%02ld min", whole / 60, whole % 60);
    } else {
        snprintf(text, 32, "%ld:%02ld h", whole / 3600, whole / 60 % 60);
    }
}

/* The parts of a message; a part that is not known yet is "". */
struct parts {
    double share; /* of the whole, 0 to 1 */
    char count[64], rate[64], left[64];
};

static void describe(struct parts *parts, uint64_t done, uint64_t total, double seconds) {
    const char *unit = stage_unit(progress.stage);
    const double rate = seconds > 0 && done > progress.first ? (double)(done - progress.first) / seconds : 0;
    char text[32], other[32];
    memset(parts, 0, sizeof *parts);
    parts->share = total ? (double)done / (double)total : 0;
    if (strcmp(unit, "B") == 0) {
        snprintf(parts->count, sizeof parts->count, "%s/%s", size_text(done, text), size_text(total, other));
        snprintf(parts->rate, sizeof parts->rate, "%s/s", size_text((uint64_t)rate, text));
    } else if (total > 1) {
        snprintf(parts->count, sizeof parts->count, "%llu/%llu", (unsigned long long)done, (unsigned long long)total);
        snprintf(parts->rate, sizeof parts->rate, "%.*f %s/s", rate < 100 ? 1 : 0, rate, unit);
    } else if (!total && done) {
        snprintf(parts->count, sizeof parts->count, "%llu %s", (unsigned long long)done, unit);
    }
    if (rate > 0 && total >= done) {
        print_duration(text, (double)(total - done) / rate);
        snprintf(parts->left, sizeof parts->left, "%s left", text);
    } else {
        parts->rate[0] = '\0';
    }
}

static void append(char line[LINE], const char *text) {
    const size_t length = strlen(line);
    snprintf(line + length, LINE - length, "%s%s", length && text[0] ? "  " : "", text);
}

static void make_bar(char bar[LINE], double share, int width) {
    bar[0] = '\0';
    if (width >= SHORTEST_BAR) {
        const int room = width - 2, filled = (int)(share * room);
        snprintf(bar, LINE, "[%.*s%*s]", filled, "==============================", room - filled, "");
    }
}

/* Draws the parts that fit: drops the rate first, then the count, and finally cuts the end. */
static void draw_bar(uint64_t done, uint64_t total, double seconds) {
    const int columns = terminal_columns(stderr) - 1, before = progress.drawn;
    struct parts parts;
    char bar[LINE], line[LINE], rest[LINE] = "";
    describe(&parts, done, total, seconds);
    const char *const tries[][3] = {{parts.count, parts.rate, parts.left}, {parts.count, "", parts.left}, {"", "", parts.left}};
    int room = 0;
    for (size_t i = 0; i < 3 && room < SHORTEST_BAR; i++) {
        rest[0] = '\0';
        append(rest, tries[i][0]);
        append(rest, tries[i][1]);
        append(rest, tries[i][2]);
        room = columns - 4 - display_width(progress.stage) - display_width(rest);
    }
    make_bar(bar, parts.share, !total || total == 1 ? 0 : room < LONGEST_BAR ? room : LONGEST_BAR);
    snprintf(line, sizeof line, "%s", progress.stage);
    append(line, bar);
    append(line, rest);
    line[fitting_bytes(line, columns)] = '\0';
    progress.drawn = display_width(line);
    fprintf(stderr, "\r%s%*s", line, before > progress.drawn && before <= columns ? before - progress.drawn : 0, "");
    fflush(stderr);
}

static void print_line(uint64_t done, uint64_t total, double seconds) {
    struct parts parts;
    char line[LINE] = "";
    describe(&parts, done, total, seconds);
    append(line, parts.count);
    append(line, parts.rate);
    append(line, parts.left);
    fprintf(stderr, "%s: %s\n", progress.stage, line);
}

void progress_show(const char *stage, uint64_t done, uint64_t total) {
    const double time = now();
    const bool inner = strcmp(stage, "pictures") == 0;
    if (progress.quiet || progress.paused || (inner && strcmp(progress.stage, "extract") == 0)) {
        return; /* the loader inside an extraction: the extraction reports progress itself */
    }
    if (inner && progress.terminal && isatty(STDOUT_FILENO)) {
        return; /* the lines printed for each picture already show the progress */
    }
    const bool begins = strcmp(progress.stage, stage) != 0 || done <= progress.first;
    if (begins) {
        snprintf(progress.stage, sizeof progress.stage, "%s", stage);
        progress.started = time;
        progress.first = done;
    }
    if (total > 1 && done >= total) {
        progress_clear();
    } else if (progress.terminal && (time - progress.shown >= BAR_SECONDS || (begins && time - progress.began >= FIRST_SECONDS))) {
        progress.shown = time;
        draw_bar(done, total, time - progress.started);
    } else if (!progress.terminal && !begins && time - progress.shown >= LINE_SECONDS) {
        progress.shown = time;
        print_line(done, total, time - progress.started);
    }
}

int show_event(const l3a_event *event, void *user) {
    (void)user;
    if (progress.quiet) {
        return interrupted;
    }
    switch (event->kind) {
    case L3A_EVENT_PROGRESS: progress_show(event->stage, event->done, event->total); break;
    case L3A_EVENT_WARNING:
        progress_clear();
        fprintf(stderr, "%swarning:%s %s\n", style(stderr, STYLE_BOLD), style(stderr, STYLE_PLAIN), event->text);
        break;
    case L3A_EVENT_RESULT:
        progress_clear();
        fprintf(stderr, "%s\n", event->text);
        break;
    case L3A_EVENT_NOTE:
        progress_clear();
        fprintf(stderr, "%s\n", event->text);
        break;
    case L3A_EVENT_TIMING: progress_clear(); break;
    }
    return interrupted;
}
