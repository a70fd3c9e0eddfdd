/* Completion scripts for bash, zsh and fish: commands, options, choices, methods and presets, data sets, files and folders, from
 * the same tables as the help. */
#include "cli.h"

#include <ctype.h>
#include <string.h>

#undef printf /* only prints the program's own texts, on several lines */

/* What a value can be. */
enum kind { KIND_ANY, KIND_CHOICE, KIND_NAMES, KIND_DATASET, KIND_FILE, KIND_FOLDER, KIND_COMMAND };

static const struct {
    const char *word;
    enum kind kind;
} kinds[] = {
    {"FILE", KIND_FILE},  {"F", KIND_FILE},        {"MODEL", KIND_FILE},      {"PICTURE", KIND_FILE},    {"HOW", KIND_FILE},
    {"DIR", KIND_FOLDER}, {"FOLDER", KIND_FOLDER}, {"DATASET", KIND_DATASET}, {"COMMAND", KIND_COMMAND},
};

static enum kind word_kind(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].word) == length && strncmp(kinds[i].word, word, length) == 0) {
            return kinds[i].kind;
        }
    }
    return memchr(word, '.', length) ? KIND_FILE : KIND_ANY; /* "Y.npy", "FILE.html" */
}

static enum kind value_kind(const struct option_row *row) {
    const char *more = strstr(row->value, "…"); /* may be given several times */
    const size_t length = more ? (size_t)(more - row->value) : strlen(row->value);
    return strchr(row->value, '|') ? KIND_CHOICE : row->vocabulary ? KIND_NAMES : word_kind(row->value, length);
}

/* The kind of the positional arguments, from the first word of the usage. */
static enum kind positional_kind(const struct command *command) {
    const char *word = command->usage + (command->usage[0] == '[');
    size_t length = 0;
    while (isupper((unsigned char)word[length])) {
        length++;
    }
    return word_kind(word, length);
}

/* Prints text for use inside single quotes; `plain` also escapes the brackets and colons that zsh would interpret. */
static void print_quoted(const char *text, bool plain) {
    for (; *text; text++) {
        if (*text == '\'') {
            printf("'\\''");
        } else {
            printf(plain && strchr("[]:\\", *text) ? "\\%c" : "%c", *text);
        }
    }
}

static void print_choices(const char *choices) {
    for (; *choices; choices++) {
        putchar(*choices == '|' ? ' ' : *choices);
    }
}

static void print_names(const struct vocabulary *vocabulary) {
    const char *name, *help;
    for (size_t i = 0; vocabulary->at(i, &name, &help); i++) {
        printf("%s%s", i ? " " : "", name);
    }
}

static void print_commands(void) {
    for (const struct command *command = commands; command->name; command++) {
        printf("%s%s", command > commands ? " " : "", command->name);
    }
}

static const char *dashes(const struct option_row *row) {
    return row->name[1] ? "--" : "-";
}

/* ---- bash: '=' and ':' are separate words there, so a value may be two words after its option. ---- */
static void print_bash_value(enum kind kind, const struct option_row *row) {
    switch (kind) {
    case KIND_CHOICE:
        printf("words '");
        print_choices(row->value);
        printf("'");
        break;
    case KIND_NAMES:
        printf("a_list '");
        print_names(row->vocabulary);
        printf("'");
        break;
    case KIND_COMMAND:
        printf("words '");
        print_commands();
        printf("'");
        break;
    case KIND_DATASET: printf("dataset"); break;
    case KIND_FILE: printf("paths -f"); break;
    case KIND_FOLDER: printf("paths -d"); break;
    case KIND_ANY: printf("nothing"); break;
    }
}

static void print_bash_command(const struct command *command) {
    struct option_row row;
    printf("    %s)\n        case $before in\n", command->name);
    for (size_t i = 0; option_row(command, i, &row); i++) {
        if (row.value) {
            printf("        %s%s) _l3a_", dashes(&row), row.name);
            print_bash_value(value_kind(&row), &row);
            printf("; return ;;\n");
        }
    }
    printf("        esac\n        case $current in\n        -*) _l3a_words '");
    for (size_t i = 0; option_row(command, i, &row); i++) {
        printf("%s%s%s", i ? " " : "", dashes(&row), row.name);
    }
    printf("' ;;\n        *) _l3a_");
    print_bash_value(positional_kind(command), NULL);
    printf(" ;;\n        esac\n        ;;\n");
}

