/* The tagger: scores equal to extraction and scoring by hand, what it refuses, pictures that cannot be read, and readers on several
 * threads while the model changes. */
#include "support.h"

#include "base/memory.h"
#include "memory_probe.h"
#include "tag/tagger.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To the thread sanitizer, every loop of an OpenMP runtime that it has not compiled looks like a race. */
#ifdef __SANITIZE_THREAD__
enum { MOST_THREADS = 1 };
#else
enum { MOST_THREADS = 3 };
#endif

enum { PICTURES = 37, CLASSES = 5, EARLY = 3, WIDTH = 64, READERS = 4 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog", "elk"};

static struct {
    char *folder, *backbone, *other_backbone, *narrow, *model, *early, *late, *list, *table, *broken;
    char *pictures[PICTURES];
} input;

/* Classes [0, count) from the extracted features. */
static void save_model(l3a_context *context, size_t count, const char *path) {
    l3a_options options;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    options_default(&options);
    options.model.dim = 96;
    options.model.gamma = 1;
    options.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    assert_ok(context, l3a_features_open(context, input.table, &table));
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, count));
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
    l3a_features_free(table);
}

/* A model whose features are of another width, without any record of a backbone. */
static void save_narrow_model(l3a_context *context) {
    float values[6 * 3];
    int8_t labels[6 * 2];
    l3a_options options;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    random_table(5, 6, 3, 2, 2, values, labels);
    options_default(&options);
    options.model.dim = 8;
    assert_ok(context, l3a_features_wrap(context, values, labels, 6, 1, 3, class_names, 2, &table));
    assert_ok(context, l3a_model_create(context, 3, &options, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, 2));
    assert_ok(context, l3a_model_save(model, input.narrow));
    l3a_model_free(model);
    l3a_features_free(table);
}

static void extract_pictures(l3a_context *context) {
    char name[600];
    l3a_dataset *dataset = NULL;
    l3a_backbone *backbone = NULL;
    snprintf(name, sizeof name, "list:%s", input.list);
    assert_ok(context, l3a_dataset_open(context, name, NULL, NULL, &dataset));
    assert_ok(context, l3a_backbone_open(context, input.backbone, NULL, &backbone));
    assert_ok(context, l3a_extract(context, backbone, dataset, NULL, input.table, NULL));
    l3a_backbone_free(backbone);
    l3a_dataset_free(dataset);
}

static int make_inputs(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    input.folder = make_temporary_folder();
    input.backbone = path_in(input.folder, "backbone.safetensors");
    input.other_backbone = path_in(input.folder, "other.safetensors");
    input.narrow = path_in(input.folder, "narrow.safetensors");
    input.model = path_in(input.folder, "model.safetensors");
    input.early = path_in(input.folder, "early.safetensors");
    input.late = path_in(input.folder, "late.safetensors");
    input.list = path_in(input.folder, "list.csv");
    input.table = path_in(input.folder, "table.safetensors");
    input.broken = path_in(input.folder, "broken.jpg");
    write_small_backbone(context, input.backbone, 1);
    write_small_backbone(context, input.other_backbone, 100);
    FILE *list = fopen(input.list, "w");
    assert_non_null(list);
    fprintf(list, "path,labels\n");
    for (size_t i = 0; i < PICTURES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%02zu.jpg", i);
        input.pictures[i] = path_in(input.folder, name);
        write_small_picture(input.pictures[i], i);
        fprintf(list, "%s,%s;%s\n", name, class_names[i % CLASSES], class_names[i * i % CLASSES]);
    }
    fclose(list);
    size_t size;
    char *bytes = read_bytes(input.pictures[0], &size);
    write_bytes(input.broken, bytes, size / 2);
    free(bytes);
    extract_pictures(context);
    save_model(context, CLASSES, input.model);
    save_model(context, EARLY, input.early);
    save_model(context, CLASSES, input.late);
    save_narrow_model(context);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    char *const paths[] = {input.backbone, input.other_backbone, input.narrow, input.model, input.early,
                           input.late,     input.list,           input.table,  input.broken};
    (void)state;
    free_paths(paths, sizeof paths / sizeof paths[0]);
    free_paths(input.pictures, PICTURES);
    remove_folder(input.folder);
    return 0;
}

static l3a_tagger *open_tagger(l3a_context *context, const char *model, size_t batch) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = input.backbone, .batch = batch};
    l3a_tagger *tagger = NULL;
    assert_ok(context, l3a_tagger_open(context, model, &options, &tagger));
    return tagger;
}

static l3a_reader *make_reader(l3a_tagger *tagger) {
    l3a_reader *reader = NULL;
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    return reader;
}

/* The scores in the order of the model's classes. */
static void copy_scores(const l3a_tags *tags, float *scores) {
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        scores[l3a_tags_class(tags, i)] = l3a_tags_score(tags, i);
    }
}

/* ---- Scores ---- */

/* All pictures by hand, with the public calls. batch: how many go through the network and the model together. */
static void score_by_hand(l3a_context *context, size_t batch, float *scores) {
    enum { SIZE = 3 * 12 * 12 };
    static float planes[16 * SIZE], features[16 * WIDTH];
    l3a_backbone *backbone = NULL;
    l3a_model *model = NULL;
    l3a_loader *loader = NULL;
    l3a_loader_options options = {.size = sizeof options};
    assert_ok(context, l3a_backbone_open(context, input.backbone, NULL, &backbone));
    assert_ok(context, l3a_model_load(context, input.model, &model));
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    options.width = options.height = info->size;
    options.filter = info->filter;
    memcpy(options.mean, info->mean, sizeof options.mean);
    memcpy(options.deviation, info->deviation, sizeof options.deviation);
    assert_ok(context, l3a_loader_create(context, (const char *const *)input.pictures, PICTURES, &options, &loader));
    for (size_t first = 0; first < PICTURES; first += batch) {
        const size_t count = PICTURES - first < batch ? PICTURES - first : batch;
        for (size_t i = 0; i < count; i++) {
            size_t index;
            assert_ok(context, l3a_loader_next(loader, &index, planes + i * SIZE));
        }
        assert_ok(context, l3a_backbone_run(backbone, planes, count, features));
        assert_ok(context, l3a_model_score(model, features, count, scores + first * CLASSES));
    }
    l3a_loader_free(loader);
    l3a_model_free(model);
    l3a_backbone_free(backbone);
}

