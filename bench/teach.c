/* Teaches pictures to a model in memory: how long a lesson of 1, 10 and 40 images takes whose features are given, and how long one
 * who tags meanwhile has to wait.
 *
 *   bench_teach TRAIN DIM PER-PHASE ROUNDS [BACKBONE PICTURE FOLDER]
 *   bench_teach sets nested|apart CLASSES SETS EACH ROUNDS [THREADS]
 *   bench_teach lessons COUNT BACKBONE FOLDER
 *   bench_teach library DIM CLASSES EACH UNLABELLED ROUNDS
 *
 * The model first learns the classes of TRAIN in eight phases of at most PER-PHASE images each. With a backbone, a picture and a
 * folder for the model, a thread tags the picture again and again, alone and then during lessons.
 *
 * sets: lessons of one image, to a model with the settings of `l3a teach` that was taught EACH images of every class, in so many
 * judged sets. `nested`: the classes came set by set, and each image was judged for all that were known then; so are those of the
 * lessons. `apart`: each image was only judged for the classes of its own set.
 *
 * lessons: COUNT lessons of one picture each, from its features, to a tagger that commits them; and what they take on average,
 * the first hundred and the last.
 *
 * library: lessons of one image and of EACH images, by turns to a model without and to one with unlabelled images, which were both
 * taught EACH images of every class. */
#include <l3a/l3a_experiment.h>

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

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
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
        check(bench,
              l3a_features_wrap(bench->context, values, labels, count, 1, bench->width, bench->names, bench->classes, &table));
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
                                   1, bench->width, bench->names, bench->classes, &table));
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

/* ---- Judged sets ---- */

enum { SET_WIDTH = 192 };

