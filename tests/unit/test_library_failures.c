/* An index while things go wrong: every allocation fails in turn, of the library and of SQLite; every file operation fails in turn;
 * two processes write at once; a process is killed. After each failure the error is right, nothing leaks, no statement or lock is
 * left, and the next call ends with what an undisturbed one says. */
#include "support.h"

#include "fixture.h"
#include "memory_folder.h"
#include "memory_probe.h"
#include "small_library.h"

#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PICTURES = 10, KILLS = 25, LEAST = 40 };
#define INDEX MEMORY_FOLDER "/index.library"

static struct small_library small;
static char *expected; /* what an undisturbed index says */

/* ---- The work ---- */

struct work {
    l3a_context *context;
    l3a_tagger *tagger;
    l3a_library *library;
};

static int ignore_folder(const char *path, uint64_t pictures, uint64_t folders, void *user) {
    (void)path;
    (void)pictures;
    (void)folders;
    (void)user;
    return 0;
}

/* What a command does, from nothing to a list of pictures. */
static l3a_status do_all(struct work *work, const char *index) {
    const l3a_library_options options = {.size = sizeof options, .index = index};
    const l3a_find_options orders[] = {
        {.size = sizeof orders[0], .where = "ant or not (\"big cat\" folder:photos) name:1", .sort = "name"},
        {.size = sizeof orders[0], .word = "dog"},
        {.size = sizeof orders[0], .where = "is:unsure since:1980", .sort = "unsure"},
        {.size = sizeof orders[0], .sort = "novel"}};
    l3a_library_info info = {.size = sizeof info};
    const l3a_history *history = NULL;
    l3a_status status = L3A_OK;
    TRY(work->library ? L3A_OK : l3a_library_open(work->context, work->tagger, &options, &work->library));
    TRY(l3a_library_add(work->library, small.photos));
    TRY(l3a_library_scan(work->library, NULL));
    TRY(l3a_library_look(work->library, NULL, NULL));
    TRY(l3a_tagger_history(work->tagger, &history));
    TRY(l3a_library_take_history(work->library, history));
    TRY(l3a_library_score(work->library, 0, NULL));
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        l3a_found *found = NULL;
        TRY(l3a_library_find(work->library, &orders[i], &found));
        l3a_found_free(found);
    }
    TRY(l3a_library_folders(work->library, small.folder, ignore_folder, NULL));
    TRY(l3a_library_describe(work->library, &info));
done:
    assert_at_rest(work->library);
    return status;
}

static void end_work(struct work *work) {
    l3a_library_free(work->library);
    l3a_tagger_free(work->tagger);
    l3a_context_free(work->context);
    *work = (struct work){0};
}

/* Says what it should in the end: all is there, and each picture has its own features. */
static void check_result(l3a_context *own, l3a_library *library, const char *when, size_t number) {
    char *told = small_library_tell(own, library);
    if (strcmp(told, expected) != 0) {
        print_error("%s, number %zu\n%s\ninstead of\n%s\n", when, number, told, expected);
    }
    assert_string_equal(told, expected);
    free(told);
}

static int make_inputs(void **state) {
    (void)state;
    small_library_make(&small, PICTURES);
    small_library_put(&small, "copy.jpg", 3);
    small_library_put_bytes(&small, "broken.jpg", "\xFF\xD8\xFF", 3);
    small_library_put_bytes(&small, "deep/film.mp4", "x", 1);
    struct work work = {.context = make_context(1)};
    work.tagger = small_library_tagger(&small, work.context, NULL, 0);
    assert_ok(work.context, do_all(&work, small.index));
    expected = small_library_tell(work.context, work.library);
    end_work(&work);
    return 0;
}

static int remove_inputs(void **state) {
    (void)state;
    free(expected);
    small_library_remove(&small);
    return 0;
}

/* ---- Memory ---- */

/* The tagger is made while there is memory; what fails is the library. */
static void without_memory(void **state) {
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        size_t failures = 0;
        for (size_t number = 1;; number += 1 + (number > LEAST ? number / 20 : 0)) {
            struct memory_probe probe = {0};
            memory_folder_clear(true);
            struct work work = {.context = make_probed_context(&probe, 1)};
            work.context->files = &memory_folder;
            work.tagger = small_library_tagger(&small, work.context, NULL, 0);
            probe_restart(&probe, number, persistent);
            const l3a_status status = do_all(&work, INDEX);
            const bool met = probe.seen >= number;
            probe_restart(&probe, 0, false);
            if (status != L3A_OK) {
                failures++;
                if (status != L3A_ERROR_MEMORY) {
                    print_error("allocation %zu: %s\n", number, l3a_error_text(work.context));
                }
                assert_int_equal(status, L3A_ERROR_MEMORY);
                assert_ok(work.context, do_all(&work, INDEX)); /* the same handle goes on */
            }
            check_result(work.context, work.library, "allocation", number);
            end_work(&work);
            assert_int_equal(probe.blocks, 0);
            assert_int_equal(memory_folder_open(), 0);
            if (!met) {
                break;
            }
        }
        assert_true(failures > LEAST);
    }
}

