/* Checkpoints in several files: what an index from a stranger may try, files that do not belong together, folders, and every failed
 * allocation. tests/oracle/test_checkpoints.py compares values and SHA-256 with Python's. */
#include "support.h"

#include "base/file.h"
#include "fixture.h"
#include "format/checkpoint.h"
#include "memory_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"

/* Writes a safetensors file below the folder: tensors of one number, with these names, between commas. */
static void put_tensors(const char *file, const char *names, float first) {
    char text[2048], header[1900];
    float values[16];
    size_t length = (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{\"of\":\"%s\"}", file), count = 0;
    for (const char *at = names; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   ",\"%.*s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", (int)strcspn(at, ","),
                                   at, 4 * count, 4 * count + 4);
        values[count] = first + (float)count;
        count++;
    }
    header[length++] = '}';
    memset(text, 0, 8);
    text[0] = (char)(length & 255);
    text[1] = (char)(length >> 8);
    memcpy(text + 8, header, length);
    memcpy(text + 8 + length, values, 4 * count);
    put_file(folder, file, text, 8 + length + 4 * count);
}

static void put_index(const char *map) {
    char text[4096];
    snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 12}, \"weight_map\": %s}", map);
    put(INDEX, text);
}

static l3a_status open_in(l3a_context *own, const char *name, struct checkpoint **checkpoint) {
    char *path = name ? path_in(folder, name) : strdup(folder);
    *checkpoint = NULL;
    const l3a_status status = checkpoint_open(own, path, checkpoint);
    free(path);
    return status;
}

static void expect(l3a_status wanted, const char *contains) {
    struct checkpoint *checkpoint = NULL;
    const l3a_status status = open_in(context, INDEX, &checkpoint);
    assert_fails(context, status, wanted, contains);
    assert_non_null(strstr(l3a_error_text(context), folder));
    assert_true(strlen(l3a_error_hint(context)) > 0);
    assert_null(checkpoint);
}

static void expect_index(const char *text, l3a_status wanted, const char *contains) {
    put(INDEX, text);
    expect(wanted, contains);
}

static void put_two(void) {
    put_tensors("a.safetensors", "x,y", 1);
    put_tensors("b.safetensors", "z", 3);
    put_index("{\"x\": \"a.safetensors\", \"y\": \"a.safetensors\", \"z\": \"b.safetensors\"}");
}

static void test_two_files_are_one_checkpoint(void **state) {
    (void)state;
    struct checkpoint *checkpoint;
    float found;
    put_two();
    assert_ok(context, open_in(context, INDEX, &checkpoint));
    assert_int_equal(checkpoint_count(checkpoint), 3);
    assert_int_equal(checkpoint_files(checkpoint), 2);
    assert_string_equal(checkpoint_form(checkpoint), "safetensors");
    assert_null(checkpoint_dict(checkpoint));
    assert_string_equal(checkpoint_metadata(checkpoint, "of"), "a.safetensors");
    assert_null(checkpoint_metadata(checkpoint, "else"));
    assert_non_null(strstr(checkpoint_path(checkpoint), INDEX));
    for (size_t i = 0; i < 3; i++) {
        assert_ok(context, checkpoint_read(checkpoint, checkpoint_find(checkpoint, (const char *[]){"x", "y", "z"}[i]), &found));
        assert_near((double)found, (double)(i + 1), 0);
    }
    assert_ok(context, checkpoint_verify(checkpoint));
    assert_false(checkpoint_is_summed(checkpoint, checkpoint_at(checkpoint, 2)));
    checkpoint_free(checkpoint);
}

static uint64_t bytes_of(const char *name) {
    char *path = path_in(folder, name);
    size_t count;
    free(read_bytes(path, &count));
    free(path);
    return count;
}

