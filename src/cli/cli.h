/* What the commands share: their table, their arguments, and how they print. Commands use only the public interface, l3a.h. */
#ifndef L3A_CLI_H
#define L3A_CLI_H

#include "l3a/l3a_experiment.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* In this folder, printf and fprintf are these functions, so that no call can forget to escape. A text inserted with %s may come
 * from a stranger (the name of a class, a path, an error message), and is shown as one line of visible text: bytes that a terminal
 * would obey, or that are not UTF-8, become \x1b or \u202e, and only a newline at the very end stays. Formats, and texts written
 * with fputs, are the program's own. */
__attribute__((format(printf, 2, 3))) int print_to(FILE *to, const char *format, ...);
__attribute__((format(printf, 2, 0))) int print_list_to(FILE *to, const char *format, va_list list);
#define printf(...) print_to(stdout, __VA_ARGS__)
#define fprintf(...) print_to(__VA_ARGS__)

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum { OPTIONS = 64, SETTINGS = 64, REPEATED = 256 };

enum takes_settings { NO_SETTINGS, MODEL_SETTINGS, ALL_SETTINGS };

struct option {
    const char *name;  /* "features"; "o" is -o */
    const char *value; /* placeholder for its value in the help; NULL for a switch. "NAME…": it may be given several times */
    const char *help;
};

struct arguments;

struct command {
    const char *group; /* what people want to do with it */
    const char *name, *usage, *help;
    const struct option *options; /* ended by a NULL name */
    enum takes_settings settings; /* which of the library's settings it also takes */
    int (*run)(struct arguments *arguments);
};

extern const struct command commands[]; /* ended by a NULL name */
const struct command *command_find(const char *name);
/* Explains on stderr; returns EXIT_USAGE. */
int unknown_command(const char *name);

/* The options that every command has. */
extern const struct option common_options[];

/* What the help and the manual page say about a command besides its options; NULL if there is nothing. */
struct manual {
    const char *command, *details, *examples;
};

const struct manual *manual_find(const char *command);
extern const char *const exit_codes[][2]; /* code, meaning; ended by NULL */

/* Lists the options of a command: its own, the common ones, and the settings of the method if it takes them. */
enum option_source { ROW_OPTION, ROW_MODEL, ROW_COMPARISON, ROW_SOURCES };
extern const char *const option_headings[ROW_SOURCES];

struct option_row {
    enum option_source source;
    const char *name, *value;            /* as in struct option */
    char text[256];                      /* help, range, default */
    const struct vocabulary *vocabulary; /* its possible values, if a table lists them; otherwise NULL */
};

bool option_row(const struct command *command, size_t index, struct option_row *row);
bool takes_setting(const struct command *command, const l3a_option_info *info);

/* The possible values of an option, if a table lists them: methods, presets. */
struct vocabulary {
    const char *option, *heading;
    /* Returns false past the last value. Neither pointer is NULL. */
    bool (*at)(size_t index, const char **name, const char **help);
};

/* The vocabulary of an option; NULL if it has none. */
const struct vocabulary *vocabulary_of(const struct command *command, const char *option);

/* A parsed command line. */
struct arguments {
    l3a_context *context;
    const struct command *command;
    const char *values[OPTIONS]; /* in the order of the command's options; of one that is given several times, the first */
    struct {
        size_t option; /* its number among the command's options */
        const char *value;
    } repeated[REPEATED]; /* options that may be given several times, in the order given */
    size_t repeated_count;
    const char *const *positionals; /* at the front of the texts that were parsed */
    size_t positional_count;
    const char *setting_names[SETTINGS], *setting_values[SETTINGS];
    size_t setting_count;
    bool quiet;
    size_t processes;                    /* that were started together; 1: this one is alone */
    size_t locals;                       /* those of them on this machine */
    const char *device;                  /* --device; NULL: it was not given */
    const char *program;                 /* what to type to start this program again */
    const char *line;                    /* the command line as typed or, with --resume, as recorded in the folder */
    const char *directory;               /* the directory that its relative paths start from */
    bool resumed;                        /* the line comes from the folder */
    char *owned[OPTIONS + SETTINGS + 3]; /* texts made by --resume */
    size_t owned_count;
};

