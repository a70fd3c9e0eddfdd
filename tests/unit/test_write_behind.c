/* Large files, which another thread writes: the bytes are those that one thread writes, and whatever fails on either thread is
 * reported on the caller's, with the old file in place and nothing left behind. */
#include "support.h"

#include "base/write_behind.h"
#include "format/safetensors.h"
#include "memory_probe.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More chunks than are in memory at a time, and two tensors after them that do not end a chunk. */
enum { CHUNKS = 11, SIZE = CHUNKS * WRITE_CHUNK + 12344, SMALL = 40, THREADS = 3 };

static const char old_text[] = "what was there before";
static char *folder, *path;

/* ---- What is written ---- */

static uint8_t large[SIZE];

static int make_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZE; i++) {
        large[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    return 0;
}

struct filling {
    l3a_context *context;
    pthread_t caller;
    size_t fails_at; /* the chunk; SIZE_MAX: none */
    uint64_t next;
};

static l3a_status fill(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct filling *filling = argument;
    assert_true(pthread_equal(pthread_self(), filling->caller));
    assert_int_equal(offset, filling->next);
    filling->next += count;
    memcpy(bytes, large + offset, count);
    return offset / WRITE_CHUNK == filling->fails_at ? (fail)(filling->context, L3A_ERROR_DATA, NULL, "no more bytes") : L3A_OK;
}

static l3a_status write_large(l3a_context *context, size_t fails_at) {
    static double numbers[SMALL / sizeof(double)] = {1, 2, 3, 4, 5};
    static uint8_t few[3] = {7, 8, 9};
    const text_list none = {0};
    struct filling filling = {context, pthread_self(), fails_at, 0};
    const tensor_source sources[] = {{"large", TENSOR_U8, 1, {SIZE}, fill, &filling},
                                     {"numbers", TENSOR_F64, 1, {SMALL / sizeof(double)}, fill_from_memory, numbers},
                                     {"few", TENSOR_U8, 1, {sizeof few}, fill_from_memory, few}};
    return safetensors_write(context, path, &none, &none, sources, 3);
}

static void holds_new_file(l3a_context *context) {
    safetensors file;
    size_t count;
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_verify(&file));
    const size_t start = (size_t)safetensors_find(&file, "large")->offset;
    safetensors_close(&file);
    char *bytes = read_bytes(path, &count);
    assert_int_equal(count, start + SIZE + SMALL + 3);
    assert_memory_equal(bytes + start, large, SIZE);
    assert_memory_equal(bytes + start + SIZE + SMALL, "\7\10\11", 3);
    free(bytes);
}

static void holds_old_file_alone(void) {
    size_t count, files = 0;
    char *bytes = read_bytes(path, &count);
    assert_int_equal(count, sizeof old_text);
    assert_memory_equal(bytes, old_text, count);
    free(bytes);
    DIR *opened = opendir(folder);
    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened));) {
        files += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    }
    closedir(opened);
    assert_int_equal(files, 1);
}

/* Once it is in place, the new file stays, even if its folder cannot be synced. */
static void holds_either_file(l3a_context *context) {
    size_t count;
    free(read_bytes(path, &count));
    if (count == sizeof old_text) {
        holds_old_file_alone();
    } else {
        holds_new_file(context);
        write_bytes(path, old_text, sizeof old_text);
    }
}

/* ---- File operations that fail ---- */

/* The mutex is for those that two threads call. */
static struct {
    pthread_mutex_t lock;
    size_t writes, starts, fails_at; /* the write or start; 0: none */
    int code;                        /* 0: writes nothing; -1: half of it */
    bool from_then_on, foreign;      /* foreign: another thread wrote */
    pthread_t caller;
    uint64_t started; /* bytes */
    bool ragged;      /* one of the starts ended within a page */
} probe = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void arm(size_t fails_at, int code, bool from_then_on) {
    probe.writes = probe.starts = 0;
    probe.started = 0;
    probe.ragged = false;
    probe.fails_at = fails_at;
    probe.code = code;
    probe.from_then_on = from_then_on;
    probe.foreign = false;
    probe.caller = pthread_self();
}

static bool strikes(size_t number) {
    return number == probe.fails_at || (probe.fails_at && probe.from_then_on && number > probe.fails_at);
}

