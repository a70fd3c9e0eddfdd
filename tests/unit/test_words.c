/* Words and the classes that they mean, also for texts that no one should send; and classifiers, against the formula in double
 * precision. tests/oracle/test_words.py compares the words with other lists, and the classifier with NumPy on a real checkpoint. */
#include "support.h"

#include "memory_probe.h"
#include "net/classifier.h"
#include "net/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEAGLE = 162, LABRADOR = 208, CRANE_BIRD = 134, CRANE = 517, HOT_DOG = 934, SHEEPDOG = 230, MOUSE = 673, BINOCULARS = 447 };

static size_t find(const char *text, enum word_fit expected, size_t classes[WORD_CLASSES]) {
    enum word_fit fit;
    const size_t count = words_matching(text, classes, &fit);
    assert_int_equal(fit, expected);
    assert_int_equal(words_matching(text, classes, NULL), count);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(classes[i], i ? classes[i - 1] + 1 : 0, WORD_CLASSES - 1);
    }
    return count;
}

static bool means(const char *text, enum word_fit expected, size_t class) {
    size_t classes[WORD_CLASSES];
    const size_t count = find(text, expected, classes);
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found = found || classes[i] == class;
    }
    return found;
}

static void a_word_means_what_is_called_so_and_what_is_below(void **state) {
    (void)state;
    size_t classes[WORD_CLASSES];
    assert_int_equal(find("Labrador retriever", WORD_KNOWN, classes), 1);
    assert_int_equal(classes[0], LABRADOR);
    assert_int_equal(find("dog", WORD_KNOWN, classes), 118);
    assert_true(means("retriever", WORD_KNOWN, LABRADOR));
    assert_true(means("dog", WORD_KNOWN, BEAGLE));
    assert_true(means("animal", WORD_KNOWN, BEAGLE));
    assert_false(means("cat", WORD_KNOWN, BEAGLE));
    assert_false(means("dog", WORD_KNOWN, HOT_DOG));
    assert_false(means("sheep", WORD_KNOWN, SHEEPDOG));
}

static void all_senses_count(void **state) {
    (void)state;
    assert_true(means("crane", WORD_KNOWN, CRANE));
    assert_true(means("crane", WORD_KNOWN, CRANE_BIRD));
    assert_true(means("mouse", WORD_KNOWN, MOUSE));
}

static void capitals_hyphens_spaces_and_plurals_do_not_matter(void **state) {
    (void)state;
    static const struct {
        const char *text, *same;
    } pairs[] = {{"DOG", "dog"},
                 {"  dog\n", "dog"},
                 {"dogs", "dog"},
                 {"labrador-retrievers", "Labrador retriever"},
                 {"buses", "bus"},
                 {"butterflies", "butterfly"},
                 {"wolves", "wolf"},
                 {"knives", "knife"},
                 {"cow", "cows"},
                 {"dining_table", "dining  table"},
                 {"binocular", "binoculars"},
                 {"tree frog", "tree-frog"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        size_t one[WORD_CLASSES], other[WORD_CLASSES];
        const size_t count = words_matching(pairs[i].text, one, NULL);
        assert_true(count > 0);
        assert_int_equal(words_matching(pairs[i].same, other, NULL), count);
        assert_memory_equal(one, other, count * sizeof *one);
    }
    assert_true(means("binocular", WORD_KNOWN, BINOCULARS));
    assert_true(means("knives", WORD_KNOWN, 499)); /* a cleaver */
}

static void parts_of_words_count_if_there_is_no_such_word(void **state) {
    (void)state;
    size_t classes[WORD_CLASSES];
    assert_int_equal(find("soccer", WORD_WITHIN, classes), 1);
    assert_string_equal(words_of(classes[0]), "soccer ball");
    assert_int_equal(find("labrador", WORD_WITHIN, classes), 1);
    assert_true(find("kitchen", WORD_WITHIN_ABOVE, classes) > 0);
    assert_int_equal(find("occer", WORD_UNKNOWN, classes), 0);
    assert_int_equal(find("soccer bal", WORD_UNKNOWN, classes), 0);
}

static void what_is_above_everything_is_no_word(void **state) {
    (void)state;
    size_t classes[WORD_CLASSES];
    static const char *const general[] = {"entity", "physical entity", "artifact", "whole", "matter"};
    for (size_t i = 0; i < sizeof general / sizeof general[0]; i++) {
        assert_int_equal(find(general[i], WORD_UNKNOWN, classes), 0);
    }
}

static void texts_can_be_anything(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    static char long_text[10240], long_word[10240];
    memset(long_text, ' ', sizeof long_text - 1);
    memcpy(long_text + 5000, "dog", 3);
    memset(long_word, 'd', sizeof long_word - 1);
    static const char *const texts[] = {"",
                                        " ",
                                        "-",
                                        "\t\n",
                                        "s",
                                        "es",
                                        "ies",
                                        "%s%n",
                                        "'",
                                        ";",
                                        "\xFF\xFE",
                                        "d\xC3",
                                        "\xE7\x8A\xAC",
                                        "a dog on a bicycle and many other words, more than any class of any classifier has",
                                        long_word};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t classes[WORD_CLASSES];
        char hint[64];
        assert_int_equal(find(texts[i], WORD_UNKNOWN, classes), 0);
        assert_ok(context, words_closest(context, texts[i], "nothing", hint, sizeof hint));
        assert_true(strlen(texts[i]) < 6 || strcmp(hint, "nothing") == 0);
    }
    assert_true(means(long_text, WORD_KNOWN, BEAGLE));
    l3a_context_free(context);
}