/* The same from the feature file. */
static void score_extracted(l3a_context *context, float *scores) {
    float values[16 * WIDTH];
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    assert_ok(context, l3a_features_open(context, input.table, &table));
    assert_ok(context, l3a_model_load(context, input.model, &model));
    for (size_t first = 0; first < PICTURES; first += 16) {
        const size_t count = PICTURES - first < 16 ? PICTURES - first : 16;
        assert_ok(context, l3a_features_read(table, NULL, first, count, values));
        assert_ok(context, l3a_model_score(model, values, count, scores + first * CLASSES));
    }
    l3a_model_free(model);
    l3a_features_free(table);
}

struct gathered {
    float scores[PICTURES * CLASSES];
    l3a_status statuses[PICTURES];
    char text[PICTURES][128];
    const l3a_reader *reader;
    size_t count, limit; /* stops after `limit` pictures */
};

static int gather(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct gathered *gathered = user;
    assert_int_equal(index, gathered->count++);
    assert_int_equal(tags != NULL, status == L3A_OK);
    gathered->statuses[index] = status;
    snprintf(gathered->text[index], sizeof gathered->text[index], "%s", l3a_reader_error_text(gathered->reader));
    copy_scores(tags, gathered->scores + index * CLASSES);
    return gathered->count == gathered->limit;
}

static void tag_all(l3a_context *context, size_t batch, struct gathered *gathered) {
    l3a_tagger *tagger = open_tagger(context, input.model, batch);
    l3a_reader *reader = make_reader(tagger);
    *gathered = (struct gathered){.reader = reader};
    assert_int_equal(l3a_reader_tag_files(reader, (const char *const *)input.pictures, PICTURES, gather, gathered), L3A_OK);
    assert_int_equal(gathered->count, PICTURES);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
}

static void scores_equal_extraction(void **state) {
    static struct gathered gathered;
    float by_hand[PICTURES * CLASSES], extracted[PICTURES * CLASSES];
    (void)state;
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        l3a_context *context = make_context(threads);
        tag_all(context, 0, &gathered);
        score_by_hand(context, 16, by_hand);
        assert_memory_equal(gathered.scores, by_hand, sizeof by_hand);
        if (threads == 1) { /* as the feature file was made */
            score_extracted(context, extracted);
            assert_memory_equal(gathered.scores, extracted, sizeof extracted);
        }
        tag_all(context, 5, &gathered);
        score_by_hand(context, 5, by_hand);
        assert_memory_equal(gathered.scores, by_hand, sizeof by_hand);
        l3a_context_free(context);
    }
}

static void one_picture_from_file_and_memory(void **state) {
    static struct gathered gathered;
    float by_hand[PICTURES * CLASSES];
    (void)state;
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        l3a_context *context = make_context(threads);
        score_by_hand(context, 1, by_hand);
        tag_all(context, 1, &gathered);
        assert_memory_equal(gathered.scores, by_hand, sizeof by_hand);
        l3a_tagger *tagger = open_tagger(context, input.model, 0);
        l3a_reader *reader = make_reader(tagger);
        for (size_t i = 0; i < PICTURES; i++) {
            size_t size;
            char *bytes = read_bytes(input.pictures[i], &size);
            l3a_tags *from_file = NULL, *from_memory = NULL;
            float scores[CLASSES];
            assert_int_equal(l3a_reader_tag_file(reader, input.pictures[i], &from_file), L3A_OK);
            copy_scores(from_file, scores);
            assert_memory_equal(scores, by_hand + i * CLASSES, sizeof scores);
            assert_int_equal(l3a_reader_tag_bytes(reader, "memory", bytes, size, &from_memory), L3A_OK);
            copy_scores(from_memory, scores);
            assert_memory_equal(scores, by_hand + i * CLASSES, sizeof scores);
            l3a_tags_free(from_file);
            l3a_tags_free(from_memory);
            free(bytes);
        }
        l3a_reader_free(reader);
        l3a_tagger_free(tagger);
        l3a_context_free(context);
    }
}

/* Prepared by one reader, computed by another in batches of any size, and scored by a third. */
static void in_steps(void **state) {
    static struct gathered gathered;
    static float by_hand[PICTURES * CLASSES];
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 0);
    l3a_reader *readers[3] = {make_reader(tagger), make_reader(tagger), make_reader(tagger)};
    const size_t inputs = l3a_reader_inputs(readers[0]), width = l3a_reader_width(readers[0]);
    float *planes = calloc(PICTURES * inputs, sizeof *planes), *features = calloc(PICTURES * width, sizeof *features);
    uint64_t checksum = 0, other = 0;
    (void)state;
    score_by_hand(context, 1, by_hand);
    for (size_t i = 0; i < PICTURES; i++) {
        size_t size;
        char *bytes = read_bytes(input.pictures[i], &size);
        other = checksum;
        assert_int_equal(l3a_reader_prepare(readers[0], "memory", bytes, size, planes + i * inputs, &checksum), L3A_OK);
        assert_true(checksum != other);
        free(bytes);
    }
    assert_int_equal(l3a_reader_prepare(readers[0], "letter", "hello", 5, planes, &checksum), L3A_ERROR_FORMAT);
    for (size_t batch = 1; batch <= PICTURES; batch += PICTURES - 1) {
        for (size_t first = 0; first < PICTURES; first += batch) {
            assert_int_equal(l3a_reader_compute(readers[1], planes + first * inputs, batch, features + first * width), L3A_OK);
        }
        gathered = (struct gathered){.reader = readers[2]};
        assert_int_equal(l3a_reader_score(readers[2], features, PICTURES, gather, &gathered), L3A_OK);
        for (size_t i = 0; i < PICTURES * CLASSES; i++) {
            const float apart = fabsf(gathered.scores[i] - by_hand[i]);
            assert_true(apart < (batch == 1 ? 1e-6F : 1e-3F) * (1 + fabsf(by_hand[i]))); /* rounding depends on the batch */
        }
    }
    gathered = (struct gathered){.reader = readers[2], .limit = 1};
    assert_int_equal(l3a_reader_score(readers[2], features, PICTURES, gather, &gathered), L3A_ERROR_CANCELLED);
    for (size_t i = 0; i < 3; i++) {
        l3a_reader_free(readers[i]);
    }
    free(planes);
    free(features);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static int take_status(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    (void)index;
    (void)tags;
    *(l3a_status *)user = status;
    return 0;
}

