/* Tar files made by hand, as POSIX, GNU and V7 describe them: which members are found, and where; and a message for everything that
 * is not a plain file with a plain name. tests/oracle/test_tar.py compares with Python's tarfile. */
#include "support.h"

#include "archive.h"
#include "common/utf8.h"
#include "fixture.h"
#include "format/tar.h"
#include "memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state) {
    archive_begin();
    return open_fixture(state);
}

static int tear_down(void **state) {
    release_file();
    return close_fixture(state);
}

/* Reads the whole archive. `found` gets "NAME@OFFSET+SIZE" of each member. */
static l3a_status read_all(char found[2048]) {
    l3a_status status;
    input_file input;
    struct tar tar;
    struct tar_member member;
    bool more = true;
    found[0] = '\0';
    hold_file(context, archive, archive_length);
    assert_ok(context, input_open(context, "pictures.tar", &input));
    status = tar_open(&input, &tar);
    while (status == L3A_OK && (status = tar_next(&tar, &member, &more)) == L3A_OK && more) {
        snprintf(found + strlen(found), 2048 - strlen(found), "%s%s@%llu+%llu", found[0] ? "|" : "", member.name,
                 (unsigned long long)member.offset, (unsigned long long)member.size);
        assert_int_equal(member.header + BLOCK, member.offset);
    }
    tar_close(&tar);
    input_close(&input);
    return status;
}

static void assert_found(const char *expected) {
    char found[2048];
    assert_ok(context, read_all(found));
    assert_string_equal(found, expected);
}

#define assert_refused(expected, contains)                                                                                         \
    do {                                                                                                                           \
        char members[2048];                                                                                                        \
        assert_fails(context, read_all(members), expected, contains);                                                              \
    } while (0)

static void members_in_order(void **state) {
    (void)state;
    archive_add('5', "some/", "");
    archive_add('0', "some/b.jpg", "picture");
    archive_add('\0', "a.txt", "");
    archive_add('7', "c", "contiguous");
    archive_add('g', "pax_global_header", "19 comment=abcdefg\n");
    archive_add('0', "./d", "one");
    archive_end();
    assert_found("some/b.jpg@1024+7|a.txt@2048+0|c@2560+10|d@4608+3");
}

static void contents_are_read(void **state) {
    (void)state;
    char text[16] = "", large[9000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    archive_add('0', "a", "first");
    archive_add('0', "b", large);
    archive_end();
    hold_file(context, archive, archive_length);
    input_file input;
    struct tar tar;
    struct tar_member member;
    bool more;
    assert_ok(context, input_open(context, "pictures.tar", &input));
    assert_ok(context, tar_open(&input, &tar));
    assert_ok(context, tar_next(&tar, &member, &more));
    assert_ok(context, tar_read(&tar, &member, text, 5));
    assert_string_equal(text, "first");
    assert_ok(context, tar_next(&tar, &member, &more));
    char *all = malloc(sizeof large);
    assert_non_null(all);
    assert_ok(context, tar_read(&tar, &member, all, sizeof large - 1));
    assert_memory_equal(all, large, sizeof large - 1);
    free(all);
    tar_close(&tar);
    input_close(&input);
}

/* Contents are not read, apart from what is in the window after a header. */
static void contents_are_skipped(void **state) {
    (void)state;
    static char text[9 << 10], found[2048];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        archive_add('0', name, text);
    }
    archive_end();
    assert_ok(context, read_all(found));
    assert_true(memory_file.read < archive_length / 2);
}

static void long_names(void **state) {
    (void)state;
    char name[301], prefixed[300], expected[1200], record[400];
    memset(name, 'n', 300);
    name[300] = '\0';
    archive_add('L', "././@LongLink", name); /* without the zero byte, which some programs leave out */
    archive_add('0', "short", "1");
    snprintf(record, sizeof record, "%d path=%.*s\n11 size=12\n", 3 + 1 + 5 + 200 + 1, 200, name);
    archive_add('x', "PaxHeader", record);
    archive_head('0', "short", "00000000000");
    archive_bytes("twelve bytes", 12);
    const size_t at = archive_add('0', "file", "2");
    memset(archive + at + 345, 'p', 155);
    archive_seal(at);
    archive_end();
    memset(prefixed, 'p', 155);
    strcpy(prefixed + 155, "/file");
    snprintf(expected, sizeof expected, "%s@1536+1|%.*s@3584+12|%s@4608+1", name, 200, name, prefixed);
    assert_found(expected);
}

/* In a GNU header, other things are where POSIX has the prefix; a name may fill its field. */
static void other_headers(void **state) {
    (void)state;
    char name[101], expected[200];
    memset(name, 'n', 100);
    name[100] = '\0';
    size_t at = archive_add('0', name, "1");
    memcpy(archive + at + 257, "ustar  \0", 8);
    memcpy(archive + at + 345, "13745670000", 11);
    archive_seal(at);
    at = archive_add('\0', "seven", "22");
    memset(archive + at + 257, 0, 255);
    memcpy(archive + at + 124, "         2 \0", 12);
    archive[at + 110] = 0xE9; /* a byte above 127, which old programs subtracted */
    unsigned sum = 0;
    memset(archive + at + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++) {
        sum += (unsigned)(int)(signed char)archive[at + i];
    }
    snprintf((char *)archive + at + 148, 8, "%06o", sum);
    at = archive_add("0"[0], "binary", "333");
    memcpy(archive + at + 124, "\x80\0\0\0\0\0\0\0\0\0\0\3", 12);
    archive_seal(at);
    archive_end();
    snprintf(expected, sizeof expected, "%s@512+1|seven@1536+2|binary@2560+3", name);
    assert_found(expected);
}

