/* Inputs, outputs and locks (file.c, output.c, lock.c): what is refused, what is kept, and what two processes see. */
#include "support.h"

#include "base/file.h"
#include "base/memory.h"
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 1024 };

static char paths[16][PATH];

/* "folder/name", in one of sixteen buffers that are used in turn. */
static const char *in(const char *name) {
    static size_t next;
    char *path = paths[next++ % 16];
    snprintf(path, PATH, "%s/%s", folder, name);
    return path;
}

static int prepare(void **state) {
    umask(022);
    return open_fixture(state);
}

static void holds(const char *name, const char *text) {
    size_t size;
    char *bytes = read_bytes(in(name), &size);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static mode_t mode_of(const char *name) {
    struct stat about;
    assert_int_equal(lstat(in(name), &about), 0);
    return about.st_mode;
}

static size_t count_files(void) {
    size_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(entries);
    return count;
}

static l3a_status save(const char *name, const char *text) {
    return write_whole(context, in(name), text, strlen(text));
}

/* ---- What is not a regular file ---- */

static void make_socket(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int file = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in(name));
    assert_int_equal(bind(file, (struct sockaddr *)&address, sizeof address), 0);
    close(file);
}

static void test_odd_outputs(void **state) {
    (void)state;
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    assert_int_equal(mkdir(in("inner"), 0700), 0);
    make_socket("socket");
    /* Create a device if permitted: a user who may could otherwise lose /dev/null to a bug that this test is meant to find. */
    const bool own = mknod(in("device"), S_IFCHR | 0600, makedev(1, 3)) == 0;
    const char *device = own ? in("device") : "/dev/null";
    if (!own && geteuid() == 0) {
        skip();
    }
    assert_int_equal(symlink(device, in("link")), 0);
    assert_fails(context, save("pipe", "new"), L3A_ERROR_IO, "is a pipe");
    assert_fails(context, save("inner", "new"), L3A_ERROR_IO, "is a folder");
    assert_fails(context, save("inner/", "new"), L3A_ERROR_IO, "is a folder");
    assert_fails(context, save("socket", "new"), L3A_ERROR_IO, "is a socket");
    assert_fails(context, save("link", "new"), L3A_ERROR_IO, "is a device");
    assert_fails(context, write_whole(context, device, "new", 3), L3A_ERROR_IO, "is a device");
    assert_non_null(strstr(l3a_error_hint(context), "name a regular file"));
    assert_fails(context, save("new/", "new"), L3A_ERROR_IO, "cannot write");
    assert_fails(context, write_whole(context, "", "new", 3), L3A_ERROR_NOT_FOUND, "cannot write");
    assert_fails(context, save("none/new", "new"), L3A_ERROR_NOT_FOUND, "none/new: cannot write");
    assert_fails(context, write_new(context, in("pipe"), "new", 3), L3A_ERROR_IO, "cannot create");
    assert_true(S_ISFIFO(mode_of("pipe")) && S_ISDIR(mode_of("inner")) && S_ISSOCK(mode_of("socket")) && S_ISLNK(mode_of("link")));
    assert_int_equal(count_files(), 4 + own);
}

/* If opening waited for the other end of the pipe, this would hang. */
static void test_odd_inputs(void **state) {
    (void)state;
    char *text;
    size_t length;
    bool exists = false;
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    make_socket("socket");
    assert_fails(context, read_whole(context, in("pipe"), 100, &text, &length), L3A_ERROR_IO, "not a regular file");
    assert_fails(context, read_whole(context, in("socket"), 100, &text, &length), L3A_ERROR_IO, "not a regular file");
    assert_fails(context, read_whole(context, "/dev/zero", 100, &text, &length), L3A_ERROR_IO, "not a regular file");
    assert_fails(context, read_whole(context, folder, 100, &text, &length), L3A_ERROR_IO, "Is a directory");
    assert_ok(context, file_exists(context, in("pipe"), &exists));
    assert_true(exists);
}

/* ---- Links ---- */

static void test_links(void **state) {
    (void)state;
    assert_int_equal(mkdir(in("inner"), 0700), 0);
    put("inner/real", "old");
    assert_int_equal(symlink("inner/real", in("one")), 0);
    assert_int_equal(symlink(in("one"), in("two")), 0);
    assert_ok(context, save("two", "new"));
    holds("inner/real", "new");
    assert_ok(context, save("one", "newer"));
    holds("inner/real", "newer");
    assert_true(S_ISLNK(mode_of("one")) && S_ISLNK(mode_of("two")) && S_ISREG(mode_of("inner/real")));
}

