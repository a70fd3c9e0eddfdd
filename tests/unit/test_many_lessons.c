/* Many lessons: what the history says about each picture, after teaching, corrections, renaming and undoing in any order; that a
 * lesson needs no more memory after hundreds of others; and the limits of a lesson's classes. */
#include "support.h"

#include "base/memory.h"
#include "learn/model.h"
#include "memory_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, CLASSES = 4, PICTURES = 40, STEPS = 300 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog"};

static char *folder, *backbone, *model_path;

static int make_inputs(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    folder = make_temporary_folder();
    backbone = path_in(folder, "backbone.safetensors");
    model_path = path_in(folder, "model.l3a");
    write_small_backbone(context, backbone, 1);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    (void)state;
    free(backbone);
    free(model_path);
    remove_folder(folder);
    return 0;
}

static l3a_tagger *new_tagger(l3a_context *context) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone, .commit = 1};
    l3a_options *settings = NULL;
    l3a_tagger *tagger = NULL;
    assert_ok(context, l3a_options_create(context, &settings));
    assert_ok(context, l3a_options_set(context, settings, "dim", "16"));
    assert_ok(context, l3a_options_set(context, settings, "gamma", "5"));
    assert_ok(context, l3a_lesson_settings(context, settings));
    assert_ok(context, l3a_tagger_create(context, model_path, settings, &options, &tagger));
    assert_ok(context, l3a_tagger_save(tagger));
    l3a_options_free(settings);
    return tagger;
}

/* A lesson of one picture, whose features depend on its checksum. The list of classes it shows is ended by NULL. */
static l3a_status teach(l3a_tagger *tagger, l3a_context *context, uint64_t checksum, const char *const *tags, size_t count,
                        l3a_lesson_options options) {
    const l3a_judgement judgement = {.size = sizeof judgement, .tags = tags, .tag_count = count};
    float features[WIDTH];
    int8_t label;
    l3a_lesson *lesson = NULL;
    options.size = sizeof options;
    random_table(checksum, 1, WIDTH, 1, 1, features, &label);
    assert_ok(context, l3a_lesson_create(context, &lesson));
    assert_ok(context, l3a_lesson_add_features(lesson, "picture", checksum, features, WIDTH, &judgement));
    const l3a_status status = l3a_tagger_teach(tagger, lesson, &options, NULL);
    l3a_lesson_free(lesson);
    return status;
}

/* ---- What is known ---- */

/* What should be known: for each picture the classes it shows, a bit each; 0: it is not known. The order is that of teaching. */
struct belief {
    unsigned shows[PICTURES + 1];
    size_t order[PICTURES], count;
};

static size_t place_of(const struct belief *belief, size_t picture) {
    size_t at = 0;
    while (at < belief->count && belief->order[at] != picture) {
        at++;
    }
    return at;
}

static void believe(struct belief *belief, size_t picture, unsigned shows) {
    const size_t at = place_of(belief, picture);
    if (at < belief->count) {
        memmove(belief->order + at, belief->order + at + 1, (--belief->count - at) * sizeof *belief->order);
    }
    belief->order[belief->count++] = picture;
    belief->shows[picture] = shows;
}

struct listing {
    const l3a_model *model;
    const struct belief *belief;
    size_t seen;
};

static int see(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user) {
    struct listing *listing = user;
    unsigned shows = 0;
    (void)complete;
    assert_string_equal(path, "picture");
    for (size_t k = 0; k < l3a_model_class_count(listing->model); k++) {
        for (size_t n = 0; n < CLASSES; n++) {
            const char *name = l3a_model_class(listing->model, k);
            shows |= strncmp(name, names[n], 3) == 0 && labels[k] == 1 ? 1u << n : 0; /* "bee 2" is "bee" with another name */
        }
    }
    assert_int_equal(shows, listing->belief->shows[checksum]);
    assert_true(listing->seen < listing->belief->count);
    assert_int_equal(checksum, listing->belief->order[listing->seen++]);
    return 0;
}

static void check_known(l3a_context *context, l3a_tagger *tagger, const struct belief *belief) {
    const l3a_history *history = NULL;
    assert_ok(context, l3a_tagger_history(tagger, &history));
    struct listing listing = {l3a_history_model(history), belief, 0};
    assert_ok(context, l3a_history_pictures(history, see, &listing));
    assert_int_equal(listing.seen, belief->count);
    for (uint64_t p = 1; p <= PICTURES; p++) {
        const size_t at = place_of(belief, p), after = at < belief->count ? at + 1 : at;
        listing.seen = at;
        assert_ok(context, l3a_history_find(history, p, see, &listing));
        assert_int_equal(listing.seen, after);
    }
}

