/* What the commands share: their table, their arguments, and how they speak. Commands know l3a.h and nothing private. */
#ifndef L3A_CLI_H
#define L3A_CLI_H

#include "l3a/l3a.h"

#include <stdbool.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum { OPTIONS = 24, POSITIONALS = 256, SETTINGS = 32 };

struct option {
    const char *name;  /* "features"; "o" is -o */
    const char *value; /* what stands for its value in the help; NULL for a switch */
    const char *help;
};

struct arguments;

struct command {
    const char *name, *usage, *help;
    const struct option *options; /* ended by a NULL name */
    bool settings;                /* takes the method's settings, too */
    int (*run)(struct arguments *arguments);
};

extern const struct command commands[]; /* ended by a NULL name */
const struct command *command_find(const char *name);

/* A command line taken apart. */
struct arguments {
    l3a_context *context;
    const struct command *command;
    const char *values[OPTIONS]; /* of the command's options, in its order */
    const char *positionals[POSITIONALS];
    size_t positional_count;
    const char *setting_names[SETTINGS], *setting_values[SETTINGS];
    size_t setting_count;
    bool quiet;
    const char *line; /* as it was typed */
};

/* Fills the arguments; anything but EXIT_DONE has been explained on stderr. *threads: --threads, or 0. */
int arguments_parse(struct arguments *arguments, int count, char **texts, int *threads);
/* The value of one of the command's options; NULL when it was not given. */
const char *argument(const struct arguments *arguments, const char *name);
/* argument() or, where it was not given, an explanation on stderr and NULL. */
const char *argument_needed(const struct arguments *arguments, const char *name);
/* A number from low to high; false, explained, when it is not. *value stays when the option was not given. */
bool argument_number(const struct arguments *arguments, const char *name, double low, double high, double *value);
/* One of "a|b|c", or the fallback when not given; NULL, explained, when it is something else. */
const char *argument_choice(const struct arguments *arguments, const char *name, const char *choices, const char *fallback);
/* The settings given on the command line, put into options. */
l3a_status apply_settings(const struct arguments *arguments, l3a_options *options);

/* Lists separated by commas; a value that starts with @ names a file with an item a line. */
struct list {
    char *text;
    const char **items;
    size_t count;
};

bool list_parse(const char *value, struct list *list);
void list_free(struct list *list);

/* The error of the context, with its hint, and the exit code for it. */
int explain(const struct arguments *arguments, l3a_status status);
__attribute__((format(printf, 2, 3))) int complain(const struct arguments *arguments, const char *format, ...);

void print_help(FILE *to, const struct command *command);
void print_overview(FILE *to);

/* Events, as a bar on a terminal and as lines elsewhere. */
struct progress {
    bool quiet, terminal, bar_shown;
    double started, shown;
    char stage[32];
};

int show_event(const l3a_event *event, void *progress);
void progress_end(struct progress *progress);
/* Set by Ctrl-C. */
extern volatile int interrupted;

/* A feature file, or .npy files. */
l3a_status open_features(l3a_context *context, const char *path, const char *labels, const char *names, l3a_features **features);

/* --pool, --size, --mean, --std and --filter; false, explained, when one makes no sense. */
bool backbone_arguments(const struct arguments *arguments, l3a_backbone_options *options);

void print_json_string(const char *text);
void print_csv_field(const char *text);
/* "12.3 GiB" */
const char *size_text(uint64_t bytes, char text[32]);
/* Columns a text takes on a terminal. */
int display_width(const char *text);

int data_command(struct arguments *arguments);
int run_command(struct arguments *arguments);
int sweep_command(struct arguments *arguments);
int learn_command(struct arguments *arguments);
int eval_command(struct arguments *arguments);
int extract_command(struct arguments *arguments);
int predict_command(struct arguments *arguments);
int info_command(struct arguments *arguments);
int doctor_command(struct arguments *arguments);
int demo_command(struct arguments *arguments);

extern const struct option data_options[], run_options[], sweep_options[], learn_options[], eval_options[], predict_options[],
    extract_options[], info_options[], doctor_options[], demo_options[];

/* The tables of a run, as people read them. */
l3a_status print_results(l3a_context *context, const l3a_results *results, const char *format);

#endif
