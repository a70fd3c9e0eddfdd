/* Compares learning one phase with the library to the three matrix calls that any such program needs: the product with the random
 * layer, the rank update, and the factorisation, with the same sizes and number of threads. The two alternate, so that a change in
 * the machine's speed affects both; the ratio is the median of the rounds' ratios.
 *
 * The library's time includes everything in a phase: checking and copying the rows, pseudo-labels for the old half of the classes,
 * weights, the cross product, sums in double precision, and solving. */
#include <l3a/l3a.h>

#include <cblas.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void dpotrf_(const char *triangle, const int *n, double *a, const int *stride, int *info);

enum { EARLIER_ROWS = 256, NAME_SIZE = 32 };

struct settings {
    size_t rows, width, dim, classes, rounds;
};

struct phase_time {
    double wall, accumulate, solve;
    uint64_t pseudo_labels;
};

struct bare_time {
    double wall, expand, update, factor;
};

struct bench {
    struct settings settings;
    l3a_context *context;
    l3a_options *options;
    size_t block;         /* rows that the library processes at a time */
    double solve_seconds; /* from the library's last "solve" event */
    float *features;      /* [rows x width] */
    int8_t *labels;       /* [rows x classes of a phase] */
    char (*names)[NAME_SIZE];
    const char **classes;
    float *layer, *expanded, *gram;
    double *system;
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "bench_learn: %s: %s\n", what, why);
    exit(1);
}

static void *room_for(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) {
        give_up("memory", "there is not enough; use a smaller --dim or --rows");
    }
    return memory;
}

static float *random_floats(size_t count, double low, double high, uint64_t seed) {
    float *values = room_for(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(low + (high - low) * l3a_uniform(seed, i));
    }
    return values;
}

static int keep_solve_time(const l3a_event *event, void *user) {
    struct bench *bench = user;
    if (event->kind == L3A_EVENT_TIMING && strcmp(event->stage, "solve") == 0) {
        bench->solve_seconds = event->seconds;
    }
    return 0;
}

static void check(const struct bench *bench, const char *what, l3a_status status) {
    if (status != L3A_OK) {
        give_up(what, l3a_error_text(bench->context));
    }
}

/* Every row shows the first class, which therefore becomes a pseudo-label later, and one or a few other classes. */
static void make_labels(struct bench *bench, size_t rows, size_t classes) {
    bench->labels = room_for(rows * classes, sizeof *bench->labels);
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < classes; k++) {
            bench->labels[i * classes + k] = k == 0 || k == i % classes || l3a_uniform(3, i * classes + k) < 0.05;
        }
    }
}

static void make_bench(struct bench *bench) {
    const struct settings *s = &bench->settings;
    const size_t rows = s->rows > EARLIER_ROWS ? s->rows : EARLIER_ROWS;
    check(bench, "options", l3a_options_create(bench->context, &bench->options));
    check(bench, "dim", l3a_options_set_integer(bench->context, bench->options, "dim", s->dim));
    check(bench, "solver", l3a_options_set(bench->context, bench->options, "solver", "sums"));
    bench->block = l3a_options_integer(bench->options, "block");
    bench->features = random_floats(rows * s->width, 0, 1, 1);
    make_labels(bench, rows, s->classes / 2);
    bench->names = room_for(s->classes, sizeof *bench->names);
    bench->classes = room_for(s->classes, sizeof *bench->classes);
    for (size_t k = 0; k < s->classes; k++) {
        snprintf(bench->names[k], sizeof bench->names[k], "class %zu", k);
        bench->classes[k] = bench->names[k];
    }
    bench->layer = random_floats(s->width * s->dim, -0.02, 0.02, 2);
    bench->expanded = random_floats(bench->block * s->dim, 0, 1, 4);
    bench->gram = random_floats(s->dim * s->dim, 0, 1, 5);
    bench->system = room_for(s->dim * s->dim, sizeof *bench->system);
}

