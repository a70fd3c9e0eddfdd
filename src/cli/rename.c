/* l3a rename: gives a tag another name, or makes one tag of two. */
#include "cli.h"

#include <string.h>

const struct option rename_options[] = {
    {"wait", NULL, "wait while another process changes the model, rather than fail"},
    {NULL, NULL, NULL},
};

static bool has_tag(const l3a_model *model, const char *name) {
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        if (strcmp(l3a_model_class(model, k), name) == 0) {
            return true;
        }
    }
    return false;
}

static void print_renamed(const struct arguments *arguments, const l3a_history *history, bool merged, int exact) {
    const char *const *words = arguments->positionals;
    const size_t tags = l3a_model_class_count(l3a_history_model(history));
    l3a_history_entry entry = {.size = sizeof entry};
    l3a_history_entry_at(history, l3a_history_count(history) - 1, &entry);
    printf("%s: '%s' is now %s'%s'; %zu %s\n", words[0], words[1], merged ? "part of " : "", words[2], tags,
           plural(tags, "tag", "tags"));
    if (merged && !exact) {
        printf("Pictures that were taught with both tags may count twice, because the history does not have every picture.\n");
    }
    if (!entry.can_undo) {
        printf("This cannot be undone, because the history does not have every picture.\n");
    }
}

int rename_command(struct arguments *arguments) {
    l3a_history *history = NULL;
    l3a_lock *lock = NULL;
    int exact = 0;
    bool merged = false;
    if (arguments->positional_count != 3) {
        return complain_usage(arguments, "name a model file, a tag, and its new name");
    }
    const char *const *words = arguments->positionals;
    l3a_status status = l3a_lock_take(arguments->context, words[0], argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK) {
        status = l3a_history_open(arguments->context, words[0], &history);
    }
    if (status == L3A_OK) {
        merged = has_tag(l3a_history_model(history), words[2]);
        status = l3a_history_rename(history, words[1], words[2], &exact);
    }
    if (status == L3A_OK) {
        status = l3a_history_save(history);
    }
    if (status == L3A_OK) {
        print_renamed(arguments, history, merged, exact);
    }
    const int code = explain(arguments, status);
    l3a_history_free(history);
    l3a_lock_free(lock);
    return code;
}
