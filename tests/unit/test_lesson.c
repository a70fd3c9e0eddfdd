/* Lessons, and a tagger that is taught: judged sets, names, contradictions, pictures that cannot be read or were taught before,
 * corrections, and readers that see the new model. All of it without views, and again with views. */
#include "support.h"

#include "base/memory.h"
#include "learn/model.h"
#include "tag/history.h"
#include "tag/lesson.h"
#include "tag/tagger.h"

#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 9, WIDTH = 64 };

static size_t views = 1;

static char *folder, *backbone, *model_path, *pictures[PICTURES], *broken, *copy;

static int make_inputs(void **state) {
    l3a_context *context = make_context(1);
    size_t size;
    (void)state;
    folder = make_temporary_folder();
    backbone = path_in(folder, "backbone.safetensors");
    model_path = path_in(folder, "model.l3a");
    broken = path_in(folder, "broken.jpg");
    copy = path_in(folder, "copy of 0.jpg");
    write_small_backbone(context, backbone, 1);
    write_small_pictures(folder, "bild ä ", pictures, PICTURES);
    char *bytes = read_bytes(pictures[0], &size);
    write_bytes(broken, bytes, size / 2);
    write_bytes(copy, bytes, size);
    free(bytes);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    char *const paths[] = {backbone, model_path, broken, copy};
    (void)state;
    free_paths(paths, sizeof paths / sizeof paths[0]);
    free_paths(pictures, PICTURES);
    remove_folder(folder);
    return 0;
}

/* ---- Help for the tests ---- */

static l3a_lesson *new_lesson(l3a_context *context) {
    l3a_lesson *lesson = NULL;
    assert_ok(context, l3a_lesson_create(context, &lesson));
    return lesson;
}

/* A list of names, separated by commas. */
struct names {
    char text[256];
    const char *items[16];
    size_t count;
};

static void split(const char *list, struct names *names) {
    names->count = 0;
    snprintf(names->text, sizeof names->text, "%s", list);
    char *rest = names->text;
    for (char *name; (name = strsep(&rest, ",")) && list[0];) {
        names->items[names->count++] = name;
    }
}

static l3a_status add(l3a_lesson *lesson, const char *path, const char *tags, const char *absent, const char *judged, int only) {
    struct names t, a, j;
    split(tags, &t);
    split(absent, &a);
    split(judged, &j);
    const l3a_judgement judgement = {.size = sizeof judgement,
                                     .tags = t.items,
                                     .tag_count = t.count,
                                     .absent = a.items,
                                     .absent_count = a.count,
                                     .judged = j.items,
                                     .judged_count = j.count,
                                     .only = only};
    return l3a_lesson_add(lesson, path, &judgement);
}

static l3a_tagger *new_tagger_with(l3a_context *context, const char *learned, const char *scored) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone};
    l3a_options *settings = NULL;
    l3a_tagger *tagger = NULL;
    unlink(model_path);
    assert_ok(context, l3a_options_create(context, &settings));
    assert_ok(context, l3a_options_set(context, settings, "dim", "32"));
    assert_ok(context, l3a_options_set(context, settings, "precision", "double"));
    assert_ok(context, l3a_options_set(context, settings, "gamma", "0.5"));
    assert_ok(context, l3a_options_set(context, settings, "views", learned));
    assert_ok(context, l3a_options_set(context, settings, "score-views", scored));
    assert_ok(context, l3a_lesson_settings(context, settings));
    assert_ok(context, l3a_tagger_create(context, model_path, settings, &options, &tagger));
    l3a_options_free(settings);
    return tagger;
}

static l3a_tagger *new_tagger(l3a_context *context) {
    return new_tagger_with(context, views > 1 ? "14" : "1", "0");
}

/* Teaches and frees the lesson. */
static l3a_status teach_with(l3a_tagger *tagger, l3a_lesson *lesson, l3a_lesson_options options, l3a_teach_report *report) {
    options.size = sizeof options;
    const l3a_status status = l3a_tagger_teach(tagger, lesson, &options, report);
    l3a_lesson_free(lesson);
    return status;
}

static void teach(l3a_tagger *tagger, const char *path, const char *tags, const char *absent, const char *judged, int only) {
    l3a_lesson *lesson = new_lesson(tagger->context);
    assert_ok(tagger->context, add(lesson, path, tags, absent, judged, only));
    assert_ok(tagger->context, teach_with(tagger, lesson, (l3a_lesson_options){0}, NULL));
}

