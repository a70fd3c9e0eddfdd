/* Folders of folders: classes, splits, pictures in several folders, and what is said about folders that are not as they should be.
 * The expected values were counted by hand. */
#include "support.h"

#include "base/file.h"
#include "data/dataset.h"
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static file_operations tampered;
static size_t opened;

static int set_up(void **state) {
    open_fixture(state);
    keep_warnings();
    tampered = posix_files;
    return 0;
}

/* A file that begins like a JPEG picture; other contents, other pictures. */
static void put_picture(const char *name, const char *content) {
    char text[64];
    snprintf(text, sizeof text, "\xFF\xD8\xFF\xE0%s", content);
    put(name, text);
}

static const char *named(const char *below) {
    static char name[600];
    snprintf(name, sizeof name, "folders:%s%s%s", folder, below[0] ? "/" : "", below);
    return name;
}

static l3a_dataset *open_set(const char *name, const char *split) {
    l3a_dataset *dataset = NULL;
    warnings[0] = '\0';
    assert_ok(context, l3a_dataset_open(context, name, split, NULL, &dataset));
    return dataset;
}

#define assert_refused(name, split, expected, contains)                                                                            \
    do {                                                                                                                           \
        l3a_dataset *refused = NULL;                                                                                               \
        assert_fails(context, l3a_dataset_open(context, name, split, NULL, &refused), expected, contains);                         \
        assert_null(refused);                                                                                                      \
    } while (0)

/* "cat,dog: a/b.jpg 10|c.jpg 00": the classes, and the rows with their labels. */
static void assert_set(const l3a_dataset *dataset, const char *expected) {
    char text[2048] = "";
    const size_t classes = l3a_dataset_class_count(dataset);
    for (size_t k = 0; k < classes; k++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", k ? "," : "", l3a_dataset_class(dataset, k));
    }
    for (size_t i = 0; i < l3a_dataset_rows(dataset); i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s ", i ? "|" : ": ", l3a_dataset_id(dataset, i));
        for (size_t k = 0; k < classes; k++) {
            const int8_t label = l3a_dataset_labels(dataset)[i * classes + k];
            assert_int_equal(label, l3a_dataset_members(dataset)[i * classes + k]);
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d", label);
        }
        char *path = path_in(folder, l3a_dataset_id(dataset, i));
        assert_string_equal(l3a_dataset_path(dataset, i), path);
        free(path);
    }
    assert_string_equal(text, expected);
}

static void assert_splits(const char *name, const char *expected) {
    char splits[64];
    assert_ok(context, l3a_dataset_splits(context, name, splits, sizeof splits));
    assert_string_equal(splits, expected);
}

static void the_names_of_folders_are_classes(void **state) {
    (void)state;
    put_picture("Katze/Mieze im K\xC3\xB6rbchen.jpg", "1");
    put_picture("Katze/2024/Mai/a.jpg", "22");
    put_picture("K\xC3\xA4se, gro\xC3\x9F/b.JPG", "333");
    put("Katze/Thumbs.db", "no picture");
    put(".hidden/c.jpg", "");
    put_picture("@eaDir/d.jpg", "4");
    l3a_dataset *dataset = open_set(named(""), NULL);
    assert_set(dataset, "Katze,K\xC3\xA4se, gro\xC3\x9F: Katze/2024/Mai/a.jpg 10|Katze/Mieze im K\xC3\xB6rbchen.jpg 10|"
                        "K\xC3\xA4se, gro\xC3\x9F/b.JPG 01");
    assert_string_equal(warnings, "");
    l3a_dataset_free(dataset);
    assert_splits(named(""), "all");
    dataset = open_set(named("//"), "all");
    assert_int_equal(l3a_dataset_rows(dataset), 3);
    assert_string_equal(l3a_dataset_id(dataset, 0), "Katze/2024/Mai/a.jpg");
    l3a_dataset_free(dataset);
}

static void a_picture_in_two_folders_shows_both_classes(void **state) {
    (void)state;
    put_picture("cat/a.jpg", "same");
    put_picture("dog/b.jpg", "same");
    put_picture("dog/deep/c.jpg", "same");
    put_picture("dog/d.jpg", "diff");
    put_picture("eel/a.jpg", "other");
    put_picture("e.jpg", "same");
    l3a_dataset *dataset = open_set(named(""), NULL);
    assert_set(dataset, "cat,dog,eel: cat/a.jpg 110|dog/d.jpg 010|eel/a.jpg 001");
    assert_non_null(strstr(warnings, "copies of a picture in the folder of the same class: 1; they are counted once"));
    assert_null(strstr(warnings, "none of the folders"));
    l3a_dataset_free(dataset);
}

