/* Pictures in tar files: samples and their labels, which archives a text names, what is found for tagging, and pictures read from
 * their place in the archive. The expected values were counted by hand from the archives below. */
#include "support.h"

#include "archive.h"
#include "base/picture_source.h"
#include "data/archives.h"
#include "data/dataset.h"
#include "data/pictures.h"
#include "fixture.h"
#include "image/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state) {
    open_fixture(state);
    keep_warnings();
    archive_begin();
    return 0;
}

/* Writes the archive below the folder, and begins another one. */
static void put_archive(const char *name) {
    archive_end();
    put_file(folder, name, archive, archive_length);
    archive_begin();
}

/* "tar:FOLDER/NAME", in static memory. */
static const char *named(const char *below) {
    static char name[600];
    snprintf(name, sizeof name, "tar:%s/%s", folder, below);
    return name;
}

static l3a_dataset *open_set(const char *name) {
    l3a_dataset *dataset = NULL;
    assert_ok(context, l3a_dataset_open(context, name, NULL, NULL, &dataset));
    return dataset;
}

/* "ID=LABEL+LABEL|…", in the order of the rows. */
static void assert_rows(const l3a_dataset *dataset, const char *expected) {
    char text[2048] = "";
    const size_t classes = l3a_dataset_class_count(dataset);
    for (size_t i = 0; i < l3a_dataset_rows(dataset); i++) {
        size_t shown = 0;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=", i ? "|" : "", l3a_dataset_id(dataset, i));
        for (size_t k = 0; k < classes; k++) {
            assert_int_equal(l3a_dataset_labels(dataset)[i * classes + k], l3a_dataset_members(dataset)[i * classes + k]);
            if (l3a_dataset_labels(dataset)[i * classes + k] == 1) {
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", shown++ ? "+" : "",
                         l3a_dataset_class(dataset, k));
            }
        }
    }
    assert_string_equal(text, expected);
}

#define assert_refused(name, expected, contains)                                                                                   \
    do {                                                                                                                           \
        l3a_dataset *refused = NULL;                                                                                               \
        assert_fails(context, l3a_dataset_open(context, name, NULL, NULL, &refused), expected, contains);                          \
        assert_null(refused);                                                                                                      \
    } while (0)

/* ---- Samples ---- */

static void labels_of_all_kinds(void **state) {
    (void)state;
    archive_add('5', "some/", "");
    archive_add('0', "some/a.jpg", "picture");
    archive_add('0', "some/a.json", "{\"url\": {\"labels\": [1]}, \"labels\": [\"dog\", \" cat\", 7], \"width\": 3}");
    archive_add('0', "some/b.json",
                "{\"cls\": 3, \"tag\": \"bird\", \"label\": \"dog\"}"); /* before its picture; label comes first */
    archive_add('0', "some/b.PNG", "picture");
    archive_add('0', "c.cls", "7\n");
    archive_add('0', "c.webp", "picture");
    archive_add('0', "d.heic", "picture");
    archive_add('0', "d.txt", "hot dog\r\n\r\n  cat \nk\xC3\xA4se");
    archive_add('0', "e.jpeg", "picture");
    archive_add('0', "e.json", "[\"cat\", \"cat\"]");
    archive_add('0', "f.jpg", "picture");
    archive_add('0', "f.json", "\"d\\u00f6g\"");
    put_archive("all.tar");
    l3a_dataset *dataset = open_set(named("all.tar"));
    assert_rows(dataset, "some/a.jpg=7+cat+dog|some/b.PNG=dog|c.webp=7|d.heic=cat+hot dog+k\xC3\xA4se|e.jpeg=cat|f.jpg=d\xC3\xB6g");
    assert_string_equal(warnings, "");
    uint64_t offset = 0, bytes = 0;
    char path[600];
    snprintf(path, sizeof path, "%s/all.tar", folder);
    assert_string_equal(l3a_dataset_archive(dataset, 1, &offset, &bytes), path);
    assert_int_equal(offset, 4096); /* a folder, three members of two blocks, and a header are before it */
    assert_int_equal(bytes, 7);
    strcat(path, "/some/b.PNG");
    assert_string_equal(l3a_dataset_path(dataset, 1), path);
    assert_null(l3a_dataset_archive(dataset, 6, &offset, &bytes));
    l3a_dataset_free(dataset);
    char splits[16];
    assert_ok(context, l3a_dataset_splits(context, named("all.tar"), splits, sizeof splits));
    assert_string_equal(splits, "all");
}