/* A limit on pixels holds for one reader, whichever way it gets pictures. */
static void readers_have_limits_of_their_own(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 0);
    l3a_reader *reader = make_reader(tagger), *other = make_reader(tagger);
    l3a_picture picture = {.size = sizeof picture};
    float *planes = calloc(l3a_reader_inputs(reader), sizeof *planes);
    const char *path = input.pictures[0];
    uint64_t checksum;
    size_t size;
    char *bytes = read_bytes(path, &size);
    (void)state;
    assert_ok(context, l3a_picture_read(context, path, NULL, &picture));
    const uint64_t pixels = (uint64_t)picture.width * picture.height, limits[] = {pixels - 1, pixels, 0, UINT64_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const l3a_status expected = i ? L3A_OK : L3A_ERROR_DATA;
        l3a_tags *tags = NULL;
        l3a_status status = L3A_ERROR_ARGUMENT;
        assert_int_equal(l3a_reader_limit(reader, limits[i]), L3A_OK);
        assert_int_equal(l3a_reader_prepare(reader, "memory", bytes, size, planes, &checksum), expected);
        assert_int_equal(l3a_reader_tag_file(reader, path, &tags), expected);
        assert_int_equal(l3a_reader_tag_files(reader, &path, 1, take_status, &status), L3A_OK);
        assert_int_equal(status, expected);
        assert_int_equal(l3a_reader_prepare(other, "memory", bytes, size, planes, &checksum), L3A_OK);
        l3a_tags_free(tags);
    }
    free(bytes);
    free(planes);
    l3a_picture_free(context, &picture);
    l3a_reader_free(reader);
    l3a_reader_free(other);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void tags_are_sorted_and_complete(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 0);
    l3a_reader *reader = make_reader(tagger);
    l3a_tags *tags = NULL;
    double thresholds[CLASSES];
    bool seen[CLASSES] = {false}, both[2] = {false};
    (void)state;
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[1], &tags), L3A_OK);
    const l3a_model *model = l3a_tagger_model(tagger);
    l3a_model_thresholds(model, thresholds);
    assert_int_equal(l3a_tags_count(tags), CLASSES);
    for (size_t i = 0; i < CLASSES; i++) {
        const size_t class = l3a_tags_class(tags, i);
        assert_false(seen[class]);
        seen[class] = true;
        assert_string_equal(l3a_tags_name(tags, i), class_names[class]);
        assert_true(l3a_tags_threshold(tags, i) == thresholds[class]);
        assert_true(i == 0 || l3a_tags_score(tags, i) <= l3a_tags_score(tags, i - 1));
        const int predicted = (double)l3a_tags_score(tags, i) > thresholds[class];
        assert_int_equal(l3a_tags_predicted(tags, i), predicted);
        both[predicted] = true;
    }
    assert_true(both[0] && both[1]);
    /* They need neither the reader nor the tagger. */
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    assert_string_equal(l3a_tags_name(tags, CLASSES - 1), class_names[l3a_tags_class(tags, CLASSES - 1)]);
    assert_null(l3a_tags_name(tags, CLASSES));
    assert_int_equal(l3a_tags_class(tags, CLASSES), 0);
    assert_true(l3a_tags_score(tags, CLASSES) == 0);
    assert_true(l3a_tags_threshold(tags, CLASSES) == 0);
    assert_int_equal(l3a_tags_predicted(tags, CLASSES), 0);
    l3a_tags_free(tags);
    l3a_context_free(context);
}

/* Equal scores stay in the order of the classes. */
static void tags_of_given_scores(void **state) {
    static const float scores[CLASSES] = {0.25F, 0.5F, -1, 0.5F, 0.25F};
    static const double thresholds[CLASSES] = {0.2, 0.6, -2, 0.4, 0.25};
    static const size_t order[CLASSES] = {1, 3, 0, 4, 2};
    static const int predicted[CLASSES] = {0, 1, 1, 0, 1};
    l3a_context *context = make_context(1);
    l3a_model *model = NULL;
    l3a_tags *tags = NULL;
    (void)state;
    assert_ok(context, l3a_model_load(context, input.model, &model));
    assert_ok(context, l3a_tags_create(model, scores, thresholds, &tags));
    for (size_t i = 0; i < CLASSES; i++) {
        assert_int_equal(l3a_tags_class(tags, i), order[i]);
        assert_int_equal(l3a_tags_predicted(tags, i), predicted[i]);
    }
    assert_int_equal(l3a_tags_create(NULL, scores, thresholds, &tags), L3A_ERROR_ARGUMENT);
    assert_fails(context, l3a_tags_create(model, NULL, thresholds, &tags), L3A_ERROR_ARGUMENT, "NULL");
    assert_fails(context, l3a_tags_create(model, scores, NULL, &tags), L3A_ERROR_ARGUMENT, "NULL");
    assert_fails(context, l3a_tags_create(model, scores, thresholds, NULL), L3A_ERROR_ARGUMENT, "NULL");
    l3a_tags_free(tags);
    l3a_model_free(model);
    l3a_context_free(context);
}

