/* What comes into an index, and when it is looked at again: pictures that are new, changed, moved, copied, damaged and gone;
 * videos, names that are not UTF-8, links; folders that go away; features of another network. */
#include "support.h"

#include "fixture.h"
#include "small_library.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PICTURES = 12 };

static struct small_library small;
static l3a_tagger *tagger;
static l3a_library *library;
static l3a_scan_report scanned;
static l3a_look_report looked;

static int open_library(void **state) {
    (void)state;
    small_library_make(&small, PICTURES);
    context = make_context(1);
    tagger = small_library_tagger(&small, context, NULL, 0);
    library = small_library_open(&small, context, tagger);
    assert_ok(context, l3a_library_add(library, small.photos));
    keep_warnings();
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

static void scan(void) {
    scanned = (l3a_scan_report){.size = sizeof scanned};
    assert_ok(context, l3a_library_scan(library, &scanned));
}

static void look(void) {
    looked = (l3a_look_report){.size = sizeof looked};
    assert_ok(context, l3a_library_look(library, NULL, &looked));
}

static void scan_and_look(void) {
    scan();
    look();
}

static l3a_library_picture picture_of(const char *name) {
    l3a_library_picture picture = {.size = sizeof picture};
    char *path = path_in(small.photos, name);
    uint64_t id = 0;
    assert_ok(context, l3a_library_picture_find(library, path, &id));
    assert_ok(context, l3a_library_picture_at(library, id, &picture));
    assert_string_equal(picture.path, path);
    free(path);
    return picture;
}

static void is_gone(const char *name) {
    char *path = path_in(small.photos, name);
    uint64_t id;
    assert_fails(context, l3a_library_picture_find(library, path, &id), L3A_ERROR_NOT_FOUND, "not in the index");
    free(path);
}

static size_t count_of(const char *where) {
    const l3a_find_options options = {.size = sizeof options, .where = where};
    l3a_found *found = NULL;
    assert_ok(context, l3a_library_find(library, &options, &found));
    const size_t count = l3a_found_count(found);
    l3a_found_free(found);
    return count;
}

static void rename_picture(const char *from, const char *to) {
    char *old = path_in(small.photos, from), *new = path_in(small.photos, to);
    assert_int_equal(rename(old, new), 0);
    free(old);
    free(new);
}

static void link_to(const char *name, const char *target) {
    char *path = path_in(small.photos, name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

/* ---- Pictures ---- */

static void pictures_are_looked_at_once(void **state) {
    l3a_library_info info = {.size = sizeof info};
    (void)state;
    scan();
    assert_int_equal(scanned.pictures, PICTURES);
    assert_int_equal(scanned.added, PICTURES);
    assert_int_equal(count_of("is:waiting"), PICTURES);
    look();
    assert_int_equal(looked.looked, PICTURES);
    assert_int_equal(looked.waiting + looked.failed + looked.known, 0);
    scan_and_look();
    assert_int_equal(scanned.added + scanned.changed + scanned.gone, 0);
    assert_int_equal(looked.looked + looked.known, 0);
    assert_ok(context, l3a_library_describe(library, &info));
    assert_int_equal(info.pictures, PICTURES);
    assert_int_equal(info.done, PICTURES);
    const uint64_t change = info.change;
    l3a_library_free(library);
    library = small_library_open(&small, context, tagger); /* a second start */
    scan_and_look();
    assert_int_equal(looked.looked + looked.known, 0);
    assert_ok(context, l3a_library_describe(library, &info));
    assert_int_equal(info.change, change);
}

static void moved_copied_renamed_and_removed(void **state) {
    (void)state;
    scan_and_look();
    const uint64_t checksum = picture_of("3.jpg").checksum;
    put_file(small.photos, "deep/er/none.txt", "", 0);
    rename_picture("3.jpg", "deep/er/3.jpg");
    rename_picture("4.jpg", "four.jpg");
    small_library_put(&small, "copy of 5.jpg", 5);
    small_library_delete(&small, "6.jpg");
    scan_and_look();
    assert_int_equal(scanned.added, 3);
    assert_int_equal(scanned.gone, 3);
    assert_int_equal(looked.looked, 0);
    assert_int_equal(looked.known, 3);
    assert_int_equal(looked.moved, 2);
    assert_int_equal(looked.copies, 1);
    assert_int_equal(picture_of("deep/er/3.jpg").checksum, checksum);
    assert_int_equal(picture_of("5.jpg").copies, 1);
    assert_int_equal(picture_of("copy of 5.jpg").copies, 1);
    assert_int_equal(picture_of("7.jpg").copies, 0);
    is_gone("3.jpg");
    is_gone("6.jpg");
    assert_int_equal(count_of(""), PICTURES);
    rename_picture("deep/er", "elsewhere"); /* a whole folder */
    scan_and_look();
    assert_int_equal(looked.moved, 1);
    assert_int_equal(picture_of("elsewhere/3.jpg").checksum, checksum);
}

static void a_changed_picture_is_looked_at_again(void **state) {
    (void)state;
    scan_and_look();
    const uint64_t id = picture_of("3.jpg").id, checksum = picture_of("3.jpg").checksum;
    small_library_put(&small, "3.jpg", 300);
    small_library_age(&small, "3.jpg", 500);
    small_library_age(&small, "4.jpg", 500); /* only its time */
    scan_and_look();
    assert_int_equal(scanned.changed, 2);
    assert_int_equal(looked.looked, 1);
    assert_int_equal(looked.known, 1);
    assert_int_equal(picture_of("3.jpg").id, id);
    assert_true(picture_of("3.jpg").checksum != checksum);
    /* The same size and the same time are the same picture: that is the rule. */
    char *path = path_in(small.photos, "5.jpg");
    struct stat before;
    size_t count;
    assert_int_equal(stat(path, &before), 0);
    char *bytes = read_bytes(path, &count);
    bytes[count / 2] ^= 1;
    write_bytes(path, bytes, count);
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    scan();
    assert_int_equal(scanned.changed, 0);
    free(bytes);
    free(path);
}

/* A picture that is looked at right after it was saved, and changes again within the resolution of its time. */
static void a_change_within_the_same_time(void **state) {
    char *path = path_in(small.photos, "1.jpg");
    struct stat now;
    size_t count;
    (void)state;
    small_library_put(&small, "1.jpg", 1000);
    small_library_age(&small, "1.jpg", 0);
    scan_and_look();
    const uint64_t checksum = picture_of("1.jpg").checksum;
    assert_int_equal(picture_of("1.jpg").modified, 0); /* not certain; but it has a date */
    assert_int_equal(count_of("since:2000"), count_of(""));
    assert_int_equal(stat(path, &now), 0);
    char *bytes = read_bytes(path, &count);
    bytes[count / 2] ^= 1;
    write_bytes(path, bytes, count);
    const struct timespec times[2] = {now.st_atim, now.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    scan();
    assert_int_equal(scanned.changed, 1);
    look();
    assert_true(picture_of("1.jpg").checksum != checksum);
    scan(); /* as it is, it stays; it was not even waiting in between */
    assert_int_equal(scanned.changed, 0);
    assert_int_equal(count_of("is:waiting"), 0);
    assert_int_equal(picture_of("1.jpg").state, L3A_PICTURE_DONE);
    free(bytes);
    free(path);
}

static void clocks_jump(void **state) {
    (void)state;
    small_library_age(&small, "1.jpg", -10LL * 365 * 86400); /* the future */
    small_library_age(&small, "2.jpg", time(NULL) + 86400);  /* before 1970 */
    scan_and_look();
    assert_int_equal(looked.looked, PICTURES);
    scan_and_look();
    assert_int_equal(scanned.changed + looked.looked + looked.known, 0);
    small_library_put(&small, "3.jpg", 77); /* newer content with an older time */
    small_library_age(&small, "3.jpg", 30LL * 365 * 86400);
    scan_and_look();
    assert_int_equal(scanned.changed, 1);
    assert_int_equal(looked.looked, 1);
    assert_true(picture_of("2.jpg").modified < 0);
}

static void what_cannot_be_read_says_why(void **state) {
    size_t count;
    char *first = path_in(small.photos, "0.jpg"), *locked = path_in(small.photos, "locked.jpg");
    char *bytes = read_bytes(first, &count);
    (void)state;
    small_library_put_bytes(&small, "empty.jpg", "", 0);
    small_library_put_bytes(&small, "half.jpg", bytes, count / 2);
    small_library_put_bytes(&small, "text.png", "hello", 5);
    small_library_put_bytes(&small, "film.mp4", "x", 1);
    small_library_put_bytes(&small, "raw.CR2", "x", 1);
    small_library_put_bytes(&small, "notes.txt", "x", 1);
    small_library_put_bytes(&small, ".hidden.jpg", bytes, count);
    small_library_put_bytes(&small, "b\xFF.jpg", bytes, count);
    small_library_put_bytes(&small, "b\xFF.txt", bytes, count);
    small_library_put_bytes(&small, "locked.jpg", bytes, count);
    assert_int_equal(chmod(locked, 0), 0);
    scan_and_look();
    assert_int_equal(scanned.pictures, PICTURES + 7);
    assert_int_equal(picture_of("film.mp4").state, L3A_PICTURE_OTHER);
    assert_non_null(strstr(picture_of("film.mp4").problem, "video"));
    assert_non_null(strstr(picture_of("raw.CR2").problem, "RAW"));
    assert_non_null(strstr(picture_of("b\xFF.jpg").problem, "UTF-8"));
    is_gone("notes.txt");
    is_gone("b\xFF.txt");
    for (const char *const *name = (const char *const[]){"empty.jpg", "half.jpg", "text.png", NULL}; *name; name++) {
        assert_int_equal(picture_of(*name).state, L3A_PICTURE_FAILED);
        assert_true(picture_of(*name).problem[0] != '\0');
    }
    assert_int_equal(count_of("is:other"), 3);
    const size_t failed = count_of("is:failed");
    assert_int_equal(failed, geteuid() ? 4 : 3); /* root reads everything */
    scan_and_look();
    assert_int_equal(looked.looked, 0);
    assert_int_equal(scanned.changed, 0);
    assert_int_equal(chmod(locked, 0600), 0);
    scan_and_look(); /* nothing but the permission has changed */
    assert_int_equal(picture_of("locked.jpg").state, L3A_PICTURE_DONE);
    small_library_put(&small, "half.jpg", 55);
    scan_and_look();
    assert_int_equal(picture_of("half.jpg").state, L3A_PICTURE_DONE);
    free(bytes);
    free(first);
    free(locked);
}

/* ---- Folders ---- */

static void links_stay_below_their_root(void **state) {
    (void)state;
    put_file(small.folder, "outside/far.jpg", "x", 1);
    small_library_put(&small, "a/b/deep.jpg", 50);
    link_to("out", "../outside");
    link_to("out.jpg", "../outside/far.jpg");
    link_to("nothing.jpg", "nowhere");
    link_to("a/b/loop", "..");
    link_to("a/b/self", "self");
    link_to("again.jpg", "a/b/deep.jpg");
    scan_and_look();
    assert_int_equal(scanned.pictures, PICTURES + 2);
    assert_int_equal(looked.looked + looked.known, PICTURES + 2);
    assert_int_equal(picture_of("again.jpg").checksum, picture_of("a/b/deep.jpg").checksum);
    is_gone("out.jpg");
    is_gone("nothing.jpg");
}

static void a_root_that_is_away_keeps_its_pictures(void **state) {
    const char *problem = NULL;
    char *away = path_in(small.folder, "away");
    (void)state;
    scan_and_look();
    assert_int_equal(rename(small.photos, away), 0);
    scan();
    assert_int_equal(scanned.away, 1);
    assert_int_equal(scanned.gone, 0);
    assert_string_equal(l3a_library_folder(library, 0, &problem), small.photos);
    assert_non_null(strstr(problem, "not there"));
    assert_null(l3a_library_folder(library, 1, &problem));
    assert_int_equal(mkdir(small.photos, 0700), 0); /* as a disk that is not mounted */
    scan();
    assert_int_equal(scanned.away, 1);
    assert_non_null(strstr(warnings, "empty"));
    assert_int_equal(count_of(""), PICTURES);
    assert_int_equal(rmdir(small.photos), 0);
    assert_int_equal(rename(away, small.photos), 0);
    scan_and_look();
    assert_int_equal(scanned.away + scanned.added + scanned.changed + scanned.gone, 0);
    assert_int_equal(looked.looked + looked.known, 0);
    assert_non_null(l3a_library_folder(library, 0, &problem));
    assert_string_equal(problem, "");
    free(away);
}

/* A disk that goes away between a scan and the look: when it is back, its pictures are looked at. */
static void a_root_that_goes_away_before_the_look(void **state) {
    char *away = path_in(small.folder, "away");
    (void)state;
    scan();
    assert_int_equal(rename(small.photos, away), 0);
    look();
    assert_int_equal(looked.failed, PICTURES);
    assert_int_equal(rename(away, small.photos), 0);
    scan_and_look();
    assert_int_equal(looked.looked, PICTURES);
    assert_int_equal(count_of("is:done"), PICTURES);
    free(away);
}

static void a_folder_that_cannot_be_listed_keeps_its_pictures(void **state) {
    char *locked = path_in(small.photos, "locked");
    (void)state;
    if (!geteuid()) {
        print_message("skipped: a folder that cannot be listed: root lists everything\n");
        free(locked);
        return;
    }
    small_library_put(&small, "locked/below/1.jpg", 80);
    scan_and_look();
    assert_int_equal(chmod(locked, 0), 0);
    scan();
    assert_int_equal(scanned.unreadable, 1);
    assert_int_equal(scanned.gone, 0);
    assert_int_equal(chmod(locked, 0700), 0);
    assert_int_equal(picture_of("locked/below/1.jpg").state, L3A_PICTURE_DONE);
    free(locked);
}

static void roots_above_and_below_each_other(void **state) {
    char *deep = path_in(small.photos, "deep");
    (void)state;
    small_library_put(&small, "deep/1.jpg", 90);
    assert_ok(context, l3a_library_add(library, deep)); /* is there already */
    assert_null(l3a_library_folder(library, 1, NULL));
    scan_and_look();
    assert_int_equal(count_of("folder:deep"), 1);
    assert_ok(context, l3a_library_add(library, small.folder)); /* takes the place of the other */
    assert_string_equal(l3a_library_folder(library, 0, NULL), small.folder);
    assert_null(l3a_library_folder(library, 1, NULL));
    assert_int_equal(count_of("folder:deep"), 1);
    assert_int_equal(count_of("folder:photos/deep"), 1);
    scan_and_look();
    assert_int_equal(scanned.added + scanned.gone + looked.looked, 0);
    assert_fails(context, l3a_library_remove(library, deep), L3A_ERROR_NOT_FOUND, "not in the index");
    assert_ok(context, l3a_library_remove(library, small.folder));
    assert_int_equal(count_of(""), 0);
    assert_null(l3a_library_folder(library, 0, NULL));
    assert_ok(context, l3a_library_add(library, small.photos));
    scan_and_look();
    assert_int_equal(looked.looked, 0);
    assert_int_equal(looked.known, PICTURES + 1);
    free(deep);
}

/* Rows of pictures that are gone do not pile up for ever. */
static void what_is_gone_is_forgotten_in_the_end(void **state) {
    int64_t rows;
    char name[32];
    (void)state;
    for (size_t i = 0; i < 1200; i++) {
        snprintf(name, sizeof name, "more/%zu.mp4", i);
        put_file(small.photos, name, "x", 1);
    }
    scan_and_look();
    const uint64_t id = picture_of("3.jpg").id;
    assert_int_equal(count_of("is:other"), 1200);
    for (size_t i = 0; i < 1200; i++) {
        snprintf(name, sizeof name, "more/%zu.mp4", i);
        small_library_delete(&small, name);
    }
    scan();
    assert_int_equal(scanned.gone, 1200);
    assert_ok(context, database_number(&library->database, "SELECT count(*) FROM picture", NULL, 0, 0, &rows));
    assert_int_equal(rows, PICTURES);
    assert_int_equal(count_of("is:other or not is:other"), PICTURES);
    assert_int_equal(picture_of("3.jpg").id, id);
    small_library_put(&small, "new.jpg", 33);
    scan();
    assert_true(picture_of("new.jpg").id > 1200); /* numbers are not used again */
    assert_int_equal(count_of("name:NEW"), 1);
}

/* ---- In parts ---- */

static void in_parts_and_shards(void **state) {
    l3a_look_options options = {.size = sizeof options, .most = 5};
    l3a_look_report report = {.size = sizeof report};
    (void)state;
    scan();
    assert_ok(context, l3a_library_look(library, &options, &report));
    assert_int_equal(report.looked, 5);
    assert_int_equal(report.waiting, PICTURES - 5);
    uint64_t waiting = report.waiting;
    for (options = (l3a_look_options){.size = sizeof options, .shard = 1, .shards = 3}; options.shard <= 3; options.shard++) {
        assert_ok(context, l3a_library_look(library, &options, &report));
        assert_int_equal(report.waiting, 0);
        waiting -= report.looked;
    }
    assert_int_equal(waiting, 0);
    options = (l3a_look_options){.size = sizeof options, .shard = 4, .shards = 3};
    assert_fails(context, l3a_library_look(library, &options, NULL), L3A_ERROR_ARGUMENT, "shard 4 of 3");
}

static int cancel(const l3a_event *event, void *user) {
    (void)user;
    return event->kind == L3A_EVENT_PROGRESS;
}

static void what_was_looked_at_before_a_cancel_stays(void **state) {
    (void)state;
    for (size_t i = PICTURES; i < 80; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        small_library_put(&small, name, i);
    }
    context->options.on_event = cancel;
    assert_int_equal(l3a_library_scan(library, NULL), L3A_ERROR_CANCELLED);
    assert_at_rest(library);
    keep_warnings();
    scan();
    assert_int_equal(scanned.added, 80);
    context->options.on_event = cancel;
    assert_int_equal(l3a_library_look(library, NULL, NULL), L3A_ERROR_CANCELLED);
    assert_at_rest(library);
    keep_warnings();
    const size_t done = count_of("is:done");
    assert_true(done > 0 && done < 80);
    look();
    assert_int_equal(looked.looked, 80 - done);
    context->options.on_event = cancel;
    assert_int_equal(l3a_library_score(library, 0, NULL), L3A_ERROR_CANCELLED);
    assert_at_rest(library);
    keep_warnings();
    assert_ok(context, l3a_library_score(library, 0, NULL));
}

/* With several workers, the same features. */
static void many_workers(void **state) {
    float one[SMALL_WIDTH], other[SMALL_WIDTH];
    (void)state;
    for (size_t i = PICTURES; i < 150; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        small_library_put(&small, name, i);
    }
    l3a_library_free(library);
    l3a_context *wide = make_context(4);
    library = small_library_open(&small, wide, tagger);
    assert_ok(wide, l3a_library_scan(library, NULL));
    assert_ok(wide, l3a_library_look(library, NULL, NULL));
    l3a_library_free(library);
    char *index = small.index;
    small.index = path_in(small.folder, "one.library");
    library = small_library_open(&small, context, tagger);
    assert_ok(context, l3a_library_add(library, small.photos));
    scan_and_look();
    free(small.index);
    small.index = index;
    l3a_library *both = small_library_open(&small, wide, tagger);
    for (size_t i = 0; i < 150; i += 7) {
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        const l3a_library_picture picture = picture_of(name);
        uint64_t id;
        assert_ok(context, l3a_library_features(library, picture.id, one));
        assert_ok(wide, l3a_library_picture_known(both, picture.checksum, &id));
        assert_ok(wide, l3a_library_features(both, id, other));
        for (size_t k = 0; k < SMALL_WIDTH; k++) {
            assert_near((double)one[k], (double)other[k], 0.01); /* rounding depends on the batch */
        }
    }
    l3a_library_free(both);
    l3a_context_free(wide);
}

/* ---- Another network ---- */

static void features_of_another_network_or_of_views_are_replaced(void **state) {
    float features[15 * SMALL_WIDTH];
    (void)state;
    scan_and_look();
    l3a_library_free(library);
    l3a_tagger *views = small_library_tagger(&small, context, NULL, 5);
    const l3a_library_options keep = {.size = sizeof keep, .index = small.index, .keep = 1};
    assert_fails(context, l3a_library_open(context, views, &keep, &library), L3A_ERROR_MISMATCH, "views 5");
    library = small_library_open(&small, context, views);
    assert_non_null(strstr(warnings, "replaced"));
    assert_int_equal(count_of("is:waiting"), PICTURES);
    look();
    assert_int_equal(looked.looked, PICTURES);
    assert_ok(context, l3a_library_features(library, picture_of("3.jpg").id, features));
    /* A tagger that was not asked for any views replaces none. */
    size_t kept;
    l3a_library_free(library);
    const l3a_library_options usual = {.size = sizeof usual, .index = small.index};
    assert_fails(context, l3a_library_open(context, tagger, &usual, &library), L3A_ERROR_MISMATCH, "those of 5 views");
    assert_ok(context, l3a_library_views(context, small.index, &kept));
    assert_int_equal(kept, 5);
    library = small_library_open(&small, context, views);
    assert_int_equal(count_of("is:done"), PICTURES);
    l3a_tagger *whole = small_library_tagger(&small, context, NULL, 1);
    /* Who still has it open for the other views does not write into the new file. */
    l3a_library_free(library);
    library = small_library_open(&small, context, whole);
    l3a_library *other = small_library_open(&small, context, views);
    scan_and_look();
    assert_ok(context, l3a_library_features(library, picture_of("3.jpg").id, features));
    l3a_library_free(other);
    l3a_library_free(library);
    library = small_library_open(&small, context, tagger);
    scan_and_look();
    assert_int_equal(count_of("is:done"), PICTURES);
    l3a_tagger_free(whole);
    l3a_tagger_free(views);
}

/* ---- Another model ---- */

static l3a_tagger *tagger_of_copy(const char *name) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = small.backbone};
    l3a_tagger *made = NULL;
    size_t count;
    char *bytes = read_bytes(small.model, &count), *path = path_in(small.folder, name);
    put_file(small.folder, name, bytes, count);
    assert_ok(context, l3a_tagger_open(context, path, &options, &made));
    free(bytes);
    free(path);
    return made;
}

static void forget_owner(void) {
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(small.index, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "DELETE FROM meta WHERE key = 'model'", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(database);
}

static void an_index_belongs_to_one_model(void **state) {
    const l3a_library_options options = {.size = sizeof options, .index = small.index};
    l3a_tagger *other = tagger_of_copy("zebras.l3a");
    l3a_library *second = NULL;
    (void)state;
    scan_and_look();
    assert_fails(context, l3a_library_open(context, other, &options, &second), L3A_ERROR_MISMATCH, "of another model");
    l3a_library_free(library);
    library = small_library_open(&small, context, tagger);
    /* One that is not there any more was renamed. */
    char *elsewhere = path_in(small.folder, "elsewhere.l3a");
    assert_int_equal(rename(small.model, elsewhere), 0);
    second = small_library_open(&small, context, other);
    assert_int_equal(rename(elsewhere, small.model), 0);
    l3a_library_free(library);
    assert_fails(context, l3a_library_open(context, tagger, &options, &library), L3A_ERROR_MISMATCH, "'zebras.l3a'");
    library = second;
    assert_int_equal(count_of("is:done"), PICTURES);
    l3a_library_free(library);
    /* One that was made by an earlier version belongs to nobody. */
    forget_owner();
    library = small_library_open(&small, context, tagger);
    assert_fails(context, l3a_library_open(context, other, &options, &second), L3A_ERROR_MISMATCH, "of another model");
    free(elsewhere);
    l3a_tagger_free(other);
}

/* ---- What is not known ---- */

/* In an order that has all pictures, and not only those with scores. */
static size_t count_by_date(const char *where) {
    const l3a_find_options options = {.size = sizeof options, .where = where, .sort = "date"};
    l3a_found *found = NULL;
    assert_ok(context, l3a_library_find(library, &options, &found));
    const size_t count = l3a_found_count(found);
    l3a_found_free(found);
    return count;
}

static void what_was_not_seen_is_neither_with_a_tag_nor_without(void **state) {
    static const char *const known[] = {
        "\"%s\" or not \"%s\"",           "not (not \"%s\" and \"%s\")", "is:tagged or is:untagged or is:said",
        "not is:untagged or is:untagged", "is:unsure or not is:unsure",  "unsure:\"%s\" or not unsure:\"%s\""};
    static const char *const every[] = {"not is:said or is:said", "name:broken or not name:broken", "is:failed or not is:failed",
                                        "not \"%s\" or \"%s\" or is:failed or is:waiting",
                                        "not (\"%s\" and is:done and \"%s\") or is:done"};
    char where[200];
    (void)state;
    small_library_put_bytes(&small, "broken.jpg", "hello", 5);
    scan_and_look();
    assert_ok(context, l3a_library_score(library, 0, NULL));
    small_library_put(&small, "new.jpg", 99);
    scan();
    assert_int_equal(count_of("is:failed"), 1);
    assert_int_equal(count_of("is:waiting"), 1);
    for (size_t k = 0; k < SMALL_CLASSES; k++) {
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            snprintf(where, sizeof where, known[i], small_classes[k], small_classes[k]);
            assert_int_equal(count_by_date(where), PICTURES);
        }
        for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
            snprintf(where, sizeof where, every[i], small_classes[k], small_classes[k]);
            assert_int_equal(count_by_date(where), PICTURES + 2);
        }
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_library, close_library)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pictures_are_looked_at_once),
        TEST(moved_copied_renamed_and_removed),
        TEST(a_changed_picture_is_looked_at_again),
        TEST(a_change_within_the_same_time),
        TEST(clocks_jump),
        TEST(what_cannot_be_read_says_why),
        TEST(links_stay_below_their_root),
        TEST(a_root_that_is_away_keeps_its_pictures),
        TEST(a_root_that_goes_away_before_the_look),
        TEST(a_folder_that_cannot_be_listed_keeps_its_pictures),
        TEST(roots_above_and_below_each_other),
        TEST(what_is_gone_is_forgotten_in_the_end),
        TEST(in_parts_and_shards),
        TEST(what_was_looked_at_before_a_cancel_stays),
        TEST(many_workers),
        TEST(an_index_belongs_to_one_model),
        TEST(what_was_not_seen_is_neither_with_a_tag_nor_without),
        TEST(features_of_another_network_or_of_views_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
