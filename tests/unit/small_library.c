#include "support.h"

#include "small_library.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LONG_AGO = 1000000 };

const char *const small_classes[SMALL_CLASSES] = {"ant", "bee", "big cat"};

static void teach(const struct small_library *small, l3a_context *context) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = small->backbone};
    l3a_options settings;
    l3a_lock *lock = NULL;
    l3a_tagger *tagger = NULL;
    l3a_lesson *lesson = NULL;
    options_default(&settings);
    settings.model.dim = 48;
    settings.model.gamma = 1;
    assert_ok(context, l3a_lock_take(context, small->model, 0, &lock));
    assert_ok(context, l3a_tagger_create(context, small->model, &settings, &options, &tagger));
    assert_ok(context, l3a_lesson_create(context, &lesson));
    for (size_t i = 0; i < SMALL_TAUGHT; i++) {
        const char *tags[2] = {small_classes[i % SMALL_CLASSES], small_classes[(i * i + 1) % SMALL_CLASSES]};
        const l3a_judgement judgement = {.size = sizeof judgement, .tags = tags, .tag_count = tags[0] == tags[1] ? 1 : 2};
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        char *path = path_in(small->photos, name);
        assert_ok(context, l3a_lesson_add(lesson, path, &judgement));
        free(path);
    }
    assert_ok(context, l3a_tagger_teach(tagger, lesson, NULL, NULL));
    assert_ok(context, l3a_tagger_save(tagger));
    l3a_lesson_free(lesson);
    l3a_tagger_free(tagger);
    l3a_lock_free(lock);
}

void small_library_make(struct small_library *small, size_t pictures) {
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), resolved[4096];
    assert_non_null(realpath(folder, resolved));
    free(folder);
    *small = (struct small_library){.folder = strdup(resolved)};
    small->photos = path_in(small->folder, "photos");
    small->backbone = path_in(small->folder, "backbone.safetensors");
    small->other_backbone = path_in(small->folder, "other.safetensors");
    small->model = path_in(small->folder, "model.l3a");
    small->index = path_in(small->folder, "model.l3a.library");
    write_small_backbone_with_words(context, small->backbone, 1);
    write_small_backbone(context, small->other_backbone, 100);
    assert_int_equal(mkdir(small->photos, 0700), 0);
    for (size_t i = 0; i < pictures; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        small_library_put(small, name, i);
    }
    teach(small, context);
    l3a_context_free(context);
}

void small_library_remove(struct small_library *small) {
    char *const paths[] = {small->photos, small->backbone, small->other_backbone, small->model, small->index};
    free_paths(paths, sizeof paths / sizeof paths[0]);
    remove_folder(small->folder);
    *small = (struct small_library){0};
}

void small_library_age(const struct small_library *small, const char *name, int64_t seconds) {
    char *path = path_in(small->photos, name);
    const struct timespec long_ago = {.tv_sec = time(NULL) - (time_t)seconds};
    const struct timespec times[2] = {long_ago, long_ago};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
    free(path);
}

void small_library_put(const struct small_library *small, const char *name, uint64_t seed) {
    char *path = path_in(small->photos, name), *spare = path_in(small->folder, "spare.jpg");
    size_t count;
    write_small_picture(spare, seed);
    char *bytes = read_bytes(spare, &count);
    put_file(small->photos, name, bytes, count);
    small_library_age(small, name, LONG_AGO);
    unlink(spare);
    free(bytes);
    free(path);
    free(spare);
}

void small_library_put_bytes(const struct small_library *small, const char *name, const void *bytes, size_t count) {
    put_file(small->photos, name, bytes, count);
    small_library_age(small, name, LONG_AGO);
}

void small_library_delete(const struct small_library *small, const char *name) {
    char *path = path_in(small->photos, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

l3a_tagger *small_library_tagger(const struct small_library *small, l3a_context *context, const char *backbone, size_t views) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone ? backbone : small->backbone, .views = views};
    l3a_tagger *tagger = NULL;
    assert_ok(context, l3a_tagger_open(context, small->model, &options, &tagger));
    return tagger;
}

l3a_library *small_library_open(const struct small_library *small, l3a_context *context, l3a_tagger *tagger) {
    const l3a_library_options options = {.size = sizeof options, .index = small->index};
    l3a_library *library = NULL;
    assert_ok(context, l3a_library_open(context, tagger, &options, &library));
    return library;
}

void small_library_fill(const struct small_library *small, l3a_context *context, l3a_library *library) {
    assert_ok(context, l3a_library_add(library, small->photos));
    assert_ok(context, l3a_library_scan(library, NULL));
    assert_ok(context, l3a_library_look(library, NULL, NULL));
    assert_ok(context, l3a_library_score(library, 0, NULL));
}

static void tell_scores(l3a_context *context, l3a_library *library, uint64_t id, text_builder *text) {
    for (size_t k = 0; k < SMALL_CLASSES; k++) {
        l3a_found *found = NULL;
        char tag[32];
        snprintf(tag, sizeof tag, "\"%s\" or not \"%s\"", small_classes[k], small_classes[k]);
        const l3a_find_options options = {.size = sizeof options, .where = tag, .sort = "score"};
        const l3a_status status = l3a_library_find(library, &options, &found);
        assert_true(status == L3A_OK || status == L3A_ERROR_CLASS);
        for (size_t i = 0; i < l3a_found_count(found); i++) {
            if (l3a_found_id(found, i) == id) {
                text_builder_print(text, " %.4f", l3a_found_rank(found, i));
            }
        }
        l3a_found_free(found);
    }
    (void)context;
}

char *small_library_tell(l3a_context *context, l3a_library *library) {
    const l3a_find_options options = {.size = sizeof options, .where = "is:other or not is:other", .sort = "name"};
    l3a_context *own = make_context(1);
    text_builder text = {.context = own};
    l3a_found *found = NULL;
    float features[SMALL_WIDTH];
    text_builder_print(&text, "pictures:\n");
    assert_ok(context, l3a_library_find(library, &options, &found));
    for (size_t i = 0; i < l3a_found_count(found); i++) {
        l3a_library_picture picture = {.size = sizeof picture};
        const uint64_t id = l3a_found_id(found, i);
        assert_ok(context, l3a_library_picture_at(library, id, &picture));
        text_builder_print(&text, "%s %d %llx '%s'", strrchr(picture.path, '/') + 1, (int)picture.state,
                           (unsigned long long)picture.checksum, picture.problem);
        if (picture.state == L3A_PICTURE_DONE) {
            assert_ok(context, l3a_library_features(library, id, features));
            text_builder_print(&text, " %g %g", (double)features[0], (double)features[SMALL_WIDTH - 1]);
            tell_scores(context, library, id, &text);
        }
        text_builder_print(&text, "\n");
    }
    l3a_found_free(found);
    assert_int_equal(text.status, L3A_OK);
    char *told = strdup(text.text);
    text_builder_free(&text);
    l3a_context_free(own);
    return told;
}

void assert_at_rest(const l3a_library *library) {
    sqlite3_stmt *statement = NULL;
    if (library) {
        assert_int_equal(library->database.depth, 0);
        assert_true(sqlite3_get_autocommit(library->database.handle));
        while ((statement = sqlite3_next_stmt(library->database.handle, statement))) {
            if (sqlite3_stmt_busy(statement)) {
                print_error("left in use: %s\n", sqlite3_sql(statement));
            }
            assert_false(sqlite3_stmt_busy(statement));
        }
    }
}
