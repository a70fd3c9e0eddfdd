/* l3a history: what a model was taught, and when. */
#include "rows.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

const struct option history_options[] = {
    {"files", NULL, "also list the pictures of each lesson, with their tags"},
    {"format", "table|json", "output format [table]"},
    {"repair", NULL, "repair a damaged history: keep what can be read, and a copy of the damaged file"},
    {"wait", NULL, "with --repair: wait while another process changes the model, rather than fail"},
    {NULL, NULL, NULL},
};

/* "2026-11-16 14:05", in local time, or as JSON likes it. */
static const char *when(int64_t seconds, const char *format, char text[32]) {
    const time_t time = (time_t)seconds;
    struct tm parts;
    if (!localtime_r(&time, &parts) || !strftime(text, 32, format, &parts)) {
        snprintf(text, 32, "?");
    }
    return text;
}

static void print_tags(const l3a_history *history, size_t index, const l3a_history_entry *entry) {
    const char *tag;
    size_t pictures;
    for (size_t i = 0; (tag = l3a_history_class(history, index, i, &pictures)); i++) {
        printf("%s%s %zu%s", i ? ", " : "", tag, pictures, i + entry->new_classes >= entry->classes ? " (new)" : "");
    }
    if (!entry->classes && entry->pictures && strcmp(entry->kind, "not kept") != 0) {
        printf("none shown");
    }
}

static void print_entry(const l3a_history *history, size_t index, bool files) {
    l3a_history_entry entry = {.size = sizeof entry};
    char time[32];
    l3a_history_entry_at(history, index, &entry);
    printf("%6" PRIu64 "  %s  ", entry.number, when(entry.seconds, "%Y-%m-%d %H:%M", time));
    if (entry.old_name) {
        printf("%8s  '%s' %s '%s'", "", entry.old_name, strcmp(entry.kind, "merge") == 0 ? "merged into" : "renamed to",
               entry.new_name);
    } else if (strcmp(entry.kind, "take back") == 0) { /* pictures: those that were only judged again, without a tag that is gone */
        const size_t count = entry.taken_back - entry.pictures;
        printf("%8s  took back %zu %s of an earlier lesson", "", count, plural(count, "picture", "pictures"));
    } else {
        printf("%8zu  ", entry.pictures);
        print_tags(history, index, &entry);
        if (entry.taken_back) {
            printf("; replaced the old tags");
        }
        if (strcmp(entry.kind, "not kept") == 0) {
            printf("not kept, cannot be undone");
        }
    }
    printf("\n");
    for (size_t i = 0; files && !entry.old_name && l3a_history_picture(history, index, i); i++) {
        printf("%34s%s: %s\n", "", l3a_history_picture(history, index, i), l3a_history_tags(history, index, i));
    }
}

/* How many unlabelled pictures act; 0 if there are none. */
static uint64_t count_unlabelled(const l3a_history *history, uint64_t *drawn_from) {
    l3a_unlabelled_info info = {.size = sizeof info};
    *drawn_from = l3a_model_unlabelled(l3a_history_model(history), &info) == L3A_OK ? info.drawn_from : 0;
    return info.images;
}

/* How far undo goes back. */
static void print_reach(const l3a_history *history) {
    const size_t count = l3a_history_count(history);
    l3a_history_entry entry = {.size = sizeof entry};
    char size[32];
    size_t steps = 0;
    while (steps < count && l3a_history_entry_at(history, count - 1 - steps, &entry) == L3A_OK && entry.can_undo) {
        steps++;
    }
    printf("%s: %s, readable only by you. ", l3a_history_path(history), size_text(l3a_history_bytes(history), size));
    if (steps == count && !l3a_history_gap(history)[0]) {
        printf("'l3a undo' can take everything back.\n");
    } else if (steps == count) {
        printf("'l3a undo' can take back %zu %s, not what was before: %s.\n", steps, plural(steps, "lesson", "lessons"),
               l3a_history_gap(history));
    } else {
        printf("'l3a undo' can take back %zu %s.\n", steps, plural(steps, "lesson", "lessons"));
    }
}

static void print_unlabelled(const l3a_history *history) {
    uint64_t drawn_from;
    const uint64_t unlabelled = count_unlabelled(history, &drawn_from);
    if (unlabelled) {
        printf("%" PRIu64 " of %" PRIu64 " unlabelled %s %s.\n", unlabelled, drawn_from, plural(drawn_from, "picture", "pictures"),
               plural(unlabelled, "acts", "act"));
    }
}

