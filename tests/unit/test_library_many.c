/* An index of many pictures, whose features are made up: scores in several blocks, against a reader's; judgements, lessons and
 * other processes while scores are written; a damaged record; near-duplicates, against a comparison of all pairs. */
#include "support.h"

#include "fixture.h"
#include "small_library.h"

#include "base/random.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 9000, ALIKE = 4, SOME = 600 }; /* three blocks; pictures of each look */

static struct small_library small;
static l3a_tagger *tagger;
static l3a_library *library;
static float *features; /* [PICTURES x SMALL_WIDTH] */
static float *scores;   /* [PICTURES x SMALL_CLASSES] */
static double thresholds[SMALL_CLASSES];

static uint64_t checksum_of(size_t i) {
    return random_bits(99, i) | 1;
}

/* Pictures that look alike in fours, in which they differ by about as much as photographs of a burst. */
static void make_up(void) {
    int64_t change;
    uint64_t checksums[PICTURES];
    features = malloc((size_t)PICTURES * SMALL_WIDTH * sizeof *features);
    for (size_t i = 0; i < PICTURES; i++) {
        checksums[i] = checksum_of(i);
        for (size_t k = 0; k < SMALL_WIDTH; k++) {
            const double shared = random_uniform(1, i / ALIKE * SMALL_WIDTH + k) - 0.5,
                         own = random_uniform(2, i * SMALL_WIDTH + k) - 0.5;
            features[i * SMALL_WIDTH + k] = (float)(0.3 + shared + (i % 8 < ALIKE ? 0.15 : 1) * own);
        }
    }
    assert_ok(context, library_make_slots(library));
    assert_ok(context, database_begin(&library->database));
    assert_ok(context, library_next_change(library, &change));
    assert_ok(context, slots_write(&library->slots, 0, PICTURES, checksums, NULL, features));
    assert_ok(context, database_execute(&library->database, "INSERT INTO root (id, path) VALUES (1, '/made/up');"
                                                            "INSERT INTO folder (id, root, path) VALUES (1, 1, '/made/up')"));
    for (size_t i = 0; i < PICTURES; i++) {
        const int64_t values[] = {(int64_t)i, (int64_t)checksums[i], change};
        assert_ok(context, database_run(&library->database, "INSERT INTO feature (slot, checksum) VALUES (?1, ?2)", values, 2));
        assert_ok(context, database_run(&library->database,
                                        "INSERT INTO picture (folder, name, size, modified, checksum, state, slot, change) VALUES "
                                        "(1, printf('%05d.jpg', ?1), 1, 1000000000 * ?1, ?2, 1, ?1, ?3)",
                                        values, 3));
    }
    assert_ok(context, database_end(&library->database, L3A_OK));
}

static int take_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    (void)user;
    assert_int_equal(status, L3A_OK);
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        scores[index * SMALL_CLASSES + l3a_tags_class(tags, i)] = l3a_tags_score(tags, i);
        thresholds[l3a_tags_class(tags, i)] = l3a_tags_threshold(tags, i);
    }
    return 0;
}

/* What readers say of the features as the index has them. */
static void learn_scores(void) {
    l3a_reader *reader = NULL;
    float *kept = malloc((size_t)PICTURES * SMALL_WIDTH * sizeof *kept);
    for (size_t i = 0; i < PICTURES; i++) {
        assert_ok(context, l3a_library_features(library, i + 1, kept + i * SMALL_WIDTH));
        for (size_t k = 0; k < SMALL_WIDTH; k++) {
            const double value = (double)features[i * SMALL_WIDTH + k];
            assert_near((double)kept[i * SMALL_WIDTH + k], value, 1e-3 * (1e-3 + fabs(value)));
        }
    }
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    assert_int_equal(l3a_reader_score(reader, kept, PICTURES, take_tags, NULL), L3A_OK);
    l3a_reader_free(reader);
    free(kept);
}

static int open_library(void **state) {
    (void)state;
    small_library_make(&small, SMALL_TAUGHT);
    context = make_context(1);
    keep_warnings();
    tagger = small_library_tagger(&small, context, NULL, 0);
    library = small_library_open(&small, context, tagger);
    scores = malloc((size_t)PICTURES * SMALL_CLASSES * sizeof *scores);
    make_up();
    learn_scores();
    return 0;
}

static int close_library(void **state) {
    (void)state;
    assert_at_rest(library);
    l3a_library_free(library);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
    small_library_remove(&small);
    free(features);
    free(scores);
    return 0;
}