/* ---- Views ---- */

enum { CROPS = 5, ROWS_OF_IMAGE = CROPS + 1, CROPPED = 9 };

/* A model of the pictures with five crops each. */
static void save_model_with_views(l3a_context *context, const char *table_path, const char *path) {
    char name[600];
    const l3a_extract_options extracting = {.size = sizeof extracting, .views = CROPS};
    l3a_dataset *dataset = NULL;
    l3a_backbone *backbone = NULL;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    l3a_options options;
    snprintf(name, sizeof name, "list:%s", input.list);
    assert_ok(context, l3a_dataset_open(context, name, NULL, NULL, &dataset));
    assert_ok(context, l3a_backbone_open(context, input.backbone, NULL, &backbone));
    assert_ok(context, l3a_extract(context, backbone, dataset, &extracting, table_path, NULL));
    assert_ok(context, l3a_features_open(context, table_path, &table));
    options_default(&options);
    options.model.dim = 96;
    options.model.gamma = 1;
    options.model.views = CROPS;
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, CLASSES));
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
    l3a_features_free(table);
    l3a_backbone_free(backbone);
    l3a_dataset_free(dataset);
}

/* The score of a picture from those of its rows, and the crop that spoke for each class. The score of an image of which all rows
 * are the same is that of the row. */
static void combine_by_hand(l3a_context *context, l3a_model *model, const float *features, double *scores, size_t *crops) {
    float same[ROWS_OF_IMAGE * WIDTH], rows[ROWS_OF_IMAGE][CLASSES];
    for (size_t view = 0; view < ROWS_OF_IMAGE; view++) {
        for (size_t i = 0; i < ROWS_OF_IMAGE; i++) {
            memcpy(same + i * WIDTH, features + view * WIDTH, WIDTH * sizeof *same);
        }
        assert_ok(context, l3a_model_score(model, same, 1, rows[view]));
    }
    for (size_t k = 0; k < CLASSES; k++) {
        crops[k] = 1;
        for (size_t view = 2; view < ROWS_OF_IMAGE; view++) {
            crops[k] = rows[view][k] > rows[crops[k]][k] ? view : crops[k];
        }
        scores[k] = ((double)rows[0][k] + 2 * (double)rows[crops[k]][k]) / 3;
    }
}

static void assert_tags_by_hand(const l3a_tags *tags, const double *scores, const size_t *crops) {
    double box[4], expected[4];
    assert_int_equal(l3a_tags_count(tags), CLASSES);
    for (size_t i = 0; i < CLASSES; i++) {
        const size_t class = l3a_tags_class(tags, i);
        assert_true(fabs((double)l3a_tags_score(tags, i) - scores[class]) < 1e-5);
        assert_int_equal(l3a_tags_view(tags, i), crops[class]);
        assert_int_equal(l3a_tags_box(tags, i, box), 1);
        assert_int_equal(l3a_view_box(CROPS, crops[class], expected), 1);
        assert_memory_equal(box, expected, sizeof box);
    }
    assert_int_equal(l3a_tags_view(tags, CLASSES), 0);
    assert_int_equal(l3a_tags_box(tags, CLASSES, box), 0);
}

struct by_hand {
    double scores[CROPPED][CLASSES];
    size_t crops[CROPPED][CLASSES];
};

static int compare_with_hand(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    const struct by_hand *by_hand = user;
    assert_int_equal(status, L3A_OK);
    assert_tags_by_hand(tags, by_hand->scores[index], by_hand->crops[index]);
    return 0;
}

static void views_of_a_picture(void **state) {
    static struct by_hand by_hand;
    l3a_context *context = make_context(1);
    char *table_path = path_in(input.folder, "views.safetensors"), *model_path = path_in(input.folder, "views.l3a");
    float features[ROWS_OF_IMAGE * WIDTH];
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    bool varied = false;
    (void)state;
    save_model_with_views(context, table_path, model_path);
    assert_ok(context, l3a_features_open(context, table_path, &table));
    assert_ok(context, l3a_model_load(context, model_path, &model));
    l3a_tagger *tagger = open_tagger(context, model_path, 4);
    l3a_reader *reader = make_reader(tagger);
    for (size_t i = 0; i < CROPPED; i++) {
        l3a_tags *tags = NULL;
        assert_ok(context, l3a_features_read(table, NULL, i, 1, features));
        combine_by_hand(context, model, features, by_hand.scores[i], by_hand.crops[i]);
        varied = varied || by_hand.crops[i][0] != by_hand.crops[0][0];
        assert_int_equal(l3a_reader_tag_file(reader, input.pictures[i], &tags), L3A_OK);
        assert_tags_by_hand(tags, by_hand.scores[i], by_hand.crops[i]);
        l3a_tags_free(tags);
    }
    assert_true(varied); /* not always the same crop */
    assert_int_equal(l3a_reader_tag_files(reader, (const char *const *)input.pictures, CROPPED, compare_with_hand, &by_hand),
                     L3A_OK);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_model_free(model);
    l3a_features_free(table);
    free(table_path);
    free(model_path);
    l3a_context_free(context);
}

