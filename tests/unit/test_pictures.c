/* Finding the pictures among files and folders: what is found, in which order, what is skipped and why, and what ends. */
#include "support.h"

#include "base/file.h"
#include "fixture.h"
#include "memory_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static file_operations tampered;
static size_t events;
static bool stop;

static int on_event(const l3a_event *event, void *user) {
    (void)user;
    events += event->kind == L3A_EVENT_PROGRESS && strcmp(event->stage, "find") == 0;
    return stop;
}

static int set_up(void **state) {
    open_fixture(state);
    context->options.on_event = on_event;
    tampered = posix_files;
    events = 0;
    stop = false;
    return 0;
}

#define JPEG "\xFF\xD8\xFF\xE0 and so on"
#define PNG "\x89PNG\r\n\x1A\n and so on"

static void link_to(const char *target, const char *name) {
    char *path = path_in(folder, name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

/* Finds what is below paths that are separated by blanks, relative to the folder; "" is the folder itself. */
static l3a_pictures *find(const char *names) {
    const char *paths[8];
    char copy[256], *rest = copy;
    size_t count = 0;
    l3a_pictures *pictures = NULL;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name; (name = strsep(&rest, " "));) {
        paths[count++] = name[0] ? path_in(folder, name) : strdup(folder);
    }
    assert_ok(context, l3a_pictures_find(context, paths, count, &pictures));
    for (size_t i = 0; i < count; i++) {
        free((char *)paths[i]);
    }
    return pictures;
}

static const char *below(const char *path) {
    return strncmp(path, folder, strlen(folder)) == 0 ? path + strlen(folder) + 1 : path;
}

/* Pictures, and files skipped with their reasons, each separated by "|". */
static void assert_found(const char *names, const char *expected, const char *expected_skips, size_t others) {
    l3a_pictures *pictures = find(names);
    char text[2048] = "", skips[2048] = "";
    for (size_t i = 0; i < l3a_pictures_count(pictures); i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "|" : "", below(l3a_pictures_path(pictures, i)));
    }
    for (size_t i = 0; l3a_pictures_skipped(pictures, i); i++) {
        snprintf(skips + strlen(skips), sizeof skips - strlen(skips), "%s%s: %s", i ? "|" : "",
                 below(l3a_pictures_skipped(pictures, i)), l3a_pictures_reason(pictures, i));
    }
    assert_string_equal(text, expected);
    assert_string_equal(skips, expected_skips);
    assert_int_equal(l3a_pictures_others(pictures), others);
    assert_null(l3a_pictures_path(pictures, l3a_pictures_count(pictures)));
    l3a_pictures_free(pictures);
}

static void folders_are_searched_and_sorted(void **state) {
    (void)state;
    put("b/two.jpg", JPEG);
    put("b/deep/er/three.PNG", PNG);
    put("b/deep/er/notes.txt", "no picture");
    put("a.jpg", JPEG);
    put("Urlaub in K\xC3\xB6ln/Oma's \"Garten\".jpg", JPEG);
    put("no ending", PNG);
    put("line\nbreak.jpg", JPEG);
    assert_found("", "Urlaub in K\xC3\xB6ln/Oma's \"Garten\".jpg|a.jpg|b/deep/er/three.PNG|b/two.jpg|line\nbreak.jpg|no ending", "",
                 1);
    assert_found("b/", "b/deep/er/three.PNG|b/two.jpg", "", 1);
    assert_found("b/two.jpg a.jpg", "b/two.jpg|a.jpg", "", 0);
    assert_true(events > 4);
}

static void what_is_hidden_is_left_out_unless_it_is_named(void **state) {
    (void)state;
    put(".trash/a.jpg", JPEG);
    put("x/.b.jpg", JPEG);
    put("x/@eaDir/c.jpg", JPEG);
    put("x/d.jpg", JPEG);
    assert_found("", "x/d.jpg", "", 0);
    assert_found(".trash x/.b.jpg", ".trash/a.jpg|x/.b.jpg", "", 0);
}

static void files_that_are_no_pictures_are_listed_where_somebody_expects_one(void **state) {
    (void)state;
    put("x/Thumbs.db", "");
    put("x/a.xmp", "<?xml version=\"1.0\"?>");
    put("x/broken.JPEG", "<html>");
    put("x/empty.png", "");
    put("x/fine.txt", JPEG);
    put("notes.txt", "remember");
    assert_found("x", "x/fine.txt", "x/broken.JPEG: this is a web page, not a picture|x/empty.png: the file is empty", 2);
    assert_found("notes.txt x/fine.txt missing.jpg", "x/fine.txt",
                 "notes.txt: this is a text, not a picture|missing.jpg: cannot open: No such file or directory", 0);
    put("none/.nothing", "");
    assert_found("none", "", "", 0);
    char *pipe = path_in(folder, "x/pipe.jpg");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    free(pipe);
    assert_found("x/pipe.jpg", "", "x/pipe.jpg: is neither a file nor a folder", 0);
    assert_found("x", "x/fine.txt", "x/broken.JPEG: this is a web page, not a picture|x/empty.png: the file is empty", 3);
}