/* The processes that were started together with this one; of one that is alone, zeros. */
struct together {
    l3a_context *context; /* for errors of the cluster */
    l3a_cluster *cluster;
    size_t process;
    FILE *errors; /* stderr of a process that keeps what it would print there */
    char *text;   /* what it has kept */
    size_t length;
};

/* Joins the other processes, and silences all but process 0. Any result other than EXIT_DONE has been explained on stderr. */
int together_begin(struct together *together, struct arguments *arguments);
/* Fills in what a context needs to work with the others. */
l3a_status together_join(const struct together *together, l3a_context_options *options);
/* A line of a plan: says so if one process with threads would be faster than the processes on this machine. */
void print_process_plan(FILE *to, const struct arguments *arguments, const l3a_options *settings);
/* Waits for the others. If this process failed while they are at work, it ends them all. Returns the code. */
int together_end(struct together *together, const struct arguments *arguments, int code);

/* Adds the options recorded in the folder to `--resume -o DIR`. Any result other than EXIT_DONE has been explained on stderr. */
int resume_arguments(struct arguments *arguments, int *threads);
/* Says what to do if data of a resumed run could not be opened. */
void hint_at_moved_data(const struct arguments *arguments, l3a_status status);
/* Says, after an interruption, what is saved ("points") and how to resume. */
void hint_at_resuming(const struct arguments *arguments, const char *what, const char *folder);

/* Parses the command line; texts is reordered, and must outlive the arguments. Any result other than EXIT_DONE has been explained
 * on stderr. *threads is --threads, or 0. */
int arguments_parse(struct arguments *arguments, int count, char **texts, int *threads);
/* The value of one of the command's options; NULL if it was not given. */
const char *argument(const struct arguments *arguments, const char *name);
/* The values of an option that may be given several times; NULL past the last. */
const char *argument_each(const struct arguments *arguments, const char *name, size_t index);
/* Like argument(), but explains on stderr if the option was not given. */
const char *argument_needed(const struct arguments *arguments, const char *name);
/* A number from low to high; otherwise explains on stderr and returns false. *value is unchanged if the option was not given. */
bool argument_number(const struct arguments *arguments, const char *name, double low, double high, double *value);
/* The same for whole numbers. */
bool argument_integer(const struct arguments *arguments, const char *name, uint64_t low, uint64_t high, uint64_t *value);
/* One of "a|b|c", or the fallback if the option was not given; otherwise explains on stderr and returns NULL. */
const char *argument_choice(const struct arguments *arguments, const char *name, const char *choices, const char *fallback);
/* Explains on stderr and returns false if labels or names are given with a feature file, which has its own: they are for .npy
 * files. */
bool argument_labels_fit(const struct arguments *arguments, const char *features, const char *labels);
/* Warns about settings on the command line that a model with these options does not use. */
void warn_of_idle_settings(const struct arguments *arguments, const l3a_options *options);
/* Makes options with the settings on the command line, for the caller to free. They may exist even after a failure. */
l3a_status make_settings(const struct arguments *arguments, l3a_options **options);
/* Whether a setting has this value, as text. */
bool setting_is(const l3a_options *options, const char *name, const char *value);

/* A list separated by commas. A value that starts with @ names a file with one item per line. */
struct list {
    char *text;
    const char **items;
    size_t count;
};

bool list_parse(const char *value, struct list *list);
void list_free(struct list *list);

/* Prints the context's error and hint, and returns the exit code for it. */
int explain(const struct arguments *arguments, l3a_status status);
/* The same for an error that another object keeps. */
int explain_error(const struct arguments *arguments, l3a_status status, const char *text, const char *hint);
__attribute__((format(printf, 2, 3))) int complain(const struct arguments *arguments, const char *format, ...);
/* Complains, and adds how the command is used. */
int complain_usage(const struct arguments *arguments, const char *text);
/* How the command is used, as a hint. */
void print_usage(const struct arguments *arguments);

