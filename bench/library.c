/* Makes an index of many pictures whose features are made up, and measures what people wait for.
 *
 *   bench_library model BACKBONE MODEL SEED DIM TAGS       a model that has learned 4,000 such pictures
 *   bench_library fill BACKBONE MODEL COUNT VIEWS          an index of COUNT pictures beside the model
 *   bench_library grow BACKBONE MODEL FOLDER               scans a folder into it twice, and once more after one file has changed
 *   bench_library measure BACKBONE MODEL OTHER VIEWS THREADS ROUNDS
 *                                                          OTHER: a model of the same tags, to tag all pictures again
 *
 * Features are directions of 2,000 clusters with as much noise; pictures are in 2,000 folders. Each line of the output has a name
 * and numbers: a measurement's in each round, in seconds, bytes or pieces. bench/library.py prints what they mean. */
#include "library/library.h"

#include <l3a/l3a_experiment.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLUSTERS = 2000, TAUGHT = 4000, FOLDERS = 2000, ROWS = 20000, PAGE = 60, MOST_TAGS = 64, SPARE = 1024 };

static l3a_context *context;

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check(l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "bench_library: %s (%s)\n", l3a_error_text(context), l3a_error_hint(context));
        exit(1);
    }
}

static void *get(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "bench_library: out of memory\n");
        exit(1);
    }
    return memory;
}

/* ---- Made-up pictures ---- */

static uint64_t scramble(uint64_t value) {
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

static float *centres;

/* The features of a picture, from one of the views on. */
static void make_features(size_t width, uint64_t picture, size_t rows, float *features) {
    const float *centre = centres + scramble(picture) % CLUSTERS * width;
    uint64_t state = scramble(picture * 7919 + 1);
    for (size_t i = 0; i < rows * width; i++) {
        state = i % 4 ? state >> 16 : scramble(picture * 7919 + i + 2);
        features[i] = centre[i % width] + (float)(state & 0xFFFF) / 32768 - 1;
    }
}

static void make_centres(size_t width) {
    centres = get(CLUSTERS * width, sizeof *centres);
    for (size_t i = 0; i < CLUSTERS * width; i++) {
        centres[i] = (float)(scramble(i + 1000003) & 0xFFFF) / 32768 - 1;
    }
}

static bool shows(uint64_t picture, size_t tag) {
    return scramble(scramble(picture) % CLUSTERS * 131 + tag) % 20 == 0;
}

/* ---- A model ---- */

static void make_model(const char *backbone_path, const char *path, uint64_t seed, size_t dim, size_t tags) {
    l3a_backbone *backbone = NULL;
    l3a_options *options = NULL;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    static char names[MOST_TAGS][16];
    const char *classes[MOST_TAGS];
    char text[32];
    check(l3a_backbone_open(context, backbone_path, NULL, &backbone));
    const size_t width = l3a_backbone_describe(backbone)->width;
    make_centres(width);
    float *features = get(TAUGHT * width, sizeof *features);
    int8_t *labels = get(TAUGHT * tags, 1);
    for (size_t i = 0; i < TAUGHT; i++) {
        make_features(width, seed * 1000000007 + i, 1, features + i * width);
        for (size_t k = 0; k < tags; k++) {
            labels[i * tags + k] = shows(seed * 1000000007 + i, k);
        }
    }
    for (size_t k = 0; k < tags; k++) {
        snprintf(names[k], sizeof names[k], "tag%zu", k);
        classes[k] = names[k];
    }
    check(l3a_options_create(context, &options));
    snprintf(text, sizeof text, "%zu", dim);
    check(l3a_options_set(context, options, "dim", text));
    check(l3a_options_set(context, options, "gamma", "10"));
    check(l3a_features_wrap(context, features, labels, TAUGHT, 1, width, classes, tags, &table));
    check(l3a_backbone_sign(backbone, 1, table));
    check(l3a_model_create(context, width, options, &model));
    check(l3a_model_learn(model, table, classes, tags));
    check(l3a_model_save(model, path));
    l3a_model_free(model);
    l3a_features_free(table);
    l3a_options_free(options);
    l3a_backbone_free(backbone);
    free(features);
    free(labels);
}

/* ---- An index ---- */

static l3a_tagger *open_tagger(const char *backbone, const char *model, size_t views) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone, .views = views};
    l3a_tagger *tagger = NULL;
    check(l3a_tagger_open(context, model, &options, &tagger));
    return tagger;
}

