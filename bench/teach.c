/* Teaches pictures to a model in memory: how long a lesson of 1, 10 and 40 images takes whose features are given, and how long one
 * who tags meanwhile has to wait.
 *
 *   bench_teach TRAIN DIM PER-PHASE ROUNDS [BACKBONE PICTURE FOLDER]
 *
 * The model first learns the classes of TRAIN in eight phases of at most PER-PHASE images each. With a backbone, a picture and a
 * folder for the model, a thread tags the picture again and again, alone and then during lessons. */
#include <l3a/l3a.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PHASES = 8, MOST = 4096, SAMPLES = 1 << 16 };

struct bench {
    l3a_context *context;
    l3a_features *train;
    size_t rows, width, classes, per_phase;
    const char *names[MOST];
    float *values;
    int8_t *labels;
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check(const struct bench *bench, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "bench_teach: %s\n", l3a_error_text(bench->context));
        exit(1);
    }
}

static void learn_phases(struct bench *bench, l3a_model *model) {
    const size_t step = (bench->classes + PHASES - 1) / PHASES;
    float *values = malloc(bench->per_phase * bench->width * sizeof *values);
    int8_t *labels = malloc(bench->per_phase * bench->classes);
    for (size_t first = 0; first < bench->classes; first += step) {
        const size_t last = first + step < bench->classes ? first + step : bench->classes;
        size_t count = 0;
        for (size_t i = 0; i < bench->rows && count < bench->per_phase; i++) {
            bool shows = false;
            for (size_t k = first; k < last; k++) {
                shows = shows || bench->labels[i * bench->classes + k] == 1;
            }
            if (shows) {
                memcpy(values + count * bench->width, bench->values + i * bench->width, bench->width * sizeof *values);
                memcpy(labels + count++ * bench->classes, bench->labels + i * bench->classes, bench->classes);
            }
        }
        l3a_features *table = NULL;
        check(bench, l3a_features_wrap(bench->context, values, labels, count, bench->width, bench->names, bench->classes, &table));
        check(bench, l3a_model_learn(model, table, bench->names + first, last - first));
        l3a_features_free(table);
    }
    free(values);
    free(labels);
}

static l3a_model *make_model(struct bench *bench, const char *method, const char *dim) {
    l3a_options *options = NULL;
    l3a_model *model = NULL;
    check(bench, l3a_options_create(bench->context, &options));
    check(bench, l3a_options_set(bench->context, options, "dim", dim));
    check(bench, l3a_options_set(bench->context, options, "privacy-limit", "0"));
    check(bench, l3a_method_options(bench->context, method, options));
    check(bench, l3a_model_create(bench->context, bench->width, options, &model));
    learn_phases(bench, model);
    l3a_options_free(options);
    return model;
}