void print_help(FILE *to, const struct command *command);
void print_overview(FILE *to);
/* The output of --list-methods. */
void print_methods(FILE *to);
/* If command is NULL, the page is about l3a itself. */
void print_man_page(const struct command *command);
void print_completion(const char *shell);

/* Shows events on stderr: as a bar on a terminal, and as lines elsewhere. */
void progress_start(bool quiet);
void progress_show(const char *stage, uint64_t done, uint64_t total);
/* Removes the bar. Call it before writing anything else to a terminal. */
void progress_clear(void);
/* From now on only warnings and results are shown. */
void progress_pause(void);
int show_event(const l3a_event *event, void *user);
/* Set by Ctrl-C. */
extern volatile sig_atomic_t interrupted;

/* Whether a path ends in .npy. */
bool is_npy(const char *path);
/* Opens a feature file, or .npy files, and uses only the views that --views asks for, if it is given. */
l3a_status open_features(const struct arguments *arguments, const char *path, const char *labels, const char *names,
                         l3a_features **features);

/* The same for images that are only scored: --score-views counts instead of --views, if it is given. */
l3a_status open_features_to_score(const struct arguments *arguments, const char *path, const char *labels, const char *names,
                                  l3a_features **features);

/* Reads --views 1|5|9|14 of a command that sees pictures; 0 if it is not given. If it is invalid, explains on stderr and returns
 * false. */
bool views_argument(const struct arguments *arguments, size_t *views);
#define POOL_CHOICES "cls|mean|cls+mean|max|map|projection"
#define ACTIVATION_CHOICES "gelu|quick_gelu|tanh_gelu"
#define PRECISION_CHOICES "float32|bf16|float16"
/* The options about a network and its pictures; `when` is the beginning of their help. */
#define BACKBONE_OPTIONS(when)                                                                                                     \
    {"pool", POOL_CHOICES,                                                                                                         \
     when "ViT: the class token; the mean or the maximum of the patches; or what the network itself makes of them [cls, or map "   \
          "without a class token]"},                                                                                               \
        {"size", "N", when "side length that pictures are resized to [the network's own]"},                                        \
        {"mean", "X or R,G,B", when "mean to subtract, from 0 to 1 [the network's]"},                                              \
        {"std", "X or R,G,B", when "standard deviation to divide by [the network's]"},                                             \
        {"filter", "bilinear|bicubic", when "filter for resizing pictures [bilinear]"},                                            \
        {"preprocess", "squash|checkpoint",                                                                                        \
         when "squash: resize the whole picture to a square; checkpoint: cut out its middle, with the filter and the share that "  \
              "the configuration beside the checkpoint says [squash]"},                                                            \
        {"heads", "N", when "ViT: attention heads of a block [as the configuration says]"},                                        \
        {"activation", ACTIVATION_CHOICES, when "ViT: what its blocks apply [as the configuration says]"},                         \
        {"layer", "N", when "ViT: compute the first N blocks [all]"}, {                                                            \
        "backbone-precision", PRECISION_CHOICES,                                                                                   \
            when "numbers that the network computes in; bf16 is faster where the processor has it, and float16 on a GPU "          \
                 "[float32; on a GPU float16]"                                                                                     \
    }