static void a_link_puts_a_picture_into_another_folder(void **state) {
    (void)state;
    char *file = path_in(folder, "dog/link.jpg"), *alias = path_in(folder, "pet");
    put_picture("cat/a.jpg", "1");
    put_picture("dog/b.jpg", "22");
    assert_int_equal(symlink("../cat/a.jpg", file), 0);
    assert_int_equal(symlink("dog", alias), 0);
    l3a_dataset *dataset = open_set(named(""), NULL);
    assert_set(dataset, "cat,dog,pet: cat/a.jpg 111|dog/b.jpg 011");
    l3a_dataset_free(dataset);
    free(file);
    free(alias);
}

static void pictures_outside_the_folders_show_no_class(void **state) {
    (void)state;
    put_picture("cat/a.jpg", "1");
    put_picture("sky.jpg", "22");
    put_picture("sea.jpg", "22");
    put("readme.txt", "text");
    l3a_dataset *dataset = open_set(named(""), NULL);
    assert_set(dataset, "cat: cat/a.jpg 1|sea.jpg 0");
    assert_non_null(strstr(warnings, "pictures that lie in none of the folders: 1; they count as pictures that show none of the"));
    l3a_dataset_free(dataset);
}

static void folders_of_folders_may_be_splits(void **state) {
    (void)state;
    put_picture("train/cat/a.jpg", "1");
    put_picture("train/dog/b.jpg", "1");
    put_picture("train/c.jpg", "22");
    put_picture("test/cat/a.jpg", "1");
    put_picture("test/eel/x/d.jpg", "333");
    put("test/dog/.empty", "");
    assert_splits(named(""), "test train");
    l3a_dataset *dataset = open_set(named(""), "train");
    assert_set(dataset, "cat,dog,eel: train/cat/a.jpg 110|train/c.jpg 000");
    l3a_dataset_free(dataset);
    dataset = open_set(named(""), "test");
    assert_set(dataset, "cat,dog,eel: test/cat/a.jpg 100|test/eel/x/d.jpg 001");
    assert_string_equal(warnings, "");
    l3a_dataset_free(dataset);
    assert_refused(named(""), "val", L3A_ERROR_NOT_FOUND, "no split 'val'; the splits are: test train");
    assert_refused(named(""), NULL, L3A_ERROR_OPTION, "no split was chosen; the splits are: test train");
    dataset = open_set(named("train"), NULL);
    assert_string_equal(l3a_dataset_id(dataset, 0), "cat/a.jpg");
    l3a_dataset_free(dataset);
}

static void only_splits_side_by_side_are_splits(void **state) {
    (void)state;
    put_picture("train/steam/a.jpg", "1");
    put_picture("bus/b.jpg", "22");
    assert_splits(named(""), "all");
    l3a_dataset *dataset = open_set(named(""), NULL);
    assert_set(dataset, "bus,train: bus/b.jpg 10|train/steam/a.jpg 01");
    assert_string_equal(warnings, "");
    l3a_dataset_free(dataset);
    put_picture("test/c.jpg", "333");
    dataset = open_set(named(""), NULL);
    assert_non_null(strstr(warnings, "folders called train, test and so on are classes here"));
    l3a_dataset_free(dataset);
    put_picture("flat/train/a.jpg", "1");
    put_picture("flat/val/b.jpg", "22");
    assert_splits(named("flat"), "all");
}