/* The labels with which the last entry taught its only picture: "cat 1, dog 0". Classes that were not judged are left out. */
static const char *last_labels(const l3a_tagger *tagger) {
    static char text[256];
    const struct entry *entry = tagger->history->entries[tagger->history->count - 1];
    const size_t row = entry->row_count - 1;
    text[0] = '\0';
    for (size_t k = 0; k < entry->classes.count; k++) {
        const int8_t label = entry->labels[row * entry->classes.count + k];
        if (label >= 0) {
            char item[64];
            snprintf(item, sizeof item, "%s%s %d", text[0] ? ", " : "", entry->classes.items[k], label);
            strcat(text, item);
        }
    }
    return text;
}

/* ---- Lessons ---- */

static void names_of_classes(void **state) {
    l3a_context *context = make_context(1);
    l3a_lesson *lesson = new_lesson(context);
    char long_name[300];
    (void)state;
    assert_ok(context, add(lesson, "a.jpg", " cat \t,Katze,größer,猫", "", "", 0));
    assert_int_equal(lesson->classes.count, 4);
    assert_string_equal(lesson->classes.items[0], "cat");
    assert_fails(context, add(lesson, "b.jpg", "  ", "", "", 0), L3A_ERROR_CLASS, "b.jpg: the name of a class is empty");
    assert_fails(context, add(lesson, "b.jpg", "a;b", "", "", 0), L3A_ERROR_CLASS,
                 "b.jpg: the name of a class contains ';': 'a;b'");
    assert_fails(context, add(lesson, "b.jpg", "a\nb", "", "", 0), L3A_ERROR_CLASS, "line break");
    assert_fails(context, add(lesson, "b.jpg", "a\x1b[1m", "", "", 0), L3A_ERROR_CLASS, "control character");
    assert_fails(context, add(lesson, "b.jpg", "\xff", "", "", 0), L3A_ERROR_CLASS, "not UTF-8");
    memset(long_name, 'x', sizeof long_name);
    long_name[256] = '\0';
    const l3a_judgement too_long = {.size = sizeof too_long, .tags = (const char *[]){long_name}, .tag_count = 1};
    assert_fails(context, l3a_lesson_add(lesson, "b.jpg", &too_long), L3A_ERROR_CLASS, "256 bytes; 255 is the most");
    assert_int_equal(l3a_lesson_count(lesson), 1);
    assert_string_equal(l3a_lesson_path(lesson, 0), "a.jpg");
    assert_int_equal(l3a_lesson_outcome(lesson, 0), L3A_ERROR_STATE);
    assert_null(l3a_lesson_path(lesson, 1));
    assert_int_equal(l3a_lesson_outcome(lesson, 1), L3A_ERROR_ARGUMENT);
    l3a_lesson_free(lesson);
    l3a_context_free(context);
}

static void contradictions(void **state) {
    l3a_context *context = make_context(1);
    l3a_lesson *lesson = new_lesson(context);
    (void)state;
    assert_fails(context, add(lesson, "b.jpg", "cat,dog", " dog", "", 0), L3A_ERROR_CLASS,
                 "b.jpg: 'dog' is listed both as shown and as not shown");
    assert_fails(context, add(lesson, "b.jpg", "cat", "", "cat,dog", 1), L3A_ERROR_ARGUMENT, "exclude each other");
    assert_fails(context, add(lesson, "b.jpg", "", "", "", 1), L3A_ERROR_ARGUMENT, "nothing is said about the picture");
    assert_ok(context, add(lesson, "b.jpg", "cat,cat", "dog,dog", "", 0)); /* to repeat oneself is no contradiction */
    assert_int_equal(lesson->pictures[0].marks.count, 2);
    const l3a_judgement missing = {.size = sizeof missing, .tag_count = 2};
    assert_fails(context, l3a_lesson_add(lesson, "b.jpg", &missing), L3A_ERROR_ARGUMENT, "tags is NULL");
    l3a_lesson_free(lesson);
    l3a_context_free(context);
}

static void names_that_look_alike(void **state) {
    (void)state;
    assert_true(names_look_alike("dog", "Dog"));
    assert_true(names_look_alike("traffic light", "Traffic-Light"));
    assert_true(names_look_alike("traffic_light", "trafficlight "));
    assert_true(names_look_alike("Äpfel", "äpfel"));
    assert_true(names_look_alike("Кот", "кот"));
    assert_true(names_look_alike("ŁÓDŹ", "łódŹ"));
    assert_false(names_look_alike("dog", "dogs"));
    assert_false(names_look_alike("dogs", "dog"));
    assert_false(names_look_alike("apfel", "äpfel"));
    assert_false(names_look_alike("cat", "car"));
}