/* Teaches, corrects, renames and undoes at random, with a copy of what should be known before each step. */
static void what_is_known_follows_every_step(void **state) {
    l3a_context *context = make_context(1);
    struct belief *before = calloc(STEPS + 1, sizeof *before);
    struct belief now = {.count = 0};
    l3a_tagger *tagger = new_tagger(context);
    size_t steps = 0, undone = 0;
    bool renamed = false;
    uint64_t checksums[4], random = 5;
    const l3a_history *history = NULL;
    (void)state;
    for (size_t n = 0; n < STEPS; n++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const unsigned dice = (unsigned)(random >> 33) % 100, shows = 1 + (unsigned)(random >> 45) % 15;
        const size_t picture = 1 + (size_t)(random >> 50) % PICTURES;
        if (dice < 35 && steps) {
            assert_ok(context, l3a_tagger_history(tagger, &history));
            l3a_history_entry last = {.size = sizeof last};
            assert_ok(context, l3a_history_entry_at(history, l3a_history_count(history) - 1, &last));
            renamed = last.old_name ? !renamed : renamed;
            assert_ok(context, l3a_tagger_undo(tagger, NULL));
            now = before[--steps];
            undone++;
        } else if (dice < 45 && now.count > 5 && l3a_model_class_count(l3a_tagger_model(tagger)) == CLASSES) {
            int exact;
            assert_ok(context, l3a_tagger_rename(tagger, renamed ? "bee 2" : "bee", renamed ? "bee" : "bee 2", &exact));
            before[steps++] = now;
            renamed = !renamed;
        } else if (now.shows[picture] != shows || place_of(&now, picture) == now.count) {
            const char *tags[CLASSES];
            size_t count = 0;
            for (size_t k = 0; k < CLASSES; k++) {
                if (shows >> k & 1) {
                    tags[count++] = renamed && k == 1 ? "bee 2" : names[k];
                }
            }
            assert_ok(context, teach(tagger, context, picture, tags, count, (l3a_lesson_options){.instead = 1}));
            before[steps++] = now;
            assert_ok(context, l3a_tagger_history(tagger, &history));
            const bool known = place_of(&now, picture) < now.count;
            assert_int_equal(l3a_history_checksums(history, steps - 1, checksums, 4), 1 + known);
            assert_int_equal(checksums[0], picture);
            believe(&now, picture, shows);
        }
        if (n % 60 == 59) { /* read it from the files */
            assert_ok(context, l3a_tagger_save(tagger));
            assert_ok(context, l3a_tagger_reload(tagger));
        }
        check_known(context, tagger, &now);
    }
    assert_true(undone > 20 && now.count > 5);
    free(before);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* ---- Memory ---- */

struct counts {
    size_t calls, bytes;
};

/* The least that a few lessons in a row take: now and then, one makes room for many others. */
static struct counts least_of(l3a_tagger *tagger, l3a_context *context, struct memory_probe *probe, uint64_t first, bool undo) {
    struct counts least = {SIZE_MAX, SIZE_MAX};
    for (uint64_t n = first; n < first + 8; n++) {
        probe_restart(probe, 0, false);
        assert_ok(context, teach(tagger, context, n + 1, &names[n % CLASSES], 1, (l3a_lesson_options){0}));
        if (undo) {
            probe_restart(probe, 0, false);
            assert_ok(context, l3a_tagger_undo(tagger, NULL));
        }
        least.calls = probe->seen < least.calls ? probe->seen : least.calls;
        least.bytes = probe->asked < least.bytes ? probe->asked : least.bytes;
    }
    return least;
}

static void a_lesson_takes_no_more_after_many(void **state) {
    enum { FEW = 200, MANY = 1200, ROOM = 512 };
    struct counts early[2], late[2];
    struct memory_probe probe = {0};
    l3a_context *context = make_probed_context(&probe, 1);
    (void)state;
    l3a_tagger *tagger = new_tagger(context);
    for (uint64_t n = 0; n < MANY; n++) {
        if (n == FEW) {
            early[0] = least_of(tagger, context, &probe, 10000, false);
            early[1] = least_of(tagger, context, &probe, 11000, true);
        }
        assert_ok(context, teach(tagger, context, n + 1, &names[n % CLASSES], 1, (l3a_lesson_options){0}));
    }
    late[0] = least_of(tagger, context, &probe, 20000, false);
    late[1] = least_of(tagger, context, &probe, 21000, true);
    for (size_t i = 0; i < 2; i++) {
        assert_true(late[i].calls <= early[i].calls + 4);
        assert_true(late[i].bytes <= early[i].bytes + ROOM);
    }
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

/* ---- Limits ---- */

static void too_many_classes_are_refused(void **state) {
    static const char *const more[] = {"elk", "fox", "gnu"};
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = new_tagger(context);
    (void)state;
    assert_fails(context, teach(tagger, context, 1, names, 4, (l3a_lesson_options){.most_new_classes = 3}), L3A_ERROR_CLASS,
                 "the lesson has 4 new tags; 3 is the most");
    assert_ok(context, teach(tagger, context, 1, names, 4, (l3a_lesson_options){.most_new_classes = 4, .most_classes = 4}));
    assert_fails(context, teach(tagger, context, 2, more, 3, (l3a_lesson_options){.most_classes = 6}), L3A_ERROR_CLASS,
                 "would have 7 tags with the 3 new ones");
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 4);
    assert_ok(context, teach(tagger, context, 2, names, 1, (l3a_lesson_options){.most_new_classes = 1, .most_classes = 2}));
    assert_ok(context, teach(tagger, context, 3, more, 3, (l3a_lesson_options){.most_classes = 7}));
    assert_int_equal(l3a_model_class_count(l3a_tagger_model(tagger)), 7);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_inputs, remove_inputs)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_known_follows_every_step),
        TEST(a_lesson_takes_no_more_after_many),
        TEST(too_many_classes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