static ssize_t failing_write(int file, const void *bytes, size_t count, off_t offset) {
    pthread_mutex_lock(&probe.lock);
    const bool strike = strikes(++probe.writes);
    probe.foreign = probe.foreign || !pthread_equal(pthread_self(), probe.caller);
    pthread_mutex_unlock(&probe.lock);
    if (!strike) {
        return posix_files.write(file, bytes, count, offset);
    }
    if (probe.code < 0) {
        return posix_files.write(file, bytes, (count + 1) / 2, offset);
    }
    errno = probe.code;
    return probe.code ? -1 : 0;
}

static int counted_start_sync(int file, off_t offset, off_t count) {
    pthread_mutex_lock(&probe.lock);
    const bool strike = probe.code && strikes(++probe.starts);
    probe.started += (uint64_t)count;
    probe.ragged = probe.ragged || (offset + count) % 4096;
    pthread_mutex_unlock(&probe.lock);
    errno = probe.code;
    return strike ? -1 : posix_files.start_sync(file, offset, count);
}

static int no_sync(int file) {
    (void)file;
    return 0;
}

static int reserve_code;
static off_t reserved;
static int failing_reserve(int file, off_t bytes) {
    reserved = bytes;
    errno = reserve_code;
    return reserve_code ? -1 : posix_files.reserve(file, bytes);
}

static file_operations files;

static l3a_context *probed_context(int threads) {
    l3a_context *context = make_context(threads);
    files = posix_files;
    files.sync = no_sync;
    context->files = &files;
    return context;
}

static int prepare(void **state) {
    (void)state;
    folder = make_temporary_folder();
    path = path_in(folder, "file.safetensors");
    write_bytes(path, old_text, sizeof old_text);
    return 0;
}

static int clean_up(void **state) {
    (void)state;
    free(path);
    remove_folder(folder);
    return 0;
}

/* ---- Tests ---- */

static void any_number_of_threads_writes_the_same_bytes(void **state) {
    (void)state;
    size_t counts[2];
    char *bytes[2];
    for (int i = 0; i < 2; i++) {
        l3a_context *context = probed_context(i ? THREADS : 1);
        files.write = failing_write;
        arm(0, 0, false);
        assert_ok(context, write_large(context, SIZE_MAX));
        assert_int_equal(probe.foreign, i > 0);
        holds_new_file(context);
        bytes[i] = read_bytes(path, &counts[i]);
        l3a_context_free(context);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(bytes[0], bytes[1], counts[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* A default stack that no machine can map. */
static void without_another_thread_the_caller_writes(void **state) {
    (void)state;
    l3a_context *context = probed_context(THREADS);
    pthread_attr_t before, huge;
    files.write = failing_write;
    arm(0, 0, false);
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    pthread_attr_init(&huge);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    const l3a_status status = write_large(context, SIZE_MAX);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    assert_ok(context, status);
    assert_false(probe.foreign);
    holds_new_file(context);
    arm(CHUNKS, ENOSPC, true);
    assert_fails(context, write_large(context, SIZE_MAX), L3A_ERROR_FULL, strerror(ENOSPC));
    pthread_attr_destroy(&before);
    pthread_attr_destroy(&huge);
    l3a_context_free(context);
}

/* The chunks, the rest and the two small tensors, the length and the text of the header. */
static void any_write_may_fail(void **state) {
    (void)state;
    enum { WRITES = CHUNKS + 5 };
    static const struct {
        int code;
        bool from_then_on;
        l3a_status status;
        const char *reason;
        const char *hint;
    } faults[] = {{EIO, false, L3A_ERROR_IO, "Input/output error", NULL},
                  {ENOSPC, true, L3A_ERROR_FULL, "No space left", "disk is full"},
                  {0, false, L3A_ERROR_FULL, "No space left", "disk is full"}};
    for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
        l3a_context *context = probed_context(threads);
        files.write = failing_write;
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            for (size_t number = 1; number <= WRITES; number++) {
                arm(number, faults[i].code, faults[i].from_then_on);
                assert_fails(context, write_large(context, SIZE_MAX), faults[i].status, path);
                assert_non_null(strstr(l3a_error_text(context), ": cannot write: "));
                assert_non_null(strstr(l3a_error_text(context), faults[i].reason));
                assert_true(!faults[i].hint || strstr(l3a_error_hint(context), faults[i].hint));
                assert_int_equal(probe.writes, number); /* none after it */
                holds_old_file_alone();
            }
        }
        arm(WRITES + 1, EIO, false);
        assert_ok(context, write_large(context, SIZE_MAX));
        assert_int_equal(probe.writes, WRITES);
        l3a_context_free(context);
        write_bytes(path, old_text, sizeof old_text);
    }
}

static void a_write_may_be_interrupted_or_cut_short(void **state) {
    (void)state;
    l3a_context *context = probed_context(THREADS);
    files.write = failing_write;
    for (size_t number = 1; number <= CHUNKS + 5; number += 3) {
        arm(number, EINTR, false);
        assert_ok(context, write_large(context, SIZE_MAX));
        holds_new_file(context);
        arm(number, -1, false);
        assert_ok(context, write_large(context, SIZE_MAX));
        holds_new_file(context);
    }
    l3a_context_free(context);
}

static void bytes_that_cannot_be_made_leave_the_old_file(void **state) {
    (void)state;
    for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
        l3a_context *context = probed_context(threads);
        for (size_t at = 0; at <= CHUNKS; at += CHUNKS / 2) {
            assert_fails(context, write_large(context, at), L3A_ERROR_DATA, "no more bytes");
            holds_old_file_alone();
        }
        l3a_context_free(context);
    }
}

/* The way to the disk is started for whole chunks, and whether it can be decides nothing. */
static void starting_to_sync_may_fail(void **state) {
    (void)state;
    static const int codes[] = {ENOSYS, EINVAL, ESPIPE, EIO, ENOSPC};
    for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
        l3a_context *context = probed_context(threads);
        files.start_sync = counted_start_sync;
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
            arm(1, codes[i], true);
            assert_ok(context, write_large(context, SIZE_MAX));
            assert_int_equal(probe.starts, CHUNKS);
            assert_false(probe.ragged);
            assert_in_range(probe.started, (uint64_t)CHUNKS * (WRITE_CHUNK - 4096), (uint64_t)CHUNKS * WRITE_CHUNK);
            holds_new_file(context);
        }
        l3a_context_free(context);
    }
}

