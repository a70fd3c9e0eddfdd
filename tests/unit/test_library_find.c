/* What an index finds, against a second implementation that is obviously right: scores and sides of thresholds as the tagger's
 * readers give them, expressions evaluated while they are made up, orders by qsort, and cosines and probabilities in double
 * precision. */
#include "support.h"

#include "fixture.h"
#include "small_library.h"

#include "base/random.h"
#include "net/classifier.h"
#include "net/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PICTURES = 75, EXPRESSIONS = 1500, DAY = 86400 };

static struct small_library small;
static l3a_tagger *tagger;
static l3a_library *library;

/* What is known of the pictures by other ways. */
static struct truth {
    uint64_t id;
    char name[32];
    char path[512];
    size_t folder; /* 0 … 2 */
    int64_t date;
    float features[SMALL_WIDTH], scores[SMALL_CLASSES];
    double thresholds[SMALL_CLASSES];
    int said[SMALL_CLASSES]; /* -1: nothing */
} truths[PICTURES];

static const char *const folders[] = {"", "one/", "two of/them/"};

static int take_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    (void)user;
    assert_int_equal(status, L3A_OK);
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        truths[index].scores[l3a_tags_class(tags, i)] = l3a_tags_score(tags, i);
        truths[index].thresholds[l3a_tags_class(tags, i)] = l3a_tags_threshold(tags, i);
    }
    return 0;
}

static int take_said(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user) {
    (void)user;
    (void)complete;
    (void)checksum;
    for (size_t i = 0; i < PICTURES; i++) {
        for (size_t k = 0; strcmp(truths[i].path, path) == 0 && k < SMALL_CLASSES; k++) {
            truths[i].said[k] = labels[k];
        }
    }
    return 0;
}

static void learn_truth(void) {
    static float features[PICTURES * SMALL_WIDTH];
    const l3a_history *history = NULL;
    l3a_reader *reader = NULL;
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    for (size_t i = 0; i < PICTURES; i++) {
        memset(truths[i].said, -1, sizeof truths[i].said);
        assert_ok(context, l3a_library_picture_find(library, truths[i].path, &truths[i].id));
        assert_ok(context, l3a_library_features(library, truths[i].id, truths[i].features));
        memcpy(features + i * SMALL_WIDTH, truths[i].features, sizeof truths[i].features);
    }
    assert_int_equal(l3a_reader_score(reader, features, PICTURES, take_tags, NULL), L3A_OK);
    l3a_reader_free(reader);
    assert_ok(context, l3a_tagger_history(tagger, &history));
    assert_ok(context, l3a_history_pictures(history, take_said, NULL));
}

static int open_library(void **state) {
    (void)state;
    small_library_make(&small, SMALL_TAUGHT);
    for (size_t i = 0; i < PICTURES; i++) {
        char name[64];
        struct truth *truth = &truths[i];
        truth->folder = i < SMALL_TAUGHT ? 0 : i % 3;
        snprintf(truth->name, sizeof truth->name, "%s%zu.jpg", i % 5 == 0 && i >= SMALL_TAUGHT ? "IMG_" : "", i);
        snprintf(name, sizeof name, "%s%s", folders[truth->folder], truth->name);
        snprintf(truth->path, sizeof truth->path, "%s/%s", small.photos, name);
        truth->date = INT64_C(1600000000) + (int64_t)(i * i * 37 % 101) * 30 * DAY;
        small_library_put(&small, name, i);
        small_library_age(&small, name, (int64_t)time(NULL) - truth->date);
    }
    context = make_context(1);
    tagger = small_library_tagger(&small, context, NULL, 0);
    library = small_library_open(&small, context, tagger);
    assert_ok(context, l3a_library_add(library, small.photos));
    assert_ok(context, l3a_library_scan(library, NULL));
    assert_ok(context, l3a_library_look(library, NULL, NULL));
    const l3a_history *history = NULL;
    assert_ok(context, l3a_tagger_history(tagger, &history));
    assert_ok(context, l3a_library_take_history(library, history));
    assert_ok(context, l3a_library_score(library, 0, NULL));
    learn_truth();
    return 0;
}