/* Numbers in [-1, 1), always the same. */
static float noise(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

/* An image of a class: what all images have in common, what those of the class have, and noise. */
static void draw_image(size_t class, uint64_t *state, float *features) {
    uint64_t all = 1, own = 1000 + class;
    for (size_t i = 0; i < SET_WIDTH; i++) {
        features[i] = noise(&all) + noise(&own) + noise(state);
    }
}

/* Labels of an image of a class that was judged for the classes [first, last). */
static void judge(size_t classes, size_t class, size_t first, size_t last, int8_t *labels) {
    for (size_t k = 0; k < classes; k++) {
        labels[k] = k == class ? 1 : k >= first && k < last ? 0 : -1;
    }
}

static double teach_rows(struct bench *bench, l3a_model *model, const float *values, const int8_t *labels, size_t rows) {
    l3a_features *table = NULL;
    l3a_teach_report report = {.size = sizeof report};
    check(bench, l3a_features_wrap(bench->context, values, labels, rows, 1, SET_WIDTH, bench->names, bench->classes, &table));
    const double start = seconds();
    check(bench, l3a_model_teach(model, table, &report));
    const double taken = seconds() - start;
    l3a_features_free(table);
    return taken;
}

/* dim: NULL for the default */
static l3a_model *make_taught_model(struct bench *bench, size_t width, const char *dim) {
    l3a_options *options = NULL;
    l3a_model *model = NULL;
    check(bench, l3a_options_create(bench->context, &options));
    check(bench, l3a_lesson_settings(bench->context, options));
    if (dim) {
        check(bench, l3a_options_set(bench->context, options, "dim", dim));
    }
    check(bench, l3a_model_create(bench->context, width, options, &model));
    l3a_options_free(options);
    return model;
}

static void name_classes(struct bench *bench) {
    for (size_t k = 0; k < bench->classes; k++) {
        char name[32];
        snprintf(name, sizeof name, "class %zu", k);
        bench->names[k] = strdup(name);
    }
}

static int measure_sets(struct bench *bench, int count, char **arguments) {
    const bool nested = strcmp(arguments[2], "nested") == 0;
    const size_t sets = strtoul(arguments[4], NULL, 10), each = strtoul(arguments[5], NULL, 10);
    const size_t rounds = strtoul(arguments[6], NULL, 10);
    const l3a_context_options options = {.size = sizeof options, .threads = count > 7 ? atoi(arguments[7]) : 0};
    uint64_t state = 7;
    bench->classes = strtoul(arguments[3], NULL, 10);
    const size_t rows = bench->classes * each, classes = bench->classes;
    float *values = malloc((rows + 1) * SET_WIDTH * sizeof *values);
    int8_t *labels = malloc((rows + 1) * classes);
    double *taken = malloc((rounds + 1) * sizeof *taken);
    if (classes > MOST || !sets || sets > classes || !values || !labels || !taken) {
        return 1;
    }
    check(bench, l3a_context_create(&options, &bench->context));
    name_classes(bench);
    for (size_t i = 0; i < rows; i++) {
        const size_t class = i / each, set = class * sets / classes;
        const size_t first = (set * classes + sets - 1) / sets, last = ((set + 1) * classes + sets - 1) / sets;
        draw_image(class, &state, values + i * SET_WIDTH);
        judge(classes, class, nested ? 0 : first, last, labels + i * classes);
    }
    l3a_model *model = make_taught_model(bench, SET_WIDTH, NULL);
    const double whole = teach_rows(bench, model, values, labels, rows), before = processor_seconds();
    for (size_t r = 0; r < rounds; r++) {
        const size_t class = r * 37 % classes, set = class * sets / classes;
        const size_t first = (set * classes + sets - 1) / sets, last = ((set + 1) * classes + sets - 1) / sets;
        draw_image(class, &state, values);
        judge(classes, class, nested ? 0 : first, nested ? classes : last, labels);
        taken[r] = teach_rows(bench, model, values, labels, 1);
    }
    const double processor = processor_seconds() - before;
    printf("%zu classes, %zu images each, %zu judged sets (%s), %d threads: all taught at once in %.2f s, then one image in",
           classes, each, l3a_model_part_count(model), arguments[2], l3a_context_threads(bench->context), whole);
    for (size_t r = 0; r < rounds && r < 8; r++) {
        printf(" %.3f", taken[r]);
    }
    qsort(taken, rounds, sizeof *taken, compare);
    printf(" s; median %.3f, longest %.3f s; processor time %.3f s each\n", taken[rounds / 2], taken[rounds - 1],
           processor / (double)rounds);
    l3a_model_free(model);
    l3a_context_free(bench->context);
    return 0;
}

/* ---- A library ---- */

/* Gives the model unlabelled images: of the classes, and of as many things that were never taught. */
static double give_library(struct bench *bench, l3a_model *model, size_t count) {
    float *values = malloc(count * SET_WIDTH * sizeof *values);
    l3a_features *table = NULL;
    uint64_t state = 8;
    for (size_t i = 0; values && i < count; i++) {
        draw_image(i % (2 * bench->classes), &state, values + i * SET_WIDTH);
    }
    check(bench, l3a_features_wrap(bench->context, values, NULL, count, 1, SET_WIDTH, NULL, 0, &table));
    const double start = seconds();
    check(bench, l3a_model_set_unlabelled(model, table, NULL));
    const double taken = seconds() - start;
    l3a_features_free(table);
    free(values);
    return taken;
}

static int measure_library(struct bench *bench, char **arguments) {
    const size_t each = strtoul(arguments[4], NULL, 10), unlabelled = strtoul(arguments[5], NULL, 10);
    const size_t asked = strtoul(arguments[6], NULL, 10), rounds = asked < 1 ? 1 : asked > 99 ? 99 : asked;
    double ratios[100], without[100];
    uint64_t state = 7;
    bench->classes = strtoul(arguments[3], NULL, 10);
    const size_t rows = bench->classes * each, sizes[] = {1, each};
    float *values = malloc((rows + 1) * SET_WIDTH * sizeof *values);
    int8_t *labels = malloc((rows + 1) * bench->classes);
    if (bench->classes > MOST || !rows || !values || !labels) {
        return 1;
    }
    check(bench, l3a_context_create(NULL, &bench->context));
    name_classes(bench);
    for (size_t i = 0; i < rows; i++) {
        draw_image(i / each, &state, values + i * SET_WIDTH);
        judge(bench->classes, i / each, 0, bench->classes, labels + i * bench->classes);
    }
    l3a_model *models[2];
    for (size_t m = 0; m < 2; m++) {
        models[m] = make_taught_model(bench, SET_WIDTH, arguments[2]);
        teach_rows(bench, models[m], values, labels, rows);
    }
    printf("dim %s, %zu classes of %zu images: %zu unlabelled images in %.2f s\n", arguments[2], bench->classes, each, unlabelled,
           give_library(bench, models[1], unlabelled));
    for (size_t s = 0; s < 2; s++) {
        for (size_t r = 0; r <= rounds; r++) { /* the first one prepares what the others use */
            double taken[2];
            for (size_t i = 0; i < sizes[s]; i++) {
                draw_image(r * 37 % bench->classes, &state, values + i * SET_WIDTH);
                judge(bench->classes, r * 37 % bench->classes, 0, bench->classes, labels + i * bench->classes);
            }
            for (size_t m = 0; m < 2; m++) {
                taken[(m + r) % 2] = teach_rows(bench, models[(m + r) % 2], values, labels, sizes[s]);
            }
            without[r ? r - 1 : 0] = taken[0];
            ratios[r ? r - 1 : 0] = taken[1] / taken[0];
        }
        qsort(without, rounds, sizeof(double), compare);
        qsort(ratios, rounds, sizeof(double), compare);
        printf("a lesson of %zu image%s: %.3f s without them; with them %.2f times as long (%.2f to %.2f, %zu rounds)\n", sizes[s],
               sizes[s] == 1 ? "" : "s", without[rounds / 2], ratios[rounds / 2], ratios[0], ratios[rounds - 1], rounds);
    }
    l3a_model_free(models[0]);
    l3a_model_free(models[1]);
    l3a_context_free(bench->context);
    free(values);
    free(labels);
    return 0;
}

/* ---- Many lessons ---- */

static int measure_many(struct bench *bench, char **arguments) {
    enum { CLASSES = 20, SPAN = 100 };
    const size_t count = strtoul(arguments[2], NULL, 10);
    l3a_tagger_options options = {.size = sizeof options, .backbone = arguments[3], .commit = 1};
    l3a_tagger *tagger = NULL;
    l3a_options *settings = NULL;
    char path[4096], name[32];
    double *taken = malloc((count + 1) * sizeof *taken);
    uint64_t state = 7;
    if (count < 2 * SPAN || !taken) {
        return 1;
    }
    snprintf(path, sizeof path, "%s/bench.l3a", arguments[4]);
    check(bench, l3a_context_create(NULL, &bench->context));
    check(bench, l3a_options_create(bench->context, &settings));
    check(bench, l3a_lesson_settings(bench->context, settings));
    check(bench, l3a_tagger_create(bench->context, path, settings, &options, &tagger));
    check(bench, l3a_tagger_save(tagger));
    bench->width = l3a_model_width(l3a_tagger_model(tagger));
    float *features = malloc(bench->width * sizeof *features);
    for (size_t n = 0; n < count; n++) {
        l3a_lesson *lesson = NULL;
        l3a_teach_report report = {.size = sizeof report};
        const char *tag = name;
        const l3a_judgement judgement = {.size = sizeof judgement, .tags = &tag, .tag_count = 1};
        snprintf(name, sizeof name, "class %zu", n % CLASSES);
        for (size_t i = 0; i < bench->width; i++) {
            features[i] = noise(&state) + (i % CLASSES == n % CLASSES ? 2.f : 0.f);
        }
        const double start = seconds();
        check(bench, l3a_lesson_create(bench->context, &lesson));
        check(bench, l3a_lesson_add_features(lesson, "picture", n + 1, features, bench->width, &judgement));
        check(bench, l3a_tagger_teach(tagger, lesson, NULL, &report));
        l3a_lesson_free(lesson);
        taken[n] = seconds() - start;
    }
    qsort(taken, SPAN, sizeof *taken, compare);
    qsort(taken + count - SPAN, SPAN, sizeof *taken, compare);
    const double first = taken[SPAN / 2], last = taken[count - SPAN + SPAN / 2];
    printf("%zu lessons of one picture: median of the first %d %.1f ms, of the last %d %.1f ms; ratio %.2f\n", count, SPAN,
           1e3 * first, SPAN, 1e3 * last, last / first);
    l3a_tagger_free(tagger);
    l3a_options_free(settings);
    l3a_context_free(bench->context);
    free(features);
    free(taken);
    return 0;
}

int main(int count, char **arguments) {
    static struct bench bench;
    if ((count == 7 || count == 8) && strcmp(arguments[1], "sets") == 0) {
        return measure_sets(&bench, count, arguments);
    }
    if (count == 5 && strcmp(arguments[1], "lessons") == 0) {
        return measure_many(&bench, arguments);
    }
    if (count == 7 && strcmp(arguments[1], "library") == 0) {
        return measure_library(&bench, arguments);
    }
    if (count != 5 && count != 8) {
        fprintf(stderr, "usage: bench_teach TRAIN DIM PER-PHASE ROUNDS [BACKBONE PICTURE FOLDER]\n"
                        "       bench_teach sets nested|apart CLASSES SETS EACH ROUNDS [THREADS]\n"
                        "       bench_teach lessons COUNT BACKBONE FOLDER\n"
                        "       bench_teach library DIM CLASSES EACH UNLABELLED ROUNDS\n");
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
