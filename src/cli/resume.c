/* --resume -o DIR: options that the command line leaves out come from the command recorded in the folder. Options that are given
 * replace the recorded ones; if they contradict the run, the library refuses them. Relative paths in the recorded command start
 * from the directory in which it was typed or, if nothing is found there, from the current one. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMAND_LIMIT = 1 << 20, WORDS = 4096 };

/* Options that apply to one invocation, not to the run. */
static bool is_for_once(const char *name) {
    return strcmp(name, "o") == 0 || strcmp(name, "resume") == 0 || strcmp(name, "dry-run") == 0 ||
           strcmp(name, "list-methods") == 0;
}

/* Finds the path in a value, after the @ of a list or the kind of a data set; NULL if the option does not take a path. */
static const char *find_path(const char *value, const char *placeholder) {
    if (value[0] == '@') {
        return value + 1;
    }
    if (placeholder && strcmp(placeholder, "DATASET") == 0) {
        const char *colon = strchr(value, ':');
        return colon ? colon + 1 : NULL;
    }
    const bool file = placeholder && (strcmp(placeholder, "FILE") == 0 || strcmp(placeholder, "HOW") == 0 ||
                                      strcmp(placeholder, "DIR") == 0 || strchr(placeholder, '.'));
    return file ? value : NULL;
}

/* The value with its path resolved against the recorded directory. The arguments own new texts. */
static const char *resolve(struct arguments *arguments, const char *directory, const char *value, const char *placeholder) {
    const char *path = find_path(value, placeholder);
    if (!path || path[0] == '/' || !directory[0]) {
        return value;
    }
    const size_t size = strlen(value) + strlen(directory) + 2;
    char *text = malloc(size);
    if (!text) {
        return value;
    }
    snprintf(text, size, "%.*s%s/%s", (int)(path - value), value, directory, path);
    if (access(text + (path - value), F_OK)) {
        free(text);
        return value;
    }
    arguments->owned[arguments->owned_count++] = text;
    return text;
}

/* The same for a list of class orders, some of which may be files. */
static const char *resolve_orders(struct arguments *arguments, const char *directory, const char *value) {
    struct list orders;
    const char *file = resolve(arguments, directory, value, "HOW"); /* the name of a file may have commas */
    if (file != value || !access(value, F_OK) || !strchr(value, ',') || !list_parse(value, &orders)) {
        return file;
    }
    const size_t size = strlen(value) + orders.count * (strlen(directory) + 2) + 1;
    char *text = calloc(size, 1);
    for (size_t i = 0, length = 0; text && i < orders.count; i++) {
        const size_t before = arguments->owned_count;
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? "," : "",
                                   resolve(arguments, directory, orders.items[i], "HOW"));
        while (arguments->owned_count > before) {
            free(arguments->owned[--arguments->owned_count]);
        }
    }
    list_free(&orders);
    if (text) {
        arguments->owned[arguments->owned_count++] = text;
    }
    return text ? text : value;
}

static void merge(struct arguments *arguments, const struct arguments *recorded, const char *directory) {
    const struct option *options = arguments->command->options;
    for (size_t i = 0; options[i].name; i++) {
        if (!arguments->values[i] && recorded->values[i] && !is_for_once(options[i].name)) {
            const bool orders = strcmp(options[i].name, "class-order") == 0;
            arguments->values[i] = orders ? resolve_orders(arguments, directory, recorded->values[i])
                                          : resolve(arguments, directory, recorded->values[i], options[i].value);
        }
    }
    const size_t given = arguments->setting_count;
    for (size_t i = 0; i < recorded->setting_count; i++) {
        size_t j = 0;
        while (j < given && arguments->setting_names[j] != recorded->setting_names[i]) {
            j++;
        }
        if (j == given) {
            const size_t at = arguments->setting_count++;
            arguments->setting_names[at] = recorded->setting_names[i];
            arguments->setting_values[at] = resolve(arguments, directory, recorded->setting_values[i], NULL);
        }
    }
}

