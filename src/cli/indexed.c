/* Opening a model with the index of a library, and bringing the index up to date with the model. */
#include "indexed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static l3a_status open_tagger(struct indexed *indexed, size_t views, const l3a_picture_options *picture) {
    const struct arguments *arguments = indexed->arguments;
    /* On the processor, readers with a thread each look at pictures; a device is for one reader, with all threads. */
    const bool on_device = strcmp(l3a_context_device(arguments->context), "cpu") != 0;
    const l3a_context_options context_options = {.size = sizeof context_options,
                                                 .threads = on_device ? l3a_context_threads(arguments->context) : 1,
                                                 .device = arguments->device,
                                                 .on_event = show_event};
    const l3a_tagger_options options = {
        .size = sizeof options, .backbone = argument(arguments, "backbone"), .picture_options = picture, .views = views};
    l3a_status status = l3a_context_create(&context_options, &indexed->context);
    if (stat(indexed->model, &indexed->model_file)) {
        memset(&indexed->model_file, 0, sizeof indexed->model_file); /* opening it says why */
    }
    return status == L3A_OK ? l3a_tagger_open(indexed->context, indexed->model, &options, &indexed->tagger) : status;
}

static int explain_missing(const struct indexed *indexed) {
    complain(indexed->arguments, "%s: there is no index yet", indexed->index);
    print_hint("make one: l3a index %s FOLDER", indexed->named);
    return EXIT_USAGE;
}

static int open_index(struct indexed *indexed, bool existing, bool keep) {
    const l3a_library_options options = {.size = sizeof options, .index = indexed->index, .existing = existing, .keep = keep};
    const l3a_status status = l3a_library_open(indexed->arguments->context, indexed->tagger, &options, &indexed->library);
    const bool missing = status == L3A_ERROR_NOT_FOUND && access(indexed->index, F_OK) && errno == ENOENT;
    return existing && missing ? explain_missing(indexed) : indexed_explain(indexed, status);
}

/* An index that is named by the model alone is another one, and one that is made without --views would have other features. */
static bool name_both(struct indexed *indexed) {
    const char *index = argument(indexed->arguments, "index"), *views = argument(indexed->arguments, "views");
    if (asprintf(&indexed->index, index ? "%s" : "%s.library", index ? index : indexed->model) < 0) {
        indexed->index = NULL;
        return false;
    }
    if (asprintf(&indexed->named, "%s%s%s%s%s", indexed->model, index ? " --index " : "", index ? index : "",
                 views ? " --views " : "", views ? views : "") < 0) {
        indexed->named = NULL;
    }
    return indexed->named != NULL;
}

l3a_status indexed_views(const struct arguments *arguments, const char *model, const char *index, size_t *views) {
    const char *kind = NULL;
    char *path = NULL;
    l3a_context *context = arguments->context;
    *views = 0;
    if (l3a_file_recognise(context, model, &kind) == L3A_OK && strcmp(kind, "packed") == 0) {
        return L3A_OK;
    }
    if (asprintf(&path, index ? "%s" : "%s.library", index ? index : model) < 0) {
        return L3A_ERROR_MEMORY;
    }
    const l3a_status status = l3a_library_views(context, path, views);
    free(path);
    return status;
}

int indexed_open(const struct arguments *arguments, bool existing, bool keep, struct indexed *indexed) {
    const char *orient = argument_choice(arguments, "orient", "0|1", "1");
    const l3a_picture_options picture = {.size = sizeof picture, .orient = orient && orient[0] == '1'};
    size_t views;
    *indexed = (struct indexed){.arguments = arguments, .model = arguments->positionals[0]};
    if (!orient || !views_argument(arguments, &views)) {
        return EXIT_USAGE;
    }
    if (!name_both(indexed)) {
        return complain(arguments, "out of memory");
    }
    l3a_status status = views ? L3A_OK : indexed_views(arguments, indexed->model, indexed->index, &views);
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    status = open_tagger(indexed, views, argument(arguments, "orient") ? &picture : NULL);
    if (status != L3A_OK) {
        return explain_error(arguments, status, l3a_error_text(indexed->context), l3a_error_hint(indexed->context));
    }
    return open_index(indexed, existing, keep);
}

/* The folders of the index, as far as they can be read; NULL ends them. */
static char **copy_folders(struct indexed *indexed) {
    char **folders = NULL;
    const char *folder = "";
    for (size_t i = 0; folder; i++) {
        char **grown = realloc(folders, (i + 1) * sizeof *grown);
        if (!grown) {
            break;
        }
        folders = grown;
        folder = l3a_library_folder(indexed->library, i, NULL);
        folders[i] = folder ? strdup(folder) : NULL;
        folder = folders[i];
    }
    return folders;
}

