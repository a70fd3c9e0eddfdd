/* Changes in folders are noticed: told by the system, or by looking again where it does not tell. The time-outs are there for
 * failures alone; a test that passes does not wait for them. */
#include "support.h"

#include "base/memory.h"
#include "data/watch.h"
#include "data/watch_tree.h"
#include "fixture.h"
#include "memory_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double patience = 120, never = 1e9, soon = 0.05;
static struct watch *watch;
static struct watch_calls answers;
static const struct watch_calls *real_calls;
static size_t left; /* of the system's watches */
static text_list
    reported; /* since the last reset: "path", or "path/..." where all below may have changed; relative to the folder */
static bool overflowed;

static int set_up(void **state) {
    open_fixture(state);
    real_calls = watch_calls;
    answers = *watch_calls;
    overflowed = false;
    return 0;
}

static int clean_up(void **state) {
    watch_close(watch);
    watch = NULL;
    watch_calls = real_calls;
    text_list_clear(context, &reported);
    return close_fixture(state);
}

/* Names are relative to the folder; "" is the folder itself. */
static char *path_of(const char *name) {
    return name[0] ? path_in(folder, name) : strdup(folder);
}

static void open_watch(const char *name, double poll_seconds) {
    char *path = path_of(name);
    assert_ok(context, watch_open(context, (const char *const[]){path}, 1, poll_seconds, &watch));
    free(path);
}

static void make(const char *name) {
    char *path = path_of(name);
    assert_int_equal(mkdir(path, 0700), 0);
    free(path);
}

static void move(const char *from, const char *to) {
    char *old = path_of(from), *new = path_of(to);
    assert_int_equal(rename(old, new), 0);
    free(old);
    free(new);
}

static void drop(const char *name) {
    char *path = path_of(name);
    assert_int_equal(remove(path), 0);
    free(path);
}