/* Compares all scores of a class; said: a picture that was judged, PICTURES: none. */
static void check_scores(l3a_library *of, size_t class, size_t said, double expected) {
    const char *const name = small_classes[class];
    uint64_t shown, predicted, expected_predicted = 0;
    char all[64];
    l3a_found *found = NULL;
    snprintf(all, sizeof all, "\"%s\" or not \"%s\"", name, name);
    const l3a_find_options options = {.size = sizeof options, .where = all, .sort = "score"};
    assert_ok(of->context, l3a_library_find(of, &options, &found));
    assert_int_equal(l3a_found_count(found), PICTURES);
    for (size_t i = 0; i < PICTURES; i++) {
        const size_t number = (size_t)l3a_found_id(found, i) - 1;
        const double score = (double)scores[number * SMALL_CLASSES + class], rank = l3a_found_rank(found, i);
        if (number == said) {
            assert_true(rank == expected);
        } else {
            assert_near(rank, score, 2e-3 * (1 + fabs(score)));
            expected_predicted += score > thresholds[class];
        }
    }
    l3a_found_free(found);
    assert_ok(of->context, l3a_library_count(of, name, &shown, &predicted));
    assert_int_equal(predicted, expected_predicted);
    assert_int_equal(shown, isinf(expected) && expected > 0 ? 1 : 0);
}

/* ---- Scores ---- */

static void blocks_are_scored_once(void **state) {
    uint64_t scored = 0;
    l3a_library_info info = {.size = sizeof info};
    (void)state;
    assert_ok(context, l3a_library_score(library, 1, &scored)); /* whole blocks */
    assert_int_equal(scored, SCORE_BLOCK);
    assert_ok(context, l3a_library_describe(library, &info));
    assert_true(info.scored > 0 && info.scored < PICTURES);
    assert_ok(context, l3a_library_score(library, 0, &scored));
    assert_int_equal(scored, PICTURES - SCORE_BLOCK);
    assert_ok(context, l3a_library_score(library, 0, &scored));
    assert_int_equal(scored, 0);
    assert_ok(context, l3a_library_describe(library, &info));
    assert_int_equal(info.scored, PICTURES);
    for (size_t k = 0; k < SMALL_CLASSES; k++) {
        check_scores(library, k, PICTURES, 0);
    }
}

static void what_was_said_counts_before_the_score(void **state) {
    const int8_t shown[SMALL_CLASSES] = {1, -1, 0}, other[SMALL_CLASSES] = {0, -1, -1};
    l3a_said said = {checksum_of(5000), shown};
    uint64_t scored = 0;
    (void)state;
    assert_ok(context, l3a_library_score(library, 0, NULL));
    assert_ok(context, l3a_library_say(library, &said, 1, small_classes, SMALL_CLASSES, 0));
    assert_ok(context, l3a_library_score(library, 0, &scored));
    assert_int_equal(scored, SCORE_BLOCK); /* its block */
    check_scores(library, 0, 5000, (double)INFINITY);
    check_scores(library, 1, PICTURES, 0);
    check_scores(library, 2, 5000, -(double)INFINITY);
    said.labels = other;
    assert_ok(context, l3a_library_say(library, &said, 1, small_classes, SMALL_CLASSES, 0));
    assert_ok(context, l3a_library_score(library, 0, NULL));
    check_scores(library, 0, 5000, -(double)INFINITY);
    check_scores(library, 2, PICTURES, 0);
    said.labels = NULL;
    assert_ok(context, l3a_library_say(library, &said, 1, small_classes, SMALL_CLASSES, 0));
    assert_ok(context, l3a_library_score(library, 0, NULL));
    check_scores(library, 0, PICTURES, 0);
    said.labels = shown;
    assert_ok(context, l3a_library_say(library, &said, 1, small_classes, SMALL_CLASSES, 0));
    assert_ok(context, l3a_library_say(library, NULL, 0, small_classes, SMALL_CLASSES, 1)); /* all is forgotten */
    assert_ok(context, l3a_library_score(library, 0, NULL));
    check_scores(library, 0, PICTURES, 0);
}

/* While one handle scores, another one does something, when the first reports how far it is. */
static l3a_library *second;
static void (*meanwhile)(void);
static size_t reports;

static int interrupt(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_PROGRESS && meanwhile) {
        void (*const now)(void) = meanwhile;
        meanwhile = NULL;
        now();
    }
    reports += event->kind == L3A_EVENT_PROGRESS;
    return 0;
}

