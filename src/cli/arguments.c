/* Parses command lines with one table of options per command and the library's table of settings. */
#include "cli.h"

#include "common/closest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct option common_options[] = {
    {"threads", "N", "number of threads [all processors]"},
    {"device", "NAME", "where to learn and score, and where networks run: cpu, cuda or cuda:N for a GPU, or auto [cpu]"},
    {"quiet", NULL, "print results only: no progress, no messages"},
    {"help", NULL, "show this text"},
    {NULL, NULL, NULL},
};

int complain(const struct arguments *arguments, const char *format, ...) {
    va_list list;
    progress_clear();
    fprintf(stderr, "%sl3a %s:%s ", style(stderr, STYLE_ERROR), arguments->command->name, style(stderr, STYLE_PLAIN));
    va_start(list, format);
    print_list_to(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

int explain_error(const struct arguments *arguments, l3a_status status, const char *text, const char *hint) {
    if (status == L3A_OK) {
        return EXIT_DONE;
    }
    complain(arguments, "%s", text);
    if (hint[0]) {
        print_hint("%s", hint);
    }
    switch (status) {
    case L3A_ERROR_CANCELLED: return EXIT_INTERRUPTED;
    case L3A_ERROR_STATE:
    case L3A_ERROR_FULL: return EXIT_FAILED;
    default: return EXIT_USAGE;
    }
}

int explain(const struct arguments *arguments, l3a_status status) {
    return explain_error(arguments, status, l3a_error_text(arguments->context), l3a_error_hint(arguments->context));
}

bool takes_setting(const struct command *command, const l3a_option_info *info) {
    return command->settings == ALL_SETTINGS || (command->settings == MODEL_SETTINGS && strcmp(info->group, "model") == 0);
}

static const l3a_option_info *find_setting(const struct command *command, const char *name, size_t length) {
    for (size_t i = 0; l3a_option_at(i); i++) {
        const l3a_option_info *info = l3a_option_at(i);
        if (takes_setting(command, info) && strlen(info->name) == length && strncmp(info->name, name, length) == 0) {
            return info;
        }
    }
    return NULL;
}

static int find_option(const struct option *options, const char *name, size_t length) {
    for (int i = 0; i < OPTIONS && options[i].name; i++) {
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
        names[count] = option->name;
        count += option->name[1] != '\0'; /* every letter is close to every other */
    }
    for (const struct option *option = common_options; option->name; option++) {
        names[count++] = option->name;
    }
    for (size_t i = 0; l3a_option_at(i); i++) {
        if (takes_setting(arguments->command, l3a_option_at(i))) {
            names[count++] = l3a_option_at(i)->name;
        }
    }
    snprintf(mistyped, sizeof mistyped, "%.*s", (int)length, name);
    const char *close = closest_name(mistyped, names, count);
    complain(arguments, "unknown option '%s'", text);
    if (close) {
        print_hint("did you mean '--%s'?", close);
    }
    print_hint("'l3a help %s' lists the options", arguments->command->name);
    return EXIT_USAGE;
}

/* Which table an option was found in. */
struct match {
    int own, shared;
    const l3a_option_info *setting;
    bool takes_value;
};

static bool match_option(const struct command *command, const char *name, size_t length, struct match *match) {
    *match = (struct match){find_option(command->options, name, length), find_option(common_options, name, length), NULL, true};
    if (match->own >= 0) {
        match->takes_value = command->options[match->own].value != NULL;
    } else if (match->shared >= 0) {
        match->takes_value = common_options[match->shared].value != NULL;
    } else {
        match->setting = find_setting(command, name, length);
    }
    return match->own >= 0 || match->shared >= 0 || match->setting;
}

static int store_shared(struct arguments *arguments, const char *name, const char *value, int *threads) {
    if (strcmp(name, "quiet") == 0) {
        arguments->quiet = true;
    } else if (strcmp(name, "help") == 0) {
        print_help(stdout, arguments->command);
        arguments->command = NULL;
    } else if (strcmp(name, "device") == 0) {
        arguments->device = value;
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

/* Whether an option may be given several times: its placeholder ends like "NAME…". */
static bool is_repeatable(const struct option *option) {
    static const char ending[] = "…";
    const size_t length = option->value ? strlen(option->value) : 0, tail = sizeof ending - 1;
    return length > tail && strcmp(option->value + length - tail, ending) == 0;
}

static int store_repeated(struct arguments *arguments, size_t option, const char *value) {
    if (arguments->repeated_count == REPEATED) {
        return complain(arguments, "there are more than %d options that are given several times", REPEATED);
    }
    arguments->values[option] = arguments->values[option] ? arguments->values[option] : value;
    arguments->repeated[arguments->repeated_count].option = option;
    arguments->repeated[arguments->repeated_count++].value = value;
    return EXIT_DONE;
}

static int store(struct arguments *arguments, const struct match *match, const char *value, int *threads) {
    if (match->own >= 0 && is_repeatable(&arguments->command->options[match->own])) {
        return store_repeated(arguments, (size_t)match->own, value);
    }
    if (match->own >= 0) {
        if (arguments->values[match->own]) {
            return complain(arguments, "--%s is given twice", arguments->command->options[match->own].name);
        }
        arguments->values[match->own] = value;
    } else if (match->shared >= 0) {
        return store_shared(arguments, common_options[match->shared].name, value, threads);
    } else {
        for (size_t i = 0; i < arguments->setting_count; i++) {
            if (arguments->setting_names[i] == match->setting->name) {
                return complain(arguments, "--%s is given twice", match->setting->name);
            }
        }
        arguments->setting_names[arguments->setting_count] = match->setting->name;
        arguments->setting_values[arguments->setting_count++] = value;
    }
    return EXIT_DONE;
}

/* What a setting means whose value is left out, such as --train-backbone; NULL: it needs one. */
static const char *value_left_out(const l3a_option_info *setting) {
    return setting && setting->choices && strncmp(setting->choices, "off|all|", 8) == 0 ? "all" : NULL;
}

int arguments_parse(struct arguments *arguments, int count, char **texts, int *threads) {
    bool only_positionals = false;
    arguments->positionals = (const char *const *)texts;
    for (int i = 0; i < count && arguments->command; i++) {
        const char *text = texts[i];
        if (only_positionals || text[0] != '-' || !text[1]) {
            texts[arguments->positional_count++] = texts[i];
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
        if (match.takes_value && !value && (i + 1 == count || texts[i + 1][0] == '-')) {
            value = value_left_out(match.setting);
        }
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

const char *argument_each(const struct arguments *arguments, const char *name, size_t index) {
    const int option = find_option(arguments->command->options, name, strlen(name));
    for (size_t i = 0; i < arguments->repeated_count; i++) {
        if (option >= 0 && arguments->repeated[i].option == (size_t)option && index-- == 0) {
            return arguments->repeated[i].value;
        }
    }
    return NULL;
}

void print_usage(const struct arguments *arguments) {
    print_hint("usage: l3a %s %s", arguments->command->name, arguments->command->usage);
}

int complain_usage(const struct arguments *arguments, const char *text) {
    complain(arguments, "%s", text);
    print_usage(arguments);
    return EXIT_USAGE;
}

const char *argument_needed(const struct arguments *arguments, const char *name) {
    const char *value = argument(arguments, name);
    if (!value) {
        complain(arguments, "%s%s is required", strlen(name) > 1 ? "--" : "-", name);
        print_usage(arguments);
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
        complain(arguments, "--%s: '%s' is not a number from %.10g to %.10g", name, text, low, high);
        return false;
    }
    *value = number;
    return true;
}

bool argument_integer(const struct arguments *arguments, const char *name, uint64_t low, uint64_t high, uint64_t *value) {
    const char *text = argument(arguments, name);
    if (!text) {
        return true;
    }
    const size_t digits = strspn(text, "0123456789");
    const uint64_t number = digits && !text[digits] && digits < 19 ? strtoull(text, NULL, 10) : UINT64_MAX;
    if (number < low || number > high) {
        complain(arguments, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, name, text, low, high);
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

bool argument_labels_fit(const struct arguments *arguments, const char *features, const char *labels) {
    const char *path = argument(arguments, features);
    const char *given = argument(arguments, labels) ? labels : argument(arguments, "names") ? "names" : NULL;
    if (!given || (path && is_npy(path))) {
        return true;
    }
    if (path) {
        complain(arguments, "--%s is for .npy files, and %s is a feature file, which has its own labels and names", given, path);
    } else {
        complain(arguments, "--%s has no effect without --%s", given, features);
    }
    return false;
}

static bool is_setting(const char *word, size_t length) {
    for (size_t i = 0; l3a_option_at(i); i++) {
        if (strlen(l3a_option_at(i)->name) == length && strncmp(l3a_option_at(i)->name, word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Prints a text of the library in which settings are named, inside brackets if it has any. On the command line they are options. */
static void print_with_dashes(const char *text) {
    bool inside = !strchr(text, '(');
    while (*text) {
        const size_t word = strcspn(text, " ,()"), rest = word + strspn(text + word, " ,()");
        fprintf(stderr, "%s%.*s", inside && is_setting(text, word) ? "--" : "", (int)rest, text);
        inside = inside || memchr(text + word, '(', rest - word);
        text += rest;
    }
}

void warn_of_idle_settings(const struct arguments *arguments, const l3a_options *options) {
    for (size_t i = 0; i < arguments->setting_count && !arguments->quiet; i++) {
        const char *needed = l3a_option_needs(options, arguments->setting_names[i]);
        if (needed) {
            fprintf(stderr, "%swarning:%s --%s has no effect: it needs ", style(stderr, STYLE_BOLD), style(stderr, STYLE_PLAIN),
                    arguments->setting_names[i]);
            print_with_dashes(needed);
            fprintf(stderr, "\n");
        }
    }
}

l3a_status make_settings(const struct arguments *arguments, l3a_options **options) {
    l3a_status status = l3a_options_create(arguments->context, options);
    for (size_t i = 0; status == L3A_OK && i < arguments->setting_count; i++) {
        status = l3a_options_set(arguments->context, *options, arguments->setting_names[i], arguments->setting_values[i]);
    }
    return status;
}

bool setting_is(const l3a_options *options, const char *name, const char *value) {
    char text[64];
    l3a_options_get(options, name, text, sizeof text);
    return strcmp(text, value) == 0;
}

/* Reads a regular file or a pipe, such as the shell's <(…). A named pipe without a writer is empty; this does not wait for one. */
static char *read_text(const char *path) {
    enum { LIMIT = 16 << 20 };
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return NULL;
    }
    char *text = calloc(1, LIMIT + 1);
    size_t length = 0;
    ssize_t got = -1;
    if (text && fstat(file, &about) == 0) {
        errno = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
        got = S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode) ? 1 : -1;
    }
    while (got > 0 && length < LIMIT) {
        got = read(file, text + length, LIMIT - length);
        length += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == EAGAIN) {
            got = fcntl(file, F_SETFL, 0) == 0 ? 1 : -1; /* from here on, wait for the writer */
        }
    }
    if (got < 0) {
        const int code = errno;
        free(text);
        text = NULL;
        errno = code;
    }
    close(file);
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