/* Pictures can be tagged with other views than the model learned; the model itself does not change. */
static void other_views_than_the_model_learned(void **state) {
    l3a_context *context = make_context(1);
    char *path = path_in(input.folder, "whole.l3a");
    const l3a_tagger_options options = {.size = sizeof options, .backbone = input.backbone, .views = CROPS},
                             wrong = {.size = sizeof wrong, .backbone = input.backbone, .views = 6};
    l3a_model *model = NULL;
    l3a_tagger *tagger = NULL;
    l3a_tags *whole = NULL, *cropped = NULL;
    char views[32];
    (void)state;
    save_model(context, CLASSES, path);
    assert_ok(context, l3a_model_load(context, path, &model));
    assert_ok(context, l3a_model_set_option(model, "thresholds", "per-class"));
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
    assert_fails(context, l3a_tagger_open(context, path, &wrong, &tagger), L3A_ERROR_OPTION, "6 views");
    l3a_tagger *plain = open_tagger(context, path, 0);
    l3a_reader *reader = make_reader(plain);
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &whole), L3A_OK);
    l3a_reader_free(reader);
    assert_ok(context, l3a_tagger_open(context, path, &options, &tagger));
    reader = make_reader(tagger);
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &cropped), L3A_OK);
    for (size_t i = 0; i < CLASSES; i++) {
        size_t j = 0;
        while (l3a_tags_class(whole, j) != l3a_tags_class(cropped, i)) {
            j++;
        }
        const double ratio = l3a_tags_threshold(cropped, i) / l3a_tags_threshold(whole, j);
        assert_true(fabs(ratio - (1 + 0.05 * log(CROPS))) < 1e-12);
        assert_true(l3a_tags_view(cropped, i) >= 1 && l3a_tags_view(cropped, i) <= CROPS && l3a_tags_view(whole, j) == 0);
    }
    l3a_options *settings = NULL;
    assert_ok(context, l3a_options_create(context, &settings));
    assert_ok(context, l3a_model_options(l3a_tagger_model(tagger), settings));
    l3a_options_get(settings, "score-views", views, sizeof views);
    assert_string_equal(views, "0");
    l3a_options_free(settings);
    l3a_tags_free(whole);
    l3a_tags_free(cropped);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_tagger_free(plain);
    free(path);
    l3a_context_free(context);
}

/* A model with other views cannot take the place of the tagger's. */
static void reload_with_other_views(void **state) {
    l3a_context *context = make_context(1);
    char *table_path = path_in(input.folder, "views2.safetensors"), *model_path = path_in(input.folder, "changes.l3a");
    l3a_tags *tags = NULL;
    double box[4];
    (void)state;
    save_model(context, CLASSES, model_path);
    l3a_tagger *tagger = open_tagger(context, model_path, 0);
    l3a_reader *reader = make_reader(tagger);
    save_model_with_views(context, table_path, model_path);
    assert_fails(context, l3a_tagger_reload(tagger), L3A_ERROR_MISMATCH, "views");
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &tags), L3A_OK);
    assert_int_equal(l3a_tags_view(tags, 0), 0);
    assert_int_equal(l3a_tags_box(tags, 0, box), 0);
    l3a_tags_free(tags);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    free(table_path);
    free(model_path);
    l3a_context_free(context);
}

/* ---- What it refuses ---- */

static void refuse(l3a_context *context, const char *model, const l3a_tagger_options *options, l3a_status expected,
                   const char *contains) {
    l3a_tagger *tagger = NULL;
    assert_fails(context, l3a_tagger_open(context, model, options, &tagger), expected, contains);
    assert_null(tagger);
}

static void what_does_not_fit_is_refused(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger_options options = {.size = sizeof options, .backbone = input.backbone};
    l3a_backbone_options backbone = {.size = sizeof backbone};
    l3a_picture_options picture = {.size = sizeof picture};
    (void)state;
    refuse(context, "nowhere.safetensors", &options, L3A_ERROR_NOT_FOUND, "nowhere.safetensors");
    refuse(context, input.backbone, &options, L3A_ERROR_FORMAT, input.backbone);
    refuse(context, input.narrow, &options, L3A_ERROR_MISMATCH, "features 64 wide, but the model takes 3");
    refuse(context, input.model, NULL, L3A_ERROR_ARGUMENT, "does not name its backbone");
    options.backbone = NULL;
    refuse(context, input.model, &options, L3A_ERROR_ARGUMENT, "does not name its backbone");
    options.backbone = "nowhere.pth";
    refuse(context, input.model, &options, L3A_ERROR_NOT_FOUND, "nowhere.pth");
    options.backbone = input.model;
    refuse(context, input.model, &options, L3A_ERROR_MISMATCH, "known network");
    options.backbone = input.other_backbone;
    refuse(context, input.model, &options, L3A_ERROR_MISMATCH, "sha256");
    options.backbone = input.backbone;
    options.backbone_options = &backbone;
    backbone.filter = L3A_FILTER_BICUBIC;
    refuse(context, input.model, &options, L3A_ERROR_MISMATCH, "preprocess");
    backbone.filter = L3A_FILTER_BILINEAR;
    backbone.pool = L3A_POOL_MEAN;
    refuse(context, input.model, &options, L3A_ERROR_MISMATCH, "pool");
    options.backbone_options = NULL;
    picture.orient = 1;
    options.picture_options = &picture;
    refuse(context, input.model, &options, L3A_ERROR_MISMATCH, "oriented");
    options.picture_options = NULL;
    options.batch = 1025;
    refuse(context, input.model, &options, L3A_ERROR_ARGUMENT, "batch of 1025");
    options.batch = 0;
    options.size = 0;
    refuse(context, input.model, &options, L3A_ERROR_ARGUMENT, "l3a_tagger_open: options has the size 0");
    l3a_context_free(context);
}