static void add_folders(struct database *database) {
    check(database_execute(database, "INSERT OR IGNORE INTO root (id, path) VALUES (1, '/made-up')"));
    for (int64_t i = 0; i < FOLDERS; i++) {
        check(database_run(database,
                           "INSERT OR IGNORE INTO folder (id, root, path) VALUES (?1 + 1, 1, printf('/made-up/%04d/%02d', "
                           "?1 / 20, ?1 % 20))",
                           &i, 1));
    }
}

/* Records and rows [first, first + count), as looking at pictures leaves them. */
static void add_pictures(l3a_library *library, uint64_t first, size_t count) {
    struct database *database = &library->database;
    const size_t numbers = library->slots.width * library->slots.rows;
    float *features = get(SPARE * numbers, sizeof *features);
    int64_t change;
    check(database_begin(database));
    check(library_next_change(library, &change));
    for (uint64_t start = first; start < first + count; start += SPARE) {
        const size_t n = first + count - start < SPARE ? (size_t)(first + count - start) : SPARE;
        uint64_t checksums[SPARE];
        float log_sums[SPARE];
        for (size_t i = 0; i < n; i++) {
            const uint64_t picture = start + i;
            checksums[i] = scramble(picture + 5);
            log_sums[i] = 12;
            make_features(library->slots.width, picture, library->slots.rows, features + i * numbers);
            const int64_t values[] = {(int64_t)picture, (int64_t)checksums[i], change,
                                      (int64_t)(picture * FOLDERS / 1000000 % FOLDERS),
                                      (int64_t)(1000000000 + scramble(picture + 9) % 700000000)};
            check(database_run(database, "INSERT INTO feature (slot, checksum) VALUES (?1, ?2)", values, 2));
            check(database_run(
                database,
                "INSERT INTO picture (folder, name, size, modified, checksum, kind, taken, state, slot, change) VALUES "
                "(?4 + 1, printf('IMG_%07d.jpg', ?1), 4000000 + ?1, 1000000000 * ?5, ?2, 'jpeg', ?5, 1, ?1, ?3)",
                values, 5));
        }
        check(slots_write(&library->slots, start, n, checksums, log_sums, features));
    }
    check(slots_sync(&library->slots));
    check(database_end(database, L3A_OK));
    free(features);
}

static void fill(const char *backbone, const char *model, uint64_t count, size_t views) {
    l3a_tagger *tagger = open_tagger(backbone, model, views);
    l3a_library *library = NULL;
    int64_t have;
    check(l3a_library_open(context, tagger, NULL, &library));
    check(library_make_slots(library));
    make_centres(library->slots.width);
    add_folders(&library->database);
    check(database_number(&library->database, "SELECT count(*) FROM feature", NULL, 0, 0, &have));
    for (uint64_t first = (uint64_t)have; first < count; first += ROWS) {
        add_pictures(library, first, count - first < ROWS ? (size_t)(count - first) : ROWS);
    }
    check(l3a_library_score(library, 0, NULL));
    l3a_library_free(library);
    l3a_tagger_free(tagger);
}

/* ---- Measuring ---- */

static uint64_t private_bytes(void) {
    char line[256];
    uint64_t sum = 0, kib;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file)) {
        sum += sscanf(line, "Private_Clean: %" SCNu64, &kib) == 1 || sscanf(line, "Private_Dirty: %" SCNu64, &kib) == 1 ? kib : 0;
    }
    if (file) {
        fclose(file);
    }
    return sum * 1024;
}