static void test_the_size_and_the_sha256_are_of_all_files(void **state) {
    (void)state;
    struct checkpoint *checkpoint;
    char sum[65], expected[65] = "", line[4096];
    put_two();
    snprintf(line, sizeof line, "cd '%s' && sha256sum %s a.safetensors b.safetensors | sha256sum", folder, INDEX);
    FILE *output = popen(line, "r");
    assert_non_null(output);
    assert_int_equal(fread(expected, 1, 64, output), 64);
    pclose(output);
    assert_ok(context, open_in(context, INDEX, &checkpoint));
    assert_ok(context, checkpoint_sha256(checkpoint, sum));
    assert_string_equal(sum, expected);
    assert_int_equal(checkpoint_size(checkpoint), bytes_of(INDEX) + bytes_of("a.safetensors") + bytes_of("b.safetensors"));
    checkpoint_free(checkpoint);
}

static void test_info_lists_all_files(void **state) {
    (void)state;
    l3a_file *file = NULL;
    l3a_tensor_info info = {.size = sizeof info};
    const char *kind = NULL;
    char *path = path_in(folder, INDEX);
    put_two();
    for (int i = 0; i < 2; i++) {
        assert_ok(context, l3a_file_open(context, i ? folder : path, &file));
        assert_string_equal(l3a_file_kind(file), "checkpoint");
        assert_int_equal(l3a_file_tensor(file, 2, &info), 1);
        assert_string_equal(info.name, "z");
        l3a_file_free(file);
    }
    assert_ok(context, l3a_file_recognise(context, path, &kind));
    assert_string_equal(kind, "checkpoint");
    free(path);
}

/* ---- What an index may not say ---- */

static void expect_name(const char *name, const char *contains) {
    char map[700];
    snprintf(map, sizeof map, "{\"x\": \"%s\"}", name);
    put_index(map);
    expect(L3A_ERROR_FORMAT, contains);
}

static void test_names_that_lead_elsewhere_are_refused(void **state) {
    (void)state;
    char long_name[300];
    expect_name("../a.safetensors", "'../a.safetensors' is not the name of a file in the folder of the index");
    expect_name("in/a.safetensors", "not the name of a file");
    expect_name("/etc/passwd", "'/etc/passwd' is not the name of a file");
    expect_name("..", "'..' is not the name");
    expect_name(".", "'.' is not the name");
    expect_name("", "empty name");
    expect_name("a\\u001b[2Jb", "control characters");
    expect_name("a\\nb", "control characters");
    expect_name("a\\u202eb", "control characters");
    expect_name("a\xff", "not UTF-8");
    memset(long_name, 'a', sizeof long_name);
    long_name[256] = '\0';
    expect_name(long_name, "longer than 255 bytes");
}

static void test_an_index_of_another_kind_is_refused(void **state) {
    (void)state;
    put_tensors("a.safetensors", "x,y", 1);
    expect_index("{}", L3A_ERROR_FORMAT, "no weight_map");
    expect_index("{\"model_type\": \"vit\"}", L3A_ERROR_FORMAT, "no weight_map");
    expect_index("{\"weight_map\": {}}", L3A_ERROR_FORMAT, "weight_map is empty");
    expect_index("{\"weight_map\": []}", L3A_ERROR_FORMAT, "line 1");
    expect_index("{\"weight_map\": {\"x\": 1}}", L3A_ERROR_FORMAT, "line 1");
    expect_index("{\"weight_map\": {\"x\": [\"a.safetensors\"]}}", L3A_ERROR_FORMAT, "line 1");
    expect_index("{\"weight_map\": {\"x\": null}}", L3A_ERROR_FORMAT, "line 1");
    expect_index("{\"weight_map\": {\"x\": \"a.safetensors\"}", L3A_ERROR_TRUNCATED, "line 1");
    expect_index("{\"weight_map\": {\"x\": \"a.safetensors\"}}x", L3A_ERROR_FORMAT, "line 1");
    expect_index("  \n\t{\"weight_map\": {\"x\": \"a\\u0000\"}}", L3A_ERROR_FORMAT, "line 2");
    expect_index("{\"weight_map\": {\"x\": \"a.safetensors\"}, \"weight_map\": {}}", L3A_ERROR_FORMAT,
                 "weight_map is listed twice");
    expect_index("{\"weight_map\": {\"x\": \"a.safetensors\", \"y\": \"a.safetensors\", \"x\": \"a.safetensors\"}}",
                 L3A_ERROR_FORMAT, "tensor 'x' is listed twice");
    expect_index("[1, 2, 3, 4, 5]", L3A_ERROR_FORMAT, "not a checkpoint");
}

