/* The command `l3a`: which command it is, and what surrounds each. */
#include "cli.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int interrupted;

const struct command commands[] = {
    {"data", "DATASET [--protocol B0-C4]", "check and describe a data set", data_options, NO_SETTINGS, data_command},
    {"extract", "--backbone FILE --data DATASET --split NAME -o F", "features of a data set's pictures", extract_options,
     NO_SETTINGS, extract_command},
    {"run", "--train F --test F --protocol B0-C10 -o DIR", "learn and measure every phase of a protocol", run_options, ALL_SETTINGS,
     run_command},
    {"sweep", "--train F --test F --gamma 1,10,… -o DIR", "the same over a grid of settings, methods and seeds", sweep_options,
     ALL_SETTINGS, sweep_command},
    {"learn", "MODEL --features F --classes a,b,c", "teach a model one more phase (makes it if there is none)", learn_options,
     MODEL_SETTINGS, learn_command},
    {"merge", "A B… -o OUT", "add together what several models have learned", merge_options, NO_SETTINGS, merge_command},
    {"forget", "MODEL --classes a,b | --phase N | --features F", "take back what a model has learned", forget_options, NO_SETTINGS,
     forget_command},
    {"eval", "MODEL --features F", "measure a model", eval_options, NO_SETTINGS, eval_command},
    {"predict", "MODEL --backbone FILE PICTURE… | --features F", "tag pictures, or the rows of a feature file", predict_options,
     NO_SETTINGS, predict_command},
    {"info", "FILE", "what a file holds; verifies its checksums", info_options, NO_SETTINGS, info_command},
    {"report", "DIR… [-o FILE.html]", "the page about a run again, or one that compares several", report_options, NO_SETTINGS,
     report_command},
    {"doctor", "", "what this machine will use", doctor_options, NO_SETTINGS, doctor_command},
    {"demo", "[-o DIR]", "draw pictures, learn them in phases, tag, teach one more class", demo_options, NO_SETTINGS, demo_command},
    {"help", "[COMMAND]", "this list, or all about a command", help_options, NO_SETTINGS, help_command},
    {NULL, NULL, NULL, NULL, NO_SETTINGS, NULL},
};

const struct command *command_find(const char *name) {
    for (const struct command *command = commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

/* A second Ctrl-C ends at once. */
static void interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL);
}

/* Names better kernels for the matrix library where it chose old ones; true when that needs a restart. */
static bool name_better_kernels(void) {
    l3a_context *context;
    l3a_machine machine;
    if (getenv("OPENBLAS_CORETYPE") || l3a_context_create(NULL, &context) != L3A_OK) {
        return false;
    }
    l3a_machine_query(context, &machine);
    l3a_context_free(context);
    return machine.better_kernels[0] && setenv("OPENBLAS_CORETYPE", machine.better_kernels, 1) == 0;
}

/* Threads that spin while they wait hold up those that have work as soon as another program needs a processor. */
static bool name_waiting(void) {
    return !getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0;
}

/* Both libraries read the environment once, when they are loaded: where it lacks something, start again with it, once. */
static void restart_with_environment(char **texts) {
    const bool kernels = name_better_kernels(), waiting = name_waiting();
    if (kernels || waiting) {
        execv("/proc/self/exe", texts);
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
    const char *close = l3a_closest(name, names, count);
    fprintf(stderr, "%sl3a:%s there is no command '%s'\n", style(stderr, STYLE_ERROR), style(stderr, STYLE_PLAIN), name);
    if (close) {
        print_hint("did you mean '%s'?", close);
    }
    print_hint("'l3a help' lists the commands");
    return EXIT_USAGE;
}

static char *join_words(int count, char **texts) {
    size_t size = 1;
    for (int i = 0; i < count; i++) {
        size += strlen(texts[i]) + 3;
    }
    char *line = calloc(size, 1);
    for (int i = 0; line && i < count; i++) {
        const bool quoted = strpbrk(texts[i], " \t'\"") != NULL;
        strcat(line, i ? " " : "");
        strcat(line, quoted ? "'" : "");
        strcat(line, i ? texts[i] : "l3a");
        strcat(line, quoted ? "'" : "");
    }
    return line;
}

static int start_command(const struct command *command, int count, char **texts) {
    struct arguments arguments = {.command = command};
    l3a_context_options options;
    l3a_context_options_default(&options);
    int code = arguments_parse(&arguments, count - 2, texts + 2, &options.threads);
    if (code != EXIT_DONE || !arguments.command) {
        return code;
    }
    char *line = join_words(count, texts);
    arguments.line = line;
    progress_start(arguments.quiet);
    options.on_event = show_event;
    if (l3a_context_create(&options, &arguments.context) != L3A_OK) {
        free(line);
        return complain(&arguments, "out of memory");
    }
    code = command->run(&arguments);
    progress_clear();
    l3a_context_free(arguments.context);
    free(line);
    if (fflush(stdout) || ferror(stdout)) {
        complain(&arguments, "the results cannot be written to the standard output");
        return code == EXIT_DONE ? EXIT_FAILED : code;
    }
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
    const bool help = strcmp(texts[1], "--help") == 0 || strcmp(texts[1], "-h") == 0;
    const struct command *command = command_find(help ? "help" : texts[1]);
    if (!command) {
        return unknown_command(texts[1]);
    }
    restart_with_environment(texts);
    mallopt(M_MMAP_THRESHOLD, 1 << 20); /* large blocks go back to the system at once, so that memory stays within the plan */
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    return start_command(command, count, texts);
}