/* ---- SQLite's memory ---- */

static sqlite3_mem_methods usual;
static size_t sqlite_seen, sqlite_fails;

static void *scarce_malloc(int bytes) {
    return ++sqlite_seen == sqlite_fails ? NULL : usual.xMalloc(bytes);
}

static void *scarce_realloc(void *memory, int bytes) {
    return ++sqlite_seen == sqlite_fails ? NULL : usual.xRealloc(memory, bytes);
}

static void without_memory_for_sqlite(void **state) {
    sqlite3_mem_methods scarce;
    size_t failures = 0;
    (void)state;
    sqlite3_shutdown();
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual), SQLITE_OK);
    scarce = usual;
    scarce.xMalloc = scarce_malloc;
    scarce.xRealloc = scarce_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &scarce), SQLITE_OK);
    assert_int_equal(sqlite3_initialize(), SQLITE_OK);
    for (size_t number = 1;; number += 1 + number / 25) {
        struct work work = {.context = make_context(1)};
        memory_folder_clear(true);
        work.context->files = &memory_folder;
        work.tagger = small_library_tagger(&small, work.context, NULL, 0);
        sqlite_seen = 0;
        sqlite_fails = number;
        const l3a_status status = do_all(&work, INDEX);
        const bool met = sqlite_seen >= number;
        sqlite_fails = 0;
        if (status != L3A_OK) {
            failures++;
            if (status != L3A_ERROR_MEMORY) {
                print_error("SQLite's allocation %zu: %s\n", number, l3a_error_text(work.context));
            }
            assert_int_equal(status, L3A_ERROR_MEMORY);
            assert_ok(work.context, do_all(&work, INDEX));
        }
        check_result(work.context, work.library, "SQLite's allocation", number);
        end_work(&work);
        assert_int_equal(memory_folder_open(), 0);
        if (!met) {
            break;
        }
    }
    assert_true(failures > LEAST);
    sqlite3_shutdown();
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &usual), SQLITE_OK);
    assert_int_equal(sqlite3_initialize(), SQLITE_OK);
}

/* ---- Files ---- */

static size_t operations, operation_fails;
static int operation_code;
static bool lasting;

static bool strikes(void) {
    operations++;
    const bool strike = operation_fails && (lasting ? operations >= operation_fails : operations == operation_fails);
    errno = strike ? operation_code : errno;
    return strike;
}

static int faulty_open(const char *path, int flags, mode_t mode) {
    return strikes() ? -1 : memory_folder.open(path, flags, mode);
}

static ssize_t faulty_read(int file, void *bytes, size_t count, off_t offset) {
    return strikes() ? -1 : memory_folder.read(file, bytes, count, offset);
}

static ssize_t faulty_write(int file, const void *bytes, size_t count, off_t offset) {
    return strikes() ? -1 : memory_folder.write(file, bytes, count, offset);
}

static int faulty_size(int file, uint64_t *bytes) {
    return strikes() ? -1 : memory_folder.size(file, bytes);
}

static int faulty_lock(int file, enum byte_lock kind, off_t offset, off_t count) {
    return strikes() ? -1 : memory_folder.lock_bytes(file, kind, offset, count);
}

static int faulty_truncate(int file, off_t bytes) {
    return strikes() ? -1 : memory_folder.truncate(file, bytes);
}

static int faulty_sync(int file) {
    return strikes() ? -1 : memory_folder.sync(file);
}

static int faulty_rename(const char *from, const char *to) {
    return strikes() ? -1 : memory_folder.rename(from, to);
}

static int faulty_remove(const char *path) {
    return strikes() ? -1 : memory_folder.remove(path);
}

static int faulty_describe(const char *path, file_description *description) {
    return strikes() ? -1 : memory_folder.describe(path, description);
}

static int faulty_resolve(const char *path, char *text, size_t capacity) {
    return strikes() ? -1 : memory_folder.resolve(path, text, capacity);
}

