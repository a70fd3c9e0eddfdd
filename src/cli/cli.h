/* What the commands share: their table, their arguments, and how they speak. Commands know l3a.h and nothing private. */
#ifndef L3A_CLI_H
#define L3A_CLI_H

#include "l3a/l3a.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* In this folder printf and fprintf are these, so that no call can forget it: what %s inserts may be a stranger's (the name of a
 * class, a path, the text of an error), and is shown as one line of visible text. Bytes that a terminal would obey, or that are no
 * UTF-8, become \x1b or \u202e; only a newline at the very end stays. Formats, and what fputs writes, are the program's own. */
__attribute__((format(printf, 2, 3))) int print_to(FILE *to, const char *format, ...);
__attribute__((format(printf, 2, 0))) int print_list_to(FILE *to, const char *format, va_list list);
#define printf(...) print_to(stdout, __VA_ARGS__)
#define fprintf(...) print_to(__VA_ARGS__)

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum { OPTIONS = 24, POSITIONALS = 256, SETTINGS = 64 };

enum takes_settings { NO_SETTINGS, MODEL_SETTINGS, ALL_SETTINGS };

struct option {
    const char *name;  /* "features"; "o" is -o */
    const char *value; /* what stands for its value in the help; NULL for a switch */
    const char *help;
};

struct arguments;

struct command {
    const char *name, *usage, *help;
    const struct option *options; /* ended by a NULL name */
    enum takes_settings settings; /* that it takes, too, by the library's table */
    int (*run)(struct arguments *arguments);
};

extern const struct command commands[]; /* ended by a NULL name */
const struct command *command_find(const char *name);
/* An explanation on stderr; returns EXIT_USAGE. */
int unknown_command(const char *name);

/* The options that every command has. */
extern const struct option common_options[];

/* What help and manual pages say of a command beyond its options; NULL where there is nothing. */
struct manual {
    const char *command, *details, *examples;
};

const struct manual *manual_find(const char *command);
extern const char *const exit_codes[][2]; /* code, meaning; ended by NULL */

/* The options of a command one after another: its own, those of every command, and the method's settings, where it takes them. */
enum option_source { ROW_OPTION, ROW_MODEL, ROW_COMPARISON, ROW_SOURCES };
extern const char *const option_headings[ROW_SOURCES];

struct option_row {
    enum option_source source;
    const char *name, *value;            /* as in struct option */
    char text[256];                      /* help, range, default */
    const struct vocabulary *vocabulary; /* the values it can have, where they are a table of their own; else NULL */
};

bool option_row(const struct command *command, size_t index, struct option_row *row);
bool takes_setting(const struct command *command, const l3a_option_info *info);

/* What the values of an option can be, where that is a table of its own: methods, presets. */
struct vocabulary {
    const char *option, *heading;
    /* Neither is NULL; false past the last. */
    bool (*at)(size_t index, const char **name, const char **help);
};

/* The one of a command's option; NULL where it has none. */
const struct vocabulary *vocabulary_of(const struct command *command, const char *option);

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
    const char *program;                 /* what to type to start this program again */
    const char *line;                    /* the command line: as it was typed, or with --resume as the folder records it */
    const char *directory;               /* where relative paths in it start */
    bool resumed;                        /* the line is the folder's */
    char *owned[OPTIONS + SETTINGS + 3]; /* texts made by --resume */
    size_t owned_count;
};

/* Adds to `--resume -o DIR` the options that the folder records; anything but EXIT_DONE has been explained on stderr. */
int resume_arguments(struct arguments *arguments, int *threads);
/* After data of a resumed run could not be opened: what to do. */
void hint_at_moved_data(const struct arguments *arguments, l3a_status status);
/* After an interruption: what is there ("phases", "points"), and what to type. */
void hint_at_resuming(const struct arguments *arguments, const char *what, const char *folder);

/* Fills the arguments; anything but EXIT_DONE has been explained on stderr. *threads: --threads, or 0. */
int arguments_parse(struct arguments *arguments, int count, char **texts, int *threads);
/* The value of one of the command's options; NULL when it was not given. */
const char *argument(const struct arguments *arguments, const char *name);
/* argument() or, where it was not given, an explanation on stderr and NULL. */
const char *argument_needed(const struct arguments *arguments, const char *name);
/* A number from low to high; false, explained, when it is not. *value stays when the option was not given. */
bool argument_number(const struct arguments *arguments, const char *name, double low, double high, double *value);
/* The same of whole numbers. */
bool argument_integer(const struct arguments *arguments, const char *name, uint64_t low, uint64_t high, uint64_t *value);
/* One of "a|b|c", or the fallback when not given; NULL, explained, when it is something else. */
const char *argument_choice(const struct arguments *arguments, const char *name, const char *choices, const char *fallback);
/* False, explained, where labels or names are given beside a feature file that has its own: they are for .npy files. */
bool argument_labels_fit(const struct arguments *arguments, const char *features, const char *labels);
/* Warns of settings given on the command line that a model with these options does not look at. */
void warn_of_idle_settings(const struct arguments *arguments, const l3a_options *options);
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
/* What --list-methods says. */
void print_methods(FILE *to);
/* Of l3a itself where the command is NULL. */
void print_man_page(const struct command *command);
void print_completion(const char *shell);