static void test_dangling_links(void **state) {
    (void)state;
    assert_int_equal(symlink("later", in("link")), 0);
    assert_ok(context, save("link", "new"));
    holds("later", "new");
    assert_true(S_ISLNK(mode_of("link")) && S_ISREG(mode_of("later")));
    assert_int_equal(symlink("none/later", in("far")), 0);
    assert_fails(context, save("far", "new"), L3A_ERROR_NOT_FOUND, "far: cannot write");
    assert_int_equal(symlink("round", in("round")), 0);
    assert_fails(context, save("round", "new"), L3A_ERROR_IO, "round: cannot write");
    assert_int_equal(count_files(), 4);
}

/* Streams such as /dev/stdout: the file behind one may be open for appending, or already removed. */
static void test_open_streams(void **state) {
    (void)state;
    static const char *const forms[] = {"/proc/self/fd/%d", "/dev/fd/%d"};
    put("file", "old");
    const int file = open(in("file"), O_RDWR);
    for (size_t i = 0; i < 2; i++) {
        char stream[64];
        snprintf(stream, sizeof stream, forms[i], file);
        assert_fails(context, write_whole(context, stream, "new", 3), L3A_ERROR_IO, "is an open stream");
        assert_int_equal(symlink(stream, in("link")), 0);
        assert_fails(context, save("link", "new"), L3A_ERROR_IO, "is an open stream");
        unlink(in("link"));
    }
    close(file);
    holds("file", "old");
    assert_int_equal(count_files(), 1);
}

/* ---- Modes ---- */

static file_operations tampered;
static mode_t widest;

static int watched_open(const char *path, int flags, mode_t mode) {
    const int file = posix_files.open(path, flags, mode);
    struct stat about;
    if (file >= 0 && (flags & O_CREAT) && fstat(file, &about) == 0) {
        widest |= about.st_mode & 0777;
    }
    return file;
}

static void test_modes(void **state) {
    (void)state;
    tampered = posix_files;
    tampered.open = watched_open;
    context->files = &tampered;
    static const mode_t modes[] = {0600, 0640, 0444, 0664, 0755};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        put("file", "old");
        assert_int_equal(chmod(in("file"), modes[i]), 0);
        widest = 0;
        assert_ok(context, save("file", "new"));
        holds("file", "new");
        assert_int_equal(mode_of("file") & 0777, modes[i]);
        assert_int_equal(widest, 0600);
        unlink(in("file"));
    }
    umask(027);
    assert_ok(context, save("new", "new"));
    assert_int_equal(mode_of("new") & 0777, 0640);
}

static uid_t asked_owner;
static gid_t asked_group;

static int note_owner(int file, uid_t owner, gid_t group) {
    (void)file;
    asked_owner = owner;
    asked_group = group;
    return 0;
}

static int refuse_owner(int file, uid_t owner, gid_t group) {
    (void)file;
    (void)owner;
    (void)group;
    errno = EPERM;
    return -1;
}

static int describe_foreign(const char *path, file_description *description) {
    const int done = posix_files.describe(path, description);
    description->owner = 1234;
    description->group = 5678;
    return done;
}

/* The permissions of one group must not apply to another group. */
static void test_owners(void **state) {
    (void)state;
    tampered = posix_files;
    tampered.describe = describe_foreign;
    tampered.set_owner = note_owner;
    context->files = &tampered;
    put("file", "old");
    assert_int_equal(chmod(in("file"), 0664), 0);
    assert_ok(context, save("file", "new"));
    assert_int_equal(asked_owner, 1234);
    assert_int_equal(asked_group, 5678);
    assert_int_equal(mode_of("file") & 0777, 0664);
    tampered.set_owner = refuse_owner;
    assert_ok(context, save("file", "new"));
    assert_int_equal(mode_of("file") & 0777, 0644);
    assert_int_equal(chmod(in("file"), 0660), 0);
    assert_ok(context, save("file", "new"));
    assert_int_equal(mode_of("file") & 0777, 0600);
}

/* ---- Temporary files ---- */

