/* l3a help: the commands, and everything about one of them. It is made from the command table, the tables of options, the library's
 * settings and the texts of manual.c, as are the manual pages (man_page.c) and the completion scripts (completion.c). */
#include "cli.h"

#include <float.h>
#include <string.h>

const struct option help_options[] = {
    {"format", "text|man|bash|zsh|fish", "plain text, a manual page, or a completion script for a shell [text]"},
    {NULL, NULL, NULL},
};

const char *const exit_codes[][2] = {
    {"0", "success"},
    {"1", "failed, but not because of the command line or the input"},
    {"2", "bad command line or input, or some pictures could not be read"},
    {"130", "interrupted by Ctrl-C; finished work is on disk"},
    {NULL, NULL},
};

const char *const option_headings[ROW_SOURCES] = {"options", "settings of the method", "settings of the comparison methods"};

static bool has_option(const struct command *command, const char *name) {
    const struct option *option = command->options;
    while (option->name && strcmp(option->name, name) != 0) {
        option++;
    }
    return option->name != NULL;
}

/* Lists the methods that can run; the others cannot be given as a value. */
static bool method_name_at(size_t index, const char **name, const char **help) {
    const l3a_method_info *info;
    for (size_t i = 0; (info = l3a_method_at(i)); i++) {
        if (info->runs && index-- == 0) {
            *name = info->name;
            *help = info->help;
            return true;
        }
    }
    return false;
}

/* Lists the methods that make a model. */
static bool model_method_name_at(size_t index, const char **name, const char **help) {
    l3a_context *context;
    bool found = false;
    if (l3a_context_create(NULL, &context) != L3A_OK) {
        return false;
    }
    for (size_t i = 0; !found && method_name_at(i, name, help); i++) {
        l3a_options *options = NULL;
        found = l3a_options_create(context, &options) == L3A_OK && l3a_method_options(context, *name, options) == L3A_OK &&
                index-- == 0;
        l3a_options_free(options);
    }
    l3a_context_free(context);
    return found;
}

static bool preset_name_at(size_t index, const char **name, const char **help) {
    const l3a_preset *preset = l3a_preset_at(index);
    *name = preset ? preset->name : NULL;
    *help = preset ? preset->help : NULL;
    return preset != NULL;
}

static bool recipe_name_at(size_t index, const char **name, const char **help) {
    const l3a_train_recipe *recipe = l3a_train_recipe_at(index);
    *name = recipe ? recipe->name : NULL;
    *help = recipe ? recipe->help : NULL;
    return recipe != NULL;
}

const struct vocabulary *vocabulary_of(const struct command *command, const char *option) {
    static const struct vocabulary compared = {"method", "methods", method_name_at};
    static const struct vocabulary models = {"method", "methods", model_method_name_at};
    static const struct vocabulary presets = {"preset", "presets", preset_name_at};
    static const struct vocabulary recipes = {"recipe", "recipes", recipe_name_at};
    if (strcmp(option, "method") == 0) {
        return command->settings == MODEL_SETTINGS ? &models : &compared;
    }
    return strcmp(option, "preset") == 0 ? &presets : strcmp(option, "recipe") == 0 ? &recipes : NULL;
}

static void range_text(const l3a_option_info *info, char *text, size_t size) {
    if (info->choices) {
        snprintf(text, size, "[%s]", info->fallback);
    } else if (info->high >= DBL_MAX) {
        snprintf(text, size, "(%s %.17g) [%s]", info->low_open ? "above" : "at least", info->low, info->fallback);
    } else if (info->low_open || info->high_open) {
        snprintf(text, size, "(%s %.17g, %s %.17g) [%s]", info->low_open ? "above" : "at least", info->low,
                 info->high_open ? "below" : "at most", info->high, info->fallback);
    } else {
        snprintf(text, size, "(%.17g to %.17g) [%s]", info->low, info->high, info->fallback);
    }
}

bool option_row(const struct command *command, size_t index, struct option_row *row) {
    for (const struct option *option = command->options; option->name; option++) {
        if (index-- == 0) {
            *row = (struct option_row){ROW_OPTION, option->name, option->value, "", vocabulary_of(command, option->name)};
            snprintf(row->text, sizeof row->text, "%s", option->help);
            return true;
        }
    }
    for (const struct option *option = common_options; option->name; option++) {
        if (index-- == 0) {
            *row = (struct option_row){ROW_OPTION, option->name, option->value, "", vocabulary_of(command, option->name)};
            snprintf(row->text, sizeof row->text, "%s", option->help);
            return true;
        }
    }
    const l3a_option_info *info;
    for (size_t i = 0; (info = l3a_option_at(i)); i++) {
        if (takes_setting(command, info) && !has_option(command, info->name) && index-- == 0) {
            char range[96];
            range_text(info, range, sizeof range);
            *row = (struct option_row){strcmp(info->group, "model") == 0 ? ROW_MODEL : ROW_COMPARISON, info->name,
                                       info->choices                      ? info->choices
                                       : info->type == L3A_OPTION_INTEGER ? "N"
                                                                          : "X",
                                       "", NULL};
            snprintf(row->text, sizeof row->text, "%s %s", info->help, range);
            return true;
        }
    }
    return false;
}

