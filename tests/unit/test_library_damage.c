/* Indexes that are damaged, of something else, or of a stranger who means no good: what is missing or damaged is made again,
 * nothing that is not ours is touched, and no row is trusted. */
#include "support.h"

#include "fixture.h"
#include "small_library.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PICTURES = 10 };

static struct small_library small;
static l3a_tagger *tagger;
static char *expected, *slots_path;

static int make_index(void **state) {
    (void)state;
    small_library_make(&small, PICTURES);
    slots_path = path_in(small.folder, "model.l3a.library.features-1");
    context = make_context(1);
    tagger = small_library_tagger(&small, context, NULL, 0);
    l3a_library *library = small_library_open(&small, context, tagger);
    small_library_fill(&small, context, library);
    expected = small_library_tell(context, library);
    l3a_library_free(library);
    keep_warnings();
    return 0;
}

static int remove_index(void **state) {
    (void)state;
    l3a_tagger_free(tagger);
    l3a_context_free(context);
    small_library_remove(&small);
    free(expected);
    free(slots_path);
    return 0;
}

static l3a_status open_as(const char *index, bool existing, l3a_library **library) {
    const l3a_library_options options = {.size = sizeof options, .index = index, .existing = existing};
    *library = NULL;
    return l3a_library_open(context, tagger, &options, library);
}

/* Opens the index and completes it; looked: pictures that have to go through the network for that. */
static void recovers(size_t looked) {
    l3a_look_report report = {.size = sizeof report};
    l3a_library *library = small_library_open(&small, context, tagger);
    assert_ok(context, l3a_library_add(library, small.photos));
    assert_ok(context, l3a_library_scan(library, NULL));
    assert_ok(context, l3a_library_look(library, NULL, &report));
    assert_int_equal(report.looked, looked);
    assert_int_equal(report.failed, 0);
    assert_ok(context, l3a_library_score(library, 0, NULL));
    char *told = small_library_tell(context, library);
    assert_string_equal(told, expected);
    free(told);
    assert_at_rest(library);
    l3a_library_free(library);
}

static bool exists(const char *ending) {
    char *path = malloc(strlen(small.index) + strlen(ending) + 1);
    sprintf(path, "%s%s", small.index, ending);
    const bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

static void change_bytes(const char *path, size_t at, const void *bytes, size_t count) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void run_sql(const char *text) {
    sqlite3 *database = NULL;
    char *problem = NULL;
    assert_int_equal(sqlite3_open(small.index, &database), SQLITE_OK);
    if (sqlite3_exec(database, text, NULL, NULL, &problem) != SQLITE_OK) {
        print_error("%s: %s\n", text, problem);
        assert_true(false);
    }
    sqlite3_close(database);
}

/* ---- The database ---- */

static void a_missing_database(void **state) {
    l3a_library *library;
    (void)state;
    unlink(small.index);
    assert_fails(context, open_as(small.index, true, &library), L3A_ERROR_NOT_FOUND, "no index");
    recovers(0); /* the features are still there */
    assert_string_equal(warnings, "");
}

static void an_empty_database(void **state) {
    (void)state;
    assert_int_equal(truncate(small.index, 0), 0);
    recovers(0);
}

static void a_truncated_database(void **state) {
    (void)state;
    assert_int_equal(truncate(small.index, 3000), 0);
    recovers(0);
    assert_non_null(strstr(warnings, "damaged-1"));
    assert_true(exists(".damaged-1"));
    assert_int_equal(truncate(small.index, 3000), 0);
    recovers(0);
    assert_true(exists(".damaged-2"));
}

static void garbage(void **state) {
    char bytes[5000];
    l3a_library *library;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)random_bits(3, i);
    }
    write_bytes(small.index, bytes, sizeof bytes);
    assert_fails(context, open_as(small.index, true, &library), L3A_ERROR_CHECKSUM, "not an index, or it is damaged");
    assert_false(exists(".damaged-1"));
    recovers(0);
    assert_true(exists(".damaged-1"));
}