/* Events, as a bar on a terminal and as lines elsewhere, on stderr. */
void progress_start(bool quiet);
void progress_show(const char *stage, uint64_t done, uint64_t total);
/* Takes the bar away; before anything else is written to a terminal. */
void progress_clear(void);
int show_event(const l3a_event *event, void *user);
/* Set by Ctrl-C. */
extern volatile sig_atomic_t interrupted;

/* Whether a path is that of a NumPy file. */
bool is_npy(const char *path);
/* A feature file, or .npy files. */
l3a_status open_features(l3a_context *context, const char *path, const char *labels, const char *names, l3a_features **features);

/* --pool, --size, --mean, --std and --filter; false, explained, when one makes no sense. */
bool backbone_arguments(const struct arguments *arguments, l3a_backbone_options *options);

/* What switches a style on, where the stream shows it: a terminal, unless NO_COLOR or TERM say otherwise. "" elsewhere. */
enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_ERROR, STYLE_UNDERLINED };

const char *style(FILE *to, enum style wanted);
/* A line on stderr below an error: what to do about it. */
__attribute__((format(printf, 1, 2))) void print_hint(const char *format, ...);

/* What a terminal would obey is escaped as JSON can, and bytes that are no UTF-8 become U+FFFD. */
void print_json_string(const char *text);
/* As it is, in quotes where needed; on a terminal as printf shows it. */
void print_csv_field(const char *text);
struct tag {
    size_t index; /* of the class */
    double score;
    bool chosen;
};

/* Which tags are shown: so many, or where top is 0 those above a score, or where that is not a number those above the model's own
 * thresholds; and how wide a row's name is. */
struct choice {
    uint64_t top;
    double threshold;
    const double *thresholds; /* scores */
    int width;
};

/* All tags of a row of scores, the chosen ones first, each by falling score; returns how many are chosen. */
size_t choose_tags(const l3a_model *model, const float *scores, struct choice choice, struct tag *tags);

/* The checkpoint that the demo uses. */
const char *demo_backbone_bytes(size_t *count);

/* The word that goes with a number: "1 picture", "2 pictures". */
const char *plural(uint64_t count, const char *one, const char *many);
/* Words as a shell reads them: one with quotes where it needs them; several as one line, to be freed; and a line taken apart, in
 * its own place. split_words() returns how many words there are, of which the first `capacity` are stored. */
void write_word(FILE *to, const char *word);
char *join_words(size_t count, const char *const *words);
size_t split_words(char *line, char **words, size_t capacity);

/* "12.3 GiB" */
const char *size_text(uint64_t bytes, char text[32]);
/* Columns a text takes on a terminal, as printf shows it. */
int display_width(const char *text);
/* Bytes at the beginning of a text, whole characters, that fit into so many columns. */
size_t fitting_bytes(const char *text, int columns);
/* Whether a stream goes to a terminal that understands more than lines. */
bool is_terminal(FILE *to);
/* Columns of the terminal a stream goes to; a large number where it goes elsewhere. */
int terminal_columns(FILE *to);

int data_command(struct arguments *arguments);
int run_command(struct arguments *arguments);
int sweep_command(struct arguments *arguments);
int learn_command(struct arguments *arguments);
int merge_command(struct arguments *arguments);
int forget_command(struct arguments *arguments);
int eval_command(struct arguments *arguments);
int extract_command(struct arguments *arguments);
int predict_command(struct arguments *arguments);
int info_command(struct arguments *arguments);
int report_command(struct arguments *arguments);
int doctor_command(struct arguments *arguments);
int demo_command(struct arguments *arguments);
int help_command(struct arguments *arguments);

extern const struct option data_options[], merge_options[], forget_options[], run_options[], sweep_options[], learn_options[],
    eval_options[], predict_options[], extract_options[], info_options[], report_options[], doctor_options[], demo_options[],
    help_options[];

/* The tables of a run, as people read them; "summary": only the one over all phases. */
l3a_status print_results(l3a_context *context, const l3a_results *results, const char *format);

#endif