/* An index of that many tensors or files. */
static void put_many(size_t count, bool files) {
    char *text = malloc(count * 40 + 100);
    assert_non_null(text);
    size_t length = (size_t)sprintf(text, "{\"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        length += (size_t)sprintf(text + length, "%s\"t%zu\":\"f%zu\"", i ? "," : "", i, files ? i : 0);
    }
    sprintf(text + length, "}}");
    put(INDEX, text);
    free(text);
}

static void test_what_is_too_large_is_refused(void **state) {
    (void)state;
    put_many(1000, true);
    expect(L3A_ERROR_NOT_FOUND, "1000 of the 1000 files of this checkpoint are missing, the first is f0");
    put_many(1001, true);
    expect(L3A_ERROR_FORMAT, "more than 1000 files");
    put_many(100000, false);
    expect(L3A_ERROR_NOT_FOUND, "1 of the 1 files");
    put_many(100001, false);
    expect(L3A_ERROR_FORMAT, "more than 100000 tensors");
    put_many(1, false);
    char *path = path_in(folder, INDEX);
    assert_int_equal(truncate(path, (off_t)(16 << 20) + 1), 0);
    free(path);
    expect(L3A_ERROR_FORMAT, "at most 16777216 are expected");
}

/* ---- Files that do not belong together ---- */

static void test_missing_files_are_counted(void **state) {
    (void)state;
    put_tensors("a.safetensors", "x", 1);
    put_index("{\"x\": \"a.safetensors\", \"y\": \"not-here.safetensors\", \"z\": \"c.safetensors\"}");
    expect(L3A_ERROR_NOT_FOUND, "2 of the 3 files of this checkpoint are missing, the first is not-here.safetensors");
}

static void test_tensors_must_be_where_the_index_says(void **state) {
    (void)state;
    put_two();
    put_tensors("b.safetensors", "w", 3);
    expect(L3A_ERROR_MISMATCH, "file b.safetensors has the tensor 'w', which is not in the index");
    put_tensors("b.safetensors", "z,x", 3);
    expect(L3A_ERROR_MISMATCH, "tensor 'x' is in two files, b.safetensors and a.safetensors");
    put_tensors("a.safetensors", "z", 3);
    put_tensors("b.safetensors", "x,y", 1);
    expect(L3A_ERROR_MISMATCH, "tensor 'z' is in a.safetensors, but the index says that it is in b.safetensors");
    put_tensors("a.safetensors", "x", 3);
    put_tensors("b.safetensors", "z", 1);
    expect(L3A_ERROR_MISMATCH, "1 tensors of the index are missing; the first is 'y', which should be in a.safetensors");
}

static void test_files_must_be_checkpoints_of_one_kind(void **state) {
    (void)state;
    static const char legacy[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.\x80\2}."
                                 "\x80\2}(X\1\0\0\0zctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
                                 "X\1\0\0\0000X\3\0\0\0cpuK\1tQK\0(K\1t(K\1t\x89)tRu."
                                 "\x80\2](X\1\0\0\0000e.\1\0\0\0\0\0\0\0\0\0\x40\x40";
    put_two();
    put_file(folder, "b.safetensors", legacy, sizeof legacy - 1);
    expect(L3A_ERROR_MISMATCH, "of different kinds: a.safetensors is safetensors, but b.safetensors is torch legacy");
    put("b.safetensors", "{\"weight_map\": {}}");
    expect(L3A_ERROR_FORMAT, "b.safetensors: is an index itself");
    put("b.safetensors", "nothing of the kind");
    expect(L3A_ERROR_FORMAT, "b.safetensors: not a checkpoint");
    put("b.safetensors", "version https://git-lfs.github.com/spec/v1\n");
    expect(L3A_ERROR_FORMAT, "b.safetensors: not a checkpoint");
    char *path = path_in(folder, "b.safetensors");
    assert_int_equal(unlink(path), 0);
    free(path);
    put("b.safetensors/inside", "a folder");
    expect(L3A_ERROR_IO, "b.safetensors");
}