static void what_is_no_archive(void **state) {
    (void)state;
    static const struct {
        const char *start, *name;
    } packed[] = {
        {"\x1F\x8B\x08", "gzip"}, {"\x28\xB5\x2F\xFD", "zstd"}, {"\xFD\x37zXZ", "xz"}, {"BZh9", "bzip2"}, {"PK\3\4", "zip"}};
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        memcpy(archive, packed[i].start, strlen(packed[i].start));
        archive_length = i % 2 ? 5000 : 40; /* a small one, too */
        assert_refused(L3A_ERROR_FORMAT, packed[i].name);
        assert_refused(L3A_ERROR_FORMAT, "unpack the compression");
    }
    memcpy(archive, "hello", 5);
    assert_refused(L3A_ERROR_FORMAT, "is not a tar file");
    archive_length = 0;
    assert_refused(L3A_ERROR_TRUNCATED, "the file is empty");
    archive_length = 1024; /* tar -cf empty.tar -T /dev/null */
    memset(archive, 0, sizeof archive);
    assert_found("");
}

static void types_that_are_refused(void **state) {
    (void)state;
    static const struct {
        char type;
        const char *what;
    } types[] = {{'1', "a link"}, {'2', "a symbolic link"}, {'3', "a device"},        {'4', "a device"},
                 {'6', "a pipe"}, {'S', "a sparse file"},   {'M', "another archive"}, {'V', "unknown type, 86"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char expected[80];
        archive_begin();
        archive_add('0', "good", "1");
        archive_add(types[i].type, "odd", "");
        archive_end();
        snprintf(expected, sizeof expected, "pictures.tar: byte 1024: 'odd' is %s", types[i].type == 'V' ? "of an " : "");
        assert_refused(L3A_ERROR_FORMAT, expected);
        assert_refused(L3A_ERROR_FORMAT, types[i].what);
    }
}

/* A long target of a link has a header of its own; the link is what is refused. */
static void long_links_are_refused(void **state) {
    (void)state;
    archive_add('K', "././@LongLink", "far/away");
    archive_add('2', "odd", "");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "byte 1024: 'odd' is a symbolic link");
}

static void names_that_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *what;
    } names[] = {{"/etc/passwd", "is absolute"},
                 {"../up.jpg", "'..'"},
                 {"a/../b.jpg", "'..'"},
                 {".././b", "'..'"},
                 {"./../b", "'..'"},
                 {".//etc", NULL},
                 {"", "is empty"},
                 {"a\nb", "line break"},
                 {"a\x1B[31m", "control character"},
                 {"caf\xE9.jpg", "UTF-8"},
                 {"..", "'..'"},
                 {"a/..", "'..'"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        archive_begin();
        archive_add('0', names[i].name, "1");
        archive_end();
        if (names[i].what) {
            assert_refused(L3A_ERROR_FORMAT, names[i].what);
            assert_refused(L3A_ERROR_FORMAT, "pictures.tar: byte 0: the name '");
        } else {
            assert_found("etc@512+1");
        }
    }
    archive_begin();
    archive_add('5', "some/", "bytes");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "byte 0: 'some/' is a folder, but has 5 bytes");
    archive_begin();
    archive_add('5', "../", "");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "'..'");
}

/* What a message says comes after a long name, too, and all of it is UTF-8. */
static void names_in_messages_are_short(void **state) {
    (void)state;
    char name[2001];
    for (size_t i = 0; i < 2000; i += 2) {
        memcpy(name + i, "\xC3\xA9", 2);
    }
    memcpy(name + 1990, "/../\xFF\xFF", 6);
    name[1996] = '\0';
    archive_add('L', "././@LongLink", name);
    archive_add('0', "short", "1");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "\xC3\xA9\xC3\xA9…' is outside of the archive");
    assert_true(is_utf8(l3a_error_text(context)));
    archive_begin();
    archive_add('0', "caf\xE9.jpg", "1");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "the name 'caf?.jpg' is not UTF-8");
}

static void double_names_are_refused(void **state) {
    (void)state;
    archive_add('0', "a.jpg", "1");
    archive_add('0', "b.jpg", "1");
    archive_add('0', "./a.jpg", "2");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "byte 2048: 'a.jpg' is in the archive a second time; the first one is at byte 0");
}