/* A program built with an older header passes a shorter struct; what lies behind it is not read. */
static void options_of_an_older_header(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger_options options;
    l3a_tagger *tagger = NULL;
    (void)state;
    memset(&options, 0xA5, sizeof options);
    options.size = offsetof(l3a_tagger_options, backbone_options);
    options.backbone = input.backbone;
    assert_ok(context, l3a_tagger_open(context, input.model, &options, &tagger));
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void null_is_an_argument_error(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 0), *none = NULL;
    l3a_reader *reader = make_reader(tagger), *no_reader = NULL;
    l3a_tags *tags = NULL;
    const char *const paths[] = {input.pictures[0], NULL};
    struct gathered gathered = {.reader = reader};
    (void)state;
    assert_int_equal(l3a_tagger_open(NULL, input.model, NULL, &none), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_tagger_open(context, NULL, NULL, &none), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_tagger_open(context, input.model, NULL, NULL), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_tagger_reload(NULL), L3A_ERROR_ARGUMENT);
    assert_null(l3a_tagger_model(NULL));
    assert_int_equal(l3a_reader_create(NULL, &no_reader), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_create(tagger, NULL), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_file(NULL, input.pictures[0], &tags), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_file(reader, NULL, &tags), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], NULL), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_bytes(NULL, "name", "x", 1, &tags), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_bytes(reader, NULL, "x", 1, &tags), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_bytes(reader, "name", NULL, 1, &tags), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_bytes(reader, "name", "x", 1, NULL), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_files(NULL, paths, 1, gather, &gathered), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_files(reader, NULL, 1, gather, &gathered), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_files(reader, paths, 1, NULL, &gathered), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_files(reader, paths, 2, gather, &gathered), L3A_ERROR_ARGUMENT);
    assert_non_null(strstr(l3a_reader_error_text(reader), "paths[1] is NULL"));
    assert_int_equal(gathered.count, 0);
    assert_int_equal(l3a_reader_tag_files(reader, NULL, 0, gather, &gathered), L3A_OK);
    assert_string_equal(l3a_reader_error_text(NULL), "");
    assert_string_equal(l3a_reader_error_hint(NULL), "");
    assert_int_equal(l3a_tags_count(NULL), 0);
    assert_null(l3a_tags_name(NULL, 0));
    assert_null(tags);
    l3a_tags_free(NULL);
    l3a_reader_free(NULL);
    l3a_tagger_free(NULL);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* ---- Pictures that cannot be read ---- */

static void a_bad_picture_is_the_readers_error(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 0);
    l3a_reader *reader = make_reader(tagger), *other = make_reader(tagger);
    l3a_tags *tags = NULL;
    (void)state;
    assert_int_equal(l3a_reader_tag_file(reader, input.broken, &tags), L3A_ERROR_TRUNCATED);
    assert_non_null(strstr(l3a_reader_error_text(reader), "broken.jpg"));
    assert_true(l3a_reader_error_hint(reader)[0]);
    assert_int_equal(l3a_reader_tag_file(reader, "nowhere.jpg", &tags), L3A_ERROR_NOT_FOUND);
    assert_int_equal(l3a_reader_tag_bytes(reader, "letter", "hello", 5, &tags), L3A_ERROR_FORMAT);
    assert_non_null(strstr(l3a_reader_error_text(reader), "letter: this is "));
    assert_int_equal(l3a_reader_tag_bytes(reader, "empty", NULL, 0, &tags), L3A_ERROR_TRUNCATED);
    assert_null(tags);
    assert_string_equal(l3a_reader_error_text(other), "");
    assert_string_equal(l3a_error_text(context), "");
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &tags), L3A_OK);
    l3a_tags_free(tags);
    l3a_reader_free(other);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void bad_pictures_do_not_stop_the_others(void **state) {
    static struct gathered gathered, good;
    const char *paths[PICTURES];
    (void)state;
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        l3a_context *context = make_context(threads);
        l3a_tagger *tagger = open_tagger(context, input.model, 1);
        l3a_reader *reader = make_reader(tagger);
        tag_all(context, 1, &good);
        memcpy(paths, input.pictures, sizeof paths);
        paths[0] = paths[5] = input.broken;
        paths[6] = "nowhere.jpg";
        paths[PICTURES - 1] = input.list;
        gathered = (struct gathered){.reader = reader};
        assert_int_equal(l3a_reader_tag_files(reader, paths, PICTURES, gather, &gathered), L3A_OK);
        assert_int_equal(gathered.count, PICTURES);
        for (size_t i = 0; i < PICTURES; i++) {
            const l3a_status expected = i == 0 || i == 5    ? L3A_ERROR_TRUNCATED
                                        : i == 6            ? L3A_ERROR_NOT_FOUND
                                        : i == PICTURES - 1 ? L3A_ERROR_FORMAT
                                                            : L3A_OK;
            assert_int_equal(gathered.statuses[i], expected);
            if (expected == L3A_OK) {
                assert_memory_equal(gathered.scores + i * CLASSES, good.scores + i * CLASSES, CLASSES * sizeof(float));
            } else {
                assert_non_null(strstr(gathered.text[i], paths[i]));
            }
        }
        l3a_reader_free(reader);
        l3a_tagger_free(tagger);
        l3a_context_free(context);
    }
}

