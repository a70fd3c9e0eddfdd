/* The command `l3a`: finds the command to run, and sets up what every command needs. */
#include "cli.h"

#include "common/closest.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

volatile sig_atomic_t interrupted;

/* In the order in which people are told of them. */
const struct command commands[] = {
    {"start here", "demo", "[-o DIR]", "draw pictures, learn them in phases, tag them, teach one more class", demo_options,
     NO_SETTINGS, demo_command},
    {"start here", "doctor", "", "show the processor, memory and libraries l3a will use", doctor_options, NO_SETTINGS,
     doctor_command},
    {"start here", "help", "[COMMAND]", "list the commands, or explain one", help_options, NO_SETTINGS, help_command},
    {"use", "tag", "MODEL PICTURE|FOLDER…", "tag pictures and folders of pictures", tag_options, NO_SETTINGS, tag_command},
    {"use", "teach", "MODEL PICTURE|FOLDER… --tags a,b", "teach a model pictures; creates the model if needed", teach_options,
     NO_SETTINGS, teach_command},
    {"use", "undo", "MODEL", "take the last lesson back", undo_options, NO_SETTINGS, undo_command},
    {"use", "history", "MODEL", "list what a model was taught, and when", history_options, NO_SETTINGS, history_command},
    {"use", "rename", "MODEL OLD NEW", "rename a tag, or make one tag of two", rename_options, NO_SETTINGS, rename_command},
    {"use", "index", "MODEL [FOLDER…]", "look at all pictures in folders once, and remember what is in them", index_options,
     NO_SETTINGS, index_command},
    {"use", "find", "MODEL [--tag dog --not cat --word beach …]", "find pictures by tags, words, dates, or pictures like them",
     find_options, NO_SETTINGS, find_command},
    {"use", "serve", "MODEL [--listen 127.0.0.1:8080] | --demo", "serve a model over HTTP, with a page where people teach it",
     serve_options, NO_SETTINGS, serve_command},
    {"measure", "run", "--data D --backbone F | --train F --test F -o DIR", "learn and evaluate every phase of a protocol",
     run_options, ALL_SETTINGS, run_command},
    {"measure", "sweep", "--train F --test F --gamma 1,10,… -o DIR", "run a grid of settings, methods and seeds", sweep_options,
     ALL_SETTINGS, sweep_command},
    {"measure", "eval", "MODEL --features F", "measure a model on labelled features", eval_options, NO_SETTINGS, eval_command},
    {"measure", "report", "DIR… [-o FILE.html] [--format F]",
     "write the report of a run again, compare runs, or save charts as figures", report_options, NO_SETTINGS, report_command},
    {"data", "data", "DATASET [--protocol B0-C4]", "check and describe a data set", data_options, NO_SETTINGS, data_command},
    {"data", "extract", "--backbone FILE --data DATASET --split NAME -o F", "compute features of a data set's pictures",
     extract_options, NO_SETTINGS, extract_command},
    {"data", "train", "--backbone FILE --data DATASET --split NAME -o F", "train a backbone on the pictures of a data set",
     train_options, NO_SETTINGS, train_command},
    {"models", "info", "FILE", "show what a file holds and verify its checksums", info_options, NO_SETTINGS, info_command},
    {"models", "learn", "MODEL --features F --classes a,b,c", "teach a model new classes; creates the model if needed",
     learn_options, MODEL_SETTINGS, learn_command},
    {"models", "merge", "A B… -o OUT", "combine what several models have learned, or join feature files", merge_options,
     NO_SETTINGS, merge_command},
    {"models", "forget", "MODEL --classes a,b | --phase N | --features F", "remove classes, a phase or images from a model",
     forget_options, NO_SETTINGS, forget_command},
    {"models", "pack", "MODEL -o FILE [--with-backbone]", "make a small file that tags and cannot learn", pack_options, NO_SETTINGS,
     pack_command},
    {"models", "predict", "MODEL --backbone FILE PICTURE… | --features F", "tag pictures, or the rows of a feature file",
     predict_options, NO_SETTINGS, predict_command},
    {NULL, NULL, NULL, NULL, NULL, NO_SETTINGS, NULL},
};

const struct command *command_find(const char *name) {
    for (const struct command *command = commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

static const int stop_signals[] = {SIGINT, SIGTERM};

static void handle_stop_signals(void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler};
    for (size_t i = 0; i < sizeof stop_signals / sizeof stop_signals[0]; i++) {
        sigaction(stop_signals[i], &action, NULL);
    }
}

/* The first signal cancels the command; the second, of either kind, ends it immediately. */
static void interrupt(int number) {
    (void)number;
    interrupted = 1;
    handle_stop_signals(SIG_DFL);
}

/* No SA_RESTART, so that a blocking call, such as reading input, also ends. SIGXFSZ is ignored, so that a write beyond the file
 * size limit (ulimit -f) is an error instead of ending the process. */
static void prepare_signals(void) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    handle_stop_signals(interrupt);
    sigaction(SIGXFSZ, &ignore, NULL);
}

