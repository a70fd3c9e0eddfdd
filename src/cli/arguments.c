/* Command lines: one table of options a command, and the library's table of settings. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct option common[] = {
    {"threads", "N", "threads to use; default: all processors"},
    {"quiet", NULL, "no progress and no messages"},
    {"help", NULL, "this text"},
    {NULL, NULL, NULL},
};

int complain(const struct arguments *arguments, const char *format, ...) {
    va_list list;
    fprintf(stderr, "l3a %s: ", arguments->command->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

int explain(const struct arguments *arguments, l3a_status status) {
    if (status == L3A_OK) {
        return EXIT_DONE;
    }
    complain(arguments, "%s", l3a_error_text(arguments->context));
    if (l3a_error_hint(arguments->context)[0]) {
        fprintf(stderr, "  %s\n", l3a_error_hint(arguments->context));
    }
    return status == L3A_ERROR_CANCELLED ? EXIT_INTERRUPTED : status == L3A_ERROR_STATE ? EXIT_FAILED : EXIT_USAGE;
}

static const l3a_option_info *find_setting(const char *name, size_t length) {
    for (size_t i = 0; l3a_option_at(i); i++) {
        const l3a_option_info *info = l3a_option_at(i);
        if (strlen(info->name) == length && strncmp(info->name, name, length) == 0) {
            return info;
        }
    }
    return NULL;
}

static int find_option(const struct option *options, const char *name, size_t length) {
    for (int i = 0; options[i].name; i++) {
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static int unknown_option(const struct arguments *arguments, const char *text, const char *name, size_t length) {
    const char *names[2 * OPTIONS + SETTINGS];
    char mistyped[64];
    size_t count = 0;
    for (const struct option *option = arguments->command->options; option->name; option++) {
        names[count++] = option->name;
    }
    for (const struct option *option = common; option->name; option++) {
        names[count++] = option->name;
    }
    for (size_t i = 0; arguments->command->settings && l3a_option_at(i); i++) {
        names[count++] = l3a_option_at(i)->name;
    }
    snprintf(mistyped, sizeof mistyped, "%.*s", (int)length, name);
    const char *close = l3a_closest(mistyped, names, count);
    complain(arguments, "unknown option '%s'", text);
    if (close) {
        fprintf(stderr, "  did you mean '--%s'?\n", close);
    }
    fprintf(stderr, "  'l3a help %s' lists the options\n", arguments->command->name);
    return EXIT_USAGE;
}

/* What an option turned out to be. */
struct match {
    int own, shared;
    const l3a_option_info *setting;
    bool takes_value;
};

static bool match_option(const struct command *command, const char *name, size_t length, struct match *match) {
    *match = (struct match){find_option(command->options, name, length), find_option(common, name, length), NULL, true};
    if (match->own >= 0) {
        match->takes_value = command->options[match->own].value != NULL;
    } else if (match->shared >= 0) {
        match->takes_value = common[match->shared].value != NULL;
    } else {
        match->setting = command->settings ? find_setting(name, length) : NULL;
    }
    return match->own >= 0 || match->shared >= 0 || match->setting;
}

static int store_shared(struct arguments *arguments, const char *name, const char *value, int *threads) {
    if (strcmp(name, "quiet") == 0) {
        arguments->quiet = true;
    } else if (strcmp(name, "help") == 0) {
        print_help(stdout, arguments->command);
        arguments->command = NULL;
    } else {
        char *end;
        const long number = strtol(value, &end, 10);
        if (*end || end == value || number < 1 || number > 1024) {
            return complain(arguments, "--threads: '%s' is not a number from 1 to 1024", value);
        }
        *threads = (int)number;
    }
    return EXIT_DONE;
}

static int store(struct arguments *arguments, const struct match *match, const char *value, int *threads) {
    if (match->own >= 0) {
        if (arguments->values[match->own]) {
            return complain(arguments, "--%s stands twice", arguments->command->options[match->own].name);
        }
        arguments->values[match->own] = value;
    } else if (match->shared >= 0) {
        return store_shared(arguments, common[match->shared].name, value, threads);
    } else {
        for (size_t i = 0; i < arguments->setting_count; i++) {
            if (arguments->setting_names[i] == match->setting->name) {
                return complain(arguments, "--%s stands twice", match->setting->name);
            }
        }
        arguments->setting_names[arguments->setting_count] = match->setting->name;
        arguments->setting_values[arguments->setting_count++] = value;
    }
    return EXIT_DONE;
}

int arguments_parse(struct arguments *arguments, int count, char **texts, int *threads) {
    bool only_positionals = false;
    for (int i = 0; i < count && arguments->command; i++) {
        const char *text = texts[i];
        if (only_positionals || text[0] != '-' || !text[1]) {
            if (arguments->positional_count == POSITIONALS) {
                return complain(arguments, "more than %d arguments", POSITIONALS);
            }
            arguments->positionals[arguments->positional_count++] = text;
            continue;
        }
        if (strcmp(text, "--") == 0) {
            only_positionals = true;
            continue;
        }
        const char *name = text + (text[1] == '-' ? 2 : 1);
        const size_t length = strcspn(name, "=");
        struct match match;
        const bool spelled = text[1] == '-' ? length > 1 : length == 1;
        if (strcmp(text, "-h") == 0) {
            name = "help";
            match_option(arguments->command, name, 4, &match);
        } else if (!spelled || !match_option(arguments->command, name, length, &match)) {
            return unknown_option(arguments, text, name, length);
        }
        const char *value = name[length] == '=' && strcmp(text, "-h") != 0 ? name + length + 1 : NULL;
        if (match.takes_value && !value) {
            if (i + 1 == count) {
                return complain(arguments, "%s needs a value", text);
            }
            value = texts[++i];
        } else if (!match.takes_value && value) {
            return complain(arguments, "%.*s takes no value", (int)(name + length - text), text);
        }
        const int code = store(arguments, &match, value ? value : "", threads);
        if (code != EXIT_DONE) {
            return code;
        }
    }
    return EXIT_DONE;
}