static void test_names_of_others(void **state) {
    (void)state;
    static const char *const names[] = {"file.tmp",
                                        ".file.tmp",
                                        ".file.l3a-tmp",
                                        ".file.0123456789abcde.l3a-tmp",
                                        ".file.0123456789abcdefa.l3a-tmp",
                                        ".file.0123456789ABCDEF.l3a-tmp",
                                        ".file.0123456789abcdef.l3a-tmp~",
                                        ".other.0123456789abcdef.l3a-tmp",
                                        ".file.part.0123456789abcdef.l3a-tmp"};
    enum { NAMES = sizeof names / sizeof names[0] };
    put("victim", "precious");
    assert_int_equal(symlink("victim", in(".file.aaaaaaaaaaaaaaaa.l3a-tmp")), 0);
    assert_int_equal(mkfifo(in(".file.bbbbbbbbbbbbbbbb.l3a-tmp"), 0600), 0);
    put(".file.cccccccccccccccc.l3a-tmp", "stale");
    for (size_t i = 0; i < NAMES; i++) {
        put(names[i], "mine");
    }
    assert_ok(context, save("file", "new"));
    assert_ok(context, save("file", "newer"));
    for (size_t i = 0; i < NAMES; i++) {
        holds(names[i], "mine");
    }
    holds("victim", "precious");
    assert_int_not_equal(access(in(".file.cccccccccccccccc.l3a-tmp"), F_OK), 0);
    assert_int_equal(count_files(), NAMES + 4); /* victim, file, the link and the pipe */
}

static void test_stale_temporaries(void **state) {
    (void)state;
    put(".file.0123456789abcdef.l3a-tmp", "stale");
    put(".file.1123456789abcdef.l3a-tmp", "held");
    const int held = open(in(".file.1123456789abcdef.l3a-tmp"), O_RDWR);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    put(".any.l3a-lock", "");
    put(".mine.l3a-lock", "mine");
    put(".l3a-lock", "");
    assert_ok(context, remove_leftovers(context, folder));
    assert_int_equal(count_files(), 3);
    holds(".mine.l3a-lock", "mine");
    unlink(in(".mine.l3a-lock"));
    unlink(in(".l3a-lock"));
    holds(".file.1123456789abcdef.l3a-tmp", "held");
    close(held);
    assert_ok(context, save("file", "new"));
    assert_int_equal(count_files(), 1);
}

static int refuse_removal(const char *path) {
    (void)path;
    errno = EIO;
    return -1;
}

static int refuse_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    (void)path;
    (void)each;
    (void)user;
    errno = EACCES;
    return -1;
}

/* A temporary file that cannot be found or removed does not prevent writing. */
static void test_stale_temporaries_that_stay(void **state) {
    (void)state;
    put(".file.0123456789abcdef.l3a-tmp", "stale");
    tampered = posix_files;
    tampered.list = refuse_list;
    context->files = &tampered;
    assert_ok(context, save("file", "new"));
    holds("file", "new");
    assert_int_equal(count_files(), 2);
    tampered = posix_files;
    tampered.remove = refuse_removal;
    assert_ok(context, save("file", "newer"));
    holds("file", "newer");
    assert_int_equal(count_files(), 3); /* and the lock file */
    context->files = &posix_files;
    assert_ok(context, save("file", "newest"));
    assert_int_equal(count_files(), 1);
}

/* Two names that begin alike and are too long to be kept whole get different temporary files and locks. */
static void test_long_names(void **state) {
    (void)state;
    char one[256], other[256];
    l3a_lock *lock = NULL;
    memset(one, 'x', 255);
    one[255] = '\0';
    memcpy(other, one, sizeof one);
    other[254] = 'y';
    assert_ok(context, l3a_lock_take(context, in(one), 0, &lock));
    l3a_context *second = make_context(1);
    assert_ok(second, write_whole(second, in(other), "other", 5));
    assert_ok(context, save(one, "one"));
    l3a_lock_free(lock);
    l3a_context_free(second);
    holds(one, "one");
    holds(other, "other");
    assert_int_equal(count_files(), 2);
}

static void test_unwritten_output(void **state) {
    (void)state;
    output_file output;
    put("file", "old");
    assert_ok(context, output_open(context, in("file"), &output));
    assert_ok(context, output_write(&output, 0, "new", 3));
    assert_int_equal(count_files(), 3);
    output_discard(&output);
    holds("file", "old");
    assert_int_equal(count_files(), 1);
}

