/* The VFS of an index: connections of one process and of several lock each other out, also those that use SQLite's own VFS as the
 * program sqlite3 does; what a killed process left is rolled back; and paths, kinds of files and failures are as they should be.
 * test_vfs_failures.c has what goes wrong in the middle of a transaction. */
#include "support.h"

#include "base/file.h"
#include "small_index.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ "SELECT * FROM number"
#define WRITE "UPDATE number SET n = n + 1"

static char *folder, *path;

static int make_folder_for_index(void **state) {
    (void)state;
    folder = make_temporary_folder();
    path = path_in(folder, "index");
    return 0;
}

static int remove_folder_of_index(void **state) {
    (void)state;
    remove_folder(folder);
    free(path);
    return 0;
}

static int run(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static l3a_context *open_index(struct small_index *index) {
    l3a_context *context = make_context(1);
    assert_int_equal(small_index_open(index, context, path, NULL), SQLITE_OK);
    return context;
}

static void close_index(struct small_index *index, l3a_context *context) {
    small_index_close(index);
    l3a_context_free(context);
}

/* An index with a table of numbers, and the second edition of its rows. */
static void make_index(void) {
    struct small_index index;
    l3a_context *context = open_index(&index);
    assert_int_equal(run(index.db, "CREATE TABLE number(n); INSERT INTO number VALUES(1)"), SQLITE_OK);
    assert_int_equal(small_index_change(index.db, 2), SQLITE_OK);
    close_index(&index, context);
}

/* ---- Connections, some of them in other processes ---- */

/* SQLITES: with SQLite's own VFS, in another process. */
enum kind { HERE, ELSEWHERE, SQLITES, KINDS };

struct side {
    enum kind kind;
    l3a_context *context;
    struct small_index index;
    pid_t process;
    int to, from;
};

struct order {
    unsigned delay; /* in microseconds */
    char sql[200];  /* empty: end; other processes may have copies of the pipe */
};

static void serve(enum kind kind, int orders, int results) {
    struct small_index index = {0};
    struct order order;
    l3a_context *context = make_context(1);
    int result = kind == ELSEWHERE ? small_index_open(&index, context, path, NULL) : sqlite3_open(path, &index.db);
    result = result == SQLITE_OK ? small_index_prepare(index.db, NULL) : result;
    while (write(results, &result, sizeof result) == sizeof result && read(orders, &order, sizeof order) == sizeof order &&
           order.sql[0]) {
        usleep(order.delay);
        result = run(index.db, order.sql);
    }
    small_index_close(&index);
    l3a_context_free(context);
    _exit(0);
}

static int await(const struct side *side) {
    int result = -1;
    assert_int_equal(read(side->from, &result, sizeof result), sizeof result);
    return result;
}

/* Other processes are to be started first: they would hold the files that are open here. */
static void start(struct side *side, enum kind kind) {
    int to[2], from[2];
    *side = (struct side){.kind = kind};
    if (kind == HERE) {
        side->context = open_index(&side->index);
        return;
    }
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    side->process = fork();
    assert_true(side->process >= 0);
    if (!side->process) {
        close(to[1]);
        close(from[0]);
        serve(kind, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    side->to = to[1];
    side->from = from[0];
    assert_int_equal(await(side), SQLITE_OK);
}

static void send_order(const struct side *side, unsigned delay, const char *sql) {
    struct order order = {.delay = delay};
    assert_true(strlen(sql) < sizeof order.sql);
    strcpy(order.sql, sql);
    assert_int_equal(write(side->to, &order, sizeof order), sizeof order);
}

static int ask(const struct side *side, const char *sql) {
    if (side->kind == HERE) {
        return run(side->index.db, sql);
    }
    send_order(side, 0, sql);
    return await(side);
}

static void stop(struct side *side, int signal) {
    if (side->kind == HERE) {
        close_index(&side->index, side->context);
        return;
    }
    if (signal) {
        assert_int_equal(kill(side->process, signal), 0);
    } else {
        send_order(side, 0, "");
    }
    close(side->to);
    int ended;
    assert_int_equal(waitpid(side->process, &ended, 0), side->process);
    assert_true(signal ? WIFSIGNALED(ended) : WIFEXITED(ended) && !WEXITSTATUS(ended));
    close(side->from);
}

static void take_turns(const struct side *a, const struct side *b, const struct side *c) {
    /* One prepares a change, and the others still read. */
    assert_int_equal(ask(a, "BEGIN IMMEDIATE"), SQLITE_OK);
    assert_int_equal(ask(b, READ), SQLITE_OK);
    assert_int_equal(ask(b, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    assert_int_equal(ask(a, WRITE), SQLITE_OK);
    assert_int_equal(ask(b, "BEGIN; " READ), SQLITE_OK);
    assert_int_equal(ask(c, READ), SQLITE_OK);
    /* Then it waits for those who read, and nobody else begins to. */
    assert_int_equal(ask(a, "COMMIT"), SQLITE_BUSY);
    assert_int_equal(ask(c, READ), SQLITE_BUSY);
    assert_int_equal(ask(b, READ), SQLITE_OK);
    assert_int_equal(ask(b, "COMMIT"), SQLITE_OK);
    assert_int_equal(ask(b, READ), SQLITE_BUSY);
    assert_int_equal(ask(a, "COMMIT"), SQLITE_OK);
    assert_int_equal(ask(b, READ), SQLITE_OK);
    assert_int_equal(ask(c, READ), SQLITE_OK);
    /* Alone. */
    assert_int_equal(ask(a, "BEGIN EXCLUSIVE"), SQLITE_OK);
    assert_int_equal(ask(b, READ), SQLITE_BUSY);
    assert_int_equal(ask(c, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    assert_int_equal(ask(a, "ROLLBACK"), SQLITE_OK);
    assert_int_equal(ask(b, READ), SQLITE_OK);
    /* Two who read, and then both want to write. */
    assert_int_equal(ask(a, "BEGIN; " READ), SQLITE_OK);
    assert_int_equal(ask(b, "BEGIN; " READ), SQLITE_OK);
    assert_int_equal(ask(a, WRITE), SQLITE_OK);
    assert_int_equal(ask(b, WRITE), SQLITE_BUSY);
    assert_int_equal(ask(a, "COMMIT"), SQLITE_BUSY);
    assert_int_equal(ask(b, "ROLLBACK"), SQLITE_OK);
    assert_int_equal(ask(a, "COMMIT"), SQLITE_OK);
    assert_int_equal(ask(c, "BEGIN IMMEDIATE; " WRITE "; COMMIT"), SQLITE_OK);
}

static void connections_lock_each_other_out(void **state) {
    (void)state;
    make_index();
    for (enum kind a = HERE; a < KINDS; a++) {
        for (enum kind b = HERE; b < KINDS; b++) {
            for (enum kind c = HERE; c < KINDS; c++) {
                const enum kind kinds[] = {a, b, c};
                struct side sides[3];
                for (size_t i = 0; i < 6; i++) { /* those here come last */
                    if ((kinds[i % 3] == HERE) == (i >= 3)) {
                        start(&sides[i % 3], kinds[i % 3]);
                    }
                }
                take_turns(&sides[0], &sides[1], &sides[2]);
                for (size_t i = 0; i < 3; i++) {
                    stop(&sides[i], 0);
                }
            }
        }
    }
}

/* With locks of the process, the first one would lose its lock. */
static void closing_a_connection_leaves_the_locks_of_another(void **state) {
    (void)state;
    struct side other, first, second;
    make_index();
    start(&other, SQLITES);
    start(&first, HERE);
    start(&second, HERE);
    assert_int_equal(ask(&first, "BEGIN EXCLUSIVE"), SQLITE_OK);
    assert_int_equal(ask(&second, READ), SQLITE_BUSY);
    stop(&second, 0);
    assert_int_equal(ask(&other, READ), SQLITE_BUSY);
    assert_int_equal(ask(&first, "COMMIT"), SQLITE_OK);
    assert_int_equal(ask(&other, READ), SQLITE_OK);
    stop(&first, 0);
    stop(&other, 0);
}

/* A change is committed while another statement of the same connection reads on. */
static void who_reads_on_after_a_change_lets_others_prepare_one(void **state) {
    (void)state;
    struct side other, own;
    sqlite3_stmt *rows;
    make_index();
    start(&other, SQLITES);
    start(&own, HERE);
    assert_int_equal(sqlite3_prepare_v2(own.index.db, "SELECT * FROM row", -1, &rows, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
    assert_int_equal(ask(&own, WRITE), SQLITE_OK);
    assert_int_equal(ask(&other, READ), SQLITE_OK);
    assert_int_equal(ask(&other, "BEGIN IMMEDIATE; " WRITE), SQLITE_OK);
    assert_int_equal(ask(&other, "COMMIT"), SQLITE_BUSY);
    assert_int_equal(sqlite3_finalize(rows), SQLITE_OK);
    assert_int_equal(ask(&other, "COMMIT"), SQLITE_OK);
    stop(&own, 0);
    stop(&other, 0);
}

static int is_reserved(const struct side *side) {
    sqlite3_file *file = NULL;
    int reserved = -1;
    assert_int_equal(sqlite3_file_control(side->index.db, "main", SQLITE_FCNTL_FILE_POINTER, &file), SQLITE_OK);
    assert_int_equal(file->pMethods->xCheckReservedLock(file, &reserved), SQLITE_OK);
    return reserved;
}

/* Then its journal is not that of a killed process. */
static void one_sees_that_another_prepares_a_change(void **state) {
    (void)state;
    make_index();
    for (enum kind kind = HERE; kind < KINDS; kind++) {
        struct side other, own;
        start(&other, kind);
        start(&own, HERE);
        assert_int_equal(ask(&other, "BEGIN; " READ), SQLITE_OK);
        assert_int_equal(is_reserved(&own), 0);
        assert_int_equal(ask(&other, WRITE), SQLITE_OK);
        assert_int_equal(is_reserved(&own), 1);
        assert_int_equal(ask(&other, "ROLLBACK"), SQLITE_OK);
        assert_int_equal(is_reserved(&own), 0);
        assert_int_equal(ask(&own, "BEGIN IMMEDIATE"), SQLITE_OK);
        assert_int_equal(is_reserved(&own), 1);
        stop(&own, 0);
        stop(&other, 0);
    }
}

static void a_connection_can_wait(void **state) {
    (void)state;
    struct side other, own;
    make_index();
    start(&other, SQLITES);
    start(&own, HERE);
    assert_int_equal(ask(&other, "BEGIN EXCLUSIVE"), SQLITE_OK);
    send_order(&other, 50 * 1000, "COMMIT");
    assert_int_equal(ask(&own, "PRAGMA busy_timeout = 600000; " READ), SQLITE_OK);
    assert_int_equal(await(&other), SQLITE_OK);
    stop(&own, 0);
    stop(&other, 0);
}

static size_t journal_size(void) {
    char *journal = path_in(folder, "index-journal");
    struct stat about;
    const bool there = stat(journal, &about) == 0;
    free(journal);
    return there ? (size_t)about.st_size : 0;
}

/* The journal of a process that lives is left alone. */
static void what_a_killed_process_left_is_rolled_back(void **state) {
    (void)state;
    make_index();
    for (enum kind reader = HERE; reader < KINDS; reader++) {
        for (enum kind killed = ELSEWHERE; killed < KINDS; killed++) {
            struct side victim, other;
            struct small_index index;
            int result;
            start(&victim, killed);
            start(&other, reader);
            assert_int_equal(ask(&victim, "BEGIN IMMEDIATE; " WRITE), SQLITE_OK);
            assert_true(journal_size() > 0);
            assert_int_equal(ask(&other, READ), SQLITE_OK); /* although there is a journal */
            assert_int_equal(ask(&victim, "UPDATE row SET edition = 9, data = upper(hex(data))"), SQLITE_OK);
            assert_int_equal(ask(&other, READ), SQLITE_BUSY);
            stop(&victim, SIGKILL);
            assert_true(journal_size() > 0);
            assert_int_equal(ask(&other, READ), SQLITE_OK);
            assert_int_equal(journal_size(), 0);
            stop(&other, 0);
            l3a_context *context = open_index(&index);
            assert_int_equal(small_index_edition(index.db, &result), 2);
            close_index(&index, context);
        }
    }
}

/* ---- Failures ---- */

static file_operations changed; /* of the context of a test */
static int lock_code;

static int no_locks(int file, enum byte_lock kind, off_t offset, off_t count) {
    (void)file, (void)kind, (void)offset, (void)count;
    errno = lock_code;
    return -1;
}

static void a_file_system_without_locks_is_named(void **state) {
    static const int codes[] = {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, EIO};
    (void)state;
    l3a_context *context = make_context(1);
    changed = posix_files;
    changed.lock_bytes = no_locks;
    context->files = &changed;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct small_index index;
        lock_code = codes[i];
        assert_int_equal(small_index_open(&index, context, path, NULL), SQLITE_IOERR);
        assert_int_equal(sqlite3_extended_errcode(index.db), SQLITE_IOERR_LOCK);
        assert_int_equal(vfs_code(index.vfs), codes[i] == EIO ? EIO : ENOLCK);
        small_index_close(&index);
    }
    l3a_context_free(context);
}

static void cannot_open(const char *what, int code) {
    struct small_index index;
    l3a_context *context = make_context(1);
    assert_int_equal(small_index_open(&index, context, what, NULL), SQLITE_CANTOPEN);
    assert_int_equal(vfs_code(index.vfs), code);
    assert_int_equal(sqlite3_system_errno(index.db), code);
    close_index(&index, context);
}

static void only_files_are_opened(void **state) {
    (void)state;
    char *pipe = path_in(folder, "pipe"), *missing = path_in(folder, "missing/index"), *loop = path_in(folder, "loop");
    char *below = path_in(folder, "pipe/index"), *beside = path_in(folder, "index-journal"), long_path[5000];
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("loop", loop), 0);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    cannot_open(folder, EISDIR);
    cannot_open(pipe, ESPIPE);
    cannot_open(below, ENOTDIR);
    cannot_open(missing, ENOENT);
    cannot_open(loop, ELOOP);
    cannot_open(long_path, ENAMETOOLONG);
    /* Nobody can lead us elsewhere with a link in the place of the journal. */
    struct small_index index;
    l3a_context *context = open_index(&index);
    assert_int_equal(symlink("elsewhere", beside), 0);
    assert_int_equal(small_index_change(index.db, 1), SQLITE_CANTOPEN);
    assert_int_equal(vfs_code(index.vfs), ELOOP);
    close_index(&index, context);
    char *const paths[] = {pipe, missing, loop, below, beside};
    free_paths(paths, 5);
}

static void what_is_missing_is_refused(void **state) {
    (void)state;
    struct small_index index;
    l3a_context *context = open_index(&index);
    char *message = NULL;
    assert_int_equal(run(index.db, "PRAGMA temp_store = FILE"), SQLITE_OK);
    assert_int_equal(run(index.db, "CREATE TEMP TABLE t(n); INSERT INTO t VALUES(zeroblob(1000000))"), SQLITE_CANTOPEN);
    assert_int_equal(vfs_code(index.vfs), ENOTSUP);
    assert_int_equal(sqlite3_enable_load_extension(index.db, 1), SQLITE_OK);
    assert_int_equal(sqlite3_load_extension(index.db, "libm.so.6", NULL, &message), SQLITE_ERROR);
    assert_non_null(strstr(message, "extensions are not loaded here"));
    sqlite3_free(message);
    /* A journal of this kind needs shared memory. */
    assert_int_equal(run(index.db, "PRAGMA journal_mode = WAL"), SQLITE_OK);
    assert_int_equal(small_index_change(index.db, 1), SQLITE_OK);
    close_index(&index, context);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(run(db, "PRAGMA journal_mode = WAL; " READ), SQLITE_ERROR);
    sqlite3_close(db);
    context = make_context(1);
    assert_int_equal(small_index_open(&index, context, path, NULL), SQLITE_CANTOPEN);
    close_index(&index, context);
}

/* ---- Paths ---- */

static bool is_there(const char *name) {
    char *file = path_in(folder, name);
    const bool there = access(file, F_OK) == 0;
    free(file);
    return there;
}

static void a_journal_is_beside_the_file_itself(void **state) {
    (void)state;
    char *apart = path_in(folder, "apart"), *link = path_in(folder, "link"), *given = path;
    assert_int_equal(mkdir(apart, 0777), 0);
    assert_int_equal(symlink("apart/file", link), 0);
    for (int round = 0; round < 2; round++) { /* the first one makes the file that the link leads to */
        struct small_index index;
        path = link;
        l3a_context *context = open_index(&index);
        path = given;
        assert_int_equal(run(index.db, "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS t(n); INSERT INTO t VALUES(1)"), SQLITE_OK);
        assert_true(is_there("apart/file-journal"));
        assert_false(is_there("link-journal"));
        assert_int_equal(run(index.db, "COMMIT"), SQLITE_OK);
        close_index(&index, context);
    }
    assert_false(is_there("apart/file-journal"));
    free(apart);
    free(link);
}

static void a_relative_path_stays_the_same(void **state) {
    (void)state;
    char before[4096], *given = path, relative[] = "index";
    struct small_index index;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    path = relative;
    l3a_context *context = open_index(&index);
    path = given;
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(small_index_change(index.db, 1), SQLITE_OK);
    assert_int_equal(small_index_change(index.db, 2), SQLITE_OK);
    close_index(&index, context);
    assert_int_equal(chdir(before), 0);
    make_index();
}

/* And its owner, where we may choose one. */
static void a_journal_has_the_mode_of_its_index(void **state) {
    static const mode_t modes[] = {0600, 0640, 0666};
    (void)state;
    char *journal = path_in(folder, "index-journal");
    make_index();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct small_index index;
        struct stat about;
        assert_int_equal(chmod(path, modes[i]), 0);
        const uid_t owner = getuid() ? getuid() : 1000 + (uid_t)i;
        assert_int_equal(chown(path, owner, (gid_t)-1), 0);
        l3a_context *context = open_index(&index);
        assert_int_equal(run(index.db, "BEGIN; " WRITE), SQLITE_OK);
        assert_int_equal(stat(journal, &about), 0);
        assert_int_equal(about.st_mode & 0777, modes[i]);
        assert_int_equal(about.st_uid, owner);
        close_index(&index, context);
    }
    free(journal);
}

static void an_index_that_has_gone_is_not_written(void **state) {
    (void)state;
    struct small_index index;
    make_index();
    for (int round = 0; round < 2; round++) { /* in the second, another one is in its place */
        l3a_context *context = open_index(&index);
        assert_int_equal(run(index.db, "CREATE TABLE IF NOT EXISTS number(n); INSERT INTO number VALUES(1)"), SQLITE_OK);
        assert_int_equal(unlink(path), 0);
        if (round) {
            make_index();
        }
        assert_int_equal(run(index.db, WRITE), SQLITE_READONLY);
        assert_int_equal(sqlite3_extended_errcode(index.db), SQLITE_READONLY_DBMOVED);
        assert_int_equal(vfs_code(index.vfs), ESTALE);
        close_index(&index, context);
    }
}

static int open_to_read(const char *file, int flags, mode_t mode) {
    errno = EACCES;
    return (flags & O_ACCMODE) == O_RDONLY ? posix_files.open(file, flags, mode) : -1;
}

static void an_index_can_be_read_where_it_cannot_be_written(void **state) {
    (void)state;
    struct small_index index;
    make_index();
    l3a_context *context = make_context(1);
    changed = posix_files;
    changed.open = open_to_read;
    context->files = &changed;
    assert_int_equal(small_index_open(&index, context, path, NULL), SQLITE_OK);
    assert_int_equal(run(index.db, READ), SQLITE_OK);
    assert_int_equal(run(index.db, WRITE), SQLITE_READONLY);
    assert_int_equal(vfs_code(index.vfs), EACCES);
    small_index_close(&index);
    char *missing = path_in(folder, "new");
    assert_int_equal(small_index_open(&index, context, missing, NULL), SQLITE_CANTOPEN);
    assert_int_equal(vfs_code(index.vfs), EACCES);
    small_index_close(&index);
    free(missing);
    l3a_context_free(context);
}

static void a_process_that_does_not_write_can_read(void **state) {
    (void)state;
    struct side other;
    struct small_index index = {0};
    make_index();
    start(&other, SQLITES);
    l3a_context *context = make_context(1);
    context->files = &mute_files;
    assert_ok(context, vfs_open(context, &index.vfs));
    assert_int_equal(sqlite3_open_v2(path, &index.db, SQLITE_OPEN_READONLY, vfs_name(index.vfs)), SQLITE_OK);
    assert_int_equal(run(index.db, READ), SQLITE_OK);
    assert_int_equal(ask(&other, "BEGIN EXCLUSIVE"), SQLITE_OK);
    assert_int_equal(run(index.db, READ), SQLITE_BUSY);
    assert_int_equal(ask(&other, "COMMIT"), SQLITE_OK);
    assert_int_equal(run(index.db, "BEGIN; " READ), SQLITE_OK);
    assert_int_equal(ask(&other, WRITE), SQLITE_BUSY);
    assert_int_equal(run(index.db, "COMMIT"), SQLITE_OK);
    assert_int_equal(ask(&other, WRITE), SQLITE_OK);
    close_index(&index, context);
    stop(&other, 0);
}

/* ---- The rest ---- */

static ssize_t broken_random(void *bytes, size_t count, unsigned flags) {
    (void)bytes, (void)count, (void)flags;
    errno = ENOSYS;
    return -1;
}

static void a_vfs_is_a_guest(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct vfs *one = NULL, *other = NULL;
    char name[64], bytes[64] = {0}, zeros[64] = {0};
    sqlite3_vfs *before = sqlite3_vfs_find(NULL);
    assert_ok(context, vfs_open(context, &one));
    assert_ok(context, vfs_open(context, &other));
    assert_string_not_equal(vfs_name(one), vfs_name(other));
    assert_ptr_equal(sqlite3_vfs_find(NULL), before);
    vfs_close(other);
    vfs_close(NULL);
    sqlite3_vfs *found = sqlite3_vfs_find(vfs_name(one));
    assert_non_null(found);
    assert_int_equal(found->xRandomness(found, sizeof bytes, bytes), sizeof bytes);
    assert_memory_not_equal(bytes, zeros, sizeof bytes);
    changed = posix_files;
    changed.random = broken_random;
    context->files = &changed;
    assert_int_equal(found->xRandomness(found, sizeof bytes, bytes), 0);
    assert_int_equal(vfs_code(one), ENOSYS);
    double day;
    sqlite3_int64 now;
    assert_int_equal(found->xCurrentTimeInt64(found, &now), SQLITE_OK);
    assert_int_equal(found->xCurrentTime(found, &day), SQLITE_OK);
    assert_near(((double)now / 86400000.0 - 2440587.5) * 86400, (double)time(NULL), 600);
    assert_near(day, (double)now / 86400000.0, 0.01);
    snprintf(name, sizeof name, "%s", vfs_name(one));
    vfs_close(one);
    assert_null(sqlite3_vfs_find(name));
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_lock_each_other_out, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(closing_a_connection_leaves_the_locks_of_another, make_folder_for_index,
                                        remove_folder_of_index),
        cmocka_unit_test_setup_teardown(who_reads_on_after_a_change_lets_others_prepare_one, make_folder_for_index,
                                        remove_folder_of_index),
        cmocka_unit_test_setup_teardown(one_sees_that_another_prepares_a_change, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(a_connection_can_wait, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_rolled_back, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(a_file_system_without_locks_is_named, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(only_files_are_opened, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(what_is_missing_is_refused, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(a_journal_is_beside_the_file_itself, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(a_relative_path_stays_the_same, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(a_journal_has_the_mode_of_its_index, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(an_index_that_has_gone_is_not_written, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test_setup_teardown(an_index_can_be_read_where_it_cannot_be_written, make_folder_for_index,
                                        remove_folder_of_index),
        cmocka_unit_test_setup_teardown(a_process_that_does_not_write_can_read, make_folder_for_index, remove_folder_of_index),
        cmocka_unit_test(a_vfs_is_a_guest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