static int close_library(void **state) {
    (void)state;
    assert_at_rest(library);
    l3a_library_free(library);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
    small_library_remove(&small);
    return 0;
}

static l3a_found *find(l3a_find_options options) {
    l3a_found *found = NULL;
    options.size = sizeof options;
    assert_ok(context, l3a_library_find(library, &options, &found));
    return found;
}

static size_t number_of(uint64_t id) {
    size_t i = 0;
    while (i < PICTURES && truths[i].id != id) {
        i++;
    }
    assert_in_range(i, 0, PICTURES - 1);
    return i;
}

/* What holds for a tag: what was said counts before the score. */
static double score_of(size_t i, size_t class) {
    const int said = truths[i].said[class];
    return said == 1 ? (double)INFINITY : said == 0 ? -(double)INFINITY : (double)truths[i].scores[class];
}

static bool shows(size_t i, size_t class) {
    return score_of(i, class) > (double)(float)truths[i].thresholds[class];
}

/* ---- Scores ---- */

static void columns_hold_the_scores_of_readers(void **state) {
    (void)state;
    bool any = false;
    for (size_t k = 0; k < SMALL_CLASSES; k++) {
        char all[64];
        snprintf(all, sizeof all, "\"%s\" or not \"%s\"", small_classes[k], small_classes[k]);
        l3a_found *found = find((l3a_find_options){.where = all, .sort = "score"});
        assert_int_equal(l3a_found_count(found), PICTURES);
        for (size_t i = 0; i < PICTURES; i++) {
            const double expected = score_of(number_of(l3a_found_id(found, i)), k), rank = l3a_found_rank(found, i);
            any = any || isinf(expected);
            assert_true(expected == rank || fabs(expected - rank) < 2e-3 * (1 + fabs(expected)));
            assert_true(!i || rank <= l3a_found_rank(found, i - 1));
        }
        l3a_found_free(found);
    }
    assert_true(any);
}

static void counts_are_those_of_all_pictures(void **state) {
    l3a_library_info info = {.size = sizeof info};
    uint64_t judged = 0, untagged = 0;
    (void)state;
    for (size_t k = 0; k < SMALL_CLASSES; k++) {
        uint64_t said, predicted, expected[2] = {0, 0};
        for (size_t i = 0; i < PICTURES; i++) {
            expected[0] += truths[i].said[k] == 1;
            expected[1] += truths[i].said[k] != 1 && shows(i, k);
        }
        assert_ok(context, l3a_library_count(library, small_classes[k], &said, &predicted));
        assert_int_equal(said, expected[0]);
        assert_int_equal(predicted, expected[1]);
    }
    for (size_t i = 0; i < PICTURES; i++) {
        bool any = false, tagged = false;
        for (size_t k = 0; k < SMALL_CLASSES; k++) {
            any = any || truths[i].said[k] >= 0;
            tagged = tagged || shows(i, k);
        }
        judged += any;
        untagged += !any && !tagged;
    }
    for (int i = 0; i < 2; i++) { /* the second time from memory */
        assert_ok(context, l3a_library_describe(library, &info));
        assert_int_equal(info.done, PICTURES);
        assert_int_equal(info.scored, PICTURES);
        assert_int_equal(info.said, judged);
        assert_int_equal(info.untagged, untagged);
    }
}

static void features_are_those_of_readers(void **state) {
    l3a_reader *reader = NULL;
    (void)state;
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    float *input = calloc(l3a_reader_inputs(reader), sizeof *input), features[SMALL_WIDTH];
    for (size_t i = 0; i < PICTURES; i++) {
        uint64_t checksum, id;
        size_t count;
        char *bytes = read_bytes(truths[i].path, &count);
        assert_int_equal(l3a_reader_prepare(reader, "picture", bytes, count, input, &checksum), L3A_OK);
        assert_int_equal(l3a_reader_compute(reader, input, 1, features), L3A_OK);
        assert_ok(context, l3a_library_picture_known(library, checksum, &id));
        assert_int_equal(id, truths[i].id);
        for (size_t k = 0; k < SMALL_WIDTH; k++) {
            assert_near((double)features[k], (double)truths[i].features[k], 2e-3 * (1 + fabs((double)features[k])));
        }
        free(bytes);
    }
    free(input);
    l3a_reader_free(reader);
}