/* Options of experiments: pictures instead of feature files. */
#define PICTURE_OPTIONS                                                                                                            \
    {"data", "DATASET",                                                                                                            \
     "learn from pictures, with --backbone: voc:FOLDER, coco:FOLDER, list:FILE.csv, folders:FOLDER or tar:FILE.tar"},              \
        {"split", "NAME", "with --data: split to learn from [trainval of VOC, train2014 of COCO]"},                                \
        {"test-data", "DATASET", "with --data: data set to measure on [that of --data]"},                                          \
        {"test-split", "NAME", "with --data: split to measure on [test of VOC, val2014 of COCO]"},                                 \
        {"difficult", "absent|ignore",                                                                                             \
         "with --data: VOC: a class with only difficult objects is absent, or left out of the metrics [absent]"},                  \
        {"backbone", "FILE", "with --data: checkpoint: .safetensors, .pth or .pt"}, BACKBONE_OPTIONS("with --data: "),             \
        {"float16", NULL, "with --data: keep features as float16; the default with views"},                                        \
        {"float32", NULL, "with --data: keep features as float32; the default without views"},                                     \
        {"orient", NULL, "with --data: rotate pictures according to their EXIF orientation"},                                      \
        {"strict", NULL, "with --data: stop at the first picture that cannot be read, instead of skipping it"},                    \
        {"cache", "DIR", "with --data: folder in which features are kept [L3A_CACHE, or ~/.cache/l3a]"},                           \
        {"cache-size", "GIB", "with --data: what the cache may take; files not used for the longest time are removed [20]"},       \
        {"no-cache", NULL, "with --data: keep the features in the folder of the results"},                                         \
        {"adapt", "none|released|norms|all",                                                                                       \
         "with --data: before the first phase, train the backbone on its pictures and labels, and freeze it then: everything as "  \
         "the paper's program does, norms and biases, or everything [none]"},                                                      \
        {"adapt-seed", "N", "with --adapt: seed of what is drawn [the first of --seed]"},                                          \
        {"adapt-epochs", "N", "with --adapt: how often each picture is shown [1 for released, otherwise 10]"}, {                   \
        "adapt-rate", "X", "with --adapt: the highest rate of the steps [4e-5; 1e-3 for norms]"                                    \
    }
/* Their names; NULL after the last. */
extern const char *const backbone_option_names[];
/* Reads them. If one is invalid, explains on stderr and returns false. */
bool backbone_arguments(const struct arguments *arguments, l3a_backbone_options *options);
/* A line about a network, for those who wait for features. */
void print_backbone_line(FILE *to, const l3a_backbone_info *info, size_t views);
/* The first of them that is given, or NULL. */
const char *backbone_argument_given(const struct arguments *arguments);

/* Reads --shard I/N; both are 0 if it is not given. If it is invalid, explains on stderr and returns false. */
bool shard_argument(const struct arguments *arguments, size_t *shard, size_t *shards);
/* Into how many shards processes divide the work: --shards N, or several for each process that mpirun or srun has started; 0: there
 * is only this one. If it is invalid, explains on stderr and returns false. */
bool shared_argument(const struct arguments *arguments, size_t *shards);

/* Work that processes share in shards. A shard's file is "PATH.shard-I-of-N". The functions return an exit code, and explain any
 * but EXIT_DONE on stderr. */
struct shared_work {
    const struct arguments *arguments;
    const char *path; /* of the whole */
    size_t shards;
    int (*find)(void *user, size_t shard, const char *path, bool *done); /* whether a shard is done */
    int (*make)(void *user, size_t shard, const char *path);
    int (*join)(void *user, char *const *paths);   /* makes the whole of all shards */
    void (*discard)(void *user, const char *path); /* removes a shard that was joined */
    void *user;
};

/* Takes shards until none is left, and joins them if all are done. Returns the exit code. */
int share_work(const struct shared_work *work);

/* The exit code of a process that took shards and met pictures that cannot be read. mpirun ends all processes when one of them has
 * another code than EXIT_DONE, so there only the one that joins the shards, which speaks for all of them, has EXIT_USAGE. */
int bad_pictures_code(bool joined);
/* Removes a file, and the lock that a killed process may have left beside it. */
void remove_shard_file(const struct arguments *arguments, const char *path);

/* Whether a file is a shard of l3a tag, with its record. */
bool is_tag_shard(const char *path);
/* Joins the shards of l3a tag that are named on the command line. Returns the exit code. */
int merge_tag_shards(const struct arguments *arguments, const char *output);

/* The code that switches a style on if the stream is a terminal, unless NO_COLOR or TERM says otherwise; "" elsewhere. */
enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_ERROR };

const char *style(FILE *to, enum style wanted);
/* Prints a line below an error on stderr that says what to do. */
__attribute__((format(printf, 1, 2))) void print_hint(const char *format, ...);

/* Uses JSON escapes for characters that a terminal would obey; bytes that are not UTF-8 become U+FFFD. */
void write_json_string(FILE *to, const char *text);
/* Writes the text in quotes if needed, and after a blank if a spreadsheet would take it for a formula; if it is to be visible, as
 * on a terminal, escaped as printf does. */