static void judge_with_second(void) {
    static const int8_t shown[SMALL_CLASSES] = {-1, 1, -1};
    const l3a_said said = {checksum_of(17), shown};
    assert_int_equal(l3a_library_say(second, &said, 1, small_classes, SMALL_CLASSES, 0), L3A_OK);
}

static void renew_with_second(void) {
    l3a_context *own = make_context(1);
    l3a_tagger *views = small_library_tagger(&small, own, NULL, 5);
    l3a_library *other = small_library_open(&small, own, views); /* replaces the features */
    l3a_library_free(other);
    l3a_tagger_free(views);
    l3a_context_free(own);
}

static void score_with_interruption(void (*what)(void)) {
    l3a_context *own = make_context(1);
    second = small_library_open(&small, own, tagger);
    meanwhile = what;
    context->options.on_event = interrupt;
    assert_ok(context, l3a_library_score(library, 0, NULL));
    keep_warnings();
    assert_null(meanwhile);
    l3a_library_free(second);
    l3a_context_free(own);
}

static void a_judgement_while_scores_are_computed_is_in_them(void **state) {
    (void)state;
    score_with_interruption(judge_with_second);
    check_scores(library, 1, 17, (double)INFINITY);
}

static void features_that_are_replaced_while_scores_are_computed(void **state) {
    l3a_library_info info = {.size = sizeof info};
    int64_t blocks;
    (void)state;
    score_with_interruption(renew_with_second);
    assert_ok(context, l3a_library_describe(library, &info));
    assert_int_equal(info.done, 0);
    assert_ok(context, database_number(&library->database, "SELECT count(*) FROM score", NULL, 0, 0, &blocks));
    assert_int_equal(blocks, 0);
}

static void other_handles_see_what_has_changed(void **state) {
    l3a_context *own = make_context(1);
    (void)state;
    second = small_library_open(&small, own, tagger);
    assert_ok(context, l3a_library_score(library, 0, NULL));
    check_scores(second, 0, PICTURES, 0);
    judge_with_second();
    assert_ok(own, l3a_library_score(second, 0, NULL));
    check_scores(library, 1, 17, (double)INFINITY);
    l3a_library_free(second);
    l3a_context_free(own);
}

/* ---- Damage ---- */