static void folders_that_are_not_as_they_should_be_are_refused(void **state) {
    (void)state;
    assert_refused(named("nowhere"), NULL, L3A_ERROR_NOT_FOUND, "nowhere: cannot list this folder");
    put_picture("flat/a.jpg", "1");
    assert_refused(named("flat"), NULL, L3A_ERROR_CLASS, "flat: no folders in this folder; it holds a.jpg");
    assert_refused(named("flat/a.jpg"), NULL, L3A_ERROR_NOT_FOUND, "a.jpg: cannot list this folder: Not a directory");
    put("none/cat/a.txt", "text");
    assert_refused(named("none"), NULL, L3A_ERROR_DATA, "none: no pictures in the folders in it");
    put("none/cat/b.jpg", "text");
    assert_refused(named("none"), NULL, L3A_ERROR_DATA, "b.jpg: this is a text, not a picture");
    put_picture("none/c.jpg", "1");
    assert_refused(named("none"), NULL, L3A_ERROR_CLASS, "no classes");
    put_picture("lines/a\nb/c.jpg", "1");
    assert_refused(named("lines"), NULL, L3A_ERROR_FORMAT, "the name contains a line break");
    put_picture("control/a\x1B/c.jpg", "1");
    assert_refused(named("control"), NULL, L3A_ERROR_CLASS, "cannot be the name of a class");
    assert_refused(named("control"), "train", L3A_ERROR_NOT_FOUND, "no split 'train'; the splits are: all");
    assert_refused("folders:", NULL, L3A_ERROR_OPTION, "does not name a data set");
}

static void what_is_left_out_is_said(void **state) {
    (void)state;
    put_picture("cat/a.jpg", "1");
    put("cat/b.jpg", "<html>");
    put("cat/c.jpg", "");
    put("dog/.nothing", "");
    l3a_dataset *dataset = open_set(named(""), NULL);
    assert_set(dataset, "cat: cat/a.jpg 1");
    assert_non_null(strstr(warnings, "files or folders skipped: 2, for example "));
    assert_non_null(strstr(warnings, "/cat/b.jpg: this is a web page, not a picture\n"));
    assert_non_null(strstr(warnings, "/dog: holds no pictures, so it is not a class\n"));
    l3a_dataset_free(dataset);
}

static int count_open(const char *path, int flags, mode_t mode) {
    opened++;
    return posix_files.open(path, flags, mode);
}

static ssize_t refuse_second_block(int file, void *bytes, size_t count, off_t offset) {
    if (opened > 2) {
        errno = EIO;
        return -1;
    }
    return posix_files.read(file, bytes, count, offset);
}

static void only_files_of_the_same_size_are_compared(void **state) {
    (void)state;
    put_picture("cat/a.jpg", "1");
    put_picture("cat/b.jpg", "22");
    put_picture("dog/c.jpg", "333");
    tampered.open = count_open;
    context->files = &tampered;
    opened = 0;
    l3a_dataset_free(open_set(named(""), NULL));
    assert_int_equal(opened, 3);
    put_picture("dog/d.jpg", "444");
    opened = 0;
    l3a_dataset_free(open_set(named(""), NULL));
    assert_int_equal(opened, 4 + 2);
    context->files = &posix_files;
}

static void a_file_that_cannot_be_compared_is_an_error(void **state) {
    (void)state;
    put_picture("cat/a.jpg", "1");
    put_picture("dog/b.jpg", "2");
    tampered.open = count_open;
    tampered.read = refuse_second_block;
    context->files = &tampered;
    opened = 0;
    assert_refused(named(""), NULL, L3A_ERROR_IO, "cat/a.jpg: cannot read: Input/output error");
    context->files = &posix_files;
}

static void an_allocation_that_fails_loses_nothing(void **state) {
    (void)state;
    put_picture("train/cat/a.jpg", "1");
    put_picture("train/dog/b.jpg", "1");
    put("train/dog/c.jpg", "text");
    put_picture("train/d.jpg", "22");
    put_picture("test/cat/a.jpg", "1");
    assert_true(fail_each_opening(named(""), "train") >= 30);
    assert_true(fail_each_opening(named("train"), NULL) >= 30);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, close_fixture)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_names_of_folders_are_classes),
        TEST(a_picture_in_two_folders_shows_both_classes),
        TEST(a_link_puts_a_picture_into_another_folder),
        TEST(pictures_outside_the_folders_show_no_class),
        TEST(folders_of_folders_may_be_splits),
        TEST(only_splits_side_by_side_are_splits),
        TEST(folders_that_are_not_as_they_should_be_are_refused),
        TEST(what_is_left_out_is_said),
        TEST(only_files_of_the_same_size_are_compared),
        TEST(a_file_that_cannot_be_compared_is_an_error),
        TEST(an_allocation_that_fails_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