static void a_file_that_is_no_index(void **state) {
    char *path = path_in(small.photos, "0.jpg"), *before, *after;
    size_t count, other;
    l3a_library *library;
    (void)state;
    before = read_bytes(path, &count);
    assert_fails(context, open_as(path, false, &library), L3A_ERROR_FORMAT, "not an index");
    after = read_bytes(path, &other);
    assert_int_equal(count, other);
    assert_memory_equal(before, after, count);
    assert_int_not_equal(open_as(small.photos, false, &library), L3A_OK); /* a folder */
    assert_int_equal(open_as("/nowhere/index", false, &library), L3A_ERROR_NOT_FOUND);
    free(before);
    free(after);
    free(path);
}

static void a_database_of_another_program(void **state) {
    l3a_library *library;
    (void)state;
    run_sql("PRAGMA application_id = 7");
    assert_fails(context, open_as(small.index, false, &library), L3A_ERROR_FORMAT, "another program");
    assert_false(exists(".damaged-1"));
}

static void a_newer_version_and_impossible_ones(void **state) {
    l3a_library *library;
    (void)state;
    run_sql("PRAGMA user_version = 1000");
    assert_fails(context, open_as(small.index, false, &library), L3A_ERROR_VERSION, "newer version");
    assert_false(exists(".damaged-1"));
    run_sql("PRAGMA user_version = -5");
    recovers(0);
    assert_true(exists(".damaged-1"));
    run_sql("PRAGMA user_version = 0");
    recovers(0);
    assert_true(exists(".damaged-2"));
}

static void tables_that_are_missing_or_others(void **state) {
    static const char *const changes[] = {
        "DROP TABLE meta",
        "DROP TABLE feature",
        "ALTER TABLE picture DROP COLUMN sure",
        "ALTER TABLE score RENAME COLUMN data TO datum",
        "DROP TABLE said; CREATE VIEW said AS SELECT 1 AS checksum, 'ant' AS class, 1 AS shown",
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        run_sql(changes[i]);
        recovers(0);
    }
    assert_true(exists(".damaged-5"));
}

/* Damage that shows only when somebody comes to it: the call fails, and the next one who opens the index makes it again. */
static void damage_in_the_middle(void **state) {
    char page[4096];
    (void)state;
    memset(page, 0x5A, sizeof page);
    struct stat about;
    assert_int_equal(stat(small.index, &about), 0);
    size_t opened = 0, failed = 0;
    char *copy = path_in(small.folder, "copy");
    copy_file(small.index, copy);
    for (size_t at = 4096; at + 4096 <= (size_t)about.st_size; at += 4096) {
        l3a_library *library = NULL;
        copy_file(copy, small.index);
        change_bytes(small.index, at, page, sizeof page);
        l3a_status status = open_as(small.index, false, &library);
        opened += status == L3A_OK;
        for (int i = 0; status == L3A_OK && i < 2; i++) {
            l3a_library_info info = {.size = sizeof info};
            l3a_found *found = NULL;
            const l3a_find_options options = {.size = sizeof options, .where = "ant or name:1", .sort = "name"};
            status = l3a_library_scan(library, NULL);
            status = status == L3A_OK ? l3a_library_look(library, NULL, NULL) : status;
            status = status == L3A_OK ? l3a_library_score(library, 0, NULL) : status;
            status = status == L3A_OK ? l3a_library_describe(library, &info) : status;
            status = status == L3A_OK ? l3a_library_find(library, &options, &found) : status;
            l3a_found_free(found);
        }
        assert_true(status == L3A_OK || status == L3A_ERROR_CHECKSUM);
        failed += status != L3A_OK;
        l3a_library_free(library);
        if (status != L3A_OK) {
            recovers(0);
        }
    }
    assert_true(opened > 0 && failed > 0);
    free(copy);
}

/* ---- The features ---- */

static void missing_features(void **state) {
    (void)state;
    unlink(slots_path);
    recovers(PICTURES);
    assert_non_null(strstr(warnings, "missing or damaged"));
    assert_true(exists(".features-2"));
}