static int faulty_list(const char *path, int (*each)(const char *name, void *user), void *user) {
    return strikes() ? -1 : memory_folder.list(path, each, user);
}

static ssize_t faulty_random(void *bytes, size_t count, unsigned flags) {
    return strikes() ? -1 : memory_folder.random(bytes, count, flags);
}

static void fail_files(const char *when, int code, bool persistent) {
    file_operations faulty = memory_folder;
    size_t failures = 0;
    faulty.open = faulty_open;
    faulty.read = faulty_read;
    faulty.write = faulty_write;
    faulty.size = faulty_size;
    faulty.lock_bytes = faulty_lock;
    faulty.truncate = faulty_truncate;
    faulty.sync = faulty_sync;
    faulty.rename = faulty_rename;
    faulty.remove = faulty_remove;
    faulty.describe = faulty_describe;
    faulty.resolve = faulty_resolve;
    faulty.list = faulty_list;
    faulty.random = faulty_random;
    for (size_t number = 1;; number += 1 + number / 25) {
        memory_folder_clear(true);
        struct work work = {.context = make_context(1)};
        work.context->files = &faulty;
        operation_fails = 0;
        work.tagger = small_library_tagger(&small, work.context, NULL, 0);
        operations = 0;
        operation_code = code;
        lasting = persistent;
        operation_fails = number;
        const l3a_status status = do_all(&work, INDEX);
        const bool met = operations >= number;
        operation_fails = 0;
        failures += status != L3A_OK;
        if (status != L3A_OK && status != L3A_ERROR_IO && status != L3A_ERROR_FULL) {
            print_error("%s %zu: %s\n", when, number, l3a_error_text(work.context));
            assert_int_equal(status, L3A_ERROR_IO);
        }
        /* A picture that could not be read is read after the next scan; all else is there after the next call. */
        if (do_all(&work, INDEX) != L3A_OK) {
            print_error("%s %zu, and then: %s\n", when, number, l3a_error_text(work.context));
            assert_true(false);
        }
        check_result(work.context, work.library, when, number);
        end_work(&work);
        assert_int_equal(memory_folder_open(), 0);
        if (!met) {
            break;
        }
    }
    assert_true(failures > LEAST);
}

static void without_files(void **state) {
    (void)state;
    fail_files("input or output error", EIO, false);
    fail_files("disk full for a moment", ENOSPC, false);
    fail_files("disk gone", EIO, true);
}

/* ---- Processes ---- */

static void work_in_child(void) {
    struct work work = {.context = make_context(1)};
    work.tagger = small_library_tagger(&small, work.context, NULL, 0);
    const l3a_status status = do_all(&work, small.index);
    if (status != L3A_OK) {
        print_error("in a process: %s\n", l3a_error_text(work.context));
    }
    end_work(&work);
    _exit(status == L3A_OK ? 0 : 1);
}

static void start_anew(void) {
    char *feature_file = path_in(small.folder, "model.l3a.library.features-1"),
         *journal = path_in(small.folder, "model.l3a.library-journal");
    unlink(small.index);
    unlink(feature_file);
    unlink(journal);
    free(feature_file);
    free(journal);
}

static void finish(const char *when, size_t number) {
    struct work work = {.context = make_context(1)};
    work.tagger = small_library_tagger(&small, work.context, NULL, 0);
    assert_ok(work.context, do_all(&work, small.index));
    check_result(work.context, work.library, when, number);
    assert_ok(work.context, l3a_library_look(work.library, NULL, NULL));
    end_work(&work);
}

static void processes_at_once(void **state) {
    (void)state;
    for (size_t round = 0; round < 3; round++) {
        pid_t children[3];
        start_anew();
        for (size_t i = 0; i < 3; i++) {
            children[i] = fork();
            if (!children[i]) {
                work_in_child();
            }
        }
        for (size_t i = 0; i < 3; i++) {
            int status = 0;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        finish("processes", round);
    }
}

static void killed_processes(void **state) {
    (void)state;
    start_anew();
    for (size_t i = 0; i < KILLS; i++) {
        int status = 0;
        if (i % 5 == 0) {
            start_anew();
        }
        const pid_t child = fork();
        if (!child) {
            work_in_child();
        }
        usleep((unsigned)(2000 + i * 37 % KILLS * 4000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (i % 5 == 4) {
            finish("killed", i);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory),    cmocka_unit_test(without_memory_for_sqlite), cmocka_unit_test(without_files),
        cmocka_unit_test(processes_at_once), cmocka_unit_test(killed_processes),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