/* A page of results, with what a page says of each picture. */
static double time_page(l3a_library *library, l3a_find_options options) {
    l3a_found *found = NULL;
    const double start = seconds();
    options.size = sizeof options;
    options.most = options.most ? options.most : PAGE;
    check(l3a_library_find(library, &options, &found));
    for (size_t i = 0; i < l3a_found_count(found) && i < PAGE; i++) {
        l3a_library_picture picture = {.size = sizeof picture};
        check(l3a_library_picture_at(library, l3a_found_id(found, i), &picture));
    }
    l3a_found_free(found);
    return seconds() - start;
}

static void measure_page(l3a_library *library, const char *name, l3a_find_options options, size_t rounds) {
    printf("%s", name);
    for (size_t i = 0; i <= rounds; i++) { /* the first of all is what one waits for once */
        printf(" %.6f", time_page(library, options));
    }
    printf("\n");
}

static void measure_pages(l3a_library *library, size_t rounds) {
    uint64_t like[8];
    for (size_t i = 0; i < 8; i++) {
        like[i] = 1 + scramble(i) % library->catalogue.count;
    }
    measure_page(library, "page-date", (l3a_find_options){.sort = "date"}, rounds);
    measure_page(library, "page-tag", (l3a_find_options){.where = "tag3"}, rounds);
    measure_page(library, "page-expression",
                 (l3a_find_options){.where = "tag1 and not (tag2 or tag5) since:2010 folder:0007 or tag4"}, rounds);
    measure_page(library, "page-not", (l3a_find_options){.where = "not tag3", .sort = "date"}, rounds);
    measure_page(library, "page-unsure", (l3a_find_options){.where = "is:unsure", .sort = "unsure"}, rounds);
    measure_page(library, "page-novel", (l3a_find_options){.sort = "novel"}, rounds);
    measure_page(library, "page-name", (l3a_find_options){.sort = "name"}, rounds);
    measure_page(library, "page-part-of-name", (l3a_find_options){.where = "name:99"}, rounds);
    measure_page(library, "page-all", (l3a_find_options){.sort = "date", .most = UINT64_MAX}, rounds);
    measure_page(library, "like-1", (l3a_find_options){.like = like, .like_count = 1}, rounds);
    measure_page(library, "like-8", (l3a_find_options){.like = like, .like_count = 8}, rounds);
    const char *problem = NULL;
    check(l3a_library_words(library, &problem));
    if (!problem[0]) {
        measure_page(library, "word", (l3a_find_options){.word = "dog"}, rounds);
    }
}

static void measure_state(l3a_library *library, size_t tags, size_t rounds) {
    l3a_library_info info = {.size = sizeof info};
    printf("state");
    for (size_t i = 0; i <= rounds; i++) {
        const double start = seconds();
        check(l3a_library_describe(library, &info));
        for (size_t k = 0; k < tags; k++) {
            char name[16];
            uint64_t said, predicted;
            snprintf(name, sizeof name, "tag%zu", k);
            check(l3a_library_count(library, name, &said, &predicted));
        }
        printf(" %.6f", seconds() - start);
    }
    printf("\npictures %" PRIu64 "\nbytes %" PRIu64 "\nunsure %" PRIu64 "\nuntagged %" PRIu64 "\n", info.pictures, info.bytes,
           info.unsure, info.untagged);
}

static int ignore(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    (void)index;
    (void)tags;
    (void)user;
    return status != L3A_OK;
}

/* What is on screen is scored from its features first, and then all. */
static void measure_lessons(l3a_library *library, l3a_tagger *tagger, const char *model, const char *other, size_t rounds) {
    l3a_reader *reader = NULL;
    char spare[4200];
    double page[64], all[64], processor[64];
    snprintf(spare, sizeof spare, "%s.spare", model);
    check(l3a_reader_create(tagger, &reader));
    float *features = get(PAGE * l3a_reader_width(reader), sizeof *features);
    for (size_t i = 0; i < rounds && i < 64; i++) { /* the two models take turns */
        if (rename(model, spare) || rename(other, model) || rename(spare, other)) {
            perror("bench_library");
            exit(1);
        }
        check(l3a_tagger_reload(tagger));
        double start = seconds();
        for (size_t k = 0; k < PAGE; k++) {
            check(
                l3a_library_features(library, 1 + scramble(k) % library->catalogue.count, features + k * l3a_reader_width(reader)));
        }
        check(l3a_reader_score(reader, features, PAGE, ignore, NULL));
        page[i] = seconds() - start;
        start = seconds();
        processor[i] = processor_seconds();
        check(l3a_library_score(library, 0, NULL));
        all[i] = seconds() - start;
        processor[i] = processor_seconds() - processor[i];
    }
    printf("lesson-page");
    for (size_t i = 0; i < rounds; i++) {
        printf(" %.6f", page[i]);
    }
    printf("\nlesson-all");
    for (size_t i = 0; i < rounds; i++) {
        printf(" %.6f", all[i]);
    }
    printf("\nlesson-processor");
    for (size_t i = 0; i < rounds; i++) {
        printf(" %.6f", processor[i]);
    }
    printf("\n");
    free(features);
    l3a_reader_free(reader);
}