/* Teaches rows that no phase had, from the end of the table. */
static double teach(struct bench *bench, l3a_model *model, size_t *at, size_t count) {
    l3a_features *table = NULL;
    l3a_teach_report report = {.size = sizeof report};
    *at -= count;
    check(bench, l3a_features_wrap(bench->context, bench->values + *at * bench->width, bench->labels + *at * bench->classes, count,
                                   bench->width, bench->names, bench->classes, &table));
    const double start = seconds();
    check(bench, l3a_model_teach(model, table, &report));
    const double taken = seconds() - start;
    l3a_features_free(table);
    return taken;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void measure_lessons(struct bench *bench, const char *method, const char *dim, size_t rounds) {
    static const size_t sizes[] = {1, 10, 40};
    double taken[3][100];
    size_t at = bench->rows;
    l3a_model *model = make_model(bench, method, dim);
    teach(bench, model, &at, 1); /* the first one prepares what the others use */
    for (size_t r = 0; r < rounds; r++) {
        for (size_t s = 0; s < 3; s++) {
            taken[s][r] = teach(bench, model, &at, sizes[s]);
        }
    }
    for (size_t s = 0; s < 3; s++) {
        qsort(taken[s], rounds, sizeof(double), compare);
        printf("%s, dim %s, %zu classes, %zu parts: %zu image%s taught in %.2f s (%.2f to %.2f, %zu rounds)\n", method, dim,
               bench->classes, l3a_model_part_count(model), sizes[s], sizes[s] == 1 ? "" : "s", taken[s][rounds / 2], taken[s][0],
               taken[s][rounds - 1], rounds);
    }
    l3a_model_free(model);
}

struct tagging {
    l3a_tagger *tagger;
    const char *picture;
    atomic_int stop;
    double *samples;
    size_t count;
};

static void *tag_again_and_again(void *argument) {
    struct tagging *tagging = argument;
    l3a_reader *reader = NULL;
    if (l3a_reader_create(tagging->tagger, &reader) != L3A_OK) {
        return NULL;
    }
    while (!tagging->stop && tagging->count < SAMPLES) {
        l3a_tags *tags = NULL;
        const double start = seconds();
        if (l3a_reader_tag_file(reader, tagging->picture, &tags) != L3A_OK) {
            break;
        }
        tagging->samples[tagging->count++] = seconds() - start;
        l3a_tags_free(tags);
    }
    l3a_reader_free(reader);
    return NULL;
}

static void report_waits(const char *when, struct tagging *tagging) {
    qsort(tagging->samples, tagging->count, sizeof(double), compare);
    printf("tagging one picture %s: median %.0f ms, 99 of 100 within %.0f ms, longest %.0f ms (%zu times)\n", when,
           1e3 * tagging->samples[tagging->count / 2], 1e3 * tagging->samples[tagging->count * 99 / 100],
           1e3 * tagging->samples[tagging->count - 1], tagging->count);
    tagging->count = 0;
    tagging->stop = 0;
}

static void measure_waits(struct bench *bench, const char *dim, size_t rounds, char **arguments) {
    struct tagging tagging = {.picture = arguments[1], .samples = malloc(SAMPLES * sizeof(double))};
    l3a_tagger_options options = {.size = sizeof options, .backbone = arguments[0]};
    char path[4096];
    pthread_t thread;
    l3a_model *model = make_model(bench, "l3a+", dim);
    snprintf(path, sizeof path, "%s/bench.model", arguments[2]);
    check(bench, l3a_model_save(model, path));
    l3a_model_free(model);
    check(bench, l3a_tagger_open(bench->context, path, &options, &tagging.tagger));
    pthread_create(&thread, NULL, tag_again_and_again, &tagging);
    const double start = seconds();
    while (seconds() - start < 3) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    tagging.stop = 1;
    pthread_join(thread, NULL);
    report_waits("alone", &tagging);
    pthread_create(&thread, NULL, tag_again_and_again, &tagging);
    for (size_t r = 0; r < rounds; r++) {
        l3a_lesson *lesson = NULL;
        l3a_lesson_options kept = {.size = sizeof kept, .no_history = 1};
        l3a_teach_report report = {.size = sizeof report};
        const l3a_judgement judgement = {.size = sizeof judgement, .tags = bench->names + r % bench->classes, .tag_count = 1};
        check(bench, l3a_lesson_create(bench->context, &lesson));
        check(bench, l3a_lesson_add(lesson, arguments[1], &judgement));
        check(bench, l3a_tagger_teach(tagging.tagger, lesson, &kept, &report));
        l3a_lesson_free(lesson);
    }
    tagging.stop = 1;
    pthread_join(thread, NULL);
    report_waits("during lessons", &tagging);
    l3a_tagger_free(tagging.tagger);
    remove(path);
    free(tagging.samples);
}

int main(int count, char **arguments) {
    static struct bench bench;
    if (count != 5 && count != 8) {
        fprintf(stderr, "usage: bench_teach TRAIN DIM PER-PHASE ROUNDS [BACKBONE PICTURE FOLDER]\n");
        return 2;
    }
    const size_t asked = strtoul(arguments[4], NULL, 10), rounds = asked < 1 ? 1 : asked > 99 ? 99 : asked;
    bench.per_phase = strtoul(arguments[3], NULL, 10);
    check(&bench, l3a_context_create(NULL, &bench.context));
    check(&bench, l3a_features_open(bench.context, arguments[1], &bench.train));
    bench.rows = l3a_features_rows(bench.train);
    bench.width = l3a_features_width(bench.train);
    bench.classes = l3a_features_class_count(bench.train);
    bench.values = malloc(bench.rows * bench.width * sizeof *bench.values);
    bench.labels = malloc(bench.rows * bench.classes);
    if (bench.classes > MOST || !bench.values || !bench.labels) {
        return 1;
    }
    check(&bench, l3a_features_read(bench.train, NULL, 0, bench.rows, bench.values));
    memcpy(bench.labels, l3a_features_labels(bench.train), bench.rows * bench.classes);
    for (size_t k = 0; k < bench.classes; k++) {
        bench.names[k] = l3a_features_class(bench.train, k);
    }
    if (count == 5) {
        measure_lessons(&bench, "l3a", arguments[2], rounds);
        measure_lessons(&bench, "l3a+", arguments[2], rounds);
    } else {
        measure_waits(&bench, arguments[2], rounds, arguments + 5);
    }
    free(bench.values);
    free(bench.labels);
    l3a_features_free(bench.train);
    l3a_context_free(bench.context);
    return 0;
}