/* Prints a text in lines of at most `columns`, indented by `indent`; the cursor is already there. */
static void print_wrapped(FILE *to, const char *text, int indent, int columns) {
    int at = indent;
    while (*text) {
        char word[256];
        const size_t length = strcspn(text, " \n");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (at > indent && at + 1 + display_width(word) > columns) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        }
        at += fprintf(to, "%s", at > indent ? " " : "") + display_width(word);
        fprintf(to, "%s", word);
        text += length;
        if (*text == '\n') {
            fprintf(to, "\n%*s", text[1] ? indent : 0, "");
            at = indent;
        }
        text += *text != '\0';
    }
    fprintf(to, "\n");
}

/* The bytes of a list of choices that fit into `columns`: up to a bar, if it is too long. */
static size_t fitting_choices(const char *text, int columns) {
    size_t length = fitting_bytes(text, columns);
    if (text[length]) {
        const size_t most = length;
        while (length && text[length - 1] != '|') {
            length--;
        }
        length = length ? length : most;
    }
    return length;
}

static void print_entry(FILE *to, const char *left, const char *text, int columns) {
    const int indent = columns < 70 ? 8 : 37;
    const size_t length = fitting_choices(left, columns - 2);
    const int width = display_width(left);
    fprintf(to, "  %.*s", (int)length, left);
    if (left[length]) {
        fprintf(to, "\n%*s%s", indent - 2, "", left + length);
    }
    if (2 + width < indent) {
        fprintf(to, "%*s", indent - 2 - width, "");
    } else {
        fprintf(to, "\n%*s", indent, "");
    }
    print_wrapped(to, text, indent, columns);
}

static void print_heading(FILE *to, const char *heading) {
    fprintf(to, "\n%s%s:%s\n", style(to, STYLE_BOLD), heading, style(to, STYLE_PLAIN));
}

static void print_options(FILE *to, const struct command *command, int columns) {
    struct option_row row;
    enum option_source source = ROW_SOURCES;
    for (size_t i = 0; option_row(command, i, &row); i++) {
        char left[96];
        if (row.source != source) {
            print_heading(to, option_headings[row.source]);
        }
        source = row.source;
        snprintf(left, sizeof left, "%s%s%s%s", row.name[1] ? "--" : "-", row.name, row.value ? " " : "",
                 row.value ? row.value : "");
        print_entry(to, left, row.text, columns);
    }
}

static void print_examples(FILE *to, const char *examples) {
    print_heading(to, "examples");
    for (const char *line = examples; *line; line += strcspn(line, "\n") + 1) {
        fprintf(to, "  %.*s\n", (int)strcspn(line, "\n"), line);
    }
}

static void print_vocabulary(FILE *to, const struct vocabulary *vocabulary, int columns) {
    const char *name, *help;
    if (vocabulary) {
        print_heading(to, vocabulary->heading);
    }
    for (size_t i = 0; vocabulary && vocabulary->at(i, &name, &help); i++) {
        print_entry(to, name, help, columns);
    }
}

void print_help(FILE *to, const struct command *command) {
    const struct manual *manual = manual_find(command->name);
    const int columns = terminal_columns(to);
    char usage[256];
    snprintf(usage, sizeof usage, "l3a %s%s%s\n", command->name, command->usage[0] ? " " : "", command->usage);
    fprintf(to, "usage: ");
    print_wrapped(to, usage, 7, columns);
    print_wrapped(to, command->help, 0, columns);
    if (manual) {
        fprintf(to, "\n");
        print_wrapped(to, manual->details, 0, columns < 100 ? columns : 100);
    }
    print_options(to, command, columns);
    if (manual) {
        print_examples(to, manual->examples);
    }
    print_heading(to, "exit codes");
    for (size_t i = 0; exit_codes[i][0]; i++) {
        print_entry(to, exit_codes[i][0], exit_codes[i][1], columns);
    }
    for (const struct option *option = command->options; option->name; option++) {
        print_vocabulary(to, vocabulary_of(command, option->name), columns);
    }
}

/* Includes the usage of the command if there is room. */
static void print_overview_line(FILE *to, const struct command *command, int columns) {
    const bool wide = columns >= 120;
    const int padding = 54 - display_width(command->usage);
    fprintf(to, "  l3a %-8s ", command->name);
    if (wide) {
        fprintf(to, "%s%*s ", command->usage, padding > 0 ? padding : 0, "");
    }
    print_wrapped(to, command->help, wide ? 70 : 15, columns);
}

void print_overview(FILE *to) {
    const int columns = terminal_columns(to);
    fprintf(to, "l3a %s: teach an image tagger new tags without forgetting the old ones\n", l3a_version());
    for (const struct command *command = commands; command->name; command++) {
        if (command == commands || strcmp(command->group, command[-1].group) != 0) {
            print_heading(to, command->group);
        }
        print_overview_line(to, command, columns);
    }
    fprintf(to, "\nRun 'l3a help COMMAND' for details.\n'l3a --citation' says what to cite.\n");
}

int help_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "text|man|bash|zsh|fish", "text");
    const char *name = arguments->positional_count ? arguments->positionals[0] : NULL;
    const struct command *command = name ? command_find(name) : NULL;
    if (!format) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count > 1) {
        return complain(arguments, "name one command only");
    }
    if (name && !command) {
        return unknown_command(name);
    }
    if (strcmp(format, "man") == 0) {
        print_man_page(command);
    } else if (strcmp(format, "text") != 0) {
        if (command) {
            return complain(arguments, "--format %s makes one script for all commands; leave '%s' out", format, name);
        }
        print_completion(format);
    } else if (command) {
        print_help(stdout, command);
    } else {
        print_overview(stdout);
    }
    return EXIT_DONE;
}