/* In a batch, the text of each is there when its turn comes; a batch without any good picture is fine. */
static void bad_pictures_in_a_batch(void **state) {
    static struct gathered gathered;
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 3);
    l3a_reader *reader = make_reader(tagger);
    const char *const paths[] = {input.broken, "a.jpg", "b.jpg", input.pictures[0], input.list, "c.jpg", input.pictures[1]};
    (void)state;
    gathered = (struct gathered){.reader = reader};
    assert_int_equal(l3a_reader_tag_files(reader, paths, 7, gather, &gathered), L3A_OK);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(gathered.statuses[i] == L3A_OK, i == 3 || i == 6);
        assert_true(gathered.statuses[i] == L3A_OK || strstr(gathered.text[i], paths[i]));
    }
    gathered = (struct gathered){.reader = reader, .limit = 2};
    assert_int_equal(l3a_reader_tag_files(reader, paths, 7, gather, &gathered), L3A_ERROR_CANCELLED);
    assert_int_equal(gathered.count, 2);
    assert_string_equal(l3a_reader_error_text(reader), "pictures: cancelled");
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* Some of the pictures that were found get the scores that their files get; the callback counts from the first of them. */
static void found_pictures(void **state) {
    static struct gathered gathered, by_path;
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = open_tagger(context, input.model, 3);
    l3a_reader *reader = make_reader(tagger);
    l3a_pictures *pictures = NULL;
    const char *const *paths = (const char *const *)input.pictures;
    (void)state;
    assert_ok(context, l3a_pictures_find(context, paths, 9, &pictures));
    gathered = by_path = (struct gathered){.reader = reader};
    assert_int_equal(l3a_reader_tag_pictures(reader, pictures, 4, 5, gather, &gathered), L3A_OK);
    assert_int_equal(l3a_reader_tag_files(reader, paths + 4, 5, gather, &by_path), L3A_OK);
    assert_int_equal(gathered.count, 5);
    assert_memory_equal(gathered.scores, by_path.scores, 5 * CLASSES * sizeof(float));
    gathered.count = 0;
    assert_int_equal(l3a_reader_tag_pictures(reader, pictures, 9, 0, gather, &gathered), L3A_OK);
    assert_int_equal(l3a_reader_tag_pictures(reader, pictures, 4, 6, gather, &gathered), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_reader_tag_pictures(reader, pictures, 10, SIZE_MAX, gather, &gathered), L3A_ERROR_ARGUMENT);
    assert_non_null(strstr(l3a_reader_error_text(reader), "but there are 9"));
    assert_int_equal(gathered.count, 0);
    l3a_pictures_free(pictures);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* ---- Readers and the writer ---- */

/* All that a new reader asks for is less than half of the parameters of the network. */
static void readers_share_parameters(void **state) {
    struct memory_probe memory = {0};
    l3a_context *context = make_probed_context(&memory, 1);
    (void)state;
    l3a_tagger *tagger = open_tagger(context, input.model, 0);
    const size_t parameters = (size_t)l3a_backbone_describe(tagger->backbone)->parameters * sizeof(float);
    probe_restart(&memory, 0, false);
    l3a_reader *reader = make_reader(tagger);
    assert_in_range(memory.asked, 1, parameters / 2);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void reload_keeps_the_old_model_if_it_fails(void **state) {
    l3a_context *context = make_context(1);
    char *path = path_in(input.folder, "changing.safetensors");
    l3a_tags *tags = NULL;
    (void)state;
    save_model(context, EARLY, path);
    l3a_tagger *tagger = open_tagger(context, path, 0);
    l3a_reader *reader = make_reader(tagger);
    write_bytes(path, "nothing", 7);
    assert_int_not_equal(l3a_tagger_reload(tagger), L3A_OK);
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &tags), L3A_OK);
    assert_int_equal(l3a_tags_count(tags), EARLY);
    l3a_tags_free(tags);
    size_t size;
    char *narrow = read_bytes(input.narrow, &size);
    write_bytes(path, narrow, size);
    assert_fails(context, l3a_tagger_reload(tagger), L3A_ERROR_MISMATCH, "features 64 wide");
    assert_null(l3a_tagger_model(tagger)); /* it is loaded only now, and the file has changed */
    assert_non_null(strstr(l3a_error_text(context), "features 64 wide"));
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &tags), L3A_OK);
    assert_int_equal(l3a_tags_count(tags), EARLY);
    l3a_tags_free(tags);
    save_model(context, CLASSES, path);
    assert_ok(context, l3a_tagger_reload(tagger));
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), CLASSES);
    assert_int_equal(l3a_reader_tag_file(reader, input.pictures[0], &tags), L3A_OK);
    assert_int_equal(l3a_tags_count(tags), CLASSES);
    l3a_tags_free(tags);
    free(narrow);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    free(path);
    l3a_context_free(context);
}

/* What each model says about a few pictures. */
enum { SHOWN = 3 };
static float early_scores[SHOWN][CLASSES], late_scores[SHOWN][CLASSES];

struct reading {
    l3a_tagger *tagger;
    size_t rounds, early, late, wrong;
};

/* One of the two models has said this, wholly. */
static void judge(struct reading *reading, size_t picture, const l3a_tags *tags) {
    float scores[CLASSES] = {0};
    copy_scores(tags, scores);
    const size_t count = l3a_tags_count(tags);
    if (count == EARLY && memcmp(scores, early_scores[picture], EARLY * sizeof *scores) == 0) {
        reading->early++;
    } else if (count == CLASSES && memcmp(scores, late_scores[picture], sizeof scores) == 0) {
        reading->late++;
    } else {
        reading->wrong++;
    }
}

struct batch_reading {
    struct reading *reading;
    size_t classes;
};

static int judge_in_batch(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct batch_reading *batch = user;
    (void)status;
    batch->reading->wrong += index > 0 && l3a_tags_count(tags) != batch->classes; /* one model for the whole call */
    batch->classes = l3a_tags_count(tags);
    judge(batch->reading, index, tags);
    return 0;
}

static void *read_on(void *argument) {
    struct reading *reading = argument;
    l3a_reader *reader = NULL;
    reading->wrong += l3a_reader_create(reading->tagger, &reader) != L3A_OK;
    for (size_t round = 0; reader && round < reading->rounds; round++) {
        struct batch_reading batch = {.reading = reading};
        for (size_t i = 0; i < SHOWN; i++) {
            l3a_tags *tags = NULL;
            reading->wrong += l3a_reader_tag_file(reader, input.pictures[i], &tags) != L3A_OK;
            judge(reading, i, tags);
            l3a_tags_free(tags);
            reading->wrong += l3a_reader_tag_file(reader, input.broken, &tags) != L3A_ERROR_TRUNCATED;
        }
        reading->wrong +=
            l3a_reader_tag_files(reader, (const char *const *)input.pictures, SHOWN, judge_in_batch, &batch) != L3A_OK;
    }
    l3a_reader_free(reader);
    return NULL;
}