static void link_to(const char *target, const char *name) {
    char *path = path_of(name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

/* Keeps what one call reports; it is sorted, absolute, and includes nothing twice. Returns whether there was anything. */
static bool take_report(double seconds) {
    bool changed = false, lost = false, below;
    const char *path, *before = "";
    assert_ok(context, watch_next(watch, seconds, &changed, &lost));
    overflowed = overflowed || lost;
    for (size_t i = 0; (path = watch_folder(watch, i, &below)); i++) {
        char text[4200];
        assert_true(strcmp(before, path) < 0);
        assert_memory_equal(path, folder, strlen(folder));
        before = path;
        path += strlen(folder);
        path += *path == '/';
        snprintf(text, sizeof text, "%s%s", path, !below ? "" : *path ? "/..." : "...");
        assert_ok(context, text_list_add(context, &reported, text, strlen(text)));
    }
    assert_true(changed == (watch_folder(watch, 0, NULL) != NULL));
    return changed;
}

static bool was_reported(const char *text) {
    return text_list_find(&reported, text) < reported.count;
}

/* Waits until all of these, separated by "|", have been reported since the last call. What the system has told already is there
 * without a wait; one wait may bring them one by one. */
static void expect(const char *names) {
    char copy[512], *rest = copy;
    text_list_clear(context, &reported);
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name; (name = strsep(&rest, "|"));) {
        while (!was_reported(name)) {
            if (!take_report(0) && !take_report(patience)) {
                fail_msg("'%s' was not reported, of '%s'", name, names);
            }
        }
    }
}

/* Nothing more is said of what has happened so far. */
static void settle(void) {
    while (take_report(0)) {
    }
    text_list_clear(context, &reported);
}

/* ---- Files ---------------------------------------------------------------------------------------------------------- */
static void files_are_reported(void **state) {
    (void)state;
    put("a.jpg", "old");
    put("deep/er/b.jpg", "old");
    open_watch("", never);
    assert_false(take_report(soon));
    assert_false(watch_is_polled(watch, 0));
    put("new.jpg", "new");
    expect("");
    put("deep/er/b.jpg", "changed");
    expect("deep/er");
    settle();
    move("a.jpg", "deep/a.jpg");
    expect("|deep");
    settle();
    drop("deep/a.jpg");
    expect("deep");
    settle();
    assert_null(watch_folder(watch, 0, NULL));
}

static void a_file_is_reported_once_it_is_closed(void **state) {
    (void)state;
    open_watch("", never);
    char *path = path_of("slow.jpg");
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    free(path);
    assert_true(file >= 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(write(file, "part", 4), 4);
        assert_false(take_report(soon));
    }
    close(file);
    expect("");
    settle();
}

static void files_from_elsewhere(void **state) {
    (void)state;
    make("in");
    put("out/a.jpg", "a");
    put("out/b/c.jpg", "c");
    open_watch("in", never);
    move("out/a.jpg", "in/a.jpg");
    expect("in");
    settle();
    move("in/a.jpg", "out/a.jpg");
    expect("in");
    settle();
    char *from = path_of("out/a.jpg"), *to = path_of("in/hard.jpg");
    assert_int_equal(link(from, to), 0);
    expect("in");
    settle();
    link_to("../out/a.jpg", "in/soft.jpg");
    expect("in");
    settle();
    put("out/a.jpg", "what is outside is not watched");
    move("out/b", "in/b");
    expect("in/b/...");
    settle();
    put("in/b/d.jpg", "d");
    expect("in/b");
    settle();
    move("in/b", "out/b");
    expect("in/b/...");
    settle();
    put("out/b/e.jpg", "e");
    assert_false(take_report(soon));
    free(from);
    free(to);
}

static void hidden_files_and_folders_are_left_out(void **state) {
    (void)state;
    put(".hidden/a.jpg", "a");
    put("x/@eaDir/a.jpg", "a");
    open_watch("", never);
    put(".hidden/b.jpg", "b");
    put("x/@eaDir/b.jpg", "b");
    put(".c.jpg", "c");
    put("x/.d/e.jpg", "e");
    move("x/.d/e.jpg", "x/.e.jpg");
    assert_false(take_report(soon));
    move(".c.jpg", "c.jpg");
    expect("");
}

/* ---- Folders -------------------------------------------------------------------------------------------------------- */
/* Files that were in a new folder before it was watched are found by whoever looks at all below it. */
static void new_folders_are_watched(void **state) {
    (void)state;
    open_watch("", never);
    put("one/two/three/a.jpg", "a");
    expect("one/...");
    settle();
    put("one/two/three/b.jpg", "b");
    expect("one/two/three");
    settle();
    for (size_t i = 0; i < 200; i++) {
        char name[64];
        snprintf(name, sizeof name, "many/%zu/deep/a.jpg", i);
        put(name, "a");
        if (i % 50 == 0) {
            take_report(0);
        }
    }
    settle();
    for (size_t i = 0; i < 200; i++) {
        char name[80], deep[64];
        snprintf(deep, sizeof deep, "many/%zu/deep", i);
        snprintf(name, sizeof name, "%s/b.jpg", deep);
        put(name, "b");
        if (i % 40 == 0) {
            expect(deep);
        }
    }
    settle();
}

static void folders_that_are_moved_or_removed(void **state) {
    (void)state;
    put("a/b/c.jpg", "c");
    open_watch("", never);
    move("a/b", "d");
    expect("a/b/...|d/...");
    settle();
    put("d/e.jpg", "e");
    expect("d");
    settle();
    assert_false(was_reported("a/b"));
    put("a/b/new.jpg", "another folder of this name");
    expect("a/b/...");
    settle();
    put("a/b/newer.jpg", "newer");
    expect("a/b");
    settle();
    drop("a/b/new.jpg");
    drop("a/b/newer.jpg");
    drop("a/b");
    expect("a/b/...");
    settle();
    make("a/b");
    expect("a/b/...");
    settle();
    put("a/b/c.jpg", "c");
    expect("a/b");
}

/* Nothing tells that a folder has come into one that was not watched yet. */
static void a_folder_that_is_moved_into_a_new_one(void **state) {
    (void)state;
    put("a/b/c/d.jpg", "d");
    open_watch("", never);
    make("new");
    move("a/b", "new/b");
    expect("a/b/...|new/...");
    settle();
    put("new/b/c/e.jpg", "e");
    expect("new/b/c");
    settle();
    put("new/b/f.jpg", "f");
    expect("new/b");
    settle();
}

static void links_are_followed(void **state) {
    (void)state;
    put("away/a.jpg", "a");
    put("in/real/a.jpg", "a");
    link_to("../away", "in/link");
    link_to("..", "in/real/loop");
    link_to("real", "in/alias");
    open_watch("in", never);
    put("away/b.jpg", "b");
    expect("in/link");
    settle();
    put("in/real/b.jpg", "b");
    expect("in/real");
    settle();
    drop("in/link");
    expect("in/link/...");
    settle();
    put("away/c.jpg", "c");
    assert_false(take_report(soon));
    link_to("../away", "in/again");
    expect("in/again/...");
    settle();
    put("away/d.jpg", "d");
    expect("in/again");
    settle();
    move("away", "moved");
    expect("in/again/...");
}

/* What is reported with all below it is not reported again by itself. */
static void reports_are_short(void **state) {
    (void)state;
    put("a/b/c.jpg", "c");
    put("a-b/c.jpg", "c");
    open_watch("", never);
    put("a/b/d.jpg", "d");
    put("a-b/d.jpg", "d");
    move("a", "z");
    move("z", "a");
    put("a/b/e.jpg", "e");
    expect("a/...|a-b");
    settle();
    put("a/f.jpg", "f");
    put("a-b/f.jpg", "f");
    put("a/b/f.jpg", "f");
    put("g.jpg", "g");
    assert_true(take_report(patience)); /* which waits for more */
    assert_true(was_reported("") && was_reported("a") && was_reported("a/b") && was_reported("a-b"));
    assert_int_equal(reported.count, 4);
}

static void several_folders(void **state) {
    (void)state;
    char here[4096];
    put("a/1.jpg", "1");
    put("b/c/1.jpg", "1");
    char *a = path_of("a/"), *c = path_of("b/c");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_ok(context, watch_open(context, (const char *const[]){a, "b///", c}, 3, never, &watch));
    assert_int_equal(chdir(here), 0);
    put("a/2.jpg", "2");
    expect("a");
    put("b/2.jpg", "2");
    expect("b");
    put("b/c/2.jpg", "2");
    expect("b/c");
    free(a);
    free(c);
}

/* ---- Folders that come and go --------------------------------------------------------------------------------------- */
static void a_folder_that_is_missing_is_waited_for(void **state) {
    (void)state;
    open_watch("disk", soon);
    put("disk/a.jpg", "a");
    expect("disk/...");
    settle();
    put("disk/b.jpg", "b");
    expect("disk");
    settle();
    move("disk", "unplugged");
    expect("disk/...");
    settle();
    put("unplugged/c.jpg", "c");
    assert_false(take_report(3 * soon));
    move("unplugged", "disk");
    expect("disk/...");
    settle();
    put("disk/sub/d.jpg", "d");
    expect("disk/sub/...");
    settle();
    move("disk", "other"); /* another one at once */
    text_list_clear(context, &reported);
    do { /* first the end of the one, then the other, and at last what is in it */
        put("disk/e.jpg", "e");
        assert_true(take_report(patience));
    } while (!was_reported("disk"));
}

/* Runs where the process may mount something, in a process of its own. Returns 77 where it may not; otherwise the number of the
 * check that failed, or 0. */
static int mount_and_watch(void) {
    const uid_t user = getuid();
    if (unshare(CLONE_NEWNS)) {
        char map[64];
        snprintf(map, sizeof map, "0 %u 1", (unsigned)user);
        const int file = unshare(CLONE_NEWUSER | CLONE_NEWNS) ? -1 : open("/proc/self/uid_map", O_WRONLY);
        if (file < 0 || write(file, map, strlen(map)) < 0) {
            return 77;
        }
        close(file);
    }
    char *disk = path_of("x/disk");
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", disk, "tmpfs", 0, NULL)) {
        return 77;
    }
    put("x/disk/sub/a.jpg", "a");
    open_watch("", never);
    put("x/disk/sub/b.jpg", "b");
    expect("x/disk/sub");
    settle();
    if (umount(disk)) {
        return 1;
    }
    expect("x/disk/...");
    settle();
    put("x/disk/below.jpg", "on the disk that was below");
    expect("x/disk");
    settle();
    if (mount("none", disk, "tmpfs", 0, NULL)) {
        return 2;
    }
    expect("x/disk/...");
    settle();
    put("x/disk/c.jpg", "c");
    expect("x/disk");
    settle();
    umount2(disk, MNT_DETACH);
    free(disk);
    return 0;
}

