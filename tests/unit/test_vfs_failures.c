/* An index while things go wrong: every file operation fails in turn, the power goes after each of them, and SQLite runs out of
 * memory. Afterwards there is the old or the new edition and nothing between, the new one if its commit was answered, and an error
 * has its errno. */
#include "support.h"

#include "memory_folder.h"
#include "power_loss.h"
#include "small_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX MEMORY_FOLDER "/index"

/* ---- Faults ---- */

enum operation { OPEN, READ, WRITE, SIZE, LOCK, TRUNCATE, SYNC, CLOSE, REMOVE, DESCRIBE, RESOLVE, OPERATIONS };
enum manner { ONCE, FROM_THEN_ON, EVERY_OTHER };
enum effect { FAILS, CUT_SHORT, ENDS };

struct fault {
    const char *name;
    enum operation operation; /* OPERATIONS: any */
    enum manner manner;
    enum effect effect;
    int code;
    bool harmless; /* the transaction succeeds */
    bool may_pass; /* some of these operations decide nothing */
    int result;    /* SQLite's, without what it adds; 0: any but SQLITE_OK */
};

static const struct fault faults[] = {
    {"cannot open", OPEN, ONCE, FAILS, EACCES, false, true, 0},
    {"nothing can be opened", OPEN, FROM_THEN_ON, FAILS, EMFILE, false, false, 0},
    {"no room for a name", OPEN, FROM_THEN_ON, FAILS, ENOSPC, false, false, SQLITE_FULL},
    {"cannot read", READ, ONCE, FAILS, EIO, false, false, SQLITE_IOERR},
    {"cannot read any more", READ, FROM_THEN_ON, FAILS, EIO, false, false, SQLITE_IOERR},
    {"read interrupted", READ, EVERY_OTHER, FAILS, EINTR, true, false, 0},
    {"short read", READ, EVERY_OTHER, CUT_SHORT, 0, true, false, 0},
    {"cannot write", WRITE, ONCE, FAILS, EIO, false, false, SQLITE_IOERR},
    {"cannot write any more", WRITE, FROM_THEN_ON, FAILS, EIO, false, false, SQLITE_IOERR},
    {"disk full", WRITE, FROM_THEN_ON, FAILS, ENOSPC, false, false, SQLITE_FULL},
    {"disk full for a moment", WRITE, ONCE, FAILS, ENOSPC, false, false, SQLITE_FULL},
    {"disk full, nothing written", WRITE, ONCE, ENDS, ENOSPC, false, false, SQLITE_FULL},
    {"quota reached", WRITE, FROM_THEN_ON, FAILS, EDQUOT, false, false, SQLITE_FULL},
    {"file too large", WRITE, FROM_THEN_ON, FAILS, EFBIG, false, false, SQLITE_FULL},
    {"write interrupted", WRITE, EVERY_OTHER, FAILS, EINTR, true, false, 0},
    {"short write", WRITE, EVERY_OTHER, CUT_SHORT, 0, true, false, 0},
    {"no size", SIZE, ONCE, FAILS, EIO, false, true, 0},
    {"cannot lock", LOCK, ONCE, FAILS, EIO, false, true, SQLITE_IOERR},
    {"cannot lock any more", LOCK, FROM_THEN_ON, FAILS, ENOLCK, false, true, SQLITE_IOERR},
    {"lock interrupted", LOCK, EVERY_OTHER, FAILS, EINTR, true, false, 0},
    {"cannot truncate", TRUNCATE, ONCE, FAILS, EIO, false, true, SQLITE_IOERR},
    {"truncation interrupted", TRUNCATE, EVERY_OTHER, FAILS, EINTR, true, false, 0},
    {"cannot sync", SYNC, ONCE, FAILS, EIO, false, false, SQLITE_IOERR},
    {"disk full when synced", SYNC, ONCE, FAILS, ENOSPC, false, false, SQLITE_FULL},
    {"folders have no sync", SYNC, FROM_THEN_ON, FAILS, EINVAL, false, true, SQLITE_IOERR},
    {"cannot close", CLOSE, ONCE, FAILS, EIO, false, true, 0},
    {"cannot remove", REMOVE, ONCE, FAILS, EIO, false, false, SQLITE_IOERR},
    {"no description", DESCRIBE, ONCE, FAILS, EIO, false, true, 0},
    {"cannot resolve", RESOLVE, ONCE, FAILS, EACCES, false, false, SQLITE_CANTOPEN},
    {"disk gone", OPERATIONS, FROM_THEN_ON, FAILS, EIO, false, true, 0},
};