/* ---- Expressions ---- */

static struct {
    char text[4096];
    size_t at;
    uint64_t seed, drawn;
} made;

static size_t draw(size_t count) {
    return (size_t)(random_uniform(made.seed, made.drawn++) * (double)count);
}

static void say(const char *text) {
    made.at += (size_t)snprintf(made.text + made.at, sizeof made.text - made.at, "%s%s", made.at ? " " : "", text);
    assert_true(made.at < sizeof made.text);
}

static const char *anyhow(const char *word) {
    static char text[16];
    snprintf(text, sizeof text, "%s", word);
    text[0] = draw(4) ? text[0] : (char)(text[0] - 'a' + 'A');
    return text;
}

static int64_t start_of_year(int year) {
    struct tm time = {.tm_year = year - 1900, .tm_mday = 1};
    return (int64_t)timegm(&time);
}

static void make_leaf(bool *mask) {
    char text[64];
    const size_t kind = draw(9), class = draw(SMALL_CLASSES), which = draw(3), year = 2019 + draw(12), digit = draw(10);
    static const char *const names[] = {"folder:photos", "folder:one", "folder:\"two of/them/\""};
    switch (kind) {
    case 0: snprintf(text, sizeof text, "%s", names[which]); break;
    case 1: snprintf(text, sizeof text, "since:%zu", year); break;
    case 2: snprintf(text, sizeof text, "until:%zu-12-31", year); break;
    case 3: snprintf(text, sizeof text, "name:img_%zu", digit); break;
    case 4: snprintf(text, sizeof text, "IS:said"); break;
    case 5: snprintf(text, sizeof text, "is:done"); break;
    default: snprintf(text, sizeof text, strchr(small_classes[class], ' ') || draw(2) ? "\"%s\"" : "%s", small_classes[class]);
    }
    say(text);
    for (size_t i = 0; i < PICTURES; i++) {
        const struct truth *truth = &truths[i];
        char part[16];
        snprintf(part, sizeof part, "IMG_%zu", digit);
        bool said = false;
        for (size_t k = 0; k < SMALL_CLASSES; k++) {
            said = said || truth->said[k] >= 0;
        }
        mask[i] = kind == 0   ? !which || truth->folder == which
                  : kind == 1 ? truth->date >= start_of_year((int)year)
                  : kind == 2 ? truth->date < start_of_year((int)year + 1)
                  : kind == 3 ? strstr(truth->name, part) != NULL
                  : kind == 4 ? said
                  : kind == 5 ? true
                              : shows(i, class);
    }
}

static void make_any(bool *mask, size_t depth);

static void make_one(bool *mask, size_t depth) {
    const size_t kind = draw(depth ? 4 : 2);
    if (kind == 0 && depth) {
        say(anyhow("not"));
        make_one(mask, depth - 1);
        for (size_t i = 0; i < PICTURES; i++) {
            mask[i] = !mask[i];
        }
    } else if (kind == 1 && depth) {
        say("(");
        make_any(mask, depth - 1);
        say(")");
    } else {
        make_leaf(mask);
    }
}

static void make_all(bool *mask, size_t depth) {
    bool other[PICTURES];
    make_one(mask, depth);
    for (size_t more = draw(3); more > 0; more--) {
        if (draw(2)) {
            say(anyhow("and"));
        }
        make_one(other, depth);
        for (size_t i = 0; i < PICTURES; i++) {
            mask[i] = mask[i] && other[i];
        }
    }
}