void write_csv_field(FILE *to, const char *text, bool visible);
bool is_formula(const char *text);

/* The tags of a picture that are shown: the first `top`; or, if top is 0, those above `threshold`; or, if that is NaN, those that
 * are predicted. */
struct tag_choice {
    uint64_t top;
    double threshold;
};

/* Reads --top and --threshold. If one is invalid, explains on stderr and returns false. */
bool tag_choice_arguments(const struct arguments *arguments, struct tag_choice *choice);
bool tag_is_chosen(const struct tag_choice *choice, const l3a_tags *tags, size_t index);
/* Writes the chosen tags: " cat 0.912, dog 0.503", or " -" if there are none. */
void write_tags(FILE *to, const struct tag_choice *choice, const l3a_tags *tags);
/* The pictures named as arguments after the model and, if one of them is "-", those on the standard input. */
bool list_pictures(const struct arguments *arguments, struct list *list);
/* Called for each picture. If it could not be read, tags is NULL, and error and hint say why. Returns false to stop. */
typedef bool picture_tagged(size_t index, const l3a_tags *tags, const char *error, const char *hint, void *user);
/* Tags pictures and shows the progress. Returns the exit code; that of unreadable pictures is EXIT_USAGE, and that of a callback
 * which stops it is EXIT_FAILED. Failures of other kinds are explained on stderr. */
int tag_pictures(const struct arguments *arguments, l3a_tagger *tagger, const char *const *paths, size_t count,
                 picture_tagged *each, void *user);
/* The same for some of the pictures that were found, which may also be in tar files. The callback's index 0 is `first`. */
int tag_found_pictures(const struct arguments *arguments, l3a_tagger *tagger, const l3a_pictures *pictures, size_t first,
                       size_t count, picture_tagged *each, void *user);

/* Makes what `serve --demo` shows in a folder, unless it is there: a model that was taught drawn pictures, and in pictures/ others,
 * most of which show something that it does not know. Explains on stderr if it fails. */
int make_served_demo(const struct arguments *arguments, const char *folder);

/* Writes the checkpoint that the demo uses. */
l3a_status demo_backbone_write(l3a_context *context, const char *path);

/* The word that goes with a number: "1 picture", "2 pictures". */
const char *plural(uint64_t count, const char *one, const char *many);
/* Words as a shell reads them. write_word() writes one, in quotes if needed. join_words() joins several into one line, which the
 * caller frees. split_words() splits a line in place; it returns the number of words, and stores the first `capacity`. */
void write_word(FILE *to, const char *word);
char *join_words(size_t count, const char *const *words);
size_t split_words(char *line, char **words, size_t capacity);

/* "12.3 GiB" */
const char *size_text(uint64_t bytes, char text[32]);
/* The number of columns that a text takes on a terminal when printed with printf. */
int display_width(const char *text);
/* The number of bytes, in whole characters, at the beginning of a text that fit in `columns` columns. */
size_t fitting_bytes(const char *text, int columns);
/* Whether a stream is a terminal that is not dumb. */
bool is_terminal(FILE *to);
/* The number of columns of the stream's terminal; a large number if it is not a terminal. */
int terminal_columns(FILE *to);

int data_command(struct arguments *arguments);
int run_command(struct arguments *arguments);
int sweep_command(struct arguments *arguments);
int learn_command(struct arguments *arguments);
int merge_command(struct arguments *arguments);
int forget_command(struct arguments *arguments);
int pack_command(struct arguments *arguments);
int eval_command(struct arguments *arguments);
int extract_command(struct arguments *arguments);
int train_command(struct arguments *arguments);
int predict_command(struct arguments *arguments);
int tag_command(struct arguments *arguments);
int teach_command(struct arguments *arguments);
int undo_command(struct arguments *arguments);
int history_command(struct arguments *arguments);
int rename_command(struct arguments *arguments);
int index_command(struct arguments *arguments);
int find_command(struct arguments *arguments);
int serve_command(struct arguments *arguments);
int info_command(struct arguments *arguments);
int report_command(struct arguments *arguments);
int doctor_command(struct arguments *arguments);
int demo_command(struct arguments *arguments);
int help_command(struct arguments *arguments);

