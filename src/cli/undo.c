/* l3a undo: takes the last lesson back. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

const struct option undo_options[] = {
    {"wait", NULL, "wait while another process changes the model, rather than fail"},
    {NULL, NULL, NULL},
};

/* Says what was undone, and what is left. `entry` was the last one. */
static void print_undone(const struct arguments *arguments, const l3a_history *history, const l3a_history_entry *entry) {
    const char *path = arguments->positionals[0];
    const size_t tags = l3a_model_class_count(l3a_history_model(history)), left = l3a_history_count(history);
    printf("undone: lesson %" PRIu64, entry->number);
    if (entry->old_name) {
        printf(", '%s' %s '%s'\n", entry->old_name, strcmp(entry->kind, "merge") == 0 ? "merged into" : "renamed to",
               entry->new_name);
    } else {
        printf(", %zu %s%s\n", entry->pictures, plural(entry->pictures, "picture", "pictures"),
               entry->taken_back ? "; the old tags are back" : "");
    }
    printf("%s: %zu %s%s\n", path, tags, plural(tags, "tag", "tags"), left ? "" : "; nothing is left to undo");
}

int undo_command(struct arguments *arguments) {
    l3a_history *history = NULL;
    l3a_lock *lock = NULL;
    l3a_history_entry entry = {.size = sizeof entry};
    char kind[16] = "", old_name[256] = "", new_name[256] = "";
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one model file");
    }
    const char *path = arguments->positionals[0];
    l3a_status status = l3a_lock_take(arguments->context, path, argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK) {
        status = l3a_history_open(arguments->context, path, &history);
    }
    if (status == L3A_OK && l3a_history_count(history)) { /* its texts go with the entry */
        status = l3a_history_entry_at(history, l3a_history_count(history) - 1, &entry);
        snprintf(kind, sizeof kind, "%s", entry.kind);
        snprintf(old_name, sizeof old_name, "%s", entry.old_name ? entry.old_name : "");
        snprintf(new_name, sizeof new_name, "%s", entry.new_name ? entry.new_name : "");
        entry.kind = kind;
        entry.old_name = entry.old_name ? old_name : NULL;
        entry.new_name = entry.new_name ? new_name : NULL;
    }
    if (status == L3A_OK) {
        status = l3a_history_undo(history, NULL);
    }
    if (status == L3A_OK) {
        status = l3a_history_save(history);
    }
    if (status == L3A_OK) {
        print_undone(arguments, history, &entry);
    }
    const int code = explain(arguments, status);
    l3a_history_free(history);
    l3a_lock_free(lock);
    return status == L3A_ERROR_STATE ? EXIT_USAGE : code;
}