static void space_is_reserved_where_that_is_possible(void **state) {
    (void)state;
    static const int full[] = {ENOSPC, EDQUOT, EFBIG}, other[] = {EOPNOTSUPP, ENOSYS, EINVAL, EINTR, ENODEV};
    l3a_context *context = probed_context(THREADS);
    files.reserve = failing_reserve;
    for (size_t i = 0; i < sizeof full / sizeof full[0]; i++) {
        reserve_code = full[i];
        assert_fails(context, write_large(context, SIZE_MAX), L3A_ERROR_FULL, ": cannot write: ");
        assert_non_null(strstr(l3a_error_text(context), strerror(full[i])));
        assert_true(l3a_error_hint(context)[0]);
        holds_old_file_alone();
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        reserve_code = other[i];
        assert_ok(context, write_large(context, SIZE_MAX));
        holds_new_file(context);
    }
    size_t count;
    free(read_bytes(path, &count));
    assert_int_equal(reserved, count);
    l3a_context_free(context);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    size_t failures = 0;
    struct memory_probe memory = {0};
    l3a_context *context = make_probed_context(&memory, THREADS);
    l3a_status status = L3A_ERROR_MEMORY;
    while (status != L3A_OK) {
        probe_restart(&memory, failures + 1, false);
        status = write_large(context, SIZE_MAX);
        if (status != L3A_OK) {
            assert_int_equal(status, L3A_ERROR_MEMORY);
            probe_restart(&memory, 0, false);
            holds_either_file(context);
            failures++;
        }
    }
    assert_true(failures > 3);
    probe_restart(&memory, 0, false);
    holds_new_file(context);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_number_of_threads_writes_the_same_bytes, prepare, clean_up),
        cmocka_unit_test_setup_teardown(without_another_thread_the_caller_writes, prepare, clean_up),
        cmocka_unit_test_setup_teardown(any_write_may_fail, prepare, clean_up),
        cmocka_unit_test_setup_teardown(a_write_may_be_interrupted_or_cut_short, prepare, clean_up),
        cmocka_unit_test_setup_teardown(bytes_that_cannot_be_made_leave_the_old_file, prepare, clean_up),
        cmocka_unit_test_setup_teardown(starting_to_sync_may_fail, prepare, clean_up),
        cmocka_unit_test_setup_teardown(space_is_reserved_where_that_is_possible, prepare, clean_up),
        cmocka_unit_test_setup_teardown(any_allocation_may_fail, prepare, clean_up),
    };
    return cmocka_run_group_tests(tests, make_bytes, NULL);
}