extern const struct option serve_options[], data_options[], merge_options[], forget_options[], pack_options[], run_options[],
    sweep_options[], learn_options[], eval_options[], predict_options[], extract_options[], info_options[], report_options[],
    doctor_options[], demo_options[], help_options[], tag_options[], teach_options[], undo_options[], history_options[],
    rename_options[], index_options[], find_options[], train_options[];

/* Before a command that knows nothing of histories changes a model: a server that was killed may have left lessons in the history
 * that are not in the model's file. Saves the model with them. The caller holds the lock. */
l3a_status fold_history(const struct arguments *arguments, const char *path);
/* How many pictures of the library got each tag before a lesson. */
struct tagged_before {
    char **tags;
    uint64_t *pictures;
    size_t count;
};

/* Counts them, if the tagger has a library at hand. */
l3a_status count_tagged(l3a_tagger *tagger, struct tagged_before *before);
void tagged_before_free(struct tagged_before *before);
/* Says what was taught and what to expect; returns the exit code. made: the model is new. */
int print_taught(const struct arguments *arguments, l3a_tagger *tagger, const l3a_lesson *lesson, const l3a_teach_report *report,
                 bool made, const struct tagged_before *before, const char *format);

/* What run or sweep is asked to do. Start from zeroes. */
struct request {
    l3a_experiment_options options;
    l3a_options *settings;
    struct list methods, orders, seeds;
    uint64_t *numbers;              /* the seeds */
    l3a_dataset *datasets[2];       /* the pictures of the tables, or NULL */
    size_t bad;                     /* pictures that could not be read */
    char adapted[600];              /* how the backbone was adapted; "": it was not */
    l3a_backbone_training training; /* what methods look at that train the backbone … */
    char trained[4096];             /* … its path … */
    l3a_backbone_options network;   /* … and its options */
    l3a_picture_options picture;
};

/* How a command shows an experiment. */
struct request_view {
    const char *saved; /* what an interruption leaves in the folder, as in "finished points are saved" */
    void (*print_plan)(FILE *to, const struct arguments *arguments, const struct request *request, const l3a_experiment *experiment,
                       const l3a_workload *plan);
    /* Returns the exit code; explains a failure on stderr. */
    int (*print_results)(const struct arguments *arguments, const struct request *request, const l3a_experiment *experiment,
                         const char *format);
};

/* Checks the options about pictures, and that they are not there without --data; explains on stderr if not. */
bool picture_arguments_check(const struct arguments *arguments);
/* Opens the tables of an experiment on pictures, with the settings of the request. Explains a failure on stderr. */
int open_picture_tables(const struct arguments *arguments, struct request *request);

/* Checks that the options that both commands need are there; explains on stderr if not. */
bool request_check(const struct arguments *arguments);
/* Fills in what does not depend on the command, with these methods ("all": every one, in a grid) and seeds if none are given. The
 * settings are the command's to fill. */
bool request_fill(const struct arguments *arguments, struct request *request, const char *methods, const char *seeds);
/* Opens the tables, prints the plan, runs it and prints the results. Returns the exit code. */
int request_execute(const struct arguments *arguments, struct request *request, const struct request_view *view,
                    const char *format);
/* The end of the line of a plan: how long it will take, on the processor. */
void print_estimate(FILE *to, const struct arguments *arguments, const struct request *request, double flops);
/* A line of a plan, if a GPU is used: the bytes of its memory, and parts that do not fit. */
void print_device_plan(FILE *to, const struct arguments *arguments, uint64_t memory, uint64_t parts, uint64_t spilled);
void request_free(struct request *request);

/* Prints the results of a run; format "summary" prints only the table over all phases. */
l3a_status print_results(l3a_context *context, const l3a_experiment *run, const char *format);
/* Whether a format is that of a table to publish: "latex" or "markdown". */
bool is_published(const char *format);
/* Prints this table of some runs, or of a sweep. */
l3a_status print_report_table(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                              const char *format);

#endif