static void disks_are_mounted_and_unmounted(void **state) {
    (void)state;
    int code;
    make("x");
    make("x/disk");
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        _exit(mount_and_watch());
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    if (WEXITSTATUS(code) == 77) {
        printf("skipped: this process may not mount file systems\n");
    } else {
        assert_int_equal(WEXITSTATUS(code), 0);
    }
}

/* ---- What the system does not tell ---------------------------------------------------------------------------------- */
static void lost_changes(void **state) {
    (void)state;
    unsigned long most = 0;
    FILE *setting = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    if (!setting || fscanf(setting, "%lu", &most) != 1 || most > 1 << 18) {
        most = 0;
    }
    if (setting) {
        fclose(setting);
    }
    if (!most) {
        printf("skipped: the system queues too many events to make it lose some\n");
        return;
    }
    put("x/a.jpg", "a");
    open_watch("", never);
    for (size_t i = 0; i < most / 4 + 10; i++) {
        move("x/a.jpg", "x/b.jpg");
        move("x/b.jpg", "x/a.jpg");
    }
    put("late/a.jpg", "nobody tells of this one");
    expect("...");
    assert_true(overflowed);
    settle();
    overflowed = false;
    put("late/b.jpg", "b");
    expect("late");
    settle();
    assert_false(overflowed);
}