/* A caption in .txt is no label where .json or .cls has one; a .json without labels says nothing. */
static void the_first_source_with_labels_counts(void **state) {
    (void)state;
    archive_add('0', "a.txt", "a photo of a dog");
    archive_add('0', "a.cls", "dog");
    archive_add('0', "a.jpg", "");
    archive_add('0', "a.json", "{\"caption\": \"a photo\", \"labels\": null}");
    archive_add('0', "b.cls", "dog");
    archive_add('0', "b.jpg", "");
    archive_add('0', "b.json", "{\"labels\": [\"cat\"]}");
    archive_add('0', "c.jpg", "");
    archive_add('0', "c.json", "{\"labels\": []}");
    put_archive("all.tar");
    l3a_dataset *dataset = open_set(named("all.tar"));
    assert_rows(dataset, "a.jpg=dog|b.jpg=cat|c.jpg=");
    assert_non_null(strstr(warnings, "pictures without labels: 1;"));
    l3a_dataset_free(dataset);
}

static void what_is_left_alone(void **state) {
    (void)state;
    archive_add('0', "a.jpg", "");
    archive_add('0', "a.cls", "dog");
    archive_add('0', "a.seg.png", "");
    archive_add('0', "b.cls", "dog");
    archive_add('0', "README", "");
    archive_add('0', "a.npy", "");
    archive_add('0', "._a.jpg", "");
    archive_add('0', ".hidden/c.jpg", "");
    archive_add('0', "@eaDir/d.jpg", "");
    put_archive("all.tar");
    l3a_dataset *dataset = open_set(named("all.tar"));
    assert_rows(dataset, "a.jpg=dog");
    assert_non_null(strstr(warnings, "pictures left out: 1, for example 'a.seg.png'"));
    assert_non_null(strstr(warnings, "members with labels, but without a picture: 1, for example those of 'b'"));
    l3a_dataset_free(dataset);
}

static void samples_that_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        l3a_status status;
        const char *says;
    } cases[] = {
        {"a.png", "", L3A_ERROR_DATA, "'a.jpg' and 'a.png' are pictures of the same sample"},
        {"a.cls", "dog\ncat\n", L3A_ERROR_FORMAT, "all.tar/a.cls: has more than one line"},
        {"a.json", "{\"labels\": [[1]]}", L3A_ERROR_FORMAT,
         "all.tar/a.json: line 1, column 13: a label must be a name or a number"},
        {"a.json", "{\"labels\": {\"dog\": 1}}", L3A_ERROR_FORMAT, "a label must be a name or a number"},
        {"a.json", "{\"labels\": [1.5]}", L3A_ERROR_FORMAT, "all.tar/a.json: line 1"},
        {"a.json", "{\"labels\": [\"dog\"]", L3A_ERROR_TRUNCATED, "all.tar/a.json: line 1"},
        {"a.json", "{} x", L3A_ERROR_FORMAT, "all.tar/a.json: line 1"},
        {"a.cls", "d\x01g", L3A_ERROR_CLASS, "cannot be the name of a class"},
        {"a.txt", "caf\xE9", L3A_ERROR_CLASS, "cannot be the name of a class"},
        {"a.json", "{}", L3A_ERROR_CLASS, "1 pictures, but no labels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        archive_add('0', "a.jpg", "");
        archive_add('0', cases[i].name, cases[i].text);
        put_archive("all.tar");
        assert_refused(named("all.tar"), cases[i].status, cases[i].says);
    }
    archive_add('0', "a.jpg", "");
    archive_add_bytes('0', "a.txt", "d\0g", 3);
    put_archive("all.tar");
    assert_refused(named("all.tar"), L3A_ERROR_FORMAT, "all.tar/a.txt: contains a zero byte");
    archive_add('0', "my.holiday.jpg", "");
    put_archive("all.tar");
    assert_refused(named("all.tar"), L3A_ERROR_DATA, "no other dot in its name, for example my.holiday.jpg");
    archive_add('2', "a.jpg", "");
    put_archive("all.tar");
    assert_refused(named("all.tar"), L3A_ERROR_FORMAT, "byte 0: 'a.jpg' is a symbolic link");
    l3a_dataset *refused = NULL;
    assert_fails(context, l3a_dataset_open(context, named("all.tar"), "test", NULL, &refused), L3A_ERROR_NOT_FOUND,
                 "no split 'test'; the splits are: all");
}

