/* Compares saving a model with writing as many bytes to a new file and syncing it, which is the least that any program does. The
 * two take turns, so that a change in the speed of the machine or of its disk affects both. Loading is compared with reading the
 * file. */
#include <l3a/l3a.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 64, ROWS = 256, CLASSES = 10, ROUNDS = 99, CHUNK = 1 << 20 };

struct bench {
    l3a_context *context;
    l3a_model *model;
    char saved[4096], bare[4096];
    char *chunk;
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check(const struct bench *bench, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "bench_save: %s\n", l3a_error_text(bench->context));
        exit(1);
    }
}

static void need(int condition, const char *what) {
    if (!condition) {
        perror(what);
        exit(1);
    }
}

/* What the model has learned does not matter here. */
static void make_model(struct bench *bench, const char *dim) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    static const char *const names[CLASSES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    l3a_options *options = NULL;
    l3a_features *table = NULL;
    uint64_t state = 1;
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        values[i] = (float)(state >> 40) / (float)(1 << 24) - 0.5f;
    }
    for (size_t i = 0; i < ROWS; i++) {
        labels[i * CLASSES + i % CLASSES] = 1;
    }
    check(bench, l3a_options_create(bench->context, &options));
    check(bench, l3a_options_set(bench->context, options, "dim", dim));
    check(bench, l3a_model_create(bench->context, WIDTH, options, &bench->model));
    check(bench, l3a_features_wrap(bench->context, values, labels, ROWS, 1, WIDTH, names, CLASSES, &table));
    check(bench, l3a_model_learn(bench->model, table, names, CLASSES));
    l3a_features_free(table);
    l3a_options_free(options);
}

static double save(const struct bench *bench) {
    const double start = seconds();
    check(bench, l3a_model_save(bench->model, bench->saved));
    return seconds() - start;
}

static double write_bare(const struct bench *bench, size_t bytes) {
    const double start = seconds();
    const int file = open(bench->bare, O_WRONLY | O_CREAT | O_EXCL, 0600);
    need(file >= 0, bench->bare);
    for (size_t done = 0, count; done < bytes; done += count) {
        count = bytes - done < CHUNK ? bytes - done : CHUNK;
        need(write(file, bench->chunk, count) == (ssize_t)count, bench->bare);
    }
    need(fsync(file) == 0, bench->bare);
    const double taken = seconds() - start;
    close(file);
    need(unlink(bench->bare) == 0, bench->bare);
    return taken;
}

static double load(const struct bench *bench) {
    l3a_model *model = NULL;
    const double start = seconds();
    check(bench, l3a_model_load(bench->context, bench->saved, &model));
    const double taken = seconds() - start;
    l3a_model_free(model);
    return taken;
}

static double read_bare(const struct bench *bench) {
    const double start = seconds();
    const int file = open(bench->saved, O_RDONLY);
    need(file >= 0, bench->saved);
    while (read(file, bench->chunk, CHUNK) > 0) {
    }
    close(file);
    return seconds() - start;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* `taken` and `bare` are sorted afterwards. */
static void print_ratio(const char *name, double *taken, double *bare, size_t rounds, const char *end) {
    double ratios[ROUNDS];
    for (size_t i = 0; i < rounds; i++) {
        ratios[i] = taken[i] / bare[i];
    }
    qsort(ratios, rounds, sizeof *ratios, compare);
    qsort(taken, rounds, sizeof *taken, compare);
    qsort(bare, rounds, sizeof *bare, compare);
    printf("\"%s\": {\"seconds\": %.4f, \"bare\": %.4f, \"ratio\": %.3f, \"least\": %.3f, \"most\": %.3f}%s", name,
           taken[rounds / 2], bare[rounds / 2], ratios[rounds / 2], ratios[0], ratios[rounds - 1], end);
}

int main(int count, char **arguments) {
    static struct bench bench;
    double saved[ROUNDS], written[ROUNDS], loaded[ROUNDS], read[ROUNDS];
    if (count < 4) {
        fprintf(stderr, "usage: bench_save DIM ROUNDS FOLDER [THREADS [DEVICE]]\n");
        return 2;
    }
    size_t rounds = strtoul(arguments[2], NULL, 10);
    rounds = rounds < 1 ? 1 : rounds > ROUNDS ? ROUNDS : rounds;
    l3a_context_options options = {.size = sizeof options};
    options.threads = count > 4 ? atoi(arguments[4]) : 0;
    options.device = count > 5 ? arguments[5] : NULL;
    if (l3a_context_create(&options, &bench.context) != L3A_OK) {
        fprintf(stderr, "bench_save: %s\n", l3a_error_text(bench.context));
        return 1;
    }
    snprintf(bench.saved, sizeof bench.saved, "%s/bench_save.safetensors", arguments[3]);
    snprintf(bench.bare, sizeof bench.bare, "%s/bench_save.bare", arguments[3]);
    bench.chunk = malloc(CHUNK);
    need(bench.chunk != NULL, "memory");
    memset(bench.chunk, 1, CHUNK);
    make_model(&bench, arguments[1]);
    save(&bench);
    struct stat about;
    need(stat(bench.saved, &about) == 0, bench.saved);
    for (size_t i = 0; i < rounds; i++) {
        saved[i] = save(&bench);
        written[i] = write_bare(&bench, (size_t)about.st_size);
        loaded[i] = load(&bench);
        read[i] = read_bare(&bench);
    }
    printf("{\"dim\": %s, \"bytes\": %zu, \"rounds\": %zu, ", arguments[1], (size_t)about.st_size, rounds);
    print_ratio("save", saved, written, rounds, ", ");
    print_ratio("load", loaded, read, rounds, "}\n");
    unlink(bench.saved);
    l3a_model_free(bench.model);
    l3a_context_free(bench.context);
    free(bench.chunk);
    return 0;
}