static void links_are_followed_and_loops_end(void **state) {
    (void)state;
    put("x/real/a.jpg", JPEG);
    put("away/b.jpg", JPEG);
    link_to("..", "x/a loop");
    link_to(".", "x/real/self");
    link_to("real", "x/alias");
    link_to("../away", "x/out");
    link_to("../away/b.jpg", "x/b link.jpg");
    link_to("nowhere", "x/z.jpg");
    link_to("circle", "x/circle");
    assert_found("x", "x/b link.jpg|x/out/b.jpg|x/real/a.jpg",
                 "x/circle: cannot open: Too many levels of symbolic links|x/z.jpg: cannot open: No such file or directory", 0);
    assert_found("x/real away", "x/real/a.jpg|away/b.jpg", "", 0);
}

static void a_path_is_listed_once(void **state) {
    (void)state;
    put("x/y/a.jpg", JPEG);
    put("x/y/b.jpg", JPEG);
    assert_found("x/y/b.jpg x x/y x/y/a.jpg x/y/b.jpg", "x/y/b.jpg|x/y/a.jpg", "", 0);
}

static void names_that_are_not_utf8_are_skipped(void **state) {
    (void)state;
    put("x/a\xE4.jpg", JPEG);
    put("x/b.jpg", JPEG);
    put("x/c\xFC/d.jpg", JPEG);
    assert_found("x", "x/b.jpg", "x/a\xE4.jpg: the name is not UTF-8; rename it|x/c\xFC/d.jpg: the name is not UTF-8; rename it",
                 0);
}

static int refuse_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    if (strstr(path, "private")) {
        errno = EACCES;
        return -1;
    }
    return posix_files.list(path, each, user);
}

static ssize_t refuse_read(int file, void *bytes, size_t count, off_t offset) {
    (void)file;
    (void)bytes;
    (void)count;
    (void)offset;
    errno = EIO;
    return -1;
}

static void what_cannot_be_read_does_not_stop_the_rest(void **state) {
    (void)state;
    put("x/private/a.jpg", JPEG);
    put("x/public/b.jpg", JPEG);
    tampered.list = refuse_list;
    context->files = &tampered;
    assert_found("x", "x/public/b.jpg", "x/private: cannot list this folder: Permission denied", 0);
    tampered.read = refuse_read;
    assert_found("x/public", "", "x/public/b.jpg: cannot read: Input/output error", 0);
    tampered = posix_files;
    context->files = &posix_files;
}

static void a_search_can_be_cancelled(void **state) {
    (void)state;
    const char *const path = folder;
    l3a_pictures *pictures = NULL;
    put("x/a.jpg", JPEG);
    stop = true;
    assert_int_equal(l3a_pictures_find(context, &path, 1, &pictures), L3A_ERROR_CANCELLED);
    assert_null(pictures);
}

/* Many folders, so that the set of folders grows several times, and each of them links to all. */
static void many_folders_are_searched_once(void **state) {
    (void)state;
    enum { FOLDERS = 300 };
    char name[64];
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(name, sizeof name, "x/%03d/a.jpg", i);
        put(name, JPEG);
        snprintf(name, sizeof name, "x/%03d/all", i);
        link_to("..", name);
    }
    l3a_pictures *pictures = find("");
    assert_int_equal(l3a_pictures_count(pictures), FOLDERS);
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(name, sizeof name, "x/%03d/a.jpg", i);
        assert_string_equal(below(l3a_pictures_path(pictures, (size_t)i)), name);
    }
    l3a_pictures_free(pictures);
}

static l3a_status find_thrice(l3a_context *poor, void *argument) {
    const char *const paths[] = {argument, "/nowhere at all", argument};
    l3a_pictures *pictures = NULL;
    const l3a_status status = l3a_pictures_find(poor, paths, 3, &pictures);
    assert_true((status == L3A_OK) == (pictures != NULL));
    l3a_pictures_free(pictures);
    return status;
}

static void an_allocation_that_fails_loses_nothing(void **state) {
    (void)state;
    put("x/a.jpg", JPEG);
    put("x/y/b.jpg", "");
    link_to("..", "x/y/up");
    assert_true(fail_each_allocation(find_thrice, folder) >= 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, close_fixture)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(folders_are_searched_and_sorted),
        TEST(what_is_hidden_is_left_out_unless_it_is_named),
        TEST(files_that_are_no_pictures_are_listed_where_somebody_expects_one),
        TEST(links_are_followed_and_loops_end),
        TEST(a_path_is_listed_once),
        TEST(names_that_are_not_utf8_are_skipped),
        TEST(what_cannot_be_read_does_not_stop_the_rest),
        TEST(a_search_can_be_cancelled),
        TEST(many_folders_are_searched_once),
        TEST(an_allocation_that_fails_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
