/* Compares learning all phases of a protocol with l3a+ and with l3a: the same rows of a feature file, the same dim, and all weights
 * solved after every phase. The two take turns in every phase, so that a change in the machine's speed affects both. Scoring and
 * files are not included. */
#include <l3a/l3a_experiment.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { METHODS = 2, CLASSES = 4096, ROUNDS = 99 };
static const char *const methods[METHODS] = {"l3a", "l3a+"};

struct bench {
    l3a_context *context;
    l3a_features *train;
    l3a_options *options;
    size_t bounds[CLASSES + 1], phases;
    const char *names[CLASSES];
    double solve; /* seconds that the library reported as solving */
};

struct measured {
    double wall, processor, solve;
};

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int keep_solve_time(const l3a_event *event, void *user) {
    struct bench *bench = user;
    if (event->kind == L3A_EVENT_TIMING && strcmp(event->stage, "solve") == 0) {
        bench->solve += event->seconds;
    }
    return 0;
}

static void check(const struct bench *bench, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "bench_plus: %s\n", l3a_error_text(bench->context));
        exit(1);
    }
}

static void learn_phase(struct bench *bench, l3a_model *model, size_t t, struct measured *measured) {
    bench->solve = 0;
    const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    check(bench, l3a_model_learn(model, bench->train, bench->names + bench->bounds[t], bench->bounds[t + 1] - bench->bounds[t]));
    measured->wall += seconds(CLOCK_MONOTONIC) - wall;
    measured->processor += seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    measured->solve += bench->solve;
}

/* The method that goes first changes from phase to phase and from round to round. */
static void learn_all(struct bench *bench, size_t round, struct measured measured[METHODS]) {
    l3a_model *models[METHODS];
    for (size_t j = 0; j < METHODS; j++) {
        l3a_options *options = NULL;
        check(bench, l3a_options_copy(bench->context, bench->options, &options));
        check(bench, l3a_method_options(bench->context, methods[j], options));
        check(bench, l3a_model_create(bench->context, l3a_features_width(bench->train), options, &models[j]));
        l3a_options_free(options);
        measured[j] = (struct measured){0};
    }
    for (size_t t = 0; t < bench->phases; t++) {
        for (size_t j = 0; j < METHODS; j++) {
            const size_t turn = (j + t + round) % METHODS;
            learn_phase(bench, models[turn], t, &measured[turn]);
        }
    }
    for (size_t j = 0; j < METHODS; j++) {
        l3a_model_free(models[j]);
    }
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

int main(int count, char **arguments) {
    static struct bench bench;
    double ratios[ROUNDS], processor_ratios[ROUNDS];
    if (count < 5) {
        fprintf(stderr, "usage: bench_plus TRAIN PROTOCOL DIM ROUNDS [THREADS]\n");
        return 2;
    }
    size_t rounds = strtoul(arguments[4], NULL, 10);
    rounds = rounds < 1 ? 1 : rounds > ROUNDS ? ROUNDS : rounds;
    l3a_context_options options = {.size = sizeof options};
    options.on_event = keep_solve_time;
    options.event_user = &bench;
    options.threads = count > 5 ? atoi(arguments[5]) : 0;
    if (l3a_context_create(&options, &bench.context) != L3A_OK) {
        return 1;
    }
    check(&bench, l3a_options_create(bench.context, &bench.options));
    check(&bench, l3a_options_set(bench.context, bench.options, "dim", arguments[3]));
    check(&bench, l3a_features_open(bench.context, arguments[1], &bench.train));
    const size_t classes = l3a_features_class_count(bench.train);
    if (classes > CLASSES) {
        return 1;
    }
    check(&bench, l3a_protocol_parse(bench.context, arguments[2], classes, bench.bounds, &bench.phases));
    for (size_t i = 0; i < classes; i++) {
        bench.names[i] = l3a_features_class(bench.train, i);
    }
    for (size_t i = 0; i < rounds; i++) {
        struct measured m[METHODS];
        learn_all(&bench, i, m);
        ratios[i] = m[1].wall / m[0].wall;
        processor_ratios[i] = m[1].processor / m[0].processor;
        printf("round %zu: l3a %.2f s (%.2f solving), l3a+ %.2f s (%.2f solving), ratio %.3f; of processor time %.3f\n", i + 1,
               m[0].wall, m[0].solve, m[1].wall, m[1].solve, ratios[i], processor_ratios[i]);
        fflush(stdout);
    }
    printf("{\"dim\": %s, \"phases\": %zu, \"ratios\": [", arguments[3], bench.phases);
    for (size_t i = 0; i < rounds; i++) {
        printf("%s%.4f", i ? ", " : "", ratios[i]);
    }
    printf("], \"ratio\": %.4f, \"processor_ratio\": %.4f}\n", median(ratios, rounds), median(processor_ratios, rounds));
    l3a_features_free(bench.train);
    l3a_options_free(bench.options);
    l3a_context_free(bench.context);
    return 0;
}