static void make_any(bool *mask, size_t depth) {
    bool other[PICTURES];
    make_all(mask, depth);
    for (size_t more = draw(3); more > 0; more--) {
        say(anyhow("or"));
        make_all(other, depth);
        for (size_t i = 0; i < PICTURES; i++) {
            mask[i] = mask[i] || other[i];
        }
    }
}

static void expressions_mean_what_they_say(void **state) {
    bool mask[PICTURES];
    (void)state;
    for (made.seed = 1; made.seed <= EXPRESSIONS; made.seed++) {
        made.at = 0;
        made.drawn = 0;
        make_any(mask, 3);
        l3a_found *found = find((l3a_find_options){.where = made.text, .sort = "date"});
        size_t expected = 0, wrong = 0;
        for (size_t i = 0; i < PICTURES; i++) {
            expected += mask[i];
        }
        for (size_t i = 0; i < l3a_found_count(found); i++) {
            wrong += !mask[number_of(l3a_found_id(found, i))];
        }
        if (wrong || l3a_found_count(found) != expected) {
            print_error("%s: %zu found, %zu expected, %zu wrong\n", made.text, l3a_found_count(found), expected, wrong);
        }
        assert_int_equal(wrong, 0);
        assert_int_equal(l3a_found_count(found), expected);
        l3a_found_free(found);
    }
}

static void wrong_expressions_say_what_is_wrong(void **state) {
    static const struct {
        const char *text, *says;
        l3a_status status;
    } cases[] = {
        {"aunt", "there is no tag 'aunt'", L3A_ERROR_CLASS},
        {"(ant", "not closed", L3A_ERROR_ARGUMENT},
        {"ant)", "too much", L3A_ERROR_ARGUMENT},
        {"and ant", "before 'and'", L3A_ERROR_ARGUMENT},
        {"ant or", "too early", L3A_ERROR_ARGUMENT},
        {"not", "too early", L3A_ERROR_ARGUMENT},
        {"()", "before a )", L3A_ERROR_ARGUMENT},
        {"\"ant", "quote", L3A_ERROR_ARGUMENT},
        {"since:", "no value", L3A_ERROR_ARGUMENT},
        {"since:2024-02-30", "not a date", L3A_ERROR_ARGUMENT},
        {"since:24", "not a date", L3A_ERROR_ARGUMENT},
        {"is:green", "unknown", L3A_ERROR_ARGUMENT},
        {"not word:dog", "word:dog", L3A_ERROR_ARGUMENT},
        {"word:dog word:cat", "two words", L3A_ERROR_ARGUMENT},
        {"\"\"", "there is no tag ''", L3A_ERROR_CLASS},
    };
    l3a_found *found = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const l3a_find_options options = {.size = sizeof options, .where = cases[i].text};
        assert_fails(context, l3a_library_find(library, &options, &found), cases[i].status, cases[i].says);
        assert_at_rest(library);
    }
    static char text[70000];
    memset(text, '(', 1000);
    const l3a_find_options options = {.size = sizeof options, .where = text};
    assert_fails(context, l3a_library_find(library, &options, &found), L3A_ERROR_ARGUMENT, "nested");
    for (size_t i = 0; i < 1001; i++) {
        memcpy(text + 4 * i, "ant ", 5);
    }
    assert_fails(context, l3a_library_find(library, &options, &found), L3A_ERROR_ARGUMENT, "1000 parts");
    memset(text, 'a', sizeof text - 1);
    assert_fails(context, l3a_library_find(library, &options, &found), L3A_ERROR_ARGUMENT, "longer than");
}

/* ---- Orders ---- */

static int by_date(const void *left, const void *right) {
    const struct truth *a = left, *b = right;
    return a->date != b->date ? (a->date < b->date) - (a->date > b->date) : (a->id > b->id) - (a->id < b->id);
}