const char *argument(const struct arguments *arguments, const char *name) {
    const int index = find_option(arguments->command->options, name, strlen(name));
    return index < 0 ? NULL : arguments->values[index];
}

const char *argument_needed(const struct arguments *arguments, const char *name) {
    const char *value = argument(arguments, name);
    if (!value) {
        complain(arguments, "%s%s is needed", strlen(name) > 1 ? "--" : "-", name);
        fprintf(stderr, "  usage: l3a %s %s\n", arguments->command->name, arguments->command->usage);
    }
    return value;
}

bool argument_number(const struct arguments *arguments, const char *name, double low, double high, double *value) {
    const char *text = argument(arguments, name);
    if (!text) {
        return true;
    }
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end || !(number >= low && number <= high)) {
        complain(arguments, "--%s: '%s' is not a number from %g to %g", name, text, low, high);
        return false;
    }
    *value = number;
    return true;
}

const char *argument_choice(const struct arguments *arguments, const char *name, const char *choices, const char *fallback) {
    const char *text = argument(arguments, name), *value = text ? text : fallback;
    const size_t length = strlen(value);
    for (const char *choice = choices; *choice;) {
        const size_t size = strcspn(choice, "|");
        if (size == length && strncmp(value, choice, size) == 0) {
            return value;
        }
        choice += size + (choice[size] == '|');
    }
    complain(arguments, "--%s: '%s' is not one of %s", name, text, choices);
    return NULL;
}

l3a_status apply_settings(const struct arguments *arguments, l3a_options *options) {
    for (size_t i = 0; i < arguments->setting_count; i++) {
        const l3a_status status =
            l3a_options_set(arguments->context, options, arguments->setting_names[i], arguments->setting_values[i]);
        if (status != L3A_OK) {
            return status;
        }
    }
    return L3A_OK;
}

static char *read_text(const char *path) {
    enum { LIMIT = 16 << 20 };
    FILE *file = fopen(path, "rb");
    char *text = file ? calloc(1, LIMIT + 1) : NULL;
    if (text) {
        text[fread(text, 1, LIMIT, file)] = '\0';
    }
    if (file) {
        fclose(file);
    }
    return text;
}

bool list_parse(const char *value, struct list *list) {
    const bool file = value[0] == '@';
    memset(list, 0, sizeof *list);
    list->text = file ? read_text(value + 1) : strdup(value);
    if (!list->text) {
        fprintf(stderr, "l3a: %s: %s\n", file ? value + 1 : value, strerror(errno));
        return false;
    }
    list->items = calloc(strlen(list->text) + 1, sizeof *list->items);
    char *rest = list->text;
    for (char *item; list->items && (item = strsep(&rest, file ? "\n" : ","));) {
        item[strcspn(item, "\r")] = '\0';
        if (item[0]) {
            list->items[list->count++] = item;
        }
    }
    return list->items != NULL;
}

void list_free(struct list *list) {
    free(list->text);
    free(list->items);
}

static void print_option(FILE *to, const char *name, const char *value, const char *help, const char *fallback) {
    char left[64];
    snprintf(left, sizeof left, "%s%s %s", strlen(name) > 1 ? "--" : "-", name, value ? value : "");
    fprintf(to, "  %-34s %s%s%s%s\n", left, help, fallback ? " [" : "", fallback ? fallback : "", fallback ? "]" : "");
}

void print_help(FILE *to, const struct command *command) {
    fprintf(to, "usage: l3a %s %s\n\n%s\n\n", command->name, command->usage, command->help);
    for (const struct option *option = command->options; option->name; option++) {
        print_option(to, option->name, option->value, option->help, NULL);
    }
    for (const struct option *option = common; option->name; option++) {
        print_option(to, option->name, option->value, option->help, NULL);
    }
    if (command->settings) {
        fprintf(to, "\nsettings of the method:\n");
        for (size_t i = 0; l3a_option_at(i); i++) {
            const l3a_option_info *info = l3a_option_at(i);
            if (find_option(command->options, info->name, strlen(info->name)) < 0) {
                print_option(to, info->name,
                             info->choices                      ? info->choices
                             : info->type == L3A_OPTION_INTEGER ? "N"
                                                                : "X",
                             info->help, info->fallback);
            }
        }
    }
    for (size_t i = 0; strcmp(command->name, "sweep") == 0 && l3a_preset_at(i); i++) {
        fprintf(to, "%s  %-34s %s\n", i ? "" : "\npresets:\n", l3a_preset_at(i)->name, l3a_preset_at(i)->help);
    }
    if (strcmp(command->name, "run") == 0) {
        fprintf(to, "\nmethods:\n");
        for (size_t i = 0; l3a_method_at(i); i++) {
            fprintf(to, "  %-34s %s\n", l3a_method_at(i)->name, l3a_method_at(i)->help);
        }
    }
}

void print_overview(FILE *to) {
    fprintf(to, "l3a %s: teach a multi-label classifier new classes, phase after phase, in closed form\n\n", l3a_version());
    for (const struct command *command = commands; command->name; command++) {
        const int padding = 54 - display_width(command->usage);
        fprintf(to, "  l3a %-8s %s%*s %s\n", command->name, command->usage, padding > 0 ? padding : 0, "", command->help);
    }
    fprintf(to, "\n'l3a help COMMAND' says more.\n");
}