static void memory_runs_out(void **state) {
    (void)state;
    archive_add('0', "a.jpg", "");
    archive_add('0', "a.json", "{\"labels\": [\"dog\", \"cat\"]}");
    archive_add('x', "PaxHeader", "14 path=b.jpg\n");
    archive_add('0', "odd", "");
    archive_add('0', "b.txt", "cat\nbird");
    put_archive("s-1.tar");
    put_archive("s-2.tar");
    assert_true(fail_each_opening(named("s-{1..2}.tar"), NULL) >= 20);
    assert_true(fail_each_opening(named("s-*.tar"), NULL) >= 20);
}

/* ---- Several archives ---- */

static void assert_archives(const char *text, const char *expected) {
    char name[600], found[2048] = "";
    text_list paths = {0};
    snprintf(name, sizeof name, "%s/%s", folder, text);
    assert_ok(context, archives_find(context, name, &paths));
    for (size_t i = 0; i < paths.count; i++) {
        const char *path =
            strncmp(paths.items[i], folder, strlen(folder)) == 0 ? paths.items[i] + strlen(folder) + 1 : paths.items[i];
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i ? "|" : "", path);
    }
    assert_string_equal(found, expected);
    text_list_clear(context, &paths);
}

static void which_archives_a_text_names(void **state) {
    (void)state;
    text_list none = {0};
    put("s-1.tar", "");
    put("s-10.tar", "");
    put("s-2.tar", "");
    put("t.tar", "");
    put(".s-3.tar", "");
    put("a,b{1..2}.tar", "");
    assert_archives("t.tar", "t.tar");
    assert_archives("nowhere.tar", "nowhere.tar");
    assert_archives("t.tar,x.tar", "t.tar|x.tar");
    assert_archives("s-*.tar", "s-1.tar|s-10.tar|s-2.tar");
    assert_archives("s-?.tar", "s-1.tar|s-2.tar");
    assert_archives("*-[2-9].tar", "s-2.tar");
    assert_archives("s-{8..11}.tar", "s-8.tar|s-9.tar|s-10.tar|s-11.tar");
    assert_archives("s-{008..011}.tar", "s-008.tar|s-009.tar|s-010.tar|s-011.tar");
    assert_archives("{0..1}/{00..01}", "0/00|0/01|1/00|1/01");
    assert_archives("a,b{1..2}.tar", "a,b{1..2}.tar");
    assert_fails(context, archives_find(context, "a{1..}.tar", &none), L3A_ERROR_OPTION, "the braces are not a range of numbers");
    assert_fails(context, archives_find(context, "a{a,b}.tar", &none), L3A_ERROR_OPTION, "the braces are not a range of numbers");
    assert_fails(context, archives_find(context, "a{2..1}.tar", &none), L3A_ERROR_OPTION, "the braces are not a range of numbers");
    assert_fails(context, archives_find(context, "{0..100000}", &none), L3A_ERROR_OPTION, "more than 100000 archives");
    assert_fails(context, archives_find(context, "{0..99999}{0..99999}", &none), L3A_ERROR_OPTION, "more than 100000 archives");
    assert_fails(context, archives_find(context, "{0..99999999999999999999}", &none), L3A_ERROR_OPTION, "not a range");
    assert_fails(context, archives_find(context, "a.tar,,b.tar", &none), L3A_ERROR_OPTION, "a name is empty");
    assert_fails(context, archives_find(context, "*/a.tar", &none), L3A_ERROR_OPTION, "a pattern in the name of a folder");
    assert_fails(context, archives_find(context, named("x*.tar") + 4, &none), L3A_ERROR_NOT_FOUND,
                 "no file has such a name; it holds");
    text_list_clear(context, &none);
}