static void print_table(const struct arguments *arguments, const l3a_history *history) {
    const size_t count = l3a_history_count(history);
    if (!count) {
        printf("%s: no history%s%s\n", arguments->positionals[0], l3a_history_gap(history)[0] ? ": " : "",
               l3a_history_gap(history));
        print_unlabelled(history);
        return;
    }
    printf("%slesson  when              pictures  tags%s\n", style(stdout, STYLE_BOLD), style(stdout, STYLE_PLAIN));
    for (size_t i = 0; i < count; i++) {
        print_entry(history, i, argument(arguments, "files") != NULL);
    }
    print_unlabelled(history);
    print_reach(history);
}

static void print_json_files(struct printer *printer, const l3a_history *history, size_t index) {
    put_open(printer, "files", '[');
    for (size_t i = 0; l3a_history_picture(history, index, i); i++) {
        put_open(printer, NULL, '{');
        put_text(printer, "path", l3a_history_picture(history, index, i));
        put_text(printer, "tags", l3a_history_tags(history, index, i));
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

static void print_json_entry(struct printer *printer, const l3a_history *history, size_t index, bool files) {
    l3a_history_entry entry = {.size = sizeof entry};
    char time[32];
    const char *tag;
    size_t pictures;
    l3a_history_entry_at(history, index, &entry);
    put_break(printer, 4);
    put_open(printer, NULL, '{');
    put_count(printer, "lesson", entry.number);
    put_text(printer, "time", when(entry.seconds, "%Y-%m-%dT%H:%M:%S%z", time));
    put_text(printer, "kind", entry.kind);
    put_count(printer, "pictures", entry.pictures);
    put_count(printer, "replaced", entry.taken_back);
    put_count(printer, "new_tags", entry.new_classes);
    put_boolean(printer, "can_undo", entry.can_undo);
    if (entry.old_name) {
        put_text(printer, "old", entry.old_name);
        put_text(printer, "new", entry.new_name);
    }
    put_open(printer, "tags", '{');
    for (size_t i = 0; (tag = l3a_history_class(history, index, i, &pictures)); i++) {
        put_count(printer, tag, pictures);
    }
    put_close(printer, '}');
    if (files && !entry.old_name) {
        print_json_files(printer, history, index);
    }
    put_close(printer, '}');
}

static void print_json(const struct arguments *arguments, const l3a_history *history) {
    struct printer printer = printer_of("json");
    const size_t count = l3a_history_count(history);
    put_open(&printer, NULL, '{');
    put_break(&printer, 2);
    put_text(&printer, "file", l3a_history_path(history));
    put_break(&printer, 2);
    put_count(&printer, "bytes", l3a_history_bytes(history));
    put_break(&printer, 2);
    put_text(&printer, "gap", l3a_history_gap(history));
    put_break(&printer, 2);
    uint64_t drawn_from;
    put_count(&printer, "unlabelled", count_unlabelled(history, &drawn_from));
    put_break(&printer, 2);
    put_open(&printer, "lessons", '[');
    for (size_t i = 0; i < count; i++) {
        print_json_entry(&printer, history, i, argument(arguments, "files") != NULL);
    }
    if (count) {
        put_break(&printer, 2);
    }
    put_close(&printer, ']');
    put_break(&printer, 0);
    put_close(&printer, '}');
    printf("\n");
}

static l3a_status repair(const struct arguments *arguments) {
    const char *path = arguments->positionals[0];
    l3a_repair_report report = {.size = sizeof report};
    l3a_lock *lock = NULL;
    l3a_status status = l3a_lock_take(arguments->context, path, argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK) {
        status = l3a_history_repair(arguments->context, path, &report);
    }
    if (status == L3A_OK && !report.bytes) {
        printf("%s: the history is not damaged\n", path);
    } else if (status == L3A_OK) {
        printf("%s: repaired; %" PRIu64 " %s that only the history had %s in the model now, %" PRIu64 " %s lost\n", path,
               report.applied, plural(report.applied, "change", "changes"), plural(report.applied, "is", "are"), report.lost,
               plural(report.lost, "lesson is", "lessons are"));
    }
    l3a_lock_free(lock);
    return status;
}

int history_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "table|json", "table");
    l3a_history *history = NULL;
    if (!format) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one model file");
    }
    if (argument(arguments, "repair")) {
        return explain(arguments, repair(arguments));
    }
    const l3a_status status = l3a_history_open(arguments->context, arguments->positionals[0], &history);
    if (status == L3A_OK) {
        strcmp(format, "json") == 0 ? print_json(arguments, history) : print_table(arguments, history);
    }
    l3a_history_free(history);
    return explain(arguments, status);
}