static void measure(const char *backbone, const char *model, const char *other, size_t views, size_t tags, size_t rounds) {
    double start = seconds();
    l3a_library *library = NULL;
    l3a_library_info info = {.size = sizeof info};
    l3a_tagger *tagger = open_tagger(backbone, model, views);
    printf("start-model %.6f\n", seconds() - start);
    start = seconds();
    check(l3a_library_open(context, tagger, NULL, &library));
    check(l3a_library_describe(library, &info));
    time_page(library, (l3a_find_options){.sort = "date"});
    printf("start-index %.6f\n", seconds() - start);
    printf("memory-start %" PRIu64 "\n", private_bytes());
    measure_pages(library, rounds);
    measure_state(library, tags, rounds);
    printf("memory-pages %" PRIu64 "\n", private_bytes());
    measure_lessons(library, tagger, model, other, rounds);
    printf("memory-lessons %" PRIu64 "\n", private_bytes());
    l3a_library_free(library);
    l3a_tagger_free(tagger);
}

static void grow(const char *backbone, const char *model, const char *folder) {
    l3a_tagger *tagger = open_tagger(backbone, model, 0);
    l3a_library *library = NULL;
    l3a_scan_report report = {.size = sizeof report};
    check(l3a_library_open(context, tagger, NULL, &library));
    check(l3a_library_add(library, folder));
    printf("scan");
    for (int i = 0; i < 3; i++) {
        const double start = seconds();
        check(l3a_library_scan(library, &report));
        printf(" %.6f", seconds() - start);
    }
    printf("\nscanned %" PRIu64 "\n", report.pictures);
    check(l3a_library_remove(library, folder));
    l3a_library_free(library);
    l3a_tagger_free(tagger);
}

int main(int count, char **arguments) {
    const l3a_context_options options = {.size = sizeof options, .threads = count == 8 ? atoi(arguments[6]) : 2};
    check(l3a_context_create(&options, &context));
    if (count == 7 && strcmp(arguments[1], "model") == 0) {
        make_model(arguments[2], arguments[3], strtoull(arguments[4], NULL, 10), strtoull(arguments[5], NULL, 10),
                   strtoull(arguments[6], NULL, 10) < MOST_TAGS ? strtoull(arguments[6], NULL, 10) : MOST_TAGS);
    } else if (count == 6 && strcmp(arguments[1], "fill") == 0) {
        fill(arguments[2], arguments[3], strtoull(arguments[4], NULL, 10), strtoull(arguments[5], NULL, 10));
    } else if (count == 5 && strcmp(arguments[1], "grow") == 0) {
        grow(arguments[2], arguments[3], arguments[4]);
    } else if (count == 8 && strcmp(arguments[1], "measure") == 0) {
        measure(arguments[2], arguments[3], arguments[4], strtoull(arguments[5], NULL, 10), 20, strtoull(arguments[7], NULL, 10));
    } else {
        fprintf(stderr,
                "bench_library model BACKBONE MODEL SEED DIM TAGS | fill BACKBONE MODEL COUNT VIEWS | grow BACKBONE MODEL FOLDER | "
                "measure BACKBONE MODEL OTHER VIEWS THREADS ROUNDS\n");
        return 2;
    }
    l3a_context_free(context);
    free(centres);
    return 0;
}