static int by_path(const void *left, const void *right) {
    const struct truth *a = left, *b = right;
    char parents[2][512];
    for (int i = 0; i < 2; i++) {
        const char *path = i ? b->path : a->path;
        snprintf(parents[i], sizeof parents[i], "%.*s", (int)(strrchr(path, '/') - path), path);
    }
    const int order = strcmp(parents[0], parents[1]);
    return order ? order : strcmp(a->name, b->name);
}

static void orders_are_those_of_qsort(void **state) {
    static struct truth sorted[PICTURES];
    static const struct {
        const char *sort;
        int (*compare)(const void *, const void *);
    } orders[] = {{"date", by_date}, {"name", by_path}, {"name", by_path}};
    (void)state;
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        memcpy(sorted, truths, sizeof sorted);
        qsort(sorted, PICTURES, sizeof *sorted, orders[k].compare);
        for (uint64_t most = 0; most <= PICTURES + 1; most += 25) {
            l3a_found *found = find((l3a_find_options){.sort = orders[k].sort, .most = most});
            assert_int_equal(l3a_found_count(found), most && most < PICTURES ? most : PICTURES);
            for (size_t i = 0; i < l3a_found_count(found); i++) {
                assert_int_equal(l3a_found_id(found, i), sorted[i].id);
                assert_true(isnan(l3a_found_rank(found, i)));
            }
            l3a_found_free(found);
        }
    }
}

static void the_least_sure_come_first(void **state) {
    (void)state;
    l3a_found *found = find((l3a_find_options){.sort = "unsure"});
    assert_int_equal(l3a_found_count(found), PICTURES);
    for (size_t i = 0; i < PICTURES; i++) {
        const size_t number = number_of(l3a_found_id(found, i));
        double least = (double)INFINITY;
        for (size_t k = 0; k < SMALL_CLASSES; k++) {
            least = fmin(least, fabs(score_of(number, k) - truths[number].thresholds[k]));
        }
        assert_near(l3a_found_rank(found, i), isinf(least) ? 0 : 1 / (1 + 10 * least), 2e-3);
        assert_true(!i || l3a_found_rank(found, i) <= l3a_found_rank(found, i - 1));
    }
    l3a_found_free(found);
}

static void unit_of(const float *features, double *unit) {
    double sum = 0;
    for (size_t k = 0; k < SMALL_WIDTH; k++) {
        sum += (double)features[k] * (double)features[k];
    }
    for (size_t k = 0; k < SMALL_WIDTH; k++) {
        unit[k] += (double)features[k] / sqrt(sum);
    }
}

static double cosine_of(const double *left, const double *right) {
    double product = 0, one = 0, other = 0;
    for (size_t k = 0; k < SMALL_WIDTH; k++) {
        product += left[k] * right[k];
        one += left[k] * left[k];
        other += right[k] * right[k];
    }
    return product / sqrt(one * other);
}

static void like_these_are_the_closest(void **state) {
    double wanted[SMALL_WIDTH] = {0};
    const uint64_t like[] = {truths[20].id, truths[33].id};
    (void)state;
    unit_of(truths[20].features, wanted);
    unit_of(truths[33].features, wanted);
    unit_of(truths[50].features, wanted);
    l3a_found *found =
        find((l3a_find_options){.like = like, .like_count = 2, .like_features = truths[50].features, .like_rows = 1});
    assert_int_equal(l3a_found_count(found), PICTURES);
    for (size_t i = 0; i < PICTURES; i++) {
        double own[SMALL_WIDTH] = {0};
        unit_of(truths[number_of(l3a_found_id(found, i))].features, own);
        assert_near(l3a_found_rank(found, i), cosine_of(own, wanted), 1e-5);
        assert_true(!i || l3a_found_rank(found, i) <= l3a_found_rank(found, i - 1));
    }
    l3a_found_free(found);
    const uint64_t unknown = 123456;
    const l3a_find_options options = {.size = sizeof options, .like = &unknown, .like_count = 1};
    assert_fails(context, l3a_library_find(library, &options, &found), L3A_ERROR_STATE, "no features");
}