static void truncated_features(void **state) {
    struct stat about;
    (void)state;
    assert_int_equal(stat(slots_path, &about), 0);
    assert_int_equal(truncate(slots_path, about.st_size - 1), 0);
    recovers(PICTURES);
    assert_false(exists(".features-1"));
}

static void features_of_another_index(void **state) {
    const char other[] = "0123456789";
    (void)state;
    change_bytes(slots_path, 17, other, sizeof other); /* the head, too, has a checksum */
    recovers(PICTURES);
    run_sql("UPDATE meta SET value = 'another' WHERE key = 'features'");
    recovers(PICTURES);
    assert_true(exists(".features-3"));
}

static void both_missing_or_damaged(void **state) {
    (void)state;
    unlink(small.index);
    unlink(slots_path);
    recovers(PICTURES);
    unlink(small.index);
    write_bytes(slots_path, "garbage", 7);
    recovers(PICTURES);
}

/* A new database takes over what is good in the features. */
static void a_flipped_bit_in_features_without_a_database(void **state) {
    const char byte = 0x77;
    (void)state;
    unlink(small.index);
    change_bytes(slots_path, SLOTS_HEAD + 3 * (SLOT_START + 2 * SMALL_WIDTH) + 33, &byte, 1);
    recovers(1);
}

/* ---- A stranger's index ---- */

/* Calls everything; nothing may crash, and errors are errors. */
static void use_all(l3a_library *library) {
    static const char *const texts[] = {"ant", "not ant or bee", "folder:photos", "name:1", "is:unsure", "is:said since:1990"};
    static const char *const sorts[] = {NULL, "novel", "name", "unsure"};
    static float sample[8 * SMALL_WIDTH];
    uint64_t checksums[8], said, predicted;
    size_t count;
    const char *problem;
    l3a_found *found;
    for (size_t i = 0; i < 24; i++) {
        const l3a_find_options options = {.size = sizeof options, .where = texts[i % 6], .sort = sorts[i / 6]};
        found = NULL;
        if (l3a_library_find(library, &options, &found) == L3A_OK) {
            for (size_t k = 0; k < l3a_found_count(found); k++) {
                l3a_library_picture picture = {.size = sizeof picture};
                l3a_library_picture_at(library, l3a_found_id(found, k), &picture);
                l3a_library_features(library, l3a_found_id(found, k), sample);
            }
        }
        l3a_found_free(found);
    }
    for (uint64_t id = 1; id < 4; id++) {
        const l3a_find_options options = {.size = sizeof options, .like = &id, .like_count = 1};
        found = NULL;
        l3a_library_find(library, &options, &found);
        l3a_found_free(found);
    }
    found = NULL;
    l3a_library_duplicates(library, 0, &found);
    l3a_found_free(found);
    l3a_library_info info = {.size = sizeof info};
    l3a_library_describe(library, &info);
    l3a_library_count(library, "ant", &said, &predicted);
    l3a_library_sample(library, 8, sample, checksums, &count);
    for (size_t i = 0; i < 3; i++) {
        l3a_library_folder(library, i, &problem);
    }
    l3a_library_scan(library, NULL);
    l3a_library_look(library, NULL, NULL);
    l3a_library_score(library, 0, NULL);
    assert_at_rest(library);
}