int indexed_repair(struct indexed *indexed) {
    const l3a_library_options options = {.size = sizeof options, .index = indexed->index, .check = 1};
    char **folders = copy_folders(indexed);
    l3a_library_free(indexed->library);
    indexed->library = NULL;
    l3a_status status = l3a_library_open(indexed->arguments->context, indexed->tagger, &options, &indexed->library);
    for (size_t i = 0; folders && folders[i]; i++) {
        status = status == L3A_OK ? l3a_library_add(indexed->library, folders[i]) : status;
        free(folders[i]);
    }
    free(folders);
    return indexed_explain(indexed, status);
}

void indexed_close(struct indexed *indexed) {
    l3a_library_free(indexed->library);
    l3a_tagger_free(indexed->tagger);
    l3a_context_free(indexed->context);
    free(indexed->index);
    free(indexed->named);
}

int indexed_explain(const struct indexed *indexed, l3a_status status) {
    const bool damaged = status == L3A_ERROR_CHECKSUM;
    const int code = explain_error(indexed->arguments, status, l3a_error_text(indexed->arguments->context),
                                   damaged ? "" : l3a_error_hint(indexed->arguments->context));
    if (status == L3A_ERROR_CANCELLED) {
        print_hint("run the same command again to continue");
    } else if (damaged) {
        print_hint("'l3a index %s FOLDER' makes the index again", indexed->named);
    }
    return code;
}

void write_quoted(FILE *to, const char *key, const char *text) {
    fputs(key, to);
    fputc('"', to);
    for (; *text; text++) {
        fputs(*text == '"' ? "\"" : "", to);
        fputc(*text, to);
    }
    fputs("\" ", to);
}

const char *short_path(const struct arguments *arguments, const char *path) {
    const char *directory = arguments->directory;
    const size_t length = directory ? strlen(directory) : 0;
    return length > 1 && strncmp(path, directory, length) == 0 && path[length] == '/' ? path + length + 1 : path;
}

/* ---- Up to date ---- */

l3a_status indexed_follow_model(struct indexed *indexed) {
    struct stat now;
    const struct stat *then = &indexed->model_file;
    if (stat(indexed->model, &now) ||
        (now.st_ino == then->st_ino && now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == then->st_mtim.tv_nsec)) {
        return L3A_OK;
    }
    const l3a_status status = l3a_tagger_reload(indexed->tagger);
    indexed->model_file = status == L3A_OK ? now : indexed->model_file;
    return status;
}

/* What tells one state of the history's file from another; "none" if there is none. */
static bool history_state(const struct indexed *indexed, char state[96]) {
    struct stat about;
    char *path;
    if (asprintf(&path, "%s.history", indexed->model) < 0) {
        return false;
    }
    const bool there = stat(path, &about) == 0;
    free(path);
    snprintf(state, 96, "none");
    if (there) {
        snprintf(state, 96, "%" PRIu64 " bytes, %" PRId64 ".%09ld", (uint64_t)about.st_size, (int64_t)about.st_mtim.tv_sec,
                 about.st_mtim.tv_nsec);
    }
    return true;
}

static void warn_of_history(const struct indexed *indexed) {
    if (!indexed->arguments->quiet) {
        progress_clear();
        fprintf(stderr, "%swarning:%s what was said about pictures is not known: %s\n", style(stderr, STYLE_BOLD),
                style(stderr, STYLE_PLAIN), l3a_error_text(indexed->context));
    }
}

/* The caller holds the model's lock. A packed model has no history. */
static l3a_status take_history(struct indexed *indexed) {
    char state[96];
    const char *before, *kind = NULL;
    l3a_history *history = NULL;
    l3a_status status = l3a_library_note(indexed->library, "history", &before);
    if (status != L3A_OK || !history_state(indexed, state)) {
        return status;
    }
    if (strcmp(before, state) == 0 || (strcmp(state, "none") == 0 && !before[0]) ||
        (l3a_file_recognise(indexed->context, indexed->model, &kind) == L3A_OK && strcmp(kind, "packed") == 0)) {
        return L3A_OK;
    }
    if (strcmp(state, "none") == 0) {
        status = l3a_library_say(indexed->library, NULL, 0, NULL, 0, 1);
    } else if (l3a_history_open(indexed->context, indexed->model, &history) == L3A_OK) {
        status = l3a_library_take_history(indexed->library, history);
    } else {
        warn_of_history(indexed);
        return L3A_OK;
    }
    l3a_history_free(history);
    return status == L3A_OK ? l3a_library_set_note(indexed->library, "history", state) : status;
}

l3a_status indexed_bring_up_to_date(struct indexed *indexed, bool *done) {
    l3a_lock *lock = NULL;
    *done = l3a_lock_take(indexed->context, indexed->model, 0, &lock) == L3A_OK;
    if (!*done) {
        return L3A_OK;
    }
    l3a_status status = indexed_follow_model(indexed);
    if (status == L3A_OK) {
        status = take_history(indexed);
    }
    if (status == L3A_OK) {
        status = l3a_library_score(indexed->library, 0, NULL);
    }
    l3a_lock_free(lock);
    return status;
}