/* ---- Folders and links ---- */

static void expect_folder(const char *name, const char *file) {
    struct checkpoint *checkpoint;
    assert_ok(context, open_in(context, name, &checkpoint));
    char *path = path_in(folder, file);
    assert_non_null(strstr(checkpoint_path(checkpoint), strrchr(path, '/')));
    free(path);
    checkpoint_free(checkpoint);
}

static void test_a_folder_stands_for_the_checkpoint_in_it(void **state) {
    (void)state;
    struct checkpoint *checkpoint = NULL;
    put("empty/notes.txt", "nothing");
    const l3a_status status = open_in(context, "empty", &checkpoint);
    assert_fails(context, status, L3A_ERROR_NOT_FOUND,
                 "this folder has no checkpoint of a usual name: looked for model.safetensors, model.safetensors.index.json, "
                 "open_clip_model.safetensors, open_clip_pytorch_model.bin, pytorch_model.bin, pytorch_model.bin.index.json");
    static const char *const names[] = {"pytorch_model.bin", "open_clip_pytorch_model.bin", "open_clip_model.safetensors"};
    put_two();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_tensors(names[i], "x", 1);
    }
    expect_folder(NULL, INDEX);
    put_tensors("model.safetensors", "x", 1);
    expect_folder(NULL, "model.safetensors");
}

/* As in a cache of downloads, where all files are links to names without meaning. */
static void test_files_are_looked_for_beside_a_link(void **state) {
    (void)state;
    static const char *const names[] = {INDEX, "a.safetensors", "b.safetensors"};
    struct checkpoint *checkpoint;
    put_two();
    put("links/.keep", "");
    for (size_t i = 0; i < 3; i++) {
        char link[100], *target = path_in(folder, names[i]), blob[20], *moved, *made;
        snprintf(blob, sizeof blob, "blob%zu", i);
        snprintf(link, sizeof link, "links/%s", names[i]);
        moved = path_in(folder, blob);
        made = path_in(folder, link);
        assert_int_equal(rename(target, moved), 0);
        assert_int_equal(symlink(moved, made), 0);
        free_paths((char *[]){target, moved, made}, 3);
    }
    assert_ok(context, open_in(context, "links/" INDEX, &checkpoint));
    checkpoint_free(checkpoint);
    assert_ok(context, open_in(context, "links", &checkpoint));
    checkpoint_free(checkpoint);
}

static void test_a_folder_that_cannot_be_read_is_an_error(void **state) {
    (void)state;
    struct checkpoint *checkpoint = NULL;
    put("closed/model.safetensors", "x");
    char *path = path_in(folder, "closed");
    assert_int_equal(chmod(path, 0), 0);
    const l3a_status status = open_in(context, "closed", &checkpoint);
    if (geteuid() != 0) {
        assert_fails(context, status, L3A_ERROR_IO, "closed");
    }
    assert_int_equal(chmod(path, 0700), 0);
    free(path);
}

/* The N-th time that a file is opened, measured or read, it fails, N = 1, 2, 3 … until an attempt meets no failure. */
static struct { size_t fails_at, seen; } disk;

static bool fails(void) {
    errno = ++disk.seen == disk.fails_at ? EIO : errno;
    return disk.seen == disk.fails_at;
}

static int failing_open(const char *path, int flags, mode_t mode) {
    return fails() ? -1 : posix_files.open(path, flags, mode);
}

static int failing_size(int file, uint64_t *bytes) {
    return fails() ? -1 : posix_files.size(file, bytes);
}

static ssize_t failing_read(int file, void *bytes, size_t count, off_t offset) {
    return fails() ? -1 : posix_files.read(file, bytes, count, offset);
}

static void test_every_failure_of_the_disk_is_an_error(void **state) {
    (void)state;
    file_operations failing = posix_files;
    l3a_status status = L3A_ERROR_IO;
    failing.open = failing_open;
    failing.size = failing_size;
    failing.read = failing_read;
    put_two();
    context->files = &failing;
    for (disk.fails_at = 1; status != L3A_OK; disk.fails_at++) {
        struct checkpoint *checkpoint = NULL;
        disk.seen = 0;
        status = open_in(context, NULL, &checkpoint);
        assert_true(status == L3A_OK || status == L3A_ERROR_IO);
        assert_true(status != L3A_OK || disk.seen < disk.fails_at);
        checkpoint_free(checkpoint);
    }
    assert_true(disk.fails_at > 15);
    context->files = &posix_files;
}