/* The public output: pieces in order, in one step; the lock is held from the beginning. */
static void test_output_in_pieces(void **state) {
    (void)state;
    l3a_output *output = NULL;
    l3a_context *second = make_context(1);
    put("file", "old");
    assert_int_equal(l3a_output_open(context, in("nowhere/file"), &output), L3A_ERROR_NOT_FOUND);
    assert_null(output);
    assert_ok(context, l3a_output_open(context, in("file"), &output));
    assert_ok(context, l3a_output_write(output, "one ", 4));
    assert_ok(context, l3a_output_write(output, NULL, 0));
    assert_ok(context, l3a_output_write(output, "two", 3));
    holds("file", "old");
    assert_int_equal(l3a_file_write(second, in("file"), "other", 5), L3A_ERROR_STATE);
    assert_ok(context, l3a_output_commit(output));
    holds("file", "one two");
    assert_int_equal(l3a_output_write(output, "more", 4), L3A_ERROR_STATE);
    assert_int_equal(l3a_output_commit(output), L3A_ERROR_STATE);
    l3a_output_free(output);
    assert_ok(context, l3a_output_open(context, in("file"), &output));
    assert_ok(context, l3a_output_write(output, "three", 5));
    l3a_output_free(output);
    l3a_output_free(NULL);
    holds("file", "one two");
    assert_int_equal(count_files(), 1);
    l3a_context_free(second);
}

/* ---- Locks ---- */

/* Another process that holds the lock until it is killed, or told to end through the pipe. */
struct holder {
    pid_t process;
    int ready, end;
};

static void hold(struct holder *holder, const char *name) {
    int ready[2], end[2];
    char byte = 0;
    assert_int_equal(pipe(ready) + pipe(end), 0);
    holder->process = fork();
    assert_true(holder->process >= 0);
    if (!holder->process) {
        l3a_context *own = make_context(1);
        l3a_lock *lock = NULL;
        close(end[1]);
        const bool taken = l3a_lock_take(own, in(name), 0, &lock) == L3A_OK;
        if (taken && write(ready[1], &byte, 1) == 1 && read(end[0], &byte, 1) >= 0) {
            l3a_lock_free(lock);
        }
        _exit(!taken);
    }
    close(ready[1]);
    close(end[0]);
    holder->ready = ready[0];
    holder->end = end[1];
    assert_int_equal(read(holder->ready, &byte, 1), 1);
}

static void let_go(struct holder *holder, bool kill_it) {
    if (kill_it) {
        kill(holder->process, SIGKILL);
    }
    close(holder->end);
    close(holder->ready);
    assert_int_equal(waitpid(holder->process, NULL, 0), holder->process);
}

static void test_lock_of_another_process(void **state) {
    (void)state;
    struct holder holder;
    l3a_lock *lock = NULL;
    assert_int_equal(symlink("file", in("link")), 0);
    hold(&holder, "link"); /* there is no file yet */
    assert_fails(context, l3a_lock_take(context, in("file"), 0, &lock), L3A_ERROR_IO,
                 "file: in use by another process (test_file, pid ");
    assert_non_null(strstr(l3a_error_hint(context), "use the wait option"));
    assert_fails(context, l3a_lock_take(context, in("link"), 0, &lock), L3A_ERROR_IO, "another process");
    assert_fails(context, save("file", "new"), L3A_ERROR_IO, "another process");
    assert_null(lock);
    let_go(&holder, false);
    assert_int_equal(count_files(), 1);
    assert_ok(context, l3a_lock_take(context, in("file"), 0, &lock));
    assert_ok(context, save("file", "new")); /* our own lock is no obstacle, under either name */
    assert_ok(context, save("link", "newer"));
    l3a_lock *again = NULL;
    assert_fails(context, l3a_lock_take(context, in("link"), 1, &again), L3A_ERROR_STATE, "already holds the lock");
    l3a_lock_free(lock);
    l3a_lock_free(NULL);
    holds("file", "newer");
    assert_int_equal(count_files(), 2);
}

static void test_lock_of_a_killed_process(void **state) {
    (void)state;
    struct holder holder;
    l3a_lock *lock = NULL;
    hold(&holder, "file");
    let_go(&holder, true);
    assert_int_equal(count_files(), 1); /* the lock file remains, but does no harm */
    assert_ok(context, l3a_lock_take(context, in("file"), 0, &lock));
    l3a_lock_free(lock);
    assert_int_equal(count_files(), 0);
}

/* The system lists the process that took a lock. If that has ended and its child still holds the lock, nobody is named: the number
 * may be another process by now. */