static void a_flipped_bit_costs_one_record(void **state) {
    enum { DAMAGED = 4321 };
    float own[SMALL_WIDTH];
    uint64_t id;
    l3a_found *found = NULL;
    (void)state;
    const off_t at = (off_t)(SLOTS_HEAD + DAMAGED * library->slots.stride + 40);
    uint8_t byte;
    assert_int_equal(pread(library->slots.file, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(library->slots.file, &byte, 1, at), 1);
    assert_ok(context, l3a_library_score(library, 0, NULL));
    assert_non_null(strstr(warnings, "damaged"));
    assert_fails(context, l3a_library_features(library, DAMAGED + 1, own), L3A_ERROR_STATE, "no features");
    assert_int_equal(l3a_library_picture_known(library, checksum_of(DAMAGED), &id), L3A_ERROR_NOT_FOUND);
    const l3a_find_options options = {.size = sizeof options, .where = "is:waiting"};
    assert_ok(context, l3a_library_find(library, &options, &found));
    assert_int_equal(l3a_found_count(found), 1);
    assert_int_equal(l3a_found_id(found, 0), DAMAGED + 1);
    l3a_found_free(found);
    /* It is said once. Its content, when it is met again, gets another place. */
    keep_warnings();
    assert_ok(context, database_execute(&library->database, "DELETE FROM block"));
    assert_ok(context, l3a_library_score(library, 0, NULL));
    assert_string_equal(warnings, "");
    int64_t slot, key = (int64_t)checksum_of(DAMAGED);
    assert_ok(context, database_number(&library->database, "SELECT slot FROM feature WHERE checksum = ?1", &key, 1, -1, &slot));
    assert_int_equal(slot, -1);
}

static void a_damaged_record_that_is_asked_for(void **state) {
    float own[SMALL_WIDTH];
    (void)state;
    const uint8_t byte = 0xEE;
    assert_int_equal(pwrite(library->slots.file, &byte, 1, (off_t)(SLOTS_HEAD + 7 * library->slots.stride + 20)), 1);
    const uint64_t like = 8;
    const l3a_find_options options = {.size = sizeof options, .like = &like, .like_count = 1};
    l3a_found *found = NULL;
    assert_fails(context, l3a_library_find(library, &options, &found), L3A_ERROR_CHECKSUM, "record 7");
    assert_at_rest(library);
    assert_fails(context, l3a_library_features(library, 8, own), L3A_ERROR_CHECKSUM, "record 7");
    assert_fails(context, l3a_library_features(library, 8, own), L3A_ERROR_STATE, "no features");
    assert_ok(context, l3a_library_features(library, 9, own));
}

static void features_that_become_shorter(void **state) {
    float own[SMALL_WIDTH];
    l3a_library_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(ftruncate(library->slots.file, SLOTS_HEAD + 100), 0);
    assert_int_equal(l3a_library_features(library, 100, own), L3A_ERROR_CHECKSUM);
    assert_at_rest(library);
    assert_ok(context, l3a_library_describe(library, &info)); /* the next call notices */
    assert_non_null(strstr(warnings, "missing or damaged"));
    assert_int_equal(info.waiting, PICTURES);
    assert_ok(context, l3a_library_score(library, 0, NULL));
}

/* ---- Near-duplicates and samples ---- */

static double cosine_of(size_t i, size_t j) {
    const float *left = features + i * SMALL_WIDTH, *right = features + j * SMALL_WIDTH;
    double product = 0, one = 0, other = 0;
    for (size_t k = 0; k < SMALL_WIDTH; k++) {
        product += (double)left[k] * (double)right[k];
        one += (double)left[k] * (double)left[k];
        other += (double)right[k] * (double)right[k];
    }
    return product / sqrt(one * other);
}

static void near_duplicates_are_those_of_all_pairs(void **state) {
    static size_t group[PICTURES], found_group[PICTURES];
    size_t pairs = 0, met = 0;
    l3a_found *found = NULL;
    (void)state;
    assert_ok(context, l3a_library_duplicates(library, 0, &found));
    for (size_t i = 0; i < l3a_found_count(found); i++) {
        found_group[l3a_found_id(found, i) - 1] = 1 + (size_t)l3a_found_rank(found, i);
        assert_true(!i || l3a_found_rank(found, i) >= l3a_found_rank(found, i - 1));
    }
    for (size_t i = 0; i < SOME * ALIKE; i++) {
        group[i] = i;
    }
    for (size_t i = 0; i < SOME * ALIKE; i++) {
        for (size_t j = 0; j < i; j++) {
            if (cosine_of(i, j) >= 0.97) {
                pairs++;
                met += found_group[i] && found_group[i] == found_group[j];
                for (size_t k = 0, from = group[i], to = group[j]; k <= i; k++) {
                    group[k] = group[k] == from ? to : group[k];
                }
            }
        }
    }
    for (size_t i = 0; i < SOME * ALIKE; i++) { /* nothing is joined that is apart */
        for (size_t j = 0; j < i; j++) {
            assert_true(group[i] == group[j] || !found_group[i] || found_group[i] != found_group[j]);
        }
    }
    assert_true(pairs > SOME);
    assert_true(met * 100 >= pairs * 97);
    l3a_found_free(found);
    assert_fails(context, l3a_library_duplicates(library, 1.5, &found), L3A_ERROR_ARGUMENT, "1.5");
}

static void a_sample_is_spread_over_all(void **state) {
    enum { MOST = 100 };
    static float sample[MOST * SMALL_WIDTH];
    uint64_t checksums[MOST];
    size_t count = 0, last = 0;
    (void)state;
    assert_ok(context, l3a_library_sample(library, MOST, sample, checksums, &count));
    assert_int_equal(count, MOST);
    for (size_t i = 0, place = 0; i < count; i++, last = place++) {
        while (place < PICTURES && checksum_of(place) != checksums[i]) {
            place++;
        }
        assert_in_range(place, i ? last + PICTURES / MOST - 1 : 0, PICTURES - 1);
        assert_near((double)sample[i * SMALL_WIDTH + 5], (double)features[place * SMALL_WIDTH + 5], 1e-3);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_library, close_library)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(blocks_are_scored_once),
        TEST(what_was_said_counts_before_the_score),
        TEST(a_judgement_while_scores_are_computed_is_in_them),
        TEST(features_that_are_replaced_while_scores_are_computed),
        TEST(other_handles_see_what_has_changed),
        TEST(a_flipped_bit_costs_one_record),
        TEST(a_damaged_record_that_is_asked_for),
        TEST(features_that_become_shorter),
        TEST(near_duplicates_are_those_of_all_pairs),
        TEST(a_sample_is_spread_over_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