/* ---- Judged sets ---- */

static void judged_sets(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *lesson = new_lesson(context);
    (void)state;
    teach(tagger, pictures[0], "cat", "", "", 0);
    assert_string_equal(last_labels(tagger), "cat 1");
    teach(tagger, pictures[1], "dog", "", "", 0); /* complete for what is known */
    assert_string_equal(last_labels(tagger), "cat 0, dog 1");
    teach(tagger, pictures[2], "bus", "", "", 1); /* only */
    assert_string_equal(last_labels(tagger), "bus 1");
    teach(tagger, pictures[3], "dog", "bus", "", 1);
    assert_string_equal(last_labels(tagger), "dog 1, bus 0");
    teach(tagger, pictures[4], "dog", "", "cat,dog", 0); /* judged for these */
    assert_string_equal(last_labels(tagger), "cat 0, dog 1");
    teach(tagger, pictures[5], "", "dog", "", 0); /* not a dog, and nothing else is said */
    assert_string_equal(last_labels(tagger), "dog 0");
    teach(tagger, pictures[6], "", "", "", 0); /* nothing that is known */
    assert_string_equal(last_labels(tagger), "cat 0, dog 0, bus 0");
    teach(tagger, pictures[7], "", "bus", "cat", 0);
    assert_string_equal(last_labels(tagger), "cat 0, bus 0");
    /* The classes of a whole lesson are known to all its pictures. */
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_ok(context, add(lesson, pictures[6], "elk", "", "", 0));
    assert_ok(context, add(lesson, pictures[7], "cat", "", "", 0));
    assert_ok(context, teach_with(tagger, lesson, (l3a_lesson_options){0}, NULL));
    assert_string_equal(last_labels(tagger), "cat 1, dog 0, bus 0, elk 0");
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void classes_that_nothing_shows(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *lesson = new_lesson(context);
    (void)state;
    teach(tagger, pictures[0], "cat", "", "", 0);
    assert_ok(context, add(lesson, pictures[1], "dog", "cta", "", 0));
    assert_fails(context, l3a_tagger_teach(tagger, lesson, NULL, NULL), L3A_ERROR_CLASS,
                 "no picture has been taught that shows 'cta'");
    assert_string_equal(l3a_error_hint(context), "did you mean 'cat'?");
    assert_int_equal(l3a_lesson_outcome(lesson, 0), L3A_ERROR_STATE); /* it was not even read */
    l3a_lesson_free(lesson);
    /* The only picture of a new class cannot be read: the class does not come into being. */
    lesson = new_lesson(context);
    assert_ok(context, add(lesson, broken, "dog", "", "", 0));
    assert_ok(context, add(lesson, pictures[1], "cat", "", "", 0));
    assert_ok(context, teach_with(tagger, lesson, (l3a_lesson_options){0}, NULL));
    assert_string_equal(last_labels(tagger), "cat 1");
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 1);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* ---- Pictures ---- */

static void pictures_that_cannot_be_read(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *lesson = new_lesson(context);
    l3a_teach_report report = {.size = sizeof report};
    const l3a_lesson_options strict = {.size = sizeof strict, .strict = 1};
    (void)state;
    assert_fails(context, l3a_tagger_teach(tagger, lesson, NULL, NULL), L3A_ERROR_ARGUMENT, "the lesson has no pictures");
    assert_ok(context, add(lesson, broken, "cat", "", "", 0));
    assert_ok(context, add(lesson, "/no/such.jpg", "cat", "", "", 0));
    assert_fails(context, l3a_tagger_teach(tagger, lesson, NULL, NULL), L3A_ERROR_TRUNCATED, "none of the 2 pictures can be read");
    assert_ok(context, add(lesson, pictures[0], "cat", "", "", 0));
    assert_fails(context, l3a_tagger_teach(tagger, lesson, &strict, NULL), L3A_ERROR_TRUNCATED, "broken.jpg");
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 0);
    assert_ok(context, l3a_tagger_teach(tagger, lesson, NULL, &report));
    assert_int_equal(report.images, 1);
    assert_int_equal(report.new_classes, 1);
    assert_int_equal(report.exact, 1);
    assert_int_equal(l3a_lesson_outcome(lesson, 0), L3A_ERROR_TRUNCATED);
    assert_non_null(strstr(l3a_lesson_problem(lesson, 0), "broken.jpg"));
    assert_int_equal(l3a_lesson_outcome(lesson, 1), L3A_ERROR_NOT_FOUND);
    assert_int_equal(l3a_lesson_outcome(lesson, 2), L3A_OK);
    assert_string_equal(l3a_lesson_problem(lesson, 2), "");
    l3a_lesson_free(lesson);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void pictures_in_memory(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *lesson = new_lesson(context);
    size_t size;
    char *bytes = read_bytes(pictures[0], &size);
    const l3a_judgement cat = {.size = sizeof cat, .tags = (const char *[]){"cat"}, .tag_count = 1};
    (void)state;
    assert_ok(context, l3a_lesson_add_bytes(lesson, "upload 1", bytes, size, &cat));
    assert_ok(context, l3a_lesson_add_bytes(lesson, "upload 2", NULL, 0, &cat));
    assert_ok(context, l3a_lesson_add_bytes(lesson, "upload 3", bytes, size / 2, &cat));
    free(bytes);
    assert_ok(context, l3a_lesson_add(lesson, pictures[0], &cat));
    assert_ok(context, l3a_lesson_add(lesson, pictures[1], &cat));
    assert_ok(context, l3a_tagger_teach(tagger, lesson, NULL, NULL));
    assert_int_equal(l3a_lesson_outcome(lesson, 0), L3A_OK);
    assert_int_equal(l3a_lesson_outcome(lesson, 1), L3A_ERROR_TRUNCATED);
    assert_int_equal(l3a_lesson_outcome(lesson, 2), L3A_ERROR_TRUNCATED);
    assert_int_equal(l3a_lesson_outcome(lesson, 3), L3A_ERROR_EXISTS);
    assert_non_null(strstr(l3a_lesson_problem(lesson, 1), "upload 2: "));
    assert_non_null(strstr(l3a_lesson_problem(lesson, 2), "upload 3: "));
    assert_non_null(strstr(l3a_lesson_problem(lesson, 3), "is the same picture as upload 1"));
    assert_int_equal(l3a_lesson_outcome(lesson, 4), L3A_OK);
    const struct entry *entry = tagger->history->entries[0];
    assert_int_equal(entry->row_count, 2);
    assert_string_equal(entry->rows[0].path, "upload 1");
    assert_string_equal(entry->rows[1].path, pictures[1]);
    assert_string_equal(entry->rows[1].relative, "bild ä 1.jpg");
    /* The features are those that the file has. */
    float from_bytes[15 * WIDTH];
    const size_t bytes_of_one = l3a_view_rows(views) * WIDTH * sizeof(float);
    assert_int_equal(entry->width, l3a_view_rows(views) * WIDTH);
    memcpy(from_bytes, entry->features, bytes_of_one);
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    teach(tagger, pictures[0], "cat", "", "", 0);
    assert_memory_equal(from_bytes, tagger->history->entries[0]->features, bytes_of_one);
    l3a_lesson_free(lesson);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static const l3a_judgement a_cat = {.size = sizeof a_cat, .tags = (const char *[]){"cat"}, .tag_count = 1};

static void add_bytes(l3a_lesson *lesson, const char *name, const char *path) {
    size_t size;
    char *bytes = read_bytes(path, &size);
    assert_ok(lesson->context, l3a_lesson_add_bytes(lesson, name, bytes, size, &a_cat));
    free(bytes);
}

/* In the same lesson, pictures have the same numbers in memory as in files. Those that were taught are not taught again. */
static void bytes_are_read_like_files(void **state) {
    enum { TAUGHT = 3 };
    l3a_context *context = make_context(2);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *files = new_lesson(context), *bytes = new_lesson(context);
    const size_t numbers = l3a_view_rows(views) * WIDTH;
    float *expected = calloc(TAUGHT * numbers, sizeof *expected);
    l3a_teach_report report = {.size = sizeof report};
    uint64_t checksums[TAUGHT], same[TAUGHT];
    (void)state;
    for (size_t i = 0; i < TAUGHT; i++) {
        assert_ok(context, l3a_lesson_add(files, pictures[i], &a_cat));
        add_bytes(bytes, "upload", pictures[i]);
    }
    assert_ok(context, l3a_tagger_teach(tagger, files, NULL, NULL));
    memcpy(expected, tagger->history->entries[0]->features, TAUGHT * numbers * sizeof *expected);
    assert_int_equal(l3a_history_checksums(tagger->history, 0, checksums, TAUGHT), TAUGHT);
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_ok(context, l3a_tagger_teach(tagger, bytes, NULL, NULL));
    assert_memory_equal(tagger->history->entries[0]->features, expected, TAUGHT * numbers * sizeof *expected);
    assert_int_equal(l3a_history_checksums(tagger->history, 0, same, TAUGHT), TAUGHT);
    assert_memory_equal(checksums, same, sizeof same);
    assert_ok(context, l3a_tagger_teach(tagger, bytes, NULL, &report));
    assert_int_equal(report.images, 0);
    assert_int_equal(l3a_lesson_outcome(bytes, 1), L3A_ERROR_EXISTS);
    assert_string_equal(l3a_lesson_problem(bytes, 1), "upload: was taught before in the same way, in lesson 1");
    l3a_lesson_free(files);
    l3a_lesson_free(bytes);
    free(expected);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* The features that a reader computes of a picture, of which the caller owns room for 16 views. Returns how many there are. */
static size_t compute(l3a_tagger *tagger, const char *path, float *features, uint64_t *checksum) {
    l3a_reader *reader = NULL;
    size_t size;
    char *bytes = read_bytes(path, &size);
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    float *input = calloc(l3a_reader_inputs(reader), sizeof *input);
    assert_int_equal(l3a_reader_prepare(reader, path, bytes, size, input, checksum), L3A_OK);
    assert_int_equal(l3a_reader_compute(reader, input, 1, features), L3A_OK);
    const size_t count = l3a_reader_width(reader);
    l3a_reader_free(reader);
    free(input);
    free(bytes);
    return count;
}

/* Teaches a picture by the features that a reader computes. */
static l3a_status teach_features(l3a_tagger *tagger, const char *path, size_t more) {
    l3a_lesson *lesson = new_lesson(tagger->context);
    uint64_t checksum;
    float *features = calloc(16 * WIDTH, sizeof *features);
    const size_t count = compute(tagger, path, features, &checksum);
    assert_ok(tagger->context, l3a_lesson_add_features(lesson, "seen", checksum, features, count + more, &a_cat));
    free(features);
    return teach_with(tagger, lesson, (l3a_lesson_options){0}, NULL);
}

/* However pictures come, and whatever is left out between them, each row of the entry has the features of its picture. */
static void rows_belong_to_their_pictures(void **state) {
    enum { ROWS = 4 };
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *lesson = new_lesson(context);
    float *features = calloc(16 * WIDTH, sizeof *features);
    uint64_t checksum;
    (void)state;
    assert_ok(context, l3a_lesson_add(lesson, broken, &a_cat));
    assert_ok(context, l3a_lesson_add(lesson, pictures[0], &a_cat));
    const size_t count = compute(tagger, pictures[1], features, &checksum);
    assert_ok(context, l3a_lesson_add_features(lesson, "1", checksum, features, count, &a_cat));
    add_bytes(lesson, "copy of 0", pictures[0]);
    add_bytes(lesson, "2", pictures[2]);
    assert_ok(context, l3a_lesson_add(lesson, pictures[3], &a_cat));
    assert_ok(context, l3a_tagger_teach(tagger, lesson, NULL, NULL));
    const struct entry *entry = tagger->history->entries[0];
    const char *const names[ROWS] = {pictures[0], "1", "2", pictures[3]};
    assert_int_equal(entry->row_count, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        assert_string_equal(entry->rows[i].path, names[i]);
        compute(tagger, pictures[i], features, &checksum);
        assert_true(entry->rows[i].checksum == checksum);
        for (size_t j = 0; j < entry->width; j++) {
            assert_true(fabsf(entry->features[i * entry->width + j] - features[j]) < 1e-4F);
        }
    }
    l3a_lesson_free(lesson);
    free(features);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* A reader computes the views that are scored; those that are learned are among them, or the picture itself is needed. */
static void pictures_by_their_features(void **state) {
    static const struct {
        const char *learned, *scored;
        size_t numbers; /* that the entry has; 0: the lesson is refused */
    } cases[] = {{"1", "0", 1}, {"1", "5", 1},   {"1", "14", 1}, {"5", "14", 6}, {"9", "14", 10},
                 {"5", "0", 6}, {"14", "0", 15}, {"5", "1", 0},  {"14", "5", 0}, {"5", "9", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        l3a_context *context = make_context(1);
        l3a_tagger *tagger = new_tagger_with(context, cases[i].learned, cases[i].scored);
        const size_t count = cases[i].numbers * WIDTH;
        float expected[15 * WIDTH];
        assert_int_equal(l3a_tagger_takes_features(tagger), cases[i].numbers > 0);
        assert_fails(context, teach_features(tagger, pictures[0], 1), L3A_ERROR_MISMATCH, "but a reader computes");
        if (count) {
            teach(tagger, pictures[0], "cat", "", "", 0);
            memcpy(expected, tagger->history->entries[0]->features, count * sizeof *expected);
            assert_ok(context, l3a_tagger_undo(tagger, NULL));
            assert_ok(context, teach_features(tagger, pictures[0], 0));
            assert_int_equal(tagger->history->entries[0]->width, count);
            for (size_t j = 0; j < count; j++) {
                assert_true(fabsf(tagger->history->entries[0]->features[j] - expected[j]) < 1e-4F);
            }
        } else {
            assert_fails(context, teach_features(tagger, pictures[0], 0), L3A_ERROR_MISMATCH, "not among the");
        }
        l3a_tagger_free(tagger);
        l3a_context_free(context);
    }
    assert_int_equal(l3a_tagger_takes_features(NULL), 0);
}

/* ---- The same picture again ---- */

static l3a_status teach_again(l3a_tagger *tagger, const char *path, const char *tags, const char *absent,
                              l3a_lesson_options options, l3a_teach_report *report) {
    l3a_lesson *lesson = new_lesson(tagger->context);
    assert_ok(tagger->context, add(lesson, path, tags, absent, "", 0));
    *report = (l3a_teach_report){.size = sizeof *report};
    return teach_with(tagger, lesson, options, report);
}

static void the_same_picture_again(void **state) {
    const l3a_lesson_options plain = {0}, instead = {.instead = 1};
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_teach_report report;
    (void)state;
    teach(tagger, pictures[0], "cat", "", "", 0);
    teach(tagger, pictures[1], "dog", "", "", 0);
    assert_ok(context, teach_again(tagger, pictures[0], "cat", "", plain, &report));
    assert_int_equal(report.images, 0);
    assert_ok(context, teach_again(tagger, copy, "cat", "", plain, &report)); /* by content, not by name */
    assert_int_equal(report.images, 0);
    assert_int_equal(tagger->history->count, 2);
    assert_fails(context, teach_again(tagger, copy, "dog", "", plain, &report), L3A_ERROR_EXISTS,
                 "lesson 1 taught this picture with the tags cat");
    assert_non_null(strstr(l3a_error_hint(context), "'instead'"));
    /* That it shows no dog is new: dogs were not known then. */
    assert_fails(context, teach_again(tagger, pictures[0], "cat", "dog", plain, &report), L3A_ERROR_EXISTS, "lesson 1");
    assert_ok(context, teach_again(tagger, pictures[0], "cat", "dog", instead, &report));
    assert_int_equal(report.images, 1);
    assert_string_equal(last_labels(tagger), "cat 1, dog 0");
    assert_int_equal(l3a_model_class_images(l3a_tagger_model(tagger), 0), 1);
    assert_ok(context, teach_again(tagger, pictures[0], "cat", "", plain, &report));
    assert_int_equal(report.images, 0);
    assert_ok(context, teach_again(tagger, pictures[2], "dog", "", instead, &report)); /* never taught: simply new */
    assert_int_equal(report.images, 1);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void two_copies_in_one_lesson(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_lesson *lesson = new_lesson(context);
    (void)state;
    assert_ok(context, add(lesson, pictures[0], "cat", "", "", 0));
    assert_ok(context, add(lesson, copy, "cat", "", "", 0));
    assert_ok(context, l3a_tagger_teach(tagger, lesson, NULL, NULL));
    assert_int_equal(l3a_lesson_outcome(lesson, 1), L3A_ERROR_EXISTS);
    assert_int_equal(tagger->history->entries[0]->row_count, 1);
    l3a_lesson_free(lesson);
    lesson = new_lesson(context);
    assert_ok(context, add(lesson, pictures[1], "cat", "", "", 0));
    assert_ok(context, add(lesson, pictures[1], "cat,dog", "", "", 0));
    assert_fails(context, l3a_tagger_teach(tagger, lesson, NULL, NULL), L3A_ERROR_CLASS,
                 "are the same picture, with different tags");
    l3a_lesson_free(lesson);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* The file was edited since: it is found by its path. */
static void a_picture_that_was_edited(void **state) {
    const l3a_lesson_options instead = {.instead = 1};
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_teach_report report;
    char *edited = path_in(folder, "edited.jpg");
    (void)state;
    write_small_picture(edited, 50);
    teach(tagger, edited, "cat", "", "", 0);
    write_small_picture(edited, 51);
    assert_ok(context, teach_again(tagger, edited, "dog", "", instead, &report));
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 1); /* nothing is judged for cat any more */
    assert_string_equal(l3a_model_class(l3a_tagger_model(tagger), 0), "dog");
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_string_equal(l3a_model_class(l3a_tagger_model(tagger), 0), "cat");
    free(edited);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* The model that was taught a picture with other tags from the start. */
static void assert_like_new(l3a_context *context, l3a_tagger *tagger, const char *first, const char *second) {
    l3a_tagger *other;
    char *kept = model_path;
    model_path = path_in(folder, "other.l3a");
    other = new_tagger(context);
    teach(other, pictures[0], first, "", "", 0);
    teach(other, pictures[1], second, "", "", 0);
    const l3a_model *left = l3a_tagger_model(tagger), *right = l3a_tagger_model(other);
    assert_int_equal(l3a_model_class_count(left), l3a_model_class_count(right));
    for (size_t k = 0; k < l3a_model_class_count(left); k++) {
        const size_t r = text_list_find(&right->classes, left->classes.items[k]);
        assert_true(r < right->classes.count);
        for (size_t i = 0; i < l3a_model_inputs(left); i++) {
            assert_float_equal((float)left->coefficients[i * left->classes.count + k],
                               (float)right->coefficients[i * right->classes.count + r], 1e-9);
        }
    }
    l3a_tagger_free(other);
    free(model_path);
    model_path = kept;
}

static void what_it_was_without_a_history(void **state) {
    const l3a_lesson_options untraced = {.no_history = 1};
    const char *const cat[] = {"cat"}, *const unknown[] = {"cow"};
    const l3a_judgement was = {.size = sizeof was, .tags = cat, .tag_count = 1, .judged = cat, .judged_count = 1},
                        wrong = {.size = sizeof wrong, .tags = unknown, .tag_count = 1};
    l3a_lesson_options instead = {.instead = 1, .no_history = 1};
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_teach_report report;
    (void)state;
    assert_ok(context, teach_again(tagger, pictures[0], "cat", "", untraced, &report));
    assert_ok(context, teach_again(tagger, pictures[1], "dog", "", untraced, &report));
    assert_int_equal(tagger->history->count, 0);
    assert_fails(context, teach_again(tagger, pictures[0], "elk", "", instead, &report), L3A_ERROR_STATE,
                 "the history does not say how this picture was taught");
    instead.was = &wrong;
    assert_fails(context, teach_again(tagger, pictures[0], "elk", "", instead, &report), L3A_ERROR_CLASS, "shows 'cow'");
    instead.was = &was;
    assert_ok(context, teach_again(tagger, pictures[1], "dog", "", untraced, &report)); /* nothing is known of it: learned twice */
    assert_int_equal(report.images, 1);
    assert_ok(context, l3a_tagger_save(tagger));
    assert_ok(context, l3a_tagger_reload(tagger));
    assert_ok(context, teach_again(tagger, pictures[0], "elk", "", instead, &report));
    assert_int_equal(l3a_model_class_images(l3a_tagger_model(tagger), 0), 0); /* dogs were judged as no cats, so cat stays */
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* There is no file to load it from; what it was taught stays. */
static void a_tagger_that_was_never_saved_cannot_be_reloaded(void **state) {
    const l3a_lesson_options plain = {0};
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_teach_report report;
    (void)state;
    assert_ok(context, teach_again(tagger, pictures[0], "cat", "", plain, &report));
    assert_fails(context, l3a_tagger_reload(tagger), L3A_ERROR_NOT_FOUND, model_path);
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 1);
    assert_ok(context, teach_again(tagger, pictures[1], "dog", "", plain, &report));
    assert_ok(context, l3a_tagger_save(tagger));
    assert_ok(context, l3a_tagger_reload(tagger));
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 2);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

static void a_correction_equals_the_right_lesson(void **state) {
    const l3a_lesson_options instead = {.instead = 1};
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    l3a_teach_report report;
    (void)state;
    teach(tagger, pictures[0], "cat,dog", "", "", 0);
    teach(tagger, pictures[1], "cat", "", "", 0);
    assert_ok(context, teach_again(tagger, pictures[1], "dog", "", instead, &report));
    assert_like_new(context, tagger, "cat,dog", "dog");
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_like_new(context, tagger, "cat,dog", "cat");
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* ---- The tagger ---- */

static size_t best_class(l3a_context *context, l3a_reader *reader, const char *path, char name[64]) {
    l3a_tags *tags = NULL;
    if (l3a_reader_tag_file(reader, path, &tags) != L3A_OK) {
        print_error("%s\n", l3a_reader_error_text(reader));
        assert_true(false);
    }
    (void)context;
    const size_t count = l3a_tags_count(tags);
    snprintf(name, 64, "%s", count ? l3a_tags_name(tags, 0) : "");
    l3a_tags_free(tags);
    return count;
}

static void readers_see_what_was_taught(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context), *again = NULL;
    l3a_reader *reader = NULL;
    l3a_tags *none = NULL;
    char name[64];
    int exact;
    (void)state;
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    assert_int_equal(l3a_reader_tag_file(reader, pictures[0], &none), L3A_ERROR_STATE);
    assert_string_equal(l3a_reader_error_text(reader), "the model has learned no class yet");
    teach(tagger, pictures[0], "cat", "", "", 0);
    teach(tagger, pictures[1], "dog", "", "", 0);
    assert_int_equal(best_class(context, reader, pictures[0], name), 2);
    assert_string_equal(name, "cat");
    assert_ok(context, l3a_tagger_rename(tagger, "cat", "kitten", &exact));
    best_class(context, reader, pictures[0], name);
    assert_string_equal(name, "kitten");
    assert_ok(context, l3a_tagger_widen(tagger, 48));
    assert_int_equal(best_class(context, reader, pictures[0], name), 2);
    assert_int_not_equal(access(model_path, F_OK), 0); /* nothing is written until it is saved */
    assert_ok(context, l3a_tagger_save(tagger));
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_ok(context, l3a_tagger_undo(tagger, NULL));
    assert_int_equal(best_class(context, reader, pictures[0], name), 1);
    assert_ok(context, l3a_tagger_reload(tagger)); /* as saved */
    assert_int_equal(best_class(context, reader, pictures[0], name), 2);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    /* The model remembers its backbone. */
    assert_ok(context, l3a_tagger_open(context, model_path, NULL, &again));
    const l3a_history *history = NULL;
    assert_ok(context, l3a_tagger_history(again, &history));
    assert_int_equal(l3a_history_count(history), 3);
    teach(again, pictures[2], "kitten", "", "", 0);
    assert_ok(context, l3a_tagger_save(again));
    l3a_tagger_free(again);
    l3a_context_free(context);
}

static void models_that_cannot_be_made(void **state) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone}, none = {.size = sizeof none};
    l3a_context *context = make_context(1);
    l3a_options *settings = NULL;
    l3a_tagger *tagger = NULL;
    char *nowhere = path_in(folder, "no/such/model.l3a");
    (void)state;
    assert_ok(context, l3a_options_create(context, &settings));
    assert_ok(context, l3a_lesson_settings(context, settings));
    assert_int_equal(l3a_options_integer(settings, "dim"), 2048);
    write_bytes(model_path, "?", 1);
    assert_fails(context, l3a_tagger_create(context, model_path, settings, &options, &tagger), L3A_ERROR_EXISTS, "a file already");
    unlink(model_path);
    assert_ok(context, l3a_options_set(context, settings, "views", "7"));
    assert_fails(context, l3a_tagger_create(context, model_path, settings, &options, &tagger), L3A_ERROR_OPTION,
                 "pictures cannot have 7 views");
    assert_ok(context, l3a_options_set(context, settings, "views", "1"));
    assert_fails(context, l3a_tagger_create(context, model_path, settings, &none, &tagger), L3A_ERROR_ARGUMENT, "needs a backbone");
    assert_fails(context, l3a_tagger_create(context, nowhere, settings, &options, &tagger), L3A_ERROR_NOT_FOUND, "no/such");
    free(nowhere);
    l3a_options_free(settings);
    l3a_context_free(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_inputs, remove_inputs)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(names_of_classes),
        TEST(contradictions),
        TEST(names_that_look_alike),
        TEST(judged_sets),
        TEST(classes_that_nothing_shows),
        TEST(pictures_that_cannot_be_read),
        TEST(pictures_in_memory),
        TEST(bytes_are_read_like_files),
        TEST(rows_belong_to_their_pictures),
        TEST(pictures_by_their_features),
        TEST(the_same_picture_again),
        TEST(two_copies_in_one_lesson),
        TEST(a_picture_that_was_edited),
        TEST(what_it_was_without_a_history),
        TEST(a_tagger_that_was_never_saved_cannot_be_reloaded),
        TEST(a_correction_equals_the_right_lesson),
        TEST(readers_see_what_was_taught),
        TEST(models_that_cannot_be_made),
    };
    const int failed = cmocka_run_group_tests_name("without views", tests, NULL, NULL);
    views = 14;
    return failed + cmocka_run_group_tests_name("with views", tests, NULL, NULL);
}