static struct {
    const char *scenario;
    const struct fault *fault; /* NULL: nothing goes wrong */
    size_t number, seen;
    bool met;
    long blocks; /* of the context's memory */
} probe;

static void require(bool condition, const char *what, int result) {
    if (!condition) {
        print_error("%s; %s, number %zu: %s (%s)\n", probe.scenario, probe.fault ? probe.fault->name : "undisturbed", probe.number,
                    what, sqlite3_errstr(result));
        assert_true(condition);
    }
}

static bool strikes(enum operation operation) {
    const struct fault *fault = probe.fault;
    if (!fault || (fault->operation != operation && fault->operation != OPERATIONS)) {
        return false;
    }
    probe.seen++;
    const bool strike = fault->manner == FROM_THEN_ON  ? probe.seen >= probe.number
                        : fault->manner == EVERY_OTHER ? (probe.seen - probe.number) % 2 == 0
                                                       : probe.seen == probe.number;
    probe.met = probe.met || strike;
    errno = strike ? fault->code : errno;
    return strike;
}

static ssize_t granted(enum operation operation, size_t count) {
    if (!strikes(operation)) {
        return (ssize_t)count;
    }
    return probe.fault->effect == FAILS ? -1 : probe.fault->effect == ENDS ? 0 : count > 1 ? (ssize_t)count / 2 : (ssize_t)count;
}

static int faulty_open(const char *path, int flags, mode_t mode) {
    return strikes(OPEN) ? -1 : memory_folder.open(path, flags, mode);
}

static ssize_t faulty_read(int file, void *bytes, size_t count, off_t offset) {
    const ssize_t size = granted(READ, count);
    return size > 0 ? memory_folder.read(file, bytes, (size_t)size, offset) : size;
}

static ssize_t faulty_write(int file, const void *bytes, size_t count, off_t offset) {
    const ssize_t size = granted(WRITE, count);
    return size > 0 ? memory_folder.write(file, bytes, (size_t)size, offset) : size;
}

static int faulty_size(int file, uint64_t *bytes) {
    return strikes(SIZE) ? -1 : memory_folder.size(file, bytes);
}

static int faulty_lock_bytes(int file, enum byte_lock kind, off_t offset, off_t count) {
    return strikes(LOCK) ? -1 : memory_folder.lock_bytes(file, kind, offset, count);
}

static int faulty_truncate(int file, off_t bytes) {
    return strikes(TRUNCATE) ? -1 : memory_folder.truncate(file, bytes);
}

static int faulty_sync(int file) {
    return strikes(SYNC) ? -1 : memory_folder.sync(file);
}

static int faulty_close(int file) {
    const bool strike = strikes(CLOSE);
    const int code = errno, closed = memory_folder.close(file);
    errno = strike ? code : errno;
    return strike ? -1 : closed;
}

static int faulty_remove(const char *path) {
    return strikes(REMOVE) ? -1 : memory_folder.remove(path);
}

static int faulty_describe(const char *path, file_description *description) {
    return strikes(DESCRIBE) ? -1 : memory_folder.describe(path, description);
}

static int faulty_resolve(const char *path, char *text, size_t capacity) {
    return strikes(RESOLVE) ? -1 : memory_folder.resolve(path, text, capacity);
}

static void *counted_allocate(void *user, size_t bytes) {
    (void)user;
    probe.blocks++;
    return malloc(bytes);
}

static void counted_release(void *user, void *memory) {
    (void)user;
    free(memory);
    probe.blocks--;
}

static l3a_context *faulty_context(void) {
    static file_operations files;
    const l3a_context_options options = {
        .size = sizeof options, .threads = 1, .allocate = counted_allocate, .release = counted_release};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    files = memory_folder;
    files.open = faulty_open;
    files.read = faulty_read;
    files.write = faulty_write;
    files.size = faulty_size;
    files.lock_bytes = faulty_lock_bytes;
    files.truncate = faulty_truncate;
    files.sync = faulty_sync;
    files.close = faulty_close;
    files.remove = faulty_remove;
    files.describe = faulty_describe;
    files.resolve = faulty_resolve;
    context->files = &files;
    return context;
}