static void expect_polling(void) {
    assert_true(watch_is_polled(watch, 0));
    expect("...");
    text_list_clear(context, &reported);
    expect("...");
    assert_false(overflowed);
}

static void polling_by_choice(void **state) {
    (void)state;
    put("x/a.jpg", "a");
    open_watch("", soon);
    watch_poll_only(watch);
    expect_polling();
    move("x", "y");
    expect_polling();
}

static int64_t kind_of_file_system;
static const char *kind_below;

static int tell_kind(const char *path, int64_t *kind) {
    const size_t length = strlen(path), part = strlen(kind_below);
    *kind = length >= part && strcmp(path + length - part, kind_below) == 0 ? kind_of_file_system : 0xEF53;
    return 0;
}

static void file_systems_that_do_not_tell(void **state) {
    (void)state;
    static const int64_t kinds[] = {0x6969, 0xFF534D42, 0xFE534D42, 0x517B, 0x65735546, 0x01021997};
    answers.file_system = tell_kind;
    watch_calls = &answers;
    kind_below = "";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kind_of_file_system = kinds[i];
        open_watch("", soon);
        expect_polling();
        watch_close(watch);
    }
    kind_below = "elsewhere";
    open_watch("", never);
    assert_false(watch_is_polled(watch, 0));
    put("a.jpg", "a");
    expect("");
}

static int add_if_any_left(int inotify, const char *path, uint32_t events) {
    if (!left) {
        errno = ENOSPC;
        return -1;
    }
    left--;
    return real_calls->add(inotify, path, events);
}