static void print_bash(void) {
    printf("# bash completion for l3a, made by: l3a help --format bash\n"
           "_l3a_words() {\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
           "}\n"
           "_l3a_paths() {\n"
           "    compopt -o filenames 2>/dev/null\n"
           "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$current\")\n"
           "}\n"
           "_l3a_nothing() {\n"
           "    COMPREPLY=()\n"
           "}\n"
           "# Names separated by commas: keep those already typed.\n"
           "_l3a_a_list() {\n"
           "    local start=\n"
           "    [[ $current != *,* ]] || start=${current%%,*},\n"
           "    compopt -o nospace 2>/dev/null\n"
           "    mapfile -t COMPREPLY < <(compgen -P \"$start\" -W \"$1\" -- \"${current##*,}\")\n"
           "}\n"
           "_l3a_dataset() {\n"
           "    case $kind in\n"
           "    list) _l3a_paths -f ;;\n"
           "    voc | coco | folders) _l3a_paths -d ;;\n"
           "    *)\n"
           "        compopt -o nospace 2>/dev/null\n"
           "        _l3a_words 'voc: coco: list: folders: tar:'\n"
           "        ;;\n"
           "    esac\n"
           "}\n"
           "_l3a() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) kind=\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        _l3a_words '");
    print_commands();
    printf(" --citation --help --version'\n"
           "        return\n"
           "    fi\n"
           "    # '=' and ':' are separate words\n"
           "    if [[ $current == : ]]; then\n"
           "        current= kind=${COMP_WORDS[at]} at=$((at - 1))\n"
           "    elif [[ ${COMP_WORDS[at]} == : ]]; then\n"
           "        kind=${COMP_WORDS[at - 1]} at=$((at - 2))\n"
           "    elif [[ $current =~ ^(voc|coco|list): ]]; then\n"
           "        kind=${current%%%%:*}\n"
           "    fi\n"
           "    [[ $current != = ]] || current=\n"
           "    [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))\n"
           "    local before=${COMP_WORDS[at]}\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (const struct command *command = commands; command->name; command++) {
        print_bash_command(command);
    }
    printf("    esac\n}\ncomplete -F _l3a l3a\n");
}

/* ---- zsh ---- */
static void print_zsh_value(enum kind kind, const struct option_row *row) {
    switch (kind) {
    case KIND_CHOICE:
        printf("(");
        print_choices(row->value);
        printf(")");
        break;
    case KIND_NAMES:
        printf("_values -s , name ");
        print_names(row->vocabulary);
        break;
    case KIND_COMMAND:
        printf("(");
        print_commands();
        printf(")");
        break;
    case KIND_DATASET: printf("_l3a_dataset"); break;
    case KIND_FILE: printf("_files"); break;
    case KIND_FOLDER: printf("_files -/"); break;
    case KIND_ANY: printf(" "); break;
    }
}

static void print_zsh_command(const struct command *command) {
    struct option_row row;
    printf("    %s)\n        _arguments", command->name);
    for (size_t i = 0; option_row(command, i, &row); i++) {
        printf(" \\\n            '%s%s%s[", dashes(&row), row.name, row.value && row.name[1] ? "=" : "");
        print_quoted(row.text, true);
        printf("]");
        if (row.value) {
            printf(":");
            print_quoted(row.value, true);
            printf(":");
            print_zsh_value(value_kind(&row), &row);
        }
        printf("'");
    }
    if (positional_kind(command) != KIND_ANY) {
        printf(" \\\n            '*:argument:");
        print_zsh_value(positional_kind(command), NULL);
        printf("'");
    }
    printf("\n        ;;\n");
}