/* ---- What an attempt begins with ---- */

static void change_to(l3a_context *context, int first, int last) {
    struct small_index index;
    assert_int_equal(small_index_open(&index, context, INDEX, NULL), SQLITE_OK);
    for (int edition = first; edition <= last; edition++) {
        assert_int_equal(small_index_change(index.db, edition), SQLITE_OK);
    }
    small_index_close(&index);
}

static void begin_empty(l3a_context *context) {
    (void)context;
}

static void begin_with_old(l3a_context *context) {
    change_to(context, 1, 2);
}

/* A process was killed while it wrote the next edition. */
static void begin_with_journal(l3a_context *context) {
    struct small_index index;
    size_t size, journal_size;
    change_to(context, 1, 2);
    assert_int_equal(small_index_open(&index, context, INDEX, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(index.db, "BEGIN; UPDATE row SET edition = 9, data = upper(hex(data))", NULL, NULL, NULL),
                     SQLITE_OK);
    char *bytes = memory_folder_get(INDEX, &size), *journal = memory_folder_get(INDEX "-journal", &journal_size);
    small_index_close(&index);
    assert_non_null(journal);
    memory_folder_put(INDEX, bytes, size);
    memory_folder_put(INDEX "-journal", journal, journal_size);
    free(bytes);
    free(journal);
}

static const struct scenario {
    const char *name;
    void (*begin)(l3a_context *context);
    int old;
} scenarios[] = {
    {"a new index", begin_empty, 0},
    {"an index", begin_with_old, 2},
    {"an index with a journal", begin_with_journal, 2},
};

enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0], FAULTS = sizeof faults / sizeof faults[0] };

static int edition_now(const file_operations *files, const char *path, int *result) {
    struct small_index index;
    l3a_context *context = make_context(1);
    context->files = files;
    *result = small_index_open(&index, context, path, NULL);
    const int edition = *result == SQLITE_OK ? small_index_edition(index.db, result) : -1;
    small_index_close(&index);
    l3a_context_free(context);
    return edition;
}

/* ---- Every operation fails ---- */

/* Changes to edition 3. Returns the first result that is not SQLITE_OK, and the errno at that time. */
static int attempt(int *code, bool *committed) {
    struct small_index index;
    l3a_context *context = faulty_context();
    int result = small_index_open(&index, context, INDEX, NULL);
    result = result == SQLITE_OK ? small_index_change(index.db, 3) : result;
    *committed = result == SQLITE_OK;
    *code = vfs_code(index.vfs);
    small_index_close(&index);
    l3a_context_free(context);
    return result;
}

static void check_attempt(const struct scenario *scenario, int result, int code, bool committed) {
    const struct fault *fault = probe.fault;
    int after;
    probe.fault = NULL;
    const int edition = edition_now(&memory_folder, INDEX, &after);
    probe.fault = fault;
    require(after == SQLITE_OK, "the index cannot be read", after);
    require(edition == 3 || (!committed && edition == scenario->old), "neither the old nor the new edition", result);
    require(memory_folder_open() == 0, "a file is open", result);
    require(probe.blocks == 0, "memory is lost", result);
    if (!probe.met || fault->harmless) {
        require(result == SQLITE_OK, "nothing went wrong that matters", result);
    } else {
        require(result != SQLITE_OK || fault->may_pass, "the failure is not reported", result);
        require(result == SQLITE_OK || code == fault->code, "another errno", result);
        require(result == SQLITE_OK || !fault->result || (result & 0xff) == fault->result, "another result", result);
    }
}

static void every_operation_fails(void **state) {
    (void)state;
    for (size_t i = 0; i < SCENARIOS; i++) {
        l3a_context *context = faulty_context();
        probe.fault = NULL;
        memory_folder_clear(true);
        scenarios[i].begin(context);
        l3a_context_free(context);
        memory_folder_keep();
        probe.scenario = scenarios[i].name;
        for (size_t j = 0; j < FAULTS; j++) {
            size_t struck = 0;
            for (probe.number = 1;; probe.number++, struck++) {
                int code;
                bool committed;
                memory_folder_restore();
                probe.fault = &faults[j];
                probe.seen = 0;
                probe.met = false;
                const int result = attempt(&code, &committed);
                check_attempt(&scenarios[i], result, code, committed);
                if (!probe.met || (faults[j].manner == EVERY_OTHER && probe.number == 2)) {
                    break;
                }
            }
            require(struck || faults[j].operation == TRUNCATE, "nothing was struck", SQLITE_OK);
            probe.fault = NULL;
        }
    }
    memory_folder_clear(true);
}