static void rows_are_not_trusted(void **state) {
    static const char *const changes[] = {
        "UPDATE picture SET slot = 4294967294",
        "UPDATE picture SET slot = 9223372036854775807",
        "UPDATE picture SET slot = -1",
        "UPDATE picture SET slot = 'text', size = 'text', folder = 1.5",
        "UPDATE picture SET folder = 9223372036854775807",
        "UPDATE picture SET folder = -3",
        "UPDATE picture SET size = -9223372036854775807, modified = 9223372036854775807, taken = -9223372036854775807",
        "UPDATE picture SET state = 77 WHERE id % 2",
        "UPDATE picture SET state = 0, slot = 5",
        "UPDATE picture SET id = -id",
        "UPDATE picture SET id = 9223372036854775800 + id % 7 WHERE id < 8",
        "UPDATE picture SET name = '../../../../etc/passwd' WHERE id = 1",
        "UPDATE picture SET name = CAST(zeroblob(100000) AS TEXT) WHERE id = 1",
        "UPDATE picture SET name = replace(hex(zeroblob(1000000)), '0', 'x'), problem = name WHERE id = 1",
        "UPDATE picture SET checksum = id % 3",
        "UPDATE picture SET change = 9223372036854775807",
        "UPDATE folder SET id = 9223372036854775807",
        "UPDATE folder SET path = ''",
        "UPDATE folder SET root = 99",
        "UPDATE root SET path = 'relative'",
        "UPDATE root SET path = replace(hex(zeroblob(100000)), '0', '/x')",
        "UPDATE feature SET slot = slot + 1000000000000",
        "INSERT INTO feature (slot, checksum) VALUES (9223372036854775807, 5)",
        "INSERT INTO feature (slot, checksum) VALUES (-9223372036854775807, 5)",
        "UPDATE feature SET checksum = -1 - slot",
        "UPDATE score SET data = zeroblob(1)",
        "UPDATE score SET data = zeroblob(3000000)",
        "UPDATE score SET data = 'text'",
        "UPDATE score SET data = 5",
        "UPDATE score SET block = block + 9223372036854775000",
        "UPDATE score SET block = -block - 1",
        "UPDATE score SET class = class + 100",
        "UPDATE block SET id = 9223372036854775807",
        "UPDATE block SET slots = -5, edition = 3",
        "UPDATE block SET slots = 9223372036854775807",
        "UPDATE class SET threshold = 'text', id = id + 9223372036854775000",
        "UPDATE class SET threshold = 9e999",
        "UPDATE class SET name = replace(hex(zeroblob(100000)), '0', 'x') WHERE id = 1",
        "UPDATE meta SET value = 9223372036854775807 WHERE key IN ('change', 'scored', 'purges', 'judgements')",
        "UPDATE meta SET value = -9223372036854775807 WHERE key = 'change'",
        "UPDATE meta SET value = zeroblob(100) WHERE key = 'recipe'",
        "UPDATE meta SET value = 9223372036854775806 WHERE key = 'generation'",
        "UPDATE meta SET value = -5 WHERE key = 'generation'",
        "DELETE FROM meta",
        "INSERT INTO said SELECT checksum, 'ant', 99 FROM feature; DELETE FROM block",
        "UPDATE sqlite_sequence SET seq = 9223372036854775807",
        "CREATE TRIGGER wild AFTER UPDATE ON picture BEGIN DELETE FROM picture; END",
    };
    char *copy = path_in(small.folder, "copy"), *slots_copy = path_in(small.folder, "slots");
    (void)state;
    copy_file(small.index, copy);
    copy_file(slots_path, slots_copy);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        l3a_library *library = NULL;
        copy_file(copy, small.index);
        copy_file(slots_copy, slots_path);
        keep_warnings();
        run_sql(changes[i]);
        for (int round = 0; round < 2 && open_as(small.index, false, &library) == L3A_OK; round++) {
            use_all(library);
            l3a_library_free(library);
        }
    }
    free(copy);
    free(slots_copy);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_index, remove_index)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_missing_database),
        TEST(an_empty_database),
        TEST(a_truncated_database),
        TEST(garbage),
        TEST(a_file_that_is_no_index),
        TEST(a_database_of_another_program),
        TEST(a_newer_version_and_impossible_ones),
        TEST(tables_that_are_missing_or_others),
        TEST(damage_in_the_middle),
        TEST(missing_features),
        TEST(truncated_features),
        TEST(features_of_another_index),
        TEST(both_missing_or_damaged),
        TEST(a_flipped_bit_in_features_without_a_database),
        TEST(rows_are_not_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