/* Cut anywhere, but in the zeros after its end, an archive is refused. */
static void truncation_is_noticed(void **state) {
    (void)state;
    char found[2048];
    archive_add('0', "a.jpg", "some bytes");
    archive_add('x', "PaxHeader", "14 path=b.jpg\n");
    archive_add('0', "other", "1");
    const size_t whole = archive_length;
    for (archive_length = whole + BLOCK - 1; archive_length; archive_length--) {
        assert_int_not_equal(read_all(found), L3A_OK);
    }
    archive_length = whole + BLOCK;
    assert_found("a.jpg@512+10|b.jpg@2560+1");
    archive_length = 517;
    assert_refused(L3A_ERROR_TRUNCATED, "byte 0: 'a.jpg' should have 10 bytes, but only 5 follow");
    archive_length = whole;
    assert_refused(L3A_ERROR_TRUNCATED, "ends at byte 3072, after 'b.jpg' without the mark");
}

static void sizes_beyond_the_file(void **state) {
    (void)state;
    size_t at = archive_head('0', "a.jpg", "77777777777");
    archive_end();
    assert_refused(L3A_ERROR_TRUNCATED, "'a.jpg' should have 8589934591 bytes, but only 1024 follow");
    memset(archive + at + 124, 0xFF, 12); /* a negative number */
    archive_seal(at);
    assert_refused(L3A_ERROR_FORMAT, "the size of 'a.jpg' is not a number");
    memcpy(archive + at + 124, "\x80\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12);
    archive_seal(at);
    assert_refused(L3A_ERROR_TRUNCATED, "should have 18446744073709551615 bytes");
    memcpy(archive + at + 124, "\x80\0\0\1\0\0\0\0\0\0\0\0", 12);
    archive_seal(at);
    assert_refused(L3A_ERROR_FORMAT, "is not a number");
    static const char *const sizes[] = {"12x         ", "8           ", "01 000000001", "-1          "};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memcpy(archive + at + 124, sizes[i], 12);
        archive_seal(at);
        assert_refused(L3A_ERROR_FORMAT, "is not a number");
    }
}

static void damage_is_noticed(void **state) {
    (void)state;
    archive_add('0', "a.jpg", "1");
    const size_t at = archive_add('0', "b.jpg", "1");
    archive_end();
    archive[at] ^= 1;
    assert_refused(L3A_ERROR_CHECKSUM,
                   "byte 1024: the header of a member should be here, after 'a.jpg', but its checksum is wrong");
}

/* The limits hold before anything is allocated. */
static void large_headers_are_refused(void **state) {
    (void)state;
    archive_head('x', "PaxHeader", "00004000001");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "a header of type 'x' has 1048577 bytes; at most 1048576 are read");
    archive_begin();
    archive_head('L', "././@LongLink", "00000010002");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "a header of type 'L' has 4098 bytes; at most 4097 are read");
    archive_begin();
    archive_head('x', "PaxHeader", "00004000000");
    archive_end();
    assert_refused(L3A_ERROR_TRUNCATED, "an extended header' should have 1048576 bytes, but only 1024 follow");
}

static void wrong_records_are_refused(void **state) {
    (void)state;
    static const struct {
        char type;
        const char *records, *what;
    } records[] = {{'x', "9 path=b\n", NULL},
                   {'x', "11 path=b\n", "wrong length"},
                   {'x', "8 path=b\n", "wrong length"},
                   {'x', "99 path=b\n", "wrong length"},
                   {'x', "0 path=b\n", "wrong length"},
                   {'x', "2 \n", "wrong length"},
                   {'x', "path=b\n", "wrong length"},
                   {'x', "18446744073709551616 path=b\n", "wrong length"},
                   {'x', "7 path\n", "without '='"},
                   {'x', "9 path=b\n9 path=c\n", "second name"},
                   {'x', "9 size=1\n", NULL},
                   {'x', "11 size=-1\n", "not a number"},
                   {'x', "9 size=1\n9 size=1\n", "the second for the same member"},
                   {'x', "22 GNU.sparse.major=1\n", "a sparse file"},
                   {'g', "9 path=b\n", "one name for all members"},
                   {'g', "9 size=1\n", "one size for all members"},
                   {'g', "13 comment=x\n", NULL},
                   {'x', "8 path=\n", NULL}};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        char found[2048];
        archive_begin();
        archive_add(records[i].type, "PaxHeader", records[i].records);
        archive_add('0', "a", "1");
        archive_end();
        if (records[i].what) {
            assert_refused(L3A_ERROR_FORMAT, records[i].what);
        } else {
            assert_ok(context, read_all(found));
            assert_string_equal(found, strstr(records[i].records, "path=b") ? "b@1536+1" : "a@1536+1");
        }
    }
    archive_begin();
    archive_add('x', "PaxHeader", "9 path=b\n");
    archive_end();
    assert_refused(L3A_ERROR_TRUNCATED, "the archive ends after an extended header");
}

static void joined_archives_are_refused(void **state) {
    (void)state;
    archive_add('0', "a", "1");
    archive_end();
    archive_add('0', "b", "1");
    archive_end();
    assert_refused(L3A_ERROR_FORMAT, "byte 2048: the archive ends at byte 1024, but there is more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(contents_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(contents_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_archive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(types_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_links_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_in_messages_are_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(double_names_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(truncation_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_beyond_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_headers_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_records_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(joined_archives_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