static void the_limit_of_watches(void **state) {
    (void)state;
    answers.add = add_if_any_left;
    watch_calls = &answers;
    put("a/1.jpg", "1");
    put("b/1.jpg", "1");
    for (size_t i = 0; i < 3; i++) {
        left = i;
        keep_warnings();
        open_watch("", soon);
        expect_polling();
        assert_non_null(strstr(warnings, "sysctl fs.inotify.max_user_watches="));
        assert_ptr_equal(strchr(warnings, '\n'), warnings + strlen(warnings) - 1);
        watch_close(watch);
    }
    left = 3;
    keep_warnings();
    open_watch("", soon);
    assert_false(watch_is_polled(watch, 0));
    assert_string_equal(warnings, "");
    put("c/1.jpg", "1"); /* one too many */
    expect("...");
    expect_polling();
    assert_non_null(strstr(warnings, "max_user_watches"));
}

static int open_none(int flags) {
    (void)flags;
    errno = EMFILE;
    return -1;
}

static void the_limit_of_programs(void **state) {
    (void)state;
    answers.open = open_none;
    watch_calls = &answers;
    keep_warnings();
    open_watch("", soon);
    expect_polling();
    assert_non_null(strstr(warnings, "sysctl fs.inotify.max_user_instances="));
    drop("");
    expect("...");
    make("");
    expect_polling();
}

/* ---- Stopping and failing ------------------------------------------------------------------------------------------- */
static void *stop_watch(void *argument) {
    usleep(20000);
    watch_stop(argument);
    return NULL;
}

static void stopping(void **state) {
    (void)state;
    pthread_t thread;
    open_watch("", never);
    assert_int_equal(pthread_create(&thread, NULL, stop_watch, watch), 0);
    assert_false(take_report(never));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(take_report(never));
    watch_stop(watch);
    assert_false(take_report(never));
    watch_close(NULL);
}

static l3a_status watch_with_little_memory(l3a_context *scarce, void *argument) {
    struct watch *scarce_watch = NULL;
    bool changed = false, lost;
    l3a_status status = L3A_OK;
    char *from = path_of("a/b"), *to = path_of("a/c");
    (void)argument;
    TRY(watch_open(scarce, (const char *const[]){folder}, 1, never, &scarce_watch));
    assert_int_equal(rename(from, to), 0);
    put("a/x.jpg", "x");
    status = watch_next(scarce_watch, 0, &changed, &lost);
    assert_int_equal(rename(to, from), 0);
    assert_true(status != L3A_OK || changed);
done:
    watch_close(scarce_watch);
    free(from);
    free(to);
    return status;
}

static void little_memory(void **state) {
    (void)state;
    put("a/b/c.jpg", "c");
    link_to("a", "link");
    assert_true(fail_each_allocation(watch_with_little_memory, NULL) > 20);
}

static void wrong_arguments(void **state) {
    (void)state;
    assert_fails(context, watch_open(context, NULL, 0, 0, &watch), L3A_ERROR_ARGUMENT, "every 0 seconds");
    assert_ok(context, watch_open(context, NULL, 0, 1, &watch));
    assert_false(take_report(soon));
    assert_false(watch_is_polled(watch, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, clean_up)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(files_are_reported),
        TEST(a_file_is_reported_once_it_is_closed),
        TEST(files_from_elsewhere),
        TEST(hidden_files_and_folders_are_left_out),
        TEST(new_folders_are_watched),
        TEST(folders_that_are_moved_or_removed),
        TEST(a_folder_that_is_moved_into_a_new_one),
        TEST(links_are_followed),
        TEST(reports_are_short),
        TEST(several_folders),
        TEST(a_folder_that_is_missing_is_waited_for),
        TEST(disks_are_mounted_and_unmounted),
        TEST(lost_changes),
        TEST(polling_by_choice),
        TEST(file_systems_that_do_not_tell),
        TEST(the_limit_of_watches),
        TEST(the_limit_of_programs),
        TEST(stopping),
        TEST(little_memory),
        TEST(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