static void print_zsh(void) {
    printf("#compdef l3a\n"
           "# zsh completion for l3a, made by: l3a help --format zsh\n"
           "_l3a_dataset() {\n"
           "    if compset -P 'list:'; then\n"
           "        _files -g '*.csv'\n"
           "    elif compset -P '(voc|coco|folders):'; then\n"
           "        _files -/\n"
           "    else\n"
           "        compadd -S '' voc: coco: list: folders: tar:\n"
           "    fi\n"
           "}\n"
           "_l3a() {\n"
           "    local -a commands\n"
           "    commands=(\n");
    for (const struct command *command = commands; command->name; command++) {
        printf("        '%s:", command->name);
        print_quoted(command->help, true);
        printf("'\n");
    }
    printf("    )\n"
           "    if ((CURRENT == 2)); then\n"
           "        _describe command commands\n"
           "        compadd -- --citation --help --version\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    ((CURRENT--))\n"
           "    case $words[1] in\n");
    for (const struct command *command = commands; command->name; command++) {
        print_zsh_command(command);
    }
    printf("    esac\n}\nif [[ $funcstack[1] == _l3a ]]; then\n    _l3a \"$@\"\nelse\n    compdef _l3a l3a\nfi\n");
}

/* ---- fish ---- */
static void print_fish_value(enum kind kind, const struct option_row *row) {
    switch (kind) {
    case KIND_CHOICE:
        printf(" -x -a '");
        print_choices(row->value);
        printf("'");
        break;
    case KIND_NAMES:
        printf(" -x -a '(__fish_complete_list , \"string split \\\" \\\" \\\"");
        print_names(row->vocabulary);
        printf("\\\"\")'");
        break;
    case KIND_COMMAND:
        printf(" -x -a '");
        print_commands();
        printf("'");
        break;
    case KIND_DATASET: printf(" -x -a '(__l3a_dataset)'"); break;
    case KIND_FILE: printf(" -r -F"); break;
    case KIND_FOLDER: printf(" -x -a '(__fish_complete_directories)'"); break;
    case KIND_ANY: printf(" -x"); break;
    }
}

static void print_fish_command(const struct command *command) {
    struct option_row row;
    printf("complete -c l3a -n '__l3a_at 1' -f -a %s -d '", command->name);
    print_quoted(command->help, false);
    printf("'\n");
    for (size_t i = 0; option_row(command, i, &row); i++) {
        printf("complete -c l3a -n '__l3a_in %s' -%c %s", command->name, row.name[1] ? 'l' : 's', row.name);
        if (row.value) {
            print_fish_value(value_kind(&row), &row);
        }
        printf(" -d '");
        print_quoted(row.text, false);
        printf("'\n");
    }
    if (positional_kind(command) == KIND_FILE) {
        printf("complete -c l3a -n '__l3a_in %s' -F\n", command->name);
    } else if (positional_kind(command) != KIND_ANY) {
        printf("complete -c l3a -n '__l3a_in %s'", command->name);
        print_fish_value(positional_kind(command), NULL);
        printf("\n");
    }
}

static void print_fish(void) {
    printf("# fish completion for l3a, made by: l3a help --format fish\n"
           "function __l3a_at\n"
           "    test (count (commandline -opc)) -eq $argv[1]\n"
           "end\n"
           "function __l3a_in\n"
           "    set -l words (commandline -opc)\n"
           "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
           "end\n"
           "function __l3a_dataset\n"
           "    set -l parts (string split -m 1 : -- (commandline -ct))\n"
           "    if test (count $parts) -lt 2\n"
           "        printf '%%s\\n' voc: coco: list: folders: tar:\n"
           "    else if test $parts[1] = list\n"
           "        printf \"list:%%s\\n\" (__fish_complete_path $parts[2] | string replace -r '\\t.*' '')\n"
           "    else\n"
           "        printf \"$parts[1]:%%s\\n\" (__fish_complete_directories $parts[2] | string replace -r '\\t.*' '')\n"
           "    end\n"
           "end\n"
           "complete -c l3a -f\n"
           "complete -c l3a -n '__l3a_at 1' -l citation -d 'what to cite'\n"
           "complete -c l3a -n '__l3a_at 1' -l help -d 'the commands'\n"
           "complete -c l3a -n '__l3a_at 1' -l version -d 'the version'\n");
    for (const struct command *command = commands; command->name; command++) {
        print_fish_command(command);
    }
}

void print_completion(const char *shell) {
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else {
        print_fish();
    }
}