static void note_scores(l3a_context *context, const char *model, float scores[SHOWN][CLASSES]) {
    l3a_tagger *tagger = open_tagger(context, model, 1);
    l3a_reader *reader = make_reader(tagger);
    for (size_t i = 0; i < SHOWN; i++) {
        l3a_tags *tags = NULL;
        assert_int_equal(l3a_reader_tag_file(reader, input.pictures[i], &tags), L3A_OK);
        copy_scores(tags, scores[i]);
        l3a_tags_free(tags);
    }
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
}

/* Readers on four threads, made there, while this one exchanges the model: every result is wholly of one model, to the last bit. */
static void read_while_reloading(int threads, size_t rounds) {
    l3a_context *context = make_context(threads);
    char *path = path_in(input.folder, "shared.safetensors"), *bytes[2];
    size_t sizes[2], early = 0, late = 0;
    struct reading readings[READERS];
    pthread_t handles[READERS];
    note_scores(context, input.early, early_scores);
    note_scores(context, input.late, late_scores);
    bytes[0] = read_bytes(input.early, &sizes[0]);
    bytes[1] = read_bytes(input.late, &sizes[1]);
    write_bytes(path, bytes[0], sizes[0]);
    l3a_tagger *tagger = open_tagger(context, path, 1);
    for (size_t i = 0; i < READERS; i++) {
        readings[i] = (struct reading){.tagger = tagger, .rounds = rounds};
        assert_int_equal(pthread_create(&handles[i], NULL, read_on, &readings[i]), 0);
    }
    for (size_t i = 1; i <= rounds; i++) {
        write_bytes(path, bytes[i % 2], sizes[i % 2]);
        assert_ok(context, l3a_tagger_reload(tagger));
        assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), i % 2 ? CLASSES : EARLY);
    }
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(handles[i], NULL);
        assert_int_equal(readings[i].wrong, 0);
        assert_int_equal(readings[i].early + readings[i].late, 2 * SHOWN * rounds);
        early += readings[i].early;
        late += readings[i].late;
    }
    print_message("threads per reader: %d; %zu results of the first model, %zu of the second\n", threads, early, late);
    l3a_tagger_free(tagger);
    free(bytes[0]);
    free(bytes[1]);
    free(path);
    l3a_context_free(context);
}

static void readers_and_a_writer(void **state) {
    (void)state;
    read_while_reloading(1, 60);
}

/* Matrix libraries share their threads among the readers. */
static void readers_with_threads_of_their_own(void **state) {
    (void)state;
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        read_while_reloading(threads, 10);
    }
}

/* The writer changes its model while others read, and publishes it: every result is wholly of the model before or after. */
static void readers_while_the_model_changes(void **state) {
    enum { ROUNDS = 20 };
    l3a_context *context = make_context(1);
    struct reading readings[READERS];
    pthread_t handles[READERS];
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    size_t early = 0, late = 0;
    char *path = path_in(input.folder, "taught.safetensors"), *learned = path_in(input.folder, "learned.safetensors");
    (void)state;
    save_model(context, EARLY, path);
    note_scores(context, path, early_scores);
    assert_ok(context, l3a_features_open(context, input.table, &table));
    assert_ok(context, l3a_model_load(context, path, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names + EARLY, CLASSES - EARLY));
    assert_ok(context, l3a_model_save(model, learned));
    l3a_model_free(model);
    note_scores(context, learned, late_scores);
    l3a_tagger *tagger = open_tagger(context, path, 1);
    for (size_t i = 0; i < READERS; i++) {
        readings[i] = (struct reading){.tagger = tagger, .rounds = ROUNDS};
        assert_int_equal(pthread_create(&handles[i], NULL, read_on, &readings[i]), 0);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_ok(context, l3a_tagger_reload(tagger)); /* the early model again */
        assert_ok(context, tagger_model(tagger, &model));
        assert_ok(context, l3a_model_learn(model, table, class_names + EARLY, CLASSES - EARLY));
        const struct shared_layer *layer = tagger->current->layer;
        tagger_publish(tagger);
        assert_false(tagger->behind);
        assert_ptr_equal(tagger->current->layer, layer);
        assert_ptr_equal(l3a_tagger_model(tagger), model);
    }
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(handles[i], NULL);
        assert_int_equal(readings[i].wrong, 0);
        early += readings[i].early;
        late += readings[i].late;
    }
    print_message("%zu results before, %zu after\n", early, late);
    l3a_tagger_free(tagger);
    l3a_features_free(table);
    free(path);
    free(learned);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_equal_extraction),
                                       cmocka_unit_test(one_picture_from_file_and_memory),
                                       cmocka_unit_test(in_steps),
                                       cmocka_unit_test(tags_are_sorted_and_complete),
                                       cmocka_unit_test(tags_of_given_scores),
                                       cmocka_unit_test(views_of_a_picture),
                                       cmocka_unit_test(other_views_than_the_model_learned),
                                       cmocka_unit_test(reload_with_other_views),
                                       cmocka_unit_test(what_does_not_fit_is_refused),
                                       cmocka_unit_test(options_of_an_older_header),
                                       cmocka_unit_test(null_is_an_argument_error),
                                       cmocka_unit_test(a_bad_picture_is_the_readers_error),
                                       cmocka_unit_test(bad_pictures_do_not_stop_the_others),
                                       cmocka_unit_test(bad_pictures_in_a_batch),
                                       cmocka_unit_test(found_pictures),
                                       cmocka_unit_test(readers_share_parameters),
                                       cmocka_unit_test(readers_have_limits_of_their_own),
                                       cmocka_unit_test(reload_keeps_the_old_model_if_it_fails),
                                       cmocka_unit_test(readers_and_a_writer),
                                       cmocka_unit_test(readers_while_the_model_changes),
                                       cmocka_unit_test(readers_with_threads_of_their_own)};
    return cmocka_run_group_tests_name("tagger", tests, make_inputs, remove_inputs);
}
