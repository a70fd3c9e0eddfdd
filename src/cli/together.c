/* Several processes that mpirun or srun started together. Only process 0 prints. The others keep what they would print, and print
 * it only if they are the first that failed. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The commands that divide their work among processes. */
static bool divides_work(const struct command *command) {
    static const char *const names[] = {"run", "sweep", "learn", "eval"};
    bool divides = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        divides = divides || strcmp(command->name, names[i]) == 0;
    }
    return divides;
}

/* Processes that take shards have nothing to do with each other. */
static bool works_alone(const struct command *command) {
    return strcmp(command->name, "extract") == 0 || strcmp(command->name, "tag") == 0;
}

static void become_silent(struct together *together) {
    FILE *kept = open_memstream(&together->text, &together->length);
    if (kept && freopen("/dev/null", "w", stdout)) {
        together->errors = stderr;
        stderr = kept;
    }
}

/* Some builds of MPI, Debian's Open MPI among them, can be started by srun only with PMIx, and what they print does not say how. */
static void note_srun(const struct together *together) {
    if (!together->process && getenv("SLURM_STEP_NUM_TASKS") && !getenv("PMIX_RANK") && !getenv("OMPI_COMM_WORLD_SIZE")) {
        fputs("note: srun has started these processes without PMIx; if MPI cannot start, use srun --mpi=pmix\n", stderr);
    }
}

int together_begin(struct together *together, struct arguments *arguments) {
    const size_t started = l3a_cluster_started(&together->process);
    l3a_context_options options = {.size = sizeof options};
    arguments->processes = 1;
    if (started == 1 || works_alone(arguments->command)) {
        return EXIT_DONE;
    }
    setenv("NO_COLOR", "1", 0); /* mpirun lets any output look like a terminal */
    if (together->process) {
        become_silent(together);
    }
    if (l3a_context_create(NULL, &together->context) != L3A_OK) {
        return complain(arguments, "out of memory");
    }
    arguments->context = together->context;
    note_srun(together);
    l3a_status status = l3a_cluster_open(together->context, &together->cluster);
    if (status == L3A_OK) {
        status = l3a_cluster_join(together->cluster, &options);
    }
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    arguments->processes = options.processes ? options.processes : 1;
    arguments->locals = l3a_cluster_locals(together->cluster);
    if (arguments->processes > 1 && !divides_work(arguments->command)) {
        complain(arguments, "works in one process, but %zu were started together", arguments->processes);
        print_hint("start it without mpirun, or set L3A_ALONE=1 if the processes have nothing to do with each other");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

l3a_status together_join(const struct together *together, l3a_context_options *options) {
    return together->cluster ? l3a_cluster_join(together->cluster, options) : L3A_OK;
}

/* From about this dim on, processes on one machine lose more by sharing their sums than they gain (docs/scale.md). */
enum { LARGE_DIM = 8192 };

void print_process_plan(FILE *to, const struct arguments *arguments, const l3a_options *settings) {
    char text[32], solver[32], memory[32];
    l3a_options_get(settings, "dim", text, sizeof text);
    l3a_options_get(settings, "solver", solver, sizeof solver);
    const uint64_t dim = strtoull(text, NULL, 10);
    if (arguments->locals > 1 && dim >= LARGE_DIM && strcmp(solver, "scalapack") != 0 &&
        strcmp(l3a_context_device(arguments->context), "cpu") == 0) {
        fprintf(
            to,
            "  %zu processes on this machine: each holds sums of %s, and they add them after each phase; one process with their "
            "threads is faster from about dim %d on (docs/scale.md)\n",
            arguments->locals, size_text(8 * dim * dim, memory), LARGE_DIM);
    }
}

/* What this process has kept. */
static void speak(struct together *together, const struct arguments *arguments) {
    if (together->errors) {
        fflush(stderr);
        fprintf(together->errors, "process %zu of %zu:\n", together->process, arguments->processes);
        fwrite(together->text, 1, together->length, together->errors);
        fflush(together->errors);
    }
}

int together_end(struct together *together, const struct arguments *arguments, int code) {
    if (together->cluster) {
        const int first = l3a_cluster_end(together->cluster, code != EXIT_DONE);
        if (code != EXIT_DONE && (first < 0 || (size_t)first == together->process)) {
            speak(together, arguments);
        }
        if (first < 0) {
            l3a_cluster_abort(together->cluster, code);
        }
        l3a_cluster_free(together->cluster);
    }
    l3a_context_free(together->context);
    if (together->errors) {
        fclose(stderr);
        stderr = together->errors;
        free(together->text);
    }
    return code;
}