/* ---- SQLite runs out of memory ---- */

static sqlite3_mem_methods real_memory;
static struct {
    long left; /* allocations until one fails; negative: none does */
    bool for_good;
    bool met;
} memory;

static bool has_memory(void) {
    if (memory.left < 0 || --memory.left >= 0) {
        return true;
    }
    memory.met = true;
    memory.left = memory.for_good ? 0 : -1;
    return false;
}

static void *probed_malloc(int size) {
    return has_memory() ? real_memory.xMalloc(size) : NULL;
}

static void *probed_realloc(void *block, int size) {
    return has_memory() ? real_memory.xRealloc(block, size) : NULL;
}

static void sqlite_runs_out_of_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * SCENARIOS; i++) {
        l3a_context *context = faulty_context();
        const struct scenario *scenario = &scenarios[i / 2];
        memory_folder_clear(true);
        scenario->begin(context);
        l3a_context_free(context);
        memory_folder_keep();
        probe.scenario = scenario->name;
        for (probe.number = 0;; probe.number++) {
            int code, after;
            bool committed;
            memory_folder_restore();
            const sqlite3_int64 used = sqlite3_memory_used();
            memory.met = false;
            memory.for_good = i % 2;
            memory.left = (long)probe.number;
            const int result = attempt(&code, &committed);
            memory.left = -1;
            require(sqlite3_memory_used() == used, "SQLite's memory is lost", result);
            require(probe.blocks == 0 && memory_folder_open() == 0, "something is left", result);
            const int edition = edition_now(&memory_folder, INDEX, &after);
            require(after == SQLITE_OK, "the index cannot be read", after);
            require(edition == 3 || (!committed && edition == scenario->old), "neither the old nor the new edition", result);
            require(committed || memory.met, "failed without a reason", result);
            if (!memory.met) {
                break;
            }
        }
    }
    memory_folder_clear(true);
}

/* Before SQLite has been used. */
static void no_memory_for_the_vfs(void **state) {
    (void)state;
    struct vfs *vfs = NULL;
    l3a_context *context = faulty_context();
    assert_int_equal(sqlite3_shutdown(), SQLITE_OK);
    memory.for_good = true;
    memory.left = 0;
    assert_fails(context, vfs_open(context, &vfs), L3A_ERROR_MEMORY, "SQLite: out of memory");
    memory.left = -1;
    memory.for_good = false;
    assert_null(vfs);
    assert_ok(context, vfs_open(context, &vfs));
    vfs_close(vfs);
    l3a_context_free(context);
    assert_int_equal(probe.blocks, 0);
}

/* ---- The power goes ---- */

enum { TRANSACTIONS = 4, COURSES = 6 };

static struct {
    char *folder, *path;
    size_t promised[TRANSACTIONS + 1]; /* the operations that were done when an edition had been committed; 0: not yet */
    uint64_t *seen;
    size_t seen_count, seen_capacity;
} power;

static bool is_new(uint64_t sum) {
    for (size_t i = 0; i < power.seen_count; i++) {
        if (power.seen[i] == sum) {
            return false;
        }
    }
    if (power.seen_count == power.seen_capacity) {
        power.seen_capacity = 2 * power.seen_capacity + 256;
        power.seen = realloc(power.seen, power.seen_capacity * sizeof *power.seen);
        assert_non_null(power.seen);
    }
    power.seen[power.seen_count++] = sum;
    return true;
}

static int no_sync(int file) {
    (void)file;
    return 0;
}