static void test_lock_that_was_passed_on(void **state) {
    (void)state;
    int ready[2], end[2];
    char byte = 0;
    l3a_lock *lock = NULL;
    assert_int_equal(pipe(ready) + pipe(end), 0);
    const pid_t first = fork();
    assert_true(first >= 0);
    if (!first) {
        l3a_context *own = make_context(1);
        close(end[1]);
        const bool taken = l3a_lock_take(own, in("file"), 0, &lock) == L3A_OK;
        if (taken && fork() == 0 && write(ready[1], &byte, 1) == 1 && read(end[0], &byte, 1) >= 0) {
            l3a_lock_free(lock);
        }
        _exit(!taken);
    }
    close(ready[1]);
    close(end[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(waitpid(first, NULL, 0), first);
    assert_fails(context, l3a_lock_take(context, in("file"), 0, &lock), L3A_ERROR_IO, "file: in use by another process");
    assert_null(strstr(l3a_error_text(context), "pid"));
    close(end[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* the child has ended */
    close(ready[0]);
}

/* A lock file that l3a did not create is never taken and never removed. */
static void test_foreign_lock_file(void **state) {
    (void)state;
    l3a_lock *lock = NULL;
    put("victim", "");
    put(".file.l3a-lock", "mine");
    assert_fails(context, l3a_lock_take(context, in("file"), 1, &lock), L3A_ERROR_IO, "is in the way");
    assert_fails(context, save("file", "new"), L3A_ERROR_IO, ".file.l3a-lock: is in the way");
    holds(".file.l3a-lock", "mine");
    unlink(in(".file.l3a-lock"));
    assert_int_equal(symlink("victim", in(".file.l3a-lock")), 0);
    assert_fails(context, save("file", "new"), L3A_ERROR_IO, "is in the way");
    unlink(in(".file.l3a-lock"));
    assert_int_equal(mkfifo(in(".file.l3a-lock"), 0600), 0);
    assert_fails(context, save("file", "new"), L3A_ERROR_IO, "is in the way");
    assert_int_equal(count_files(), 2);
}

static struct holder waited_for;
static size_t waits, warning_count;

static int end_of_waiting(const l3a_event *event, void *user) {
    warning_count += event->kind == L3A_EVENT_WARNING;
    if (event->kind == L3A_EVENT_PROGRESS && ++waits == 3) {
        if (user) {
            return 1;
        }
        let_go(&waited_for, false);
    }
    return 0;
}

static void wait_with(void *user, l3a_status expected) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *waiting = NULL;
    l3a_lock *lock = NULL;
    options.on_event = end_of_waiting;
    options.event_user = user;
    assert_int_equal(l3a_context_create(&options, &waiting), L3A_OK);
    waits = warning_count = 0;
    assert_int_equal(l3a_lock_take(waiting, in("file"), 1, &lock), expected);
    assert_true(waits >= 3);
    assert_int_equal(warning_count, 1);
    assert_true((lock != NULL) == (expected == L3A_OK));
    l3a_lock_free(lock);
    l3a_context_free(waiting);
}

static void test_waiting(void **state) {
    (void)state;
    hold(&waited_for, "file");
    wait_with(context, L3A_ERROR_CANCELLED);
    assert_int_equal(count_files(), 1); /* the holder's */
    wait_with(NULL, L3A_OK);
    assert_int_equal(count_files(), 0);
}

static int removed_before_locking;

/* The holder removes the lock file and releases the lock between our opening and locking it. */
static int late_lock(int file, const char *path) {
    if (removed_before_locking && removed_before_locking--) {
        posix_files.remove(path);
    }
    return posix_files.lock(file, path);
}

static void test_lock_of_a_removed_file(void **state) {
    (void)state;
    l3a_lock *lock = NULL;
    struct stat about;
    tampered = posix_files;
    tampered.lock = late_lock;
    context->files = &tampered;
    removed_before_locking = 3;
    assert_ok(context, l3a_lock_take(context, in("file"), 0, &lock));
    assert_int_equal(removed_before_locking, 0);
    assert_int_equal(stat(in(".file.l3a-lock"), &about), 0); /* the lock is on a file that other processes find */
    l3a_context *other = make_context(1);
    l3a_lock *second = NULL;
    assert_fails(other, l3a_lock_take(other, in("file"), 0, &second), L3A_ERROR_STATE, "this process is already changing");
    l3a_context_free(other);
    l3a_lock_free(lock);
    assert_int_equal(count_files(), 0);
}

static void *take_in_thread(void *user) {
    l3a_context *own = make_context(1);
    l3a_lock *lock = NULL;
    *(l3a_status *)user = l3a_lock_take(own, in("file"), 1, &lock);
    l3a_lock_free(lock);
    l3a_context_free(own);
    return NULL;
}

/* Nobody waits for a lock that the own process holds: not with another context, not on another thread, not after a fork. */
static void test_lock_of_this_process(void **state) {
    (void)state;
    l3a_context *other = make_context(1);
    l3a_lock *lock = NULL, *second = NULL;
    l3a_status status = L3A_OK;
    pthread_t thread;
    int ended = 0;
    assert_ok(context, l3a_lock_take(context, in("file"), 1, &lock));
    assert_fails(other, l3a_lock_take(other, in("file"), 1, &second), L3A_ERROR_STATE,
                 "this process is already changing this file");
    assert_non_null(strstr(l3a_error_hint(other), "same tagger"));
    assert_int_equal(pthread_create(&thread, NULL, take_in_thread, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, L3A_ERROR_STATE);
    const pid_t child = fork();
    if (!child) {
        _exit(l3a_lock_take(other, in("file"), 1, &second) != L3A_ERROR_STATE);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    l3a_lock_free(lock);
    assert_ok(other, l3a_lock_take(other, in("file"), 1, &second));
    l3a_lock_free(second);
    l3a_context_free(other);
    assert_int_equal(count_files(), 0);
}

/* Somebody removes the lock file of a process that goes on. */
static void test_lock_file_that_disappears(void **state) {
    (void)state;
    struct holder holder;
    l3a_lock *lock = NULL;
    bool held = false;
    assert_ok(context, l3a_lock_take(context, in("file"), 0, &lock));
    unlink(in(".file.l3a-lock"));
    assert_ok(context, lock_is_held(context, in("file"), &held)); /* locks again */
    assert_true(held);
    assert_int_equal(access(in(".file.l3a-lock"), F_OK), 0);
    assert_ok(context, save("file", "new"));
    unlink(in(".file.l3a-lock"));
    hold(&holder, "file"); /* another process was faster */
    assert_fails(context, save("file", "newer"), L3A_ERROR_IO,
                 "the lock file was removed, and the file is now in use by another process (test_file, pid ");
    l3a_lock_free(lock);
    assert_int_equal(access(in(".file.l3a-lock"), F_OK), 0); /* theirs stays */
    assert_fails(context, save("file", "newer"), L3A_ERROR_IO, "another process");
    let_go(&holder, false);
    assert_ok(context, save("file", "newest"));
    assert_int_equal(count_files(), 1);
}

/* Many processes read a number, add 1 and write it: no update is lost. */
static void test_no_lost_update(void **state) {
    (void)state;
    enum { PROCESSES = 6, ROUNDS = 25 };
    pid_t processes[PROCESSES];
    put("file", "0");
    for (size_t i = 0; i < PROCESSES; i++) {
        processes[i] = fork();
        if (processes[i]) {
            continue;
        }
        int failed = 0;
        for (size_t round = 0; round < ROUNDS && !failed; round++) {
            l3a_lock *lock = NULL;
            char *text = NULL, sum[16];
            size_t length;
            failed = l3a_lock_take(context, in("file"), 1, &lock) || read_whole(context, in("file"), 100, &text, &length);
            snprintf(sum, sizeof sum, "%d", text ? atoi(text) + 1 : -1);
            failed = failed || save("file", sum);
            release(context, text);
            l3a_lock_free(lock);
        }
        _exit(failed);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        int ended = 1;
        assert_int_equal(waitpid(processes[i], &ended, 0), processes[i]);
        assert_int_equal(ended, 0);
    }
    holds("file", "150");
    assert_int_equal(count_files(), 1);
}

int main(void) {
    signal(SIGALRM, SIG_DFL);
    alarm(300); /* ends the test if a call hangs */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_odd_outputs, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_odd_inputs, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_links, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_dangling_links, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_open_streams, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_modes, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_owners, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_names_of_others, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_stale_temporaries, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_stale_temporaries_that_stay, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_long_names, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_unwritten_output, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_output_in_pieces, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_lock_of_another_process, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_lock_that_was_passed_on, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_lock_of_a_killed_process, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_foreign_lock_file, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_waiting, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_lock_of_a_removed_file, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_lock_of_this_process, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_lock_file_that_disappears, prepare, close_fixture),
        cmocka_unit_test_setup_teardown(test_no_lost_update, prepare, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