static void mistyped_words_have_a_hint(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    static const struct {
        const char *text, *hint;
    } cases[] = {{"retreiver", "did you mean 'retriever'?"},
                 {"labradro", "did you mean 'labrador'?"},
                 {"chihuaha", "did you mean 'chihuahua'?"},
                 {"Dining tabel", "did you mean 'dining table'?"},
                 {"xyzzyxyzzy", "nothing"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hint[64];
        assert_ok(context, words_closest(context, cases[i].text, "nothing", hint, sizeof hint));
        assert_string_equal(hint, cases[i].hint);
    }
    l3a_context_free(context);
}

static l3a_status take_hint(l3a_context *context, void *argument) {
    (void)argument;
    char hint[64];
    return words_closest(context, "retreiver", "nothing", hint, sizeof hint);
}

static void hints_need_memory(void **state) {
    (void)state;
    assert_true(fail_each_allocation(take_hint, NULL) > 2);
}

static void every_class_has_words_that_find_it(void **state) {
    (void)state;
    for (size_t class = 0; class < WORD_CLASSES; class ++) {
        size_t count = 0;
        assert_ptr_equal(words_of(class), words_at(class, 0));
        for (; words_at(class, count); count++) {
            assert_true(means(words_at(class, count), WORD_KNOWN, class));
        }
        assert_in_range(count, 1, 20);
        assert_null(words_at(class, count + 1));
        assert_true(!class || words_id(class) > words_id(class - 1));
    }
    assert_null(words_of(WORD_CLASSES));
    assert_null(words_at(SIZE_MAX, 0));
    assert_non_null(strstr(words_licence(), words_source()));
}

/* ---- Classifiers ---- */

enum { WIDTH = 5, ROWS = 700 };

static float number(size_t index) {
    return (float)((double)(index * 2654435761U % 65536) / 32768 - 1);
}

static struct classifier made_classifier(size_t classes, size_t stride, float scale) {
    struct classifier made = {.classes = classes, .width = WIDTH, .stride = stride};
    made.weight = calloc(classes * WIDTH + 1, sizeof *made.weight);
    made.bias = calloc(classes + 1, sizeof *made.bias);
    for (size_t i = 0; i < classes * WIDTH; i++) {
        made.weight[i] = scale * number(i + 1);
    }
    for (size_t i = 0; i < classes; i++) {
        made.bias[i] = number(i + 77777);
    }
    return made;
}

static double logit(const struct classifier *classifier, const float *row, size_t class) {
    double sum = (double)classifier->bias[class];
    for (size_t i = 0; i < WIDTH; i++) {
        sum += (double)row[i] * (double)classifier->weight[class * WIDTH + i];
    }
    return sum;
}

static void check_sums(l3a_context *context, size_t classes, size_t stride, float scale) {
    struct classifier classifier = made_classifier(classes, stride, scale);
    float *features = calloc(ROWS * stride, sizeof *features), sums[ROWS];
    for (size_t i = 0; i < ROWS * stride; i++) {
        features[i] = number(i + 5);
    }
    assert_ok(context, classifier_log_sum(context, &classifier, features, ROWS, sums));
    for (size_t i = 0; i < ROWS; i++) {
        double largest = -INFINITY, sum = 0;
        for (size_t k = 0; k < classes; k++) {
            largest = fmax(largest, logit(&classifier, features + i * stride, k));
        }
        for (size_t k = 0; k < classes; k++) {
            sum += exp(logit(&classifier, features + i * stride, k) - largest);
        }
        assert_near((double)sums[i], largest + log(sum), 1e-5 * fmax(1, fabs(largest)));
    }
    free(features);
    free(classifier.weight);
    free(classifier.bias);
}

static void log_sums_are_those_of_the_formula(void **state) {
    (void)state;
    l3a_context *context = make_context(2);
    check_sums(context, 1000, WIDTH, 1);
    check_sums(context, 1000, WIDTH + 3, 1); /* rows that go on */
    check_sums(context, 1, WIDTH, 1);
    check_sums(context, 17, WIDTH, 1);
    check_sums(context, 40, WIDTH, 300); /* exponentials would overflow */
    assert_ok(context, classifier_log_sum(context, &(struct classifier){.classes = 3, .width = 1, .stride = 1}, NULL, 0, NULL));
    l3a_context_free(context);
}

static void no_class_has_no_probability(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct classifier all = made_classifier(4, WIDTH, 1), *none = NULL;
    float features[2 * WIDTH] = {0}, sums[2];
    assert_ok(context, classifier_choose(context, &all, NULL, 0, &none));
    assert_ok(context, classifier_log_sum(context, none, features, 2, sums));
    assert_true(isinf(sums[0]) && sums[0] < 0 && isinf(sums[1]) && sums[1] < 0);
    classifier_free(context, none);
    classifier_free(context, NULL);
    free(all.weight);
    free(all.bias);
    l3a_context_free(context);
}

static void chosen_classes_have_the_same_logits(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct classifier all = made_classifier(100, WIDTH, 1), *some = NULL;
    const size_t classes[] = {99, 3, 3, 0};
    float features[3 * WIDTH], logits[3 * 4];
    for (size_t i = 0; i < 3 * WIDTH; i++) {
        features[i] = number(i);
    }
    assert_ok(context, classifier_choose(context, &all, classes, 4, &some));
    classifier_logits(context, some, features, 3, logits);
    for (size_t i = 0; i < 12; i++) {
        assert_near((double)logits[i], logit(&all, features + i / 4 * WIDTH, classes[i % 4]), 1e-5);
    }
    classifier_free(context, some);
    free(all.weight);
    free(all.bias);
    l3a_context_free(context);
}

/* A safetensors file with one classifier; classes is its first dimension. */
static char *write_classifier(const char *folder, const char *name, size_t classes, bool bias) {
    char header[512], *path = path_in(folder, "classifier.safetensors");
    const size_t weights = classes * WIDTH * sizeof(float), end = weights + (bias ? classes * sizeof(float) : 0);
    int length =
        snprintf(header + 8, sizeof header - 8, "{\"%s.weight\":{\"dtype\":\"F32\",\"shape\":[%zu,%d],\"data_offsets\":[0,%zu]}",
                 name, classes, WIDTH, weights);
    if (bias) {
        length +=
            snprintf(header + 8 + length, sizeof header - 8 - (size_t)length,
                     ",\"%s.bias\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}", name, classes, weights, end);
    }
    length += snprintf(header + 8 + length, sizeof header - 8 - (size_t)length, "}");
    for (size_t i = 0; i < 8; i++) {
        header[i] = (char)((uint64_t)length >> 8 * i & 255);
    }
    char *bytes = calloc(1, 8 + (size_t)length + end);
    memcpy(bytes, header, 8 + (size_t)length);
    for (size_t i = 0; i < end / sizeof(float); i++) {
        const float value = number(i);
        memcpy(bytes + 8 + length + i * sizeof value, &value, sizeof value);
    }
    write_bytes(path, bytes, 8 + (size_t)length + end);
    free(bytes);
    return path;
}

static l3a_status read_classifier(l3a_context *context, void *path) {
    struct classifier *classifier = NULL;
    const l3a_status status = classifier_read(context, path, "cls", WIDTH, &classifier);
    classifier_free(context, classifier);
    return status;
}

static void classifiers_are_read_under_each_name(void **state) {
    (void)state;
    static const char *const names[] = {"head", "fc", "head.fc"};
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder();
    for (size_t i = 0; i < 3; i++) {
        char *path = write_classifier(folder, names[i], WORD_CLASSES, true);
        struct classifier *classifier = NULL;
        assert_ok(context, classifier_read(context, path, i ? "average" : "cls+mean", i ? WIDTH : 2 * WIDTH, &classifier));
        assert_int_equal(classifier->classes, WORD_CLASSES);
        assert_int_equal(classifier->width, WIDTH);
        assert_int_equal(classifier->stride, i ? WIDTH : 2 * WIDTH);
        assert_true(classifier->weight[WIDTH + 2] == number(WIDTH + 2));
        assert_true(classifier->bias[7] == number(WORD_CLASSES * WIDTH + 7));
        classifier_free(context, classifier);
        assert_true(fail_each_allocation(read_classifier, path) > 5);
        free(path);
    }
    remove_folder(folder);
    l3a_context_free(context);
}

static void what_is_no_classifier_of_imagenet_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *pool, *text;
        size_t classes, width;
        bool bias;
    } cases[] = {{"norm", "cls", "not those of a known network", 1000, WIDTH, true},
                 {"head", "cls", "has 21 classes", 21, WIDTH, true},
                 {"fc", NULL, "has 21841 classes", 21841, WIDTH, true},
                 {"head", "cls", "head.weight has shape [1000, 5]; expected [1000, 6]", 1000, WIDTH + 1, true},
                 {"head", "cls", "head.bias is missing", 1000, WIDTH, false},
                 {"head", "mean", "the features have the pool mean", 1000, WIDTH, true},
                 {"head", "cls+mean", "cannot have a width of 5", 1000, WIDTH, true}};
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct classifier *classifier = NULL;
        char *path = write_classifier(folder, cases[i].name, cases[i].classes, cases[i].bias);
        assert_fails(context, classifier_read(context, path, cases[i].pool, cases[i].width, &classifier), L3A_ERROR_MISMATCH,
                     cases[i].text);
        assert_null(classifier);
        free(path);
    }
    remove_folder(folder);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_means_what_is_called_so_and_what_is_below),
        cmocka_unit_test(all_senses_count),
        cmocka_unit_test(capitals_hyphens_spaces_and_plurals_do_not_matter),
        cmocka_unit_test(parts_of_words_count_if_there_is_no_such_word),
        cmocka_unit_test(what_is_above_everything_is_no_word),
        cmocka_unit_test(texts_can_be_anything),
        cmocka_unit_test(mistyped_words_have_a_hint),
        cmocka_unit_test(hints_need_memory),
        cmocka_unit_test(every_class_has_words_that_find_it),
        cmocka_unit_test(log_sums_are_those_of_the_formula),
        cmocka_unit_test(no_class_has_no_probability),
        cmocka_unit_test(chosen_classes_have_the_same_logits),
        cmocka_unit_test(classifiers_are_read_under_each_name),
        cmocka_unit_test(what_is_no_classifier_of_imagenet_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