static void learn(const struct bench *bench, l3a_model *model, size_t first_class, size_t rows) {
    check(bench, "begin", l3a_phase_begin(model, bench->classes + first_class, bench->settings.classes / 2));
    check(bench, "count", l3a_phase_count(model, bench->labels, rows));
    check(bench, "learn", l3a_phase_learn(model, bench->features, bench->labels, rows));
    check(bench, "end", l3a_phase_end(model));
}

static struct phase_time time_library(struct bench *bench) {
    l3a_model *model = NULL;
    check(bench, "model", l3a_model_create(bench->context, bench->settings.width, bench->options, &model));
    learn(bench, model, 0, EARLIER_ROWS);
    const double start = seconds_now();
    learn(bench, model, bench->settings.classes / 2, bench->settings.rows);
    const double wall = seconds_now() - start;
    const struct phase_time time = {wall, wall - bench->solve_seconds, bench->solve_seconds,
                                    l3a_model_phase(model, 1)->pseudo_labels};
    l3a_model_free(model);
    return time;
}

/* Makes a random matrix that is positive definite because its diagonal dominates. */
static void make_system(struct bench *bench) {
    const size_t d = bench->settings.dim;
    for (size_t i = 0; i < d * d; i++) {
        bench->system[i] = (double)bench->gram[i] / (1 + (double)bench->gram[i]);
    }
    for (size_t i = 0; i < d; i++) {
        bench->system[i * d + i] += (double)d;
    }
}

static struct bare_time time_bare(struct bench *bench) {
    const struct settings *s = &bench->settings;
    const int d = (int)s->dim, k = (int)s->width;
    struct bare_time time = {0};
    make_system(bench);
    openblas_set_num_threads(l3a_context_threads(bench->context));
    const double start = seconds_now();
    double before = start;
    for (size_t first = 0; first < s->rows; first += bench->block) {
        const int n = (int)(s->rows - first < bench->block ? s->rows - first : bench->block);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d, k, 1, bench->features + first * s->width, k, bench->layer, d,
                    0, bench->expanded, d);
        const double between = seconds_now();
        cblas_ssyrk(CblasRowMajor, CblasLower, CblasTrans, d, n, 1, bench->expanded, d, 1, bench->gram, d);
        const double after = seconds_now();
        time.expand += between - before;
        time.update += after - between;
        before = after;
    }
    int info = 0;
    dpotrf_("L", &d, bench->system, &d, &info);
    time.factor = seconds_now() - before;
    time.wall = seconds_now() - start;
    if (info) {
        give_up("dpotrf", "the matrix is not positive definite");
    }
    return time;
}

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of a field of `count` structs, `size` bytes apart. */
static double median(const double *field, size_t count, size_t size) {
    double *sorted = room_for(count, sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = *(const double *)((const char *)field + i * size);
    }
    qsort(sorted, count, sizeof *sorted, compare_numbers);
    const double middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return middle;
}

static void print_summary(const struct bench *bench, const struct phase_time *library, const struct bare_time *bare,
                          const double *ratio) {
    const struct settings *s = &bench->settings;
    const size_t l = sizeof *library, b = sizeof *bare;
    const double accumulate = median(&library->accumulate, s->rounds, l);
    printf(
        "{\"rows\": %zu, \"width\": %zu, \"dim\": %zu, \"classes\": %zu, \"rounds\": %zu, \"threads\": %d, \"kernels\": \"%s\", ",
        s->rows, s->width, s->dim, s->classes, s->rounds, l3a_context_threads(bench->context), openblas_get_corename());
    printf("\"library\": {\"wall\": %.4f, \"accumulate\": %.4f, \"solve\": %.4f, \"rows_per_second\": %.1f}, ",
           median(&library->wall, s->rounds, l), accumulate, median(&library->solve, s->rounds, l), (double)s->rows / accumulate);
    printf("\"bare\": {\"wall\": %.4f, \"sgemm\": %.4f, \"ssyrk\": %.4f, \"dpotrf\": %.4f}, \"ratio\": %.4f}\n",
           median(&bare->wall, s->rounds, b), median(&bare->expand, s->rounds, b), median(&bare->update, s->rounds, b),
           median(&bare->factor, s->rounds, b), median(ratio, s->rounds, sizeof *ratio));
}