/* The editions [least, most] may be there. */
static void check_editions(size_t cut, unsigned loss, int least, int most) {
    static file_operations files;
    int result;
    files = posix_files;
    files.sync = no_sync;
    const int edition = edition_now(&files, power.path, &result);
    if (result != SQLITE_OK || edition < least || edition > most) {
        print_error("%s, after %zu operations, loss %u: edition %d instead of %d to %d (%s)\n", probe.scenario, cut, loss, edition,
                    least, most, sqlite3_errstr(result));
        assert_true(false);
    }
}

/* Cuts the power after each of the operations from `first` on, before which there was the edition `found`, which nobody need have
 * promised. */
static void cut_from(size_t first, int found) {
    const size_t stride = getenv("L3A_QUICK") ? 5 : 1, count = disk_operations();
    int before = -1;
    for (size_t cut = first; cut <= count; cut = cut < count && cut + stride > count ? count : cut + stride) {
        int promised = 0;
        for (int edition = 1; edition <= TRANSACTIONS; edition++) {
            promised = power.promised[edition] && power.promised[edition] <= cut ? edition : promised;
        }
        power.seen_count = promised != before ? 0 : power.seen_count;
        before = promised;
        for (unsigned loss = 0; loss < SOME + COURSES; loss++) {
            if (is_new(disk_cut(cut, loss))) {
                check_editions(cut, loss, promised, (promised > found ? promised : found) + 1);
            }
        }
    }
}

static void begin_disk(const char *scenario) {
    probe.scenario = scenario;
    memset(power.promised, 0, sizeof power.promised);
    remove_folder(power.folder);
    free(power.path);
    power.folder = make_temporary_folder();
    power.path = path_in(power.folder, "index");
    power.seen_count = 0;
    disk_begin(power.folder);
}

/* The editions from `first` to `last`, until the process ends. */
static void write_editions(const char *mode, int first, int last) {
    struct small_index index;
    l3a_context *context = make_context(1);
    context->files = &recorded_files;
    int result = small_index_open(&index, context, power.path, mode);
    for (int edition = first; result == SQLITE_OK && edition <= last; edition++) {
        result = small_index_change(index.db, edition);
        if (result == SQLITE_OK) {
            power.promised[edition] = disk_operations();
        }
    }
    small_index_close(&index);
    l3a_context_free(context);
}

static void the_power_goes(void **state) {
    static const char *const modes[] = {"DELETE", "TRUNCATE", "PERSIST"};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        begin_disk(modes[i]);
        write_editions(modes[i], 1, TRANSACTIONS);
        assert_true(power.promised[TRANSACTIONS]);
        cut_from(0, 0);
        disk_forget();
    }
}

/* The process is killed after so many operations, and the next one finds what it has left and goes on. */
static void the_power_goes_after_a_process_was_killed(void **state) {
    const size_t stride = getenv("L3A_QUICK") ? 17 : 3;
    (void)state;
    for (size_t operations = 0, left = 1; left; operations += stride) {
        int result;
        begin_disk("after a killed process");
        disk_end_after(operations);
        write_editions(NULL, 1, 2);
        disk_end_after(SIZE_MAX);
        left = !power.promised[2];
        const size_t first = disk_operations();
        const int found = edition_now(&recorded_files, power.path, &result); /* rolls back, and promises nothing */
        assert_int_equal(result, SQLITE_OK);
        assert_in_range(found, power.promised[1] != 0, 2);
        write_editions(NULL, found + 1, found + 1);
        assert_true(power.promised[found + 1]);
        cut_from(first, found);
        disk_forget();
    }
}

static int remove_disk(void **state) {
    (void)state;
    disk_forget();
    remove_folder(power.folder);
    free(power.path);
    free(power.seen);
    memset(&power, 0, sizeof power);
    return 0;
}

static int make_disk(void **state) {
    (void)state;
    power.folder = make_temporary_folder();
    return 0;
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1);
    }
    /* This program's SQLite is its own; the library never does this. */
    memory.left = -1;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
    sqlite3_mem_methods methods = real_memory;
    methods.xMalloc = probed_malloc;
    methods.xRealloc = probed_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods), SQLITE_OK);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_for_the_vfs),
        cmocka_unit_test(every_operation_fails),
        cmocka_unit_test(sqlite_runs_out_of_memory),
        cmocka_unit_test_setup_teardown(the_power_goes, make_disk, remove_disk),
        cmocka_unit_test_setup_teardown(the_power_goes_after_a_process_was_killed, make_disk, remove_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