/* Without a record there is nothing to add. This is an error only if the command line does not give everything itself. */
static int without_record(const struct arguments *arguments, const char *folder, const char *why) {
    if (argument(arguments, "train") || argument(arguments, "data")) {
        return EXIT_DONE;
    }
    complain(arguments, "%s: %s", folder, why);
    print_usage(arguments);
    return EXIT_USAGE;
}

static int add_recorded(struct arguments *arguments, const char *folder, const char *line, const char *directory, int *threads) {
    struct arguments recorded = {.command = arguments->command, .processes = arguments->processes};
    char **words = calloc(WORDS, sizeof *words), *text = strdup(line);
    int code = EXIT_DONE, recorded_threads = 0;
    if (!words || !text) {
        free(words);
        free(text);
        return complain(arguments, "out of memory");
    }
    arguments->owned[arguments->owned_count++] = text; /* the words point into it */
    const size_t count = split_words(text, words, WORDS);
    if (count < 2 || count > WORDS) {
        code = without_record(
            arguments, folder,
            "no command is recorded here; resume it with the program that began it, or give all options of the run again");
    } else if (strcmp(words[1], arguments->command->name) != 0) {
        char why[128];
        snprintf(why, sizeof why, "this folder was made by 'l3a %.20s', not by 'l3a %s'", words[1], arguments->command->name);
        code = without_record(arguments, folder, why);
    } else {
        code = arguments_parse(&recorded, (int)count - 2, words + 2, &recorded_threads);
        if (code == EXIT_DONE && recorded.command) {
            merge(arguments, &recorded, directory);
            *threads = *threads ? *threads : recorded_threads;
            arguments->device = arguments->device ? arguments->device : recorded.device;
            arguments->line = line;
            arguments->directory = directory;
            arguments->resumed = true;
        }
    }
    free(words);
    return code;
}

void hint_at_moved_data(const struct arguments *arguments, l3a_status status) {
    if (status == L3A_ERROR_NOT_FOUND && arguments->resumed) {
        print_hint("the path is from the recorded command, typed in %s; if the file has moved, give its new path with the option",
                   arguments->directory[0] ? arguments->directory : "an unknown directory");
    }
}

void hint_at_resuming(const struct arguments *arguments, const char *what, const char *folder) {
    fprintf(stderr, "  finished %s are saved in %s; resume with: ", what, folder);
    if (arguments->processes > 1) {
        fprintf(stderr, "mpirun -n %zu ", arguments->processes);
    }
    write_word(stderr, arguments->program);
    fprintf(stderr, " %s --resume -o ", arguments->command->name);
    write_word(stderr, folder);
    fprintf(stderr, "\n");
}

/* Whether the command writes to a folder, which then records its command. */
static bool has_folder(const struct command *command) {
    const struct option *option = command->options;
    while (option->name && strcmp(option->name, "o") != 0) {
        option++;
    }
    return option->name && strcmp(option->value, "DIR") == 0;
}

int resume_arguments(struct arguments *arguments, int *threads) {
    const char *folder = argument(arguments, "o");
    l3a_context *context = NULL;
    char *line, *directory;
    if (!argument(arguments, "resume") || !folder || !has_folder(arguments->command)) {
        return EXIT_DONE;
    }
    arguments->owned[arguments->owned_count++] = line = malloc(COMMAND_LIMIT);
    arguments->owned[arguments->owned_count++] = directory = malloc(COMMAND_LIMIT);
    if (!line || !directory || l3a_context_create(NULL, &context) != L3A_OK) {
        return complain(arguments, "out of memory");
    }
    int code;
    if (l3a_folder_record(context, folder, "command", line, COMMAND_LIMIT) != L3A_OK ||
        l3a_folder_record(context, folder, "directory", directory, COMMAND_LIMIT) != L3A_OK) {
        code = without_record(arguments, l3a_error_text(context), "there is nothing to resume");
    } else {
        code = add_recorded(arguments, folder, line, directory, threads);
    }
    l3a_context_free(context);
    return code;
}
