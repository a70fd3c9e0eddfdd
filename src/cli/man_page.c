/* Manual pages, as roff: l3a(1), and l3a-COMMAND(1) for each command. */
#include "cli.h"

#include "common/utf8.h"

#include <ctype.h>
#include <string.h>

#undef printf /* only prints the program's own texts, on several lines */

/* Escapes text so that roff shows it unchanged, with one paragraph per line. */
static void print_roff(const char *text, const char *paragraph) {
    bool first = true;
    while (*text) {
        uint32_t code;
        text += utf8_decode(text, &code);
        if (first && (code == '.' || code == '\'')) {
            printf("\\&");
        }
        first = code == '\n';
        if (first) {
            printf("\n%s", *text ? paragraph : "");
        } else if (code == '\\') {
            printf("\\e");
        } else if (code == '-') {
            printf("\\-");
        } else if (code == '\'') {
            printf("\\(aq");
        } else if (code >= 0x80) {
            printf("\\[u%04X]", (unsigned)code);
        } else {
            putchar((int)code);
        }
    }
}

static void print_line(const char *text) {
    print_roff(text, "");
    putchar('\n');
}

static void print_entry(const char *name, const char *value, const char *text) {
    printf(".TP\n\\fB");
    print_roff(name, "");
    printf("\\fR");
    if (value) {
        printf(" \\fI");
        print_roff(value, "");
        printf("\\fR");
    }
    printf("\n");
    print_line(text);
}

static void print_section(const char *title) {
    printf(".SH ");
    for (; *title; title++) {
        putchar(toupper((unsigned char)*title));
    }
    printf("\n");
}

static void print_options(const struct command *command) {
    struct option_row row;
    enum option_source source = ROW_SOURCES;
    for (size_t i = 0; option_row(command, i, &row); i++) {
        char name[64];
        if (row.source != source) {
            print_section(option_headings[row.source]);
        }
        source = row.source;
        snprintf(name, sizeof name, "%s%s", row.name[1] ? "--" : "-", row.name);
        print_entry(name, row.value, row.text);
    }
}

static void print_vocabulary(const struct vocabulary *vocabulary) {
    const char *name, *help;
    if (vocabulary) {
        print_section(vocabulary->heading);
    }
    for (size_t i = 0; vocabulary && vocabulary->at(i, &name, &help); i++) {
        print_entry(name, NULL, help);
    }
}

static void print_examples(const char *examples) {
    bool typed = false;
    printf(".SH EXAMPLES\n");
    for (const char *line = examples; *line; line += strcspn(line, "\n") + 1) {
        char text[512];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        const bool command = strncmp(text, "  ", 2) == 0;
        if (command != typed) {
            printf(command ? ".PP\n.RS 4\n.nf\n" : ".fi\n.RE\n");
        }
        if (!command && line > examples) {
            printf(".PP\n");
        }
        print_line(command ? text + 2 : text);
        typed = command;
    }
    printf("%s", typed ? ".fi\n.RE\n" : "");
}

static void print_exit_codes(void) {
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; exit_codes[i][0]; i++) {
        print_entry(exit_codes[i][0], NULL, exit_codes[i][1]);
    }
}

static void print_environment(void) {
    printf(".SH ENVIRONMENT\n");
    print_entry("NO_COLOR", NULL, "If set and not empty, no colours are used.");
    print_entry("TERM", NULL, "If unset or \"dumb\", no colours are used, and progress is printed as lines instead of a bar.");
    print_entry("OPENBLAS_CORETYPE", NULL,
                "Kernels of the matrix library. If it is not set and the library would choose outdated ones, l3a sets it.");
    print_entry("L3A_ALONE", NULL,
                "If set to 1, processes that mpirun or srun started together have nothing to do with each other.");
    print_entry("L3A_PLUGIN_PATH", NULL, "The folder of the plug-ins. If it is not set, they are looked for beside the library.");
}

static void print_command(const struct command *command) {
    const struct manual *manual = manual_find(command->name);
    printf(".TH L3A\\-");
    for (const char *c = command->name; *c; c++) {
        putchar(toupper((unsigned char)*c));
    }
    printf(" 1 \"\" \"l3a %s\" \"l3a\"\n.SH NAME\nl3a\\-%s \\- ", l3a_version(), command->name);
    print_line(command->help);
    printf(".SH SYNOPSIS\n\\fBl3a %s\\fR ", command->name);
    print_line(command->usage);
    if (manual) {
        printf(".SH DESCRIPTION\n");
        print_roff(manual->details, ".PP\n");
        printf("\n");
    }
    print_options(command);
    for (const struct option *option = command->options; option->name; option++) {
        print_vocabulary(vocabulary_of(command, option->name));
    }
    if (manual) {
        print_examples(manual->examples);
    }
    print_exit_codes();
    printf(".SH SEE ALSO\n\\fBl3a\\fR(1)\n");
}

static void print_overview_page(void) {
    printf(".TH L3A 1 \"\" \"l3a %s\" \"l3a\"\n.SH NAME\nl3a \\- teach an image tagger new tags without forgetting the old ones\n",
           l3a_version());
    printf(".SH SYNOPSIS\n\\fBl3a\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n.SH DESCRIPTION\n");
    print_roff(
        "l3a learns tags from a few pictures and gives them to others. New tags, more pictures and corrections can be taught at "
        "any time, without the old pictures. A trained network turns pictures into features, and a ridge classifier learns from "
        "these in closed form, as in Label-Augmented Analytic Adaptation (L3A, ICML 2025).\n"
        "Begin with 'l3a teach' and 'l3a tag', or with 'l3a serve --demo', which needs no pictures of yours. 'l3a run' compares "
        "the paper's method with others, phase by phase.\n"
        "Results go to the standard output, progress and messages to the standard error.",
        ".PP\n");
    printf("\n.SH COMMANDS\n");
    for (const struct command *command = commands; command->name; command++) {
        char name[64];
        snprintf(name, sizeof name, "l3a %s", command->name);
        print_entry(name, command->usage, command->help);
    }
    print_exit_codes();
    print_environment();
    printf(".SH SEE ALSO\n");
    for (const struct command *command = commands; command->name; command++) {
        printf("\\fBl3a\\-%s\\fR(1)%s\n", command->name, command[1].name ? "," : "");
    }
}

void print_man_page(const struct command *command) {
    if (command) {
        print_command(command);
    } else {
        print_overview_page();
    }
}