static void samples_of_several_archives(void **state) {
    (void)state;
    archive_add('0', "a.jpg", "");
    archive_add('0', "b.cls", "dog"); /* its picture is in the other archive: not the same sample */
    put_archive("s-0.tar");
    archive_add('0', "b.jpg", "");
    archive_add('0', "b.cls", "cat");
    put_archive("s-1.tar");
    l3a_dataset *dataset = open_set(named("s-{0..1}.tar"));
    assert_rows(dataset, "a.jpg=|b.jpg=cat");
    assert_non_null(strstr(warnings, "without a picture: 1"));
    l3a_dataset_free(dataset);
    archive_add('0', "a.jpg", "");
    archive_add('0', "a.cls", "dog");
    put_archive("s-2.tar");
    char both[1300];
    snprintf(both, sizeof both, "'a.jpg' is in %s/s-0.tar and in %s/s-2.tar", folder, folder);
    assert_refused(named("s-*.tar"), L3A_ERROR_DATA, both);
}

/* ---- Pictures ---- */

/* A picture in an archive is the same as in a file: its pixels, its checksum, and what is said of damage. */
static void pictures_are_read_in_their_place(void **state) {
    (void)state;
    char *file = path_in(folder, "one.jpg");
    size_t count;
    write_small_picture(file, 3);
    char *bytes = read_bytes(file, &count);
    archive_add('0', "text.jpg", "no picture");
    archive_add('0', "text.cls", "dog");
    archive_add_bytes('0', "deep/one.jpg", bytes, count);
    archive_add_bytes('0', "cut.jpg", bytes, count / 2);
    archive_add('0', "empty.jpg", "");
    put_archive("all.tar");
    l3a_dataset *dataset = open_set(named("all.tar"));
    l3a_picture one = {.size = sizeof one}, other = {.size = sizeof other};
    assert_ok(context, l3a_picture_read(context, file, NULL, &one));
    assert_ok(context, l3a_dataset_picture(dataset, 1, NULL, &other));
    assert_true(one.width == other.width && one.height == other.height);
    assert_memory_equal(one.pixels, other.pixels, 3 * one.width * one.height);
    l3a_picture_free(context, &one);
    l3a_picture_free(context, &other);
    assert_fails(context, l3a_dataset_picture(dataset, 0, NULL, &other), L3A_ERROR_FORMAT, "all.tar/text.jpg: ");
    assert_fails(context, l3a_dataset_picture(dataset, 2, NULL, &other), L3A_ERROR_TRUNCATED, "all.tar/cut.jpg: ");
    assert_fails(context, l3a_dataset_picture(dataset, 3, NULL, &other), L3A_ERROR_TRUNCATED, "all.tar/empty.jpg: ");
    assert_fails(context, l3a_dataset_picture(dataset, 4, NULL, &other), L3A_ERROR_ARGUMENT, "no row 4");
    const struct picture_source in_file = {.name = file}, in_archive = dataset_source(dataset, 1);
    uint64_t checksum = 0, same = 0;
    assert_true(picture_checksum(context, &in_file, &checksum) && picture_checksum(context, &in_archive, &same));
    assert_int_equal(checksum, same);
    put("all.tar", "short"); /* the archive is replaced by a shorter one */
    assert_false(picture_checksum(context, &in_archive, &same));
    assert_fails(context, l3a_dataset_picture(dataset, 1, NULL, &other), L3A_ERROR_TRUNCATED, "which now ends at byte 5");
    l3a_dataset_free(dataset);
    free(bytes);
    free(file);
}