static void run_rounds(struct bench *bench) {
    const size_t rounds = bench->settings.rounds;
    struct phase_time *library = room_for(rounds, sizeof *library);
    struct bare_time *bare = room_for(rounds, sizeof *bare);
    double *ratio = room_for(rounds, sizeof *ratio);
    for (size_t i = 0; i < rounds; i++) {
        library[i] = time_library(bench);
        bare[i] = time_bare(bench);
        ratio[i] = library[i].wall / bare[i].wall;
        printf("round %zu: library %.2f s (%.2f accumulate, %.2f solve; %llu pseudo-labels), bare calls %.2f s (sgemm %.2f, ssyrk "
               "%.2f, dpotrf %.2f), ratio %.3f\n",
               i + 1, library[i].wall, library[i].accumulate, library[i].solve, (unsigned long long)library[i].pseudo_labels,
               bare[i].wall, bare[i].expand, bare[i].update, bare[i].factor, ratio[i]);
        fflush(stdout);
    }
    print_summary(bench, library, bare, ratio);
    free(library);
    free(bare);
    free(ratio);
}

static void print_better_kernels(const struct bench *bench) {
    l3a_machine machine = {.size = sizeof machine};
    l3a_machine_query(bench->context, &machine);
    puts(machine.better_kernels);
}

static size_t size_from(const char *name, const char *text, size_t low, size_t high) {
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    if (*end || value < low || value > high) {
        give_up(name, "the value is not a number that this program can use");
    }
    return value;
}

static int read_settings(int count, char **arguments, struct settings *settings) {
    static const struct option options[] = {{"rows", 1, NULL, 0},    {"width", 1, NULL, 1},  {"dim", 1, NULL, 2},
                                            {"classes", 1, NULL, 3}, {"rounds", 1, NULL, 4}, {"better-kernels", 0, NULL, 5},
                                            {"help", 0, NULL, 6},    {NULL, 0, NULL, 0}};
    int choice, index = 0, only_kernels = 0;
    while ((choice = getopt_long(count, arguments, "", options, &index)) != -1) {
        switch (choice) {
        case 0: settings->rows = size_from("--rows", optarg, 1, 10000000); break;
        case 1: settings->width = size_from("--width", optarg, 1, 65536); break;
        case 2: settings->dim = size_from("--dim", optarg, 1, 32768); break;
        case 3: settings->classes = size_from("--classes", optarg, 2, 10000); break;
        case 4: settings->rounds = size_from("--rounds", optarg, 1, 1000); break;
        case 5: only_kernels = 1; break;
        default:
            fprintf(stderr, "usage: bench_learn [--rows N] [--width K] [--dim D] [--classes C] [--rounds R]\n"
                            "       bench_learn --better-kernels    print the OPENBLAS_CORETYPE to set, or an empty line\n");
            exit(choice == 6 ? 0 : 2);
        }
    }
    return only_kernels;
}

int main(int count, char **arguments) {
    struct bench bench = {.settings = {.rows = 25046, .width = 2048, .dim = 8192, .classes = 80, .rounds = 3}};
    const int only_kernels = read_settings(count, arguments, &bench.settings);
    l3a_context_options context_options = {.size = sizeof context_options};
    context_options.on_event = keep_solve_time;
    context_options.event_user = &bench;
    if (l3a_context_create(&context_options, &bench.context) != L3A_OK) {
        give_up("context", "cannot be created");
    }
    if (only_kernels) {
        print_better_kernels(&bench);
    } else {
        make_bench(&bench);
        run_rounds(&bench);
    }
    void *const owned[] = {bench.features, bench.labels,   bench.names, bench.classes,
                           bench.layer,    bench.expanded, bench.gram,  bench.system};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
    l3a_options_free(bench.options);
    l3a_context_free(bench.context);
    return 0;
}