/* ---- Names ---- */

static void expect_names(const char *given, const char *const *wanted, size_t count) {
    struct checkpoint *checkpoint;
    put_tensors("one.safetensors", given, 0);
    assert_ok(context, open_in(context, "one.safetensors", &checkpoint));
    assert_int_equal(checkpoint_count(checkpoint), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(checkpoint_at(checkpoint, i)->name, wanted[i]);
    }
    checkpoint_free(checkpoint);
}

static void test_wrappers_are_removed_from_names(void **state) {
    (void)state;
    expect_names("module.x,y", (const char *[]){"x", "y"}, 2);
    expect_names("_orig_mod.module.x,model.y,backbone.z", (const char *[]){"x", "y", "z"}, 3);
    expect_names("model.backbone.x,head.y", (const char *[]){"x", "head.y"}, 2);
    expect_names("modelling.x,remodel.y", (const char *[]){"modelling.x", "remodel.y"}, 2);
    expect_names("model.x,module.x,y", (const char *[]){"model.x", "x", "y"}, 3);
    struct checkpoint *checkpoint = NULL;
    put_tensors("one.safetensors", "module.x,x", 0);
    const l3a_status status = open_in(context, "one.safetensors", &checkpoint);
    assert_fails(context, status, L3A_ERROR_FORMAT, "tensor 'x' is listed twice");
}

static void test_names_inside_a_packed_model_stay(void **state) {
    (void)state;
    struct checkpoint *checkpoint;
    put_tensors("packed", "backbone.x,backbone.model.y,other", 0);
    char *path = path_in(folder, "packed");
    assert_ok(context, checkpoint_open_inside(context, path, "backbone.", &checkpoint));
    assert_int_equal(checkpoint_count(checkpoint), 2);
    assert_string_equal(checkpoint_at(checkpoint, 0)->name, "x");
    assert_string_equal(checkpoint_at(checkpoint, 1)->name, "model.y");
    checkpoint_free(checkpoint);
    free(path);
}

/* ---- No memory ---- */

static l3a_status use_all(l3a_context *scarce, void *argument) {
    struct checkpoint *checkpoint = NULL;
    char sum[65];
    float number;
    l3a_status status = L3A_OK;
    TRY(open_in(scarce, argument, &checkpoint));
    TRY(checkpoint_sha256(checkpoint, sum));
    TRY(checkpoint_read(checkpoint, checkpoint_at(checkpoint, 0), &number));
done:
    checkpoint_free(checkpoint);
    return status;
}

static l3a_status use_info(l3a_context *scarce, void *argument) {
    l3a_file *file = NULL;
    (void)argument;
    const l3a_status status = l3a_file_open(scarce, folder, &file);
    l3a_file_free(file);
    return status;
}

static void test_any_allocation_may_fail(void **state) {
    (void)state;
    put_two();
    assert_true(fail_each_allocation(use_all, INDEX) > 20);
    assert_true(fail_each_allocation(use_all, NULL) > 20);
    assert_true(fail_each_allocation(use_info, NULL) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_files_are_one_checkpoint, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_the_size_and_the_sha256_are_of_all_files, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_info_lists_all_files, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_names_that_lead_elsewhere_are_refused, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_an_index_of_another_kind_is_refused, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_what_is_too_large_is_refused, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_missing_files_are_counted, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_tensors_must_be_where_the_index_says, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_files_must_be_checkpoints_of_one_kind, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_a_folder_stands_for_the_checkpoint_in_it, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_files_are_looked_for_beside_a_link, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_a_folder_that_cannot_be_read_is_an_error, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_every_failure_of_the_disk_is_an_error, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_wrappers_are_removed_from_names, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_names_inside_a_packed_model_stay, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_any_allocation_may_fail, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