/* Chooses better kernels for the matrix library if it would use outdated ones; returns true if that needs a restart. */
static bool name_better_kernels(void) {
    l3a_context *context;
    l3a_machine machine = {.size = sizeof machine};
    if (getenv("OPENBLAS_CORETYPE") || l3a_context_create(NULL, &context) != L3A_OK) {
        return false;
    }
    const l3a_status status = l3a_machine_query(context, &machine);
    l3a_context_free(context);
    return status == L3A_OK && machine.better_kernels[0] && setenv("OPENBLAS_CORETYPE", machine.better_kernels, 1) == 0;
}

/* As soon as another program needs a processor, threads that spin while they wait slow down the threads that have work. */
static bool name_waiting(void) {
    return !getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0;
}

/* Both libraries read the environment once, when they are loaded. If something is missing there, starts again with it, once. */
static void restart_with_environment(char **texts) {
    const bool kernels = name_better_kernels(), waiting = name_waiting();
    if (kernels || waiting) {
        execv("/proc/self/exe", texts);
        execv((const char *)getauxval(AT_EXECFN), texts); /* where /proc is not mounted */
    }
    if (kernels) {
        unsetenv("OPENBLAS_CORETYPE");
    }
    if (waiting) {
        unsetenv("OMP_WAIT_POLICY");
    }
}

int unknown_command(const char *name) {
    const char *names[64];
    size_t count = 0;
    while (count < 64 && commands[count].name) {
        names[count] = commands[count].name;
        count++;
    }
    const char *close = closest_name(name, names, count);
    fprintf(stderr, "%sl3a:%s unknown command '%s'\n", style(stderr, STYLE_ERROR), style(stderr, STYLE_PLAIN), name);
    if (close) {
        print_hint("did you mean '%s'?", close);
    }
    print_hint("'l3a help' lists the commands");
    return EXIT_USAGE;
}

/* The command line as it can be typed again, beginning with "l3a" whatever the program's path is. */
static char *command_line(int count, char **texts) {
    const char **words = calloc((size_t)count, sizeof *words);
    for (int i = 0; words && i < count; i++) {
        words[i] = i ? texts[i] : "l3a";
    }
    char *line = words ? join_words((size_t)count, words) : NULL;
    free(words);
    return line;
}

/* A context that could not be created has no text; one for the processor can say what is wrong with the device. */
static int explain_device(struct arguments *arguments) {
    char text[256];
    if (l3a_context_create(NULL, &arguments->context) != L3A_OK) {
        return complain(arguments, "out of memory");
    }
    const l3a_status status = l3a_device_describe(arguments->context, arguments->device, text, sizeof text);
    const int code = status == L3A_OK ? complain(arguments, "out of memory on the device") : explain(arguments, status);
    l3a_context_free(arguments->context);
    return code;
}

static int execute(struct arguments *arguments, const struct together *together, l3a_context_options *options) {
    arguments->quiet = arguments->quiet || together->process;
    progress_start(arguments->quiet);
    options->on_event = show_event;
    options->device = arguments->device;
    if (together_join(together, options) != L3A_OK) {
        return complain(arguments, "%s", l3a_error_text(together->context));
    }
    arguments->device = options->device;
    if (l3a_context_create(options, &arguments->context) != L3A_OK) {
        return explain_device(arguments);
    }
    const int code = arguments->command->run(arguments);
    progress_clear();
    l3a_context_free(arguments->context);
    if (fflush(stdout) || ferror(stdout)) {
        complain(arguments, "cannot write the results to the standard output");
        return interrupted ? EXIT_INTERRUPTED : code == EXIT_DONE ? EXIT_FAILED : code;
    }
    return code;
}

static int start_command(const struct command *command, int count, char **texts) {
    struct arguments arguments = {.command = command, .program = strchr(texts[0], '/') ? texts[0] : "l3a"};
    struct together together = {.context = NULL};
    l3a_context_options options = {.size = sizeof options};
    char *line = command_line(count, texts), *directory = getcwd(NULL, 0);
    arguments.line = line;
    arguments.directory = directory;
    int code = together_begin(&together, &arguments);
    if (code == EXIT_DONE) {
        code = arguments_parse(&arguments, count - 2, texts + 2, &options.threads);
    }
    if (code == EXIT_DONE && arguments.command) {
        code = resume_arguments(&arguments, &options.threads);
    }
    if (code == EXIT_DONE && arguments.command) {
        code = execute(&arguments, &together, &options);
    }
    arguments.command = command;
    code = together_end(&together, &arguments, code);
    for (size_t i = 0; i < arguments.owned_count; i++) {
        free(arguments.owned[i]);
    }
    free(directory);
    free(line);
    return code;
}

int main(int count, char **texts) {
    if (count < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(texts[1], "--version") == 0 || strcmp(texts[1], "version") == 0) {
        printf("l3a %s\n", l3a_version());
        return EXIT_DONE;
    }
    if (strcmp(texts[1], "--citation") == 0) {
        fputs(l3a_citation(), stdout);
        return EXIT_DONE;
    }
    const bool help = strcmp(texts[1], "--help") == 0 || strcmp(texts[1], "-h") == 0;
    const struct command *command = command_find(help ? "help" : texts[1]);
    if (!command) {
        return unknown_command(texts[1]);
    }
    restart_with_environment(texts);
    mallopt(M_MMAP_THRESHOLD, 1 << 20); /* large blocks go back to the system immediately, so that memory stays within the plan */
    prepare_signals();
    return start_command(command, count, texts);
}