/* What l3a_pictures_find() makes of the archives: "NAME@OFFSET+SIZE", "!NAME: REASON" for what was skipped, and the others. */
static void assert_pictures(const char *const *paths, size_t count, const char *expected) {
    char text[2048] = "", other[32];
    l3a_pictures *pictures = NULL;
    const size_t before = strlen(folder) + 1;
    assert_ok(context, l3a_pictures_find(context, paths, count, &pictures));
    for (size_t i = 0; i < l3a_pictures_count(pictures); i++) {
        const struct picture_source source = pictures_source(pictures, i);
        assert_string_equal(source.name, l3a_pictures_path(pictures, i));
        assert_ptr_equal(source.span.archive, l3a_pictures_archive(pictures, i));
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s", source.name + before);
        if (source.span.archive) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "@%d+%d", (int)source.span.offset, (int)source.span.size);
        }
        strcat(text, " ");
    }
    for (size_t i = 0; l3a_pictures_skipped(pictures, i); i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "!%s: %s ", l3a_pictures_skipped(pictures, i) + before,
                 l3a_pictures_reason(pictures, i));
    }
    snprintf(other, sizeof other, "%zu", l3a_pictures_others(pictures));
    strcat(text, other);
    assert_string_equal(text, expected);
    l3a_pictures_free(pictures);
}

static void pictures_are_found_for_tagging(void **state) {
    (void)state;
    char expected[600], all[600], cut[600], *file = path_in(folder, "z.jpg");
    size_t count;
    write_small_picture(file, 3);
    char *bytes = read_bytes(file, &count);
    archive_add_bytes('0', "my.holiday.jpg", bytes, count);
    const size_t next = archive_length;
    archive_add('0', "text.jpg", "no picture");
    archive_add('0', "text.cls", "dog");
    archive_add_bytes('0', "without-ending", bytes, count);
    archive_add_bytes('0', "._apple.jpg", bytes, count);
    const size_t last = archive_length;
    put_archive("all.tar");
    archive_add_bytes('0', "a.jpg", bytes, count);
    archive_add('0', "bad.jpg", "no picture");
    archive_add('2', "b.jpg", "");
    put_archive("cut.tar");
    snprintf(all, sizeof all, "tar:%s/all.tar", folder);
    snprintf(cut, sizeof cut, "tar:%s/cut.tar", folder);
    snprintf(
        expected, sizeof expected,
        "z.jpg all.tar/my.holiday.jpg@512+%zu all.tar/without-ending@%zu+%zu !cut.tar: byte %zu: 'b.jpg' is a symbolic link; only "
        "files are read !all.tar/text.jpg: this is a text, not a picture !all.tar/text.jpg: this is a text, not a picture 2",
        count, next + 2048 + 512, count, next + 1024);
    assert_true(last > next + 2048 + 512 + count);
    const char *const paths[] = {file, cut, all, all, file};
    assert_pictures(paths, 5, expected);
    free(bytes);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(labels_of_all_kinds, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(the_first_source_with_labels_counts, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(what_is_left_alone, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(samples_that_are_refused, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(memory_runs_out, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(which_archives_a_text_names, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(samples_of_several_archives, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(pictures_are_read_in_their_place, set_up, close_fixture),
        cmocka_unit_test_setup_teardown(pictures_are_found_for_tagging, set_up, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