static void words_are_probabilities_of_the_classifier(void **state) {
    static float logits[WORD_CLASSES];
    size_t classes[WORD_CLASSES];
    struct classifier *classifier = NULL;
    const char *problem = NULL;
    (void)state;
    assert_ok(context, l3a_library_words(library, &problem));
    assert_string_equal(problem, "");
    assert_ok(context, classifier_read(context, small.backbone, NULL, SMALL_WIDTH, &classifier));
    const size_t count = words_matching("dog", classes, NULL);
    l3a_found *found = find((l3a_find_options){.word = "dog"});
    assert_int_equal(l3a_found_count(found), PICTURES);
    for (size_t i = 0; i < PICTURES; i++) {
        double all = 0, chosen = 0;
        classifier_logits(context, classifier, truths[number_of(l3a_found_id(found, i))].features, 1, logits);
        for (size_t k = 0; k < WORD_CLASSES; k++) {
            all += exp((double)logits[k]);
        }
        for (size_t k = 0; k < count; k++) {
            chosen += exp((double)logits[classes[k]]);
        }
        assert_near(l3a_found_rank(found, i), chosen / all,
                    0.01 * chosen / all); /* the sum is of the features before they were rounded */
        assert_true(!i || l3a_found_rank(found, i) <= l3a_found_rank(found, i - 1));
    }
    l3a_found_free(found);
    found = find((l3a_find_options){.where = "word:dog not ant"});
    size_t expected = 0;
    for (size_t i = 0; i < PICTURES; i++) {
        expected += !shows(i, 0);
    }
    assert_int_equal(l3a_found_count(found), expected);
    l3a_found_free(found);
    classifier_free(context, classifier);
    const l3a_find_options options = {.size = sizeof options, .word = "qqqq"};
    assert_fails(context, l3a_library_find(library, &options, &found), L3A_ERROR_CLASS, "qqqq");
}

/* The classifier was trained on what the last block gives. */
static void features_of_an_earlier_block_know_no_words(void **state) {
    const l3a_backbone_options backbone = {.size = sizeof backbone, .layer = 1};
    const l3a_tagger_options options = {.size = sizeof options, .backbone = small.backbone, .backbone_options = &backbone};
    char *model = path_in(small.folder, "shallow.l3a");
    l3a_options settings;
    l3a_lock *lock = NULL;
    l3a_tagger *shallow = NULL;
    l3a_library *own = NULL;
    l3a_found *found = NULL;
    const char *problem = NULL;
    (void)state;
    options_default(&settings);
    settings.model.dim = 48;
    assert_ok(context, l3a_lock_take(context, model, 0, &lock));
    assert_ok(context, l3a_tagger_create(context, model, &settings, &options, &shallow));
    assert_ok(context, l3a_library_open(context, shallow, NULL, &own));
    assert_ok(context, l3a_library_words(own, &problem));
    assert_non_null(strstr(problem, "after block 1"));
    small_library_fill(&small, context, own);
    const l3a_find_options wanted = {.size = sizeof wanted, .word = "dog"};
    assert_fails(context, l3a_library_find(own, &wanted, &found), L3A_ERROR_MISMATCH, "after block 1");
    l3a_library_free(own);
    l3a_tagger_free(shallow);
    l3a_lock_free(lock);
    free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_hold_the_scores_of_readers),
        cmocka_unit_test(counts_are_those_of_all_pictures),
        cmocka_unit_test(features_are_those_of_readers),
        cmocka_unit_test(expressions_mean_what_they_say),
        cmocka_unit_test(wrong_expressions_say_what_is_wrong),
        cmocka_unit_test(orders_are_those_of_qsort),
        cmocka_unit_test(the_least_sure_come_first),
        cmocka_unit_test(like_these_are_the_closest),
        cmocka_unit_test(words_are_probabilities_of_the_classifier),
        cmocka_unit_test(features_of_an_earlier_block_know_no_words),
    };
    return cmocka_run_group_tests(tests, open_library, close_library);
}
